package usersuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = servings.Case(validate.Case{
	ID: "user.service.lookups",
	Title: "lookup requests that a process does not answer, up to their limit; answers that are wrong, and steps of " +
		"objects without steps",
	Run: servingLookups,
}, req.SAS2_4_10)

func servingLookups(t *validate.T) {
	const unanswered = 256 // docs/limits.md
	s := newStage(t)
	s.withServices(func(cfg *kproxy.Config) { cfg.Quota.Connections = unanswered + 10 })
	x, y := s.patron(), s.patron()
	wx, wy := x.whole(0, x.queue), y.whole(0, y.queue)
	to := x.loopback(s.app().open())
	path := schema.CMPath{Port: x.port, AV: to.AV, PKey: 0xffff, RemoteLID: to.AV.DLID, MTU: ci.MTU1024, LifeTime: 10}
	l := y.made("Service.Listen", schema.CmdCMListen, &schema.CMListen{Services: y.services, ServiceID: serviceA,
		Datagram: true, Token: 5})
	op := uint64(0)
	request := func() (lookup, got schema.Handle, n schema.Notice) {
		op++
		kit.OK(t, y.do(schema.CmdCMAccept, &schema.CMAccept{Listener: l, Op: op, Lookup: true}, &schema.None{}),
			"Listener.AcceptLookup")
		lookup = x.made("Service.Lookup", schema.CmdCMLookup, &schema.CMLookup{Services: x.services, Op: op,
			ServiceID: serviceA, Path: path, Timeout: 3600e9, Retries: 1, Private: []byte("who")})
		n = y.notice(l, "a listener with a lookup request")
		kit.Equal(t, "kind, operation and kind of the object of a lookup request", [3]uint64{uint64(n.Kind), n.Op,
			uint64(n.Object.Kind())}, [3]uint64{uint64(schema.NoticeAccepted), op, uint64(schema.KindLookupRequest)})
		return lookup, n.Object, n
	}
	answer := func(h schema.Handle, change func(*schema.CMAnswerLookup)) error {
		r := &schema.CMAnswerLookup{Request: h, QPN: wy.num, QKey: 0x1234, Private: []byte("me")}
		change(r)
		return y.do(schema.CmdCMAnswerLookup, r, &schema.None{})
	}
	same := func(*schema.CMAnswerLookup) {}

	t.Step("answers")
	lookup, h, n := request()
	kit.Equal(t, "whether a lookup request has a path, and its port", fmt.Sprint(n.HasPath, n.Path.Port),
		fmt.Sprint(true, x.port))
	kit.WantExactly(t, answer(h, func(r *schema.CMAnswerLookup) { r.QPN = wx.num }),
		"an answer with a QP of another process", ci.InvalidQPHandle)
	kit.WantExactly(t, answer(h, func(r *schema.CMAnswerLookup) { r.Private = make([]byte, 200) }),
		"an answer with too much data, which can be corrected", ci.InvalidParameter)
	kit.OK(t, answer(h, same), "an answer")
	kit.WantExactly(t, answer(h, same), "a second answer", schema.KindLookupRequest.Invalid())
	n = x.notice(lookup, "a lookup that was answered")
	kit.Equal(t, "kind, error, QP, Q_Key and data of the outcome", fmt.Sprint(n.Kind, n.Error.Code, n.QPN, n.QKey,
		string(n.Private[:2])), fmt.Sprint(schema.NoticeOutcome, schema.ErrorNone, wy.num, ci.QKey(0x1234), "me"))
	x.destroyed(lookup)
	lookup, h, _ = request()
	kit.OK(t, answer(h, func(r *schema.CMAnswerLookup) { r.Status, r.QPN = uint32(mad.SIDRNoQP), 0 }), "a rejection")
	n = x.notice(lookup, "a lookup that was rejected")
	kit.Equal(t, "kind, error and reason of the outcome", fmt.Sprint(n.Kind, n.Error.Code, n.Error.Reason),
		fmt.Sprint(schema.NoticeOutcome, schema.ErrorLookup, uint16(mad.SIDRNoQP)))
	x.destroyed(lookup)

	t.Step("requests without an answer")
	var list []schema.Handle
	for range unanswered + 2 {
		lookup, h, _ := request()
		x.destroyed(lookup)
		list = append(list, h)
	}
	for i, h := range list {
		err := answer(h, func(r *schema.CMAnswerLookup) { r.Status, r.QPN = uint32(mad.SIDRNoQP), 0 })
		if i < 2 {
			kit.WantExactly(t, err, "an answer to the oldest request, beyond the limit",
				schema.KindLookupRequest.Invalid())
			continue
		}
		kit.True(t, ci.StatusOf(err) != schema.KindLookupRequest.Invalid(),
			fmt.Sprintf("an answer to request %d of %d", i+1, len(list)), "a request that exists", "%s",
			kit.Describe(err))
	}

	t.Step("steps of objects without steps")
	agent := y.agent(classFirst, mad.Set, 0)
	var port schema.BindPortReply
	kit.OK(t, y.do(schema.CmdBindPort, &schema.BindPort{Services: y.services, Space: 0x0106}, &port), "Ports.Bind")
	for _, v := range []struct {
		h    schema.Handle
		take ci.Status
	}{{agent, ci.InvalidHandle}, {y.services, ci.InvalidHandle}, {port.Handle, ci.InvalidHandle},
		{wy.cq, schema.KindCQ.Invalid()}, {wy.pd, schema.KindPD.Invalid()}, {wx.cq, schema.KindCQ.Invalid()}} {
		err := y.do(schema.CmdTakeNotice, &schema.TakeNotice{Object: v.h}, &schema.Notice{})
		kit.WantExactly(t, err, fmt.Sprintf("services.Take of a %v", v.h.Kind()), v.take)
		err = y.do(schema.CmdCancel, &schema.Cancel{Object: v.h, Op: 1}, &schema.None{})
		if v.h == agent {
			kit.OK(t, err, "services.Cancel of an agent")
			continue
		}
		kit.WantExactly(t, err, fmt.Sprintf("services.Cancel of a %v", v.h.Kind()), v.take)
	}

	t.Step("the default queue of an agent")
	const places, extra = 128, 5
	sender, dropped := x.agent(classFirst, 0, 0), uint32(0)
	for i := range uint32(places + extra) {
		kit.OK(t, x.do(schema.CmdSendMAD, &schema.SendMAD{Agent: sender, To: to, MAD: datagram(classFirst, i)},
			&schema.None{}), "Agent.Send")
		if i == places {
			dropped += y.await(agent, "the first datagram").Dropped
		}
	}
	last := y.agent(classSecond, mad.Set, 1)
	marker := x.agent(classSecond, 0, 0)
	kit.OK(t, x.do(schema.CmdSendMAD, &schema.SendMAD{Agent: marker, To: to, MAD: datagram(classSecond, 0)},
		&schema.None{}), "Agent.Send")
	y.await(last, "the datagram that was sent last")
	taken := 1
	for {
		r, err := y.take(agent, 0)
		kit.OK(t, err, "Agent.Recv")
		dropped += r.Dropped
		if r.Kind == schema.MADNone {
			break
		}
		taken++
	}
	kit.Equal(t, "datagrams that were taken and dropped", uint32(taken)+dropped, places+extra)
	kit.True(t, taken >= places && taken <= places+1, "datagrams that were taken", "128, or one more", "%d", taken)
}

