package routes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// A dnsRow is how one DNS server followed changes of one kind.
type dnsRow struct {
	followed
	server     model.DNSServer
	unobserved int // changes that no answer shows
}

// dnsRows are the servers that were asked, with what is known of changes of one kind.
func dnsRows(dns *model.DNS, change model.RouteChange) (rows []dnsRow) {
	for _, s := range dns.Servers {
		row := dnsRow{followed: followed{who: serverName(s)}, server: s}
		for _, c := range s.Changes {
			switch {
			case c.Change != change:
			case c.Lag == nil:
				row.unobserved++
			case c.Open:
				row.open++
			default:
				row.lags = append(row.lags, *c.Lag)
			}
		}
		row.sort()
		rows = append(rows, row)
	}
	return rows
}

// serverName names a DNS server for people.
func serverName(s model.DNSServer) string {
	name := s.Addr
	if s.Pod != "" {
		name += " " + s.Pod[strings.IndexByte(s.Pod, '/')+1:]
	}
	if s.Node != "" {
		name += " on " + s.Node
	}
	return document.Clean(name)
}

var (
	dnsTitles  = append(slices.Clip(lagTitles), "ttl")
	dnsChanges = []struct {
		change model.RouteChange
		title  string
	}{{model.Removal, "dns: removed, from the deletion"}, {model.Addition, "dns: added, from its endpoint"}}
)

// cells are what is said of the server, under [dnsTitles].
func (r dnsRow) cells() []document.Cell {
	seen := len(r.lags) + r.open
	changes := strconv.Itoa(seen)
	if r.unobserved > 0 {
		changes += fmt.Sprintf(" of %d", seen+r.unobserved)
	}
	cells := []document.Cell{{Text: changes}}
	for _, share := range lagShares {
		text := "unobserved"
		if seen > 0 {
			text = r.quantile(share)
		}
		cells = append(cells, document.Cell{Text: text})
	}
	return append(cells, document.Cell{Text: ttlText(r.server.TTL)})
}

// ttlText is the TTL of a server's answers. That of an answer from its cache counts down.
func ttlText(ttl *model.Length) string {
	switch {
	case ttl == nil:
		return "no answer"
	case ttl.Min == ttl.Max:
		return quantity.Span(ttl.Max)
	}
	return quantity.Span(ttl.Min) + " to " + quantity.Span(ttl.Max)
}

// dnsNotes are what the table does not say: which servers were not asked, and which did not answer all.
func dnsNotes(dns *model.DNS) (notes []string) {
	if dns.NotAsked != "" {
		text := "DNS lag is not measured"
		if len(dns.Servers) > 0 {
			text += " of all servers"
		}
		notes = append(notes, text+": "+document.Clean(dns.NotAsked)+".")
	}
	for _, s := range dns.Servers {
		if lost := s.Asked - s.Answered; lost > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %d queries were not answered (last: %s).",
				serverName(s), lost, s.Asked, document.Clean(s.Why)))
		}
	}
	return notes
}

// dnsTables have a row for each DNS server, one table for each kind of change.
func dnsTables(dns *model.DNS) (tables []document.Table) {
	for _, kind := range dnsChanges {
		t := document.Table{Item: "DNS server", Columns: titled(append([]string{kind.title}, dnsTitles...))}
		for _, r := range dnsRows(dns, kind.change) {
			t.Rows = append(t.Rows, document.Row{
				Cells: append([]document.Cell{{Text: r.who, Verbatim: true}}, r.cells()...),
			})
		}
		tables = append(tables, t)
	}
	return tables
}

// dnsAdvice says what the removals mean for clients that look up the name themselves, where DNS takes longer than the
// routes: its own lag, and for how long clients may keep the last answer. It is empty where a sleep that covers the
// routes covers these clients too, and where nothing is known.
func dnsAdvice(dns *model.DNS, routes []followed) string {
	if dns == nil {
		return ""
	}
	var ofRoutes, lag, ttl time.Duration
	for _, n := range routes {
		for _, l := range n.lags {
			ofRoutes = max(ofRoutes, l.Max)
		}
	}
	seen, open, unobserved := 0, 0, 0
	for _, r := range dnsRows(dns, model.Removal) {
		seen, open, unobserved = seen+len(r.lags), open+r.open, unobserved+r.unobserved
		for _, l := range r.lags {
			lag = max(lag, l.Max)
		}
		if r.server.TTL != nil {
			ttl = max(ttl, r.server.TTL.Max)
		}
	}
	const clients = "Clients that look up a headless Service's name themselves: "
	switch {
	case open > 0:
		return clients + fmt.Sprintf(
			"of %s DNS was not seen to follow %d, so no preStop sleep is known to be long enough.",
			quantity.Count(seen+open, "removal"),
			open,
		)
	case seen == 0 || lag+ttl <= ofRoutes:
		return ""
	}
	text := clients + fmt.Sprintf("DNS gave a deleted Pod's address for up to %s, and they may keep an answer "+
		"for its TTL of up to %s. A sleep of %d s covers both.",
		quantity.Highest(lag), quantity.Highest(ttl), wholeSeconds(lag+ttl))
	if unobserved > 0 {
		text += fmt.Sprintf(" Of %s nothing is known.", quantity.Count(unobserved, "further removal"))
	}
	return text
}

// DNS has, for each DNS server, how it followed the changes of endpoints.
func DNS(tl *model.Timeline) document.Section {
	if tl.DNS == nil {
		return document.Section{}
	}
	s := document.Section{
		Title: "dns",
		Remark: "from a Pod's deletion, or its endpoint in the EndpointSlice, until a DNS server's answers followed; " +
			"clients may keep an answer for its TTL",
	}
	t := document.Table{Item: "DNS server", Columns: []document.Column{{Title: "server"}, {Title: ""}}}
	for _, title := range dnsTitles {
		t.Columns = append(t.Columns, document.Column{Title: title, Right: true})
	}
	for _, kind := range dnsChanges {
		for _, r := range dnsRows(tl.DNS, kind.change) {
			t.Rows = append(t.Rows, document.Row{Cells: append(
				[]document.Cell{{Text: r.who, Verbatim: true}, {Text: routeWord(kind.change)}}, r.cells()...,
			)})
		}
	}
	if len(t.Rows) > 0 {
		s.Blocks = append(s.Blocks, t)
	}
	for _, text := range dnsNotes(tl.DNS) {
		s.Blocks = append(s.Blocks, document.Note{Text: text, Tone: document.Dim})
	}
	if text := dnsAdvice(tl.DNS, routesByNode(tl.Routes, model.Removal)); text != "" {
		s.Blocks = append(s.Blocks, document.Note{Text: text})
	}
	return s
}
