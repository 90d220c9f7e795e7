package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// This architecture has no calls that others do not have.
var oldPathCalls, oldDupCalls []uint32

func modern(c systemCall) systemCall { return c }

const statCall = unix.SYS_FSTATAT
