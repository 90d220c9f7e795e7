package usersuite

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The services of the access layer as processes use them through a daemon. (SAS 2.4.)
var servings = servingArea()

// servingArea returns an empty area whose cases need QP1.
func servingArea() *validate.Area {
	a := area()
	a.Complete = func(c *validate.Case) {
		complete(c)
		c.Needs.Caps |= ci.CapSpecialQP | ci.CapAV
	}
	return a
}

// patron is a client that has opened the services.
type patron struct {
	*speaker
	queue, services schema.Handle
	port            schema.PortID // the first one of the adapter under test
	events          *eventList    // of queue
}

// patron connects a client, and opens the services for it.
func (s *stage) patron() *patron {
	p := &patron{speaker: s.speaker()}
	p.queue, p.events = p.started()
	p.services = p.open("services.Open")
	p.port.CA = s.guids[0]
	s.await("services.Query", "a port of the adapter", func() string {
		var r schema.QueryServicesReply
		kit.OK(s.t, p.do(schema.CmdQueryServices, &schema.Services{Services: p.services}, &r), "services.Query")
		for _, port := range r.Ports {
			if port.Port.CA == p.port.CA {
				p.port.Num = port.Port.Num
				return ""
			}
		}
		return fmt.Sprintf("%+v", r.Ports)
	})
	return p
}

// open opens the services once more.
func (p *patron) open(what string) schema.Handle {
	return p.made(what, schema.CmdOpenServices, &schema.OpenServices{Async: p.queue})
}

// agent registers an agent of a vendor's class that receives requests of a method, or only responses for method 0.
func (p *patron) agent(class mad.Class, method mad.Method, queue uint32) schema.Handle {
	r := &schema.RegisterAgent{Services: p.services, Port: p.port, Class: uint8(class), Version: 1, Queue: queue}
	if method != 0 {
		r.Methods = []uint8{uint8(method)}
	}
	return p.made("mads.Register", schema.CmdRegisterAgent, r)
}

// Classes of vendors, of the first range.
const classFirst, classSecond mad.Class = 0x0a, 0x0b

// lenDatagram is the length of a datagram without RMPP.
const lenDatagram = mad.Size

// datagram returns a request of a class with a body that follows from a number.
func datagram(class mad.Class, number uint32) []byte {
	b := make([]byte, lenDatagram)
	h := mad.Header{BaseVersion: mad.BaseVersion, Class: class, ClassVersion: 1, Method: mad.Set, TID: uint64(number),
		Attribute: 0x11}
	h.Put(b)
	for i := mad.HeaderLen; i < len(b); i++ {
		b[i] = byte(number) ^ byte(i)
	}
	return b
}

// loopback returns the address of QP1 of the port itself.
func (p *patron) loopback(ca *kit.CA) schema.MADAddress {
	av := ca.AddressOf(ca)
	return schema.MADAddress{AV: schema.NewAVAttr(&av), QPN: 1, QKey: ci.QKey(mad.QKeyGSI)}
}

// take takes the next part of what an agent has received.
func (p *patron) take(agent schema.Handle, offset uint64) (r schema.TakeMADReply, err error) {
	err = p.do(schema.CmdTakeMAD, &schema.TakeMAD{Agent: agent, Offset: offset}, &r)
	return r, err
}

// await waits until an agent has received something, and takes it.
func (p *patron) await(agent schema.Handle, what string) (r schema.TakeMADReply) {
	p.s.await("Agent.Recv", what, func() string {
		var err error
		r, err = p.take(agent, 0)
		kit.OK(p.s.t, err, "Agent.Recv")
		if r.Kind == schema.MADNone {
			return "nothing"
		}
		return ""
	})
	return r
}

// bytesPerElement is what a datagram in an agent's queue counts for, by package services: its bytes and an overhead.
// room is what the objects of a client of these cases hold at most.
const (
	bytesPerElement = lenDatagram + 256
	room            = 16 << 10
)

var _ = servings.Case(validate.Case{
	ID:    "user.service.datagrams",
	Title: "datagrams that a process does not take: no more than places in its agent's queue; taken ones do not count",
	Run:   servingDatagrams,
}, req.SAS2_4_10)

