package udp

import (
	"fmt"
	"net/netip"
	"runtime"

	"ciddk/ci"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
)

// A Port is a RoCEv2 port over a UDP socket. It implements rvt.Port, and of the optional interfaces Driver, BacklogPort, GroupPort,
// CounterPort, CablePort, GUIDPort and EncoderPort.
type Port struct {
	core   rocev2.Port
	within func(open func() error) error // Config.Within
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

// New opens the sockets of a port. The port receives everything that is sent to (Addr, Port); one process at a time can have it. Errors explain what
// to do about an invalid field, an address in use or one that is not this machine's. The caller closes the port, or passes it to the New
// of an adapter.
func New(c Config) (*Port, error) {
	if err := c.check(runtime.GOOS); err != nil {
		return nil, err
	}
	p := &Port{within: c.Within}
	if err := p.open(func() error { return p.setUp(&c) }); err != nil {
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

// setUp finds the interface and opens the sockets.
func (p *Port) setUp(c *Config) error {
	addr := c.Addr.Unmap()
	on := findInterface(addr)
	if addr.Zone() != "" && on.index == 0 {
		return fmt.Errorf("udp: Config.Addr %v: zone %q is no interface of this machine; %s", addr, addr.Zone(), listInterfaces())
	}
	mtu := ci.MTU4096
	if on.bytes > 0 {
		if mtu = rocev2.MTUFor(on.bytes); mtu == 0 {
			return fmt.Errorf("udp: interface %s has an MTU of %d bytes; the least packet of RoCE needs %d", on.name, on.bytes, 256+rocev2.Headroom)
		}
	}
	if c.MTU > mtu {
		return fmt.Errorf("udp: MTU of %d bytes does not fit interface %s of %d bytes: at most %d", c.MTU.Bytes(), on.name, on.bytes, mtu.Bytes())
	}
	if c.MTU != 0 {
		mtu = c.MTU
	}
	k := &p.core
	k.Addr, k.UDP, k.GID, k.MTU, k.Interface, k.Index = addr, c.port(), rocev2.GIDOf(addr), mtu, on.name, on.index
	k.Sources, k.StrictSource, k.PeerSource = []uint16{c.port()}, c.StrictSource, c.PeerSourcePort
	k.CompileRoute = compileRoute(k)
	k.Up()
	s, err := openSocket(k, c)
	if err != nil {
		return explainBind(err, netip.AddrPortFrom(addr, k.UDP), on)
	}
	k.Socket = s
	return nil
}

// Start begins to receive.
func (p *Port) Start(c rvt.PortContext) error {
	if err := p.core.Start(c); err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	return nil
}

// Close closes the sockets. A delivery under way has returned when Close does. It is idempotent.
func (p *Port) Close() error { return p.core.Close() }

// Attr returns the attributes of an Ethernet link with one GID and one P_Key.
func (p *Port) Attr() ci.PortAttr { return p.core.Attr() }

// Modify sets capability bits and shuts the port down.
func (p *Port) Modify(set ci.PortField, a ci.PortModify) error { return p.core.Modify(set, a) }

// Route compiles an address, which is a GID.
func (p *Port) Route(av *ci.AVAttr, f rvt.Flow) (rvt.Route, error) { return p.core.Route(av, f) }

// Send cuts trains into packets and sends them.
func (p *Port) Send(pkts []rvt.Packet) { p.core.Send(pkts) }

// Hints returns a window that the socket's receive buffer holds.
func (p *Port) Hints() rvt.Hints { return p.core.Hints() }

// CatchUp receives what the socket holds. It implements rvt.BacklogPort.
func (p *Port) CatchUp(mark uint64) (next uint64, done bool) { return p.core.Socket.CatchUp(mark) }

// JoinGroup joins a multicast group, given by its GID (::ffff:a.b.c.d for an IPv4 group). It implements rvt.GroupPort.
func (p *Port) JoinGroup(gid ci.GID) error {
	if _, err := p.core.Group(gid); err != nil {
		return err
	}
	return p.open(func() error { return p.core.JoinGroup(gid) })
}

// LeaveGroup undoes a JoinGroup.
func (p *Port) LeaveGroup(gid ci.GID) error { return p.core.LeaveGroup(gid) }

// SetLink plugs in or pulls out the cable. It implements rvt.CablePort.
func (p *Port) SetLink(up bool) { p.core.SetLink(up) }

// NodeGUID returns a GUID made from Addr and Port, always the same. It implements rvt.GUIDPort.
func (p *Port) NodeGUID() ci.GUID { return p.core.NodeGUID() }

// EncodeFrame returns an IP packet. It implements rvt.EncoderPort.
func (p *Port) EncodeFrame(d rvt.Direction, pkt *rvt.Packet) []byte {
	return p.core.EncodeFrame(d, pkt)
}

// AddCounters adds the counters whose names begin with udp_. It implements rvt.CounterPort.
func (p *Port) AddCounters(m map[string]uint64) {
	p.core.Stats.AddCounters(m)
	if s, ok := p.core.Socket.(interface{ drops() uint64 }); ok {
		m["udp_kernel_drops"] += s.drops()
	}
}
