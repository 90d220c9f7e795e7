package sim

import (
	"errors"
	"fmt"
	"net/netip"

	"ciddk/ci"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
	"ciddk/wire"
)

// Config describes a RoCEv2 port on a Network. Addr is required.
type Config struct {
	// Addr is the port's IPv4 or IPv6 address, any unicast one that no other port of the network has. It becomes entry 0 of the GID
	// table.
	Addr netip.Addr
	// MTU is the largest path MTU; 0 is 4096 bytes.
	MTU ci.MTU
	// Window is the most bytes that a QP has on the way (rvt.Hints.Window); 0 is 256 KiB.
	Window int
	// SourcePorts is how many UDP ports the port sends from, 1 to 64; 0 is 1. With 1, packets leave from port 4791; with more, from port 49152 and
	// those that follow.
	SourcePorts int
	// StrictSource makes a connected QP drop packets from another UDP port than its peer's: see package udp.
	StrictSource bool
}

const (
	defaultWindow   = 256 << 10
	firstSourcePort = 49152
)

// A Port is a RoCEv2 port on a Network. It is the port of package udp but for the socket: the same packets, bit for bit, and the same
// checks. Since it receives the IP header, all 32 bits of an IPv4 packet's ICRC count. Like adapters, it sends the UDP checksum 0
// and does not check it. It checks the IPv4 header checksum.
//
// It implements rvt.Port, and of the optional interfaces BacklogPort, GroupPort, CounterPort, CablePort, GUIDPort and EncoderPort.
type Port struct{ core rocev2.Port }

var _ interface {
	rvt.Port
	rvt.BacklogPort
	rvt.GroupPort
	rvt.CounterPort
	rvt.CablePort
	rvt.GUIDPort
	rvt.EncoderPort
} = (*Port)(nil)

// New puts a port on a network. Errors: a nil network; an address that is taken or not unicast; another field out of range. The caller closes the
// port, or passes it to the New of an adapter.
func New(n *Network, c Config) (*Port, error) {
	addr := c.Addr.Unmap()
	switch {
	case n == nil:
		return nil, errors.New("sim: the network is nil: make one with NewNetwork")
	case !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() || addr == rocev2.Broadcast4 || addr.Zone() != "":
		return nil, fmt.Errorf("sim: Config.Addr %v: give a unicast IPv4 or IPv6 address without a zone, such as 10.0.0.1 or fd00::1", c.Addr)
	case c.MTU > ci.MTU4096:
		return nil, fmt.Errorf("sim: MTU code %d: want 1 (256 bytes) to 5 (4096), or 0", c.MTU)
	case c.SourcePorts < 0 || c.SourcePorts > rocev2.MaxSources:
		return nil, fmt.Errorf("sim: SourcePorts is %d: want 1 to %d, or 0 for 1", c.SourcePorts, rocev2.MaxSources)
	case c.Window < 0:
		return nil, fmt.Errorf("sim: Window %d is negative: give bytes, or 0 for %d", c.Window, defaultWindow)
	}
	p := &Port{}
	k := &p.core
	k.Addr, k.UDP, k.GID, k.MTU, k.StrictSource = addr, wire.RoCEv2Port, rocev2.GIDOf(addr), c.MTU, c.StrictSource
	k.Sources = []uint16{wire.RoCEv2Port}
	if c.SourcePorts > 1 {
		k.Sources = rocev2.Consecutive(firstSourcePort, c.SourcePorts)
	}
	if k.MTU == 0 {
		k.MTU = ci.MTU4096
	}
	s := &socket{net: n, port: k, window: c.Window, groups: map[netip.Addr]int{}}
	if s.window == 0 {
		s.window = defaultWindow
	}
	k.Socket = s
	k.Up()
	if err := n.join(s, addr); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	return p, nil
}

// Start begins to receive.
func (p *Port) Start(c rvt.PortContext) error {
	if err := p.core.Start(c); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	return nil
}

// Close takes the port off the network. Packets that are on the way to it are dropped. It is idempotent.
func (p *Port) Close() error { return p.core.Close() }

// Attr returns the attributes of an Ethernet link with one GID and one P_Key.
func (p *Port) Attr() ci.PortAttr { return p.core.Attr() }

// Modify sets capability bits and shuts the port down.
func (p *Port) Modify(set ci.PortField, a ci.PortModify) error { return p.core.Modify(set, a) }

// Route compiles an address, which is a GID.
func (p *Port) Route(av *ci.AVAttr, f rvt.Flow) (rvt.Route, error) { return p.core.Route(av, f) }

// Send cuts trains into packets and puts them on the network.
func (p *Port) Send(pkts []rvt.Packet) { p.core.Send(pkts) }

// Hints returns the window of the configuration.
func (p *Port) Hints() rvt.Hints { return p.core.Hints() }

// CatchUp delivers what has arrived, for all ports of the network. It implements rvt.BacklogPort.
func (p *Port) CatchUp(mark uint64) (next uint64, done bool) { return p.core.Socket.CatchUp(mark) }

// JoinGroup joins a multicast group, given by its GID (::ffff:a.b.c.d for an IPv4 group). It implements rvt.GroupPort.
func (p *Port) JoinGroup(gid ci.GID) error { return p.core.JoinGroup(gid) }

// LeaveGroup undoes a JoinGroup.
func (p *Port) LeaveGroup(gid ci.GID) error { return p.core.LeaveGroup(gid) }

// SetLink plugs in or pulls out the cable. It implements rvt.CablePort.
func (p *Port) SetLink(up bool) { p.core.SetLink(up) }

// NodeGUID returns a GUID made from Addr, always the same. It implements rvt.GUIDPort.
func (p *Port) NodeGUID() ci.GUID { return p.core.NodeGUID() }

// EncodeFrame returns an IP packet. It implements rvt.EncoderPort.
func (p *Port) EncodeFrame(d rvt.Direction, pkt *rvt.Packet) []byte {
	return p.core.EncodeFrame(d, pkt)
}

// AddCounters adds the counters whose names begin with udp_. It implements rvt.CounterPort.
func (p *Port) AddCounters(m map[string]uint64) { p.core.Stats.AddCounters(m) }
