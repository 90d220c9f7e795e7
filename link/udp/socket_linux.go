package udp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/link/internal/rocev2"
	"ciddk/link/train"
	"ciddk/rvt"
	"ciddk/wire"
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
	groupSockets  = 64 // most multicast groups of a port
	noCheckSum6Rx = 102
	flowInfo6     = 11 // IPV6_FLOWINFO
	sendFlow6     = 33 // IPV6_FLOWINFO_SEND
)

// osRoute is the destination as sendmsg takes it.
type osRoute struct {
	sa    [unix.SizeofSockaddrInet6]byte
	saLen uint32
	ctl   [2*controlRoom + infoRoom]byte // traffic class, hop limit, source address that differ from the socket's
	nctl  int
}

// compileRoute returns rocev2.Port.CompileRoute.
func compileRoute(p *rocev2.Port) func(*rocev2.Route, bool) any {
	return func(r *rocev2.Route, several bool) any {
		o := compileOS(r, p.Index)
		if several {
			o.setSource(p.Addr, p.Index)
		}
		return &o
	}
}

func compileOS(r *rocev2.Route, ifindex int) (o osRoute) {
	ne := binary.NativeEndian
	a := r.Dst.Addr()
	binary.BigEndian.PutUint16(o.sa[2:], r.Dst.Port())
	level, class, hops := unix.IPPROTO_IP, unix.IP_TOS, unix.IP_TTL
	if a.Is4() {
		o.saLen = unix.SizeofSockaddrInet4
		ne.PutUint16(o.sa[0:], unix.AF_INET)
		v4 := a.As4()
		copy(o.sa[4:], v4[:])
	} else {
		level, class, hops = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT
		o.saLen = unix.SizeofSockaddrInet6
		ne.PutUint16(o.sa[0:], unix.AF_INET6)
		binary.BigEndian.PutUint32(o.sa[4:], r.Key.Label)
		v6 := a.As16()
		copy(o.sa[8:], v6[:])
		if a.Zone() != "" {
			ne.PutUint32(o.sa[24:], uint32(ifindex))
		}
	}
	if r.Key.Class != 0 {
		o.nctl += putControl32(o.ctl[o.nctl:], level, class, uint32(r.Key.Class))
	}
	if r.Key.HopLimit != rocev2.DefaultHops {
		o.nctl += putControl32(o.ctl[o.nctl:], level, hops, uint32(r.Key.HopLimit))
	}
	return o
}

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

