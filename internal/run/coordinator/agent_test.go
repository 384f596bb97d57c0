package coordinator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"lapse/deploy"
	"lapse/internal/kube"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/live"
	"lapse/internal/run/resolve"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

// idleAgent returns an agent whose run is over.
func idleAgent(t *testing.T, o *spec.Options) *jobRun {
	m, _ := idleMeasurement(t, o)
	m.Phase = timeline.PhaseEnded
	return &jobRun{m: m, Delivery: source.NewDelivery(m.Rec)}
}

// A Pod that gets SIGTERM while it holds its result stays for whoever fetches it, within its grace period.
func TestAPodThatIsToldToGoWaitsForWhoFetches(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(t *testing.T, a *jobRun, signals chan os.Signal)
		want time.Duration
	}{
		{"nobody comes, and the time to hold is over", func(*testing.T, *jobRun, chan os.Signal) {}, 10 * time.Minute},
		{"somebody fetches", func(_ *testing.T, a *jobRun, _ chan os.Signal) {
			time.Sleep(time.Minute)
			a.Release()
		}, time.Minute},
		{"told to go, and nobody comes", func(_ *testing.T, _ *jobRun, signals chan os.Signal) { signals <- syscall.SIGTERM }, lastChance},
		{"told to go twice", func(_ *testing.T, _ *jobRun, signals chan os.Signal) {
			signals <- syscall.SIGTERM
			time.Sleep(3 * time.Second)
			signals <- syscall.SIGTERM
		}, 3 * time.Second},
		{"told to go, then fetched", func(t *testing.T, a *jobRun, signals chan os.Signal) {
			signals <- syscall.SIGTERM
			time.Sleep(lastChance - time.Second)
			fetch(t, a, 10*time.Second)
			a.Release()
		}, lastChance + 9*time.Second},
		{"told to go while it is fetched, by somebody who does not say so", func(t *testing.T, a *jobRun, signals chan os.Signal) {
			signals <- syscall.SIGTERM
			fetch(t, a, lastChance+5*time.Second)
		}, lastChance + 5*time.Second + ackWithin},
		{"told to go, and the fetching never ends", func(t *testing.T, a *jobRun, signals chan os.Signal) {
			signals <- syscall.SIGTERM
			fetch(t, a, time.Hour)
		}, lastBytes},
		{"told to go, and its workstation had ended the run", func(_ *testing.T, a *jobRun, signals chan os.Signal) {
			a.aborted = true
			signals <- syscall.SIGTERM
		}, briefChance},
		{"the time to hold is over while it is fetched", func(t *testing.T, a *jobRun, _ chan os.Signal) {
			time.Sleep(10*time.Minute - time.Second)
			fetch(t, a, 10*time.Second)
			a.Release()
		}, 10*time.Minute + 9*time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := idleAgent(t, &spec.Options{Spec: spec.Spec{Hold: 10 * time.Minute}})
				defer a.m.Live.End(nil)
				signals := make(chan os.Signal, 1)
				go test.do(t, a, signals)
				started := time.Now()
				a.stay(signals)
				if took := time.Since(started); took < test.want || took > test.want+live.Refresh {
					t.Errorf("it stayed for %v, want %v", took, test.want)
				}
				time.Sleep(2 * time.Hour) // whoever fetches is done too
			})
		})
	}
}

// fetch reads the recording, and takes the time during for it.
func fetch(t *testing.T, a *jobRun, during time.Duration) {
	facts, err := a.Facts(context.Background(), 0)
	if err != nil {
		t.Error(err)
		return
	}
	time.Sleep(during)
	facts.Close()
	facts.Close() // counts once
}

