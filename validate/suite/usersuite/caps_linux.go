package usersuite

import (
	"runtime"

	"golang.org/x/sys/unix"

	"ciddk/validate"
)

// withoutTrace calls f on a thread that does not have CAP_SYS_PTRACE, as most daemons.
func withoutTrace(t *validate.T, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		t.Harness("capabilities: %v", err)
	}
	less := sets
	less[0].Effective &^= 1 << unix.CAP_SYS_PTRACE
	if err := unix.Capset(&header, &less[0]); err != nil {
		t.Harness("capabilities: %v", err)
	}
	defer func() {
		if err := unix.Capset(&header, &sets[0]); err != nil {
			t.Harness("capabilities: %v", err)
		}
	}()
	f()
}
