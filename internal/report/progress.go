package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/wording"
	"lapse/internal/report/document"
	"lapse/timeline"
)

const (
	redrawEvery = 250 * time.Millisecond
	lineEvery   = 10 * time.Second
)

// ProgressOptions say what the screen can show, and how long the run is to take.
type ProgressOptions struct {
	Terminal bool // redraw a block in place; otherwise write lines
	Color    bool
	Unicode  bool
	Width    int           // columns; 0 means 80
	Total    time.Duration // how long the run will take; 0 if that depends on a command
}

// Progress is the view of a run while it goes on. On a terminal it is a block, redrawn in place at
// most four times a second; anywhere else it is a line every ten seconds. Both get a line at each
// change of state: a phase begins, the command starts or ends, a window opens or closes.
//
// Writing may block for as long as the terminal does. Nothing that measures may wait for it.
type Progress struct {
	opts ProgressOptions

	mu       sync.Mutex
	w        io.Writer
	block    []byte          // what stands on the terminal now
	held     []byte          // the beginning of a line of the command's output, not shown above a block
	midLine  bool            // the command's output, which is what was written last, did not end its line
	latest   *model.Timeline // as the last Update gave it, at instant now
	now      time.Duration
	silent   time.Duration // how long nothing has come from where the run goes on; 0 if it does
	slot     int64         // the quarter of a second last drawn in, from 1
	lined    time.Duration // when the last regular line was written
	stamp    time.Duration // the latest instant that stands before a line
	lastSeen uint32        // the last event that was reported
	early    []string      // what was printed before it came as an event, by its kind and where it leads
	windows  []reportedWindow
}

// A reportedWindow is one whose opening was reported. Its bounds move while it is live; it is known
// again by its target, whether it is slow, and an instant inside it.
type reportedWindow struct {
	target string
	slow   bool
	inside time.Duration
	closed bool
}

// NewProgress returns a view that writes to w.
func NewProgress(w io.Writer, opts ProgressOptions) *Progress {
	return &Progress{w: w, opts: opts}
}

// Update shows the run as it stands at instant now. It may be called as often as one likes.
func (p *Progress) Update(tl *model.Timeline, now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest, p.now = tl, now
	slot := int64(now / redrawEvery)
	if p.slot == slot+1 {
		return
	}
	p.slot = slot + 1
	text := p.changes(tl, now)
	if p.opts.Terminal {
		p.show(text, p.blockOf(tl, now))
		return
	}
	if now-p.lined >= lineEvery && phase(tl) != "ended" {
		p.lined = now - now%lineEvery
		text = append(text, p.stamped(now, p.status(tl))...)
	}
	p.show(text, nil)
}

// Silent says for how long nothing has come from where the run goes on: what is shown by the Updates that follow is
// as old. 0 takes it back.
func (p *Progress) Silent(since time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = since
}

// silence is that in words, or "".
func (p *Progress) silence() string {
	if p.silent == 0 {
		return ""
	}
	return "no news from the Job for " + seconds(p.silent)
}

// maxHeld is how long a line may be that is held back.
const maxHeld = 64 << 10

// Pass writes output of the wrapped command as it is. Above a block it is written line by line.
func (p *Progress) Pass(output []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.opts.Terminal {
		_, _ = p.w.Write(output)
		p.midLine = len(output) > 0 && output[len(output)-1] != '\n'
		return
	}
	p.held = append(p.held, output...)
	whole := p.held[:bytes.LastIndexByte(p.held, '\n')+1]
	if len(p.held)-len(whole) > maxHeld {
		p.held = append(p.held, '\n')
		whole = p.held
	}
	if len(whole) > 0 {
		p.show(whole, p.block)
		p.held = slices.Clone(p.held[len(whole):])
	}
}

// Log writes a line that stays: above the block, where there is one.
func (p *Progress) Log(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	page := p.newPage()
	page.WriteString(page.Say(strings.TrimRight(line, "\r\n")) + "\n")
	p.show(page.Bytes(), p.block)
}

// Tell says at once how the wrapped command changed, or that the run has come to another phase. Where that comes back
// in the run's events, some time later, it is not said again.
func (p *Progress) Tell(e timeline.Event) {
	text := eventText(model.Event{Event: e})
	if e.Kind != timeline.Command && e.Kind != timeline.RunPhase || text == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.early = append(p.early, changeOf(e.Kind, e.To))
	p.show(p.happened(e.Seen, text), p.block)
}

func changeOf(kind timeline.EventKind, to string) string { return string(kind) + " " + to }

// Done prints what changed up to the last Update and leaves the terminal clean.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text []byte
	if p.latest != nil {
		text = p.changes(p.latest, p.now)
	}
	if len(p.held) > 0 {
		text = slices.Concat(p.held, []byte("\n"), text)
	}
	p.held = nil
	p.show(text, nil)
}

func (p *Progress) newPage() *document.Page {
	return document.NewPage(document.Screen{Color: p.opts.Color, Unicode: p.opts.Unicode, Width: p.opts.Width})
}

// show writes lines that stay and below them the block, in place of the block shown before.
func (p *Progress) show(lines, block []byte) {
	var erase []byte
	if height := bytes.Count(p.block, []byte("\n")); height > 0 {
		erase = fmt.Appendf(nil, "\x1b[%dA\r\x1b[J", height) // up to where the block begins, and clear what is below
	}
	p.block = block
	if p.midLine && len(lines) > 0 {
		erase, p.midLine = []byte("\n"), false
	}
	if out := slices.Concat(erase, lines, block); len(out) > 0 {
		_, _ = p.w.Write(out) // a terminal that went away ends no measurement
	}
}

