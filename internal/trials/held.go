package trials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"lapse/internal/run/coordinator"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
	"lapse/internal/selftest"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// What measureHeld holds, and when the server cuts. The announced ends come by the heartbeats.
const (
	heldConnections = 30
	heldBeat        = time.Second
	heldDuration    = 6 * time.Second
	heldName        = "server"
)

// measureHeld holds connections to a server that cuts every third of them three times, closed or reset, and announces
// the end of some.
func (s *Settings) measureHeld(ctx context.Context, dir string, c console) (*selftest.HeldTrial, error) {
	release, err := saved.ClaimDir(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	clock := timeline.StartClock()
	server, err := faultserver.Start(faultserver.Config{
		T0: clock.T0(), Name: heldName, Number: true,
		Faults: []faultserver.Fault{{
			Kind: faultserver.Goodbye, From: 4500 * time.Millisecond, To: 5500 * time.Millisecond, Every: 4,
		}},
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(c.stderr, "holding connections, and cutting them")
	over := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() { cutOnSchedule(server, clock, over) })
	o := s.Defaults()
	o.Kinds, o.Held, o.Heartbeat = []string{string(timeline.Held)}, heldConnections, heldBeat
	o.Timeout, o.Join = selftest.Timeout, selftest.Join
	o.Baseline, o.Duration = time.Second, heldDuration-time.Second
	var t selftest.HeldTrial
	if err = o.Check([]string{server.URL()}, nil); err == nil {
		place := coordinator.Place{Clock: clock, Dir: dir, Signals: c.signals, Stderr: io.Discard}
		t.Run, err = coordinator.MeasureOn(ctx, o, place)
	}
	close(over)
	cutting.Wait()
	if err := errors.Join(err, server.Close()); err != nil {
		return nil, err
	}
	if t.Run.Run.Aborted != "" {
		return nil, exit.Stopped("the selftest was not finished: %s", t.Run.Run.Aborted)
	}
	t.Cuts, t.Accepted, t.Goodbyes = server.Cuts(), server.Accepted(), map[string]faultserver.Act{}
	for _, act := range server.Acts() {
		if act.Kind == faultserver.Goodbye {
			t.Goodbyes[heldName+"-"+strconv.Itoa(act.Conn)] = act
		}
	}
	return &t, nil
}

// cutOnSchedule cuts connections until over is closed.
func cutOnSchedule(server *faultserver.Server, clock timeline.Clock, over <-chan struct{}) {
	for i, at := range []time.Duration{2 * time.Second, 2800 * time.Millisecond, 3600 * time.Millisecond} {
		timer := time.NewTimer(at - clock.Now())
		select {
		case <-timer.C:
			server.Cut([]faultserver.Kind{faultserver.EOF, faultserver.Reset}[i%2], 3)
		case <-over:
			timer.Stop()
			return
		}
	}
}
