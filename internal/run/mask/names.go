package mask

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// isSecretName reports whether a name is likely that of a credential: DB_PASSWORD, apiKey, client-key-data, but not
// secretName or token_type.
func isSecretName(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 || describes[words[len(words)-1]] || negates[words[0]] {
		return false
	}
	for i, word := range words {
		if secretWord(word) || i > 0 && strings.HasPrefix(word, "key") && keyOf[words[i-1]] {
			return true
		}
	}
	return false
}

// endsAsSecret reports whether the last word makes the name a credential's: token, but not token-server.
func endsAsSecret(name string) bool {
	words := wordsOf(name)
	n := len(words)
	if n == 0 || !isSecretName(strings.Join(words[max(0, n-2):], "-")) {
		return false
	}
	return secretWord(words[n-1]) || strings.HasPrefix(words[n-1], "key")
}

// A word is a credential's if it contains one of secretParts, or is one of secretWords.
var (
	secretParts = []string{
		"password", "passwd", "passphrase", "passwort", "token", "secret", "credential", "apikey", "accesskey",
		"privatekey", "accountkey", "secretkey", "sessionid", "sessid", "signature", "authorization", "cookie",
		"connectionstring",
	}
	secretWords = []string{
		"pass", "pwd", "pw", "auth", "jwt", "sig", "bearer", "otp", "totp", "psk", "dsn", "passcode", "requirepass",
	}
	noSecrets = []string{"tokeniz", "tokenis", "secretar", "secretless"}
)

func secretWord(word string) bool {
	if slices.Contains(secretWords, word) || strings.HasSuffix(word, "pass") && !otherPass[word] {
		return true
	}
	within := func(part string) bool { return strings.Contains(word, part) }
	return slices.ContainsFunc(secretParts, within) && !slices.ContainsFunc(noSecrets, within)
}

// otherPass are words that end in "pass" and are no passwords.
var otherPass = setOf("bypass compass encompass overpass surpass trespass underpass")

// keyOf are the words that make a key after them a credential.
var keyOf = setOf(`
	api access private secret account shared signing encryption master storage client ssh deploy license hmac aes
	jwt session subscription consumer functions tls ssl app application auth admin webhook service write
`)

// describes are last words of names that only say something about a credential.
var describes = setOf(`
	name names ref refs type types policy policies file files path paths dir url uri endpoint expiry expires expired
	expiration expire ttl age length len size count limit limits bucket buckets version enabled disabled required
	mode provider providers class store format algorithm kind namespace in at by hint prompt rotation selector stdin
	reviews review volume mount mounts usage used left remaining manager controller operator issuer audience source
	rate second seconds minutes hours id-only interval timeout status state error errors sync
`)

// negates are first words of names that are settings, not credentials.
var negates = setOf("no without skip disable allow require use automount max min num total")

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// wordsOf splits a name at signs and at capitals: apiKey, API_KEY, x-api-key.
func wordsOf(name string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = nil
	}
	lower := false
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			lower = false
			continue
		case unicode.IsUpper(r) && lower:
			end()
		}
		lower = unicode.IsLower(r)
		word = append(word, r)
	}
	end()
	return words
}

// harmless reports whether a value is no credential, whatever its name: a switch, a reference or a placeholder.
func harmless(value string) bool { return harmlessValue.MatchString(value) }

var harmlessValue = regexp.MustCompile(`^(?i:|true|false|yes|no|on|off|null|nil|none|undefined|\*+|\[?redacted\]?|` +
	`<[^<>]*>.*|\([\w ]+\)|\d+ bytes|\$[A-Z_][A-Z0-9_]*|\$\{\w+\}|\$\(.*|\{\{[^{}]*\}\})$`)

// prose are words that follow "token:" in a message and are no values.
var prose = setOf(`
	the a an unable failed failure cannot could can must not no is was were are has have had invalid expired missing
	required secret unauthorized forbidden denied unknown malformed error illegal token updated created deleted
	unchanged configured rejected accepted revoked rotated found context authentication authorization credentials
	realm request response connection timeout only please see use read reading open opening write get getting fetch
	fetching post rpc http https x509 tls crypto json yaml parse permission access bad wrong incorrect empty too
	this that it verification
`)

// A token is a credential that is known by its form, whatever its name.
type token struct {
	hints string // separated by blanks; a text with the token contains one of them
	form  *regexp.Regexp
	with  string
}

// tokenOf returns a token of one of several forms, which are replaced with a text.
func tokenOf(hints, with string, forms ...string) token {
	return token{hints, regexp.MustCompile(strings.Join(forms, "|")), with}
}

