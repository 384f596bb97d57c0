package correlate

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"lapse/timeline"
)

// BenchmarkScale judges ten minutes of 10 Services, in virtual time, with 10 and then with 1000 ready endpoints
// behind them: at most 100 are probed at a time, as the run chooses them, and every 10 s a Pod of each Service is
// replaced. It is judged once a second. MiB is what the Tracker holds at the end, CPU-s/h what an hour of that takes.
func BenchmarkScale(b *testing.B) {
	for _, endpoints := range []int{10, 1000} {
		b.Run(fmt.Sprint(endpoints), func(b *testing.B) {
			for b.Loop() {
				empty, before := heapInUse(), cpuTime()
				f := newFleet(endpoints)
				for f.second < 600 {
					f.next()
				}
				took := cpuTime() - before
				tl := f.tracker.Timeline()
				b.ReportMetric(float64(heapInUse()-empty)/(1<<20), "MiB")
				b.ReportMetric(took.Seconds()*6, "CPU-s/h")
				b.ReportMetric(float64(len(tl.Targets)), "targets")
			}
		})
	}
}

// cpuTime is what the process has taken of all processors.
func cpuTime() time.Duration {
	var use syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// A fleet is a run of many endpoints.
type fleet struct {
	tracker *Tracker
	random  *rand.Rand
	second  int
	judged  []timeline.Target
	pods    [][]*fleetPod // by Service: those that are there
	made    int
	event   uint32
	probed  []*fleetPod
	turn    int
}

type fleetPod struct {
	service int
	object  timeline.Object
	addr    netip.Addr
	target  timeline.Target // none before it is probed
	seq     uint64
}

const fleetServices = 10

func newFleet(endpoints int) *fleet {
	f := &fleet{tracker: NewTracker(Options{}), random: rand.New(rand.NewPCG(1, 2)),
		pods: make([][]*fleetPod, fleetServices)}
	f.tracker.Add(benchMeta)
	for service := range fleetServices {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			target := timeline.Target{ID: timeline.TargetID(len(f.judged) + 1),
				Name: fmt.Sprintf("web-%d %s", service, kind), Kind: kind, Service: serviceOf(service), Rate: 100,
				Timeout: simTimeout}
			f.judged = append(f.judged, target)
			f.tracker.Add(target)
		}
	}
	for i := range endpoints {
		f.add(i%fleetServices, "listed")
	}
	return f
}

func serviceOf(n int) string { return fmt.Sprintf("shop/web-%d", n) }

func (f *fleet) now() time.Duration { return time.Duration(f.second) * time.Second }

func (f *fleet) tell(p *fleetPod, kind timeline.EventKind, from, to, detail string) {
	f.event++
	e := timeline.Event{ID: f.event, Seen: f.now(), Kind: kind, From: from, To: to, Detail: detail, Object: p.object,
		Addr: p.addr, Writer: "apiserver"}
	if kind == timeline.EndpointChanged {
		e.Service, e.Port = serviceOf(p.service), 8080
	}
	f.tracker.Add(e)
}

func (f *fleet) add(service int, how string) {
	f.made++
	name := fmt.Sprintf("web-%d-%d", service, f.made)
	p := &fleetPod{
		service: service, addr: netip.AddrFrom4([4]byte{10, byte(f.made >> 16), byte(f.made >> 8), byte(f.made)}),
		object: timeline.Object{Kind: "Pod", Namespace: "shop", Name: name, UID: "uid-" + name, Node: "node1"},
	}
	f.pods[service] = append(f.pods[service], p)
	f.tell(p, timeline.PodSeen, "", "Running", how)
	f.tell(p, timeline.PodScheduled, "", "node1", "")
	f.tell(p, timeline.PodContainer, "", "running", "app")
	f.tell(p, timeline.PodReady, "", "true", "")
	f.tell(p, timeline.EndpointChanged, timeline.EndpointAbsent, timeline.EndpointReady, "")
}

func (f *fleet) remove(service int) {
	p := f.pods[service][0]
	f.pods[service] = f.pods[service][1:]
	f.tell(p, timeline.PodDeleted, "", "", "")
	f.tell(p, timeline.EndpointChanged, timeline.EndpointReady, timeline.EndpointTerminating, "")
	f.tell(p, timeline.EndpointChanged, timeline.EndpointTerminating, timeline.EndpointAbsent, "")
	f.tell(p, timeline.PodGone, "", "", "")
}

// next is the next second.
func (f *fleet) next() {
	if f.second%10 == 5 {
		for service := range fleetServices {
			f.add(service, "watched")
			f.remove(service)
		}
	}
	if f.second%30 == 0 || f.second%10 == 5 {
		f.probe()
	}
	batch := timeline.Batch{}
	for i := range f.judged {
		f.send(&batch, f.judged[i], uint64(f.second*100), 100)
	}
	for _, p := range f.probed {
		p.seq += f.send(&batch, p.target, p.seq, max(1, 100*fleetServices/len(f.probed)))
	}
	f.tracker.Add(batch)
	f.second++
	f.tracker.SetEnd(f.now())
	f.tracker.Brief()
}

func (f *fleet) send(b *timeline.Batch, target timeline.Target, seq uint64, n int) uint64 {
	for i := range n {
		due := f.now() + time.Duration(i)*time.Second/time.Duration(n)
		b.Requests = append(b.Requests, f.answered(target, seq+uint64(i), due))
	}
	b.Watermarks = append(b.Watermarks, timeline.Watermark{Target: target.ID, Due: f.now() + time.Second})
	return uint64(n)
}

