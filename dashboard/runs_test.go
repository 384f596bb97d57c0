package dashboard_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lapse/correlate/model"
	"lapse/dashboard"
	"lapse/dashboard/internal/past"
	"lapse/internal/history"
	"lapse/internal/layer"
	"lapse/internal/run/saved"
	"lapse/internal/run/screen"
)

// A kept past is what a made-up guard has kept in a directory.
type kept struct {
	past.Past
	dir string
}

// month is that of six Services with 300 runs over 30 days.
var month = sync.OnceValues(func() (kept, error) {
	p := past.Past{Services: 6, Runs: 300, Days: 30, Now: time.Now()}
	dir, err := os.MkdirTemp("", "lapse-month-*")
	monthDir = dir
	return kept{p, dir}, errors.Join(err, p.Keep(dir))
})

// monthDir is its directory, which is removed at the end; empty: it was not made.
var monthDir string

func noRun(string) (*model.Timeline, error) { return nil, errors.New("no run of this test is opened") }

// list opens the page of a month of runs, of which now says how the guard stands. It returns what stops the server, too.
func list(t *testing.T, now func(past.Past) dashboard.Now) (page *tab, stop func()) {
	t.Helper()
	layer.Real(t)
	kept, err := month()
	if err != nil {
		t.Fatal(err)
	}
	folder := screen.Folder(kept.dir, noRun, nil)
	if now != nil {
		folder.Now = func() dashboard.Now { return now(kept.Past) }
	}
	server := httptest.NewServer(dashboard.FolderHandler(folder, http.NotFoundHandler(), dashboard.Options{}))
	t.Cleanup(server.Close)
	page = newTab(t, server.URL)
	page.see(`[data-testid="run"]`)
	return page, func() { server.CloseClientConnections(); server.Close() }
}

// cell is the day of a Service, so many days ago.
func cell(service string, back int) string {
	day := time.Now().UTC().AddDate(0, 0, -back).Format(time.DateOnly)
	return fmt.Sprintf(`button.day[data-service="%s"][data-date="%s"]`, service, day)
}

// rows are the runs in the list.
const rows = `[...document.querySelectorAll('[data-testid="run"]')]`

// The first thing on the page is whether something was dropped in the last day, where, and what to do; and what goes on.
func TestTheListBeginsWithWhatWasDropped(t *testing.T) {
	var sent atomic.Int64
	page, _ := list(t, func(p past.Past) dashboard.Now {
		now := p.Stands()
		now.Services[1].Sent = int(sent.Add(100))
		return now
	})
	if result := eval[string](page, `document.querySelector('[data-testid="answer"]').dataset.result`); result != "fail" {
		t.Errorf("the answer is %q", result)
	}
	text := page.text(`[data-testid="answer"]`)
	for _, want := range []string{"DROPPED", "in the last 24 hours", "shop/cart", "drain of node-", "4 of 800 requests failed", "route-outlives-pod", "Do keep serving", "shop/api ● recording", "shop/cart ● armed"} {
		if !strings.Contains(strings.ReplaceAll(text, "\u00a0", " "), want) {
			t.Errorf("no %q in the answer:\n%s", want, text)
		}
	}
	const figures = `document.querySelector('[data-testid="answer-now"]').innerText`
	before := eval[string](page, figures)
	page.until("shows newer figures", fmt.Sprintf("%s !== %q && %s.includes('of %d')", figures, before, figures, 100*((sent.Load()/100)+1)))
}

// A run that drops requests now is told before all else, and so is who tells of it and what is wrong with the guard.
func TestTheListSaysWhatIsWrongNow(t *testing.T) {
	var speaks atomic.Value
	speaks.Store(dashboard.NoGuard)
	page, _ := list(t, func(p past.Past) dashboard.Now {
		now := p.Stands()
		now.Services[1].Fails, now.Speaks = 12, speaks.Load().(dashboard.Speaker)
		now.Services[3].State, now.Services[3].About = "not measured", "it has no port"
		now.Problems = []string{"Events cannot be written: forbidden"}
		return now
	})
	text := page.text(`[data-testid="answer"]`)
	for _, want := range []string{"DROPS NOW", "shop/api: 12 of", "the run so far", "No guard leads", "Events cannot be written: forbidden", "shop/ledger ● not measured", "it has no port"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the answer:\n%s", want, text)
		}
	}
	speaks.Store(dashboard.OtherGuard)
	page.until("says that another guard leads", `document.querySelector('[data-testid="answer-guard"]').innerText.includes("Another guard leads")`)
	speaks.Store(dashboard.ThisGuard)
	page.until("says nothing of who leads", `!document.querySelector('[data-testid="answer-guard"]')`)
}

