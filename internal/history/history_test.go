package history

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/timeline"
)

// rollout is a run in which a Deployment was rolled out, and lost requests.
func rollout() *model.Timeline {
	pod := func(name, owner, template string, ending *model.Ending) model.Pod {
		return model.Pod{Namespace: "shop", Name: name, UID: name, Owner: owner, Template: template, Ending: ending}
	}
	endpoint := func(name string) model.Event {
		return model.Event{Event: timeline.Event{Kind: timeline.EndpointChanged, To: timeline.EndpointReady, Service: "shop/web", Object: timeline.Object{UID: name}}}
	}
	of := timeline.Object{Kind: "Deployment", Name: "web"}
	target := func(name string, kind timeline.TargetKind, node string) model.Target {
		return model.Target{Target: timeline.Target{Name: name, Kind: kind, Rate: 100, Service: "shop/web"}, Node: node}
	}
	window := func(target, rule string, failed int, confidence model.Confidence) model.Window {
		return model.Window{Target: target, Kind: model.Outage, Failed: failed, Causes: []model.Cause{{Rule: rule, Confidence: confidence}}}
	}
	tl := &model.Timeline{
		Tool: model.Tool{Version: "v1.4.0"}, T0: time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC),
		Run: model.RunInfo{
			ID: "lapse-20261121-101500-ab3d", Duration: 21 * time.Second, Baseline: 5 * time.Second, Services: []timeline.Service{{Namespace: "shop", Name: "web"}},
			Cluster: &timeline.Cluster{Version: "v1.36.3", ProxyMode: "nftables"},
		},
		Targets: []model.Target{
			target("web reused", timeline.Reused, "node3"), target("web new", timeline.New, "node3"), target("web new 2", timeline.New, "node2"),
			target("web direct", timeline.Direct, "node1"),
		},
		Pods: []model.Pod{
			pod("new", "ReplicaSet/web-5f9dd68475", "6e1a94bf", nil), pod("never-ready", "ReplicaSet/web-77777", "", nil),
			pod("old", "ReplicaSet/web-54cf597767", "785a4bc0", &model.Ending{By: model.ByRollout, Of: &of}),
			pod("old-2", "ReplicaSet/web-54cf597767", "785a4bc0", &model.Ending{By: model.ByRollout, Of: &of}),
		},
		Events: []model.Event{endpoint("old"), endpoint("old-2"), endpoint("new"), endpoint("old")},
		Windows: []model.Window{
			window("web new", "route-outlives-pod", 5, model.Medium), window("web new", "route-outlives-pod", 12, model.High), window("web reused", "pinned-connection", 3, model.High),
			window("web direct", "pod-crashed", 50, model.High),
		},
		Verdict: model.Verdict{Result: model.Fail, Sent: 2100, Failed: 20, Coverage: 1},
	}
	figures := model.ServiceVerdict{Sent: 2100, Failed: 20, Coverage: 0.996}
	figures.Downtime.Total = model.Length{Min: 114 * time.Millisecond, Max: 344 * time.Millisecond}
	tl.Services = []model.WatchedService{{Name: "shop/web", Verdict: &figures}}
	return tl
}

const sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestALineHasWhatATrendNeeds(t *testing.T) {
	want := []Line{{
		History: 1, Run: "lapse-20261121-101500-ab3d", T0: time.Date(2026, 11, 21, 10, 15, 0, 0, time.UTC), Duration: 21 * time.Second, Baseline: 5 * time.Second,
		Service:    "shop/web",
		Triggers:   []Trigger{{model.RolledOut, "Deployment/web"}},
		Release:    Release{Templates: []string{"54cf597767", "5f9dd68475"}},
		Kubernetes: "v1.36.3", ProxyMode: "nftables",
		Load:    []Load{{Kind: "reused", Rate: 100}, {Kind: "new", Rate: 100, Targets: 2}},
		Sources: []string{"node2", "node3"},
		Sent:    2100, Failed: 20, Coverage: 0.996,
		Downtime: &model.Downtime{Total: model.Length{Min: 114 * time.Millisecond, Max: 344 * time.Millisecond}},
		Causes:   []Cause{{"route-outlives-pod", model.High, 17}, {"pinned-connection", model.High, 3}},
		Verdict:  model.Fail, Lapse: "v1.4.0", Recording: sum,
	}}
	got := Of(rollout(), sum)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	var file bytes.Buffer
	if err := Write(&file, got...); err != nil {
		t.Fatal(err)
	}
	again, unread, err := Read(&file)
	if diff := cmp.Diff(want, again); diff != "" || len(unread) > 0 || err != nil {
		t.Errorf("%v %v (-want +read):\n%s", unread, err, diff)
	}
}

