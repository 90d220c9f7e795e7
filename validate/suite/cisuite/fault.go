package cisuite

import (
	"encoding/binary"
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// fault is a row of the two-sided fault table: one faulty request of A and its effects at both ends. (IBTA 9.9, tables
// 58 to 60; 10.10.2.)
type fault struct {
	id, title string
	rules     []*req.Requirement
	needs     validate.Needs
	opts      []kit.Option
	typ       ci.QPType
	// make returns the request. It may change B first. The receives of B are 11, 12 and 13, of 256 bytes each, unless
	// recv is set.
	make func(t *validate.T, p *kit.Pair) ci.SendWR
	recv func(t *validate.T, p *kit.Pair) []ci.RecvWR
	want []ci.WCStatus // statuses permitted for A's request; all but the first cause a note
	// Effects at B: first is the status of its first receive, flushed if nil. event is the event of its QP, none if 0.
	first   []ci.WCStatus
	event   ci.EventType
	peerRTS bool // the QP of B must not be affected
}

// targetAt is the target of faulty requests in B's buffer, and sourceAt their source in A's.
const targetAt, sourceAt, faultLen = 8192, 4096, 64

func (f fault) run(t *validate.T) {
	p := kit.NewPair(t, append([]kit.Option{kit.Type(f.typ), kit.Size(16 << 10)}, f.opts...)...)
	f.check(t, p)
}

func (f fault) check(t *validate.T, p *kit.Pair) {
	w := f.make(t, p)
	w.ID = 1
	recvs := []ci.RecvWR{p.B.RecvWR(11, 0, 256), p.B.RecvWR(12, 256, 256), p.B.RecvWR(13, 512, 256)}
	if f.recv != nil {
		recvs = f.recv(t, p)
	}
	p.B.Recv(recvs...)
	p.B.Buf.Blank()
	wrs := []ci.SendWR{w, p.A.SendWR(2, 0, 8), p.A.SendWR(3, 0, 8), p.A.SendWR(4, 0, 8)}
	wrs[1].Flags = 0
	if w.Op != ci.OpSend && w.Op != ci.OpWrite {
		wrs[1].Flags = ci.SendFence // without the fence these requests may overtake a READ (IBTA 10.8.3.3)
	}
	p.A.Send(wrs...)
	if wc := p.A.CQ.WaitStatus(1, f.want...); wc.Status != f.want[0] {
		t.Note("%s: %s, but IBTA 9.9 specifies %s", f.id, wc.Status.String(), f.want[0].String())
	}
	p.A.CQ.WaitFlushed(2, 3, 4)
	if f.typ == ci.RC {
		p.A.Becomes(ci.QPError)
	} else {
		p.A.Becomes(ci.QPSQError)
	}
	reported := false // by a receive
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
		wc := p.B.RecvCQ.WaitStatus(11, first...)
		reported = wc.Status != ci.WCFlushErr
		if wc.Status != first[0] {
			t.Note("%s: the receive completes with %s, but IBTA 9.9 specifies %s", f.id, wc.Status.String(),
				first[0].String())
		}
		p.B.RecvCQ.WaitFlushed(12, 13)
		p.B.Becomes(ci.QPError)
	}
	if f.event != 0 && !reported {
		ev := p.B.QP.Events.Wait(f.event)
		kit.True(t, ev.Context == any(p.B.QP.Events), "Event.Context", "the context of the QP", "%v", ev.Context)
	}
	p.B.WantDrained()
	if f.typ != ci.RC {
		p.A.To(ci.QPError)
	}
	p.A.WantDrained()
	// An error that a completion reports causes no other event (IBTA 11.6.3.2).
	p.B.QP.Events.OnlyFor(5*time.Millisecond, f.permitted()...)
	if f.typ == ci.RC {
		p.A.QP.Events.Only()
	} else {
		p.A.QP.Events.Only(ci.EventSQError)
	}
	kit.SameBytes(t, "B's buffer after its receives", p.B.Buf.Bytes[768:], blanks(len(p.B.Buf.Bytes)-768))
}

// permitted returns the events that the QP of B may raise. An illegal request that uses no receive may be reported.
func (f fault) permitted() []ci.EventType {
	switch {
	case f.event != 0:
		return []ci.EventType{f.event}
	case !f.peerRTS && f.first == nil:
		return []ci.EventType{ci.EventWQReqError, ci.EventWQAccessError}
	}
	return nil
}

