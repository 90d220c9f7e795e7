package rocev2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/link/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// A Port is a port of Ethernet link layer, without what moves its IP packets. Its owner sets the exported fields before
// Start.
type Port struct {
	Addr netip.Addr // unmapped
	UDP  uint16     // UDP port that it receives at
	GID  ci.GID     // of Addr
	MTU  ci.MTU
	// Interface and Index identify the host's network interface that has Addr; empty and 0 if there is none.
	Interface string
	Index     int
	// Sources are the UDP ports to send from, and GSI that of QP1, 0 if it is one of Sources.
	Sources []uint16
	GSI     uint16
	// StrictSource and PeerSource are rvt.Hints.StrictSource and PeerEntropy.
	StrictSource bool
	PeerSource   uint16
	// Socket moves the packets.
	Socket Socket
	// CompileRoute, if not nil, returns what the socket needs for a destination. It becomes Route.System. several
	// reports whether the port has several Sources.
	CompileRoute func(r *Route, several bool) any

	// Clock and Receiver are valid from Start on.
	Clock    clock.Clock
	Receiver rvt.Receiver
	Stats    Stats

	undelivered func(ci.Undelivered)
	lost        func(rvt.Loss)

	state  atomic.Uint32 // ci.PortState
	cap    atomic.Uint32 // ci.PortCap
	mu     sync.Mutex    // Start, Close
	up     bool
	closed bool
}

// A Socket moves packets for a Port.
type Socket interface {
	// Start begins to receive.
	Start() error
	// Send puts trains on the wire. It counts losses at the port's Receiver.
	Send(pkts []rvt.Packet)
	// Hints returns the hints of rvt.Port that depend on the socket.
	Hints() rvt.Hints
	Join(group netip.Addr) error
	Leave(group netip.Addr) error
	// CatchUp is rvt.BacklogPort's.
	CatchUp(mark uint64) (next uint64, done bool)
	// Close returns when nothing is being delivered. It is idempotent.
	Close() error
}

// Stats counts what the engine's counters have no name for.
type Stats struct {
	SolvedID    atomic.Uint64 // packets whose IPv4 identification had to be computed from the ICRC
	UncheckedID atomic.Uint64 // of these, packets whose identification nothing was known to compare with: see ipid.go
	Merged      atomic.Uint64 // packets received as a part of a train
	SendRetries atomic.Uint64 // waits for room in the socket's send buffer
	SystemCalls atomic.Uint64 // system calls that moved packets
}

// AddCounters adds the counts to m.
func (s *Stats) AddCounters(m map[string]uint64) {
	m["udp_ipv4_id_solved"] += s.SolvedID.Load()
	m["udp_ipv4_id_unchecked"] += s.UncheckedID.Load()
	m["udp_merged"] += s.Merged.Load()
	m["udp_send_waits"] += s.SendRetries.Load()
	m["udp_system_calls"] += s.SystemCalls.Load()
}

// GIDOf returns the GID of an IP address.
func GIDOf(a netip.Addr) ci.GID { return a.WithZone("").As16() }

// AddrOf returns the IP address that a GID represents.
func AddrOf(g ci.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }

// NeedsZone reports whether an address has a meaning on one interface only: IPv6 link-local addresses, and groups of
// link-local or interface-local scope (RFC 4007, section 4). The system takes them with the interface's index alone.
func NeedsZone(a netip.Addr) bool {
	return a.Is6() && (a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a.IsInterfaceLocalMulticast())
}

// NodeGUID returns a locally administered EUI-64 for an address and a UDP port, always the same.
func NodeGUID(a netip.Addr, port uint16) ci.GUID {
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

// NodeGUID returns the GUID that the port suggests.
func (p *Port) NodeGUID() ci.GUID { return NodeGUID(p.Addr, p.UDP) }

// Up sets the port's state to Active, without an event.
func (p *Port) Up() { p.state.Store(uint32(ci.PortActive)) }

// Active reports whether the port's state is Active.
func (p *Port) Active() bool { return ci.PortState(p.state.Load()) == ci.PortActive }

// Start begins to receive.
func (p *Port) Start(c rvt.PortContext) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.up {
		return errors.New("the port was started before, or is closed")
	}
	p.Clock, p.undelivered, p.lost, p.up = c.Clock, c.Undelivered, c.Lost, true
	p.Receiver = c.Receiver
	return p.Socket.Start()
}

// Close closes the socket. A delivery under way has returned when Close does. It is idempotent.
func (p *Port) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	return p.Socket.Close()
}

// Send sends trains. Before Start there is no receiver to count losses, so it sends nothing.
func (p *Port) Send(pkts []rvt.Packet) {
	if p.Receiver == nil {
		return
	}
	if !p.Active() {
		p.Receiver.Count(rvt.DropSendFailed, train.Count(pkts))
		return
	}
	p.Socket.Send(pkts)
}

