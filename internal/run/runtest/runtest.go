// Package runtest helps the tests of runs: it lets them read what several goroutines write.
package runtest

import (
	"bytes"
	"sync"
)

// A Buffer may be written to and read by several goroutines at once. The zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
