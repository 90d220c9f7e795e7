package reference

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/rvt"
	"ciddk/wire"
)

// UDPConfig describes a RoCEv2 port over one UDP socket of this process.
type UDPConfig struct {
	// Addr is the port's IPv4 or IPv6 address, one of this machine's (127.0.0.1, 127.0.0.2, … for experiments). A link-local IPv6
	// address needs its zone. It becomes entry 0 of the GID table.
	Addr netip.Addr
	// Port is the UDP port; 0 is 4791, RoCEv2's. Another one, for tests that must not meet others, must be used by all peers.
	Port uint16
	// MTU is the largest path MTU; 0 takes the largest that fits the interface of Addr, 4096 bytes on loopback.
	MTU ci.MTU
	// Portable turns off what only Linux has (batched system calls, segmentation offload, GRH.FlowLabel and TrafficClass of the IP header): one
	// datagram per call, as elsewhere.
	Portable bool
	// Privileged lets the port see the whole IP header of what it receives (Linux only): over IPv4 every bit of the ICRC is checked,
	// where a plain socket leaves a residue (see the package documentation), and datagrams show the TOS and TTL that they came with,
	// over IPv6 their traffic class, flow label and hop limit. Over IPv4 it takes the capability CAP_NET_RAW.
	Privileged bool
	// Within runs what opens sockets of the port, and gives its error: once as the port is opened, and as the first QP attaches to a
	// multicast group. So they can be opened elsewhere, for instance by a thread that is in a network namespace. Nil runs it where it is.
	Within func(open func() error) error
	// SourcePorts is how many UDP ports the HCA port sends from, 1 to 64; 0 is 1. With 1, packets leave from Port. With more, each QP sends
	// from one of as many other ports, by a hash of its number, so that routers which spread flows over equal paths (ECMP) spread the
	// QPs. The HCA port receives at Port only. On Linux, without Portable, no other program of the machine gets these ports while the HCA is
	// open, so a peer's StrictSource keeps out programs without privileges.
	SourcePorts int
	// FirstSourcePort is the first of SourcePorts consecutive ports to send from, if SourcePorts is above 1; 0 has the system choose.
	FirstSourcePort uint16
	// StrictSource has a connected QP drop packets that come from its peer's address and from another UDP port than the peer's: from
	// PeerSourcePort or, if that is 0, from another one than the first packet in sequence. Path migration and a new connection of the
	// QP begin anew. RoCEv2 leaves the source port to the sender, so a peer may change it at any time, though no adapter known to the
	// authors does. Without StrictSource, changes are counted and reported: see Config.OnSuspicion.
	StrictSource bool
	// PeerSourcePort is the UDP port that all peers send from; 0: not known. Peers of this package with SourcePorts 1 send from Port.
	PeerSourcePort uint16
}

// openWithin is UDPConfig.Within, or its absence.
func openWithin(within func(func() error) error, open func() error) error {
	if within == nil {
		return open()
	}
	return within(open)
}

// UDP makes a RoCEv2 port. It sees everything sent to (Addr, Port), and there can be one process per (Addr, Port).
func UDP(c UDPConfig) PortConfig {
	return PortConfig{
		open: func(e portEnv) (p rvt.Port, err error) {
			err = openWithin(c.Within, func() error {
				p, err = openUDP(c, e.clock)
				return err
			})
			return p, err
		},
		guid: func() ci.GUID { return guidOf(c.Addr, c.port()) },
		link: ci.LinkEthernet,
	}
}

func (c *UDPConfig) checkPrivileged(system string) error {
	switch {
	case c.Privileged && system != "linux":
		return fmt.Errorf("UDP port: Privileged: there is no such thing on %s, only on Linux", system)
	case c.Privileged && c.Portable:
		return errors.New("UDP port: Privileged and Portable exclude each other: only Linux shows IP headers")
	}
	return nil
}

func (c *UDPConfig) port() uint16 {
	if c.Port == 0 {
		return wire.RoCEv2Port
	}
	return c.Port
}

// guidOf makes a locally administered EUI-64 from an address, always the same.
func guidOf(a netip.Addr, port uint16) ci.GUID {
	a = a.Unmap()
	if a.Is4() {
		v4 := a.As4()
		return ci.GUID(0x02dd<<48 | uint64(port)<<32 | uint64(binary.BigEndian.Uint32(v4[:])))
	}
	h := fnv.New64a()
	b := a.As16()
	h.Write(b[:])
	h.Write([]byte{byte(port >> 8), byte(port)})
	return ci.GUID(h.Sum64()&^(3<<56) | 2<<56)
}

