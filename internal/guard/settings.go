package guard

import (
	"cmp"
	"context"
	"reflect"
	"time"

	"lapse/internal/guard/budget"
	"lapse/internal/guard/store"
	"lapse/internal/run/spec"
	"lapse/watcher"
)

// rereadEvery is how often the settings are read again. A kubelet brings a changed ConfigMap after up to a minute and
// swaps a symlink then: reading the small file is simpler than to follow that, and as fast.
const rereadEvery = 5 * time.Second

// Settings are what of a guard can change while it runs.
type Settings struct {
	Limits  store.Limits
	MaxRate float64 // requests per second to all Services together; default [budget.Default]
	// Options returns how a Service is measured. An error says what is wrong with its annotations.
	Options func(watcher.Marked) (*spec.Options, error)
}

func (s *Settings) mostRate() float64 { return cmp.Or(s.MaxRate, budget.Default) }

// alike reports whether a Service is measured in the same way by other settings.
func (s *Settings) alike(other *Settings, m watcher.Marked) bool {
	if s == other {
		return true
	}
	if s.MaxRate != other.MaxRate {
		return false
	}
	a, wrong := s.Options(m)
	b, otherWrong := other.Options(m)
	if wrong != nil || otherWrong != nil {
		return wrong != nil && otherWrong != nil && wrong.Error() == otherWrong.Error()
	}
	return reflect.DeepEqual(a.Spec, b.Spec)
}

// reread reads the settings again until ctx ends.
func (g *guard) reread(ctx context.Context) {
	for wait(ctx, rereadEvery); ctx.Err() == nil; wait(ctx, rereadEvery) {
		settings, err := g.Reread()
		g.change(ctx, settings, err)
	}
}

// change measures anew the Services that other settings measure in another way, after the runs that go on. With an
// error, or without other settings, nothing changes.
func (g *guard) change(ctx context.Context, to *Settings, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.problem
	if err != nil {
		if g.problem = err.Error(); g.problem != was {
			g.told.Config.Set(0)
			g.Log.Error("the configuration is wrong: the last good one stays in force", "error", err)
		}
		return
	}
	if g.problem = ""; was != "" {
		g.told.Config.Set(1)
		g.Log.Info("the configuration is right again")
	}
	if to == nil {
		return
	}
	g.Settings = to
	g.store.Limit(to.Limits)
	g.budget.Set(to.mostRate(), g.now())
	g.Log.Info("the configuration has changed")
	g.reconcile(ctx)
}
