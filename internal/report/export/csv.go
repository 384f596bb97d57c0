package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/correlate/align"
	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/timeline"
)

var csvFormat = Format{
	Name:  "csv",
	Doc:   "a CSV row for every request",
	Ext:   "csv",
	Left:  failedLeft,
	Write: requestsCSV,
}

var eventsFormat = Format{
	Name:  "events",
	Doc:   "a CSV row for every event: Pods, endpoints, nodes, the command, the run itself",
	Ext:   "csv",
	Left:  func(*model.Timeline) string { return "the events, without what bounds each from below" },
	Write: eventsCSV,
}

// failedLeft says how many of the failed requests a timeline lists.
func failedLeft(tl *model.Timeline) string {
	listed := len(tl.Failures)
	if tl.FailuresTruncated == 0 {
		return "the failed requests"
	}
	return fmt.Sprintf("the first %d of %d failed requests", listed, listed+tl.FailuresTruncated)
}

// A number is what a source calls a backend or a peer.
type number struct {
	source timeline.SourceID
	id     uint16
}

// requestColumns are the columns of [requestsCSV].
var requestColumns = []string{
	"target", "kind", "seq", "due", "sent", "done", "class", "code", "backend", "peer", "reused",
	"delayed", "dns", "connect", "tls", "first_byte", "clock_error",
}

// clocksOf returns how the clocks of a run's sources stood against the run's.
func clocksOf(run timeline.Run) *align.Clocks {
	clocks := &align.Clocks{}
	for _, s := range run.Syncs {
		clocks.Add(s)
	}
	return clocks
}

// requestsCSV writes a row for every request of a run, in the order recorded. Instants are nanoseconds since the
// run's t0 on the run's clock, each to clock_error, and phases are nanoseconds, as in timeline.json. What was not
// measured is empty: the status where none was read, a phase that did not happen, sent and done of what was never
// sent.
//
// It reads the run's batches once and holds one at a time. If they end with an error it is returned, and the rows
// before it were written.
func requestsCSV(w io.Writer, run timeline.Run) error {
	out := newTable(w, requestColumns)
	targets, backends, peers := namesOf(run)
	clocks := clocksOf(run)
	for batch, err := range run.Batches {
		if err != nil {
			return out.end(err)
		}
		for _, r := range batch.Requests {
			t := targets[r.Target]
			out.text(t.Name, string(t.Kind))
			at := clocks.Place(t.Source, r.Due, r.Sent, r.Done)
			out.number(int64(r.Seq), int64(at.Due))
			if r.Class == timeline.NotSent || r.Class == timeline.NoSlot {
				out.text("", "")
			} else {
				out.number(int64(at.Sent), int64(at.Done))
			}
			out.text(r.Class.String())
			out.some(int64(r.Code))
			out.text(
				backends[number{t.Source, r.Backend}],
				peers[number{t.Source, r.Peer}],
				strconv.FormatBool(r.Reused),
				strconv.FormatBool(r.Delayed),
			)
			out.some(
				int64(r.DNS.Duration()),
				int64(r.Connect.Duration()),
				int64(r.TLS.Duration()),
				int64(r.FirstByte.Duration()),
				int64(at.Error),
			)
			out.endRow()
		}
	}
	return out.end(nil)
}

// namesOf are what the numbers in a run's facts stand for.
func namesOf(run timeline.Run) (targets map[timeline.TargetID]timeline.Target, backends, peers map[number]string) {
	targets, backends, peers = map[timeline.TargetID]timeline.Target{}, map[number]string{}, map[number]string{}
	for _, t := range run.Targets {
		targets[t.ID] = t
	}
	for _, b := range run.Backends {
		backends[number{b.Source, b.ID}] = b.Name
	}
	for _, p := range run.Peers {
		peers[number{p.Source, p.ID}] = p.Addr.String()
	}
	return targets, backends, peers
}

// eventColumns are the columns of [eventsCSV].
var eventColumns = []string{
	"id", "since", "seen", "kind", "from", "to", "object_kind", "namespace", "name", "uid",
	"node", "addr", "service", "port_name",
	"port", "exit_code", "grace", "count", "status", "detail", "stamp", "writer",
}

// eventsCSV writes a row for every event of a run, in the order recorded: seen and since are nanoseconds since the
// run's t0 on the run's clock, as late and as early as they can have been, grace is in nanoseconds, stamp is what
// writer's clock said. What an event does not have is empty.
func eventsCSV(w io.Writer, run timeline.Run) error {
	out := newTable(w, eventColumns)
	clocks := clocksOf(run)
	for _, e := range run.Events {
		out.number(int64(e.ID))
		if e.Since == 0 {
			out.text("")
		} else {
			out.number(int64(max(1, clocks.At(e.Source, e.Since).Earliest)))
		}
		out.number(int64(clocks.At(e.Source, e.Seen).Latest))
		out.text(
			string(e.Kind), e.From, e.To, e.Object.Kind, e.Object.Namespace, e.Object.Name, e.Object.UID, e.Object.Node,
		)
		out.text(address(e), e.Service, e.PortName)
		out.some(int64(e.Port))
		known(out, e.ExitCode)
		known(out, e.Grace)
		out.some(int64(e.Count), int64(e.Status))
		out.text(e.Detail, stamp(e.Stamp), e.Writer)
		out.endRow()
	}
	return out.end(nil)
}

func address(e timeline.Event) string {
	if !e.Addr.IsValid() {
		return ""
	}
	return e.Addr.String()
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// A csvTable writes CSV row by row, quoted as RFC 4180 has it, with lines that end in a newline alone.
type csvTable struct {
	csv *csv.Writer
	row []string
}

func newTable(w io.Writer, columns []string) *csvTable {
	t := &csvTable{csv: csv.NewWriter(w), row: slices.Clone(columns)}
	t.endRow()
	return t
}

func (t *csvTable) text(cells ...string) {
	for _, c := range cells {
		t.row = append(t.row, inert(c))
	}
}

func (t *csvTable) number(values ...int64) {
	for _, v := range values {
		t.row = append(t.row, strconv.FormatInt(v, 10))
	}
}

// known writes a number, unless it is not known.
func known[T int | time.Duration](t *csvTable, value *T) {
	if value == nil {
		t.text("")
		return
	}
	t.number(int64(*value))
}

// some writes numbers of which 0 means that there is none.
func (t *csvTable) some(values ...int64) {
	for _, v := range values {
		if v == 0 {
			t.row = append(t.row, "")
		} else {
			t.number(v)
		}
	}
}

func (t *csvTable) endRow() {
	t.csv.Write(t.row) // its error is kept for end
	t.row = t.row[:0]
}

// end returns err, or else why something could not be written.
func (t *csvTable) end(err error) error {
	t.csv.Flush()
	if werr := t.csv.Error(); werr != nil {
		return fmt.Errorf("write CSV: %w", werr)
	}
	return err
}

// inert makes text from outside harmless on a terminal and in a CI runner's log, as in a report, and keeps a
// spreadsheet from taking it for a formula: names of backends and lines of output are whatever others made them. A
// formula gets an apostrophe in front, and so does text that begins with one.
// https://owasp.org/www-community/attacks/CSV_Injection
func inert(text string) string {
	text = document.Clean(text)
	if text != "" && strings.ContainsRune("=+-@'", rune(text[0])) {
		return "'" + text
	}
	return text
}
