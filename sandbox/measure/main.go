// Command measure repeats the drain of the demo, without the fix, in each of kube-proxy's modes, and writes what
// came out as a table: how many requests failed, how long the window was, and how long after the Pod had stopped
// a request still failed.
//
//	measure --lapse ../bin/lapse --sandbox ../bin/sandbox --image ../bin/lapse.tar --out ../docs/measured
//	measure --lapse ../bin/lapse --judge ../runs/measure-20261121-062740     the table again, from saved runs
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/drill"
)

func main() {
	s := drill.Series{Modes: drill.List{"iptables", "nftables"}, N: 10, Rate: 500}
	s.Flags(flag.CommandLine, "drains in each mode")
	flag.StringVar(&s.Out, "out", "../docs/measured", "where the table goes")
	drill.Main("measure", func(ctx context.Context) error { return measure(ctx, s) })
}

func measure(ctx context.Context, s drill.Series) error {
	base := cmp.Or(s.Judge, s.Base("measure"))
	collect := drains
	if s.Judge != "" {
		collect = saved
	}
	var doc strings.Builder
	head(&doc, s)
	for _, mode := range s.Modes {
		rows, err := collect(ctx, s, mode, filepath.Join(base, mode))
		if err != nil {
			return err
		}
		table(&doc, mode, rows)
	}
	return s.Publish("termination-race.md", doc.String())
}

// A row is one drain. All instants and lengths come from Lapse's timeline.
type row struct {
	failed, sent int
	classes      map[string]int
	window       *drill.Window // of new connections; nil: no window was seen
	cause        string
	limit        time.Duration // detection limit
	exitCode     int

	// From the Pod's last answer, or its first refusal, on its own address to the last request
	// through the Service that failed.
	tail *drill.Length
}

func drains(ctx context.Context, s drill.Series, mode, dir string) ([]row, error) {
	c, err := s.Open(ctx, mode, os.Stderr)
	if err != nil {
		return nil, err
	}
	w := drill.Workload{Namespace: "shop", Name: "web", Replicas: 2, Args: []string{"--on-sigterm", "exit"}}
	if err := c.Deploy(ctx, w); err != nil {
		return nil, err
	}
	var rows []row
	for i := range s.N {
		run, err := c.Drain(ctx, w, filepath.Join(dir, strconv.Itoa(i+1)), "--rate", strconv.Itoa(s.Rate), "--fail-if", "failed>0")
		if err != nil {
			return nil, err
		}
		rows = append(rows, rowOf(run))
	}
	return rows, nil
}

// saved judges the drains of a mode that were measured before.
func saved(ctx context.Context, s drill.Series, _, dir string) ([]row, error) {
	var rows []row
	for i := range s.N {
		run, err := drill.Judge(ctx, s.Lapse, filepath.Join(dir, strconv.Itoa(i+1)))
		if err != nil {
			return nil, err
		}
		rows = append(rows, rowOf(run))
	}
	return rows, nil
}

func rowOf(run drill.Run) row {
	r := row{limit: run.Timeline.Verdict.DetectionLimit, exitCode: run.ExitCode, classes: map[string]int{}}
	if t, err := run.Timeline.Target("web new"); err == nil {
		r.failed, r.sent = t.Failed, t.Sent
	}
	for _, w := range run.Timeline.Windows {
		if w.Target != "web new" || w.Kind == "slow" {
			continue
		}
		for class, n := range w.Classes {
			r.classes[class] += n
		}
		if r.window == nil || w.Length.Max > r.window.Length.Max {
			r.window = &w
			r.cause = fmt.Sprintf("%s [%s]", w.Causes[0].Rule, w.Causes[0].Confidence)
		}
	}
	r.tail = tailOf(run.Timeline)
	return r
}

func tailOf(t drill.Timeline) *drill.Length {
	var last time.Duration
	for _, f := range t.Failures {
		if f.Target == "web new" {
			last = max(last, f.Sent)
		}
	}
	for _, p := range t.Pods {
		if p.Stopped != nil && last > 0 {
			return &drill.Length{Min: max(0, last-p.Stopped.Latest), Max: max(0, last-p.Stopped.Earliest)}
		}
	}
	return nil
}
