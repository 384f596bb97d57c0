package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/prober"
	"lapse/internal/run/runtest"
)

// proberSecret is where the guard's keys are.
const proberSecret = "/api/v1/namespaces/calm/secrets/" + deploy.GuardProbers

func calmProber(n int) string { return fmt.Sprint("127.9.0.", n+1) }

// addProbers adds a DaemonSet's Pods, which the probers of [probersOfManyNodes] are, and the empty Secret of their keys.
func (c *calm) addProbers(nodes int) {
	const path = "/api/v1/namespaces/calm/pods"
	list := c.lists[path].(map[string]any)
	pods := list["items"].([]corev1.Pod)
	for n := range nodes {
		set := map[string]string{}
		for label := range strings.SplitSeq(deploy.GuardProberSelector, ",") {
			name, value, _ := strings.Cut(label, "=")
			set[name] = value
		}
		pods = append(pods, podAt(fmt.Sprint("prober-", n), fmt.Sprint("node", n), calmProber(n), set))
	}
	list["items"] = pods
	c.lists[proberSecret] = corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "calm", Name: deploy.GuardProbers, ResourceVersion: "1"}}
}

// fillSecret takes in the guard's keys.
func (c *calm) fillSecret(w http.ResponseWriter, r *http.Request) {
	var patch struct{ Data map[string][]byte }
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		kubetest.Refuse(w, 400, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	c.Lock()
	defer c.Unlock()
	secret := c.lists[proberSecret].(corev1.Secret)
	secret.Data = maps.Clone(secret.Data)
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	maps.Copy(secret.Data, patch.Data)
	c.lists[proberSecret] = secret
	kubetest.Answer(w, 200, secret)
}

func (c *calm) proberKeys() map[string][]byte {
	c.Lock()
	defer c.Unlock()
	return c.lists[proberSecret].(corev1.Secret).Data
}

// A probersReport is what the probers of all nodes have done, and used.
type probersReport struct {
	Calls map[string]int // of their API, by path
	Rates map[int]time.Time
	Used  time.Duration // of processor time
	MiB   float64       // resident
}

func (r probersReport) all() (n int) {
	for _, calls := range r.Calls {
		n += calls
	}
	return n
}

// nodesTogether is how many probers are in one process: so many open files it may have.
const nodesTogether = 25

// probersOfManyNodes is the process of the probers of nodes, from one on and before another. They are real, and so is
// what they ask. It has the keys in its environment, and ends with its standard input.
func probersOfManyNodes() {
	if err := serveProbers(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveProbers() error {
	keys := agent.KeyPair{CA: []byte(os.Getenv(deploy.EnvTLSCA)), Cert: []byte(os.Getenv(deploy.EnvTLSCert)), Key: []byte(os.Getenv(deploy.EnvTLSKey))}
	config, err := keys.Server()
	if err != nil {
		return err
	}
	var first, end int
	if _, err := fmt.Sscan(strings.Join(os.Args[1:], " "), &first, &end); err != nil {
		return err
	}
	var mu sync.Mutex
	report := probersReport{Calls: map[string]int{}, Rates: map[int]time.Time{}}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	for n := first; n < end; n++ {
		server := agent.NewProberServer(prober.New(log).Find, config)
		api := server.Handler
		server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			api.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			report.Calls[r.URL.Path]++
			if r.URL.Path == "/v1/rates" {
				report.Rates[n] = time.Now()
			}
		})
		ln, err := net.Listen("tcp", net.JoinHostPort(calmProber(n), strconv.Itoa(agent.ProberPort)))
		if err != nil {
			return err
		}
		go server.ServeTLS(ln, "", "")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			panic(err)
		}
		report.Used = time.Duration(used.Utime.Nano() + used.Stime.Nano())
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		report.MiB = float64(m.HeapInuse+m.StackInuse) / (1 << 20)
		kubetest.Answer(w, 200, report)
	}))
	fmt.Println(ln.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// manyProbers are the probers of all nodes, in other processes.
type manyProbers struct {
	b     *testing.B
	nodes int
	at    []string // of each process
}

// startProbers starts them with the keys that the guard has made.
func startProbers(b *testing.B, c *calm, nodes int) *manyProbers {
	runtest.WaitFor(b, "the keys of the probers", func() bool { return len(c.proberKeys()) > 0 })
	keys := c.proberKeys()
	all := &manyProbers{b: b, nodes: nodes}
	for first := 0; first < nodes; first += nodesTogether {
		cmd := exec.Command("probers-of-many-nodes", fmt.Sprint(first), fmt.Sprint(min(nodes, first+nodesTogether)))
		cmd.Env = append(os.Environ(), deploy.EnvTLSCA+"="+string(keys["ca.crt"]), deploy.EnvTLSCert+"="+string(keys["prober.crt"]), deploy.EnvTLSKey+"="+string(keys["prober.key"]))
		cmd.Stderr = b.Output()
		stdin, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			stdin.Close()
			if err := cmd.Wait(); err != nil {
				b.Error(err)
			}
		})
		var at string
		if _, err := fmt.Fscan(stdout, &at); err != nil {
			b.Fatal(err)
		}
		all.at = append(all.at, at)
	}
	return all
}

// report returns what all of them have done and used.
func (all *manyProbers) report() (sum probersReport) {
	if all == nil {
		return sum
	}
	sum = probersReport{Calls: map[string]int{}, Rates: map[int]time.Time{}}
	for _, at := range all.at {
		var r probersReport
		answer, err := http.Get("http://" + at)
		if err == nil {
			err = json.NewDecoder(answer.Body).Decode(&r)
			answer.Body.Close()
		}
		if err != nil {
			all.b.Fatal(err)
		}
		for path, calls := range r.Calls {
			sum.Calls[path] += calls
		}
		maps.Copy(sum.Rates, r.Rates)
		sum.Used += r.Used
		sum.MiB += r.MiB
	}
	return sum
}

// raised returns how long after a cordon of some nodes all probers have other rates. Then the nodes are as before.
func (all *manyProbers) raised(c *calm, nodes int) time.Duration {
	cordon := func(on bool) {
		c.Lock()
		defer c.Unlock()
		for n := range nodes {
			node := c.nodes[n]
			node.Kind, node.APIVersion, node.ResourceVersion, node.Spec.Unschedulable = "Node", "v1", c.Next(), on
			c.Add(kubetest.Change{Resource: "nodes", Type: "MODIFIED", Object: node})
		}
	}
	begun := time.Now()
	cordon(true)
	defer cordon(false)
	var last time.Time
	runtest.WaitFor(all.b, "other rates on all nodes", func() bool {
		r := all.report()
		for n := range all.nodes {
			if at := r.Rates[n]; at.Before(begun) {
				return false
			} else if at.After(last) {
				last = at
			}
		}
		return true
	})
	return last.Sub(begun)
}
