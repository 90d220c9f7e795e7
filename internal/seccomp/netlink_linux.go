//go:build amd64 || arm64

package seccomp

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// netlinkFile is the file of the daemon that a socket of RDMA netlink is a connection to (package
// internal/kproxy/nldev). The connection transports datagrams, and the supervisor supplies the addresses, which the
// connection lacks.
const netlinkFile = "netlink/rdma"

const (
	// maxDatagram is more than a request or a reply of the daemon has.
	maxDatagram = 256 << 10
	// maxPorts is the number of sockets whose ports are known. The oldest ones are forgotten, which then have port 0.
	maxPorts = 4096
)

// openNetlink opens a socket of RDMA netlink.
func (t *task) openNetlink() result {
	conn, _, err := t.connect(netlinkFile, nameOf("/"+netlinkFile))
	if err != nil { // as Linux without the module ib_core
		return result{errno: syscall.EPROTONOSUPPORT}
	}
	defer unix.Close(conn)
	typ := t.int(1)
	if err := unix.SetNonblock(conn, typ&unix.SOCK_NONBLOCK != 0); err != nil {
		return failed(err)
	}
	var st unix.Stat_t
	pidfd, pid, err := t.processNumber()
	if err != nil {
		return failed(err)
	}
	unix.Close(pidfd)
	if err := unix.Fstat(conn, &st); err != nil {
		return failed(err)
	}
	t.setPort(st.Ino, uint32(pid))
	cloexec := uint32(0)
	if typ&unix.SOCK_CLOEXEC != 0 {
		cloexec = unix.O_CLOEXEC
	}
	return t.give(conn, cloexec)
}

// setPort sets the port of the socket with an inode. Later sockets have higher ones.
func (s *supervisor) setPort(ino uint64, port uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.ports[ino]; !ok && len(s.ports) >= maxPorts {
		oldest := ino
		for other := range s.ports {
			oldest = min(oldest, other)
		}
		delete(s.ports, oldest)
	}
	s.ports[ino] = port
}

// port returns the port of a socket.
func (t *task) port(d *descriptor) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ports[d.stat.Ino]
}

// onNetlink executes a call on a socket of RDMA netlink.
func (t *task) onNetlink(d *descriptor) result {
	a := &t.args
	switch t.nr {
	case unix.SYS_BIND:
		return t.bind(d)
	case unix.SYS_CONNECT: // to the kernel, to which all datagrams go
		return result{}
	case unix.SYS_GETSOCKNAME:
		return t.storeAddress(a[1], a[2], t.port(d))
	case unix.SYS_GETPEERNAME:
		return t.storeAddress(a[1], a[2], 0)
	case unix.SYS_SETSOCKOPT:
		if t.int(1) == unix.SOL_NETLINK {
			return result{}
		}
	case unix.SYS_GETSOCKOPT:
		return t.option()
	case unix.SYS_SENDTO, unix.SYS_WRITE:
		return t.send(d, []part{{a[1], a[2]}})
	case unix.SYS_WRITEV:
		return t.transfer(a[1], a[2], func(parts []part) result { return t.send(d, parts) })
	case unix.SYS_SENDMSG:
		h, err := t.header(a[1])
		if err != nil {
			return failed(err)
		}
		return t.transfer(h.parts, h.count, func(parts []part) result { return t.send(d, parts) })
	case unix.SYS_RECVFROM:
		r, _ := t.receive(d, []part{{a[1], a[2]}}, t.int(3))
		if r.errno == 0 && a[4] != 0 {
			if stored := t.storeAddress(a[4], a[5], 0); stored.errno != 0 {
				return stored
			}
		}
		return r
	case unix.SYS_RECVMSG:
		return t.receiveMessage(d)
	}
	return proceed
}

// addressSize is the size of struct sockaddr_nl: u16 family, u16 zero, u32 port, u32 groups.
const addressSize = 12

