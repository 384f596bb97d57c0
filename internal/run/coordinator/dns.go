package coordinator

import (
	"context"
	"fmt"

	"lapse/deploy"
	"lapse/internal/run/spec"
	"lapse/loadgen/lookup"
	"lapse/timeline"
)

// lookUp asks the DNS servers for the name of the first headless Service, or of the twin of the run's own Service,
// until ctx ends. Without it the rest is measured.
func (m *measurement) lookUp(ctx context.Context) {
	asked, domain := *m.opts.DNS, spec.ClusterDomain(m.opts.Env)
	if len(asked.Servers) > 0 && (domain == "" || len(m.Services) == 0) {
		asked = spec.DNS{NotAsked: "the cluster's DNS domain is not in the search list of the Job's Pod"}
	}
	if asked.NotAsked != "" {
		m.Queue.Put(timeline.Event{
			Seen: m.Clock.Now(), Kind: timeline.NameAnswered, To: timeline.LookupNotAsked, Detail: asked.NotAsked,
		})
	}
	if len(asked.Servers) == 0 {
		return
	}
	info, name := m.Services[0].Info, deploy.TwinName(m.opts.ID)
	if headless := m.Headless(); headless != nil {
		info, name = *headless, headless.Service.Name
	}
	service := info.Service
	err := lookup.Run(ctx, lookup.Config{
		Name: fmt.Sprintf("%s.%s.svc.%s.", name, service.Namespace, domain), IPv6: info.Family == 6,
		Service: spec.ServiceKey(service), Servers: asked.Servers, Clock: m.Clock, Sink: m.Queue.Put,
	})
	if err != nil {
		m.log.Warn("DNS servers are not asked", "error", err)
	}
}
