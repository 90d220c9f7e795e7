package fabric

import (
	"slices"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

// A Client is a management program at a port: a subnet manager, a diagnostic program.
type Client interface {
	// Take offers a datagram that arrived at the port. It reports whether the client takes it; otherwise the next
	// client of the port gets it, and then the adapter. d and its datagram are valid during the call. Take does not
	// block. It may be called concurrently, and during a Send of the client.
	Take(d *Datagram) bool
}

// Attach adds a client to the port. It returns a function that removes the client; Take may be running when that
// returns.
func (p *Port) Attach(c Client) (detach func()) {
	p.node.fabric.mu.Lock()
	defer p.node.fabric.mu.Unlock()
	var list []Client
	if old := p.clients.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = append(list, c)
	p.clients.Store(&list)
	return func() { p.detach(c) }
}

func (p *Port) detach(c Client) {
	p.node.fabric.mu.Lock()
	defer p.node.fabric.mu.Unlock()
	old := p.clients.Load()
	if old == nil {
		return
	}
	list := slices.DeleteFunc(slices.Clone(*old), func(x Client) bool { return x == c })
	if len(list) == 0 {
		p.clients.Store(nil)
		return
	}
	p.clients.Store(&list)
}

// Send sends a datagram from the port, as a manager there does. A source LID of 0 is replaced by the port's. Responses,
// also those of agents, arrive at the clients of the port, possibly before Send returns. Send changes d and its
// datagram. Errors: ErrDiscarded; ErrClosed.
func (p *Port) Send(d *Datagram) error {
	f := p.node.fabric
	if f.closed.Load() {
		return ErrClosed
	}
	p = p.manager()
	if d.SLID == 0 {
		d.SLID = p.fast.load().lid()
	}
	if d.DestQP == 0 {
		return f.subnet(p, d)
	}
	return f.general(p, d)
}

// Info returns the PortInfo of the port, without its M_Key.
func (p *Port) Info() mad.PortInfo {
	i, _ := p.node.soft.PortInfo(p.num)
	i.MKey = 0
	return i
}

// NodeInfo returns the NodeInfo of the node as an SMP that arrived at the port reads it.
func (p *Port) NodeInfo() mad.NodeInfo {
	q := sma.Request{Port: p.num, Attribute: mad.AttrNodeInfo, Data: make([]byte, mad.SMPDataLen), Authentic: true}
	p.node.soft.Execute(q)
	var i mad.NodeInfo
	i.Parse(q.Data)
	return i
}

// PKeys returns the P_Key table of the port.
func (p *Port) PKeys() []ci.PKey {
	t := p.node.soft.PKeys(p.num)
	keys := make([]ci.PKey, t.Len())
	for i := range keys {
		keys[i] = t.At(i)
	}
	return keys
}

// SetCapability sets or clears bits of the port's CapabilityMask, such as the one of a subnet manager. The agent sends
// a trap if the mask changes.
func (p *Port) SetCapability(bits ci.PortCap, on bool) {
	p = p.manager()
	set := ci.PortCap(0)
	if on {
		set = bits
	}
	p.node.soft.SetCapability(p.num, bits, set)
}
