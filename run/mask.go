package run

import (
	"regexp"
	"strings"
)

// masked stands for what must not be read.
const masked = "***"

// maskCommand hides in a command's words what looks like credentials: they are recorded and reported. It cannot know
// every program's ways: `tool -p secret` stays as it is.
func maskCommand(words []string) []string {
	var shown []string
	for i, word := range words {
		previous := ""
		if i > 0 {
			previous = words[i-1]
		}
		switch {
		case headerFlag.MatchString(previous):
			shown = append(shown, maskHeader(word))
		case secretFlag.MatchString(previous) && !strings.HasPrefix(word, "-"):
			shown = append(shown, masked)
		case userFlag.MatchString(previous) && strings.Contains(word, ":"):
			user, _, _ := strings.Cut(word, ":")
			shown = append(shown, user+":"+masked)
		default:
			shown = append(shown, maskText(word))
		}
	}
	return shown
}

var (
	headerFlag = regexp.MustCompile(`^(-H|--(proxy-)?header)$`)
	secretFlag = regexp.MustCompile(`(?i)^--?[\w-]*(token|passw(or)?d|secret|api[-_]?key|credentials?)[\w-]*$`)
	userFlag   = regexp.MustCompile(`^(-u|-U|--(proxy-)?user)$`)
)

func maskHeader(header string) string {
	name, _, found := strings.Cut(header, ":")
	if !found {
		return masked
	}
	return name + ": " + masked
}

// maskText hides what looks like credentials in a script or in a line of output.
func maskText(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.with)
	}
	return text
}

var masks = []struct {
	pattern *regexp.Regexp
	with    string
}{
	// Headers whose value is one, up to the end of the line or the quote.
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|cookie|set-cookie|(?:x-)?[\w-]*(?:token|api[-_]?key|secret)[\w-]*)(\s*:\s*)[^\s'"][^'"\r\n]*`), "$1$2" + masked},
	// NAME=VALUE, --name=VALUE and ?name=VALUE.
	{regexp.MustCompile(`(?i)([\w-]*(?:token|passw(?:or)?d|secret|api[-_]?key|credentials?)[\w-]*)=[^\s'"&;]+`), "$1=" + masked},
	// --name VALUE within a script.
	{regexp.MustCompile(`(?i)((?:^|\s)--?[\w-]*(?:token|passw(?:or)?d|secret|api[-_]?key)[\w-]*\s+)[^\s'"&;-][^\s'"&;]*`), "${1}" + masked},
	{regexp.MustCompile(`(?i)\b(bearer)\s+[\w.~+/=-]{8,}`), "$1 " + masked},
	{regexp.MustCompile(`(://[^/\s:@'"]*):[^/\s@'"]+@`), "$1:" + masked + "@"},
	{regexp.MustCompile(`\beyJ[\w-]+\.[\w-]+\.[\w-]*`), masked}, // a JSON Web Token
}
