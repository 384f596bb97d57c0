package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	apiversion "k8s.io/apimachinery/pkg/version"

	"lapse/deploy"
	"lapse/internal/guard"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/runtest"
)

// A calm is a Kubernetes API of 100 nodes with 3000 Pods. Nothing changes in it but what kubelets say of their nodes
// every five minutes. The guarded Services have three of the Pods each, for all of which one server answers.
type calm struct {
	kubetest.Watched
	lists  map[string]any // by path
	asked  atomic.Int64   // requests that are no watch
	opened atomic.Int64   // watches
	nodes  []corev1.Node
}

const (
	calmNodes = 100
	calmPods  = 3000
	// heartbeat is how long a kubelet says nothing of a node that is as it was, apart from its Lease.
	heartbeat = 5 * time.Minute
)

// nodeOf returns the nth node of a cluster, with the images that its kubelet lists.
func nodeOf(n int) corev1.Node {
	name := fmt.Sprint("node", n)
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprint("10.0.0.", n)}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for i := range 50 { // the most that a kubelet lists
		image := fmt.Sprintf("registry.example.com/shop/image-%d@sha256:%064d", i, i)
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{image}, SizeBytes: 1 << 26})
	}
	return node
}

// beats sends what kubelets say of their nodes, until over is closed.
func (c *calm) beats(over <-chan struct{}) {
	tick := time.NewTicker(heartbeat / calmNodes)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-over:
			return
		}
		node := c.nodes[n%calmNodes]
		node.Kind, node.APIVersion = "Node", "v1"
		c.Lock()
		node.ResourceVersion = c.Next()
		ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}
		node.Status.Conditions = []corev1.NodeCondition{ready}
		c.Add(kubetest.Change{Resource: "nodes", Type: "MODIFIED", Object: node})
		c.Unlock()
	}
}

// podAt returns a Pod that is ready.
func podAt(name, node, address string, of map[string]string) corev1.Pod {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "calm", Name: name, UID: types.UID(name), Labels: of},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "server", Image: "shop/web:1"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
			Conditions: []corev1.PodCondition{ready},
		},
	}
}

func newCalm(services int, port int32) *calm {
	c := &calm{lists: map[string]any{}}
	list := func(version, kind string, items any) any {
		return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"resourceVersion": "0"}, "items": items}
	}
	var all []corev1.Service
	var pods []corev1.Pod
	var slices []discoveryv1.EndpointSlice
	name := "http"
	for i := range services {
		s := kubetest.Service(fmt.Sprintf("web-%d", i), func(is *corev1.ServiceSpec) {
			is.ClusterIP, is.ClusterIPs, is.Ports[0].Port = "127.0.0.1", []string{"127.0.0.1"}, port
		})
		s.Namespace, s.UID, s.ResourceVersion = "calm", types.UID(s.Name), "1"
		s.Annotations = map[string]string{"lapse/guard": "on"}
		slice := discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "calm", Name: s.Name + "-1", UID: types.UID(s.Name + "-1"), Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		}
		for j := range 3 {
			pod, node := fmt.Sprintf("%s-%d", s.Name, j), fmt.Sprint("node", (3*i+j)%calmNodes)
			address := fmt.Sprintf("127.0.%d.%d", i/80, i%80*3+j+2)
			pods = append(pods, podAt(pod, node, address, map[string]string{"app": s.Name}))
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{address}, NodeName: &node, Conditions: kubetest.Ready(true, false),
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "calm", Name: pod, UID: types.UID(pod)},
			})
		}
		all, slices = append(all, s), append(slices, slice)
		c.lists["/api/v1/namespaces/calm/services/"+s.Name] = s
	}
	for n := range calmNodes {
		c.nodes = append(c.nodes, nodeOf(n))
	}
	for n := len(pods); n < calmPods; n++ {
		name, node := fmt.Sprint("other-", n), fmt.Sprint("node", n%calmNodes)
		pods = append(pods, podAt(name, node, fmt.Sprintf("10.1.%d.%d", n/250, n%250+1), nil))
	}
	for at, is := range map[string]any{
		"/version":                         apiversion.Info{GitVersion: "v1.36.3"},
		"/api/v1/namespaces/calm/services": list("v1", "ServiceList", all),
		"/api/v1/namespaces/calm/pods":     list("v1", "PodList", pods),
		"/apis/discovery.k8s.io/v1/namespaces/calm/endpointslices": list("discovery.k8s.io/v1", "EndpointSliceList", slices),
		"/apis/apps/v1/namespaces/calm/deployments":                list("apps/v1", "DeploymentList", []any{}),
		"/apis/apps/v1/namespaces/calm/replicasets":                list("apps/v1", "ReplicaSetList", []any{}),
		"/apis/apps/v1/namespaces/calm/statefulsets":               list("apps/v1", "StatefulSetList", []any{}),
		"/apis/apps/v1/namespaces/calm/daemonsets":                 list("apps/v1", "DaemonSetList", []any{}),
		"/apis/policy/v1/namespaces/calm/poddisruptionbudgets":     list("policy/v1", "PodDisruptionBudgetList", []any{}),
		"/api/v1/namespaces/calm/events":                           list("v1", "EventList", []any{}),
		"/api/v1/nodes":                                            list("v1", "NodeList", c.nodes),
	} {
		c.lists[at] = is
	}
	return c
}

