package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

func webSocketTo(t *testing.T, w *workload) *websocket.Conn {
	t.Helper()
	conn, resp, err := websocket.DefaultDialer.Dial("ws://"+w.addr+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if got := resp.Header.Get("X-Pod"); got != "web-1" {
		t.Errorf("X-Pod of the upgrade is %q", got)
	}
	conn.SetReadDeadline(time.Now().Add(patience))
	return conn
}

func says(t *testing.T, conn *websocket.Conn, message, want string) {
	t.Helper()
	if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
		t.Fatal(err)
	}
	if _, got, err := conn.ReadMessage(); err != nil || string(got) != want {
		t.Errorf("the echo of %q is %q (%v), want %q", message, got, err, want)
	}
}

func TestWebSocketEchoesAndNamesThePod(t *testing.T) {
	conn := webSocketTo(t, startProcess(t))
	says(t, conn, "ping", "ping")
	says(t, conn, "who", "web-1")
	says(t, webSocketTo(t, startProcess(t, "--echo-name")), "ping", "web-1 ping")
}

func TestWebSocketIsClosedWithAFrameOrCut(t *testing.T) {
	for _, c := range []struct {
		args   []string
		warned bool
	}{
		{[]string{"--on-sigterm", "graceful", "--drain-for", drain.String()}, true},
		{[]string{"--on-sigterm", "graceful", "--drain-for", drain.String(), "--ends", "cut"}, false},
		{[]string{"--on-sigterm", "exit"}, false},
	} {
		t.Run(fmt.Sprint(c.args), func(t *testing.T) {
			t.Parallel()
			w := startProcess(t, c.args...)
			conn := webSocketTo(t, w)
			says(t, conn, "ping", "ping")
			w.terminate(t)
			if c.args[1] == "graceful" {
				says(t, conn, "still", "still")
			}
			_, _, err := conn.ReadMessage()
			closed, warned := errors.AsType[*websocket.CloseError](err)
			if warned {
				warned = closed.Code == websocket.CloseGoingAway && closed.Text == "web-1"
			}
			if err == nil || warned != c.warned {
				t.Errorf("%v, want a close frame: %v", err, c.warned)
			}
			w.ends(t)
		})
	}
}
