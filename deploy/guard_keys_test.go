package deploy

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/deploy/agent"
	"lapse/internal/kube"
	"lapse/internal/kube/kubetest"
)

// guardSecrets is an API server with the Secret of a guard's probers, which refuses a patch of another version.
func guardSecrets(t *testing.T, data map[string][]byte) (client kube.Client, secret func() map[string][]byte) {
	t.Helper()
	set := fake.NewSimpleClientset(Guard{Namespace: "lapse", ProberLabels: labels.Everything()}.Objects()...)
	var mu sync.Mutex
	kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "lapse", Name: GuardProbers, ResourceVersion: "1"}, Data: data}
	set.PrependReactor("*", "secrets", func(a ktesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if patch, ok := a.(ktesting.PatchAction); ok {
			var change corev1.Secret
			if err := json.Unmarshal(patch.GetPatch(), &change); err != nil {
				t.Errorf("patch %s: %v", patch.GetPatch(), err)
			}
			if change.ResourceVersion != kept.ResourceVersion {
				return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), GuardProbers, errors.New("it was changed"))
			}
			version, _ := strconv.Atoi(kept.ResourceVersion)
			kept = kept.DeepCopy()
			kept.ResourceVersion = strconv.Itoa(version + 1)
			if kept.Data == nil {
				kept.Data = map[string][]byte{}
			}
			maps.Copy(kept.Data, change.Data)
		}
		return true, kept.DeepCopy(), nil
	})
	return kubetest.Client(set), func() map[string][]byte {
		mu.Lock()
		defer mu.Unlock()
		return kept.DeepCopy().Data
	}
}

// ofProber returns the keys that the kubelet hands to a prober.
func ofProber(data map[string][]byte) agent.KeyPair {
	return agent.KeyPair{CA: data["ca.crt"], Cert: data["prober.crt"], Key: data["prober.key"]}
}

// shake returns the errors of a coordinator and a prober that connect, in virtual time.
func shake(t *testing.T, coordinator, prober agent.KeyPair) (ofCoordinator, ofProber error) {
	t.Helper()
	client, err := coordinator.Client()
	if err != nil {
		t.Fatal(err)
	}
	server, err := prober.Server()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	for _, end := range []net.Conn{ours, theirs} { // both may write, to no reader
		if err := end.SetDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		conn := tls.Server(theirs, server)
		ofProber = conn.HandshakeContext(t.Context())
		theirs.Close()
	})
	conn := tls.Client(ours, client)
	if ofCoordinator = conn.HandshakeContext(t.Context()); ofCoordinator == nil {
		_, _ = conn.Read(make([]byte, 1)) // the prober ends it, or says that it refuses
	}
	ours.Close()
	serving.Wait()
	return ofCoordinator, ofProber
}

