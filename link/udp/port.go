package udp

import (
	"fmt"
	"net/netip"
	"runtime"

	"ciddk/ci"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
)

// A Port is a RoCEv2 port over UDP sockets, one for each address. It implements rvt.Port, and of the optional
// interfaces Driver, BacklogPort, GroupPort, CounterPort, CablePort, GUIDPort and EncoderPort.
type Port struct {
	table  rocev2.MultiPort
	core   *rocev2.Port                  // the first address; nil with Config.Interface
	within func(open func() error) error // Config.Within
	follow *follower                     // of Config.Interface, or nil
	guid   ci.GUID                       // with Config.Interface
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

// New opens the sockets of a port. The port receives everything that is sent to its addresses at the UDP port; one
// process at a time can have an address and port. Errors explain what to do about an invalid field, an address in use
// or one that is not this machine's. The caller closes the port, or passes it to the New of an adapter.
func New(c Config) (*Port, error) {
	if err := c.check(runtime.GOOS); err != nil {
		return nil, err
	}
	p := &Port{within: c.Within}
	if err := p.open(func() error { return p.setUp(&c) }); err != nil {
		_ = p.table.Close() // the error to report is the first one
		return nil, err
	}
	return p, nil
}

// open runs f, which opens sockets, by Config.Within.
func (p *Port) open(f func() error) error {
	if p.within == nil {
		return f()
	}
	return p.within(f)
}

// setUp finds the interfaces and opens the sockets.
func (p *Port) setUp(c *Config) error {
	t := &p.table
	t.UDP, t.StrictSource, t.PeerSource = c.port(), c.StrictSource, c.PeerSourcePort
	t.LinkLocal, t.RoCEv1 = c.LinkLocalGIDs, c.RoCEv1GIDs
	t.Open = func(a netip.Addr) (*rocev2.Port, error) { return p.openAddress(c, a) }
	t.Up()
	if c.Interface != "" {
		return p.setUpInterface(c)
	}
	addrs := c.addresses()
	for _, a := range addrs {
		mtu, err := c.mtuFor(a)
		if err != nil {
			return err
		}
		if t.MTU == 0 || mtu < t.MTU {
			t.MTU = mtu
		}
	}
	if err := t.Set(addrs); err != nil {
		return err
	}
	p.core = t.Ports()[0]
	return nil
}

// mtuFor returns the MTU of a port with an address: that of the configuration, or the largest that fits the interface.
func (c *Config) mtuFor(a netip.Addr) (ci.MTU, error) {
	on := findInterface(a)
	if a.Zone() != "" && on.index == 0 {
		return 0, fmt.Errorf("udp: Config.Addr %v: zone %q is no interface of this machine; %s", a, a.Zone(),
			listInterfaces())
	}
	return c.mtuOn(on)
}

// mtuOn returns the MTU of a port on an interface.
func (c *Config) mtuOn(on iface) (ci.MTU, error) {
	mtu := ci.MTU4096
	if on.bytes > 0 {
		if mtu = rocev2.MTUFor(on.bytes); mtu == 0 {
			return 0, fmt.Errorf("udp: interface %s has an MTU of %d bytes; the least packet of RoCE needs %d",
				on.name, on.bytes, 256+rocev2.Headroom)
		}
	}
	if c.MTU > mtu {
		return 0, fmt.Errorf("udp: MTU of %d bytes does not fit interface %s of %d bytes: at most %d",
			c.MTU.Bytes(), on.name, on.bytes, mtu.Bytes())
	}
	if c.MTU != 0 {
		mtu = c.MTU
	}
	return mtu, nil
}

// openAddress opens the sockets of one address.
func (p *Port) openAddress(c *Config, a netip.Addr) (*rocev2.Port, error) {
	on := findInterface(a)
	if c.Interface != "" {
		on = c.namedInterface()
	}
	k := &rocev2.Port{Addr: a, UDP: p.table.UDP, GID: rocev2.GIDOf(a), MTU: p.table.MTU, Interface: on.name,
		Index:   on.index,
		Sources: []uint16{p.table.UDP}}
	if c.Near {
		k.Net, k.Near = namespace()
	}
	k.CompileRoute = compileRoute(k)
	s, err := openSocket(k, c)
	if err != nil {
		return nil, explainBind(err, netip.AddrPortFrom(a, k.UDP), on)
	}
	k.Socket = s
	return k, nil
}

// Start begins to receive and, with Config.Interface, to follow the addresses of the interface.
func (p *Port) Start(c rvt.PortContext) error {
	if err := p.table.Start(c); err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	if p.follow != nil {
		return p.follow.start(c.Clock)
	}
	return nil
}

// Close closes the sockets. A delivery under way has returned when Close does. It is idempotent.
func (p *Port) Close() error {
	if p.follow != nil {
		p.follow.stop()
	}
	return p.table.Close()
}

// Attr returns the attributes of an Ethernet link with one P_Key and an entry of the GID table for each address.
func (p *Port) Attr() ci.PortAttr { return p.table.Attr() }

// Modify sets capability bits and shuts the port down.
func (p *Port) Modify(set ci.PortField, a ci.PortModify) error { return p.table.Modify(set, a) }

// Route compiles an address, which is a GID. Packets leave from the address of entry SGIDIndex of the GID table.
func (p *Port) Route(av *ci.AVAttr, f rvt.Flow) (rvt.Route, error) { return p.table.Route(av, f) }

// Send cuts trains into packets and sends them.
func (p *Port) Send(pkts []rvt.Packet) { p.table.Send(pkts) }

// Hints returns a window that the socket's receive buffer holds.
func (p *Port) Hints() rvt.Hints { return p.table.Hints() }

// CatchUp receives what the sockets hold. It implements rvt.BacklogPort.
func (p *Port) CatchUp(mark uint64) (next uint64, done bool) { return p.table.CatchUp(mark) }

// maxGroups is the most multicast groups of a port, each of which takes a socket.
const maxGroups = 64

// MaxGroups implements rvt.GroupLimitPort.
func (p *Port) MaxGroups() int { return maxGroups }

// JoinGroup joins a multicast group, given by its GID (::ffff:a.b.c.d for an IPv4 group). It implements rvt.GroupPort.
func (p *Port) JoinGroup(gid ci.GID) error {
	if _, err := p.table.Group(gid); err != nil {
		return err
	}
	return p.open(func() error { return p.table.JoinGroup(gid) })
}

// LeaveGroup undoes a JoinGroup.
func (p *Port) LeaveGroup(gid ci.GID) error { return p.table.LeaveGroup(gid) }

// SetLink plugs in or pulls out the cable. It implements rvt.CablePort.
func (p *Port) SetLink(up bool) { p.table.SetLink(up) }

// NodeGUID returns a GUID made from the first of the configured addresses, or from the interface, and from Port. It is
// always the same. It implements rvt.GUIDPort.
func (p *Port) NodeGUID() ci.GUID {
	if p.guid != 0 {
		return p.guid
	}
	return p.table.NodeGUID()
}

// EncodeFrame returns an IP packet. It implements rvt.EncoderPort.
func (p *Port) EncodeFrame(d rvt.Direction, pkt *rvt.Packet) []byte {
	return p.table.EncodeFrame(d, pkt)
}

// AddCounters adds the counters whose names begin with udp_. It implements rvt.CounterPort.
func (p *Port) AddCounters(m map[string]uint64) {
	p.table.AddCounters(m)
	if p.follow != nil {
		m["udp_address_errors"] += p.follow.failures.Load()
	}
}