func blanks(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xee
	}
	return b
}

// withSend returns a SEND whose only segment is changed.
func withSend(change func(*validate.T, *kit.Pair, *ci.SGE)) func(*validate.T, *kit.Pair) ci.SendWR {
	return func(t *validate.T, p *kit.Pair) ci.SendWR {
		w := p.A.SendWR(1, sourceAt, faultLen)
		change(t, p, &w.SGL[0])
		return w
	}
}

// withRecv returns three receives. The only segment of the first is changed.
func withRecv(change func(*validate.T, *kit.Pair, *ci.SGE)) func(*validate.T, *kit.Pair) []ci.RecvWR {
	return func(t *validate.T, p *kit.Pair) []ci.RecvWR {
		r := []ci.RecvWR{p.B.RecvWR(11, 0, 256), p.B.RecvWR(12, 256, 256), p.B.RecvWR(13, 512, 256)}
		change(t, p, &r[0].SGL[0])
		return r
	}
}

// segmentFault is a fault of a segment, at either end.
type segmentFault struct {
	name, title string
	change      func(t *validate.T, e *kit.End, g *ci.SGE)
}

var segmentFaults = []segmentFault{
	{"bad-key", "a key that does not exist", func(_ *validate.T, _ *kit.End, g *ci.SGE) { g.LKey ^= 0x00515100 }},
	{"other-pd", "a region of another PD", func(_ *validate.T, e *kit.End, g *ci.SGE) {
		*g = e.QP.CA.Buf(e.QP.CA.PD(), 4096, kit.AllAccess).SGE(0, faultLen)
	}},
	{"beyond", "a segment that ends one byte after its region", func(_ *validate.T, e *kit.End, g *ci.SGE) {
		*g = e.QP.CA.Buf(e.PD, 1000, kit.AllAccess).SGE(1000-faultLen+1, faultLen)
	}},
	{"before", "a segment that begins one byte before its region", func(_ *validate.T, e *kit.End, g *ci.SGE) {
		*g = e.QP.CA.Buf(e.PD, 1000, kit.AllAccess).SGE(0, faultLen)
		g.Addr--
	}},
	{"wraps", "a segment that ends after the last address", func(_ *validate.T, e *kit.End, g *ci.SGE) {
		g.Addr = ^uint64(0) - 10
	}},
	{"deregistered", "a deregistered region", func(t *validate.T, e *kit.End, g *ci.SGE) {
		b := e.QP.CA.Buf(e.PD, 1000, kit.AllAccess)
		*g = b.SGE(0, faultLen)
		kit.Destroy(t, b, "MR")
	}},
}

// localRule returns the requirements for a fault of a segment. The first is the one that it breaks.
func localRule(name string, other *req.Requirement) []*req.Requirement {
	switch name {
	case "bad-key":
		return []*req.Requirement{req.SAS2_3_12, other}
	case "other-pd":
		return []*req.Requirement{req.SAS2_3_07, other}
	}
	return []*req.Requirement{other, req.SAS2_3_17}
}

