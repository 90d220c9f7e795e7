package usersuite

import (
	"errors"
	"fmt"
	"os"
	"time"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Descriptors in messages. (SAS 2.4.)
var descriptors = area()

// pipe is a pipe whose write end is sent.
type pipe struct {
	t    *validate.T
	r, w *os.File
}

func newPipe(t *validate.T) *pipe {
	r, w, err := os.Pipe()
	if err != nil {
		t.Harness("a pipe: %v", err)
	}
	return &pipe{t, r, w}
}

// pipes returns n pipes and their write ends.
func pipes(t *validate.T, n int) (list []*pipe, ends []*os.File) {
	for range n {
		p := newPipe(t)
		list, ends = append(list, p), append(ends, p.w)
	}
	return list, ends
}

// closed closes the pipe, and expects that nobody else has its write end any more.
func (p *pipe) closed(where string) {
	p.w.Close()
	_ = p.r.SetReadDeadline(time.Now().Add(p.t.Remaining()))
	_, err := p.r.Read(make([]byte, 1))
	p.r.Close()
	kit.True(p.t, !errors.Is(err, os.ErrDeadlineExceeded), "the descriptor of "+where, "closed by the daemon", "open")
}

var _ = descriptors.Case(validate.Case{
	ID:    "user.descriptor.count",
	Title: "every number of descriptors in a message, and of those that belong to private data",
	Run:   descriptorCount,
}, req.SAS2_4_06)

func descriptorCount(t *validate.T) {
	s := newStage(t)
	x := s.speaker()
	own := x.basics()
	var seen []int
	s.probe.handle(func(_ string, ub *ci.UserBuffer) error {
		reply(ub)
		for _, f := range ub.InFiles {
			if n, err := f.Write([]byte{byte(len(ub.InFiles))}); n != 1 || err != nil {
				return fmt.Errorf("a descriptor of private data: %w", err)
			}
		}
		seen = append(seen, len(ub.InFiles))
		return nil
	})
	for sent := range schema.MaxFiles + 1 {
		for named := range schema.MaxFiles + 3 {
			where := fmt.Sprintf("PD.CreateCQ with %d descriptors, of which %d are of private data", sent, named)
			list, ends := pipes(t, sent)
			h, _, err := x.exchange(schema.CmdCreateCQ, encode(&schema.CreateCQ{PD: own.pd, Size: 4,
				User: schema.UserBuffer{Present: true, Files: uint8(named)}}), ends...)
			if named > sent {
				x.want(where, own, h, err, ci.InvalidParameter)
				kit.Equal(t, "calls of the driver for "+where, len(seen), 0)
			} else {
				kit.OK(t, err, "the connection after "+where)
				kit.Equal(t, "status of "+where, h.Status, ci.Status(0))
				kit.Equal(t, "descriptors at the driver of "+where, fmt.Sprint(seen), fmt.Sprint([]int{named}))
			}
			seen = nil
			for i, p := range list {
				p.w.Close()
				if named <= sent && i >= sent-named { // the last ones
					b := make([]byte, 1)
					_ = p.r.SetReadDeadline(time.Now().Add(t.Remaining()))
					n, err := p.r.Read(b)
					isWritten := n == 1 && err == nil && int(b[0]) == named
					kit.True(t, isWritten, fmt.Sprintf("descriptor %d of %s", i, where), "what the driver has written",
						"%d %v", n, err)
				}
				p.closed(where)
			}
		}
	}
	s.probe.handle(nil)
	t.Step("without private data")
	list, ends := pipes(t, 1)
	h, _, err := x.exchange(schema.CmdCreateCQ, encode(&schema.CreateCQ{PD: own.pd, Size: 4,
		User: schema.UserBuffer{Files: 1}}), ends...)
	x.want("descriptors of private data that are not there", own, h, err, ci.InvalidParameter)
	list[0].closed("a request without private data")
	t.Step("more than the request may carry")
	list, ends = pipes(t, 2)
	memory := make([]byte, 64)
	h, _, err = x.exchange(schema.CmdRegisterMR, encode(&schema.RegisterMR{PD: own.pd, Memory: schema.Memory{
		Addr: ci.Bytes(memory).Addr(), Length: 64, Access: ci.LocalWrite, Shared: true}}), ends...)
	x.want("PD.RegisterMR with 2 descriptors", own, h, err, ci.InvalidParameter)
	for _, p := range list {
		p.closed("PD.RegisterMR with 2 descriptors")
	}
	t.Step("a message of the data path")
	for c, body := range map[schema.Command][]byte{schema.CmdPoll: postBody(own.cq, 1),
		schema.CmdPeek: postBody(own.cq, 0)[:8]} {
		if c == schema.CmdPeek && !t.Claims().Has(ci.CapPeek) {
			continue
		}
		list, ends = pipes(t, schema.MaxFiles)
		h, _, err = x.exchange(c, body, ends...)
		kit.OK(t, err, "the connection")
		kit.Equal(t, fmt.Sprintf("status of %q with descriptors", c), h.Status, ci.Status(0))
		for _, p := range list {
			p.closed(c.String())
		}
	}
	t.Step("more than a message may carry")
	other := s.app().open()
	for _, n := range []int{schema.MaxFiles + 1, 2 * schema.MaxFiles, 253} {
		y := s.direct()
		list, ends = pipes(t, n)
		own := y.basics()
		_, _, err = y.exchange(schema.CmdQueryCQ, encode(&schema.CQ{CQ: own.cq}), ends...)
		kit.True(t, err != nil, fmt.Sprintf("a message with %d descriptors", n), "the end of the connection", "a reply")
		for _, p := range list {
			p.closed(fmt.Sprintf("a message with %d descriptors", n))
		}
		_, err = other.Query()
		kit.OK(t, err, "CA.Query of another process")
	}
}

// direct is speaker for a client without a relay between it and the daemon.
func (s *stage) direct() *speaker {
	defer s.t.Setup()()
	client, daemon := s.pair()
	s.serve(daemon)
	x := &speaker{s: s, c: client, buf: make([]byte, schema.MaxMessage)}
	s.t.Cleanup(func() {
		x.c.Close()
		CloseFiles(x.files)
	})
	kit.OK(s.t, x.do(schema.CmdHello, &good, &schema.HelloReply{}), "Hello")
	return x
}

// send sends a request, and does not receive the reply.
func (x *speaker) send(c schema.Command, body []byte) {
	x.next++
	m := append(native.Start(nil), body...)
	kit.OK(x.s.t, native.Finish(m, native.Header{Command: c, ID: x.next}), "native.Finish")
	x.s.trace.order()
	kit.OK(x.s.t, x.c.Send(m, nil), "a request")
}

// receive receives a reply, and closes its descriptors.
func (x *speaker) receive(where string) (h native.Header, files int) {
	n, list, err := x.c.Recv(x.buf)
	x.s.trace.order()
	kit.OK(x.s.t, err, "the connection, "+where)
	CloseFiles(list)
	h, _, err = native.ParseHeader(x.buf[:n])
	kit.OK(x.s.t, err, "the header of the reply, "+where)
	return h, len(list)
}

var _ = descriptors.Case(validate.Case{
	ID:    "user.descriptor.unreceived",
	Title: "descriptors that processes do not receive: replies wait, then requests of their user are refused",
	Run:   descriptorUnreceived,
}, req.SAS2_4_10)

func descriptorUnreceived(t *validate.T) {
	const ofClient = 16
	const wait, step = 2 * time.Second, 50 * time.Millisecond
	limit := descriptorLimit(t) / 2
	clients := limit / ofClient // that have all they may
	s := newStage(t)
	v := s.virtual(func(*kproxy.Config) {})
	create := encode(&schema.CreateEventQueue{})
	// flying waits for a number of descriptors in flight. A reply that met the limit, because one that was received
	// counted still, tries again as the time passes, which it does less far than to its refusal.
	flying := func(want int) {
		polls, left := 0, int(wait/step)*3/4
		s.await("descriptors in flight", fmt.Sprint(want), func() string {
			n, _ := native.InFlight()
			if n == want {
				return ""
			}
			if polls++; n < want && polls%4 == 0 && left > 0 && v.Pending() > 0 {
				left--
				v.Advance(step)
			}
			return fmt.Sprint(n)
		})
	}
	flying(0)
	var list []*speaker
	t.Step("%d clients", clients+1)
	for i := range clients + 1 {
		x := s.direct()
		list = append(list, x)
		n := ofClient
		if i == clients {
			n = limit % ofClient
		}
		for range n {
			x.send(schema.CmdCreateEventQueue, create)
		}
	}
	flying(limit)
	victim := s.direct()
	// ask has the victim make a request, and lets the time pass until there is a reply.
	ask := func(c schema.Command, body []byte) native.Header {
		victim.send(c, body)
		got := make(chan native.Header, 1)
		go func() {
			h, _ := victim.receive(fmt.Sprintf("the reply to %q", c))
			got <- h
		}()
		var h native.Header
		s.await(fmt.Sprintf("the reply to %q", c), "a reply", func() string {
			select {
			case h = <-got:
				return ""
			default:
				if v.Pending() > 0 {
					v.Advance(step)
				}
				return "none"
			}
		})
		return h
	}
	request := func() native.Header { return ask(schema.CmdCreateEventQueue, create) }
	_, before := native.InFlight()
	began := v.Now()
	kit.Equal(t, "status of a request that needs a descriptor, at the limit of the user", request().Status,
		ci.InsufficientResources)
	kit.True(t, v.Now()-began >= wait && v.Now()-began < wait*3/2, "the time until a request at the limit is refused",
		wait.String(), "%v", v.Now()-began)
	_, after := native.InFlight()
	kit.Equal(t, "messages that were refused", after-before, 1)
	kit.OK(t, victim.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}),
		"a request that needs no descriptor, at the limit of the user")
	copies := encode(&schema.ServeCopies{})
	kit.Equal(t, "status of a request of the socket for copies, at the limit of the user",
		ask(schema.CmdServeCopies, copies).Status, ci.InsufficientResources)
	t.Step("a client that receives all")
	x := list[0]
	for range ofClient {
		h, files := x.receive("which the client has not received before")
		kit.Equal(t, "status and descriptors of a reply", fmt.Sprint(h.Status, files), fmt.Sprint(ci.Status(0), 1))
	}
	kit.Equal(t, "status of a request after a client has received its replies", request().Status, ci.Status(0))
	kit.Equal(t, "status of a second request of the socket for copies, after one that was refused",
		ask(schema.CmdServeCopies, copies).Status, ci.Status(0))
	kit.Equal(t, "status of a request of a second socket for copies", ask(schema.CmdServeCopies, copies).Status,
		ci.InvalidState)
	t.Step("a client beyond its limit")
	for range ofClient + 5 {
		x.send(schema.CmdCreateEventQueue, create)
	}
	flying(limit)
	for i := range ofClient + 5 {
		h, files := x.receive("which waited for the client")
		kit.Equal(t, fmt.Sprintf("status and descriptors of reply %d", i), fmt.Sprint(h.Status, files),
			fmt.Sprint(ci.Status(0), 1))
	}
	t.Step("a client whose session the daemon has ended")
	for range ofClient {
		x.send(schema.CmdCreateEventQueue, create)
	}
	flying(limit)
	sessions := len(s.core.Sessions())
	kit.OK(t, list[1].c.Send([]byte{1}, nil), "a message that is not of the protocol")
	s.await("clients", "one less", func() string {
		if n := len(s.core.Sessions()); n != sessions-1 {
			return fmt.Sprint(n)
		}
		return ""
	})
	kit.Equal(t, "status of a request after the end of the session of a client that has not received its descriptors",
		request().Status, ci.InsufficientResources)
	list[1].c.Close()
	kit.Equal(t, "status of a request after a client has closed its socket", request().Status, ci.Status(0))
	t.Step("a client that closes its socket")
	list[2].c.Close()
	flying(limit - 2*ofClient)
	for _, x := range list {
		x.c.Close()
	}
	flying(0)
}

