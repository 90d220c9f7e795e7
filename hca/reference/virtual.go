package reference

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// VirtualConfig describes a RoCEv2 port on a Network.
type VirtualConfig struct {
	// Addr is the port's IPv4 or IPv6 address, any unicast one that no other port of the network has. It becomes entry 0 of the GID
	// table.
	Addr netip.Addr
	// MTU is the largest path MTU; 0 is 4096 bytes.
	MTU ci.MTU
	// Window is Hints.Window: how many bytes a QP has on the way at most; 0 is 256 KiB.
	Window int
	// SourcePorts and StrictSource are as in UDPConfig. The ports are 49152 and those that follow.
	SourcePorts  int
	StrictSource bool
}

// Virtual makes a RoCEv2 port on a network within this process. It is the UDP port but for the socket: the same packets, bit for bit, and
// the same checks. Since it sees the IP header, all 32 bits of an IPv4 packet's ICRC count. As adapters do, it sends the UDP checksum 0
// and does not look at it (rxe does the same); the IPv4 header checksum it checks, like everybody.
func Virtual(n *Network, c VirtualConfig) PortConfig {
	return PortConfig{
		open: func(portEnv) (rvt.Port, error) { return openVirtual(n, c) },
		guid: func() ci.GUID { return guidOf(c.Addr, wire.RoCEv2Port) },
		link: ci.LinkEthernet,
	}
}

// virtualSocket is the udpSocket of a port on a Network.
type virtualSocket struct {
	net    *Network
	port   *udpPort
	window int
	sink   func([]byte) // of a NetworkEnd, which takes packets as they are; there is no decoder then

	idMu sync.Mutex
	id   uint16 // IPv4 identification of the packet sent last

	recvMu  sync.Mutex // held while something is delivered
	started bool
	closed  bool
	d       *decoder

	groupMu sync.Mutex
	groups  map[netip.Addr]int // joins
}

func openVirtual(n *Network, c VirtualConfig) (rvt.Port, error) {
	addr := c.Addr.Unmap()
	switch {
	case n == nil:
		return nil, errors.New("virtual port: the network is nil: make one with NewNetwork")
	case !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() || addr == broadcast4 || addr.Zone() != "":
		return nil, fmt.Errorf("virtual port: Addr %v: give a unicast IPv4 or IPv6 address without a zone, such as 10.0.0.1 or fd00::1", c.Addr)
	case c.MTU > ci.MTU4096:
		return nil, fmt.Errorf("virtual port: MTU code %d, want 1 (256 bytes) to 5 (4096), or 0", c.MTU)
	case c.SourcePorts < 0 || c.SourcePorts > maxSources:
		return nil, fmt.Errorf("virtual port: SourcePorts is %d: want 1 to %d, or 0 for 1", c.SourcePorts, maxSources)
	case c.Window < 0:
		return nil, fmt.Errorf("virtual port: Window %d is negative: give bytes, or 0 for %d", c.Window, virtualWindow)
	}
	p := &udpPort{addr: addr, udp: wire.RoCEv2Port, gid: gidOf(addr), mtu: c.MTU, sources: []uint16{wire.RoCEv2Port}, strict: c.StrictSource}
	if c.SourcePorts > 1 {
		p.sources = consecutive(virtualSource, c.SourcePorts)
	}
	if p.mtu == 0 {
		p.mtu = ci.MTU4096
	}
	s := &virtualSocket{net: n, port: p, window: c.Window, groups: map[netip.Addr]int{}}
	if s.window == 0 {
		s.window = virtualWindow
	}
	p.state.Store(uint32(ci.PortActive))
	p.sock = s
	if err := n.join(s, addr); err != nil {
		return nil, fmt.Errorf("virtual port: %w", err)
	}
	return p, nil
}

const (
	virtualWindow = 256 << 10
	virtualSource = 49152
)

func (s *virtualSocket) addr() netip.Addr { return s.port.addr }

func (s *virtualSocket) start() error {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	s.started, s.d = true, &decoder{port: s.port}
	return nil
}

// catchUp has the network deliver.
func (s *virtualSocket) catchUp(uint64) (next uint64, done bool) { return 0, s.net.catchUp() }

func (s *virtualSocket) hints() rvt.Hints {
	return rvt.Hints{MaxTrain: 16 * s.port.mtu.Bytes(), Window: s.window}
}

// send encodes whole IP packets.
func (s *virtualSocket) send(pkts []rvt.Packet) {
	c := cutter{pkts: pkts}
	for c.next() {
		s.idMu.Lock()
		s.id++
		id := s.id
		s.idMu.Unlock()
		dst := c.rt.dst.Addr()
		b := appendUDP(make([]byte, 0, wire.IPv6Len+wire.UDPLen+c.size), c.rt, s.port.addr, c.size, id)
		s.net.send(s, dst, c.appendPacket(b, id))
	}
	if c.bad > 0 {
		s.port.recv.Count(rvt.DropSendFailed, c.bad)
	}
}

// appendUDP appends IP and UDP headers of a packet of n bytes, BTH to ICRC.
func appendUDP(b []byte, rt *udpRoute, src netip.Addr, n int, id uint16) []byte {
	var h [wire.IPv6Len + wire.UDPLen]byte
	ip := wire.IPv6Len
	if rt.dst.Addr().Is4() {
		ip = wire.IPv4Len
		v4 := wire.IPv4{TOS: rt.key.class, TotalLen: uint16(wire.IPv4Len + wire.UDPLen + n), ID: id, Frag: wire.IPv4DontFragment,
			TTL: rt.key.hop, Protocol: wire.ProtocolUDP, Src: src.As4(), Dst: rt.dst.Addr().As4()}
		v4.SetChecksum()
		v4.Put(h[:])
	} else {
		v6 := wire.IPv6{TrafficClass: rt.key.class, FlowLabel: rt.key.label, PayloadLen: uint16(wire.UDPLen + n), NextHeader: wire.ProtocolUDP, HopLimit: rt.key.hop,
			Src: src.As16(), Dst: rt.dst.Addr().As16()}
		v6.Put(h[:])
	}
	udp := wire.UDP{SrcPort: rt.src, DstPort: rt.dst.Port(), Length: uint16(wire.UDPLen + n)}
	udp.Put(h[ip:])
	return append(b, h[:ip+wire.UDPLen]...)
}