// While the guard is away the page says so, and shows what it knew.
func TestTheListSaysThatTheGuardIsAway(t *testing.T) {
	page, stop := list(t, past.Past.Stands)
	page.see(`[data-testid="connection"][data-phase="connected"]`)
	stop()
	page.see(`[data-testid="connection"][data-phase="disconnected"]`)
	if text := page.text(`[data-testid="connection"]`); !strings.Contains(text, "the guard has not answered since") || !strings.Contains(text, "as it was then") {
		t.Errorf("the page says %q", text)
	}
	page.connectionIsInTheBar()
	page.see(`[data-testid="run"]`)
}

// Each Service has a strip of days; a click on one lists its runs, the address keeps that, and a second click lists all.
func TestADayListsItsRuns(t *testing.T) {
	page, _ := list(t, past.Past.Stands)
	if n := page.count(`[data-testid="service"]`); n != 6 {
		t.Errorf("%d Services", n)
	}
	if n := page.count(`button.day[data-service="shop/web"]`); n != 30 {
		t.Errorf("%d days", n)
	}
	// which day that is depends on the time of day
	day := eval[string](page, `document.querySelector('button.day[data-service="shop/web"][data-outcome="dropped"]').dataset.date`)
	dropped := fmt.Sprintf(`button.day[data-service="shop/web"][data-date="%s"]`, day)
	if label := eval[string](page, `document.querySelector('`+dropped+`').getAttribute("aria-label")`); !strings.HasPrefix(label, "shop/web, ") || !strings.Contains(label, "dropped requests (") {
		t.Errorf("a day is labelled %q", label)
	}
	all := page.count(`[data-testid="run"]`)
	page.click(dropped)
	of := rows + `.every((r) => r.innerText.includes("shop/web") && r.innerText.includes("` + day + `"))`
	page.until("lists the runs of the day", of+` && `+rows+`.length > 0 && `+rows+`.length < 4`)
	page.see(dropped + `[aria-pressed="true"]`)
	page.run(chromedp.Reload())
	page.until("lists them after a reload", of+` && `+rows+`.length > 0`)
	page.click(dropped)
	page.until("lists all again", rows+`.length === `+fmt.Sprint(all))
}

// A run of which only its line is left is in the list, and leads nowhere.
func TestRunsThatAreGoneAreListed(t *testing.T) {
	layer.Real(t)
	dir := t.TempDir()
	p := past.Past{Services: 1, Runs: 2, Days: 1, Now: time.Now()}
	if err := p.Keep(dir); err != nil {
		t.Fatal(err)
	}
	names := screen.Folder(dir, noRun, nil).Runs().Listed
	day := names[0].Began.UTC().Format(time.DateOnly)
	if err := os.RemoveAll(dir + "/" + names[0].Name); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(dashboard.FolderHandler(screen.Folder(dir, noRun, nil), http.NotFoundHandler(), dashboard.Options{}))
	t.Cleanup(server.Close)
	page := newTab(t, server.URL+"#day="+day)
	page.see(`[data-testid="gone"]`)
	row := fmt.Sprintf(`[data-run="%s"]`, names[0].Name)
	if text := page.text(row); !strings.Contains(text, "gone") || !strings.Contains(text, "0 / 800") {
		t.Errorf("it is listed as %q", text)
	}
	if n := page.count(row + " a, " + row + " input"); n != 0 {
		t.Errorf("it has %d links and boxes", n)
	}
}

// A day on which the guard was away for hours does not look like one on which all was well.
func TestADayThatWasNotObservedDoesNotLookHealthy(t *testing.T) {
	page, _ := list(t, past.Past.Stands)
	look := func(selector string) string {
		return eval[string](page, `getComputedStyle(document.querySelector('`+selector+`')).backgroundImage + getComputedStyle(document.querySelector('`+selector+`'), "::after").backgroundColor`)
	}
	away, well := cell("shop/mail", 3), cell("shop/mail", 2)
	if label := eval[string](page, `document.querySelector('`+away+`').title`); !strings.Contains(label, "a guard observed 50\u00a0% of it") {
		t.Errorf("the day is labelled %q", label)
	}
	if a, b := look(away), look(well); !strings.Contains(a, "gradient") || strings.Contains(b, "gradient") || a == b {
		t.Errorf("a day that was not observed looks like %s, and another one like %s", a, b)
	}
}

