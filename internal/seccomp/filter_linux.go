//go:build amd64 || arm64

package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// span is the range of numbers of descriptors of device files.
type span struct{ first, end int }

// rangeSize is the number of device files that a process can have open.
const rangeSize = 256

// spanFor returns the range for a limit of descriptors. Its end is at most the limit that processes commonly have.
func spanFor(limit uint64) span {
	end := int(min(limit, 1024))
	return span{max(end-rangeSize, end/2), end}
}

func (s span) has(fd int) bool { return fd >= s.first && fd < s.end }

// The fields of struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// arg returns the offset of the lower half of an argument.
func arg(n int) uint32 { return offArgs + 8*uint32(n) }

const (
	protoRDMA = 20 // NETLINK_RDMA

	returnNotify = unix.SECCOMP_RET_USER_NOTIF
	returnAllow  = unix.SECCOMP_RET_ALLOW
)

func load(off uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
}

func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func ret(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

// inRange notifies if an argument is in the range.
func inRange(s span, n int) []unix.SockFilter {
	return []unix.SockFilter{load(arg(n)), jump(unix.BPF_JGE, uint32(s.first), 0, 2),
		jump(unix.BPF_JGE, uint32(s.end), 1, 0), ret(returnNotify), ret(returnAllow)}
}

// eitherInRange notifies if one of two arguments is in the range.
func eitherInRange(s span, n, m int) []unix.SockFilter {
	return append([]unix.SockFilter{load(arg(n)), jump(unix.BPF_JGE, uint32(s.first), 0, 2),
		jump(unix.BPF_JGE, uint32(s.end), 1, 0), ret(returnNotify)}, inRange(s, m)...)
}

// onDescriptor is inRange if the flags have AT_EMPTY_PATH, and otherwise notifies.
func onDescriptor(s span, flags int) []unix.SockFilter {
	return append([]unix.SockFilter{load(arg(flags)), jump(unix.BPF_JSET, unix.AT_EMPTY_PATH, 1, 0), ret(returnNotify)},
		inRange(s, 0)...)
}

// The calls with a path of which the supervisor is notified always, and those on descriptors.
var (
	pathCalls = slices.Concat(oldPathCalls, []uint32{unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_FACCESSAT,
		unix.SYS_FACCESSAT2, unix.SYS_READLINKAT, unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_LISTXATTR,
		unix.SYS_LLISTXATTR, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_GETCWD})
	descriptorCalls = slices.Concat(oldDupCalls, socketCalls, []uint32{unix.SYS_WRITE, unix.SYS_IOCTL, unix.SYS_FSTAT,
		unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_FCNTL, unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_READV,
		unix.SYS_WRITEV, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_LSEEK,
		unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC})
	socketCalls = []uint32{unix.SYS_BIND, unix.SYS_CONNECT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
		unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_RECVFROM,
		unix.SYS_RECVMSG}
	// transferCalls move data between two descriptors, by the number of the second one's argument.
	transferCalls = map[uint32]int{unix.SYS_SENDFILE: 1, unix.SYS_SPLICE: 2, unix.SYS_COPY_FILE_RANGE: 2}
)

// filter returns the program that selects the calls.
func filter(s span) []unix.SockFilter {
	p := []unix.SockFilter{load(offArch), jump(unix.BPF_JEQ, auditArch, 1, 0), ret(returnAllow), load(offNumber)}
	rule := func(number uint32, then ...unix.SockFilter) {
		p = append(p, jump(unix.BPF_JEQ, number, 0, uint8(len(then))))
		p = append(p, then...)
	}
	for _, n := range descriptorCalls {
		rule(n, inRange(s, 0)...)
	}
	for n, second := range transferCalls {
		rule(n, eitherInRange(s, 0, second)...)
	}
	for _, n := range pathCalls {
		rule(n, ret(returnNotify))
	}
	rule(statCall, onDescriptor(s, 3)...)
	rule(unix.SYS_STATX, onDescriptor(s, 2)...)
	rule(unix.SYS_SOCKET, load(arg(0)), jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 3), load(arg(2)),
		jump(unix.BPF_JEQ, protoRDMA, 0, 1), ret(returnNotify), ret(returnAllow))
	return append(p, ret(returnAllow))
}
