package deploy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"lapse/deploy/agent"
	"lapse/internal/kube"
	"lapse/internal/record"
	"lapse/timeline"
)

// A fakeAPI is as much of an API server, and of the node behind it, as a tunnel needs. It speaks SPDY
// only, so every test also takes the way back from WebSocket.
type fakeAPI struct {
	*httptest.Server
	agent string // address that port-forwards lead to

	mu       sync.Mutex
	pod      *corev1.Pod // nil: there is none
	log      string
	sessions []httpstream.Connection
}

func newFakeAPI(t *testing.T, handler http.Handler) *fakeAPI {
	inside := httptest.NewServer(handler)
	api := &fakeAPI{agent: inside.Listener.Addr().String(), pod: runningPod()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/shop/pods", api.list)
	mux.HandleFunc("GET /api/v1/namespaces/shop/pods/{name}", api.get)
	mux.HandleFunc("GET /api/v1/namespaces/shop/pods/{name}/log", api.logs)
	mux.HandleFunc("POST /api/v1/namespaces/shop/pods/{name}/portforward", api.portForward)
	api.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		api.cut()
		api.Server.Close()
		inside.CloseClientConnections()
		inside.Close()
	})
	return api
}

func runningPod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "lapse-x7k2p-abcde", Namespace: "shop", UID: "pod-1", Labels: map[string]string{RunLabel: "lapse-x7k2p"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "lapse-x7k2p", UID: "job-1", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "node-b"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}
}

func endedPod(message string) *corev1.Pod {
	pod := runningPod()
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: message},
	}
	return pod
}

func (a *fakeAPI) run(t *testing.T) *Run {
	client, err := kube.New(a.config())
	if err != nil {
		t.Fatal(err)
	}
	return &Run{
		Cluster: Cluster{Client: client, REST: a.config()}, Namespace: "shop", Name: "lapse-x7k2p",
		Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "lapse-x7k2p", UID: "job-1"}},
	}
}

func (a *fakeAPI) config() *rest.Config { return &rest.Config{Host: a.URL} }

func (a *fakeAPI) tunnel(t *testing.T) *agent.Tunnel {
	tunnel, err := tunnelTo(a.config(), runningPod())
	if err != nil {
		t.Fatal(err)
	}
	return tunnel
}

func (a *fakeAPI) setPod(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pod = pod
}

// cut breaks all port-forwards.
func (a *fakeAPI) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, session := range a.sessions {
		session.Close()
	}
	a.sessions = nil
}

func (a *fakeAPI) list(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	if a.pod != nil {
		list.Items = append(list.Items, *a.pod)
	}
	writeJSON(w, http.StatusOK, list)
}

func (a *fakeAPI) get(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pod == nil {
		notFound(w)
		return
	}
	writeJSON(w, http.StatusOK, a.pod)
}

func notFound(w http.ResponseWriter) {
	writeJSON(w, http.StatusNotFound, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Message: `pods "lapse-x7k2p-abcde" not found`,
	})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value)
}

func (a *fakeAPI) logs(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, a.log) }

func (a *fakeAPI) portForward(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	running := a.pod != nil && a.pod.Status.Phase == corev1.PodRunning
	a.mu.Unlock()
	if !running {
		notFound(w)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	session := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		streams <- stream
		return nil
	})
	if session == nil {
		return
	}
	defer session.Close()
	a.mu.Lock()
	a.sessions = append(a.sessions, session)
	a.mu.Unlock()
	a.forward(session, <-streams, <-streams)
}

// forward does what a node does with the two streams of a connection.
func (a *fakeAPI) forward(session httpstream.Connection, failure, data httpstream.Stream) {
	conn, err := net.Dial("tcp", a.agent)
	if err != nil {
		fmt.Fprintf(failure, "error forwarding port 8089 to pod: %v", err)
		failure.Close()
		<-session.CloseChan()
		return
	}
	defer conn.Close()
	go io.Copy(conn, data)
	io.Copy(data, conn)
	failure.Close()
	data.Close()
	<-session.CloseChan()
}

func TestAgentIsReachedThroughATunnel(t *testing.T) {
	run := newHeldRun()
	client := newFakeAPI(t, agent.NewServer(run, nil).Handler).tunnel(t).Client()
	defer client.Close()
	for range 3 {
		if status, err := client.Status(t.Context()); err != nil || status.ID != "x7k2p" {
			t.Errorf("got %v, %v", status, err)
		}
	}
}

