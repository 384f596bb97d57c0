package deploy

import (
	"cmp"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/kube"
)

// How long a guard's keys are valid. Old and new ones, of one authority, accept each other for two days: a kubelet
// takes up to two minutes to hand new ones to a prober, and a guard that does not lead reads them when it likes.
const (
	guardAuthorityLasts = 10 * 365 * 24 * time.Hour
	guardKeysLast       = 3 * 24 * time.Hour
	guardKeysRenewed    = 24 * time.Hour // this long after they were made
)

// GuardKeys returns the keys by which a guard's probers accept it as their coordinator, from the Secret [GuardProbers].
// With lead it first makes those that are missing, and renews those that are a day old. If several do that at once, all
// get the keys of the first. Without lead it only reads, and fails until the guard that leads has made them.
func GuardKeys(ctx context.Context, client kube.Client, namespace string, lead bool) (agent.KeyPair, error) {
	var pair agent.KeyPair
	secrets := client.Secrets(namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, err := secrets.Get(ctx, GuardProbers, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lead {
			news, err := renewed(secret.Data)
			if err != nil {
				return hint.Add(newKeysHint(namespace), err)
			}
			if len(news) > 0 {
				var patch struct {
					Metadata struct {
						ResourceVersion string `json:"resourceVersion"` // another one is a conflict
					} `json:"metadata"`
					Data map[string][]byte `json:"data"`
				}
				patch.Metadata.ResourceVersion, patch.Data = secret.ResourceVersion, news
				text, err := json.Marshal(patch)
				if err != nil {
					return err
				}
				secret, err = secrets.Patch(ctx, GuardProbers, types.MergePatchType, text, metav1.PatchOptions{})
				if err != nil {
					return err
				}
			}
		}
		pair, err = coordinatorPair(secret.Data, namespace)
		return err
	})
	var advice string
	switch {
	case err == nil:
		return pair, nil
	case apierrors.IsNotFound(err):
		advice = "apply again what `lapse gen guard --from …` or the chart printed"
	case apierrors.IsForbidden(err):
		advice = "does the Role " + GuardProbers + " let the guard get and patch this Secret? Apply again what " +
			"`lapse gen guard --from …` or the chart printed"
	}
	const text = "keys of the probers, in Secret %s of namespace %s: %w"
	return agent.KeyPair{}, hint.Errorf(cmp.Or(hint.Of(err), advice), text, GuardProbers, namespace, err)
}

func newKeysHint(namespace string) string {
	return "`kubectl -n " + namespace + " delete secret " + GuardProbers + "`, and apply again what `lapse gen guard " +
		"--from …` or the chart printed: the guard that leads makes new ones"
}

// coordinatorPair returns a guard's own keys.
func coordinatorPair(data map[string][]byte, namespace string) (agent.KeyPair, error) {
	pair := agent.KeyPair{
		CA: data[authorityKey], Cert: data[coordinatorKey+".crt"], Key: data[coordinatorKey+".key"],
	}
	if len(pair.CA) == 0 || len(pair.Cert) == 0 || len(pair.Key) == 0 {
		const advice = "the guard that leads fills it within a minute; else see its log"
		return pair, hint.Errorf(advice, "not filled yet")
	}
	config, err := pair.Client()
	if err != nil {
		return pair, hint.Add(newKeysHint(namespace), err)
	}
	if leaf := config.Certificates[0].Leaf; !lasts(leaf, 0) {
		const advice = "the guard that leads renews them each day: see its log, and the clocks of the nodes"
		return pair, hint.Errorf(advice, "they are valid from %s to %s only",
			leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339))
	}
	return pair, nil
}

// renewed returns what to write into a Secret with data: nothing if its keys are not a day old.
func renewed(data map[string][]byte) (map[string][]byte, error) {
	news := map[string][]byte{}
	a, err := readAuthority(data)
	if err != nil {
		return nil, err
	}
	if a == nil || !lasts(a.cert, guardKeysLast) {
		if a, err = newAuthority(guardAuthorityLasts); err == nil {
			news[authorityKey] = a.pem
			news[authorityName+".key"], err = encodeKey(a.key)
		}
		if err != nil {
			return nil, err
		}
	}
	fresh := true
	for _, name := range []string{coordinatorKey, proberKey} {
		pair, err := readPair(data, name)
		if err != nil {
			return nil, err
		}
		fresh = fresh && pair != nil && lasts(pair.Leaf, guardKeysLast-guardKeysRenewed) &&
			pair.Leaf.CheckSignatureFrom(a.cert) == nil
	}
	if fresh {
		return news, nil
	}
	keys, err := a.keys(time.Now().Add(guardKeysLast))
	for name, pair := range map[string]agent.KeyPair{coordinatorKey: keys.Coordinator, proberKey: keys.Prober} {
		news[name+".crt"], news[name+".key"] = pair.Cert, pair.Key
	}
	return news, err
}

// lasts reports whether a certificate is valid, and will be for that long.
func lasts(c *x509.Certificate, long time.Duration) bool {
	now := time.Now()
	return !now.Before(c.NotBefore) && now.Add(long).Before(c.NotAfter)
}

// readAuthority returns the authority of a Secret, nil if there is none.
func readAuthority(data map[string][]byte) (*authority, error) {
	pair, err := readPair(data, authorityName)
	if pair == nil || err != nil {
		return nil, err
	}
	return &authority{key: pair.PrivateKey.(crypto.Signer), cert: pair.Leaf, pem: data[authorityKey]}, nil
}

// readPair returns a certificate of a Secret and its key, nil if one of them is missing.
func readPair(data map[string][]byte, name string) (*tls.Certificate, error) {
	cert, key := data[name+".crt"], data[name+".key"]
	if len(cert) == 0 || len(key) == 0 {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s.crt and %s.key: %w", name, name, err)
	}
	return &pair, nil
}
