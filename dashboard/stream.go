package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	maxMessage = 256 << 10        // bytes of values in one delta
	compressed = 4 << 10          // bytes from which on a message is compressed, if the viewer can read that
	heartbeat  = 5 * time.Second  // the longest time without a message
	pingEvery  = 10 * time.Second // how often a viewer is asked to show that it reads
	pongWithin = 30 * time.Second // a viewer that showed no life for so long is gone

	firstPing   = time.Second     // when a viewer is first asked
	silentAfter = 2 * time.Second // a ping unanswered for longer: the viewer's place may go to another one
	leaveTime   = 2 * time.Second // how long a newcomer waits for that place
)

var upgrader = websocket.Upgrader{
	// CheckOrigin is nil: gorilla then refuses a page of another origin.
	HandshakeTimeout: 5 * time.Second,
	ReadBufferSize:   1 << 10,
	WriteBufferSize:  4 << 10,
	WriteBufferPool:  &sync.Pool{},

	EnableCompression: true, // of long messages: see write
}

// serveStream sends a viewer the changes of the store until either side ends it.
func (s *server) serveStream(w http.ResponseWriter, r *http.Request) {
	from, err := parsePosition(r)
	if err != nil {
		http.Error(w, "since is not a sequence number", http.StatusBadRequest)
		return
	}
	if !s.admit(r.Context()) {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many viewers", http.StatusServiceUnavailable)
		return
	}
	defer s.release()
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	v := &viewer{conn: conn, store: s.store, at: from, interval: s.interval, writeTimeout: s.writeTimeout, leave: leave}
	s.enter(v)
	defer s.gone(v)
	v.run(ctx)
}

// parsePosition reads from where the viewer wants to go on; without an epoch, from the beginning.
func parsePosition(r *http.Request) (position, error) {
	query := r.URL.Query()
	p := position{epoch: query.Get("epoch")}
	if p.epoch == "" || !query.Has("since") {
		return position{}, nil
	}
	var err error
	p.seq, err = strconv.ParseUint(query.Get("since"), 10, 64)
	return p, err
}

// A viewer is one open stream.
type viewer struct {
	conn         *websocket.Conn
	store        *Store
	at           position
	interval     time.Duration
	writeTimeout time.Duration
	leave        func() // makes it go

	pinged atomic.Int64 // when the first ping went out that is unanswered, in nanoseconds since 1970; 0 if none is
}

// ping asks the viewer to show that it reads.
func (v *viewer) ping(now time.Time) error {
	v.pinged.CompareAndSwap(0, now.UnixNano())
	return v.conn.WriteControl(websocket.PingMessage, nil, now.Add(v.writeTimeout))
}

// unanswered is for how long the viewer has not answered a ping.
func (v *viewer) unanswered() time.Duration {
	at := v.pinged.Load()
	if at == 0 {
		return 0
	}
	return time.Since(time.Unix(0, at))
}

// run serves the viewer until it leaves, stops reading or ctx ends, and closes its connection.
func (v *viewer) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() {
		defer cancel()
		v.listen()
	})
	others.Go(func() {
		<-ctx.Done()
		v.close()
	})
	v.send(ctx)
	cancel()
	others.Wait()
}

// close says goodbye if the viewer still takes it, and unblocks whoever waits for the connection.
func (v *viewer) close() {
	bye := websocket.FormatCloseMessage(websocket.CloseGoingAway, "")
	_ = v.conn.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
	_ = v.conn.Close()
}

// listen returns when the viewer closes, breaks the protocol or shows no life.
func (v *viewer) listen() {
	alive := func(string) error {
		v.pinged.Store(0)
		return v.conn.SetReadDeadline(time.Now().Add(pongWithin))
	}
	v.conn.SetReadLimit(1 << 10)
	v.conn.SetPongHandler(alive)
	_ = alive("")
	_, _, _ = v.conn.NextReader() // a viewer has nothing to say: a message ends it like an error does
}

// send passes on the store's changes, coalesced to one message per interval.
func (v *viewer) send(ctx context.Context) {
	tick := time.NewTicker(v.interval)
	defer tick.Stop()
	var sent time.Time // never: the first message goes out at once
	pinged := time.Now().Add(firstPing - pingEvery)
	for ctx.Err() == nil {
		delta := v.store.next(&v.at, maxMessage)
		now := time.Now()
		if !delta.Empty() || now.Sub(sent) >= heartbeat {
			if v.write(delta) != nil {
				return
			}
			sent = now
		}
		if now.Sub(pinged) >= pingEvery {
			if v.ping(now) != nil {
				return
			}
			pinged = now
		}
		if delta.More {
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// write sends one delta, and gives up after the write timeout.
func (v *viewer) write(d Delta) error {
	message, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := v.conn.SetWriteDeadline(time.Now().Add(v.writeTimeout)); err != nil {
		return err
	}
	v.conn.EnableWriteCompression(len(message) >= compressed)
	return v.conn.WriteMessage(websocket.TextMessage, message)
}
