package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// picture takes pictures of a page in light and dark.
func picture(flags *flag.FlagSet) func(context.Context) error {
	out := flags.String("o", "page", "where to write: -light.png and -dark.png are added")
	width := flags.Int("width", 1280, "width of the page in pixels")
	hover := flags.Int("hover", -1, "x of the pointer, resting on the first strip; none if negative")
	first := flags.String("do", "", "JavaScript to run before the picture is taken")
	return func(ctx context.Context) error {
		if flags.NArg() != 1 {
			return errors.New("picture takes one argument: the page's address")
		}
		path, err := exec.LookPath("chromium")
		if err != nil {
			return fmt.Errorf("find a browser (apt-get install chromium): %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.WindowSize(*width, 1000), chromedp.WSURLReadTimeout(patience))...)
		defer cancel()
		ctx, cancel = chromedp.NewContext(ctx)
		defer cancel()
		for _, theme := range []string{"light", "dark"} {
			file := fmt.Sprintf("%s-%s.png", *out, theme)
			err = errors.Join(err, shot(ctx, flags.Arg(0), theme, file, *hover, *first))
		}
		return err
	}
}

// patience is how long the browser may take.
const patience = 60 * time.Second

// shot takes a picture in one theme.
func shot(ctx context.Context, url, theme, file string, hover int, first string) error {
	steps := []chromedp.Action[chromedp.Void]{
		prefer(theme), chromedp.Navigate("about:blank"), chromedp.Navigate(url),
		chromedp.WaitVisible(chromedp.CSS(`[data-testid="strip"], [data-testid="run"]`)),
	}
	if first != "" {
		steps = append(steps, script(first))
	}
	steps = append(steps, chromedp.Sleep(500*time.Millisecond)) // until all is drawn
	if hover >= 0 {
		steps = append(steps, script(fmt.Sprintf(`{
			const row = document.querySelector('[data-testid="strip"]'), y = row.getBoundingClientRect().top + 15;
			row.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: %d, clientY: y}));
		}`, hover)))
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		return fmt.Errorf("open %s: %w", url, err)
	}
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		return fmt.Errorf("take a picture of %s: %w", url, err)
	}
	return os.WriteFile(file, png, 0o644)
}

// script runs JavaScript in the page.
func script(source string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[bool]("{"+source+"}; true")(ctx, target)
		return chromedp.Void{}, err
	}
}

// prefer makes the browser say that its user prefers pages in a theme.
func prefer(theme string) func(context.Context, *chromedp.Target) (chromedp.Void, error) {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
		})
		return chromedp.Void{}, err
	}
}
