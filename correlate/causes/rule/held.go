package rule

import (
	"lapse/correlate/causes/evidence"
)

// Unnamed returns what is missing where the replies do not say who sent them.
func Unnamed(h *evidence.Holder, f *Finding) {
	if !h.Named() {
		f.Lack(evidence.Measured.Doubt("which Pod the connections were on is not known: the replies do not name " +
			"it (X-Pod, or --backend-header)"))
	}
}
