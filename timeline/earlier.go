package timeline

import "time"

// Earlier returns the event as a clock has it whose zero is later by so much. It may have happened before that zero.
func (e Event) Earlier(by time.Duration) Event {
	e.Seen -= by
	if e.Since != 0 {
		if e.Since -= by; e.Since == 0 { // that would be no lower bound
			e.Since = -time.Microsecond
		}
	}
	return e
}

// Earlier returns a copy of the batch as a clock has it whose zero is later by so much.
func (b Batch) Earlier(by time.Duration) Batch {
	requests := make([]Request, len(b.Requests))
	for i, q := range b.Requests {
		q.Due, q.Sent, q.Done = q.Due-by, q.Sent-by, q.Done-by
		requests[i] = q
	}
	marks := make([]Watermark, len(b.Watermarks))
	for i, w := range b.Watermarks {
		marks[i] = Watermark{Target: w.Target, Due: w.Due - by}
	}
	b.Requests, b.Watermarks = requests, marks
	return b
}

// Earlier returns a copy of the batch as a clock has it whose zero is later by so much.
func (b HeldBatch) Earlier(by time.Duration) HeldBatch {
	changes := make([]HeldChange, len(b.Changes))
	for i, c := range b.Changes {
		c.From, c.Answered, c.At = c.From-by, c.Answered-by, c.At-by
		changes[i] = c
	}
	b.Changes = changes
	return b
}
