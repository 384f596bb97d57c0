package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"lapse/correlate/model"
	"net/netip"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"

	"lapse/correlate"
	"lapse/correlate/cluster"
	"lapse/timeline"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// factsRun is a run with what is hard to export.
func factsRun() timeline.Run {
	requests := []timeline.Request{
		{Target: 1, Seq: 0, Due: 10 * ms, Sent: 11 * ms, Done: 15 * ms, Outcome: timeline.Outcome{Code: 200, Backend: 1, Peer: 3, Phases: timeline.Phases{Connect: 1500, FirstByte: 20}}},
		{Target: 1, Seq: 1, Due: 20 * ms, Sent: 20 * ms, Done: 21 * ms, Outcome: timeline.Outcome{Class: timeline.Refused, Peer: 3}},
		{Target: 2, Seq: 7, Due: 990 * ms, Sent: 990 * ms, Done: 1400 * ms, Outcome: timeline.Outcome{Code: 204, Backend: 2, Reused: true, Delayed: true}},
		{Target: 2, Seq: 8, Due: 1990 * ms, Sent: 1991 * ms, Done: 1991 * ms, Outcome: timeline.Outcome{Class: timeline.NotSent}},
	}
	return timeline.Run{
		Meta:     timeline.Meta{T0: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)},
		Targets:  []timeline.Target{{ID: 1, Name: "web, new", Kind: timeline.New, Timeout: time.Second}, {ID: 2, Name: "reused", Kind: timeline.Reused, Timeout: time.Second}},
		Backends: []timeline.Backend{{ID: 1, Name: `=cmd|"/c calc"`}, {ID: 2, Name: "'quoted'"}},
		Peers:    []timeline.Peer{{ID: 3, Addr: netip.MustParseAddrPort("10.96.0.7:80")}},
		Events: []timeline.Event{
			{ID: 1, Seen: time.Second, Kind: timeline.Command, To: "exited", ExitCode: new(0)},
			{ID: 2, Since: ms, Seen: 2 * time.Second, Kind: timeline.PodDeleted, Object: timeline.Object{Kind: "Pod", Name: "web-1"}, Addr: netip.MustParseAddr("10.0.0.7"), Grace: new(30 * time.Second), Stamp: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), Writer: "apiserver"},
			{ID: 4, Seen: 2 * time.Second, Kind: timeline.EndpointChanged, From: "ready", To: "absent", Object: timeline.Object{Kind: "Pod", Name: "web-1"}, Addr: netip.MustParseAddr("10.0.0.7"), Port: 9090, Service: "shop/web", PortName: "metrics"},
			{ID: 3, Seen: 3 * time.Second, Kind: timeline.CommandOutput, Detail: "-1 of\n2"},
		},
		Batches: func(yield func(timeline.Batch, error) bool) {
			_ = yield(timeline.Batch{Requests: requests[:2]}, nil) && yield(timeline.Batch{Requests: requests[2:]}, nil)
		},
	}
}

