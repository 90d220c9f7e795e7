package kproxy

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// setTrace makes CAP_SYS_PTRACE effective for the calling thread, or no longer, if it is permitted. It reports whether
// that is a change.
func setTrace(isWanted bool) (isChanged bool, err error) {
	const bit = 1 << unix.CAP_SYS_PTRACE
	var sets [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false, os.NewSyscallError("capget", err)
	}
	if sets[0].Permitted&bit == 0 || isWanted == (sets[0].Effective&bit != 0) {
		return false, nil
	}
	sets[0].Effective ^= bit
	return true, os.NewSyscallError("capset", unix.Capset(&header, &sets[0]))
}

// Traced calls f, which looks at a process, with CAP_SYS_PTRACE if it is permitted. Threads that have copied memory
// whose accesses the kernel checks (Config.KernelChecks) have it no longer.
func Traced(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	isChanged, err := setTrace(true)
	if isChanged && err == nil {
		defer func() { _, _ = setTrace(false) }() // if it fails, the next copy of the thread tries again
	}
	f()
}
