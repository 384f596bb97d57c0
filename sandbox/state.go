package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/sandbox/problem"
)

// A sandbox is the cluster of one state directory. Its file, sandbox.json, is written before anything is
// created and after every start of a process, so that down knows what to end whenever up was cut off.
//
//	sandbox.json  kubeconfig  bin/     for the reader: put bin/ on PATH and there is kubectl
//	logs/         pki/  config/  etcd/
//	nodes/node1/var, nodes/node1/run   what node1 sees as /var and /run
type sandbox struct {
	stateDir
	shape
	netnsBefore
	ProxyMode string    `json:"proxyMode"`
	Endpoint  string    `json:"endpoint"` // 127.0.0.1:port of the relay
	Boot      string    `json:"boot"`     // the boot in which the pids below mean something
	Started   time.Time `json:"started"`
	Ready     bool      `json:"ready"` // up came to its end

	// Controllers of cgroup version 2 that we switched on at the top.
	Controllers []string `json:"controllers,omitempty"`

	mu        sync.Mutex
	Processes []process `json:"processes"` // guarded by mu
}

const (
	stateFile     = "sandbox.json"
	stateFilePart = stateFile + ".part" // while the file is written
)

// marks reports whether a file of this name marks a directory as a sandbox's.
func marks(name string) bool { return name == stateFile || name == stateFilePart }

// A stateDir is the directory of a sandbox.
type stateDir struct {
	Dir string `json:"dir"`
}

func (d stateDir) path(elem ...string) string {
	return filepath.Join(append([]string{d.Dir}, elem...)...)
}
func (d stateDir) kubeconfig() string          { return d.path("kubeconfig") }
func (d stateDir) bin(name string) string      { return d.path("bin", name) }
func (d stateDir) log(name string) string      { return d.path("logs", name+".log") }
func (d stateDir) config(name string) string   { return d.path("config", name) }
func (d stateDir) pki(name string) string      { return d.path("pki", name) }
func (d stateDir) nodeRoot(name string) string { return d.path("nodes", name) }
func (d stateDir) self() string                { return d.bin("sandbox") }

// A shape is what a sandbox has of nodes and addresses.
type shape struct {
	Nodes     int  `json:"nodes"`
	DualStack bool `json:"dualStack,omitempty"` // IPv6 in addition to IPv4
}

func (s shape) nodes() []node { return planNodes(s.Nodes) }

// both returns a list of what is of IPv4 and, with two families, what is of IPv6.
func (s shape) both(four, six string) string {
	if s.DualStack {
		return four + "," + six
	}
	return four
}

// save writes the state file whole or not at all. The caller holds mu once processes are being started.
func (s *sandbox) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(s.path(stateFile), data, 0o600)
}

func (s *sandbox) record(p process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Processes = append(s.Processes, p)
	return s.save()
}

func (s *sandbox) process(name string) (process, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.Processes, func(p process) bool { return p.Name == name })
	if i < 0 {
		return process{}, false
	}
	return s.Processes[i], true
}

// load reads the state of a directory; without one the error is fs.ErrNotExist.
func load(dir string) (*sandbox, error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, err
	}
	s := &sandbox{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, stateFile), err)
	}
	s.Dir = dir
	if s.Boot != bootID() {
		s.Processes, s.Ready = nil, false
	}
	return s, nil
}

// loadUp is load for verbs that need a running cluster.
func loadUp(dir string) (*sandbox, error) {
	s, err := load(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, problem.Errorf("no sandbox is up in %s: run `sandbox up`", dir)
	case errors.Is(err, fs.ErrPermission):
		return nil, problem.Errorf("may not read %s: run as root", dir)
	case err != nil:
		return nil, err
	case !s.Ready:
		return nil, problem.Errorf("the sandbox in %s is not complete: run `sandbox up` again", dir)
	}
	return s, nil
}

// foreign reports a state directory that holds something, but no sandbox.
func foreign(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return marks(e.Name()) })
}

func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

func writeWhole(path string, data []byte, mode fs.FileMode) error {
	part := path + ".part"
	if err := os.WriteFile(part, data, mode); err != nil {
		return err
	}
	return os.Rename(part, path)
}
