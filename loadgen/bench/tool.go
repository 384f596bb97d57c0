package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"lapse/correlate/model"
)

// A load is what a tool shall do: the same for all of them.
type load struct {
	URL         string
	Rate        float64 // requests per second
	Connections int
	For         time.Duration
	Record      string // the file that every request's result goes to; "" for none
	CPU         int    // confine the tool to this CPU; -1 for none
	Profile     string // write a CPU profile here; "" for none. For our own use: it costs time.
}

// An outcome is what a tool says of its run.
type outcome struct {
	Requests int           // what it reports to have made
	Failed   int           // of these, what it reports as failed
	NotSent  int           // Lapse: without evidence by our own fault, classes notsent and local
	Late     int           // Lapse: sent more than max(interval, 5 ms) after it was due
	Coverage float64       // `lapse run`: by its verdict
	Zero     time.Duration // Lapse: CLOCK_MONOTONIC at the zero of its schedule; 0 where not known
}

// A tool is something that makes requests, in a process of its own.
type tool struct {
	name    string
	role    func(context.Context, load) (outcome, error) // runs in the tool's process; nil if it is another binary
	command func(bench, load) []string                   // that binary and its arguments
	read    func(stdout []byte) (outcome, error)         // what it prints
	silent  bool                                         // it cannot record
}

var (
	lapseEngine = tool{name: "Lapse, engine", role: runLapse}
	lapseRun    = tool{name: "`lapse run`", command: lapseCommand, read: readTimeline}
	hey         = tool{name: "hey", role: runHey}
	vegeta      = tool{name: "vegeta", role: runVegeta}
	fortio      = tool{name: "fortio -uniform", role: runFortio}
)

var tools = []tool{hey, vegeta, fortio, lapseEngine, lapseRun}

// start prepares the tool's process.
func (t tool) start(ctx context.Context, b bench, l load) (*exec.Cmd, error) {
	if t.role == nil {
		args := t.command(b, l)
		return exec.CommandContext(ctx, args[0], args[1:]...), nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, b.self, "--role", t.name, "--load", string(text)), nil
}

func (t tool) outcome(stdout []byte) (o outcome, err error) {
	if t.read != nil {
		return t.read(stdout)
	}
	err = json.Unmarshal(stdout, &o)
	return o, err
}

// recording is the file a tool's results went to.
func (t tool) recording(l load) string {
	if t.role == nil {
		return filepath.Join(l.Record, "facts.lapse")
	}
	return l.Record
}

// playRole is the tool's process.
func playRole(ctx context.Context, name, text string) error {
	var l load
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return fmt.Errorf("--load: %w", err)
	}
	if l.CPU >= 0 {
		if err := pin(l.CPU); err != nil {
			return err
		}
	}
	for _, t := range slices.Concat(tools, grpcTools) {
		if t.name == name && t.role != nil {
			o, err := t.role(ctx, l)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return json.NewEncoder(os.Stdout).Encode(o)
		}
	}
	return fmt.Errorf("no role %q", name)
}

// lapseCommand is the whole program: its probe, its control target, the recording, the live judgement and the report.
func lapseCommand(b bench, l load) []string {
	const baseline = time.Second
	return []string{
		b.lapse, "run", l.URL,
		"--target", "reused",
		"--rate", strconv.FormatFloat(l.Rate, 'f', -1, 64),
		"--connections", strconv.Itoa(l.Connections),
		"--baseline", baseline.String(),
		"--duration", (l.For - baseline).String(),
		"--out", l.Record,
		"-o", "json",
	}
}

func readTimeline(stdout []byte) (o outcome, err error) {
	var tl model.Timeline
	if err := json.Unmarshal(stdout, &tl); err != nil {
		return o, fmt.Errorf("read what lapse printed: %w", err)
	}
	for _, t := range tl.Targets {
		if t.Name == "reused" {
			return outcome{Requests: t.Sent, Failed: t.Failed, NotSent: t.NotSent, Late: t.Late,
				Coverage: tl.Verdict.Coverage}, nil
		}
	}
	return o, fmt.Errorf("lapse reports no target named reused")
}