// faults returns all rows of the table.
func faults() []fault {
	var out []fault
	for _, s := range segmentFaults {
		a := func(t *validate.T, p *kit.Pair, g *ci.SGE) { s.change(t, p.A, g) }
		b := func(t *validate.T, p *kit.Pair, g *ci.SGE) { s.change(t, p.B, g) }
		out = append(out,
			fault{id: "fault.send." + s.name, title: "send from " + s.title, rules: localRule(s.name, ibta9_9_01),
				make: withSend(a), want: []ci.WCStatus{ci.WCLocalProtErr}, peerRTS: true},
			fault{id: "fault.recv." + s.name, title: "receive into " + s.title, rules: localRule(s.name, ibta9_9_02),
				make: withSend(func(*validate.T, *kit.Pair, *ci.SGE) {}), recv: withRecv(b),
				want: []ci.WCStatus{ci.WCRemOpErr}, first: []ci.WCStatus{ci.WCLocalProtErr}})
	}
	local := []ci.WCStatus{ci.WCLocalProtErr}
	out = append(out,
		fault{id: "fault.send.second-segment", title: "send whose second segment has a key that does not exist",
			rules: []*req.Requirement{ibta9_9_01, req.SAS2_3_17},
			needs: twoSGEs, want: local, peerRTS: true,
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				w := p.A.SendWR(1, sourceAt, faultLen)
				w.SGL = append(w.SGL, w.SGL[0])
				w.SGL[1].LKey ^= 0x00515100
				return w
			}},
		fault{id: "fault.write.bad-key", title: "write from a segment with a key that does not exist",
			rules: []*req.Requirement{ibta9_9_01, req.SAS2_3_12}, want: local, peerRTS: true,
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				w := p.A.RDMA(ci.OpWrite, 1, sourceAt, faultLen, p.B, targetAt)
				w.SGL[0].LKey ^= 0x00515100
				return w
			}},
		fault{id: "fault.read.no-local-write", title: "read into a region without local write",
			rules: []*req.Requirement{ibta9_9_01}, want: local, peerRTS: true,
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				w := p.A.RDMA(ci.OpRead, 1, sourceAt, faultLen, p.B, targetAt)
				w.SGL = p.A.QP.CA.Buf(p.A.PD, 100, 0).SGL(0, faultLen)
				return w
			}},
		fault{id: "fault.recv.no-local-write", title: "receive into a region without local write",
			rules: []*req.Requirement{ibta9_9_02},
			make:  withSend(func(*validate.T, *kit.Pair, *ci.SGE) {}),
			recv: withRecv(func(_ *validate.T, p *kit.Pair, g *ci.SGE) {
				*g = p.B.QP.CA.Buf(p.B.PD, 256, ci.RemoteRead).SGE(0, 256)
			}),
			want: []ci.WCStatus{ci.WCRemOpErr}, first: local},
		fault{id: "fault.recv.too-short", title: "a message one byte longer than its receive",
			rules: []*req.Requirement{ibta9_9_03},
			make:  func(_ *validate.T, p *kit.Pair) ci.SendWR { return p.A.SendWR(1, sourceAt, 257) },
			want:  []ci.WCStatus{ci.WCRemInvalidReqErr}, first: []ci.WCStatus{ci.WCLocalLenErr}},
		fault{id: "fault.recv.too-short-packets", title: "a message of several packets, longer than its receive",
			rules: []*req.Requirement{ibta9_9_03},
			make:  func(_ *validate.T, p *kit.Pair) ci.SendWR { return p.A.SendWR(1, 0, 4*p.A.PathMTU()) },
			want:  []ci.WCStatus{ci.WCRemInvalidReqErr}, first: []ci.WCStatus{ci.WCLocalLenErr}},
		fault{id: "fault.recv.no-segment", title: "a message of one byte to a receive without segments",
			rules: []*req.Requirement{ibta9_9_03},
			make:  func(_ *validate.T, p *kit.Pair) ci.SendWR { return p.A.SendWR(1, sourceAt, 1) },
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
			out = append(out,
				fault{id: "fault." + svc.name + ".send." + s.name,
					title: "on " + svc.typ.String() + ", send from " + s.title,
					rules: []*req.Requirement{ibta9_9_04}, typ: svc.typ, needs: validate.Needs{Caps: svc.caps},
					make: withSend(func(t *validate.T, p *kit.Pair, g *ci.SGE) { s.change(t, p.A, g) }), want: local,
					peerRTS: true})
		}
	}
	return append(out, remoteFaults()...)
}

var twoSGEs = validate.Needs{Attr: func(a *ci.CAAttr) string {
	if a.MaxSGEs < 2 {
		return "MaxSGEs is less than 2"
	}
	return ""
}}

