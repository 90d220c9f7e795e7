package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
)

// portableSocket is a rocev2.Socket over package net: one datagram per call, copied into one buffer. It works on every
// system. Whether the system sends with DF and identification 0, as the ICRC assumes, depends on setDontFragment. Peers
// that compute the identification (this package) or see the header (hardware) accept the packets in any case.
type portableSocket struct {
	port *rocev2.Port
	conn *net.UDPConn
	from []*sender // by lane
	pool sync.Pool // *[]byte

	mu     sync.Mutex
	closed bool
	live   sync.WaitGroup
	mark   barrier
	groups map[netip.Addr]*portableGroup
}

// A sender is a socket to send from: the receiving one, or another. Its packets have the traffic class and hop limits
// that are set at the socket, since package net has no way to pass them with a packet that all systems have.
type sender struct {
	conn *net.UDPConn

	mu          sync.Mutex // held while a packet is sent
	class, hops int
	groupHops   int
}

// prepare sets traffic class and hop limit for packets to a destination. A system that refuses uses its own. mu is
// held.
func (s *sender) prepare(r *rocev2.Route) {
	dst, class, hops := r.Dst.Addr(), int(r.Key.Class), int(r.Key.HopLimit)
	now, is4 := &s.hops, dst.Is4()
	if dst.IsMulticast() {
		now = &s.groupHops
	}
	if s.class != class {
		if s.class = class; is4 {
			_ = ipv4.NewPacketConn(s.conn).SetTOS(class)
		} else {
			_ = ipv6.NewPacketConn(s.conn).SetTrafficClass(class)
		}
	}
	if *now == hops {
		return
	}
	switch *now = hops; {
	case is4 && dst.IsMulticast():
		_ = ipv4.NewPacketConn(s.conn).SetMulticastTTL(hops)
	case is4:
		_ = ipv4.NewPacketConn(s.conn).SetTTL(hops)
	case dst.IsMulticast():
		_ = ipv6.NewPacketConn(s.conn).SetMulticastHopLimit(hops)
	default:
		_ = ipv6.NewPacketConn(s.conn).SetHopLimit(hops)
	}
}

// send sends a packet.
func (s *sender) send(r *rocev2.Route, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepare(r)
	raceSent()
	_, err := s.conn.WriteToUDPAddrPort(b, r.Dst)
	return err
}

type portableGroup struct {
	conn *net.UDPConn
	n    int // group memberships
}

func network(a netip.Addr) string {
	if a.Is4() {
		return "udp4"
	}
	return "udp6"
}

func openPortable(p *rocev2.Port, c *Config) (*portableSocket, error) {
	conn, err := net.ListenUDP(network(p.Addr), net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.Addr, p.UDP)))
	if err != nil {
		return nil, err
	}
	s := &portableSocket{port: p, conn: conn, from: []*sender{{conn: conn}}, groups: map[netip.Addr]*portableGroup{}}
	s.pool.New = func() any { b := make([]byte, 0, p.MTU.Bytes()+rocev2.Headroom); return &b }
	if err := s.setUp(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	// Smaller buffers than requested are no error.
	_ = conn.SetReadBuffer(portableBuffer)
	if c.SourcePorts > 1 {
		if err := s.openSources(c); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return s, nil
}

// openSources opens the sending sockets.
func (s *portableSocket) openSources(c *Config) error {
	p := s.port
	s.from, p.Sources = nil, nil
	for i := range c.SourcePorts {
		conn, err := net.ListenUDP(network(p.Addr),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.Addr, c.sourcePort(i))))
		if err != nil {
			return errors.Join(c.explainSource(i, err), s.closeSources())
		}
		s.from = append(s.from, &sender{conn: conn})
		p.Sources = append(p.Sources, conn.LocalAddr().(*net.UDPAddr).AddrPort().Port())
		_ = conn.SetReadBuffer(0) // nothing reads from these sockets
		if err := s.setUp(conn); err != nil {
			return errors.Join(err, s.closeSources())
		}
	}
	return nil
}

// closeSources closes the sockets to send from that are not the receiving one.
func (s *portableSocket) closeSources() error {
	var errs []error
	for _, c := range s.from {
		if c.conn != s.conn {
			errs = append(errs, c.conn.Close())
		}
	}
	return errors.Join(errs...)
}

// setUp sets what a socket needs to send.
func (s *portableSocket) setUp(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var dfErr error
	if err := raw.Control(func(fd uintptr) {
		dfErr = setDontFragment(fd, s.port.Addr.Is4())
		_ = showHeader(int(fd), s.port.Addr.Is4()) // without, headers of datagrams have defaults
	}); err != nil {
		return err
	}
	if dfErr != nil {
		return fmt.Errorf("don't fragment: %w", dfErr)
	}
	_ = conn.SetWriteBuffer(portableBuffer)
	ifi := s.iface()
	if ifi == nil {
		return nil
	}
	if s.port.Addr.Is4() {
		pc := ipv4.NewPacketConn(conn)
		return errors.Join(pc.SetMulticastInterface(ifi), pc.SetMulticastLoopback(true))
	}
	pc := ipv6.NewPacketConn(conn)
	return errors.Join(pc.SetMulticastInterface(ifi), pc.SetMulticastLoopback(true))
}

