package fabric

import (
	"fmt"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/sma"
)

// A CAPort is the link side of an adapter's port on a fabric. It implements rvt.Port, and the optional interfaces
// CablePort, CounterPort, EncoderPort, GUIDPort, QueuePort, SMAPort, SystemGUIDPort and ViolationPort. The fabric has
// the agents of the port: datagrams of subnet management and of performance management do not reach the adapter, except
// those for a subnet manager.
type CAPort struct {
	port    *Port
	started atomic.Bool
	closed  atomic.Bool
	busy    atomic.Int64  // deliveries in progress
	idle    chan struct{} // gets a token when the last delivery ends after Close
	out     egress
	queue   arrivals

	// Set by Start, before started.
	recv rvt.Receiver
	lost func(rvt.Loss) // or nil

	onChange func() // or nil; set before Start
}

var _ interface {
	rvt.Port
	rvt.CablePort
	rvt.CounterPort
	rvt.EncoderPort
	rvt.GUIDPort
	rvt.QueuePort
	rvt.SMAPort
	rvt.SystemGUIDPort
	rvt.ViolationPort
} = (*CAPort)(nil)

// CAPort returns the link side of a port, for an adapter. num 0 selects the node's lowest port with a link. Errors: an
// unknown node; a switch; a port out of range; a port that has an adapter. The caller closes the port, or passes it to
// the New of an adapter.
func (f *Fabric) CAPort(name string, num int) (*CAPort, error) {
	p, err := f.Port(name, num)
	if err != nil {
		return nil, err
	}
	if p.node.sw != nil {
		return nil, fmt.Errorf("fabric: node %q is a switch: an adapter needs a port of a CA", name)
	}
	c := &CAPort{port: p, idle: make(chan struct{}, 1)}
	c.out.init(c, f.cfg.Clock)
	c.queue.init(c, f.cfg.Clock)
	if !p.ca.CompareAndSwap(nil, c) {
		return nil, fmt.Errorf("fabric: port %d of %q has an adapter: close it first, or use another port", p.num, name)
	}
	return c, nil
}

// OnChange sets a function that runs after each change of the port's attributes, with or without an event. It is called
// before Start. f does not block.
func (c *CAPort) OnChange(f func()) { c.onChange = f }

// Start admits deliveries.
func (c *CAPort) Start(x rvt.PortContext) error {
	if c.closed.Load() || c.started.Load() {
		return fmt.Errorf("fabric: %w", rvt.ErrPortStarted)
	}
	c.recv, c.lost = x.Receiver, x.Lost
	c.started.Store(true)
	return nil
}

// Close leaves the fabric, and returns when no delivery to the adapter is in progress. It is idempotent.
func (c *CAPort) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.port.ca.CompareAndSwap(c, nil)
	c.out.close()
	c.queue.close()
	for c.busy.Load() > 0 {
		<-c.idle
	}
	return nil
}

// enter begins a delivery. It reports whether the adapter takes deliveries; the caller calls leave in any case.
func (c *CAPort) enter() bool {
	c.busy.Add(1)
	return !c.closed.Load() && c.started.Load()
}

func (c *CAPort) leave() {
	if c.busy.Add(-1) == 0 && c.closed.Load() {
		select {
		case c.idle <- struct{}{}:
		default:
		}
	}
}

// deliver passes packets to the adapter.
func (c *CAPort) deliver(pkts []rvt.Packet) {
	if c.enter() {
		c.recv.Deliver(pkts, false, false)
	}
	c.leave()
}

// takes reports whether the adapter takes datagrams for a QP.
func (c *CAPort) takes(ci.QPN) bool { return c.started.Load() && !c.closed.Load() }

// deliverDatagram passes a management datagram to the adapter.
func (c *CAPort) deliverDatagram(d *Datagram) {
	pkts := [1]rvt.Packet{d.packet()}
	pkts[0].PathBits = c.pathBits(d.DLID)
	if d.GRH != nil {
		pkts[0].Dst.GID = ci.GID(d.GRH[24:40])
	}
	c.deliver(pkts[:])
}

// pathBits returns the bits of a LID that the port's LMC leaves to senders.
func (c *CAPort) pathBits(lid ci.LID) uint8 {
	if lid >= firstMulticastLID {
		return 0
	}
	return uint8(lid) & (1<<c.port.fast.load().lmc() - 1)
}

// changed raises the events of a change, and calls the function of OnChange.
func (c *CAPort) changed(x sma.Change) {
	if c.enter() {
		if x&(sma.ChangeMTU|sma.ChangeVLs|sma.ChangeSLtoVL) != 0 {
			c.recv.PortEvent(0)
		}
		x.Events(c.recv.PortEvent)
		if c.onChange != nil {
			c.onChange()
		}
	}
	c.leave()
}

