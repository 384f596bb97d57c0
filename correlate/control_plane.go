package correlate

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file says how the cluster's API servers answered beside the run.

// controlPlane returns how the API servers answered; nil if none was to be asked.
func (t *Tracker) controlPlane(tl *model.Timeline, snapshots []*snapshot) *model.ControlPlane {
	plane := &model.ControlPlane{Servers: []model.APIServer{}}
	why := map[string]string{} // by target: how its first failed request failed
	for i := range tl.Events {
		switch e := &tl.Events[i]; e.Kind {
		case timeline.PlaneNotAsked:
			plane.NotAsked = strings.TrimPrefix(plane.NotAsked+"; "+e.Detail, "; ")
		case timeline.RequestError:
			why[e.Object.Name] = cmp.Or(why[e.Object.Name], e.Detail)
		}
	}
	for _, s := range snapshots {
		if s.target.Kind == timeline.Plane {
			plane.Servers = append(plane.Servers, t.apiServer(s, why[s.target.Name]))
		}
	}
	if len(plane.Servers) == 0 && plane.NotAsked == "" {
		return nil
	}
	slices.SortStableFunc(plane.Servers, func(a, b model.APIServer) int {
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Source, b.Source))
	})
	plane.WatchLag = t.watchLag()
	return plane
}

// apiServer says how one target was answered. why is how its first failed request failed, if that is known.
func (t *Tracker) apiServer(s *snapshot, why string) model.APIServer {
	p := t.publish(s)
	server := model.APIServer{Addr: s.target.URL, Target: p.target.Name, Node: p.target.Node, Source: p.target.Source,
		Measured: p.target.Measured, Outages: []model.APIOutage{}}
	if u, err := url.Parse(s.target.URL); err == nil {
		server.Addr, server.Path = u.Host, u.RequestURI()
	}
	if len(s.refused) > 0 {
		server.Refused = maps.Clone(s.refused)
	}
	if p.target.OK == 0 {
		server.NotMeasured = neverAnswered(p.target.Classes, why)
		return server
	}
	for _, w := range p.Outages {
		if w.Kind != model.Slow {
			server.Outages = append(server.Outages, model.APIOutage{Kind: w.Kind, Basis: w.Basis, Start: w.Start,
				End: w.End, Length: w.Length, Sent: w.Sent, Failed: w.Failed, Classes: w.Classes, Open: w.Open})
		}
	}
	return server
}

// neverAnswered says why no request was answered: how the first one failed, or how most of them ended.
func neverAnswered(classes map[string]int, why string) string {
	most := ""
	for class := range timeline.NumClasses {
		if name := class.String(); class.Failed() && classes[name] > classes[most] {
			most = name
		}
	}
	switch {
	case most == "":
		return "no request was sent"
	case why == "":
		return fmt.Sprintf("no request was answered (%s)", most)
	}
	return fmt.Sprintf("no request was answered (%s: %s)", most, why)
}

// watchLag returns how long changes of endpoints took at most until they were seen; nil if no read bounds one.
func (t *Tracker) watchLag() *model.WatchLag {
	var lag model.WatchLag
	for e := range t.events.all() {
		if e.Kind == timeline.EndpointChanged && e.Since != 0 {
			lag.Changes++
			lag.Longest = max(lag.Longest, e.Seen-e.Since)
		}
	}
	if lag.Changes == 0 {
		return nil
	}
	return &lag
}
