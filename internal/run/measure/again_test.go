package measure

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lapse/correlate/model"
	"lapse/internal/record"
	"lapse/internal/run/flight"
	"lapse/internal/run/live"
	"lapse/internal/run/signs"
	"lapse/timeline"
)

// An againRun waits for one sign after the other, and keeps its runs.
type againRun struct {
	*armedRun
	runs  []*model.Timeline
	files []string
}

// newAgainRun returns one that was started after some changes, and stops it at the end of the test.
func newAgainRun(t *testing.T, failed func(due time.Duration) bool, change ...func(*againRun)) *againRun {
	r := &againRun{armedRun: newArmedRun(t)}
	r.failed = failed
	r.Timeout = time.Second
	r.Armed.Begin = func(meta *timeline.Meta) *live.Run {
		meta.ID = fmt.Sprintf("run-%d", len(r.files)+1)
		file := filepath.Join(r.dir, meta.ID)
		rec, err := record.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		r.files = append(r.files, file)
		r.Rec = &live.Recording{Writer: rec, Every: time.Second, Log: r.Log}
		return live.New(nil, r.Rec)
	}
	r.Armed.Ended = func(tl *model.Timeline) {
		if err := r.Rec.Flush(); err != nil {
			t.Errorf("the loop has waited until the recording of %s was on disk: %v", tl.Run.ID, err)
		}
		r.Rec.End()
		r.runs = append(r.runs, tl)
	}
	r.each(r.send())
	for _, do := range change {
		do(r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		r.Phase = timeline.PhaseStarting
		r.enter(timeline.PhaseBaseline, "")
		r.ended <- r.Phases(ctx, nil)
	}()
	t.Cleanup(func() { r.Prober.Close() })
	r.at(2*time.Second, endpointOf(web1, "", timeline.EndpointReady))
	t.Cleanup(cancel)
	return r
}

// closing waits until a run awaits its last responses, and returns when it ends.
func (r *againRun) closing() (end time.Duration) {
	for {
		if r.ask(func() { end = r.closes }); end > 0 {
			return end
		}
		time.Sleep(10 * time.Millisecond) // of virtual time
	}
}

// answersLate makes the last responses of a run come after its end.
func answersLate(r *againRun) { r.takes = 900 * time.Millisecond }

// sent returns the numbers of the requests of a run, and how many of them failed.
func (r *againRun) sent(i int) (seqs map[uint64]int, failed int) { return r.sentBy(1, i) }

// sentBy returns those of one source.
func (r *againRun) sentBy(source timeline.SourceID, i int) (seqs map[uint64]int, failed int) {
	r.t.Helper()
	file, err := record.Open(r.files[i])
	if err != nil {
		r.t.Fatal(err)
	}
	defer file.Close()
	run, err := file.Run()
	if err != nil {
		r.t.Fatal(err)
	}
	seqs = map[uint64]int{}
	next := uint64(0)
	for b, err := range run.Batches {
		if err != nil {
			r.t.Fatal(err)
		}
		if b.Source != source {
			continue
		}
		if b.FirstSeq != next {
			r.t.Errorf("run %d: a batch begins with request %d, not %d", i+1, b.FirstSeq, next)
		}
		next += uint64(len(b.Requests))
		for _, q := range b.Requests {
			if seqs[q.Seq]++; q.Class.Failed() {
				failed++
			}
		}
	}
	return seqs, failed
}

// One process measures one disruption after the other. A run that begins soon after another begins where that ended:
// each request belongs to one run at most, and none between the two is lost.
func TestADisruptionAfterTheOtherIsARunEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, second, third = time.Hour, time.Hour + 40*time.Second, 3 * time.Hour
		made := 0 // failures
		r := newAgainRun(t, func(due time.Duration) (fails bool) {
			defer func() {
				if fails {
					made++
				}
			}()
			return due >= first && due < first+2*time.Second || due >= second && due < second+time.Second || due >= third && due < third+time.Second
		}, answersLate)
		time.Sleep(4*time.Hour - r.Clock.Now()) // of virtual time
		synctest.Wait()
		if len(r.runs) != 3 || r.Phase != timeline.PhaseArmed || r.Targets[1].Rate != 5 {
			t.Fatalf("%d runs, now %s at %v/s", len(r.runs), r.Phase, r.Targets[1].Rate)
		}
		for i, want := range []struct{ least, most time.Duration }{
			{flight.Span + 11*time.Second, flight.Span + 14*time.Second},
			{37 * time.Second, 41 * time.Second}, // 28 s of waiting, 1 s of failures, 10 s of quiet
			{flight.Span + 10*time.Second, flight.Span + 13*time.Second},
		} {
			tl := r.runs[i]
			seqs, failed := r.sent(i)
			if tl.Run.ID != fmt.Sprintf("run-%d", i+1) || tl.Run.Aborted != "" || len(tl.Windows) != 1 || tl.Verdict.Failed != failed || failed == 0 {
				t.Errorf("run %d is %s, aborted %q, %d windows, %d of %d failures", i+1, tl.Run.ID, tl.Run.Aborted, len(tl.Windows), tl.Verdict.Failed, failed)
			}
			if tl.Run.Duration < want.least || tl.Run.Duration > want.most {
				t.Errorf("run %d took %v", i+1, tl.Run.Duration)
			}
			if target := tl.Targets[0]; target.Coverage != 1 || target.Rate != 100 || target.Sent != len(seqs) {
				t.Errorf("run %d: %d of %d requests, coverage %v at %v/s", i+1, target.Sent, len(seqs), target.Coverage, target.Rate)
			}
			if len(tl.Services) != 1 || tl.Services[0].Endpoints[0].Ready != 1 {
				t.Errorf("run %d: the endpoints where it begins: %+v", i+1, tl.Services)
			}
		}
		one, failedOnce := r.sent(0)
		two, failedTwice := r.sent(1)
		last := uint64(0)
		for seq := range one {
			last = max(last, seq)
			if two[seq] > 0 {
				t.Fatalf("request %d belongs to two runs", seq)
			}
		}
		if two[last+1] != 1 {
			t.Errorf("request %d follows the first run, and belongs to none", last+1)
		}
		if _, failed := r.sent(2); failedOnce+failedTwice+failed != made || failedOnce < 50 || failedTwice == 0 {
			t.Errorf("%d, %d and %d of %d failures", failedOnce, failedTwice, failed, made)
		}
		if begins := r.runs[1].T0.Sub(r.runs[0].T0); begins != r.runs[0].Run.Duration {
			t.Errorf("the second run begins %v after the first, which took %v", begins, r.runs[0].Run.Duration)
		}
	})
}

