package spec

import (
	"strings"
	"testing"

	"lapse/internal/run/signs"
)

func TestSignsOfTheUserAreRead(t *testing.T) {
	for text, want := range map[string]signs.Mark{
		"taint=example.com/retire:S:our-operator": {What: "taint example.com/retire", Class: signs.Soon, Actor: "our-operator"},
		"taint=example.com/retire=now:0":          {What: "taint example.com/retire=now", Class: signs.Now},
		"label=kured=rebooting:S:kured":           {What: "label kured=rebooting", Class: signs.Soon, Actor: "kured"},
		"annotation=example.com/state=to go:P":    {What: "annotation example.com/state=to go", Class: signs.Planned},
		"condition=Ready=False:P":                 {What: "condition Ready=False", Class: signs.Planned},
	} {
		if got, err := parseSign(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                          `kind "" is not taint, label, annotation or condition`,
		"toleration=a:S":            `kind "toleration" is not taint, label, annotation or condition (of nodes)`,
		"taint:S":                   `key "": name part must be non-empty`,
		"taint=a b:S":               `key "a b": name part must consist of alphanumeric characters`,
		"label=a=:S":                `value "": leave out the =`,
		"label=a=b c:S":             `value "b c": a valid label must be`,
		"condition=Ready=true:S":    `value "true": a condition is True, False or Unknown`,
		"taint=a":                   `class "" is not P (planned: hours before), S (seconds before) or 0 (it begins)`,
		"taint=a=b:NoSchedule:S":    `class "NoSchedule" is not P`,
		"taint=a:s":                 `class "s" is not P`,
		"taint=a:S:":                `actor "" is not a name`,
		"taint=a:S:two words\x1b[m": `actor "two words\x1b[m" is not a name`,
	} {
		if got, err := parseSign(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %s", text, got, err, want)
		}
	}
}