// On the day on which a guard was installed nothing was missed: it says since when it measures.
func TestTheFirstDayOfAGuardIsMeasuredSinceItBegan(t *testing.T) {
	layer.Real(t)
	dir, now := t.TempDir(), time.Now().UTC()
	today := now.Sub(now.Truncate(24 * time.Hour))
	var o history.Observed
	o.Add(now, map[string]time.Duration{"shop/web": today / 2})
	if err := saved.WriteObserved(dir, o); err != nil {
		t.Fatal(err)
	}
	folder := screen.Folder(dir, noRun, nil)
	folder.Now = func() dashboard.Now { return past.Past{Services: 1, Now: now}.Stands() }
	server := httptest.NewServer(dashboard.FolderHandler(folder, http.NotFoundHandler(), dashboard.Options{}))
	t.Cleanup(server.Close)
	page := newTab(t, server.URL)
	page.see(cell("shop/web", 0) + `[data-outcome="nothing"]`)
	since := now.Add(-today / 2).Format("15:04")
	if label := eval[string](page, `document.querySelector('`+cell("shop/web", 0)+`').title`); !strings.Contains(label, "nothing happened, measured since "+since) {
		t.Errorf("the first day is labelled %q", label)
	}
	text := page.text(`[data-testid="answer"]`)
	for _, want := range []string{"NOTHING HAPPENED", "measured since " + now.Format(time.DateOnly) + " " + since + " UTC: shop/web"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the answer:\n%s", want, text)
		}
	}
}

// The strips are one stop of the Tab key; the arrow keys go from day to day and from Service to Service.
func TestDaysAreReachedByKeyboard(t *testing.T) {
	page, _ := list(t, past.Past.Stands)
	if n := page.count(`button.day[tabindex="0"]`); n != 1 {
		t.Errorf("%d days are stops of the Tab key", n)
	}
	eval[bool](page, `document.querySelector('button.day[tabindex="0"]').focus(), true`)
	focused := func(service string, back int) {
		t.Helper()
		page.until(fmt.Sprint("is at ", service, ", ", back, " days ago"), `document.activeElement.matches('`+cell(service, back)+`')`)
	}
	focused("shop/api", 0)
	for _, step := range []struct {
		key     string
		service string
		back    int
	}{{"ArrowLeft", "shop/api", 1}, {"ArrowDown", "shop/cart", 1}, {"Home", "shop/cart", 29}, {"ArrowLeft", "shop/cart", 29}, {"End", "shop/cart", 0}, {"ArrowUp", "shop/api", 0}} {
		eval[bool](page, `document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "`+step.key+`", bubbles: true, cancelable: true }))`)
		focused(step.service, step.back)
	}
	page.until("says what the day showed", `document.querySelector('[data-testid="day-said"]').innerText.startsWith("shop/api, `+time.Now().UTC().Format(time.DateOnly)+`: ")`)
	if n := page.count(`button.day[tabindex="0"]`); n != 1 {
		t.Errorf("%d days are stops of the Tab key", n)
	}
}

// Two ticked runs are compared, the older one first; a third takes the place of the first.
func TestTwoTickedRunsAreCompared(t *testing.T) {
	page, _ := list(t, past.Past.Stands)
	tick := func(i int) string {
		name := eval[string](page, fmt.Sprintf(`%s[%d].dataset.run`, rows, i))
		page.click(fmt.Sprintf(`[data-run="%s"] input`, name))
		page.see(fmt.Sprintf(`[data-run="%s"].selected`, name))
		return name
	}
	tick(0)
	if n := page.count(`[data-testid="compare"]`); n != 0 || !strings.Contains(page.text(`[data-testid="compare-bar"]`), "tick another one") {
		t.Errorf("of one ticked run the page says %q", page.text(`[data-testid="compare-bar"]`))
	}
	older := tick(7)
	newer := tick(3)
	page.until("has two ticked", `document.querySelectorAll('[data-testid="run"].selected').length === 2`)
	if to := eval[string](page, `document.querySelector('[data-testid="compare"]').getAttribute("href")`); to != "?compare="+older+"%2C"+newer {
		t.Errorf("they are compared at %q", to)
	}
	page.click(`[data-testid="compare"]`)
	page.until("compares them", `document.title.includes("`+older+` and `+newer+`")`)
}

