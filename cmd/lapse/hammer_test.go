package main

import (
	"testing"

	"lapse/deploy"
	"lapse/run"
)

// What the workstation tells the Job's Pod makes the same background load there.
func TestHammerIsPassedOnToTheCluster(t *testing.T) {
	const args = `-c 5 -q 20 -H "X-Team: blue" -d 'a b'`
	var here, there run.Options
	cmd := newRun()
	cmd.ResetFlags()
	runFlags(&here, cmd)
	if err := cmd.ParseFlags([]string{"--duration", "1s", "--hammer", args}); err != nil {
		t.Fatal(err)
	}
	if err := here.Check([]string{"svc/web"}, nil); err != nil {
		t.Fatal(err)
	}
	told := newRun()
	told.ResetFlags()
	runFlags(&there, told)
	if err := told.ParseFlags(here.AgentArgs("shop")[1:]); err != nil {
		t.Fatal(err)
	}
	t.Setenv(deploy.EnvPrivate, string(here.PrivateFlags()))
	if err := there.ReadPrivate(nil); err != nil {
		t.Fatal(err)
	}
	if there.Hammer != args {
		t.Errorf("the Pod is told %q, want %q", there.Hammer, args)
	}
}
