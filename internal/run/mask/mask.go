// Package mask hides likely credentials in commands, output and URLs, which are recorded and reported.
package mask

import (
	"strings"
)

// Hidden stands in place of a credential.
const Hidden = "***"

// Command returns a command's words without likely credentials. It cannot know every program's flags.
func Command(words []string) []string {
	shown := make([]string, len(words))
	for i, word := range words {
		shown[i] = maskWord(words[:i], word)
	}
	return shown
}

func maskWord(before []string, word string) string {
	line := strings.Join(before, " ")
	if n := len(before); n > 0 {
		last := before[n-1]
		if n > 1 && before[n-2] == "set" && isSecretName(last) {
			return Hidden // aws configure set aws_secret_access_key VALUE
		}
		if !strings.HasPrefix(word, "-") {
			if value, known := maskFlag(line, last, word); known {
				return value
			}
		}
	}
	if flag, value, found := strings.Cut(word, "="); found && flagName.MatchString(flag) {
		if value, known := maskFlag(line, flag, value); known {
			return flag + "=" + value
		}
	}
	return Text(maskFlags(line+" ", word))
}