type groupSocket struct {
	group netip.Addr
	fd    int
	n     int // group memberships
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
	if c.Privileged && !s.raw {
		if err := showHeader6(s.fd); err != nil {
			return fail(err)
		}
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

// showHeader6 enables the control messages for the fields of the IPv6 header.
func showHeader6(fd int) error {
	for _, o := range []int{unix.IPV6_RECVTCLASS, unix.IPV6_RECVHOPLIMIT, flowInfo6} {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, o, 1); err != nil {
			return fmt.Errorf("IPv6 socket option %d: %w", o, err)
		}
	}
	return nil
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

// receive is the function of the goroutine.
func (s *mmsgSocket) receive() {
	defer close(s.done)
	fds := make([]unix.PollFd, 0, 3+groupSockets)
	seen := s.drives.Load()
	step := time.NewTimer(pollStep)
	defer step.Stop()
	for !s.closed.Load() {
		s.attended.Store(false)
		// An acknowledgement that a poller leaves behind must be sent even if that poll was the last: by this goroutine
		// now, or after the poller has seen that it sleeps and wakes it.
		s.asleep.Store(true)
		s.port.Receiver.FlushAcks()
		fds = s.pollSet(fds[:0])
		// EINTR and the like: retry.
		_, _ = unix.Ppoll(fds, nil, nil)
		s.asleep.Store(false)
		s.clearWake(fds)
		if fds[1].Revents != 0 {
			s.readErrors()
		}
		n := s.drain()
		now := s.drives.Load()
		if now-seen < fewPolls && (n > 0 || now == seen) {
			seen = now
			continue
		}
		// A consumer polls, or this goroutine was woken while a consumer drives: pause until consumers stop polling, or
		// until one is about to sleep.
		s.aside.Store(true)
		for !s.closed.Load() && !s.attended.Load() {
			seen = now
			// Not in ppoll, which would block a processor of the scheduler while others spin.
			step.Reset(pollStep)
			select {
			case <-step.C:
			case <-s.attend:
			case <-s.closing:
			}
			s.drain()
			s.readRecentErrors()
			s.port.Receiver.FlushAcks()
			if now = s.drives.Load(); now-seen < busyPolls {
				break
			}
		}
		s.aside.Store(false)
		seen = s.drives.Load()
	}
}

// pollSet returns the descriptors to wait for: first the eventfd, then that of the errors of QP1's datagrams.
func (s *mmsgSocket) pollSet(fds []unix.PollFd) []unix.PollFd {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	fds = append(fds, unix.PollFd{Fd: int32(s.wake), Events: unix.POLLIN}, unix.PollFd{Fd: int32(s.gsi)},
		unix.PollFd{Fd: int32(s.in), Events: unix.POLLIN})
	for _, g := range s.groups {
		fds = append(fds, unix.PollFd{Fd: int32(g.fd), Events: unix.POLLIN})
	}
	return fds
}

func (s *mmsgSocket) clearWake(fds []unix.PollFd) {
	if fds[0].Revents != 0 {
		var b [8]byte
		_, _ = unix.Read(s.wake, b[:]) // already empty
	}
}

// drain receives until nothing is left and returns the number of packets, or 0 while a poller receives. It yields after
// each batch. The runtime preempts a goroutine that does not yield only after 10 ms; if packets keep arriving, other
// goroutines, such as a consumer that polls, would wait that long for a processor.
func (s *mmsgSocket) drain() (n int) {
	idle, drives := 0, s.drives.Load()
	for !s.closed.Load() && s.recvMu.TryLock() {
		k := s.receiveAll(false)
		s.recvMu.Unlock()
		if k > 0 {
			n += k
			idle = 0
			runtime.Gosched()
			continue
		}
		// After a packet, more may follow soon. Another read costs less than sleeping and being woken, which the sender
		// pays for, too. If a consumer drives, it reads itself.
		if idle++; n == 0 || idle > spinReceives || s.drives.Load() != drives {
			break
		}
		runtime.Gosched()
	}
	return n
}

// drive receives what is available, for a consumer whose queue is empty.
func (s *mmsgSocket) drive() int {
	s.drives.Add(1)
	if !s.recvMu.TryLock() {
		return 0
	}
	n := 0
	if !s.closed.Load() && s.rx != nil {
		n = s.receiveAll(true)
	}
	s.recvMu.Unlock()
	switch {
	case n > 0:
		if s.asleep.Load() {
			s.signal()
		}
	case s.port.Receiver != nil:
		s.port.Receiver.FlushAcks()
	}
	return n
}

// CatchUp receives until nothing is left, or until more has arrived than the buffer holds: then everything that had
// arrived before the call has been delivered. It returns early if another goroutine receives.
func (s *mmsgSocket) CatchUp(uint64) (next uint64, done bool) {
	empty := 0
	for n := 0; n < s.backlog &&
		empty < 2; { // twice, since a receive may report the error of an earlier send (ICMP) instead
		if s.closed.Load() {
			break
		}
		if !s.recvMu.TryLock() {
			return 0, false
		}
		k := 0
		if !s.closed.Load() && s.rx != nil {
			k = s.receiveAll(false)
		}
		s.recvMu.Unlock()
		n += k
		if k == 0 {
			empty++
			continue
		}
		empty = 0
		runtime.Gosched()
	}
	return 0, true
}

// receiveAll makes one receive on each socket and delivers. The caller holds recvMu.
func (s *mmsgSocket) receiveAll(polled bool) int {
	n := s.rx.receive(s.in, netip.AddrPortFrom(s.port.Addr, s.port.UDP), polled)
	for i := range s.groups {
		n += s.rx.receive(s.groups[i].fd, netip.AddrPortFrom(s.groups[i].group, s.port.UDP), polled)
	}
	return n
}

func (s *mmsgSocket) openGroup(at netip.AddrPort) (int, error) {
	if s.raw {
		return openRaw(at)
	}
	return s.open(at, sharedSocket)
}

func (s *mmsgSocket) Join(group netip.Addr) error {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	if s.closed.Load() {
		return errors.New("the port has been closed")
	}
	for i := range s.groups {
		if s.groups[i].group == group {
			s.groups[i].n++
			return nil
		}
	}
	if len(s.groups) == groupSockets {
		return fmt.Errorf("%d multicast groups are joined, which is the most", groupSockets)
	}
	fd, err := s.openGroup(netip.AddrPortFrom(group, s.port.UDP))
	if err != nil {
		return fmt.Errorf("multicast group %v: %w", group, err)
	}
	if group.Is4() {
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.As4(), Address: s.port.Addr.As4(), Ifindex: int32(s.port.Index)})
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
		}
	} else {
		err = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(s.port.Index)})
	}
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("joining multicast group %v on interface %q: %w", group, s.port.Interface, err)
	}
	s.lost.watch(fd)
	s.groups = append(s.groups, groupSocket{group, fd, 1})
	s.signal()
	return nil
}

