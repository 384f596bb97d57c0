package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"lapse/internal/record"
	"os"
	"sync"
)

// A Recording lets readers follow a file that is still being written: the agent's side of
// GET /v1/facts. The writer never waits for a reader.
type Recording struct {
	path string

	mu      sync.Mutex
	size    int64         // bytes that may be read
	ended   bool          // size is final
	sha256  string        // of the whole, once ended
	changed chan struct{} // closed when any of the above changes
}

// NewRecording returns a recording in the file at path, of which nothing may be read yet.
func NewRecording(path string) *Recording {
	return &Recording{path: path, changed: make(chan struct{})}
}

// Grow tells readers that the first size bytes of the file are there to be read: whole blocks only.
func (r *Recording) Grow(size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || size <= r.size {
		return
	}
	r.size = size
	r.announce()
}

// End tells readers that the file is complete, and returns what it came to.
func (r *Recording) End() (record.Receipt, error) {
	length, sum, err := hashFile(r.path)
	if err != nil {
		return record.Receipt{}, fmt.Errorf("hash the recording: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size, r.sha256, r.ended = length, sum, true
	r.announce()
	return record.Receipt{Length: length, SHA256: sum}, nil
}

// Receipt returns what can be read now. The checksum is empty until the recording has ended.
func (r *Recording) Receipt() record.Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return record.Receipt{Length: r.size, SHA256: r.sha256}
}

func (r *Recording) announce() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Recording) state() (size int64, ended bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size, r.ended, r.changed
}

// Facts returns a reader of the recording from offset on. It waits for more until the recording
// has ended (io.EOF) or ctx has (its error). An offset beyond what there is is an error.
func (r *Recording) Facts(ctx context.Context, offset int64) (io.ReadCloser, error) {
	if size, _, _ := r.state(); offset > size {
		return nil, fmt.Errorf("offset %d is beyond the recording's %d bytes", offset, size)
	}
	return &follower{ctx: ctx, recording: r, offset: offset}, nil
}

// A follower lives as long as one request, whose context it therefore holds.
type follower struct {
	ctx       context.Context
	recording *Recording
	file      *os.File // nil until there is something to read
	offset    int64
}

func (f *follower) Read(p []byte) (int, error) {
	for {
		size, ended, changed := f.recording.state()
		if f.offset < size {
			return f.readUpTo(size, p)
		}
		if ended {
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-f.ctx.Done():
			return 0, context.Cause(f.ctx)
		}
	}
}

func (f *follower) readUpTo(size int64, p []byte) (int, error) {
	if f.file == nil {
		file, err := os.Open(f.recording.path)
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	n, err := f.file.ReadAt(p[:min(int64(len(p)), size-f.offset)], f.offset)
	f.offset += int64(n)
	if err == io.EOF && n == 0 {
		return 0, io.ErrUnexpectedEOF // the file is shorter than was said
	}
	if err == io.EOF {
		err = nil
	}
	return n, err
}

func (f *follower) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

func hashFile(path string) (length int64, sum string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	hash := sha256.New()
	length, err = io.Copy(hash, file)
	return length, hex.EncodeToString(hash.Sum(nil)), err
}
