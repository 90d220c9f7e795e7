package smasuite

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

const verb = "ci_local_mad (65)"

// A port is the agent of the first port of the driver.
type port struct {
	t    *validate.T
	ca   *kit.CA
	key  uint64 // M_Key of the requests
	peer *peer  // requests come from QP0 of another port; nil: from CA.LocalMAD
	tid  uint64
	way  *path // see route

	unprotects bool // see protect
}

// firstTID is the transaction ID of the first request. Each byte is set.
const firstTID = 0x0102030405060700

// open returns the agent of the first port. Requests reach it through CA.LocalMAD or, if the adapter answers them below
// the driver's interface, from QP0 of another port.
func open(t *validate.T) *port {
	p := &port{t: t, ca: kit.Open(t), tid: firstTID}
	if t.Attr().HasHardwareAgents(p.ca.Port.Num) {
		p.peer = newPeer(t, p.ca, ci.QP0)
	}
	return p
}

// smp returns a request by LID.
func (p *port) smp(method mad.Method, attr uint16, modifier uint32) *mad.SMP {
	p.tid++
	return &mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
		ClassVersion: mad.ClassVersionSubnet, Method: method, TID: p.tid, Attribute: attr, Modifier: modifier},
		MKey: p.key}
}

// name returns the words for a request in reports.
func name(q *mad.SMP) string {
	return fmt.Sprintf("%v of %s, modifier %#x", q.Method, mad.AttributeName(mad.ClassSubnetLID, q.Attribute),
		q.Modifier)
}

// try executes a request. answered is false if there is no response.
func (p *port) try(q *mad.SMP) (r mad.SMP, answered bool) {
	var in, out ci.MAD
	if p.peer != nil && p.hasNewLID() {
		return p.tryDirected(q)
	}
	q.Put(in[:])
	if p.peer != nil {
		probe := p.smp(mad.Get, mad.AttrNodeInfo, 0)
		answered = p.peer.ask(&in, probe, &out)
		r.Parse(out[:])
		return r, answered
	}
	for i := range out {
		out[i] = 0xa5
	}
	kit.OK(p.t, p.ca.LocalMAD(p.ca.Port.Num, nil, &in, &out), "CA.LocalMAD of "+name(q))
	r.Parse(out[:])
	return r, out != ci.MAD{}
}

// do executes a request that must be answered with a status.
func (p *port) do(q *mad.SMP, status uint16) mad.SMP {
	r, answered := p.try(q)
	kit.True(p.t, answered, "response to "+name(q), "a response", "none")
	kit.Equal(p.t, "status of "+name(q), mad.Status(r.Status), mad.Status(status))
	return r
}

// A layout is an attribute.
type layout interface {
	Put(b []byte)
	Parse(b []byte)
}

// get reads an attribute.
func (p *port) get(attr uint16, modifier uint32, to layout) {
	r := p.do(p.smp(mad.Get, attr, modifier), mad.StatusOK)
	to.Parse(r.Data[:])
}

// put sends a Set that must be answered with a status, and reads the attribute of the response into v.
func (p *port) put(attr uint16, modifier uint32, v layout, status uint16) {
	q := p.smp(mad.Set, attr, modifier)
	v.Put(q.Data[:])
	r := p.do(q, status)
	v.Parse(r.Data[:])
}

// info reads the PortInfo.
func (p *port) info() (i mad.PortInfo) {
	p.get(mad.AttrPortInfo, 0, &i)
	return i
}

// settable returns a PortInfo that a Set may have and that changes nothing but what a port without a manager lacks.
func (p *port) settable() mad.PortInfo {
	i := p.info()
	i.State, i.PhysState = 0, 0
	if i.LID == 0 {
		i.LID = 5
	}
	if i.MasterSMLID == 0 {
		i.MasterSMLID = 6
	}
	return i
}

// set sends a Set(PortInfo) that must be answered with a status.
func (p *port) set(i mad.PortInfo, status uint16) (now mad.PortInfo) {
	lid := i.LID
	p.put(mad.AttrPortInfo, 0, &i, status)
	if status == mad.StatusOK && p.peer != nil {
		p.peer.lid = ci.LID(lid)
	}
	return i
}

// change sends a Set(PortInfo) with one change, which must succeed.
func (p *port) change(f func(i *mad.PortInfo)) mad.PortInfo {
	i := p.settable()
	f(&i)
	return p.set(i, mad.StatusOK)
}

// attr returns what CA.Query says of the port.
func (p *port) attr() *ci.PortAttr {
	a, err := p.ca.Query()
	kit.OK(p.t, err, "CA.Query")
	return &a.Ports[p.ca.Port.Num-1]
}

// await polls a condition until it holds, or until shortly before the deadline of the case. It reports whether the
// condition holds.
func await(t *validate.T, done func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if t.Remaining() < time.Second {
			return false
		}
		<-tick.C
	}
	return true
}
