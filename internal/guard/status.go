package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/dashboard"
	"lapse/internal/guard/budget"
	"lapse/internal/guard/flagger"
	"lapse/internal/guard/gate"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/saved"
	"lapse/internal/run/screen"
)

// DefaultPrivate is where the status is told if nothing else is said.
const DefaultPrivate = "127.0.0.1:7118"

const statusPath = "/v1/status"

// A Report is how a guard stands.
type Report struct {
	Problem  string       `json:"problem,omitzero"`  // of its configuration: the last good one is in force
	Election string       `json:"election,omitzero"` // why this guard cannot be elected, nor see who is
	Unsaid   string       `json:"unsaid,omitzero"`   // why the newest run has no Event
	Unsaved  string       `json:"unsaved,omitzero"`  // why not all of the newest run is on disk
	Unkept   string       `json:"unkept,omitzero"`   // why lines of history could not be kept elsewhere
	Away     *Away        `json:"away,omitzero"`     // why the bucket takes no run
	Refused  *Refusal     `json:"refused,omitzero"`  // the last one of the last hour
	Rates    budget.State `json:"rates"`             // by --max-rate
	// Shared are the namespaces of other guards that measure a Service, too, by Service.
	Shared map[string][]string `json:"shared,omitempty"`
	// Unwatched says of which kinds no change is seen, since when, and why.
	Unwatched map[string]string `json:"unwatched,omitempty"`
	// Probers says of each node with a prober why nothing is measured from it; empty: it is.
	Probers  map[string]string `json:"probers,omitempty"`
	Unlisted bool              `json:"unlisted,omitzero"` // which Services are guarded is not known yet
	Services []Status          `json:"services"`          // in the order of their names
}

const unlisted = "which Services are guarded is not known yet: it has just begun, or the API server does not answer it"

// A Status is how a guarded Service stands.
type Status struct {
	Service string              `json:"service"`
	State   coordinator.Standby `json:"state"`
	Since   time.Time           `json:"since"`
	Sign    string              `json:"sign,omitzero"`    // that raised the rate, or began the run
	Run     string              `json:"run,omitzero"`     // that goes on
	Sent    int                 `json:"sent,omitzero"`    // requests in it so far
	Failed  int                 `json:"failed,omitzero"`  // of them
	Problem string              `json:"problem,omitzero"` // why it is not measured
	Rate    float64             `json:"rate,omitzero"`    // requests per second to each target, if --max-rate lowers it
	Runs    int                 `json:"runs"`             // that have ended and are known: the newest 200
	Last    Last                `json:"last,omitzero"`    // of them
}

// A Last is the newest run that has ended; its zero value if there is none.
type Last struct {
	Run     string     `json:"run"`
	Began   time.Time  `json:"began"`
	Verdict gate.State `json:"verdict"`
	Reason  string     `json:"reason"`
}

// public serves what anybody may ask.
func (g *guard) public() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(gate.Path, g.gate)
	mux.HandleFunc(armPath, g.withToken(g.armByHand))
	mux.HandleFunc(flagger.Path+"{hook}", g.withToken(g.flagger.ServeHTTP))
	mux.Handle("GET /metrics", g.told.Handler())
	mux.HandleFunc("GET /readyz", g.serveReady)
	return g.speaking(mux)
}

// private serves what names all Services: the status, and the page of all runs.
func (g *guard) private() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+statusPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(g.report()) // who asked may have gone
	})
	mux.HandleFunc("GET "+runsPath, g.serveRuns)
	mux.HandleFunc("GET "+historyPath, g.serveHistory)
	mux.HandleFunc("GET "+runsPath+"/{run}/{file}", g.serveFile)
	folder := screen.Folder(g.Out, func(dir string) (*model.Timeline, error) {
		return saved.Load(dir, correlate.Options{}, nil)
	}, g.gone)
	folder.Now = g.stands
	return dashboard.FolderHandler(folder, mux, dashboard.Options{})
}

