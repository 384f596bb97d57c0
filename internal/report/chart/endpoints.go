package chart

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/internal/report/document"
)

// endpointRows returns the counts of ready endpoints of each Service, the fewest within each cell, as the API server
// showed them.
func (c *chart) endpointRows(services []model.WatchedService) []row {
	var rows []row
	names := endpointNames(c.tl)
	for _, service := range services {
		most := model.MostReady(service.Endpoints, model.Unbounded, model.Never)
		if most < 1 {
			continue
		}
		fewest := readyCounts(service, c)
		c.used["endpoints"] = true
		if most > 9 {
			c.used["counts"] = true
			rows = append(rows, row{c.Say(names[service.Name]), merge(c.counts(service.Name, fewest))})
			continue
		}
		rows = append(rows, row{c.Say(names[service.Name]), merge(c.digits(service.Name, fewest))})
	}
	return rows
}

// mostServiceRows is how many Services have a row; of more, those have one whose targets have.
const mostServiceRows = 8

// servicesToShow are the Services that have a row, by name.
func (c *chart) servicesToShow() []model.WatchedService {
	shown := slices.SortedFunc(slices.Values(c.tl.Services), func(a, b model.WatchedService) int {
		return cmp.Compare(a.Name, b.Name)
	})
	if len(shown) <= mostServiceRows {
		return shown
	}
	return slices.DeleteFunc(shown, func(s model.WatchedService) bool {
		return !slices.ContainsFunc(c.targets, func(t model.Target) bool { return t.Service == s.Name })
	})
}

// endpointNames are the rows' labels, by the name of their Service.
func endpointNames(tl *model.Timeline) map[string]string {
	names, short := map[string]string{}, map[string]int{}
	for _, service := range tl.Services {
		short[path.Base(service.Name)]++
	}
	for _, service := range tl.Services {
		name := path.Base(service.Name)
		switch {
		case len(tl.Services) == 1:
			name = ""
		case short[name] > 1:
			name = service.Name
		}
		names[service.Name] = strings.TrimSpace("endpoints " + name)
	}
	return names
}

// digits writes a number below ten into each cell.
func (c *chart) digits(service string, fewest []int) []document.Span {
	cells := make([]document.Span, c.cells)
	for i, n := range fewest {
		switch {
		case n < 0, c.unwatched("EndpointSlice", i, []string{service}, ""):
			cells[i] = c.glyph("none")
		default:
			cells[i] = countSpan(fmt.Sprint(n))
		}
	}
	return cells
}

// counts writes numbers of any size where they change, and a line until the next: 12----9--12----. A number is the
// fewest within the cells that it takes, with the one that parts it from the next.
func (c *chart) counts(service string, fewest []int) []document.Span {
	cells := make([]document.Span, c.cells)
	shown := -1
	for i := 0; i < c.cells; {
		switch {
		case fewest[i] < 0, c.unwatched("EndpointSlice", i, []string{service}, ""):
			cells[i], shown = c.glyph("none"), -1
			i++
		case fewest[i] == shown:
			cells[i] = document.Span{Text: "-", Style: document.Dim}
			i++
		default:
			end := min(i+len(fmt.Sprint(fewest[i]))+1, c.cells)
			shown = slices.Min(slices.DeleteFunc(slices.Clone(fewest[i:end]), func(n int) bool { return n < 0 }))
			text := fmt.Sprint(shown)
			for j := range end - i {
				cells[i+j] = document.Span{Text: "-", Style: document.Dim}
			}
			for j := range text { // at the edge, in the cells before it
				cells[min(i, max(0, c.cells-len(text)))+j] = countSpan(text[j : j+1])
			}
			i = end
		}
	}
	return cells
}

// countSpan is a digit of a count of endpoints. None is bad.
func countSpan(text string) document.Span {
	if text == "0" {
		return document.Span{Text: text, Style: document.RedBold}
	}
	return document.Span{Text: text}
}

// readyCounts are the fewest ready endpoints of a Service in each cell, -1 before any was seen.
func readyCounts(service model.WatchedService, c *chart) []int {
	fewest := slices.Repeat([]int{-1}, c.cells)
	now, column := -1, 0
	for _, step := range service.Endpoints {
		if step.At.Latest > c.to {
			break
		}
		for ; column < c.column(step.At.Latest); column++ {
			settle(fewest, column, now)
		}
		if step.Ready < now && step.At.Latest >= c.from {
			settle(fewest, column, step.Ready)
		}
		now = step.Ready
	}
	for ; column < c.cells; column++ {
		settle(fewest, column, now)
	}
	return fewest
}

// settle notes that there were now ready endpoints at some time in a cell.
func settle(fewest []int, column, now int) {
	if fewest[column] < 0 || now < fewest[column] {
		fewest[column] = now
	}
}
