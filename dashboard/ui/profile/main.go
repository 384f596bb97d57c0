// Command profile says what a page that lapse serves costs its browser: how long until the verdict and the first rows
// are shown, how many bytes of files came until then (not of the stream), how many frames per second there are while
// it scrolls, pans and zooms, and which functions took the time.
//
//	lapse serve runs/drain --dashboard 127.0.0.1:7070 &
//	go run ./dashboard/ui/profile http://127.0.0.1:7070/
//
// The page is built without names of functions. `npx vite build --minify false` keeps them.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/profiler"
	"github.com/chromedp/chromedp"

	"lapse/dashboard/ui/gestures"
)

const patience = 2 * time.Minute

func main() {
	most := flag.Int("n", 15, "how many functions are listed")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("profile takes one argument: the page's address")
	}
	if err := run(flag.Arg(0), *most); err != nil {
		log.Fatal(err)
	}
}

func run(url string, most int) error {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return fmt.Errorf("find a browser (apt-get install chromium): %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 1500), chromedp.WSURLReadTimeout(patience))...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1400, 1500), call(profiler.Enable), call(profiler.Start)); err != nil {
		return err
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		return err
	}
	for _, moment := range []struct{ name, expression string }{
		{"verdict shown", gestures.When(gestures.Verdict)},
		{"rows drawn", gestures.When(gestures.Rows)},
	} {
		ms, err := number(ctx, moment.expression)
		if err != nil {
			return err
		}
		fmt.Printf("%-16s %8.0f ms after the navigation\n", moment.name, ms)
	}
	if err := tell(ctx, "bytes of files, kB", `performance.getEntriesByType("resource").reduce((sum, r) => sum + r.encodedBodySize, 0) / 1e3`, "unpacked, kB",
		`performance.getEntriesByType("resource").reduce((sum, r) => sum + r.decodedBodySize, 0) / 1e3`, "heap, MB", gestures.Heap, "elements", `document.querySelectorAll("*").length`, "canvases", `document.querySelectorAll("canvas").length`); err != nil {
		return err
	}
	if err := profile(ctx, "loading", most); err != nil {
		return err
	}
	for _, gesture := range []struct{ name, do string }{
		{"scrolling", gestures.Scroll},
		{"panning", gestures.Pan},
		{"zooming", gestures.Zoom},
	} {
		if err := chromedp.Do(ctx, call(profiler.Start)); err != nil {
			return err
		}
		if err := tell(ctx, gesture.name+", frames per second", gestures.FramesPerSecond(gesture.do, 4*time.Second)); err != nil {
			return err
		}
		if err := profile(ctx, gesture.name, most); err != nil {
			return err
		}
	}
	return nil
}

// call is a command to the browser that takes nothing.
func call[R any](of cdp.Command[cdp.Empty, R]) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, of, cdp.Empty{})
		return chromedp.Void{}, err
	}
}

func number(ctx context.Context, expression string) (float64, error) {
	return chromedp.Run(ctx, chromedp.Evaluate[float64](expression, chromedp.EvalAwaitPromise))
}

// tell prints figures: name, expression, name, expression.
func tell(ctx context.Context, of ...string) error {
	for i := 0; i < len(of); i += 2 {
		n, err := number(ctx, of[i+1])
		if err != nil {
			return err
		}
		fmt.Printf("%-32s %8.1f\n", of[i], n)
	}
	return nil
}

// profile ends a profile and lists the functions that took the most time themselves.
func profile(ctx context.Context, name string, most int) error {
	taken, err := chromedp.Run(ctx, func(ctx context.Context, target *chromedp.Target) (*profiler.Profile, error) {
		r, err := cdp.Call(ctx, target, profiler.Stop, cdp.Empty{})
		return r.Profile, err
	})
	if err != nil {
		return err
	}
	self, nodes := map[string]float64{}, map[int64]string{}
	total := 0.0
	for _, n := range taken.Nodes {
		nodes[n.ID] = fmt.Sprintf("%s:%d", cmp.Or(n.CallFrame.FunctionName, "(anonymous)"), n.CallFrame.LineNumber+1)
	}
	for i, id := range taken.Samples {
		ms := float64(taken.TimeDeltas[i]) / 1000
		self[nodes[id]] += ms
		total += ms
	}
	names := make([]string, 0, len(self))
	for name := range self {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(self[b], self[a]) })
	fmt.Fprintf(os.Stdout, "  while %s: %.0f ms\n", name, total)
	for _, name := range names[:min(most, len(names))] {
		fmt.Printf("  %8.0f ms  %4.1f %%  %s\n", self[name], 100*self[name]/total, name)
	}
	return nil
}
