package dashboard_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"lapse/dashboard"
	"lapse/dashboard/internal/sample"
	"lapse/internal/layer"
	"lapse/timeline"
)

// openSample opens the page on the whole made-up run, at a place of it.
func openSample(t *testing.T, fragment string) *tab {
	t.Helper()
	store := dashboard.NewStore()
	show(t, store, sample.Length)
	page := newTab(t, serve(t, store, "127.0.0.1:0").url()+fragment)
	page.see(`[data-testid="incident"]`)
	page.until("has drawn its rows", `((c) => (c.scrollIntoView({block: "nearest"}), c.width > 300))(document.querySelector('[data-testid="strip"] canvas'))`)
	return page
}

// place is where an instant stands on a row's plot, in pixels of the page.
func (p *tab) place(row string, at, from, to time.Duration) (x, y float64) {
	p.t.Helper()
	box := eval[[]float64](p, fmt.Sprintf(`(() => {
		const canvas = document.querySelector(%q);
		canvas.scrollIntoView({block: "nearest"});
		const b = canvas.getBoundingClientRect();
		return [b.left, b.top + b.height / 2, b.width];
	})()`, row+" canvas"))
	return box[0] + box[2]*float64(at-from)/float64(to-from), box[1]
}

// drag moves the pointer from one place to another with its button down.
func (p *tab) drag(x0, x1, y float64, options ...chromedp.MouseOption) {
	p.t.Helper()
	left := append(options, chromedp.ButtonLeft, held)
	steps := []chromedp.Action[chromedp.Void]{
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x0, y),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, x0, y, append(left, chromedp.ClickCount(1))...),
	}
	for i := 1; i <= 4; i++ {
		steps = append(steps, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x0+(x1-x0)*float64(i)/4, y, left...))
	}
	p.run(append(steps, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, x1, y, append(options, chromedp.ButtonLeft)...))...)
}

// held tells the page that the left button is down while the pointer moves.
func held(e *input.DispatchMouseEventParams) { e.Buttons = 1 }

// press presses keys one after the other.
func (p *tab) press(keys string) {
	p.t.Helper()
	p.run(chromedp.KeyEvent(keys))
}

var stretch = regexp.MustCompile(`^(-?[\d.]+)\.\.(-?[\d.]+)$`)

// address waits until the page's fragment holds a stretch of time under a name, about as long as wanted, and returns
// it in seconds.
func (p *tab) address(name string) (from, to float64) {
	p.t.Helper()
	p.until("has "+name+" in its address", fmt.Sprintf(`/\.\./.test(new URLSearchParams(location.hash.slice(1)).get(%q))`, name))
	text := eval[string](p, fmt.Sprintf(`new URLSearchParams(location.hash.slice(1)).get(%q)`, name))
	m := stretch.FindStringSubmatch(text)
	if m == nil {
		p.t.Fatalf("the address holds %s=%q", name, text)
	}
	from, _ = strconv.ParseFloat(m[1], 64)
	to, _ = strconv.ParseFloat(m[2], 64)
	return from, to
}

// near fails the test if a stretch is not what it should be, to within a pixel or two.
func (p *tab) near(what string, from, to, wantFrom, wantTo float64) {
	p.t.Helper()
	if slack := 0.004 * (wantTo - wantFrom + 20); math.Abs(from-wantFrom) > slack || math.Abs(to-wantTo) > slack {
		p.t.Errorf("%s is %.3f to %.3f s, want %.3f to %.3f", what, from, to, wantFrom, wantTo)
	}
}

const (
	strip    = `[data-testid="strip"][data-id="web new"]`
	overview = `[data-testid="overview"]`
	s        = time.Second

	wholeRun = "#range=all" // the fragment of a page that shows the whole run, not the incident that it opens on
)

