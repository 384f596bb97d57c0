package measure

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"lapse/internal/record"
	"lapse/timeline"
)

// Watchers put templates of Pods as the API server has them: the commands of hooks are recorded without credentials.
func TestHooksAreRecordedWithoutCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "facts.lapse")
		rec, err := record.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		l := Config{Recording: rec}.loop()
		clock := l.Clock
		l.Describe(timeline.Meta{T0: clock.T0()}, timeline.Source{ID: 1, T0: clock.T0()})
		hook := &timeline.Hook{Kind: "exec", Command: "curl -H 'Authorization: Bearer abcdefghijkl' localhost/quit"}
		template := timeline.PodTemplate{Containers: []timeline.Container{{Name: "app", PreStop: hook}}}
		l.Queue.Put(timeline.Event{Kind: timeline.SnapshotTaken, Snapshot: &timeline.Snapshot{Template: &template}})
		l.Absorb()
		l.Prober.Close()
		l.Live.End(nil)
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		recorded := readHook(t, file)
		if strings.Contains(recorded, "abcdefghijkl") || !strings.Contains(recorded, "localhost/quit") {
			t.Errorf("recorded as %q", recorded)
		}
	})
}

// readHook returns the command of the only hook in a recording.
func readHook(t *testing.T, file string) (command string) {
	t.Helper()
	f, err := record.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	facts, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range facts.Events {
		if e.Snapshot != nil {
			command = e.Snapshot.Template.Containers[0].PreStop.Command
		}
	}
	return command
}
