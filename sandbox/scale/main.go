// Command scale measures Lapse on the sandbox with many endpoints: 10 Services with 10 and then with 1000 ready endpoints, whose Pods no
// kubelet runs. Their status is written by hand, the real controllers make the EndpointSlices, and one server on each node answers
// for all of their addresses. Every few seconds a Pod of each Service ends and another takes its place.
//
//	scale --lapse ../bin/lapse --out ../docs/measured
//
// It prints how much memory and CPU the agent took, and how late it sent requests.
package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lapse/sandbox/drill"
)

type settings struct {
	lapse, runs, out string
	endpoints        []int
	services, rate   int
	length, churn    time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.lapse, "lapse", "../bin/lapse", "the lapse binary")
	flag.StringVar(&s.runs, "runs", "../runs", "where the runs go")
	flag.StringVar(&s.out, "out", "", "folder for the table, scale.md (default: print it only)")
	flag.IntVar(&s.services, "services", 10, "Services")
	flag.IntVar(&s.rate, "rate", 50, "requests per second, each of new and reused connections of each Service")
	flag.DurationVar(&s.length, "length", 30*time.Minute, "length of each run")
	flag.DurationVar(&s.churn, "churn", 10*time.Second, "how often a Pod of each Service is replaced")
	endpoints := flag.String("endpoints", "10,1000", "ready endpoints of all Services together, a run for each")
	serve := flag.String("serve", "", "answer requests at this address, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := func() error {
		if *serve != "" {
			return answer(ctx, *serve)
		}
		for _, n := range strings.Split(*endpoints, ",") {
			count, err := strconv.Atoi(n)
			if err != nil || count < s.services {
				return fmt.Errorf("--endpoints %q: numbers of %d or more, separated by commas", *endpoints, s.services)
			}
			s.endpoints = append(s.endpoints, count)
		}
		return scale(ctx, s)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func answer(ctx context.Context, address string) error {
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

const (
	namespace = "scale"
	node      = "scale" // without a kubelet
	addresses = "10.250.0.0/16"
	port      = 18080
)

func scale(ctx context.Context, s settings) error {
	c, err := drill.Open(s.lapse, os.Stderr)
	if err != nil {
		return err
	}
	end, err := serveAll(ctx, c)
	defer end()
	if err != nil {
		return err
	}
	base := filepath.Join(s.runs, "scale-"+time.Now().UTC().Format("20060102-150405"))
	var rows []row
	for _, n := range s.endpoints {
		r, err := measure(ctx, c, s, n, filepath.Join(base, strconv.Itoa(n)))
		if err != nil {
			return fmt.Errorf("with %d endpoints: %w", n, err)
		}
		rows = append(rows, r)
	}
	doc := document(s, rows)
	fmt.Print(doc)
	if s.out == "" {
		return nil
	}
	return errors.Join(os.MkdirAll(s.out, 0o755), os.WriteFile(filepath.Join(s.out, "scale.md"), []byte(doc), 0o644))
}

// serveAll has every node answer for the Pods' addresses, until end is called.
func serveAll(ctx context.Context, c *drill.Cluster) (end func(), err error) {
	var ends []func()
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return end, err
	}
	self, err := os.Executable()
	if err != nil {
		return end, err
	}
	on := func(ctx context.Context, node string, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, filepath.Join(c.Dir, "bin", "sandbox"), append([]string{"--dir", c.Dir, "exec", node, "--"}, args...)...)
	}
	for _, n := range nodes {
		if n == node {
			continue
		}
		if out, err := on(ctx, n, "ip", "route", "replace", "local", addresses, "dev", "lo").CombinedOutput(); err != nil {
			return end, fmt.Errorf("route %s on %s: %w: %s", addresses, n, err, out)
		}
		server := on(context.WithoutCancel(ctx), n, self, "--serve", fmt.Sprintf(":%d", port))
		if err := server.Start(); err != nil {
			return end, err
		}
		ends = append(ends, func() {
			_ = server.Process.Signal(syscall.SIGTERM)
			_ = server.Wait() // it was told to end
			_ = on(context.Background(), n, "ip", "route", "del", "local", addresses, "dev", "lo").Run()
		})
	}
	return end, nil
}

// A row is what one run took.
type row struct {
	endpoints, targets  int
	length              time.Duration
	memory              float64 // MiB, the most that was resident
	cpu                 float64 // cores, in the mean
	sent, failed        int
	lateP50, lateP99    time.Duration // Sent − Due
	coverage            float64
	recording, document int64 // bytes
}

