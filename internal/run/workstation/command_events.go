package workstation

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"lapse/deploy/agent"
	"lapse/timeline"
)

// commandEvents holds the events of the wrapped command, in order. They are sent to the agent, and come back in the
// recording.
type commandEvents struct {
	mu   sync.Mutex
	all  []commandEvent
	made chan struct{} // holds a token while there may be new ones
}

func newCommandEvents() *commandEvents { return &commandEvents{made: make(chan struct{}, 1)} }

// A commandEvent is an event with its instant on this machine's clock. It is put on the run's clock late, by
// comparisons of clocks before and after it.
type commandEvent struct {
	event timeline.Event
	stamp stamp
}

func (c *commandEvents) put(made commandEvent) {
	c.mu.Lock()
	c.all = append(c.all, made)
	c.mu.Unlock()
	select {
	case c.made <- struct{}{}:
	default:
	}
}

// from returns the events from the nth on.
func (c *commandEvents) from(n int) []commandEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all[min(n, len(c.all)):])
}

// detectionLag is the longest time from an action of the command until this machine stamps it, see
// docs/decisions/0004-placing-events.md.
const detectionLag = time.Second

// sendLater stamps an event of the command and queues it for the agent.
func (r *clusterRun) sendLater(e timeline.Event) {
	if e.Kind == timeline.Command && r.screen != nil {
		shown := e
		shown.Seen = r.clock.now() - (r.clock.local.Now() - e.Seen)
		r.screen.ShowEvent(shown) // the event comes back with the recording, but later
	}
	r.events.put(commandEvent{e, r.clock.stamp(e.Seen-detectionLag, e.Seen)})
}

// placed puts events on the run's clock.
func (c *runClock) placed(made []commandEvent) []timeline.Event {
	events := make([]timeline.Event, len(made))
	for i, e := range made {
		events[i] = e.event
		events[i].Since, events[i].Seen = c.place(e.stamp)
	}
	return events
}

const (
	// eventsAtOnce is the number of events in one request, far below what the Pod takes.
	eventsAtOnce = 500
	// betweenSends is how long events are collected before the next request: the clocks are compared for each.
	betweenSends = time.Second
)

// sendEvents sends the command's events to the agent in order, and then the end of the command. ended gets the reason
// why the command was stopped, or "".
func (r *clusterRun) sendEvents(ctx context.Context, ended <-chan string) {
	var stopped string
	var broken error
	for sent, last := 0, false; !last; {
		select {
		case <-r.events.made:
		case stopped = <-ended:
			last = true
		case <-ctx.Done():
			return
		}
		events := r.events.from(sent)
		sent += len(events)
		for part := range slices.Chunk(events, eventsAtOnce) {
			if broken != nil {
				break // the end of the command is still sent
			}
			if broken = r.sendPlaced(ctx, part); broken != nil {
				warnUnlessGone(ctx, r.log, "what the command does cannot be sent to the Pod", broken)
			}
		}
		if last || len(events) == 0 {
			continue
		}
		select {
		case stopped = <-ended:
			ended = holding(stopped)
		case <-time.After(betweenSends):
		case <-ctx.Done():
		}
	}
	if err := r.client.Settle(ctx, stopped); err != nil {
		warnUnlessGone(ctx, r.log, "the end of the command could not be reported to the Pod", err)
	}
}

// sendPlaced sends events once the clocks were compared after the last of them.
func (r *clusterRun) sendPlaced(ctx context.Context, events []commandEvent) error {
	if err := r.clock.compareSince(ctx, events[len(events)-1].stamp.latest, r.client.SyncClock); err != nil {
		return err
	}
	return r.client.Send(ctx, r.clock.placed(events)...)
}

// holding returns a channel that delivers a received value again.
func holding(what string) <-chan string {
	again := make(chan string, 1)
	again <- what
	return again
}

// warnUnlessGone logs an error of the connection, unless the run is over.
func warnUnlessGone(ctx context.Context, log *slog.Logger, what string, err error) {
	if _, gone := errors.AsType[*agent.GoneError](err); !gone && ctx.Err() == nil {
		log.Warn(what, "error", err)
	}
}
