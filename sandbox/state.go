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
)

// A sandbox is the cluster of one state directory. Its file, sandbox.json, is written before anything is
// created and after every start of a process, so that down knows what to end whenever up was cut off.
//
//	sandbox.json  kubeconfig  bin/     for the reader: put bin/ on PATH and there is kubectl
//	logs/         pki/  config/  etcd/
//	nodes/node1/var, nodes/node1/run   what node1 sees as /var and /run
type sandbox struct {
	Dir       string    `json:"dir"`
	Nodes     int       `json:"nodes"`
	ProxyMode string    `json:"proxyMode"`
	DualStack bool      `json:"dualStack,omitempty"` // IPv6 beside IPv4
	Endpoint  string    `json:"endpoint"`            // 127.0.0.1:port of the relay
	Boot      string    `json:"boot"`                // the boot in which the pids below mean something
	Started   time.Time `json:"started"`
	Ready     bool      `json:"ready"` // up came to its end

	// What /run/netns was before us; down makes it so again.
	HadNetnsDir   bool `json:"hadNetnsDir"`   // there was such a directory
	HadNetnsMount bool `json:"hadNetnsMount"` // and it was a mount, as `ip netns add` makes it

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

func (s *sandbox) path(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}
func (s *sandbox) nodes() []node               { return planNodes(s.Nodes) }
func (s *sandbox) kubeconfig() string          { return s.path("kubeconfig") }
func (s *sandbox) bin(name string) string      { return s.path("bin", name) }
func (s *sandbox) log(name string) string      { return s.path("logs", name+".log") }
func (s *sandbox) config(name string) string   { return s.path("config", name) }
func (s *sandbox) pki(name string) string      { return s.path("pki", name) }
func (s *sandbox) nodeRoot(name string) string { return s.path("nodes", name) }
func (s *sandbox) self() string                { return s.bin("sandbox") }

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
		return nil, problemf("no sandbox is up in %s: run `sandbox up`", dir)
	case errors.Is(err, fs.ErrPermission):
		return nil, problemf("may not read %s: run as root", dir)
	case err != nil:
		return nil, err
	case !s.Ready:
		return nil, problemf("the sandbox in %s is not complete: run `sandbox up` again", dir)
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