func measure(ctx context.Context, c *drill.Cluster, s settings, endpoints int, dir string) (row, error) {
	r := row{endpoints: endpoints}
	if err := deploy(ctx, c, s.services, endpoints); err != nil {
		return r, err
	}
	defer func() {
		_ = c.Remove(context.Background(), namespace)
		_, _ = c.Kubectl(context.Background(), "delete", "node", node, "--ignore-not-found")
	}()
	args := []string{"run", "-n", namespace, "--out", dir, "--duration", s.length.String(), "--rate", strconv.Itoa(s.rate)}
	for i := range s.services {
		args = append(args, "svc/"+service(i))
	}
	cmd := c.Command(ctx, args...)
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		return r, err
	}
	over, done := context.WithCancel(ctx)
	churned, watched := make(chan error, 1), make(chan usage, 1)
	go func() { churned <- churn(over, c, s, endpoints) }()
	go func() { watched <- watchAgent(over) }()
	run, err := cmd.Finish(dir)
	done()
	if err := errors.Join(err, <-churned); err != nil {
		return r, err
	}
	u := <-watched
	if u.lived == 0 {
		return r, errors.New("the agent's process was not found")
	}
	r.length, r.memory, r.cpu = s.length, float64(u.peak)/(1<<20), u.cpu.Seconds()/u.lived.Seconds()
	for _, t := range run.Timeline.Targets {
		r.targets++
		r.sent, r.failed = r.sent+t.Sent, r.failed+t.Failed
	}
	r.coverage = run.Timeline.Verdict.Coverage
	for name, size := range map[string]*int64{"facts.lapse": &r.recording, "timeline.json": &r.document} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			*size = info.Size()
		}
	}
	r.lateP50, r.lateP99, err = lateness(ctx, c, dir)
	return r, err
}

func service(i int) string { return fmt.Sprintf("web-%d", i) }