var tokens = []token{
	// User information of a URL: the password, or all of it where the user is likely a token.
	tokenOf("://", "$1:"+Hidden+"@", `(://[^/\s:@'"]*):[^/\s'"]*@`),
	tokenOf("://", "$1:"+Hidden+"@", `(://[^/\s:@'"]*):[^\s'"@]+@`),
	tokenOf("://", "$1"+Hidden+"@", `\b((?:git\+)?https?://)(?:[^/\s:@'"]{4,})@`),
	tokenOf("hooks.slack", "$1"+Hidden, `(hooks\.slack\.com/(?:services|workflows)/)[\w/-]+`),
	tokenOf("?key= &key= ?code= &code= ?s= &s= sig= X-Amz-Cred", "$1"+Hidden,
		`([?&](?:key|code|s|sv?ig|X-Amz-Credential)=)[^\s'"&#]+`),
	// Schemes of the header Authorization.
	tokenOf("earer EARER", "$1 "+Hidden, `(?i)\b(bearer)\s+(?:[\w.~+/=-]*[\d.~+/=_][\w.~+/=-]*|[\w-]{15,})`),
	tokenOf("asic ASIC egotiate piKey pikey", "$1 "+Hidden,
		`\b((?i:basic|negotiate|apikey))\s+(?:[A-Za-z0-9+/]*[\d+/=]+[A-Za-z0-9+/=]{3,}`,
		`[A-Za-z0-9+/]{5,}=+`,
		`[A-Za-z]+[a-z][A-Z][A-Za-z]{3,})`),
	// JSON Web Tokens, and base64 of any JSON object.
	tokenOf("eyJ", Hidden, `\beyJ[\w-]{5,}(?:\.[\w-]*){1,4}`, `\beyJ[\w+/-]{20,}=*`),
	// Tokens of GitHub, GitLab, Slack, AWS, Google, OpenAI, Anthropic, Stripe, npm, PyPI, Vault, OpenShift and others.
	tokenOf("gho_ ghp_ ghr_ ghs_ ghu_ github_pat_", Hidden, `\bgh[oprsu]_\w{6,}`, `\bgithub_pat_\w{6,}`),
	tokenOf("glpat- glptt- gldt- glrt- glcbt- glft- glsoat- glagent- glimt- glsa_", Hidden,
		`\bgl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt)-[\w.-]{6,}`,
		`\bglsa_\w{16,}`),
	tokenOf("xox xapp-", Hidden, `\bxox[a-z](?:\.xox[a-z])?-[\w-]{6,}`, `\bxapp-[\w-]{6,}`),
	tokenOf("AKIA ASIA ABIA ACCA", Hidden, `\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{8,}\b`),
	tokenOf("AIza ya29. GOCSPX-", Hidden, `\bAIza[\w-]{16,}`, `\bya29\.[\w-]{6,}`, `\bGOCSPX-[\w-]{6,}`),
	tokenOf("sk- k_live_ k_test_ whsec_", Hidden,
		`\bsk-(?:[a-z]+-)*\w*(?:\d|[a-z][A-Z])[\w-]{6,}`,
		`\b[srp]k_(?:live|test)_\w{6,}`,
		`\bwhsec_\w{6,}`),
	tokenOf("npm_ pypi- hvs. hvb. hvr.", Hidden,
		`\bnpm_[A-Za-z0-9]{16,}`,
		`\bpypi-[\w-]{16,}`,
		`\bhv[sbr]\.[\w-]{6,}`),
	tokenOf("sha256~ SG. shpat_ shpca_ shppa_ shpss_ dckr_pat_", Hidden,
		`\bsha256~[\w-]{10,}`,
		`\bSG\.[\w-]{8,}\.[\w-]{8,}`,
		`\bshp(?:at|ca|pa|ss)_\w{8,}`,
		`\bdckr_pat_[\w-]{8,}`),
	tokenOf("hf_ dop_v1_ dapi lin_api_", Hidden,
		`\bhf_[A-Za-z0-9]{16,}`,
		`\bdop_v1_\w{8,}`,
		`\bdapi[0-9a-f]{24,}`,
		`\blin_api_\w{8,}`),
	tokenOf("AGE-SECRET sntrys_ ATATT", Hidden,
		`\bAGE-SECRET-KEY-1[A-Z0-9]+`,
		`\bsntrys_\w{8,}`,
		`\bATATT[\w-]{16,}`),
	// netrc, a pipe to a login, and sentences.
	tokenOf("login", "${1}"+Hidden, `\b(login\s+\S+\s+password\s+)\S+`),
	tokenOf("--password-stdin", "${1}"+Hidden+"${2}",
		`\b((?:echo|printf)\s+(?:-\w+\s+)*)(?:"[^"$]*"|'[^']*'|[^\s"'$]+)(\s*\|[^|]*--password-stdin)`),
	tokenOf("assword assphrase token Token ecret", "${1}"+Hidden,
		`(?i)\b((?:password|passphrase|token|secret)(?: (?:for|of) [\w@./'"-]+)?(?: is| was)?:? )`+
			`(?:\S{3,}\d\S*|\d\S{5,})`),
	tokenOf("assword assphrase", "${1}"+Hidden,
		`(?i)\b((?:password|passphrase) (?:for|of) [\w@./'"-]+(?: is)?: )\S+`),
}

// in hides the token in a text.
func (t token) in(text string) string {
	for hint := range strings.FieldsSeq(t.hints) {
		if strings.Contains(text, hint) {
			return t.form.ReplaceAllString(text, t.with)
		}
	}
	return text
}
