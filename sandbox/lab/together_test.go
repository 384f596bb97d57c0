package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lapse/sandbox/drill"
)

func TestWhatActsOnNodesOrTheControlPlaneIsPlayedAlone(t *testing.T) {
	scenario := func(sections string) Scenario {
		text := "What it shows.\n-- manifest.yaml --\nkind: Service\n" + sections + "\n-- expect --\nno failure\n"
		s, err := Parse("x.txtar", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		step  string
		alone bool
	}{
		{"after 1s", false},
		{"rollout web", false},
		{"scale web 3", false},
		{"kubectl create quota none --hard=pods=0", false},
		{"kubectl rollout restart statefulset/web", false},
		{`patch service/web {"spec":{"selector":{"app":"node"}}}`, false},
		{"until web ready", false},
		{"drain node2", true},
		{"meanwhile try drain node2 --timeout=3s", true},
		{"cordon node2", true},
		{"taint node2 out=now:NoExecute", true},
		{"stop kube-proxy node1", true},
		{"stop coredns", true},
		{"restart kubelet node2", true},
		{"cut node1 from 10.244.2.7", true},
		{"kubectl label node node1 topology.kubernetes.io/zone=a", true},
		{`kubectl patch node/node2 --subresource=status -p {}`, true},
		{`patch node/node2 {"metadata":{}}`, true},
	} {
		if got := scenario("-- steps --\nafter 1s\n" + c.step).alone(); got != c.alone {
			t.Errorf("%s: alone %v, want %v", c.step, got, c.alone)
		}
	}
	if s := scenario("-- steps --\nlet victim = pod of web\nstop server of $victim\ncontinue server of $victim\n" +
		"kill server of $victim"); s.alone() {
		t.Error("a Pod's server is its scenario's own")
	}
	for outside, alone := range map[string]bool{"lb --interval 1s": true,
		"families ipv4,ipv6": true, "ingress": false} {
		if got := scenario("-- outside --\n" + outside + "\n-- steps --\nafter 1s").alone(); got != alone {
			t.Errorf("outside %s: alone %v, want %v", outside, got, alone)
		}
	}
}

func TestWhatConcernsThePacketsOfOnePodOnlyIsNotPlayedAlone(t *testing.T) {
	for _, c := range []struct {
		steps string
		alone bool
	}{
		{"let ip = address of $victim\ncut node1 from $ip\nrestore node1", false},
		{"let ip = address of $victim\nflush node1 of $ip", false},
		{"let ip = node of $victim\ncut node1 from $ip\nrestore node1", true},
		{"let ip = address of $victim\ncut node1 from $ip\nrestore node1\ncut node1 from api", true},
	} {
		s, err := Parse("x.txtar", []byte("What it shows.\n-- manifest.yaml --\nkind: Service\n-- steps --\n"+
			"let victim = pod of web\n"+c.steps+"\n-- expect --\nno failure\n"))
		if err != nil {
			t.Fatal(err)
		}
		if s.alone() != c.alone {
			t.Errorf("%q: alone %v, want %v", c.steps, s.alone(), c.alone)
		}
	}
}

func TestTheSandboxIsBroughtUpAnewAfterAllOtherScenarios(t *testing.T) {
	shared := []Step{{Shared: true}}
	together, alone := order([]Scenario{
		{Name: "families", Outside: Outside{Families: bothFamilies}}, {Name: "a"}, {Name: "drain", Steps: shared},
		{Name: "b"}, {Name: "lb", Outside: Outside{Balancer: []string{}}},
	}, 2)
	var names []string
	for _, p := range append(together, alone...) {
		names = append(names, fmt.Sprint(p.Name, p.number))
	}
	if want := []string{"a1", "a2", "b1", "b2", "drain1", "drain2", "lb1", "lb2", "families1",
		"families2"}; !slices.Equal(names, want) || len(together) != 4 {
		t.Errorf("%d together, then alone: %v, want 4 of %v", len(together), names, want)
	}
}

func TestSoManyArePlayedSideBySideAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var now, most int
		var taken []string
		all := []playing{{Scenario: Scenario{Name: "a"}}, {Scenario: Scenario{Name: "b"}},
			{Scenario: Scenario{Name: "c"}}, {Scenario: Scenario{Name: "d"}}, {Scenario: Scenario{Name: "e"}}}
		began := time.Now()
		sideBySide(t.Context(), 2, all, func(p playing) {
			mu.Lock()
			now++
			most = max(most, now)
			taken = append(taken, p.Name)
			mu.Unlock()
			time.Sleep(time.Minute)
			mu.Lock()
			now--
			mu.Unlock()
		})
		slices.Sort(taken)
		if took := time.Since(began); most != 2 || took != 3*time.Minute || strings.Join(taken, "") != "abcde" {
			t.Errorf("%v taken in %v, %d at a time; want all five in 3m, 2 at a time", taken, took, most)
		}
		ctx, cancel := context.WithCancel(t.Context())
		count := 0
		sideBySide(ctx, 1, all, func(playing) {
			count++
			cancel()
			<-ctx.Done()
		})
		if count == len(all) {
			t.Error("after Ctrl-C the rest was played all the same")
		}
	})
}

func TestWhatIsSaidOfOneScenarioIsPrintedInOnePiece(t *testing.T) {
	var out strings.Builder
	var mu sync.Mutex
	a, b := &notebook{out: &out, mu: &mu}, &notebook{out: &out, mu: &mu}
	for i := range 3 {
		fmt.Fprintf(a, "a%d\n", i)
		fmt.Fprintf(b, "b%d\n", i)
	}
	b.print()
	a.print()
	if want := "b0\nb1\nb2\na0\na1\na2\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// fakeKubectl is a cluster whose kubectl is a script.
func fakeKubectl(t *testing.T, script string) *play {
	t.Helper()
	c := &drill.Cluster{Dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(c.Dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "bin", "kubectl"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return &play{scope: scope{cluster: c}, machine: machine{log: io.Discard}}
}

func TestANamespaceIsClearedBeforeItIsTakenAgain(t *testing.T) {
	dir := t.TempDir()
	p := fakeKubectl(t, `printf '%s\n' "$*" >> `+dir+`/said
case "$*" in *"get namespace"*) echo namespace/x;; *broken*) exit 1;; esac
`)
	s := newSpaces(t.Context(), p.cluster, 1)
	first, err := s.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.take(t.Context())
	if err != nil || first == second {
		t.Fatalf("%s and %s, %v: want two of their own", first, second, err)
	}
	s.settle()
	said := func() string {
		data, err := os.ReadFile(filepath.Join(dir, "said"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := strings.Count(said(), "-n "+first+" delete pods --all")
	s.giveBack(t.Context(), first)
	if again, err := s.take(t.Context()); again != first || err != nil {
		t.Fatalf("took %s, %v: want %s", again, err, first)
	}
	if after := strings.Count(said(), "-n "+first+" delete pods --all"); after != before+1 {
		t.Errorf("its Pods were deleted %d times before, %d after:\n%s", before, after, said())
	}
	s.giveBack(t.Context(), "broken")
	if name, err := s.take(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("took %q, %v: a namespace that could not be cleared", name, err)
	}
	s.settle()
}
