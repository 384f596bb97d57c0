package mask

import (
	"regexp"
	"strings"
)

// Text returns a script, or output of any number of lines, without likely credentials.
func Text(text string) string {
	var m Lines
	var shown strings.Builder
	for line := range strings.Lines(text) {
		shown.WriteString(m.Mask(line))
	}
	return shown.String()
}

// Lines hides likely credentials in lines of text: values of flags and of names, however they are quoted and
// separated, and tokens of known forms. It remembers what continues on the next line.
type Lines struct {
	pem   bool   // between BEGIN and END
	quote string // that ends a credential
	named bool   // "name: DB_PASSWORD" was read, and its "value: x" is next
	text  block  // a credential
	data  block  // of a Secret, whose values are credentials
	plain bool   // the data is not encoded as base64
	lines int    // since one of these began
}

// A block is the lines that are indented more than the name before them.
type block struct {
	open    bool
	oneLine bool // only the first of them, and only if it is no name or list item itself
	indent  int  // of the name
}

// maxIndent is how far a name may be indented.
const maxIndent = 200

// maxContinued is how many lines a credential may continue for. A longer one was misread.
const maxContinued = 100

var (
	pemBegin  = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]+-----`)
	pemEnd    = regexp.MustCompile(`-----END [A-Z0-9 ]+-----`)
	pemInLine = regexp.MustCompile(`(-----BEGIN [A-Z0-9 ]+-----).+?(-----END [A-Z0-9 ]+-----)`)
)

// Mask returns a line without likely credentials. Its line end stays.
func (m *Lines) Mask(line string) string {
	text := strings.TrimRight(line, "\r\n")
	return m.begun(text) + line[len(text):]
}

// begun hides the rest of a credential that began on an earlier line, and then the line's own credentials.
func (m *Lines) begun(text string) string {
	if m.lines++; m.lines > maxContinued {
		*m = Lines{}
	}
	if m.pem {
		at := pemEnd.FindStringIndex(text)
		if m.pem = at == nil; m.pem {
			return Hidden
		}
		return Hidden + m.own(text[at[0]:])
	}
	if m.quote != "" {
		_, rest, found := strings.Cut(text, m.quote)
		if !found {
			return Hidden
		}
		closed := m.quote
		m.quote = ""
		return Hidden + closed + m.own(rest)
	}
	if strings.TrimSpace(text) == "" {
		return text
	}
	indent := leading(text)
	m.text.open = m.text.open && indent > m.text.indent
	m.data.open = m.data.open && indent > m.data.indent
	if m.text.open {
		m.text.open = !m.text.oneLine
		if m.text.open || !strings.ContainsAny(text, ":={[") && !strings.Contains(text[:indent], "-") {
			return text[:indent] + Hidden
		}
	}
	return m.own(text)
}

// leading returns how far a line is indented. The signs of a list and of a diff count as indentation.
func leading(text string) int { return len(text) - len(strings.TrimLeft(text, " \t+-")) }

// own hides the credentials of one line.
func (m *Lines) own(text string) string {
	if strings.Contains(text, "-----") {
		text = pemInLine.ReplaceAllString(text, "$1"+Hidden+"$2")
		if at := pemBegin.FindStringIndex(text); at != nil && !pemEnd.MatchString(text[at[1]:]) {
			m.pem, m.lines = true, 0
			return m.values(text[:at[0]]) + text[at[0]:at[1]] + Hidden
		}
	}
	for _, t := range tokens {
		text = t.in(text)
	}
	return m.values(maskFlags("", text))
}

var (
	mayHoldFlag   = regexp.MustCompile(`[\s"'(;` + "`" + `]-`)
	separateValue = regexp.MustCompile(`(?:^|[\s"'(;` + "`" + `])(--?[A-Za-z][\w.-]*)(?:[ \t]+|=)` +
		`("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'&;|)-][^\s"'&;|)]*)`)
	attachedValues = []*regexp.Regexp{
		regexp.MustCompile(`(?:^|[\s"'(;])(-H)["']?([A-Za-z][\w-]*\s*:[^"'\n]*)`),
		regexp.MustCompile(`(?:^|[\s"'(;])(-[uU])["']?([^\s"':=-][^\s"':]*:[^\s"']+)`),
		regexp.MustCompile(`(?:^|\s)(-[paw])["']?([^\s"'=-][^\s"']*)`),
	}
)

