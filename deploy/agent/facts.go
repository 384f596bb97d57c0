package agent

import (
	"context"
	"io"
	"iter"
	"sync"

	"lapse/timeline"
)

// A Decode function reads the facts of a recording.
type Decode func(io.Reader) iter.Seq2[timeline.Fact, error]

// FollowFacts puts the facts of the recording, as decode reads them, until the run has ended. The error is the reason
// for an incomplete recording. A broken connection is opened again where it broke.
func (c *Client) FollowFacts(ctx context.Context, decode Decode, put func(timeline.Fact)) error {
	pr, pw := io.Pipe()
	var copying sync.WaitGroup
	defer copying.Wait()
	copying.Go(func() {
		_, err := c.Follow(ctx, pw)
		pw.CloseWithError(err)
	})
	for fact, err := range decode(pr) {
		if err != nil {
			pr.CloseWithError(err) // nothing more is read
			return err
		}
		put(fact)
	}
	return nil
}
