package usersuite

import (
	"os"
	"slices"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Processes against each other. (SAS 2.4.)
var isolations = area()

var _ = isolations.Add("user.isolation.handles",
	"handles of one process in another one, and handles of destroyed objects", isolationHandles, req.SAS2_4_10)

func isolationHandles(t *validate.T) {
	s := newStage(t)
	owner, thief := s.speaker(), s.speaker()
	mine := owner.basics()
	live := s.probe.living()
	refused := func(h schema.Handle, what string) {
		err := thief.do(schema.CmdDestroy, &schema.Object{Handle: h}, &schema.DestroyReply{})
		kit.WantExactly(t, err, "a destroy with "+what, h.Kind().Invalid())
	}
	for _, h := range []schema.Handle{mine.cq, mine.pd, mine.ca, mine.queue} {
		refused(h, "the handle of another process")
		refused(schema.MakeHandle(h.Kind(), h.Generation()+1, h.Index()), "a handle of another generation")
		refused(schema.MakeHandle(h.Kind(), h.Generation(), h.Index()+1000), "a handle that nobody has")
	}
	err := thief.do(schema.CmdCreateCQ, &schema.CreateCQ{PD: mine.pd, Size: 4}, &schema.CreateCQReply{})
	kit.WantExactly(t, err, "PD.CreateCQ in the PD of another process", ci.InvalidPDHandle)
	kit.Equal(t, "CQs at the driver", s.probe.living()["CQ"], live["CQ"])

	t.Step("handles beyond those of the process")
	thief.basics()
	refused(owner.createCQ(mine), "the handle of another process")
	kit.OK(t, owner.do(schema.CmdQueryCQ, &schema.CQ{CQ: mine.cq}, &schema.QueryCQReply{}), "CQ.Query of the owner")

	t.Step("a handle of a destroyed object")
	kit.OK(t, owner.do(schema.CmdDestroy, &schema.Object{Handle: mine.cq}, &schema.DestroyReply{}), "CQ.Destroy")
	again := owner.createCQ(mine)
	err = owner.do(schema.CmdQueryCQ, &schema.CQ{CQ: mine.cq}, &schema.QueryCQReply{})
	kit.WantExactly(t, err, "CQ.Query of a destroyed CQ whose place is used again", ci.InvalidCQHandle)
	kit.OK(t, owner.do(schema.CmdQueryCQ, &schema.CQ{CQ: again}, &schema.QueryCQReply{}), "CQ.Query of the new CQ")
}

// speaker is a client that speaks the protocol without package ual.
type speaker struct {
	s    *stage
	c    *native.Conn
	buf  []byte
	next uint64
	// files are the descriptors of the last reply.
	files []*os.File
}

// speaker connects a client.
func (s *stage) speaker() *speaker {
	defer s.t.Setup()()
	x := s.silent()
	kit.OK(s.t, x.do(schema.CmdHello, &schema.Hello{Version: schema.Version, PointerBits: 64, Name: "certifier"},
		&schema.HelloReply{}), "Hello")
	return x
}

// silent is speaker for a client that has not sent Hello.
func (s *stage) silent() *speaker {
	x := &speaker{s: s, c: s.connect(), buf: make([]byte, schema.MaxMessage)}
	s.t.Cleanup(func() {
		x.c.Close()
		CloseFiles(x.files)
	})
	return x
}

// do executes a request with descriptors.
func (x *speaker) do(cmd schema.Command, request, reply any, files ...*os.File) error {
	body, err := x.execute(cmd, native.Append(nil, request), files...)
	if err != nil {
		return err
	}
	return native.Parse(body, reply)
}

// execute executes a request with a body, and returns the body of the reply to a request that succeeded.
func (x *speaker) execute(cmd schema.Command, body []byte, files ...*os.File) ([]byte, error) {
	h, body, err := x.exchange(cmd, body, files...)
	if err != nil {
		return nil, err
	}
	if h.Status == 0 {
		return body, nil
	}
	var e schema.ErrorReply
	if err := native.Parse(body, &e); err != nil {
		return nil, err
	}
	return nil, &ci.Error{Verb: e.Verb, Status: h.Status, Detail: e.Detail}
}

// exchange sends a request with a body and descriptors, and returns the reply. The error is that of the connection.
func (x *speaker) exchange(cmd schema.Command, body []byte, files ...*os.File) (native.Header, []byte, error) {
	x.next++
	m := append(native.Start(nil), body...)
	if err := native.Finish(m, native.Header{Command: cmd, ID: x.next}); err != nil {
		return native.Header{}, nil, err
	}
	return x.raw(m, files...)
}

// raw sends a message and returns the reply.
func (x *speaker) raw(m []byte, files ...*os.File) (native.Header, []byte, error) {
	x.s.trace.order()
	if err := x.c.Send(m, files); err != nil {
		return native.Header{}, nil, err
	}
	CloseFiles(x.files)
	n, theirs, err := x.c.Recv(x.buf)
	x.s.trace.order()
	x.files = theirs
	if err != nil {
		return native.Header{}, nil, err
	}
	return native.ParseHeader(slices.Clone(x.buf[:n]))
}

// handles are those of one object of several kinds.
type handles struct{ queue, ca, pd, cq schema.Handle }

// basics creates one object of several kinds.
func (x *speaker) basics() (h handles) {
	t := x.s.t
	defer t.Setup()()
	var r schema.Created
	kit.OK(t, x.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, &r), "CreateEventQueue")
	h.queue = r.Handle
	kit.OK(t, x.do(schema.CmdOpenCA, &schema.OpenCA{GUID: x.s.guids[0], Async: h.queue}, &r), "HCA.OpenCA")
	h.ca = r.Handle
	kit.OK(t, x.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: h.ca}, &r), "CA.AllocatePD")
	h.pd = r.Handle
	h.cq = x.createCQ(h)
	return h
}

