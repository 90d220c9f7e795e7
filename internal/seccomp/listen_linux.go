//go:build amd64 || arm64

package seccomp

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// listen installs the filter in this thread, which executes the program next, and returns the listener.
func listen(s span, daemon int) (int, error) {
	runtime.LockOSThread()
	if daemon > 0 { // so that the daemon may copy memory; it fails without Yama
		_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(daemon), 0, 0, 0)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("PR_SET_NO_NEW_PRIVS: %w", err)
	}
	p := filter(s)
	// With WAIT_KILLABLE_RECV (Linux 5.19), signals do not interrupt a call in execution, which would repeat it.
	fd, err := installFilter(p, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errors.Is(err, unix.EINVAL) {
		fd, err = installFilter(p, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}
	switch {
	case errors.Is(err, unix.EBUSY):
		return -1, errors.New("the process has a seccomp listener already (of another ddkrun, or of the container's " +
			"runtime)")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return -1, fmt.Errorf("the kernel does not have it (Linux 5.14 does): %w", err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return -1, fmt.Errorf("the system, such as the profile of a container, forbids it: %w", err)
	case err != nil:
		return -1, err
	}
	return fd, nil
}
