// Package trend says what many runs show together, by Service and release. One run is one sample of a disruption: what
// the next one will be like is judged from runs, not from requests, because the requests of a disruption fail together.
//
// Runs are pooled if they measured the same thing in the same way: one Service, one kind of disruption, one Kubernetes
// minor version and proxy mode, the same requests at the same rate. All else stands apart.
package trend

import (
	"cmp"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/history"
)

// How many runs it takes. The confidence interval of a median is finite from 6 values on, and the U test can find a
// difference from 4 a side on, both at 95 %.
const (
	MedianRuns  = 6
	CompareRuns = 4
)

// tail is how probable it is that a bound is wrong on its side: the two of an interval hold with 95 %.
const tail = 0.025

// A Trend is what the lines of a history show together.
type Trend struct {
	Runs int `json:"runs"` // lines: a run of several Services counts for each of them
	// further lines, which do not count: of runs that measured a disruption that another one has lost more of
	Again int     `json:"again,omitzero"`
	Pools []*Pool `json:"pools"` // the one with the newest run first

	// how many of the medians and comparisons there are runs enough for
	Medians     Enough `json:"medians"`
	Comparisons Enough `json:"comparisons"`

	Judges []string `json:"judges"` // the versions of Lapse that judged the runs
}

// Enough counts what there are enough runs for.
type Enough struct {
	Yes int `json:"yes"`
	Of  int `json:"of"`
}

// A Pool is runs that may be put together.
type Pool struct {
	Service string   `json:"service,omitzero"`
	URLs    []string `json:"urls,omitzero"`
	// how Pods were ended: "drain", "rollout", several by comma; empty if none was, or that is not on record
	Disruption string `json:"disruption,omitzero"`
	Kubernetes string `json:"kubernetes,omitzero"` // the minor version: "1.36"
	ProxyMode  string `json:"proxyMode,omitzero"`
	Load       string `json:"load"` // "new 100/s, reused 100/s"

	Releases    []Release    `json:"releases"`    // by when each began to serve last, as far as runs show
	Comparisons []Comparison `json:"comparisons"` // of each release with the one before it
}

// A Release is the runs of one release.
type Release struct {
	Name  string    `json:"name,omitzero"` // the template's hash; empty if it is not on record
	First time.Time `json:"first"`         // when its first run began
	Last  time.Time `json:"last"`

	Runs Runs `json:"runs"`
	// the share of such disruptions that lose requests; absent if no run measured
	Lossy *Share `json:"lossy,omitzero"`
	// failed ÷ sent in these runs. The interval takes each request for a sample of its own, which requests of one
	// disruption are not: it says how exactly these runs were measured, and nothing of the next one. Absent if nothing
	// was sent
	Requests *Requests `json:"requests,omitzero"`
	Downtime *Downtime `json:"downtime,omitzero"` // absent if nothing was measured
	Causes   []Cause   `json:"causes,omitzero"`   // the one of most runs first

	lines []*history.Line
	began time.Time // the first of its newest runs, with none of another release between them
}

// Runs counts runs. Each is lossy, lossless or unknown, for one of three reasons.
type Runs struct {
	All      int `json:"all"`
	Lossy    int `json:"lossy"`    // a request failed, whatever the verdict
	Lossless int `json:"lossless"` // none did, and enough was observed
	Unknown  int `json:"unknown"`  // none is known to have failed

	Unmeasured   int `json:"unmeasured,omitzero"` // no request had an outcome that counts
	Aborted      int `json:"aborted,omitzero"`
	Inconclusive int `json:"inconclusive,omitzero"`
}

// A Share is bounded, from 0 to 1.
type Share struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Requests are the requests of some runs.
type Requests struct {
	Failed int   `json:"failed"`
	Sent   int   `json:"sent"`
	Share  Share `json:"share"`
}