// Each request of a prober belongs to one run at most, and none between two runs is lost, though its clock is not the
// loop's, is known only within an error, and comes to be known better. A prober that joins while a run closes is none of
// that run's.
func TestEachRequestOfAProberBelongsToOneRun(t *testing.T) {
	const first, second = time.Hour, time.Hour + 40*time.Second
	for name, ahead := range map[string]time.Duration{"ahead": 5 * time.Hour, "behind": -time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fails := func(due time.Duration) bool {
					return due >= first && due < first+2*time.Second || due >= second && due < second+time.Second
				}
				r := newAgainRun(t, fails, answersLate, func(r *againRun) {
					const here = 2 * time.Minute // when it joins
					joins := func(id timeline.SourceID, now time.Duration) func(time.Duration) {
						name := fmt.Sprintf("new from node%d", id)
						r.Add(timeline.Source{ID: id, Name: name, Role: timeline.Prober, T0: r.Clock.T0().Add(-ahead)})
						r.Add(timeline.Sync{Source: id, At: now + ahead, Min: -ahead - 300*time.Millisecond, Max: -ahead + 100*time.Millisecond})
						r.Register(timeline.Target{ID: timeline.TargetID(id), Source: id, Name: name, Kind: timeline.New, Rate: 20})
						r.Queue.Put(timeline.Event{Source: id, Kind: timeline.TargetChanged, Seen: now + ahead, To: "measuring",
							Object: timeline.Object{Kind: "Target", Name: name}})
						return r.sendAs(id, now, ahead)
					}
					var send, sendToo func(time.Duration)
					r.each(func(now time.Duration) {
						switch {
						case now < here:
							return
						case send == nil:
							send = joins(2, now)
						case r.closes > 0: // the clock comes to be known better
							r.Queue.Put(timeline.Sync{Source: 2, At: now + ahead, Min: -ahead - time.Millisecond, Max: -ahead})
							if sendToo == nil {
								sendToo = joins(3, now)
							}
						}
						if send(now); sendToo != nil {
							sendToo(now)
						}
					})
				})
				time.Sleep(2*time.Hour - r.Clock.Now()) // of virtual time
				synctest.Wait()
				if len(r.runs) != 2 {
					t.Fatalf("%d runs", len(r.runs))
				}
				one, failedOnce := r.sentBy(2, 0)
				two, failedTwice := r.sentBy(2, 1)
				last := uint64(0)
				for seq := range one {
					if last = max(last, seq); two[seq] > 0 {
						t.Fatalf("request %d belongs to two runs", seq)
					}
				}
				if len(one) < 20*100 || two[last+1] != 1 || failedOnce != 40 || failedTwice != 20 {
					t.Errorf("%d requests and %d failures, then from number %d on (%d) %d and %d", len(one), failedOnce, last+1, two[last+1], len(two), failedTwice)
				}
				if three, _ := r.sentBy(3, 1); len(three) == 0 {
					t.Error("the second run has nothing of the prober that joined before it")
				}
				for i, want := range []int{2, 3} {
					if n := len(r.runs[i].Sources); n != want {
						t.Errorf("run %d has %d sources, not %d", i+1, n, want)
					}
				}
			})
		})
	}
}

