package smasuite

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate/kit"
)

// A path is the directed route from the manager's port to the port under test. Entry 0 of a route is not used.
type path struct {
	out, in [mad.MaxHops]byte // ports out of which the route leads, and at which it arrives
	n       uint8
	// hasSMI is true if the adapter of the manager executes the steps of the SMI for datagrams of QP0, as adapters with
	// agents in hardware may. It then takes routes that begin, and the last step of responses.
	hasSMI bool
}

// hops returns the number of links between the ports: 1 for a cable.
func (x *path) hops() uint8 { return x.n }

// lastPointer returns the hop pointer with which a response arrives at the manager (IBTA volume 1, 14.2.2.4).
func (x *path) lastPointer() uint8 {
	if x.hasSMI {
		return 0
	}
	return 1
}

// route returns the path to the port. It looks for the port the first time, as subnet managers do.
func (p *port) route() *path {
	if p.way != nil {
		return p.way
	}
	var start path
	zero := p.along(p.smp(mad.Get, mad.AttrNodeInfo, 0), &start)
	zero.SetHops(0, 0)
	var i mad.NodeInfo
	p.read(zero, &i)
	start.hasSMI = ci.GUID(i.NodeGUID) == p.peer.ca.Attr.GUID
	seen := make(map[uint64]bool)
	for todo := []path{start.step(p.peer.ca.Port.Num)}; len(todo) > 0; todo = todo[1:] {
		x := todo[0]
		p.read(p.along(p.smp(mad.Get, mad.AttrNodeInfo, 0), &x), &i)
		x.in[x.n] = i.LocalPort
		if ci.GUID(i.NodeGUID) == p.ca.Attr.GUID && i.LocalPort == p.ca.Port.Num {
			p.way = &x
			return p.way
		}
		if i.Type != mad.NodeSwitch || seen[i.NodeGUID] || x.n+1 == mad.MaxHops {
			continue
		}
		seen[i.NodeGUID] = true
		for num := uint8(1); num <= i.NumPorts && num != 0; num++ {
			var info mad.PortInfo
			p.read(p.along(p.smp(mad.Get, mad.AttrPortInfo, uint32(num)), &x), &info)
			if num != i.LocalPort && ci.PortState(info.State) != ci.PortDown {
				todo = append(todo, x.step(num))
			}
		}
	}
	p.t.Failf("directed routes from the other port of the link", "one to the port", "none")
	return nil
}

// step returns the path that goes on out of a port.
func (x path) step(port uint8) path {
	x.n++
	x.out[x.n] = port
	return x
}

// along returns a request by LID as one along a path. It leaves the manager's port with the first step of the SMI done,
// so that the hop pointer is 1.
func (p *port) along(q *mad.SMP, x *path) *mad.SMP {
	d := *q
	d.Class = mad.ClassSubnetDirected
	d.DrSLID, d.DrDLID = mad.PermissiveLID, mad.PermissiveLID
	d.SetHops(1, x.n)
	d.InitialPath = x.out
	return &d
}

// read sends a Get along a directed route until it is answered, and reads the attribute of the response.
func (p *port) read(q *mad.SMP, to layout) {
	var in, out ci.MAD
	q.Put(in[:])
	ok := false
	for !ok && p.t.Remaining() > late {
		p.peer.send(&in)
		out, ok = p.peer.take(late, isResponse(q.TID))
	}
	kit.True(p.t, ok, "response to "+name(q)+" along a directed route", "a response", "none")
	var r mad.SMP
	r.Parse(out[:])
	kit.Equal(p.t, "status of "+name(q), mad.Status(r.Status), mad.Status(mad.StatusDirection))
	to.Parse(r.Data[:])
}

// directed returns a request along the directed route to the port.
func (p *port) directed(method mad.Method, attr uint16) *mad.SMP {
	return p.along(p.smp(method, attr, 0), p.route())
}

// hasNewLID reports whether the port has a LID that switches on the path do not forward.
func (p *port) hasNewLID() bool {
	return p.peer.lid != p.peer.old && p.route().hops() > 1
}

// tryDirected executes a request by LID along the directed route, which needs no LIDs. The response is that by LID.
func (p *port) tryDirected(q *mad.SMP) (r mad.SMP, answered bool) {
	var in, out ci.MAD
	p.along(q, p.route()).Put(in[:])
	answered = p.peer.ask(&in, p.directed(mad.Get, mad.AttrNodeInfo), &out)
	r.Parse(out[:])
	r.Status &^= mad.StatusDirection
	return r, answered
}