// udpPort is a port of Ethernet link layer whose Ethernet is the host's UDP.
type udpPort struct {
	addr netip.Addr // unmapped
	udp  uint16
	gid  ci.GID
	mtu  ci.MTU
	iface
	sources []uint16 // UDP ports to send from
	gsi     uint16   // UDP port that QP1 sends from; 0: one of sources
	strict  bool     // UDPConfig.StrictSource
	peer    uint16   // UDPConfig.PeerSourcePort

	clock clock.Clock
	sock  udpSocket
	recv  rvt.Receiver
	// within is UDPConfig.Within.
	within func(open func() error) error
	// refused, if not nil, is told of datagrams received that go no further, IP header to ICRC: see Capture.
	refused func(rvt.Counter, []byte)
	// undelivered, if not nil, is called with reports of the network on datagrams of QP1; To is set, and what is quoted of the MAD.
	undelivered func(ci.Undelivered)
	state       atomic.Uint32 // ci.PortState
	cap         atomic.Uint32 // ci.PortCap
	stats       udpStats
	mu          sync.Mutex // Start, Close
	up          bool
	closed      bool
}

// iface is what the host says of the network interface that has the address; index 0 if it is not found.
type iface struct {
	name  string
	index int
	bytes int // MTU
	up    bool
}

// udpSocket is one of the two ways to move datagrams.
type udpSocket interface {
	// start begins to receive.
	start() error
	// send puts trains on the wire; recv counts losses.
	send(pkts []rvt.Packet)
	// hints as for rvt.Port.
	hints() rvt.Hints
	join(group netip.Addr) error
	leave(group netip.Addr) error
	// catchUp is rvt.BacklogPort's CatchUp.
	catchUp(mark uint64) (next uint64, done bool)
	// close returns when nothing is being delivered any more. Idempotent.
	close() error
}

// udpStats counts what rvt's counters have no name for.
type udpStats struct {
	solvedID    atomic.Uint64 // packets whose IPv4 identification had to be computed from the ICRC
	uncheckedID atomic.Uint64 // of these, those that no habit was held against: see udp_habit.go
	merged      atomic.Uint64 // packets received as a part of a train
	sendRetries atomic.Uint64 // waits for room in the socket's send buffer
	systemCalls atomic.Uint64 // that moved something
}

func (s *udpStats) snapshot(m map[string]uint64) {
	m["udp_ipv4_id_solved"] += s.solvedID.Load()
	m["udp_ipv4_id_unchecked"] += s.uncheckedID.Load()
	m["udp_merged"] += s.merged.Load()
	m["udp_send_waits"] += s.sendRetries.Load()
	m["udp_system_calls"] += s.systemCalls.Load()
}

func openUDP(c UDPConfig, clock clock.Clock) (rvt.Port, error) {
	addr := c.Addr.Unmap()
	switch {
	case !addr.IsValid() || addr.IsUnspecified():
		return nil, errors.New("UDP port: Addr is not set: give one address of this machine, such as 127.0.0.1; " +
			"an unspecified one will not do, since every packet's ICRC covers the address")
	case addr.IsMulticast():
		return nil, fmt.Errorf("UDP port: Addr %v is a multicast group: give a unicast address of this machine", addr)
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return nil, fmt.Errorf("UDP port: Addr %v is the broadcast address: give a unicast address of this machine", addr)
	case needsZone(addr) && addr.Zone() == "":
		return nil, fmt.Errorf("UDP port: Addr %v is link-local and needs the zone of its interface, such as fe80::1%%eth0; %s", addr, interfacesHere())
	case c.MTU > ci.MTU4096:
		return nil, fmt.Errorf("UDP port: MTU code %d, want 1 (256 bytes) to 5 (4096), or 0 for the interface's", c.MTU)
	}
	if err := c.checkSources(); err != nil {
		return nil, err
	}
	if err := c.checkPrivileged(runtime.GOOS); err != nil {
		return nil, err
	}
	p := &udpPort{addr: addr, udp: c.port(), gid: gidOf(addr), mtu: c.MTU, clock: clock, within: c.Within, sources: []uint16{c.port()},
		strict: c.StrictSource, peer: c.PeerSourcePort}
	p.iface = findInterface(addr)
	if addr.Zone() != "" && p.index == 0 {
		return nil, fmt.Errorf("UDP port: Addr %v: zone %q is no interface of this machine; %s", addr, addr.Zone(), interfacesHere())
	}
	most := ci.MTU4096
	if p.bytes > 0 {
		if most = mtuFor(p.bytes); most == 0 {
			return nil, fmt.Errorf("UDP port: interface %s has an MTU of %d bytes; the least packet of RoCE needs %d", p.name, p.bytes, 256+headroom)
		}
	}
	if p.mtu == 0 {
		p.mtu = most
	}
	if p.mtu > most {
		return nil, fmt.Errorf("UDP port: MTU of %d bytes does not fit interface %s of %d bytes: at most %d", p.mtu.Bytes(), p.name, p.bytes, most.Bytes())
	}
	p.state.Store(uint32(ci.PortActive))
	var err error
	if p.sock, err = openSocket(p, c); err != nil {
		return nil, explainBind(err, netip.AddrPortFrom(addr, p.udp), p.iface)
	}
	return p, nil
}

