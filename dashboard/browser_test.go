package dashboard_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/dashboard"
	"lapse/dashboard/internal/sample"
	"lapse/dashboard/publish"
	"lapse/internal/layer"
	"lapse/timeline"
)

// patience is how long a test waits for the page on a machine that has much else to do.
const patience = 60 * time.Second

// A tab is a page in the browser. What goes wrong inside the page fails the test.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// browser starts the one browser that all tests open their tabs in.
var browser = sync.OnceValues(func() (context.Context, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("the page is tested in a real browser, and there is none: %w\nhint: apt-get install chromium", err)
	}
	ctx, _ := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 1500),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(patience),
	)...)
	ctx, closeBrowser = chromedp.NewContext(ctx)
	return ctx, chromedp.Do(ctx)
})

// closeBrowser ends the browser and waits for it.
var closeBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	closeBrowser()
	os.RemoveAll(monthDir)
	os.Exit(code)
}

// newTab opens a page in a tab of its own.
func newTab(t *testing.T, url string) *tab {
	t.Helper()
	parent, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(parent)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	p.run() // opens the tab
	if err := chromedp.Listen(ctx, p.watch); err != nil {
		t.Fatal(err)
	}
	p.run(chromedp.Navigate(url))
	return p
}

// watch fails the test when the page throws, or tries what its policy forbids.
func (p *tab) watch(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.t.Errorf("the page threw: %s %s", e.ExceptionDetails.Text, e.ExceptionDetails.Exception.Description)
	case *log.EventEntryAdded:
		if strings.Contains(e.Entry.Text, "Content Security Policy") {
			p.t.Errorf("the page broke its policy: %s", e.Entry.Text)
		}
	}
}

