package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// The calls of this architecture that others do not have, by what they do.
var (
	oldPathCalls = []uint32{unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS, unix.SYS_READLINK,
		unix.SYS_CREAT}
	oldDupCalls = []uint32{unix.SYS_DUP2}
)

// modern returns a call of oldPathCalls as the call that replaces it.
func modern(c systemCall) systemCall {
	a := c.args
	switch c.nr {
	case unix.SYS_OPEN:
		return systemCall{unix.SYS_OPENAT, [6]uint64{atCWD, a[0], a[1], a[2]}}
	case unix.SYS_CREAT:
		const create = unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC
		return systemCall{unix.SYS_OPENAT, [6]uint64{atCWD, a[0], create, a[1]}}
	case unix.SYS_STAT:
		return systemCall{statCall, [6]uint64{atCWD, a[0], a[1], 0}}
	case unix.SYS_LSTAT:
		return systemCall{statCall, [6]uint64{atCWD, a[0], a[1], unix.AT_SYMLINK_NOFOLLOW}}
	case unix.SYS_ACCESS:
		return systemCall{unix.SYS_FACCESSAT, [6]uint64{atCWD, a[0], a[1]}}
	case unix.SYS_READLINK:
		return systemCall{unix.SYS_READLINKAT, [6]uint64{atCWD, a[0], a[1], a[2]}}
	case unix.SYS_DUP2:
		return systemCall{unix.SYS_DUP3, a}
	}
	return c
}

const statCall = unix.SYS_NEWFSTATAT
