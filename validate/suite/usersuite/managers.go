package usersuite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/kproxy/schema"
	"ciddk/kproxy/services"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// manager is a connection manager of the case. It begins connections, whose outcome the case says.
type manager struct {
	cm.Service

	mu   sync.Mutex
	err  error // of StartConnect
	cfg  cm.ConnectConfig
	done func(cm.Conn, error)
	ctx  context.Context
}

func (m *manager) StartConnect(ctx context.Context, cfg cm.ConnectConfig, done func(cm.Conn, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cfg, m.done, m.ctx = cfg, done, ctx
	return m.err
}

// fails makes the next connections fail with an error, or with none.
func (m *manager) fails(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// last returns what the last connection was begun with.
func (m *manager) last() (context.Context, cm.ConnectConfig, func(cm.Conn, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ctx, m.cfg, m.done
}

// managed is a connection of it. It records the calls, and fails them with an error.
type managed struct {
	cm.Conn
	log  *trace
	wait time.Duration // of TimeWait

	mu      sync.Mutex
	err     error
	done    func(error) // of the last step
	request *cm.Request // result of Request
}

func (c *managed) call(format string, args ...any) error {
	c.log.add(format, args...)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// step is call for a step.
func (c *managed) step(done func(error), format string, args ...any) error {
	c.mu.Lock()
	c.done = done
	c.mu.Unlock()
	return c.call(format, args...)
}

// end ends the last step.
func (c *managed) end(err error) {
	c.mu.Lock()
	done := c.done
	c.mu.Unlock()
	done(err)
}

func (c *managed) fails(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *managed) Confirm(p []byte) error              { return c.call("Confirm %q", p) }
func (c *managed) Established() error                  { return c.call("Established") }
func (c *managed) Delay(d mad.TimeExp, p []byte) error { return c.call("Delay %d %q", d, p) }
func (c *managed) Handoff(id mad.ServiceID) error      { return c.call("Handoff %#x", uint64(id)) }
func (c *managed) AnswerDisconnect(p []byte) error     { return c.call("AnswerDisconnect %q", p) }
func (c *managed) Migrated() error                     { return c.call("Migrated") }
func (c *managed) Close() error                        { c.log.add("Close"); return nil }
func (c *managed) Reject(r mad.RejReason, info, p []byte) error {
	return c.call("Reject %d %q %q", r, info, p)
}

func (c *managed) AnswerAlternate(s mad.APRStatus, info, p []byte) error {
	return c.call("AnswerAlternate %d %q %q", s, info, p)
}

func (c *managed) StartDisconnect(_ context.Context, p []byte, done func([]byte, error)) error {
	return c.step(func(err error) { done([]byte("bye"), err) }, "StartDisconnect %q", p)
}

func (c *managed) StartAccept(_ context.Context, cfg cm.AcceptConfig, done func(error)) error {
	return c.step(done, "StartAccept QP %#x %q", uint32(cfg.QP.Num), cfg.Private)
}

func (c *managed) StartLoadAlternate(_ context.Context, cfg cm.AlternateConfig, done func(*mad.APR, error)) error {
	return c.step(func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(&mad.APR{Status: 3}, nil)
	}, "StartLoadAlternate %d %q", cfg.Path.RemoteLID, cfg.Private)
}

func (c *managed) TimeWait() time.Duration {
	c.log.add("TimeWait")
	return c.wait
}
func (*managed) ID() uint32       { return 0x11223344 }
func (*managed) RemoteID() uint32 { return 0x55667788 }
func (*managed) State() cm.State  { return cm.StateREPRcvd }
func (*managed) Reply() *mad.REP  { return nil }

func (c *managed) Request() *cm.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.request
}

func (c *managed) QPAttr(to ci.QPState) (ci.QPField, ci.QPAttr, error) {
	return 0x1234, ci.QPAttr{State: to, DestNum: 77}, c.call("QPAttr %d", to)
}

func (c *managed) AlternateAttr() (ci.QPField, ci.QPAttr, error) {
	return 0x5678, ci.QPAttr{DestNum: 78}, c.call("AlternateAttr")
}

var _ = servings.Case(validate.Case{
	ID: "user.service.manager",
	Title: "connections of a process, at the connection manager and back: each call with its data, each outcome and " +
		"error, events, and outcomes that come too late",
	Run: servingManager,
}, req.SAS2_4_10)

func servingManager(t *validate.T) {
	s := newStage(t)
	m := new(manager)
	s.servedBy(func(cfg *services.Config) { m.Service, cfg.CM = cfg.CM, m })
	p := s.patron()
	w := p.whole(0, p.queue)
	log := new(trace)
	op := uint64(0)
	connect := func() (schema.Handle, error) {
		op++
		return p.create(schema.CmdCMConnect, &schema.CMConnect{Services: p.services, Op: op, ServiceID: serviceA,
			Primary: schema.CMPath{Port: p.port, PKey: 0xffff}, QP: schema.CMQP{Num: w.num, Type: ci.RC},
			Private: []byte("hello"), MaxRetries: 5})
	}
	outcome := func(h schema.Handle, what string) schema.Notice {
		n := p.notice(h, what)
		kit.Equal(t, "kind and operation of the notice of "+what, [2]uint64{uint64(n.Kind), n.Op},
			[2]uint64{uint64(schema.NoticeOutcome), op})
		return n
	}
	status := func(e schema.ServiceError) string {
		return fmt.Sprintf("%d %v %d %d %d %v %q %q", e.Code, ci.Status(e.Status), e.Number, e.Reason, e.Message, e.GID,
			e.Info, e.Private)
	}

	t.Step("outcomes")
	gid := ci.GID{1, 15: 2}
	apr := mad.APR{Status: 4}
	var aprBytes [mad.CMDataLen]byte
	apr.Put(aprBytes[:])
	type e = schema.ServiceError
	i, private := []byte("info"), []byte("private")
	for what, v := range map[string]struct {
		err  error
		want e
	}{
		"none": {nil, e{}},
		"a status": {&ci.Error{Verb: "x", Status: ci.InvalidPKey},
			e{Code: schema.ErrorStatus, Status: uint32(ci.InvalidPKey)}},
		"another":    {errors.New("other"), e{Code: schema.ErrorOther}},
		"a cancel":   {context.Canceled, e{Code: schema.ErrorCanceled}},
		"a deadline": {context.DeadlineExceeded, e{Code: schema.ErrorCanceled}},
		"the end":    {cm.ErrClosed, e{Code: schema.ErrorClosed}},
		"no answer":  {cm.ErrTimeout, e{Code: schema.ErrorTimeout}},
		"a rejection": {&cm.RejectError{Reason: 28, Message: 1, Info: i, Private: private},
			e{Code: schema.ErrorReject, Reason: 28, Message: 1, Info: i, Private: private}},
		"no way": {&cm.UnreachableError{To: gid, Cause: syscall.EHOSTUNREACH},
			e{Code: schema.ErrorUnreachable, GID: gid, Number: uint32(syscall.EHOSTUNREACH)}},
		"no way at all": {&cm.UnreachableError{To: gid, Cause: errors.New("x")},
			e{Code: schema.ErrorUnreachable, GID: gid}},
		"another path": {&cm.AlternateError{APR: apr}, e{Code: schema.ErrorAlternate, Info: aprBytes[:]}},
		"a lookup": {&cm.LookupError{Status: 2, Info: i, Private: private},
			e{Code: schema.ErrorLookup, Reason: 2, Info: i, Private: private}},
		"a transfer":     {&mads.RMPPError{Status: 120}, e{Code: schema.ErrorRMPP, Number: 120}},
		"their transfer": {&mads.RMPPError{Status: 121, Peer: true}, e{Code: schema.ErrorRMPP, Number: 121, Reason: 1}},
	} {
		h, err := connect()
		kit.OK(t, err, "Service.Connect")
		_, cfg, done := m.last()
		kit.Equal(t, "service, QP, data and retries at the manager", fmt.Sprintf("%#x %#x %q %d", uint64(cfg.Service),
			uint32(cfg.QP.Num), cfg.Private, cfg.MaxRetries), fmt.Sprintf("%#x %#x %q %d", uint64(serviceA),
			uint32(w.num), "hello", 5))
		var c cm.Conn
		if v.err == nil {
			c = &managed{log: log}
		}
		done(c, v.err)
		n := outcome(h, "an outcome with "+what)
		n.Error.Verb, n.Error.Detail = "", ""
		kit.Equal(t, "error of an outcome with "+what, status(n.Error), status(v.want))
		p.destroyed(h)
		want := []string{}
		if v.err == nil {
			want = append(want, "Close")
		}
		log.want(t, "calls of a connection that is destroyed, after "+what, want...)
	}
	m.fails(ci.InvalidGID)
	for range 3 {
		_, err := connect()
		kit.WantExactly(t, err, "Service.Connect that fails at the manager", ci.InvalidGID)
	}
	m.fails(nil)

	t.Step("calls")
	h, err := connect()
	kit.OK(t, err, "Service.Connect")
	_, cfg, done := m.last()
	c := &managed{log: log, wait: time.Second}
	done(c, nil)
	outcome(h, "a connection")
	call := func(what schema.CMCall, value uint64) error {
		return p.do(schema.CmdCMConnCall, &schema.CMConnCall{Conn: h, Call: what, Value: value, Info: i,
			Private: private, Op: op}, &schema.None{})
	}
	for _, v := range []struct {
		call  schema.CMCall
		value uint64
		want  string
	}{
		{schema.CMConfirm, 0, `Confirm "private"`},
		{schema.CMEstablished, 0, "Established"},
		{schema.CMDelay, 5, `Delay 5 "private"`},
		{schema.CMDelay, 255, `Delay 255 "private"`},
		{schema.CMDelay, 256, `Delay 255 "private"`},
		{schema.CMReject, 28, `Reject 28 "info" "private"`},
		{schema.CMReject, 65535, `Reject 65535 "info" "private"`},
		{schema.CMReject, 65536, `Reject 65535 "info" "private"`},
		{schema.CMHandoff, 0x1122334455667788, "Handoff 0x1122334455667788"},
		{schema.CMAnswerAlternate, 7, `AnswerAlternate 7 "info" "private"`},
		{schema.CMAnswerAlternate, 255, `AnswerAlternate 255 "info" "private"`},
		{schema.CMAnswerAlternate, 1 << 63, `AnswerAlternate 255 "info" "private"`},
		{schema.CMAnswerDisconnect, 0, `AnswerDisconnect "private"`},
		{schema.CMMigrated, 0, "Migrated"},
	} {
		kit.OK(t, call(v.call, v.value), "a call of the connection: "+v.want)
		log.want(t, "calls at the manager", v.want)
		c.fails(ci.ResourceBusy)
		kit.WantExactly(t, call(v.call, v.value), "a call of the connection that fails: "+v.want, ci.ResourceBusy)
		log.want(t, "calls at the manager", v.want)
		c.fails(nil)
	}
	steps := map[string]func() error{
		`StartDisconnect "private"`: func() error { return call(schema.CMDisconnect, 0) },
		fmt.Sprintf(`StartAccept QP %#x "private"`, uint32(w.num)): func() error {
			return p.do(schema.CmdCMReply, &schema.CMReply{Conn: h, Op: op, QP: schema.CMQP{Num: w.num, Type: ci.RC},
				Private: private}, &schema.None{})
		},
		`StartLoadAlternate 9 "private"`: func() error {
			return p.do(schema.CmdCMLoadAlternate, &schema.CMLoadAlternate{Conn: h, Op: op, Private: private,
				Path: schema.CMPath{RemoteLID: 9}}, &schema.None{})
		},
	}
	for want, start := range steps {
		for _, result := range []error{nil, &ci.Error{Verb: "x", Status: ci.InvalidState}} {
			op++
			kit.OK(t, start(), "a step of the connection: "+want)
			log.want(t, "calls at the manager", want)
			kit.WantExactly(t, start(), "a step with the number of one that is pending", ci.InvalidParameter)
			log.want(t, "calls at the manager")
			c.end(result)
			n := outcome(h, "the step "+want)
			kit.Equal(t, "error of the step "+want, n.Error.Status, uint32(ci.StatusOf(result)))
			if want[5] == 'D' {
				kit.Equal(t, "data of the end of a connection", string(n.Private), "bye")
			}
			if want[5] == 'L' {
				kit.Equal(t, "whether there is a message of the step "+want, len(n.Message) > 0, result == nil)
			}
			op++
			c.fails(ci.ResourceBusy)
			for range 70 { // more than may be pending
				kit.WantExactly(t, start(), "a step that does not begin: "+want, ci.ResourceBusy)
			}
			c.fails(nil)
			log.take()
		}
	}
	var attr schema.CMConnReply
	kit.OK(t, p.do(schema.CmdCMConn, &schema.CMConn{Conn: h}, &attr), "the attributes of a connection")
	kit.Equal(t, "attributes of a connection", fmt.Sprintf("%+v", attr), fmt.Sprintf("%+v", schema.CMConnReply{
		ID: 0x11223344, RemoteID: 0x55667788, State: uint32(cm.StateREPRcvd), TimeWait: int64(time.Second)}))
	for _, has := range []bool{true, false} {
		path := func(n uint8) (cm.Path, schema.CMPath) {
			return cm.Path{Port: mads.Port{CA: 0x10, Num: n}, PKey: 0x8001, RemoteLID: 0x33, MTU: 3,
					LifeTime: mad.TimeExp(n + 1)}, schema.CMPath{Port: schema.PortID{CA: 0x10, Num: n}, PKey: 0x8001,
					RemoteLID: 0x33, MTU: 3, LifeTime: n + 1}
		}
		primary, wantPrimary := path(1)
		alternate, wantAlternate := path(5)
		q := &cm.Request{REQ: mad.REQ{LocalCommID: 7, StartingPSN: 9}, Primary: primary,
			From: mads.Address{QPN: 1, PKeyIndex: 4}}
		want := schema.CMConnReply{ID: 0x11223344, RemoteID: 0x55667788, State: uint32(cm.StateREPRcvd),
			TimeWait: int64(time.Second), Primary: wantPrimary, From: schema.MADAddress{QPN: 1, PKeyIndex: 4}}
		q.Put(want.REQ[:])
		if has {
			q.Alternate, want.Alternate, want.HasAlternate = &alternate, wantAlternate, true
		}
		c.mu.Lock()
		c.request = q
		c.mu.Unlock()
		attr = schema.CMConnReply{}
		kit.OK(t, p.do(schema.CmdCMConn, &schema.CMConn{Conn: h}, &attr), "the attributes of a connection")
		kit.Equal(t, fmt.Sprintf("attributes of a connection with a request, alternate path: %v", has),
			fmt.Sprintf("%+v", attr), fmt.Sprintf("%+v", want))
	}
	log.take()
	for _, isAlternate := range []bool{false, true} {
		var qp schema.CMQPAttrReply
		request := &schema.CMQPAttr{Conn: h, State: ci.QPRTR, Alternate: isAlternate}
		kit.OK(t, p.do(schema.CmdCMQPAttr, request, &qp), "the attributes of a QP")
		want := schema.CMQPAttrReply{Set: 0x1234, Attr: schema.NewQPAttr(&ci.QPAttr{State: ci.QPRTR, DestNum: 77})}
		text := fmt.Sprintf("QPAttr %d", ci.QPRTR)
		if isAlternate {
			want = schema.CMQPAttrReply{Set: 0x5678, Attr: schema.NewQPAttr(&ci.QPAttr{DestNum: 78})}
			text = "AlternateAttr"
		}
		kit.Equal(t, "attributes of a QP", fmt.Sprintf("%+v", qp), fmt.Sprintf("%+v", want))
		log.want(t, "calls at the manager", text)
		c.fails(ci.InvalidState)
		kit.WantExactly(t, p.do(schema.CmdCMQPAttr, request, &qp), "the attributes of a QP, which fail",
			ci.InvalidState)
		c.fails(nil)
		log.take()
	}

	t.Step("events")
	const many = 20
	for range many { // which a peer can repeat
		cfg.OnEvent(c, cm.Event{Type: cm.EventDelayed, Private: []byte("first")})
		cfg.OnEvent(c, cm.Event{Type: cm.EventAlternate, LAP: new(mad.LAP), Path: &cm.Path{RemoteLID: 12}})
	}
	cfg.OnEvent(c, cm.Event{Type: cm.EventDelayed, Private: []byte("last")})
	for range 2 {
		cfg.OnEvent(c, cm.Event{Type: cm.EventRejected, Err: cm.ErrTimeout})
	}
	for k, v := range []struct {
		typ     cm.EventType
		private string
		code    schema.ErrorCode
		hasPath bool
	}{{cm.EventAlternate, "", 0, true}, {cm.EventDelayed, "last", 0, false},
		{cm.EventRejected, "", schema.ErrorTimeout, false}, {cm.EventRejected, "", schema.ErrorTimeout, false}} {
		n := p.notice(h, "an event")
		kit.Equal(t, fmt.Sprintf("event %d", k), fmt.Sprint(n.Kind, cm.EventType(n.Event), string(n.Private),
			n.Error.Code, n.HasPath, len(n.Message) > 0, n.Waiting), fmt.Sprint(schema.NoticeEvent, v.typ, v.private,
			v.code, v.hasPath, v.hasPath, 3-k))
	}

	t.Step("outcomes that come too late")
	for _, result := range []error{nil, ci.RemoteError} {
		late, err := connect()
		kit.OK(t, err, "Service.Connect")
		ctx, _, done := m.last()
		kit.OK(t, ctx.Err(), "the context of a request")
		p.destroyed(late)
		kit.True(t, ctx.Err() != nil, "the context of a request that was destroyed", "its end", "none")
		var want []string
		if result == nil {
			want = []string{"TimeWait", "Close"}
			done(&managed{log: log}, nil)
		} else {
			done(nil, result)
		}
		log.want(t, "calls of a connection that comes too late", want...)
	}
	t.Step("the end of the process")
	unanswered, err := connect()
	kit.OK(t, err, "Service.Connect")
	kit.Equal(t, "kind of the handle of a connection", unanswered.Kind(), schema.KindConn)
	ctx, _, _ := m.last()
	p.c.Close()
	s.await("the end of a connection and of a request after that of the process", "TimeWait and Close", func() string {
		if log.count("Close") == 1 && log.count("TimeWait") == 1 && ctx.Err() != nil {
			return ""
		}
		return fmt.Sprint(log.count("TimeWait"), log.count("Close"), ctx.Err())
	})
}

// watched is MAD services whose ports the case says.
type watched struct {
	mads.Service
	f       func(mads.Port, bool)
	stopped int
}

func (w *watched) Watch(f func(mads.Port, bool)) func() {
	w.f = f
	return func() { w.stopped++ }
}

var _ = servings.Case(validate.Case{
	ID:    "user.service.adapters",
	Title: "adapters and ports that come and go: an event for each change, and another serial number each time",
	Needs: validate.Needs{HCAs: 2},
	Run:   servingAdapters,
}, req.SAS2_4_11)

func servingAdapters(t *validate.T) {
	s := newStage(t)
	m := new(watched)
	t.Cleanup(func() { // after the end of the services
		if m.f != nil && m.stopped != 1 {
			t.Report(validate.Failure{Where: "calls of the function that ends the watch of ports", Expected: "1",
				Got: fmt.Sprint(m.stopped)})
		}
	})
	s.servedBy(func(cfg *services.Config) { m.Service, cfg.MAD = cfg.MAD, m })
	if m.f == nil {
		t.Skip("no services")
	}
	x := s.direct()
	queue, events := x.queue()
	_ = events.f.SetReadDeadline(time.Now().Add(t.Remaining()))
	const token = 42
	h := x.made("services.Open", schema.CmdOpenServices, &schema.OpenServices{Async: queue, Token: token})
	event := func(where string) {
		b := make([]byte, 2*schema.EventSize)
		n, err := events.f.Read(b)
		kit.OK(t, err, "the event of "+where)
		e, err := schema.ParseEvent(b[:n])
		kit.OK(t, err, "the form of the event of "+where)
		kit.Equal(t, "the event of "+where, e, schema.Event{Token: token, Kind: schema.EventNotice})
	}
	query := func() (r schema.QueryServicesReply) {
		kit.OK(t, x.do(schema.CmdQueryServices, &schema.Services{Services: h}, &r), "services.Query")
		return r
	}
	first := query()
	kit.Equal(t, "adapters", len(first.HCAs), len(s.guids))
	kit.Equal(t, "ports", len(first.Ports), 0)
	serials := map[uint64]bool{}
	use := func(serial uint64, what string) {
		kit.True(t, !serials[serial], "the serial number of "+what, "a new one", "%d", serial)
		serials[serial] = true
	}
	for _, a := range first.HCAs {
		use(a.Serial, "an adapter")
	}
	for range 3 {
		kit.OK(t, s.al.Deregister(s.guids[1]), "Registrar.Deregister")
		event("an adapter that goes")
		kit.Equal(t, "adapters after one has gone", len(query().HCAs), len(s.guids)-1)
		kit.OK(t, s.al.Register(s.hcas[1]), "Registrar.Register")
		event("an adapter that comes")
		list := query().HCAs
		kit.Equal(t, "adapters after one has come", len(list), len(s.guids))
		kit.Equal(t, "the adapter that came last", list[len(list)-1].GUID, s.guids[1])
		use(list[len(list)-1].Serial, "an adapter that comes back")
		kit.Equal(t, "the serial number of the adapter that stays", list[0], first.HCAs[0])
	}
	port, other := mads.Port{CA: s.guids[0], Num: 1}, mads.Port{CA: s.guids[0], Num: 2}
	m.f(other, true)
	event("a port that comes")
	stays := query().Ports
	kit.Equal(t, "ports", fmt.Sprint(len(stays), stays[0].Port.Num), "1 2")
	use(stays[0].Serial, "a port")
	for range 3 {
		m.f(port, true)
		event("a port that comes")
		list := query().Ports
		kit.Equal(t, "ports after one has come", len(list), 2)
		kit.Equal(t, "the port that stays", list[0], stays[0])
		kit.Equal(t, "the port that came", list[1].Port, schema.PortID{CA: port.CA, Num: 1})
		use(list[1].Serial, "a port that comes back")
		m.f(port, false)
		event("a port that goes")
		kit.Equal(t, "ports after one has gone", fmt.Sprint(query().Ports), fmt.Sprint(stays))
	}
	m.f(port, true)
	m.f(port, false) // before the process asks
	event("two changes")
	kit.Equal(t, "ports after two changes", fmt.Sprint(query().Ports), fmt.Sprint(stays))
	m.f(port, true)
	event("a change after two")
	kit.Equal(t, "ports", len(query().Ports), 2)
}

// registering is MAD services that record the agents of the daemon.
type registering struct {
	mads.Service
	mu   sync.Mutex
	list []mads.AgentConfig
}

func (r *registering) Register(cfg mads.AgentConfig) (mads.Agent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, cfg)
	return r.Service.Register(cfg)
}

// last returns the agent that was registered last.
func (r *registering) last() mads.AgentConfig {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[len(r.list)-1]
}

var _ = servings.Case(validate.Case{
	ID:    "user.service.undelivered",
	Title: "reports of datagrams that were not delivered: to processes that ask for them, with a bound",
	Run:   servingUndelivered,
}, req.SAS2_4_11)

func servingUndelivered(t *validate.T) {
	s := newStage(t)
	m := new(registering)
	s.servedBy(func(cfg *services.Config) { m.Service, cfg.MAD = cfg.MAD, m })
	p := s.patron()
	const depth = 2
	r := &schema.RegisterAgent{Services: p.services, Port: p.port, Class: uint8(classFirst), Version: 1, Queue: depth}
	p.made("mads.Register", schema.CmdRegisterAgent, r)
	kit.True(t, m.last().OnUndelivered == nil, "an agent of a process that asks for no reports", "none", "some")
	r.Class, r.Undelivered = uint8(classSecond), true
	agent := p.made("mads.Register", schema.CmdRegisterAgent, r)
	report := m.last().OnUndelivered
	kit.True(t, report != nil, "an agent of a process that asks for reports", "a function for them", "none")
	for round := range 2 {
		var sent [depth + 1][]byte
		for i := range sent {
			sent[i] = datagram(classSecond, uint32(10*round+i))[:mad.HeaderLen+i]
			b := bytes.Clone(sent[i])
			report(&mads.Undelivered{To: ci.GID{15: byte(i + 1)}, MAD: b, Err: &ci.Error{Status: ci.RemoteError}})
			clear(b) // it was valid during the call
		}
		for i := range depth {
			x := p.await(agent, "a report")
			where := fmt.Sprintf("report %d", i)
			kit.Equal(t, "kind, destination and error of "+where, fmt.Sprint(x.Kind, x.SGID, x.Error.Status, x.Op),
				fmt.Sprint(schema.MADUndelivered, ci.GID{15: byte(i + 1)}, uint32(ci.RemoteError), 0))
			kit.SameBytes(t, "datagram of "+where, x.Data, sent[i])
			dropped := 0
			if i == 0 {
				dropped = 1
			}
			kit.Equal(t, "reports dropped until "+where, x.Dropped, uint32(dropped))
		}
		x, err := p.take(agent, 0)
		kit.OK(t, err, "Agent.Recv")
		kit.Equal(t, "kind of what comes after the reports", x.Kind, schema.MADNone)
	}
}