// receive takes in what has arrived at one moment. What is for one QP is delivered together; Watch sees it before what comes of it, and
// what is for the next QP after that.
func (s *virtualSocket) receive(batch []parcel) {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	for i := range batch {
		if s.sink != nil {
			if w := s.net.c.Watch; w != nil {
				w(s.net.datagram(&batch[i], true))
			}
			s.sink(batch[i].data)
			continue
		}
		if i > 0 && s.started && !s.closed && !sameQP(batch[i-1].data, batch[i].data) {
			s.d.deliver()
		}
		if w := s.net.c.Watch; w != nil {
			w(s.net.datagram(&batch[i], true))
		}
		if !s.closed && s.started {
			s.d.ip(batch[i].data)
		}
	}
	if !s.closed && s.started {
		s.d.deliver()
	}
}

// sameQP tells whether two IP packets have the same destination QP, if they are RoCEv2's.
func sameQP(a, b []byte) bool {
	qp := func(p []byte) []byte {
		n := wire.IPv6Len
		if len(p) > 0 && p[0]>>4 == 4 {
			n = wire.IPv4Len
		}
		n += wire.UDPLen + 5
		return p[min(n, len(p)):min(n+3, len(p))]
	}
	return bytes.Equal(qp(a), qp(b))
}

// ipFlow reads the headers of an IP packet up to UDP's: who sent it to whom, the IPv4 identification, and what is behind.
func ipFlow(b []byte, v4 bool) (src, dst netip.AddrPort, id uint16, rest []byte, err error) {
	var s, d netip.Addr
	var protocol uint8
	if v4 {
		var h wire.IPv4
		if err := h.Parse(b); err != nil {
			return src, dst, 0, nil, err
		}
		s, d, protocol, id, rest = netip.AddrFrom4(h.Src), netip.AddrFrom4(h.Dst), h.Protocol, h.ID, b[wire.IPv4Len:h.TotalLen]
	} else {
		var h wire.IPv6
		if err := h.Parse(b); err != nil {
			return src, dst, 0, nil, err
		}
		s, d, protocol, rest = netip.AddrFrom16(h.Src), netip.AddrFrom16(h.Dst), h.NextHeader, b[wire.IPv6Len:wire.IPv6Len+int(h.PayloadLen)]
	}
	if protocol != wire.ProtocolUDP {
		return src, dst, 0, nil, wire.ErrProtocol
	}
	var u wire.UDP
	if err := u.Parse(rest); err != nil {
		return src, dst, 0, nil, err
	}
	if int(u.Length) != len(rest) {
		return src, dst, 0, nil, wire.ErrLength
	}
	return netip.AddrPortFrom(s, u.SrcPort), netip.AddrPortFrom(d, u.DstPort), id, rest[wire.UDPLen:], nil
}

// ip takes in one IP packet. What the host's IP and UDP would throw away is counted as malformed, or as not for us.
func (d *decoder) ip(b []byte) {
	src, dst, id, p, err := ipFlow(b, d.port.addr.Is4())
	switch {
	case err != nil:
		d.port.recv.Count(rvt.DropMalformed, 1)
		return
	case !d.port.active() || dst.Port() != d.port.udp || dst.Addr() != d.port.addr && !dst.Addr().IsMulticast():
		d.port.recv.Count(rvt.DropNotForUs, 1)
		return
	}
	d.flow.set(src, dst)
	d.src.GID, d.dst.GID = gidOf(src.Addr()), gidOf(dst.Addr())
	if len(p) < wire.BTHLen+wire.ICRCLen || len(p)%4 != 0 {
		d.refuse(rvt.DropMalformed, p)
		return
	}
	c := d.flow.flow6.Start(len(p))
	if d.port.addr.Is4() {
		c = d.flow.flow4.Start(len(p), id)
	}
	end := len(p) - wire.ICRCLen
	if uint32(c.Transport(p[:end])) != binary.LittleEndian.Uint32(p[end:]) {
		d.refuse(rvt.DropICRC, p)
		return
	}
	d.checked(p, id)
}

func (s *virtualSocket) join(g netip.Addr) error {
	s.groupMu.Lock()
	defer s.groupMu.Unlock()
	if s.groups[g]++; s.groups[g] > 1 {
		return nil
	}
	return s.net.join(s, g)
}

func (s *virtualSocket) leave(g netip.Addr) error {
	s.groupMu.Lock()
	defer s.groupMu.Unlock()
	if s.groups[g] == 0 {
		return fmt.Errorf("multicast group %v is not joined", g)
	}
	if s.groups[g]--; s.groups[g] == 0 {
		delete(s.groups, g)
		s.net.leave(s, g)
	}
	return nil
}

// close takes the port off the network. What is on its way to it comes to nothing.
func (s *virtualSocket) close() error {
	s.groupMu.Lock()
	for g := range s.groups {
		s.net.leave(s, g)
	}
	clear(s.groups)
	s.groupMu.Unlock()
	s.net.leave(s, s.port.addr)
	s.recvMu.Lock()
	s.closed = true
	s.recvMu.Unlock()
	return nil
}
