package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"lapse/timeline"
)

// section returns a reader of a file from byte at to byte size.
func section(file io.ReaderAt, at, size int64) io.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(file, at, size-at), 1<<16)
}

// nextBlock returns where the next intact block header is, at byte from or later, and size if there is none.
func nextBlock(file io.ReaderAt, from, size int64) (int64, error) {
	buf := make([]byte, 1<<16)
	for at := from; at < size; {
		n, err := file.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read recording: %w", err)
		}
		if i := headerIn(buf[:n]); i >= 0 {
			return at + int64(i), nil
		}
		if n <= blockHead {
			break
		}
		at += int64(n - blockHead + 1) // a header may begin in the last bytes of buf
	}
	return size, nil
}

// headerIn returns where in buf an intact block header is, or -1.
func headerIn(buf []byte) int {
	for i := 0; ; i++ {
		next := bytes.Index(buf[i:], []byte(mark))
		if next < 0 || i+next+blockHead > len(buf) {
			return -1
		}
		i += next
		if _, ok := payloadSize(buf[i : i+blockHead]); ok {
			return i
		}
	}
}

// An account says what the damaged stretches of a recording held, as far as the blocks around them show.
type account struct {
	order   order
	losses  []loss
	open    bool // nothing was read since the last of losses
	instant time.Duration
}

// A loss is a stretch that cannot be read, or is left out.
type loss struct {
	at, bytes int64
	leftOut   string        // why it is left out; "": it cannot be read
	requests  uint64        // at least so many
	from, to  time.Duration // what was recorded between these is missing; to is 0 where nothing follows
}

// note adds a stretch. It merges stretches in a row.
func (a *account) note(l loss) {
	l.from = a.instant
	if last := len(a.losses) - 1; a.open && last >= 0 && a.losses[last].leftOut == l.leftOut {
		a.losses[last].bytes += l.bytes
		return
	}
	a.losses = append(a.losses, l)
	a.open = true
}

// block takes the facts of an intact block of n bytes. It reports whether they count: facts of a block that does not
// follow on the blocks before are left out.
func (a *account) block(at, n int64, facts []timeline.Fact) bool {
	missed, why := a.order.admit(facts)
	if why != "" {
		a.note(loss{at: at, bytes: n, leftOut: why})
		return false
	}
	if last := len(a.losses) - 1; last >= 0 && a.losses[last].leftOut == "" {
		a.losses[last].requests += missed
	}
	for _, fact := range facts {
		a.read(fact)
	}
	a.close()
	return true
}

// read notes how far in time a fact reaches.
func (a *account) read(fact timeline.Fact) {
	switch f := fact.(type) {
	case timeline.Event:
		a.instant = max(a.instant, f.Seen)
	case timeline.HeldBatch:
		for _, c := range f.Changes {
			a.instant = max(a.instant, c.At)
		}
	case headOnly:
		for _, w := range f.Watermarks {
			a.instant = max(a.instant, w.Due)
		}
	}
}

// close ends a block. What was lost before the block is older than its end.
func (a *account) close() {
	if a.open {
		a.losses[len(a.losses)-1].to = a.instant
	}
	a.open = false
}

// mostNamed is how many losses an error names.
const mostNamed = 3

// error returns an error that says what is missing, or nil.
func (a *account) error() error {
	if len(a.losses) == 0 {
		return nil
	}
	var texts []string
	for _, l := range a.losses[:min(len(a.losses), mostNamed)] {
		texts = append(texts, l.String())
	}
	if more := len(a.losses) - mostNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more places", more))
	}
	return corrupt("%s", strings.Join(texts, "; "))
}

func (l loss) String() string {
	if l.leftOut != "" {
		return fmt.Sprintf("%d bytes from byte %d on are left out: %s", l.bytes, l.at, l.leftOut)
	}
	text := fmt.Sprintf("%d bytes from byte %d on cannot be read, ", l.bytes, l.at)
	if l.requests > 0 {
		text += fmt.Sprintf("with %d requests ", l.requests)
	}
	from, to := l.from.Round(time.Millisecond), l.to.Round(time.Millisecond)
	if l.to == 0 {
		return text + fmt.Sprintf("recorded after %v", from)
	}
	return text + fmt.Sprintf("recorded between %v and %v", from, to)
}
