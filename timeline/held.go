package timeline

import (
	"fmt"
	"time"
)

// A HeldChange is what happened to one connection of a target of kind [Held]. Between two changes nothing did: the
// connection stood, or there was none.
//
//	opened ──── stands ──── cut   failed   failed   opened ──── stands ──── closed
type HeldChange struct {
	Target TargetID
	Conn   uint32 // which of the target's connections, from 0
	Kind   HeldKind
	Class  Class // failed: as what. Cut: eof (the peer closed it), reset, timeout_response (no answer to a heartbeat until the next was due), or another error of it. Closed: timeout_response if its last heartbeat was not answered. Else ok

	// From is the latest instant before which nothing of this can have happened. Opened, failed: when the attempt
	// began. Cut, closed: when the last heartbeat that was answered was sent.
	From     time.Duration
	Answered time.Duration // cut, closed: when the answer to that heartbeat was read: from then on the connection was idle, or its next heartbeat open
	At       time.Duration // when the prober knew. Opened: the answer to the first heartbeat was read

	Warned  bool // cut: the peer had announced it, in the words of the protocol
	Stopped bool // cut: a stop of the prober may have led to it

	Backend uint16 // who answered last on it by the reply's own word: the ID of a [Backend] of the source; 0 is unknown
	Peer    uint16 // where it went, or was to go: the ID of a [Peer] of the source; 0 is unknown
}

// HeldKind says what happened to a connection. The list is closed.
type HeldKind uint8

const (
	HeldOpened HeldKind = iota // it stands: connected, and the first heartbeat on it was answered
	HeldFailed                 // an attempt to open it did not get so far
	HeldCut                    // it ended, and not by our doing
	HeldClosed                 // we closed it, because its measuring ended
	NumHeldKinds
)

var heldKindNames = [NumHeldKinds]string{"opened", "failed", "cut", "closed"}

func (k HeldKind) String() string {
	if k < NumHeldKinds {
		return heldKindNames[k]
	}
	return fmt.Sprintf("held(%d)", uint8(k))
}

// A HeldBatch is what a prober hands on of its held connections, in the order in which it knew.
type HeldBatch struct {
	Source   SourceID
	FirstSeq uint64 // counts the source's changes over all targets: a jump is a lost batch
	Changes  []HeldChange
}