// A Downtime is how long the Service was down in a run.
type Downtime struct {
	Runs int `json:"runs"` // that measured it
	// the least and the most that one of these runs may have had
	Seen Bounds `json:"seen"`
	// the median, as far as the error bars of the runs leave it open, and the interval that holds the median of all
	// such runs; absent before [MedianRuns]
	Median   *Bounds `json:"median,omitzero"`
	Interval *Bounds `json:"interval,omitzero"`
}

// Bounds are lengths. Max is absent if there is no upper bound: a run was aborted, or a window was under way when
// measuring began or ended.
type Bounds struct {
	Min time.Duration  `json:"min"`
	Max *time.Duration `json:"max,omitzero"`
}

// A Cause is a rule that explained failures best.
type Cause struct {
	Rule string `json:"rule"`
	Runs int    `json:"runs"` // in how many runs
}

// Of returns what lines show. Of two lines of one run and Service the later one counts.
func Of(lines []history.Line) Trend {
	t := Trend{Pools: []*Pool{}, Judges: []string{}}
	pools, releases := map[string]int{}, map[[2]string]int{} // by key, and by key and name
	measured := map[string]*history.Line{}                   // last, by key
	all := latest(lines)
	counted := disruptions(all)
	t.Again = len(all) - len(counted)
	for _, l := range counted {
		t.Runs++
		p := poolOf(l)
		key, name := p.key(), releaseName(l)
		pool, ok := pools[key]
		if !ok {
			pool = len(t.Pools)
			pools[key], t.Pools = pool, append(t.Pools, p)
		}
		of := &t.Pools[pool].Releases
		release, ok := releases[[2]string{key, name}]
		if !ok {
			release = len(*of)
			releases[[2]string{key, name}], *of = release, append(*of, Release{Name: name, First: l.T0})
		}
		r := &(*of)[release]
		if before := measured[key]; before == nil || releaseName(before) != name {
			r.began = l.T0
		}
		measured[key] = l
		r.Last, r.lines = l.T0, append(r.lines, l)
		if !slices.Contains(t.Judges, l.Lapse) {
			t.Judges = append(t.Judges, l.Lapse)
		}
	}
	for _, p := range t.Pools {
		slices.SortStableFunc(p.Releases, func(a, b Release) int { return a.began.Compare(b.began) })
		p.judge(&t)
	}
	slices.SortStableFunc(t.Pools, func(a, b *Pool) int { return b.Last().Compare(a.Last()) })
	slices.Sort(t.Judges)
	return t
}

// latest returns one line for each run and Service, by when the runs began.
func latest(lines []history.Line) []*history.Line {
	type key struct{ run, service string }
	index := map[key]int{}
	var all []*history.Line
	for i := range lines {
		l := &lines[i]
		k := key{l.Run, l.Service}
		if at, ok := index[k]; ok {
			all[at] = l
			continue
		}
		index[k] = len(all)
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b *history.Line) int {
		return cmp.Or(a.T0.Compare(b.T0), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Service, b.Service))
	})
	return all
}

func poolOf(l *history.Line) *Pool {
	return &Pool{
		Service:     l.Service,
		URLs:        l.URLs,
		Disruption:  disruption(l),
		Kubernetes:  minor(l.Kubernetes),
		ProxyMode:   l.ProxyMode,
		Load:        load(l.Load),
		Releases:    []Release{},
		Comparisons: []Comparison{},
	}
}

func (p *Pool) key() string {
	of := []string{p.Service, p.Disruption, p.Kubernetes, p.ProxyMode, p.Load}
	return strings.Join(append(of, p.URLs...), "\n")
}

