package cisuite

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// fault is a row of the two-sided fault table: one request of A that goes wrong, and all that both ends have to show for it.
// (IBTA 9.9, tables 58 to 60; 10.10.2.)
type fault struct {
	id, title string
	rules     []string
	needs     validate.Needs
	opts      []kit.Option
	typ       ci.QPType
	// make gives the request; it may change B before. B's receives are 11, 12 and 13, of 256 bytes each, unless recv gives others.
	make func(t *validate.T, p *kit.Pair) ci.SendWR
	recv func(t *validate.T, p *kit.Pair) []ci.RecvWR
	want []ci.WCStatus // of A's request; those behind the first are noted
	// What B shows: first is the status of its first receive, flushed if the message takes none; event, if not 0, is raised.
	first   []ci.WCStatus
	event   ci.EventType
	peerRTS bool // B goes on as if nothing had been
}

// targetAt is where the requests of faults aim in B's buffer, and sourceAt where they come from in A's.
const targetAt, sourceAt, faultLen = 8192, 4096, 64

func (f fault) run(t *validate.T) {
	p := kit.NewPair(t, append([]kit.Option{kit.Type(f.typ), kit.Size(16 << 10)}, f.opts...)...)
	f.judge(t, p)
}

func (f fault) judge(t *validate.T, p *kit.Pair) {
	w := f.make(t, p)
	w.ID = 1
	recvs := []ci.RecvWR{p.B.RecvWR(11, 0, 256), p.B.RecvWR(12, 256, 256), p.B.RecvWR(13, 512, 256)}
	if f.recv != nil {
		recvs = f.recv(t, p)
	}
	p.B.Recv(recvs...)
	p.B.Buf.Blank()
	behind := []ci.SendWR{w, p.A.SendWR(2, 0, 8), p.A.SendWR(3, 0, 8), p.A.SendWR(4, 0, 8)}
	behind[1].Flags = 0
	if w.Op != ci.OpSend && w.Op != ci.OpWrite {
		behind[1].Flags = ci.SendFence // without it they may overtake a READ (IBTA 10.8.3.3)
	}
	p.A.Send(behind...)
	if wc := p.A.CQ.WaitStatus(1, f.want...); wc.Status != f.want[0] {
		t.Note("%s: %s, where IBTA 9.9 has %s", f.id, wc.Status.String(), f.want[0].String())
	}
	p.A.CQ.WaitFlushed(2, 3, 4)
	if f.typ == ci.RC {
		p.A.Becomes(ci.QPError)
	} else {
		p.A.Becomes(ci.QPSQError)
	}
	switch {
	case f.peerRTS:
		p.B.WantState(ci.QPRTS)
		p.B.RecvCQ.Empty()
		p.B.To(ci.QPError)
		p.B.RecvCQ.WaitFlushed(11, 12, 13)
	default:
		first := f.first
		if first == nil {
			first = []ci.WCStatus{ci.WCFlushErr}
		}
		if wc := p.B.RecvCQ.WaitStatus(11, first...); wc.Status != first[0] {
			t.Note("%s: the receive ends with %s, where IBTA 9.9 has %s", f.id, wc.Status.String(), first[0].String())
		}
		p.B.RecvCQ.WaitFlushed(12, 13)
		p.B.Becomes(ci.QPError)
	}
	if f.event != 0 {
		ev := p.B.QP.Events.Wait(f.event)
		kit.True(t, ev.Context == any(p.B.QP.Events), "context of the event", "that of the QP", "%v", ev.Context)
	}
	p.B.WantDrained()
	if f.typ != ci.RC {
		p.A.To(ci.QPError)
	}
	p.A.WantDrained()
	kit.SameBytes(t, "B's buffer behind its receives", p.B.Buf.Bytes[768:], blanks(len(p.B.Buf.Bytes)-768))
}

func blanks(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xee
	}
	return b
}

// withSend gives a SEND whose one segment is changed.
func withSend(change func(*validate.T, *kit.Pair, *ci.SGE)) func(*validate.T, *kit.Pair) ci.SendWR {
	return func(t *validate.T, p *kit.Pair) ci.SendWR {
		w := p.A.SendWR(1, sourceAt, faultLen)
		change(t, p, &w.SGL[0])
		return w
	}
}

// withRecv gives three receives of which the first has its one segment changed.
func withRecv(change func(*validate.T, *kit.Pair, *ci.SGE)) func(*validate.T, *kit.Pair) []ci.RecvWR {
	return func(t *validate.T, p *kit.Pair) []ci.RecvWR {
		r := []ci.RecvWR{p.B.RecvWR(11, 0, 256), p.B.RecvWR(12, 256, 256), p.B.RecvWR(13, 512, 256)}
		change(t, p, &r[0].SGL[0])
		return r
	}
}

