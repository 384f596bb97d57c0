package preflight

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
)

// A delay is what a container's preStop hook surely does before SIGTERM comes.
type delay struct {
	serves time.Duration // the server surely goes on as before for so long
	lasts  time.Duration // the hook surely takes so long, or longer
	stops  string        // the command that stops the server after serves; "" if SIGTERM does
	unread string        // what the hook does after serves and the spec does not show; "" if there is nothing
}

// delayOf reads a container's preStop hook.
func delayOf(c *corev1.Container) delay {
	h := preStop(c)
	switch {
	case h == nil:
		return delay{}
	case h.Sleep != nil:
		return delay{serves: seconds(h.Sleep.Seconds), lasts: seconds(h.Sleep.Seconds)}
	case h.HTTPGet != nil:
		return delay{unread: fmt.Sprintf("httpGet :%s%s", h.HTTPGet.Port.String(), h.HTTPGet.Path)}
	case h.Exec == nil:
		return delay{unread: kindOf(h)}
	}
	var d delay
	d.run(h.Exec.Command)
	return d
}

// sure reports whether the server still serves, and all that the hook has done until then is known.
func (d *delay) sure() bool { return d.stops == "" && d.unread == "" }

// run adds what a command does. It reports whether the command succeeds, where that is known.
func (d *delay) run(words []string) (succeeds bool) {
	words = withoutPrefixes(words)
	if len(words) == 0 {
		return true
	}
	if script, errexit, ok := shellScript(words); ok {
		d.script(script, errexit)
		return d.sure()
	}
	name := path.Base(words[0])
	switch length, ok := sleepLength(words); {
	case ok:
		d.lasts += length
		if d.sure() {
			d.serves += length
		}
	case slices.Contains(instant, name):
	case !d.sure():
		return false
	case stopsServer(words):
		d.stops = strings.Join(words, " ")
		return false
	default:
		d.unread = strings.Join(words, " ")
		return false
	}
	return true
}

// script adds what a shell does. What a command's outcome decides on is not followed: nothing after it is sure.
func (d *delay) script(text string, errexit bool) {
	skip := false
	for _, s := range statements(text) {
		if skip {
			skip = s.then == "||"
			continue
		}
		if slices.Contains(compound, s.words[0]) || strings.HasSuffix(s.words[0], "()") {
			d.unknown(text)
			return
		}
		errexit = errexit || len(s.words) > 1 && s.words[0] == "set" && strings.HasPrefix(s.words[1], "-") && strings.Contains(s.words[1], "e")
		before := *d
		succeeds := d.run(s.words)
		if s.then == "&" { // nobody waits for it
			d.lasts, d.serves = before.lasts, before.serves
			succeeds = true
		}
		if d.stops != "" || !succeeds && (errexit || s.then == "&&") || len(s.words) > 1 && s.words[0] == "exec" || s.words[0] == "exit" {
			return // the hook ends with the server
		}
		skip = s.then == "||"
	}
}

func (d *delay) unknown(text string) {
	if d.sure() {
		d.unread = strings.Join(strings.Fields(text), " ")
	}
}

// hookText shows a container's hook as evidence.
func hookText(c *corev1.Container) string {
	h := preStop(c)
	switch {
	case h == nil:
		return "none"
	case h.Sleep != nil:
		return seconds(h.Sleep.Seconds).String()
	case h.Exec != nil:
		return strings.Join(h.Exec.Command, " ")
	}
	return delayOf(c).unread
}

// unreadHooks lists the hooks of containers that serve, of which the spec does not show for how long the server goes
// on. It returns "" if there is none.
func unreadHooks(s *State) string {
	var all []string
	for t, c := range s.servers() {
		all = append(all, unreadHook(t, c)...)
	}
	return strings.Join(all, "; ")
}

func unreadHook(t *template, c *corev1.Container) []string {
	d := delayOf(c)
	if d.unread == "" {
		return nil
	}
	text := fmt.Sprintf("%s, container %s: what the preStop hook does with `%s`, and for how long, cannot be read", t.object, c.Name, shown(d.unread))
	if d.serves > 0 {
		text += fmt.Sprintf(" (it sleeps for %s before)", quantity.Span(d.serves))
	}
	return []string{text}
}

// instant are commands that take no time and leave the server alone.
var instant = []string{
	"true", ":", "echo", "printf", "set", "export", "unset", "cd", "umask", "date", "touch", "rm", "mkdir", "cp", "mv", "cat", "logger",
}

// compound begin what is more than a simple command.
var compound = []string{"if", "for", "while", "until", "case", "function", "select", "then", "else", "elif", "do", "done", "fi", "esac"}

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

// sleepLength is how long a command sleeps, if it is a sleep of a known length.
func sleepLength(words []string) (length time.Duration, ok bool) {
	if path.Base(words[0]) != "sleep" || len(words) < 2 {
		return 0, false
	}
	for _, w := range words[1:] {
		if days, ok := strings.CutSuffix(w, "d"); ok {
			w = days + "h"
			if d, err := time.ParseDuration(w); err == nil {
				length += 24 * d
				continue
			}
			return 0, false
		}
		d, err := time.ParseDuration(w)
		if err != nil {
			d, err = time.ParseDuration(w + "s")
		}
		if err != nil {
			return 0, false
		}
		length += d
	}
	return length, true
}

// withoutPrefixes drops what stands before a simple command: assignments, and words that run the rest.
func withoutPrefixes(words []string) []string {
	for len(words) > 0 {
		name, _, assigns := strings.Cut(words[0], "=")
		if !slices.Contains([]string{"exec", "command", "nohup", "env", "sudo", "time", "(", "{", ")", "}", "!"}, words[0]) && (!assigns || strings.ContainsAny(name, "/-.$")) {
			break
		}
		words = words[1:]
	}
	if i := slices.IndexFunc(words, func(w string) bool { return w == ")" || w == "}" }); i >= 0 {
		return words[:i]
	}
	return words
}
