package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/hint"
	"lapse/record"
	"lapse/report"
	"lapse/timeline"
	"lapse/watcher"
)

// A remote is a run in the cluster, followed from a workstation: the command runs here, the
// measuring there, and the facts stream home meanwhile. One goroutine, in follow, owns it.
type remote struct {
	opts   *Options
	job    *deploy.Run
	client *agent.Client
	dir    string
	copy   *record.Copy
	live   *live
	screen *screen
	log    *slog.Logger
	child  *child
	done   chan int // the command's exit code

	clock runClock // of the run, as seen from here
	facts *queue   // what comes home
	marks marks    // what the command does, on its way to the agent

	running   bool          // the command is
	keep      bool          // the Job: it may still hold what could not be fetched
	logged    bool          // the result came from the Pod's log, and the copy is a part of the recording
	news      time.Duration // when something last came home, on the local clock
	lastEvent uint32        // that came home
	latest    time.Duration // the latest instant that came home
	returned  int           // how many of the marks came home
}

// marks are events that the command makes here, in order. They travel to the agent, and come home in
// the recording.
type marks struct {
	mu   sync.Mutex
	all  []mark
	made chan struct{} // holds a token while there may be new ones
}

// A mark is an event with its instant on this machine's clock. It is put on the run's clock as late as possible, by comparisons
// from before and after it.
type mark struct {
	event timeline.Event
	stamp stamp
}

func (m *marks) put(made mark) {
	m.mu.Lock()
	m.all = append(m.all, made)
	m.mu.Unlock()
	select {
	case m.made <- struct{}{}:
	default:
	}
}

// from returns the marks from the nth on.
func (m *marks) from(n int) []mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all[min(n, len(m.all)):])
}

// runInCluster measures from a Job, and leaves nothing behind in the cluster but what is not safe here.
func (o *Options) runInCluster(ctx context.Context, signals <-chan os.Signal, stdout, stderr io.Writer) error {
	setup, release := Interruptible(ctx, signals)
	defer release()
	address, err := ListenForPage(o.Dashboard)
	if err != nil {
		return err
	}
	defer address.Close()
	screen := newScreen(stderr, o.total())
	defer screen.close() // after all else: who has paused the terminal holds up nothing
	log := NewLogger(screen.talk())
	c, err := o.Kube.Connect(setup)
	if err != nil {
		return StoppedOr(setup, err)
	}
	config, err := o.preflight(setup, c, log)
	if err != nil {
		return StoppedOr(setup, AsUsage(err))
	}
	r := &remote{
		opts: o, log: log, dir: o.runDir(o.ID), done: make(chan int, 1), facts: newQueue(),
		marks: marks{made: make(chan struct{}, 1)}, clock: runClock{local: timeline.StartClock(), log: log},
	}
	if r.copy, err = beginRecording(r.dir, record.CreateCopy); err != nil {
		return err
	}
	measured := false
	defer func() {
		if err := r.copy.Close(); err != nil {
			log.Warn("the copy of the recording may be incomplete", "error", err)
		}
		if !measured {
			discard(r.dir)
		}
	}()
	screen.say(fmt.Sprintf("creating Job %s/%s", config.Namespace, config.Name))
	waiting := startWaiting(screen.say, "waiting for the API server to create it")
	defer waiting.over()
	cluster := c.Deploy(log)
	cluster.Notify = waiting.is
	if r.job, err = deploy.Create(setup, cluster, config); err != nil {
		return StoppedOr(setup, notBegun(err))
	}
	cleanUp := sync.OnceFunc(func() { r.cleanUp(ctx) })
	defer cleanUp()
	if r.client, _, err = r.job.WaitMeasuring(setup); err != nil {
		return StoppedOr(setup, r.notFollowed(ctx, err))
	}
	defer r.client.Close()
	r.client.RunsCommand = true
	if err = r.clock.compare(setup, r.client.SyncClock); err != nil {
		return StoppedOr(setup, r.notFollowed(ctx, fmt.Errorf("compare clocks with the Pod: %w", err)))
	}
	waiting.over()
	if release(); setup.Err() != nil {
		return StoppedOr(setup, nil)
	}

	var shown *page
	if o.Dashboard != "" {
		var closePage func()
		shown, closePage = address.Serve(ctx, screen.talk())
		defer closePage()
	}
	r.screen, r.live = screen, newLive(o.gates, observers(screen, shown, nil)...)
	r.child = &child{args: o.Command, capture: !o.NoCapture, output: screen.output(), mark: r.mark, now: r.clock.local.Now}
	measured = true
	tl := r.follow(ctx, signals)
	unwritten := r.save(tl)
	cleanUp()
	signal.Reset(stopSignals...) // nothing is left to be ended in order
	r.live.end(tl)
	return present(stdout, r.dir, o.Output, tl, unwritten)
}

