package usersuite

import (
	"fmt"
	"slices"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = servings.Case(validate.Case{
	ID:    "user.service.parts",
	Title: "a datagram that is longer than a reply is taken in parts, and stays until the last",
	Run:   servingParts,
}, req.SAS2_4_10)

func servingParts(t *validate.T) {
	s := newStage(t)
	s.withServices()
	p := s.patron()
	av := s.app().open()
	class, oui, method := mad.ClassVendor2First+5, [3]uint8{1, 2, 3}, mad.Set
	register := func() schema.Handle {
		return p.made("mads.Register", schema.CmdRegisterAgent, &schema.RegisterAgent{Services: p.services,
			Port: p.port, Class: uint8(class), Version: 1, OUI: oui, RMPP: true, Methods: []uint8{uint8(method)}})
	}
	receiver := register()
	sender, err := s.mads.Register(mads.AgentConfig{Name: "sender", Port: mads.Port{CA: p.port.CA, Num: p.port.Num},
		Class: class, Version: 1, OUI: oui, RMPP: true})
	kit.OK(t, err, "mads.Register of the peer")
	t.Cleanup(func() { kit.OK(t, sender.Close(), "mads.Agent.Close") })
	const headers = 40 // of a datagram of this class; RMPP writes some of them
	for i, n := range []int{schema.MaxMAD - 1, schema.MaxMAD, schema.MaxMAD + 1, 2*schema.MaxMAD + 1000} {
		t.Step("a datagram of %d bytes", n)
		b := kit.Random(t, make([]byte, n))
		h := mad.Header{BaseVersion: mad.BaseVersion, Class: class, ClassVersion: 1, Method: method, TID: uint64(i + 1),
			Attribute: 0x11}
		clear(b[:headers])
		h.Put(b)
		copy(b[37:], oui[:])
		addr := av.AddressOf(av)
		kit.OK(t, sender.Send(&mads.Message{To: mads.Address{AV: addr, QPN: 1, QKey: ci.QKey(mad.QKeyGSI)}, MAD: b}),
			"mads.Agent.Send")
		r := p.await(receiver, "the datagram")
		var whole []byte
		for off := 0; ; {
			kit.Equal(t, "kind and length of the datagram", [2]int{int(r.Kind), int(r.Total)},
				[2]int{int(schema.MADReceived), n})
			isLast := n-off <= schema.MaxMAD
			kit.Equal(t, "bytes of a part", len(r.Data), min(n-off, schema.MaxMAD))
			kit.Equal(t, "datagrams that wait after a part", r.Waiting, map[bool]uint32{true: 0, false: 1}[isLast])
			whole = append(whole, r.Data...)
			off = len(whole)
			if isLast {
				break
			}
			again, err := p.take(receiver, 1)
			if n-1 > schema.MaxMAD {
				kit.OK(t, err, "Agent.Recv of a part that was taken")
				kit.SameBytes(t, "a part that is taken again", again.Data[:100], whole[1:][:100])
			} else {
				break
			}
			r, err = p.take(receiver, uint64(off))
			kit.OK(t, err, "Agent.Recv of the next part")
		}
		if len(whole) == n {
			kit.SameBytes(t, "the data of the datagram", whole[headers:], b[headers:])
		}
		r, err = p.take(receiver, 0)
		kit.OK(t, err, "Agent.Recv")
		kit.Equal(t, "kind of a reply after the last part", r.Kind, schema.MADNone)
	}
}

var _ = servings.Case(validate.Case{
	ID: "user.service.connections",
	Title: "connections of processes: QPs that are not theirs, calls before the answer, requests that nobody takes, " +
		"and those beyond the quota",
	Run: servingConnections,
}, req.SAS2_4_10)

func servingConnections(t *validate.T) {
	const most, tokenListener = 2, 0x55
	s := newStage(t)
	s.withServices(func(cfg *kproxy.Config) { cfg.Quota.Connections = most })
	x, y := s.patron(), s.patron()
	wx, wy := x.whole(0, x.queue), y.whole(0, y.queue)
	to := x.loopback(s.app().open())
	path := schema.CMPath{Port: x.port, AV: to.AV, PKey: 0xffff, RemoteLID: to.AV.DLID, MTU: ci.MTU1024, LifeTime: 10}
	op := uint64(0)
	connect := func(change func(*schema.CMConnect)) (schema.Handle, error) {
		op++
		r := &schema.CMConnect{Services: x.services, Op: op, ServiceID: serviceA, Primary: path, RetryCount: 7,
			RNRRetry: 7, ResponseTime: 20, RemoteResponseTime: 20, MaxRetries: 3, Private: []byte("hello"),
			QP: schema.CMQP{Num: wx.num, Type: ci.RC, StartPSN: 5}}
		change(r)
		return x.create(schema.CmdCMConnect, r)
	}
	same := func(*schema.CMConnect) {}
	next := func(p *patron, h schema.Handle, what string) (n schema.Notice) {
		s.await("a notice of "+what, "one", func() string {
			kit.OK(t, p.do(schema.CmdTakeNotice, &schema.TakeNotice{Object: h}, &n), "services.Take")
			if n.Kind == schema.NoticeNone {
				return "none"
			}
			return ""
		})
		return n
	}
	listenTo := func(id uint64) schema.Handle {
		return y.made("Service.Listen", schema.CmdCMListen, &schema.CMListen{Services: y.services, ServiceID: id,
			Token: tokenListener})
	}
	listen := func() schema.Handle { return listenTo(serviceA) }
	accept := func(l schema.Handle, op uint64) {
		kit.OK(t, y.do(schema.CmdCMAccept, &schema.CMAccept{Listener: l, Op: op, Token: 7}, &schema.None{}),
			"Listener.Accept")
	}

	t.Step("arguments")
	_, err := connect(func(r *schema.CMConnect) { r.QP.Num = wy.num })
	kit.WantExactly(t, err, "Service.Connect with a QP of another process", ci.InvalidQPHandle)
	_, err = connect(func(r *schema.CMConnect) { r.QP.Num ^= 1 << 23 })
	kit.WantExactly(t, err, "Service.Connect with a QP that nobody has", ci.InvalidQPHandle)
	_, err = connect(func(r *schema.CMConnect) { r.Primary.Port.Num = 99 })
	kit.WantExactly(t, err, "Service.Connect from a port that does not exist", ci.InvalidPort)
	_, err = connect(func(r *schema.CMConnect) { r.Primary.Port.CA++ })
	kit.WantExactly(t, err, "Service.Connect from an adapter that does not exist", ci.InvalidPort)
	for range most + 1 { // failures hold nothing
		_, err = connect(func(r *schema.CMConnect) { r.Private = make([]byte, 200) })
		kit.True(t, err != nil && ci.StatusOf(err) != ci.InsufficientResources, "Service.Connect with too much data",
			"an error of the connection manager", "%s", kit.Describe(err))
	}

	t.Step("a request that is not answered")
	l := listenTo(serviceA + 1) // the request may arrive when it has been canceled, and later listeners must not get it
	c, err := connect(func(r *schema.CMConnect) { r.ServiceID = serviceA + 1 })
	kit.OK(t, err, "Service.Connect")
	for cmd, request := range map[schema.Command]any{
		schema.CmdCMConn:          &schema.CMConn{Conn: c},
		schema.CmdCMQPAttr:        &schema.CMQPAttr{Conn: c, State: ci.QPInit},
		schema.CmdCMConnCall:      &schema.CMConnCall{Conn: c, Call: schema.CMConfirm},
		schema.CmdCMReply:         &schema.CMReply{Conn: c, Op: 100},
		schema.CmdCMLoadAlternate: &schema.CMLoadAlternate{Conn: c, Op: 100, Path: path},
	} {
		kit.WantExactly(t, x.do(cmd, request, &schema.None{}),
			fmt.Sprintf("the request %q before the answer to the request of the connection", cmd), ci.InvalidState)
	}
	kit.OK(t, x.do(schema.CmdCancel, &schema.Cancel{Object: c, Op: op}, &schema.None{}), "services.Cancel")
	n := next(x, c, "a request that was canceled")
	kit.Equal(t, "kind, operation and error of a request that was canceled", [3]uint64{uint64(n.Kind), n.Op,
		uint64(n.Error.Code)}, [3]uint64{uint64(schema.NoticeOutcome), op, uint64(schema.ErrorCanceled)})
	x.destroyed(c)
	y.destroyed(l)

	t.Step("a request that is rejected")
	l = listen()
	accept(l, 1)
	c, err = connect(same)
	kit.OK(t, err, "Service.Connect")
	n = next(y, l, "a listener with a request")
	kit.Equal(t, "kind and operation of a request", [2]uint64{uint64(n.Kind), n.Op},
		[2]uint64{uint64(schema.NoticeAccepted), 1})
	passive := n.Object
	var attr schema.CMConnReply
	kit.OK(t, y.do(schema.CmdCMConn, &schema.CMConn{Conn: passive}, &attr), "the attributes of a request")
	kit.Equal(t, "the port of a request", attr.Primary.Port, x.port)
	kit.WantExactly(t, y.do(schema.CmdCMReply, &schema.CMReply{Conn: passive, Op: 2, QP: schema.CMQP{Num: wx.num,
		Type: ci.RC}}, &schema.None{}), "Conn.Accept with a QP of another process", ci.InvalidQPHandle)
	kit.OK(t, y.do(schema.CmdCMConnCall, &schema.CMConnCall{Conn: passive, Call: schema.CMReject,
		Value: uint64(mad.RejConsumer), Private: []byte("no")}, &schema.None{}), "Conn.Reject")
	n = next(x, c, "a request that was rejected")
	kit.Equal(t, "error, reason and data of a request that was rejected", fmt.Sprint(n.Error.Code, n.Error.Reason,
		string(n.Error.Private[:2])), fmt.Sprint(schema.ErrorReject, uint16(mad.RejConsumer), "no"))
	x.destroyed(c)
	y.destroyed(passive)

	t.Step("a request that the process does not take")
	accept(l, 3)
	c, err = connect(same)
	kit.OK(t, err, "Service.Connect")
	s.await("the event of the listener", "one", func() string {
		if y.events.count(schema.Event{Kind: schema.EventNotice, Token: tokenListener}) < 2 {
			return "none"
		}
		return ""
	})
	y.destroyed(l)
	n = next(x, c, "a request whose listener was closed")
	kit.Equal(t, "error of a request whose listener was closed", n.Error.Code, schema.ErrorReject)
	x.destroyed(c)

	t.Step("requests beyond the quota")
	l = listen()
	wholes := []*whole{wx, wy}
	another := func(r *schema.CMConnect) { // a QP without an earlier connection, whose request would be stale
		w := x.whole(0, x.queue)
		wholes = append(wholes, w)
		r.QP.Num = w.num
	}
	var list []schema.Handle
	for i := range most {
		accept(l, uint64(10+i))
		c, err := connect(another)
		kit.OK(t, err, fmt.Sprintf("Service.Connect %d of %d", i+1, most))
		list = append(list, c)
		list = append(list, next(y, l, "a listener with a request").Object)
	}
	_, err = connect(another)
	kit.WantExactly(t, err, "Service.Connect beyond the quota", ci.InsufficientResources)
	x.destroyed(list[0])
	accept(l, 20)
	c, err = connect(another)
	kit.OK(t, err, "Service.Connect after the end of another")
	n = next(x, c, "a request to a process without room for it")
	kit.Equal(t, "error and reason of a request to a process without room for it", fmt.Sprint(n.Error.Code,
		n.Error.Reason), fmt.Sprint(schema.ErrorReject, uint16(mad.RejNoResources)))
	x.destroyed(c)
	y.destroyed(list[1])
	c, err = connect(another)
	kit.OK(t, err, "Service.Connect")
	n = next(y, l, "a listener with a request")
	kit.Equal(t, "operation of a request after one that was refused", n.Op, 20)
	for _, h := range []schema.Handle{n.Object, list[3]} {
		y.destroyed(h)
	}
	for _, h := range []schema.Handle{c, list[2]} {
		x.destroyed(h)
	}
	y.destroyed(l)
	for _, w := range wholes {
		for _, h := range slices.Backward(w.list) {
			w.destroyed(h)
		}
	}
}
