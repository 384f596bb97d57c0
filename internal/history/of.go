package history

import (
	"cmp"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// Of returns the lines of a judged run: one for each Service that requests were sent to, and one for all of its URLs.
// recording is the SHA-256 of the run's recording in hexadecimal, or "" if there is none.
func Of(tl *model.Timeline, recording string) []Line {
	line := Line{
		History:   Version,
		Run:       tl.Run.ID,
		T0:        tl.T0.UTC(),
		Duration:  tl.Run.Duration,
		Baseline:  min(tl.Run.Baseline, tl.Run.Duration),
		Verdict:   tl.Verdict.Result,
		Aborted:   tl.Run.Aborted != "" || tl.Run.Truncated || tl.Run.Live,
		Lapse:     tl.Tool.Version,
		Recording: recording,
	}
	if tl.Run.Cluster != nil {
		line.Kubernetes, line.ProxyMode = tl.Run.Cluster.Version, tl.Run.Cluster.ProxyMode
	}
	var lines []Line
	names := receivers(tl)
	for _, name := range names {
		lines = append(lines, of(tl, line, name, len(names) == 1))
	}
	return lines
}

// receivers returns the Services that requests were sent to, and "" for URLs; if there is none, the Services that the
// run names.
func receivers(tl *model.Timeline) (names []string) {
	urls := false
	for _, t := range tl.Targets {
		switch {
		case !t.Kind.Judged():
		case t.Service == "":
			urls = len(tl.Run.URLs) > 0
		case !slices.Contains(names, t.Service):
			names = append(names, t.Service)
		}
	}
	if names == nil && !urls {
		for _, s := range tl.Run.Services {
			names = append(names, s.Namespace+"/"+s.Name)
		}
	}
	slices.Sort(names)
	if urls || names == nil {
		names = append(names, "")
	}
	return names
}

// of completes a line with what a run says of one Service, or of its URLs, which may be all that it measured.
func of(tl *model.Timeline, line Line, name string, alone bool) Line {
	if line.Service = name; name == "" {
		line.URLs = tl.Run.URLs
	}
	for _, s := range tl.Run.Services {
		if s.Namespace+"/"+s.Name == name {
			line.UID = s.UID
		}
	}
	i := slices.IndexFunc(tl.Services, func(s model.WatchedService) bool { return s.Name == name && s.Verdict != nil })
	if i >= 0 {
		v := tl.Services[i].Verdict
		line.count(v.Sent, v.Failed, v.Downtime, v.Coverage)
	} else if alone { // the run's figures are its own
		line.count(tl.Verdict.Sent, tl.Verdict.Failed, tl.Verdict.Downtime, tl.Verdict.Coverage)
	} else if v := verdict.Of(tl, name); v != nil {
		line.count(v.Sent, v.Failed, v.Downtime, v.Coverage)
	}
	line.measured(tl)
	pods := podsOf(tl, name)
	line.Triggers = triggersOf(tl, pods, name)
	line.Release = releaseOf(tl, pods)
	return line
}

func (l *Line) count(sent, failed int, downtime model.Downtime, coverage float64) {
	l.Sent, l.Failed, l.Coverage = sent, failed, coverage
	if sent > 0 {
		l.Downtime = &downtime
	}
}

// measured fills in what was sent from where, and why it failed.
func (l *Line) measured(tl *model.Timeline) {
	judged := map[string]bool{}
	for _, t := range tl.Targets {
		if !t.Kind.Judged() || t.Service != l.Service {
			continue
		}
		judged[t.Name] = true
		l.addLoad(string(t.Kind), t.Rate)
		if from := cmp.Or(t.Node, t.Source); from != "" && !slices.Contains(l.Sources, from) {
			l.Sources = append(l.Sources, from)
		}
	}
	slices.Sort(l.Sources)
	most := map[string]int{} // failures of the window from which a rule's confidence is taken
	for _, w := range tl.Windows {
		if judged[w.Target] && w.Kind != model.Slow && len(w.Causes) > 0 {
			l.addCause(w.Causes[0], w.Failed, most)
		}
	}
	slices.SortStableFunc(l.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(a.Rule, b.Rule))
	})
}

func (l *Line) addLoad(kind string, rate float64) {
	i := slices.IndexFunc(l.Load, func(of Load) bool { return of.Kind == kind && of.Rate == rate })
	if i < 0 {
		l.Load = append(l.Load, Load{Kind: kind, Rate: rate})
		return
	}
	l.Load[i].Targets = max(l.Load[i].Targets, 1) + 1
}

func (l *Line) addCause(c model.Cause, failed int, most map[string]int) {
	i := slices.IndexFunc(l.Causes, func(of Cause) bool { return of.Rule == c.Rule })
	if i < 0 {
		i = len(l.Causes)
		l.Causes = append(l.Causes, Cause{Rule: c.Rule})
	}
	l.Causes[i].Failed += failed
	if l.Causes[i].Confidence == "" || failed > most[c.Rule] {
		l.Causes[i].Confidence, most[c.Rule] = c.Confidence, failed
	}
}

