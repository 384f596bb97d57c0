package truth

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// inNamespace calls open on a thread of its own inside a network namespace. The sockets that it opens can be used
// anywhere.
func inNamespace(namespace string, open func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- func() error {
			file, err := os.Open(filepath.Join("/run/netns", namespace))
			if err != nil {
				return err
			}
			defer file.Close()
			if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter %s: %w", namespace, err)
			}
			return open()
		}()
	}()
	return <-done
}

// DialLoopback connects to a port of 127.0.0.1 in a node's network.
func DialLoopback(node string, port int) (net.Conn, error) {
	var fd int
	err := inNamespace(namespaceOf(node), func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			unix.Close(fd)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("connect to port %d of %s: %w", port, node, err)
	}
	file := os.NewFile(uintptr(fd), "socket of "+node)
	defer file.Close() // the connection has a copy
	return net.FileConn(file)
}
