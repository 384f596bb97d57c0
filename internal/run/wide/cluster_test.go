package wide

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	apiversion "k8s.io/apimachinery/pkg/version"

	"lapse/deploy"
	"lapse/internal/kube/kubetest"
)

// A widePlan is a cluster of many nodes and Services.
type widePlan struct {
	Run       string // the name of the run
	Sources   int    // nodes, each with a prober
	Services  int
	Endpoints int           // of all Services together
	Every     time.Duration // from one replaced Pod to the next
	Net       byte          // all addresses are in 127.Net.0.0/16
}

func (p widePlan) node(n int) string { return fmt.Sprintf("node%d", n+1) }

// nodes returns the names of all nodes.
func (p widePlan) nodes() (names []string) {
	for n := range p.Sources {
		names = append(names, p.node(n))
	}
	return names
}

func (p widePlan) service(n int) string { return fmt.Sprintf("web-%d", n) }

// proberAddr is where the prober on a node listens, clusterIP a Service's address, podIP that of the nth Pod. All are
// this machine's.
func (p widePlan) proberAddr(node int) string { return fmt.Sprintf("127.%d.255.%d", p.Net, node+1) }
func (p widePlan) clusterIP(n int) string     { return fmt.Sprintf("127.%d.254.%d", p.Net, n+1) }
func (p widePlan) podIP(n int) string         { return fmt.Sprintf("127.%d.%d.%d", p.Net, n/200, n%200+1) }

// A wideCluster is as much of the Kubernetes API as a run's coordinator asks: its objects can be listed and watched.
// Pods come and go, one every few seconds. Its objects are about as large as those of a real cluster.
type wideCluster struct {
	widePlan
	port int32 // of all Services and Pods

	kubetest.Watched
	kept map[string]map[types.UID]keptObject // by resource

	made      int // Pods
	pods      [][]*corev1.Pod
	endpoints []*discoveryv1.EndpointSlice
}

// A keptObject is an object as the API server would send it.
type keptObject struct {
	name   string
	labels labels.Set
	text   json.RawMessage
}

// newWideCluster returns a cluster whose Pods all listen on port.
func newWideCluster(p widePlan, port int32) *wideCluster {
	c := &wideCluster{
		widePlan: p, port: port, kept: map[string]map[types.UID]keptObject{},
		pods: make([][]*corev1.Pod, p.Services), endpoints: make([]*discoveryv1.EndpointSlice, p.Services),
	}
	for n, name := range p.nodes() {
		c.put("nodes", "ADDED", wideNode(name, n))
		c.put("pods", "ADDED", c.proberPod(n))
	}
	for n := range p.Services {
		service := kubetest.Service(p.service(n), func(s *corev1.ServiceSpec) { s.ClusterIP, s.Ports[0].Port = p.clusterIP(n), port })
		service.UID = types.UID("service-" + service.Name)
		c.put("services", "ADDED", &service)
		name := "http"
		c.endpoints[n] = &discoveryv1.EndpointSlice{
			TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: p.service(n) + "-1", UID: types.UID("slice-" + p.service(n)), Labels: map[string]string{discoveryv1.LabelServiceName: p.service(n)}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		}
	}
	for i := range p.Endpoints {
		pod := c.newPod(i % p.Services)
		c.scheduled(pod)
		c.running(pod)
		c.ready(pod)
		c.pods[i%p.Services] = append(c.pods[i%p.Services], pod)
		c.put("pods", "ADDED", pod)
		c.list(i%p.Services, pod)
	}
	for n := range p.Services {
		c.put("endpointslices", "ADDED", c.endpoints[n])
	}
	return c
}

// put keeps an object, and sends it to who watches.
func (c *wideCluster) put(resource, kind string, object metav1.Object) {
	object.SetResourceVersion(c.Next())
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	if c.kept[resource] == nil {
		c.kept[resource] = map[types.UID]keptObject{}
	}
	if c.kept[resource][object.GetUID()] = (keptObject{object.GetName(), maps.Clone(object.GetLabels()), text}); kind == "DELETED" {
		delete(c.kept[resource], object.GetUID())
	}
	c.Add(kubetest.Change{Resource: resource, Type: kind, Object: json.RawMessage(text)})
}

