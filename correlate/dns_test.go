package correlate

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A dnsCase is a run of which one DNS server is on record. Instants are in ms; endpoints change, and deletions are
// asked for, within 10 ms.
type dnsCase struct{ events []timeline.Event }

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func (c *dnsCase) add(e timeline.Event) {
	e.ID = uint32(len(c.events) + 1)
	c.events = append(c.events, e)
}

// endpoint changes the state of a Pod's endpoint, whose address is given.
func (c *dnsCase) endpoint(at int, pod, addr, from, to string) {
	c.add(timeline.Event{
		Kind: timeline.EndpointChanged, Since: millis(at - 5), Seen: millis(at + 5), From: from, To: to,
		Service: "shop/canary", PortName: "http", Addr: netip.MustParseAddr(addr), Port: 8080,
		Object: timeline.Object{Kind: "Pod", Namespace: "shop", Name: pod, UID: pod},
	})
}

func (c *dnsCase) comes(at int, pod, addr string) {
	c.endpoint(at, pod, addr, timeline.EndpointNotReady, timeline.EndpointReady)
}

// deleted is asked for at an instant; the endpoint leaves 40 ms later.
func (c *dnsCase) deleted(at int, pod, addr string) {
	c.add(timeline.Event{Kind: timeline.DeletionAsked, Writer: "lapse", Since: millis(at - 5), Seen: millis(at + 5),
		Object: timeline.Object{Kind: "Pod", Namespace: "shop", Name: pod, UID: pod}})
	c.endpoint(at+40, pod, addr, timeline.EndpointReady, timeline.EndpointTerminatingServing)
}

// dns is what the server did from some instant between since and seen on.
func (c *dnsCase) dns(since, seen int, from, to, addrs string) {
	lookup := timeline.Lookup{Name: "canary-twin.shop.svc.cluster.local.", Asked: 25, Answered: 24,
		Shortest: new(millis(1000)), Longest: new(millis(5000))}
	for addr := range strings.FieldsSeq(addrs) {
		lookup.Addrs = append(lookup.Addrs, netip.MustParseAddr(addr))
	}
	c.add(timeline.Event{
		Kind: timeline.NameAnswered, Since: millis(since), Seen: millis(seen), From: from, To: to,
		Service: "shop/canary", Addr: netip.MustParseAddr("10.244.0.2"), Lookup: &lookup,
		Object: timeline.Object{Kind: "Pod", Namespace: "kube-system", Name: "coredns-1", UID: "dns", Node: "node1"},
	})
}

func (c *dnsCase) judge(t *testing.T) *model.DNS {
	t.Helper()
	c.add(timeline.Event{Kind: timeline.RunPhase, Seen: millis(20_000), From: "settling", To: "ended"})
	run := timeline.Run{Meta: timeline.Meta{ID: "dns"},
		Sources: []timeline.Source{{ID: 1, Name: "coordinator", Role: timeline.Coordinator}}, Events: c.events}
	for i := range run.Events {
		run.Events[i].Source = 1
	}
	run.Targets = []timeline.Target{{ID: 1, Source: 1, Name: "new", Kind: timeline.New}}
	run.Batches = func(func(timeline.Batch, error) bool) {}
	tl := analyzed(t, run)
	return tl.DNS
}

const (
	answered   = timeline.LookupAnswered
	unanswered = timeline.LookupUnanswered
	ended      = timeline.LookupEnded

	addr1, addr2, addr3 = "10.0.0.1", "10.0.0.2", "10.0.0.3"
)

