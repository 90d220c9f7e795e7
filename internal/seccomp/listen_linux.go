//go:build amd64 || arm64

package seccomp

import (
	"errors"
	"fmt"
	"os"
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
		return -1, tooOld("SECCOMP_FILTER_FLAG_NEW_LISTENER", err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return -1, fmt.Errorf("the system, such as the profile of a container, forbids it: %w", err)
	case err != nil:
		return -1, err
	}
	return fd, checkKernel(fd)
}

func tooOld(what string, err error) error {
	return fmt.Errorf("the kernel does not have it (Linux 5.14 does): %s: %w", what, err)
}

// checkKernel checks that the kernel has what the supervisor needs besides a listener: Linux 5.0 has listeners, and
// programs of a supervisor that cannot respond would find the machine's devices, or wait for ever. No notification has
// the number 0, so the calls fail.
func checkKernel(listener int) error {
	_, added := add(listener, &addition{source: uint32(listener), flags: unix.SECCOMP_ADDFD_FLAG_SEND})
	continued := respond(listener, &response{flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
	pidfd, opened := unix.PidfdOpen(os.Getpid(), unix.PIDFD_NONBLOCK)
	if opened == nil {
		unix.Close(pidfd)
	}
	switch {
	case !errors.Is(added, unix.ENOENT):
		return tooOld("SECCOMP_ADDFD_FLAG_SEND", added)
	case !errors.Is(continued, unix.ENOENT):
		return tooOld("SECCOMP_USER_NOTIF_FLAG_CONTINUE", continued)
	case opened != nil:
		return tooOld("PIDFD_NONBLOCK", opened)
	}
	return nil
}
