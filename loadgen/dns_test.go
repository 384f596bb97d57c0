package loadgen

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"lapse/internal/layer"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

func TestDNSAnswersAreJudged(t *testing.T) {
	t.Parallel()
	code := func(code dnsmessage.RCode) func(*dnsmessage.Message) {
		return func(m *dnsmessage.Message) { m.RCode = code }
	}
	tests := []struct {
		name    string
		query   string // of the URL
		change  func(*dnsmessage.Message)
		want    timeline.Class
		backend string
		text    string // of the error
	}{
		{"addresses, in any order", "", loadtest.Having("10.0.0.9", "10.0.0.10", "10.0.0.9"), timeline.OK, "10.0.0.9, 10.0.0.10", ""},
		{"addresses of the other family", "?type=AAAA", loadtest.Having("fd00::2", "10.0.0.1", "fd00::1"), timeline.OK, "fd00::1, fd00::2", ""},
		{"where a CNAME leads", "?type=a", func(m *dnsmessage.Message) {
			there := dnsmessage.MustNewName("there.example.")
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.CNAMEResource{CNAME: there}})
			loadtest.Having("192.0.2.7")(m)
			m.Answers[1].Header.Name = there
		}, timeline.OK, "192.0.2.7", ""},
		{"services", "?type=SRV", func(m *dnsmessage.Message) {
			for _, port := range []uint16{81, 80} {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.SRVResource{Weight: 50, Port: port, Target: dnsmessage.MustNewName("web-0.web.")}})
			}
		}, timeline.OK, "0 50 80 web-0.web., 0 50 81 web-0.web.", ""},
		{"more than a name has room for", "", loadtest.Having(loadtest.Addresses(60)...), timeline.OK, "60 records, checksum ", ""},
		{"a name in other letters", "", func(m *dnsmessage.Message) {
			loadtest.Having("10.0.0.1")(m)
			m.Questions[0].Name = dnsmessage.MustNewName("WEB.Shop.")
		}, timeline.OK, "10.0.0.1", ""},
		{"no such name", "", code(dnsmessage.RCodeNameError), timeline.DNS, "NXDOMAIN", "lookup web.shop: NXDOMAIN"},
		{"no record", "", loadtest.Having(), timeline.DNS, "no record of type A", "no record of type A"},
		{"no record of that type", "", loadtest.Having("fd00::1"), timeline.DNS, "no record of type A", "no record of type A"},
		{"a failing server", "", code(dnsmessage.RCodeServerFailure), timeline.DNS, "", "SERVFAIL"},
		{"a server that will not", "", code(dnsmessage.RCodeRefused), timeline.DNS, "", "REFUSED"},
		{"a server that cannot read", "", func(m *dnsmessage.Message) { m.Questions, m.RCode = nil, dnsmessage.RCodeFormatError }, timeline.DNS, "", "FORMERR"},
		{"another code", "", code(9), timeline.DNS, "", "response code 9"},
		{"cut off", "", func(m *dnsmessage.Message) { loadtest.Having("10.0.0.1")(m); m.Truncated = true }, timeline.Body, "", "cut off (TC)"},
		{"longer than what is read", "", loadtest.Having(loadtest.Addresses(300)...), timeline.Body, "", "4094 bytes or more"},
		{"another ID", "", func(m *dnsmessage.Message) { loadtest.Having("10.0.0.1")(m); m.ID++ }, timeline.Body, "", "another ID"},
		{"another name", "", func(m *dnsmessage.Message) {
			m.Questions[0].Name = dnsmessage.MustNewName("web.blog.")
			loadtest.Having("10.0.0.1")(m)
		}, timeline.Body, "", "another question"},
		{"another type", "", func(m *dnsmessage.Message) { m.Questions[0].Type = dnsmessage.TypeTXT; loadtest.Having("10.0.0.1")(m) }, timeline.Body, "", "another question"},
		{"no answer but a query", "", func(m *dnsmessage.Message) { m.Response = false }, timeline.Body, "", "another ID"},
	}
	for _, test := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Direct, timeline.Reused} {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				s := loadtest.ServeUDP(t, func(query string, reply func(string)) { reply(loadtest.AnswerTo(t, query, test.change)) })
				p := probe(1, kind, "dns://"+s.Addr().String()+"/web.shop"+test.query, 100)
				p.Addr, p.Timeout = s.Addr(), 10*time.Second
				f := runUntil(t, "5 observed requests", func(f *facts) bool { return f.observed(1) >= 5 }, p)
				for _, r := range f.of(1) {
					if r.Class.Observed() && (r.Class != test.want || r.Code != 0 ||
						!strings.HasPrefix(f.backends[r.Backend], test.backend) || test.backend == "" &&
						r.Backend != 0) {
						t.Errorf("%v %d of %q, want %v of %q", r.Class, r.Code, f.backends[r.Backend], test.want,
							test.backend)
					}
				}
				if texts := f.blames(p.Name); test.text != "" && !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, test.text) }) {
					t.Errorf("errors %q, want one with %q", texts, test.text)
				}
			})
		}
	}
}