var _ = descriptors.Case(validate.Case{
	ID:    "user.descriptor.shortage",
	Title: "a daemon that has as many descriptors as it may: requests with some are refused, and connections wait",
	Run:   descriptorShortage,
}, req.SAS2_4_10)

func descriptorShortage(t *validate.T) {
	s := newStage(t)
	v := s.virtual(func(*kproxy.Config) {})
	x := s.direct()
	own := x.basics()
	list, ends := pipes(t, schema.MaxFiles)
	d := newDial(t)
	ended := make(chan error, 1)
	go func() { ended <- s.srv.Serve(d.listener) }()
	exhaust := exhausted(t)
	h, _, err := x.exchange(schema.CmdQueryCQ, encode(&schema.CQ{CQ: own.cq}), ends...)
	create, _, createErr := x.exchange(schema.CmdCreateEventQueue, encode(&schema.CreateEventQueue{}))
	plain := x.do(schema.CmdQueryCQ, &schema.CQ{CQ: own.cq}, &schema.QueryCQReply{})
	connected := d.connect()
	waits := s.until(func() bool { return v.Pending() == 1 })
	exhaust.end()
	kit.OK(t, err, "the connection after a request with descriptors that the daemon could not receive")
	kit.Equal(t, "status of a request with descriptors that the daemon could not receive", h.Status,
		ci.InsufficientResources)
	kit.OK(t, createErr, "the connection after a request that creates a descriptor")
	kit.Equal(t, "status of CreateEventQueue without a descriptor for it", create.Status, ci.InsufficientResources)
	kit.OK(t, plain, "CQ.Query without a descriptor")
	kit.OK(t, connected, "a connection while the daemon has no descriptor")
	kit.True(t, waits, "a connection while the daemon has no descriptor", "waits", "does not")
	for _, p := range list {
		p.closed("a request with descriptors, of which the daemon could not receive all")
	}
	v.Advance(time.Second)
	y := &speaker{s: s, c: d.conn(), buf: make([]byte, schema.MaxMessage)}
	defer y.c.Close()
	kit.OK(t, y.do(schema.CmdHello, &good, &schema.HelloReply{}), "Hello of a connection that has waited")
	y.basics()
	kit.OK(t, x.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, &schema.Created{}), "CreateEventQueue")
	d.listener.Close()
	select {
	case err := <-ended:
		kit.OK(t, err, "the end of Serve after that of its listener")
	case <-t.Context().Done():
		t.Failf("the end of Serve after that of its listener", "success", "none")
	}
}

// until waits until is is true, and reports false if it does not become true. It opens no file.
func (s *stage) until(is func() bool) bool {
	late := time.NewTimer(s.t.Remaining() / 2)
	defer late.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late.C:
			return false
		}
	}
	return true
}