// A run waits for what a prober has measured that cannot be reached while it closes, but not for ever.
func TestARunWaitsForAProberThatIsNotHeardOf(t *testing.T) {
	const sign = time.Hour
	for name, tt := range map[string]struct {
		silent  time.Duration // from before the end of the run until after it
		all     bool          // the run has all that was measured
		closing time.Duration
	}{
		"for a while": {12 * time.Second, true, 12 * time.Second},
		"for long":    {time.Minute, false, mostUntold},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var began, ended time.Duration // closing
				var send func(time.Duration)
				r := newAgainRun(t, func(time.Duration) bool { return false }, func(r *againRun) {
					keep := r.Armed.Ended
					r.Armed.Ended = func(tl *model.Timeline) { ended = r.Clock.Now(); keep(tl) }
					r.each(func(now time.Duration) {
						if r.closes > 0 && began == 0 {
							began = now
						}
						switch {
						case send == nil:
							r.Add(timeline.Source{ID: 2, Name: "node2", Role: timeline.Prober, T0: r.Clock.T0()})
							r.Add(timeline.Sync{Source: 2, At: now, Min: -time.Millisecond, Max: time.Millisecond})
							r.Register(timeline.Target{ID: 2, Source: 2, Name: "new from node2", Kind: timeline.New, Rate: 20})
							send = r.sendAs(2, now, 0)
						case now < sign+5*time.Second || began > 0 && now >= began+tt.silent:
							send(now)
						}
					})
				})
				r.at(sign, endpointOf(web1, timeline.EndpointReady, timeline.EndpointNotReady))
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if len(r.runs) != 1 {
					t.Fatalf("%d runs", len(r.runs))
				}
				tl := r.runs[0]
				if took := ended - began; took < tt.closing-live.Refresh || took > tt.closing+2*live.Refresh {
					t.Errorf("the run was awaited for %v", took)
				}
				seqs, _ := r.sentBy(2, 0)
				if want := int(20 * tl.Run.Duration.Seconds()); (len(seqs) >= want) != tt.all || (tl.Targets[1].Coverage == 1) != tt.all {
					t.Errorf("%d of %d requests, coverage %v", len(seqs), want, tl.Targets[1].Coverage)
				}
			})
		})
	}
}

