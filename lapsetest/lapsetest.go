// Package lapsetest tests that a server drops no requests while something happens to it: a graceful shutdown, a reload,
// a failover.
//
//	func TestShutdownIsGraceful(t *testing.T) {
//		m := lapsetest.Start(t, url, lapsetest.Rate(500))
//		restart()
//		m.Stop().NoFailures()
//	}
//
// A test of two seconds at 100 requests per second sees what lasts for 30 ms. Failures read as the summary of
// `lapse run`. A measurement that could not see enough is inconclusive, and fails the test unless [OrInconclusive]. The
// recording is lapse/facts.lapse in the test's artifact directory. With go test -artifacts a failure names that folder,
// which lapse report and lapse serve open.
//
// Package lapse/lapsetest/cluster measures a Service of a Kubernetes cluster.
package lapsetest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lapse"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/report"
	"lapse/timeline"
)

// An Option changes how a server is measured.
type Option func(*config)

type config struct {
	lapse.Spec
	inconclusive bool // is no error
}

// Rate sets the requests per second, of each kind of connection. The default is 100.
func Rate(perSecond float64) Option { return func(c *config) { c.Rate = perSecond } }

// Timeout sets after what time a request without an answer has failed. The default is 800 ms.
func Timeout(d time.Duration) Option { return func(c *config) { c.Timeout = d } }

// Kinds sets the kinds of connections: a new one for each request, kept ones, or both, which is the default.
func Kinds(kinds ...timeline.TargetKind) Option { return func(c *config) { c.Kinds = kinds } }

// Settle sets for how long is measured after [Measurement.Stop]. The default is 500 ms.
func Settle(d time.Duration) Option { return func(c *config) { c.Spec.Settle = d } }

// OrInconclusive lets a test pass although the measurement could not see enough, as on a machine that stood still.
func OrInconclusive() Option { return func(c *config) { c.inconclusive = true } }

// With changes anything else of the Spec.
func With(change func(*lapse.Spec)) Option { return func(c *config) { change(&c.Spec) } }

// A Measurement goes on until Stop.
type Measurement struct {
	t    testing.TB
	stop chan struct{}
	done chan struct{}
	c    config
	tl   *model.Timeline
	err  error
}

// Start sends requests to a URL until [Measurement.Stop], or the end of the test. It returns when the server is known
// to answer, and ends the test if it does not.
func Start(t testing.TB, url string, options ...Option) *Measurement {
	t.Helper()
	m := &Measurement{t: t, stop: make(chan struct{}), done: make(chan struct{})}
	m.c.Targets = []string{url}
	m.c.Recording = recording(t)
	for _, o := range options {
		o(&m.c)
	}
	begun := make(chan struct{})
	go func() {
		defer close(m.done)
		m.tl, m.err = lapse.Measure(context.Background(), m.c.Spec, func(context.Context) error {
			close(begun)
			<-m.stop
			return nil
		})
	}()
	t.Cleanup(m.end)
	select {
	case <-begun:
	case <-m.done:
		t.Fatal(m.err)
	}
	return m
}

const recordingName = "facts.lapse"

// recording returns the name of a new file: facts.lapse in the folder lapse, lapse-2 and so on.
func recording(t testing.TB) string {
	t.Helper()
	for n := 1; ; n++ {
		dir := filepath.Join(t.ArtifactDir(), "lapse")
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", dir, n)
		}
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil:
			return filepath.Join(dir, recordingName)
		case !errors.Is(err, fs.ErrExist):
			t.Fatal(err)
		}
	}
}

// kept returns the folder of a recording that lapse report can open; "" if go test removes its artifacts.
func kept(recording string) string {
	artifacts := flag.Lookup("test.artifacts")
	if artifacts == nil || artifacts.Value.String() != "true" || filepath.Base(recording) != recordingName {
		return ""
	}
	return filepath.Dir(recording)
}

// end stops the measurement. It may be called again.
func (m *Measurement) end() {
	select {
	case <-m.stop:
	default:
		close(m.stop)
	}
	<-m.done
}

// Stop measures on for the time of [Settle], and returns what was measured. It is an error of the test if the
// measurement is inconclusive.
func (m *Measurement) Stop() *Result {
	m.t.Helper()
	m.end()
	if m.err != nil {
		m.t.Error(m.err)
	}
	r := &Result{Timeline: m.tl, t: m.t, dir: kept(m.c.Recording), inconclusive: m.c.inconclusive}
	return r.FailIf()
}

// During measures a URL while f runs, on the test's goroutine.
func During(t testing.TB, url string, f func(), options ...Option) *Result {
	t.Helper()
	m := Start(t, url, options...)
	f()
	return m.Stop()
}

// A Result is what was measured. Its methods return it, so that conditions can be chained.
type Result struct {
	*model.Timeline // nil if nothing was measured: the test has failed then

	t            testing.TB
	dir          string // of the recording; "" if it is not kept
	inconclusive bool   // is no error, or has been said
}

// NoFailures is an error of the test if a request failed.
func (r *Result) NoFailures() *Result {
	r.t.Helper()
	return r.FailIf("failed > 0")
}

// FailIf is an error of the test if a condition holds, such as "downtime.total > 50ms" or "errors.rate > 0.1%", and
// unless [OrInconclusive], if it cannot be decided. The conditions are those of lapse run --fail-if, which
// docs/reference/gates.md lists.
func (r *Result) FailIf(conditions ...string) *Result {
	r.t.Helper()
	if r.Timeline == nil {
		return r
	}
	var gates []verdict.Gate
	for _, expr := range conditions {
		gate, err := verdict.ParseGate(expr)
		if err != nil {
			r.t.Fatal(err)
		}
		gates = append(gates, gate)
	}
	verdict.Judge(r.Timeline, gates)
	switch code := r.Verdict.ExitCode; {
	case code == verdict.ExitGateFailed:
		r.t.Errorf("the server dropped requests\n%s", r.summary())
	case code == verdict.ExitInconclusive && !r.inconclusive:
		r.inconclusive = true
		r.t.Errorf("whether the server dropped requests is not known\n%s", r.summary())
	}
	return r
}

// summary returns the run as lapse run prints it.
func (r *Result) summary() string {
	format, _ := report.FormatNamed(report.Formats, "table")
	look := report.Options{Unicode: true, Width: 100, RunDir: r.dir}
	var text bytes.Buffer
	if err := format.Write(&text, report.Saved{Judged: r.Timeline}, look); err != nil {
		return fmt.Sprintf("%d of %d requests failed (and no summary: %v)", r.Verdict.Failed, r.Verdict.Sent, err)
	}
	return strings.TrimRight(text.String(), "\n")
}
