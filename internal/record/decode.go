package record

import (
	"bufio"
	"errors"
	"io"
	"iter"

	"lapse/timeline"
)

// Decode yields the facts of a recording as its bytes arrive. It ends without an error where the
// stream ends after a complete block, with [ErrTruncated] where it ends inside one, with [ErrCorrupt]
// at the first damaged block, or with the reader's error. An error is yielded once, with a nil fact.
// A [File] reads on behind damage.
func Decode(r io.Reader) iter.Seq2[timeline.Fact, error] {
	return func(yield func(timeline.Fact, error) bool) {
		in := bufio.NewReaderSize(r, 1<<14)
		if err := readHeader(in); err != nil {
			yield(nil, err)
			return
		}
		decodeBlocks(in, &unpacker{}, &order{}, nil, yield)
	}
}

// A yield receives the facts of a recording, or an error. It returns false to end.
type yield = func(timeline.Fact, error) bool

// decodeBlocks yields the facts of the blocks in r. Before it yields those of a block it hands the
// block's bytes to keep, if there is one. A block that does not follow on those before, by order, is damage.
func decodeBlocks(r io.Reader, u *unpacker, order *order, keep func([]byte) error, yield yield) {
	for {
		facts, err := u.next(r)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = order.follows(facts)
		}
		if err == nil && keep != nil {
			err = keep(u.frame)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for _, fact := range facts {
			if !yield(fact, nil) {
				return
			}
		}
	}
}
