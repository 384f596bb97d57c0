package wide

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/model"
	"lapse/dashboard/gestures"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/cli"
	"lapse/internal/kube/kubetest"
	"lapse/internal/record"
	"lapse/internal/report"
	"lapse/internal/run/resolve"
	"lapse/internal/run/runtest"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

var (
	wideFor     = flag.Duration("wide.for", 3*time.Minute, "BenchmarkCoordinator: for how long the coordinator is measured before somebody looks at its page")
	wideSources = flag.Int("wide.sources", 100, "BenchmarkCoordinator: nodes, each with a prober")
)

// BenchmarkCoordinator runs the coordinator of a run as the Job does, in a process of its own, and measures that
// process: 100 Services with 1000 endpoints are measured from 100 nodes, 1000 requests per second are shared by 20
// 000 targets, and a Pod is replaced every 3 s. The API server, the Pods and the probers are another process
// (wideCluster, wideProber): the probers make their requests up, and everything from their recordings on is real, in
// real time. That is following 100 recordings over mutual TLS, comparing 100 clocks, watching, probing endpoints
// directly, judging, recording, and being followed by a workstation.
//
//	go test ./internal/run/wide -run '^$' -bench Coordinator -benchtime 1x -timeout 20m
//
// cores, MiB and s-behind are measured without a viewer; then a browser opens the page on the same machine.
// s-behind is how old the newest of the requests is that the judgement counts, and s-recorded that of those that have
// come to the workstation. lost is the difference between the requests that the probers made and those that the
// judged run has, over all targets: it must be 0.
func BenchmarkCoordinator(b *testing.B) {
	for b.Loop() {
		w := startWide(b, widePlan{Run: "lapse-wide", Sources: *wideSources, Services: 100, Endpoints: 1000, Every: 3 * time.Second, Net: 79})
		w.measure(*wideFor)
		w.look()
		w.finish()
		w.lookAgain()
		b.ReportMetric(0, "ns/op")
		for unit, value := range w.figures {
			b.ReportMetric(value, unit)
		}
	}
}

// A wideRun is a run whose coordinator is measured.
type wideRun struct {
	t       testing.TB
	plan    widePlan
	api     string
	dir     string
	program *exec.Cmd // the coordinator

	stopCluster func()
	address     string // of its API and its page
	client      *agent.Client
	figures     map[string]float64

	lines     chan string // what the coordinator says
	copying   sync.WaitGroup
	mu        sync.Mutex
	copied    map[timeline.TargetID]int // requests that came to the workstation
	events    int                       // that were watched
	recorded  time.Duration             // the largest age of the newest request of a batch when it came
	copyError error
	receipt   record.Receipt
}

// wideJob returns the Pod of the run's Job, and the keys of its probers, as `lapse run -A --from all` makes them.
func wideJob(t testing.TB, plan widePlan) (corev1.Container, deploy.Objects, agent.KeyPair) {
	t.Helper()
	o, err := cli.Options("-A", "--from=all", "--duration=1h", "--image=lapse", "--no-preflight", "--total-rate=1000")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Check(nil, nil); err != nil {
		t.Fatal(err)
	}
	o.ID, o.Probers = plan.Run, plan.nodes()
	for n := range plan.Services {
		o.Chosen = append(o.Chosen, spec.ChosenService{Namespace: "shop", Name: plan.service(n), Scheme: "http"})
	}
	o.Rate = o.TotalRate / float64(2*plan.Services)
	o.DirectRate = o.Rate
	config := resolve.JobConfig(o, "shop")
	if config.Keys, err = deploy.NewKeys(time.Hour); err != nil {
		t.Fatal(err)
	}
	objects := config.Objects()
	return objects.Job.Spec.Template.Spec.Containers[0], objects, config.Keys.Prober
}