// A drained node that is rebooted takes its prober with it. The run goes on until the API tells that the node is not
// ready, so that it knows why nothing came from there; but not for ever.
func TestARunWaitsForADrainedNodeToGoDown(t *testing.T) {
	const sign = time.Hour
	cordon := timeline.Event{Kind: timeline.NodeSchedulable, From: "true", To: "false"}
	taint := timeline.Event{Kind: timeline.NodeTaint, From: "absent", To: "present", Detail: "karpenter.sh/disrupted:NoSchedule"}
	untaint := timeline.Event{Kind: timeline.NodeTaint, From: "present", To: "absent", Detail: taint.Detail}
	other := timeline.Event{Kind: timeline.NodeTaint, From: "absent", To: "present", Detail: "gpu:NoSchedule"}
	for name, tt := range map[string]struct {
		marks       []timeline.Event
		downAfter   time.Duration // since its prober was heard of last; 0: never
		least, most time.Duration // from there to the end of the run
		known       bool          // why nothing came from there
	}{
		"cordoned":                        {[]timeline.Event{cordon}, 55 * time.Second, 55 * time.Second, 57 * time.Second, true},
		"cordoned and up":                 {[]timeline.Event{cordon}, 0, mostLeaving - time.Second, mostLeaving + 2*time.Second, false},
		"tainted by Karpenter":            {[]timeline.Event{taint}, 55 * time.Second, 55 * time.Second, 57 * time.Second, true},
		"tainted for something else":      {[]timeline.Event{other}, 55 * time.Second, 5 * time.Second, 8 * time.Second, false},
		"tainted, and no longer":          {[]timeline.Event{taint, untaint}, 55 * time.Second, 5 * time.Second, 8 * time.Second, false},
		"nothing says that it is drained": {nil, 55 * time.Second, 5 * time.Second, 8 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node2 := timeline.Object{Kind: "Node", Name: "node2", UID: "n2", Node: "node2"}
				const silent = sign + 5*time.Second
				var closes time.Duration
				var send func(time.Duration)
				r := newAgainRun(t, func(time.Duration) bool { return false }, func(r *againRun) {
					r.each(func(now time.Duration) {
						if r.closes > 0 {
							closes = r.closes
						}
						if send == nil {
							r.Add(timeline.Source{ID: 2, Name: "node2", Node: "node2", Role: timeline.Prober, T0: r.Clock.T0()})
							r.Register(timeline.Target{ID: 2, Source: 2, Name: "new from node2", Kind: timeline.New, Rate: 20, URL: r.Targets[1].URL})
							send = r.sendAs(2, now, 0)
						}
						if now < silent {
							send(now)
						}
					})
				})
				r.at(time.Minute, timeline.Event{Kind: timeline.NodeReady, To: "true", Object: node2})
				r.at(sign, endpointOf(web1, timeline.EndpointReady, timeline.EndpointNotReady))
				for _, mark := range tt.marks {
					mark.Object = node2
					r.at(sign+time.Second, mark)
				}
				if tt.downAfter > 0 {
					r.at(silent+tt.downAfter, timeline.Event{Kind: timeline.NodeReady, From: "true", To: "unknown", Object: node2})
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if len(r.runs) != 1 {
					t.Fatalf("%d runs", len(r.runs))
				}
				if took := closes - silent; took < tt.least || took > tt.most {
					t.Errorf("the run ended %v after the prober was heard of last", took)
				}
				nodes := r.runs[0].Verdict.Nodes
				i := slices.IndexFunc(nodes, func(n model.NodeCoverage) bool { return n.Node == "node2" })
				if i < 0 || (nodes[i].Coverage == 1) != tt.known {
					t.Errorf("%+v", nodes)
				}
			})
		})
	}
}

// Who follows a loop gets each request once, whether it belongs to a run or to none, and each sign.
func TestEachRequestIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, named := map[uint64]int{}, map[string]bool{}
		r := newAgainRun(t, func(due time.Duration) bool { return due >= time.Hour && due < time.Hour+time.Second }, func(r *againRun) {
			r.Armed.Fact = func(f timeline.Fact) {
				if b, ok := f.(timeline.Batch); ok {
					for _, q := range b.Requests {
						told[q.Seq]++
					}
				}
			}
			r.Armed.Signed = func(s signs.Sign) { named[s.Name] = true }
		})
		r.at(time.Hour-time.Second, timeline.Event{Kind: timeline.ServiceChanged, Object: timeline.Object{Name: "web"}})
		time.Sleep(time.Hour) // of virtual time
		synctest.Wait()
		if len(r.runs) != 1 || !named["service"] || !named["request"] {
			t.Fatalf("%d runs, and the signs %v", len(r.runs), named)
		}
		for seq := range uint64(len(told)) {
			if told[seq] != 1 {
				t.Fatalf("request %d of %d was told %d times", seq, len(told), told[seq])
			}
		}
		if seqs, _ := r.sent(0); len(told) < 5*7000 || len(seqs) < 100 {
			t.Errorf("%d requests were told, of which a run has %d", len(told), len(seqs))
		}
	})
}