// disruption returns how Pods were ended, as far as somebody asked for it. What is only seen where requests fail is no
// part of it: runs that pass would be kept apart from runs that do not.
func disruption(l *history.Line) string {
	var kinds []string
	for _, t := range l.Triggers {
		if kind := string(t.Kind); t.Kind != model.PodExited && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return strings.Join(kinds, ", ")
}

var minorVersion = regexp.MustCompile(`^v?(\d+\.\d+)`)

// minor returns the minor version of Kubernetes: of v1.36.3-gke.100 1.36.
func minor(version string) string {
	if m := minorVersion.FindStringSubmatch(version); m != nil {
		return m[1]
	}
	return version
}

// load returns what was sent, in words: "new 100/s, 3 × reused 33.3/s".
func load(of []history.Load) string {
	var all []string
	for _, l := range of {
		text := l.Kind + " " + quantity.Number(l.Rate) + "/s"
		if l.Targets > 1 {
			text = quantity.Number(float64(l.Targets)) + " × " + text
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// releaseName returns the release that served last in a run.
func releaseName(l *history.Line) string {
	if n := len(l.Release.Templates); n > 0 {
		return l.Release.Templates[n-1]
	}
	return ""
}

// Last returns when the newest run began.
func (p *Pool) Last() (t time.Time) {
	for _, r := range p.Releases {
		if r.Last.After(t) {
			t = r.Last
		}
	}
	return t
}

// judge judges each release, and compares it with the one before it.
func (p *Pool) judge(t *Trend) {
	for i := range p.Releases {
		r := &p.Releases[i]
		r.judge()
		t.Medians.count(r.Downtime != nil && r.Downtime.Median != nil)
		if i > 0 {
			c := compare(&p.Releases[i-1], r)
			p.Comparisons = append(p.Comparisons, c)
			t.Comparisons.count(c.Enough)
		}
	}
}

func (e *Enough) count(yes bool) {
	e.Of++
	if yes {
		e.Yes++
	}
}

func (r *Release) judge() {
	for _, l := range r.lines {
		r.Runs.count(l)
		for _, c := range l.Causes {
			r.addCause(c.Rule)
		}
	}
	slices.SortStableFunc(r.Causes, func(a, b Cause) int { return cmp.Compare(b.Runs, a.Runs) })
	if r.Runs.All > r.Runs.Unmeasured {
		r.Lossy = r.Runs.lossy()
	}
	r.Requests = requestsOf(r.lines)
	r.Downtime = downtimeOf(r.lines)
}

func (r *Release) addCause(rule string) {
	i := slices.IndexFunc(r.Causes, func(c Cause) bool { return c.Rule == rule })
	if i < 0 {
		i = len(r.Causes)
		r.Causes = append(r.Causes, Cause{Rule: rule})
	}
	r.Causes[i].Runs++
}

func (n *Runs) count(l *history.Line) {
	n.All++
	switch {
	case l.Failed > 0:
		n.Lossy++
		return
	case !l.Unknown():
		n.Lossless++
		return
	}
	n.Unknown++
	switch {
	case l.Sent == 0:
		n.Unmeasured++
	case l.Aborted:
		n.Aborted++
	default:
		n.Inconclusive++
	}
}

// lossy bounds the share of disruptions that lose requests. The runs are the draws. Of those that are unknown none may
// have lost requests, or all.
func (n *Runs) lossy() *Share {
	least, _ := windows.ClopperPearson(n.Lossy, n.All, tail)
	_, most := windows.ClopperPearson(n.Lossy+n.Unknown, n.All, tail)
	return &Share{least, most}
}

func requestsOf(lines []*history.Line) *Requests {
	var r Requests
	for _, l := range lines {
		r.Failed += l.Failed
		r.Sent += l.Sent
	}
	if r.Sent == 0 {
		return nil
	}
	r.Share.Min, r.Share.Max = windows.ClopperPearson(r.Failed, r.Sent, tail)
	return &r
}

// A Run is a line with what it is pooled by.
type Run struct {
	Line    *history.Line
	Pool    *Pool // without releases
	Release string
}

// Known yields the runs that were measured whole, by when they began. To whoever pools them without error bars, the
// others would look like passes.
func Known(lines []history.Line) iter.Seq[Run] {
	return func(yield func(Run) bool) {
		for _, l := range disruptions(latest(lines)) {
			if !l.Unknown() && !yield(Run{l, poolOf(l), releaseName(l)}) {
				return
			}
		}
	}
}