// environment returns the environment that the kubelet gives a container.
func environment(c corev1.Container, secret *corev1.Secret, of map[string]string) (env []string) {
	for _, v := range c.Env {
		value := v.Value
		switch {
		case v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil:
			value = string(secret.Data[v.ValueFrom.SecretKeyRef.Key])
		case v.ValueFrom != nil && v.ValueFrom.FieldRef != nil:
			value = of[v.ValueFrom.FieldRef.FieldPath]
		}
		if other, ok := of[v.Name]; ok {
			value = other
		}
		env = append(env, v.Name+"="+value)
	}
	return env
}

// startWide starts the cluster and the coordinator, and waits until all probers measure.
func startWide(t testing.TB, plan widePlan) *wideRun {
	t.Helper()
	w := &wideRun{t: t, plan: plan, dir: t.TempDir(), figures: map[string]float64{}, lines: make(chan string, 1000), copied: map[timeline.TargetID]int{}}
	container, objects, keys := wideJob(t, plan)
	w.startCluster(keys)
	w.startCoordinator(container, objects.Secret)
	w.await(timeline.PhaseMeasuring)
	w.ask(http.MethodPost, "/change")
	return w
}

func (w *wideRun) startCluster(keys agent.KeyPair) {
	text, err := json.Marshal(w.plan)
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command("wide-cluster", string(text))
	cmd.Env = append(os.Environ(), deploy.EnvTLSCA+"="+string(keys.CA), deploy.EnvTLSCert+"="+string(keys.Cert), deploy.EnvTLSKey+"="+string(keys.Key))
	cmd.Stderr = w.t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.stopCluster = sync.OnceFunc(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			w.t.Errorf("the stand-in for the cluster: %v", err)
		}
	})
	w.t.Cleanup(w.stopCluster)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		w.t.Fatalf("the stand-in for the cluster: %v", err)
	}
	w.api = "http://" + strings.TrimSpace(line)
}

// startCoordinator starts lapse, as a release is built, as the Job's Pod.
func (w *wideRun) startCoordinator(c corev1.Container, secret *corev1.Secret) {
	binary, kubeconfigFile := filepath.Join(w.dir, "lapse"), filepath.Join(w.dir, "kubeconfig")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "lapse/cmd/lapse")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		w.t.Fatalf("build lapse: %v\n%s", err, out)
	}
	if err := os.WriteFile(kubeconfigFile, []byte(kubetest.Kubeconfig(w.api)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.address = freeAddress(w.t)
	w.program = exec.Command(binary, c.Args...)
	w.program.Env = append(environment(c, secret, map[string]string{
		deploy.EnvListen: w.address, deploy.EnvDir: filepath.Join(w.dir, "run"), "metadata.name": w.plan.Run + "-abcde", "metadata.namespace": "shop", "spec.nodeName": w.plan.node(0),
	}), "KUBECONFIG="+kubeconfigFile, "PATH="+os.Getenv("PATH"))
	stdout, err := os.Create(filepath.Join(w.dir, "stdout"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer stdout.Close()
	w.program.Stdout = stdout
	stderr, err := w.program.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.program.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if w.program.ProcessState == nil {
			_ = w.program.Process.Kill()
			_ = w.program.Wait()
		}
	})
	go func() {
		defer close(w.lines)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(w.t.Output(), lines.Text())
			w.lines <- lines.Text()
		}
	}()
	w.client = agent.NewClient(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, w.address)
	})
	w.t.Cleanup(w.client.Close)
	w.copying.Go(w.follow)
}

