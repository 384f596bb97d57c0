package drill

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// manifest is the workload as YAML for kubectl.
func (w Workload) manifest() string {
	args, err := json.Marshal(w.Args)
	if err != nil {
		panic(err) // strings always marshal
	}
	return strings.NewReplacer(
		"NAMESPACE", w.Namespace, "NAME", w.Name, "REPLICAS", fmt.Sprint(w.Replicas),
		"ARGS", string(args), "GRACE", fmt.Sprint(cmp.Or(w.Grace, 30)),
	).Replace(manifestTemplate)
}

const manifestTemplate = `
apiVersion: v1
kind: Namespace
metadata:
  name: NAMESPACE
  labels:
    pod-security.kubernetes.io/enforce: restricted
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
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        labelSelector:
          matchLabels: {app: NAME}
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
