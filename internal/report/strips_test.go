package report

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// rowsOf are the chart's rows by label, their cells as text, and what stands below the chart.
func rowsOf(t *testing.T, tl *model.Timeline) (rows map[string]string, below string) {
	t.Helper()
	var out strings.Builder
	if err := Table(&out, tl, Options{Width: 100, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	_, chart, _ := strings.Cut(out.String(), "TIMELINE")
	chart, _, _ = strings.Cut(chart, " LATENCY")
	rows = map[string]string{}
	legend := false
	for line := range strings.Lines(chart) {
		line = strings.TrimSpace(line)
		if legend = legend || strings.HasPrefix(line, ". ok"); legend {
			below += line + "\n"
			continue
		}
		if label, cells, ok := strings.Cut(line, "  "); ok {
			if strings.HasPrefix(label, "pod ") { // its node follows
				_, cells, _ = strings.Cut(strings.TrimSpace(cells), "  ")
			}
			rows[label] = strings.TrimSpace(cells)
		}
	}
	return rows, below
}

// endpointsOf are n endpoints of a Service that become ready at the instants given; a negative one becomes absent.
func endpointsOf(service string, n int, at time.Duration, state string) (list []model.Event) {
	for i := range n {
		list = append(list, model.Event{
			Event: timeline.Event{
				Seen: at, Kind: timeline.EndpointChanged, To: state, Service: service, Port: 8080,
				Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), Object: timeline.Object{Kind: "Pod", Name: fmt.Sprintf("%s-%d", service, i), UID: fmt.Sprintf("%s-%d", service, i)},
			}, At: model.Instant{Earliest: at, Latest: at},
		})
	}
	return list
}

func TestManyEndpointsAreCountedWithTheNumberWhereItChanges(t *testing.T) {
	tl := base(20 * s)
	addTarget(tl, "web new", timeline.New, 100, nil)
	tl.Run.Services = []timeline.Service{{Namespace: "shop", Name: "web"}}
	tl.Events = slices.Concat(
		endpointsOf("shop/web", 12, 1100*ms, timeline.EndpointReady),
		endpointsOf("shop/web", 6, 8*s, timeline.EndpointAbsent),
		endpointsOf("shop/web", 6, 12*s, timeline.EndpointReady),
		endpointsOf("shop/web", 12, 18*s+500*ms, timeline.EndpointAbsent),
		endpointsOf("shop/web", 12, 18*s+600*ms, timeline.EndpointReady),
	)
	tl.Services = cluster.Services(tl.Events)
	rows, below := rowsOf(t, tl)
	if got, want := rows["endpoints"], "'12-----6---12----0-"; len(got) != 20 || !strings.HasPrefix(got, "'12-----6---12----") || !strings.Contains(got[17:], "0") {
		t.Errorf("endpoints %q, want about %q", got, want)
	}
	for _, want := range []string{"' no data", "endpoints: the fewest ready, a number where it changes"} {
		if !strings.Contains(below, want) {
			t.Errorf("no %q in the legend:\n%s", want, below)
		}
	}
}

func TestEachServiceHasItsOwnCountOfEndpoints(t *testing.T) {
	tl := base(10 * s)
	addTarget(tl, "web new", timeline.New, 100, nil)
	addTarget(tl, "api new", timeline.New, 100, nil)
	tl.Run.Services = []timeline.Service{{Namespace: "shop", Name: "web"}, {Namespace: "shop", Name: "api"}}
	tl.Events = slices.Concat(
		endpointsOf("shop/web", 2, 0, timeline.EndpointReady), endpointsOf("shop/api", 3, 0, timeline.EndpointReady), endpointsOf("shop/api", 1, 5*s, timeline.EndpointTerminating),
	)
	tl.Services = cluster.Services(tl.Events)
	rows, _ := rowsOf(t, tl)
	for label, want := range map[string]string{"endpoints web": "2222222222", "endpoints api": "3333322222"} {
		if rows[label] != want {
			t.Errorf("%s: %q, want %q; all: %v", label, rows[label], want, rows)
		}
	}
}

func TestEndpointIsCountedOnceThoughItHasTwoPortsAndTwoAddresses(t *testing.T) {
	tl := base(10 * s)
	addTarget(tl, "web new", timeline.New, 100, nil)
	tl.Events = endpointsOf("shop/web", 2, 0, timeline.EndpointReady)
	for _, e := range endpointsOf("shop/web", 2, 0, timeline.EndpointReady) {
		port, family := e, e
		port.Port = 9090
		family.Addr = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: e.Addr.As4()[3]})
		tl.Events = append(tl.Events, port, family)
	}
	tl.Services = cluster.Services(tl.Events)
	if rows, _ := rowsOf(t, tl); rows["endpoints"] != "2222222222" {
		t.Errorf("endpoints %q, want 2 of them", rows["endpoints"])
	}
	if ready, _ := readyNow(tl); ready != 2 {
		t.Errorf("%d ready, want 2", ready)
	}
}

