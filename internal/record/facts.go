package record

import (
	"encoding/json"
	"fmt"

	"lapse/timeline"
)

// The first byte of a fact in a block's head: its kind. These bytes are part of the format. A JSON fact follows as its
// length and its text. A lower-case letter marks a repeat of an earlier fact, see [definitions].
const (
	metaFact    = 'M'
	sourceFact  = 'S'
	syncFact    = 'C'
	targetFact  = 'T'
	backendFact = 'B'
	peerFact    = 'P'
	eventFact   = 'E'
	batchFact   = 'R'
	heldFact    = 'H'
	repeated    = 'a' - 'A' // added to the byte of a fact that is repeated
)

// encodeFact returns a fact as JSON, except a batch.
func encodeFact(fact timeline.Fact) (kind byte, text []byte, err error) {
	switch fact.(type) {
	case timeline.Meta:
		kind = metaFact
	case timeline.Source:
		kind = sourceFact
	case timeline.Sync:
		kind = syncFact
	case timeline.Target:
		kind = targetFact
	case timeline.Backend:
		kind = backendFact
	case timeline.Peer:
		kind = peerFact
	case timeline.Event:
		kind = eventFact
	default:
		return 0, nil, fmt.Errorf("record a %T: not a fact", fact)
	}
	if text, err = json.Marshal(fact); err != nil {
		return 0, nil, fmt.Errorf("record a %T: %w", fact, err)
	}
	if len(text) > maxBlock/4 {
		return 0, nil, fmt.Errorf("record a %T: %d bytes are too many", fact, len(text))
	}
	return kind, text, nil
}

// decodeFact reads what encodeFact returned.
func decodeFact(kind byte, text []byte) (timeline.Fact, error) {
	switch kind {
	case metaFact:
		return parse[timeline.Meta](text)
	case sourceFact:
		return parse[timeline.Source](text)
	case syncFact:
		return parse[timeline.Sync](text)
	case targetFact:
		return parse[timeline.Target](text)
	case backendFact:
		return parse[timeline.Backend](text)
	case peerFact:
		return parse[timeline.Peer](text)
	case eventFact:
		return parse[timeline.Event](text)
	}
	return nil, corrupt("a fact of unknown kind %q", kind)
}

func parse[T timeline.Fact](text []byte) (timeline.Fact, error) {
	var fact T
	if err := json.Unmarshal(text, &fact); err != nil {
		return nil, corrupt("a %T: %v", fact, err)
	}
	return fact, nil
}
