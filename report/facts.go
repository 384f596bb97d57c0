package report

import (
	"net/netip"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Facts returns what a judged run still holds of its facts: the targets, the events, and the requests that failed, as
// far as they are listed. What it cannot hold is left out: the other requests, and what bounds an event from below.
func Facts(tl *model.Timeline) timeline.Run {
	run := timeline.Run{Meta: timeline.Meta{ID: tl.Run.ID, Tool: tl.Tool.Version, T0: tl.T0, Services: tl.Run.Services, URLs: tl.Run.URLs}}
	ids := map[string]timeline.TargetID{}
	for _, t := range tl.Targets {
		ids[t.Name] = t.ID
		addr, _ := netip.ParseAddrPort(t.Addr)
		run.Targets = append(run.Targets, timeline.Target{
			ID: t.ID, Name: t.Name, Kind: t.Kind, URL: t.URL, Source: t.Source, Node: t.Node, Service: t.Service, PortName: t.PortName,
			Addr: addr, Pod: t.Pod, PodUID: t.PodUID, PodNode: t.PodNode, Rate: t.Rate, Timeout: tl.Run.Timeout,
		})
	}
	for _, e := range tl.Events {
		run.Events = append(run.Events, recorded(e))
	}
	requests := failedRequests(tl, ids, &run.Backends)
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
		ExitCode: e.ExitCode, Grace: e.Grace, Count: e.Count, Status: e.Status,
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

func failedRequests(tl *model.Timeline, ids map[string]timeline.TargetID, backends *[]timeline.Backend) []timeline.Request {
	requests := make([]timeline.Request, 0, len(tl.Failures))
	numbers := map[string]uint16{"": 0}
	for _, f := range tl.Failures {
		backend, known := numbers[f.Backend]
		if !known {
			backend = uint16(len(numbers))
			numbers[f.Backend] = backend
			*backends = append(*backends, timeline.Backend{ID: backend, Name: f.Backend})
		}
		requests = append(requests, timeline.Request{
			Target: ids[f.Target], Seq: f.Seq, Due: f.Due, Sent: f.Sent, Done: f.Done,
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