// Two disruptions within the length of quiet that ends one are one run.
func TestTwoDisruptionsWithinSettleAreOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, second = time.Hour, time.Hour + 55*time.Second
		fails := func(due time.Duration) bool {
			return due >= first && due < first+time.Second || due >= second && due < second+time.Second
		}
		r := newAgainRun(t, fails, func(r *againRun) { r.Settle = time.Minute })
		time.Sleep(2*time.Hour - r.Clock.Now()) // of virtual time
		synctest.Wait()
		if len(r.runs) != 1 || len(r.runs[0].Windows) != 2 {
			t.Errorf("%d runs, the first with the windows %+v", len(r.runs), r.runs[0].Windows)
		}
	})
}

// A Pod that has hung since long before a disruption, as on a dead node, does not keep its run from settling.
func TestWhatHungBeforeADisruptionIsNotAwaitedInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lost = 20 * time.Minute
		fails := func(due time.Duration) bool { return due >= lost && due < lost+time.Second }
		r := newAgainRun(t, fails)
		hung := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-9", UID: "u9"}
		r.at(time.Second, timeline.Event{Kind: timeline.PodDeleted, Object: hung})
		time.Sleep(2*lost - r.Clock.Now()) // of virtual time
		synctest.Wait()
		if len(r.runs) != 1 || r.runs[0].Run.Aborted != "" || r.runs[0].Run.Duration > 3*time.Minute {
			t.Errorf("%d runs, the first %+v", len(r.runs), r.runs[0].Run)
		}
	})
}

// A disruption that begins while the last responses of the run before are awaited is not lost.
func TestASignWhileARunClosesBeginsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		r := newAgainRun(t, func(time.Duration) bool { return false }, func(r *againRun) {
			keep := r.Armed.Ended
			r.Armed.Ended = func(tl *model.Timeline) { told = append(told, "ended"); keep(tl) }
			r.Armed.Signed = func(s signs.Sign) { told = append(told, s.Name) }
		})
		r.at(2*time.Second, endpointOf(web2, "", timeline.EndpointReady))
		r.at(time.Hour, endpointOf(web1, timeline.EndpointReady, timeline.EndpointNotReady))
		end := r.closing()
		r.at(end+500*time.Millisecond, timeline.Event{Kind: timeline.PodDisrupted, Object: web2})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(r.runs) != 2 {
			t.Fatalf("%d runs", len(r.runs))
		}
		if want := []string{"endpoint", "ended", "eviction", "ended"}; !slices.Equal(told, want) { // so leads are counted
			t.Errorf("signs and ends come as %q, want %q", told, want)
		}
		seqs, _ := r.sent(0)
		for i, tl := range r.runs {
			signs := 0
			for _, e := range tl.Events {
				if e.Kind == timeline.PodDisrupted || e.Kind == timeline.EndpointChanged && e.From != "" {
					signs++
				}
			}
			if signs != 1 {
				t.Errorf("run %d has %d signs", i+1, signs)
			}
			if tl.Run.Aborted != "" || tl.Targets[0].Coverage != 1 {
				t.Errorf("run %d: aborted %q, coverage %v", i+1, tl.Run.Aborted, tl.Targets[0].Coverage)
			}
		}
		if r.runs[0].Run.Duration+r.runs[0].T0.Sub(r.Clock.T0()) != end || len(seqs) == 0 {
			t.Errorf("the first run takes %v from %v", r.runs[0].Run.Duration, r.runs[0].T0)
		}
		if wait := r.runs[1].Run.Baseline; wait < 400*time.Millisecond || wait > time.Second {
			t.Errorf("the second run begins %v before its sign", wait)
		}
	})
}

