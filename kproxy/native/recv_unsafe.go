//go:build linux

package native

import (
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/schema"
)

// recvState is a recvmsg in progress. The functions of package net allocate the peer's address for every message; this
// one does not ask for it.
//
// The pointers in the message header point to slices of this structure and to r.b, which are alive and not moved during
// the system call, since they are on the heap and referred to by r.
type recvState struct {
	b     []byte
	pool  *sync.Pool // of *[]byte, that b comes from; nil: b is the caller's
	from  *[]byte    // the element of the pool
	oob   [oobSize]byte
	n     int
	oobn  int
	flags int
	errno syscall.Errno
}

// oobSize is room for as many descriptors as the kernel permits in a message (SCM_MAX_FD is 253). The kernel closes
// those for which there is no room, on the thread that receives, and a close can take any time; see Discarder.
const oobSize = unix.SizeofCmsghdr + 4*256

var _ [256 - schema.MaxFiles]struct{}

// read executes one recvmsg without blocking. It reports false if there is no message yet; a buffer of the pool is then
// returned to it.
func (r *recvState) read(fd uintptr) bool {
	if r.pool == nil {
		return r.receive(fd)
	}
	r.from = r.pool.Get().(*[]byte)
	r.b = *r.from
	done := r.receive(fd)
	if !done {
		r.pool.Put(r.from)
		r.b, r.from = nil, nil
	}
	return done
}

// receive is read without the pool.
func (r *recvState) receive(fd uintptr) bool {
	iov := unix.Iovec{Base: unsafe.SliceData(r.b)}
	iov.SetLen(len(r.b))
	h := unix.Msghdr{Iov: &iov, Control: &r.oob[0]}
	h.SetIovlen(1)
	h.SetControllen(len(r.oob))
	for {
		n, _, errno := syscall.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&h)), unix.MSG_CMSG_CLOEXEC)
		if errno == syscall.EINTR {
			continue
		}
		if errno == syscall.EAGAIN {
			return false
		}
		r.n, r.errno = int(n), errno
		r.oobn, r.flags = int(h.Controllen), int(h.Flags)
		return true
	}
}
