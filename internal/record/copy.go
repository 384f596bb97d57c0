package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"

	"lapse/timeline"
)

// A Copy is a recording whose bytes come from elsewhere, over one connection or, when that breaks,
// several. It takes in whole, checked blocks only: at any moment it is a valid recording, and byte for
// byte the beginning of the original.
type Copy struct {
	log   log
	u     *unpacker
	order order
}

// CreateCopy begins a copy in a new file. It never overwrites one, and leaves none behind if it fails.
func CreateCopy(path string) (*Copy, error) {
	f, err := createFile(path)
	if err != nil {
		return nil, err
	}
	u, err := newUnpacker(everything)
	if err != nil {
		return nil, errors.Join(err, abandon(f, path))
	}
	return &Copy{log: newLog(f, path), u: u}, nil
}

// Size is how many bytes were taken in: the offset at which the next connection has to continue.
func (c *Copy) Size() int64 { return c.log.length() }

// Sum is the SHA-256 of those bytes, in hex.
func (c *Copy) Sum() string { return c.log.sum() }

// Check reads the file again, at its path. It returns an error if that does not hold the bytes that were taken in.
func (c *Copy) Check() error { return c.log.check() }

// Receive takes in the bytes of r, which begin at byte Size of the original, and yields their facts.
// A block is in the file before its facts are yielded. It ends as [Decode] does; after
// [ErrTruncated] or an error of the connection, receive again from Size.
func (c *Copy) Receive(r io.Reader) iter.Seq2[timeline.Fact, error] {
	return func(yield func(timeline.Fact, error) bool) {
		in := bufio.NewReaderSize(r, 1<<16)
		if c.Size() == 0 {
			if err := c.receiveHeader(in); err != nil {
				yield(nil, err)
				return
			}
		}
		decodeBlocks(in, c.u, &c.order, c.log.append, yield)
	}
}

func (c *Copy) receiveHeader(r io.Reader) error {
	if err := readHeader(r); err != nil {
		return fmt.Errorf("receive a recording: %w", err)
	}
	return c.log.append(header())
}

// Extend appends facts of one's own, for a recording whose original is lost. From then on it is a copy no more.
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
	c.u.close()
	return c.log.close()
}