func TestEachServiceOfARunHasALine(t *testing.T) {
	tl := rollout()
	api := model.ServiceVerdict{Sent: 50, Coverage: 1}
	tl.Services = append(tl.Services, model.WatchedService{Name: "shop/api", Verdict: &api}, model.WatchedService{Name: "shop/watched"})
	tl.Targets = append(tl.Targets, model.Target{Target: timeline.Target{Name: "api new", Kind: timeline.New, Rate: 5, Service: "shop/api"}})
	lines := Of(tl, "")
	if len(lines) != 2 || lines[0].Service != "shop/api" || lines[0].Failed != 0 || lines[0].Causes != nil || lines[0].Triggers != nil || lines[1].Failed != 20 {
		t.Errorf("%+v", lines)
	}
}

// Nothing was measured: there is no downtime of 0.
func TestARunThatSentNothingHasNoDowntime(t *testing.T) {
	tl := rollout()
	tl.Services, tl.Targets, tl.Windows, tl.Run.Aborted = nil, nil, nil, "interrupted"
	tl.Verdict = model.Verdict{Result: model.Inconclusive}
	lines := Of(tl, "")
	if len(lines) != 1 || lines[0].Downtime != nil || lines[0].Service != "shop/web" || !lines[0].Aborted {
		t.Fatalf("%+v", lines)
	}
	if err := Write(new(bytes.Buffer), lines...); err != nil {
		t.Error(err)
	}
}

func TestARunOfURLsHasOneLine(t *testing.T) {
	tl := &model.Timeline{T0: time.Unix(1, 0), Run: model.RunInfo{ID: "a", URLs: []string{"http://127.0.0.1:80/"}}, Verdict: model.Verdict{Result: model.Ungated, Sent: 10, Coverage: 1},
		Targets: []model.Target{{Target: timeline.Target{Kind: timeline.New, Rate: 10}, Source: "laptop"}}}
	lines := Of(tl, "")
	if len(lines) != 1 || lines[0].Service != "" || len(lines[0].URLs) != 1 || lines[0].Sent != 10 || lines[0].Kubernetes != "" || lines[0].Sources[0] != "laptop" {
		t.Errorf("%+v", lines)
	}
}

