package compare

import (
	"slices"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
)

// What is compared of a target whose connections are held. They are the figures of the gates of that name.
const (
	DiffCut      = "held.cut"      // connections that were cut ÷ those that stood
	DiffUnwarned = "held.unwarned" // of these, those that were cut without an announcement, ÷ those that stood
	DiffBack     = "held.back.max" // the longest that it took one to stand again
)

// heldChanges returns the changes of the targets whose connections one of the runs held.
func heldChanges(a, b *model.Timeline) (list []Change) {
	var targets []string
	for _, h := range slices.Concat(a.Held, b.Held) {
		if !slices.Contains(targets, h.Target) {
			targets = append(targets, h.Target)
		}
	}
	for _, target := range targets {
		for _, metric := range []string{DiffCut, DiffUnwarned, DiffBack} {
			c := change(metric, heldFigure(a, target, metric), heldFigure(b, target, metric))
			c.Target = target
			list = append(list, c)
		}
	}
	return list
}

// heldFigure returns one figure of a target, by its gate. A number of connections is a share of those that stood, so
// that runs which held more or fewer compare.
func heldFigure(tl *model.Timeline, target, metric string) *Estimate {
	i := slices.IndexFunc(tl.Held, func(h model.Held) bool { return h.Target == target })
	if i < 0 {
		return nil
	}
	only := *tl
	only.Held = tl.Held[i : i+1]
	gate, _ := verdict.MetricNamed(metric)
	r, measured := gate.Value(&only, &only.Verdict)
	switch {
	case !measured:
		return nil
	case gate.Unit == model.Count:
		return cutShare(r, tl.Held[i].Stood)
	}
	// a wait that is spread at random is no change
	return lengthEstimate(model.Length{Min: verdict.LongestBack(&only).Min, Max: time.Duration(r.Max)}, r.Open)
}

// cutShare returns the Clopper-Pearson interval of the share of connections that are cut. The upper bound also holds
// those that may have been.
func cutShare(cut model.Range, stood int) *Estimate {
	most := min(stood, int(cut.Max))
	if cut.Open {
		most = stood
	}
	low, _ := windows.ShareInterval(int(cut.Min), stood)
	_, high := windows.ShareInterval(most, stood)
	return &Estimate{Min: low, Max: &high, Failed: int(cut.Min), Sent: stood}
}
