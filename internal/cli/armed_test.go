package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/internal/layer"
	"lapse/internal/run/runtest"
	"lapse/timeline"
)

// A run of a Service waits until one of its endpoints changes, has the endpoints and Pods from before, and ends when
// the Pod that was replaced is gone.
func TestAnArmedRunBeginsWithAChangeInTheCluster(t *testing.T) {
	layer.Real(t)
	shop, kubeconfig := startLivingShop(t)
	var helping sync.WaitGroup
	defer helping.Wait()
	said, stderr := io.Pipe()
	helping.Go(func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			t.Log(lines.Text())
			if strings.HasPrefix(lines.Text(), "armed:") {
				helping.Go(shop.replace)
			}
		}
	})
	dir := filepath.Join(t.TempDir(), "run")
	var stdout bytes.Buffer
	code := Main(t.Context(), []string{"lapse", "run", fmt.Sprintf("http://127.0.0.1:%d", shop.port), "--watch=svc/web",
		"-n=living", "--kubeconfig=" + kubeconfig, "--armed", "--rate=50", "--idle-rate=10", "--settle=2s", "--out=" + dir}, &stdout, stderr)
	stderr.Close()
	if code != 0 && code != 4 {
		t.Fatalf("exit code %d: %s", code, &stdout)
	}
	tl := runtest.Timeline(t, dir)
	of := func(is func(model.Event) bool) model.Event {
		i := slices.IndexFunc(tl.Events, is)
		if i < 0 {
			t.Fatalf("no such event: %+v", tl.Events)
		}
		return tl.Events[i]
	}
	begun := of(func(e model.Event) bool { return e.Enters(timeline.PhaseMeasuring) })
	if begun.Detail != "first sign: the endpoint of web-2 turned from absent to ready" {
		t.Errorf("it began with %q", begun.Detail)
	}
	if first := of(func(e model.Event) bool { return e.Kind == timeline.EndpointChanged }); first.Object.Name != "web-1" || first.Seen > begun.Seen {
		t.Errorf("the first endpoint is %+v: want that from before", first)
	}
	gone := of(func(e model.Event) bool { return e.Kind == timeline.PodGone })
	if after := tl.Run.Duration - gone.Seen; after < 2*time.Second || after > 10*time.Second || tl.Run.Aborted != "" {
		t.Errorf("it ended %v after web-1 was gone: %q", after, tl.Run.Aborted)
	}
	for _, target := range tl.Targets {
		if target.Kind.Judged() && (target.Failed > 0 || target.Rerated == nil || target.Rate != 50) {
			t.Errorf("%s: %d failed at %v/s, %+v", target.Name, target.Failed, target.Rate, target.Rerated)
		}
	}
}