// maskFlags hides the values of flags. before is the text before this one.
func maskFlags(before, text string) string {
	if !strings.HasPrefix(text, "-") && !mayHoldFlag.MatchString(text) {
		return text
	}
	text = replaceValue(before, text, separateValue)
	for _, form := range attachedValues {
		text = replaceValue(before, text, form)
	}
	return text
}

// replaceValue replaces the value, the second group of form, of each flag, the first group.
func replaceValue(before, text string, form *regexp.Regexp) string {
	var shown strings.Builder
	written := 0
	for _, at := range form.FindAllStringSubmatchIndex(text, -1) {
		from, to := at[4], at[5]
		if c := text[from]; c == '"' || c == '\'' {
			from, to = from+1, to-1
		}
		if value, known := maskFlag(before+text[:at[2]], text[at[2]:at[3]], text[from:to]); known {
			shown.WriteString(text[written:from] + value)
			written = to
		}
	}
	return shown.String() + text[written:]
}

// values hides the values of names such as password.
func (m *Lines) values(text string) string {
	var shown strings.Builder
	written := 0
	for at := 0; ; {
		n, found := nextName(text, at)
		if !found {
			return shown.String() + text[written:]
		}
		at = n.value
		from, to := m.value(n)
		if from >= to || harmless(text[from:to]) {
			continue
		}
		shown.WriteString(text[written:from] + Hidden)
		written = to
		if more := changed.FindString(text[to:]); more != "" {
			n.value = to + len(more)
			from, to = m.extent(n)
			shown.WriteString(text[written:from] + Hidden)
			written = to
		}
		at = written
	}
}

var separators = regexp.MustCompile(`^(?:::[ \t]|:=|=>|==?|:|%3[DdAa]|\||>)`)

