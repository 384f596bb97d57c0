//go:build !linux

package loadgen

import (
	"errors"
	"net"
	"time"
)

// A poller exists on Linux only.
type poller struct{}

func newPoller() (*poller, error) { return nil, errors.ErrUnsupported }

func (*poller) wait(_ time.Duration, arrived []polledConn) []polledConn { return arrived }

func (*poller) waitForEnds(time.Duration) {}

func (*poller) close() []polledConn { return nil }

func (*poller) polled(*net.TCPConn, func()) (*polledSocket, error) { return nil, errors.ErrUnsupported }

func (*poller) watch(*polledSocket, polledConn) error { return errors.ErrUnsupported }

type polledSocket struct {
	*net.TCPConn
	poller *poller
}

func (*polledSocket) receive([]byte) (n int, stamp int64, err error) {
	return 0, 0, errors.ErrUnsupported
}

func (*polledSocket) giveBack() (*net.TCPConn, error) { return nil, errors.ErrUnsupported }
