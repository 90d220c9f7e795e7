package arena

import "golang.org/x/sys/unix"

// Yield lets another process run on this processor, if one waits for it. It makes one system call. It does not enter
// the Go scheduler, and so does not let other goroutines run.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) } // it has no errors
