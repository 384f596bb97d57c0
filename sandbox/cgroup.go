package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cgroupRoot is above all pods of all nodes, in every hierarchy: /lapse-sandbox/node1/kubepods/...
const cgroupRoot = "/lapse-sandbox"

// A hierarchy is one mounted cgroup tree: version 2 has one, version 1 one per controller, and many
// machines have both.
type hierarchy struct {
	path   string
	v2     bool
	cpuset bool
}

func hierarchies() []hierarchy {
	info, _ := os.ReadFile("/proc/self/mountinfo")
	return parseHierarchies(string(info))
}

// parseHierarchies reads lines such as (proc(5))
//
//	36 35 98:0 / /sys/fs/cgroup/cpuset rw,noatime - cgroup cgroup rw,cpuset
func parseHierarchies(mountinfo string) (found []hierarchy) {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		at, kind := strings.Fields(before), strings.Fields(after)
		if len(at) < 5 || len(kind) < 3 || !strings.HasPrefix(kind[0], "cgroup") {
			continue
		}
		options := "," + kind[len(kind)-1] + ","
		found = append(found, hierarchy{
			path:   unescapeMount(at[4]),
			v2:     kind[0] == "cgroup2",
			cpuset: strings.Contains(options, ",cpuset,"),
		})
	}
	return found
}

// makeCgroups makes a group for every node, and returns the controllers it had to switch on at the top of a
// version 2 hierarchy, for undelegate to switch off again.
func makeCgroups(nodes []node) (switched []string, err error) {
	for _, h := range hierarchies() {
		if h.v2 {
			switched = append(switched, delegate(h.path)...)
		}
		dirs := []string{cgroupRoot}
		for _, n := range nodes {
			dirs = append(dirs, filepath.Join(cgroupRoot, n.Name))
		}
		for _, dir := range dirs {
			if err := h.makeGroup(filepath.Join(h.path, dir)); err != nil {
				return switched, err
			}
		}
		if err := h.weigh(filepath.Join(h.path, cgroupRoot), podShares(runtime.NumCPU(), len(nodes))); err != nil {
			return switched, err
		}
	}
	return switched, nil
}

// podShares returns the CPU weight of all pods together. A kubelet gives the pods of its machine 1024 for each core,
// against 1024 for all that the system runs. Here everything but pods runs at the top, where each thread weighs 1024:
// with the 1024 that a group has by default, the pods of all nodes would together get no more of a busy machine than
// one thread of kubectl.
func podShares(cores, nodes int) int { return 1024 * cores * nodes }

// weigh sets a group's CPU weight, if it has one in this hierarchy.
func (h hierarchy) weigh(dir string, shares int) error {
	name, value := "cpu.shares", shares
	if h.v2 {
		name, value = "cpu.weight", weightOf(shares)
	}
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err != nil {
		return nil
	}
	return os.WriteFile(file, []byte(strconv.Itoa(value)), 0)
}

// weightOf returns the weight of version 2 that stands for shares of version 1, 2 to 262144, as the kubelet has it.
func weightOf(shares int) int { return 1 + (min(max(shares, 2), 262144)-2)*9999/262142 }

func (h hierarchy) makeGroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	switch {
	case h.v2:
		delegate(dir)
	case h.cpuset:
		return inheritCpuset(filepath.Dir(dir), dir)
	}
	return nil
}

// inheritCpuset: a version 1 cpuset starts empty and accepts no process until it has CPUs and memory.
func inheritCpuset(parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0); err != nil {
			return err
		}
	}
	return nil
}

// podControllers are the version 2 controllers that kubelet and runc use.
var podControllers = []string{"cpuset", "cpu", "io", "memory", "hugetlb", "pids"}

// delegate hands a version 2 group's controllers on to its children, each that can be, and returns those that
// were not handed on before.
func delegate(dir string) (switched []string) {
	words := func(name string) []string {
		data, _ := os.ReadFile(filepath.Join(dir, name))
		return strings.Fields(string(data))
	}
	available, enabled := words("cgroup.controllers"), words("cgroup.subtree_control")
	for _, c := range podControllers {
		if !slices.Contains(available, c) || slices.Contains(enabled, c) {
			continue
		}
		if os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0) == nil {
			switched = append(switched, c)
		}
	}
	return switched
}

// undelegate switches controllers off again; one that somebody else has come to use meanwhile stays on.
func undelegate(controllers []string) {
	for _, h := range hierarchies() {
		for _, c := range controllers {
			if h.v2 {
				_ = os.WriteFile(filepath.Join(h.path, "cgroup.subtree_control"), []byte("-"+c), 0)
			}
		}
	}
}

// cgroupMembers lists the processes in our groups: everything that runs in a pod.
func cgroupMembers() (pids []int) {
	walkCgroups(func(dir string) {
		data, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	})
	return pids
}

// removeCgroups deletes our groups, children first. A group whose last process has just ended stays busy
// for a moment.
func removeCgroups(limit time.Duration) error {
	var err error
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err = nil
		walkCgroups(func(dir string) {
			if e := os.Remove(dir); e != nil && !errors.Is(e, fs.ErrNotExist) {
				err = e
			}
		})
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// walkCgroups visits every group of ours, children before their parents.
func walkCgroups(visit func(dir string)) {
	var dirs []string
	for _, h := range hierarchies() {
		_ = filepath.WalkDir(filepath.Join(h.path, cgroupRoot), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	for _, dir := range slices.Backward(dirs) {
		visit(dir)
	}
}
