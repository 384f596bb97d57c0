package wide

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/kube/kubetest"
	"lapse/internal/record"
	"lapse/internal/run/version"
	"lapse/timeline"
)

// A wideProber stands in for the process in the Pod of a node: it has the API, the recording and the clock of one,
// but makes its requests up. What it records, and how often, is what a prober would whose requests are all answered.
type wideProber struct {
	process string
	clock   timeline.Clock
	rec     *record.Writer

	mu       sync.Mutex
	assigned *agent.Assignment // nil: nothing yet
	targets  []*wideTarget
	firstSeq uint64
	end      time.Duration // no request is due from then on
	ended    bool          // all is recorded
	err      error         // the first of the recording
}

// A wideTarget is a target as its requests are made up.
type wideTarget struct {
	timeline.Target
	interval time.Duration
	peer     uint16
	random   *mathrand.Rand
	next     timeline.Request // the next to be handed on
}

// How often a prober hands on what it has measured, and how often it completes a block of its recording: as loadgen
// and run do.
const (
	wideDelivery = 50 * time.Millisecond
	wideFlush    = 5 // deliveries
)

const never = time.Duration(math.MaxInt64)

func newWideProber(dir string) (*wideProber, error) {
	p := &wideProber{process: rand.Text(), clock: timeline.StartClock(), end: never}
	var err error
	p.rec, err = record.Create(filepath.Join(dir, p.process+".lapse"))
	return p, err
}

// Status says how far the prober has come.
func (p *wideProber) Status() agent.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := agent.Status{Version: version.Version, Process: p.process, T0: p.clock.T0(), Now: p.clock.Now(), Size: p.rec.Size(), Phase: timeline.PhaseStarting}
	switch {
	case p.ended:
		s.Phase, s.SHA256 = timeline.PhaseEnded, p.rec.Sum()
	case p.assigned != nil:
		s.Phase = timeline.PhaseMeasuring
	}
	return s
}

// Now returns the instant on the prober's clock.
func (p *wideProber) Now() time.Duration { return p.clock.Now() }

// Facts reads the recording from offset on.
func (p *wideProber) Facts(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return p.rec.Tail(ctx, offset)
}

// Ack does nothing: the process goes when the benchmark is over.
func (p *wideProber) Ack(record.Receipt) error { return nil }

// SetRates is for runs that wait for a sign.
func (p *wideProber) SetRates([]agent.Rate) error { return errors.New("not here") }

// Assign begins to measure.
func (p *wideProber) Assign(a agent.Assignment) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.assigned != nil {
		return nil // asked again
	}
	p.assigned = &a
	p.begin(a, p.clock.Now())
	go p.measure()
	return nil
}

// begin makes up the first request of each target, and records what is measured, and where.
func (p *wideProber) begin(a agent.Assignment, now time.Duration) {
	peers := map[netip.AddrPort]uint16{}
	for i, t := range a.Targets {
		target := &wideTarget{Target: t.Target, interval: t.Interval(), random: mathrand.New(mathrand.NewPCG(uint64(a.Source), uint64(t.ID)))}
		p.keep(p.rec.Append(timeline.Event{Source: a.Source, Seen: now, Kind: timeline.TargetChanged, To: "measuring", Object: timeline.Object{Kind: "Target", Name: t.Name}}))
		if at, ok := hostOf(t.URL); ok {
			if peers[at] == 0 {
				peers[at] = uint16(len(peers) + 1)
				p.keep(p.rec.Append(timeline.Peer{Source: a.Source, ID: peers[at], Addr: at}))
			}
			target.peer = peers[at]
		}
		// The targets of a prober take turns, and so do the probers.
		turn := math.Mod(float64(i)+float64(a.Source)/256, float64(len(a.Targets))) / float64(len(a.Targets))
		target.makeUp(0, now+time.Duration(turn*float64(target.interval)))
		p.targets = append(p.targets, target)
	}
}

func hostOf(text string) (at netip.AddrPort, ok bool) {
	u, err := url.Parse(text)
	if err != nil {
		return at, false
	}
	at, err = netip.ParseAddrPort(u.Host)
	return at, err == nil
}

// makeUp makes up the request that is due at an instant: it is answered, mostly within a millisecond. Recordings have
// whole microseconds.
func (t *wideTarget) makeUp(seq uint64, due time.Duration) {
	due = due.Truncate(time.Microsecond)
	r := timeline.Request{Target: t.ID, Seq: seq, Due: due, Sent: due + 20*time.Microsecond}
	first := timeline.Micros(250 + t.random.IntN(600) + t.random.IntN(8)/7*t.random.IntN(20_000))
	r.Outcome = timeline.Outcome{Class: timeline.OK, Code: 200, Peer: t.peer, Reused: t.Kind != timeline.New, Phases: timeline.Phases{FirstByte: first}}
	if !r.Reused {
		r.Connect = timeline.Micros(50 + t.random.IntN(100))
	}
	r.Done = r.Sent + r.Connect.Duration() + first.Duration() + 10*time.Microsecond
	t.next = r
}