func freeAddress(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// await waits until the coordinator says that it has come to a phase.
func (w *wideRun) await(phase timeline.Phase) {
	w.t.Helper()
	limit := time.After(5 * time.Minute)
	for {
		select {
		case line, ok := <-w.lines:
			if !ok {
				w.t.Fatalf("the coordinator ended before it was %s", phase)
			}
			if strings.Contains(line, " s  "+string(phase)) {
				return
			}
		case <-limit:
			w.t.Fatalf("the coordinator was not %s in 5 minutes", phase)
		}
	}
}

// ask asks the stand-in for the cluster.
func (w *wideRun) ask(method, path string) (report wideReport) {
	w.t.Helper()
	request, err := http.NewRequest(method, w.api+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	if method == http.MethodGet {
		if err := json.NewDecoder(response.Body).Decode(&report); err != nil {
			w.t.Fatal(err)
		}
	}
	return report
}

// follow takes the recording in as the workstation does.
func (w *wideRun) follow() {
	pr, pw := io.Pipe()
	var sending sync.WaitGroup
	sending.Go(func() {
		receipt, err := w.client.Follow(context.Background(), pw)
		w.receipt = receipt
		pw.CloseWithError(err)
	})
	defer sending.Wait()
	begun := map[timeline.SourceID]time.Time{}
	for fact, err := range record.Decode(pr) {
		w.mu.Lock()
		switch f := fact.(type) {
		case timeline.Source:
			begun[f.ID] = f.T0
		case timeline.Batch:
			var newest time.Duration
			for _, r := range f.Requests {
				w.copied[r.Target]++
				newest = max(newest, r.Done)
			}
			if newest > 0 {
				w.recorded = max(w.recorded, time.Since(begun[f.Source])-newest)
			}
		case timeline.Event:
			if f.Writer != "" && f.Writer != "lapse" {
				w.events++
			}
		}
		w.copyError = errors.Join(w.copyError, err)
		w.mu.Unlock()
		if err != nil {
			pr.CloseWithError(err)
			return
		}
	}
}

// since returns the number of events and the largest age of the facts that came since the last call.
func (w *wideRun) since() (events int, recorded time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, recorded = w.events, w.recorded
	w.events, w.recorded = 0, 0
	return events, recorded
}

var sentSoFar = regexp.MustCompile(`measuring.* sent (\d+), failed (\d+)`)

// measure measures the coordinator for a length of time, without a viewer of its page.
func (w *wideRun) measure(length time.Duration) {
	w.t.Helper()
	w.since()
	begun, used := time.Now(), w.used()
	var behind []float64
	over := time.After(length)
	for measuring := true; measuring; {
		select {
		case line, ok := <-w.lines:
			if !ok {
				w.t.Fatal("the coordinator ended")
			}
			if told := sentSoFar.FindStringSubmatch(line); told != nil {
				made := w.ask(http.MethodGet, "/made").Judged
				sent, _ := strconv.Atoi(told[1])
				behind = append(behind, float64(int(made)-sent)/1000)
			}
		case <-over:
			measuring = false
		}
	}
	took := time.Since(begun)
	events, recorded := w.since()
	w.figures["cores"] = (w.used() - used).Seconds() / took.Seconds()
	w.figures["MiB-while-measuring"] = w.memory("VmHWM")
	w.figures["s-recorded-max"] = recorded.Seconds()
	w.figures["events/h"] = float64(events) / took.Hours()
	if len(behind) > 0 {
		slices.Sort(behind)
		w.figures["s-behind"], w.figures["s-behind-max"] = behind[len(behind)/2], behind[len(behind)-1]
	}
}

// used returns the processor time that the coordinator has used.
func (w *wideRun) used() time.Duration {
	w.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.program.Process.Pid))
	if err != nil {
		w.t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
}

// memory returns an amount of the coordinator's memory, in MiB.
func (w *wideRun) memory(field string) float64 {
	w.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.program.Process.Pid))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if kib, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")), 64)
			if err != nil {
				w.t.Fatal(err)
			}
			return n / 1024
		}
	}
	w.t.Fatalf("no %s of the coordinator", field)
	return 0
}

// look opens the page in a browser, scrolls, pans and zooms.
func (w *wideRun) look() {
	w.t.Helper()
	begun, used := time.Now(), w.used()
	w.lookAt("http://"+w.address+"/", "")
	w.figures["cores-looked-at"] = (w.used() - used).Seconds() / time.Since(begun).Seconds()
	w.figures["MiB-looked-at"] = w.memory("VmHWM")
}

