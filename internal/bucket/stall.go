package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// stall is how long nothing may move. A large object may take longer on a slow network.
const stall = time.Minute

var errStalled = fmt.Errorf("nothing moved for %v", stall)

// A watch ends a request of which nothing moves.
type watch struct {
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func watchStalls(ctx context.Context) *watch {
	w := &watch{}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(stall, func() { w.cancel(errStalled) })
	return w
}

// end ends the watch, and returns why the request failed, if it did.
func (w *watch) end(err error) error {
	w.timer.Stop()
	if why := context.Cause(w.ctx); err != nil && errors.Is(why, errStalled) {
		err = why
	}
	w.cancel(nil)
	return err
}

// A moving is a body that moves with each read.
type moving struct {
	io.Reader
	w *watch
}

func (m moving) Read(p []byte) (n int, err error) {
	if n, err = m.Reader.Read(p); n > 0 {
		m.w.timer.Reset(stall)
	}
	return n, err
}

// An answer is the body of one, with whose end the watch ends.
type answer struct {
	moving
	body io.Closer
}

func (a answer) Read(p []byte) (n int, err error) {
	n, err = a.moving.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = a.w.end(err)
	}
	return n, err
}

func (a answer) Close() error {
	err := a.body.Close()
	return errors.Join(err, a.w.end(nil))
}