// save puts the result on disk. Where that is the timeline from the Pod's log, the part of the recording that came before stays
// beside it, under a name of its own: the run must not be judged by it.
func (r *remote) save(tl *model.Timeline) error {
	err := saveTimeline(r.dir, tl)
	if !r.logged {
		return err
	}
	if err == nil {
		err = renameFile(filepath.Join(r.dir, FactsFile), filepath.Join(r.dir, PartialFile))
	}
	r.keep = err != nil // then only the Pod's log has it
	return err
}

// Interruptible returns a context that the first signal ends, until release is called.
func Interruptible(ctx context.Context, signals <-chan os.Signal) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	released := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case sig := <-signals:
			cancel(errors.New(stoppedBy(sig)))
		case <-released:
		}
	})
	return ctx, sync.OnceFunc(func() { close(released); watching.Wait() })
}

// StoppedOr returns err, or that the user has stopped what was under way: nothing was measured then.
func StoppedOr(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return StoppedError{context.Cause(ctx)}
}

// JobConfig is the Job that measures what the flags ask for.
func (o *Options) JobConfig(namespace string) deploy.Config {
	o.Namespace = namespace
	return deploy.Config{
		Name: o.ID, Namespace: namespace, Image: o.Image, ImagePullSecret: o.ImagePullSecret, CPU: o.CPU,
		Hold: o.Hold, Deadline: o.MaxDuration + o.Hold, AvoidNodes: o.AvoidNodes, NodesAccess: true,
		Args: []string{"run"}, Spec: mustMarshal(o.Spec), Private: o.Secrets(), HeadersFrom: o.HeadersFrom, EchoFrom: o.EchoFrom,
	}
}

// preflight checks what can be known before anything is created: the rights, all of them at once, and then the Services.
func (o *Options) preflight(ctx context.Context, c *cluster, log *slog.Logger) (deploy.Config, error) {
	if err := o.avoidSelected(ctx, c, log); err != nil {
		return deploy.Config{}, err
	}
	config := o.JobConfig(c.Namespace)
	if err := config.Validate(); err != nil {
		return config, err
	}
	need := deploy.Needs{Nodes: true, Secret: len(config.Private) > 0}
	missing, err := deploy.CheckRights(ctx, c.client, c.Namespace, need)
	if err == nil && len(missing) > 0 {
		config.NodesAccess, need.Nodes = false, false
		missing, err = deploy.CheckRights(ctx, c.client, c.Namespace, need)
	}
	switch {
	case err != nil:
		return config, err
	case len(missing) > 0:
		return config, deploy.NoRights(missing)
	case !config.NodesAccess:
		log.Warn("no right to let the Job read nodes: the timeline will have no node lanes")
	}
	looked := slices.Clone(o.targets)
	if o.Watch != "" {
		watched, err := ParseTarget(o.Watch)
		if err != nil {
			return config, err
		}
		looked = append(looked, watched)
	}
	for _, s := range looked {
		info, err := watcher.Describe(ctx, c.client, c.Namespace, s.Service, s.port)
		if err != nil {
			return config, err
		}
		config.Selectors = append(config.Selectors, info.Selector)
	}
	return config, config.Validate()
}

// notFollowed says why a run could not be followed. Where its Pod has measured all the same and ended, as while this workstation was
// suspended, the Job is kept: it holds the result.
func (r *remote) notFollowed(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if _, nothing := deploy.RetrieveEnded(ctx, r.job); nothing != nil {
		return notBegun(err)
	}
	r.keep = true
	return hint.Errorf(fmt.Sprintf("`lapse retrieve -n %s %s` fetches its result", r.job.Namespace, r.job.Name),
		"run %s had ended before it could be followed from here", r.job.Name)
}