// segmentFault is what can be wrong with a segment, at either end.
type segmentFault struct {
	name, title string
	change      func(t *validate.T, e *kit.End, g *ci.SGE)
}

var segmentFaults = []segmentFault{
	{"bad-key", "a key that does not exist", func(_ *validate.T, _ *kit.End, g *ci.SGE) { g.LKey ^= 0x00515100 }},
	{"other-pd", "a region of another PD", func(_ *validate.T, e *kit.End, g *ci.SGE) {
		*g = e.QP.CA.Buf(e.QP.CA.PD(), 4096, kit.AllAccess).SGE(0, faultLen)
	}},
	{"beyond", "a segment that ends one byte behind its region", func(_ *validate.T, e *kit.End, g *ci.SGE) {
		*g = e.QP.CA.Buf(e.PD, 1000, kit.AllAccess).SGE(1000-faultLen+1, faultLen)
	}},
	{"before", "a segment that begins one byte before its region", func(_ *validate.T, e *kit.End, g *ci.SGE) {
		*g = e.QP.CA.Buf(e.PD, 1000, kit.AllAccess).SGE(0, faultLen)
		g.Addr--
	}},
	{"wraps", "a segment that ends behind the last address", func(_ *validate.T, e *kit.End, g *ci.SGE) {
		g.Addr = ^uint64(0) - 10
	}},
	{"deregistered", "a region that is deregistered", func(t *validate.T, e *kit.End, g *ci.SGE) {
		b := e.QP.CA.Buf(e.PD, 1000, kit.AllAccess)
		*g = b.SGE(0, faultLen)
		kit.Destroy(t, b, "MR")
	}},
}

// localRule is the requirement that a cause breaks first.
func localRule(name, other string) []string {
	switch name {
	case "bad-key":
		return []string{"SAS-2.3-12", other}
	case "other-pd":
		return []string{"SAS-2.3-07", other}
	}
	return []string{other, "SAS-2.3-17"}
}

// faults are all rows.
func faults() []fault {
	var out []fault
	for _, s := range segmentFaults {
		a := func(t *validate.T, p *kit.Pair, g *ci.SGE) { s.change(t, p.A, g) }
		b := func(t *validate.T, p *kit.Pair, g *ci.SGE) { s.change(t, p.B, g) }
		out = append(out,
			fault{id: "fault.send." + s.name, title: "send from " + s.title, rules: localRule(s.name, "IBTA-9.9-01"),
				make: withSend(a), want: []ci.WCStatus{ci.WCLocalProtErr}, peerRTS: true},
			fault{id: "fault.recv." + s.name, title: "receive into " + s.title, rules: localRule(s.name, "IBTA-9.9-02"),
				make: withSend(func(*validate.T, *kit.Pair, *ci.SGE) {}), recv: withRecv(b),
				want: []ci.WCStatus{ci.WCRemOpErr}, first: []ci.WCStatus{ci.WCLocalProtErr}})
	}
	local := []ci.WCStatus{ci.WCLocalProtErr}
	out = append(out,
		fault{id: "fault.send.second-segment", title: "send whose second segment has a bad key", rules: []string{"IBTA-9.9-01", "SAS-2.3-17"},
			needs: twoSGEs, want: local, peerRTS: true,
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				w := p.A.SendWR(1, sourceAt, faultLen)
				w.SGL = append(w.SGL, w.SGL[0])
				w.SGL[1].LKey ^= 0x00515100
				return w
			}},
		fault{id: "fault.write.bad-key", title: "write from a key that does not exist", rules: []string{"IBTA-9.9-01", "SAS-2.3-12"}, want: local, peerRTS: true,
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				w := p.A.RDMA(ci.OpWrite, 1, sourceAt, faultLen, p.B, targetAt)
				w.SGL[0].LKey ^= 0x00515100
				return w
			}},
		fault{id: "fault.read.no-local-write", title: "read into a region without local write", rules: []string{"IBTA-9.9-01"}, want: local, peerRTS: true,
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				w := p.A.RDMA(ci.OpRead, 1, sourceAt, faultLen, p.B, targetAt)
				w.SGL = p.A.QP.CA.Buf(p.A.PD, 100, 0).SGL(0, faultLen)
				return w
			}},
		fault{id: "fault.recv.no-local-write", title: "receive into a region without local write", rules: []string{"IBTA-9.9-02"},
			make: withSend(func(*validate.T, *kit.Pair, *ci.SGE) {}),
			recv: withRecv(func(_ *validate.T, p *kit.Pair, g *ci.SGE) {
				*g = p.B.QP.CA.Buf(p.B.PD, 256, ci.RemoteRead).SGE(0, 256)
			}),
			want: []ci.WCStatus{ci.WCRemOpErr}, first: local},
		fault{id: "fault.recv.too-short", title: "a message one byte longer than its receive", rules: []string{"IBTA-9.9-03"},
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR { return p.A.SendWR(1, sourceAt, 257) },
			want: []ci.WCStatus{ci.WCRemInvalidReqErr}, first: []ci.WCStatus{ci.WCLocalLenErr}},
		fault{id: "fault.recv.too-short-packets", title: "a message of several packets, longer than its receive", rules: []string{"IBTA-9.9-03"},
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR { return p.A.SendWR(1, 0, 4*p.A.PathMTU()) },
			want: []ci.WCStatus{ci.WCRemInvalidReqErr}, first: []ci.WCStatus{ci.WCLocalLenErr}},
		fault{id: "fault.recv.no-segment", title: "a message of one byte to a receive of none", rules: []string{"IBTA-9.9-03"},
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR { return p.A.SendWR(1, sourceAt, 1) },
			recv: func(_ *validate.T, p *kit.Pair) []ci.RecvWR {
				return []ci.RecvWR{{ID: 11}, p.B.RecvWR(12, 256, 256), p.B.RecvWR(13, 512, 256)}
			},
			want: []ci.WCStatus{ci.WCRemInvalidReqErr}, first: []ci.WCStatus{ci.WCLocalLenErr}},
	)
	for _, svc := range []struct {
		typ  ci.QPType
		name string
		caps ci.Caps
	}{{ci.UC, "uc", ci.CapUC}, {ci.UD, "ud", ci.CapUD | ci.CapAV}} {
		for _, s := range segmentFaults[:3] {
			out = append(out, fault{id: "fault." + svc.name + ".send." + s.name, title: "on " + svc.typ.String() + ", send from " + s.title,
				rules: []string{"IBTA-9.9-04"}, typ: svc.typ, needs: validate.Needs{Caps: svc.caps},
				make: withSend(func(t *validate.T, p *kit.Pair, g *ci.SGE) { s.change(t, p.A, g) }), want: local, peerRTS: true})
		}
	}
	return append(out, remoteFaults()...)
}