// Hints returns the socket's hints and the port's own.
func (p *Port) Hints() rvt.Hints {
	h := p.Socket.Hints()
	h.StrictSource, h.PeerEntropy = p.StrictSource, p.PeerSource
	return h
}

// IBTA port physical states.
const (
	physDisabled = 3
	physUp       = 5
)

// Attr returns the attributes of an Ethernet link with one GID and one P_Key. The host does not report the speed; 4X at
// 10 Gb/s is a guess.
func (p *Port) Attr() ci.PortAttr {
	a := ci.PortAttr{
		Link: ci.LinkEthernet, State: ci.PortState(p.state.Load()), PhysState: physUp, MTU: p.MTU, MaxMTU: ci.MTU4096,
		MaxMsgSize: 1 << 31, MaxVLs: 1, WidthActive: 2, SpeedActive: 4, Capability: ci.PortCap(p.cap.Load()),
		GIDs: []ci.GIDEntry{{GID: p.GID, Type: ci.GIDRoCEv2}}, PKeys: []ci.PKey{0xffff},
	}
	if a.State == ci.PortDown {
		a.PhysState = physDisabled
	}
	return a
}

// Modify sets capability bits and shuts the port down. An Ethernet port has neither subnet manager nor init type.
func (p *Port) Modify(set ci.PortField, a ci.PortModify) error {
	if rest := set &^ (ci.PortFieldCapability | ci.PortFieldShutdown); rest != 0 {
		return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported, Detail: fmt.Sprintf("fields %#x do not exist on "+
			"an Ethernet port", uint32(rest))}
	}
	if set&ci.PortFieldCapability != 0 && changeBits(&p.cap, uint32(a.CapMask), uint32(a.Capability)) {
		p.Receiver.PortEvent(ci.EventPortTrap)
	}
	if set&ci.PortFieldShutdown != 0 {
		p.SetLink(false)
	}
	return nil
}

// changeBits sets the bits of mask to those of v, and reports whether that changed anything.
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

// SetLink plugs in or pulls out the cable.
func (p *Port) SetLink(up bool) {
	s, e := ci.PortDown, ci.EventPortDown
	if up {
		s, e = ci.PortActive, ci.EventPortActive
	}
	if p.state.Swap(uint32(s)) != uint32(s) && p.Receiver != nil {
		p.Receiver.PortEvent(e)
	}
}

// Group returns the multicast group of a GID (::ffff:a.b.c.d for an IPv4 group).
func (p *Port) Group(gid ci.GID) (netip.Addr, error) {
	g := AddrOf(gid)
	if !g.IsMulticast() || g.Is4() != p.Addr.Is4() {
		return g, &ci.Error{Verb: "QP.AttachMcast", Status: ci.InvalidGID,
			Detail: fmt.Sprintf("%v is no group of the address family of %v", g, p.Addr)}
	}
	return g, nil
}

// JoinGroup receives what is sent to a multicast group.
func (p *Port) JoinGroup(gid ci.GID) error {
	g, err := p.Group(gid)
	if err != nil {
		return err
	}
	return p.Socket.Join(g)
}

// LeaveGroup undoes a JoinGroup.
func (p *Port) LeaveGroup(gid ci.GID) error {
	g, err := p.Group(gid)
	if err != nil {
		return err
	}
	return p.Socket.Leave(g)
}

// ReportUndelivered reports a datagram of QP1 that came back from the network, quoted from its BTH on, as far as it is
// quoted. It ignores a report that quotes nothing of the MAD: nothing distinguishes it from a forged one.
func (p *Port) ReportUndelivered(to netip.Addr, quoted []byte, err error) {
	const mad = wire.BTHLen + wire.DETHLen
	var bth wire.BTH
	if p.undelivered == nil || len(quoted) <= mad {
		return
	}
	if bth.Parse(quoted); bth.Opcode != wire.UDSendOnly {
		return
	}
	quoted = quoted[mad:]
	p.undelivered(ci.Undelivered{To: GIDOf(to), Payload: quoted[:min(len(quoted), len(ci.MAD{}))], Err: err})
}

// Headroom is the most bytes around a packet's payload: IPv6, UDP, BTH, the longest extension headers, ICRC; as Linux
// computes it.
const Headroom = 80

// MTUFor returns the largest MTU code that fits an interface, or 0 if none does.
func MTUFor(bytes int) ci.MTU {
	for m := ci.MTU4096; m >= ci.MTU256; m-- {
		if m.Bytes() <= bytes-Headroom {
			return m
		}
	}
	return 0
}
