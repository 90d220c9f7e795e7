package udp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
)

// The Linux fast path sends and receives many datagrams per system call (sendmmsg, recvmmsg). Up to 64 of them pass the
// network stack as one (UDP_SEGMENT, UDP_GRO). Payload is gathered from where it is stored.

const (
	errAddrInUse    = unix.EADDRINUSE
	errAddrNotAvail = unix.EADDRNOTAVAIL

	bufferWish    = 4 << 20          // requested bytes of each socket buffer; net.core.rmem_max limits them
	maxSegments   = 64               // UDP_MAX_SEGMENTS of every kernel that has UDP_SEGMENT
	maxDatagram   = 65507            // bytes of UDP payload over IPv4
	sendWaitMS    = 5                // longest wait for room in the send buffer
	pollStep      = time.Millisecond // how often the receiver looks after pollers
	busyPolls     = 16               // Drives within a step that mean that a consumer spins
	fewPolls      = 8                // Drives per wake-up that show polling; a waiting consumer makes one or two
	mergeTrain    = 60 << 10
	spinReceives  = 50 // empty receives before the goroutine sleeps after a productive one: some 20 us
	noCheckSum6Rx = 102
	flowInfo6     = 11 // IPV6_FLOWINFO
	sendFlow6     = 33 // IPV6_FLOWINFO_SEND
)

// An mmsgSocket is a rocev2.Socket over raw system calls on non-blocking descriptors that Go's poller does not use. A
// goroutine waits in ppoll and receives. Consumers that poll an empty CQ receive themselves, by Drive. While they do,
// the goroutine does not wait for packets, so that a packet does not wake it.
type mmsgSocket struct {
	port    *rocev2.Port
	fd      int   // bound to the port's address
	from    []int // sending descriptors by lane: fd or others; the last is gsi
	gsi     int   // QP1 sends from it, and its error queue is read
	in      int   // receiving descriptor: fd, or a raw socket
	raw     bool
	lost    kernelDrops
	wake    int // eventfd: signals Close or a change of the groups
	gso     atomic.Bool
	gro     bool
	backlog int          // maximum datagrams in the receive buffer
	window  int          // bytes in flight
	packets int          // packets in flight
	sends   sync.RWMutex // read lock held by senders, so that the descriptor stays open
	pool    sync.Pool    // *sendBatch
	closed  atomic.Bool
	closing chan struct{} // closed by close
	done    chan struct{} // closed when the receiving goroutine has ended; nil if it never started

	recvMu sync.Mutex // protects everything below, and receiving
	rx     *recvBatch
	groups []groupSocket
	drives atomic.Uint64
	// The goroutine pauses while consumers poll. A consumer that arms a CQ is about to sleep and wakes the goroutine.
	attended, aside atomic.Bool
	attend          chan struct{}
	gsiSent         atomic.Int64 // time of QP1's last send, nanoseconds of the clock plus 1; 0: never
	asleep          atomic.Bool  // the goroutine waits for packets, or is about to
}

func openSocket(p *rocev2.Port, c *Config) (_ rocev2.Socket, err error) {
	if c.Portable {
		return openPortable(p, c)
	}
	at := netip.AddrPortFrom(p.Addr, p.UDP)
	s := &mmsgSocket{port: p, in: -1, wake: -1, gsi: -1, raw: c.Privileged && p.Addr.Is4(),
		closing: make(chan struct{}), attend: make(chan struct{}, 1)}
	s.pool.New = func() any { return newSendBatch() }
	if s.raw {
		// Bound first, because its error is more specific than that of an address in use, and so that no packet is lost
		// in between.
		if s.in, err = openRaw(at); err != nil {
			return nil, err
		}
	}
	if s.fd, err = s.open(at, mainSocket); err != nil {
		return nil, errors.Join(err, closeAll(s.in))
	}
	s.from = []int{s.fd}
	if !s.raw {
		s.in = s.fd
	}
	fail := func(err error) (rocev2.Socket, error) {
		if s.raw {
			_ = closeAll(s.in)
		}
		_ = s.closeSources()
		_ = closeAll(s.fd)
		return nil, err
	}
	if err := s.setUp(); err != nil {
		return fail(err)
	}
	if c.SourcePorts > 1 {
		if err := s.openSources(c); err != nil {
			return fail(err)
		}
	}
	if _, err := sendmmsg(s.fd, nil); errors.Is(err, unix.ENOSYS) {
		if c.Privileged {
			return fail(errors.New("this system lacks sendmmsg, without which there is no Privileged"))
		}
		// A system that claims to be Linux but lacks the system calls.
		_ = s.closeSources()
		_ = closeAll(s.fd)
		return openPortable(p, c)
	}
	if err := s.openGSI(); err != nil {
		return fail(err)
	}
	if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fail(fmt.Errorf("eventfd: %w", err))
	}
	s.lost.watch(s.in)
	return s, nil
}