// remoteFaults returns the row of each cause of a remote access error for each operation with a remote key.
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
		// aimed returns a request to a region of B. change changes the address of the region in it.
		aimed := func(change func(*validate.T, *kit.Pair, *ci.Remote)) func(*validate.T, *kit.Pair) ci.SendWR {
			return func(t *validate.T, p *kit.Pair) ci.SendWR {
				w := p.A.RDMA(op.op, 1, sourceAt, n, p.B, targetAt)
				change(t, p, &w.Remote)
				return w
			}
		}
		for _, c := range []struct {
			name, title string
			change      func(*validate.T, *kit.Pair, *ci.Remote)
			opts        []kit.Option
		}{
			{"bad-key", "with a key that does not exist",
				func(_ *validate.T, _ *kit.Pair, r *ci.Remote) { r.RKey ^= 0x00626200 }, nil},
			{"beyond", "that ends after the region", func(_ *validate.T, p *kit.Pair, r *ci.Remote) {
				*r = p.B.QP.CA.Buf(p.B.PD, 1024, rights).Remote(1024)
			}, nil},
			{"before", "that begins before the region", func(_ *validate.T, p *kit.Pair, r *ci.Remote) {
				*r = p.B.QP.CA.Buf(p.B.PD, 1024, rights).Remote(0)
				r.Addr -= 8
			}, nil},
			{"wraps", "that ends after the last address",
				func(_ *validate.T, _ *kit.Pair, r *ci.Remote) { r.Addr = ^uint64(7) }, nil},
			{"mr-right", "on a region without the right", func(_ *validate.T, p *kit.Pair, r *ci.Remote) {
				*r = p.B.QP.CA.Buf(p.B.PD, 1024, rights&^op.right|ci.LocalWrite).Remote(0)
			}, nil},
			{"qp-right", "on a QP without the right", func(*validate.T, *kit.Pair, *ci.Remote) {},
				[]kit.Option{kit.With(func(c *kit.Config) { c.Access = rights &^ op.right; c.BufAccess = rights })}},
			{"other-pd", "on a region of another PD", func(_ *validate.T, p *kit.Pair, r *ci.Remote) {
				*r = p.B.QP.CA.Buf(p.B.QP.CA.PD(), 1024, rights).Remote(0)
			}, nil},
			{"deregistered", "on a deregistered region", func(t *validate.T, p *kit.Pair, r *ci.Remote) {
				b := p.B.QP.CA.Buf(p.B.PD, 1024, rights)
				*r = b.Remote(0)
				kit.Destroy(t, b, "MR")
			}, nil},
		} {
			f := fault{id: "fault.remote." + op.name + "." + c.name, title: "a remote " + op.name + " " + c.title,
				rules: []*req.Requirement{ibta9_9_05},
				needs: op.needs, opts: c.opts, make: aimed(c.change), want: []ci.WCStatus{ci.WCRemAccessErr},
				event: ci.EventWQAccessError}
			if c.name == "other-pd" {
				f.rules = []*req.Requirement{req.SAS2_3_07, ibta9_9_05}
			}
			switch c.name {
			case "mr-right":
				f.rules = []*req.Requirement{ciRights02, ibta9_9_05}
			case "qp-right": // an unsupported function and not an access error (IBTA 9.9.3, 9.7.4.1.4)
				f.rules = []*req.Requirement{ibta9_9_13, ciRights02}
				f.want, f.event = []ci.WCStatus{ci.WCRemInvalidReqErr}, ci.EventWQReqError
			}
			out = append(out, f)
		}
		if op.op != ci.OpWrite {
			out = append(out,
				fault{id: "fault.remote." + op.name + ".no-resources",
					title: "a remote " + op.name + " to a QP without responder resources",
					rules: []*req.Requirement{ibta9_9_06}, needs: op.needs, opts: []kit.Option{kit.Reads(1, 0)},
					make: aimed(func(*validate.T, *kit.Pair, *ci.Remote) {}),
					want: []ci.WCStatus{ci.WCRemInvalidReqErr}})
		}
	}
	return append(out,
		fault{id: "fault.remote.atomic.misaligned", title: "a remote atomic at an address that is not a multiple of 8",
			rules: []*req.Requirement{ibta9_9_06, ibta9_4_13},
			needs: validate.Needs{Atomics: ci.AtomicLocal},
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				return p.A.RDMA(ci.OpFetchAdd, 1, sourceAt, 8, p.B, targetAt+4)
			},
			want: []ci.WCStatus{ci.WCRemInvalidReqErr}},
		fault{id: "fault.remote.write-imm.bad-key", title: "a write with immediate data and a key that does not exist",
			rules: []*req.Requirement{ibta9_9_05},
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				w := p.A.RDMA(ci.OpWrite, 1, sourceAt, faultLen, p.B, targetAt)
				w.Flags |= ci.SendImmediate
				w.Remote.RKey ^= 0x00626200
				return w
			},
			want: []ci.WCStatus{ci.WCRemAccessErr}, first: []ci.WCStatus{ci.WCLocalAccessErr, ci.WCFlushErr},
			event: ci.EventWQAccessError},
		fault{id: "fault.remote.write-packets.beyond", title: "a write of several packets that ends after the region",
			rules: []*req.Requirement{ibta9_9_05},
			make: func(_ *validate.T, p *kit.Pair) ci.SendWR {
				n := 3 * p.A.PathMTU()
				w := p.A.RDMA(ci.OpWrite, 1, 0, n, p.B, 0)
				w.Remote = p.B.Buf.Remote(uint64(len(p.B.Buf.Bytes) - n + 1))
				return w
			},
			want: []ci.WCStatus{ci.WCRemAccessErr}, event: ci.EventWQAccessError},
	)
}

