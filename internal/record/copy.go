package record

import (
	"bufio"
	"fmt"
	"io"
	"iter"

	"lapse/timeline"
)

// A Copy is a recording whose bytes come from elsewhere, over one connection or, if that breaks, several. It takes only
// whole, checked blocks: at any moment it is a valid recording, and the same bytes as the beginning of the original.
type Copy struct {
	log   log
	u     unpacker
	order order
}

// CreateCopy begins a copy in a new file. It never overwrites one, and leaves none behind if it fails.
func CreateCopy(path string) (*Copy, error) {
	f, err := createFile(path)
	if err != nil {
		return nil, err
	}
	return &Copy{log: newLog(f, path)}, nil
}

// Size returns the number of bytes so far: the offset at which the next connection must continue.
func (c *Copy) Size() int64 { return c.log.length() }

// Sum returns the SHA-256 of those bytes, in hex.
func (c *Copy) Sum() string { return c.log.sum() }

// Check reads the file again, at its path. It returns an error if the file does not hold the bytes received.
func (c *Copy) Check() error { return c.log.check() }

// Receive copies the bytes of r, which begin at byte Size of the original, and yields their facts. A block is in the
// file before its facts are yielded. It ends as [Decode] does; after [ErrTruncated] or an error of the connection,
// receive again from Size.
func (c *Copy) Receive(r io.Reader) iter.Seq2[timeline.Fact, error] {
	return func(yield func(timeline.Fact, error) bool) {
		in := bufio.NewReaderSize(r, 1<<16)
		if c.Size() == 0 {
			if err := c.receiveHeader(in); err != nil {
				yield(nil, err)
				return
			}
		}
		decodeBlocks(in, &c.u, &c.order, c.log.append, yield)
	}
}

func (c *Copy) receiveHeader(r io.Reader) error {
	if err := readHeader(r); err != nil {
		return fmt.Errorf("receive a recording: %w", err)
	}
	return c.log.append(header())
}

// Extend appends other facts, for a recording whose original is lost. After that it is not a copy any more.
func (c *Copy) Extend(facts ...timeline.Fact) error {
	if c.Size() == 0 {
		if err := c.log.append(header()); err != nil {
			return err
		}
	}
	if err := c.order.follows(facts); err != nil {
		return err
	}
	b, err := newBlock()
	if err != nil {
		return err
	}
	for _, fact := range facts {
		if err := b.add(fact); err != nil {
			return err
		}
	}
	payload, err := b.pack()
	if err != nil {
		return err
	}
	return c.log.append(appendFrame(nil, payload))
}

// Close syncs and closes the file. A second Close does nothing.
func (c *Copy) Close() error {
	if c.log.isClosed() {
		return nil
	}
	return c.log.close()
}