// cleanUp removes the Job and all that came with it, even if ctx has ended.
func (r *remote) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	name := r.job.Namespace + " " + r.job.Name
	if r.keep {
		r.log.Warn("the Job is kept, for it may hold what is missing here: `lapse retrieve -n " + name + "`, then `lapse delete -n " + name + "`")
		return
	}
	if err := r.job.Delete(ctx); err != nil {
		r.log.Warn("the Job may still be there: try `lapse delete -n "+name+"`", "error", err)
		return
	}
	if err := r.job.WaitGone(ctx); err != nil {
		r.log.Warn("the Job is deleted, its Pod still ends", "error", err)
	}
}

// follow runs the command when the agent measures, and takes in facts until the run has ended or
// its Pod is lost. It returns the run as judged here.
func (r *remote) follow(ctx context.Context, signals <-chan os.Signal) *model.Timeline {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	defer func() { cancel(); working.Wait() }()
	fetched := make(chan error, 1)
	working.Go(func() { fetched <- receive(ctx, r.client, r.copy.Receive, r.facts.put) })
	working.Go(func() { r.clock.keepComparing(ctx, r.client.SyncClock) })
	marked := make(chan string, 1) // once no more marks will come: why the command was stopped, or ""
	working.Go(func() { r.sendMarks(ctx, marked) })

	tick := time.NewTicker(refresh)
	defer tick.Stop()
	var stopped string // by which signal
	var lost error
	for {
		select {
		case <-r.facts.ready:
			r.absorb()
		case <-tick.C:
			r.show()
		case <-r.done:
			marked <- stopped
			r.running = false
			if lost != nil {
				return r.conclude(ctx, lost, stopped)
			}
		case err := <-fetched:
			r.absorb()
			tl := r.live.timeline()
			switch {
			case err == nil && tl.Run.Live:
				err = errors.New("the Pod's recording breaks off before the run's end")
			case err == nil && !r.running:
				return r.acknowledge(ctx)
			case err == nil:
				err = endedEarly{cmp.Or(tl.Run.Aborted, "it was told that the command had ended")}
			}
			// The command is not ours to stop: it goes on, and is not measured any more.
			if lost = err; !r.running {
				return r.conclude(ctx, lost, stopped)
			}
			r.log.Error("the command goes on, but nothing is measured any more", "error", lost)
		case sig := <-signals:
			again := stopped != ""
			stopped = stoppedBy(sig)
			if r.running && !again && sig == syscall.SIGINT {
				r.child.signal(syscall.SIGINT)
				continue
			}
			r.stopChild()
			if again || lost != nil {
				cancel() // nobody may write to the copy when it is concluded
				working.Wait()
				r.absorb()
				return r.conclude(context.WithoutCancel(ctx), lost, stopped)
			}
			reason := stopped
			working.Go(func() { r.abort(ctx, reason) })
		}
	}
}

// The Pod sends what it has measured every quarter of a second. If nothing came for so long the run is shown as it stood then, and
// from silence on with a word about it.
const (
	late    = time.Second
	silence = 3 * time.Second
)

// show renews what people look at.
func (r *remote) show() { r.live.showAfter(r.clock.local.Now()-r.news, r.clock.now()) }

// endedEarly says that the Pod ended the run while the command went on. Its whole recording is here.
type endedEarly struct{ reason string }

func (e endedEarly) Error() string { return "the measuring Pod ended the run: " + e.reason }

// receive puts the facts of the recording that agent hands on, as decode reads them, until the run has ended. Its error says why
// not all came. A connection that breaks is opened anew where it broke.
func receive(ctx context.Context, client *agent.Client, decode func(io.Reader) iter.Seq2[timeline.Fact, error], put func(timeline.Fact)) error {
	pr, pw := io.Pipe()
	var copying sync.WaitGroup
	defer copying.Wait()
	copying.Go(func() {
		_, err := client.Follow(ctx, pw)
		pw.CloseWithError(err)
	})
	for fact, err := range decode(pr) {
		if err != nil {
			pr.CloseWithError(err) // nothing more is read
			return err
		}
		put(fact)
	}
	return nil
}

