package workstation

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/kube"
	"lapse/internal/kube/kubetest"
	"lapse/internal/layer"
	"lapse/internal/record"
	"lapse/internal/run/live"
	"lapse/internal/run/runtest"
	"lapse/internal/run/saved"
	"lapse/internal/run/screen"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

// An endedJob is the API of a cluster in which the Pod of run lapse-x7k2p has ended.
type endedJob struct {
	log     http.HandlerFunc // of the Pod
	state   corev1.ContainerStateTerminated
	deleted atomic.Int32 // how many objects
}

// serve returns the run, as its API shows it.
func (e *endedJob) serve(t *testing.T) *deploy.Run {
	t.Helper()
	labels := map[string]string{deploy.RunLabel: "lapse-x7k2p"}
	job := batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "lapse-x7k2p", UID: "job-1", Labels: labels},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/shop/pods", func(w http.ResponseWriter, _ *http.Request) {
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		if e.deleted.Load() == 0 {
			list.Items = []corev1.Pod{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "lapse-x7k2p-abcde", UID: "pod-1", Labels: labels, OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true)}}},
				Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{
					{Name: deploy.ContainerName, State: corev1.ContainerState{Terminated: &e.state}}}},
			}}
		}
		kubetest.Answer(w, 200, list)
	})
	mux.HandleFunc("GET /api/v1/namespaces/shop/pods/{name}/log", e.log)
	mux.HandleFunc("GET /apis/batch/v1/namespaces/shop/jobs/{name}", func(w http.ResponseWriter, _ *http.Request) { kubetest.Answer(w, 200, job) })
	mux.HandleFunc("DELETE /apis/batch/v1/namespaces/shop/jobs/{name}", func(w http.ResponseWriter, _ *http.Request) {
		e.deleted.Add(1)
		kubetest.Answer(w, 200, job)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		kubetest.Refuse(w, 404, metav1.StatusReasonNotFound, r.URL.Path+" not found")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	client, err := kube.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return &deploy.Run{Cluster: deploy.Cluster{Client: client, REST: config}, Namespace: "shop", Name: "lapse-x7k2p", Job: &job}
}

// follows makes a workstation follow a run whose Pod is lost after the first requests have come in.
func follows(t *testing.T, job *deploy.Run, lost error) (r *clusterRun, tl *model.Timeline, said *bytes.Buffer) {
	t.Helper()
	run := runtest.NewHeldRun(t)
	run.Requests(0, 90)
	server := httptest.NewServer(agent.NewServer(run, nil).Handler)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	var gone atomic.Bool
	said = &bytes.Buffer{}
	r = &clusterRun{
		opts: &spec.Options{}, job: job, dir: filepath.Join(t.TempDir(), "run"), commandExit: make(chan int, 1),
		log: slog.New(slog.NewTextHandler(said, nil)), events: newCommandEvents(), feed: newFeed(nil),
	}
	r.client = agent.NewClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
		if gone.Load() {
			return nil, lost
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
	})
	t.Cleanup(r.client.Close)
	var err error
	var release func()
	if r.copy, release, err = saved.BeginRecording(r.dir, record.CreateCopy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	t.Cleanup(func() { r.copy.Close() })
	if err := r.clock.compare(t.Context(), r.client.SyncClock); err != nil {
		t.Fatal(err)
	}
	screen := screen.New(io.Discard, 0)
	t.Cleanup(func() { screen.Close(nil) })
	r.live = live.New(nil, screen)
	followed := make(chan *model.Timeline, 1)
	go func() { followed <- r.follow(t.Context(), nil) }()
	runtest.WaitFor(t, "what was measured to come home", func() bool { return r.copy.Size() == run.Rec.Size() })
	gone.Store(true)
	server.CloseClientConnections()
	return r, <-followed, said
}

func podGone(ended bool, detail string) error {
	return &agent.GoneError{Pod: "lapse-x7k2p-abcde", Detail: detail, Ended: ended}
}

// A workstation that was asleep for longer than --hold finds the Pod ended: the log has the whole run.
func TestAWorkstationThatComesBackAfterTheHoldTakesTheResultFromTheLog(t *testing.T) {
	log := runtest.Logged(t, 300)
	cluster := &endedJob{log: func(w http.ResponseWriter, _ *http.Request) { w.Write(log) }}
	r, tl, said := follows(t, cluster.serve(t), podGone(true, "ended with exit code 0"))
	if err := r.save(tl); err != nil {
		t.Fatal(err)
	}
	r.cleanUp(t.Context())
	if got := tl.Targets[0].Sent; got != 300 || tl.Run.Aborted != "" || tl.Run.Duration != 3*time.Second {
		t.Errorf("the result has %d requests, took %v, was aborted %q", got, tl.Run.Duration, tl.Run.Aborted)
	}
	if again := runtest.Timeline(t, r.dir); again.Targets[0].Sent != 300 {
		t.Errorf("timeline.json has %d requests", again.Targets[0].Sent)
	}
	if saved, err := saved.Load(r.dir, correlate.Options{}, nil); err != nil || saved.Targets[0].Sent != 300 {
		t.Errorf("the run is not what `lapse report` reads: %v", err)
	}
	if part, err := saved.Load(filepath.Join(r.dir, saved.PartialFile), correlate.Options{}, nil); err != nil || part.Targets[0].Sent != 90 {
		t.Errorf("what had come before is not beside it: %v", err)
	}
	if cluster.deleted.Load() == 0 {
		t.Error("the Job stays, although its result is here")
	}
	if strings.Contains(said.String(), "result") && strings.Contains(said.String(), "{") {
		t.Errorf("the user reads JSON: %s", said)
	}
}

// Where the log cannot be read, or what it has cannot be written, the Job stays, and the user learns how to fetch the
// rest.
func TestAJobThatHoldsWhatIsMissingHereIsKept(t *testing.T) {
	layer.Real(t)
	whole := runtest.Logged(t, 300)
	for _, test := range []struct {
		name string
		log  http.HandlerFunc
		lost error
		spy  func(t *testing.T, r *clusterRun)
	}{
		{"the log cannot be read", func(w http.ResponseWriter, _ *http.Request) {
			kubetest.Refuse(w, 500, metav1.StatusReasonInternalError, "no")
		}, podGone(true, "ended with exit code 0"), nil},
		{"the log is cut off", func(w http.ResponseWriter, _ *http.Request) { w.Write(whole[:200]) }, podGone(true, "ended with exit code 0"), nil},
		{"the Pod cannot be reached", nil, &agent.RefusedError{Status: 500, Message: "no"}, nil},
		{"the result cannot be written", func(w http.ResponseWriter, _ *http.Request) { w.Write(whole) }, podGone(true, "ended with exit code 0"), func(t *testing.T, r *clusterRun) {
			if err := os.RemoveAll(r.dir); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster := &endedJob{log: test.log}
			if test.log == nil {
				cluster.log = http.NotFound
			}
			r, tl, said := follows(t, cluster.serve(t), test.lost)
			if test.spy != nil {
				test.spy(t, r)
			}
			err := r.save(tl)
			r.cleanUp(t.Context())
			if cluster.deleted.Load() != 0 {
				t.Errorf("the Job was deleted (%v)", err)
			}
			if !strings.Contains(said.String(), "lapse retrieve -n shop lapse-x7k2p") {
				t.Errorf("the user reads %s", said)
			}
		})
	}
}

// An agent that was killed leaves nothing to fetch. The run ends where what came home ends, for the reason that the
// API knows.
func TestARunWhoseAgentWasKilledEndsWhereItsFactsEnd(t *testing.T) {
	cluster := &endedJob{log: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "level=INFO msg=begun\n") }}
	cluster.state = corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", Message: "level=INFO msg=begun"}
	r, tl, said := follows(t, cluster.serve(t), podGone(true, "was killed for want of memory (OOMKilled, limit 512Mi, exit code 137)"))
	if err := r.save(tl); err != nil {
		t.Fatal(err)
	}
	r.cleanUp(t.Context())
	if want := "the measuring Pod lapse-x7k2p-abcde was killed for want of memory (OOMKilled, limit 512Mi, exit code 137)"; tl.Run.Aborted != want {
		t.Errorf("aborted: %q", tl.Run.Aborted)
	}
	if strings.Contains(said.String(), "level=INFO msg=begun") {
		t.Errorf("the agent's log is thrown at the user: %s", said)
	}
	if last := 890*ms + ms; tl.Run.Duration != last {
		t.Errorf("it took %v, but the last that is known is of %v", tl.Run.Duration, last)
	}
	if cluster.deleted.Load() == 0 {
		t.Error("the Job stays, although nothing is left to fetch")
	}
}

