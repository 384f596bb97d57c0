// Package terminal finds out what a stream can show, and writes a log in sentences.
package terminal

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"

	"lapse/internal/report/document"
)

// A Style is what a stream can show.
type Style struct {
	document.Screen
	Terminal bool
}

// StyleOf returns what w can show, given NO_COLOR (https://no-color.org), CLICOLOR_FORCE
// (https://bixense.com/clicolors) and the locale.
func StyleOf(w io.Writer) Style {
	s := Style{Screen: document.Screen{Width: 120, Unicode: utf8Locale(), Color: forced()}}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return s
	}
	s.Terminal = true
	s.Color = forced() || os.Getenv("NO_COLOR") == ""
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.Width = width
	}
	return s
}

// forced reports whether colours are wanted wherever the output goes. NO_COLOR says no to that too.
func forced() bool {
	force := os.Getenv("CLICOLOR_FORCE")
	return force != "" && force != "0" && os.Getenv("NO_COLOR") == ""
}

// Words of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// Colored returns the style with colours as a word of --color wants them; auto leaves it as it is.
func (s Style) Colored(when string) Style {
	switch when {
	case ColorAlways:
		s.Color = true
	case ColorNever:
		s.Color = false
	}
	return s
}

func utf8Locale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToUpper(v)
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return false
}

// NewLogger returns a logger of warnings and errors, in sentences on w. It leaves out the connections that are
// retried.
func NewLogger(w io.Writer) *slog.Logger { return slog.New(&sentences{w: w, writing: new(sync.Mutex)}) }

// sentences writes log records as people would say them: "lapse: the command did not start: exec: no such file".
type sentences struct {
	w       io.Writer
	attrs   []slog.Attr // of every record
	writing *sync.Mutex
}

func (s *sentences) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (s *sentences) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sentences{s.w, append(slices.Clip(s.attrs), attrs...), s.writing}
}

func (s *sentences) WithGroup(string) slog.Handler { return s }

func (s *sentences) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clip(s.attrs)
	r.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	text, because := "lapse: "+r.Message, ""
	for _, a := range attrs {
		if a.Key == "error" {
			because += ": " + a.Value.String()
			continue
		}
		text += " (" + a.Key + " " + a.Value.String() + ")"
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := io.WriteString(s.w, text+because+"\n")
	return err
}
