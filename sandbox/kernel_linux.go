package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lapse/sandbox/problem"
)

// inNetns runs f on a thread of its own inside a network namespace. Sockets stay in the namespace they
// were created in, so a connection made by f can be used from anywhere.
func inNetns(name string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := setns(netnsPath(name), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

func setns(path string, kind int) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, kind); err != nil {
		return fmt.Errorf("enter %s: %w", path, err)
	}
	return nil
}

// mayMakeNetns tries what a container without privileges is refused.
func mayMakeNetns() error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS)
	}()
	return <-done
}

func unshareNet() error { return unix.Unshare(unix.CLONE_NEWNET) }

// execInNetns replaces this process by a command in a network namespace. (Unlike `ip netns exec` it
// leaves /sys alone, so the cgroups stay visible.)
func execInNetns(name string, argv []string) error {
	runtime.LockOSThread()
	if err := setns(netnsPath(name), unix.CLONE_NEWNET); err != nil {
		return err
	}
	return execve(argv)
}

// execBeside replaces this process by a command in the network and mount namespaces of another one.
func execBeside(pid int, argv []string) error {
	runtime.LockOSThread()
	ns := filepath.Join("/proc", strconv.Itoa(pid), "ns")
	mnt, err := unix.Open(filepath.Join(ns, "mnt"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open mount namespace of pid %d: %w", pid, err)
	}
	if err := setns(filepath.Join(ns, "net"), unix.CLONE_NEWNET); err != nil {
		return err
	}
	// A thread that shares its root and working directory with others may not change mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare fs: %w", err)
	}
	if err := unix.Setns(mnt, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter mount namespace of pid %d: %w", pid, err)
	}
	return execve(argv)
}

// execAsNode replaces this process by a command in a node's network namespace and in a new mount namespace with the
// node's own /var and /run. What the node mounts is never seen by the host and vanishes with the node's last process.
// Its clocks, and those of the containers that it starts, are the node's own, where the kernel can do that.
func execAsNode(netns, root string, keep []string, uptime time.Duration, argv []string) error {
	runtime.LockOSThread()
	if err := setns(netnsPath(netns), unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("new mount namespace: %w", err)
	}
	if err := mountNodeRoot(root, keep); err != nil {
		return err
	}
	if err := setUptime(uptime); err != nil {
		return err
	}
	return execve(argv)
}

// setUptime has what the calling thread executes next see this machine as up for longer: CLOCK_MONOTONIC and
// CLOCK_BOOTTIME, which differ from machine to machine, are ahead by so much (time_namespaces(7)). A kernel without
// time namespaces leaves them as they are.
func setUptime(ahead time.Duration) error {
	if _, err := os.Stat("/proc/self/ns/time"); err != nil || ahead == 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return fmt.Errorf("new time namespace: %w", err)
	}
	seconds := int64(ahead / time.Second)
	offsets := fmt.Sprintf("monotonic %d 0\nboottime %d 0\n", seconds, seconds)
	path := filepath.Join("/proc", strconv.Itoa(unix.Gettid()), "timens_offsets")
	if err := os.WriteFile(path, []byte(offsets), 0); err != nil {
		return fmt.Errorf("set the clocks of a time namespace: %w", err)
	}
	return nil
}

// mountNodeRoot puts root/var and root/run over /var and /run, keeps the directories in keep reachable under
// their own paths, and shows the kubelet the kernel settings it wants, so that it does not change the
// host's.
func mountNodeRoot(root string, keep []string) error {
	// Unmounts of the host reach us, our mounts do not reach the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("detach mounts from the host: %w", err)
	}
	binds := nodeBinds(root, keep)
	for i := range binds { // all sources are opened before one of them is hidden
		if err := binds[i].open(); err != nil {
			return err
		}
	}
	for _, b := range binds {
		if err := b.mount(); err != nil {
			return err
		}
	}
	// Shared at last, as on a real node, and not before: or each bind would show up in the others.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts inside the node: %w", err)
	}
	return nil
}

// nodeBinds lists what a node sees elsewhere than the host does, in the order of mounting.
func nodeBinds(root string, keep []string) []bind {
	masked := []string{"/var", "/run"}
	var binds []bind
	for _, dir := range masked {
		binds = append(binds, bind{source: filepath.Join(root, dir), target: dir})
	}
	for _, dir := range keep {
		if under(dir, masked) {
			binds = append(binds, bind{source: dir, target: dir})
		}
	}
	for name := range kubeletTunables {
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); err == nil { // a kernel may be built without it
			binds = append(binds, bind{source: tunableFile(root, name), target: target})
		}
	}
	return binds
}

// A bind shows source at target; the source is held open, because an earlier bind may hide its path.
type bind struct {
	source, target string
	fd             int
	dir            bool
}

func (b *bind) open() error {
	info, err := os.Stat(b.source)
	if err != nil {
		return err
	}
	b.dir = info.IsDir()
	if b.fd, err = unix.Open(b.source, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open %s: %w", b.source, err)
	}
	return nil
}

func (b *bind) mount() error {
	if b.dir {
		if err := os.MkdirAll(b.target, 0o755); err != nil {
			return err
		}
	}
	source := fmt.Sprintf("/proc/self/fd/%d", b.fd)
	if err := unix.Mount(source, b.target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", b.target, err)
	}
	return nil
}

func execve(argv []string) error {
	path, err := lookPath(argv[0])
	if err != nil {
		return err
	}
	if err := syscall.Exec(path, argv, os.Environ()); err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	return nil
}

// A machine has one sandbox at most, so the lock is one per machine: an abstract socket name, which no
// file outlives.
func lockMachine() (release func(), err error) {
	listener, err := net.Listen("unix", "@lapse-sandbox.lock")
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, problem.Errorf("another `sandbox up` or `sandbox down` is at work on this machine: " +
			"wait until it has ended")
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return func() { listener.Close() }, nil
}

// closeInherited sees to it that what we start keeps no file open that our caller left open, such as a lock.
func closeInherited() { _ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) } // from Linux 5.11 on

// niceBeforeOthers is the nice value that weighs about nine times as much as the default (sched(7)).
const niceBeforeOthers = -10

// runBeforeOthers gives this process, and what it becomes, CPU before processes of the default priority. Where the
// kernel groups processes by session, the nice value of the group counts (autogroup in sched(7)).
func runBeforeOthers() error {
	runtime.LockOSThread() // the thread that calls exec stays
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, niceBeforeOthers); err != nil {
		return fmt.Errorf("set the nice value: %w", err)
	}
	err := os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(niceBeforeOthers)), 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set the nice value of the session: %w", err)
	}
	return nil
}

// daemonAttr detaches a process from our terminal and process group.
func daemonAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func kill(pid int) { _ = unix.Kill(pid, unix.SIGKILL) }

func inode(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

// onOverlay: overlayfs cannot be stacked on overlayfs, as in a container's own file system.
func onOverlay(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// unmountUnder unmounts, deepest first, whatever is mounted at or under a directory.
func unmountUnder(dir string) error {
	for _, point := range slices.Backward(mountsUnder(dir)) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return nil
}

func mountsUnder(dir string) []string {
	info, _ := os.ReadFile("/proc/self/mountinfo")
	var points []string
	for line := range strings.Lines(string(info)) {
		fields := strings.Fields(line)
		if len(fields) > 4 {
			if point := unescapeMount(fields[4]); point == dir || under(point, []string{dir}) {
				points = append(points, point)
			}
		}
	}
	return points
}