// acknowledge keeps the whole recording, which is here, and tells the Pod so. What the command did that the Pod was not told of
// in time is added to the copy.
func (r *remote) acknowledge(ctx context.Context) *model.Timeline {
	receipt := agent.Receipt{Length: r.copy.Size(), SHA256: r.copy.Sum()}
	err := r.extend(r.placed(r.marks.from(r.returned))...)
	if closeErr := r.copy.Close(); err == nil {
		err = closeErr
	}
	tl := r.live.timeline()
	if err != nil {
		r.log.Error("the recording is not safe here", "error", err)
		verdict.Unsaved(tl, err)
		r.keep = true
		return tl
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := r.client.Ack(ctx, receipt); err != nil {
		r.tellUnlessGone(ctx, "the Pod was not told that its recording is safe", err)
	}
	return tl
}

// absorb takes in what came home.
func (r *remote) absorb() {
	for _, f := range r.facts.take() {
		r.news = r.clock.local.Now()
		r.live.add(f)
		if b, ok := f.(timeline.Batch); ok {
			for _, request := range b.Requests {
				r.latest = max(r.latest, request.Done.Truncate(time.Microsecond))
			}
		}
		e, ok := f.(timeline.Event)
		if !ok {
			continue
		}
		r.lastEvent, r.latest = e.ID, max(r.latest, e.Seen)
		switch e.Kind {
		case timeline.RunPhase:
			r.enter(timeline.Phase(e.To))
		case timeline.Command, timeline.CommandOutput:
			r.returned++
		}
	}
}

// enter follows the agent into a phase, and starts the command when it measures.
func (r *remote) enter(phase timeline.Phase) {
	if phase != timeline.PhaseMeasuring || len(r.opts.Command) == 0 {
		return
	}
	r.running = true
	if err := r.child.start(func(code int) { r.done <- code }); err != nil {
		r.log.Error("the command did not start", "error", err)
		r.mark(timeline.Event{Seen: r.clock.local.Now(), Kind: timeline.Command, To: "exited", Writer: "lapse", ExitCode: new(127), Detail: err.Error()})
		r.done <- 127
	}
}

// noticed is how long what a command has done may take to be noticed here, see docs/decisions/0004-placing-events.md.
const noticed = time.Second

// mark stamps what the command did, and puts it on its way to the agent.
func (r *remote) mark(e timeline.Event) {
	if e.Kind == timeline.Command && e.To == "running" && r.screen != nil {
		told := e
		told.Seen = r.clock.now()
		r.screen.tell(told) // it comes home with the recording, and that may take long
	}
	r.marks.put(mark{e, r.clock.stamp(e.Seen-noticed, e.Seen)})
}

// placed are marks on the run's clock.
func (r *remote) placed(made []mark) []timeline.Event {
	events := make([]timeline.Event, len(made))
	for i, m := range made {
		events[i] = m.event
		events[i].Since, events[i].Seen = r.clock.place(m.stamp)
	}
	return events
}

const (
	// marksAtOnce is how many marks travel in one request, far below what the Pod takes.
	marksAtOnce = 500
	// betweenMarks is how long marks are collected before the next of them travel: the clocks are compared each time.
	betweenMarks = time.Second
)

// sendMarks sends the marks to the agent, in order, until no more will be made, and then tells it that
// the command has ended.
func (r *remote) sendMarks(ctx context.Context, ended <-chan string) {
	var stopped string
	var broken error
	for sent, last := 0, false; !last; {
		select {
		case <-r.marks.made:
		case stopped = <-ended:
			last = true
		case <-ctx.Done():
			return
		}
		marks := r.marks.from(sent)
		sent += len(marks)
		for part := range slices.Chunk(marks, marksAtOnce) {
			if broken != nil {
				break // the end of the command is still told
			}
			if broken = r.sendPlaced(ctx, part); broken != nil {
				r.tellUnlessGone(ctx, "what the command does cannot be sent to the Pod", broken)
			}
		}
		if last || len(marks) == 0 {
			continue
		}
		select {
		case stopped = <-ended:
			ended = told(stopped)
		case <-time.After(betweenMarks):
		case <-ctx.Done():
		}
	}
	if err := r.client.Settle(ctx, stopped); err != nil {
		r.tellUnlessGone(ctx, "the Pod was not told that the command has ended", err)
	}
}

// sendPlaced sends marks once the clocks were compared after the last of them.
func (r *remote) sendPlaced(ctx context.Context, marks []mark) error {
	if err := r.clock.compareSince(ctx, marks[len(marks)-1].stamp.latest, r.client.SyncClock); err != nil {
		return err
	}
	return r.client.Send(ctx, r.placed(marks)...)
}

// told is a channel that says once more what was received already.
func told(what string) <-chan string {
	again := make(chan string, 1)
	again <- what
	return again
}

// tellUnlessGone logs an error of the connection, but not that the run is over.
func (r *remote) tellUnlessGone(ctx context.Context, what string, err error) {
	if _, gone := errors.AsType[*agent.GoneError](err); !gone && ctx.Err() == nil {
		r.log.Warn(what, "error", err)
	}
}

// abort asks the agent to end the run now.
func (r *remote) abort(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := r.client.Abort(ctx, reason); err != nil {
		r.tellUnlessGone(ctx, "the Pod was not told to stop", err)
	}
}

// stopChild ends the command, if it runs.
func (r *remote) stopChild() {
	if r.running {
		r.child.stop(r.done)
		r.running = false
	}
}

// conclude ends a run whose recording is not whole here. Where its Pod has ended, the timeline in the Pod's log is the run's result.
// Else that is what came home: it is complete up to some instant, and from there to the end of the command it is unobserved.
// Where the user does not want to wait (stopped), the run ends now.
func (r *remote) conclude(ctx context.Context, lost error, stopped string) *model.Timeline {
	if _, whole := errors.AsType[endedEarly](lost); whole {
		return r.acknowledge(ctx)
	}
	gone, isGone := errors.AsType[*agent.GoneError](lost)
	r.keep = lost != nil && !isGone
	if isGone && gone.Ended {
		tl, err := r.fromLog(ctx)
		if err == nil {
			return tl
		}
		if r.keep = !errors.Is(err, deploy.ErrNothingLeft); r.keep {
			r.log.Warn("the run could not be read from the Pod's log either", "error", err)
		}
	}
	end, why := r.latest, stopped
	marked := r.placed(r.marks.from(r.returned))
	for _, e := range marked {
		end = max(end, e.Seen)
	}
	switch {
	case isGone:
		why = "the measuring " + gone.Error()
	case lost != nil:
		why = lost.Error()
	default:
		end = max(end, r.clock.now())
	}
	r.live.tracker.SetEnd(end)
	last := timeline.PhaseChange(end, "", timeline.PhaseEnded, why)
	last.Writer = "lapse"
	err := r.extend(append(marked, last)...)
	tl := r.live.timeline()
	if err != nil {
		r.log.Error("the recording lacks the run's end; the report does not", "error", err)
		verdict.Unsaved(tl, err)
	}
	return tl
}

// extend adds events of our own to the copy, and judges them with the rest.
func (r *remote) extend(events ...timeline.Event) error {
	if len(events) == 0 {
		return nil
	}
	var facts []timeline.Fact
	for _, e := range events {
		r.lastEvent++
		e.ID = r.lastEvent
		facts = append(facts, e)
		r.live.add(e)
	}
	return r.copy.Extend(facts...)
}

// fromLog reads the run's timeline from the log of its Pod, which has ended.
func (r *remote) fromLog(ctx context.Context) (*model.Timeline, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	got, err := deploy.RetrieveEnded(ctx, r.job)
	if err != nil {
		return nil, err
	}
	if got.From != deploy.FromLog {
		return nil, fmt.Errorf("only the verdict is left: %s", got.Verdict)
	}
	tl, err := report.ReadJSON(bytes.NewReader(got.Timeline))
	if err != nil {
		return nil, err
	}
	r.logged = true
	r.log.Warn("the Pod had ended before its whole recording was here: this is the run as the Pod judged it, from its log",
		"partial recording", filepath.Join(r.dir, PartialFile))
	if untold := len(r.marks.from(r.returned)); untold > 0 {
		r.log.Warn("the Pod did not learn of the last that the command did", "marks", untold)
	}
	return tl, nil
}
