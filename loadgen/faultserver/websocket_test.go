package faultserver

import (
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// gorilla's client understands the server, and meets the faults for what they are.
func TestWebSocketIsWhatItSays(t *testing.T) {
	tests := []struct {
		kind  Kind
		pongs int // of two pings
		code  int // of the close frame; 1006 is none
	}{
		{"", 2, 0},
		{Goodbye, 1, websocket.CloseGoingAway},
		{Error, 0, websocket.CloseInternalServerErr},
		{Truncate, 0, websocket.CloseAbnormalClosure},
		{EOF, 0, websocket.CloseAbnormalClosure},
		{Reset, 0, 0},
	}
	for _, test := range tests {
		t.Run(string(test.kind), func(t *testing.T) {
			config := Config{Protocol: "ws", Name: "pod-a", Faults: []Fault{{Kind: test.kind, To: time.Hour}}}
			if test.kind == "" {
				config.Faults = nil
			}
			s, err := Start(config)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c, answer, err := websocket.DefaultDialer.Dial(s.URL(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("X-Pod") != "pod-a" {
				t.Errorf("%d by %q", answer.StatusCode, answer.Header.Get("X-Pod"))
			}
			pongs := 0
			ping := func() error {
				return c.WriteControl(websocket.PingMessage, []byte{'p', byte(pongs)}, time.Now().Add(time.Minute))
			}
			c.SetPongHandler(func(payload string) error {
				if payload != string([]byte{'p', byte(pongs)}) {
					t.Errorf("pong %q", payload)
				}
				pongs++
				if pongs == 2 {
					return c.NetConn().Close()
				}
				_ = ping() // it may have gone away
				return nil
			})
			if err := ping(); err != nil {
				t.Fatal(err)
			}
			_, _, err = c.NextReader()
			if pongs != test.pongs || err == nil || test.code != 0 && !websocket.IsCloseError(err, test.code) {
				t.Errorf("%d pongs, %v", pongs, err)
			}
		})
	}
}

func TestWebSocketFramesThatAreNotMaskedEndTheConnection(t *testing.T) {
	s, err := Start(Config{Protocol: "ws"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, _, err := websocket.DefaultDialer.Dial(s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.NetConn().Write(frame(pingFrame, []byte("ping"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.NextReader(); err == nil || s.Answered() != 0 {
		t.Errorf("%d answered, %v", s.Answered(), err)
	}
}
