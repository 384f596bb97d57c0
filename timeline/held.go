package timeline

import (
	"fmt"
	"time"
)

// A HeldChange is what happened to one connection of a target of kind [Held]. Between two changes nothing happened: the
// connection was open, or there was none.
//
//	opened ──── open ──── cut   failed   failed   opened ──── open ──── closed
type HeldChange struct {
	Target TargetID
	Conn   uint32 // which of the target's connections, from 0
	Kind   HeldKind

	// Class of a failed one: how the attempt failed. Of a cut one: eof (the peer closed it), reset, timeout_response (a
	// heartbeat was not answered before the next was due), or another error. Of a closed one: timeout_response if its
	// last heartbeat was not answered. Else ok.
	Class Class

	// From: it happened no earlier. Opened, failed: when the attempt began. Cut, closed: when the last heartbeat that
	// was answered was sent.
	From time.Duration
	// Answered, of a cut or closed one: when the answer to that heartbeat was read. After that the connection was idle,
	// or waited for the answer to its next heartbeat.
	Answered time.Duration
	At       time.Duration // when the prober knew. Opened: the answer to the first heartbeat was read

	Warned  bool // cut: the peer had announced it, by a message of the protocol
	Stopped bool // cut: a stop of the prober may have caused it

	Backend uint16 // the ID of the source's [Backend] that the last reply on it named; 0 is unknown
	Peer    uint16 // where it went, or was to go: the ID of a [Peer] of the source; 0 is unknown
}

// HeldKind says what happened to a connection. The list is closed.
type HeldKind uint8

const (
	HeldOpened HeldKind = iota // it is open: connected, and the first heartbeat on it was answered
	HeldFailed                 // an attempt to open it failed before that
	HeldCut                    // it ended, and the prober did not close it
	HeldClosed                 // the prober closed it, because its measuring ended
	NumHeldKinds
)

var heldKindNames = [NumHeldKinds]string{"opened", "failed", "cut", "closed"}

func (k HeldKind) String() string {
	if k < NumHeldKinds {
		return heldKindNames[k]
	}
	return fmt.Sprintf("held(%d)", uint8(k))
}

// A HeldBatch holds changes of a prober's held connections, in the order in which it knew of them.
type HeldBatch struct {
	Source   SourceID
	FirstSeq uint64 // counts the source's changes over all targets: a jump is a lost batch
	Changes  []HeldChange
}
