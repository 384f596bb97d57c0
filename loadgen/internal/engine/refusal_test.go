package engine

import (
	"testing"

	"lapse/timeline"
)

func TestRefusalBlamesWhoKeptWhomWaiting(t *testing.T) {
	if got := refusal(10, 10); got != timeline.NoSlot {
		t.Errorf("all wait for the target: %v", got)
	}
	if got := refusal(9, 10); got != timeline.NotSent {
		t.Errorf("one was not sent yet: %v", got)
	}
}