// NodeGUID returns the GUID of the node in the topology. It implements rvt.GUIDPort.
func (c *CAPort) NodeGUID() ci.GUID { return ci.GUID(c.port.node.desc.GUID) }

// NodeInfo returns the NodeInfo of the node, whose identity an adapter may take over (ci.CAAttr).
func (c *CAPort) NodeInfo() mad.NodeInfo { return c.port.NodeInfo() }

// Hints returns those of a lossless link. With Config.Timing, a train takes a link at once, so trains are short.
func (c *CAPort) Hints() rvt.Hints {
	if c.port.node.fabric.timing {
		return rvt.Hints{MaxTrain: 4096, Lossless: true}
	}
	return rvt.Hints{MaxTrain: 1 << 20, Lossless: true}
}

// Attr returns PortInfo and the tables.
func (c *CAPort) Attr() ci.PortAttr {
	a := c.port.node.soft.PortAttr(c.port.num)
	a.HardwareAgents, a.MTUs = true, c.port.mtus()
	return a
}

// gid returns an entry of the GID table that is in use.
func (c *CAPort) gid(i uint16) (ci.GID, bool) {
	g := c.Attr().GIDs
	if int(i) >= len(g) || g[i].GID == (ci.GID{}) {
		return ci.GID{}, false
	}
	return g[i].GID, true
}

// Modify sets capability bits and the init type, and takes the link down.
func (c *CAPort) Modify(set ci.PortField, a ci.PortModify) error {
	if rest := set &^ (ci.PortFieldCapability | ci.PortFieldShutdown | ci.PortFieldInitType); rest != 0 {
		return &ci.Error{Verb: "CA.Modify", Status: ci.Unsupported,
			Detail: fmt.Sprintf("fields %#x are not the port's", uint32(rest))}
	}
	soft := c.port.node.soft
	if set&ci.PortFieldCapability != 0 {
		soft.SetCapability(c.port.num, a.CapMask, a.Capability)
	}
	if set&ci.PortFieldInitType != 0 {
		soft.SetInitType(c.port.num, a.InitType)
	}
	if set&ci.PortFieldShutdown != 0 {
		c.SetLink(false)
	}
	return nil
}

// SetSystemGUID changes the system image GUID of the node, and sends trap 145. It implements rvt.SystemGUIDPort.
func (c *CAPort) SetSystemGUID(g ci.GUID) { c.port.node.soft.SetSystemGUID(g) }

// SetLink plugs in or pulls out the cable. A port without one ignores the call. It implements rvt.CablePort.
func (c *CAPort) SetLink(up bool) { _ = c.port.SetLink(up) }

// FlushQP removes the packets of a QP that wait for the link, which they do with Config.Timing. It implements
// rvt.QueuePort.
func (c *CAPort) FlushQP(num ci.QPN) { c.out.flush(num) }

// SubnetMAD executes a datagram on the port's agent. A link that it has taken down trains before it returns. It
// implements rvt.SMAPort.
func (c *CAPort) SubnetMAD(in, out *ci.MAD) {
	*out = *in
	a := c.port.node.agent
	action := a.Execute(c.port.num, 0, out)
	if action == sma.Deliver { // no manager is below LocalMAD
		action = a.Refuse(c.port.num, out).Action
	}
	c.port.node.fabric.settle()
	if action != sma.Reply {
		*out = ci.MAD{}
	}
}

// TrustedMAD is SubnetMAD without a check of the M_Key. It implements rvt.TrustedSMAPort.
func (c *CAPort) TrustedMAD(in, out *ci.MAD) {
	*out = *in
	isReply := c.port.node.agent.ExecuteTrusted(c.port.num, out)
	c.port.node.fabric.settle()
	if !isReply {
		*out = ci.MAD{}
	}
}

// AddCounters adds the counters of the port. It implements rvt.CounterPort.
func (c *CAPort) AddCounters(m map[string]uint64) {
	n := &c.port.count
	m["fabric_xmit_packets"] += n.xmitPackets.Load()
	m["fabric_rcv_packets"] += n.rcvPackets.Load()
	m["fabric_xmit_discards"] += n.xmitDiscards.Load()
	m["fabric_rcv_errors"] += n.rcvErrors.Load()
	m["fabric_flushed_packets"] += c.out.flushCount()
	m["fabric_link_downed"] += n.linkDowned.Load()
}