// faultCases are the fault table and the rules that all faults have in common.
var faultCases = &validate.Area{Feature: validate.FeatureRC}

var ibta9_9_01 = faultCases.Must("IBTA-9.9-01", "IBTA 9.9.2", "table 58, requester class B",
	"A send request with an invalid segment completes with a local protection error. An RC QP goes to Error, "+
		"later requests are flushed, and the peer is not affected.")

var ibta9_9_02 = faultCases.Must("IBTA-9.9-02", "IBTA 9.9.3", "table 60, responder",
	"A receive with an invalid segment completes with a local protection error, and the sender's request with a "+
		"remote operation error. Both QPs go to Error.")

var ibta9_9_03 = faultCases.Must("IBTA-9.9-03", "IBTA 9.9.3", "table 60, responder",
	"A receive that is shorter than the message completes with a local length error, and the sender's request "+
		"with a remote invalid request. Both QPs go to Error.")

var ibta9_9_04 = faultCases.Must("IBTA-9.9-04", "IBTA 10.3.1.5", "send errors of UC and UD",
	"After a send error a UC or UD QP goes to SQError: later sends are flushed. Its receives and the peer are "+
		"not affected.")

var ibta9_9_05 = faultCases.Must("IBTA-9.9-05", "IBTA 9.9.3", "table 60, remote access error",
	"A request with an invalid remote key, address range or PD, or for which the region grants no access right, "+
		"completes with a remote access error. The responder changes no memory and raises the access event, "+
		"unless a receive for immediate data completes with a local access error. Both QPs go to Error.")

var ibta9_9_13 = faultCases.Must("IBTA-9.9-13", "IBTA 9.9.3", "table 60, unsupported function",
	"An operation that the QP does not grant is an unsupported function, whatever the region grants. It "+
		"completes with a remote invalid request. The responder changes no memory, uses no receive and raises "+
		"the request event. Both QPs go to Error.")

var ibta9_9_06 = faultCases.Must("IBTA-9.9-06", "IBTA 9.9.3", "table 60, invalid request",
	"A READ or atomic without responder resources, or a misaligned atomic, completes with a remote invalid "+
		"request. Both QPs go to Error.")

var ibta9_9_07 = faultCases.Must("IBTA-9.9-07", "IBTA 9.7.5.2.8", "RNR NAK",
	"With RNRRetry n a message is retransmitted n times, at intervals of at least the responder's timer. Then it "+
		"completes with the status RNR retries exhausted.")

var ibta9_9_08 = faultCases.Must("IBTA-9.9-08", "IBTA 9.7.5.2.8", "RNR NAK",
	"With RNRRetry 7 a message waits for a receive without limit.")

var ibta9_9_09 = faultCases.Must("IBTA-9.9-09", "IBTA 9.9.2.1", "retry timer",
	"A request without an answer completes with the status transport retries exhausted, and the QP goes to Error.")

var ibta9_9_10 = faultCases.Must("IBTA-9.9-10", "IBTA 9.7.6", "PSN",
	"A message with an unexpected packet sequence number is not delivered and fails at its sender.")

var ibta9_9_11 = faultCases.Must("IBTA-9.9-11", "IBTA 9.9.2", "message length",
	"A message longer than 2^31 bytes completes with a local length error or is rejected by PostSend.")

var ciRights02 = faultCases.Must("CI-Rights-02", "IBTA 10.6.3", "access rights",
	"A remote operation needs its access right on the region and on the QP. Without the right of the region it "+
		"completes with a remote access error, without that of the QP with a remote invalid request.")

var ciFlush01 = faultCases.Must("CI-Flush-01", "IBTA 10.3.1.6", "Error state",
	"A QP that goes to Error completes all outstanding sends and receives as flushed, in the order of their "+
		"posts, each once.")

var ciFlush02 = faultCases.Must("CI-Flush-02", "IBTA 10.10.2", "Error state",
	"A QP whose receive side fails also flushes its own sends.")

