package wire

import (
	"testing"
)

func TestAlertsAreToldFromTickets(t *testing.T) {
	tests := []struct {
		record []byte
		want   bool
	}{
		{[]byte{21, 3, 3, 0, 2}, true},    // TLS 1.2 close_notify
		{[]byte{23, 3, 3, 0, 19}, true},   // TLS 1.3 close_notify
		{[]byte{23, 3, 3, 0, 217}, false}, // TLS 1.3 session ticket
		{[]byte{23, 3}, false},
		{[]byte{22, 3, 3, 0, 19}, false},
	}
	for _, test := range tests {
		if got := isAlert(test.record); got != test.want {
			t.Errorf("%v: %v", test.record, got)
		}
	}
}
