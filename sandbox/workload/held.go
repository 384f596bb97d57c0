package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// held are the connections that live long and carry no request whose answer the server could finish: WebSockets,
// event streams, those of the TCP echo. Each is told when it is to end.
type held struct {
	others atomic.Int64 // connections that another library looks after

	mu     sync.Mutex
	all    []*holding // guarded by mu, as are the following; in the order in which they began
	ending bool
	empty  chan struct{} // closed when the last one has ended; nil while nobody waits
}

// A holding is one such connection.
type holding struct {
	leave chan struct{} // closed when the server is to end it, with a warning
	gone  chan struct{} // closed when it is to be cut
}

// begin adds a connection. One that comes when the others are being ended is ended at once.
func (h *held) begin() *holding {
	c := &holding{leave: make(chan struct{}), gone: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, c)
	if h.ending {
		close(c.leave)
	}
	return c
}

// ended takes a connection out, by whoever it was ended.
func (h *held) ended(c *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = slices.DeleteFunc(h.all, func(other *holding) bool { return other == c })
	if len(h.all) == 0 && h.empty != nil {
		close(h.empty)
		h.empty = nil
	}
}

func (h *held) count() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(h.all)) + h.others.Load()
}

// end has the connections end one by one, over a length of time, and waits until all have.
func (h *held) end(ctx context.Context, over time.Duration) {
	h.mu.Lock()
	there := slices.Clone(h.all)
	h.mu.Unlock()
	begin := time.Now()
	for i, c := range there {
		due := begin.Add(over * time.Duration(i) / time.Duration(len(there)))
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
		}
		close(c.leave)
	}
	h.endAll(ctx, func(c *holding) {
		if !slices.Contains(there, c) { // it came meanwhile
			close(c.leave)
		}
	})
}

// cut has all connections cut.
func (h *held) cut() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	h.endAll(ctx, func(c *holding) { close(c.gone) })
}

// endAll does something to each connection, and waits until all have ended.
func (h *held) endAll(ctx context.Context, do func(*holding)) {
	h.mu.Lock()
	h.ending = true
	empty := make(chan struct{})
	if len(h.all) == 0 {
		close(empty)
	} else {
		h.empty = empty
	}
	for _, c := range h.all {
		do(c)
	}
	h.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}