// crowd is a run with 60 Pods that were there all the time, first listed 1.3 s after its start, of which three were
// replaced late.
func crowd() *model.Timeline {
	tl := base(60 * s)
	addTarget(tl, "web new", timeline.New, 100, nil)
	for i := range 60 {
		uid := fmt.Sprintf("old-%d", i)
		pod := model.Pod{Namespace: "shop", Name: fmt.Sprintf("web-7c9d-old%02d", i), UID: uid, Node: "node-a", States: lane("1300ms ready")}
		if i >= 57 {
			pod.States = lane("1300ms ready, 40s terminating, 42s gone")
		}
		tl.Pods = append(tl.Pods, pod)
	}
	for i := range 3 {
		tl.Pods = append(tl.Pods, model.Pod{Namespace: "shop", Name: fmt.Sprintf("web-7c9d-new%02d", i), UID: fmt.Sprintf("new-%d", i), Node: "node-b",
			Created: &model.Instant{Earliest: 40 * s, Latest: 40*s + 10*ms}, States: lane("40s pending, 41s creating, 43s ready")})
	}
	return tl
}

// What a watch of some Services missed says nothing against the rows of the others.
func TestAWatchGapIsDrawnOverTheRowsOfItsServicesOnly(t *testing.T) {
	tl := base(10 * s)
	addTarget(tl, "web new", timeline.New, 100, nil)
	tl.Run.Services = []timeline.Service{{Namespace: "shop", Name: "web"}, {Namespace: "shop", Name: "api"}}
	gap := func(kind string) model.Event {
		return model.Event{Event: timeline.Event{Kind: timeline.WatchGap, Object: timeline.Object{Kind: kind}, Services: []string{"shop/web"}}, At: model.Instant{Earliest: 4 * s, Latest: 6 * s}}
	}
	tl.Events = slices.Concat(endpointsOf("shop/web", 1, 0, timeline.EndpointReady), endpointsOf("shop/api", 1, 0, timeline.EndpointReady), []model.Event{gap("Pod"), gap("EndpointSlice")})
	tl.Services = cluster.Services(tl.Events)
	for _, pod := range []struct{ namespace, name, uid string }{{"shop", "web-0", "shop/web-0"}, {"shop", "api-0", "shop/api-0"}, {"shop", "web-young", "young"}, {"payments", "web-other", "other"}} {
		tl.Pods = append(tl.Pods, model.Pod{Namespace: pod.namespace, Name: pod.name, UID: pod.uid, Node: "node-a", Created: &model.Instant{}, States: lane("0s pending, 1s ready")})
	}
	rows, _ := rowsOf(t, tl)
	for label, want := range map[string]string{"endpoints web": "1111''1111", "endpoints api": "1111111111", "pod web-0": "pRRR''RRRR", "pod api-0": "pRRRRRRRRR", "pod web-young": "pRRR''RRRR", "pod web-other": "pRRRRRRRRR"} {
		if rows[label] != want {
			t.Errorf("%s: %q, want %q; all: %v", label, rows[label], want, rows)
		}
	}
}

func TestLanesShowThePodsThatChanged(t *testing.T) {
	rows, below := rowsOf(t, crowd())
	var pods []string
	for label := range rows {
		if strings.HasPrefix(label, "pod ") {
			pods = append(pods, label)
		}
	}
	slices.Sort(pods)
	if want := "[pod new00 pod new01 pod new02 pod old57 pod old58 pod old59]"; fmt.Sprint(pods) != want {
		t.Errorf("lanes of %v, want %s", pods, want)
	}
	if want := "57 more Pods ready all the time"; !strings.Contains(below, want) {
		t.Errorf("no %q in\n%s", want, below)
	}
}

