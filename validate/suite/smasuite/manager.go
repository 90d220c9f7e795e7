package smasuite

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// A subnet manager at the port, over the kit's MAD services: its directed routes, and those that end at it.
var managers = linkArea()

const managerVerb = "mads, Agent.Do; QP0"

// manager returns an agent on QP0 of the port, which receives requests to a manager, too. It skips the case if an
// adapter of the link executes the steps of routes, or if the ports are not at the two ends of one cable.
func (l *linked) manager() mads.Agent {
	if l.t.Attr().HasHardwareAgents(l.ca.Port.Num) || l.peer.ca.Port.HardwareAgents || l.route().hops() > 1 ||
		l.way.hasSMI {
		l.t.Skip("the adapters execute the steps of directed routes")
	}
	a, err := l.mads.Register(mads.AgentConfig{Name: "manager", Port: mads.Port{CA: l.ca.Attr.GUID, Num: l.ca.Port.Num},
		SubnetManagement: true, Manager: true, Class: mad.ClassSubnetDirected, Version: mad.ClassVersionSubnet,
		Methods: []mad.Method{mad.Get}})
	kit.OK(l.t, err, "mads.Manager.Register")
	l.t.Cleanup(func() { _ = a.Close() })
	return a
}

// outgoing returns a request along the directed route from the port to the peer.
func (l *linked) outgoing() *mad.SMP {
	q := l.smp(mad.Get, mad.AttrNodeInfo, 0x01020304)
	q.Class = mad.ClassSubnetDirected
	q.DrSLID, q.DrDLID = mad.PermissiveLID, mad.PermissiveLID
	q.SetHops(0, 1)
	q.InitialPath[1] = l.ca.Port.Num
	for i := 2; i < len(q.InitialPath); i++ {
		q.InitialPath[i] = byte(i)
	}
	return q
}

// outgoingMessage returns the message for a request: to a permissive LID.
func outgoingMessage(q *mad.SMP, to ci.LID) *mads.Message {
	var m ci.MAD
	q.Put(m[:])
	return &mads.Message{To: mads.Address{AV: ci.AVAttr{DLID: to}}, MAD: m[:]}
}

// result is the end of a request of the manager.
type result struct {
	r   *mads.Received
	err error
}

// begin sends a request from the manager, and returns what the peer receives.
func (l *linked) begin(a mads.Agent, q *mad.SMP, to ci.LID) (r mad.SMP, done chan result) {
	done = make(chan result, 1)
	err := a.StartDo(l.t.Context(), outgoingMessage(q, to), func(r *mads.Received, err error) {
		done <- result{r, err}
	})
	kit.OK(l.t, err, "mads.Agent.StartDo of a directed route")
	m, ok := l.peer.take(l.t.Remaining(), func(m *ci.MAD) bool {
		return mad.Method(m[3]) == q.Method && binary.BigEndian.Uint32(m[20:]) == q.Modifier
	})
	kit.True(l.t, ok, "request at the other end of the link", "the manager's", "none")
	r.Parse(m[:])
	return r, done
}

// end waits for the end of a request.
func (l *linked) end(done chan result, what string) mad.SMP {
	var r mad.SMP
	select {
	case x := <-done:
		kit.OK(l.t, x.err, what)
		r.Parse(x.r.MAD)
	case <-l.t.Context().Done():
		l.t.Failf(what, "the response", "none")
	}
	return r
}

