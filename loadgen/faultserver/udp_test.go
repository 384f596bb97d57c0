package faultserver

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"lapse/internal/layer"
)

// ask sends a datagram, and returns the reply.
func askUDP(t *testing.T, s *UDPServer, text string, patience time.Duration) (string, error) {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 100)
	n, err := c.Read(reply)
	return string(reply[:n]), err
}

func TestUDPServerFailsAsItIsTold(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const patience = 10 * time.Second
	echo := func(request []byte, good bool) []byte {
		if good {
			return request
		}
		return []byte("no")
	}
	during := func(k Kind) Config {
		return Config{Faults: []Fault{{Kind: k, To: time.Hour, Delay: 10 * time.Millisecond}}}
	}
	for _, test := range []struct {
		name   string
		config Config
		reply  string
		err    error
		acts   int
	}{
		{"well", Config{}, "ping", nil, 0},
		{"another reply", during(Error), "no", nil, 1},
		{"late", during(Slow), "ping", nil, 1},
		{"lost", during(Drop), "", os.ErrDeadlineExceeded, 1},
		{"stalled for a while", Config{Faults: []Fault{{Kind: Stall, To: 3 * time.Second}}}, "ping", nil, 1}, // longer than this machine stands still
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, err := StartUDP(test.config, echo)
			if err != nil {
				t.Fatal(err)
			}
			wait := patience
			if test.err != nil {
				wait = 50 * time.Millisecond
			}
			reply, err := askUDP(t, s, "ping", wait)
			if reply != test.reply || !errors.Is(err, test.err) {
				t.Errorf("%q, %v, want %q, %v", reply, err, test.reply, test.err)
			}
			if err := s.Close(); err != nil || len(s.Acts()) != test.acts || (s.Answered() == 1) != (test.reply == "ping") {
				t.Errorf("%v: %d acts, %d answered", err, len(s.Acts()), s.Answered())
			}
		})
	}
}

func TestUDPServerRefusesAndIsBack(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	s, err := StartUDP(Config{Faults: []Fault{{Kind: Refuse, To: 3 * time.Second}}}, func(request []byte, _ bool) []byte { return request })
	if err != nil {
		t.Fatal(err)
	}
	refused := false
	for len(s.Outages()) == 0 {
		_, err := askUDP(t, s, "ping", 50*time.Millisecond)
		refused = refused || errors.Is(err, syscall.ECONNREFUSED)
	}
	if reply, err := askUDP(t, s, "ping", 10*time.Second); err != nil || reply != "ping" || !refused {
		t.Errorf("afterwards %q, %v; refused before: %v", reply, err, refused)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if o := s.Outages()[0]; o.Open.From < 3*time.Second || o.Close.To > o.Open.From {
		t.Errorf("%+v", o)
	}
}
