package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"lapse/correlate/model"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"

	"lapse/timeline"
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
		`target,kind,seq,due,sent,done,class,code,backend,peer,reused,delayed,dns,connect,tls,first_byte`,
		`"web, new",new,0,10000000,11000000,15000000,ok,200,"'=cmd|""/c calc""",10.96.0.7:80,false,false,,1500000,,20000`,
		`"web, new",new,1,20000000,20000000,21000000,refused,,,10.96.0.7:80,false,false,,,,`,
		`reused,reused,7,990000000,990000000,1400000000,ok,204,''quoted',,true,true,,,,`,
		`reused,reused,8,1990000000,,,notsent,,,,false,false,,,,`,
	}, "\n") + "\n"
	var got bytes.Buffer
	if err := RequestsCSV(&got, factsRun()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestEveryEventIsARow(t *testing.T) {
	var got bytes.Buffer
	if err := EventsCSV(&got, factsRun()); err != nil {
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
		{"3", "", "3000000000", "command-output", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "'-1 of\n2", "", ""},
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
		"target,connection,change,class,from,answered,at,warned,stopped,backend,peer",
		"held,0,opened,,0,,2000000,,,web-1,10.96.0.7:80",
		"held,1,failed,refused,1000000,,3000000,,,,10.96.0.7:80",
		"held,0,cut,eof,10000000,11000000,20000000,true,false,web-1,10.96.0.7:80",
		"held,0,closed,,30000000,31000000,40000000,,,,10.96.0.7:80",
	}, "\n") + "\n"
	var got bytes.Buffer
	if err := HeldCSV(&got, run); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

// The log is read with HdrHistogram's own reader.
func TestLatenciesAreAHistogramPerTargetAndSecond(t *testing.T) {
	var log bytes.Buffer
	if err := LatencyLog(&log, factsRun()); err != nil {
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
	want := []line{{"web__new", 0, 1000, 1, 5 * ms}, {"reused", 0, 1000, 1, 410 * ms}}
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
	for name, export := range map[string]func(io.Writer, timeline.Run) error{"csv": RequestsCSV, "hlog": LatencyLog} {
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
	for name, export := range map[string]func(io.Writer, timeline.Run) error{"csv": RequestsCSV, "events": EventsCSV, "held": HeldCSV, "hlog": LatencyLog} {
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
	for name, export := range map[string]func(io.Writer, timeline.Run) error{"csv": RequestsCSV, "hlog": LatencyLog} {
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
	for name, export := range map[string]func(io.Writer, timeline.Run) error{"csv": RequestsCSV, "hlog": LatencyLog} {
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
	var e model.Event
	published := reflect.ValueOf(&e).Elem()
	for i := range published.NumField() {
		fill(published.Field(i))
	}
	e.Addr = "10.0.0.7"
	fact := reflect.ValueOf(recorded(e))
	for i := range published.NumField() {
		name := published.Type().Field(i).Name
		field := fact.FieldByName(name)
		if name == "Source" || !field.IsValid() { // a fact has the number of its source; At is judged
			continue
		}
		if field.IsZero() {
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
		if v.Type().Elem() == reflect.TypeFor[time.Time]() {
			v.Elem().Set(reflect.ValueOf(time.Unix(1, 0)))
		} else {
			fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	}
}