func TestEveryRequestIsARow(t *testing.T) {
	want := strings.Join([]string{
		`target,kind,seq,due,sent,done,class,code,backend,peer,reused,delayed,dns,connect,tls,first_byte,clock_error`,
		`"web, new",new,0,10000000,11000000,15000000,ok,200,"'=cmd|""/c calc""",10.96.0.7:80,false,false,,1500000,,20000,`,
		`"web, new",new,1,20000000,20000000,21000000,refused,,,10.96.0.7:80,false,false,,,,,`,
		`reused,reused,7,990000000,990000000,1400000000,ok,204,''quoted',,true,true,,,,,`,
		`reused,reused,8,1990000000,,,notsent,,,,false,false,,,,,`,
	}, "\n") + "\n"
	var got bytes.Buffer
	if err := requestsCSV(&got, factsRun()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

// Probers whose clocks are seconds apart: what is exported is on the run's clock, as it is in timeline.json.
func TestFactsOfSeveralSourcesAreOnTheRunsClock(t *testing.T) {
	run := factsRun()
	run.Backends, run.Peers = nil, nil
	run.Sources = []timeline.Source{{ID: 1, Name: "east", Role: timeline.Prober, Node: "node1"}, {ID: 2, Name: "west", Role: timeline.Prober, Node: "node2"}}
	run.Targets = nil
	var requests []timeline.Request
	for source := timeline.SourceID(1); source <= 2; source++ {
		ahead := -time.Duration(source) * 3 * time.Second // the run's clock is ahead of the source's by so much
		for at := time.Duration(0); at < 4*time.Second; at += time.Second {
			run.Syncs = append(run.Syncs, timeline.Sync{Source: source, At: at - ahead, Min: ahead - 40*time.Microsecond, Max: ahead + 90*time.Microsecond})
		}
		run.Targets = append(run.Targets,
			timeline.Target{ID: timeline.TargetID(source), Source: source, Name: fmt.Sprintf("new %d", source), Kind: timeline.New, Rate: 100, Timeout: time.Second},
			timeline.Target{ID: timeline.TargetID(source) + 10, Source: source, Name: fmt.Sprintf("held %d", source), Kind: timeline.Held, Timeout: time.Second})
		for i := range 300 {
			due := time.Duration(i)*10*ms - ahead
			r := timeline.Request{Target: timeline.TargetID(source), Seq: uint64(i), Due: due, Sent: due + ms, Done: due + 3*ms, Outcome: timeline.Outcome{Code: 200}}
			if i%50 == 7 {
				r.Outcome = timeline.Outcome{Class: timeline.Refused}
			}
			requests = append(requests, r)
		}
		run.Held = append(run.Held, timeline.HeldBatch{Source: source, Changes: []timeline.HeldChange{
			{Target: timeline.TargetID(source) + 10, Kind: timeline.HeldOpened, From: 10*ms - ahead, At: 12*ms - ahead},
			{Target: timeline.TargetID(source) + 10, Kind: timeline.HeldCut, Class: timeline.EOF, From: s - ahead, Answered: s + ms - ahead, At: s + 20*ms - ahead},
		}})
		run.Events = append(run.Events, timeline.Event{ID: uint32(10 + source), Source: source, Kind: timeline.ProberStall, Since: s - ahead, Seen: s + 30*ms - ahead})
	}
	run.Batches = func(yield func(timeline.Batch, error) bool) { yield(timeline.Batch{Requests: requests}, nil) }
	tl, err := correlate.Analyze(run, correlate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows := exported(t, requestsCSV, run, "target", "seq")
	for _, f := range tl.Failures {
		row := rows[fmt.Sprint(f.Target, " ", f.Seq)]
		want := map[string]string{"due": fmt.Sprint(int64(f.Due)), "sent": fmt.Sprint(int64(f.Sent)), "done": fmt.Sprint(int64(f.Done)), "clock_error": fmt.Sprint(int64(f.Error))}
		for column, value := range want {
			if row[column] != value {
				t.Errorf("%s %d: %s is %q in the CSV, %s in timeline.json", f.Target, f.Seq, column, row[column], value)
			}
		}
	}
	if len(tl.Failures) != 12 {
		t.Errorf("%d failures, want 12", len(tl.Failures))
	}
	events := exported(t, eventsCSV, run, "id")
	for _, e := range tl.Events {
		if row := events[fmt.Sprint(e.ID)]; e.Kind == timeline.ProberStall && row["seen"] != fmt.Sprint(int64(e.Seen)) {
			t.Errorf("event %d: seen %s in the CSV, %d in timeline.json", e.ID, row["seen"], e.Seen)
		}
	}
	for key, row := range exported(t, heldCSV, run, "target", "change") {
		for column, want := range map[string]time.Duration{"at": map[string]time.Duration{"opened": 12 * ms, "cut": s + 20*ms}[row["change"]], "from": map[string]time.Duration{"opened": 10 * ms, "cut": s}[row["change"]]} {
			if at, err := strconv.ParseInt(row[column], 10, 64); err != nil || (time.Duration(at)-want).Abs() > 5*ms {
				t.Errorf("held %s: %s is %s, want %d", key, column, row[column], want)
			}
		}
	}
	var log bytes.Buffer
	if err := writeLatencies(&log, run); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "#[clock_error of new_1: 65001 ns]\n") {
		t.Errorf("the log does not say how far its clock may be off:\n%.400s", log.String())
	}
	for line := range strings.Lines(log.String()) {
		if strings.HasPrefix(line, "Tag=") && !strings.Contains(line, ",0.") && !strings.Contains(line, ",1.") && !strings.Contains(line, ",2.") {
			t.Errorf("a latency of another second than 0, 1 or 2: %s", line)
		}
	}
}

// exported returns the rows that export writes, by the values of some columns.
func exported(t *testing.T, export func(io.Writer, timeline.Run) error, run timeline.Run, by ...string) map[string]map[string]string {
	t.Helper()
	var out bytes.Buffer
	if err := export(&out, run); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]map[string]string{}
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, column := range records[0] {
			row[column] = record[i]
		}
		var key []string
		for _, column := range by {
			key = append(key, row[column])
		}
		rows[strings.Join(key, " ")] = row
	}
	return rows
}