// The guard that leads makes the keys once, renews them a day later, and goes on to be accepted by probers that have
// not got the new ones, as a guard with the old ones is by those that have. Nobody accepts keys of more than three days.
func TestAGuardsKeysAreRenewedEachDayAndOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, secret := guardSecrets(t, nil)
		keys := func(lead bool) agent.KeyPair {
			t.Helper()
			pair, err := GuardKeys(t.Context(), client, "lapse", lead)
			if err != nil {
				t.Fatal(err)
			}
			return pair
		}
		old := keys(true)
		oldSecret := secret()
		if got, want := slices.Sorted(maps.Keys(oldSecret)), []string{"ca.crt", "ca.key", "coordinator.crt", "coordinator.key", "prober.crt", "prober.key"}; !slices.Equal(got, want) {
			t.Errorf("the Secret has %q, want %q", got, want)
		}
		time.Sleep(23 * time.Hour)
		if again := keys(true); cmp.Diff(old, again) != "" || cmp.Diff(oldSecret, secret()) != "" {
			t.Error("keys of 23 hours are renewed")
		}
		time.Sleep(time.Hour + time.Second)
		if read := keys(false); cmp.Diff(old, read) != "" || cmp.Diff(oldSecret, secret()) != "" {
			t.Error("who does not lead renews keys")
		}
		renewed := keys(true)
		if bytes.Equal(renewed.Key, old.Key) || bytes.Equal(secret()["prober.key"], oldSecret["prober.key"]) {
			t.Error("keys of a day are not renewed")
		}
		if !bytes.Equal(renewed.CA, old.CA) || !bytes.Equal(secret()["ca.key"], oldSecret["ca.key"]) {
			t.Error("there is another authority")
		}
		if read := keys(false); cmp.Diff(renewed, read) != "" {
			t.Error("who does not lead reads other keys")
		}
		time.Sleep(47 * time.Hour) // the old ones have an hour left
		for name, pairs := range map[string][2]agent.KeyPair{
			"both new":                            {renewed, ofProber(secret())},
			"a guard with old ones, a prober new": {old, ofProber(secret())},
			"a guard with new ones, a prober old": {renewed, ofProber(oldSecret)},
		} {
			if ours, theirs := shake(t, pairs[0], pairs[1]); ours != nil || theirs != nil {
				t.Errorf("%s: the coordinator %v, the prober %v", name, ours, theirs)
			}
		}
		time.Sleep(time.Hour)
		if _, theirs := shake(t, old, ofProber(secret())); theirs == nil || !strings.Contains(theirs.Error(), "expired") {
			t.Errorf("a coordinator's keys of three days: %v", theirs)
		}
		if ours, _ := shake(t, renewed, ofProber(oldSecret)); ours == nil || !strings.Contains(ours.Error(), "expired") {
			t.Errorf("a prober's keys of three days: %v", ours)
		}
		time.Sleep(24 * time.Hour)
		if _, err := GuardKeys(t.Context(), client, "lapse", false); err == nil || !strings.Contains(err.Error(), "valid from 2000-01-01T00:00:01Z to 2000-01-05T00:00:01Z only") {
			t.Errorf("keys that nobody has renewed: %v", err)
		}
		if _, theirs := shake(t, keys(true), ofProber(secret())); theirs != nil {
			t.Errorf("renewed after all: %v", theirs)
		}
		time.Sleep(10*365*24*time.Hour - 6*24*time.Hour)
		if keys(true); bytes.Equal(secret()["ca.crt"], oldSecret["ca.crt"]) {
			t.Error("the authority ends before what it signs")
		}
		if _, theirs := shake(t, keys(true), ofProber(secret())); theirs != nil {
			t.Errorf("of the next authority: %v", theirs)
		}
	})
}

// A prober refuses a coordinator of another guard, and that one it.
func TestAnotherGuardsKeysAreRefused(t *testing.T) {
	synctest.Test(t, testAnotherGuardsKeys)
}

func testAnotherGuardsKeys(t *testing.T) {
	var pairs [2]agent.KeyPair
	var secrets [2]map[string][]byte
	for i := range pairs {
		client, secret := guardSecrets(t, nil)
		var err error
		if pairs[i], err = GuardKeys(t.Context(), client, "lapse", true); err != nil {
			t.Fatal(err)
		}
		secrets[i] = secret()
	}
	if ours, theirs := shake(t, pairs[0], ofProber(secrets[1])); ours == nil || theirs == nil {
		t.Errorf("the coordinator %v, the prober %v", ours, theirs)
	}
	trusting := pairs[0] // a stranger who accepts every prober
	trusting.CA = secrets[1]["ca.crt"]
	if _, theirs := shake(t, trusting, ofProber(secrets[1])); theirs == nil || !strings.Contains(theirs.Error(), "unknown authority") {
		t.Errorf("the prober: %v", theirs)
	}
	prober := agent.KeyPair{CA: secrets[1]["ca.crt"], Cert: secrets[1]["prober.crt"], Key: secrets[1]["prober.key"]}
	if _, theirs := shake(t, prober, ofProber(secrets[1])); theirs == nil {
		t.Error("a prober's own keys are taken for a coordinator's")
	}
}

// Guards that take themselves for the one that leads end with the same keys.
func TestGuardsThatRenewAtOnceHaveTheSameKeys(t *testing.T) {
	client, secret := guardSecrets(t, nil)
	pairs := make([]agent.KeyPair, 4)
	var guards sync.WaitGroup
	for i := range pairs {
		guards.Go(func() {
			var err error
			if pairs[i], err = GuardKeys(t.Context(), client, "lapse", true); err != nil {
				t.Error(err)
			}
		})
	}
	guards.Wait()
	for i, pair := range pairs {
		if !bytes.Equal(pair.Key, secret()["coordinator.key"]) || !bytes.Equal(pair.CA, secret()["ca.crt"]) {
			t.Errorf("guard %d has other keys than the Secret", i)
		}
		if ours, theirs := shake(t, pair, ofProber(secret())); ours != nil || theirs != nil {
			t.Errorf("guard %d: the coordinator %v, the prober %v", i, ours, theirs)
		}
	}
}

