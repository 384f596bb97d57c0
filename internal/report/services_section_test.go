package report

import (
	"fmt"
	"strings"
	"testing"

	"lapse/correlate/model"
	"lapse/timeline"
)

// hundredServices is a run with as many, of which three lost something.
func hundredServices() *model.Timeline {
	tl := base(20 * s)
	for i := range 100 {
		name := fmt.Sprintf("svc-%02d", i)
		tl.Run.Services = append(tl.Run.Services, timeline.Service{Namespace: "shop", Name: name})
		v := &model.ServiceVerdict{Sent: 100, Coverage: 1}
		failed := fails{}
		if i < 3 {
			v.Failed, v.Incidents, v.Downtime.Total = 9-i, 1, model.Length{Min: 90 * ms, Max: 110 * ms}
			v.Cause = &model.ServiceCause{Rule: "route-outlives-pod", Confidence: model.High, Text: "late routes", Failed: 9 - i}
			failed = fails{{3, 9 - i}}
		}
		addTarget(tl, name+" new", timeline.New, 5, failed)
		tl.Targets[len(tl.Targets)-1].Service = "shop/" + name
		tl.Services = append(tl.Services, model.WatchedService{Name: "shop/" + name, Verdict: v, Endpoints: []model.EndpointStep{{Ready: 2, Serving: 2}}})
	}
	tl.Run.SetAside = []timeline.SetAside{{Namespace: "shop", Name: "dns", Why: "it has no TCP port"}, {Namespace: "shop", Name: "log", Why: "it has no TCP port"}, {Namespace: "shop", Name: "db", Why: "it is headless"}}
	tl.Verdict = model.Verdict{Result: model.Ungated, Sent: 10000, Failed: 24, Coverage: 1, Windows: 1, Validity: model.Validity{Control: "ok"}}
	return tl
}

// The summary of 100 Services has a row for each that lost something, and one line for the others.
func TestAHundredServicesAreTheWorstAndOneLine(t *testing.T) {
	for name, write := range map[string]func(*strings.Builder, *model.Timeline) error{
		"table":    func(b *strings.Builder, tl *model.Timeline) error { return Table(b, said(tl), Options{Width: 120}) },
		"markdown": func(b *strings.Builder, tl *model.Timeline) error { return Markdown(b, said(tl), Options{}) },
	} {
		var out strings.Builder
		if err := write(&out, hundredServices()); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		for _, want := range []string{"97 Services: no failure", "shop/svc-00", "9/100 failed", "shop/svc-02", "shop/dns, shop/log: it has no TCP port", "shop/db: it is headless", "100 Services in 1 namespace"} {
			if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " "), want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		if first, second := strings.Index(text, "shop/svc-00"), strings.Index(text, "shop/svc-01"); first < 0 || first > second {
			t.Errorf("%s: the worst is not the first in\n%s", name, text)
		}
		if lines := strings.Count(text, "\n"); lines > 80 {
			t.Errorf("%s has %d lines:\n%s", name, lines, text)
		}
		if strings.Contains(text, "svc-50") {
			t.Errorf("%s names a Service without a failure:\n%s", name, text)
		}
	}
}

// A run of one Service has no table of Services.
func TestOneServiceHasNoTableOfServices(t *testing.T) {
	tl := hundredServices()
	tl.Services, tl.Run.SetAside = tl.Services[:1], nil
	if got := servicesSection(&view{Timeline: tl}); len(got.Blocks) > 0 {
		t.Errorf("%+v", got)
	}
}

// A Service whose held connections were cut is not among those without a failure, though none of its requests failed.
func TestAServiceWhoseConnectionsWereCutIsNotFine(t *testing.T) {
	tl := hundredServices()
	tl.Services[50].Verdict.Held, tl.Services[50].Verdict.Cut, tl.Services[50].Verdict.Incidents = 4, 3, 1
	tl.Services[51].Verdict = &model.ServiceVerdict{Held: 4, Coverage: 1}
	for name, write := range map[string]func(*strings.Builder, *model.Timeline) error{
		"table":    func(b *strings.Builder, tl *model.Timeline) error { return Table(b, said(tl), Options{Width: 120}) },
		"markdown": func(b *strings.Builder, tl *model.Timeline) error { return Markdown(b, said(tl), Options{}) },
	} {
		var out strings.Builder
		if err := write(&out, tl); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(strings.NewReplacer("`", "", "|", "").Replace(out.String())), " ")
		for _, want := range []string{"96 Services: no failure", "shop/svc-50 0/100 failed, 3/4 connections cut 1"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, out.String())
			}
		}
	}
}
