package trend

import (
	"cmp"
	"strings"

	"lapse/correlate/trend"
)

// Said is a trend in words: what its table has, and the page.
type Said struct {
	Headline string   `json:"headline"` // whether there are runs enough to say something
	Groups   []Group  `json:"groups"`   // the one with the newest run first
	Notes    []string `json:"notes"`    // what the figures mean
}

// A Group is a pool in words.
type Group struct {
	Service  string    `json:"service"` // or URLs
	Remark   string    `json:"remark"`  // what its runs have in common
	Releases []Release `json:"releases"`
}

// A Release is the runs of a release in words.
type Release struct {
	Name     string `json:"name"`
	Lossy    string `json:"lossy"`    // how many runs lost requests
	Failed   string `json:"failed"`   // requests
	Downtime string `json:"downtime"` // of a run
	Cause    string `json:"cause,omitzero"`
	Before   string `json:"before,omitzero"` // the release that it is compared with; absent without runs enough
	Change   string `json:"change,omitzero"` // what that showed
}

// Say returns a trend in words.
func Say(t *trend.Trend) Said {
	said := Said{Headline: headline(t), Groups: []Group{}, Notes: cautions(t)}
	for _, p := range t.Pools {
		g := Group{Service: cmp.Or(p.Service, strings.Join(p.URLs, " ")), Remark: remark(p)}
		for i := range p.Releases {
			g.Releases = append(g.Releases, releaseOf(p, i))
		}
		said.Groups = append(said.Groups, g)
	}
	return said
}

// releaseOf returns the i-th release of a pool in words.
func releaseOf(p *trend.Pool, i int) Release {
	r := &p.Releases[i]
	said := Release{
		Name: cmp.Or(r.Name, "not on record"), Lossy: lossyText(r), Failed: requestsText(r.Requests),
		Downtime: downtimeText(r.Downtime), Cause: causeText(r.Causes),
	}
	if i > 0 && p.Comparisons[i-1].Enough {
		c := &p.Comparisons[i-1]
		said.Before = cmp.Or(c.Before, "before")
		said.Change = "failed requests of a run: " + changeText(c.Failed, "fewer") + "; downtime: " +
			changeText(c.Downtime, "less")
	}
	return said
}
