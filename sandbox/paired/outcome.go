package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"time"

	"lapse/sandbox/drill"
)

// outcome is what became of a drain. Pods are named for their Deployments.
type outcome struct {
	ExitCode int
	Asked    []string      // whose Pods were told to end while it ran, in the order in which the API server said so
	Gone     []string      // whose Pods were gone by its end, in order
	Command  time.Duration // the drain itself
	Pods     time.Duration // from when the first Pod was told to end until the last was gone
}

// evicted returns the Pods that were told to end, in no order.
func (o outcome) evicted() []string { return slices.Sorted(slices.Values(o.Asked)) }

// A podLog is what the API server said of the Pods.
type podLog struct {
	pods []podEnd // in the order in which they were told to end
	err  error
}

// podEnd is a Pod that was told to end.
type podEnd struct {
	uid, name   string
	asked, gone time.Time // gone is zero while it is there
}

func (l *podLog) add(c drill.Change) {
	var pod struct {
		Metadata struct {
			UID, Name         string
			Labels            map[string]string
			DeletionTimestamp *time.Time
		}
	}
	if err := json.Unmarshal(c.Object, &pod); err != nil {
		l.err = err
		return
	}
	if pod.Metadata.DeletionTimestamp == nil && c.Type != "DELETED" {
		return
	}
	i := slices.IndexFunc(l.pods, func(p podEnd) bool { return p.uid == pod.Metadata.UID })
	if i < 0 {
		i, l.pods = len(l.pods), append(l.pods, podEnd{uid: pod.Metadata.UID,
			name: cmp.Or(pod.Metadata.Labels["app"], pod.Metadata.Name), asked: c.Seen})
	}
	if c.Type == "DELETED" {
		l.pods[i].gone = c.Seen
	}
}

// late is the longest time from a change in the API server to its line in the log.
const late = time.Second

// outcome returns what became of the Pods that were told to end while the drain ran.
func (l *podLog) outcome(of ended) outcome {
	o := outcome{ExitCode: of.code, Command: of.to.Sub(of.from)}
	ended := slices.DeleteFunc(slices.Clone(l.pods),
		func(p podEnd) bool { return p.asked.Before(of.from) || p.asked.After(of.to.Add(late)) })
	if len(ended) == 0 {
		return o
	}
	for _, p := range ended {
		o.Asked = append(o.Asked, p.name)
	}
	first := ended[0].asked
	ended = slices.DeleteFunc(ended, func(p podEnd) bool { return p.gone.IsZero() || p.gone.After(of.to.Add(late)) })
	slices.SortFunc(ended, func(a, b podEnd) int { return a.gone.Compare(b.gone) })
	for _, p := range ended {
		o.Gone = append(o.Gone, p.name)
		o.Pods = p.gone.Sub(first)
	}
	return o
}

// exitCode returns the exit code of a program that ended by itself, and an error for one that did not.
func exitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}
