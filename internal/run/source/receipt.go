package source

import (
	"fmt"
	"sync"

	"lapse/internal/record"
)

// A Delivery is a recording that another process fetches.
type Delivery struct {
	recording recording
	acked     chan struct{}
	ack       sync.Once
}

type recording interface {
	Size() int64
	Sum() string
}

// NewDelivery returns the delivery of a recording.
func NewDelivery(r recording) *Delivery { return &Delivery{recording: r, acked: make(chan struct{})} }

// Ack notes that the whole recording is safe elsewhere. It returns an error if the receipt is not that of the
// recording.
func (d *Delivery) Ack(r record.Receipt) error {
	ours := record.Receipt{Length: d.recording.Size(), SHA256: d.recording.Sum()}
	if r != ours {
		return fmt.Errorf("the recording has %d bytes with SHA-256 %s, not %d with %s",
			ours.Length, ours.SHA256, r.Length, r.SHA256)
	}
	d.Release()
	return nil
}

// Release notes that the recording need not be fetched any more.
func (d *Delivery) Release() { d.ack.Do(func() { close(d.acked) }) }

// Acked returns a channel that is closed when the recording need not be fetched any more.
func (d *Delivery) Acked() <-chan struct{} { return d.acked }