// lookAgain opens the page of the recorded run, which lapse serves while nothing else of the run is left: what the
// page itself costs.
func (w *wideRun) lookAgain() {
	w.t.Helper()
	w.stopCluster()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := exec.CommandContext(ctx, filepath.Join(w.dir, "lapse"), "serve", filepath.Join(w.dir, "run"), "--dashboard=127.0.0.1:0")
	stderr, err := server.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		w.t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = server.Wait() // it was ended
	}()
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "page: "); ok {
			w.lookAt(url, "served-")
			return
		}
	}
	w.t.Fatal("lapse serve named no page")
}

// lookAt opens a page, scrolls, pans and zooms, and notes the figures under names that begin so.
func (w *wideRun) lookAt(url, name string) {
	w.t.Helper()
	tab := openTab(w.t)
	number := func(expression string) float64 {
		n, err := chromedp.Run(tab, chromedp.Evaluate[float64](expression, chromedp.EvalAwaitPromise))
		if err != nil {
			w.t.Fatal(err)
		}
		return n
	}
	if err := chromedp.Do(tab, chromedp.EmulateViewport(1400, 1500), chromedp.Navigate(url)); err != nil {
		w.t.Fatal(err)
	}
	frames := func(do string) float64 { return number(gestures.FramesPerSecond(do, 5*time.Second)) }
	w.figures[name+"s-verdict"] = number(gestures.When(gestures.Verdict)) / 1000
	w.figures[name+"s-drawn"] = number(gestures.When(gestures.Rows)) / 1000
	w.figures[name+"scroll-fps"] = frames(gestures.Scroll)
	w.figures[name+"pan-fps"] = frames(gestures.Pan)
	w.figures[name+"zoom-fps"] = frames(gestures.Zoom)
	w.figures[name+"MB-page-heap"] = number(gestures.Heap)
}

// openTab opens a tab in a browser of its own, until the test ends.
func openTab(t testing.TB) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("the page is measured in a real browser: %v\nhint: apt-get install chromium", err)
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(runtest.Patience))...)
	t.Cleanup(cancel)
	tab, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	return tab
}

// finish ends the run, takes the result as the workstation would, and holds it against what the probers made.
func (w *wideRun) finish() {
	w.t.Helper()
	if err := w.client.Settle(context.Background(), ""); err != nil {
		w.t.Fatal(err)
	}
	w.copying.Wait()
	if w.copyError != nil {
		w.t.Fatalf("the coordinator's recording: %v", w.copyError)
	}
	if err := w.client.Ack(context.Background(), w.receipt); err != nil {
		w.t.Fatal(err)
	}
	for range w.lines { // to their end, that of the process
	}
	_ = w.program.Wait() // the exit code says what the verdict is
	w.figures["MiB-peak"] = float64(w.program.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024
	log, err := os.ReadFile(filepath.Join(w.dir, "stdout"))
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := deploy.ParseTimeline(bytes.NewReader(log))
	if err != nil {
		w.t.Fatal(err)
	}
	tl, err := report.ReadJSON(bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	made := w.ask(http.MethodGet, "/made")
	if made.Err != "" {
		w.t.Fatalf("the stand-ins' recordings: %s", made.Err)
	}
	w.figures["lost"] = float64(lostOf(tl, made, w.copied))
	w.figures["targets"] = float64(len(tl.Targets))
	for _, n := range made.Requests {
		w.figures["requests"] += float64(n)
	}
}

// lostOf counts the requests that the probers made and the result, or the workstation's copy, does not have, and
// those that one of them has too many.
func lostOf(tl *model.Timeline, made wideReport, copied map[timeline.TargetID]int) (lost int) {
	missing := maps.Clone(made.Requests)
	for _, t := range tl.Targets {
		if n, ours := made.Requests[t.Name]; ours { // the others are the coordinator's own
			delete(missing, t.Name)
			lost += distance(int(n), t.Sent+t.NotSent) + distance(int(n), copied[t.ID])
		}
	}
	for _, n := range missing {
		lost += int(n)
	}
	return lost
}

func distance(a, b int) int { return max(a, b) - min(a, b) }