// The run of a command settles by itself some time after the last call of its workstation, and says so as a fact.
func TestARunOfACommandEndsWhenItsWorkstationIsNotHeardOf(t *testing.T) {
	for _, test := range []struct {
		name   string
		limit  time.Duration
		sleeps time.Duration // of the workstation, from 1 min on
		want   time.Duration // when the run settles
		reason string
	}{
		{"it crashes", 5 * time.Minute, 10 * time.Hour, 6 * time.Minute, "no sign of life from the workstation that ran the command for 5 min 0 s"},
		{"it sleeps for less", 5 * time.Minute, 4 * time.Minute, 20 * time.Minute, ""},
		{"nobody asked for that", 0, 10 * time.Hour, 2 * time.Hour, "the end of the command was not reported within --max-duration"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := idleAgent(t, &spec.Options{ExternalCommand: true, Spec: spec.Spec{WorkstationTimeout: test.limit, MaxDuration: 2 * time.Hour, Baseline: time.Nanosecond}})
				defer a.m.Live.End(nil)
				a.m.Overdue = a.overdue
				a.m.Add(timeline.Meta{T0: a.m.Clock.T0()})
				a.m.Phase = timeline.PhaseBaseline
				started := time.Now()
				var settled time.Duration
				a.m.Entered = func(phase timeline.Phase, _ string) {
					if phase == timeline.PhaseSettling {
						settled = time.Since(started)
					}
				}
				go func() {
					for time.Since(started) < 20*time.Minute {
						a.SignOfLife()
						time.Sleep(10 * time.Second)
						if time.Since(started) == time.Minute {
							time.Sleep(test.sleeps)
						}
					}
					_ = a.Settle("")
				}()
				reason := a.m.Phases(t.Context(), nil)
				if reason != test.reason || settled < test.want-11*time.Second || settled > test.want+time.Second {
					t.Errorf("it settled after %v: %q", settled, reason)
				}
				time.Sleep(20 * time.Hour)
			})
		})
	}
}

func TestAnEvictedAgentSaysByWhom(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/namespaces/shop/pods/lapse-x7k2p-abcde") {
			kubetest.Refuse(w, 404, metav1.StatusReasonNotFound, r.URL.Path)
			return
		}
		kubetest.Answer(w, 200, corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Spec: corev1.PodSpec{NodeName: "node2"},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"},
			}},
		})
	}))
	defer server.Close()
	client, err := kube.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	a := idleAgent(t, &spec.Options{Env: spec.Env{deploy.EnvNamespace: "shop", deploy.EnvPod: "lapse-x7k2p-abcde"}})
	defer a.m.Live.End(nil)
	a.m.Client = client
	if got := a.removal(); got != "the measuring Pod was evicted from node2, as a drain does (EvictionByEvictionAPI: Eviction API: evicting)" {
		t.Errorf("got %q", got)
	}
	server.Close()
	if got := a.removal(); got != "" {
		t.Errorf("without an API: %q", got)
	}
}

// The Job owns the run's rights: whoever deletes it takes them from the Pod before the Pod can ask why it ends.
func TestAPodWithoutItsRightsKnowsThatItsJobWasDeleted(t *testing.T) {
	for reason, want := range map[metav1.StatusReason]string{
		metav1.StatusReasonForbidden: rightsGone, metav1.StatusReasonUnauthorized: rightsGone,
		metav1.StatusReasonNotFound: "the measuring Pod was deleted", metav1.StatusReasonInternalError: "",
	} {
		code := map[metav1.StatusReason]int32{metav1.StatusReasonForbidden: 403, metav1.StatusReasonUnauthorized: 401, metav1.StatusReasonNotFound: 404, metav1.StatusReasonInternalError: 500}[reason]
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { kubetest.Refuse(w, code, reason, "no") }))
		client, err := kube.New(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if got := (&jobRun{m: &measurement{opts: &spec.Options{Env: spec.Env{deploy.EnvNamespace: "shop", deploy.EnvPod: "lapse-x7k2p-abcde"}}, Found: resolve.Found{Client: client}}}).removal(); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
		server.Close()
	}
}
