package guard

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/internal/guard/configmap"
	"lapse/internal/guard/gate"
	"lapse/internal/guard/outbox"
	"lapse/internal/history"
	"lapse/internal/run/saved"
	"lapse/internal/run/screen"
)

// knew takes in a run of a guard before this one.
func (g *guard) knew(l history.Line, r gate.Run) {
	earlier := g.earlier[l.Service]
	if slices.ContainsFunc(earlier, func(e gate.Run) bool { return e.ID == r.ID }) {
		return
	}
	earlier = append(earlier, r)
	slices.SortStableFunc(earlier, func(a, b gate.Run) int { return a.Began.Compare(b.Began) })
	g.earlier[l.Service] = earlier
	g.told.Knew(l, r)
}

// recall takes in the runs of which only what the ConfigMap has is left. Before that, the gate would take them for runs
// that there were not.
func (g *guard) recall(ctx context.Context) {
	if g.Past == nil {
		return
	}
	if err := g.Past.Await(ctx); err != nil && ctx.Err() == nil {
		g.notKept(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.Past.Known() {
		if r.Gate.ID != "" {
			g.knew(r.Line, r.Gate)
		}
	}
}

// rereadPastEvery is how often the ConfigMap is read at most for who asks about a run that is not known.
const rereadPastEvery = 2 * time.Second

// ofAnother returns a run of a guarded Service that another guard has kept, such as one that an Event names: it led
// then.
func (g *guard) ofAnother(service, run string) (r gate.Run, ok bool) {
	g.mu.Lock()
	guarded := g.services[service] != nil
	g.mu.Unlock()
	if !guarded {
		return gate.Run{}, false
	}
	if r, ok = g.inPast(service, run); ok {
		return r, true
	}
	g.rereadPast()
	return g.inPast(service, run)
}

func (g *guard) inPast(service, run string) (gate.Run, bool) {
	for _, r := range g.Past.Known() {
		if r.Line.Service == service && r.Gate.ID == run {
			return r.Gate, true
		}
	}
	return gate.Run{}, false
}

func (g *guard) rereadPast() {
	g.rereading.Lock()
	defer g.rereading.Unlock()
	if !g.rereadAt.IsZero() && g.now().Sub(g.rereadAt) < rereadPastEvery {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // who waits for it, too, may stay longer
	defer cancel()
	if err := g.Past.Read(ctx); err != nil {
		g.Log.Debug("runs of other guards are not read", "error", err)
	}
	g.rereadAt = g.now()
}

// keep keeps what is known of runs outside of their directory, until stop is called.
func (g *guard) keep() (stop func()) {
	if g.Past == nil {
		return func() {}
	}
	g.Past.Damaged = g.notKept
	g.past = outbox.New(configmap.MostRuns, func(ctx context.Context, runs []configmap.Run) (int, error) {
		if err := g.Past.Add(ctx, runs); err != nil {
			return 0, err
		}
		g.kept()
		return len(runs), nil
	}, g.notKept)
	ctx, cancel := context.WithCancel(context.Background()) // the end of a guard ends runs, which are kept, too
	var keeping sync.WaitGroup
	keeping.Go(func() { g.past.Run(ctx) })
	return func() { cancel(); keeping.Wait() }
}

// notKept counts that something could not be kept, and logs it, if that is news.
func (g *guard) notKept(err error) {
	g.told.StoreErrors.Inc()
	if g.note(&g.unkept, err) != err.Error() {
		g.Log.Error("runs are not stored; this is logged again when it changes", "error", err)
	}
}

func (g *guard) kept() {
	if g.note(&g.unkept, nil) != "" {
		g.Log.Info("runs are stored again")
	}
}

// notWholeHeader says why lines of the history may be missing.
const notWholeHeader = "Lapse-Not-Whole"

// serveHistory serves the lines of all runs, or of those that are not kept any more.
func (g *guard) serveHistory(w http.ResponseWriter, r *http.Request) {
	w = newFlow(w)
	if g.Past == nil && r.FormValue("gone") == "" {
		http.ServeFile(w, r, filepath.Join(g.Out, saved.HistoryFile))
		return
	}
	lines, err := g.history(r.Context())
	if err != nil {
		g.Log.Warn("the history is not whole", "error", err)
		w.Header().Set(notWholeHeader, strings.Join(strings.Fields(err.Error()), " "))
	}
	if r.FormValue("gone") != "" {
		lines = slices.DeleteFunc(lines, g.store.Has)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	_ = history.Write(w, lines...) // who asked may have gone
}

// gone returns what is known of runs outside of their directory, for the page.
func (g *guard) gone() (runs []screen.Gone) {
	if g.Past == nil {
		return nil
	}
	for _, r := range g.Past.Known() {
		runs = append(runs, screen.Gone{Line: r.Line, Reason: r.Gate.Reason, Fix: r.Gate.Fix})
	}
	return runs
}

func (g *guard) history(ctx context.Context) (lines []history.Line, err error) {
	if g.Past == nil {
		return g.store.History()
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = g.Past.Read(ctx)
	for _, r := range g.Past.Known() {
		lines = append(lines, r.Line)
	}
	return lines, err
}
