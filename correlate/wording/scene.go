package wording

import (
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// A scene is what sentences need of the rest of the run: there may be thousands of windows and targets.
type scene struct {
	tl         *model.Timeline
	targets    map[string]*model.Target
	unobserved map[string][]model.Unobserved // by target
	windows    map[int]*model.Window         // by ID, those of held connections too
	cuts       map[int]*model.CutWindow      // those of held connections
}

func newScene(tl *model.Timeline) *scene {
	s := &scene{
		tl:         tl,
		targets:    map[string]*model.Target{},
		unobserved: map[string][]model.Unobserved{},
		windows:    make(map[int]*model.Window, len(tl.Windows)),
		cuts:       map[int]*model.CutWindow{},
	}
	for i := range tl.Targets {
		s.targets[tl.Targets[i].Name] = &tl.Targets[i]
	}
	for _, u := range tl.Unobserved {
		s.unobserved[u.Target] = append(s.unobserved[u.Target], u)
	}
	for i := range tl.Windows {
		s.windows[tl.Windows[i].ID] = &tl.Windows[i]
	}
	for _, w := range tl.HeldWindows() {
		s.windows[w.ID], s.cuts[w.ID] = &w.Window, w
	}
	return s
}

// windowsOf returns the windows of an incident.
func (s *scene) windowsOf(in *model.Incident) []*model.Window {
	windows := make([]*model.Window, 0, len(in.Windows))
	for _, id := range in.Windows {
		if w := s.windows[id]; w != nil {
			windows = append(windows, w)
		}
	}
	return windows
}

func (s *scene) podByUID(uid string) *model.Pod {
	for i := range s.tl.Pods {
		if s.tl.Pods[i].UID == uid {
			return &s.tl.Pods[i]
		}
	}
	return nil
}

// workload returns the workload that a Pod is of, KIND/NAME: its controller, or the owner of its ReplicaSet; "" if that
// was not recorded.
func (s *scene) workload(pod *model.Pod) string {
	if !strings.HasPrefix(pod.Owner, "ReplicaSet/") {
		return pod.Owner
	}
	for i := range s.tl.Events {
		e := &s.tl.Events[i]
		if e.Snapshot != nil && e.Snapshot.Workload != nil &&
			e.Object.Namespace == pod.Namespace && e.Object.Kind+"/"+e.Object.Name == pod.Owner {
			return e.Snapshot.Workload.Owner
		}
	}
	return ""
}

// template returns the template of a Pod; nil if it was not recorded.
func (s *scene) template(pod *model.Pod) *timeline.PodTemplate {
	for i := range s.tl.Events {
		shot := s.tl.Events[i].Snapshot
		if shot != nil && shot.Template != nil && shot.Template.ID == pod.Template {
			return shot.Template
		}
	}
	return nil
}

// clock writes an instant of the run as the time of day in UTC.
func (s *scene) clock(at time.Duration) string { return quantity.Clock(s.tl, at) }
