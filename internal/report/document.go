package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/internal/report/routes"
	"lapse/timeline"
)

// sections are what a summary says below its verdict. Each is a file, and a line here.
var sections = []func(*view) document.Section{
	onlyIf(gatesTellMore, gatesSection),
	servicesSection,
	answersSection,
	momentSection,
	detail(incidentsSection),
	detail(heldSection),
	detail(windowsSection),
	detail(preflightSection),
	detail(unobservedSection),
	detail(timelineSection),
	detail(func(v *view) document.Section { return routes.Section(v.Timeline) }),
	detail(func(v *view) document.Section { return routes.DNS(v.Timeline) }),
	detail(controlPlaneSection),
	detail(keepServingSection),
	detail(latencySection),
	detail(hammerSection),
	notCoveredSection,
	onlyIf(notValid, validitySection),
	detail(specSection),
	moreSection,
}

// detail returns a section that only -v shows.
func detail(compose func(*view) document.Section) func(*view) document.Section {
	return onlyIf(func(*view) bool { return false }, compose)
}

// onlyIf returns a section that is shown if that holds, and with -v.
func onlyIf(holds func(*view) bool, compose func(*view) document.Section) func(*view) document.Section {
	return func(v *view) document.Section {
		if !v.Verbose && !holds(v) {
			return document.Section{}
		}
		return compose(v)
	}
}

// notValid reports whether something was wrong with the measurement that the reader has to know.
func notValid(v *view) bool {
	nodeMissed := slices.ContainsFunc(v.Said.Prober, func(l model.Line) bool { return l.Kind == model.LineNode })
	unsound := !v.Run.Live && v.Said.Soundness != model.Valid
	if unsound && v.Said.Soundness == model.Incomplete {
		unsound = v.Verdict.Result == model.Inconclusive || addressesFailed(v) // else the share observed says it
	}
	return unsound || v.Run.Unsaved != "" || nodeMissed
}

// addressesFailed reports whether an address of a target's name failed before another one answered.
func addressesFailed(v *view) bool {
	return slices.ContainsFunc(v.Judged(), func(t model.Target) bool { return len(t.FailedAddresses) > 0 })
}

// A view is a run, and what of it is to be shown.
type view struct {
	*model.Timeline
	Options
	names  map[string]string // of targets, short
	screen bool              // it is for a screen, not for a document that is read elsewhere
}

// summaryOf composes the summary of a run. Names of targets are cut to a number of columns.
func summaryOf(tl *model.Timeline, opts Options, nameWidth int) document.Document {
	return (&view{Timeline: tl, Options: opts, names: targetNames(tl, nameWidth)}).document()
}

func (v *view) document() document.Document {
	d := document.Document{
		Badge:    v.Said.Word,
		Tone:     toneOf(v.Timeline),
		Headline: v.Said.Headline,
		Extent:   v.Said.Extent,
		Caveats:  texts(v.Said.Caveats),
	}
	if v.Quiet {
		return d
	}
	for _, compose := range sections {
		if s := compose(v); len(s.Blocks) > 0 {
			d.Sections = append(d.Sections, s)
		}
	}
	return d
}

// texts returns lines without what they are about.
func texts(lines []model.Line) []string {
	list := make([]string, len(lines))
	for i, l := range lines {
		list[i] = l.Text
	}
	return list
}

// documentNames is the width of a target's name in documents. They have none themselves, but a table cell has.
const documentNames = 40

// targetNames gives each target the shortest name that no other has: its kind, its way to the only Service, or its
// own name, cut to width unless it would be another's then.
func targetNames(tl *model.Timeline, width int) map[string]string {
	kinds := map[timeline.TargetKind]int{}
	for _, t := range tl.Judged() {
		kinds[t.Kind]++
	}
	names := map[string]string{}
	for _, t := range tl.Targets {
		names[t.Name] = document.Clean(t.Name)
		if alone := len(tl.Run.Services)+len(tl.Run.URLs) <= 1; alone && kinds[t.Kind] == 1 {
			names[t.Name] = string(t.Kind)
		} else if alone && t.Route != "" {
			names[t.Name] = strings.TrimPrefix(names[t.Name], t.Service[strings.IndexByte(t.Service, '/')+1:]+" ")
		}
	}
	return cutNames(names, width)
}

// cutNames cuts names to width, but those that would be alike then.
func cutNames(names map[string]string, width int) map[string]string {
	alike := map[string]int{}
	for _, name := range names {
		alike[document.CutMiddle(name, width, "…")]++
	}
	for target, name := range names {
		if cut := document.CutMiddle(name, width, "…"); alike[cut] == 1 {
			names[target] = cut
		}
	}
	return names
}

// name is a target's short name.
func (v *view) name(target string) string { return cmp.Or(v.names[target], target) }

// maxListed is how many targets, or notes, of an incident are listed before the rest is only counted.
const maxListed = 4

// listed joins the first of some parts, and counts the rest.
func listed(parts []string) string {
	if more := len(parts) - maxListed; more > 1 {
		parts = append(slices.Clone(parts[:maxListed]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// nameList joins the short names of targets.
func (v *view) nameList(targets []string) string {
	short := make([]string, len(targets))
	for i, t := range targets {
		short[i] = v.name(t)
	}
	return listed(short)
}

func sum[T any, N ~int | ~int64 | ~float64](list []T, value func(T) N) N {
	var total N
	for _, v := range list {
		total += value(v)
	}
	return total
}

func count[T any](list []T, is func(T) bool) int {
	return sum(list, func(v T) int {
		if is(v) {
			return 1
		}
		return 0
	})
}
