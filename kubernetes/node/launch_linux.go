package node

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The files that Launch inherits, counted from the first one behind standard error.
const (
	launchLock = iota
	launchSpace
	firstFile = 3
)

// Launch makes this process a daemon: it locks the lock of the claim, enters the network namespace, gives its rights up
// and executes a program, which the lock belongs to until it ends. It returns if it fails.
func Launch(user int, dir string, args []string) error {
	runtime.LockOSThread() // the one that is the process after exec
	lock := os.NewFile(firstFile+launchLock, lockFile)
	if isHeld, err := tryLock(lock); isHeld || err != nil {
		return errors.Join(fmt.Errorf("%s: the daemon is running", dir), err)
	}
	err := errors.Join(lock.Truncate(0), os.Chdir(dir), unix.Setns(firstFile+launchSpace, unix.CLONE_NEWNET))
	if err != nil {
		return fmt.Errorf("entering the network namespace of the container (this needs CAP_SYS_ADMIN): %w", err)
	}
	if _, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return err
	}
	unix.CloseOnExec(firstFile + launchSpace)
	if user != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(user), syscall.Setuid(user)); err != nil {
			return fmt.Errorf("becoming user %d (this needs CAP_SETUID and CAP_SETGID): %w", user, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	err = syscall.Exec(args[0], args, []string{})
	runtime.KeepAlive(lock)
	return fmt.Errorf("%s: %w", args[0], err)
}