// answered is a request that was answered, mostly within a millisecond.
func (f *fleet) answered(target timeline.Target, seq uint64, due time.Duration) timeline.Request {
	r := timeline.Request{Target: target.ID, Seq: seq, Due: due, Sent: due + 20*time.Microsecond}
	r.Done = r.Sent + time.Duration(300+f.random.IntN(700)+f.random.IntN(8)/7*f.random.IntN(20_000))*time.Microsecond
	return r
}

// probe chooses which endpoints are probed: of more than 100, each is in turn.
func (f *fleet) probe() {
	var all []*fleetPod
	for _, pods := range f.pods {
		all = append(all, pods...)
	}
	for _, p := range f.probed {
		f.changed(p, "ended")
	}
	f.probed = nil
	for i := range min(100, len(all)) {
		p := all[(f.turn+i)%len(all)]
		if p.target.ID == 0 {
			f.made++
			p.target = timeline.Target{
				ID: timeline.TargetID(1000 + f.made), Name: "direct " + p.object.Name, Kind: timeline.Direct,
				Service: serviceOf(p.service), Rate: 10, Timeout: simTimeout,
				Addr: netip.AddrPortFrom(p.addr, 8080), Pod: "shop/" + p.object.Name, PodUID: p.object.UID,
				PodNode: "node1",
			}
			f.tracker.Add(p.target)
		}
		f.changed(p, "measuring")
		f.probed = append(f.probed, p)
	}
	if len(all) > 100 && f.second%30 == 0 {
		f.turn += 100
	}
}

func (f *fleet) changed(p *fleetPod, to string) {
	f.event++
	f.tracker.Add(timeline.Event{ID: f.event, Seen: f.now(), Kind: timeline.TargetChanged, To: to,
		Object: timeline.Object{Kind: "Target", Name: p.target.Name}})
}

// BenchmarkSources judges ten minutes in virtual time of 100 Services with 1000 ready endpoints as 100 nodes see
// them: 1000 requests per second in all, shared by 20 000 targets, and 10 800 events an hour. It is judged once a
// second. MiB is what the Tracker holds at the end, CPU-s/h what an hour of that takes.
func BenchmarkSources(b *testing.B) {
	for b.Loop() {
		empty, before := heapInUse(), cpuTime()
		f := newWideFleet(100, 100, 1000)
		listed := f.event
		for f.second < 600 {
			f.next()
		}
		took := cpuTime() - before
		tl := f.tracker.Last()
		b.ReportMetric(float64(heapInUse()-empty)/(1<<20), "MiB")
		b.ReportMetric(took.Seconds()*6, "CPU-s/h")
		b.ReportMetric(float64(len(tl.Targets)), "targets")
		b.ReportMetric(float64(f.event-listed)*6, "events/h")
	}
}

// A wideFleet is a run whose Services are measured from many nodes.
type wideFleet struct {
	fleet
	sources int
	rate    int // requests per second in all
	turn    int
}

func newWideFleet(sources, services, endpoints int) *wideFleet {
	f := &wideFleet{fleet: fleet{tracker: NewTracker(Options{}), random: rand.New(rand.NewPCG(1, 2)),
		pods: make([][]*fleetPod, services)}, sources: sources, rate: 1000}
	f.tracker.Add(benchMeta)
	f.tracker.Add(timeline.Source{ID: 1, Name: "coordinator", Role: timeline.Coordinator, T0: benchMeta.T0})
	for source := range sources {
		node := fmt.Sprintf("node%d", source+1)
		f.tracker.Add(timeline.Source{ID: timeline.SourceID(source + 2), Name: node, Role: timeline.Prober, Node: node,
			T0: benchMeta.T0})
		for service := range services {
			for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
				target := timeline.Target{
					ID: timeline.TargetID(len(f.judged) + 1), Name: fmt.Sprintf("web-%d %s from %s", service, kind,
						node), Kind: kind, Source: timeline.SourceID(source + 2),
					Service: serviceOf(service), Rate: float64(f.rate) / float64(2*sources*services),
					Timeout: simTimeout,
				}
				f.judged = append(f.judged, target)
				f.tracker.Add(target)
			}
		}
	}
	for i := range endpoints {
		f.add(i%services, "listed")
	}
	return f
}

// next is the next second. A Pod is replaced every three seconds, which is nine events.
func (f *wideFleet) next() {
	if f.second%3 == 2 {
		f.add(f.second%len(f.pods), "watched")
		f.remove(f.second % len(f.pods))
	}
	if f.second%10 == 0 {
		for source := range f.sources {
			f.tracker.Add(timeline.Sync{Source: timeline.SourceID(source + 2), At: f.now(),
				Min: -200 * time.Microsecond, Max: 200 * time.Microsecond})
		}
	}
	batch := timeline.Batch{}
	for range f.rate {
		target := f.judged[f.turn%len(f.judged)]
		due := f.now() + time.Duration(f.turn%f.rate)*time.Second/time.Duration(f.rate)
		batch.Requests = append(batch.Requests, f.answered(target, uint64(f.turn/len(f.judged)), due))
		f.turn++
	}
	for _, target := range f.judged {
		batch.Watermarks = append(batch.Watermarks, timeline.Watermark{Target: target.ID, Due: f.now() + time.Second})
	}
	f.tracker.Add(batch)
	f.second++
	f.tracker.SetEnd(f.now())
	f.tracker.Brief()
}
