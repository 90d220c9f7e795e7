package devices

import (
	"bufio"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// processOf returns the number of a pidfd's process, which must belong to a user. Error: EPERM, also for a process that
// has executed a program of another user, whose files in /proc belong to root; ESRCH; EBADF.
func processOf(f *os.File, uid int) (pid int, err error) {
	err = control(f, func(fd int) { pid = numberOf(fd) })
	switch {
	case err != nil || pid == 0:
		return 0, syscall.EBADF
	case pid < 0:
		return 0, syscall.ESRCH
	}
	info, err := os.Stat("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return 0, syscall.ESRCH
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid {
		return 0, syscall.EPERM
	}
	isGone := false
	err = control(f, func(fd int) {
		err := unix.PidfdSendSignal(fd, 0, nil, 0)
		isGone = err != nil && !errors.Is(err, unix.EPERM) // EPERM: a process of another user
	})
	if err != nil || isGone { // then the number may be that of another process
		return 0, syscall.ESRCH
	}
	return pid, nil
}

// numberOf returns the number of a pidfd's process, -1 if it has none here, or 0 if fd is not a pidfd.
func numberOf(fd int) int {
	f, err := os.Open("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "Pid:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || n == 0 { // a process of another PID namespace
				return -1
			}
			return n
		}
	}
	return 0
}