func (p *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// eval returns an expression's value in the page.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// see waits until the page shows a selector.
func (p *tab) see(selector string) {
	p.t.Helper()
	p.until("shows "+selector, fmt.Sprintf("document.querySelector(%q)", selector))
}

// until waits for an expression to become true in the page. One that throws is not true yet: what it reads may come
// and go while the page is drawn anew. (chromedp's own polling makes functions from strings, which the page's policy
// forbids.)
func (p *tab) until(what, expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	wait := chromedp.Evaluate[bool](`new Promise((done) => {
		const holds = () => { try { return `+expression+`; } catch (e) { window.untilThrew = String(e); } };
		const look = () => holds() ? done(true) : setTimeout(look, 10);
		look();
	})`, chromedp.EvalAwaitPromise)
	var err error
	for ctx.Err() == nil {
		if _, err = chromedp.Run(ctx, wait); err == nil {
			return
		} // a reload has taken the promise away
	}
	p.t.Fatalf("waiting until the page %s: %v (%s)\nit shows:\n%s", what, err, eval[string](p, "window.untilThrew ?? ''"), p.text("body"))
}

// click clicks the middle of the first match when nothing covers it. What is clicked is found in the same step, so
// that a page that is still growing cannot move another thing there.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.until("can be clicked at "+selector, fmt.Sprintf(`(() => {
		const wanted = document.querySelector(%q);
		if (!wanted) return false;
		wanted.scrollIntoView({ block: "center" });
		const box = wanted.getBoundingClientRect();
		const [clientX, clientY] = [box.x + box.width / 2, box.y + box.height / 2];
		const hit = document.elementFromPoint(clientX, clientY);
		if (!wanted.contains(hit)) return false;
		hit.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, clientX, clientY }));
		return true;
	})()`, selector))
}

// text is what a reader sees of an element.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// count tells how many elements match a selector.
func (p *tab) count(selector string) int {
	p.t.Helper()
	return eval[int](p, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}

// A site is a served store that a test can stop.
type site struct {
	t      testing.TB
	addr   string
	cancel context.CancelFunc
	served sync.WaitGroup
}

func serve(t testing.TB, store *dashboard.Store, addr string) *site {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &site{t: t, addr: ln.Addr().String(), cancel: cancel}
	s.served.Go(func() {
		if err := dashboard.Serve(ctx, ln, store, dashboard.Options{}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

func (s *site) url() string { return "http://" + s.addr + "/" }

func (s *site) stop() {
	s.cancel()
	s.served.Wait()
}

// show puts the sample run as it stood at an instant.
func show(t *testing.T, store *dashboard.Store, at time.Duration) {
	t.Helper()
	if err := publish.To(store).Show(sample.Run(at), at); err != nil {
		t.Fatal(err)
	}
}

// openIncidents shows the windows of every incident. Windows that belong to none are shown as they are.
func (p *tab) openIncidents() {
	p.t.Helper()
	p.see(`[data-testid="incident"], [data-testid="window-row"]`)
	eval[bool](p, `document.querySelectorAll('[data-testid="incident"] .incident-head .twist[aria-expanded="false"]').forEach((b) => b.click()), true`)
}

const firstWindow = `[data-testid="window-row"][data-window-id="1"]`

// outage is the window of the made-up run, as it stands at an instant, in which no new connection was answered.
func outage(t *testing.T, run *model.Timeline) model.Window {
	t.Helper()
	i := slices.IndexFunc(run.Windows, func(w model.Window) bool { return w.Kind == model.Outage && w.Target == "web new" })
	if i < 0 {
		t.Fatal("the made-up run has no outage")
	}
	return run.Windows[i]
}

// openFigures unfolds all figures of the page's head.
func (p *tab) openFigures() {
	p.t.Helper()
	p.see(`[data-testid="all-figures"]`)
	eval[bool](p, `document.querySelector('[data-testid="all-figures"]').open = true`)
}

// openWindow shows why a window is, whose row is shown.
func (p *tab) openWindow(id int) {
	p.t.Helper()
	p.see(row(id))
	eval[bool](p, fmt.Sprintf(`document.querySelector('%s .twist[aria-expanded="false"]')?.click(), true`, row(id)))
	p.see(why(id))
}

// row is a window's row.
func row(id int) string { return fmt.Sprintf(`[data-testid="window-row"][data-window-id="%d"]`, id) }

// why is the pane that explains a window.
func why(id int) string { return fmt.Sprintf(`[data-testid="why"][data-window-id="%d"]`, id) }

// Each figure at the page's head keeps to its own place, however narrow the page is.
func TestFiguresOfTheHeadDoNotOverlap(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	show(t, store, 11*time.Second)
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	page.see(`[data-testid="verdict"][data-result="fail"]`)
	page.openFigures()
	for _, width := range []int64{1400, 1160, 900, 600, 420} {
		page.run(chromedp.EmulateViewport(width, 1000))
		const wide = `[...document.querySelectorAll(".figure dd")].filter((f) => f.scrollWidth > f.clientWidth).map((f) => f.textContent).join()`
		if over := eval[string](page, wide); over != "" {
			t.Errorf("at %d pixels these are wider than their places: %s", width, over)
		}
	}
	if n := page.count(".figure dd"); n < 4 {
		t.Errorf("%d figures", n)
	}
}

func TestAWindowAppearsAndStaysAfterReload(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	show(t, store, 5*time.Second)
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	page.see(`[data-testid="verdict"][data-result="pass"]`)
	page.see(`[data-testid="live"][data-live="true"]`)
	if n := page.count(`[data-testid="window-row"]`); n != 0 {
		t.Errorf("%d windows before anything failed", n)
	}
	eval[bool](page, "window.notReloaded = true")

	// How soon a change is sent is in TestStreamCoalescesChangesToFourASecond, in virtual time.
	show(t, store, 11*time.Second)
	page.openIncidents()
	page.see(firstWindow)
	store.Delete("window/1")
	page.until("takes the window back", fmt.Sprintf("!document.querySelector(%q)", firstWindow))
	show(t, store, 11*time.Second)
	page.see(firstWindow)
	page.see(`[data-testid="verdict"][data-result="fail"]`)
	page.see(`[data-testid="band"][data-id="incident-1"]`)
	page.until("is the same page as before", "window.notReloaded === true")

	page.run(chromedp.Reload())
	page.until("was reloaded", "window.notReloaded === undefined")
	page.see(`[data-testid="answer-why"]`)
	if said := page.text(`[data-testid="answer"]`); !strings.Contains(said, "drain of node-b") || !strings.Contains(said, "route-outlives-pod") || !strings.Contains(said, "preStop") {
		t.Errorf("the answer reads %q", said)
	}
	page.openIncidents()
	page.see(firstWindow)
	began := "by " + sample.T0.Add(sample.Run(11 * time.Second).Windows[0].Start.Latest).Format("15:04:05.000")
	if text := page.text(firstWindow); !strings.Contains(text, "route-outlives-pod") || !strings.Contains(text, began) {
		t.Errorf("the window's row reads %q", text)
	}
	page.openWindow(1)
	if text := page.text(why(1)); !strings.Contains(text, "route-outlives-pod") || !strings.Contains(text, "stopped answering new clients") {
		t.Errorf("why reads %q", text)
	}
}

// connectionIsInTheBar checks that what is said of the connection covers nothing else.
func (p *tab) connectionIsInTheBar() {
	p.t.Helper()
	if !eval[bool](p, `((bar, said) => bar.top <= said.top && said.bottom <= bar.bottom)(
		...['.topbar', '[data-testid="connection"]'].map((s) => document.querySelector(s).getBoundingClientRect()))`) {
		p.t.Error("what is said of the connection is not in the bar at the top")
	}
}

func TestThePageReconnectsToARestartedServer(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	show(t, store, 11*time.Second)
	first := serve(t, store, "127.0.0.1:0")
	page := newTab(t, first.url())
	page.openIncidents()
	page.see(firstWindow)
	page.see(`[data-testid="connection"][data-phase="connected"]`)

	first.stop()
	page.see(`[data-testid="connection"][data-phase="disconnected"]`)
	if text := page.text(`[data-testid="connection"]`); !strings.Contains(text, "disconnected since") {
		t.Errorf("the page says %q without a server", text)
	}
	page.connectionIsInTheBar()
	page.see(firstWindow) // what was known is still shown
	page.until("hatches the time in which it was disconnected", `document.querySelector('[data-testid="disconnected"]')?.clientWidth > 2`)

	show(t, store, 43*time.Second)
	then := sample.Run(43 * time.Second)
	same := serve(t, store, first.addr)
	page.until("says for how long it was disconnected", `((text) => text.includes("connected again after") && text.includes("nothing is missing"))(document.querySelector('[data-testid="connection"]').textContent)`)
	page.see(fmt.Sprintf(`[data-testid="incident"][data-incident-id="%d"]`, len(then.Incidents)))
	page.openIncidents()
	page.see(row(outage(t, then).ID))
	page.until("has the data of that time", `!document.querySelector('[data-testid="disconnected"]')`)

	page.press("]")
	page.until("has selected a window", `location.hash.includes("window=")`)
	same.stop()
	another := dashboard.NewStore() // a new process: another epoch, another run
	run := sample.Run(5 * time.Second)
	run.Run.ID = "another"
	if err := publish.To(another).Show(run, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	serve(t, another, first.addr)
	page.until("shows the other run only", `document.querySelector('[data-testid="verdict"]')?.dataset.result === "pass" && !document.querySelector('[data-testid="window-row"]') && location.hash === ""`)
}

func TestEverythingOfARunIsShown(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	show(t, store, sample.Length)
	run := sample.Run(sample.Length)
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	page.see(`[data-testid="live"][data-live="false"]`)
	page.firstScreen()
	page.openFigures()
	page.openIncidents()
	page.press("0")
	page.until("shows the whole run", `!document.querySelector('[data-testid="brush"]')`)
	page.see(firstWindow)
	for selector, want := range map[string]int{
		`[data-testid="strip"]`:         len(run.Targets),
		`[data-testid="pod-lane"]`:      len(run.Pods),
		`[data-testid="endpoint-lane"]`: len(run.Pods),
		`[data-testid="node-lane"]`:     2, // node-a did not change
		`[data-testid="incident"]`:      len(run.Incidents),
		`[data-testid="window-row"]`:    len(run.Windows),
		`[data-testid="window-mark"]`:   len(run.Windows),
		`[data-testid="gate"]`:          len(run.Verdict.Gates),
		`[data-testid="command"]`:       1,
	} {
		if n := page.count(selector); n != want {
			t.Errorf("%d of %s, want %d", n, selector, want)
		}
	}
	for id, want := range map[string]string{
		"verdict-result": "FAIL", "failed": fmt.Sprint(run.Verdict.Failed), "downtime": "≥ 3.1 s",
		"error-rate": "4.4 %", "coverage": "98.25 %", "validity": "incomplete", "live": "ended",
	} {
		if text := strings.ReplaceAll(page.text(`[data-testid="`+id+`"]`), "\u00a0", " "); !strings.Contains(text, want) {
			t.Errorf("%s reads %q, want %q", id, text, want)
		}
	}
	if text := page.text(`[data-testid="prober"]`); !strings.HasSuffix(text, "! incomplete") {
		t.Errorf("the header says that the measurement is incomplete, and the prober's rows %q", text)
	}
	figures := strings.Split(strings.ReplaceAll(page.text(`[data-testid="prober-line"]`), "\u00a0", " "), " · ")
	if !slices.EqualFunc(figures, run.Said.Prober, func(text string, l model.Line) bool { return text == l.Text }) {
		t.Errorf("the prober's figures read %q, want %v", figures, run.Said.Prober)
	}
	for _, id := range []string{"downtime", "error-rate", "latency", "coverage"} {
		if text := page.text(`.figure:has([data-testid="` + id + `"]) .note`); !strings.HasSuffix(text, ", the worst target's") {
			t.Errorf("two targets are judged, and the note of %s is %q", id, text)
		}
	}
	order := eval[[]string](page, `[...document.querySelectorAll('[data-testid="strip"]')].map((s) => s.dataset.id)`)
	if len(order) != 7 || order[0] != "web new" || order[1] != "web reused" || order[6] != "control" {
		t.Errorf("strips stand in the order %q", order)
	}
	outage := outage(t, run)
	page.click(fmt.Sprintf(`[data-testid="window-mark"][data-window-id="%d"]`, outage.ID))
	page.see(`[data-testid="whole-run"]`)
	page.see(why(outage.ID))
	page.picture("zoomed.png")
	page.click(`[data-testid="whole-run"]`)
	page.until("shows the whole run", `!document.querySelector('[data-testid="whole-run"]')`)
	page.picture("light.png")
	page.run(preferDark)
	page.picture("dark.png")
}

// firstScreen checks that a reader need not scroll to know what went wrong: what to do, and the rows that show it, are on
// a screen of 1400 by 900, and beside them what is known of the incident.
func (p *tab) firstScreen() {
	p.t.Helper()
	p.see(`[data-testid="answer-do"]`)
	p.see(`[data-testid="strip"]`)
	const bottom = `document.querySelector('[data-testid=%q]').getBoundingClientRect().bottom`
	for id, most := range map[string]float64{"answer-do": 420, "strip": 800} {
		if at := eval[float64](p, fmt.Sprintf(bottom, id)); at > most {
			p.t.Errorf("%s ends %v pixels below the page's top, want %v at most", id, at, most)
		}
	}
	const side = `document.querySelector('[data-testid="incident"]').getBoundingClientRect()`
	if left := eval[float64](p, side+`.left - document.querySelector('[data-testid="plots"]').getBoundingClientRect().right`); left < 0 {
		p.t.Errorf("the explanation is not beside the timeline (%v pixels)", left)
	}
	p.picture("first.png")
}

// preferDark makes the browser say that its user prefers dark pages.
func preferDark(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
	_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	return chromedp.Void{}, err
}

// picture keeps a screenshot of the whole page as an artifact of the test.
func (p *tab) picture(name string) {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.t.ArtifactDir(), name), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// "No data" must never look like "ok": where the prober stalled, the strip's pixels differ from those of health.
func TestNoDataDoesNotLookLikeHealth(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	show(t, store, sample.Length)
	page := newTab(t, serve(t, store, "127.0.0.1:0").url()+wholeRun)
	page.see(`[data-testid="strip"][data-id="control"] canvas`)
	const colours = `((at) => {
		const canvas = document.querySelector('[data-testid="strip"][data-id="control"] canvas');
		if (canvas.width < 2) return [];
		const x = Math.floor(at / 72 * canvas.width);
		const data = canvas.getContext("2d").getImageData(x - 4, 6, 8, 8).data;
		const seen = new Set();
		for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 4).join());
		return [...seen];
	})`
	page.until("has drawn its strips", colours+"(30).length === 1")
	healthy, unobserved := eval[[]string](page, colours+"(30)"), eval[[]string](page, colours+"(58.6)")
	if len(unobserved) < 2 {
		t.Errorf("no data is drawn plain (%v), want a hatching", unobserved)
	}
	for _, colour := range unobserved {
		if colour == healthy[0] {
			t.Errorf("no data is drawn in the colour of health, %s", colour)
		}
	}
}

const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>"'</td>&lt;`

