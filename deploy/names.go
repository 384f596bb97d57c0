package deploy

import (
	"k8s.io/apimachinery/pkg/labels"
)

// Labels of the objects, and names inside the agent's container.
const (
	// RunLabel is on every object of a run; its value is the run's name.
	RunLabel = "lapse.dev/run"
	// NamespaceLabel is on a run's objects outside its Job's namespace. Its value is that namespace.
	NamespaceLabel = "lapse.dev/namespace"
	// jobAnnotation is on a ClusterRole that [Create] made. Its value is the Job's UID.
	jobAnnotation = "lapse.dev/job-uid"
	// managedLabel has the value "lapse" on everything that this package creates.
	managedLabel = "app.kubernetes.io/managed-by"
	nameLabel    = "app.kubernetes.io/name"

	// ContainerName is the name of the agent's container.
	ContainerName = "lapse"
	// DefaultDir is where the agent keeps its recording: the image's /tmp, which has mode 1777.
	DefaultDir = "/tmp/lapse"
)

// PartLabel is on the Pods of a run's probers, with the value ProberPart.
const (
	PartLabel  = "lapse.dev/part"
	ProberPart = "prober"
)

// canaryPart is the value of PartLabel on the Pods of a run's own Service.
const canaryPart = "canary"

// The environment of the agent's container. The binary is the agent if EnvListen is set.
//
// EnvSpec is one value of the environment. After `kubectl apply` nothing could send it to the agent. On a command line
// a forgotten flag would be ignored silently; here an agent refuses fields that it does not know. Linux allows 128 KiB.
const (
	EnvListen    = "LAPSE_LISTEN"   // address of the agent's API: 127.0.0.1:8089
	EnvDir       = "LAPSE_DIR"      // directory for the recording, to be created
	EnvHold      = "LAPSE_HOLD"     // how long to wait for retrieval after the end: a Go duration
	EnvDeadline  = "LAPSE_DEADLINE" // after how long Kubernetes ends the Pod: a Go duration
	EnvRun       = "LAPSE_RUN"      // the run's name
	EnvSpec      = "LAPSE_SPEC"     // the agent's task: [Config.Spec]
	EnvPrivate   = "LAPSE_PRIVATE"  // its secrets: [Config.Private]
	EnvHeader    = "LAPSE_HEADER_"  // begins the name of each header from a Secret: LAPSE_HEADER_0_Authorization
	EnvEcho      = "LAPSE_ECHO"     // the text to echo, from a Secret
	EnvTLSCA     = "LAPSE_TLS_CA"   // of a coordinator and its probers, in PEM form: the authority,
	EnvTLSCert   = "LAPSE_TLS_CERT" // their own certificate
	EnvTLSKey    = "LAPSE_TLS_KEY"  // and its key
	EnvKeyDir    = "LAPSE_KEY_DIR"  // of a prober of guards: the directory with its keys, which may change
	EnvKeys      = "LAPSE_KEYS"     // of a coordinator that makes these itself: the Secret for its probers' keys
	envNode      = "NODE_NAME"
	EnvPod       = "POD_NAME"
	EnvNamespace = "POD_NAMESPACE"
	EnvPodIP     = "POD_IP" // of a guard
)

// EnvProbe is set only for a prober: the address of its API, [::]:8090.
const EnvProbe = "LAPSE_PROBE"

// probersName is the name of a run's DaemonSet.
func probersName(run string) string { return run + "-probers" }

// keysName is the name of the Secret into which the agent of an unattended run writes the probers' keys.
func keysName(run string) string { return run + "-keys" }

// CanaryName is the name of a run's own Service and its Deployment.
func CanaryName(run string) string { return run + "-canary" }

// TwinName is the name of a headless Service with the same Pods. Lapse asks DNS servers for it.
func TwinName(run string) string { return run + "-twin" }

// clusterName is the name of a run's objects outside its namespace.
func clusterName(run string) string { return run + "-nodes" }

// maxName leaves room for the suffixes of the Job controller and of this package.
const maxName = 63 - len("-probers")

// ProberSelector selects the Pods of a run's probers.
func ProberSelector(run string) string {
	return RunLabel + "=" + run + "," + PartLabel + "=" + ProberPart
}

// CanarySelector selects the Pods of a run's own Service.
func CanarySelector(run string) string { return labels.Set(canaryLabels(run)).String() }

func canaryLabels(run string) map[string]string {
	return map[string]string{RunLabel: run, PartLabel: canaryPart}
}

// privateKey is the key of the run's own Secret, echoKey that of [Config.EchoFrom].
const (
	privateKey = "flags"
	echoKey    = "echo"
)

// The entries of a [Keys] in a Secret of a run or a guard. A certificate ends in .crt, a key in .key.
const (
	authorityName  = "ca"
	authorityKey   = authorityName + ".crt"
	coordinatorKey = "coordinator"
	proberKey      = "prober"
)
