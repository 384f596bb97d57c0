package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"

	"lapse/internal/hint"
	"lapse/timeline"
)

// A Writer appends the facts of a run to a file. Its methods may be called from several goroutines.
//
// After an error in writing, as on a full disk, the file holds its intact prefix and every further
// call returns the same error: a recording has no holes.
type Writer struct {
	mu    sync.Mutex
	log   log
	block *block
	buf   []byte
}

// Create begins a recording in a new file. It never overwrites one, and leaves none behind if it fails.
func Create(path string) (*Writer, error) {
	f, err := createFile(path)
	if err != nil {
		return nil, err
	}
	w, err := newWriter(f, path)
	if err != nil {
		return nil, errors.Join(err, abandon(f, path))
	}
	return w, nil
}

func createFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if errors.Is(err, fs.ErrExist) {
		exists := &FileError{what: path + " already exists", err: err}
		return nil, hint.Add("a recording is never overwritten: name another place, or delete it", exists)
	}
	if err != nil {
		return nil, fmt.Errorf("create a recording: %w", err)
	}
	return f, nil
}

// abandon removes a new file in which no recording could begin, so that nobody takes it for one.
func abandon(f *os.File, path string) error { return errors.Join(f.Close(), os.Remove(path)) }

func newWriter(f file, path string) (*Writer, error) {
	b, err := newBlock()
	if err != nil {
		return nil, err
	}
	w := &Writer{block: b, log: newLog(f, path)}
	if err := w.log.append(header()); err != nil {
		return nil, err
	}
	return w, nil
}

// Append adds a fact. It is in the file after the next Flush, or earlier. For a fact that cannot be recorded, such as a
// rate that is not a number, it returns an error and adds nothing.
func (w *Writer) Append(fact timeline.Fact) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.log.failed(); err != nil {
		return err
	}
	if err := w.block.add(fact); err != nil {
		return err
	}
	if w.block.full() {
		return w.flush()
	}
	return nil
}

// Flush puts everything appended so far into the file, as a complete block. Call it at least once per
// second: what was not flushed is lost if the process is killed.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *Writer) flush() error {
	if err := w.log.failed(); err != nil || w.block.facts == 0 {
		return err
	}
	if now := w.log.length(); w.block.defs.due(now) {
		w.block.repeat(now)
	}
	payload, err := w.block.pack()
	w.block.reset()
	w.block.defs.flushed = len(w.block.defs.facts)
	if err != nil {
		return w.log.fail(err)
	}
	w.buf = appendFrame(w.buf[:0], payload)
	return w.log.append(w.buf)
}

// Close flushes, syncs and closes the file, and ends its tails once they have read it all. A second
// Close does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log.isClosed() {
		return nil
	}
	if defs := &w.block.defs; defs.flushed > defs.repeated && w.log.failed() == nil {
		w.block.repeat(w.log.length())
	}
	err := w.flush()
	if cerr := w.log.close(); err == nil {
		err = cerr
	}
	return err
}

// Size returns the file's length in bytes, up to the last complete block.
func (w *Writer) Size() int64 { return w.log.length() }

// Sum returns the SHA-256 of those bytes, in hex.
func (w *Writer) Sum() string { return w.log.sum() }

// file is what a log needs of an *os.File.
type file interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

// A log is a file that grows by complete blocks, and wakes readers that wait for more.
type log struct {
	path string
	file file

	mu     sync.Mutex
	size   int64
	hash   hash.Hash
	err    error         // what made writing fail, for good
	closed bool          // nothing follows
	grown  chan struct{} // closed at the next change of the above
}

var errClosed = errors.New("the recording is closed")

func newLog(f file, path string) log {
	return log{file: f, path: path, hash: sha256.New(), grown: make(chan struct{})}
}

// append writes one complete block. If that fails, it cuts off the part that was written.
func (l *log) append(block []byte) error {
	if err := l.failed(); err != nil {
		return err
	}
	if _, err := l.file.Write(block); err != nil {
		err = fmt.Errorf("write recording %s: %w", l.path, err)
		if terr := l.file.Truncate(l.length()); terr != nil {
			err = errors.Join(err, fmt.Errorf("cut off its unfinished block: %w", terr))
		}
		return l.fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size += int64(len(block))
	l.hash.Write(block)
	l.wake()
	return nil
}

func (l *log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	l.wake()
	return err
}

// failed returns why nothing can be written any more, or nil.
func (l *log) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && l.closed {
		return errClosed
	}
	return l.err
}

// check compares the file at path with what was written.
func (l *log) check() error {
	f, err := os.Open(l.path)
	if err != nil {
		return fmt.Errorf("read recording: %w", err)
	}
	defer f.Close()
	read := sha256.New()
	if n, err := io.Copy(read, f); err != nil {
		return fmt.Errorf("read recording: %w", err)
	} else if n != l.length() || hex.EncodeToString(read.Sum(nil)) != l.sum() {
		return fmt.Errorf("recording %s is not what was written: something else has changed it", l.path)
	}
	return nil
}

// isThere returns an error if the file is no longer at its path.
func (l *log) isThere() error {
	f, ok := l.file.(*os.File)
	if !ok {
		return nil
	}
	have, err := f.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(l.path); err != nil || !os.SameFile(have, there) {
		return fmt.Errorf("recording %s was removed or replaced while it was written", l.path)
	}
	return nil
}

func (l *log) close() error {
	l.mu.Lock()
	l.closed = true
	l.wake()
	l.mu.Unlock()
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync recording %s: %w", l.path, errors.Join(err, l.file.Close()))
	}
	if err := l.isThere(); err != nil {
		return errors.Join(err, l.file.Close())
	}
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("close recording %s: %w", l.path, err)
	}
	return nil
}

// wake wakes everyone who waits for a change. The caller holds the mutex.
func (l *log) wake() {
	close(l.grown)
	l.grown = make(chan struct{})
}

func (l *log) length() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

func (l *log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func (l *log) sum() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return hex.EncodeToString(l.hash.Sum(nil))
}

// state returns the length of the complete blocks, whether more can follow, and a channel that is closed when either
// changes.
func (l *log) state() (size int64, ended bool, grown <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size, l.closed || l.err != nil, l.grown
}
