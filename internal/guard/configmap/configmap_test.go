package configmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/correlate/model"
	"lapse/internal/guard/gate"
	"lapse/internal/history"
	"lapse/internal/kube"
)

// A fakeAPI has one ConfigMap, and refuses a change of what is not as it was, as the API server does.
type fakeAPI struct {
	kube.ConfigMaps
	object  *corev1.ConfigMap
	version int
	reads   int
	writes  int
	away    error
	back    time.Time // when it is not away any more; zero: never
}

var resource = corev1.Resource("configmaps")

func newAPI() *fakeAPI {
	return &fakeAPI{object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "history", ResourceVersion: "0"}}}
}

func (a *fakeAPI) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	if a.reads++; !a.back.IsZero() && time.Now().After(a.back) {
		a.away = nil
	}
	if a.object == nil && a.away == nil {
		return nil, apierrors.NewNotFound(resource, "history")
	}
	return a.object.DeepCopy(), a.away
}

func (a *fakeAPI) Patch(_ context.Context, name string, kind types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string) (*corev1.ConfigMap, error) {
	if a.away != nil {
		return nil, a.away
	}
	if a.object == nil {
		return nil, apierrors.NewNotFound(resource, "history")
	}
	next := a.object.DeepCopy()
	if err := json.Unmarshal(patch, next); err != nil || kind != types.MergePatchType {
		return nil, errors.Join(err, errors.New("no merge patch"))
	}
	if next.ResourceVersion != a.object.ResourceVersion {
		return nil, apierrors.NewConflict(resource, name, errors.New("it has been modified"))
	}
	a.writes++
	return a.edit(next.Data), nil
}

// edit replaces the data.
func (a *fakeAPI) edit(data map[string]string) *corev1.ConfigMap {
	a.version++
	a.object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "history", ResourceVersion: strconv.Itoa(a.version)}, Data: data}
	return a.object.DeepCopy()
}

// opened returns what a guard has of it, and what it says is damaged.
func opened(api *fakeAPI) (m *Map, damage *[]string) {
	damage = new([]string)
	return &Map{
		ConfigMaps: api, Name: "history", Log: slog.New(slog.DiscardHandler),
		Damaged: func(err error) { *damage = append(*damage, err.Error()) },
	}, damage
}

// run returns the nth run.
func run(n int) Run {
	id, at := fmt.Sprintf("lapse-%03d", n), time.Date(2026, 11, 26, 10, n, 0, 0, time.UTC)
	return Run{
		history.Line{History: 1, Run: id, T0: at, Service: "shop/web", Sent: 10, Downtime: &model.Downtime{}, Coverage: 1, Verdict: model.Pass},
		gate.Run{ID: id, Began: at, Changed: at.Add(time.Second), Verdict: gate.Pass, Reason: "0 of 10 failed", Hashes: []string{"abc"}},
	}
}

func (m *Map) add(t *testing.T, numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		if err := m.Add(t.Context(), []Run{run(n)}); err != nil {
			t.Fatal(err)
		}
	}
}

// has returns the numbers of the runs that another guard reads.
func has(t *testing.T, api *fakeAPI) string {
	t.Helper()
	m, damage := opened(api)
	if err := m.Read(t.Context()); err != nil || len(*damage) > 0 {
		t.Fatal(err, *damage)
	}
	var all []string
	for _, r := range m.Known() {
		n, _ := strconv.Atoi(strings.TrimPrefix(r.Line.Run, "lapse-"))
		if all = append(all, strconv.Itoa(n)); r.Gate.Reason != "0 of 10 failed" || r.Gate.ID != r.Line.Run {
			t.Errorf("%+v", r)
		}
	}
	return strings.Join(all, " ")
}

// A run is one write. What another guard has written stays.
func TestARunIsOneWrite(t *testing.T) {
	api := newAPI()
	m, _ := opened(api)
	m.add(t, 1)
	reads := api.reads
	m.add(t, 2, 3)
	if api.writes != 3 || api.reads != reads {
		t.Errorf("%d writes and %d reads more for 3 runs", api.writes, api.reads-reads)
	}
	other, _ := opened(api)
	other.add(t, 4)
	m.add(t, 5)
	if got := has(t, api); got != "1 2 3 4 5" || api.writes != 5 {
		t.Errorf("it has %s after %d writes", got, api.writes)
	}
}

