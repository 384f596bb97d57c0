package main

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func eventsOf(t *testing.T, w *workload) *http.Response {
	t.Helper()
	resp, err := http.Get("http://" + w.addr + "/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestEventsNameThePodAndComeInTime(t *testing.T) {
	resp := eventsOf(t, startProcess(t, "--events-every", "10ms"))
	if resp.Header.Get("X-Pod") != "web-1" || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("header %v", resp.Header)
	}
	want := "id: 1\ndata: web-1\n\nid: 2\ndata: web-1\n\nid: 3\ndata: web-1\n\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}

func TestEventsEndCompleteOrCutShort(t *testing.T) {
	for _, c := range []struct {
		args  []string
		whole bool
	}{
		{[]string{"--on-sigterm", "graceful", "--drain-for", "100ms"}, true},
		{[]string{"--on-sigterm", "graceful", "--drain-for", "100ms", "--ends", "cut"}, false},
		{[]string{"--on-sigterm", "exit"}, false},
	} {
		w := startProcess(t, append(c.args, "--events-every", "10ms")...)
		resp := eventsOf(t, w)
		stream := bufio.NewReader(resp.Body)
		if first, err := stream.ReadString('\n'); err != nil || first != "id: 1\n" {
			t.Fatalf("%q, %v", first, err)
		}
		w.terminate(t)
		rest, err := io.ReadAll(stream)
		if whole := err == nil && strings.HasSuffix(string(rest), "event: end\ndata: web-1\n\n"); whole != c.whole {
			t.Errorf("%v: the stream ended with %q, %v; want it complete: %v", c.args, rest, err, c.whole)
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%v: %v", c.args, err)
		}
		w.ends(t)
	}
}