// While nothing comes from the Job, what is shown is how the run stood when something last came.
func TestWhileTheFeedIsCutTheRunIsShownAsItStood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown runtest.Buffer
		screen := screen.New(&shown, 0)
		r := &clusterRun{opts: &spec.Options{}, feed: newFeed(nil)}
		r.clock.known, r.live = []comparison{{}}, live.New(nil, screen)
		r.facts.Put(timeline.Meta{ID: "x7k2p", Options: timeline.Options{Rate: 100, Timeout: time.Second}})
		r.facts.Put(timeline.Target{ID: 1, Name: "new", Kind: timeline.New, Rate: 100})
		r.facts.Put(timeline.Event{ID: 1, Kind: timeline.RunPhase, To: "measuring"})
		for i := range 300 {
			due := time.Duration(i) * 10 * ms
			r.facts.Put(timeline.Batch{Requests: []timeline.Request{{Target: 1, Seq: uint64(i), Due: due, Sent: due, Done: due + ms}}})
		}
		time.Sleep(3 * time.Second)
		r.absorb()
		for range 14 {
			r.show()
			time.Sleep(time.Second)
		}
		screen.Close(nil)
		if text := shown.String(); !strings.Contains(text, "no news from the Job for 7 s · until then measuring · sent 300, failed 0") &&
			!strings.Contains(text, "no news from the Job for 7 s | until then measuring | sent 300, failed 0") {
			t.Errorf("shown:\n%s", text)
		}
		if covered := r.live.Shown.Targets[0].Coverage; covered < 0.7 {
			t.Errorf("the coverage is shown as %v, because nobody knows", covered)
		}
	})
}

// A workstation that is suspended before it follows the run finds the Pod ended.
func TestAJobThatMeasuredBeforeItWasFollowedIsKept(t *testing.T) {
	log := runtest.Logged(t, 100)
	measured := &endedJob{log: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(log) }}
	r := &clusterRun{job: measured.serve(t), log: slog.New(slog.DiscardHandler)}
	err := r.notFollowed(t.Context(), errors.New("the run does not start"))
	r.cleanUp(t.Context())
	if n := measured.deleted.Load(); n > 0 || !strings.Contains(hint.Of(err), "lapse retrieve -n shop lapse-x7k2p") {
		t.Errorf("%v, hint %q, %d objects deleted: want the Job kept, and how to fetch its result", err, hint.Of(err), n)
	}
	crashed := &endedJob{log: func(http.ResponseWriter, *http.Request) {}}
	r = &clusterRun{job: crashed.serve(t), log: slog.New(slog.DiscardHandler)}
	failure := errors.New("the run does not start")
	if err := r.notFollowed(t.Context(), failure); !errors.Is(err, failure) || r.keep {
		t.Errorf("%v, kept: %v: want the Job of a run that measured nothing removed", err, r.keep)
	}
}
