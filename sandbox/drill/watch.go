package drill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A Change is what a watch says of one object.
type Change struct {
	Seen   time.Time       // when it was read
	Type   string          // ADDED, MODIFIED or DELETED
	Object json.RawMessage // as it is now; if it was DELETED, as it was last
}

// Watch follows objects by `kubectl get ARGS --watch` and calls saw with each change, one after the other. The
// objects that are there come first, as ADDED; there must be at least one, for Watch returns when it has come. end
// ends the watch, and must be called: after it, saw is not called any more. Its error is of a watch that had ended by
// itself.
func (c *Cluster) Watch(ctx context.Context, saw func(Change), args ...string) (end func() error, err error) {
	args = append(append([]string{"get"}, args...), "--watch", "--output-watch-events", "--output", "json")
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, filepath.Join(c.Dir, "bin", "kubectl"), args...)
	cmd.Env, cmd.Stderr = c.Env(), c.Log
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	first, read := make(chan struct{}), make(chan error, 1)
	go func() {
		begun := sync.OnceFunc(func() { close(first) })
		read <- readChanges(out, func(change Change) {
			saw(change)
			begun()
		})
	}()
	stop := func(early bool, err error) error {
		cancel()
		waited := cmd.Wait()
		if early {
			return fmt.Errorf("kubectl %s ended: %w",
				strings.Join(args, " "), cmp.Or(err, waited, io.ErrUnexpectedEOF))
		}
		return nil // it was killed
	}
	select {
	case <-first:
	case err := <-read:
		return nil, stop(true, err)
	}
	return sync.OnceValue(func() error {
		select {
		case err := <-read:
			return stop(true, err)
		default:
		}
		cancel()
		return stop(false, <-read)
	}), nil
}

// readChanges reads what `kubectl get --watch --output-watch-events --output json` prints, until its end.
func readChanges(r io.Reader, saw func(Change)) error {
	in := json.NewDecoder(r)
	for {
		var c Change
		if err := in.Decode(&c); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read what kubectl prints: %w", err)
		}
		c.Seen = time.Now()
		saw(c)
	}
}