var _ = managers.Add("sma.manager.request",
	"requests of a manager along directed routes that begin at its port, and others", func(t *validate.T) {
		l := link(t)
		a := l.manager()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, v := range kit.Variants(t, "", []struct {
			name   string
			change func(q *mad.SMP)
		}{
			{"hop pointer 1", func(q *mad.SMP) { q.SetHops(1, 1) }},
			{"hop pointer 255", func(q *mad.SMP) { q.SetHops(255, 1) }},
			{"64 hops", func(q *mad.SMP) { q.SetHops(0, 64) }},
			{"255 hops", func(q *mad.SMP) { q.SetHops(0, 255) }},
			{"hop pointer 1 and no hops", func(q *mad.SMP) { q.SetHops(1, 0) }},
			{"port 0 in the initial path", func(q *mad.SMP) { q.InitialPath[1] = 0 }},
			{"another port in the initial path", func(q *mad.SMP) { q.InitialPath[1]++ }},
			{"the port at the beginning of the initial path", func(q *mad.SMP) {
				q.InitialPath[0], q.InitialPath[1], q.InitialPath[2] = q.InitialPath[1], 77, q.InitialPath[1]
			}},
		}) {
			q := l.outgoing()
			v.change(q)
			_, err := a.Do(ctx, outgoingMessage(q, permissive))
			kit.True(t, err != nil, "mads.Agent.Do of a directed route with "+v.name, "an error", "success")
		}
		for _, hops := range kit.Variants(t, "hops", []uint8{1, 2, 63}) {
			q := l.outgoing()
			q.SetHops(0, hops)
			r, done := l.begin(a, q, permissive)
			want := *q
			want.TID = r.TID // the services choose a part of it
			want.SetHops(1, hops)
			l.sameMAD(r, want)
			l.answerRoute(r, func(back *mad.SMP) {})
			l.end(done, "mads.Agent.StartDo")
		}
		t.Step("a first part by LID")
		q := l.outgoing()
		q.SetHops(0, 0)
		q.DrDLID = uint16(l.peer.ca.Port.LID)
		r, done := l.begin(a, q, l.peer.ca.Port.LID)
		want := *q
		want.TID = r.TID
		l.sameMAD(r, want)
		l.answerRoute(r, func(back *mad.SMP) { back.SetHops(0, 0) })
		l.end(done, "mads.Agent.StartDo")
		t.Step("no hops")
		for _, lid := range []uint16{mad.PermissiveLID, uint16(l.ca.Port.LID)} {
			q = l.outgoing()
			q.SetHops(0, 0)
			q.DrSLID = lid
			got, err := a.Do(ctx, outgoingMessage(q, permissive))
			kit.OK(t, err, "mads.Agent.Do of a directed route without hops")
			r.Parse(got.MAD)
			kit.Equal(t, "status of "+name(q)+" without hops", mad.Status(r.Status), mad.Status(mad.StatusDirection))
			kit.SameBytes(t, "NodeInfo by a route without hops", r.Data[:], l.nodeInfo())
		}
	}, managers.Must("SMA-Manager-01", "IBTA 14.2.2.1", managerVerb,
		"The directed route of a manager leaves its port with hop pointer 1 and is otherwise as the manager has made "+
			"it. One that does not begin there is refused."))

// nodeInfo returns the NodeInfo of the port.
func (l *linked) nodeInfo() []byte {
	r := l.do(l.smp(mad.Get, mad.AttrNodeInfo, 0), mad.StatusOK)
	return r.Data[:]
}

// answerRoute sends the response of the peer to a request along a directed route of one hop, changed.
func (l *linked) answerRoute(r mad.SMP, change func(back *mad.SMP)) {
	r.Method, r.Status = mad.GetResp, mad.StatusDirection
	r.ReturnPath[1] = l.peer.ca.Port.Num
	r.SetHops(1, r.HopCount())
	for i := range r.Data {
		r.Data[i] = 0x22
	}
	change(&r)
	var m ci.MAD
	r.Put(m[:])
	l.peer.send(&m)
}

var _ = managers.Add("sma.manager.response",
	"responses to a manager that end at its port, after others", func(t *validate.T) {
		l := link(t)
		a := l.manager()
		bad := kit.Variants(t, "", []struct {
			name   string
			change func(back *mad.SMP)
		}{
			{"hop pointer 2", func(back *mad.SMP) { back.SetHops(2, 1) }},
			{"hop pointer 3", func(back *mad.SMP) { back.SetHops(3, 1) }},
			{"hop pointer 2 of 2", func(back *mad.SMP) { back.SetHops(2, 2) }},
			{"hop pointer 255", func(back *mad.SMP) { back.SetHops(255, 255) }},
			{"64 hops", func(back *mad.SMP) { back.SetHops(1, 64) }},
			{"a last part by LID", func(back *mad.SMP) { back.DrSLID = uint16(l.ca.Port.LID) }},
			{"DrSLID 0xff00", func(back *mad.SMP) { back.DrSLID = 0xff00 }},
			{"DrSLID 0x00ff", func(back *mad.SMP) { back.DrSLID = 0x00ff }},
		})
		for _, pointer := range []uint8{1, 0} { // 0: an adapter has executed the last step
			r, done := l.begin(a, l.outgoing(), permissive)
			for _, v := range bad {
				l.answerRoute(r, func(back *mad.SMP) {
					back.Data = [mad.SMPDataLen]byte{0x11}
					back.ReturnPath[2] = l.ca.Port.Num
					v.change(back)
				})
			}
			var sent mad.SMP
			l.answerRoute(r, func(back *mad.SMP) {
				back.SetHops(pointer, 1)
				sent = *back
			})
			got := l.end(done, "mads.Agent.StartDo")
			sent.SetHops(0, 1)
			sent.TID = got.TID
			l.sameMAD(got, sent)
		}
	}, managers.Must("SMA-Manager-02", "IBTA 14.2.2.4", managerVerb,
		"A response to a manager's directed route arrives with hop pointer 0. One that does not end there is dropped."))

