package main

import (
	"fmt"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

const head = `# A guard through %d disruptions

On %s. %s, kube-proxy in %s mode, %d nodes, %d Services. Made by ` + "`make hour`" + `.

`

func document(hours []hour) string {
	var b strings.Builder
	for _, h := range hours {
		fmt.Fprintf(&b, head, len(h.Disruptions), h.Began.Format("2006-01-02 15:04 UTC"), h.Machine, h.Mode, h.Nodes,
			len(services))
		b.WriteString(drill.Table(guardColumns(h), h.Guards))
		least, most, failed := h.answered()
		fmt.Fprintf(&b, "\nThe servers have answered %d requests. The guards count %d to %d answers, and %d failures. "+
			"The API server answers %.1f requests per second without the guards, and %.1f while both are idle.\n\n",
			h.Answered, least, most, failed, h.Idle.Without, h.Idle.With)
		var wrong []string
		for _, err := range h.wrong() {
			wrong = append(wrong, "- "+err.Error()+"\n")
		}
		if len(wrong) > 0 {
			b.WriteString("What does not hold:\n\n" + strings.Join(wrong, "") + "\n")
		}
		b.WriteString(drill.Table(columns(h), h.Disruptions) + "\n")
	}
	return b.String()
}

func guardColumns(h hour) []drill.Column[guard] {
	mib := func(at func(of []sample) sample) func(g guard) string {
		return func(g guard) string { return fmt.Sprint(at(g.Samples).Memory >> 20) }
	}
	quarter := func(n int) func(of []sample) sample {
		return func(of []sample) sample { return of[n*(len(of)-1)/4] }
	}
	return []drill.Column[guard]{
		{Head: "guard", Cell: func(g guard) string { return g.Pod }},
		{Head: "runs", Cell: func(g guard) string { return fmt.Sprint(len(g.Runs)) }},
		{Head: "inconclusive", Cell: func(g guard) string { return fmt.Sprint(g.inconclusive()) }},
		{Head: "wrong", Cell: func(g guard) string { return fmt.Sprint(len(g.wrong(h.Disruptions))) }},
		{Head: "millicores idle", Cell: func(g guard) string { return fmt.Sprintf("%.0f", g.millicores("idle")) }},
		{Head: "disrupted", Cell: func(g guard) string { return fmt.Sprintf("%.0f", g.millicores("disrupted")) }},
		{Head: "MiB at first", Cell: mib(quarter(0))},
		{Head: "after ¼", Cell: mib(quarter(1))},
		{Head: "½", Cell: mib(quarter(2))},
		{Head: "¾", Cell: mib(quarter(3))},
		{Head: "at last", Cell: mib(quarter(4))},
	}
}

func columns(h hour) []drill.Column[disruption] {
	all := []drill.Column[disruption]{
		{Head: "at", Cell: func(d disruption) string { return d.Began.UTC().Format(time.TimeOnly) }},
		{Head: "Service", Cell: func(d disruption) string { return strings.TrimPrefix(d.Service, namespace+"/") }},
		{Head: "what", Cell: func(d disruption) string { return d.What }},
		{Head: "drops requests", Cell: func(d disruption) string {
			return map[bool]string{true: "yes", false: "no"}[d.Drops]
		}},
	}
	for i, g := range h.Guards {
		all = append(all, drill.Column[disruption]{Head: fmt.Sprint("guard ", i+1), Cell: func(d disruption) string {
			var said []string
			for _, r := range g.of(d) {
				said = append(said, fmt.Sprintf("%s, %d of %d", r.Verdict, r.Failed, r.Sent))
			}
			return strings.Join(said, "; ")
		}})
	}
	return all
}
