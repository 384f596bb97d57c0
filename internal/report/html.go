package report

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"regexp"
	"strings"

	"lapse/correlate/model"
	"lapse/internal/report/document"
)

var htmlFormat = Format{
	Name:  "html",
	Doc:   "the page with the run inside it, one file that opens offline",
	Ext:   "html",
	Write: judgedBy(HTML),
}

// HTML writes the page with the run inside it, as one file: it opens from file://, years later, and asks
// nobody for anything. The page is [Options.Page].
//
// The run stands in it as base64 of the gzip of {"timeline": <timeline.json>}, in an element the page looks
// for. Its policy allows the page's own script and style by their hashes, and nothing from any network. Whoever runs no
// scripts reads a summary.
//
// A long run is thinned out where it would not fit into [maxData]: see [embedded].
func HTML(w io.Writer, tl *model.Timeline, opts Options) error {
	if opts.Page == nil {
		return errors.New("render as HTML: no page to put the run into")
	}
	shell, err := inline(opts.Page)
	if err != nil {
		return fmt.Errorf("render as HTML: %w", err)
	}
	data, err := embedded(tl, maxData)
	if err != nil {
		return fmt.Errorf("render as HTML: %w", err)
	}
	var body bytes.Buffer
	body.WriteString(noScript(tl, opts))
	fmt.Fprintf(&body, "<script type=\"application/json+gzip-base64\" id=\"lapse-run\">%s</script>\n", data)
	title := html.EscapeString(document.Clean("Lapse: " + tl.Said.Word + " " + subject(tl.Run)))
	doc := strings.Replace(shell, "<title>Lapse</title>", "<title>"+title+"</title>", 1)
	end := strings.LastIndex(doc, "</body>")
	_, err = io.WriteString(w, doc[:end]+body.String()+doc[end:])
	return err
}

var (
	scriptTag = regexp.MustCompile(`<script type="module"[^>]* src="\./([\w.-]+)"></script>`)
	styleTag  = regexp.MustCompile(`<link rel="stylesheet"[^>]* href="\./([\w.-]+)"\s*/?>`)
	reference = regexp.MustCompile(`(?:src|href)="([^"]*)"`)
)

// inline puts the files that the page's index.html refers to into it, and the policy before them.
func inline(page fs.FS) (string, error) {
	index, err := fs.ReadFile(page, "index.html")
	if err != nil {
		return "", err
	}
	doc, scripts, err := replaceTags(page, string(index), scriptTag, `<script type="module">`, "</script>", `\x3c$1`)
	if err != nil {
		return "", err
	}
	doc, styles, err := replaceTags(page, doc, styleTag, "<style>", "</style>", `\3c $1`)
	if err != nil {
		return "", err
	}
	head := strings.Index(doc, "<head>")
	if head < 0 || !strings.Contains(doc, "</body>") || len(scripts) == 0 {
		return "", errors.New("index.html has no head, body or script")
	}
	rest := styleTag.ReplaceAllString(scriptTag.ReplaceAllString(string(index), ""), "")
	for _, ref := range reference.FindAllStringSubmatch(rest, -1) {
		if !strings.HasPrefix(ref[1], "data:") {
			return "", fmt.Errorf("index.html refers to %s, which cannot be put into it", ref[1])
		}
	}
	head += len("<head>")
	meta := `<meta http-equiv="Content-Security-Policy" content="` + policy(scripts, styles) + `" />`
	return doc[:head] + "\n    " + meta + doc[head:], nil
}

// replaceTags replaces what refers to files by their content, and returns the sources that a policy allows them by.
func replaceTags(page fs.FS, doc string, tag *regexp.Regexp, open, closing, escaped string) (string, []string, error) {
	var sources []string
	var failed error
	doc = tag.ReplaceAllStringFunc(doc, func(m string) string {
		content, err := fs.ReadFile(page, tag.FindStringSubmatch(m)[1])
		if err != nil {
			failed = err
			return m
		}
		text := endsNothing(string(content), escaped)
		sum := sha256.Sum256([]byte(text))
		sources = append(sources, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
		return open + text + closing
	})
	return doc, sources, failed
}

// endsNothing spells what would end a script or style element, or change how its text is read, so that it means the
// same within strings, the only place for it: a script and a style escape a character each in their own way.
// https://html.spec.whatwg.org/multipage/scripting.html#restrictions-for-contents-of-script-elements
func endsNothing(text, escaped string) string {
	return opens.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), escaped)
}

var opens = regexp.MustCompile(`(?i)<(/script|script|/style|!--)`)

// policy allows what is in the document, and nothing that is not.
func policy(scripts, styles []string) string {
	if len(styles) == 0 {
		styles = []string{"'none'"}
	}
	return "default-src 'none'; script-src " + strings.Join(scripts, " ") + "; style-src " + strings.Join(styles, " ") +
		"; img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

const (
	maxData  = 1_500_000 // bytes of data in a report, so that the whole stays below 2 MB
	minSlots = 1000      // a series is not made shorter: a screen shows as many
)

// embedded is the run as the page reads it. One that is larger than limit is sent with a shorter list of failures, of
// which it then says that it is cut, and its series in wider slots, as often halved as it takes. Windows, events,
// Pods and the verdict are never touched. If that is not enough, the report is large.
func embedded(tl *model.Timeline, limit int) (string, error) {
	whole := *tl
	whole.Buckets = tl.Buckets.Kept()
	tl = &whole
	data, err := pack(tl)
	for err == nil && len(data) > limit {
		thin := *tl
		switch {
		case len(tl.Failures) > 0:
			thin.FailuresTruncated += len(tl.Failures)
			thin.Failures = []model.Failure{}
		case slots(tl.Buckets) >= 2*minSlots:
			thin.Buckets = tl.Buckets.Halve()
		default:
			return data, nil
		}
		tl = &thin
		data, err = pack(tl)
	}
	return data, err
}

func slots(b model.Buckets) int {
	n := 0
	for _, s := range b.All() {
		n = max(n, len(s.Sent))
	}
	return n
}

// pack compresses a timeline into text without any markup.
func pack(tl *model.Timeline) (string, error) {
	var zipped bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level is valid
	if err := json.NewEncoder(zip).Encode(struct {
		Timeline *model.Timeline `json:"timeline"`
	}{tl}); err != nil {
		return "", fmt.Errorf("encode timeline: %w", err)
	}
	if err := zip.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(zipped.Bytes()), nil
}

// noScript is the summary for readers without scripts: all of it, as they cannot ask for more.
func noScript(tl *model.Timeline, opts Options) string {
	opts.Verbose = true
	return "<noscript>\n" + summaryOf(tl, opts, documentNames).HTML() +
		"<p>With scripts, this file shows the whole timeline.</p>\n</noscript>\n"
}