func (s *mmsgSocket) Leave(group netip.Addr) error {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	for i := range s.groups {
		g := &s.groups[i]
		if g.group != group {
			continue
		}
		if g.n--; g.n > 0 || s.closed.Load() {
			return nil
		}
		s.lost.leave(g.fd)
		err := unix.Close(g.fd)
		s.groups = append(s.groups[:i], s.groups[i+1:]...)
		s.signal()
		return err
	}
	return fmt.Errorf("multicast group %v is not joined", group)
}

// Drive makes the port an rvt.Driver. It does nothing on portable sockets.
func (p *Port) Drive() int {
	n := 0
	for _, a := range p.table.Ports() {
		if a == nil {
			continue
		}
		if s, ok := a.Socket.(*mmsgSocket); ok {
			n += s.drive()
		}
	}
	return n
}

// Attend wakes the goroutines of the sockets if they are paused.
func (p *Port) Attend() {
	for _, a := range p.table.Ports() {
		if a == nil {
			continue
		}
		if s, ok := a.Socket.(*mmsgSocket); ok {
			s.comeBack()
		}
	}
}

// comeBack wakes the goroutine if it is paused.
func (s *mmsgSocket) comeBack() {
	s.attended.Store(true)
	if s.aside.Load() {
		select {
		case s.attend <- struct{}{}:
		default: // it has been woken
		}
	}
}

// A recvBatch is the storage of one receive.
type recvBatch struct {
	*rocev2.Decoder
	port  *rocev2.Port
	raw   bool // received packets have their IPv4 headers
	stat  *rocev2.Stats
	most  int // messages to request: 1 after an empty receive, more after full ones
	dirty int // headers that the system has written
	hdrs  [recvMessages]mmsghdr
	iovs  [recvMessages]unix.Iovec
	names [recvMessages]unix.RawSockaddrInet6
	ctls  [recvMessages][recvControl]byte
	bufs  []byte
}

const (
	recvMessages = 32 // maximum messages per receive
	recvLarge    = 4  // the same for long trains: received data is still in the cache when it is copied
	recvBytes    = 64 << 10
	recvControl  = 4 * controlRoom // UDP_GRO, and over IPv6 in privileged mode traffic class, hop limit, flow label
)

func newRecvBatch(p *rocev2.Port, raw bool) *recvBatch {
	// Pages that no datagram reaches are never touched.
	r := &recvBatch{port: p, Decoder: rocev2.NewDecoder(p, !raw), raw: raw, stat: &p.Stats,
		bufs: make([]byte, recvMessages*recvBytes), most: 1, dirty: recvMessages}
	for i := range r.hdrs {
		r.iovs[i] = iovec(r.bufs[i*recvBytes : (i+1)*recvBytes])
		r.hdrs[i].init(&r.names[i], &r.iovs[i])
	}
	return r
}