func (t *task) bind(d *descriptor) result {
	b := make([]byte, addressSize)
	if t.args[2] < addressSize {
		return result{errno: syscall.EINVAL}
	}
	if err := readMemory(t.tid, t.args[1], b); err != nil {
		return failed(err)
	}
	if !t.isValid() || ne.Uint16(b) != unix.AF_NETLINK {
		return result{errno: syscall.EINVAL}
	}
	if port := ne.Uint32(b[4:]); port != 0 { // 0: the kernel chooses, which it has done
		t.setPort(d.stat.Ino, port)
	}
	return result{}
}

// storeAddress stores the address of a port, 0 for that of the kernel, and its size.
func (t *task) storeAddress(addr, size uint64, port uint32) result {
	room := make([]byte, 4)
	if err := readMemory(t.tid, size, room); err != nil {
		return failed(err)
	}
	if int32(ne.Uint32(room)) < 0 {
		return result{errno: syscall.EINVAL}
	}
	n := min(ne.Uint32(room), addressSize)
	if err := writeMemory(t.tid, addr, address(port)[:n]); err != nil {
		return failed(err)
	}
	return t.store(size, uint32(addressSize))
}

func address(port uint32) []byte {
	b := ne.AppendUint16(nil, unix.AF_NETLINK)
	b = ne.AppendUint16(b, 0)
	b = ne.AppendUint32(b, port)
	return ne.AppendUint32(b, 0)
}

// option returns an option whose value is that of a netlink socket. Others are those of the connection.
func (t *task) option() result {
	values := map[int]uint32{unix.SO_DOMAIN: unix.AF_NETLINK, unix.SO_PROTOCOL: protoRDMA, unix.SO_TYPE: unix.SOCK_RAW}
	value, ok := values[t.int(2)]
	switch {
	case t.int(1) == unix.SOL_NETLINK:
		return result{errno: syscall.ENOPROTOOPT}
	case t.int(1) != unix.SOL_SOCKET || !ok:
		return proceed
	}
	room := make([]byte, 4)
	if err := readMemory(t.tid, t.args[4], room); err != nil {
		return failed(err)
	}
	n := min(ne.Uint32(room), 4)
	if err := writeMemory(t.tid, t.args[3], ne.AppendUint32(nil, value)[:n]); err != nil {
		return failed(err)
	}
	return t.store(t.args[4], n)
}

// part is a part of a datagram in memory of the program.
type part struct{ addr, size uint64 }

// messageHeader is what a call reads of struct msghdr.
type messageHeader struct {
	name         uint64
	nameSize     uint32
	parts, count uint64 // of a vector
}

// The offsets in struct msghdr of what a receive stores.
const (
	offNameSize   = 8
	offControlLen = 40
	offFlags      = 48
	headerSize    = 56
)

func (t *task) header(addr uint64) (h messageHeader, err error) {
	b := make([]byte, headerSize)
	if err = readMemory(t.tid, addr, b); err != nil {
		return h, err
	}
	return messageHeader{name: ne.Uint64(b), nameSize: ne.Uint32(b[offNameSize:]), parts: ne.Uint64(b[16:]),
		count: ne.Uint64(b[24:])}, nil
}

// transfer calls do with the parts of a vector.
func (t *task) transfer(addr, count uint64, do func([]part) result) result {
	const most, size = 1024, 16
	if count > most {
		return result{errno: syscall.EMSGSIZE}
	}
	b := make([]byte, count*size)
	if err := readMemory(t.tid, addr, b); err != nil {
		return failed(err)
	}
	var parts []part
	for ; len(b) > 0; b = b[size:] {
		parts = append(parts, part{ne.Uint64(b), ne.Uint64(b[8:])})
	}
	return do(parts)
}

// sizeOf returns the size of parts, at most maxDatagram and one more.
func sizeOf(parts []part) (n uint64) {
	for _, p := range parts {
		n = min(n+min(p.size, maxDatagram+1), maxDatagram+1)
	}
	return n
}

