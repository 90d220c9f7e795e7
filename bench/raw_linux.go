package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Yardsticks for UDP: bare sockets, unconnected and with DF like the ones that RoCEv2 needs, driven by the same system calls that the
// reference HCA has.

// rawAddr is the address of a yardstick's socket.
type rawAddr = netip.AddrPort

// rawSocket is one of them.
type rawSocket struct {
	fd int
	at rawAddr
	to unix.RawSockaddrInet4
}

func openRaw(addr netip.Addr) (r *rawSocket, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd) // the error to tell is the first one
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

func (r *rawSocket) connect(to rawAddr) {
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

// waiting counts empty looks at a socket. After some it gives way to other goroutines, after many it gives up.
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
			return errors.New("the raw socket stalled: a datagram was lost")
		}
		runtime.Gosched()
	}
	return nil
}

// full tells whether a send is worth trying again.
func full(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR)
}

// A stream is made of trains of 15 packets of 4096 bytes with 12 bytes of header and a CRC each.
const (
	rawBody    = 4096
	rawSegment = 12 + rawBody + crc32.Size
	rawPackets = 15
	rawTrain   = rawSegment * rawPackets
	rawWindow  = 17  // trains on the way: a megabyte
	rawAhead   = 4   // trains per send
	rawLooks   = 100 // empty looks before the receiver sleeps
)

// rawStream sends so many trains with their CRCs, never more on the way than a window: the receiver says what has come.
type rawSender struct {
	*rawSocket
	bufs  []byte
	hdrs  [rawAhead]mmsghdr
	iovs  [rawAhead]unix.Iovec
	ctls  [rawAhead][24]byte
	small [64]byte
}

func newRawSender(s *rawSocket) *rawSender {
	r := &rawSender{rawSocket: s, bufs: make([]byte, rawAhead*rawTrain)}
	for i := range r.hdrs {
		r.hdrs[i].point(&r.iovs[i], r.bufs[i*rawTrain:(i+1)*rawTrain], &s.to)
		r.hdrs[i].segments(&r.ctls[i], rawSegment)
	}
	return r
}

// came reads what the receiver has said; the newest word counts.
func (r *rawSender) came(old int) int {
	for {
		if n, err := recvOne(r.fd, r.small[:]); err != nil || n < 8 {
			return old
		}
		old = max(old, int(binary.LittleEndian.Uint64(r.small[:])))
	}
}

func (r *rawSender) stream(trains int) error {
	var w waiting
	for sent, come := 0, 0; come < trains; {
		n := min(rawAhead, trains-sent, rawWindow-(sent-come))
		if n <= 0 || sent-come > rawWindow/2 {
			now := r.came(come)
			if now == come && n <= 0 {
				if err := w.again(); err != nil {
					return err
				}
			}
			if come = now; n <= 0 {
				continue
			}
		}
		for b := r.bufs[:n*rawTrain]; len(b) > 0; b = b[rawSegment:] {
			binary.LittleEndian.PutUint32(b[rawSegment-crc32.Size:], crc32.ChecksumIEEE(b[:rawSegment-crc32.Size]))
		}
		for i := 0; i < n; {
			k, err := mmsg(unix.SYS_SENDMMSG, r.fd, r.hdrs[i:n], true)
			if err != nil && !full(err) {
				return fmt.Errorf("sendmmsg: %w", err)
			}
			i += k
		}
		sent += n
	}
	return nil
}

// one sends n datagrams of 64 bytes, one per call.
func (r *rawSender) one(n int) error {
	var msg [small]byte
	var w waiting
	for sent, come := 0, 0; come < n; {
		if sent == n || sent-come >= oneWindow {
			now := r.came(come)
			if now == come {
				if err := w.again(); err != nil {
					return err
				}
			}
			come = now
			continue
		}
		switch err := sendOne(r.fd, msg[:], &r.to); {
		case err == nil:
			sent++
		case !full(err):
			return fmt.Errorf("sendto: %w", err)
		}
	}
	return nil
}

// oneWindow is the most datagrams on the way; the receiver speaks after each oneWord of them.
const (
	oneWindow = 1024
	oneWord   = 256
)

// rawReceiver is the other side.
type rawReceiver struct {
	*rawSocket
	bufs []byte
	hdrs [rawAhead]mmsghdr
	iovs [rawAhead]unix.Iovec
}

func newRawReceiver(s *rawSocket) *rawReceiver {
	r := &rawReceiver{rawSocket: s, bufs: make([]byte, rawAhead<<16)}
	for i := range r.hdrs {
		r.hdrs[i].point(&r.iovs[i], r.bufs[i<<16:(i+1)<<16], nil)
	}
	return r
}

func (r *rawReceiver) say(n int) error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	return sendOne(r.fd, b[:], &r.to)
}

// stream receives so many trains and checks their CRCs. It looks a number of times, then sleeps.
func (r *rawReceiver) stream(trains int) error {
	fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
	empty := 0
	for got := 0; got < trains*rawPackets; {
		n, err := mmsg(unix.SYS_RECVMMSG, r.fd, r.hdrs[:], false)
		if err != nil {
			if empty++; empty > rawLooks {
				if k, err := unix.Poll(fds, int(spinLimit.Milliseconds())); k == 0 && err == nil {
					return errors.New("the raw stream stalled: a train was lost")
				}
			}
			continue
		}
		empty = 0
		for i := range n {
			for p := r.bufs[i<<16:][:r.hdrs[i].size]; len(p) >= rawSegment; p = p[rawSegment:] {
				end := rawSegment - crc32.Size
				if binary.LittleEndian.Uint32(p[end:]) != crc32.ChecksumIEEE(p[:end]) {
					return errors.New("the raw stream came damaged")
				}
				got++
			}
		}
		if err := r.say(got / rawPackets); err != nil {
			return err
		}
	}
	return nil
}

// one receives n datagrams, one per call.
func (r *rawReceiver) one(n int) error {
	var w waiting
	for got := 0; got < n; {
		// Receive offload may have joined some.
		size, err := recvOne(r.fd, r.bufs)
		if err != nil {
			if err := w.again(); err != nil {
				return err
			}
			continue
		}
		k := size / small
		if got/oneWord != (got+k)/oneWord || got+k == n {
			if err := r.say(got + k); err != nil {
				return err
			}
		}
		got += k
	}
	return nil
}

// bounce makes round trips of a datagram of 64 bytes between two spinning sides.
func (r *rawSocket) bounce(rounds int, first bool) error {
	var msg [small]byte
	var w waiting
	for i := range rounds {
		if first {
			if err := sendOne(r.fd, msg[:], &r.to); err != nil {
				return err
			}
		}
		for {
			if _, err := recvOne(r.fd, msg[:]); err == nil {
				break
			}
			if err := w.again(); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
		w = waiting{}
		if !first {
			if err := sendOne(r.fd, msg[:], &r.to); err != nil {
				return err
			}
		}
	}
	return nil
}
