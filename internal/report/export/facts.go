package export

import (
	"net/netip"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Facts returns what a judged run still holds of its facts: the targets, the events, and the requests that failed, as
// far as they are listed. What it cannot hold is left out: the other requests, and what bounds an event from below.
func Facts(tl *model.Timeline) timeline.Run {
	run := timeline.Run{
		Meta: timeline.Meta{
			ID:       tl.Run.ID,
			Tool:     tl.Tool.Version,
			T0:       tl.T0,
			Services: tl.Run.Services,
			SetAside: tl.Run.SetAside,
			URLs:     tl.Run.URLs,
		},
	}
	targets := map[string]timeline.Target{}
	sources := map[string]timeline.SourceID{}
	for _, t := range tl.Targets {
		source, known := sources[t.Source]
		if !known {
			source = timeline.SourceID(len(sources) + 1)
			sources[t.Source] = source
			run.Sources = append(run.Sources, timeline.Source{ID: source, Name: t.Source, Node: t.Node, T0: tl.T0})
		}
		addr, _ := netip.ParseAddrPort(t.Addr)
		targets[t.Name] = timeline.Target{
			ID: t.ID, Name: t.Name, Kind: t.Kind, URL: t.URL, Source: source, Service: t.Service,
			PortName: t.PortName, Route: t.Route, RouteNode: t.RouteNode, Turns: t.Turns,
			Addr: addr, Pod: t.Pod, PodUID: t.PodUID, PodNode: t.PodNode, Rate: t.Rate, Timeout: tl.Run.Timeout,
		}
		run.Targets = append(run.Targets, targets[t.Name])
	}
	for _, e := range tl.Events {
		run.Events = append(run.Events, recorded(e))
	}
	requests := failedRequests(tl, targets, &run.Backends)
	run.Batches = func(yield func(timeline.Batch, error) bool) {
		yield(timeline.Batch{Requests: requests}, nil)
	}
	return run
}

// recorded is the fact an event of a timeline was made of.
func recorded(e model.Event) timeline.Event {
	fact := timeline.Event{
		ID: e.ID, Seen: e.Seen, Writer: e.Writer, Kind: e.Kind, From: e.From, To: e.To,
		Detail: e.Detail, Service: e.Service, PortName: e.PortName, Port: e.Port,
		ExitCode: e.ExitCode, Grace: e.Grace, Count: e.Count, Status: e.Status, Services: e.Services,
		Owner: e.Owner, Template: e.Template, Actor: e.Actor,
		Snapshot: e.Snapshot, Preflight: e.Preflight, Lookup: e.Lookup,
	}
	fact.Addr, _ = netip.ParseAddr(e.Addr)
	if e.Stamp != nil {
		fact.Stamp = *e.Stamp
	}
	if e.Object != nil {
		fact.Object = *e.Object
	}
	return fact
}

func failedRequests(
	tl *model.Timeline, targets map[string]timeline.Target, backends *[]timeline.Backend,
) []timeline.Request {
	requests := make([]timeline.Request, 0, len(tl.Failures))
	type named struct {
		source timeline.SourceID
		name   string
	}
	numbers := map[named]uint16{}
	for _, f := range tl.Failures {
		target := targets[f.Target]
		backend, known := numbers[named{target.Source, f.Backend}]
		if !known && f.Backend != "" {
			backend = uint16(len(numbers) + 1)
			numbers[named{target.Source, f.Backend}] = backend
			*backends = append(*backends, timeline.Backend{Source: target.Source, ID: backend, Name: f.Backend})
		}
		requests = append(requests, timeline.Request{
			Target: target.ID, Seq: f.Seq, Due: f.Due, Sent: f.Sent, Done: f.Done,
			Outcome: timeline.Outcome{
				Class: f.Class, Code: f.Code, Backend: backend, Reused: f.Reused,
				Phases: timeline.Phases{
					DNS: timeline.MicrosOf(f.DNS), Connect: timeline.MicrosOf(f.Connect),
					TLS: timeline.MicrosOf(f.TLS), FirstByte: timeline.MicrosOf(f.FirstByte),
				},
			},
		})
	}
	return requests
}
