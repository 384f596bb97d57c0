package guard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	"lapse/internal/guard/gate"
	"lapse/internal/run/coordinator"
)

// DefaultPrivate is where the status is told if nothing else is said.
const DefaultPrivate = "127.0.0.1:7118"

const statusPath = "/v1/status"

// A Status is how a guarded Service stands.
type Status struct {
	Service string              `json:"service"`
	State   coordinator.Standby `json:"state"`
	Since   time.Time           `json:"since"`
	Sign    string              `json:"sign,omitzero"`    // that began the run
	Run     string              `json:"run,omitzero"`     // that goes on
	Problem string              `json:"problem,omitzero"` // why it is not measured
	Runs    int                 `json:"runs"`             // that have ended since the guard began
	Last    *Last               `json:"last,omitzero"`    // of them
}

// A Last is the newest run that has ended.
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
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// private serves what names all Services.
func (g *guard) private() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+statusPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(g.statuses()) // who asked may have gone
	})
	return mux
}

// statuses returns how all Services stand, in the order of their names.
func (g *guard) statuses() []Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := []Status{}
	for _, s := range g.services {
		s.mu.Lock()
		all = append(all, s.status)
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Service, b.Service) })
	return all
}

// Ask asks a guard how its Services stand.
func Ask(address string) ([]Status, error) {
	client := http.Client{Timeout: 10 * time.Second}
	reply, err := client.Get("http://" + address + statusPath)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	var all []Status
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", address, reply.Status)
	}
	if err := json.NewDecoder(io.LimitReader(reply.Body, 16<<20)).Decode(&all); err != nil {
		return nil, fmt.Errorf("%s is no guard: %w", address, err)
	}
	return all, nil
}

// Print prints statuses as a table.
func Print(w io.Writer, all []Status) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, `no Service is guarded: annotate one with lapse/guard: "on"`)
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SERVICE\tSTATE\tSINCE\tRUNS\tLAST\tREASON")
	for _, s := range all {
		last, reason := "", cmp.Or(s.Problem, s.Sign)
		if s.Last != nil {
			last, reason = string(s.Last.Verdict), cmp.Or(reason, s.Last.Reason)
		}
		since := s.Since.UTC().Format(time.RFC3339)
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", s.Service, s.State, since, s.Runs, last, reason)
	}
	return table.Flush()
}
