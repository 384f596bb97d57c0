package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var t0 = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)

func at(minute int) time.Time { return t0.Add(time.Duration(minute) * time.Minute) }

// rolledOut and drained are a run from one minute to another.
func rolledOut(id string, from, to int, verdict State, hashes ...string) Run {
	return Run{ID: id, Began: at(from), Changed: at(to), Verdict: verdict, Reason: id + " " + string(verdict), Hashes: hashes}
}

func drained(id string, from, to int, verdict State, nodes ...string) Run {
	return Run{ID: id, Began: at(from), Changed: at(to), Verdict: verdict, Reason: id + " " + string(verdict), Nodes: nodes}
}

// begun returns a run that did not measure the beginning of its rollout.
func begun(r Run) Run {
	r.Rolling = true
	return r
}

// undone returns a run at whose end no Pod of its templates was left.
func undone(r Run) Run {
	r.Undone = r.Hashes
	return r
}

// replacing returns a run in which a rollout replaced Pods.
func replacing(r Run) Run {
	r.Rollout = true
	return r
}

// Every answer, by what has happened when the question comes.
func TestAnAnswerIsAboutAThingAndNeverAboutNow(t *testing.T) {
	measured := func(b *Book) { b.Measured("shop/web", at(0), "") }
	begin := func(id string, minute int) func(*Book) {
		return func(b *Book) { b.Begin("shop/web", id, at(minute)) }
	}
	fails := func(r Run) func(*Book) { return func(b *Book) { b.Fails("shop/web", r) } }
	end := func(r Run) func(*Book) { return func(b *Book) { b.End("shop/web", r) } }
	ask := func(q Query, minute int) func(*Book) {
		return func(b *Book) { q.Service = "shop/web"; b.Answer(q, at(minute)) }
	}
	lasts := func(id string, lasts bool) func(*Book) { return func(b *Book) { b.Lasts("shop/web", id, lasts) } }
	all := func(does ...func(*Book)) []func(*Book) { return does }
	for _, test := range []struct {
		name   string
		before []func(*Book)
		q      Query
		now    int
		state  State
		run    string
		reason string // a part of it
	}{
		{"a template that was not seen is awaited", all(measured), Query{Hash: "new"}, 5, Pending, "", "no disruption of shop/web by template new was seen yet"},
		{"it is awaited for 15 minutes from the first question", all(measured, ask(Query{Hash: "new"}, 5)), Query{Hash: "new"}, 19, Pending, "", "yet"},
		{"and then nothing is known of it", all(measured, ask(Query{Hash: "new"}, 5)), Query{Hash: "new"}, 20, Inconclusive, "", "by template new was seen within 15 minutes: is that a hash in the labels of its Pods?"},
		{"who asks half an hour later begins anew", all(measured, ask(Query{Hash: "new"}, 5)), Query{Hash: "new"}, 35, Pending, "", "yet"},
		{"another's first question does not count", all(measured, ask(Query{Hash: "old"}, 5)), Query{Hash: "new"}, 20, Pending, "", ""},
		{"while a disruption is measured nothing is decided", all(measured, begin("r1", 3)), Query{Hash: "new"}, 5, Pending, "r1", "still being measured"},
		{"unless it fails whatever follows", all(measured, begin("r1", 3), fails(rolledOut("r1", 3, 5, Fail, "new"))), Query{Hash: "new"}, 5, Fail, "r1", "r1 fail"},
		{"which another template does not", all(measured, begin("r1", 3), fails(rolledOut("r1", 3, 5, Fail, "new"))), Query{Hash: "newer"}, 5, Pending, "r1", ""},
		{"nor another time", all(measured, begin("r1", 3), fails(rolledOut("r1", 3, 5, Fail, "new"))), Query{Since: at(6)}, 6, Pending, "r1", ""},
		{"nor the next run", all(measured, begin("r1", 3), end(rolledOut("r1", 3, 4, Pass, "new")), begin("r2", 5), fails(rolledOut("r1", 3, 5, Fail, "new"))), Query{Hash: "new"}, 6, Pending, "r2", ""},
		{"a template passes with its run", all(measured, begin("r1", 3), end(rolledOut("r1", 3, 4, Pass, "new"))), Query{Hash: "new"}, 5, Pass, "r1", "r1 pass"},
		{"but not with the second half of its rollout", all(measured, end(begun(rolledOut("r1", 3, 4, Pass, "new")))), Query{Hash: "new"}, 5, Inconclusive, "r1", "r1 pass; the rollout was under way before it was measured"},
		{"which can fail", all(measured, end(begun(rolledOut("r1", 3, 4, Fail, "new")))), Query{Hash: "new"}, 5, Fail, "r1", "r1 fail"},
		{"and passes as what it is", all(measured, end(begun(rolledOut("r1", 3, 4, Pass, "new")))), Query{Run: "r1"}, 5, Pass, "r1", "r1 pass"},
		{"or fails", all(measured, end(rolledOut("r1", 3, 4, Fail, "new"))), Query{Hash: "new"}, 5, Fail, "r1", "r1 fail"},
		{"or stays undecided", all(measured, end(rolledOut("r1", 3, 4, Inconclusive, "new"))), Query{Hash: "new"}, 5, Inconclusive, "r1", "r1 inconclusive"},
		{"another template's pass is none", all(measured, end(rolledOut("r1", 3, 4, Pass, "old"))), Query{Hash: "new"}, 5, Pending, "", "yet"},
		{"the newest run of a template counts", all(measured, end(rolledOut("r1", 3, 4, Fail, "new")), end(rolledOut("r2", 8, 9, Pass, "new"))), Query{Hash: "new"}, 10, Pass, "r2", ""},
		{"a rollout that was undone is awaited again", all(measured, end(undone(rolledOut("r1", 3, 4, Pass, "new")))), Query{Hash: "new"}, 10, Pending, "", "yet: it was rolled back or replaced in run r1"},
		{"and not for ever", all(measured, end(undone(rolledOut("r1", 3, 4, Pass, "new"))), ask(Query{Hash: "new"}, 5)), Query{Hash: "new"}, 20, Inconclusive, "", "within 15 minutes: it was rolled back or replaced in run r1"},
		{"but with a time it counts", all(measured, end(undone(rolledOut("r1", 3, 4, Pass, "new")))), Query{Hash: "new", Since: at(2)}, 10, Pass, "r1", ""},
		{"and what failed is not tried again", all(measured, end(undone(rolledOut("r1", 3, 4, Fail, "new")))), Query{Hash: "new"}, 10, Fail, "r1", ""},
		{"not if another template was rolled out since", all(measured, end(replacing(rolledOut("r1", 3, 4, Pass, "new"))), end(replacing(rolledOut("r2", 8, 9, Pass, "newer")))), Query{Hash: "new"}, 10, Pending, "", "yet"},
		{"but if its own has replaced the other", all(measured, end(replacing(rolledOut("r1", 3, 4, Fail, "new"))), end(replacing(rolledOut("r2", 8, 9, Pass, "newer"))), end(replacing(rolledOut("r3", 10, 11, Pass, "new")))), Query{Hash: "new"}, 12, Pass, "r3", ""},
		{"Pods of another template that are made again are no rollout", all(measured, end(replacing(rolledOut("r1", 3, 4, Pass, "new"))), end(rolledOut("r2", 8, 9, Pass, "old"))), Query{Hash: "new"}, 10, Pass, "r1", ""},
		{"a Pod that is evicted later does not make its failed rollout pass", all(measured, end(replacing(rolledOut("r1", 3, 4, Fail, "new"))), end(rolledOut("r2", 8, 9, Pass, "new"))), Query{Hash: "new"}, 10, Fail, "r1", ""},
		{"nor its passed one fail", all(measured, end(replacing(rolledOut("r1", 3, 4, Pass, "new"))), end(rolledOut("r2", 8, 9, Fail, "new"))), Query{Hash: "new"}, 10, Pass, "r1", ""},
		{"not even while it is measured", all(measured, end(replacing(rolledOut("r1", 3, 4, Pass, "new"))), begin("r2", 8), fails(rolledOut("r2", 8, 9, Fail, "new"))), Query{Hash: "new"}, 10, Pending, "r2", ""},
		{"what fails for hours after its rollout does not put the answer off", all(measured, end(replacing(rolledOut("r1", 3, 33, Fail, "new"))), begin("r2", 33), lasts("r2", true), fails(drained("r2", 33, 40, Fail))), Query{Hash: "new"}, 40, Fail, "r1", ""},
		{"nor while its run is stored", all(measured, begin("r1", 3), fails(replacing(rolledOut("r1", 3, 33, Fail, "new"))), begin("r2", 33), lasts("r2", true)), Query{Hash: "new"}, 40, Fail, "r1", ""},
		{"nor does a Pod that crashes for hours, of one that passed", all(measured, end(replacing(rolledOut("r1", 3, 4, Pass, "new"))), begin("r2", 33), lasts("r2", true)), Query{Hash: "new"}, 40, Pass, "r1", ""},
		{"but what else happens meanwhile does", all(measured, end(replacing(rolledOut("r1", 3, 33, Fail, "new"))), begin("r2", 33), lasts("r2", true), lasts("r2", false)), Query{Hash: "new"}, 40, Pending, "r2", ""},
		{"it may change the answer about a template that was not rolled out", all(measured, end(rolledOut("r1", 3, 33, Pass, "new")), begin("r2", 33), lasts("r2", true)), Query{Hash: "new"}, 40, Pending, "r2", ""},
		{"or about all since a time", all(measured, end(replacing(rolledOut("r1", 3, 33, Pass, "new"))), begin("r2", 33), lasts("r2", true)), Query{Since: at(2)}, 40, Pending, "r2", ""},
		{"of a template, too", all(measured, end(replacing(rolledOut("r1", 3, 33, Pass, "new"))), begin("r2", 33), lasts("r2", true)), Query{Hash: "new", Since: at(2)}, 40, Pending, "r2", ""},
		{"of what came before its rollout nothing counts", all(measured, end(rolledOut("r1", 3, 4, Fail, "new")), end(replacing(rolledOut("r2", 8, 9, Pass, "new")))), Query{Hash: "new"}, 10, Pass, "r2", ""},
		{"of a node the newest run counts", all(measured, end(replacing(drained("r1", 3, 4, Fail, "node1"))), end(drained("r2", 8, 9, Pass, "node1"))), Query{Node: "node1"}, 10, Pass, "r2", ""},
		{"with a time, all since then counts", all(measured, end(replacing(rolledOut("r1", 3, 4, Pass, "new"))), end(replacing(rolledOut("r2", 8, 9, Pass, "newer")))), Query{Hash: "new", Since: at(2)}, 10, Pass, "r1", ""},
		{"a template that is rolled out again is pending again", all(measured, end(rolledOut("r1", 3, 4, Fail, "new")), begin("r2", 8)), Query{Hash: "new"}, 9, Pending, "r2", ""},
		{"with a time, what was over before does not count", all(measured, end(rolledOut("r1", 3, 4, Pass, "new"))), Query{Hash: "new", Since: at(5)}, 6, Pending, "", "yet"},
		{"with a time, the worst since then counts", all(measured, end(rolledOut("r1", 3, 4, Fail, "new")), end(rolledOut("r2", 8, 9, Pass, "new"))), Query{Hash: "new", Since: at(2)}, 10, Fail, "r1", ""},
		{"a run that was stored late is not the newest", all(measured, end(rolledOut("r2", 8, 9, Fail, "new")), end(rolledOut("r1", 3, 4, Pass, "new"))), Query{Hash: "new"}, 10, Fail, "r2", ""},
		{"a node passes with its run", all(measured, end(drained("r1", 3, 4, Pass, "node1"))), Query{Node: "node1"}, 5, Pass, "r1", ""},
		{"another node's pass is none", all(measured, end(drained("r1", 3, 4, Pass, "node1"))), Query{Node: "node2"}, 5, Pending, "", "on node node2 was seen yet"},
		{"a run passes", all(measured, end(drained("r1", 3, 4, Pass, "node1"))), Query{Run: "r1"}, 5, Pass, "r1", ""},
		{"a run is not awaited while another is measured", all(measured, end(drained("r1", 3, 4, Pass, "node1")), begin("r2", 5)), Query{Run: "r1"}, 5, Pass, "r1", ""},
		{"the next disruption may begin before a run is judged", all(measured, begin("r1", 3), begin("r2", 5), end(drained("r1", 3, 4, Pass, "node1"))), Query{Node: "node2"}, 6, Pending, "r2", ""},
		{"a run is pending until it is stored, though the next has begun", all(measured, begin("r1", 3), begin("r2", 5)), Query{Run: "r1"}, 6, Pending, "r1", "still being measured"},
		{"and though the next is stored before it", all(measured, begin("r1", 3), begin("r2", 5), end(drained("r2", 5, 6, Pass))), Query{Since: at(2)}, 7, Pending, "r1", ""},
		{"of a node, too", all(measured, begin("r1", 3), begin("r2", 5), end(drained("r2", 5, 6, Pass, "node1"))), Query{Node: "node1"}, 7, Pending, "r1", ""},
		{"what failed stays so while the next is measured", all(measured, begin("r1", 3), fails(drained("r1", 3, 4, Fail)), begin("r2", 5)), Query{Since: at(2)}, 6, Fail, "r1", ""},
		{"and fails as a run", all(measured, begin("r1", 3), fails(drained("r1", 3, 4, Fail)), begin("r2", 5)), Query{Run: "r1"}, 6, Fail, "r1", ""},
		{"the next may fail before the last is stored", all(measured, begin("r1", 3), begin("r2", 5), fails(drained("r2", 5, 6, Fail))), Query{Since: at(2)}, 6, Fail, "r2", ""},
		{"a template that failed is pending again with the next run", all(measured, begin("r1", 3), fails(rolledOut("r1", 3, 4, Fail, "new")), begin("r2", 5)), Query{Hash: "new"}, 6, Pending, "r2", ""},
		{"a run that is stored late is not the newest, though it failed first", all(measured, begin("r1", 3), fails(rolledOut("r1", 3, 4, Fail, "new")), begin("r2", 5), end(rolledOut("r2", 5, 6, Pass, "new"))), Query{Hash: "new"}, 7, Pending, "r1", ""},
		{"a run is pending while it is measured", all(measured, begin("r2", 5)), Query{Run: "r2"}, 5, Pending, "r2", ""},
		{"since a time, nothing happened yet", all(measured), Query{Since: at(3)}, 5, Pending, "", "no disruption of shop/web was seen yet"},
		{"nor within 15 minutes", all(measured), Query{Since: at(3)}, 18, Inconclusive, "", "within 15 minutes"},
		{"since a time, all passed", all(measured, end(drained("r1", 3, 4, Pass)), end(drained("r2", 6, 7, Pass))), Query{Since: at(2)}, 8, Pass, "r2", ""},
		{"since a time, one failed", all(measured, end(drained("r1", 3, 4, Fail)), end(drained("r2", 6, 7, Pass))), Query{Since: at(2)}, 8, Fail, "r1", ""},
		{"doubt outweighs a pass", all(measured, end(drained("r1", 3, 4, Inconclusive)), end(drained("r2", 6, 7, Pass))), Query{Since: at(2)}, 8, Inconclusive, "r1", ""},
		{"a failure is final while more is measured", all(measured, end(drained("r1", 3, 4, Fail)), begin("r2", 6)), Query{Since: at(2)}, 8, Fail, "r1", ""},
		{"a pass is not", all(measured, end(drained("r1", 3, 4, Pass)), begin("r2", 6)), Query{Since: at(2)}, 8, Pending, "r2", ""},
		{"a disruption that goes on since before counts", all(measured, end(drained("r1", 3, 6, Pass))), Query{Since: at(5)}, 8, Pass, "r1", ""},
		{"one that was over before does not", all(measured, end(drained("r1", 3, 4, Pass))), Query{Since: at(5)}, 8, Pending, "", ""},
		{"time that was not measured does not pass", all(measured, end(drained("r1", 3, 4, Pass))), Query{Since: at(-2)}, 8, Inconclusive, "", "is measured since 2026-11-26T10:00:00Z"},
		{"but fails", all(measured, end(drained("r1", 3, 4, Fail))), Query{Since: at(-2)}, 8, Fail, "r1", ""},
		{"a Service that is not measured is told at once", all(func(b *Book) { b.Measured("shop/web", at(0), "it has no ready endpoint") }), Query{Hash: "new"}, 5, Inconclusive, "", "shop/web is not measured: it has no ready endpoint"},
		{"what was measured of it before stays", all(measured, end(drained("r1", 3, 4, Pass, "node1")), func(b *Book) { b.Measured("shop/web", at(5), "gone") }), Query{Node: "node1"}, 6, Pass, "r1", ""},
		{"but since a time it may have missed something", all(measured, end(drained("r1", 3, 4, Pass, "node1")), func(b *Book) { b.Measured("shop/web", at(5), "gone") }), Query{Since: at(2)}, 6, Inconclusive, "", "gone"},
		{"a run that broke off is awaited until it is judged", all(measured, begin("r1", 3), func(b *Book) { b.Measured("shop/web", at(5), "gone") }), Query{Hash: "new"}, 6, Pending, "r1", "still being measured"},
		{"and does not pass then", all(measured, begin("r1", 3), func(b *Book) { b.Measured("shop/web", at(5), "gone") }, end(rolledOut("r1", 3, 5, Inconclusive))), Query{Hash: "new"}, 6, Inconclusive, "", "gone"},
		{"who asks before a step may take no disruption for a pass", all(measured), Query{Since: at(3), NonePasses: true}, 5, Pass, "", "no disruption of shop/web since 2026-11-26T10:03:00Z"},
		{"but not while one is measured", all(measured, begin("r1", 4)), Query{Since: at(3), NonePasses: true}, 5, Pending, "r1", ""},
		{"nor after one that failed", all(measured, end(drained("r1", 3, 4, Fail))), Query{Since: at(3), NonePasses: true}, 5, Fail, "r1", ""},
		{"nor of time that was not measured", all(measured), Query{Since: at(-2), NonePasses: true}, 5, Inconclusive, "", "is measured since 2026-11-26T10:00:00Z"},
		{"nor before anything is", nil, Query{Since: at(3), NonePasses: true}, 5, Inconclusive, "", "shop/web is not measured"},
		{"a run of a time that has not come does not pass", all(measured, end(drained("r1", 63, 64, Pass))), Query{Since: at(3)}, 8, Inconclusive, "r1", "the clock was set back"},
		{"of a node the run after the clock was set back decides", all(measured, end(drained("r1", 63, 64, Pass, "node1")), end(drained("r2", 5, 6, Fail, "node1"))), Query{Node: "node1"}, 8, Fail, "r2", ""},
		{"and so does one that failed by a clock that is ahead", all(measured, end(drained("r1", 5, 6, Pass, "node1")), end(drained("r2", 63, 64, Fail, "node1"))), Query{Node: "node1"}, 8, Fail, "r2", ""},
		{"a time that has not come does not pass", all(measured), Query{Since: at(6), NonePasses: true}, 5, Pending, "", "since=2026-11-26T10:06:00Z is in the future: here it is 2026-11-26T10:05:00Z"},
		{"not even with a run of that time", all(measured, end(drained("r1", 5, 7, Pass))), Query{Since: at(6)}, 5, Pending, "", "in the future"},
		{"but fails", all(measured, end(drained("r1", 5, 7, Fail))), Query{Since: at(6)}, 5, Fail, "r1", ""},
		{"before it is measured a Service is awaited", nil, Query{Hash: "new"}, 5, Pending, "", "yet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b Book
			b.Guard("shop/web")
			b.Guard("shop/api")
			b.End("shop/api", rolledOut("other", 1, 2, Fail, "new", "old"))
			for _, do := range test.before {
				do(&b)
			}
			test.q.Service = "shop/web"
			got, problem := b.Answer(test.q, at(test.now))
			if problem != "" || got.State != test.state || got.Run != test.run || !strings.Contains(got.Reason, test.reason) {
				t.Errorf("%+v %q, want %s of run %q because of %q", got, problem, test.state, test.run, test.reason)
			}
			if got.Run != "" && got.Since.IsZero() {
				t.Errorf("it does not say since when: %+v", got)
			}
		})
	}
}

