package rocev2

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/train"
	"ciddk/link/internal/visits"
	"ciddk/rvt"
	"ciddk/wire"
)

// A Port is one address of a MultiPort. A Socket moves its IP packets. The exported fields must be set before
// MultiPort.Set.
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
	// Socket moves the packets.
	Socket Socket
	// CompileRoute, if not nil, returns what the socket needs for a destination. It becomes Route.System. several
	// reports whether the port has several Sources.
	CompileRoute func(r *Route, several bool) any

	// Near, if true, delivers what is for another Port of this process with Near and the same Net without the socket.
	// Net is the network of the system that the address belongs to.
	Near bool
	Net  uint64

	// Clock and Receiver are valid from Start on.
	Clock    clock.Clock
	Receiver rvt.Receiver
	Stats    Stats

	owner       *MultiPort
	undelivered func(ci.Undelivered)
	lost        func(rvt.Loss)
	up          bool // Up was called
	visits      visits.Counter
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

// A CounterSocket is a Socket with counters of its own.
type CounterSocket interface {
	// AddCounters adds the counters to m, by name.
	AddCounters(m map[string]uint64)
}

// Stats holds counters of a port that are not among the engine's.
type Stats struct {
	SolvedID    atomic.Uint64 // packets whose IPv4 identification had to be computed from the ICRC
	UncheckedID atomic.Uint64 // of these, packets whose identification nothing was known to compare with: see ipid.go
	Merged      atomic.Uint64 // packets received as a part of a train
	SendRetries atomic.Uint64 // waits for room in the socket's send buffer
	SystemCalls atomic.Uint64 // system calls that moved packets
	Near        atomic.Uint64 // packets and trains received from ports of this process without a system call
}

// AddCounters adds the counts to m.
func (s *Stats) AddCounters(m map[string]uint64) {
	m["udp_ipv4_id_solved"] += s.SolvedID.Load()
	m["udp_ipv4_id_unchecked"] += s.UncheckedID.Load()
	m["udp_merged"] += s.Merged.Load()
	m["udp_send_waits"] += s.SendRetries.Load()
	m["udp_system_calls"] += s.SystemCalls.Load()
	m["udp_within_process"] += s.Near.Load()
}

// GIDOf returns the GID of an IP address.
func GIDOf(a netip.Addr) ci.GID { return a.WithZone("").As16() }

// AddrOf returns the IP address that a GID represents.
func AddrOf(g ci.GID) netip.Addr { return netip.AddrFrom16(g).Unmap() }

// isatap is the beginning of link-local IPv6 addresses that contain an IPv4 address (ISATAP, RFC 5214, 6.1).
var isatap = [12]byte{0: 0xfe, 1: 0x80, 10: 0x5e, 11: 0xfe}

// linkLocalOf returns a link-local GID that contains an IPv4 address, so that each port can send to it.
func linkLocalOf(a netip.Addr) (g ci.GID) {
	copy(g[:], isatap[:])
	copy(g[12:], a.AsSlice())
	return g
}

// from4 returns the address that a GID represents for a port with an IPv4 address.
func from4(g ci.GID) netip.Addr {
	if [12]byte(g[:12]) == isatap {
		return netip.AddrFrom4([4]byte(g[12:]))
	}
	return AddrOf(g)
}

// NeedsZone reports whether an address has a meaning on one interface only: IPv6 link-local addresses, and groups of
// link-local or interface-local scope (RFC 4007, section 4). The system takes them with the interface's index alone.
func NeedsZone(a netip.Addr) bool {
	return a.Is6() && (a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a.IsInterfaceLocalMulticast())
}

// NodeGUID returns a locally administered EUI-64 for an address with its zone, and a UDP port, always the same.
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
	h.Write([]byte(a.Zone())) // link-local addresses are unique on one interface only
	return ci.GUID(h.Sum64()&^(3<<56) | 2<<56)
}

// Active reports whether the port's state is Active.
func (p *Port) Active() bool {
	if p.owner == nil {
		return p.up
	}
	return ci.PortState(p.owner.state.Load()) == ci.PortActive
}

// Up makes the state of a port that has no MultiPort Active.
func (p *Port) Up() { p.up = true }

// start begins to receive.
func (p *Port) start(c *rvt.PortContext) error {
	p.Clock, p.undelivered = c.Clock, c.Undelivered
	p.lost, p.Receiver = c.Lost, c.Receiver
	if err := p.Socket.Start(); err != nil {
		return err
	}
	if p.Near {
		p.appear()
	}
	return nil
}

// Close closes the socket. A delivery under way has returned when Close does. It is idempotent.
func (p *Port) Close() error {
	if p.Near && p.visits.Close() {
		p.disappear()
	}
	err := p.Socket.Close()
	if p.Near {
		p.visits.Wait()
	}
	return err
}

// Broken takes the port down, since the socket of one of its addresses has failed.
func (p *Port) Broken() { p.owner.SetLink(false) }

// addCounters adds the counters of the address to m.
func (p *Port) addCounters(m map[string]uint64) {
	p.Stats.AddCounters(m)
	if s, ok := p.Socket.(CounterSocket); ok {
		s.AddCounters(m)
	}
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
	for len(pkts) > 0 {
		if p.Near {
			if pkts = p.sendNear(pkts); len(pkts) == 0 {
				return
			}
		}
		n := p.toSocket(pkts)
		p.Socket.Send(pkts[:n])
		pkts = pkts[n:]
	}
}

// IBTA port physical states.
const (
	physDisabled = 3
	physUp       = 5
)

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