// notice waits until an object has a notice, and takes it.
func (p *patron) notice(h schema.Handle, what string) (n schema.Notice) {
	p.s.await("a notice of "+what, "one", func() string {
		kit.OK(p.s.t, p.do(schema.CmdTakeNotice, &schema.TakeNotice{Object: h}, &n), "services.Take")
		if n.Kind == schema.NoticeNone {
			return "none"
		}
		return ""
	})
	return n
}

var _ = requests.Case(validate.Case{
	ID:    "user.request.vendor",
	Title: "a vendor's command: objects of the process and others, its data, and its status in both cases",
	Run:   requestVendor,
}, req.SAS2_4_17)

func requestVendor(t *validate.T) {
	s := newStage(t)
	x, other := s.speaker(), s.speaker()
	queue, _ := x.queue()
	w := x.whole(0, queue)
	theirs := other.basics()
	call := func(data []byte, objects ...schema.Handle) (r schema.VendorCallReply, err error) {
		err = x.do(schema.CmdVendorCall, &schema.VendorCall{CA: w.ca, Command: 3, Status: 7, Data: data,
			Objects: objects}, &r)
		return r, err
	}
	for _, n := range []int{0, 1, 100, schema.MaxVendor} {
		data := kit.Random(t, make([]byte, n))
		r, err := call(data, w.pd, w.cq, w.qp, w.mr)
		kit.OK(t, err, fmt.Sprintf("CA.VendorCall with %d bytes", n))
		kit.Equal(t, "status and bytes of the reply", [2]int{int(r.Status), int(r.N)}, [2]int{7, n})
		kit.SameBytes(t, "data of the reply", r.Data, data)
	}
	gone := x.createCQ(handles{pd: w.pd})
	x.destroyed(gone)
	for what, h := range map[string]schema.Handle{"an event queue": queue, "an object of another process": theirs.cq,
		"a destroyed object": gone, "no object": 0} {
		if h == w.cq {
			continue
		}
		_, err := call(nil, w.pd, h)
		kit.WantExactly(t, err, "CA.VendorCall with "+what, ci.InvalidHandle)
	}
	s.probe.handle(func(verb string, ub *ci.UserBuffer) error {
		if verb == "VendorCall" {
			return ci.ResourceBusy
		}
		return nil
	})
	_, err := call(nil)
	kit.WantExactly(t, err, "CA.VendorCall that fails in the driver", ci.ResourceBusy)
	s.probe.handle(nil)
}