const portableBuffer = 1 << 20

func (s *portableSocket) iface() *net.Interface {
	if s.port.Index == 0 {
		return nil
	}
	ifi, err := net.InterfaceByIndex(s.port.Index)
	if err != nil {
		return nil
	}
	return ifi
}

// Hints returns a window that fits the smallest default receive buffer, since the granted size is not known.
func (s *portableSocket) Hints() rvt.Hints {
	return rvt.Hints{MaxTrain: 8 * s.port.MTU.Bytes(), Window: 64 << 10}
}

func (s *portableSocket) Start() error {
	s.live.Go(func() { s.receive(s.conn, s.port.Addr) })
	return nil
}

const (
	// badReads is the number of consecutive failed reads after which the socket counts as broken. Single failures are
	// errors of earlier sends (ICMP).
	badReads = 1000
	// yieldEvery is the number of datagrams after which the receiver yields to other goroutines. While datagrams keep
	// arriving, reads do not block, and the runtime would preempt the receiver only after 10 ms.
	yieldEvery = 4
)

func (s *portableSocket) receive(conn *net.UDPConn, dst netip.Addr) {
	d := rocev2.NewDecoder(s.port, true)
	buf, shown := make([]byte, 1<<16), make([]byte, shownRoom)
	at := netip.AddrPortFrom(dst, s.port.UDP)
	delivered := 0
	for bad := 0; bad < badReads; {
		n, k, _, from, err := conn.ReadMsgUDPAddrPort(buf, shown)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			bad++
			continue
		}
		raceReceived()
		bad = 0
		s.port.Stats.SystemCalls.Add(1)
		if s.isBarrier(from, buf[:n]) {
			continue
		}
		control(shown[:k], d)
		d.Datagram(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), at, buf[:n], 0)
		d.Deliver()
		if delivered++; delivered%yieldEvery == 0 {
			runtime.Gosched()
		}
	}
	s.port.Broken()
}

// CatchUp sends a barrier when no other is under way.
func (s *portableSocket) CatchUp(mark uint64) (next uint64, done bool) {
	n, ask, done := s.mark.want(mark, s.port.Clock.Elapsed())
	if ask != 0 && !s.sendBarrier(ask) {
		return 0, true // the system does not deliver to the port's own address, so the port cannot know more
	}
	return n, done
}

func (s *portableSocket) Send(pkts []rvt.Packet) {
	buf := s.pool.Get().(*[]byte)
	c := rocev2.Cutter{Trains: pkts}
	for c.Next() {
		r := c.Route // which is nil after the last packet
		*buf = c.AppendPacket((*buf)[:0], 0)
		if s.from[r.Key.Lane].send(r, *buf) != nil {
			c.Bad++
		} else {
			s.port.Stats.SystemCalls.Add(1)
		}
	}
	if c.Bad > 0 {
		s.port.Receiver.Count(rvt.DropSendFailed, c.Bad)
	}
	s.pool.Put(buf)
}

func (s *portableSocket) Join(group netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the port has been closed")
	}
	if g := s.groups[group]; g != nil {
		g.n++
		return nil
	}
	conn, err := listenGroup(netip.AddrPortFrom(group, s.port.UDP), s.iface())
	if err == nil {
		if err = errors.Join(joinOn(conn, s.iface(), group), s.setUp(conn)); err != nil {
			_ = conn.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("joining multicast group %v on interface %q: %w", group, s.port.Interface, err)
	}
	s.groups[group] = &portableGroup{conn, 1}
	s.live.Go(func() { s.receive(conn, group) })
	return nil
}

// joinOn joins a group on the interface. A socket that package net created for the group is a member already.
func joinOn(conn *net.UDPConn, ifi *net.Interface, group netip.Addr) error {
	g := &net.UDPAddr{IP: group.AsSlice()}
	var err error
	if group.Is4() {
		err = ipv4.NewPacketConn(conn).JoinGroup(ifi, g)
	} else {
		err = ipv6.NewPacketConn(conn).JoinGroup(ifi, g)
	}
	if errors.Is(err, errAddrInUse) {
		return nil
	}
	return err
}

func (s *portableSocket) Leave(group netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[group]
	if g == nil {
		return fmt.Errorf("multicast group %v is not joined", group)
	}
	if g.n--; g.n > 0 {
		return nil
	}
	delete(s.groups, group)
	return g.conn.Close()
}

func (s *portableSocket) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	errs := []error{s.conn.Close(), s.closeSources()}
	for _, g := range s.groups {
		errs = append(errs, g.conn.Close())
	}
	s.mu.Unlock()
	s.live.Wait()
	return errors.Join(errs...)
}
