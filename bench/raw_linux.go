package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Yardsticks for UDP are plain sockets, unconnected and with DF set as RoCEv2 needs, driven by the same system calls
// that the reference HCA uses.

// rawSocket is such a socket.
type rawSocket struct {
	fd int
	at netip.AddrPort
	to unix.RawSockaddrInet4
}

func openRaw(addr netip.Addr) (r *rawSocket, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd) // report the first error
		}
	}()
	for _, o := range []struct{ level, name, value int }{
		{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO},
		{unix.SOL_SOCKET, unix.SO_RCVBUF, 4 << 20},
		{unix.SOL_SOCKET, unix.SO_SNDBUF, 4 << 20},
		{unix.IPPROTO_UDP, unix.UDP_GRO, 1},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return nil, fmt.Errorf("setsockopt %d/%d: %w", o.level, o.name, err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.As4()}); err != nil {
		return nil, fmt.Errorf("bind to %v: %w", addr, err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return nil, err
	}
	return &rawSocket{fd: fd, at: netip.AddrPortFrom(addr, uint16(sa.(*unix.SockaddrInet4).Port))}, nil
}

func (r *rawSocket) connect(to netip.AddrPort) {
	var port [2]byte
	binary.BigEndian.PutUint16(port[:], to.Port())
	r.to = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: binary.NativeEndian.Uint16(port[:]), Addr: to.Addr().As4()}
}

func (r *rawSocket) close() error {
	if r == nil {
		return nil
	}
	return unix.Close(r.fd)
}

// await sleeps until there is something to receive. It returns false on timeout.
func (r *rawSocket) await() bool {
	fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
	k, err := unix.Poll(fds, int(spinLimit.Milliseconds()))
	return k > 0 || err != nil
}

// waiting counts empty reads of a socket. After some it yields to other goroutines; after many it fails.
type waiting struct {
	n  int
	to time.Time
}

func (w *waiting) again() error {
	if w.n++; w.n&0xffff == 0 {
		switch {
		case w.to.IsZero():
			w.to = time.Now().Add(spinLimit)
		case time.Now().After(w.to):
			return errors.New("the bare socket stalled")
		}
		runtime.Gosched()
	}
	return nil
}

// full reports whether a send should be retried.
func full(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR)
}