// closeAll closes the open descriptors.
func closeAll(fds ...int) error {
	var errs []error
	for _, fd := range fds {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// A socketUse is the purpose of a socket.
type socketUse uint8

const (
	mainSocket   socketUse = iota // the port's own socket: receives, and sends unless there are source sockets
	sharedSocket                  // receives from a multicast group; several processes may receive from one group
	sourceSocket                  // sends only
)

// open returns a bound socket.
func (s *mmsgSocket) open(at netip.AddrPort, use socketUse) (fd int, err error) {
	family := unix.AF_INET
	var sa unix.Sockaddr = &unix.SockaddrInet4{Port: int(at.Port()), Addr: as4(at.Addr())}
	if at.Addr().Is6() {
		family = unix.AF_INET6
		sa6 := &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
		if rocev2.NeedsZone(at.Addr()) {
			sa6.ZoneId = uint32(s.port.Index)
		}
		sa = sa6
	}
	fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	fail := func(what string, err error) (int, error) {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("%s: %w", what, err)
	}
	if use == sharedSocket {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return fail("SO_REUSEADDR", err)
		}
	}
	if err := setDontFragment(uintptr(fd), at.Addr().Is4()); err != nil {
		return fail("don't fragment", err)
	}
	if at.Addr().Is6() {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return fail("IPV6_V6ONLY", err)
		}
		// Linux Soft-RoCE and much hardware send no checksum even over IPv6.
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, noCheckSum6Rx, 1); err != nil {
			return fail("UDP_NO_CHECK6_RX", err)
		}
	}
	// A smaller buffer than requested is not an error: Window follows from the granted size.
	if use != sourceSocket {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferWish)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bufferWish)
	// The same holds for receive offload.
	if use != sourceSocket && unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil && use == mainSocket {
		s.gro = true
	}
	if !s.raw && use != sourceSocket {
		if err := showHeader(fd, at.Addr().Is4()); err != nil {
			return fail("fields of IP headers", err)
		}
	}
	if s.raw || use == sourceSocket {
		if err := dropAll(fd); err != nil {
			return fail("UDP socket", err)
		}
	}
	if err := unix.Bind(fd, sa); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func as4(a netip.Addr) (b [4]byte) {
	if a.Is4() {
		b = a.As4()
	}
	return b
}

// setUp sets the options of the port's own socket.
func (s *mmsgSocket) setUp() error {
	granted, err := unix.GetsockoptInt(s.in, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return fmt.Errorf("SO_RCVBUF: %w", err)
	}
	s.window, s.packets, s.backlog = windowFor(granted), packetsFor(granted), granted/leastCharge
	if _, err := unix.GetsockoptInt(s.fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT); err == nil {
		s.gso.Store(true)
	}
	return s.setUpSending(s.fd)
}

// setUpSending sets the options of a sending socket.
func (s *mmsgSocket) setUpSending(fd int) error {
	if s.port.Addr.Is4() {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, rocev2.DefaultHops); err != nil {
			return fmt.Errorf("IP_TTL: %w", err)
		}
		if err := unix.SetsockoptInet4Addr(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, s.port.Addr.As4()); err != nil {
			return fmt.Errorf("IP_MULTICAST_IF: %w", err)
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 1); err != nil {
			return fmt.Errorf("IP_MULTICAST_LOOP: %w", err)
		}
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, rocev2.DefaultHops); err != nil {
		return fmt.Errorf("IPV6_UNICAST_HOPS: %w", err)
	}
	// Without it, the system chooses the flow label.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, sendFlow6, 1)
	if s.port.Index != 0 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, s.port.Index); err != nil {
			return fmt.Errorf("IPV6_MULTICAST_IF: %w", err)
		}
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 1); err != nil {
		return fmt.Errorf("IPV6_MULTICAST_LOOP: %w", err)
	}
	return nil
}

// setDontFragment makes the system set DF and leave the IPv4 identification 0: the ICRC covers both.
func setDontFragment(fd uintptr, v4 bool) error {
	if v4 {
		return unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	}
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
}

// windowFor returns the number of payload bytes that a peer's receive buffer of the granted size holds in any case. The
// system charges a datagram with the memory that it occupies: about 1.1 times the payload of a long train, but 5 times
// that of a single packet of 1024 bytes.
func windowFor(granted int) int { return granted / 6 }

// packetsFor returns the number of packets of any size that the buffer holds. One packet is charged with up to 2304
// bytes if a driver allocates a buffer for each. The result is at most what queues on the path take, 1000 packets by
// default (netdev_max_backlog, txqueuelen), with space for others.
func packetsFor(granted int) int { return max(256, min(granted/4096, 512)) }

// leastCharge is less than the charge of any datagram: its bookkeeping alone takes more.
const leastCharge = 512

func (s *mmsgSocket) Hints() rvt.Hints {
	h := rvt.Hints{Window: s.window, Packets: s.packets}
	if s.gso.Load() {
		m := s.port.MTU.Bytes()
		h.MaxTrain = mergeTrain / m * m
	} else {
		h.MaxTrain = 8 * s.port.MTU.Bytes()
	}
	return h
}

func (s *mmsgSocket) Start() error {
	s.recvMu.Lock()
	s.rx = newRecvBatch(s.port, s.raw)
	s.recvMu.Unlock()
	s.done = make(chan struct{})
	go s.receive()
	return nil
}

func (s *mmsgSocket) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	close(s.closing)
	s.signal()
	if s.done != nil {
		<-s.done
	}
	s.recvMu.Lock() // no Drive is delivering
	defer s.recvMu.Unlock()
	s.sends.Lock()
	defer s.sends.Unlock()
	s.lost.leave(s.in)
	err := s.closeSources()
	fds := []int{s.fd, s.wake}
	if s.raw {
		fds = append(fds, s.in)
	}
	for _, g := range s.groups {
		s.lost.leave(g.fd)
		fds = append(fds, g.fd)
	}
	return errors.Join(err, closeAll(fds...))
}

// AddCounters implements rocev2.CounterSocket.
func (s *mmsgSocket) AddCounters(m map[string]uint64) { m["udp_kernel_drops"] += s.lost.total() }

// signal wakes the goroutine. A full counter has the same effect as one more.
func (s *mmsgSocket) signal() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(s.wake, one[:])
}