// receive calls recvmmsg once and delivers the datagrams. It returns their number (a train counts as one).
func (r *recvBatch) receive(fd int, dst netip.AddrPort, polled bool) int {
	for i := range r.dirty {
		r.hdrs[i].reset(r.ctls[i][:])
	}
	n, err := recvmmsg(fd, r.hdrs[:r.most])
	raceReceived()
	r.dirty = n
	if err != nil || n == 0 {
		r.most = 1
		return 0 // nothing available, or an error of an earlier send (ICMP), which does not concern receiving
	}
	full := n == r.most
	r.stat.SystemCalls.Add(1)
	r.Polled = polled
	total := 0
	for i := range n {
		h := &r.hdrs[i]
		size := int(h.size)
		total += size
		if size > recvBytes || h.truncated() {
			r.port.Receiver.Count(rvt.DropMalformed, 1)
			continue
		}
		b := r.bufs[i*recvBytes : i*recvBytes+size]
		if r.raw {
			r.RawIP(b, dst)
			continue
		}
		r.Datagram(sourceOf(&r.names[i]), dst, b, r.control(r.ctls[i][:h.controlLen()]))
	}
	limit := recvMessages
	if total/n > recvBytes/4 {
		limit = recvLarge
	}
	if full {
		r.most *= 4
	}
	r.most = min(r.most, limit)
	r.Deliver()
	return n
}

// sourceOf parses an address that the system wrote.
func sourceOf(n *unix.RawSockaddrInet6) netip.AddrPort {
	if n.Family == unix.AF_INET {
		return sourceOf4(n)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(n.Addr), ntohs(n.Port))
}

// controlRoom is the space of a control message with up to 4 bytes.
const controlRoom = 24

// infoRoom is the space of a control message with a source address, IPV6_PKTINFO being the longer one.
const infoRoom = 40

// putControl32 writes a control message with one int and returns its space.
func putControl32(b []byte, level, typ int, v uint32) int {
	binary.NativeEndian.PutUint32(b[unix.CmsgLen(0):], v)
	return putControl(b, level, typ, 4)
}

// putControl16 writes a control message with 16 bits and returns its space.
func putControl16(b []byte, level, typ int, v uint16) int {
	binary.NativeEndian.PutUint16(b[unix.CmsgLen(0):], v)
	return putControl(b, level, typ, 2)
}

// putControl writes the header of a control message with n bytes of data: its length, a word that includes the header;
// its level; its type. It returns the space that the message takes.
func putControl(b []byte, level, typ, n int) int {
	ne := binary.NativeEndian
	w := strconv.IntSize / 8
	if w == 8 {
		ne.PutUint64(b, uint64(unix.CmsgLen(n)))
	} else {
		ne.PutUint32(b, uint32(unix.CmsgLen(n)))
	}
	ne.PutUint32(b[w:], uint32(level))
	ne.PutUint32(b[w+4:], uint32(typ))
	return unix.CmsgSpace(n)
}

// control parses the control messages of a receive. It returns the segment size, or 0 for a single packet. It passes
// the fields of the IPv6 header to the decoder.
func (r *recvBatch) control(b []byte) (seg int) {
	if len(b) == 0 {
		return 0
	}
	ne := binary.NativeEndian
	w := strconv.IntSize / 8
	r.Class, r.HopLimit, r.Label = 0, 0, 0
	for at := unix.CmsgLen(0); len(b) >= at+4; {
		var n int
		if w == 8 {
			n = int(ne.Uint64(b))
		} else {
			n = int(ne.Uint32(b))
		}
		if n < at+4 || n > len(b) {
			break
		}
		level, typ, v := ne.Uint32(b[w:]), ne.Uint32(b[w+4:]), b[at:]
		switch {
		case level == unix.IPPROTO_UDP && typ == unix.UDP_GRO:
			seg = int(int32(ne.Uint32(v)))
		case level == unix.IPPROTO_IPV6 && typ == unix.IPV6_TCLASS:
			r.Class = uint8(ne.Uint32(v))
		case level == unix.IPPROTO_IPV6 && typ == unix.IPV6_HOPLIMIT:
			r.HopLimit = uint8(ne.Uint32(v))
		case level == unix.IPPROTO_IPV6 && typ == flowInfo6:
			r.Label = binary.BigEndian.Uint32(v) & 0xfffff
		}
		b = b[min(unix.CmsgSpace(n-at), len(b)):]
	}
	return seg
}