var twoSGEs = validate.Needs{Attr: func(a *ci.CAAttr) string {
	if a.MaxSGEs < 2 {
		return "one segment per request only"
	}
	return ""
}}

// remoteFaults: each cause of a remote access error with each operation that has a remote key.
func remoteFaults() []fault {
	var out []fault
	for _, op := range []struct {
		op    ci.SendOp
		name  string
		right ci.Access
		needs validate.Needs
	}{
		{ci.OpWrite, "write", ci.RemoteWrite, validate.Needs{}},
		{ci.OpRead, "read", ci.RemoteRead, validate.Needs{}},
		{ci.OpFetchAdd, "atomic", ci.RemoteAtomic, validate.Needs{Atomics: ci.AtomicLocal}},
	} {
		n := faultLen
		rights := kit.AllAccess
		if op.op == ci.OpFetchAdd {
			n = 8
			rights |= ci.RemoteAtomic
		}
		// aimed makes the request at a fresh region of B, which the cause has spoiled.
		aimed := func(spoil func(*validate.T, *kit.Pair, *ci.Remote)) func(*validate.T, *kit.Pair) ci.SendWR {
			return func(t *validate.T, p *kit.Pair) ci.SendWR {
				w := p.A.RDMA(op.op, 1, sourceAt, n, p.B, targetAt)
				spoil(t, p, &w.Remote)
				return w
			}
		}
		for _, c := range []struct {
			name, title string
			spoil       func(*validate.T, *kit.Pair, *ci.Remote)
			opts        []kit.Option
		}{
			{"bad-key", "with a key that does not exist", func(_ *validate.T, _ *kit.Pair, r *ci.Remote) { r.RKey ^= 0x00626200 }, nil},
			{"beyond", "that ends behind the region", func(_ *validate.T, p *kit.Pair, r *ci.Remote) {
				*r = p.B.QP.CA.Buf(p.B.PD, 1024, rights).Remote(1024)
			}, nil},
			{"before", "that begins before the region", func(_ *validate.T, p *kit.Pair, r *ci.Remote) {
				*r = p.B.QP.CA.Buf(p.B.PD, 1024, rights).Remote(0)
				r.Addr -= 8
			}, nil},
			{"wraps", "that ends behind the last address", func(_ *validate.T, _ *kit.Pair, r *ci.Remote) { r.Addr = ^uint64(7) }, nil},
			{"mr-right", "on a region without the right", func(_ *validate.T, p *kit.Pair, r *ci.Remote) {
				*r = p.B.QP.CA.Buf(p.B.PD, 1024, rights&^op.right|ci.LocalWrite).Remote(0)
			}, nil},
			{"qp-right", "on a QP without the right", func(*validate.T, *kit.Pair, *ci.Remote) {},
				[]kit.Option{kit.With(func(c *kit.Config) { c.Access = rights &^ op.right; c.BufAccess = rights })}},
			{"other-pd", "on a region of another PD", func(_ *validate.T, p *kit.Pair, r *ci.Remote) {
				*r = p.B.QP.CA.Buf(p.B.QP.CA.PD(), 1024, rights).Remote(0)
			}, nil},
			{"deregistered", "on a region that is deregistered", func(t *validate.T, p *kit.Pair, r *ci.Remote) {
				b := p.B.QP.CA.Buf(p.B.PD, 1024, rights)
				*r = b.Remote(0)
				kit.Destroy(t, b, "MR")
			}, nil},
		} {
			f := fault{id: "fault.remote." + op.name + "." + c.name, title: "a remote " + op.name + " " + c.title, rules: []string{"IBTA-9.9-05"},
				needs: op.needs, opts: c.opts, make: aimed(c.spoil), want: []ci.WCStatus{ci.WCRemAccessErr}, event: ci.EventWQAccessError}
			if c.name == "other-pd" {
				f.rules = []string{"SAS-2.3-07", "IBTA-9.9-05"}
			}
			switch c.name {
			case "mr-right":
				f.rules = []string{"CI-Rights-02", "IBTA-9.9-05"}
			case "qp-right": // a function that the QP does not support, not an access error (IBTA 9.9.3, 9.7.4.1.4)
				f.rules = []string{"IBTA-9.9-13", "CI-Rights-02"}
				f.want, f.event = []ci.WCStatus{ci.WCRemInvalidReqErr}, ci.EventWQReqError
			}
			out = append(out, f)
		}
		if op.op != ci.OpWrite {
			out = append(out, fault{id: "fault.remote." + op.name + ".no-resources", title: "a remote " + op.name + " to a QP with no responder resources",
				rules: []string{"IBTA-9.9-06"}, needs: op.needs, opts: []kit.Option{kit.Reads(1, 0)}, make: aimed(func(*validate.T, *kit.Pair, *ci.Remote) {}),
				want: []ci.WCStatus{ci.WCRemInvalidReqErr}})
		}
	}
	return append(out,
		fault{id: "fault.remote.atomic.misaligned", title: "a remote atomic on an address that is no multiple of 8", rules: []string{"IBTA-9.9-06", "IBTA-9.4-13"},
			needs: validate.Needs{Atomics: ci.AtomicLocal},
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				return p.A.RDMA(ci.OpFetchAdd, 1, sourceAt, 8, p.B, targetAt+4)
			},
			want: []ci.WCStatus{ci.WCRemInvalidReqErr}},
		fault{id: "fault.remote.write-imm.bad-key", title: "a write with immediate and a key that does not exist", rules: []string{"IBTA-9.9-05"},
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				w := p.A.RDMA(ci.OpWrite, 1, sourceAt, faultLen, p.B, targetAt)
				w.Flags |= ci.SendImmediate
				w.Remote.RKey ^= 0x00626200
				return w
			},
			want: []ci.WCStatus{ci.WCRemAccessErr}, first: []ci.WCStatus{ci.WCFlushErr, ci.WCLocalAccessErr}, event: ci.EventWQAccessError},
		fault{id: "fault.remote.write-packets.beyond", title: "a write of several packets that ends behind the region", rules: []string{"IBTA-9.9-05"},
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				n := 3 * p.A.PathMTU()
				w := p.A.RDMA(ci.OpWrite, 1, 0, n, p.B, 0)
				w.Remote = p.B.Buf.Remote(uint64(len(p.B.Buf.Bytes) - n + 1))
				return w
			},
			want: []ci.WCStatus{ci.WCRemAccessErr}, event: ci.EventWQAccessError},
	)
}