func (x *speaker) createCQ(h handles) schema.Handle {
	var r schema.CreateCQReply
	kit.OK(x.s.t, x.do(schema.CmdCreateCQ, &schema.CreateCQ{PD: h.pd, Size: 4}, &r), "PD.CreateCQ")
	return r.Handle
}

var _ = isolations.Add("user.isolation.events",
	"completion and asynchronous events of two processes reach their own contexts", isolationEvents, req.SAS2_4_11)

func isolationEvents(t *validate.T) {
	s := newStage(t)
	const rounds = 5
	type process struct {
		ca     *kit.CA
		cq     ci.CQ
		qp     *kit.QP
		buf    *kit.Buf
		called chan any
		wrong  atomic.Int32
	}
	list := make([]*process, 3)
	for i := range list {
		p := &process{ca: s.app().open(), called: make(chan any, 8)}
		list[i] = p
		pd := p.ca.PD()
		cq := p.ca.CQWith(pd, ci.CQCreate{Size: 16, Context: p, OnCompletion: func(arg any) {
			if arg != p {
				p.wrong.Add(1)
			}
			p.called <- arg
		}})
		p.cq, p.qp = cq.CQ, p.ca.QP(pd, cq, cq, kit.Depth(4), kit.SGEs(1))
		p.buf = p.ca.Buf(pd, 64, kit.AllAccess)
	}
	for range rounds {
		for i, p := range list {
			kit.OK(t, p.cq.Notify(ci.NotifyNext), "CQ.Notify")
			kit.OK(t, p.qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: p.ca.Port.Num}),
				"QP.Modify to Init")
			_, err := p.qp.PostRecv([]ci.RecvWR{{ID: uint64(i), SGL: p.buf.SGL(0, 8)}})
			kit.OK(t, err, "QP.PostRecv")
			kit.OK(t, p.qp.Modify(ci.ToError()), "QP.Modify to Error, which flushes the receive")
			s.await("completion events of the process whose CQ has an entry", "one callback", func() string {
				if len(p.called) == 0 {
					return "none"
				}
				return ""
			})
			kit.Equal(t, "the context of the callback is the CQ's", <-p.called, any(p))
			for j, o := range list {
				kit.True(t, len(o.called) == 0, "completion events of the other processes", "none",
					"process %d has one",
					j)
			}
			var wc [4]ci.WC
			n, err := p.cq.Poll(wc[:])
			kit.OK(t, err, "CQ.Poll")
			kit.Equal(t, "completions", n, 1)
			kit.Equal(t, "WC.ID", wc[0].ID, uint64(i))
			kit.OK(t, p.qp.Modify(ci.ToReset()), "QP.Modify to Reset")
		}
	}
}