func TestWorstPodsAreShownFirst(t *testing.T) {
	const mostPods = 12
	tl := crowd()
	for i := range 20 { // more that came than fit
		tl.Pods = append(tl.Pods, model.Pod{Name: fmt.Sprintf("web-7c9d-more%02d", i), UID: fmt.Sprintf("more-%d", i), Created: &model.Instant{Latest: s}, States: lane("1s pending, 2s ready")})
	}
	tl.Pods[3].States = lane("1300ms ready, 50s crashed, 51s running")
	tl.Windows = []model.Window{{ID: 1, Target: "web new", Causes: []model.Cause{{Text: "node-a still routed to web-7c9d-old58 for 1 s"}}}}
	var out strings.Builder
	if err := Table(&out, tl, Options{Width: 100, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range regexp.MustCompile(`(?m)^ +pod (\w+)`).FindAllStringSubmatch(out.String(), -1) {
		names = append(names, row[1])
	}
	if want := "[old03 old58 old57 old59]"; len(names) != mostPods || fmt.Sprint(names[:4]) != want {
		t.Errorf("the rows are of %v; want %s first of %d", names, want, mostPods)
	}
	for _, want := range []string{"56 more Pods ready all the time", fmt.Sprintf("%d more Pods changed, less", 27-mostPods)} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func containerEvent(at time.Duration, uid, to string, code int) model.Event {
	return model.Event{Event: timeline.Event{Seen: at, Kind: timeline.PodContainer, To: to, ExitCode: &code, Detail: "app",
		Object: timeline.Object{Kind: "Pod", Name: "web-7c9d-" + uid, UID: uid}}, At: model.Instant{Earliest: at - ms, Latest: at}}
}

func TestRestartShowsThoughItsPodWasReadyAgainAtOnce(t *testing.T) {
	tl := base(20 * s)
	addTarget(tl, "web new", timeline.New, 100, nil)
	tl.Pods = []model.Pod{{Name: "web-7c9d-aaaaa", UID: "aaaaa", Node: "n", States: lane("0s ready")}, {Name: "web-7c9d-bbbbb", UID: "bbbbb", Node: "n", States: lane("0s ready")}}
	tl.Events = []model.Event{containerEvent(7*s, "aaaaa", "terminated", 137), containerEvent(7*s, "aaaaa", "running", 1)}
	rows, below := rowsOf(t, tl)
	if got, want := rows["pod aaaaa"], "RRRRRRRXRRRRRRRRRRRR"; got != want {
		t.Errorf("lane %q, want %q", got, want)
	}
	for _, want := range []string{"X exited, or waiting to be restarted", "exited, code 137 (SIGKILL), and started again: aaaaa", "1 more Pod ready all the time"} {
		if !strings.Contains(below, want) {
			t.Errorf("no %q in\n%s", want, below)
		}
	}
}

func TestExitCodesOfPodsThatEndedAreShownTogether(t *testing.T) {
	tl := crowd()
	for _, uid := range []string{"old-57", "old-58", "old-59"} {
		code := map[string]int{"old-57": 143, "old-58": 0, "old-59": 143}[uid]
		tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Seen: 40 * s, Kind: timeline.PodDeleted, Object: timeline.Object{Kind: "Pod", UID: uid}}}, containerEvent(41*s, uid, "terminated", code))
	}
	rows, below := rowsOf(t, tl)
	if want := "exited, code 143 (SIGTERM): 57, 59"; !strings.Contains(strings.ReplaceAll(below, "web-7c9d-old-", ""), want) {
		t.Errorf("no %q in\n%s", want, below)
	}
	if strings.Contains(rows["pod old57"], "X") {
		t.Errorf("a Pod that was to end is drawn as broken: %q", rows["pod old57"])
	}
}

func TestDirectRowsOfAPodAreToldApartByTheirPorts(t *testing.T) {
	tl := base(20 * s)
	addTarget(tl, "web new", timeline.New, 100, nil)
	pod := model.Pod{Namespace: "shop", Name: "web-1", UID: "web-1", States: []model.PodState{{State: "ready"}, {Start: 9 * s, State: "terminating"}}}
	tl.Pods = []model.Pod{pod}
	for _, port := range []string{"8080", "9090"} {
		addTarget(tl, "direct "+port, timeline.Direct, 100, nil)
		last := &tl.Targets[len(tl.Targets)-1]
		last.PodUID, last.Addr, last.Failed = pod.UID, netip.MustParseAddrPort("[fd00::1]:"+port), 3
	}
	rows, _ := rowsOf(t, tl)
	if rows["direct :8080"] == "" || rows["direct :9090"] == "" {
		t.Errorf("the rows are %q", slices.Sorted(maps.Keys(rows)))
	}
	tl.Targets = tl.Targets[:len(tl.Targets)-1]
	if rows, _ := rowsOf(t, tl); rows["direct"] == "" {
		t.Errorf("the rows are %q", slices.Sorted(maps.Keys(rows)))
	}
}

func TestCellIsNoLongerThanTheRun(t *testing.T) {
	tl := base(4 * s)
	tl.Buckets.Width = 10 * s // as at a low rate
	addTarget(tl, "web new", timeline.New, 1, nil)
	var out strings.Builder
	if err := Table(&out, tl, Options{Width: 100, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "one cell = 4 s") {
		t.Errorf("%s", out.String())
	}
}
