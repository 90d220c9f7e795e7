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
	// Addr is the port's IPv4 or IPv6 address, any unicast one that no other port of the network has. It becomes entry
	// 0 of the GID table.
	Addr netip.Addr
	// Addrs are further addresses, of either family: the entries from 1 on of the GID table. With Addr, they are at
	// most 128. SetAddresses changes them later.
	Addrs []netip.Addr
	// LinkLocalGIDs and RoCEv1GIDs add entries to the GID table: see package udp.
	LinkLocalGIDs, RoCEv1GIDs bool
	// Interface is the name of the network interface in the entries of the GID table, as software shows it to people.
	// It is the zone of link-local addresses.
	Interface string
	// MTU is the largest path MTU; 0 is 4096 bytes.
	MTU ci.MTU
	// Window is the most bytes that a QP has on the way (rvt.Hints.Window); 0 is 256 KiB.
	Window int
	// SourcePorts is how many UDP ports the port sends from, 1 to 64; 0 is 1. With 1, packets leave from port 4791;
	// with more, from port 49152 and those that follow.
	SourcePorts int
	// StrictSource makes a connected QP drop packets from another UDP port than its peer's: see package udp.
	StrictSource bool
}

const (
	defaultWindow   = 256 << 10
	firstSourcePort = 49152
)

// A Port is a RoCEv2 port on a Network. It is the port of package udp but for the socket: the same packets, bit for
// bit, and the same checks. Since it receives the IP header, all 32 bits of an IPv4 packet's ICRC count. Like adapters,
// it sends the UDP checksum 0 and does not check it. It checks the IPv4 header checksum.
//
// It implements rvt.Port, and of the optional interfaces Driver, BacklogPort, GroupPort, CounterPort, CablePort,
// GUIDPort and EncoderPort.
type Port struct {
	table rocev2.MultiPort
	core  *rocev2.Port // the first address at New
	net   *Network
	guid  ci.GUID
}

var _ interface {
	rvt.Port
	rvt.Driver
	rvt.BacklogPort
	rvt.GroupPort
	rvt.CounterPort
	rvt.CablePort
	rvt.GUIDPort
	rvt.EncoderPort
} = (*Port)(nil)

