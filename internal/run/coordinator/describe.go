package coordinator

import (
	"os"
	"strings"

	"lapse/deploy/agent"
	"lapse/internal/run/mask"
	"lapse/internal/run/spec"
	"lapse/internal/run/version"
	"lapse/timeline"
)

// meta returns the first fact of the run.
func (m *measurement) meta() timeline.Meta {
	meta := timeline.Meta{
		ID: m.opts.ID, Tool: version.Version, T0: m.Clock.T0(),
		Options: m.opts.Recorded(),
		Spec:    spec.MustMarshal(m.opts.Spec),
		Command: mask.Command(m.opts.Command), // an agent gets it later, in the event of its start
	}
	for _, s := range m.opts.Parsed {
		if s.URL != nil {
			meta.URLs = append(meta.URLs, mask.Text(s.URL.Redacted()))
		}
	}
	meta.Services, meta.SetAside, meta.Cluster = m.Distinct(), m.opts.SetAside, m.opts.Cluster
	return meta
}

// describeSource returns this process as a source of facts. Other sources may join the run.
func (m *measurement) describeSource() timeline.Source {
	s := timeline.Source{
		ID: 1, Name: "here", Role: timeline.Workstation, Version: version.Version,
		T0: m.Clock.T0(), Node: m.opts.Env["NODE_NAME"],
	}
	if m.opts.AgentListen != "" {
		s.Role = timeline.Coordinator
	}
	if host, err := os.Hostname(); err == nil {
		s.Name = host
	}
	if pod := m.opts.Env["POD_NAME"]; pod != "" {
		s.Name, s.Pod = pod, strings.TrimPrefix(m.opts.Env["POD_NAMESPACE"]+"/"+pod, "/")
	}
	return s
}

// admit makes another process a source of the run, and numbers its targets.
func (m *measurement) admit(s timeline.Source, sync timeline.Sync, targets []agent.Assigned) agent.Assignment {
	used := func(id timeline.SourceID) bool { return id <= 1 || m.fleet != nil && m.fleet.full[id] != nil }
	for m.LastSource++; used(m.LastSource); m.LastSource++ { // numbers come again, after 65535
	}
	s.ID, sync.Source = m.LastSource, m.LastSource
	m.Add(s)
	m.Add(sync)
	a := agent.Assignment{Source: s.ID}
	for _, t := range targets {
		m.NextTarget++
		t.ID, t.Source = m.NextTarget, s.ID
		m.Register(t.Target)
		a.Targets = append(a.Targets, t)
	}
	return a
}