// needsZone tells the addresses that mean something on one interface only: IPv6 link-local ones, and groups of link-local or
// interface-local scope (RFC 4007, section 4). The system takes them with the interface's index alone.
func needsZone(a netip.Addr) bool {
	return a.Is6() && (a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a.IsInterfaceLocalMulticast())
}

// interfacesHere ends an error about a zone with the zones that there are.
func interfacesHere() string {
	ifs, err := net.Interfaces()
	if err != nil {
		return fmt.Sprintf("this machine does not tell its interfaces: %v", err)
	}
	var names []string
	for _, i := range ifs {
		names = append(names, i.Name)
	}
	return "interfaces here: " + strings.Join(names, ", ")
}

// explainBind adds to an error of opening the socket what to do about it. on is the interface of the address.
func explainBind(err error, at netip.AddrPort, on iface) error {
	if source, ok := errors.AsType[*sourceError](err); ok {
		return source
	}
	switch {
	case errors.Is(err, errAddrInUse):
		return fmt.Errorf("UDP port %v: %w: another process (or another HCA of this one, or the kernel's Soft-RoCE) has it, and there can be "+
			"one per address and port: end that one, take another address (on loopback 127.0.0.2, 127.0.0.3, … are free without setup), "+
			"or give both ends of a private test another Port", at, err)
	case errors.Is(err, errAddrNotAvail) && on.index != 0 && !on.up:
		return fmt.Errorf("UDP port %v: %w: interface %s is down: bring it up first (on Linux: ip link set %s up)", at, err, on.name, on.name)
	case errors.Is(err, errAddrNotAvail):
		return fmt.Errorf("UDP port %v: %w: Addr must be an address of this machine (on some systems only 127.0.0.1 of loopback is, until others are added)", at, err)
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("UDP port %v: %w", at, err) // openRaw said what to do
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("UDP port %v: %w: ports below 1024 need privileges; RoCEv2's 4791 does not", at, err)
	}
	return fmt.Errorf("UDP port %v: %w", at, err)
}

// headroom is the most bytes around a packet's payload: IPv6, UDP, BTH, the longest extension headers, ICRC; as Linux reckons.
const headroom = 80

// mtuFor gives the largest MTU code that fits an interface, 0 if none does.
func mtuFor(bytes int) ci.MTU {
	for m := ci.MTU4096; m >= ci.MTU256; m-- {
		if m.Bytes() <= bytes-headroom {
			return m
		}
	}
	return 0
}

// findInterface looks for the interface of addr: that of its zone (a name or an index), the loopback interface for a loopback address,
// or else the one that has it.
func findInterface(addr netip.Addr) iface {
	ifs, err := net.Interfaces()
	if err != nil {
		return iface{}
	}
	for _, i := range ifs {
		found := iface{i.Name, i.Index, i.MTU, i.Flags&net.FlagUp != 0}
		if zone := addr.Zone(); zone != "" {
			// The same link-local address may be on several interfaces: only the zone tells which.
			if i.Name == zone || strconv.Itoa(i.Index) == zone {
				return found
			}
			continue
		}
		if addr.IsLoopback() && i.Flags&net.FlagLoopback != 0 {
			return found
		}
		as, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range as {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == addr {
				return found
			}
		}
	}
	return iface{}
}

func gidOf(a netip.Addr) ci.GID { return a.WithZone("").As16() }

// addrOf gives the IP address that a GID stands for.
func addrOf(g ci.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }

// Start begins to receive.
func (p *udpPort) Start(r rvt.Receiver) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.up {
		return errors.New("UDP port: started twice, or after Close")
	}
	p.recv, p.up = r, true
	return p.sock.start()
}