// A sendBatch is the storage of one send: messages, the segments that they gather, and the bytes that are generated
// here (headers, ICRCs, copies of small payloads).
type sendBatch struct {
	n     int // messages
	iov   int // pieces
	used  int // bytes of scratch
	tail  int // scratch offset where the last segment ends; -1 if that segment is payload
	hdrs  [sendMessages]mmsghdr
	info  [sendMessages]message
	iovs  [sendPieces]unix.Iovec
	ctls  [sendMessages][3*controlRoom + infoRoom]byte
	bytes []byte
}

// A message is a datagram under construction, or a train of datagrams of equal size.
type message struct {
	at    rocev2.CutPos // route of its first packet
	rt    *rocev2.Route
	iov   int // index of its first segment
	seg   int // bytes of all packets except the last
	total int
	n     int
	full  bool // the last packet was shorter: nothing more can follow
	acks  bool // the first packet is an acknowledgement
}

const (
	sendMessages = 64
	sendPieces   = 1024 // UIO_MAXIOV, the maximum for one message and for a batch
	sendScratch  = 64 << 10
	copyBelow    = 512 // payload that is cheaper to copy than to gather
)

func newSendBatch() *sendBatch { return &sendBatch{bytes: make([]byte, sendScratch)} }

func (s *mmsgSocket) Send(pkts []rvt.Packet) {
	b := s.pool.Get().(*sendBatch)
	c := rocev2.Cutter{Trains: pkts}
	s.sends.RLock()
	if s.closed.Load() {
		c.Bad = train.Count(pkts)
	} else {
		for s.fill(b, &c) {
			s.flush(b, &c)
		}
	}
	s.sends.RUnlock()
	if c.Bad > 0 {
		s.port.Receiver.Count(rvt.DropSendFailed, c.Bad)
	}
	b.forget()
	s.pool.Put(b)
}

// fill adds packets to an empty batch until it is full or none are left. It returns false if there were none.
func (s *mmsgSocket) fill(b *sendBatch, c *rocev2.Cutter) bool {
	b.n, b.iov, b.used = 0, 0, 0
	gso := s.gso.Load()
	for c.Next() {
		if !b.add(c, gso) {
			break
		}
	}
	if b.n == 0 {
		return false
	}
	b.seal()
	return true
}

// add adds the cutter's current packet to the batch and advances. It returns false if the batch is full.
func (b *sendBatch) add(c *rocev2.Cutter, gso bool) bool {
	payload := int(c.Bytes)
	small := payload <= copyBelow
	scratch := c.Size
	pieces := 1
	if !small {
		scratch -= payload
		pieces = 2 + c.Pieces()
	}
	if b.iov+pieces > sendPieces || b.used+scratch > sendScratch {
		// An empty batch has space for any packet whose payload has fewer segments than a batch. Other packets cannot
		// be sent.
		if b.n == 0 {
			c.Bad++
			for left := payload; left > 0; {
				left -= len(c.Piece(left))
			}
			c.Advance()
			return true
		}
		return false
	}
	m := b.train(c, gso)
	if m == nil {
		return false
	}
	id := m.n
	rt := c.Route
	h := b.bytes[b.used : b.used+scratch : b.used+scratch]
	hl := c.Packet.PutHeaders(h)
	crc := rt.ICRC(c.Size, uint16(id))
	if small {
		end := scratch - wire.ICRCLen
		c.CopyPayload(h[hl:])
		clear(h[hl+payload : end])
		crc.Transport(h[:end]).Put(h[end:])
		b.own(scratch)
	} else {
		pad := c.Packet.BTH.Pad
		crc = crc.Headers(h[:hl])
		b.own(hl)
		for left := payload; left > 0; {
			p := c.Piece(left)
			left -= len(p)
			crc = crc.Update(p)
			b.iovs[b.iov] = iovec(p)
			b.iov++
			b.tail = -1
		}
		t := h[hl:]
		clear(t[:pad])
		crc.Pad(pad).Put(t[pad:])
		b.own(int(pad) + wire.ICRCLen)
		c.Advance()
	}
	m.n++
	return true
}

