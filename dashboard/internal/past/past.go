// Package past makes up what a guard has kept: runs over weeks, each judged as any run is, and for how long it
// observed.
package past

import (
	"fmt"
	"log/slog"
	"time"

	"lapse/correlate/model"
	"lapse/dashboard"
	"lapse/dashboard/internal/sample"
	"lapse/internal/guard/store"
)

// A Past is what a made-up guard has kept in a directory: runs of Services shop/web, shop/api and so on, and what it
// observed. The first Service drops requests until its release changes half way; others rarely do. On the third of the
// days before now the guard was away for half the day.
type Past struct {
	Services, Runs, Days int
	Now                  time.Time
}

// names are those of the first Services of a [Past].
var names = []string{"web", "api", "cart", "ledger", "search", "mail"}

// Name returns NAMESPACE/NAME of the i-th Service.
func (p Past) Name(i int) string {
	if i < len(names) {
		return "shop/" + names[i]
	}
	return fmt.Sprintf("shop/worker-%02d", i)
}

// Keep makes dir up, by the code that keeps the runs of any guard.
func (p Past) Keep(dir string) error {
	kept, err := store.Open(dir, store.Limits{}, slog.New(slog.DiscardHandler), func(*model.Timeline, bool) {})
	if err != nil {
		return err
	}
	defer kept.Close()
	for i := range p.Runs {
		at := p.Now.Add(-time.Duration(p.Days*24*(p.Runs-i)) * time.Hour / time.Duration(p.Runs+1))
		tl := p.disruption(i, at)
		run := kept.Begin(tl.Run.ID)
		run.Rec.End() // the page needs the verdict only
		if _, err := run.End(tl); err != nil {
			return err
		}
	}
	midnight := p.Now.UTC().Truncate(24 * time.Hour)
	for back := p.Days - 1; back >= 0; back-- {
		until, length := midnight.AddDate(0, 0, 1-back).Add(-time.Second), 24*time.Hour
		switch back {
		case 0:
			until, length = p.Now, p.Now.Sub(midnight)
		case 3:
			length = 12 * time.Hour
		}
		observed := map[string]time.Duration{}
		for i := range p.Services {
			observed[p.Name(i)] = length
		}
		if err := kept.Observe(until, observed); err != nil {
			return err
		}
	}
	return nil
}

// Stands returns how the guard stands: the second Service is recorded, the third armed, and all others wait.
func (p Past) Stands() dashboard.Now {
	now := dashboard.Now{At: time.Now().UTC(), Speaks: dashboard.ThisGuard}
	for i := range p.Services {
		w := dashboard.Watched{Name: p.Name(i), State: "idle", Since: p.Now.Add(-time.Hour)}
		switch i {
		case 1:
			w.State, w.Since, w.About = "recording", p.Now, "node node-2 was cordoned"
			w.Run, w.Sent = "lapse-20261126-101500-ab3d", 4+int(100*time.Since(p.Now).Seconds())
		case 2:
			w.State, w.Since, w.About = "armed", p.Now.Add(-2*time.Minute), "the Deployment cart is rolled out"
		}
		now.Services = append(now.Services, w)
	}
	return now
}

// disruption makes up the i-th run.
func (p Past) disruption(i int, at time.Time) *model.Timeline {
	of, round := i%p.Services, i/p.Services
	d := sample.Disruption{
		ID: at.UTC().Format("lapse-20060102-150405-") + fmt.Sprintf("%04d", i), At: at, Service: p.Name(of),
		Rollout: round%3 == 0, Stalls: i%37 == 36, Releases: []string{hash(of, 0)},
		Node: fmt.Sprintf("node-%d", i%3+1),
	}
	if late := 2*i > p.Runs; late {
		d.Releases = []string{hash(of, 1)}
	}
	if d.Rollout {
		d.Releases = append(d.Releases, hash(of, round+2))
	}
	if of == 0 && 2*i < p.Runs && round%4 != 0 || i%41 == 40 || i == p.Runs-4 {
		d.Drops = time.Duration(500+i*13%900) * time.Millisecond
	}
	return d.Judged()
}

// hash is like that of a Pod's template.
func hash(service, n int) string { return fmt.Sprintf("%08x%x", 0x4cf5977*(n+1), service) }
