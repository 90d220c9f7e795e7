package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// newPidfd returns a duplicate of a pidfd, for ended.
func newPidfd(pidfd *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(pidfd.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that package os waits for the file
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), pidfd.Name()), nil
}

// ended waits until the process of a pidfd has ended. It reports false when another goroutine closes the file.
func ended(pidfd *os.File) bool {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return false
	}
	return raw.Read(func(fd uintptr) bool { return hasEnded(int(fd), 0) }) == nil
}

// hasEnded reports whether the process of a pidfd ends within milliseconds.
func hasEnded(pidfd, timeout int) bool {
	p := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, timeout)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// duplicate returns a file with a descriptor of its own.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// tryLock locks a file until it, and all its duplicates in other processes, are closed. It reports whether another
// process has locked it.
func tryLock(f *os.File) (isHeld bool, err error) {
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			return true, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

// isRunning reports whether the daemon of a claim's directory runs.
func isRunning(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	isHeld, err := tryLock(f)
	return isHeld && err == nil
}

// patience is the time in milliseconds after which a daemon that was told to end is killed.
const patience = 5000

// stopProcess ends the daemon of a claim's directory, if one runs, whoever has started it.
func stopProcess(dir string) error {
	if !isRunning(dir) {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return fmt.Errorf("%s: the daemon is being started", dir)
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(pidfd)
	if !isRunning(dir) { // else the number may be that of another process
		return nil
	}
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		err := unix.PidfdSendSignal(pidfd, s, nil, 0)
		if errors.Is(err, unix.ESRCH) || hasEnded(pidfd, patience) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return fmt.Errorf("process %d does not end", pid)
}
