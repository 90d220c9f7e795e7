package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A link is a plain socket that moves messages of one size with the simplest system calls: one message per call if it
// fits.
type link interface {
	address() address
	join(address) error
	// push sends messages. With settle it returns when the other side has reported that all arrived, which the other
	// side does at the end of a pull with settle.
	push(messages int, settle bool) error
	pull(messages int, settle bool) error
	// ask sends a request of requestBytes; asked receives one.
	ask() error
	asked() error
	close() error
}

const requestBytes = 16

// udpLink sends one datagram per call. A message that does not fit into one packet is split into datagrams of equal
// size. At most half of the other side's receive buffer is in flight: the receiver regularly reports how many bytes
// have arrived.
type udpLink struct {
	*rawSocket
	size, datagram int
	window         int // maximum bytes in flight
	sent, settled  int // bytes since the link was created
	got, said      int
	buf            []byte // receive buffer; large enough for joined datagrams
	out            []byte
}

const udpPayload = 65507 // maximum of a datagram over IPv4

func newUDPLink(h *host, r role) (link, error) {
	s, err := openRaw(h.addr)
	if err != nil {
		return nil, err
	}
	return &udpLink{rawSocket: s, size: r.Size, buf: make([]byte, joined)}, nil
}

func (l *udpLink) address() address { return address{Sock: l.at} }

func (l *udpLink) join(to address) error {
	l.connect(to.Sock)
	granted, err := unix.GetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return fmt.Errorf("SO_RCVBUF: %w", err)
	}
	most, err := largestDatagram(to.Sock)
	if err != nil {
		return err
	}
	parts := (l.size + most - 1) / most
	l.datagram = (l.size + parts - 1) / parts
	l.out = make([]byte, l.datagram)
	// The system charges twice the bytes of a datagram at most, and about 800 for its header.
	l.window = max(2, granted/2/(2*l.datagram+800)) * l.datagram
	return nil
}

// largestDatagram returns the largest datagram that fits a packet on the path to an address.
func largestDatagram(to netip.AddrPort) (n int, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
		return 0, fmt.Errorf("connect to %v: %w", to, err)
	}
	if n, err = unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU); err != nil {
		return 0, fmt.Errorf("IP_MTU: %w", err)
	}
	return min(n-28, udpPayload), nil // IPv4 and UDP headers
}

func (l *udpLink) transmit(b []byte) error {
	var w waiting
	for {
		switch err := sendOne(l.fd, b, &l.to); {
		case err == nil:
			return nil
		case !full(err):
			return fmt.Errorf("sendto: %w", err)
		}
		if err := w.again(); err != nil {
			return err
		}
	}
}

// word reads one report of the other side if there is one.
func (l *udpLink) word() bool {
	n, err := recvOne(l.fd, l.buf)
	if err != nil || n != 8 {
		return false
	}
	l.settled = max(l.settled, int(binary.LittleEndian.Uint64(l.buf)))
	return true
}

