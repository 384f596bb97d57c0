package main

import (
	"testing"

	"lapse/deploy"
)

// What the workstation tells the Job's Pod makes the same background load there.
func TestHammerIsPassedOnToTheCluster(t *testing.T) {
	const args = `-c 5 -q 20 -H "X-Team: blue" -d 'a b'`
	var here, there options
	cmd := newRun()
	cmd.ResetFlags()
	here.flags(cmd)
	if err := cmd.ParseFlags([]string{"--duration", "1s", "--hammer", args}); err != nil {
		t.Fatal(err)
	}
	if err := here.check([]string{"svc/web"}, nil); err != nil {
		t.Fatal(err)
	}
	told := newRun()
	told.ResetFlags()
	there.flags(told)
	if err := told.ParseFlags(here.agentArgs("shop")[1:]); err != nil {
		t.Fatal(err)
	}
	t.Setenv(deploy.EnvPrivate, string(here.privateFlags()))
	if err := there.readPrivate(nil); err != nil {
		t.Fatal(err)
	}
	if there.hammer != args {
		t.Errorf("the Pod is told %q, want %q", there.hammer, args)
	}
}
