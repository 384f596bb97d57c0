package deploy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"lapse/internal/hint"
)

// What containerd and CRI-O say of an image is answered with the line to type.
func TestAnImageThatCannotBePulledIsAnsweredWithTheLineToType(t *testing.T) {
	const ours = "registry.example.com:5000/tools/lapse@sha256:401"
	for _, test := range []struct{ image, message, want string }{
		{"lapse:dev", `failed to pull and unpack image "docker.io/library/lapse:dev": failed to resolve reference "docker.io/library/lapse:dev": pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`, pushHint},
		{"docker.io/library/lapse:dev", `dial tcp: lookup registry-1.docker.io: no such host`, pushHint},
		{ours, `failed to resolve reference "` + ours + `": ` + ours + `: not found`, pushHint},
		{ours, `reading manifest v1 in registry.example.com:5000/tools/lapse: manifest unknown`, pushHint},
		{ours, `failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://registry.example.com:5000/token: 401 Unauthorized`,
			"`kubectl create secret docker-registry lapse-pull -n shop --docker-server=registry.example.com:5000 --docker-username=USER --docker-password=PASSWORD`, then --image-pull-secret lapse-pull"},
		{"you/lapse:v1", `pull access denied`, "--docker-server=https://index.docker.io/v1/ "},
		{ours, `unable to retrieve auth token: invalid username/password: unauthorized: authentication required`, "--image-pull-secret lapse-pull"},
		{ours, `failed to pull and unpack image "` + ours + `": no match for platform in manifest: not found`, "--binary linux/arm64=PATH"},
		{ours, `choosing image instance: no image found in manifest list for architecture "arm64"`, "--binary linux/arm64=PATH"},
		{ours, `Head "https://registry.example.com:5000/v2/": http: server gave HTTP response to HTTPS client`, "certs.d/registry.example.com:5000/hosts.toml"},
		{ours, `tls: failed to verify certificate: x509: certificate signed by unknown authority`, "certs.d/registry.example.com:5000/ca.crt"},
		{ours, `dial tcp: lookup registry.example.com on 10.0.0.1:53: no such host`, "the nodes do not reach registry.example.com:5000"},
		{ours, `Back-off pulling image`, "--image-pull-secret"},
	} {
		err := judgePod(waitingFor(test.image, test.message))
		if start, ok := err.(interface{ Unwrap() error }); !ok || start.Unwrap().(*StartError).Image != test.image {
			t.Fatalf("%s: error %v", test.message, err)
		}
		if got := hint.Of(err); !strings.Contains(got, test.want) {
			t.Errorf("%s: hint %q, want %q", test.message, got, test.want)
		}
	}
}

// waitingFor returns a Pod of the namespace shop whose image is not pulled.
func waitingFor(image, message string) *corev1.Pod {
	pod := waitingPod("ErrImagePull", message)
	pod.Status.ContainerStatuses[0].Image = image
	return pod
}

// A prober or a Pod of the canary is started again and again, so that its last words are those of an earlier start.
func TestABinaryForAnotherPlatformIsSeenInACrashLoop(t *testing.T) {
	pod := waitingPod("CrashLoopBackOff", "back-off 10s restarting failed container")
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 255, Reason: "Error", Message: "exec /lapse: exec format error"}
	if err := judgePod(pod); !Refused(err) || !strings.Contains(hint.Of(err), "platform") {
		t.Errorf("error %v, hint %q", err, hint.Of(err))
	}
}