var ciFlush03 = faultCases.Must("CI-Flush-03", "IBTA 10.10.2", "completion order",
	"Requests executed before the one that fails complete with success before it.")

var ibta9_9_12 = faultCases.Must("IBTA-9.9-12", "IBTA 9.9.3", "receive errors of UC and UD",
	"A receive on UC or UD with an invalid segment completes with a local protection error, and its QP goes to "+
		"Error. The send completes with success.")

var ciEvent01 = faultCases.Must("CI-Event-01", "IBTA 11.6.3", "affiliated errors",
	"A QP that goes to Error because of its peer does not affect other QPs of its adapter.")

var _ = validate.Matrix(faultCases, faults(), func(f fault) (validate.Case, []*req.Requirement) {
	c := validate.Case{ID: f.id, Title: f.title, Feature: validate.FeatureRC, Needs: f.needs, Run: f.run}
	switch {
	case f.typ == ci.UC:
		c.Feature = validate.FeatureUC
	case f.typ == ci.UD:
		c.Feature = validate.FeatureUD
	case f.needs.Atomics != 0:
		c.Feature = validate.FeatureAtomic
	}
	return c, f.rules
})

var _ = faultCases.Add("fault.rnr.exhausted", "no receive, with RNRRetry 0, 1 and 3", rnrExhausted, ibta9_9_07)

var _ = faultCases.Add("fault.rnr.in-time", "a receive posted between two retries", rnrInTime, ibta9_9_07)

var _ = faultCases.Add("fault.rnr.for-ever", "a receive posted long after the send, with RNRRetry 7", rnrForEver,
	ibta9_9_08)

var _ = faultCases.Add("fault.rnr.write-imm", "a write with immediate data without a receive", rnrWriteImm,
	ibta9_9_08, ibta9_4_03)

var _ = faultCases.Add("fault.timeout.init", "a peer in Init", timeoutInit, ibta9_9_09)

var _ = faultCases.Add("fault.timeout.error", "a peer in Error", timeoutError, ibta9_9_09)

var _ = faultCases.Add("fault.timeout.destroyed", "a destroyed peer", timeoutDestroyed, ibta9_9_09)

var _ = faultCases.Add("fault.timeout.read", "a read without an answer", timeoutRead, ibta9_9_09)

var _ = faultCases.Add("fault.psn", "an unexpected packet sequence number", faultPSN, ibta9_9_10)

var _ = faultCases.Add("fault.send.too-long", "a message of more than 2^31 bytes", faultTooLong, ibta9_9_11)

var _ = faultCases.Add("fault.flush.forced", "Modify to Error with requests on both queues", flushForced, ciFlush01)

var _ = faultCases.Add("fault.flush.responder", "a responder that fails and has sends of its own", flushResponder,
	ciFlush02, ciFlush01)

var _ = faultCases.Add("fault.flush.before", "requests executed before the one that fails", flushBefore, ciFlush03,
	ibta9_9_05)

var _ = faultCases.Add("fault.others", "other QPs of the same adapters while one fails", faultOthers, ciEvent01)

var _ = validate.Matrix(faultCases, services[1:], func(s service) (validate.Case, []*req.Requirement) {
	return validate.Case{
		ID:      "fault." + s.name + ".recv.bad-key",
		Title:   "on " + s.typ.String() + ", receive into a key that does not exist",
		Feature: s.feature,
		Needs:   validate.Needs{Caps: s.caps},
		Run:     func(t *validate.T) { recvFaultUnreliable(t, s.typ) },
	}, []*req.Requirement{ibta9_9_12}
})

