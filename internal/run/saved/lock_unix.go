//go:build unix && !aix && !solaris

package saved

import (
	"errors"
	"os"
	"syscall"
)

// lockDir locks a directory for this process. The error is errLocked if another one has locked it. The kernel releases
// the lock of a process that was killed. A file system that cannot lock a directory, such as NFS, locks nothing.
func lockDir(dir string) (release func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		f.Close()
		return nil, errLocked
	}
	return func() { f.Close() }, nil
}
