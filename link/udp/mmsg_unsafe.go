//go:build linux

package udp

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is the system's struct mmsghdr.
type mmsghdr struct {
	hdr  unix.Msghdr
	size uint32
}

// iovec returns the iovec of b, which must not be empty.
func iovec(b []byte) (v unix.Iovec) {
	v.Base = &b[0]
	v.SetLen(len(b))
	return v
}

// init sets the fields that are the same in each receive.
func (h *mmsghdr) init(name *unix.RawSockaddrInet6, iov *unix.Iovec) {
	h.hdr.Name = (*byte)(unsafe.Pointer(name))
	h.hdr.Iov = iov
	h.hdr.SetIovlen(1)
}

// reset sets the fields that the system overwrites.
func (h *mmsghdr) reset(ctl []byte) {
	h.hdr.Namelen = unix.SizeofSockaddrInet6
	h.hdr.Control = &ctl[0]
	h.hdr.SetControllen(len(ctl))
	h.hdr.Flags = 0
}

func (h *mmsghdr) truncated() bool { return h.hdr.Flags&unix.MSG_TRUNC != 0 }

func (h *mmsghdr) controlLen() int { return int(h.hdr.Controllen) }

// send sets all fields for sending.
func (h *mmsghdr) send(rt *osRoute, iov []unix.Iovec, ctl []byte) {
	h.hdr = unix.Msghdr{Name: &rt.sa[0], Namelen: rt.saLen, Iov: &iov[0]}
	h.hdr.SetIovlen(len(iov))
	if len(ctl) > 0 {
		h.hdr.Control = &ctl[0]
		h.hdr.SetControllen(len(ctl))
	}
}

// sendmmsg sends messages and returns how many the system accepted. A long train passes the network stack within the
// call, over loopback as far as the peer's buffer. The call therefore enters the scheduler.
func sendmmsg(fd int, h []mmsghdr) (int, error) {
	var p unsafe.Pointer
	if len(h) > 0 {
		p = unsafe.Pointer(&h[0])
	}
	n, _, e := syscall.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(p), uintptr(len(h)), unix.MSG_DONTWAIT|
		unix.MSG_NOSIGNAL, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// sendmmsgShort is sendmmsg for so few bytes that entering the scheduler would take longer.
func sendmmsgShort(fd int, h []mmsghdr) (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&h[0])), uintptr(len(h)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// recvmmsg receives the available datagrams. It never waits, and copies at most one batch, so it does not enter the
// scheduler: a spinning consumer calls it continuously.
func recvmmsg(fd int, h []mmsghdr) (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&h[0])), uintptr(len(h)),
		unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// ntohs reads a port number that the system wrote.
func ntohs(v uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&v))
	return uint16(b[0])<<8 | uint16(b[1])
}

// sourceOf4 reads an IPv4 address from the storage of an IPv6 one.
func sourceOf4(n *unix.RawSockaddrInet6) netip.AddrPort {
	m := (*unix.RawSockaddrInet4)(unsafe.Pointer(n))
	return netip.AddrPortFrom(netip.AddrFrom4(m.Addr), ntohs(m.Port))
}

// socketDrops reads the number of packets that the system dropped at a socket: SO_MEMINFO's last word, sk_drops; 0
// before Linux 4.12.
func socketDrops(fd int) uint64 {
	const words, drops = 9, 8 // SK_MEMINFO_VARS, SK_MEMINFO_DROPS
	var m [words]uint32
	n := uint32(unsafe.Sizeof(m))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&n)), 0)
	if e != 0 {
		return 0
	}
	return uint64(m[drops])
}