// A guard is reached at its Pod, also at the one that took its place.
func TestGuardIsReachedAtThePodThatRuns(t *testing.T) {
	api := newFakeAPI(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a guard") }))
	cluster := api.run(t).Cluster
	client := &http.Client{Transport: &http.Transport{DialContext: DialGuard(cluster, StatusPort, "shop"), DisableKeepAlives: true}}
	get := func() string {
		reply, err := client.Get("http://any/")
		if err != nil {
			return err.Error()
		}
		defer reply.Body.Close()
		text, _ := io.ReadAll(reply.Body)
		return string(text)
	}
	if said := get(); said != "a guard" {
		t.Error(said)
	}
	next := runningPod()
	next.Name, next.UID = "lapse-guard-2", "pod-2"
	api.setPod(next)
	if said := get(); said != "a guard" {
		t.Errorf("after its Pod was replaced: %s", said)
	}
	going := runningPod()
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for name, pod := range map[string]*corev1.Pod{"none": nil, "one that ends": going, "one that has ended": endedPod("")} {
		api.setPod(pod)
		if said := get(); !strings.Contains(said, "no guard runs in namespace shop") {
			t.Errorf("with %s: %s", name, said)
		}
	}
}

func TestFollowSurvivesBrokenTunnels(t *testing.T) {
	run := newHeldRun()
	api := newFakeAPI(t, agent.NewServer(run, nil).Handler)
	client := api.tunnel(t).Client()
	defer client.Close()

	arrived := make(chan int, 100)
	var copied bytes.Buffer
	followed := make(chan error)
	go func() {
		_, err := client.Follow(t.Context(), writerFunc(func(p []byte) (int, error) {
			n, err := copied.Write(p)
			arrived <- copied.Len()
			return n, err
		}))
		followed <- err
	}()
	for i := range 3 {
		run.record(strings.Repeat(fmt.Sprintf("block %d ", i), 30_000))
		for int64(<-arrived) < run.receipt().Length {
		}
		api.cut()
	}
	run.end()
	if err := <-followed; err != nil {
		t.Error(err)
	}
	if !bytes.Equal(copied.Bytes(), run.text) {
		t.Errorf("%d bytes arrived of %d", copied.Len(), len(run.text))
	}
}

func TestTunnelSaysWhyThePodCannotBeReached(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"deleted", nil, "was deleted"},
		{"ended", endedPod("panic: oh"), "ended with exit code 3"},
		{"replaced", func() *corev1.Pod { p := endedPod(""); p.UID = "pod-2"; return p }(), "was replaced"},
	} {
		t.Run(test.name, func(t *testing.T) {
			api := newFakeAPI(t, http.NotFoundHandler())
			api.setPod(test.pod)
			client := api.tunnel(t).Client()
			defer client.Close()
			_, err := client.Status(t.Context())
			gone, ok := errors.AsType[*agent.GoneError](err)
			if !ok || !strings.Contains(gone.Error(), test.want) {
				t.Errorf("error is %v; want %q", err, test.want)
			}
		})
	}
}

func TestWhatTheNodeSaysAboutAConnectionIsItsError(t *testing.T) {
	api := newFakeAPI(t, http.NotFoundHandler())
	api.agent = closedPort(t)
	conn, err := api.tunnel(t).DialContext(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error is %v", err)
	}
}

func closedPort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestRetrieveTakesTheBestWayThereIs(t *testing.T) {
	var logged bytes.Buffer
	if err := WriteTimeline(&logged, writes([]byte(`{"schemaVersion":1}`))); err != nil {
		t.Fatal(err)
	}
	const verdict = `{"result":"fail"}`
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		log  string
		want string
	}{
		{"the agent holds", runningPod(), logged.String(), FromAgent},
		{"the agent has exited", endedPod(verdict), "talk\n" + logged.String(), FromLog},
		{"the log is gone", endedPod(verdict), "", FromTermination},
		{"the log is cut off", endedPod(verdict), logged.String()[:60], FromTermination},
		{"nothing is left", endedPod("panic: oh"), "panic: oh", ""},
		{"no Pod", nil, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := newHeldRun()
			run.record("facts")
			run.end()
			api := newFakeAPI(t, agent.NewServer(run, nil).Handler)
			api.setPod(test.pod)
			api.log = test.log
			path := filepath.Join(t.TempDir(), "copy")
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			job := api.run(t)
			if test.pod == nil {
				job.Job.Status.Failed = 1
			}
			got, err := Retrieve(t.Context(), job, nil, file)
			if got.From != test.want || (err == nil) != (test.want != "") {
				t.Fatalf("from %q, %v", got.From, err)
			}
			switch got.From {
			case FromAgent:
				copied, _ := os.ReadFile(path)
				if string(copied) != "facts" || len(run.told) != 1 {
					t.Errorf("copied %q, told %v", copied, run.told)
				}
			case FromLog:
				if string(got.Timeline) != `{"schemaVersion":1}` {
					t.Errorf("timeline %s", got.Timeline)
				}
			case FromTermination:
				if string(got.Verdict) != verdict || len(got.Failed) != 2 {
					t.Errorf("verdict %s, failed %v", got.Verdict, got.Failed)
				}
			}
		})
	}
}