// happened is a line of text behind the instant that it is about. Where that lies before the line above, because the
// event came in late, the line stands behind the same instant as that one, and its text begins with its own.
func (p *Progress) happened(at time.Duration, text string) []byte {
	const shown = 100 * time.Millisecond
	if at.Round(shown) < p.stamp.Round(shown) {
		text = fmt.Sprintf("at %.1f s: %s", at.Seconds(), text)
	}
	return p.stamped(at, text)
}

// stamped is a line of text behind an instant, or behind that of the line above if that is later.
func (p *Progress) stamped(at time.Duration, text string) []byte {
	p.stamp = max(p.stamp, at)
	page := p.newPage()
	fmt.Fprintf(page, "%7.1f s  %s\n", p.stamp.Seconds(), page.Say(text))
	return page.Bytes()
}

// changes are the lines for what happened since the last call, as known at instant now.
func (p *Progress) changes(tl *model.Timeline, now time.Duration) []byte {
	var lines []byte
	for _, e := range tl.Events {
		if e.ID <= p.lastSeen {
			continue
		}
		p.lastSeen = e.ID
		if i := slices.Index(p.early, changeOf(e.Kind, e.To)); i >= 0 {
			p.early = slices.Delete(p.early, i, i+1)
			continue
		}
		if text := eventText(e); text != "" {
			lines = append(lines, p.happened(e.Seen, text)...)
		}
	}
	for _, w := range tl.Windows {
		opened, closed := p.meet(w)
		if opened {
			lines = append(lines, p.stamped(now, openedText(w))...)
		}
		if closed {
			lines = append(lines, p.stamped(now, closedText(w))...)
		}
	}
	for _, w := range tl.HeldWindows() {
		switch opened, closed := p.meet(w.Window); {
		case closed:
			lines = append(lines, p.stamped(now, backAgainText(w))...)
		case opened:
			lines = append(lines, p.stamped(now, cutText(w))...)
		}
	}
	return lines
}

// meet reports whether a window is new, and whether it is final now and was not before.
func (p *Progress) meet(w model.Window) (opened, closed bool) {
	opened = true
	for i := range p.windows {
		t := &p.windows[i]
		alike := t.target == w.Target && t.slow == (w.Kind == model.Slow)
		if alike && t.inside >= w.Start.Earliest && t.inside <= w.End.Latest {
			opened, closed = false, closed || !t.closed && !w.Live
			t.closed = !w.Live
		}
	}
	if opened {
		known := reportedWindow{w.Target, w.Kind == model.Slow, w.Start.Latest, !w.Live}
		p.windows = append(p.windows, known)
		return true, !w.Live
	}
	return false, closed
}

func openedText(w model.Window) string {
	return fmt.Sprintf("failing since %.1f s: %s, %s", w.Start.Latest.Seconds(), w.Target, wording.Errors(&w))
}

func closedText(w model.Window) string {
	text := fmt.Sprintf(
		"well again at %.1f s: %s, %s, %s, %s",
		w.End.Latest.Seconds(),
		w.Target,
		w.Said.Lasted,
		wording.Requests(&w),
		wording.Errors(&w),
	)
	if len(w.Causes) > 0 {
		text += fmt.Sprintf("; %s [%s]", w.Causes[0].Rule, w.Causes[0].Confidence)
	}
	return text
}

// cutText says that held connections were cut, as far as that is known.
func cutText(w *model.CutWindow) string {
	return fmt.Sprintf(
		"%d of %s cut from %.1f s on: %s, %s",
		w.Failed,
		quantity.Count(w.Sent, "connection"),
		w.Start.Latest.Seconds(),
		w.Target,
		quantity.ClassCounts(w.Classes),
	)
}

// backAgainText says what became of them.
func backAgainText(w *model.CutWindow) string {
	text := fmt.Sprintf(
		"%d of %s were cut: %s, %d without a warning, back after %s",
		w.Failed,
		quantity.Count(w.Sent, "connection"),
		w.Target,
		w.Unwarned,
		backCell(*w),
	)
	if len(w.Causes) > 0 {
		text += fmt.Sprintf("; %s [%s]", w.Causes[0].Rule, w.Causes[0].Confidence)
	}
	return text
}

// eventText describes an event that changes the state of the run; it is empty for others.
func eventText(e model.Event) string {
	switch e.Kind {
	case timeline.RunPhase:
		return e.To + detailOf(e)
	case timeline.Command:
		if e.To == "exited" {
			return fmt.Sprintf("command exited with code %d", e.Code())
		}
		return "command " + e.To + detailOf(e)
	case timeline.Hammer:
		return hammerChanged(e)
	case timeline.WatchGap:
		return "watch interrupted" + detailOf(e)
	case timeline.WatchLane:
		if e.To == "off" && !e.Object.IsZero() {
			return "not watching " + e.Object.Kind + detailOf(e)
		}
	}
	return ""
}

func detailOf(e model.Event) string {
	if e.Detail == "" {
		return ""
	}
	return ": " + e.Detail
}

// status is the run on one line.
func (p *Progress) status(tl *model.Timeline) string {
	parts := []string{cmp.Or(phase(tl), "starting"), rateText(tl), countText(tl)}
	if silence := p.silence(); silence != "" {
		parts = []string{silence, "until then " + cmp.Or(phase(tl), "starting"), countText(tl)}
	}
	if ready, known := readyNow(tl); known {
		parts = append(parts, "endpoints ready "+fmt.Sprint(ready))
	}
	for _, h := range tl.Held {
		parts = append(parts, fmt.Sprintf("held %d/%d", h.Standing, h.Connections))
	}
	if w := current(tl); w != nil {
		parts = append(parts, "FAILING "+w.Target)
	}
	return strings.Join(append(parts, health(tl)...), " · ")
}
