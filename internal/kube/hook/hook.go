// Package hook reads what a container's preStop hook does from its command: for how long the server surely goes on,
// and whether the hook itself stops it. Preflight predicts from it, and causes are explained by it.
//
// https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
package hook

import (
	"path"
	"slices"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"
)

// An Effect is what a preStop hook surely does before SIGTERM comes.
type Effect struct {
	Serves time.Duration // how long the server surely goes on as before
	Lasts  time.Duration // how long the hook surely takes, or longer
	Stops  string        // the command that stops the server after Serves; "" if SIGTERM does
	Unread string        // what the hook does after Serves and its command does not show; "" if there is nothing
}

// Sure reports whether the server still serves when the hook has ended, and all that the hook does is known.
func (e *Effect) Sure() bool { return e.Stops == "" && e.Unread == "" }

// Read returns what a hook's command does.
func Read(command []string) Effect {
	var r reader
	r.run(command)
	return r.Effect
}

// ReadScript returns what a hook does that has a shell run this script.
func ReadScript(script string) Effect {
	var r reader
	r.script(script)
	return r.Effect
}

// A reader follows a command as far as its outcome is known.
type reader struct {
	Effect
	errexit bool // a command that fails ends the script
}

// script adds what a shell does. What a command's outcome decides on is not followed: nothing after it is sure.
func (r *reader) script(text string) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		r.unknown(text)
		return
	}
	for _, s := range file.Stmts {
		if ok, ended := r.statement(s, text); ended || !ok && r.errexit {
			return
		}
	}
}

// statement adds what one statement of a script does. It reports whether it succeeds, and whether nothing after it is
// sure to be run.
func (r *reader) statement(s *syntax.Stmt, script string) (ok, ended bool) {
	before := r.Effect
	ok, ended = r.command(s.Cmd, script)
	if s.Background { // nobody waits for it
		r.Lasts, r.Serves = before.Lasts, before.Serves
		ok, ended = true, r.Stops != ""
	}
	return ok, ended
}

func (r *reader) command(c syntax.Command, script string) (ok, ended bool) {
	switch c := c.(type) {
	case nil, *syntax.DeclClause:
		return true, false
	case *syntax.CallExpr:
		return r.call(wordsOf(c))
	case *syntax.Block:
		return r.all(c.Stmts, script)
	case *syntax.Subshell:
		return r.all(c.Stmts, script)
	case *syntax.BinaryCmd:
		ok, ended = r.statement(c.X, script)
		switch {
		case ended || c.Op == syntax.OrStmt:
			return true, ended
		case c.Op == syntax.AndStmt && !ok:
			return false, true
		}
		return r.statement(c.Y, script)
	}
	r.unknown(script)
	return false, true
}

func (r *reader) all(statements []*syntax.Stmt, script string) (ok, ended bool) {
	ok = true
	for _, s := range statements {
		if ok, ended = r.statement(s, script); ended || !ok && r.errexit {
			return ok, true
		}
	}
	return ok, false
}

// call adds what a simple command of a script does.
func (r *reader) call(words []string) (ok, ended bool) {
	switch {
	case len(words) == 0:
		return true, false
	case words[0] == "exit":
		return true, true
	case words[0] == "set" && len(words) > 1 && strings.HasPrefix(words[1], "-") && strings.Contains(words[1], "e"):
		r.errexit = true
	}
	ok = r.run(words)
	return ok, r.Stops != "" || words[0] == "exec" && len(words) > 1 // the hook ends with the server
}

// run adds what a command does. It reports whether the command succeeds, where that is known.
func (r *reader) run(words []string) (succeeds bool) {
	words = withoutPrefixes(words)
	if len(words) == 0 {
		return true
	}
	if script, errexit, ok := Script(words); ok {
		inner := reader{Effect: r.Effect, errexit: errexit}
		inner.script(script)
		r.Effect = inner.Effect
		return r.Sure()
	}
	switch length, ok := sleepLength(words); {
	case ok:
		r.Lasts += length
		if r.Sure() {
			r.Serves += length
		}
	case slices.Contains(instant, path.Base(words[0])):
	case !r.Sure():
		return false
	case stopsServer(words):
		r.Stops = strings.Join(words, " ")
		return false
	default:
		r.Unread = strings.Join(words, " ")
		return false
	}
	return true
}

func (r *reader) unknown(text string) {
	if r.Sure() {
		r.Unread = strings.Join(strings.Fields(text), " ")
	}
}

// instant are commands that take no time and leave the server alone.
var instant = []string{
	"true", ":", "echo", "printf", "set", "export", "unset", "cd", "umask", "date", "touch",
	"rm", "mkdir", "cp", "mv", "cat", "logger", "trap",
}

// prefixes are commands that run the command in their arguments.
var prefixes = []string{"exec", "command", "nohup", "env", "sudo", "time"}

// stopsServer reports whether a command asks a server to stop: it closes its listener at once.
func stopsServer(words []string) bool {
	switch path.Base(words[0]) {
	case "kill", "pkill", "killall":
		for i, w := range words[1:] {
			signal, ok := strings.CutPrefix(w, "-")
			if !ok {
				continue
			}
			if (signal == "s" || signal == "n") && i+2 < len(words) {
				signal = words[i+2]
			}
			switch strings.TrimPrefix(strings.ToUpper(signal), "SIG") {
			case "TERM", "15", "QUIT", "3", "INT", "2", "KILL", "9":
				return true
			}
			if strings.ToUpper(signal) == signal {
				return false // another signal
			}
		}
		return true
	}
	return slices.ContainsFunc(words[1:], func(w string) bool {
		return slices.Contains([]string{"stop", "quit", "graceful-stop", "shutdown", "SHUTDOWN"}, w)
	})
}

// sleepLength returns how long a command sleeps, if it is a sleep of a known length.
func sleepLength(words []string) (length time.Duration, ok bool) {
	if path.Base(words[0]) != "sleep" || len(words) < 2 {
		return 0, false
	}
	for _, w := range words[1:] {
		unit := time.Duration(1)
		if days, ok := strings.CutSuffix(w, "d"); ok {
			w, unit = days+"h", 24
		}
		d, err := time.ParseDuration(w)
		if err != nil {
			d, err = time.ParseDuration(w + "s")
		}
		if err != nil || d < 0 {
			return 0, false
		}
		length += unit * d
	}
	return length, true
}

// withoutPrefixes drops what stands before a simple command: words that run the rest, and assignments of env.
func withoutPrefixes(words []string) []string {
	for len(words) > 0 {
		name, _, assigns := strings.Cut(words[0], "=")
		assigns = assigns && !strings.ContainsAny(name, "/-.$")
		if !assigns && !slices.Contains(prefixes, words[0]) {
			break
		}
		words = words[1:]
	}
	return words
}