// The case connects QPs with different path MTUs. Packets that are not the last of a message must be as long as the
// path MTU of the receiver, and no packet may be longer (IBTA 9.7.4.1.6).
var _ = faultCases.Add("fault.mtu", "ends with different path MTUs", func(t *validate.T) {
	first := kit.RC(t)
	for _, x := range kit.Variants(t, "", []struct {
		a, b ci.MTU
		n    int
		ok   bool
	}{
		{ci.MTU256, ci.MTU512, 256, true},
		{ci.MTU256, ci.MTU512, 257, false},
		{ci.MTU256, ci.MTU512, 3 * 256, false},
		{ci.MTU512, ci.MTU256, 256, true},
		{ci.MTU512, ci.MTU256, 257, false},
		{ci.MTU512, ci.MTU256, 3 * 512, false},
	}) {
		for _, op := range []ci.SendOp{ci.OpSend, ci.OpWrite} {
			first.A.Config.MTU, first.B.Config.MTU = x.a, x.b
			p := first.More(false)
			p.B.Recv(p.B.RecvWR(7, 0, 4096))
			p.A.Send(p.A.RDMA(op, 1, 0, x.n, p.B, 8192))
			if x.ok {
				p.A.CQ.WaitOK(1)
				continue
			}
			p.A.CQ.WaitStatus(1, ci.WCRemInvalidReqErr)
			p.A.Becomes(ci.QPError)
			p.B.Becomes(ci.QPError)
			st := []ci.WCStatus{ci.WCFlushErr}
			if op == ci.OpSend {
				st = append(st, ci.WCRemInvalidReqErr, ci.WCLocalLenErr)
			}
			p.B.RecvCQ.WaitStatus(7, st...)
		}
	}
}, ibta9_9_06)

var _ = faultCases.Of(validate.FeatureAtomic).Needing(validate.Needs{Atomics: ci.AtomicLocal}).Add(
	"fault.atomic.result", "atomics whose result has no valid segment", faultAtomicResult, ibta9_9_01)

// faultAtomicResult posts atomics whose original value cannot be stored. An adapter may detect that before it sends the
// request, or when the response arrives, as it does for a READ: then the word has changed, and an invalid remote key is
// reported in place of the local one (D-96). A longer segment may be an error, or have the value in its first 8 bytes.
func faultAtomicResult(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	readOnly := p.A.CA.Buf(p.A.PD, 64, 0)
	noKey := func(w *ci.SendWR) { w.SGL[0].LKey ^= 0x00999900 }
	for _, x := range kit.Variants(t, "", []struct {
		what   string
		change func(*ci.SendWR)
		also   []ci.WCStatus
	}{
		{"a key that does not exist", noKey, nil},
		{"memory without LocalWrite", func(w *ci.SendWR) { w.SGL = readOnly.SGL(0, 8) }, nil},
		{"memory that ends after 4 bytes",
			func(w *ci.SendWR) { w.SGL[0].Addr = p.A.Buf.Addr + p.A.Buf.Length - 4 }, nil},
		{"4 bytes", func(w *ci.SendWR) { w.SGL[0].Length = 4 }, nil},
		{"16 bytes", func(w *ci.SendWR) { w.SGL[0].Length = 16 }, []ci.WCStatus{ci.WCSuccess}},
		{"no bytes", func(w *ci.SendWR) { w.SGL = nil }, nil},
		{"keys that do not exist at both ends", func(w *ci.SendWR) { noKey(w); w.Remote.RKey ^= 0x00626200 },
			[]ci.WCStatus{ci.WCRemAccessErr}},
	}) {
		for i, op := range []ci.SendOp{ci.OpFetchAdd, ci.OpCompareSwap} {
			after := []uint64{10, 9}[i]
			p.A.Buf.Blank()
			setWord(p.B.Buf, 64, 5)
			w := atomicOp(p, op, 1, 128, 64, 5, 9)
			to := w.Remote
			x.change(&w)
			what := fmt.Sprintf("an atomic (operation %d) with %s for its result", op, x.what)
			n, err := p.A.PostSend([]ci.SendWR{w})
			var result []byte
			if err != nil {
				kit.WantTaken(t, "QP.PostSend of "+what, n, err, 0, ci.InvalidParameter)
			} else {
				want := append(x.also, ci.WCLocalProtErr, ci.WCLocalLenErr, ci.WCLocalOpErr)
				if p.A.CQ.WaitStatus(1, want...).Status == ci.WCSuccess {
					result = binary.NativeEndian.AppendUint64(nil, 5)
				} else {
					p.A.Becomes(ci.QPError)
				}
				p.Reconnect()
			}
			word := wordAt(p.B.Buf, 64)
			kit.True(t, word == 5 && result == nil || word == after && err == nil && w.Remote == to,
				"word at the responder after "+what, "5, or the result if the request was sent", "%d", word)
			p.A.Buf.WantOnly(t, "memory after "+what, 128, result)
		}
	}
}