// A step of a pan draws the rows, and changes no element in them or around them: where one moves, the browser sorts
// the layers of the whole page anew.
func TestPanningChangesNoElements(t *testing.T) {
	layer.Real(t)
	page := openSample(t, "#range=40..44")
	page.see(`[data-testid="brush"]`)
	changed := chromedp.Evaluate[[]string](`new Promise((done) => {
		const changes = new Set(), plots = document.querySelector('[data-testid="plots"]');
		const note = (all) => all.forEach((m) => {
			const e = m.target.nodeType === Node.TEXT_NODE ? m.target.parentElement : m.target;
			if (!e.closest(".over, .marks, .band, .hairline, .readout")) changes.add([m.type, m.attributeName, e.tagName, e.className, e.closest("[data-testid]")?.dataset.testid].join(" "));
		});
		const observer = new MutationObserver(note);
		const axis = plots.querySelector('[data-testid="axis"] canvas'), before = axis.toDataURL();
		observer.observe(plots, {subtree: true, childList: true, attributes: true, characterData: true});
		const row = plots.querySelector('[data-testid="strip"] canvas'), box = row.getBoundingClientRect();
		row.dispatchEvent(new WheelEvent("wheel", {bubbles: true, cancelable: true, clientX: box.left + box.width / 2, clientY: box.top + 5, deltaX: 40}));
		const look = (tries) => { // at once: what rests later renders what it lists
			if (axis.toDataURL() === before) return tries ? Promise.resolve().then(() => look(tries - 1)) : done(["nothing: the axis was not drawn anew"]);
			note(observer.takeRecords());
			observer.disconnect();
			done([...changes]);
		};
		look(100);
	})`, chromedp.EvalAwaitPromise)
	changes, err := chromedp.Run(page.ctx, changed)
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) != 0 {
		t.Errorf("a step of a pan changed elements:\n%s", strings.Join(changes, "\n"))
	}
}

func TestDraggingZooms(t *testing.T) {
	layer.Real(t)
	page := openSample(t, wholeRun)
	x0, y := page.place(strip, 40*s, 0, sample.Length)
	x1, _ := page.place(strip, 48*s, 0, sample.Length)
	page.drag(x0, x1, y)
	from, to := page.address("range")
	page.near("what is shown", from, to, 40, 48)
	page.see(`[data-testid="brush"]`)

	x0, y = page.place(overview, 44*s, 0, sample.Length)
	x1, _ = page.place(overview, 54*s, 0, sample.Length)
	page.drag(x0, x1, y)
	page.until("shows what was dragged to on the overview", `parseFloat(/range=([\d.]+)/.exec(location.hash)[1]) > 49`)
	from, to = page.address("range")
	page.near("what is shown after moving the brush by 10 s", from, to, 50, 58)

	page.press("0")
	page.until("shows the whole run", `location.hash === "#range=all" && !document.querySelector('[data-testid="brush"]')`)
}

func TestDraggingWithShiftMeasures(t *testing.T) {
	layer.Real(t)
	page := openSample(t, wholeRun)
	x0, y := page.place(strip, 42*s, 0, sample.Length)
	x1, _ := page.place(strip, 45*s, 0, sample.Length)
	page.drag(x1, x0, y, chromedp.ButtonModifiers(chromedp.ModifierShift))
	page.see(`[data-testid="measured"]`)
	from, to := page.address("measure")
	page.near("what was measured", from, to, 42, 45)
	if text := page.text(`[data-testid="measured"]`); !strings.Contains(text, "Δ 2.9") && !strings.Contains(text, "Δ 3\u00a0s") {
		t.Errorf("the measurement reads %q", text)
	}
	page.press("0")
	page.until("shows no measurement any more", `!document.querySelector('[data-testid="measured"]')`)
}

func TestTheWheelZoomsAboutThePointer(t *testing.T) {
	layer.Real(t)
	page := openSample(t, wholeRun)
	x, y := page.place(strip, 36*s, 0, sample.Length)
	page.run(wheel(x, y, 0, -300, chromedp.ButtonModifiers(chromedp.ModifierCtrl)))
	from, to := page.address("range")
	half := 36 / math.E
	page.near("what is shown", from, to, 36-half, 36+half)
	page.run(wheel(x, y, 100, 0))
	page.until("shows later", fmt.Sprintf(`parseFloat(/range=([\d.]+)/.exec(location.hash)[1]) > %f`, from+1))
}

