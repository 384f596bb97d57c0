package spec

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"lapse/internal/run/exit"
	"lapse/internal/run/signs"
)

const signHint = "as in --sign taint=example.com/retire:S:our-operator, of the form KIND=KEY[=VALUE]:CLASS[:ACTOR]"

// signClasses are those of --sign.
var signClasses = map[string]signs.Class{"P": signs.Planned, "S": signs.Soon, "0": signs.Now}

// checkSigns reads --sign.
func checkSigns(o *Options) error {
	if len(o.Signs) > 0 && !o.Armed {
		return exit.Usagef("add --armed", "--sign is what --armed waits for")
	}
	o.Own = nil
	for _, text := range o.Signs {
		mark, err := parseSign(text)
		if err != nil {
			return exit.Usagef(signHint, "--sign %q: %w", text, err)
		}
		o.Own = append(o.Own, mark)
	}
	return nil
}

func parseSign(text string) (signs.Mark, error) {
	mark, after, _ := strings.Cut(text, ":")
	class, actor, named := strings.Cut(after, ":")
	kind, what, _ := strings.Cut(mark, "=")
	key, value, exact := strings.Cut(what, "=")
	var problems []string
	switch kind {
	case "taint", "label":
		problems = validation.IsValidLabelValue(value)
	case "condition":
		if exact && value != "True" && value != "False" && value != "Unknown" {
			problems = []string{"a condition is True, False or Unknown"}
		}
	case "annotation":
	default:
		return signs.Mark{}, fmt.Errorf("kind %q is not taint, label, annotation or condition (of nodes)", kind)
	}
	if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
		return signs.Mark{}, fmt.Errorf("key %q: %s", key, wrong[0])
	}
	if exact && value == "" {
		problems = []string{"leave out the = for any value"}
	}
	if len(problems) > 0 {
		return signs.Mark{}, fmt.Errorf("value %q: %s", value, problems[0])
	}
	if signClasses[class] == signs.None {
		const text = "class %q is not P (planned: hours before), S (seconds before) or 0 (it begins)"
		return signs.Mark{}, fmt.Errorf(text, class)
	}
	if wrong := validation.IsValidLabelValue(actor); len(wrong) > 0 || named && actor == "" {
		return signs.Mark{}, fmt.Errorf("actor %q is not a name: use letters, digits, dots, - and _", actor)
	}
	return signs.Mark{What: kind + " " + what, Class: signClasses[class], Actor: actor}, nil
}
