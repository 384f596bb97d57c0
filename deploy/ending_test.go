package deploy

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestThePodsEndIsToldInTheAPIsWords(t *testing.T) {
	exited := func(code int32, reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{
				ExitCode: code, Reason: reason, Message: `{"result":"ungated"}`,
			}
		}
	}
	disrupted := func(reason, message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse},
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message},
			}
			pod.DeletionTimestamp = new(metav1.Now())
		}
	}
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"as planned", exited(0, "Completed"), "ended with exit code 0"},
		{"a gate failed", exited(3, "Error"), "ended with exit code 3"},
		{"out of memory", exited(137, "OOMKilled"), "ran out of memory and was killed (OOMKilled, limit 512Mi, exit code 137)"},
		{"killed", exited(137, "Error"), "was killed by signal 9 (exit code 137)"},
		{"its shim was killed", exited(255, "Error"), "ended, but its node's container runtime does not know how (exit code 255)"},
		{"drained", disrupted("EvictionByEvictionAPI", "Eviction API: evicting"), "was evicted from node-b, as a drain does (EvictionByEvictionAPI: Eviction API: evicting)"},
		{"preempted", disrupted("PreemptionByScheduler", ""), "was preempted from node-b (PreemptionByScheduler)"},
		{"tainted", disrupted("DeletionByTaintManager", "Taint manager: deleting"), "was removed from node-b (DeletionByTaintManager: Taint manager: deleting)"},
		{"deleted", func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) }, "was deleted from node-b"},
		{"deadline", func(pod *corev1.Pod) { pod.Status.Reason = "DeadlineExceeded" }, "was ended on node-b (DeadlineExceeded)"},
		{"node lost", func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }, "ended: Failed"},
	} {
		pod := endedPod("")
		test.change(pod)
		if got := ending(pod); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestAnEndedPodLeavesItsTimelineOrItsVerdictOrNothing(t *testing.T) {
	for _, test := range []struct {
		name, message, log, from string
		nothing                  bool
	}{
		{"a timeline", `{"result":"pass"}`, logged(t, "{}"), FromLog, false},
		{"a verdict", `{"result":"pass"}`, "", FromTermination, false},
		{"its last words", "panic: oh", "panic: oh", "", true},
		{"half a timeline", "panic: oh", logged(t, "{}")[:40], "", false},
	} {
		api := newFakeAPI(t, nil)
		api.setPod(endedPod(test.message))
		api.log = test.log
		got, err := RetrieveEnded(t.Context(), api.run(t))
		if got.From != test.from || errors.Is(err, ErrNothingLeft) != test.nothing || (err == nil) != (test.from != "") {
			t.Errorf("%s: from %q, %v", test.name, got.From, err)
		}
	}
}