// Pod 1 is deleted at 5 s, and Pod 3 comes at 8 s, unless a case says otherwise. Lags are in ms.
func TestDNSLagIsBetweenTheLastAnswerBeforeAndTheFirstAfter(t *testing.T) {
	usual := func(c *dnsCase) {
		c.deleted(5000, "pod1", addr1)
		c.comes(8000, "pod3", addr3)
	}
	for _, test := range []struct {
		name           string
		record         func(c *dnsCase)
		removal, added string // min–max; "open" behind where the end was not seen; "-": unobserved
	}{
		{"it follows", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(6000, 6041, answered, answered, addr2)
			c.dns(9000, 9041, answered, answered, addr2+" "+addr3)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "995–1046", "995–1046"},
		{"it follows both at once, from its cache", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(9000, 9041, answered, answered, addr2+" "+addr3)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "3995–4046", "995–1046"},
		{"it never follows", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "14955–15005 open", "11955–12005 open"},
		{"no answer while it changes", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(4000, 5000, answered, unanswered, "")
			c.dns(4000, 9041, unanswered, answered, addr2+" "+addr3)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "0–4046", "0–1046"},
		{"no answer any more", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(4000, 5000, answered, unanswered, "")
			c.dns(4000, 20_000, unanswered, ended, "")
		}, "-", "-"},
		{"no answer any more after the deletion", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(6000, 7000, answered, unanswered, "")
			c.dns(6000, 20_000, unanswered, ended, "")
		}, "995–15005 open", "-"},
		{"never an answer", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 2000, "", unanswered, "")
			c.dns(1000, 20_000, unanswered, ended, "")
		}, "-", "-"},
		{"the first answer comes late, and has it all", func(c *dnsCase) {
			usual(c)
			c.dns(9000, 9041, "", answered, addr2+" "+addr3)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "-", "0–1046"},
		{"the Pod was in no answer", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 1001, "", answered, addr2)
			c.dns(9000, 9041, answered, answered, addr2+" "+addr3)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "-", "995–1046"},
		{"back and forth: it follows when it does so for good", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(6000, 6041, answered, answered, addr2)
			c.dns(6040, 6081, answered, answered, addr1+" "+addr2)
			c.dns(6520, 6561, answered, answered, addr2)
			c.dns(9000, 9041, answered, answered, addr2+" "+addr3)
			c.dns(9040, 9081, answered, answered, addr2)
			c.dns(9520, 9561, answered, answered, addr2+" "+addr3)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "1515–1566", "1515–1566"},
		{"back, and so it stays", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(6000, 6041, answered, answered, addr2)
			c.dns(6040, 6081, answered, answered, addr1+" "+addr2)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "14955–15005 open", "11955–12005 open"},
		{"its EndpointSlice changed before that of the Service", func(c *dnsCase) {
			usual(c)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(5010, 5041, answered, answered, addr2)
			c.dns(7940, 7980, answered, answered, addr2+" "+addr3)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "5–46", "0–0"},
		{"the new Pod has the address of the old", func(c *dnsCase) {
			c.deleted(5000, "pod1", addr1)
			c.comes(8000, "pod3", addr1)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(6000, 6041, answered, answered, addr2)
			c.dns(9000, 9041, answered, answered, addr1+" "+addr2)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "995–1046", "995–1046"},
		{"the new Pod has the address of the old, and answers have it all along", func(c *dnsCase) {
			c.deleted(5000, "pod1", addr1)
			c.comes(8000, "pod3", addr1)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "2990–15005 open", "-"},
		{"the new Pod has the address of the old, and is in no answer", func(c *dnsCase) {
			c.deleted(5000, "pod1", addr1)
			c.comes(8000, "pod3", addr1)
			c.dns(1000, 1001, "", answered, addr1+" "+addr2)
			c.dns(6000, 6041, answered, answered, addr2)
			c.dns(19_960, 20_000, answered, ended, "")
		}, "995–1046", "11955–12005 open"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c dnsCase
			test.record(&c)
			dns := c.judge(t)
			if len(dns.Servers) != 1 || dns.Name != "canary-twin.shop.svc.cluster.local." || dns.NotAsked != "" {
				t.Fatalf("%+v", dns)
			}
			s := dns.Servers[0]
			if s.Addr != "10.244.0.2" || s.Pod != "kube-system/coredns-1" || s.Node != "node1" || s.Asked != 25 ||
				s.Answered != 24 || *s.TTL != (model.Length{Min: time.Second, Max: 5 * time.Second}) {
				t.Errorf("server %+v", s)
			}
			got := map[model.RouteChange]string{}
			for _, change := range s.Changes {
				got[change.Change] = lagText(change)
				if (change.Asked != nil) != (change.Change == model.Removal) || change.Event == 0 ||
					change.Pod != change.PodUID {
					t.Errorf("%+v", change)
				}
			}
			want := map[model.RouteChange]string{model.Removal: test.removal, model.Addition: test.added}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("lags (-want +got):\n%s", diff)
			}
		})
	}
}

func lagText(c model.DNSChange) string {
	if c.Lag == nil {
		if c.Changed != nil {
			return "no lag, and an instant"
		}
		return "-"
	}
	text := fmt.Sprintf("%d–%d", c.Lag.Min.Milliseconds(), c.Lag.Max.Milliseconds())
	if c.Open {
		text += " open"
	}
	return text
}

// Why no server was asked is said; a run in which none was to be has no word of it.
func TestDNSThatWasNotAsked(t *testing.T) {
	var c dnsCase
	c.deleted(5000, "pod1", addr1)
	if dns := c.judge(t); dns != nil {
		t.Errorf("nobody was asked: %+v", dns)
	}
	c = dnsCase{}
	c.add(timeline.Event{Kind: timeline.NameAnswered, Seen: millis(100), To: timeline.LookupNotAsked,
		Detail: "no right"})
	c.deleted(5000, "pod1", addr1)
	if dns := c.judge(t); dns == nil || dns.NotAsked != "no right" || len(dns.Servers) > 0 {
		t.Errorf("%+v", dns)
	}
}
