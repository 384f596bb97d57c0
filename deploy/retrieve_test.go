package deploy

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writes returns what writes a text.
func writes(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}

func logged(t *testing.T, timeline string) string {
	t.Helper()
	var log bytes.Buffer
	if err := WriteTimeline(&log, writes([]byte(timeline))); err != nil {
		t.Fatal(err)
	}
	return log.String()
}

func TestTimelineComesBackFromALog(t *testing.T) {
	noise := make([]byte, 100_000)
	rand.Read(noise)
	for _, timeline := range []string{"", "{}", strings.Repeat(`{"kind":"outage"},`, 100_000), string(noise)} {
		log := logged(t, timeline)
		for line := range strings.SplitSeq(log, "\n") {
			if len(line) > 5000 {
				t.Errorf("a line has %d bytes", len(line))
			}
		}
		got, err := ParseTimeline(strings.NewReader(log))
		if err != nil || string(got) != timeline {
			t.Errorf("%d bytes came back as %d: %v", len(timeline), len(got), err)
		}
	}
}

func TestTimelineIsFoundAmongTalk(t *testing.T) {
	noise := make([]byte, 20_000)
	rand.Read(noise)
	log := logged(t, string(noise))
	log = "time=1 level=INFO msg=begun\n" + strings.ReplaceAll(log, "\n", "\ndone\nlevel=INFO msg=between\n") + "bye"
	if got, err := ParseTimeline(strings.NewReader(log)); err != nil || !bytes.Equal(got, noise) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestLastTimelineCounts(t *testing.T) {
	log := logged(t, "first") + logged(t, "second") + logged(t, "third")[:50]
	if got, err := ParseTimeline(strings.NewReader(log)); err != nil || string(got) != "second" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDamagedTimelineIsNoTimeline(t *testing.T) {
	noise := make([]byte, 20_000)
	rand.Read(noise)
	whole := logged(t, string(noise))
	lines := strings.SplitAfter(whole, "\n")
	swapped := strings.Join(append(append([]string{}, lines[0], lines[1], lines[3], lines[2]), lines[4:]...), "")
	for name, log := range map[string]string{
		"no log":        "",
		"talk":          "level=INFO msg=begun\n",
		"cut off":       whole[:len(whole)-40],
		"begins late":   whole[5000:],
		"line missing":  strings.Join(append(append([]string{}, lines[:2]...), lines[3:]...), ""),
		"lines swapped": swapped,
		"no header":     lines[0] + strings.Join(lines[2:], ""),
		"not base64":    strings.Replace(whole, "| ", "| !", 3),
		"empty block":   lines[0] + lines[len(lines)-2],
	} {
		if got, err := ParseTimeline(strings.NewReader(log)); err == nil {
			t.Errorf("%s: got %d bytes", name, len(got))
		}
	}
}

func TestTimelineTooLargeForALogIsNotBegun(t *testing.T) {
	noise := make([]byte, maxLogged)
	rand.Read(noise)
	var log bytes.Buffer
	if err := WriteTimeline(&log, writes(noise)); !errors.Is(err, errTooLarge) || log.Len() > 0 {
		t.Errorf("wrote %d bytes, %v", log.Len(), err)
	}
}

func TestTerminationMessageIsTheLongestFormThatFits(t *testing.T) {
	long := strings.Repeat("x", maxTermination)
	if got, err := terminationMessage(long, map[string]string{"result": "fail"}); err != nil || string(got) != `{"result":"fail"}` {
		t.Errorf("got %s, %v", got, err)
	}
	fits := strings.Repeat("x", maxTermination-2) // and its quotes
	if got, err := terminationMessage(fits, "short"); err != nil || len(got) != maxTermination {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := terminationMessage(long); err == nil {
		t.Error("what does not fit was accepted")
	}
}

func TestTerminationMessageReplacesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(path, []byte("something longer than the verdict"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := WriteTermination(path, map[string]string{"result": "pass"}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != `{"result":"pass"}` {
		t.Errorf("file holds %s", got)
	}
}

// Whatever else a log holds, a timeline in it comes back as it was, and what is no timeline is an error.
func FuzzTimelineComesBackFromAnyLog(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2}`), "time=1 level=INFO msg=begun", "bye")
	f.Add([]byte{}, beginTimeline+"\n| length=1 sha256=0", endTimeline)
	f.Add([]byte("x"), beginTimeline+"\n| !\n"+endTimeline, "| \r\n| x")
	f.Fuzz(func(t *testing.T, timeline []byte, before, after string) {
		if got, err := ParseTimeline(strings.NewReader(before)); err != nil && got != nil {
			t.Errorf("an error and %d bytes: %v", len(got), err)
		}
		if strings.Contains(after, beginTimeline) {
			return // the last one counts
		}
		got, err := ParseTimeline(strings.NewReader(before + "\n" + logged(t, string(timeline)) + after))
		if err != nil || !bytes.Equal(got, timeline) {
			t.Errorf("%d bytes came back as %d: %v", len(timeline), len(got), err)
		}
	})
}
