package usersuite

import (
	"runtime"

	"golang.org/x/sys/unix"

	"ciddk/validate"
)

// asUser calls f on a thread whose effective user is another one. It skips the case if this process may not change its
// user.
func asUser(t *validate.T, uid int, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const same = ^uintptr(0)
	// The calls of package unix would change the user of all threads.
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); e != 0 {
		t.Skip("connections of several users need CAP_SETUID")
	}
	defer func() {
		_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(unix.Getuid()), same)
		if e != 0 {
			t.Harness("setresuid: %v", e)
		}
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil { // which the change of the user clears
			t.Harness("PR_SET_DUMPABLE: %v", err)
		}
	}()
	f()
}