// send sends a datagram. The kernel replies to the port of the socket, whatever port a request contains; the daemon
// replies to that of the request.
func (t *task) send(d *descriptor, parts []part) result {
	n := sizeOf(parts)
	if n > maxDatagram {
		return result{errno: syscall.EMSGSIZE}
	}
	b := make([]byte, 0, n)
	for _, p := range parts {
		begin := len(b)
		b = b[:begin+int(p.size)]
		if err := readMemory(t.tid, p.addr, b[begin:]); err != nil {
			return failed(err)
		}
	}
	if !t.isValid() {
		return failed(unix.EINTR) // nobody receives the reply
	}
	setPorts(b, t.port(d))
	sent, err := unix.SendmsgN(d.conn, b, nil, nil, unix.MSG_NOSIGNAL)
	if err != nil {
		return failed(err)
	}
	return result{value: int64(sent)}
}

// setPorts sets the port of the requests in a datagram.
func setPorts(b []byte, port uint32) {
	const size, offPort = 16, 12 // struct nlmsghdr: u32 length, u16 type, u16 flags, u32 sequence number, u32 port
	for len(b) >= size {
		ne.PutUint32(b[offPort:], port)
		n := int64(ne.Uint32(b))
		if n < size {
			return
		}
		b = b[min(int64(len(b)), (n+3)&^3):]
	}
}

// receive receives a datagram, and waits for one unless the call or the socket does not block. It returns the flags of
// the datagram, too.
func (t *task) receive(d *descriptor, parts []part, flags int) (result, int) {
	b := make([]byte, min(sizeOf(parts), maxDatagram))
	limit := receiveLimit(d.conn)
	for {
		n, _, got, _, err := unix.Recvmsg(d.conn, b, nil, flags|unix.MSG_DONTWAIT)
		switch {
		case err == nil:
			return t.scatter(parts, b, n), got
		case !errors.Is(err, unix.EAGAIN) || flags&unix.MSG_DONTWAIT != 0 || !isBlocking(d.conn):
			return failed(err), 0
		}
		if errno := t.await(d, limit); errno != 0 {
			return result{errno: errno}, 0
		}
	}
}

// receiveLimit returns the time at which a receive ends (SO_RCVTIMEO), the zero time if it does not.
func receiveLimit(fd int) time.Time {
	v, err := unix.GetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO)
	if err != nil || v.Nano() == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(v.Nano()))
}

// scatter stores the bytes of a datagram of n bytes, of which b has the first ones.
func (t *task) scatter(parts []part, b []byte, n int) result {
	b = b[:min(n, len(b))]
	for _, p := range parts {
		m := min(p.size, uint64(len(b)))
		if err := writeMemory(t.tid, p.addr, b[:m]); err != nil {
			return failed(err)
		}
		b = b[m:]
	}
	return result{value: int64(n)}
}

// receiveMessage is receive for a struct msghdr.
func (t *task) receiveMessage(d *descriptor) result {
	at := t.args[1]
	h, err := t.header(at)
	if err != nil {
		return failed(err)
	}
	return t.transfer(h.parts, h.count, func(parts []part) result {
		r, flags := t.receive(d, parts, t.int(2))
		if r.errno != 0 {
			return r
		}
		n := uint32(0)
		if h.name != 0 {
			n = addressSize
			if err := writeMemory(t.tid, h.name, address(0)[:min(h.nameSize, addressSize)]); err != nil {
				return failed(err)
			}
		}
		for _, s := range []struct {
			off   uint64
			value any
		}{{offNameSize, n}, {offControlLen, uint64(0)}, {offFlags, uint32(flags)}} {
			if stored := t.store(at+s.off, s.value); stored.errno != 0 {
				return stored
			}
		}
		return r
	})
}

// isBlocking reports whether calls on a descriptor wait.
func isBlocking(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_NONBLOCK == 0
}