// stands returns how the guard and all Services stand, for the page.
func (g *guard) stands() dashboard.Now {
	report := g.report()
	now := dashboard.Now{At: g.now().UTC(), Speaks: g.speaker(), Problems: report.problems()}
	for _, s := range report.Services {
		_, about := s.last()
		now.Services = append(now.Services, dashboard.Watched{
			Name: s.Service, State: string(s.State), Since: s.Since, About: about,
			Run: s.Run, Sent: s.Sent, Fails: s.Failed,
		})
	}
	return now
}

// speaker returns which guard tells what was measured.
func (g *guard) speaker() dashboard.Speaker {
	switch {
	case g.Leader == nil || g.Leader.Leads():
		return dashboard.ThisGuard
	case g.Leader.Other() != "":
		return dashboard.OtherGuard
	}
	return dashboard.NoGuard
}

func (g *guard) report() Report {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, unwatched, recording := []Status{}, map[string]string{}, g.recording()
	for name, s := range g.services {
		s = cmp.Or(recording[name], s)
		all = append(all, s.now())
		s.mu.Lock()
		for kind, since := range s.unwatched {
			unwatched[kind] = min(since, cmp.Or(unwatched[kind], since)) // the earliest
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Service, b.Service) })
	report := Report{
		Problem: g.problem, Unsaid: g.unsaid, Unsaved: g.unsaved, Unkept: g.unkept,
		Rates: g.budget.State(), Services: all, Unwatched: unwatched, Unlisted: !g.listed,
		Shared: map[string][]string{},
	}
	for _, s := range all {
		if others := g.shared[s.Service]; len(others) > 0 {
			report.Shared[s.Service] = others
		}
	}
	if g.many != nil {
		report.Probers = g.many.Probers()
	}
	report.Away = g.away()
	if g.Leader != nil {
		report.Election = g.Leader.Problem()
	}
	if g.refused != nil && g.now().Sub(g.refused.At) < time.Hour {
		report.Refused = new(*g.refused)
	}
	return report
}

// now returns how the Service stands.
func (s *service) now() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	if s.share != nil && status.Problem == "" {
		if rate, asked := s.share.Lowered(); rate < asked {
			status.Rate = rate
		}
	}
	runs, r := s.g.gate.Ended(s.Key())
	status.Runs, status.Last = runs, Last{Run: r.ID, Began: r.Began, Verdict: r.Verdict, Reason: r.Reason}
	return status
}

// last returns the verdict of the last run, "" if there is none, and why the Service stands as it does.
func (s *Status) last() (verdict, reason string) {
	return string(s.Last.Verdict), cmp.Or(s.Problem, s.Sign, s.Last.Reason)
}

// run returns the run that goes on, else the last one, or "".
func (s *Status) run() string {
	return cmp.Or(s.Run, s.Last.Run)
}

// Ask asks the guard at an address how it stands.
func Ask(ctx context.Context, client *http.Client, address string) (report Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = get(ctx, client, address+statusPath, func(body io.Reader) error {
		if err := json.NewDecoder(io.LimitReader(body, 16<<20)).Decode(&report); err != nil {
			return fmt.Errorf("%s is no guard: %w", address, err)
		}
		return nil
	})
	return report, err
}

