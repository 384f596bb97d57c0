package model

import "time"

// CutKind is the kind of the windows of held targets: connections were cut in them. Their Sent is how many
// connections were held, their Failed how many of them were cut, and Classes say how. They have no downtime: what a
// cut connection means for requests is measured by targets of the other kinds.
const CutKind WindowKind = "cut"

// Held is what became of the connections of one held target.
type Held struct {
	Target      string        `json:"target"`
	Connections int           `json:"connections"` // that were to be held
	Heartbeat   time.Duration `json:"heartbeat"`   // the time between two heartbeats on one connection

	Stood    int `json:"stood"`    // connections that stood at least once
	Standing int `json:"standing"` // that stood when measuring ended, or stand now
	Cut      int `json:"cut"`      // that were cut at least once
	// of these, those that were cut at least once without an announcement by the peer
	Unwarned int `json:"unwarned"`
	Cuts     int `json:"cuts"` // how often connections were cut, all together
	// cuts that a stop of the prober may have led to: they are in none of the other counts but Cuts
	Stopped int `json:"stopped,omitzero"`
	Missing int `json:"missing,omitzero"` // connections that were cut and did not stand again
	// of those that stood at the end, those whose last heartbeats had not been answered: they may have been cut
	Unproven int `json:"unproven,omitzero"`
	// part of what became of them is not on record, as where the prober was lost
	Open bool `json:"open,omitzero"`
	// share of the measured time in which heartbeats were sent, 0 to 1
	Coverage float64 `json:"coverage"`
	// changes of connections that are not on record: there may have been further cuts
	NotOnRecord int `json:"notOnRecord,omitzero"`

	// how long it took from when a cut was noticed until the connection stood again: the shortest (Min) and the
	// longest (Max); absent if none came back
	Back *Length `json:"back,omitzero"`
	// how often a connection was to be opened, the first time included
	Attempts int            `json:"attempts"`
	Failed   map[string]int `json:"failed,omitzero"` // attempts that failed, by class
	// how many connections were on which Pod, according to the replies, just before the first cut; "" is one that did
	// not say
	Before    map[string]int `json:"before,omitzero"`
	After     map[string]int `json:"after,omitzero"`     // the same when measuring ended, or now
	List      []HeldCut      `json:"list"`               // each cut, by when it was noticed, up to a cap
	Truncated int            `json:"truncated,omitzero"` // how many cuts the cap left out
	// by start. Their IDs go on after those of the windows of the other targets
	Windows []CutWindow `json:"windows"`
}

// A HeldCut is one cut of one connection: its window is from Cut to Back.
type HeldCut struct {
	Conn int `json:"conn"` // which of the connections, from 0
	// the ID of the window that it is in; absent of one that a stop of the prober may have led to
	Window int `json:"window,omitzero"`
	// from when the last heartbeat that was answered was sent, until the end was noticed
	Cut Instant `json:"cut"`
	// "eof": closed by the peer; "reset"; "timeout_response": a heartbeat was not answered until the next was due;
	// else what its end was
	Class string `json:"class"`
	// the peer had announced it: Connection: close, a close frame, GOAWAY
	Warned bool `json:"warned,omitzero"`
	// how old the last answer was: since it was read, and since its heartbeat was sent
	Idle Length `json:"idle"`
	// when it stood again: from when the attempt began, until its first heartbeat was answered; absent if it did not
	Back *Instant `json:"back,omitzero"`
	// from when the cut was noticed until the connection stood again, as the client sees it
	After  *time.Duration `json:"after,omitzero"`
	Failed int            `json:"failed,omitzero"` // attempts to open it that failed meanwhile
	// how long before the attempt that succeeded, or before measuring ended, the prober had not tried: it may have been
	// possible to open it in that time
	Waited time.Duration `json:"waited,omitzero"`

	From     string `json:"from,omitzero"`     // who had answered on it, by the reply's own word: the Pod
	To       string `json:"to,omitzero"`       // who answers now
	FromAddr string `json:"fromAddr,omitzero"` // where it went
	ToAddr   string `json:"toAddr,omitzero"`
	Stopped  bool   `json:"stopped,omitzero"` // a stop of the prober may have led to it
}

// A CutWindow is a time in which connections were cut: from the first cut until the last of them stood again. Cuts
// less than --join apart share one.
type CutWindow struct {
	Window
	// how often connections were cut: more than Failed where one was cut twice
	Cuts     int            `json:"cuts"`
	Unwarned int            `json:"unwarned"`         // connections that were cut without an announcement
	Back     *Length        `json:"back,omitzero"`    // as of Held
	Missing  int            `json:"missing,omitzero"` // that did not stand again
	Attempts int            `json:"attempts"`         // to open them again
	Refused  map[string]int `json:"refused,omitzero"` // attempts that failed, by class
	Busiest  int            `json:"busiest"`          // the most attempts within one second: the reconnect storm
	From     map[string]int `json:"from,omitzero"`    // which Pods the connections were on
	To       map[string]int `json:"to,omitzero"`      // which Pods they came back on
}

// HeldWindows returns the windows of held targets.
func (tl *Timeline) HeldWindows() (list []*CutWindow) {
	for i := range tl.Held {
		for j := range tl.Held[i].Windows {
			list = append(list, &tl.Held[i].Windows[j])
		}
	}
	return list
}
