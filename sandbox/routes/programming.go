package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

// programmingMetric is kube-proxy's own figure, a histogram of the network programming latency. See
// https://github.com/kubernetes/community/blob/master/sig-scalability/slos/network_programming_latency.md.
const programmingMetric = "kubeproxy_network_programming_duration_seconds"

const (
	// syncMetric is a figure that every kube-proxy shows.
	syncMetric = "kubeproxy_sync_proxy_rules_duration_seconds_count"
	// metricsPort is kube-proxy's, on its node's loopback.
	metricsPort = 10249
	// readEvery is how often each node's figure is read.
	readEvery = 200 * time.Millisecond
	// rulesFollow is longer than kube-proxy waits until it writes its rules again (minSyncPeriod), and writes them.
	rulesFollow = 3 * time.Second
)

// A reading is what a kube-proxy's figure was at an instant between asked and read.
type reading struct {
	asked, read time.Time
	samples     int
	sum         float64 // of all samples, in seconds
}

// A programmingWatch reads kube-proxy's own figure on each node, and follows every change of an EndpointSlice.
type programmingWatch struct {
	cancel  context.CancelFunc
	proxies []*proxy
	reading sync.WaitGroup

	endSlices func() error
	slices    *sliceLog // read after endSlices
}

// watchProgramming begins. Close ends it.
func watchProgramming(ctx context.Context, c *drill.Cluster, nodes []string) (*programmingWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &programmingWatch{cancel: cancel, slices: newSliceLog()}
	listed, err := c.Kubectl(ctx, "get", "endpointslices", "--all-namespaces", "--output", "json")
	if err == nil {
		err = w.slices.begin([]byte(listed))
	}
	if err == nil {
		w.endSlices, err = c.Watch(ctx, w.slices.add, "endpointslices", "--all-namespaces")
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch EndpointSlices: %w", err)
	}
	for _, node := range nodes {
		p := newProxy(node)
		if err := p.look(ctx); err != nil {
			_ = w.Close()
			return nil, err
		}
		w.proxies = append(w.proxies, p)
		w.reading.Go(func() { p.follow(ctx) })
	}
	return w, nil
}

// Close ends the watch. It may be called twice.
func (w *programmingWatch) Close() error {
	err := w.endSlices()
	w.cancel()
	w.reading.Wait()
	for _, p := range w.proxies {
		p.client.CloseIdleConnections()
	}
	return err
}

// end waits until the rules have followed the last change, ends the watch, and says which changes gave samples.
// service is the Service of the run.
func (w *programmingWatch) end(ctx context.Context, service string) (programmed, error) {
	select {
	case <-time.After(rulesFollow):
	case <-ctx.Done():
	}
	if err := w.Close(); err != nil {
		return programmed{}, err
	}
	if w.slices.err != nil {
		return programmed{}, fmt.Errorf("read an EndpointSlice: %w", w.slices.err)
	}
	readings := map[string][]reading{}
	for _, p := range w.proxies {
		if p.err != nil {
			return programmed{}, p.err
		}
		readings[p.node] = p.readings
	}
	return tabulate(service, w.slices.changes, readings), nil
}

// A proxy is the kube-proxy of one node.
type proxy struct {
	node     string
	client   *http.Client
	readings []reading // read after follow has returned
	err      error
}

func newProxy(node string) *proxy {
	return &proxy{node: node, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableCompression: true, // to pack them takes more than to send them
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return truth.DialLoopback(node, metricsPort)
		},
	}}}
}

// follow looks every now and then until ctx ends.
func (p *proxy) follow(ctx context.Context) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := p.look(ctx); err != nil {
			if ctx.Err() == nil {
				p.err = err
			}
			return
		}
	}
}

