package main

import (
	"io"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/term"
)

// A style is what a stream can show.
type style struct {
	terminal, color, unicode bool
	width                    int
}

// styleOf looks at what w is, at NO_COLOR (https://no-color.org) and at the locale.
func styleOf(w io.Writer) style {
	s := style{width: 120, unicode: utf8Locale()}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return s
	}
	s.terminal = true
	s.color = os.Getenv("NO_COLOR") == ""
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.width = width
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

// newLogger tells on w what the user should know of. A connection that broke and is tried again is not among it.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
