package smasuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

const verb = "ci_local_mad (65)"

// A port is the agent of the first port of the driver.
type port struct {
	t   *validate.T
	ca  *kit.CA
	key uint64 // M_Key of the requests
}

func open(t *validate.T) *port { return &port{t: t, ca: kit.Open(t)} }

// smp returns a request by LID.
func (p *port) smp(method mad.Method, attr uint16, modifier uint32) *mad.SMP {
	return &mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
		ClassVersion: mad.ClassVersionSubnet, Method: method, TID: 0x0102030405060708, Attribute: attr,
		Modifier: modifier}, MKey: p.key}
}

// name returns the words for a request in reports.
func name(q *mad.SMP) string {
	return fmt.Sprintf("%v of %s, modifier %#x", q.Method, mad.AttributeName(mad.ClassSubnetLID, q.Attribute),
		q.Modifier)
}

// try executes a request. answered is false if the agent has left the response empty.
func (p *port) try(q *mad.SMP) (r mad.SMP, answered bool) {
	var in, out ci.MAD
	q.Put(in[:])
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

// info reads the PortInfo.
func (p *port) info() (i mad.PortInfo) {
	r := p.do(p.smp(mad.Get, mad.AttrPortInfo, 0), mad.StatusOK)
	i.Parse(r.Data[:])
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
	q := p.smp(mad.Set, mad.AttrPortInfo, 0)
	i.Put(q.Data[:])
	r := p.do(q, status)
	now.Parse(r.Data[:])
	return now
}
