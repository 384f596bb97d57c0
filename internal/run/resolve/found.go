package resolve

import (
	"errors"
	"log/slog"
	"slices"

	"k8s.io/client-go/rest"

	"lapse/internal/kube"
	"lapse/internal/run/spec"
	"lapse/timeline"
	"lapse/watcher"
)

// Found is what a run knows of the cluster before it begins: the Services that are measured or watched, and what
// preflight predicts for them.
type Found struct {
	Client   kube.Client  // nil: nothing to watch
	REST     *rest.Config // how Client reaches the cluster
	Services []spec.Service
	Predicts []timeline.Event

	opts   *spec.Options
	logger *slog.Logger
}

// NewFound returns what is known before the search.
func NewFound(o *spec.Options, logger *slog.Logger) Found { return Found{opts: o, logger: logger} }

// setAside notes that a chosen Service is not measured.
func (r *Found) setAside(s spec.Target, why string) {
	r.opts.SetAside = append(r.opts.SetAside, timeline.SetAside{Namespace: s.Namespace, Name: s.Service, Why: why})
	r.logger.Warn("not measured", "service", s.Namespace+"/"+s.Service, "why", why)
}

// keepFound removes the targets whose Services were set aside. It returns an error if none is left.
func (r *Found) keepFound() error {
	r.opts.Parsed = slices.DeleteFunc(r.opts.Parsed, func(s spec.Target) bool {
		return !slices.ContainsFunc(r.Services, func(have spec.Service) bool { return have.Target == s })
	})
	if len(r.opts.Parsed) == 0 {
		return errors.New(spec.NothingToMeasure(r.opts.SetAside))
	}
	return nil
}

// Resolved returns the targets of the run, in order, each with the description of its Service.
func (r *Found) Resolved() []spec.Service {
	byTarget := map[spec.Target]spec.Service{}
	for _, s := range slices.Backward(r.Services) { // the first of two counts
		byTarget[s.Target] = s
	}
	all := make([]spec.Service, len(r.opts.Parsed))
	for i, target := range r.opts.Parsed {
		all[i] = spec.Service{Target: target, Info: byTarget[target].Info, Measured: true}
	}
	return all
}

// Distinct returns the Services of the run, each once, with their measured ports.
func (r *Found) Distinct() []timeline.Service {
	var all []timeline.Service
	for _, s := range r.Services {
		key := spec.ServiceKey(s.Info.Service)
		i := slices.IndexFunc(all, func(have timeline.Service) bool { return spec.ServiceKey(have) == key })
		if i < 0 {
			i, all = len(all), append(all, s.Info.Service)
			all[i].Measured, all[i].NotCovered = nil, nil
		}
		for _, sentence := range s.Info.Service.NotCovered {
			if s.Measured && !slices.Contains(all[i].NotCovered, sentence) {
				all[i].NotCovered = append(all[i].NotCovered, sentence)
			}
		}
		if port := s.PortText(); s.Measured && !slices.Contains(all[i].Measured, port) {
			all[i].Measured = append(all[i].Measured, port)
		}
	}
	return all
}

// PortsOf returns the names of a Service's ports in the run: all, or only the measured ones.
func (r *Found) PortsOf(of timeline.Service, measured bool) (ports []string) {
	for _, s := range r.Services {
		wanted := spec.ServiceKey(s.Info.Service) == spec.ServiceKey(of) && (s.Measured || !measured)
		if name := s.Info.PortName; wanted && !slices.Contains(ports, name) {
			ports = append(ports, name)
		}
	}
	return ports
}

// MeasuredServices returns the Services that requests go to, each once.
func (r *Found) MeasuredServices() (infos []watcher.Info) {
	seen := map[string]bool{}
	for _, s := range r.Services {
		if key := spec.ServiceKey(s.Info.Service); s.Measured && !seen[key] {
			seen[key] = true
			infos = append(infos, s.Info)
		}
	}
	return infos
}

// Headless returns the first headless Service that is measured, or nil.
func (r *Found) Headless() *watcher.Info {
	i := slices.IndexFunc(r.Services, func(s spec.Service) bool { return s.Measured && spec.IsHeadless(s.Info) })
	if i < 0 {
		return nil
	}
	return &r.Services[i].Info
}
