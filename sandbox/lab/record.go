package main

import (
	"time"

	"lapse/sandbox/truth"
)

// A record is what the runner knows of one run, stored next to Lapse's recording: judging needs nothing else.
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
	// Routes are the Pods that ended, and until when the prober's node routed to them, if the scenario asks for them.
	Routes []truth.Pod
}

const recordFile = "lab.json"
