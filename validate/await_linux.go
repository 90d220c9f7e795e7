package validate

import "syscall"

const (
	idTypePID  = 1          // P_PID of waitid(2)
	leaveThere = 0x01000000 // WNOWAIT of waitid(2)
	hasExited  = 4          // WEXITED of waitid(2)
)

// awaitExit blocks until a child process has ended, without waiting for it. The system does not reuse the child's
// process id until it is waited for.
func awaitExit(pid int) bool {
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idTypePID, uintptr(pid), 0, hasExited|leaveThere, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}
