package run

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/correlate/model"
	"lapse/internal/report"
	"lapse/internal/run/saved"
	"lapse/loadgen/faultserver"
)

// patience is how long a test waits on a machine that has much else to do.
const patience = 60 * time.Second

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s", what)
		}
	}
}

func startServer(t *testing.T, faults ...faultserver.Fault) *faultserver.Server {
	t.Helper()
	server, err := faultserver.Start(faultserver.Config{Faults: faults})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// readTimeline reads a run's timeline.json.
func readTimeline(t *testing.T, dir string) *model.Timeline {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, saved.TimelineFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tl, err := report.ReadJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// answer and refuseAPI are what the API server of a test replies.
func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(body)
}

func refuseAPI(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	answer(w, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Message: message, Code: code,
	})
}