// faultArea: the fault table, and what all faults have in common.
func faultArea() validate.Suite {
	s := validate.Suite{Requirements: []req.Requirement{
		req.Driver.Must("IBTA-9.9-01", "IBTA 9.9.2", "table 58, requester class B", "A bad segment of a send request is a local protection error of that request; an RC QP goes to Error, what stands behind it is flushed, and the peer sees nothing of it."),
		req.Driver.Must("IBTA-9.9-02", "IBTA 9.9.3", "table 60, responder", "A bad segment of a receive is a local protection error there and a remote operation error at the sender; both QPs go to Error."),
		req.Driver.Must("IBTA-9.9-03", "IBTA 9.9.3", "table 60, responder", "A message longer than its receive is a local length error there and a remote invalid request at the sender; both QPs go to Error."),
		req.Driver.Must("IBTA-9.9-04", "IBTA 10.3.1.5", "send errors of UC and UD", "A send error on UC or UD takes the QP to SQError: sends behind it are flushed, its receives and the peer are not concerned."),
		req.Driver.Must("IBTA-9.9-05", "IBTA 9.9.3", "table 60, remote access error", "A remote key, bound or domain that does not hold, and a right that the region does not grant, is a remote access error at the requester; the responder changes no memory, takes no receive, raises the access event, and both QPs go to Error."),
		req.Driver.Must("IBTA-9.9-13", "IBTA 9.9.3", "table 60, unsupported function", "An operation that the QP does not grant, whatever the region grants, is a function that the QP does not support: a remote invalid request at the requester; the responder changes no memory, takes no receive, raises the request event, and both QPs go to Error."),
		req.Driver.Must("IBTA-9.9-06", "IBTA 9.9.3", "table 60, invalid request", "A READ or atomic that the responder has no resources for, and a misaligned atomic, is a remote invalid request; both QPs go to Error."),
		req.Driver.Must("IBTA-9.9-07", "IBTA 9.7.5.2.8", "RNR NAK", "RNRRetry n sends a message n times more at intervals of at least the responder's timer, and fails with RNR retries exhausted."),
		req.Driver.Must("IBTA-9.9-08", "IBTA 9.7.5.2.8", "RNR NAK", "With RNRRetry 7 a message waits for a receive as long as it takes."),
		req.Driver.Must("IBTA-9.9-09", "IBTA 9.9.2.1", "retry timer", "A request that is never answered fails with transport retries exhausted, and takes the QP to Error."),
		req.Driver.Must("IBTA-9.9-10", "IBTA 9.7.6", "PSN", "A message with another packet sequence number than the one expected is not delivered, and fails at its sender."),
		req.Driver.Must("IBTA-9.9-11", "IBTA 9.9.2", "message length", "A message longer than 2^31 bytes is a local length error, or refused at the post."),
		req.Driver.Must("CI-Rights-02", "IBTA 10.6.3", "access rights", "A remote operation needs its right on the region and on the QP: with one of them missing it fails, whatever the other grants. Without that of the region it is a remote access error, without that of the QP a remote invalid request."),
		req.Driver.Must("CI-Flush-01", "IBTA 10.3.1.6", "Error state", "Entry to Error completes every request outstanding, sends and receives, in the order of their posts, each once, as flushed."),
		req.Driver.Must("CI-Flush-02", "IBTA 10.10.2", "Error state", "A QP whose receive side fails flushes its own sends, too."),
		req.Driver.Must("CI-Flush-03", "IBTA 10.10.2", "completion order", "What was done before the request that fails completes with success before it."),
		req.Driver.Must("IBTA-9.9-12", "IBTA 9.9.3", "receive errors of UC and UD", "A bad segment of a receive on UC or UD is a local protection error of that receive and takes the QP to Error; the sender sees success."),
		req.Driver.Must("CI-Event-01", "IBTA 11.6.3", "affiliated errors", "A QP in Error by one peer's fault does not concern other QPs of its adapter."),
	}}
	for _, f := range faults() {
		c := validate.NewCase(f.id, f.title, validate.FeatureRC, f.run, f.rules...)
		switch {
		case f.typ == ci.UC:
			c.Feature = validate.FeatureUC
		case f.typ == ci.UD:
			c.Feature = validate.FeatureUD
		case f.needs.Atomics != 0:
			c.Feature = validate.FeatureAtomic
		}
		c.Needs = f.needs
		s.Cases = append(s.Cases, c)
	}
	rc := validate.FeatureRC
	s.Cases = append(s.Cases,
		validate.NewCase("fault.rnr.exhausted", "no receive, RNRRetry 0, 1 and 3", rc, rnrExhausted, "IBTA-9.9-07"),
		validate.NewCase("fault.rnr.in-time", "a receive posted while the sender tries", rc, rnrInTime, "IBTA-9.9-07"),
		validate.NewCase("fault.rnr.for-ever", "a receive posted long after the send, RNRRetry 7", rc, rnrForEver, "IBTA-9.9-08"),
		validate.NewCase("fault.rnr.write-imm", "a write with immediate that finds no receive", rc, rnrWriteImm, "IBTA-9.9-08", "IBTA-9.4-03"),
		validate.NewCase("fault.timeout.init", "a peer that listens not yet", rc, timeoutInit, "IBTA-9.9-09"),
		validate.NewCase("fault.timeout.error", "a peer in Error", rc, timeoutError, "IBTA-9.9-09"),
		validate.NewCase("fault.timeout.destroyed", "a peer that is destroyed", rc, timeoutDestroyed, "IBTA-9.9-09"),
		validate.NewCase("fault.timeout.read", "a read that is never answered", rc, timeoutRead, "IBTA-9.9-09"),
		validate.NewCase("fault.psn", "a sequence number that is not expected", rc, faultPSN, "IBTA-9.9-10"),
		validate.NewCase("fault.send.too-long", "a message of more than 2^31 bytes", rc, faultTooLong, "IBTA-9.9-11"),
		validate.NewCase("fault.flush.forced", "Modify to Error with work on both queues", rc, flushForced, "CI-Flush-01"),
		validate.NewCase("fault.flush.responder", "a responder that fails with sends of its own", rc, flushResponder, "CI-Flush-02", "CI-Flush-01"),
		validate.NewCase("fault.flush.before", "requests done before the one that fails", rc, flushBefore, "CI-Flush-03", "IBTA-9.9-05"),
		validate.NewCase("fault.others", "other QPs of the same adapters while one fails", rc, faultOthers, "CI-Event-01"),
	)
	for _, svc := range []struct {
		typ  ci.QPType
		name string
		f    validate.Feature
		caps ci.Caps
	}{{ci.UC, "uc", validate.FeatureUC, ci.CapUC}, {ci.UD, "ud", validate.FeatureUD, ci.CapUD | ci.CapAV}} {
		s.Cases = append(s.Cases, needing(validate.Needs{Caps: svc.caps}, validate.NewCase("fault."+svc.name+".recv.bad-key", "on "+svc.typ.String()+", receive into a key that does not exist",
			svc.f, func(t *validate.T) { recvFaultUnreliable(t, svc.typ) }, "IBTA-9.9-12"))...)
	}
	s.Cases = append(s.Cases, needing(validate.Needs{Impair: true}, validate.NewCase("fault.timeout.cut", "a link that is cut", rc, timeoutCut, "IBTA-9.9-09"))...)
	return s
}

