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