// New puts a port on a network. Errors: a nil network; an address that is taken or not unicast; another field out of
// range. The caller closes the port, or passes it to the New of an adapter.
func New(n *Network, c Config) (*Port, error) {
	switch {
	case n == nil:
		return nil, errors.New("sim: the network is nil: make one with NewNetwork")
	case len(c.Addrs) >= rocev2.MaxGIDs:
		return nil, fmt.Errorf("sim: Config.Addrs has %d addresses: at most %d with Addr", len(c.Addrs), rocev2.MaxGIDs)
	case c.MTU > ci.MTU4096:
		return nil, fmt.Errorf("sim: MTU code %d: want 1 (256 bytes) to 5 (4096), or 0", c.MTU)
	case c.SourcePorts < 0 || c.SourcePorts > rocev2.MaxSources:
		return nil, fmt.Errorf("sim: SourcePorts is %d: want 1 to %d, or 0 for 1", c.SourcePorts, rocev2.MaxSources)
	case c.Window < 0:
		return nil, fmt.Errorf("sim: Window %d is negative: give bytes, or 0 for %d", c.Window, defaultWindow)
	}
	if c.MTU == 0 {
		c.MTU = ci.MTU4096
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	named := c.Addr
	if named.IsLinkLocalUnicast() { // unique on one interface only
		named = named.WithZone(c.Interface)
	}
	p := &Port{net: n, guid: rocev2.NodeGUID(named, wire.RoCEv2Port)}
	t := &p.table
	t.UDP, t.MTU, t.StrictSource = wire.RoCEv2Port, c.MTU, c.StrictSource
	t.LinkLocal, t.RoCEv1 = c.LinkLocalGIDs, c.RoCEv1GIDs
	t.Open = func(a netip.Addr) (*rocev2.Port, error) { return p.open(&c, a) }
	t.Up()
	if err := p.SetAddresses(append([]netip.Addr{c.Addr}, c.Addrs...)...); err != nil {
		_ = t.Close() // the error to report is the first one
		return nil, err
	}
	p.core = t.Ports()[0]
	return p, nil
}

// open joins the network at one address.
func (p *Port) open(c *Config, a netip.Addr) (*rocev2.Port, error) {
	k := &rocev2.Port{Addr: a, UDP: wire.RoCEv2Port, GID: rocev2.GIDOf(a), MTU: c.MTU, Interface: c.Interface,
		Sources: []uint16{wire.RoCEv2Port}}
	if c.SourcePorts > 1 {
		k.Sources = rocev2.Consecutive(firstSourcePort, c.SourcePorts)
	}
	s := &socket{net: p.net, port: k, window: c.Window, groups: map[netip.Addr]int{}}
	k.Socket = s
	return k, p.net.join(s, a)
}

// SetAddresses replaces the addresses of the port. Addresses that come and go change the GID table and raise
// ci.EventGIDChange: the entry of a new address is added, and that of an address that is removed becomes empty. Packets
// on the way to an address that is removed are dropped. SetAddresses must not be called from a callback. Errors: an
// address that is not unicast, and then nothing changes; one that another port of the network has, which is left out.
func (p *Port) SetAddresses(list ...netip.Addr) error {
	clean := make([]netip.Addr, len(list))
	for i, a := range list {
		a = a.Unmap()
		isUnicast := a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && a != rocev2.Broadcast4
		if !isUnicast || a.Zone() != "" {
			return fmt.Errorf("sim: address %v: give a unicast IPv4 or IPv6 address without a zone, such as 10.0.0.1 "+
				"or fd00::1", list[i])
		}
		clean[i] = a
	}
	if err := p.table.Set(clean); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	return nil
}

// Start begins to receive.
func (p *Port) Start(c rvt.PortContext) error {
	if err := p.table.Start(c); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	return nil
}

// Close takes the port off the network. Packets that are on the way to it are dropped. It is idempotent.
func (p *Port) Close() error { return p.table.Close() }

// Attr returns the attributes of an Ethernet link with one P_Key and an entry of the GID table for each address.
func (p *Port) Attr() ci.PortAttr { return p.table.Attr() }

// Modify sets capability bits and shuts the port down.
func (p *Port) Modify(set ci.PortField, a ci.PortModify) error { return p.table.Modify(set, a) }

// Route compiles an address, which is a GID.
func (p *Port) Route(av *ci.AVAttr, f rvt.Flow) (rvt.Route, error) { return p.table.Route(av, f) }

// Send cuts trains into packets and puts them on the network.
func (p *Port) Send(pkts []rvt.Packet) { p.table.Send(pkts) }

// Hints returns the window of the configuration.
func (p *Port) Hints() rvt.Hints { return p.table.Hints() }

// CatchUp delivers what has arrived, for all ports of the network. It implements rvt.BacklogPort.
func (p *Port) CatchUp(uint64) (next uint64, done bool) { return 0, p.net.catchUp() }

// JoinGroup joins a multicast group, given by its GID (::ffff:a.b.c.d for an IPv4 group). It implements rvt.GroupPort.
func (p *Port) JoinGroup(gid ci.GID) error { return p.table.JoinGroup(gid) }

// LeaveGroup undoes a JoinGroup.
func (p *Port) LeaveGroup(gid ci.GID) error { return p.table.LeaveGroup(gid) }

// SetLink plugs in or pulls out the cable. It implements rvt.CablePort.
func (p *Port) SetLink(up bool) { p.table.SetLink(up) }

// NodeGUID returns a GUID made from Addr, and from Interface if Addr is link-local. It is always the same. It
// implements rvt.GUIDPort.
func (p *Port) NodeGUID() ci.GUID { return p.guid }

// EncodeFrame returns an IP packet. It implements rvt.EncoderPort.
func (p *Port) EncodeFrame(d rvt.Direction, pkt *rvt.Packet) []byte {
	return p.table.EncodeFrame(d, pkt)
}

// AddCounters adds the counters whose names begin with udp_. It implements rvt.CounterPort.
func (p *Port) AddCounters(m map[string]uint64) { p.table.AddCounters(m) }
