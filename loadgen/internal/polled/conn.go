package polled

// A Conn is a connection that the pacing thread reads.
type Conn interface {
	// Readable takes what has arrived. The pacing thread calls it.
	Readable()
	// Abandon ends what is open on it: nothing is read any more.
	Abandon()
}

// mostArrived is how many sockets are read from before the pacing thread looks at its schedule again: a reply takes
// it some 5 µs.
const mostArrived = 32
