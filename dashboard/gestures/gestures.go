// Package gestures has what a browser is asked to measure the page: JavaScript whose promise ends in a number.
package gestures

import (
	"fmt"
	"time"
)

// What is done in each frame. i counts the frames; turn turns the wheel over the first row.
const (
	Scroll = `window.scrollBy(0, i % 120 < 60 ? 30 : -30)`
	Pan    = `turn({deltaX: i % 80 < 40 ? 25 : -25})`
	Zoom   = `turn({deltaY: i % 60 < 30 ? -20 : 20, ctrlKey: true})`
)

// What the page has once it shows something: the verdict, and the first rows.
const (
	Verdict = `document.querySelector('[data-testid="verdict"][data-result]')`
	Rows    = `[...document.querySelectorAll('[data-row] canvas')].filter((c) => c.width > 400).length > 3`
)

// Heap is the page's JavaScript heap in MB.
const Heap = `performance.memory.usedJSHeapSize / 1e6`

// When is in how many milliseconds after the navigation the page has something, looked for in each frame.
func When(has string) string {
	return fmt.Sprintf(`new Promise((done) => {
		const look = () => (%s) ? done(performance.now()) : requestAnimationFrame(look);
		look();
	})`, has)
}

// FramesPerSecond is how many frames the page draws in a second in each of which something is done, over a length of
// time. It is zoomed in first, so that there is somewhere to pan to.
func FramesPerSecond(do string, over time.Duration) string {
	return fmt.Sprintf(`new Promise((done) => {
		const row = document.querySelector('[data-row] canvas'), box = row.getBoundingClientRect();
		const turn = (wheel) => row.dispatchEvent(new WheelEvent("wheel", {bubbles: true, cancelable: true,
			clientX: box.left + box.width / 2, clientY: box.top + 5, ...wheel}));
		turn({deltaY: -200, ctrlKey: true});
		const start = performance.now(); let i = 0;
		const frame = () => {
			const elapsed = performance.now() - start;
			if (elapsed > %d) return done(i / elapsed * 1000);
			i++;
			%s;
			requestAnimationFrame(frame);
		};
		requestAnimationFrame(frame);
	})`, over.Milliseconds(), do)
}