func TestEveryEventIsARow(t *testing.T) {
	var got bytes.Buffer
	if err := eventsCSV(&got, factsRun()); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&got).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		eventColumns,
		{"1", "", "1000000000", "command", "", "exited", "", "", "", "", "", "", "", "", "", "0", "", "", "", "", "", ""},
		{"2", "1000000", "2000000000", "pod-deleted", "", "", "Pod", "", "web-1", "", "", "10.0.0.7", "", "", "", "", "30000000000", "", "", "", "2026-01-02T03:04:06Z", "apiserver"},
		{"4", "", "2000000000", "endpoint", "ready", "absent", "Pod", "", "web-1", "", "", "10.0.0.7", "shop/web", "metrics", "9090", "", "", "", "", "", "", ""},
		{"3", "", "3000000000", "command-output", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "'-1 of 2", "", ""},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
}

func TestEveryChangeOfAHeldConnectionIsARow(t *testing.T) {
	run := factsRun()
	run.Targets = append(run.Targets, timeline.Target{ID: 3, Name: "held", Kind: timeline.Held, Source: 1})
	run.Backends = append(run.Backends, timeline.Backend{Source: 1, ID: 1, Name: "web-1"})
	run.Peers = append(run.Peers, timeline.Peer{Source: 1, ID: 2, Addr: netip.MustParseAddrPort("10.96.0.7:80")})
	run.Held = []timeline.HeldBatch{
		{Source: 1, Changes: []timeline.HeldChange{
			{Target: 3, Conn: 0, Kind: timeline.HeldOpened, From: 0, At: 2 * ms, Backend: 1, Peer: 2},
			{Target: 3, Conn: 1, Kind: timeline.HeldFailed, Class: timeline.Refused, From: ms, At: 3 * ms, Peer: 2},
		}},
		{Source: 1, FirstSeq: 2, Changes: []timeline.HeldChange{
			{Target: 3, Conn: 0, Kind: timeline.HeldCut, Class: timeline.EOF, From: 10 * ms, Answered: 11 * ms, At: 20 * ms, Warned: true, Backend: 1, Peer: 2},
			{Target: 3, Conn: 0, Kind: timeline.HeldClosed, From: 30 * ms, Answered: 31 * ms, At: 40 * ms, Peer: 2},
		}},
	}
	want := strings.Join([]string{
		"target,connection,change,class,from,answered,at,warned,stopped,backend,peer,clock_error",
		"held,0,opened,,0,,2000000,,,web-1,10.96.0.7:80,",
		"held,1,failed,refused,1000000,,3000000,,,,10.96.0.7:80,",
		"held,0,cut,eof,10000000,11000000,20000000,true,false,web-1,10.96.0.7:80,",
		"held,0,closed,,30000000,31000000,40000000,,,,10.96.0.7:80,",
	}, "\n") + "\n"
	var got bytes.Buffer
	if err := heldCSV(&got, run); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

// The log is read with HdrHistogram's own reader.
func TestLatenciesAreAHistogramPerTargetAndSecond(t *testing.T) {
	var log bytes.Buffer
	run := factsRun()
	facts := run.Batches
	run.Batches = func(yield func(timeline.Batch, error) bool) {
		facts(yield)
		q := timeline.Request{Target: 2, Seq: 99, Due: 1200 * ms, Sent: 1200 * ms, Done: 1203 * ms, Outcome: timeline.Outcome{Code: 204, Reused: true}}
		yield(timeline.Batch{Source: 1, Requests: []timeline.Request{q}}, nil)
	}
	if err := writeLatencies(&log, run); err != nil {
		t.Fatal(err)
	}
	type line struct {
		Tag        string
		Start, End int64 // ms after t0
		N          int64
		P50        time.Duration
	}
	var got []line
	reader := hdrhistogram.NewHistogramLogReader(&log)
	t0 := factsRun().Meta.T0.UnixMilli()
	for {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		got = append(got, line{h.Tag(), h.StartTimeMs() - t0, h.EndTimeMs() - t0, h.TotalCount(), time.Duration(h.ValueAtQuantile(50)).Round(ms)})
	}
	// how long the answer on reused took in the first second is not known: it was delayed
	want := []line{{"web__new", 0, 1000, 1, 5 * ms}, {"reused", 1000, 2000, 1, 3 * ms}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestARecordThatBreaksOffIsExportedUpToThere(t *testing.T) {
	broken := errors.New("damaged")
	run := factsRun()
	whole := run.Batches
	run.Batches = func(yield func(timeline.Batch, error) bool) {
		whole(yield)
		yield(timeline.Batch{}, broken)
	}
	for name, export := range map[string]func(io.Writer, timeline.Run) error{"csv": requestsCSV, "hlog": writeLatencies} {
		var out, want bytes.Buffer
		if err := export(&out, run); !errors.Is(err, broken) {
			t.Errorf("%s: error %v", name, err)
		}
		if err := export(&want, factsRun()); err != nil || out.String() != want.String() {
			t.Errorf("%s: what lay before the damage is missing: %q", name, out.String())
		}
	}
}

func TestAnExportThatCannotBeWrittenIsAnError(t *testing.T) {
	for name, export := range map[string]func(io.Writer, timeline.Run) error{"csv": requestsCSV, "events": eventsCSV, "held": heldCSV, "hlog": writeLatencies} {
		if err := export(full{}, factsRun()); !errors.Is(err, errFull) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// longRun is a run of so many seconds with 1000 requests in each.
func longRun(seconds int) timeline.Run {
	run := factsRun()
	run.Batches = func(yield func(timeline.Batch, error) bool) {
		requests := make([]timeline.Request, 1000)
		for s := range seconds {
			for i := range requests {
				due := time.Duration(s)*time.Second + time.Duration(i)*ms
				requests[i] = timeline.Request{Target: timeline.TargetID(1 + i%2), Seq: uint64(s*1000 + i), Due: due, Sent: due, Done: due + time.Duration(100+i)*time.Microsecond}
			}
			if !yield(timeline.Batch{Requests: requests}, nil) {
				return
			}
		}
	}
	return run
}

// A peak notes the most memory that was in use at any write.
type peak struct{ most uint64 }

func (p *peak) Write(b []byte) (int, error) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.most = max(p.most, m.HeapAlloc)
	return len(b), nil
}

func TestMemoryOfAnExportDoesNotGrowWithTheRun(t *testing.T) {
	for name, export := range map[string]func(io.Writer, timeline.Run) error{"csv": requestsCSV, "hlog": writeLatencies} {
		var use [2]uint64
		for i, seconds := range []int{10, 300} {
			var p peak
			if err := export(&every{w: &p, n: 50}, longRun(seconds)); err != nil {
				t.Fatal(err)
			}
			use[i] = p.most
		}
		if use[1] > use[0]+512<<10 {
			t.Errorf("%s: %d KiB in use for 10 s, %d KiB for 300 s", name, use[0]>>10, use[1]>>10)
		}
	}
}

// every passes on each nth write.
type every struct {
	w io.Writer
	n int
	i int
}

func (e *every) Write(b []byte) (int, error) {
	if e.i++; e.i%e.n == 1 {
		return e.w.Write(b)
	}
	return len(b), nil
}

func BenchmarkExport(b *testing.B) {
	for name, export := range map[string]func(io.Writer, timeline.Run) error{"csv": requestsCSV, "hlog": writeLatencies} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := export(io.Discard, longRun(100)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100_000, "ns/request")
		})
	}
}

// Facts that are read back from a timeline.json have all that their published events have.
func TestFactsOfATimelineHaveAllThatItsEventsHave(t *testing.T) {
	var e timeline.Event
	fill(reflect.ValueOf(&e).Elem())
	e.Addr, e.Stamp = netip.MustParseAddr("10.0.0.7"), time.Unix(1, 0)
	text, err := json.Marshal(model.Timeline{Events: cluster.Place(time.Time{}, []timeline.Event{e})})
	if err != nil {
		t.Fatal(err)
	}
	var read model.Timeline
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	fact := reflect.ValueOf(Facts(&read).Events[0])
	for i := range fact.NumField() {
		name := fact.Type().Field(i).Name
		if name != "Source" && name != "Since" && fact.Field(i).IsZero() {
			t.Errorf("%s is lost", name)
		}
	}
}

// fill makes a value another than its zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	}
}