// A run of URLs may watch the Service behind them: what happened to its Pods sets the runs of a rollout and of a drain
// apart, and so does the rate.
func TestTheLineOfURLsHasWhatHappenedToTheServiceThatIsWatched(t *testing.T) {
	tl := rollout()
	want := Of(tl, "")[0]
	tl.Run.URLs, tl.Services[0].Verdict = []string{"https://shop.example/"}, nil
	for i := range tl.Targets {
		if tl.Targets[i].Kind.Judged() {
			tl.Targets[i].Service = ""
		}
	}
	want.Service, want.URLs, want.Coverage, want.Downtime = "", tl.Run.URLs, 1, &model.Downtime{} // those of the run
	if diff := cmp.Diff([]Line{want}, Of(tl, "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What a URL lost beside a Service that lost nothing is kept.
func TestURLsBesideAServiceHaveALineOfTheirOwn(t *testing.T) {
	tl := rollout()
	alone := Of(tl, "")[0]
	tl.Run.URLs = []string{"https://shop.example/"}
	tl.Targets = append(tl.Targets, model.Target{Target: timeline.Target{Name: "https://shop.example/ new", Kind: timeline.New, Rate: 50}, Source: "laptop", Sent: 1000, Failed: 500, Coverage: 0.9})
	length := model.Length{Min: 9 * time.Second, Max: 10 * time.Second}
	tl.Windows = append(tl.Windows, model.Window{Target: "https://shop.example/ new", Kind: model.Outage, Failed: 500, Length: length, Downtime: length, Causes: []model.Cause{{Rule: "proxy-lost-backends", Confidence: model.Low}}})
	tl.Verdict.Sent, tl.Verdict.Failed = 3100, 520
	urls := alone
	urls.Service, urls.URLs, urls.Load, urls.Sources = "", tl.Run.URLs, []Load{{Kind: "new", Rate: 50}}, []string{"laptop"}
	urls.Sent, urls.Failed, urls.Coverage, urls.Downtime = 1000, 500, 0.9, &model.Downtime{Total: length}
	urls.Causes = []Cause{{"proxy-lost-backends", model.Low, 500}}
	if diff := cmp.Diff([]Line{alone, urls}, Of(tl, "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheRevisionNamesAReleaseOfAStatefulSet(t *testing.T) {
	tl := rollout()
	tl.Pods[0].Owner, tl.Pods[2].Owner, tl.Pods[3].Owner = "StatefulSet/web", "DaemonSet/web", "Job/web"
	tl.Pods[3].Template = "00000001"
	for id, revision := range map[string]string{"6e1a94bf": "web-74d7f9bbc9", "785a4bc0": "6c5b7cb66d"} {
		tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.SnapshotTaken, Snapshot: &timeline.Snapshot{Template: &timeline.PodTemplate{ID: id, Revision: revision}}}})
	}
	if got, want := Of(tl, "")[0].Release.Templates, []string{"6c5b7cb66d", "00000001", "74d7f9bbc9"}; !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestALineFitsWhateverTheRunHad(t *testing.T) {
	l := Of(rollout(), sum)[0]
	for i := range 300 {
		l.Sources = append(l.Sources, fmt.Sprintf("node-%d.region.internal", i))
		l.Causes = append(l.Causes, Cause{Rule: fmt.Sprintf("rule-%d", i), Confidence: model.Low})
		l.Triggers = append(l.Triggers, Trigger{model.NodeDrained, fmt.Sprintf("Node/%d", i)})
		l.Release.Templates = append(l.Release.Templates, fmt.Sprint("hash", i))
	}
	var file bytes.Buffer
	if err := Write(&file, l); err != nil || file.Len() > MaxBytes {
		t.Fatalf("%d bytes, %v", file.Len(), err)
	}
	lines, unread, _ := Read(&file)
	if len(unread) > 0 {
		t.Fatal(unread)
	}
	got := lines[0]
	if got.Truncated == 0 || got.Causes[0] != l.Causes[0] || got.Release.Templates[len(got.Release.Templates)-1] != "hash299" || len(l.Sources) != 302 {
		t.Errorf("%+v", got)
	}
	l.Run = strings.Repeat("x", MaxBytes)
	if err := Write(&file, l); err == nil {
		t.Error("a line that is too long is written")
	}
}

// line is a line of a file, with changes of its text.
func line(oldnew ...string) string {
	var file bytes.Buffer
	if err := Write(&file, Of(rollout(), sum)...); err != nil {
		panic(err)
	}
	return strings.NewReplacer(oldnew...).Replace(file.String())
}

func TestWhatIsNoLineIsToldWithItsNumber(t *testing.T) {
	for want, bad := range map[string]string{
		"line 2: unexpected EOF":                            line()[:10] + "\n" + line(),
		"line 2: invalid character":                         line()[:300] + line() + line(),
		"line 2: format 2 was written by a newer Lapse":     line(`"history":1`, `"history":2`, `"sent"`, `"requestsSent"`),
		"line 2: format 0 is unknown":                       line(`"history":1`, `"history":0`),
		`line 2: it does not begin as {"history":1,…}`:      "{}\n",
		"line 2: json: cannot unmarshal":                    "[]\n",
		"unknown field":                                     line(`"sent"`, `"Sends"`),
		"line 2: more follows":                              strings.TrimSpace(line()) + line(),
		"line 2: it has more than 2048 bytes":               strings.Repeat("x", 10_000) + "\n",
		"line 2: it names neither":                          line(`"run":"lapse-20261121-101500-ab3d"`, `"run":""`),
		`line 2: "a\nb" is no name`:                         line("node3", `a\nb`),
		`"\x1b[31mred" is no name`:                          line("nftables", `\u001b[31mred`),
		`"\u202egnp" is no name`:                            line("54cf597767", `\u202egnp`),
		`service "::set-output name=x::y/z" is not`:         line("shop/web", "::set-output name=x::y/z"),
		"line 2: 30 of 20 requests failed":                  line(`"sent":2100`, `"sent":20`, `"failed":20,"d`, `"failed":30,"d`),
		"a downtime belongs to requests: 0 were sent":       line(`"sent":2100,"failed":20`, `"sent":0,"failed":0`),
		"line 2: downtime of 500ms to 344ms":                line(`"min":114000000`, `"min":500000000`),
		"line 2: coverage 1.5":                              line("0.996", "1.5"),
		`line 2: unknown verdict "passed"`:                  line(`"fail"`, `"passed"`),
		`line 2: recording "../../etc" is no SHA-256`:       line(sum, "../../etc"),
		"line 2: load of 2 targets at -1 requests":          line(`"rate":100,"targets":2`, `"rate":-1,"targets":2`),
		"line 2: duration -1s is negative":                  line("21000000000", "-1000000000"),
		"line 2: baseline 5s is not from 0 to the duration": line("21000000000", "4000000000"),
		"line 2: invalid character '\\x00' looking for beg": "\x00\x00\x00\x00\n" + line(),
	} {
		lines, unread, err := Read(strings.NewReader(line() + bad + line("ab3d", "last")))
		if err != nil || len(unread) != 1 || unread[0].CutOff || !strings.Contains(unread[0].Error(), want) {
			t.Errorf("%s: %v, %v", want, unread, err)
			continue
		}
		if n := len(lines); n < 2 || lines[0].Run != "lapse-20261121-101500-ab3d" || lines[n-1].Run != "lapse-20261121-101500-last" {
			t.Errorf("%s: the other lines are lost: %+v", want, lines)
		}
	}
	_, unread, _ := Read(strings.NewReader(line(`"history":1`, `"history":7`)))
	if version, ok := errors.AsType[*VersionError](unread[0]); !ok || version.Version != 7 {
		t.Errorf("%v", unread)
	}
}

func TestALastLineThatIsCutOffIsToldApart(t *testing.T) {
	whole := line()
	for cut := 1; cut < len(whole)-1; cut++ {
		lines, unread, err := Read(strings.NewReader(whole + whole[:cut]))
		if len(lines) != 1 || len(unread) != 1 || !unread[0].CutOff || unread[0].Error() != "line 2, the last, is cut off" || err != nil {
			t.Fatalf("cut after %d bytes: %d lines, %v, %v", cut, len(lines), unread, err)
		}
	}
	lines, unread, _ := Read(strings.NewReader("\n" + whole + "\r\n" + strings.TrimSpace(whole)))
	if len(lines) != 2 || len(unread) > 0 {
		t.Errorf("%d lines, %v", len(lines), unread)
	}
}

type failing struct{ text string }

func (f *failing) Read(p []byte) (int, error) {
	n := copy(p, f.text)
	if f.text = f.text[n:]; n == 0 {
		return 0, errors.New("disk on fire")
	}
	return n, nil
}

func TestAFileThatCannotBeReadIsNoShorterHistory(t *testing.T) {
	lines, _, err := Read(&failing{line() + line()[:100]})
	if len(lines) != 1 || err == nil || err.Error() != "disk on fire" {
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

// FuzzRead holds that what is read can be written, is read again as it was, and has nothing that a terminal obeys; nor
// do the errors have.
func FuzzRead(f *testing.F) {
	for _, text := range []string{line(), line("node3", `a\nb`), line("fail", "pass")[:200], "{}", "\x1b]0;x\x07\n", `{"history":1,"run":"\u202e"}`, strings.Repeat("[", 3000)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, unread, err := Read(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range unread {
			if strings.ContainsFunc(u.Error(), unprintable) {
				t.Errorf("%q", u)
			}
		}
		var file bytes.Buffer
		if err := Write(&file, lines...); err != nil {
			t.Fatal(err)
		}
		again, unread, _ := Read(&file)
		if len(unread) > 0 || !cmp.Equal(lines, again) {
			t.Errorf("%v\n%v\n%v", lines, again, unread)
		}
	})
}

// A Pod that was made before the run counts if it came into service in it. One that was in service at first does not,
// whatever becomes of it.
func TestMadeIsAlsoWhatCameIntoService(t *testing.T) {
	for name, c := range map[string]struct {
		states []string
		want   []string
	}{
		"slow to be ready":         {[]string{"", timeline.EndpointNotReady, timeline.EndpointReady}, []string{"5f9dd68475"}},
		"selected late":            {[]string{timeline.EndpointAbsent, timeline.EndpointReady}, []string{"5f9dd68475"}},
		"never ready":              {[]string{"", timeline.EndpointNotReady, timeline.EndpointAbsent}, nil},
		"ready, and ready again":   {[]string{"", timeline.EndpointReady, timeline.EndpointNotReady, timeline.EndpointReady}, nil},
		"selected, and once again": {[]string{"", timeline.EndpointReady, timeline.EndpointAbsent, timeline.EndpointReady}, nil},
	} {
		tl := rollout()
		tl.Events = []model.Event{{Event: timeline.Event{Kind: timeline.PodSeen, Detail: "listed", Object: timeline.Object{UID: "new"}}}}
		for i, to := range c.states[1:] {
			tl.Events = append(tl.Events, model.Event{Event: timeline.Event{
				Kind: timeline.EndpointChanged, From: c.states[i], To: to, Object: timeline.Object{UID: "new"},
			}})
		}
		if diff := cmp.Diff(c.want, Made(tl)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// What a run made Pods from is told from what was there before. A Pod that never became ready was made all the same.
func TestMadeIsWhatPodsWereMadeFrom(t *testing.T) {
	tl := rollout()
	for name, how := range map[string]string{"old": "listed", "old-2": "listed", "new": "watched", "never-ready": "watched"} {
		tl.Events = append(tl.Events, model.Event{Event: timeline.Event{Kind: timeline.PodSeen, Detail: how, Object: timeline.Object{UID: name}}})
	}
	if diff := cmp.Diff([]string{"5f9dd68475", "77777"}, Made(tl)); diff != "" {
		t.Error(diff)
	}
	if undone := Undone(tl); len(undone) > 0 {
		t.Errorf("nothing was rolled back, and %q", undone)
	}
	tl.Pods[1].Deleted = &model.Instant{}
	if diff := cmp.Diff([]string{"77777"}, Undone(tl)); diff != "" {
		t.Errorf("what was rolled back: %s", diff)
	}
	for i := range tl.Pods {
		tl.Pods[i].Deleted = &model.Instant{}
	}
	if undone := Undone(tl); len(undone) > 0 {
		t.Errorf("no Pod is left, and %q", undone)
	}
	if made := Made(rollout()); made != nil {
		t.Errorf("nothing was made, and %q", made)
	}
}
