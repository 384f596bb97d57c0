//go:build !linux

package polled

import (
	"errors"
	"net"
	"time"
)

// A poller exists on Linux only.
type poller struct{}

func newPoller() (*poller, error) { return nil, errors.ErrUnsupported }

func (*poller) wait(_ time.Duration, arrived []Conn) []Conn { return arrived }

func (*poller) waitForEnds(time.Duration) {}

func (*poller) close() []Conn { return nil }

func (*poller) polled(*net.TCPConn, func()) (*Socket, error) { return nil, errors.ErrUnsupported }

func (*poller) watch(*Socket, Conn) error { return errors.ErrUnsupported }

// A Socket exists on Linux only.
type Socket struct{ *net.TCPConn }

// Receive is not supported.
func (*Socket) Receive([]byte) (n int, stamp int64, err error) { return 0, 0, errors.ErrUnsupported }

// GiveBack is not supported.
func (*Socket) GiveBack() (*net.TCPConn, error) { return nil, errors.ErrUnsupported }