func (l *udpLink) push(messages int, settle bool) error {
	var w waiting
	for range messages {
		for left := l.size; left > 0; {
			n := min(left, l.datagram)
			for l.sent+n-l.settled > l.window {
				if !l.word() {
					if err := w.again(); err != nil {
						return err
					}
				}
			}
			if err := l.transmit(l.out[:n]); err != nil {
				return err
			}
			l.sent += n
			left -= n
		}
	}
	for settle && l.settled < l.sent {
		if !l.word() {
			if err := w.again(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *udpLink) pull(messages int, settle bool) error {
	var w waiting
	for want := l.got + messages*l.size; l.got < want; {
		n, err := recvOne(l.fd, l.buf)
		if err != nil {
			if err := w.again(); err != nil {
				return err
			}
			continue
		}
		if n == 8 {
			l.settled = max(l.settled, int(binary.LittleEndian.Uint64(l.buf)))
			continue
		}
		l.got += n
		if l.got-l.said >= l.window/4 {
			if err := l.say(); err != nil {
				return err
			}
		}
	}
	if settle {
		return l.say()
	}
	return nil
}

func (l *udpLink) say() error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(l.got))
	l.said = l.got
	return l.transmit(b[:])
}

func (l *udpLink) ask() error { return l.transmit(make([]byte, requestBytes)) }

func (l *udpLink) asked() error {
	for w := (waiting{}); ; {
		n, err := recvOne(l.fd, l.buf)
		switch {
		case err == nil && n == requestBytes:
			return nil
		case err == nil && n == 8:
			l.settled = max(l.settled, int(binary.LittleEndian.Uint64(l.buf)))
		case err == nil:
			return fmt.Errorf("a datagram of %d bytes where a request was due", n)
		}
		if err := w.again(); err != nil {
			return err
		}
	}
}

// tcpLink is a TCP connection without Nagle's delay. The second side listens.
type tcpLink struct {
	first    bool
	size     int
	at       netip.AddrPort // the listener's
	fd       int            // -1 until joined
	listener int            // -1: closed, or none
	out      []byte
	in       []byte
	word     [requestBytes]byte
}

// tcpChunk is the maximum that one call moves.
const tcpChunk = 256 << 10

func newTCPLink(h *host, r role) (_ link, err error) {
	l := &tcpLink{first: r.First, size: r.Size, fd: -1, listener: -1, out: make([]byte, min(r.Size, tcpChunk)),
		in: make([]byte, tcpChunk)}
	if l.first {
		return l, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Bind(l.listener, &unix.SockaddrInet4{Addr: h.addr.As4()}); err != nil {
		return nil, fmt.Errorf("bind to %v: %w", h.addr, err)
	}
	if err := unix.Listen(l.listener, 1); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	sa, err := unix.Getsockname(l.listener)
	if err != nil {
		return nil, err
	}
	l.at = netip.AddrPortFrom(h.addr, uint16(sa.(*unix.SockaddrInet4).Port))
	return l, nil
}

func (l *tcpLink) address() address { return address{Sock: l.at} }

// join connects, or accepts the connection that the first side has made.
func (l *tcpLink) join(to address) (err error) {
	if l.first {
		if l.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return fmt.Errorf("socket: %w", err)
		}
		if err := unix.Connect(l.fd, &unix.SockaddrInet4{Addr: to.Sock.Addr().As4(),
			Port: int(to.Sock.Port())}); err != nil {
			return fmt.Errorf("connect to %v: %w", to.Sock, err)
		}
	} else if l.fd, _, err = unix.Accept4(l.listener, unix.SOCK_CLOEXEC); err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	return unix.SetsockoptInt(l.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// write and read spin while the socket would block, like the other links.
func (l *tcpLink) write(b []byte) error {
	var w waiting
	for len(b) > 0 {
		n, err := streamSend(l.fd, b)
		switch {
		case err == nil:
			b = b[n:]
		case !full(err):
			return fmt.Errorf("send: %w", err)
		default:
			if err := w.again(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *tcpLink) read(n int) error {
	for w := (waiting{}); n > 0; {
		k, err := recvOne(l.fd, l.in[:min(n, len(l.in))])
		switch {
		case err == nil && k == 0:
			return errors.New("the other side has closed the connection")
		case err == nil:
			n -= k
		case !full(err):
			return fmt.Errorf("recv: %w", err)
		default:
			if err := w.again(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *tcpLink) push(messages int, settle bool) error {
	for range messages {
		for left := l.size; left > 0; left -= len(l.out) {
			if err := l.write(l.out[:min(left, len(l.out))]); err != nil {
				return err
			}
		}
	}
	if settle {
		return l.read(1)
	}
	return nil
}

func (l *tcpLink) pull(messages int, settle bool) error {
	if err := l.read(messages * l.size); err != nil {
		return err
	}
	if settle {
		return l.write(l.word[:1])
	}
	return nil
}

func (l *tcpLink) ask() error   { return l.write(l.word[:]) }
func (l *tcpLink) asked() error { return l.read(len(l.word)) }

func (l *tcpLink) close() error {
	var errs []error
	for _, fd := range []*int{&l.fd, &l.listener} {
		if *fd >= 0 {
			errs = append(errs, unix.Close(*fd))
		}
		*fd = -1
	}
	return errors.Join(errs...)
}