// nextName finds the first name from at on that stands before a separator: NAME: x, "NAME" = 'x', user[NAME]=x.
func nextName(text string, at int) (keyedName, bool) {
	for i := at; i < len(text); i++ {
		if strings.IndexByte(":=>|%", text[i]) < 0 {
			continue
		}
		n := keyedName{text: text, separator: strings.TrimSpace(separators.FindString(text[i:]))}
		if n.separator == "" {
			continue
		}
		bare := strings.TrimRight(text[at:i], " \t")
		name := strings.TrimSuffix(bare, "&quot;")
		if trimmed := strings.TrimRight(name, "\"'`"); len(trimmed) >= len(name)-1 {
			name = strings.TrimRight(trimmed, `\`)
		}
		n.quoted = len(name) < len(bare)
		name = strings.TrimSuffix(name, "]")
		begin := len(name)
		for begin > 0 && nameByte(name[begin-1]) {
			begin--
		}
		n.name = strings.TrimLeft(name[begin:], "-.0123456789")
		if n.name == "" {
			continue
		}
		n.at = at + len(name) - len(n.name)
		n.value = i + len(n.separator)
		blanks := len(n.rest()) - len(strings.TrimLeft(n.rest(), " \t"))
		n.value, n.blank = n.value+blanks, blanks > 0
		n.first = n.at <= maxIndent && strings.Trim(text[:n.at], " \t+-\"'") == ""
		return n, true
	}
	return keyedName{}, false
}

func nameByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// A keyedName is a name that stands before a separator and a value.
type keyedName struct {
	text, name, separator string

	at, value int  // where they begin
	quoted    bool // a quote is behind the name
	blank     bool // a blank is before the value
	first     bool // nothing is before the name
}

// rest returns the text from the value on.
func (n keyedName) rest() string { return n.text[n.value:] }

// is reports whether the name is this one, in any case.
func (n keyedName) is(name string) bool { return strings.EqualFold(n.name, name) }

// full returns the name, with the word before it if it says nothing alone: "API key: x".
func (n keyedName) full() string {
	if n.at == 0 || n.text[n.at-1] != ' ' || !(n.is("key") || n.is("phrase") || n.is("string") || n.is("code")) {
		return n.name
	}
	before := strings.TrimRight(n.text[:n.at], " ")
	if both := strings.Trim(before[strings.LastIndexByte(before, ' ')+1:], `"'`) + "-" + n.name; isSecretName(both) {
		return both
	}
	return n.name
}

// value returns where the name's credential is, if it has one. It remembers how that continues on the next lines.
func (m *Lines) value(n keyedName) (from, to int) {
	name := n.full()
	switch {
	case n.separator == ">":
		return n.element()
	case n.separator == "|" && strings.Trim(n.text[:n.at], " \t|") != "": // not in a table, but in a shell
		return 0, 0
	case m.named && n.is("value"):
		m.named = false
		return m.extent(n)
	case n.is("name") || name == n.name && n.is("key"):
		m.named = isSecretName(firstName(n.rest()))
		m.lines = 0
		return 0, 0
	case n.first:
		m.named = false
	}
	if n.separator == ":" && (n.rest() == "" || n.rest() == "{" || strings.HasPrefix(n.rest(), "{\"")) {
		m.nest(n)
	}
	switch {
	case isSecretName(name) && !n.saysElse(name), m.data.open && (m.plain || base64Of(firstName(n.rest()))):
		return m.extent(n)
	}
	return 0, 0
}

// nest remembers what the lines are that are indented more, or the values in the braces that open here.
func (m *Lines) nest(n keyedName) {
	b := block{open: true, indent: leading(n.text)}
	switch {
	case n.is("data") || n.is("stringData"):
		m.data, m.plain, m.lines = b, n.is("stringData"), 0
	case n.rest() == "" && endsAsSecret(n.full()):
		b.oneLine = true
		m.text, m.lines = b, 0
	}
}

var (
	base64Value = regexp.MustCompile(`^[A-Za-z0-9+/]+={0,2}$`)
	valueName   = regexp.MustCompile(`[\w.+/=-]+`)
	scalar      = regexp.MustCompile(`^[|>][+-]?\d?[+-]?\s*(#.*)?$`)
	port        = regexp.MustCompile(`^\d{2,5}($|[\s/,;)\]?])`)
	objectName  = regexp.MustCompile(`^[a-z0-9.-]+/[a-z0-9.-]+$`)
	nextPair    = regexp.MustCompile(`^,[\w.\[\]-]+=`)
	scheme      = regexp.MustCompile(`^(?i:basic|bearer|digest|token|apikey|negotiate)[ \t]+`)
	headerName  = regexp.MustCompile(`(?i)(authorization|cookie)$`)
	typePrefix  = regexp.MustCompile(`^(?:!!?\w*[ \t]+)?`)
	changed     = regexp.MustCompile(`^["']?[ \t]*->[ \t]*`) // in a plan of Terraform
)

func firstName(text string) string { return valueName.FindString(text) }

func base64Of(text string) bool {
	return len(text) >= 8 && len(text)%4 == 0 && base64Value.MatchString(text)
}

// saysElse reports whether the name is not followed by a credential, but by a port, a version, an object or a
// sentence.
func (n keyedName) saysElse(name string) bool {
	rest := n.rest()
	before := byte(' ')
	if n.at > 0 {
		before = n.text[n.at-1]
	}
	word, more, _ := strings.Cut(rest, " ")
	switch {
	case n.separator == "=" && strings.EqualFold(n.name, "secret"):
		return objectName.MatchString(strings.Trim(firstName(rest), `"`))
	case (n.is("PWD") || n.is("OLDPWD")) && strings.HasPrefix(rest, "/"):
		return true
	case n.separator != ":":
		return n.is("pass") && port.MatchString("0"+rest)
	case strings.HasPrefix(rest, "//"): // token://
		return true
	case n.is("pass") && n.name != "pass": // --- PASS: TestX
		return true
	case !n.blank && !n.quoted:
		hostPort := port.MatchString(rest) && len(wordsOf(name)) == 1 && !n.is("password")
		return before == '/' || before == '@' || !endsAsSecret(name) || hostPort
	case n.quoted: // volume "token" : secret "x" not found
		return more != "" && !strings.ContainsAny(word, `"',}]`) && !strings.HasPrefix(rest, "{")
	}
	words := wordsOf(name)
	several := strings.HasSuffix(words[len(words)-1], "tokens") || strings.HasSuffix(words[len(words)-1], "secrets")
	return several || prose[strings.ToLower(strings.Trim(word, ".,;:!"))] && (more != "" || !n.first)
}

// element returns where the text of an XML element is.
func (n keyedName) element() (from, to int) {
	end := strings.Index(n.rest(), "</")
	if n.at == 0 || n.text[n.at-1] != '<' || end < 0 || !isSecretName(n.name) {
		return 0, 0
	}
	return n.value, n.value + end
}

// extent returns where a value begins and ends. A value without an end on this line continues on the next.
func (m *Lines) extent(n keyedName) (from, to int) {
	rest := n.rest()
	if n.first && scalar.MatchString(rest) {
		m.text, m.lines = block{open: true, indent: leading(n.text)}, 0
		return 0, 0
	}
	typed := len(typePrefix.FindString(rest)) // u'x' in Python, $'x' in a shell, !!str x in YAML
	quoteAt := strings.IndexAny(rest, "\"'")
	if (quoteAt == 1 || quoteAt == 2) && strings.Trim(rest[:quoteAt], "ubrfUBRF$") == "" {
		typed = quoteAt
	}
	if quote := openingQuote(rest[typed:]); quote != "" {
		from = n.value + typed + len(quote)
		end := closing(n.text[from:], quote)
		if end < 0 {
			m.quote, m.lines = quote, 0
			return from, len(n.text)
		}
		return from, from + end
	}
	outer := openQuote(n.text[:n.at])
	end := len(rest)
	if outer != 0 && strings.IndexByte(rest, outer) >= 0 {
		end = strings.IndexByte(rest, outer)
	}
	if headerName.MatchString(n.name) && n.separator == ":" || n.first && n.separator == ":" && n.blank {
		return n.value, n.value + end
	}
	skip := len(scheme.FindString(rest[:end]))
	return n.value, n.value + skip + bareWord(rest[skip:end])
}

// bareWord returns the length of a value without quotes around it.
func bareWord(text string) int {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case strings.IndexByte(" \t&;<", c) >= 0,
			c == ',' && (i+1 == len(text) || text[i+1] == ' ' || nextPair.MatchString(text[i:])),
			strings.IndexByte(`)]}"'`, c) >= 0 && strings.Trim(text[i:], `)]},;"' `) == "":
			return i
		case c == '"' || c == '\'': // VALUE="a b"c in a shell
			if end := strings.IndexByte(text[i+1:], c); end >= 0 {
				i += end + 1
			}
		case c == '\\' && i+1 < len(text):
			i++
		}
	}
	return len(text)
}

// openingQuote returns the quote at the beginning of a value, with its backslashes.
func openingQuote(text string) string {
	slashes := len(text) - len(strings.TrimLeft(text, `\`))
	for _, quote := range []string{`"`, "'", "`", "&quot;"} {
		if strings.HasPrefix(text[slashes:], quote) {
			return text[:slashes+len(quote)]
		}
	}
	return ""
}

// closing returns where a quoted value ends. A quote after a backslash is a part of it, unless the opening quote has a
// backslash too.
func closing(text, quote string) int {
	for at := 0; ; {
		i := strings.Index(text[at:], quote)
		if i < 0 {
			return -1
		}
		at += i
		slashes := len(text[:at]) - len(strings.TrimRight(text[:at], `\`))
		if slashes%2 == 0 || quote == "'" {
			return at
		}
		at += len(quote)
	}
}

// openQuote returns the quote that is open at the end of a text, or 0.
func openQuote(text string) (open byte) {
	for i := range len(text) {
		switch c := text[i]; {
		case c != '"' && c != '\'' && c != '`', i > 0 && text[i-1] == '\\':
		case open == 0:
			open = c
		case open == c:
			open = 0
		}
	}
	return open
}