// What is missing of the keys is made again; a certificate of another authority counts as missing.
func TestWhatIsMissingOfAGuardsKeysIsMade(t *testing.T) {
	client, secret := guardSecrets(t, nil)
	if _, err := GuardKeys(t.Context(), client, "lapse", true); err != nil {
		t.Fatal(err)
	}
	whole := secret()
	other, otherSecret := guardSecrets(t, nil)
	if _, err := GuardKeys(t.Context(), other, "lapse", true); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change        func(map[string][]byte)
		sameAuthority bool
	}{
		"no key of the authority": {func(d map[string][]byte) { delete(d, "ca.key") }, false},
		"no key of the prober":    {func(d map[string][]byte) { delete(d, "prober.key") }, true},
		"no coordinator":          {func(d map[string][]byte) { d["coordinator.crt"] = nil }, true},
		"another's prober": {func(d map[string][]byte) {
			d["prober.crt"], d["prober.key"] = otherSecret()["prober.crt"], otherSecret()["prober.key"]
		}, true},
	} {
		data := maps.Clone(whole)
		c.change(data)
		client, secret := guardSecrets(t, data)
		pair, err := GuardKeys(t.Context(), client, "lapse", true)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if same := bytes.Equal(secret()["ca.crt"], whole["ca.crt"]); same != c.sameAuthority {
			t.Errorf("%s: the same authority %v", name, same)
		}
		if ours, theirs := shake(t, pair, ofProber(secret())); ours != nil || theirs != nil {
			t.Errorf("%s: the coordinator %v, the prober %v", name, ours, theirs)
		}
	}
}

func TestAGuardWithoutItsKeysSaysWhatToDo(t *testing.T) {
	client, secret := guardSecrets(t, nil)
	if _, err := GuardKeys(t.Context(), client, "lapse", true); err != nil {
		t.Fatal(err)
	}
	broken := func(key string) map[string][]byte {
		data := secret()
		data[key] = []byte("much ado")
		return data
	}
	refusing := func(verb string, err error) kube.Client {
		set := fake.NewSimpleClientset(Guard{Namespace: "lapse", ProberLabels: labels.Everything()}.Objects()...)
		set.PrependReactor(verb, "secrets", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		return kubetest.Client(set)
	}
	keeping := func(data map[string][]byte) kube.Client {
		client, _ := guardSecrets(t, data)
		return client
	}
	secrets := corev1.Resource("secrets")
	forbidden := apierrors.NewForbidden(secrets, GuardProbers, errors.New("you may not"))
	for name, c := range map[string]struct {
		client       kube.Client
		lead         bool
		want, advice string
	}{
		"not filled":              {keeping(nil), false, "not filled yet", "the guard that leads fills it"},
		"half filled":             {keeping(map[string][]byte{"ca.crt": []byte("x")}), false, "not filled yet", "the guard that leads fills it"},
		"missing":                 {kubetest.Client(fake.NewSimpleClientset()), true, "not found", "apply again"},
		"may not read":            {refusing("get", forbidden), false, "you may not", "the Role lapse-guard-probers"},
		"may not write":           {refusing("patch", forbidden), true, "you may not", "the Role lapse-guard-probers"},
		"no authority to lead":    {keeping(broken("ca.key")), true, "ca.crt and ca.key: ", "delete secret lapse-guard-probers"},
		"no prober to lead":       {keeping(broken("prober.crt")), true, "prober.crt and prober.key: ", "delete secret lapse-guard-probers"},
		"no key to read":          {keeping(broken("coordinator.key")), false, "failed to find any PEM data", "delete secret lapse-guard-probers"},
		"no authority to read":    {keeping(broken("ca.crt")), false, "no certificate in it", "delete secret lapse-guard-probers"},
		"no answer":               {refusing("get", errors.New("connection refused")), true, "connection refused", ""},
		"changes again and again": {refusing("patch", apierrors.NewConflict(secrets, GuardProbers, errors.New("it was changed"))), true, "it was changed", ""},
	} {
		pair, err := GuardKeys(t.Context(), c.client, "lapse", c.lead)
		if text := fmt.Sprint(err); !strings.Contains(text, c.want) || !strings.Contains(text, "Secret lapse-guard-probers of namespace lapse") {
			t.Errorf("%s: %v", name, err)
		}
		if c.advice != "" {
			wantHint(t, err, c.advice)
		}
		if len(pair.Key) > 0 {
			t.Errorf("%s: there are keys", name)
		}
	}
}