func wideNode(name string, n int) *corev1.Node {
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
			corev1.LabelTopologyZone: string(rune('a' + n%3)), corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
			NodeInfo:   corev1.NodeSystemInfo{KernelVersion: "6.12.0", KubeletVersion: "v1.36.3", OSImage: "Debian GNU/Linux 13 (trixie)"},
		},
	}
}

// proberPod returns the Pod of the run's DaemonSet on a node.
func (c *wideCluster) proberPod(n int) *corev1.Pod {
	pod := widePod(c.Run+"-probers-"+c.node(n), map[string]string{deploy.RunLabel: c.Run, deploy.PartLabel: deploy.ProberPart})
	pod.Spec.NodeName = c.node(n)
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, c.proberAddr(n)
	return pod
}

// widePod returns a Pod that is not scheduled yet.
func widePod(name string, set map[string]string) *corev1.Pod {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Scheme: "HTTP"}}, PeriodSeconds: 5, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3}
	var env []corev1.EnvVar
	for n := range 12 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", n), Value: "the value of a setting of the server"})
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: set, CreationTimestamp: metav1.Now(),
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: new(metav1.Now()), FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{` + strings.TrimSuffix(strings.Repeat(`"k:{\"name\":\"server\"}":{".":{},"f:image":{},"f:imagePullPolicy":{}},`, 25), ",") + `}}`),
			}},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "server", Image: "registry.example.org/shop/web:1.2.3", Env: env, LivenessProbe: probe, ReadinessProbe: probe,
				Ports:        []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
				Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
			}},
			TerminationGracePeriodSeconds: new(int64(30)), RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default",
			Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}, {Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable},
	}
}

func (c *wideCluster) newPod(service int) *corev1.Pod {
	c.made++
	return widePod(fmt.Sprintf("%s-7f9c4b6d8-%05d", c.service(service), c.made), map[string]string{"app": c.service(service), "pod-template-hash": "7f9c4b6d8"})
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) {
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()})
}

func (c *wideCluster) scheduled(pod *corev1.Pod) {
	pod.Spec.NodeName = c.node(c.made % c.Sources)
	condition(pod, corev1.PodScheduled, corev1.ConditionTrue)
}

func (c *wideCluster) running(pod *corev1.Pod) {
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, c.podIP(c.made)
	pod.Status.PodIPs, pod.Status.StartTime = []corev1.PodIP{{IP: pod.Status.PodIP}}, new(metav1.Now())
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "server", Image: pod.Spec.Containers[0].Image, ContainerID: "containerd://" + strings.Repeat("0", 64), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReadyToStartContainers} {
		condition(pod, kind, corev1.ConditionTrue)
	}
	condition(pod, corev1.PodReady, corev1.ConditionFalse)
}

func (c *wideCluster) ready(pod *corev1.Pod) {
	pod.Status.ContainerStatuses[0].Ready = true
	condition(pod, corev1.ContainersReady, corev1.ConditionTrue)
	condition(pod, corev1.PodReady, corev1.ConditionTrue)
}

// list adds a Pod to the endpoints of a Service.
func (c *wideCluster) list(service int, pod *corev1.Pod) {
	slice := c.endpoints[service]
	slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
		Addresses: []string{pod.Status.PodIP}, NodeName: new(pod.Spec.NodeName), Conditions: kubetest.Ready(true, false),
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	})
}

// replacement returns the steps by which a rolling update replaces a Pod of a Service.
func (c *wideCluster) replacement(service int) []func() {
	leaving := c.pods[service][0]
	pod := c.newPod(service)
	slice := c.endpoints[service]
	modified := func(pod *corev1.Pod, change func(*corev1.Pod)) func() {
		return func() { change(pod); c.put("pods", "MODIFIED", pod) }
	}
	return []func(){
		func() { c.put("pods", "ADDED", pod) },
		modified(pod, c.scheduled),
		modified(pod, c.running),
		func() {
			modified(pod, c.ready)()
			c.list(service, pod)
			c.put("endpointslices", "MODIFIED", slice)
		},
		func() {
			leaving.DeletionTimestamp, leaving.DeletionGracePeriodSeconds = new(metav1.NewTime(time.Now().Add(30*time.Second))), new(int64(30))
			c.put("pods", "MODIFIED", leaving)
			slice.Endpoints[0].Conditions = kubetest.Ready(false, true)
			c.put("endpointslices", "MODIFIED", slice)
		},
		func() {
			leaving.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()}}
			condition(leaving, corev1.PodReady, corev1.ConditionFalse)
			c.put("pods", "MODIFIED", leaving)
		},
		func() {
			slice.Endpoints = slice.Endpoints[1:]
			c.put("endpointslices", "MODIFIED", slice)
			leaving.DeletionGracePeriodSeconds = new(int64(0)) // as an API server sends a Pod that it removes
			c.put("pods", "DELETED", leaving)
			c.pods[service] = append(c.pods[service][1:], pod)
		},
	}
}

// keepReplacing replaces one Pod after the other.
func (c *wideCluster) keepReplacing() {
	var steps []func()
	for n := 0; ; {
		c.Lock()
		if len(steps) == 0 {
			steps = c.replacement(n % c.Services)
			n++
		}
		steps[0]()
		steps = steps[1:]
		c.Unlock()
		time.Sleep(c.Every / 7) // so many steps it takes
	}
}

// handler returns the API.
func (c *wideCluster) handler() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		kubetest.Answer(w, 200, apiversion.Info{GitVersion: "v1.36.3"})
	})
	mux.HandleFunc("GET /api/v1/namespaces/shop/services/{name}", func(w http.ResponseWriter, r *http.Request) { c.serveOne(w, "services", r.PathValue("name")) })
	for resource, list := range map[string]metav1.TypeMeta{
		"/api/v1/nodes":                            {APIVersion: "v1", Kind: "NodeList"},
		"/api/v1/pods":                             {APIVersion: "v1", Kind: "PodList"},
		"/api/v1/namespaces/shop/pods":             {APIVersion: "v1", Kind: "PodList"}, // there are no others
		"/api/v1/services":                         {APIVersion: "v1", Kind: "ServiceList"},
		"/api/v1/events":                           {APIVersion: "v1", Kind: "EventList"},
		"/apis/discovery.k8s.io/v1/endpointslices": {APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSliceList"},
		"/apis/apps/v1/deployments":                {APIVersion: "apps/v1", Kind: "DeploymentList"},
		"/apis/apps/v1/replicasets":                {APIVersion: "apps/v1", Kind: "ReplicaSetList"},
		"/apis/apps/v1/statefulsets":               {APIVersion: "apps/v1", Kind: "StatefulSetList"},
		"/apis/apps/v1/daemonsets":                 {APIVersion: "apps/v1", Kind: "DaemonSetList"},
		"/apis/policy/v1/poddisruptionbudgets":     {APIVersion: "policy/v1", Kind: "PodDisruptionBudgetList"},
	} {
		mux.HandleFunc("GET "+resource, c.serve(resource[strings.LastIndexByte(resource, '/')+1:], list))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		kubetest.Refuse(w, 404, metav1.StatusReasonNotFound, r.URL.Path+" not found")
	})
	return mux
}

func (c *wideCluster) serveOne(w http.ResponseWriter, resource, name string) {
	c.Lock()
	defer c.Unlock()
	for _, o := range c.kept[resource] {
		if o.name == name {
			kubetest.Answer(w, 200, o.text)
			return
		}
	}
	kubetest.Refuse(w, 404, metav1.StatusReasonNotFound, name+" not found")
}

// serve lists a resource, or watches it.
func (c *wideCluster) serve(resource string, list metav1.TypeMeta) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		selector, err := labels.Parse(r.FormValue("labelSelector"))
		if err != nil {
			kubetest.Refuse(w, 400, metav1.StatusReasonBadRequest, err.Error())
			return
		}
		if r.FormValue("watch") == "true" {
			c.ServeWatch(w, r, resource)
			return
		}
		version, items := c.items(resource, selector)
		kubetest.Answer(w, 200, struct {
			metav1.TypeMeta
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}{list, metav1.ListMeta{ResourceVersion: version}, items})
	}
}

// items returns the objects of a resource that a selector selects, by name, and their version.
func (c *wideCluster) items(resource string, selector labels.Selector) (version string, items []json.RawMessage) {
	c.Lock()
	defer c.Unlock()
	items = []json.RawMessage{}
	for _, o := range slices.SortedFunc(maps.Values(c.kept[resource]), func(a, b keptObject) int { return strings.Compare(a.name, b.name) }) {
		if selector.Matches(o.labels) {
			items = append(items, o.text)
		}
	}
	return c.Version(), items
}