// podsOf returns the Pods that were endpoints of a Service, or of any, in the order in which they became ready; those
// that never did are left out.
func podsOf(tl *model.Timeline, service string) (pods []*model.Pod) {
	byUID := map[string]*model.Pod{}
	for i := range tl.Pods {
		byUID[tl.Pods[i].UID] = &tl.Pods[i]
	}
	for _, e := range tl.Events {
		if e.Kind != timeline.EndpointChanged || !is(e.Service, service) || e.To != timeline.EndpointReady {
			continue
		}
		if pod := byUID[e.Object.UID]; pod != nil {
			pods = append(pods, pod)
			delete(byUID, e.Object.UID)
		}
	}
	return pods
}

// is reports whether a Service is the one that is meant, "" for any: each that is watched may be behind a URL.
func is(service, meant string) bool { return meant == "" || service == meant }

// triggersOf returns what ended Pods, and the changes of their Service. That some ended is known of a run without a
// failure as well: runs that pass and runs that fail can be told by it to be of one sort.
func triggersOf(tl *model.Timeline, pods []*model.Pod, service string) (triggers []Trigger) {
	add := func(t Trigger) {
		if !slices.Contains(triggers, t) {
			triggers = append(triggers, t)
		}
	}
	for _, p := range pods {
		if p.Ending != nil {
			add(endedBy(p.Ending))
		}
	}
	for _, e := range tl.Events {
		if e.Kind == timeline.ServiceChanged && is(e.Object.Namespace+"/"+e.Object.Name, service) {
			kind := model.ServiceChanged
			if e.To == "absent" {
				kind = model.ServiceDeleted
			}
			add(Trigger{Kind: kind, Object: "Service/" + e.Object.Name})
		}
	}
	return triggers
}

func endedBy(ending *model.Ending) Trigger {
	switch of := ending.Of; {
	case ending.By == model.ByItself:
		return Trigger{Kind: model.PodExited}
	case of == nil:
		return Trigger{Kind: model.PodsDeleted}
	case ending.By == model.ByRollout:
		return Trigger{model.RolledOut, of.Kind + "/" + of.Name}
	case ending.By == model.ByScaling:
		return Trigger{model.ScaledDown, of.Kind + "/" + of.Name}
	case of.Kind == "Node":
		return Trigger{model.NodeDrained, "Node/" + of.Name}
	}
	return Trigger{Kind: model.PodsDeleted}
}

// Made returns the hashes of the templates whose Pods were made while a run went on, or came into service, each once.
// A Pod may have been made long before: it takes minutes to be ready, or a Service selects it later.
func Made(tl *model.Timeline) []string {
	made, stood := map[string]bool{}, map[string]bool{} // by UID
	for _, e := range tl.Events {
		uid := e.Object.UID
		switch e.Kind {
		case timeline.PodSeen:
			made[uid] = made[uid] || e.Detail == "watched" // and not listed at first
		case timeline.EndpointChanged:
			ready := e.To == timeline.EndpointReady
			stood[uid] = stood[uid] || ready && e.From == "" // in service when the run began
			made[uid] = made[uid] || ready && !stood[uid]
		}
	}
	var pods []*model.Pod
	for i := range tl.Pods {
		if made[tl.Pods[i].UID] {
			pods = append(pods, &tl.Pods[i])
		}
	}
	return releaseOf(tl, pods).Templates
}

// Undone returns the templates that Pods were made from, as of [Made], of which none is left, but of others: they were
// rolled back or replaced.
func Undone(tl *model.Timeline) []string {
	var left []*model.Pod
	for i := range tl.Pods {
		if p := &tl.Pods[i]; p.Deleted == nil && p.Gone == nil {
			left = append(left, p)
		}
	}
	stay := releaseOf(tl, left).Templates
	if len(stay) == 0 {
		return nil
	}
	return slices.DeleteFunc(Made(tl), func(hash string) bool { return slices.Contains(stay, hash) })
}

// releaseOf returns the templates of Pods, each once, in their order.
func releaseOf(tl *model.Timeline, pods []*model.Pod) (r Release) {
	revisions := map[string]string{} // by the ID of a template
	for _, e := range tl.Events {
		if e.Snapshot != nil && e.Snapshot.Template != nil {
			revisions[e.Snapshot.Template.ID] = e.Snapshot.Template.Revision
		}
	}
	for _, p := range pods {
		hash := cmp.Or(templateHash(p.Owner), afterDash(revisions[p.Template]), p.Template)
		if hash != "" && !slices.Contains(r.Templates, hash) {
			r.Templates = append(r.Templates, hash)
		}
	}
	return r
}

// templateHash returns the pod-template-hash that ends the name of a ReplicaSet, or "" for another owner.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label
func templateHash(owner string) string {
	if name, ok := strings.CutPrefix(owner, "ReplicaSet/"); ok && strings.Contains(name, "-") {
		return afterDash(name)
	}
	return ""
}

// afterDash returns what follows the last dash of a name: a StatefulSet's controller-revision-hash is NAME-HASH.
func afterDash(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }
