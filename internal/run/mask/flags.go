package mask

import (
	"regexp"
	"strings"
)

var (
	flagName   = regexp.MustCompile(`^--?[A-Za-z][\w.-]*$`)
	headerFlag = regexp.MustCompile(`^(-H|--([\w-]+-)?headers?)$`)
	userFlag   = regexp.MustCompile(`^(-u|-U|--([\w-]+-)?user|--([\w-]+-)?auth|-E|--cert)$`)
	cookieFlag = regexp.MustCompile(`^(-b|--cookie|--oauth2-bearer)$`)
	// Programs, or verbs, after which -p, -a or -w is a password.
	passwordFlag = map[string]*regexp.Regexp{
		"-p": regexp.MustCompile(`\b(sshpass|mysql\w*|mariadb[\w-]*|mongo\w*|login)\b[^|;&]*$`),
		"-a": regexp.MustCompile(`\bredis-cli\b[^|;&]*$`),
		"-w": regexp.MustCompile(`\bldap\w+\b[^|;&]*$`),
	}
	curl = regexp.MustCompile(`\bcurl\b[^|;&]*$`)
	ids  = regexp.MustCompile(`^\d+:\d+$`) // docker run -u 1000:1000
)

// passwordOf reports whether the value of a short flag is a password after these words.
func passwordOf(line, flag string) bool {
	before := passwordFlag[flag]
	return before != nil && before.MatchString(line)
}

// maskFlag returns the value of a flag as it is shown. known is false if the flag says nothing about its value.
func maskFlag(line, flag, value string) (shown string, known bool) {
	user, _, two := strings.Cut(value, ":")
	switch {
	case harmless(value):
		return value, flagName.MatchString(flag) && isSecretName(flag)
	case headerFlag.MatchString(flag):
		return Header(value), true
	case userFlag.MatchString(flag) && two && !ids.MatchString(value) && !strings.Contains(user, "/"):
		return user + ":" + Hidden, true
	case flag == "--from-literal":
		name, _, _ := strings.Cut(value, "=")
		return name + "=" + Hidden, true
	case cookieFlag.MatchString(flag) && (strings.HasPrefix(flag, "--") || curl.MatchString(line)),
		passwordOf(line, flag) && !strings.HasPrefix(value, "{"),
		flagName.MatchString(flag) && isSecretName(flag):
		return Hidden, true
	}
	return "", false
}

// Header returns the name of a header without its value.
func Header(header string) string {
	name, _, found := strings.Cut(header, ":")
	if !found {
		return Hidden
	}
	return name + ": " + Hidden
}