// wheel turns the wheel at a place.
func wheel(x, y, dx, dy float64, options ...chromedp.MouseOption) chromedp.Action[chromedp.Void] {
	const little = 0.001 // zeros would be left out of the message, and the browser wants both
	turn := func(e *input.DispatchMouseEventParams) { e.DeltaX, e.DeltaY = dx+little, dy+little }
	return chromedp.MouseEvent(input.DispatchMouseEventTypeMouseWheel, x, y, append(options, turn)...)
}

// Wherever the cursor stands, every row says its exact value there.
func TestEveryRowTellsItsValueAtTheCursor(t *testing.T) {
	layer.Real(t)
	page := openSample(t, wholeRun)
	outage := outage(t, sample.Run(sample.Length))
	x, y := page.place(strip, 43*s, 0, sample.Length)
	page.run(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
	page.see(`.pointing`)
	for row, want := range map[string]string{
		strip: fmt.Sprintf("window %d: %d of %d failed", outage.ID, outage.Failed, outage.Sent),
		`[data-testid="strip"][data-id="control"]`: "0 of 10 failed",
		`[data-testid="ready-endpoints"]`:          "0\u00a0ready endpoints",
		`[data-testid="node-lane"]`:                "cordoned", // the first that changes: node-b
		`[data-testid="pod-lane"]`:                 "terminating",
		`[data-testid="errors"]`:                   "timeout_connect",
		`[data-testid="latency"]`:                  "no answer",
		`[data-testid="command"]`:                  "running",
	} {
		if text := page.text(row + " .told"); !strings.Contains(text, want) {
			t.Errorf("%s says %q at 43 s, want %q", row, text, want)
		}
	}
	if text := page.text(`[data-testid="readout"]`); !strings.Contains(text, "02:21:2") || !strings.Contains(text, "+4") {
		t.Errorf("the cursor says %q, want the time of day and that after the start", text)
	}
}

func TestEverythingWorksByKeyboard(t *testing.T) {
	layer.Real(t)
	page := openSample(t, wholeRun)
	selected := func(id string) {
		t.Helper()
		page.until("has selected window "+id, `new URLSearchParams(location.hash.slice(1)).get("window") === "`+id+`"`)
		page.see(`[data-testid="why"][data-window-id="` + id + `"]`)
	}
	page.press("]")
	page.until("has selected a window", `location.hash.includes("window=")`)
	first := eval[int](page, `+new URLSearchParams(location.hash.slice(1)).get("window")`)
	windows := len(sample.Run(sample.Length).Windows)
	page.press(strings.Repeat("[", windows))
	page.until("has come to the first window", `document.querySelector('[data-testid="window-row"].selected') === document.querySelector('[data-testid="window-row"]')`)
	if first < 1 || first > windows {
		t.Errorf("] selected window %d", first)
	}
	page.press("]]")
	selected("3")
	from, to := page.address("range")

	page.press("+")
	page.until("shows half as much", fmt.Sprintf(`((a) => a && a[2] - a[1] < %f)(/range=([\d.]+)\.\.([\d.]+)/.exec(location.hash))`, (to-from)*0.51))
	page.press("-")
	page.until("shows as much as before", fmt.Sprintf(`((a) => a && a[2] - a[1] > %f)(/range=([\d.]+)\.\.([\d.]+)/.exec(location.hash))`, (to-from)*0.99))
	page.run(chromedp.KeyEvent("\u0303")) // arrow right
	page.until("shows later", fmt.Sprintf(`parseFloat(/range=([\d.]+)/.exec(location.hash)[1]) > %f`, from))

	page.press(">>m>>")
	page.until("tells the time since the mark", `document.querySelector('[data-testid="readout"]').textContent.includes("Δ")`)
	page.press("m")
	from, to = page.address("measure")
	if to <= from {
		t.Errorf("measured from %f to %f", from, to)
	}

	page.press("?")
	page.see(`[data-testid="help"][open]`)
	page.press("0") // is not for the page while the help is open
	page.run(chromedp.KeyEvent("\u001b"))
	page.until("shows no help any more", `!document.querySelector('[data-testid="help"]')`)
	page.see(`[data-testid="measured"]`)

	page.press("/")
	page.until("has its filter in focus", `document.activeElement?.dataset.testid === "event-filter"`)
	page.press("u]killing")
	page.until("took the keys as text", `document.activeElement.value.endsWith("u]killing")`)
	page.run(chromedp.KeyEvent("\u001b"))

	page.press("u")
	page.until("shows another zone", `document.querySelector('[data-testid="zone"]').textContent.startsWith("Local")`)
	page.press("u")
	page.press("t")
	page.until("is light", `document.documentElement.dataset.theme === "light" && document.querySelector('[data-testid="theme"]').textContent.includes("Light")`)
	page.press("t")
	page.until("is dark", `document.documentElement.dataset.theme === "dark"`)
	page.run(chromedp.Reload())
	page.until("is dark still", `document.documentElement.dataset.theme === "dark" && document.querySelector('[data-testid="strip"]')`)
	page.press("t")
}

func TestALinkShowsTheSameToWhoeverOpensItAndAfterReload(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	var deleted uint32
	named := 0
	for _, e := range run.Events {
		if strings.Contains(e.Detail, "9fw4t") || strings.Contains(e.Object.Name, "9fw4t") {
			named++
			if e.Kind == timeline.PodDeleted {
				deleted = e.ID
			}
		}
	}
	outage := outage(t, run)
	page := openSample(t, fmt.Sprintf("#window=%d&event=%d&range=40..47&measure=42.441..45.502&filter=9fw4t", outage.ID, deleted))
	check := func() {
		t.Helper()
		page.see(why(outage.ID))
		page.see(fmt.Sprintf(`[data-testid="event-row"][data-event-id="%d"][aria-selected="true"]`, deleted))
		page.see(`[data-testid="brush"]`)
		if text := page.text(`[data-testid="range"]`); !strings.Contains(text, "02:21:18 to 02:21:25") {
			t.Errorf("the range reads %q", text)
		}
		if text := page.text(`[data-testid="measured"]`); !strings.Contains(text, "3.06") {
			t.Errorf("the measurement reads %q", text)
		}
		if text := page.text(`[data-testid="event-count"]`); text != fmt.Sprintf("%d of %d", named, len(run.Events)) {
			t.Errorf("the filter leaves %q", text)
		}
	}
	check()
	eval[bool](page, "window.notReloaded = true")
	page.run(chromedp.Reload())
	page.until("was reloaded", "window.notReloaded === undefined")
	check()
	// Another link in the same tab is followed without loading anything.
	eval[bool](page, `location.hash = "#filter=killing&range=all", window.notReloaded = true`)
	page.until("shows the other place", `!document.querySelector('[data-testid="brush"]') && document.querySelector('[data-testid="event-filter"]').value === "killing" && window.notReloaded`)
}

func TestASelectedEventIsShownOnTheTimeline(t *testing.T) {
	layer.Real(t)
	page := openSample(t, "")
	page.run(chromedp.SendKeys(chromedp.CSS(`[data-testid="event-filter"]`), "pod-deleted"))
	page.until("shows those only", `document.querySelectorAll('[data-testid="event-row"]').length === 3`)
	page.click(`[data-testid="event-row"]`)
	page.see(`[data-testid="event-row"][aria-selected="true"]`)
	page.see(`.pinned`)
	from, to := page.address("range")
	if from > 9.44 || to < 10.44 || to-from > 5 { // it happened at most a second before it was seen
		t.Errorf("shows %f to %f s, want the surroundings of 10.44", from, to)
	}
	page.run(chromedp.Focus(chromedp.CSS(`[data-testid="event-log"]`)), chromedp.KeyEvent("\u0301")) // arrow down
	page.until("shows the next event", `parseFloat(/range=([\d.]+)/.exec(location.hash)[1]) > 30`)
	page.openIncidents()
	page.openWindow(1)
	page.click(why(1) + ` [data-testid="evidence"] button`)
	page.until("shows the evidence's event", `parseFloat(/range=([\d.]+)/.exec(location.hash)[1]) < 20`)
}
