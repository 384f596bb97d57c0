package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/sandbox/truth"
)

// A record is what the runner knows of one run, kept beside Lapse's recording: judging needs nothing else.
type record struct {
	Scenario string
	Text     string // the scenario's file, as it was
	Mode     string // kube-proxy's
	Number   int
	Together int // how many scenarios were played side by side; 0 or 1: it alone
	Began    time.Time
	LoadAvg  string // as the run began
	Machine  string
	Command  string
	Vars     map[string]string
	Steps    []Done
	Pods     []Pod
	Before   []Count // of the servers that were there
	After    []Count
	Routes   []truth.Pod // where the scenario asks for it: the Pods that ended, and until when the prober's node routed to them
}

const recordFile = "lab.json"

// Count is what a server says it has answered, see sandbox/workload.
type Count struct {
	Pod    string `json:"pod"`
	Served int    `json:"served"`
}

// counts asks each server of an app. Those that do not answer are left out.
func (p *play) counts(ctx context.Context, app string) (all []Count) {
	out, err := p.ask(ctx, "get", "pods", "-l", "app="+app, "-o", "name")
	if err != nil {
		return nil
	}
	var mu sync.Mutex
	_ = eachOf(strings.Fields(strings.ReplaceAll(out, "pod/", "")), func(name string) error {
		text, err := p.get(ctx, name, "/count")
		var c Count
		if err == nil && json.Unmarshal([]byte(text), &c) == nil {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, c)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b Count) int { return strings.Compare(a.Pod, b.Pod) })
	return all
}

// busiest names the Pod that has answered most since Lapse began.
func (p *play) busiest(ctx context.Context, app string) (string, error) {
	all := p.counts(ctx, app)
	if len(all) == 0 {
		return "", fmt.Errorf("no server of %s says what it has answered", app)
	}
	return slices.MaxFunc(all, func(a, b Count) int { return cmp.Compare(a.Served, b.Served) }).Pod, nil
}