func rnrExhausted(t *validate.T) {
	first := kit.RC(t)
	for _, n := range kit.Variants(t, "retry count", []uint8{0, 1, 3}) {
		const code, period = 18, 5120 * time.Microsecond
		p := first.Another(kit.RNRRetry(n), kit.MinRNR(code), kit.AckTime(0))
		start := time.Now()
		p.A.Send(p.A.SendWRs(3)...)
		p.A.CQ.WaitStatus(1, ci.WCRNRRetryErr)
		took := time.Since(start)
		p.A.CQ.WaitFlushed(2, 3)
		kit.True(t, took >= time.Duration(n)*period, fmt.Sprintf("time until RNR retries are exhausted, RNRRetry %d, timer %v", n, period),
			fmt.Sprintf("at least %v", time.Duration(n)*period), "%v", took)
		p.A.Becomes(ci.QPError)
		p.A.WantDrained()
		p.B.WantState(ci.QPRTS)
		p.B.RecvCQ.Empty()
		kit.Equal(t, "events at the responder", len(p.B.QP.Events.All()), 0)
	}
}

func rnrInTime(t *validate.T) {
	p := kit.RC(t, kit.RNRRetry(6), kit.MinRNR(28), kit.AckTime(0)) // 164 ms, six times
	p.A.Send(p.A.SendWR(1, 0, 100))
	p.A.CQ.Empty()
	p.B.Recv(p.B.RecvWR(1, 0, 100))
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(1)
	p.A.WantState(ci.QPRTS)
}

