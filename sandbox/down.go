package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lapse/sandbox/problem"
)

func runDown(ctx context.Context, a *app, args []string) error {
	if err := parseVerb(a, "down", args, nil); err != nil {
		return err
	}
	if err := preflightDown(ctx, a.dir); err != nil {
		return err
	}
	release, err := lockMachine()
	if err != nil {
		return err
	}
	defer release()
	begin := time.Now()
	if !anythingLeft(ctx, a.dir) {
		fmt.Fprintln(a.log, "nothing is up")
		return nil
	}
	// Not to be interrupted half-way: the work takes a second or two.
	if err := down(context.WithoutCancel(ctx), a.dir, false); err != nil {
		return err
	}
	fmt.Fprintf(a.log, "down after %.1f s\n", time.Since(begin).Seconds())
	return nil
}

func preflightDown(ctx context.Context, dir string) error {
	if err := mayRun(goos, os.Geteuid()); err != nil {
		return err
	}
	claim := claimOf(netnsOwners(ctx), dir)
	if foreign(dir) && len(claim.namespaces) == 0 {
		return problem.Errorf("%s holds something that is no sandbox: it is left alone", dir)
	}
	self, _ := inode("/proc/self/ns/net")
	for _, name := range claim.namespaces {
		if ino, err := inode(netnsPath(name)); err == nil && ino == self {
			return problem.Errorf("this shell runs inside %s: leave it first", name)
		}
	}
	return nil
}

func anythingLeft(ctx context.Context, dir string) bool {
	if _, err := os.Stat(dir); err == nil {
		return true
	}
	claim := claimOf(netnsOwners(ctx), dir)
	return len(claim.namespaces) > 0 || len(findOurs(dir, nil, claim)) > 0
}

// A claim is what a state directory may call its own on this machine.
type claim struct {
	namespaces []string // tagged with the directory
	untagged   []string // up was killed between making and tagging them; or they are not a sandbox's
	cgroups    bool     // no other directory's sandbox is there, so the pods are ours
}

func claimOf(owners map[string]string, dir string) claim {
	c := claim{cgroups: true}
	for name, owner := range owners {
		switch owner {
		case dir:
			c.namespaces = append(c.namespaces, name)
		case "":
			c.untagged = append(c.untagged, name)
		default:
			c.cgroups = false
		}
	}
	return c
}

// down ends everything that belongs to a state directory, however it came to be in the state it is in. It trusts
// the state file only to name more; what it ends it also finds by namespace, cgroup and program.
func down(ctx context.Context, dir string, keepLogs bool) error {
	claim := claimOf(netnsOwners(ctx), dir)
	s, err := load(dir)
	if err != nil {
		// Nobody knows any more what /run/netns was before, and an empty one does no harm.
		s = &sandbox{stateDir: stateDir{dir}, netnsBefore: netnsBefore{HadNetnsDir: true, HadNetnsMount: true}}
	} else {
		claim.namespaces = append(claim.namespaces, claim.untagged...)
	}
	if err := endProcesses(dir, s.Processes, claim, 20*time.Second); err != nil {
		return err
	}
	for _, name := range claim.namespaces {
		if err := deleteNetns(ctx, name); err != nil {
			return err
		}
	}
	if err := unmountUnder(dir); err != nil {
		return err
	}
	if claim.cgroups {
		if err := removeCgroups(5 * time.Second); err != nil {
			return err
		}
		undelegate(s.Controllers)
	}
	s.restore()
	return removeState(dir, keepLogs)
}

// netnsBefore says what /run/netns was before the sandbox.
type netnsBefore struct {
	HadNetnsDir   bool `json:"hadNetnsDir"`   // there was such a directory
	HadNetnsMount bool `json:"hadNetnsMount"` // and it was a mount, as `ip netns add` makes it
}

// restore undoes what the first `ip netns add` of a machine's life does, if nobody else uses it.
func (b netnsBefore) restore() {
	if entries, err := os.ReadDir(netnsDir); err != nil || len(entries) > 0 {
		return
	}
	if !b.HadNetnsMount {
		_ = unmountUnder(netnsDir)
	}
	if !b.HadNetnsDir {
		os.Remove(netnsDir)
	}
}

// removeState deletes the state directory. Nothing may be mounted in it any more: deleting would go through the mount.
func removeState(dir string, keepLogs bool) error {
	if left := mountsUnder(dir); len(left) > 0 {
		return fmt.Errorf("still mounted: %s", strings.Join(left, ", "))
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, path := range removalOrder(dir, entries, keepLogs) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// removalOrder returns what to delete of a state directory. The state file, which marks the directory as a sandbox's,
// is the last: a down that is killed before that leaves a directory that the next down or up removes.
func removalOrder(dir string, entries []fs.DirEntry, keepLogs bool) (paths []string) {
	for _, e := range entries {
		if !marks(e.Name()) && !(keepLogs && e.Name() == "logs") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	if keepLogs {
		return paths
	}
	return append(paths, filepath.Join(dir, stateFilePart), filepath.Join(dir, stateFile), dir)
}

// endProcesses kills until nobody is left: a kubelet that dies last may have started something meanwhile. A process
// that has been killed leaves its namespaces and cgroups before it ends: it is remembered.
func endProcesses(dir string, recorded []process, c claim, limit time.Duration) error {
	recorded = slices.Clone(recorded)
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		pids := findOurs(dir, recorded, c)
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes that do not end: %v", pids)
		}
		for _, pid := range pids {
			if st, err := readStat(pid); err == nil {
				recorded = append(recorded, process{PID: pid, Start: st.start})
			}
			kill(pid)
		}
	}
}

// findOurs lists the living processes that are recorded, in one of the namespaces, in one of our cgroups, or run
// the copy of this program in the state directory.
func findOurs(dir string, recorded []process, c claim) []int {
	namespaces := map[uint64]bool{}
	for _, name := range c.namespaces {
		if ino, err := inode(netnsPath(name)); err == nil {
			namespaces[ino] = true
		}
	}
	var pids []int
	if c.cgroups {
		pids = cgroupMembers()
	}
	for _, p := range recorded {
		if p.alive() {
			pids = append(pids, p.PID)
		}
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid != os.Getpid() && belongs(pid, dir, namespaces) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return slices.DeleteFunc(slices.Compact(pids), ended)
}

func belongs(pid int, dir string, namespaces map[uint64]bool) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	if ino, err := inode(filepath.Join(proc, "ns/net")); err == nil && namespaces[ino] {
		return true
	}
	program, err := os.Readlink(filepath.Join(proc, "exe"))
	return err == nil && strings.TrimSuffix(program, " (deleted)") == filepath.Join(dir, "bin", "sandbox")
}

func ended(pid int) bool {
	st, err := readStat(pid)
	return err != nil || st.state == 'Z'
}
