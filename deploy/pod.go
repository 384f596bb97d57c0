package deploy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"lapse/deploy/agent"
)

// DefaultCPU is the CPU that an agent uses at the default rates: 0.23 to 0.35 of a core, measured in a virtual machine
// of 2 cores. The kernel divides a busy node's CPU among its Pods by their requests.
const DefaultCPU = "300m"

// A recording of 6 h at 2000 requests per second has 65 MB.
const (
	memoryRequest = "128Mi"
	memoryLimit   = "512Mi"
	// SoftMemory is GOMEMLIMIT: above it Go collects garbage more often. A larger run raises it.
	SoftMemory     = "208MiB"
	storageRequest = "256Mi"

	ttlAfterFinished = time.Hour   // how long the log of a finished run can be read
	terminationGrace = time.Minute // after SIGTERM the agent ends the run, judges it, prints the result and exits

	user = 65532 // "nonroot" of distroless images; the image has no passwd file to look it up in
)

// MostMemory is how many bytes the agent may use, below the container's limit of 512 MiB.
const MostMemory = 450 << 20

func (c Config) job() *batchv1.Job {
	return &batchv1.Job{
		TypeMeta: typeMeta("batch/v1", "Job"), ObjectMeta: c.identity().meta(),
		Spec: batchv1.JobSpec{
			// A second Pod would measure something else under the same name. The run ends with its Pod.
			BackoffLimit:            new(int32(0)),
			PodReplacementPolicy:    new(batchv1.Failed),
			ActiveDeadlineSeconds:   new(seconds(c.deadline())),
			TTLSecondsAfterFinished: new(int32(seconds(ttlAfterFinished))),
			Template:                c.podTemplate(),
		},
	}
}

// seconds rounds d up to whole seconds.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// podTemplate returns the agent's Pod.
//
// It has no volumes: `kubectl drain` would refuse to drain a node with an emptyDir, and the instrument must not change
// the experiment. So the recording is in the container's writable layer, and the root file system is not read-only.
// Everything else meets the "restricted" Pod Security Standard. There are no tolerations and no PodDisruptionBudget:
// the scheduler and a drain treat the Pod like any other. No annotation keeps an autoscaler off its node
// (cluster-autoscaler's safe-to-evict: "false", Karpenter's do-not-disrupt), because a measured scale-down would then
// spare the node that Lapse is on. An agent that is evicted ends its run and delivers what it has.
func (c Config) podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: c.identity().podMeta(),
		Spec: corev1.PodSpec{
			ServiceAccountName:            c.Name,
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(seconds(terminationGrace)),
			EnableServiceLinks:            new(false),
			NodeSelector:                  onLinux(nil),
			Affinity:                      affinity(c.AvoidNodes, c.SpareNodes),
			ImagePullSecrets:              pullSecrets(c.ImagePullSecret),
			SecurityContext:               restricted(),
			Containers:                    []corev1.Container{c.container()},
		},
	}
}

// restricted returns the security context that the "restricted" Pod Security Standard demands.
func restricted() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   new(true),
		RunAsUser:      new(int64(user)),
		RunAsGroup:     new(int64(user)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func (c Config) container() corev1.Container {
	container := c.measuring(c.environment(), c.Args...)
	container.EnvFrom = headersFrom(c.HeadersFrom)
	return container
}

// measuring returns a container that measures.
func (c Config) measuring(environment []corev1.EnvVar, args ...string) corev1.Container {
	return corev1.Container{
		Name:            ContainerName,
		Image:           c.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            slices.Clone(args),
		Env:             environment,
		Resources:       c.resources(),
		// If the agent dies before it wrote its verdict, the end of its log says why.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			Privileged:               new(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			ReadOnlyRootFilesystem:   new(false), // see podTemplate
		},
	}
}

func (c Config) environment() []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: EnvListen, Value: "127.0.0.1:" + strconv.Itoa(agent.DefaultPort)},
		{Name: EnvDir, Value: DefaultDir},
		{Name: EnvHold, Value: cmp.Or(c.Hold, 10*time.Minute).String()},
		{Name: EnvDeadline, Value: c.deadline().String()},
		{Name: EnvRun, Value: c.Name},
	}
	env = append(env, commonEnv()...)
	switch {
	case c.Unattended:
		env = append(env, corev1.EnvVar{Name: EnvKeys, Value: keysName(c.Name)})
	case c.hasProbers():
		env = append(env, c.keyEnv(coordinatorKey)...)
	}
	if len(c.Spec) > 0 {
		// Kubernetes replaces $(NAME) in a value, so the dollar is escaped.
		env = append(env, corev1.EnvVar{Name: EnvSpec, Value: strings.ReplaceAll(string(c.Spec), "$", `\u0024`)})
	}
	if len(c.Private) > 0 {
		env = append(env, secretEnv(EnvPrivate, c.Name, privateKey))
	}
	if c.EchoFrom != "" {
		env = append(env, secretEnv(EnvEcho, c.EchoFrom, echoKey))
	}
	return env
}

// commonEnv returns the environment that says where a process runs, and its soft memory limit.
func commonEnv() []corev1.EnvVar {
	return []corev1.EnvVar{
		fieldEnv(envNode, "spec.nodeName"),
		fieldEnv(EnvPod, "metadata.name"),
		fieldEnv(EnvNamespace, "metadata.namespace"),
		{Name: "GOMEMLIMIT", Value: SoftMemory},
	}
}

// keyEnv returns the environment with the keys of one side.
func (c Config) keyEnv(side string) []corev1.EnvVar {
	secret := c.Name
	if c.Unattended {
		secret = keysName(c.Name)
	}
	return []corev1.EnvVar{
		secretEnv(EnvTLSCA, secret, authorityKey),
		secretEnv(EnvTLSCert, secret, side+".crt"),
		secretEnv(EnvTLSKey, secret, side+".key"),
	}
}

// headersFrom turns the keys of Secrets into variables. A number distinguishes the same key of several Secrets.
func headersFrom(secrets []string) []corev1.EnvFromSource {
	var from []corev1.EnvFromSource
	for i, name := range secrets {
		from = append(from, corev1.EnvFromSource{
			Prefix:    EnvHeader + strconv.Itoa(i) + "_",
			SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		})
	}
	return from
}

func secretEnv(name, secret, key string) corev1.EnvVar {
	ref := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key}
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: ref}}
}

func fieldEnv(name, path string) corev1.EnvVar {
	ref := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: ref}}
}

// resources sets no CPU limit, because throttling would look like latency.
func (c Config) resources() corev1.ResourceRequirements {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:              cpuRequest(c.CPU),
		corev1.ResourceMemory:           resource.MustParse(memoryRequest),
		corev1.ResourceEphemeralStorage: resource.MustParse(storageRequest),
	}
	if c.NoStorageRequest {
		delete(requests, corev1.ResourceEphemeralStorage)
	}
	return corev1.ResourceRequirements{
		Requests: requests,
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memoryLimit)},
	}
}

// cpuRequest returns a Pod's request, or the default for one that CheckCPU refuses.
func cpuRequest(cpu string) resource.Quantity {
	q, err := resource.ParseQuantity(cmp.Or(cpu, DefaultCPU))
	if err != nil {
		return resource.MustParse(DefaultCPU)
	}
	return q
}

// pullSecrets returns the Secret to pull an image with, if there is one.
func pullSecrets(name string) []corev1.LocalObjectReference {
	if name == "" {
		return nil
	}
	return []corev1.LocalObjectReference{{Name: name}}
}