// Close is idempotent; a delivery under way has returned when it does.
func (p *udpPort) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	return p.sock.close()
}

func (p *udpPort) active() bool { return ci.PortState(p.state.Load()) == ci.PortActive }

// Send cuts and sends. Without a receiver (not started) nothing can be counted, so nothing is sent.
func (p *udpPort) Send(pkts []rvt.Packet) {
	if p.recv == nil {
		return
	}
	if !p.active() {
		p.recv.Count(rvt.DropSendFailed, packetCount(pkts))
		return
	}
	p.sock.send(pkts)
}

func packetCount(pkts []rvt.Packet) int {
	n := 0
	for i := range pkts {
		n += int(pkts[i].N)
	}
	return n
}

func (p *udpPort) Hints() rvt.Hints {
	h := p.sock.hints()
	h.StrictSource, h.PeerEntropy = p.strict, p.peer
	return h
}

// CatchUp receives what the socket holds: see rvt.BacklogPort.
func (p *udpPort) CatchUp(mark uint64) (next uint64, done bool) { return p.sock.catchUp(mark) }

// Attr: an Ethernet link of one GID and one P_Key. The host does not say how fast it is; 4X at 10 Gb/s is a guess.
func (p *udpPort) Attr() ci.PortAttr {
	a := ci.PortAttr{
		Link: ci.LinkEthernet, State: ci.PortState(p.state.Load()), PhysState: physUp, MTU: p.mtu, MaxMTU: ci.MTU4096,
		MaxMsgSize: 1 << 31, MaxVLs: 1, WidthActive: 2, SpeedActive: 4, Capability: ci.PortCap(p.cap.Load()),
		GIDs: []ci.GIDEntry{{GID: p.gid, Type: ci.GIDRoCEv2}}, PKeys: []ci.PKey{0xffff},
	}
	if a.State == ci.PortDown {
		a.PhysState = physDisabled
	}
	return a
}

// IBTA port physical states.
const (
	physPolling  = 2
	physDisabled = 3
	physUp       = 5
)

// Modify: capability bits and shutdown; an Ethernet port has neither subnet manager nor init type.
func (p *udpPort) Modify(set ci.PortField, a ci.PortModify) error {
	if rest := set &^ (ci.PortFieldCapability | ci.PortFieldShutdown); rest != 0 {
		return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported, Detail: fmt.Sprintf("fields %#x do not exist on an Ethernet port", uint32(rest))}
	}
	if set&ci.PortFieldCapability != 0 && changeBits(&p.cap, uint32(a.CapMask), uint32(a.Capability)) {
		p.recv.PortEvent(ci.EventPortTrap)
	}
	if set&ci.PortFieldShutdown != 0 {
		p.setLink(false)
	}
	return nil
}

// changeBits sets the bits of mask to those of v, and tells whether that changed anything.
func changeBits(w *atomic.Uint32, mask, v uint32) bool {
	for {
		old := w.Load()
		now := old&^mask | v&mask
		if now == old {
			return false
		}
		if w.CompareAndSwap(old, now) {
			return true
		}
	}
}

// setLink plugs or pulls the cable.
func (p *udpPort) setLink(up bool) {
	s, e := ci.PortDown, ci.EventPortDown
	if up {
		s, e = ci.PortActive, ci.EventPortActive
	}
	if p.state.Swap(uint32(s)) != uint32(s) {
		p.recv.PortEvent(e)
	}
}

// JoinGroup receives what is sent to a multicast group, given by GID (::ffff:a.b.c.d for an IPv4 group).
func (p *udpPort) JoinGroup(gid ci.GID) error {
	g, err := p.group(gid)
	if err != nil {
		return err
	}
	return openWithin(p.within, func() error { return p.sock.join(g) })
}

// LeaveGroup undoes a JoinGroup.
func (p *udpPort) LeaveGroup(gid ci.GID) error {
	g, err := p.group(gid)
	if err != nil {
		return err
	}
	return p.sock.leave(g)
}

func (p *udpPort) group(gid ci.GID) (netip.Addr, error) {
	g := addrOf(gid)
	if !g.IsMulticast() || g.Is4() != p.addr.Is4() {
		return g, &ci.Error{Verb: "QP.AttachMcast", Status: ci.InvalidGID, Detail: fmt.Sprintf("%v is no group of the address family of %v", g, p.addr)}
	}
	return g, nil
}