var _ = managers.Add("sma.manager.answer", "a manager answers SMInfo along a directed route", func(t *validate.T) {
	l := link(t)
	a := l.manager()
	q := l.directed(mad.Get, mad.AttrSMInfo)
	var m ci.MAD
	q.Put(m[:])
	l.peer.send(&m)
	in, err := a.Recv(t.Context())
	kit.OK(t, err, "mads.Agent.Recv")
	var r mad.SMP
	r.Parse(in.MAD)
	want := *q
	want.SetHops(l.way.hops()+1, l.way.hops())
	want.ReturnPath = l.way.in
	l.sameMAD(r, want)
	r.Method, r.Status = mad.GetResp, mad.StatusDirection
	r.Data = [mad.SMPDataLen]byte{1, 2, 3}
	send := func(r mad.SMP) error {
		r.Put(m[:])
		return a.Send(&mads.Message{To: in.From, MAD: m[:]})
	}
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		change func(r *mad.SMP)
	}{
		{"hop pointer 1", func(r *mad.SMP) { r.SetHops(1, 1) }},
		{"hop pointer 0", func(r *mad.SMP) { r.SetHops(0, 1) }},
		{"hop pointer 3", func(r *mad.SMP) { r.SetHops(3, 1) }},
		{"64 hops", func(r *mad.SMP) { r.SetHops(65, 64) }},
		{"another port in the return path", func(r *mad.SMP) { r.ReturnPath[1]++ }},
		{"port 0 in the return path", func(r *mad.SMP) { r.ReturnPath[1] = 0 }},
	}) {
		other := r
		v.change(&other)
		kit.True(t, send(other) != nil, "mads.Agent.Send of a response with "+v.name, "an error", "success")
	}
	kit.OK(t, send(r), "mads.Agent.Send of the response")
	out, ok := l.peer.take(t.Remaining(), isResponse(q.TID))
	kit.True(t, ok, "response of the manager", "a response", "none")
	want = r
	want.SetHops(l.way.hops(), l.way.hops())
	r.Parse(out[:])
	l.sameMAD(r, want)
	_, again := l.peer.take(late, isResponse(q.TID))
	kit.True(t, !again, fmt.Sprintf("responses to %s", name(q)), "one", "two")
}, managers.Must("SMA-Manager-03", "IBTA 14.2.2.3", managerVerb,
	"A request to a manager along a directed route arrives with the port in its return path. The manager's "+
		"response leaves with the hop pointer of the last hop. One that does not begin at the port is refused."))

var _ = managers.Add("sma.manager.trap", "a manager receives a trap of its own port", func(t *validate.T) {
	alone(t)
	l := managed(t)
	if t.Attr().HasHardwareAgents(l.ca.Port.Num) {
		t.Skip("the adapter has agents of its own, and the kit none")
	}
	a, err := l.mads.Register(mads.AgentConfig{Name: "manager", Port: mads.Port{CA: l.ca.Attr.GUID, Num: l.ca.Port.Num},
		SubnetManagement: true, Manager: true, Class: mad.ClassSubnetLID, Version: mad.ClassVersionSubnet,
		Methods: []mad.Method{mad.Trap}})
	kit.OK(t, err, "mads.Manager.Register")
	t.Cleanup(func() { _ = a.Close() })
	err = l.ca.Modify(l.ca.Port.Num, ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapSM,
		Capability: ci.PortCapSM})
	kit.OK(t, err, "CA.Modify of the capability mask")
	l.change(func(i *mad.PortInfo) { i.MasterSMLID = i.LID })
	var in *mads.Received
	if !await(t, func() bool { // the services may learn of the capability mask later
		l.violateAt(9)
		ctx, cancel := context.WithTimeout(t.Context(), late)
		defer cancel()
		in, err = a.Recv(ctx)
		return err == nil && bytes.Contains(in.MAD, []byte{0, 0, 0, 9})
	}) {
		t.Failf("trap of the port at its manager", "trap 256", "none")
	}
	var s mad.SMP
	var n mad.Notice
	var d mad.TrapMKey
	s.Parse(in.MAD)
	n.Parse(s.Data[:])
	d.Parse(n.Details[:])
	kit.Equal(t, "method, trap and modifier", [3]uint32{uint32(s.Method), uint32(n.Trap), d.Modifier},
		[3]uint32{uint32(mad.Trap), uint32(mad.TrapBadMKey), 9})
}, managers.Must("SMA-Manager-04", "IBTA 14.2.5.1", managerVerb,
	"A trap of a port whose subnet manager is at the port itself, which its capability mask says, reaches the "+
		"manager."))