// Whoever may name a Pod or write an event must not be able to run anything in the operator's browser.
func TestHostileNamesNeverBecomeMarkup(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	run.Tool.Version, run.Run.ID, run.Run.Aborted, run.Run.Unsaved = hostile, hostile, "no reason "+hostile, "no room "+hostile
	run.Run.Services[0].Name = hostile
	run.Run.URLs = []string{"javascript:window.hacked=3//" + hostile}
	run.Run.Command.Args = []string{hostile}
	run.Run.Cluster.Version = hostile
	series := run.Buckets.Targets
	for i := range run.Targets {
		target := &run.Targets[i]
		renamed := fmt.Sprint(target.Name, hostile)
		series[renamed] = series[target.Name]
		delete(series, target.Name)
		one := series[renamed]
		one.Classes = map[string]model.SparseCounts{hostile: {100, 3}, "__proto__": {101, 2}, "constructor": {102, 2}}
		series[renamed] = one
		target.Name, target.URL, target.Pod, target.PodNode = renamed, "javascript:window.hacked=4", "shop/"+hostile, hostile
	}
	for i := range run.Windows {
		w := &run.Windows[i]
		w.Target = hostile
		w.Kind = model.WindowKind(hostile)
		w.Classes = map[string]int{hostile: 1, "__proto__": 2}
		w.Backends = map[string]int{hostile: 1}
		w.Errors = []model.ErrorText{{Class: hostile, Text: hostile + " expired"}}
		w.Causes = []model.Cause{{
			Rule: hostile, Confidence: hostile, Text: hostile, Fix: hostile,
			Evidence: []model.Evidence{{Text: hostile, Target: hostile}}, Rivals: []string{hostile},
		}}
	}
	for i := range run.Incidents {
		in := &run.Incidents[i]
		in.Targets, in.Classes, in.Triggers = []string{hostile, hostile}, map[string]int{hostile: 1}, []model.Trigger{{Text: hostile}}
		in.Causes = []model.IncidentCause{{Cause: run.Windows[0].Causes[0], Windows: []int{1, 2}}}
	}
	for i := range run.Events {
		e := &run.Events[i]
		e.From, e.To, e.Writer, e.Detail = hostile, hostile, hostile, hostile
		e.Addr = netip.IPv6LinkLocalAllNodes().WithZone(hostile)
		if !e.Object.IsZero() {
			e.Object = timeline.Object{Kind: e.Object.Kind, Namespace: hostile, Name: hostile, UID: e.Object.UID, Node: hostile}
		}
	}
	for i := range run.Pods {
		p := &run.Pods[i]
		p.Namespace, p.Name, p.Node, p.IP = hostile, hostile, hostile, hostile
		p.States = append(p.States, model.PodState{Start: 60 * time.Second, State: hostile}, model.PodState{Start: 65 * time.Second, State: "constructor"})
	}
	run.Verdict.Reasons = []string{hostile}
	run.Verdict.Gates[0].Expr = hostile
	run.Verdict.Validity.Control = hostile
	run.Verdict.Validity.LanesOff = []string{hostile}
	for i := range run.Unobserved {
		run.Unobserved[i].Reason = hostile
	}
	verdict.Say(run)
	store := dashboard.NewStore()
	if err := publish.To(store).Show(run, sample.Length); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"__proto__", "constructor", "event/" + hostile, hostile} {
		if err := store.Put(key, map[string]any{"id": hostile, "kind": hostile}); err != nil {
			t.Fatal(err)
		}
	}

	page := newTab(t, serve(t, store, "127.0.0.1:0").url()+"#event=30&filter="+url.QueryEscape(hostile))
	page.openIncidents()
	page.openWindow(1)
	page.see(`[data-testid="event-row"]`)
	if header := page.text(`[data-testid="verdict"]`); !strings.Contains(header, ": no reason "+hostile) || !strings.Contains(header, "not all on disk: no room "+hostile) {
		t.Errorf("the header reads %q", header)
	}
	if texts := page.text(`[data-testid="error-texts"]`); texts != hostile+" "+hostile+" expired" {
		t.Errorf("the errors read %q", texts)
	}
	page.see(`[data-testid="strip"]`)
	x, y := page.place(`[data-testid="errors"]`, 10*s, 0, sample.Length)
	page.run(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
	page.run(chromedp.SendKeys(chromedp.CSS(`[data-testid="event-filter"]`), hostile))
	page.click(`[data-testid="window-mark"]`)
	page.run(chromedp.MouseClickXY(700, 350)) // and move over the strips, for what is said beside the pointer
	page.see(`[data-testid="whole-run"]`)
	if n := page.count("img, iframe, body script, [onerror], a[href^='javascript']"); n != 0 {
		t.Errorf("%d elements came from untrusted text", n)
	}
	if eval[bool](page, "window.hacked !== undefined") {
		t.Error("untrusted text was run")
	}
	if text := page.text(`[data-testid="cause-text"]`); text != hostile {
		t.Errorf("a cause reads %q, want the text as it is", text)
	}
}