func TestDNSServerThatIsSilentOrNotThere(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for want, answer := range map[timeline.Class]func(string, func(string)){
		timeline.TimeoutResponse: func(string, func(string)) {},
		timeline.Body:            func(_ string, reply func(string)) { reply("HTTP/1.1 400 Bad Request\r\n") },
		timeline.Refused:         nil,
	} {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			t.Run(fmt.Sprint(want, kind), func(t *testing.T) {
				t.Parallel()
				s := loadtest.ServeUDP(t, answer)
				if answer == nil {
					s.Close()
				}
				p := probe(1, kind, "dns://"+s.Addr().String()+"/web.shop", 100)
				if p.Timeout = 10 * time.Second; want.Timeout() {
					p.Timeout = 100 * time.Millisecond
				}
				f := runUntil(t, "10 observed requests", func(f *facts) bool { return f.observed(1) >= 10 }, p)
				for _, r := range f.of(1) {
					// no_slot: after a standstill many wait at once
					if r.Class.Observed() && r.Class != want && (r.Class != timeline.NoSlot || !want.Timeout()) {
						t.Errorf("%v, want %v: %q", r.Class, want, f.blames(p.Name))
					}
				}
			})
		}
	}
}

// Each query has an ID of its own, and asks for the name and nothing else, and says how long an answer may be.
func TestDNSQueries(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var mu sync.Mutex
	ids := map[uint16]int{}
	s := loadtest.ServeUDP(t, func(query string, reply func(string)) {
		var m dnsmessage.Message
		if err := m.Unpack([]byte(query)); err != nil || len(m.Questions) != 1 ||
			m.Questions[0].Name.String() != "_http._tcp.web.shop." || m.Questions[0].Type != dnsmessage.TypeSRV ||
			!m.RecursionDesired || m.Response || len(m.Additionals) != 1 || m.Additionals[0].Header.Class != dnsPayload {
			t.Errorf("%v: %v", m.GoString(), err)
		}
		mu.Lock()
		ids[m.ID]++
		mu.Unlock()
		reply(loadtest.AnswerTo(t, query, loadtest.Having()))
	})
	p := probe(1, timeline.Reused, "dns://"+s.Addr().String()+"/_http._tcp.web.shop.?type=srv", 500)
	f := runUntil(t, "100 observed requests", func(f *facts) bool { return f.observed(1) >= 100 }, p)
	s.End()
	if n := len(f.of(1)) - classes(f.of(1))[timeline.NotSent]; len(ids) < n-3 { // 1 in 650 is given twice by chance
		t.Errorf("%d IDs in %d queries", len(ids), n)
	}
}

// When the answers change, that is an event, with a bracket for when.
func TestDNSAnswersThatChangeAreEvents(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var now atomic.Pointer[func(*dnsmessage.Message)]
	set := func(change func(*dnsmessage.Message)) { now.Store(&change) }
	set(loadtest.Having("10.0.0.1", "10.0.0.2"))
	s := loadtest.ServeUDP(t, func(query string, reply func(string)) { reply(loadtest.AnswerTo(t, query, *now.Load())) })
	clock := timeline.StartClock()
	p := probe(1, timeline.Reused, "dns://"+s.Addr().String()+"/web.shop", 200)
	// one query at a time: the server answers them in the order in which they are sent
	p.Timeout, p.Connections, p.MaxConnections = 10*time.Second, 1, 1
	var changed [4]time.Duration
	f := run(t, clock, func(_ *Prober, f *facts) {
		next := func(i int, change func(*dnsmessage.Message)) {
			t.Helper()
			loadtest.WaitFor(t, "the answer before this one", func() bool { return f.changesOf(p.Name) >= i })
			changed[i] = clock.Now()
			set(change)
		}
		next(1, loadtest.Having("10.0.0.2"))
		next(2, func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeNameError })
		next(3, loadtest.Having("10.0.0.2", "10.0.0.3"))
		loadtest.WaitFor(t, "4 answers", func() bool { return f.changesOf(p.Name) >= 4 })
		set(loadtest.Having("10.0.0.3", "10.0.0.2")) // the same
		n := f.ended(1, timeline.OK)
		loadtest.WaitFor(t, "10 more answers", func() bool { return f.ended(1, timeline.OK) >= n+10 })
	}, p)
	want := []string{"10.0.0.1 10.0.0.2", "10.0.0.2", "NXDOMAIN", "10.0.0.2 10.0.0.3"}
	if len(f.names) != len(want) {
		t.Fatalf("%+v", f.names)
	}
	for i, e := range f.names {
		got := strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Lookup.Addrs), ",", ""), "[]") + e.Detail
		if got != want[i] || e.To != timeline.LookupAnswered || (e.From == "") != (i == 0) ||
			e.Lookup.Name != "web.shop." || e.Lookup.Answered == 0 {
			t.Errorf("%d: %+v %+v, want %s", i, e, e.Lookup, want[i])
		}
		if i > 0 && (e.Since > changed[i] || e.Seen < changed[i]) {
			t.Errorf("%s: between %v and %v, but it changed at %v", got, e.Since, e.Seen, changed[i])
		}
	}
}