// The newest 200 runs are kept, and no more than fit.
func TestTheNewestRunsAreKept(t *testing.T) {
	api := newAPI()
	m, _ := opened(api)
	var all []Run
	for n := range 230 {
		all = append(all, run(n))
	}
	if err := m.Add(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if got := has(t, api); !strings.HasPrefix(got, "30 31 ") || !strings.HasSuffix(got, " 229") {
		t.Errorf("it has %s", got)
	}
	for i := range all {
		all[i].Gate.Nodes = strings.Split(strings.Repeat("node,", 1000), ",")
	}
	if err := m.Add(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	bytes := len(api.object.Data[historyKey]) + len(api.object.Data[gateKey])
	if got := has(t, api); bytes > 512<<10 || bytes < 500<<10 || !strings.HasSuffix(got, " 229") {
		t.Errorf("%d bytes: %s", bytes, got)
	}
}

// The gate answers for the newest run of a Service, however many others have had runs since.
func TestTheNewestRunOfEachServiceIsKept(t *testing.T) {
	api := newAPI()
	m, _ := opened(api)
	var all []Run
	for n := range 230 {
		all = append(all, run(n))
	}
	all[7].Line.Service, all[8].Line.Service = "shop/api", "shop/api"
	if err := m.Add(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if got := has(t, api); !strings.HasPrefix(got, "8 31 ") || !strings.HasSuffix(got, " 229") {
		t.Errorf("it has %s", got)
	}
	for n := range all {
		all[n].Line.Service = fmt.Sprint("shop/", n)
	}
	api = newAPI()
	m, _ = opened(api)
	if err := m.Add(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if got := has(t, api); !strings.HasPrefix(got, "30 31 ") || !strings.HasSuffix(got, " 229") {
		t.Errorf("of 230 Services it has %s", got)
	}
}

// What somebody has made of the ConfigMap is told, and mended by the next run. Nothing that a guard knows is lost.
func TestAnEditIsToldAndMended(t *testing.T) {
	for name, edit := range map[string]func(data map[string]string){
		"cut off":       func(data map[string]string) { data[historyKey] = data[historyKey][:100] },
		"no lines":      func(data map[string]string) { data[historyKey] = "so what\n" + data[historyKey] },
		"no verdicts":   func(data map[string]string) { data[gateKey] = "{}\n" + data[gateKey] },
		"a verdict now": func(data map[string]string) { data[gateKey] = strings.Replace(data[gateKey], `"pass"`, `"pending"`, 1) },
	} {
		api := newAPI()
		m, damage := opened(api)
		m.add(t, 1, 2)
		data := api.object.DeepCopy().Data
		edit(data)
		api.edit(data)
		m.add(t, 3)
		if len(*damage) != 1 || !strings.Contains((*damage)[0], "the ConfigMap history: ") || !strings.Contains((*damage)[0], ".ndjson: line ") {
			t.Errorf("%s: told is %q", name, *damage)
		}
		if got := has(t, api); got != "1 2 3" {
			t.Errorf("%s: it has %s", name, got)
		}
	}
	api := newAPI()
	m, _ := opened(api)
	m.add(t, 1)
	api.edit(nil)
	if m.add(t, 2); has(t, api) != "1 2" {
		t.Error("emptied, it stays so")
	}
}

// What a newer Lapse has written is not overwritten.
func TestANewerFormatIsNotOverwritten(t *testing.T) {
	api := newAPI()
	api.edit(map[string]string{historyKey: `{"history":2,"run":"a"}` + "\n"})
	m, _ := opened(api)
	if err := m.Add(t.Context(), []Run{run(1)}); err == nil || !strings.Contains(err.Error(), "written by a newer Lapse") || api.writes > 0 {
		t.Errorf("%v, %d writes", err, api.writes)
	}
	if err := m.Await(t.Context()); err == nil || !strings.Contains(err.Error(), "written by a newer Lapse") {
		t.Errorf("a guard that starts is told %v", err)
	}
}

// A ConfigMap that is away, or that may not be written, is an error that names it; the runs come with the next attempt.
func TestWhatCannotBeWrittenComesLater(t *testing.T) {
	api := newAPI()
	m, _ := opened(api)
	m.add(t, 1)
	api.object = nil
	if err := m.Add(t.Context(), []Run{run(2)}); err == nil || !strings.Contains(err.Error(), "the ConfigMap history, which `lapse gen guard` prints: ") {
		t.Errorf("%v", err)
	}
	api.edit(nil)
	api.away = apierrors.NewForbidden(resource, "history", errors.New("no"))
	if err := m.Add(t.Context(), []Run{run(3)}); !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
	api.away = nil
	if m.add(t, 4); has(t, api) != "1 2 3 4" {
		t.Errorf("it has %s", has(t, api))
	}
}

// A guard that starts while no API server answers waits for what it has to know, and not for what it may not.
func TestAwaitWaitsForTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newAPI()
		m, _ := opened(api)
		m.add(t, 1)
		for _, away := range []error{
			errors.New("connection refused"), apierrors.NewInternalError(errors.New("etcdserver: leader changed")),
			apierrors.NewServiceUnavailable("starting"), apierrors.NewTooManyRequests("later", 1),
		} {
			api.away = away
			next, _ := opened(api)
			api.back = time.Now().Add(time.Minute) // of virtual time
			if err := next.Await(t.Context()); err != nil || len(next.Known()) != 1 {
				t.Errorf("%v: %v, it knows %d runs", away, err, len(next.Known()))
			}
		}
		next, _ := opened(api)
		api.away, api.back = apierrors.NewForbidden(resource, "history", errors.New("no")), time.Time{}
		if err := next.Await(t.Context()); !apierrors.IsForbidden(err) {
			t.Error(err)
		}
	})
}
