package causes

import (
	"lapse/correlate/causes/evidence"
)

// unnamed returns what is missing where the replies do not say who sent them.
func unnamed(h *evidence.Holder, f *Finding) {
	if !h.Named() {
		f.missing(evidence.Measured.Doubt("which Pod the connections were on is not known: the replies do not name " +
			"it (X-Pod, or --backend-header)"))
	}
}
