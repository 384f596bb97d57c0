package deploy

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

func TestARunThatHasEndedIsTold(t *testing.T) {
	for _, test := range []struct {
		status batchv1.JobStatus
		ended  bool
	}{
		{batchv1.JobStatus{}, false},
		{batchv1.JobStatus{Active: 1}, false},
		{batchv1.JobStatus{Active: 1, Failed: 1}, false}, // another try
		{batchv1.JobStatus{Succeeded: 1}, true},
		{batchv1.JobStatus{Failed: 1}, true},
	} {
		if got := HasEnded(&batchv1.Job{Status: test.status}); got != test.ended {
			t.Errorf("%+v: %v", test.status, got)
		}
	}
}
