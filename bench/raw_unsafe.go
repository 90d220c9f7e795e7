//go:build linux

package bench

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is the system's struct mmsghdr. All pointers are to Go memory that the owner of the header keeps.
type mmsghdr struct {
	hdr  unix.Msghdr
	size uint32
}

// point initializes a header that sends b, or receives into b from any address.
func (h *mmsghdr) point(iov *unix.Iovec, b []byte, to *unix.RawSockaddrInet4) {
	iov.Base = &b[0]
	iov.SetLen(len(b))
	h.hdr = unix.Msghdr{Iov: iov}
	h.hdr.SetIovlen(1)
	if to != nil {
		h.hdr.Name = (*byte)(unsafe.Pointer(to))
		h.hdr.Namelen = unix.SizeofSockaddrInet4
	}
}

// segments enables segmentation offload into packets of n bytes.
func (h *mmsghdr) segments(ctl *[24]byte, n uint16) {
	c := (*unix.Cmsghdr)(unsafe.Pointer(ctl))
	c.Level, c.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	c.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(ctl[unix.CmsgLen(0):], n)
	h.hdr.Control = &ctl[0]
	h.hdr.SetControllen(unix.CmsgSpace(2))
}

// mmsg sends or receives many messages without blocking. Calls that move little do not enter the scheduler, which would
// cost more.
func mmsg(call uintptr, fd int, h []mmsghdr, long bool) (int, error) {
	f := syscall.RawSyscall6
	if long {
		f = syscall.Syscall6
	}
	n, _, e := f(call, uintptr(fd), uintptr(unsafe.Pointer(&h[0])), uintptr(len(h)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// sendOne and recvOne are sendto and recvfrom without blocking.
func sendOne(fd int, b []byte, to *unix.RawSockaddrInet4) error {
	_, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL,
		uintptr(unsafe.Pointer(to)), unix.SizeofSockaddrInet4)
	if e != 0 {
		return e
	}
	return nil
}

func recvOne(fd int, b []byte) (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// streamSend is sendto on a connected socket. It may send a part only.
func streamSend(fd int, b []byte) (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