func rnrForEver(t *validate.T) {
	p := kit.RC(t, kit.RNRRetry(7), kit.Retry(0), kit.MinRNR(1), kit.AckTime(0)) // 0.01 ms: hundreds of times
	p.A.Send(p.A.SendWRs(2)...)
	p.A.CQ.Quiet(30 * time.Millisecond)
	p.A.WantState(ci.QPRTS)
	p.B.Recv(p.B.RecvWRs(2, 8)...)
	p.A.CQ.WaitOK(1, 2)
	p.B.RecvCQ.WaitOK(1, 2)
	p.A.Exchange(p.B, 4)
}

func rnrWriteImm(t *validate.T) {
	p := kit.RC(t, kit.MinRNR(1))
	n := 3*p.A.PathMTU() + 9
	kit.Random(t, p.A.Buf.Bytes[:n])
	w := p.A.RDMA(ci.OpWrite, 1, 0, n, p.B, 1000)
	w.Flags |= ci.SendImmediate
	w.Imm = 7
	p.A.Send(w)
	p.A.CQ.Quiet(5 * time.Millisecond)
	p.B.Recv(p.B.RecvWR(1, 0, 8))
	p.A.CQ.WaitOK(1)
	wc := p.B.RecvCQ.WaitOK(1)[0]
	kit.Equal(t, "Op", wc.Op, ci.WCRecvWrite)
	kit.Equal(t, "Length", wc.Length, uint32(n))
	kit.SameBytes(t, "target", p.B.Buf.Bytes[1000:1000+n], p.A.Buf.Bytes[:n])
}