// look reads the figure once.
func (p *proxy) look(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d/metrics", metricsPort), nil)
	if err != nil {
		return err
	}
	r := reading{asked: time.Now()}
	response, err := p.client.Do(request)
	if err != nil {
		return fmt.Errorf("metrics of kube-proxy on %s: %w", p.node, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("metrics of kube-proxy on %s: %s", p.node, response.Status)
	}
	if r.samples, r.sum, err = programmingIn(response.Body); err != nil {
		return fmt.Errorf("metrics of kube-proxy on %s: %w", p.node, err)
	}
	r.read = time.Now()
	p.readings = append(p.readings, r)
	return nil
}

// programmingIn finds the count and the sum of the programming latency in what kube-proxy shows. It shows no figure
// that has no sample yet.
func programmingIn(metrics io.Reader) (samples int, sum float64, err error) {
	shown := false
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		line := lines.Text()
		shown = shown || strings.HasPrefix(line, syncMetric)
		rest, ours := strings.CutPrefix(line, programmingMetric)
		if !ours {
			continue
		}
		// With labels: _count{ip_family="IPv4"} 6
		name, _, _ := strings.Cut(rest, " ")
		name, _, _ = strings.Cut(name, "{")
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%q: %w", line, err)
		}
		switch name {
		case "_count":
			samples += int(value)
		case "_sum":
			sum += value
		}
	}
	if err := lines.Err(); err != nil {
		return 0, 0, err
	}
	if !shown {
		return 0, 0, fmt.Errorf("there is no %s", syncMetric)
	}
	return samples, sum, nil
}

// triggerTime is the annotation from which kube-proxy counts.
const triggerTime = "endpoints.kubernetes.io/last-change-trigger-time"

// headless is the label of the EndpointSlices of headless Services. kube-proxy does not watch these, and has no
// samples of them.
const headless = "service.kubernetes.io/headless"

// An endpointSlice is the part of one that this program looks at.
type endpointSlice struct {
	Metadata struct {
		Name, Namespace, ResourceVersion string
		Labels, Annotations              map[string]string
	}
	Endpoints []endpoint
}

type endpoint struct {
	Addresses  []string
	Conditions struct{ Ready, Serving, Terminating bool }
	TargetRef  struct{ UID string }
}

// A sliceChange is one change of an EndpointSlice.
type sliceChange struct {
	seen    time.Time
	service string    // NAMESPACE/NAME
	kind    string    // what became of its endpoints, see kindOf
	trigger time.Time // zero: it carries none
}

// A sliceLog is every change of every EndpointSlice that kube-proxy watches, in order.
type sliceLog struct {
	known   map[string]endpointSlice // by namespace and name
	changes []sliceChange
	err     error
}

func newSliceLog() *sliceLog { return &sliceLog{known: map[string]endpointSlice{}} }

// begin takes in the EndpointSlices that are there: they are no changes.
func (l *sliceLog) begin(list []byte) error {
	var slices struct{ Items []endpointSlice }
	if err := json.Unmarshal(list, &slices); err != nil {
		return err
	}
	for _, s := range slices.Items {
		l.known[s.Metadata.Namespace+"/"+s.Metadata.Name] = s
	}
	return nil
}

func (l *sliceLog) add(c drill.Change) {
	var s endpointSlice
	if err := json.Unmarshal(c.Object, &s); err != nil {
		l.err = err
		return
	}
	if _, unwatched := s.Metadata.Labels[headless]; unwatched {
		return
	}
	key := s.Metadata.Namespace + "/" + s.Metadata.Name
	old, known := l.known[key]
	if known && old.Metadata.ResourceVersion == s.Metadata.ResourceVersion {
		return
	}
	service := s.Metadata.Labels["kubernetes.io/service-name"]
	change := sliceChange{seen: c.Seen, service: s.Metadata.Namespace + "/" + service}
	if c.Type == "DELETED" { // kube-proxy ignores what it carries
		delete(l.known, key)
		change.kind = kindOf(old.Endpoints, nil)
		l.changes = append(l.changes, change)
		return
	}
	l.known[key] = s
	change.kind = kindOf(old.Endpoints, s.Endpoints)
	if text, ok := s.Metadata.Annotations[triggerTime]; ok {
		trigger, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			l.err = err
			return
		}
		change.trigger = trigger
	}
	l.changes = append(l.changes, change)
}
