package chart

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// An exit is the end of a container.
type exit struct {
	uid    string // of its Pod
	name   string // of its Pod
	at     time.Duration
	code   int
	ending bool // the Pod was to end
	again  bool // the container was started again
}

// exitsOf are the ends of containers that are worth telling: with a code that is not 0, or while their Pod was not to
// end.
func exitsOf(tl *model.Timeline) []exit {
	var exits []exit
	ending := map[string]bool{}
	last := map[string]int{} // by Pod and container: its latest end, in exits
	for _, e := range tl.Events {
		if e.Object.UID == "" {
			continue
		}
		uid := e.Object.UID
		container, _, _ := strings.Cut(e.Detail, " ")
		switch {
		case e.Kind == timeline.PodDeleted, e.Kind == timeline.PodGone:
			ending[uid] = true
		case e.Kind == timeline.EndpointChanged && strings.HasPrefix(e.To, timeline.EndpointTerminating):
			ending[uid] = true
		case e.Kind == timeline.PodContainer && e.To == "terminated" && e.At.Earliest > model.Unbounded &&
			(e.Code() != 0 || !ending[uid]):
			last[uid+" "+container] = len(exits)
			exits = append(exits, exit{
				uid: uid, name: e.Object.Name, at: e.Seen, code: e.Code(), ending: ending[uid],
			})
		case e.Kind == timeline.PodContainer && e.To == "running":
			if i, ok := last[uid+" "+container]; ok {
				exits[i].again = true
			}
		}
	}
	return slices.DeleteFunc(exits, func(e exit) bool {
		return e.code == 0 && !e.ending && !e.again && finished(tl, e.uid)
	})
}

// finished reports whether a Pod still came up after the end of a container: it was one that only prepares the others.
func finished(tl *model.Timeline, uid string) bool {
	i := slices.IndexFunc(tl.Pods, func(p model.Pod) bool { return p.UID == uid })
	return i < 0 || !slices.ContainsFunc(tl.Pods[i].States, func(s model.PodState) bool { return s.State == "crashed" })
}

// maxExits is how many lines the chart has about containers that exited.
const maxExits = 4

// exitLines say which Pods' containers exited and how, those that did alike in one line.
func exitLines(exits []exit) []string {
	type kind struct {
		code  int
		again bool
	}
	var kinds []kind
	names := map[kind][]string{}
	for _, e := range exits {
		k := kind{e.code, e.again}
		if names[k] == nil {
			kinds = append(kinds, k)
		}
		if name := lastPart(e.name); !slices.Contains(names[k], name) {
			names[k] = append(names[k], name)
		}
	}
	var lines []string
	for i, k := range kinds {
		if i == maxExits {
			lines = append(lines, quantity.Count(len(kinds)-i, "further exit code")+": see timeline.json")
			break
		}
		line := "exited, code " + codeText(k.code)
		if k.again {
			line += ", and started again"
		}
		list := names[k]
		if more := len(list) - 6; more > 0 {
			list = append(list[:6:6], fmt.Sprintf("and %d more", more))
		}
		lines = append(lines, line+": "+strings.Join(list, ", "))
	}
	return lines
}

// codeText is an exit code, with the signal it stands for. A shell and a container runtime add 128 to a signal's
// number.
func codeText(code int) string {
	for name, signal := range map[string]syscall.Signal{
		"SIGKILL": syscall.SIGKILL,
		"SIGTERM": syscall.SIGTERM,
		"SIGSEGV": syscall.SIGSEGV,
		"SIGABRT": syscall.SIGABRT,
		"SIGINT":  syscall.SIGINT,
	} {
		if code == 128+int(signal) {
			return fmt.Sprintf("%d (%s)", code, name)
		}
	}
	return fmt.Sprint(code)
}