var _ = faultCases.Needing(validate.Needs{Impair: true}).Add("fault.timeout.cut", "the link is cut", timeoutCut,
	ibta9_9_09)

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
		kit.True(t, took >= time.Duration(n)*period,
			fmt.Sprintf("time until RNR retries are exhausted, with RNRRetry %d and a timer of %v", n, period),
			fmt.Sprintf("at least %v", time.Duration(n)*period), "%v", took)
		p.A.Becomes(ci.QPError)
		p.A.WantDrained()
		p.B.WantState(ci.QPRTS)
		p.B.RecvCQ.Empty()
		kit.Equal(t, "events at the responder", len(p.B.QP.Events.All()), 0)
	}
}

func rnrInTime(t *validate.T) {
	p := kit.RC(t, kit.RNRRetry(6), kit.MinRNR(28), kit.AckTime(0)) // 164 ms between transmissions
	p.A.Send(p.A.SendWR(1, 0, 100))
	p.A.CQ.Empty()
	p.B.Recv(p.B.RecvWR(1, 0, 100))
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(1)
	p.A.WantState(ci.QPRTS)
}

func rnrForEver(t *validate.T) {
	// 0.01 ms between transmissions, so there are hundreds of them
	p := kit.RC(t, kit.RNRRetry(7), kit.Retry(0), kit.MinRNR(1), kit.AckTime(0))
	beside := p.Another()
	p.A.Send(p.A.SendWRs(2)...)
	for range 200 { // so that the adapters have run, also on a busy machine
		beside.A.Exchange(beside.B, 1)
	}
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

// unanswered expects three requests of A to fail because they get no answer.
func unanswered(p *kit.Pair) {
	p.A.CQ.WaitStatus(1, ci.WCTimeoutRetryErr)
	p.A.CQ.WaitFlushed(2, 3)
	p.A.Becomes(ci.QPError)
	p.A.WantDrained()
}

var quick = []kit.Option{kit.AckTime(8), kit.Retry(1)} // about 1 ms, two transmissions

func timeoutInit(t *validate.T) {
	p := unanswering(t, quick...)
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
	p := unanswering(t, quick...)
	p.A.Buf.Blank()
	p.A.Send(p.A.RDMA(ci.OpRead, 1, 0, 100, p.B, 0), p.A.RDMA(ci.OpWrite, 2, 0, 100, p.B, 0), p.A.SendWR(3, 0, 1))
	unanswered(p)
	p.A.Buf.WantOnly(t, "buffer of a read without an answer", 0, nil)
}

func timeoutCut(t *validate.T) {
	first := kit.RC(t)
	p := first.Another(quick...) // short timeouts only for the connection over the cut link
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
	for _, off := range kit.Variants(t, "difference of the PSN",
		[]int{1000, -1001}) { // ahead of the expected PSN, and before it
		p := first.AnotherInReset(kit.MTU(ci.MTU256))
		kit.Connect(p.A.QP, p.B.QP)
		q := first.AnotherInReset(append(quick, kit.MTU(ci.MTU256))...)
		q.A.Init()
		q.B.Init()
		q.A.RTR(q.B.QP)
		q.B.RTR(q.A.QP)
		q.A.QP.PSN = ci.PSN(int(q.A.QP.PSN)+off) & 0xffffff // after B has been set up
		q.A.RTS()
		q.B.RTS()
		q.B.Recv(q.B.RecvWR(1, 0, 100))
		q.A.Send(q.A.SendWRs(3)...)
		unanswered(q)
		q.B.RecvCQ.Empty()
		p.A.Exchange(p.B, 10) // the same with the correct PSN
	}
}

func faultTooLong(t *validate.T) {
	p := kit.RC(t)
	if p.A.Config.Caps.SendSGE < 2 {
		t.Skip("SendSGE is less than 2")
	}
	w := p.A.SendWR(1, 0, 0)
	w.SGL = []ci.SGE{p.A.Buf.SGE(0, 0x7fffffff), p.A.Buf.SGE(0, 0x7fffffff)}
	n, err := p.A.PostSend([]ci.SendWR{w})
	if err != nil {
		kit.WantTaken(t, "QP.PostSend of more than 2^31 bytes", n, err, 0, ci.InvalidParameter)
		t.Note("a message longer than 2^31 bytes is rejected by PostSend")
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
	p := unanswering(t)
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
	p.B.Send(p.B.SendWRs(4)...) // A has no receive, so they wait
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
	q, r := p.More(false), p.More(true) // one with its own queues, one with the queues of p
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
		kit.Equal(t, "number of events of another QP", len(o.B.QP.Events.All()), 0)
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