// unanswered expects three requests of A to fail for want of an answer.
func unanswered(p *kit.Pair) {
	p.A.CQ.WaitStatus(1, ci.WCTimeoutRetryErr)
	p.A.CQ.WaitFlushed(2, 3)
	p.A.Becomes(ci.QPError)
	p.A.WantDrained()
}

var quick = []kit.Option{kit.AckTime(8), kit.Retry(1)} // about a millisecond, twice

func timeoutInit(t *validate.T) {
	p := deaf(t, quick...)
	p.B.Recv(p.B.RecvWR(1, 0, 8))
	p.A.Send(p.A.SendWRs(3)...)
	unanswered(p)
	p.B.RecvCQ.Empty()
	p.B.WantState(ci.QPInit)
}

func timeoutError(t *validate.T) {
	p := kit.RC(t, quick...)
	p.B.To(ci.QPError)
	p.A.Send(p.A.SendWRs(3)...)
	unanswered(p)
	p.B.RecvCQ.Empty()
}

func timeoutDestroyed(t *validate.T) {
	p := kit.RC(t, quick...)
	p.B.Recv(p.B.RecvWR(1, 0, 8))
	kit.Destroy(t, p.B.QP, "QP")
	p.A.Send(p.A.SendWRs(3)...)
	unanswered(p)
	p.B.RecvCQ.Empty()
}

func timeoutRead(t *validate.T) {
	p := deaf(t, quick...)
	p.A.Buf.Blank()
	p.A.Send(p.A.RDMA(ci.OpRead, 1, 0, 100, p.B, 0), p.A.RDMA(ci.OpWrite, 2, 0, 100, p.B, 0), p.A.SendWR(3, 0, 1))
	unanswered(p)
	p.A.Buf.WantOnly(t, "buffer of a read that was never answered", 0, nil)
}

func timeoutCut(t *validate.T) {
	first := kit.RC(t)
	p := first.Another(quick...) // quick timeouts are for the cut link alone
	first.A.Exchange(first.B, 10)
	t.Impair(validate.Impairment{Cut: true})
	p.B.Recv(p.B.RecvWR(1, 0, 8))
	p.A.Send(p.A.SendWRs(3)...)
	unanswered(p)
	p.B.RecvCQ.Empty()
	p.B.WantState(ci.QPRTS)
}

func faultPSN(t *validate.T) {
	first := kit.RC(t)
	for _, off := range kit.Variants(t, "PSN off by", []int{1000, -1001}) { // ahead of what is expected, and behind it
		p := first.AnotherInReset(kit.MTU(ci.MTU256))
		kit.Connect(p.A.QP, p.B.QP)
		q := first.AnotherInReset(append(quick, kit.MTU(ci.MTU256))...)
		q.A.Init()
		q.B.Init()
		q.A.RTR(q.B.QP)
		q.B.RTR(q.A.QP)
		q.A.QP.PSN = ci.PSN(int(q.A.QP.PSN)+off) & 0xffffff // after B was told
		q.A.RTS()
		q.B.RTS()
		q.B.Recv(q.B.RecvWR(1, 0, 100))
		q.A.Send(q.A.SendWRs(3)...)
		unanswered(q)
		q.B.RecvCQ.Empty()
		p.A.Exchange(p.B, 10) // the same without the wrong number
	}
}

func faultTooLong(t *validate.T) {
	p := kit.RC(t)
	if p.A.Config.Caps.SendSGE < 2 {
		t.Skip("one segment per request only")
	}
	w := p.A.SendWR(1, 0, 0)
	w.SGL = []ci.SGE{p.A.Buf.SGE(0, 0x7fffffff), p.A.Buf.SGE(0, 0x7fffffff)}
	n, err := p.A.PostSend([]ci.SendWR{w})
	if err != nil {
		kit.WantTaken(t, "PostSend of more than 2^31 bytes", n, err, 0, ci.InvalidParameter)
		t.Note("a message longer than 2^31 bytes is refused at the post")
		p.A.Exchange(p.B, 1)
		return
	}
	if wc := p.A.CQ.WaitStatus(1, ci.WCLocalLenErr, ci.WCLocalProtErr); wc.Status == ci.WCLocalProtErr {
		t.Note("the segments of a message longer than 2^31 bytes are checked before its length")
	}
	p.A.Becomes(ci.QPError)
	p.B.WantState(ci.QPRTS)
	p.A.WantDrained()
}