// train returns the message for the cutter's current packet: the last message if the packet can follow in it, or a new
// one.
func (b *sendBatch) train(c *rocev2.Cutter, gso bool) *message {
	if b.n > 0 && gso {
		m := &b.info[b.n-1]
		// An acknowledgement that follows a short message is sent separately, so that the peer can process the message
		// while it is in flight.
		ack := c.Of().Op == wire.OpAcknowledge
		if !m.full && (ack == m.acks || b.n > 1 || m.n > 1) && c.Size <= m.seg && m.n < maxSegments &&
			m.total+c.Size <= maxDatagram && (m.rt == c.Route || m.rt.Key == c.Route.Key) {
			m.full = c.Size < m.seg
			m.total += c.Size
			return m
		}
	}
	if b.n == sendMessages {
		return nil
	}
	m := &b.info[b.n]
	*m = message{at: c.CutPos, rt: c.Route, iov: b.iov, seg: c.Size, total: c.Size,
		acks: c.Of().Op == wire.OpAcknowledge}
	b.n++
	b.tail = -1
	return m
}

// own appends the next n bytes of scratch to the last message, as a segment or as a part of its last segment.
func (b *sendBatch) own(n int) {
	if b.tail == b.used {
		b.iovs[b.iov-1].SetLen(int(b.iovs[b.iov-1].Len) + n)
	} else {
		b.iovs[b.iov] = iovec(b.bytes[b.used : b.used+n])
		b.iov++
	}
	b.used += n
	b.tail = b.used
}

// seal writes the message headers.
func (b *sendBatch) seal() {
	for i := range b.n {
		m := &b.info[i]
		end := b.iov
		if i+1 < b.n {
			end = b.info[i+1].iov
		}
		ctl := b.ctls[i][:0]
		if m.n > 1 {
			k := putControl16(b.ctls[i][:], unix.IPPROTO_UDP, unix.UDP_SEGMENT, uint16(m.seg))
			ctl = b.ctls[i][:k]
		}
		rt := m.rt.System.(*osRoute)
		ctl = append(ctl, rt.ctl[:rt.nctl]...)
		b.hdrs[i].send(rt, b.iovs[m.iov:end], ctl)
	}
}

// sendmmsg sends messages i to j. A short batch, which takes a fraction of a microsecond, is sent without entering the
// scheduler.
func (b *sendBatch) sendmmsg(fd, i, j int) (int, error) {
	raceSent()
	if b.n <= 2 && b.used < 4<<10 && b.iov <= 2 {
		return sendmmsgShort(fd, b.hdrs[i:j])
	}
	return sendmmsg(fd, b.hdrs[i:j])
}

// sameSource returns the end of the longest run of messages, starting with message i, that are sent from one socket.
func (b *sendBatch) sameSource(i int) int {
	j := i + 1
	for j < b.n && b.info[j].rt.Key.Lane == b.info[i].rt.Key.Lane {
		j++
	}
	return j
}

// forget drops the references to payload and routes.
func (b *sendBatch) forget() {
	clear(b.iovs[:b.iov])
	for i := range b.n {
		b.info[i].rt = nil
		b.hdrs[i] = mmsghdr{}
	}
	b.n, b.iov = 0, 0
}

// flush sends a batch. Packets that the system rejects are lost and counted. If it rejects segmentation, packets are
// sent singly from then on.
func (s *mmsgSocket) flush(b *sendBatch, c *rocev2.Cutter) {
	waits := 0
	for i := 0; i < b.n; {
		fd := s.from[b.info[i].rt.Key.Lane]
		if fd == s.gsi {
			s.gsiSent.Store(int64(s.port.Clock.Now()) + 1)
		}
		k, err := b.sendmmsg(fd, i, b.sameSource(i))
		if k > 0 {
			s.port.Stats.SystemCalls.Add(1)
			i += k
			continue
		}
		m := &b.info[i]
		switch {
		case errors.Is(err, unix.EINTR):
		case fd == s.gsi && waits < 3 && s.clearError(err):
			waits++
		case (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS)) && waits < 3:
			waits++
			s.port.Stats.SendRetries.Add(1)
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, sendWaitMS)
		case (errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL)) && m.n > 1:
			// No checksum offload on output, or no segmentation: start again at this message. The packets' IPv4
			// identifications, and so their ICRCs, change.
			s.gso.Store(false)
			c.SetPos(m.at)
			return
		default:
			c.Bad += m.n
			i++
		}
	}
}