// A disruption that begins before the last responses of the run before is measured at once: these are in its run, and
// the one before does not say that none failed.
func TestASignBeforeTheLastResponsesLeavesARunInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sign = time.Hour
		r := newAgainRun(t, func(due time.Duration) bool { return due >= sign+9500*time.Millisecond && due < sign+10*time.Second }, answersLate)
		r.at(2*time.Second, endpointOf(web2, "", timeline.EndpointReady))
		r.at(sign, endpointOf(web1, timeline.EndpointReady, timeline.EndpointNotReady))
		end := r.closing()
		r.at(end+100*time.Millisecond, timeline.Event{Kind: timeline.PodDisrupted, Object: web2})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(r.runs) != 2 {
			t.Fatalf("%d runs", len(r.runs))
		}
		one, failedOnce := r.sent(0)
		two, failedTwice := r.sent(1)
		last := uint64(0)
		for seq := range one {
			if last = max(last, seq); two[seq] > 0 {
				t.Fatalf("request %d belongs to two runs", seq)
			}
		}
		if two[last+1] != 1 || failedOnce+failedTwice != 50 {
			t.Errorf("request %d is %d times in the second run; %d and %d failures", last+1, two[last+1], failedOnce, failedTwice)
		}
		if why := r.runs[0].Run.Aborted; why != "the next disruption began"+notAwaited || r.runs[1].Run.Aborted != "" {
			t.Errorf("the runs are aborted by %q and %q", why, r.runs[1].Run.Aborted)
		}
	})
}

// What only announces a disruption waits for the last responses of the run before: that is whole.
func TestAnAnnouncementWhileARunClosesLeavesItWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sign = time.Hour
		r := newAgainRun(t, func(due time.Duration) bool { return due >= sign+9500*time.Millisecond && due < sign+10*time.Second }, answersLate)
		node1 := timeline.Object{Kind: "Node", Name: web1.Node}
		r.at(2*time.Second, endpointOf(web2, "", timeline.EndpointReady))
		r.at(sign, endpointOf(web1, timeline.EndpointReady, timeline.EndpointNotReady))
		end := r.closing()
		r.at(end+100*time.Millisecond, timeline.Event{Kind: timeline.NodeSchedulable, Object: node1, From: "true", To: "false"})
		r.at(end+20*time.Second, timeline.Event{Kind: timeline.PodDisrupted, Object: web2})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(r.runs) != 2 {
			t.Fatalf("%d runs", len(r.runs))
		}
		_, failed := r.sent(0)
		if why := r.runs[0].Run.Aborted; why != "" || failed != 50 {
			t.Errorf("the first run has %d failures, and is aborted by %q", failed, why)
		}
		for _, e := range r.runs[1].Events {
			if e.Enters(timeline.PhaseMeasuring) && !strings.Contains(e.Detail, "cordoned") {
				t.Errorf("the second run: %q", e.Detail)
			}
		}
	})
}

// A request that was due before a run ended, and fails while its last responses are awaited, is that run's, and begins
// no other.
func TestALateFailureIsTheRunsThatCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sign = time.Hour
		r := newAgainRun(t, func(due time.Duration) bool { return due >= sign+9500*time.Millisecond && due < sign+10*time.Second }, answersLate)
		r.at(sign, endpointOf(web1, timeline.EndpointReady, timeline.EndpointNotReady))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(r.runs) != 1 {
			t.Fatalf("%d runs", len(r.runs))
		}
		if _, failed := r.sent(0); failed < 40 || r.runs[0].Verdict.Failed != failed {
			t.Errorf("%d failures, judged %d", failed, r.runs[0].Verdict.Failed)
		}
	})
}

// What stops the loop while it waits leaves no run. A Service that is not well is said to be so.
func TestALoopThatWaitsLeavesNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAgainRun(t, func(due time.Duration) bool { return due > 0 })
		if why := <-r.ended; !strings.HasPrefix(why, "baseline failed") || len(r.files) > 0 {
			t.Errorf("it ended %q with %d runs", why, len(r.files))
		}
	})
}