// What is not guarded has no answer, and neither has a run that never was.
func TestWhatIsUnknownHasNoAnswer(t *testing.T) {
	var b Book
	if a, problem := b.Answer(Query{Service: "shop/web", Hash: "new"}, t0); a.State != Pending || problem != "" {
		t.Errorf("before it is known what is guarded: %+v %q", a, problem)
	}
	b.Listed()
	if _, problem := b.Answer(Query{Service: "shop/web", Hash: "new"}, t0); !strings.HasPrefix(problem, "shop/web is not guarded here: annotate it") {
		t.Errorf("%q", problem)
	}
	b.Guard("shop/web", rolledOut("r1", 1, 2, Pass, "old"))
	if a, problem := b.Answer(Query{Service: "shop/web", Run: "r1"}, t0); a.State != Pass || problem != "" {
		t.Errorf("an earlier run: %+v %q", a, problem)
	}
	if _, problem := b.Answer(Query{Service: "shop/web", Run: "r2"}, t0); problem != "shop/web had no run r2, or it is forgotten" {
		t.Errorf("%q", problem)
	}
	b.Begin("shop/web", "r2", t0)
	b.Drop("shop/web")
	b.Guard("shop/web")
	if _, problem := b.Answer(Query{Service: "shop/web", Run: "r2"}, t0); problem != "shop/web had no run r2, or it is forgotten" {
		t.Errorf("a run whose end was not told when the Service was left: %q", problem)
	}
	b.Drop("shop/web")
	b.Begin("shop/web", "r2", t0)
	b.End("shop/web", rolledOut("r2", 1, 2, Pass))
	b.Measured("shop/web", t0, "")
	if _, problem := b.Answer(Query{Service: "shop/web", Run: "r1"}, t0); !strings.HasPrefix(problem, "shop/web is not guarded here: annotate it") {
		t.Errorf("%q", problem)
	}
}