func TestRetrieveDoesNotAcknowledgeWhatItCouldNotKeep(t *testing.T) {
	run := newHeldRun()
	run.record("facts")
	run.end()
	api := newFakeAPI(t, agent.NewServer(run, nil).Handler)
	full := errors.New("no space left on device")
	_, err := Retrieve(t.Context(), api.run(t), nil, unsafe{full})
	if !errors.Is(err, full) || len(run.told) > 0 {
		t.Errorf("error is %v, told %v", err, run.told)
	}
}

// A Pod that runs holds its recording: that it has written no result elsewhere yet is not the loss of it.
func TestOfAPodThatRunsSomethingIsLeft(t *testing.T) {
	run := newHeldRun()
	run.record("facts")
	run.end()
	api := newFakeAPI(t, agent.NewServer(run, nil).Handler)
	_, err := Retrieve(t.Context(), api.run(t), strings.NewReader("fakes"), io.Discard)
	if _, ok := errors.AsType[*agent.ChecksumError](err); !ok || errors.Is(err, ErrNothingLeft) || len(run.told) > 0 {
		t.Errorf("error is %v, told %v: the part that was there is damaged", err, run.told)
	}
}

// unsafe takes everything and then cannot keep it.
type unsafe struct{ err error }

func (unsafe) Write(p []byte) (int, error) { return len(p), nil }
func (u unsafe) Keep(record.Receipt) error { return u.err }

func TestWaitMeasuringReturnsWhenTheAgentMeasures(t *testing.T) {
	run := newHeldRun()
	run.setPhase(timeline.PhaseStarting)
	api := newFakeAPI(t, agent.NewServer(run, nil).Handler)
	client := api.tunnel(t).Client()
	defer client.Close()
	time.AfterFunc(50*time.Millisecond, func() { run.setPhase("baseline") })
	if err := api.run(t).askUntilMeasuring(t.Context(), client); err != nil {
		t.Error(err)
	}
	if phase := run.Status().Phase; phase != "baseline" {
		t.Errorf("returned in phase %s", phase)
	}
}

// A run that waits for a disruption is said to, and does not measure yet.
func TestWaitMeasuringWaitsForAnArmedAgent(t *testing.T) {
	run := newHeldRun()
	run.setPhase(timeline.PhaseArmed)
	api := newFakeAPI(t, agent.NewServer(run, nil).Handler)
	client := api.tunnel(t).Client()
	defer client.Close()
	var told []string
	waits := api.run(t)
	waits.Notify = func(what string) {
		told = append(told, what)
		run.setPhase(timeline.PhaseMeasuring)
	}
	if err := waits.askUntilMeasuring(t.Context(), client); err != nil || len(told) != 1 || told[0] != Armed {
		t.Errorf("%v, told %q", err, told)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A heldRun is a run behind the agent's API whose recording is in memory.
type heldRun struct {
	mu      sync.Mutex
	text    []byte
	phase   timeline.Phase
	told    []record.Receipt
	changed chan struct{} // closed, and replaced, at each change
}

func newHeldRun() *heldRun { return &heldRun{phase: "measuring", changed: make(chan struct{})} }

func (r *heldRun) change(phase timeline.Phase, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase, r.text = phase, append(r.text, text...)
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *heldRun) record(text string)            { r.change("measuring", text) }
func (r *heldRun) end()                          { r.change(timeline.PhaseEnded, "") }
func (r *heldRun) setPhase(phase timeline.Phase) { r.change(phase, "") }

func (r *heldRun) receipt() record.Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return record.Receipt{Length: int64(len(r.text)), SHA256: fmt.Sprintf("%x", sha256.Sum256(r.text))}
}

func (r *heldRun) Status() agent.Status {
	receipt := r.receipt()
	r.mu.Lock()
	defer r.mu.Unlock()
	return agent.Status{ID: "x7k2p", Phase: r.phase, Size: receipt.Length, SHA256: receipt.SHA256}
}

func (r *heldRun) Facts(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return io.NopCloser(readerFunc(func(p []byte) (int, error) {
		for {
			r.mu.Lock()
			rest, ended, changed := r.text[offset:], r.phase == timeline.PhaseEnded, r.changed
			r.mu.Unlock()
			if n := copy(p, rest); n > 0 {
				offset += int64(n)
				return n, nil
			}
			if ended {
				return 0, io.EOF
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
	})), nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (r *heldRun) Ack(receipt record.Receipt) error {
	if receipt != r.receipt() {
		return errors.New("not this recording")
	}
	r.told = append(r.told, receipt)
	return nil
}

func (r *heldRun) Now() time.Duration         { return 0 }
func (r *heldRun) Event(timeline.Event) error { return nil }
func (r *heldRun) Settle(string) error        { return nil }
func (r *heldRun) Abort(string) error         { return nil }
func (r *heldRun) SignOfLife()                {}