// What somebody announces raises the rate for as long as they say, also after a run that it does not lengthen.
func TestAnAnnouncedDisruptionRaisesTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newAgainRun(t, func(time.Duration) bool { return false })
		announce := func(at time.Duration, text string, holds time.Duration) {
			time.Sleep(at - r.Clock.Now()) // of virtual time
			r.Calls <- func() { Announce(r.Loop, signs.Sign{Class: signs.Soon, Text: text, Holds: holds}) }
		}
		is := func(at time.Duration, want float64) {
			t.Helper()
			time.Sleep(at - r.Clock.Now()) // of virtual time
			if rate, _ := r.now(); rate != want {
				t.Errorf("at %v the rate is %v, not %v", at, rate, want)
			}
		}
		const first, second = time.Hour, 3 * time.Hour
		announce(500*time.Millisecond, "early", 0)
		is(3*time.Second, 100)
		is(mostArmed+2*time.Second, 5)
		announce(first, "by hand", 20*time.Minute)
		is(first+20*time.Minute-time.Second, 100)
		is(first+20*time.Minute+time.Second, 5)
		announce(second, "by hand", time.Minute)
		r.at(second+time.Second, endpointOf(web1, timeline.EndpointReady, timeline.EndpointNotReady))
		announce(second+5*time.Second, "again", time.Minute)
		time.Sleep(9 * time.Second)
		runs := 0
		if r.ask(func() { runs = len(r.runs) }); runs != 1 {
			t.Fatalf("%d runs: an announcement lengthens one", runs)
		}
		is(second+time.Minute, 100)
		is(second+time.Minute+6*time.Second, 5)
		lowered := func() (n int) {
			r.ask(func() { n = strings.Count(strings.Join(r.said, "\n"), "nothing has followed") })
			return n
		}
		const third = 5 * time.Hour
		before := lowered()
		announce(third, "by hand", time.Hour)
		r.at(third+time.Second, endpointOf(web1, timeline.EndpointReady, timeline.EndpointNotReady))
		announce(third+2*time.Second, "again", time.Second)
		is(third+15*time.Second, 5)
		r.at(third+20*time.Second, timeline.Event{Kind: timeline.NodeSchedulable, From: "true", To: "false", Object: node1})
		is(third+25*time.Second, 100)
		if lowered() != before {
			t.Error("it waited for what was announced in a run, and is over")
		}
		is(third+20*time.Second+mostArmed+time.Second, 5)
		for _, e := range r.runs[0].Events {
			if e.Enters(timeline.PhaseMeasuring) && e.Detail != "first sign: by hand" {
				t.Errorf("the run says it began with %q", e.Detail)
			}
		}
	})
}

// What is allowed to each target may change at any time: while it waits, and in a run, whose rates are facts.
func TestTheRateIsNoHigherThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle, full := 2.0, 50.0
		r := newAgainRun(t, func(time.Duration) bool { return false }, func(r *againRun) {
			r.Settle = time.Minute
			r.Armed.Most = func(isFull bool) float64 {
				if isFull {
					return full
				}
				return idle
			}
		})
		is := func(at time.Duration, want float64) {
			t.Helper()
			time.Sleep(at - r.Clock.Now()) // of virtual time
			if rate, _ := r.now(); rate != want {
				t.Errorf("at %v the rate is %v, not %v", at, rate, want)
			}
		}
		const sign = time.Hour
		is(3*time.Second, 2)
		r.ask(func() { idle = 1 })
		is(4*time.Second, 1)
		r.at(sign, endpointOf(web1, timeline.EndpointReady, timeline.EndpointNotReady))
		is(sign, 50)
		r.ask(func() { full = 25 })
		is(sign+time.Second, 25)
		r.ask(func() { full = 200 })
		is(sign+30*time.Second, 100)
		is(sign+2*time.Minute, 1)
		if len(r.runs) != 1 {
			t.Fatalf("%d runs", len(r.runs))
		}
		changes := ""
		for _, e := range r.runs[0].Events {
			if e.Kind == timeline.RateChanged {
				changes += " " + e.To
			}
		}
		if target := r.runs[0].Targets[0]; changes != " 50 25 100" || target.Rerated.From != 1 || target.Coverage != 1 {
			t.Errorf("the run's rates are%s, of %+v, coverage %v", changes, *target.Rerated, target.Coverage)
		}
	})
}
