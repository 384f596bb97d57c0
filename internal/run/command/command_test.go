package command

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/internal/run/facts"
	"lapse/internal/run/screen"
	"lapse/timeline"
)

// runOutput runs a shell command, and returns what it printed, and what of it became events.
func runOutput(t testing.TB, capture bool, script string) (shown string, marked []string) {
	t.Helper()
	var out strings.Builder
	s := screen.New(&out, 0)
	q := facts.NewQueue()
	started := time.Now()
	c := &Wrapped{
		Args: []string{"sh", "-c", script}, Capture: capture, Output: s.Output(),
		Event: func(e timeline.Event) { q.Put(e) }, Now: func() time.Duration { return time.Since(started) },
	}
	done := make(chan int, 1)
	if err := c.Start(func(code int) { done <- code }); err != nil {
		t.Fatal(err)
	}
	<-done
	s.Close(nil)
	for _, f := range q.Take() {
		if e := f.(timeline.Event); e.Kind == timeline.CommandOutput {
			marked = append(marked, e.Detail)
		}
	}
	return out.String(), marked
}

func TestLinesOfAnyLengthGetThrough(t *testing.T) {
	shown, marked := runOutput(t, true, `echo FIRST; head -c 5000000 /dev/zero | tr '\0' a; echo; echo END`)
	if want := "FIRST\n" + strings.Repeat("a", 5000000) + "\nEND\n"; shown != want {
		t.Errorf("%d bytes are shown, want %d", len(shown), len(want))
	}
	if want := []string{"FIRST", strings.Repeat("a", maxLine) + "…", "END"}; !slices.Equal(marked, want) {
		t.Errorf("marked %.100q", marked)
	}
}

// What the command prints is the user's own: colours and commands to a CI runner stay.
func TestOutputIsPassedOnAsItIs(t *testing.T) {
	const text = "\x1b[31mred\x1b[0m ::group::x\r\n10%\r20%\r100%\r\n\nno end"
	shown, marked := runOutput(t, true, `printf '\033[31mred\033[0m ::group::x\r\n10%%\r20%%\r100%%\r\n\nno end'`)
	if shown != text {
		t.Errorf("%q is shown", shown)
	}
	if want := []string{"\x1b[31mred\x1b[0m ::group::x", "100%", "", "no end"}; !slices.Equal(marked, want) {
		t.Errorf("marked %q", marked)
	}
}

func TestOnlyTheFirstLinesAreMarked(t *testing.T) {
	shown, marked := runOutput(t, true, "yes | head -n 20000")
	if strings.Count(shown, "y\n") != 20000 || len(marked) != maxLines || !strings.Contains(marked[maxLines-1], "not recorded") {
		t.Errorf("%d bytes, %d marks", len(shown), len(marked))
	}
}

func TestCutLineShowsNoPartOfACredential(t *testing.T) {
	var marked []string
	lines := outputLines{event: func(text string) { marked = append(marked, text) }}
	lines.add([]byte(strings.Repeat("password=s3cret-s3cret-s3cret-s3cret-s3cret-s3cret-s3cret-s3cret ", 100) + "\n"))
	lines.add([]byte("token: |\n  s3"))
	lines.add([]byte("cret\nend"))
	lines.end()
	if len(marked) != 4 || strings.Contains(strings.Join(marked, ""), "s3cret") || marked[3] != "end" {
		t.Errorf("%q", marked)
	}
}

func BenchmarkHundredMegabytesOfOutput(b *testing.B) {
	chunk := []byte(strings.Repeat("y\n", 32<<10))
	for b.Loop() {
		c := &Wrapped{Capture: true, Output: io.Discard, Event: func(timeline.Event) {}, Now: func() time.Duration { return 0 }}
		c.copyOutput(io.LimitReader(repeated(chunk), 100_000_000))
	}
}

// repeated reads a text over and over.
type repeated []byte

func (r repeated) Read(p []byte) (int, error) { return copy(p, r), nil }

// A line of output is on record when it comes, whoever reads it, and the command's end waits for no reader.
func TestACommandsEndIsOnRecordThoughNobodyReadsItsOutput(t *testing.T) {
	layer.Real(t)
	unread, terminal := io.Pipe()
	defer unread.Close()
	q := facts.NewQueue()
	started := time.Now()
	for _, capture := range []bool{true, false} {
		c := &Wrapped{
			Args: []string{"sh", "-c", "echo one; exit 3"}, Capture: capture, Output: terminal,
			Event: func(e timeline.Event) { q.Put(e) }, Now: func() time.Duration { return time.Since(started) },
		}
		done := make(chan int, 1)
		if err := c.Start(func(code int) { done <- code }); err != nil {
			t.Fatal(err)
		}
		if code := <-done; code != 3 {
			t.Errorf("exit code %d", code)
		}
		var kinds []string
		for _, f := range q.Take() {
			kinds = append(kinds, string(f.(timeline.Event).Kind))
		}
		want := map[bool]string{true: "command command-output command", false: "command command"}[capture]
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("capture %v: on record are %q, want %q", capture, got, want)
		}
	}
}