// problems says what is wrong with the guard itself, and by how much it lowers rates.
func (r *Report) problems() (all []string) {
	if r.Problem != "" {
		all = append(all, "the configuration is wrong, the last good one stays in force: "+r.Problem)
	}
	if r.Election != "" {
		all = append(all, "the Lease cannot be read or written, Events wait until a guard leads: "+r.Election)
	}
	if r.Unsaved != "" {
		all = append(all, "not all of the newest run is on disk, so the gate does not let it pass: "+r.Unsaved)
	}
	if r.Unsaid != "" {
		all = append(all, "Events cannot be written: "+r.Unsaid)
	}
	if text := lowered(r.Rates); text != "" {
		all = append(all, text)
	}
	if r.Unkept != "" {
		all = append(all, "lines of history cannot be kept: "+r.Unkept)
	}
	if a := r.Away; a != nil {
		all = append(all, fmt.Sprintf("%s has taken no run since %s, %s only on disk: %s", a.Bucket,
			a.Since.Format(time.RFC3339), quantity.Count(a.Wait, "run"), a.Why))
	}
	if text := r.unmeasured(); text != "" {
		all = append(all, text)
	}
	for _, service := range slices.Sorted(maps.Keys(r.Shared)) {
		const text = "%s is measured by the guard in namespace %s, too: it gets twice the requests and Events, end one"
		all = append(all, fmt.Sprintf(text, service, quantity.Names(r.Shared[service])))
	}
	if r.Refused != nil {
		at := r.Refused.At.UTC().Format(time.RFC3339)
		all = append(all, fmt.Sprintf("a request to %q was refused at %s: %s", r.Refused.Path, at, r.Refused.Reason))
	}
	return all
}

// mostNamed is how many nodes are named that nothing is measured from.
const mostNamed = 3

// unmeasured says from which nodes nothing is measured, and why, or "".
func (r *Report) unmeasured() string {
	var lines []string
	for _, node := range slices.Sorted(maps.Keys(r.Probers)) {
		if why := r.Probers[node]; why != "" {
			lines = append(lines, node+": "+why)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	text := fmt.Sprintf("nothing is measured from %d of %s: ", len(lines), quantity.Count(len(r.Probers), "node"))
	if more := len(lines) - mostNamed; more > 0 {
		lines = append(lines[:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return text + strings.Join(lines, "; ")
}

// headline says how all Services stand, in a line: "3 Services: 1 not measured, 2 idle; the last run of 1: fail".
func (r *Report) headline() string {
	states, verdicts := map[string]int{}, map[string]int{}
	for _, s := range r.Services {
		states[string(s.State)]++
		verdicts[string(s.Last.Verdict)]++
	}
	count := func(of map[string]int, format string, names ...string) (all []string) {
		for _, name := range names {
			if n := of[name]; n > 0 {
				all = append(all, fmt.Sprintf(format, n, name))
			}
		}
		return all
	}
	text := quantity.Count(len(r.Services), "Service") + ": " + strings.Join(count(states, "%d %s", string(notMeasured),
		string(starting), string(coordinator.Recording), string(coordinator.Raised), string(coordinator.Idle)), ", ")
	if n := len(r.Probers); n > 0 {
		text += ", measured from " + quantity.Count(n, "node") + ", too"
	}
	lost := count(verdicts, "the last run of %d: %s", string(gate.Fail), string(gate.Inconclusive))
	return strings.Join(append([]string{text}, lost...), "; ")
}

// Print prints a report: a line for each thing that is wrong, how all Services stand, and a table.
func Print(w io.Writer, r Report) error {
	for _, problem := range r.problems() {
		fmt.Fprintln(w, problem)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Unwatched)) {
		fmt.Fprintf(w, "changes of kind %s are not seen, nor found as a cause, %s\n", kind, r.Unwatched[kind])
	}
	switch {
	case r.Unlisted:
		_, err := fmt.Fprintln(w, unlisted)
		return err
	case len(r.Services) == 0:
		_, err := fmt.Fprintln(w, `no Service is guarded: annotate one with lapse/guard: "on"`)
		return err
	}
	fmt.Fprintln(w, r.headline())
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SERVICE\tSTATE\tSINCE\tRUNS\tLAST\tRUN\tREASON")
	for _, s := range r.Services {
		last, reason := s.last()
		state := string(s.State)
		if s.Rate > 0 {
			state += ", " + quantity.Number(s.Rate) + "/s"
		}
		since := s.Since.UTC().Format(time.RFC3339)
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", s.Service, state, since, s.Runs, last, s.run(), reason)
	}
	return table.Flush()
}