func (c *calm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPatch && r.URL.Path == proberSecret {
		c.fillSecret(w, r)
		return
	}
	if r.FormValue("watch") == "true" {
		c.opened.Add(1)
		c.ServeWatch(w, r, path.Base(r.URL.Path))
		return
	}
	c.asked.Add(1)
	is, ok := c.lists[r.URL.Path]
	if !ok {
		kubetest.Refuse(w, 404, metav1.StatusReasonNotFound, "not found")
		return
	}
	selected, err := labels.Parse(r.FormValue("labelSelector"))
	if err != nil {
		kubetest.Refuse(w, 400, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if !selected.Empty() {
		one := maps.Clone(is.(map[string]any))
		switch items := one["items"].(type) {
		case []discoveryv1.EndpointSlice:
			one["items"] = matching(items, func(s discoveryv1.EndpointSlice) bool {
				return selected.Matches(labels.Set(s.Labels))
			})
		case []corev1.Pod:
			one["items"] = matching(items, func(p corev1.Pod) bool { return selected.Matches(labels.Set(p.Labels)) })
		}
		is = one
	}
	text, err := json.Marshal(is)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

func matching[T any](all []T, matches func(T) bool) (some []T) {
	for _, one := range all {
		if matches(one) {
			some = append(some, one)
		}
	}
	return some
}

// BenchmarkIdleGuard measures what a guard takes while nothing happens: thousandths of a core, memory, and requests to
// the API server. With probers, which are real and in other processes, it measures what these take, too, and how long
// after a cordon all have other rates.
func BenchmarkIdleGuard(b *testing.B) {
	program := filepath.Join(b.TempDir(), "lapse")
	if text, err := exec.Command("go", "build", "-o", program, "lapse/cmd/lapse").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	for _, services := range []int{1, 10, 50} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) { idleGuard(b, program, services, 0) })
	}
	for _, wide := range [][2]int{{10, 20}, {10, 60}, {50, 100}} {
		b.Run(fmt.Sprintf("services=%d/probers=%d", wide[0], wide[1]), func(b *testing.B) { idleGuard(b, program, wide[0], wide[1]) })
	}
}

func idleGuard(b *testing.B, program string, services, nodes int) {
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }() // until it is closed
	defer server.Close()
	cluster := newCalm(services, int32(listener.Addr().(*net.TCPAddr).Port))
	over := make(chan struct{})
	defer close(over)
	go cluster.beats(over)
	api := httptest.NewServer(cluster)
	defer api.CloseClientConnections()
	dir := b.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(kubetest.Kubeconfig(api.URL)), 0o600); err != nil {
		b.Fatal(err)
	}
	status := freeAddress(b)
	cmd := exec.Command(program, "guard", "-n=calm", "--kubeconfig="+kubeconfig, "--out="+filepath.Join(dir, "runs"), "--listen="+freeAddress(b), "--status-listen="+status)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT="+deploy.SoftMemory)
	settles := 3 * time.Second // the start is over
	measured := nodes > 0
	if measured {
		cluster.addProbers(nodes)
		cmd.Args, cmd.Env = append(cmd.Args, "--probers", "--connections=1"), append(cmd.Env, "POD_NAME=lapse-guard-1", "POD_NAMESPACE=calm")
		settles = 5 * time.Minute // the two minutes that are kept are whole, and Go has given back what the beginning took
	}
	said, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer said.Close()
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if b.Failed() {
			text, _ := os.ReadFile(said.Name())
			b.Logf("%s", text)
		}
	}()
	runtest.WaitFor(b, "all Services to be idle", func() bool {
		r, err := guard.Ask(b.Context(), http.DefaultClient, status)
		idle := 0
		for _, s := range r.Services {
			if s.State == coordinator.Idle {
				idle++
			}
		}
		return err == nil && idle == services
	})
	var probers *manyProbers
	if measured {
		probers = startProbers(b, cluster, nodes)
		runtest.WaitFor(b, "all nodes to measure all Services", func() bool {
			return probers.report().Calls["/v1/assignment"] >= services*nodes
		})
		b.Logf("all nodes measure all Services after %d calls: %v", probers.report().all(), probers.report().Calls)
	}
	const length = 20 * time.Second
	cpu := func() time.Duration {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		var user, system int64
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')'):]))
		fmt.Sscan(fields[12], &user)
		fmt.Sscan(fields[13], &system)
		return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
	}
	time.Sleep(settles)
	b.ResetTimer()
	for range b.N {
		before, asked := cpu(), cluster.asked.Load()
		was := probers.report()
		time.Sleep(length) // what is measured
		if measured {
			is := probers.report()
			b.ReportMetric(float64((is.Used-was.Used).Milliseconds())/length.Seconds()/float64(nodes), "millicores/prober")
			b.ReportMetric(is.MiB/float64(nodes), "MiB/prober")
			b.ReportMetric(float64(is.all()-was.all())/length.Seconds(), "calls/s")
		}
		b.ReportMetric(float64((cpu()-before).Milliseconds())/length.Seconds(), "millicores")
		b.ReportMetric(float64(cluster.asked.Load()-asked)/length.Seconds(), "API-requests/s")
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		var kb, threads float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f", &kb); err == nil {
			b.ReportMetric(kb/1024, "MiB")
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %f", &kb); err == nil {
			b.ReportMetric(kb/1024, "MiB-at-most")
		}
		if _, err := fmt.Sscanf(line, "Threads: %f", &threads); err == nil {
			b.ReportMetric(threads, "threads")
		}
	}
	if measured {
		b.ReportMetric(float64(probers.raised(cluster, 1).Microseconds())/1000, "ms-to-full-rates-of-few")
		b.ReportMetric(float64(probers.raised(cluster, calmNodes).Microseconds())/1000, "ms-to-full-rates-of-all")
	}
	b.ReportMetric(float64(cluster.opened.Load()), "watches")
	b.ReportMetric(0, "ns/op")
}