// Neither questions nor runs make the book grow without end.
func TestTheBookDoesNotGrow(t *testing.T) {
	var b Book
	b.Guard("shop/web")
	for i := range 3 * mostAsked {
		b.Answer(Query{Service: "shop/web", Hash: fmt.Sprint(i)}, t0.Add(time.Duration(i)))
		b.End("shop/web", rolledOut(fmt.Sprint("r", i), i, i, Pass))
	}
	s := b.services["shop/web"]
	if len(s.asked) > mostAsked || len(s.ended) > mostRuns {
		t.Errorf("%d questions and %d runs", len(s.asked), len(s.ended))
	}
	if _, ok := s.asked[thing{hash: fmt.Sprint(3*mostAsked - 1)}]; !ok {
		t.Error("the newest question is forgotten")
	}
}

// A Plan asks since the same time for weeks. A failure that is forgotten meanwhile does not turn into a pass. What has
// passed may be forgotten.
func TestAForgottenFailureDoesNotPass(t *testing.T) {
	var b Book
	b.Guard("shop/web", rolledOut("passed", 1, 2, Pass, "old"))
	b.Measured("shop/web", at(0), "")
	ends := func(from int, verdict State) {
		b.End("shop/web", rolledOut(fmt.Sprint("r", from), from, from+1, verdict, "new"))
	}
	is := func(want State, says string, queries ...Query) {
		t.Helper()
		for _, q := range queries {
			q.Service = "shop/web"
			if got, problem := b.Answer(q, at(2000)); got.State != want || !strings.Contains(got.Reason, says) || problem != "" {
				t.Errorf("%+v: %+v %q, want %s because of %q", q, got, problem, want, says)
			}
		}
	}
	ends(3, Fail)
	ends(5, Inconclusive)
	for i := range mostRuns - 2 {
		ends(7+2*i, Pass)
	}
	is(Fail, "r3 fail", Query{Since: at(1)}, Query{Since: at(4), NonePasses: true}, Query{Since: at(1), Hash: "new"})
	ends(1003, Pass)
	const says = "not all that was over by 2026-11-26T10:04:00Z passed, and it is forgotten"
	is(Inconclusive, says, Query{Since: at(1)}, Query{Since: at(4), NonePasses: true}, Query{Since: at(1), Hash: "new"})
	is(Inconclusive, "r5 inconclusive", Query{Since: at(5)})
	ends(1005, Pass)
	is(Inconclusive, "10:06:00Z passed", Query{Since: at(5)})
	is(Pass, "r1005 pass", Query{Since: at(7)}, Query{Since: at(7), NonePasses: true}, Query{Hash: "new"})
	for i := range mostRuns {
		ends(1007+2*i, Pass)
	}
	is(Pass, "pass", Query{Since: at(7)})
}
