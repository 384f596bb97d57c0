package terminal

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestLogReadsAsSentences(t *testing.T) {
	var out strings.Builder
	log := NewLogger(&out)
	log.Info("a connection broke and is tried again")
	log.Error("from here on, nothing is measured", "error", errors.New("the Pod was evicted"))
	log.With("service", "web").Warn("the cluster is no longer watched", slog.Any("error", errors.New("forbidden")))
	want := "lapse: from here on, nothing is measured: the Pod was evicted\nlapse: the cluster is no longer watched (service web): forbidden\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