func servingDatagrams(t *validate.T) {
	const places, extra = 4, 3
	const rounds = 2*room/(places*bytesPerElement) + 1
	s := newStage(t)
	s.withServices(func(cfg *kproxy.Config) { cfg.Quota.ServiceBytes = room })
	p := s.patron()
	to := p.loopback(s.app().open())
	sender := p.agent(classFirst, 0, 0)
	receiver, last := p.agent(classFirst, mad.Set, places), p.agent(classSecond, mad.Set, places)
	number := uint32(0)
	send := func(b []byte) {
		err := p.do(schema.CmdSendMAD, &schema.SendMAD{Agent: sender, To: to, MAD: b}, &schema.None{})
		kit.OK(t, err, "Agent.Send")
	}
	settle := func() { // the port receives in order
		marker := p.agent(classSecond, 0, 0)
		err := p.do(schema.CmdSendMAD, &schema.SendMAD{Agent: marker, To: to, MAD: datagram(classSecond, 0)},
			&schema.None{})
		kit.OK(t, err, "Agent.Send")
		p.await(last, "the datagram that was sent last")
		p.destroyed(marker)
	}
	for i := range rounds {
		t.Step("round %d", i)
		first := number
		for range places + extra {
			send(datagram(classFirst, number))
			number++
		}
		settle()
		for k := range places {
			want := datagram(classFirst, first+uint32(k))
			const cut = 200
			part, err := p.take(receiver, cut+1+lenDatagram)
			kit.WantExactly(t, err, "Agent.Recv of bytes beyond the end", ci.InvalidParameter)
			kit.Equal(t, "datagrams in a refused reply", part.Total, 0)
			offset := uint64(0)
			if k%2 == 1 {
				offset = cut
			}
			r, err := p.take(receiver, offset)
			kit.OK(t, err, "Agent.Recv")
			kit.Equal(t, "kind, length, operation and number of those that wait",
				[4]uint64{uint64(r.Kind), uint64(r.Total), r.Op, uint64(r.Waiting)},
				[4]uint64{uint64(schema.MADReceived), lenDatagram, 0, uint64(places - 1 - k)})
			kit.SameBytes(t, fmt.Sprintf("datagram %d from byte %d on", k, offset), r.Data, want[offset:])
			dropped := uint32(0)
			if k == 0 {
				dropped = extra
			}
			kit.Equal(t, "datagrams that were dropped since the reply before", r.Dropped, dropped)
		}
		r, err := p.take(receiver, 0)
		kit.OK(t, err, "Agent.Recv")
		kit.Equal(t, "kind and dropped datagrams of an empty queue", [2]uint32{uint32(r.Kind), r.Dropped}, [2]uint32{})
	}
	t.Step("the end of an agent with datagrams")
	for i := range rounds {
		for range places {
			send(datagram(classFirst, number))
			number++
		}
		settle()
		if i%2 == 0 {
			r, err := p.take(receiver, 0)
			kit.OK(t, err, "Agent.Recv")
			kit.Equal(t, "kind, dropped datagrams and those that wait, of the first reply of an agent",
				[3]uint32{uint32(r.Kind), r.Dropped, r.Waiting}, [3]uint32{uint32(schema.MADReceived), 0, places - 1})
		}
		p.destroyed(receiver)
		receiver = p.agent(classFirst, mad.Set, places)
	}
}

var _ = servings.Case(validate.Case{
	ID:    "user.service.operations",
	Title: "requests of an agent that are not answered: one at a time of a number, up to a limit, and canceled ones",
	Run:   servingOperations,
}, req.SAS2_4_10)

func servingOperations(t *validate.T) {
	const most = 256 // Agent.StartDo of package services
	s := newStage(t)
	s.withServices(func(cfg *kproxy.Config) { cfg.Quota.ServiceBytes = most*bytesPerElement + room })
	app := s.app()
	p := s.patron()
	to := p.loopback(app.open())
	start := func(agent schema.Handle, op uint64) error {
		return p.do(schema.CmdSendMAD, &schema.SendMAD{Agent: agent, Op: op, To: to, Timeout: int64(time.Hour),
			MAD: datagram(classFirst, uint32(op))}, &schema.None{})
	}
	p.agent(classFirst, mad.Set, 1) // receives the requests, and does not answer
	for range 2 {                   // the second agent has the places and the bytes of the first
		a := p.agent(classFirst, 0, 0)
		for op := uint64(1); op <= most; op++ {
			kit.OK(t, start(a, op), fmt.Sprintf("request %d of an agent", op))
		}
		for range 2 * room / bytesPerElement { // none of which count
			kit.WantExactly(t, start(a, 1), "a request with the number of one that is pending", ci.InvalidParameter)
			kit.WantExactly(t, start(a, most+1), "a request beyond the limit", ci.InsufficientResources)
		}
		const canceled = 7
		for range 2 { // the second time there is no such operation
			err := p.do(schema.CmdCancel, &schema.Cancel{Object: a, Op: canceled}, &schema.None{})
			kit.OK(t, err, "services.Cancel")
		}
		r := p.await(a, "the outcome of the canceled request")
		kit.Equal(t, "kind, operation, error and length of the outcome",
			[4]uint64{uint64(r.Kind), r.Op, uint64(r.Error.Code), uint64(r.Total)},
			[4]uint64{uint64(schema.MADOutcome), canceled, uint64(schema.ErrorCanceled), 0})
		r, err := p.take(a, 0)
		kit.OK(t, err, "Agent.Recv")
		kit.Equal(t, "kind of a reply without a second outcome", r.Kind, schema.MADNone)
		kit.OK(t, start(a, canceled), "a request with the number of one that has ended")
		kit.WantExactly(t, start(a, most+1), "a request beyond the limit", ci.InsufficientResources)
		p.destroyed(a)
		kit.WantExactly(t, start(a, 1), "a request of an agent that is destroyed", schema.KindAgent.Invalid())
	}
	p.c.Close()
	t.Step("the bytes of requests")
	const object, few = 512, 3
	s.await("the daemon after the end of the process", "no client", func() string {
		if n := len(s.core.Sessions()); n > 1 { // the application has one
			return fmt.Sprint(n)
		}
		return ""
	})
	s.restart(func(cfg *kproxy.Config) {
		cfg.Service, cfg.Quota.ServiceBytes = s.service, 2*object+few*bytesPerElement
	})
	p = s.patron()
	a := p.agent(classFirst, 0, 0)
	to.QPN = 0x0f0f0f // which nobody has
	for op := uint64(1); op <= few; op++ {
		kit.OK(t, start(a, op), fmt.Sprintf("request %d of exactly the bytes of the quota", op))
	}
	kit.WantExactly(t, start(a, few+1), "a request beyond the bytes of the quota", ci.InsufficientResources)
	kit.OK(t, p.do(schema.CmdCancel, &schema.Cancel{Object: a, Op: few}, &schema.None{}), "services.Cancel")
	r := p.await(a, "the outcome of the canceled request")
	kit.Equal(t, "operation and error of the outcome", fmt.Sprint(r.Op, r.Error.Code),
		fmt.Sprint(few, schema.ErrorCanceled))
	kit.OK(t, start(a, few+1), "a request of the bytes of one that has ended")
	kit.WantExactly(t, start(a, few), "a further request", ci.InsufficientResources)
}
