package drill

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Manifest returns the workload as YAML for kubectl, with its namespace.
func (w Workload) Manifest() string {
	args, err := json.Marshal(w.Args)
	if err != nil {
		panic(err) // strings always marshal
	}
	grace := fmt.Sprint(cmp.Or(w.Grace, 30))
	yaml := strings.NewReplacer("NAMESPACE", w.Namespace).Replace(namespaceTemplate) +
		workload(w.Namespace, w.Name, w.Replicas, string(args), grace, w.placement())
	if w.Metrics != nil {
		yaml = withMetrics(yaml, w.Metrics)
	}
	if w.Neighbours > 0 {
		yaml += workload(w.Namespace, neighbour, w.Neighbours, "[]", grace, spread)
	}
	return yaml
}

// withMetrics puts a second server into each Pod, and a second port before it.
func withMetrics(yaml string, args []string) string {
	quoted, err := json.Marshal(append([]string{"--listen", ":9090"}, args...))
	if err != nil {
		panic(err)
	}
	container := strings.Replace(metricsTemplate, "ARGS", string(quoted), 1)
	yaml = strings.Replace(yaml, "---\napiVersion: v1\nkind: Service\n",
		container+"---\napiVersion: v1\nkind: Service\n", 1)
	return strings.TrimRight(yaml, "\n") + "\n  - {name: metrics, port: 9090, targetPort: metrics}\n"
}

// neighbour is the name of a second Deployment next to the workload, and of its Service.
const neighbour = "neighbour"

// deployments names what the manifest deploys.
func (w Workload) deployments() []string {
	if w.Neighbours > 0 {
		return []string{w.Name, neighbour}
	}
	return []string{w.Name}
}

// placement returns the part of the Pod template that says where replicas go.
func (w Workload) placement() string {
	if w.Node == "" {
		return spread
	}
	return "      nodeSelector: {kubernetes.io/hostname: " + w.Node + "}\n"
}

func workload(namespace, name string, replicas int, args, grace, placement string) string {
	template := strings.Replace(workloadTemplate, "PLACEMENT\n", placement, 1)
	return strings.NewReplacer(
		"NAMESPACE", namespace, "NAME", name, "REPLICAS", fmt.Sprint(replicas), "ARGS", args, "GRACE", grace,
	).Replace(template)
}

const namespaceTemplate = `
apiVersion: v1
kind: Namespace
metadata:
  name: NAMESPACE
  labels:
    pod-security.kubernetes.io/enforce: restricted
`

// spread puts replicas on different nodes.
const spread = `      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        labelSelector:
          matchLabels: {app: NAME}
`

const workloadTemplate = `
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: NAME
  namespace: NAMESPACE
spec:
  replicas: REPLICAS
  selector:
    matchLabels: {app: NAME}
  template:
    metadata:
      labels: {app: NAME}
    spec:
      terminationGracePeriodSeconds: GRACE
PLACEMENT
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
      - name: server
        image: lapse-workload:dev
        imagePullPolicy: Never
        args: ARGS
        ports:
        - {name: http, containerPort: 8080}
        readinessProbe:
          httpGet: {path: /readyz, port: http}
          periodSeconds: 1
        securityContext:
          allowPrivilegeEscalation: false
          capabilities: {drop: [ALL]}
---
apiVersion: v1
kind: Service
metadata:
  name: NAME
  namespace: NAMESPACE
spec:
  selector: {app: NAME}
  ports:
  - {name: http, port: 80, targetPort: http}
`

const metricsTemplate = `      - name: metrics
        image: lapse-workload:dev
        imagePullPolicy: Never
        args: ARGS
        ports:
        - {name: metrics, containerPort: 9090}
        readinessProbe:
          httpGet: {path: /readyz, port: metrics}
          periodSeconds: 1
        securityContext:
          allowPrivilegeEscalation: false
          capabilities: {drop: [ALL]}
`
