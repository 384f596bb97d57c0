package export

import (
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
		target := t.Target
		target.Source, target.Timeout = source, tl.Run.Timeout
		targets[t.Name] = target
		run.Targets = append(run.Targets, target)
	}
	for _, e := range tl.Events {
		run.Events = append(run.Events, e.Event)
	}
	requests := failedRequests(tl, targets, &run.Backends)
	run.Batches = func(yield func(timeline.Batch, error) bool) {
		yield(timeline.Batch{Requests: requests}, nil)
	}
	return run
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
