package dashboard_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"lapse/dashboard"
	"lapse/dashboard/gestures"
	"lapse/dashboard/internal/sample"
	"lapse/dashboard/publish"
)

// BenchmarkPageOnALargeRun opens the page on an hour at 2000 requests per second, with 10 targets, 200 Pods and 5000
// events, pans and zooms it, and tells the time to load (from the navigation to the first complete picture), the
// frames per second and the memory.
//
//	go test ./dashboard -run '^$' -bench PageOnALargeRun -benchtime 3x
func BenchmarkPageOnALargeRun(b *testing.B) {
	store := dashboard.NewStore()
	if err := publish.To(store).Show(sample.Large(), sample.LargeLength); err != nil {
		b.Fatal(err)
	}
	parent, err := browser()
	if err != nil {
		b.Fatal(err)
	}
	site := serve(b, store, "127.0.0.1:0")
	sum := map[string]float64{}
	for b.Loop() {
		ctx, cancel := chromedp.NewContext(parent)
		if err := chromedp.Do(ctx, chromedp.Navigate(site.url())); err != nil {
			b.Fatal(err)
		}
		sum["load-ms"] += number(b, ctx, gestures.When(`document.querySelectorAll('[data-testid="strip"]').length >= 10 && document.querySelector('[data-testid="event-row"]') && document.querySelector('[data-testid="strip"] canvas')?.width > 400`))
		sum["pan-fps"] += number(b, ctx, gestures.FramesPerSecond(gestures.Pan, 3*time.Second))
		sum["zoom-fps"] += number(b, ctx, gestures.FramesPerSecond(gestures.Zoom, 3*time.Second))
		if _, err := cdp.Call(ctx, chromedp.FromContext(ctx).Target, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			b.Fatal(err)
		}
		sum["heap-MB"] += number(b, ctx, gestures.Heap)
		sum["renderer-MB"] += rendererMemory(b, ctx)
		cancel()
	}
	b.ReportMetric(0, "ns/op")
	for unit, value := range sum {
		b.ReportMetric(value/float64(b.N), unit)
	}
}

func number(b *testing.B, ctx context.Context, expression string) float64 {
	b.Helper()
	n, err := chromedp.Run(ctx, chromedp.Evaluate[float64](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// rendererMemory is the memory of the largest of the browser's processes that hold a page, in megabytes of its own
// share.
func rendererMemory(b *testing.B, ctx context.Context) float64 {
	b.Helper()
	var sizes []float64
	info, err := cdp.Call(ctx, chromedp.FromContext(ctx).Browser, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		b.Fatal(err)
	}
	for _, process := range info.ProcessInfo {
		if process.Type == "renderer" {
			sizes = append(sizes, share(b, process.ID))
		}
	}
	return slices.MaxFunc(sizes, cmp.Compare[float64])
}

// share is a process's proportional set size in megabytes.
func share(b *testing.B, pid int64) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); len(fields) > 1 && fields[0] == "Pss:" {
			kilobytes, _ := strconv.ParseFloat(fields[1], 64)
			return kilobytes * 1024 / 1e6
		}
	}
	b.Fatalf("process %d tells no Pss", pid)
	return 0
}
