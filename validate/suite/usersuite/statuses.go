package usersuite

import (
	"fmt"
	"os"
	"slices"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = requests.Case(validate.Case{
	ID:    "user.request.statuses",
	Title: "each request of which one handle is wrong, and all others are right: the status is that of the kind",
	Run:   requestStatuses,
}, req.SAS2_4_10)

func requestStatuses(t *validate.T) {
	s := newStage(t)
	x := s.direct()
	queue, _ := x.queue()
	w := x.whole(0, queue)
	gone := map[schema.Kind]schema.Handle{}
	for _, h := range slices.Backward(x.whole(0, queue).list) {
		x.destroyed(h)
		gone[h.Kind()] = h
	}
	live := fmt.Sprint(s.probe.living())
	for _, c := range declared() {
		valid, ok := w.body(c)
		if !ok {
			continue
		}
		for _, m := range members(schema.Commands[c].Request, 0) {
			k, _, ok := handleOf(&m)
			if !ok {
				continue
			}
			own := w.of(k)
			for what, h := range map[string]schema.Handle{"names no object": schema.MakeHandle(k, 1, 5000),
				"is of another generation":      schema.MakeHandle(k, own.Generation()+1, own.Index()),
				"is that of a destroyed object": gone[k]} {
				if h == 0 || h == own {
					continue
				}
				body := slices.Clone(valid)
				m.put(body, uint64(h))
				head, _, err := x.exchange(c, body)
				where := fmt.Sprintf("the request %q whose %s %s", c, m.name, what)
				kit.OK(t, err, "the connection after "+where)
				kit.Equal(t, "status of "+where, head.Status, k.Invalid())
			}
		}
	}
	t.Step("private data with a descriptor that was not sent")
	calls := 0
	s.probe.handle(func(string, *ci.UserBuffer) error { calls++; return ci.InvalidCQSize })
	for _, c := range declared() {
		body, ok := w.body(c)
		fields := map[string]*member{}
		for _, m := range members(schema.Commands[c].Request, 0) {
			fields[m.name] = &m
		}
		if c == schema.CmdOpenCA {
			body, ok = newBody(schema.Commands[c].Request), true
			fields["GUID"].put(body, uint64(w.guid))
			fields["Async"].put(body, uint64(queue))
		}
		if !ok || fields["Files"] == nil || fields["OutCapacity"] == nil {
			continue
		}
		for _, present := range []uint64{0, 1} {
			fields["Files"].put(body, 1)
			fields["Present"].put(body, present)
			head, _, err := x.exchange(c, body)
			where := fmt.Sprintf("the request %q with a descriptor that was not sent", c)
			kit.OK(t, err, "the connection after "+where)
			kit.Equal(t, "status of "+where, head.Status, ci.InvalidParameter)
		}
	}
	s.probe.handle(nil)
	kit.Equal(t, "verbs of the driver for such requests", calls, 0)
	kit.Equal(t, "objects at the driver", fmt.Sprint(s.probe.living()), live)
}

var _ = quotas.Case(validate.Case{
	ID:    "user.quota.failures",
	Title: "creates that fail in the driver hold nothing of a quota of one object",
	Run:   quotaFailures,
}, req.SAS2_4_10)

func quotaFailures(t *validate.T) {
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) {
		cfg.Quota = kproxy.Quota{PDs: 1, CQs: 1, QPs: 1, SRQs: 1, AVs: 1, MWs: 1, Mcasts: 1, EventQueues: 1,
			Mappings: 1, QueueBytes: 4*64 + 2*(128+16)}
	})
	x := s.direct()
	queue, _ := x.queue()
	claims := t.Claims()
	var ca, pd, cq, qp schema.Handle
	var port schema.PortAttr
	const failed = ci.InsufficientMemory
	s.probe.handle(nil)
	for _, v := range []struct {
		verb    string
		cmd     schema.Command
		has     bool
		to      *schema.Handle // nil: the object is destroyed at once
		request func() any
	}{
		{"OpenCA", schema.CmdOpenCA, true, &ca, func() any { return &schema.OpenCA{GUID: s.guids[0], Async: queue} }},
		{"AllocatePD", schema.CmdAllocatePD, true, &pd, func() any { return &schema.AllocatePD{CA: ca} }},
		{"CreateCQ", schema.CmdCreateCQ, true, &cq, func() any {
			return &schema.CreateCQ{PD: pd, Size: 4, Completions: queue, Async: queue}
		}},
		{"CreateAV", schema.CmdCreateAV, claims.Has(ci.CapAV), nil, func() any {
			return &schema.CreateAV{PD: pd, Attr: (&whole{port: port}).loop()}
		}},
		{"CreateMW", schema.CmdCreateMW, claims.Has(ci.CapMW1), nil, func() any {
			return &schema.CreateMW{PD: pd, Type: uint32(ci.MWType1)}
		}},
		{"CreateSRQ", schema.CmdCreateSRQ, claims.Has(ci.CapSRQ), nil, func() any {
			return &schema.CreateSRQ{PD: pd, Attr: schema.SRQAttr{MaxWR: 2, MaxSGE: 1}, Async: queue}
		}},
		{"CreateQP", schema.CmdCreateQP, claims.Has(ci.CapUD), &qp, func() any {
			return &schema.CreateQP{PD: pd, SendCQ: cq, RecvCQ: cq, Async: queue, Type: ci.UD,
				Caps: schema.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}}
		}},
		{"AttachMcast", schema.CmdAttachMcast, claims.Has(ci.CapUD | ci.CapMulticast), nil, func() any {
			return (&whole{ud: qp, port: port}).group(1)
		}},
	} {
		if !v.has {
			continue
		}
		s.probe.handle(func(verb string, _ *ci.UserBuffer) error {
			if verb == v.verb {
				return failed
			}
			return nil
		})
		for i := range 5 {
			_, err := x.create(v.cmd, v.request())
			kit.WantExactly(t, err, fmt.Sprintf("%s that fails in the driver, %d", v.verb, i), failed)
		}
		s.probe.handle(nil)
		h, err := x.create(v.cmd, v.request())
		kit.OK(t, err, v.verb+" after failures, of exactly the quota")
		if v.cmd == schema.CmdOpenCA {
			var attr schema.CAAttr
			kit.OK(t, x.do(schema.CmdQueryCA, &schema.CA{CA: h}, &attr), "CA.Query")
			port = attr.Ports[0]
		}
		if v.to != nil {
			*v.to = h
			continue
		}
		x.destroyed(h)
	}
	t.Step("objects that others are made from, after failures")
	for _, h := range []schema.Handle{qp, cq, pd, ca, queue} {
		if h != 0 {
			x.destroyed(h)
		}
	}
}

