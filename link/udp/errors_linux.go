package udp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/wire"
)

// QP1 sends from a socket of its own. The error queue of this socket (IP_RECVERR) has the datagrams for which the
// network returned an ICMP error: no process receives at the peer's address, or there is no such machine. It is a
// separate socket because an error in the queue makes the next send fail, and ICMP errors can be forged, so they must
// not disturb connections.

// openGSI opens the socket that QP1 sends from, which receives errors only.
func (s *mmsgSocket) openGSI() error {
	p := s.port
	fd, err := s.open(netip.AddrPortFrom(p.Addr, 0), sourceSocket)
	if err != nil {
		return &sourceError{"socket of QP1", err}
	}
	s.gsi = fd
	s.from = append(s.from, fd)
	if p.GSI, err = boundPort(fd); err != nil {
		return err
	}
	if err := s.setUpSending(fd); err != nil {
		return err
	}
	if p.Addr.Is4() {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
	} else {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
	}
	if err != nil {
		return &sourceError{"errors of QP1's socket", err}
	}
	return nil
}

// clearError handles an error of a send that an earlier datagram of QP1 caused, and reports whether err is one. The
// caller then tries the send again.
func (s *mmsgSocket) clearError(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok || !unreachable(errno) {
		return false
	}
	s.signal() // the goroutine reads the queue, since a sender may hold locks
	return true
}

// unreachable reports whether an error means that a datagram did not arrive.
func unreachable(e syscall.Errno) bool {
	switch e {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENONET,
		unix.ENOPROTOOPT, unix.EACCES:
		return true
	}
	return false
}

// errorsFor is how long the error queue is read after a datagram of QP1 while consumers poll. Neighbour discovery gives
// up after 3 s.
const errorsFor = 10 * time.Second

// readRecentErrors reads the error queue if there may be something in it.
func (s *mmsgSocket) readRecentErrors() {
	if at := s.gsiSent.Load(); at != 0 && s.port.Clock.Elapsed()-time.Duration(at) < errorsFor {
		s.readErrors()
	}
}

// mostErrors is the maximum number of reports that are read at a time.
const mostErrors = 64

// readErrors empties the error queue. It runs on the receiving goroutine alone, which holds no locks.
func (s *mmsgSocket) readErrors() {
	var data [wire.BTHLen + wire.DETHLen + len(ci.MAD{})]byte
	var ctl [256]byte
	for range mostErrors {
		n, k, _, name, err := unix.Recvmsg(s.gsi, data[:], ctl[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		if errno, ok := icmpError(ctl[:k]); ok && unreachable(errno) {
			s.port.ReportUndelivered(addressOf(name), data[:n], errno)
		}
	}
}

// icmpError returns the error number in the control messages of an error (struct sock_extended_err, which begins with
// the error number and the origin: errqueue.h). It returns false for errors that the network did not report, such as a
// datagram that was too long.
func icmpError(ctl []byte) (syscall.Errno, bool) {
	const originICMP, originICMP6 = 2, 3
	ne := binary.NativeEndian
	for at := unix.CmsgLen(0); len(ctl) >= at+8; {
		size := uint64(ne.Uint32(ctl))
		w := strconv.IntSize / 8
		if w == 8 {
			size = ne.Uint64(ctl)
		}
		if size < uint64(at) || size > uint64(len(ctl)) {
			break
		}
		level, typ := ne.Uint32(ctl[w:]), ne.Uint32(ctl[w+4:])
		isErr := level == unix.IPPROTO_IP && typ == unix.IP_RECVERR || level == unix.IPPROTO_IPV6 &&
			typ == unix.IPV6_RECVERR
		if v := ctl[at:]; isErr && size >= uint64(at)+8 && (v[4] == originICMP || v[4] == originICMP6) {
			return syscall.Errno(ne.Uint32(v)), true
		}
		ctl = ctl[min(unix.CmsgSpace(int(size)-at), len(ctl)):]
	}
	return 0, false
}

func addressOf(sa unix.Sockaddr) netip.Addr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(sa.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(sa.Addr)
	}
	return netip.Addr{}
}