// Who wanted a Pod evicted is beside the EvictionRequest, and the filter finds it.
func TestAnEventNamesWhoMadeIt(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	run.Events = append(run.Events, model.Event{Event: timeline.Event{
		ID: 9999, Seen: 5 * s, Kind: timeline.EvictionRequested, From: timeline.EvictionNotRequested, To: timeline.EvictionWanted,
		Object: timeline.Object{Kind: "Pod", Name: "web-1"}, Detail: "upgrade-web-1", Actor: "example.com/upgrade",
	}, At: model.Instant{Earliest: 4 * s, Latest: 5 * s}})
	store := dashboard.NewStore()
	if err := publish.To(store).Show(run, sample.Length); err != nil {
		t.Fatal(err)
	}
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	page.run(chromedp.SendKeys(chromedp.CSS(`[data-testid="event-filter"]`), "example.com/upgrade"))
	page.until("shows it only", `document.querySelectorAll('[data-testid="event-row"]').length === 1`)
	text := page.text(`[data-testid="event-row"]`)
	for _, want := range []string{"eviction-request", "Pod web-1", "absent → Eviction", "upgrade-web-1 (by example.com/upgrade)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}

func TestThousandsOfEventsAreNotThousandsOfElements(t *testing.T) {
	layer.Real(t)
	const events = 20_000
	run := sample.Run(sample.Length)
	run.Events = nil
	for i := range events {
		seen := sample.Length * time.Duration(i) / events
		run.Events = append(run.Events, model.Event{
			Event: timeline.Event{
				ID: uint32(i + 1), Seen: seen,
				Kind: timeline.CommandOutput, Detail: fmt.Sprintf("line %d.", i),
			}, At: model.Instant{Earliest: seen, Latest: seen},
		})
	}
	store := dashboard.NewStore()
	if err := publish.To(store).Show(run, sample.Length); err != nil {
		t.Fatal(err)
	}
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	page.until("begins at the incident", `document.querySelector('[data-testid="event-log"]').scrollTop > 0`)
	eval[float64](page, `document.querySelector('[data-testid="event-log"]').scrollTop = 0`)
	page.see(`[data-testid="event-row"][data-event-id="1"]`)
	if n := page.count(`[data-testid="event-row"]`); n > 100 {
		t.Errorf("%d rows in the document, want only those in view", n)
	}
	eval[float64](page, `document.querySelector('[data-testid="event-log"]').scrollTop = 1e9`)
	page.see(fmt.Sprintf(`[data-testid="event-row"][data-event-id="%d"]`, events))
	page.run(chromedp.SendKeys(chromedp.CSS(`[data-testid="event-filter"]`), "command-output 12345."))
	page.see(`[data-testid="event-row"][data-event-id="12346"]`)
	page.until("shows what the filter keeps only", `document.querySelectorAll('[data-testid="event-row"]').length === 1`)
	if text := page.text(`[data-testid="event-count"]`); text != "1 of 20000" {
		t.Errorf("the count reads %q", text)
	}
}

func TestAThousandWindowsAreNotAThousandRows(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	template := run.Windows[0]
	run.Windows, run.Incidents = nil, nil
	for i := range 1000 {
		w, at := template, time.Duration(i)*70*time.Millisecond
		w.ID, w.Start, w.End = i+1, model.Instant{Earliest: at, Latest: at}, model.Instant{Earliest: at + 10*time.Millisecond, Latest: at + 10*time.Millisecond}
		run.Windows = append(run.Windows, w)
	}
	store := dashboard.NewStore()
	if err := publish.To(store).Show(run, sample.Length); err != nil {
		t.Fatal(err)
	}
	page := newTab(t, serve(t, store, "127.0.0.1:0").url())
	page.see(firstWindow)
	page.see(`[data-testid="strip"]`)
	if rows, marks := page.count(`[data-testid="window-row"]`), page.count(`[data-testid="window-mark"]`); rows != 100 || marks > 200 {
		t.Errorf("%d rows and %d marks, want 100 and as many as there is room for", rows, marks)
	}
	page.click(`[data-testid="more-windows"]`)
	page.until("shows 200", `document.querySelectorAll('[data-testid="window-row"]').length === 200`)
	eval[bool](page, `location.hash = "#window=650", true`)
	page.see(why(650))
}

func TestSeveralTabsFollowTheSameRun(t *testing.T) {
	layer.Real(t)
	store := dashboard.NewStore()
	show(t, store, 5*time.Second)
	url := serve(t, store, "127.0.0.1:0").url()
	first, second := newTab(t, url), newTab(t, url+"#range=10..12")
	first.see(`[data-testid="connection"][data-phase="connected"]`)
	second.see(`[data-testid="connection"][data-phase="connected"]`)
	show(t, store, 11*time.Second)
	first.openIncidents()
	first.see(firstWindow)
	second.openIncidents()
	second.see(firstWindow)
	if first.count(`[data-testid="brush"]`) != 0 || second.count(`[data-testid="brush"]`) != 1 {
		t.Error("what one tab looks at shows in the other")
	}
}