// watermark returns the instant before which no request of the target is missing.
func (t *wideTarget) watermark(now, end time.Duration) time.Duration {
	return min(t.next.Due, now.Truncate(time.Microsecond), end)
}

// deliver hands on what is done. It reports whether that is all. The caller holds mu.
func (p *wideProber) deliver(now time.Duration) (all bool) {
	all = true
	batch := timeline.Batch{Source: p.assigned.Source, FirstSeq: p.firstSeq}
	for _, t := range p.targets {
		for t.next.Done <= now && t.next.Due < p.end {
			batch.Requests = append(batch.Requests, t.next)
			t.makeUp(t.next.Seq+1, t.next.Due+t.interval)
		}
		all = all && t.next.Due >= p.end
		batch.Watermarks = append(batch.Watermarks, timeline.Watermark{Target: t.ID, Due: t.watermark(now, p.end)})
	}
	p.firstSeq += uint64(len(batch.Requests))
	p.keep(p.rec.Append(batch))
	return all
}

func (p *wideProber) keep(err error) {
	if p.err == nil {
		p.err = err
	}
}

// measure hands on requests until the prober is to end, and records the end.
func (p *wideProber) measure() {
	tick := time.NewTicker(wideDelivery)
	defer tick.Stop()
	for n := 1; ; n++ {
		<-tick.C
		p.mu.Lock()
		if p.deliver(p.clock.Now()) {
			break
		}
		p.mu.Unlock()
		if n%wideFlush == 0 {
			p.keep(p.rec.Flush())
		}
	}
	defer p.mu.Unlock()
	p.keep(p.rec.Close())
	p.ended = true
}

// End stops measuring.
func (p *wideProber) End(string, timeline.SourceID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.assigned == nil {
		return errors.New("nothing was assigned")
	}
	if p.end == never {
		p.end = p.clock.Now().Truncate(time.Microsecond)
	}
	return nil
}

// A wideReport is what the probers have made, by the target's name. Each request counts from when it was answered.
type wideReport struct {
	Requests map[string]uint64
	Judged   uint64 // of these, those to Services
	Err      string // why a recording is not whole, or ""
}

// add adds what the prober has made until now.
func (r *wideReport) add(p *wideProber) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.assigned != nil && !p.ended {
		p.deliver(p.clock.Now())
	}
	for _, t := range p.targets {
		r.Requests[t.Name] = t.next.Seq
		if t.Kind.Judged() {
			r.Judged += t.next.Seq
		}
	}
	if p.err != nil {
		r.Err = p.err.Error()
	}
}

// standInForCluster runs the process that has the API server, all Pods, and all probers of a run. It gets a widePlan
// as its argument and the probers' keys in its environment, prints the API's address, and ends with its standard
// input.
func standInForCluster() {
	if err := serveWideCluster(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveWideCluster(text string) error {
	var plan widePlan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lapse-probers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	probers, err := serveWideProbers(plan, dir)
	if err != nil {
		return err
	}
	shop, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		return err
	}
	go http.Serve(shop, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	cluster := newWideCluster(plan, int32(shop.Addr().(*net.TCPAddr).Port))
	mux := cluster.handler()
	mux.HandleFunc("GET /made", func(w http.ResponseWriter, _ *http.Request) {
		report := wideReport{Requests: map[string]uint64{}}
		for _, p := range probers {
			report.add(p)
		}
		kubetest.Answer(w, 200, report)
	})
	mux.HandleFunc("POST /change", func(http.ResponseWriter, *http.Request) { go cluster.keepReplacing() })
	api, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(api, mux)
	fmt.Println(api.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// serveWideProbers starts the prober of each node, with the API that a prober has, at its address.
func serveWideProbers(plan widePlan, dir string) (probers []*wideProber, err error) {
	keys := agent.KeyPair{CA: []byte(os.Getenv(deploy.EnvTLSCA)), Cert: []byte(os.Getenv(deploy.EnvTLSCert)), Key: []byte(os.Getenv(deploy.EnvTLSKey))}
	config, err := keys.Server()
	if err != nil {
		return nil, err
	}
	for n := range plan.Sources {
		p, err := newWideProber(dir)
		if err != nil {
			return nil, err
		}
		ln, err := net.Listen("tcp", net.JoinHostPort(plan.proberAddr(n), strconv.Itoa(agent.ProberPort)))
		if err != nil {
			return nil, err
		}
		api := agent.SessionAPI(p)
		find := func(string, bool) (http.Handler, func(), error) { return api, func() {}, nil }
		go agent.NewProberServer(find, config).ServeTLS(ln, "", "")
		probers = append(probers, p)
	}
	return probers, nil
}