func flushForced(t *validate.T) {
	const sends, recvs = 12, 9
	p := deaf(t)
	wrs := p.A.SendWRs(sends)
	for i := range wrs {
		if i%3 == 0 {
			wrs[i].Flags = 0
		}
	}
	wrs[4] = p.A.RDMA(ci.OpRead, 5, 0, 100, p.B, 0)
	wrs[7] = p.A.RDMA(ci.OpWrite, 8, 0, 100, p.B, 0)
	p.A.Send(wrs...)
	p.A.Recv(p.A.RecvWRs(recvs, 16)...)
	p.A.To(ci.QPError)
	p.A.CQ.WaitFlushed(ids(1, sends)...)
	p.A.RecvCQ.WaitFlushed(ids(1, recvs)...)
	p.A.WantDrained()
	p.A.WantState(ci.QPError)
	p.A.CQ.Empty()
	p.A.RecvCQ.Empty()
}

func flushResponder(t *validate.T) {
	p := kit.RC(t, kit.MinRNR(1))
	p.B.Send(p.B.SendWRs(4)...) // A has no receive: they wait
	p.B.Recv(p.B.RecvWRs(2, 8)...)
	w := p.A.RDMA(ci.OpWrite, 1, 0, 8, p.B, 0)
	w.Remote.RKey ^= 0x00626200
	p.A.Send(w)
	p.A.CQ.WaitStatus(1, ci.WCRemAccessErr)
	p.B.CQ.WaitFlushed(1, 2, 3, 4)
	p.B.RecvCQ.WaitFlushed(1, 2)
	p.B.Becomes(ci.QPError)
	p.B.WantDrained()
	p.A.WantDrained()
}

func flushBefore(t *validate.T) {
	p := kit.RC(t)
	p.B.Recv(p.B.RecvWRs(3, 8)...)
	bad := p.A.RDMA(ci.OpWrite, 5, 0, 8, p.B, 4096)
	bad.Remote.RKey ^= 0x00626200
	wrs := append(p.A.SendWRs(3), p.A.RDMA(ci.OpRead, 4, 1024, 2000, p.B, 0), bad, p.A.SendWR(6, 0, 1))
	wrs[1].Flags = 0
	p.A.Send(wrs...)
	p.A.CQ.WaitOK(1, 3, 4)
	p.A.CQ.WaitStatus(5, ci.WCRemAccessErr)
	p.A.CQ.WaitFlushed(6)
	p.B.RecvCQ.WaitOK(1, 2, 3)
	p.B.Becomes(ci.QPError)
	p.A.WantDrained()
	p.B.WantDrained()
}

func faultOthers(t *validate.T) {
	p := kit.RC(t)
	q, r := p.More(false), p.More(true) // with queues of its own, and on those of p
	w := p.A.RDMA(ci.OpWrite, 1, 0, 8, p.B, 0)
	w.Remote.RKey ^= 0x00626200
	r.B.Recv(r.B.RecvWR(21, 0, 100))
	p.B.Recv(p.B.RecvWR(11, 0, 100))
	p.A.Send(w)
	p.A.CQ.WaitStatus(1, ci.WCRemAccessErr)
	p.B.RecvCQ.WaitFlushed(11)
	p.B.Becomes(ci.QPError)
	p.B.QP.Events.Wait(ci.EventWQAccessError)
	r.A.Send(r.A.SendWR(21, 0, 30))
	r.A.CQ.WaitOK(21)
	r.B.RecvCQ.WaitOK(21)
	q.A.Exchange(q.B, 40)
	q.B.Exchange(q.A, 40)
	for _, o := range []*kit.Pair{q, r} {
		o.A.WantState(ci.QPRTS)
		o.B.WantState(ci.QPRTS)
		kit.Equal(t, "events of another QP", len(o.B.QP.Events.All()), 0)
	}
}

func recvFaultUnreliable(t *validate.T, typ ci.QPType) {
	p := kit.NewPair(t, kit.Type(typ))
	p.B.Buf.Blank()
	recvs := p.B.RecvWRs(3, 256)
	recvs[0].SGL[0].LKey ^= 0x00515100
	p.B.Recv(recvs...)
	p.A.Send(p.A.SendWRs(2)...)
	p.A.CQ.WaitOK(1, 2)
	p.B.RecvCQ.WaitStatus(1, ci.WCLocalProtErr)
	p.B.RecvCQ.WaitFlushed(2, 3)
	p.B.Becomes(ci.QPError)
	p.B.WantDrained()
	p.A.WantState(ci.QPRTS)
	p.B.Buf.WantOnly(t, "B's buffer", 0, nil)
}