// deploy makes the Services and their Pods, and waits until the endpoints are ready.
func deploy(ctx context.Context, c *drill.Cluster, services, endpoints int) error {
	if err := c.Remove(ctx, namespace); err != nil {
		return err
	}
	var yaml strings.Builder
	fmt.Fprintf(&yaml, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: %s}\nspec: {unschedulable: true}\n", namespace, node)
	for i := range services {
		fmt.Fprintf(&yaml, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %[1]s, namespace: %[2]s}\nspec:\n  selector: {app: %[1]s}\n  ports: [{name: http, port: 80, targetPort: %[3]d}]\n", service(i), namespace, port)
	}
	if err := c.Apply(ctx, yaml.String()); err != nil {
		return err
	}
	var pods []pod
	for n := range endpoints {
		pods = append(pods, pod{service(n % services), n})
	}
	if err := create(ctx, c, pods); err != nil {
		return err
	}
	for {
		out, err := c.Kubectl(ctx, "-n", namespace, "get", "endpointslices", "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
		if err != nil {
			return err
		}
		if strings.Count(out, "true") == endpoints {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d endpoints, %d ready: %w", endpoints, strings.Count(out, "true"), ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// A pod is one without a kubelet. Its number gives its name and its address.
type pod struct {
	app    string
	number int
}

func (p pod) name() string { return fmt.Sprintf("%s-%d", p.app, p.number) }
func (p pod) address() string {
	return fmt.Sprintf("10.250.%d.%d", 1+p.number/250%250, 1+p.number%250)
}

// create makes Pods and writes the status that a kubelet would.
func create(ctx context.Context, c *drill.Cluster, pods []pod) error {
	var spec, status strings.Builder
	for _, p := range pods {
		head := fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, labels: {app: %s}}
spec:
  nodeName: %s
  automountServiceAccountToken: false
  enableServiceLinks: false
  tolerations: [{operator: Exists}]
  containers: [{name: server, image: "none:none"}]
`, p.name(), namespace, p.app, node)
		spec.WriteString(head)
		now := time.Now().UTC().Format(time.RFC3339)
		fmt.Fprintf(&status, `%sstatus:
  phase: Running
  podIP: %[2]s
  podIPs: [{ip: %[2]s}]
  startTime: %[3]s
  conditions: [{type: Ready, status: "True", lastTransitionTime: %[3]s}, {type: ContainersReady, status: "True", lastTransitionTime: %[3]s}]
`, head, p.address(), now)
	}
	if err := c.Apply(ctx, spec.String()); err != nil {
		return err
	}
	return c.ApplyStatus(ctx, status.String())
}

// churn replaces a Pod of each Service again and again: it is deleted, serves for some seconds more, and another takes its place.
func churn(ctx context.Context, c *drill.Cluster, s settings, endpoints int) error {
	next, oldest := endpoints, 0
	tick := time.NewTicker(s.churn)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var leaving []string
		var coming []pod
		for i := range s.services {
			leaving = append(leaving, pod{service(i), oldest + i}.name())
			coming = append(coming, pod{service(i), next + i})
		}
		oldest, next = oldest+s.services, next+s.services
		err := create(ctx, c, coming)
		if err == nil {
			_, err = c.Kubectl(ctx, append([]string{"-n", namespace, "delete", "pods", "--wait=false"}, leaving...)...)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.churn / 3):
		}
		if err == nil {
			_, err = c.Kubectl(ctx, append([]string{"-n", namespace, "delete", "pods", "--force", "--grace-period=0"}, leaving...)...)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("replace Pods: %w", err)
		}
	}
}

// usage is what a process took.
type usage struct {
	peak  int64 // bytes resident
	cpu   time.Duration
	lived time.Duration // from when it was found until it was gone
}

// watchAgent waits for the agent's process and reads what it takes, until ctx ends.
func watchAgent(ctx context.Context) (u usage) {
	var dir string
	var begun time.Time
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return u
		case <-tick.C:
		}
		if dir == "" {
			dir, begun = agentProcess(), time.Now()
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if dir == "" || err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				n, _ := strconv.ParseInt(strings.Fields(kib)[0], 10, 64) // proc_pid_status(5)
				u.peak = n << 10
			}
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // from the 3rd field on, proc_pid_stat(5)
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		u.cpu, u.lived = time.Duration(user+system)*10*time.Millisecond, time.Since(begun) // 100 ticks a second
	}
}

// agentProcess is the /proc directory of the process in the Job's Pod: lapse, in a network namespace of its own. Empty: there is none yet.
func agentProcess() string {
	ours, _ := os.Readlink("/proc/self/ns/net")
	comms, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range comms {
		dir := filepath.Dir(path)
		comm, err := os.ReadFile(path)
		net, netErr := os.Readlink(filepath.Join(dir, "ns/net"))
		if err == nil && netErr == nil && strings.TrimSpace(string(comm)) == "lapse" && net != ours {
			return dir
		}
	}
	return ""
}

// lateness reads how late the run's requests were sent. Direct ones are left out: with them there are not the same number of targets.
func lateness(ctx context.Context, c *drill.Cluster, dir string) (p50, p99 time.Duration, err error) {
	cmd := exec.CommandContext(ctx, c.Lapse, "export", dir, "-o", "csv")
	cmd.Stderr = c.Log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	in := csv.NewReader(out)
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return 0, 0, err
	}
	kind, due, sent := slices.Index(head, "kind"), slices.Index(head, "due"), slices.Index(head, "sent")
	var late []int64
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, 0, err
		}
		if record[kind] != "new" && record[kind] != "reused" || record[sent] == "" {
			continue
		}
		d, dueErr := strconv.ParseInt(record[due], 10, 64)
		at, sentErr := strconv.ParseInt(record[sent], 10, 64)
		if err := cmp.Or(dueErr, sentErr); err != nil {
			return 0, 0, err
		}
		late = append(late, at-d)
	}
	slices.Sort(late)
	at := func(share float64) time.Duration { return time.Duration(late[int(share*float64(len(late)-1))]) }
	return at(0.5), at(0.99), cmd.Wait()
}

func document(s settings, rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Many endpoints

Made by `+"`make scale`"+` on %s: %s. %d Services; each run %v; every %v one Pod of each Service is deleted, serves on for %v, and
another takes its place. The Pods run nowhere: their status is written by hand, the sandbox's controllers make the EndpointSlices, and a
server on each node answers for their addresses, with `+"`--rate %d`"+`, %d requests per second in all beside the direct ones.

| ready endpoints | targets, all told | memory, peak | CPU, mean | sent | failed | sent late, p50 | p99 | coverage | recording | timeline.json |
|---|---|---|---|---|---|---|---|---|---|---|
`, time.Now().UTC().Format(time.DateOnly), drill.Machine(), s.services, s.length, s.churn, (s.churn / 3).Round(time.Second), s.rate, 2*s.rate*s.services)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %d | %d | %.0f MiB | %.2f cores | %d | %d | %v | %v | %.2f %% | %.1f MB | %.1f MB |\n", r.endpoints, r.targets, r.memory, r.cpu, r.sent, r.failed,
			r.lateP50.Round(time.Microsecond), r.lateP99.Round(time.Microsecond), math.Floor(r.coverage*1e4)/1e2, float64(r.recording)/1e6, float64(r.document)/1e6)
	}
	return b.String()
}