var _ = servings.Case(validate.Case{
	ID: "user.service.full",
	Title: "lookup requests to a process that has no room for them are rejected, and the next one is passed when it " +
		"has; a command that no front end sends",
	Run: servingFull,
}, req.SAS2_4_10)

func servingFull(t *validate.T) {
	s := newStage(t)
	s.withServices(func(cfg *kproxy.Config) { cfg.Quota.Connections = 1 })
	x, y := s.patron(), s.patron()
	to := x.loopback(s.app().open())
	l := y.made("Service.Listen", schema.CmdCMListen, &schema.CMListen{Services: y.services, ServiceID: serviceA,
		Datagram: true})
	accept := func(op uint64) {
		kit.OK(t, y.do(schema.CmdCMAccept, &schema.CMAccept{Listener: l, Op: op, Lookup: true}, &schema.None{}),
			"Listener.AcceptLookup")
	}
	look := func() (schema.Handle, error) {
		return x.create(schema.CmdCMLookup, &schema.CMLookup{Services: x.services, Op: 1, ServiceID: serviceA,
			Path: schema.CMPath{Port: x.port, AV: to.AV, PKey: 0xffff, RemoteLID: to.AV.DLID, MTU: ci.MTU1024,
				LifeTime: 10}, Timeout: 3600e9, Retries: 1})
	}
	var first schema.Notice
	for round := range uint64(3) {
		accept(2*round + 1)
		lookup, err := look()
		kit.OK(t, err, "Service.Lookup")
		_, err = look()
		kit.WantExactly(t, err, "Service.Lookup beyond the quota", ci.InsufficientResources)
		first = y.notice(l, "a listener with a lookup request")
		kit.Equal(t, "operation of a lookup request", first.Op, 2*round+1)
		x.destroyed(lookup)
		accept(2*round + 2)
		lookup, err = look()
		kit.OK(t, err, "Service.Lookup of a process without room for it")
		n := x.notice(lookup, "a lookup of a process without room for it")
		kit.Equal(t, "error and reason of a lookup of a process without room for it", fmt.Sprint(n.Error.Code,
			n.Error.Reason), fmt.Sprint(schema.ErrorLookup, uint16(mad.SIDRNoQP)))
		x.destroyed(lookup)
		y.destroyed(first.Object)
		lookup, err = look()
		kit.OK(t, err, "Service.Lookup of a process that has room again")
		n = y.notice(l, "a listener that has room again")
		kit.Equal(t, "operation of a lookup request after one that was rejected", n.Op, 2*round+2)
		y.destroyed(n.Object)
		x.destroyed(lookup)
	}
	c := s.session(peer(os.Getuid()))
	_, err := c.do(schema.CmdOpenServices, &struct{}{})
	kit.WantExactly(t, err, "a command that is none of the services", ci.Unsupported)
}