// Of hundreds of runs 50 are in the document, and with each click more; a Service and a verdict can be chosen.
func TestRunsArePagedAndFiltered(t *testing.T) {
	page, _ := list(t, past.Past.Stands)
	shown := func(n int) { t.Helper(); page.until(fmt.Sprint("has ", n, " runs"), rows+`.length === `+fmt.Sprint(n)) }
	choose := func(testid, value string) {
		t.Helper()
		eval[bool](page, fmt.Sprintf(`(() => { const s = document.querySelector('[data-testid="%s"]'); s.value = %q; return s.dispatchEvent(new Event("change", { bubbles: true })); })()`, testid, value))
	}
	shown(50)
	page.click(`[data-testid="more-runs"]`)
	shown(100)
	choose("filter-service", "shop/web")
	page.until("lists those of one Service", rows+`.length === 50 && `+rows+`.every((r) => r.innerText.includes("shop/web"))`)
	choose("filter-outcome", "dropped")
	page.until("lists those that dropped requests", rows+`.length > 5 && `+rows+`.every((r) => r.innerText.includes("FAIL"))`)
	if text := page.text(`[data-testid="run-count"]`); !strings.Contains(text, "of 300\u00a0runs") {
		t.Errorf("the count is %q", text)
	}
	if text := page.text(`[data-testid="run"]`); !strings.Contains(text, "099eb2ee0") {
		t.Errorf("the release is not in %q", text)
	}
	page.see(`[data-testid="trend"] [data-testid="release"]`) // of the Service that is chosen
	if text := page.text(`[data-testid="trend"]`); !strings.Contains(text, "enough runs for") || strings.Contains(text, "shop/api") || !strings.Contains(text, "04cf59770") || !strings.Contains(text, "12 of 17") {
		t.Errorf("the trend is %q", text)
	}
	page.click(`[data-testid="filter-none"]`)
	shown(50)
}

// Of many Services those are shown first of which something is to be said.
func TestFiftyServicesAreNotFiftyRows(t *testing.T) {
	many := past.Past{Services: 50}
	page, _ := list(t, func(past.Past) dashboard.Now { return many.Stands() })
	services := `document.querySelectorAll('[data-testid="service"]').length`
	if n := eval[int](page, services); n < 2 || n > 16 {
		t.Errorf("%d Services of 50 are shown", n)
	}
	page.click(`[data-testid="all-services"]`)
	page.until("shows all", services+` === 50`)
}

// A folder of runs without a guard is the same list. Nobody claims that nothing happened on other days.
func TestAFolderWithoutAGuardIsTheSameList(t *testing.T) {
	page, _ := list(t, nil)
	if n := page.count(`[data-testid="watched"]`); n != 0 {
		t.Errorf("%d Services have a state", n)
	}
	if text := page.text(`[data-testid="answer"]`); !strings.Contains(text, "in the 24 hours until") || !strings.Contains(text, "shop/cart") {
		t.Errorf("the answer is %q", text)
	}
	page.see(`[data-testid="service"]`)
}

// The page has no part that is cut off, or only reached by scrolling sideways, at any width; and it is dark at night.
func TestTheListFitsAndIsAccessible(t *testing.T) {
	page, _ := list(t, past.Past.Stands)
	axe, err := os.ReadFile("ui/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("the page's accessibility is tested with axe-core: %v\nhint: make ui", err)
	}
	url := eval[string](page, "location.href")
	page.run(bypassPolicy, chromedp.Navigate(url))
	page.see(`[data-testid="run"]`)
	page.click(`[data-testid="trend"] summary`)
	page.see(`[data-testid="release"]`)
	page.click(`[data-testid="run"] input`)
	page.see(`[data-testid="compare-bar"]`)
	eval[bool](page, string(axe)+"; true")
	for _, width := range []int64{1400, 1200, 800, 420} {
		page.run(chromedp.EmulateViewport(width, 1000))
		page.until(fmt.Sprint("fits in ", width), `document.documentElement.scrollWidth <= innerWidth && innerWidth === `+fmt.Sprint(width))
		check(t, page, fmt.Sprint("light, ", width))
	}
	const ground = `getComputedStyle(document.body).backgroundColor`
	light := eval[string](page, ground)
	page.run(preferDark)
	page.until("is dark", ground+` !== "`+light+`"`)
	check(t, page, "dark")
}
