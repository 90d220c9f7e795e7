package rvt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
)

// A fault is a row of the two-sided fault table: what a sends, and the completions and events at both ends. a posts the
// bad request, then two SENDs. b has posted three receives.
type fault struct {
	name  string
	typ   ci.QPType
	tweak func(a, b *ci.QPAttr)
	setup func(a, b *side)           // runs before anything is posted
	wr    func(a, b *side) ci.SendWR // the bad request; a plain SEND if nil
	recv  func(b *side) ci.RecvWR    // the first receive; 100 bytes if nil
	none  bool                       // no receives
	a, b  []ci.WCStatus              // completions
	ev    ci.EventType               // at b
	evA   ci.EventType               // events at a
	sa    ci.QPState                 // additional checks
	sb    ci.QPState
	also  func(t *testing.T, a, b *side)
}

var (
	flushed3 = []ci.WCStatus{ci.WCFlushErr, ci.WCFlushErr, ci.WCFlushErr}
	success3 = []ci.WCStatus{ci.WCSuccess, ci.WCSuccess, ci.WCSuccess}
)

func then(st ci.WCStatus) []ci.WCStatus { return []ci.WCStatus{st, ci.WCFlushErr, ci.WCFlushErr} }

// region registers the first 4096 bytes of b (or a) again, with the given rights, in the given PD.
func (s *side) region(pd ci.PD, access ci.Access) ci.MR {
	s.t.Helper()
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(s.buf[:4096]), Access: access})
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		if err := mr.Destroy(); err != nil {
			require.ErrorIs(s.t, err, ci.InvalidMRHandle)
		}
	})
	return mr
}

func (s *side) otherPD() ci.PD {
	s.t.Helper()
	pd, err := s.ca.AllocatePD(ci.PDNormal)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, pd.Destroy()) })
	return pd
}

func (s *side) av(dlid ci.LID) ci.AV {
	s.t.Helper()
	av, err := s.pd.CreateAV(ci.AVAttr{Port: 1, DLID: dlid})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, av.Destroy()) })
	return av
}

const allRemote = ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic

// noKey is the key of nothing.
const noKey = ci.Key(0x1000)

func faults() []fault {
	var list []fault
	local := func(name string, sge func(a *side) ci.SGE) {
		wr := func(op ci.SendOp) func(a, b *side) ci.SendWR {
			return func(a, b *side) ci.SendWR {
				return ci.SendWR{Op: op, SGL: []ci.SGE{a.sge(0, 1)[0], sge(a)}, Remote: b.mr.Region().Remote(0)}
			}
		}
		list = append(list,
			fault{name: name + ", RC", wr: wr(ci.OpSend), a: then(ci.WCLocalProtErr), sa: ci.QPError, sb: ci.QPRTS},
			fault{name: name + ", RC write", wr: wr(ci.OpWrite), a: then(ci.WCLocalProtErr),
				sa: ci.QPError, sb: ci.QPRTS},
			fault{name: name + ", RC read", wr: wr(ci.OpRead), a: then(ci.WCLocalProtErr), sa: ci.QPError,
				sb: ci.QPRTS, none: true},
			fault{name: name + ", UC", typ: ci.UC, wr: wr(ci.OpSend), a: then(ci.WCLocalProtErr), sa: ci.QPSQError,
				sb: ci.QPRTS, evA: ci.EventSQError},
			fault{name: name + ", UD", typ: ci.UD, wr: wr(ci.OpSend), a: then(ci.WCLocalProtErr), sa: ci.QPSQError,
				sb: ci.QPRTS, evA: ci.EventSQError},
			fault{name: name + ", receive", recv: func(b *side) ci.RecvWR { return ci.RecvWR{SGL: []ci.SGE{sge(b)}} },
				a: then(ci.WCRemOpErr), b: then(ci.WCLocalProtErr), sa: ci.QPError, sb: ci.QPError})
	}
	local("L_Key of nothing", func(s *side) ci.SGE { g := s.sge(0, 100)[0]; g.LKey ^= 0x100; return g })
	local("L_Key of another PD", func(s *side) ci.SGE { return s.region(s.otherPD(), allRemote).Region().SGE(0, 100) })
	local("L_Key of a destroyed region", func(s *side) ci.SGE {
		mr := s.region(s.pd, allRemote)
		g := mr.Region().SGE(0, 100)
		require.NoError(s.t, mr.Destroy())
		return g
	})
	local("behind the region", func(s *side) ci.SGE { return s.region(s.pd, allRemote).Region().SGE(4090, 100) })
	local("before the region", func(s *side) ci.SGE {
		g := s.region(s.pd, allRemote).Region().SGE(0,
			100)
		g.Addr--
		return g
	})
	local("around the end of all addresses",
		func(s *side) ci.SGE { g := s.sge(0, 100)[0]; g.Addr = 1<<64 - 50; return g })

	readOnly := func(s *side) []ci.SGE { return []ci.SGE{s.region(s.pd, ci.RemoteRead).Region().SGE(0, 8)} }
	list = append(list,
		fault{name: "READ into what may not be written", none: true, a: then(ci.WCLocalProtErr),
			sa: ci.QPError, sb: ci.QPRTS,
			wr: func(a, b *side) ci.SendWR {
				return ci.SendWR{Op: ci.OpRead, SGL: readOnly(a), Remote: b.mr.Region().Remote(0)}
			}},
		fault{name: "atomic result into what may not be written", none: true, a: then(ci.WCLocalProtErr),
			sa: ci.QPError, sb: ci.QPRTS,
			wr: func(a, b *side) ci.SendWR {
				return ci.SendWR{Op: ci.OpFetchAdd, SGL: readOnly(a), Remote: b.mr.Region().Remote(0),
					Atomic: ci.Atomic{Compare: 1 << 56}}
			},
			also: func(t *testing.T, _, b *side) { require.EqualValues(t, 1, b.buf[7]|b.buf[0], "it was sent") }},
		fault{name: "multi-packet WRITE with immediate and an invalid key", a: then(ci.WCRemAccessErr), b: flushed3,
			ev: ci.EventWQAccessError, sa: ci.QPError, sb: ci.QPError, // detected before a receive is taken
			wr: func(a, _ *side) ci.SendWR {
				return ci.SendWR{Op: ci.OpWrite, Flags: ci.SendImmediate, SGL: a.sge(0, 5000),
					Remote: ci.Remote{RKey: noKey}}
			}},
		fault{name: "receive into what may not be written",
			recv: func(b *side) ci.RecvWR { return ci.RecvWR{SGL: readOnly(b)} },
			a:    then(ci.WCRemOpErr), b: then(ci.WCLocalProtErr), sa: ci.QPError, sb: ci.QPError},
		fault{name: "receive too small", recv: func(b *side) ci.RecvWR { return ci.RecvWR{SGL: b.sge(0, 9)} },
			a: then(ci.WCRemInvalidReqErr), b: then(ci.WCLocalLenErr), sa: ci.QPError, sb: ci.QPError},
		fault{name: "receive without room", recv: func(b *side) ci.RecvWR { return ci.RecvWR{} },
			a: then(ci.WCRemInvalidReqErr), b: then(ci.WCLocalLenErr), sa: ci.QPError, sb: ci.QPError},
		fault{name: "atomic of 4 bytes", none: true, a: then(ci.WCLocalLenErr), sa: ci.QPError, sb: ci.QPRTS,
			wr: func(a, b *side) ci.SendWR { return ci.SendWR{Op: ci.OpCompareSwap, SGL: a.sge(0, 4)} }},
		fault{name: "atomic of 16 bytes", a: success3, b: success3[:2], sa: ci.QPRTS, sb: ci.QPRTS,
			wr: func(a, b *side) ci.SendWR {
				return ci.SendWR{Op: ci.OpFetchAdd, SGL: a.sge(64, 16), Remote: b.mr.Region().Remote(0)}
			}},
		fault{name: "READ without depth", none: true, a: then(ci.WCLocalOpErr), sa: ci.QPError, sb: ci.QPRTS,
			tweak: func(a, b *ci.QPAttr) { a.InitDepth = 0 },
			wr:    func(a, b *side) ci.SendWR { return ci.SendWR{Op: ci.OpRead, SGL: a.sge(0, 4)} }},
		fault{name: "atomic at an odd address", a: then(ci.WCRemInvalidReqErr), b: flushed3, ev: ci.EventWQReqError,
			sa: ci.QPError, sb: ci.QPError,
			wr: func(a, b *side) ci.SendWR {
				return ci.SendWR{Op: ci.OpFetchAdd, SGL: a.sge(0, 8), Remote: b.mr.Region().Remote(4)}
			}},
	)
	// The memory for a response is checked when the response has arrived.
	for _, op := range []ci.SendOp{ci.OpRead, ci.OpFetchAdd, ci.OpCompareSwap} {
		list = append(list, fault{name: "both keys of nothing, " + wcName(op), a: then(ci.WCRemAccessErr), b: flushed3,
			ev: ci.EventWQAccessError, sa: ci.QPError, sb: ci.QPError,
			wr: func(a, _ *side) ci.SendWR {
				return ci.SendWR{Op: op, SGL: []ci.SGE{{Length: 8, LKey: noKey}}, Remote: ci.Remote{RKey: noKey}}
			}})
	}
	for name, key := range map[string]func(b *side) ci.Key{
		"an ordinary region": func(b *side) ci.Key { return b.mr.Region().RKey },
		"nothing":            func(*side) ci.Key { return noKey },
	} {
		list = append(list, fault{name: "SEND that invalidates the key of " + name,
			a: []ci.WCStatus{ci.WCSuccess, ci.WCTimeoutRetryErr, ci.WCFlushErr}, b: then(ci.WCRemInvalidReqErr),
			sa: ci.QPError, sb: ci.QPError,
			wr: func(a, b *side) ci.SendWR {
				return ci.SendWR{Flags: ci.SendInvalidate, SGL: a.sge(0, 100), Inv: key(b)}
			}})
	}
	remote := []struct {
		name  string
		tweak func(a, b *ci.QPAttr)
		at    func(b *side, op ci.SendOp) ci.Remote
	}{
		{"R_Key of nothing", nil,
			func(b *side, _ ci.SendOp) ci.Remote { r := b.mr.Region().Remote(0); r.RKey ^= 0x1000; return r }},
		{"R_Key of another variant", nil,
			func(b *side, _ ci.SendOp) ci.Remote { r := b.mr.Region().Remote(0); r.RKey ^= 1; return r }},
		{"R_Key of a destroyed region", nil, func(b *side, _ ci.SendOp) ci.Remote {
			mr := b.region(b.pd, allRemote)
			r := mr.Region().Remote(0)
			require.NoError(b.t, mr.Destroy())
			return r
		}},
		{"R_Key of another PD", nil, func(b *side, _ ci.SendOp) ci.Remote {
			return b.region(b.otherPD(),
				allRemote).Region().Remote(0)
		}},
		{"last byte outside", nil, func(b *side, _ ci.SendOp) ci.Remote {
			return b.region(b.pd,
				allRemote).Region().Remote(4096)
		}},
		{"end of all addresses", nil, func(b *side, _ ci.SendOp) ci.Remote {
			r := b.mr.Region().Remote(0)
			r.Addr = ^uint64(7)
			return r
		}},
		{"region without the right", nil, func(b *side, op ci.SendOp) ci.Remote {
			return b.region(b.pd, allRemote&^rightFor(op)).Region().Remote(0)
		}},
		{"QP without the right", withoutRights,
			func(b *side, _ ci.SendOp) ci.Remote { return b.mr.Region().Remote(0) }},
		{"QP without the right, R_Key of nothing", withoutRights,
			func(b *side, _ ci.SendOp) ci.Remote { return ci.Remote{RKey: 0x1000} }},
	}
	for _, r := range remote {
		for _, op := range []ci.SendOp{ci.OpWrite, ci.OpRead, ci.OpFetchAdd, ci.OpCompareSwap} {
			wr := func(flags ci.SendFlags) func(a, b *side) ci.SendWR {
				return func(a, b *side) ci.SendWR {
					return ci.SendWR{Op: op, Flags: flags, SGL: a.sge(0, 8), Remote: r.at(b, op)}
				}
			}
			f := fault{name: r.name + ", " + wcName(op), tweak: r.tweak, wr: wr(0), a: then(ci.WCRemAccessErr),
				b: flushed3, ev: ci.EventWQAccessError,
				sa: ci.QPError, sb: ci.QPError}
			if r.tweak != nil { // the QP lacks the right, whatever the key: an unsupported function
				f.a, f.ev = then(ci.WCRemInvalidReqErr), ci.EventWQReqError
			}
			list = append(list, f)
			if op != ci.OpWrite {
				continue
			}
			f.name, f.wr = f.name+" with immediate", wr(ci.SendImmediate)
			if r.tweak == nil { // the receive reports it
				f.b, f.ev = then(ci.WCLocalAccessErr), 0
			}
			list = append(list, f)
			f.name, f.typ, f.wr = f.name+", UC", ci.UC, wr(ci.SendImmediate)
			f.a, f.b, f.ev = success3, success3[:2], 0
			f.sa, f.sb = ci.QPRTS, ci.QPRTS
			f.also = func(t *testing.T, _, b *side) { require.EqualValues(t, 1, b.hca.Counters()["drop_access"]) }
			list = append(list, f)
		}
	}
	timeouts := func(name string, tweak func(a, b *ci.QPAttr), setup func(a, b *side), sb ci.QPState) {
		list = append(list, fault{name: name, tweak: tweak, setup: setup, none: true, a: then(ci.WCTimeoutRetryErr),
			sa: ci.QPError, sb: sb})
	}
	timeouts("peer in Reset", nil, func(_, b *side) { b.toState(ci.QPReset) }, ci.QPReset)
	timeouts("peer in Error", nil, func(_, b *side) { b.toState(ci.QPError) }, ci.QPError)
	timeouts("peer replaced", nil, func(_, b *side) { b.remake(ci.QPCreate{SendCQ: b.cq, RecvCQ: b.cq}) }, ci.QPReset)
	timeouts("link cut", nil, func(a, _ *side) { a.sim().fate = func(int, *Packet) fate { return fate{} } }, ci.QPRTS)
	timeouts("peer expects earlier PSNs", func(_, b *ci.QPAttr) { b.RQPSN = psnAt(-5) }, nil, ci.QPRTS)
	timeouts("peer expects later PSNs", func(_, b *ci.QPAttr) { b.RQPSN = psnAt(5) }, nil, ci.QPRTS)
	timeouts("P_Key of another partition", func(a, _ *ci.QPAttr) { a.Primary.PKeyIndex = 1 }, nil, ci.QPRTS)
	timeouts("another source address", func(_, b *ci.QPAttr) { b.Primary.AV.DLID = 77 }, nil, ci.QPRTS)
	for n := range uint8(3) {
		list = append(list, fault{name: "no receive", none: true, tweak: func(a, _ *ci.QPAttr) { a.RNRRetry = n },
			a: then(ci.WCRNRRetryErr), sa: ci.QPError,
			sb: ci.QPRTS, also: func(t *testing.T, _, b *side) {
				require.EqualValues(t, n+1,
					b.hca.Counters()["rnr_nak_sent"])
			}})
	}
	for _, op := range []ci.SendOp{ci.OpRead, ci.OpFetchAdd} {
		list = append(list, fault{name: "peer without responder resources, " + wcName(op),
			tweak: func(_, b *ci.QPAttr) { b.RespRes = 0 },
			wr: func(a, b *side) ci.SendWR {
				return ci.SendWR{Op: op, SGL: a.sge(0, 8), Remote: b.mr.Region().Remote(0)}
			},
			a: then(ci.WCRemInvalidReqErr), b: flushed3, ev: ci.EventWQReqError, sa: ci.QPError, sb: ci.QPError})
	}
	attr := func(b *side) ci.PortAttr {
		a, err := b.ca.Query()
		require.NoError(b.t, err)
		return a.Ports[0]
	}
	list = append(list,
		fault{name: "Q_Key", typ: ci.UD, tweak: func(_, b *ci.QPAttr) { b.QKey++ }, a: success3,
			sa: ci.QPRTS, sb: ci.QPRTS,
			also: func(t *testing.T, _, b *side) {
				require.EqualValues(t, 3, attr(b).QKeyErrors)
				require.Zero(t, attr(b).PKeyErrors)
			}},
		fault{name: "P_Key", typ: ci.UD, tweak: func(a, _ *ci.QPAttr) { a.Primary.PKeyIndex = 1 }, a: success3,
			sa: ci.QPRTS, sb: ci.QPRTS,
			also: func(t *testing.T, _, b *side) {
				require.EqualValues(t, 3, attr(b).PKeyErrors)
				require.Zero(t, attr(b).QKeyErrors)
			}},
		fault{name: "P_Key of another partition counts", typ: ci.UC,
			tweak: func(a, _ *ci.QPAttr) { a.Primary.PKeyIndex = 1 }, a: success3, sa: ci.QPRTS,
			sb: ci.QPRTS, also: func(t *testing.T, _, b *side) { require.EqualValues(t, 3, attr(b).PKeyErrors) }},
		fault{name: "datagram longer than the MTU", typ: ci.UD, a: then(ci.WCLocalLenErr), sa: ci.QPSQError,
			sb: ci.QPRTS, evA: ci.EventSQError,
			wr: func(a, _ *side) ci.SendWR { return ci.SendWR{SGL: a.sge(0, 4097)} }},
		fault{name: "datagram longer than the receive", typ: ci.UD, a: success3, b: success3[:2],
			sa: ci.QPRTS, sb: ci.QPRTS,
			wr:   func(a, _ *side) ci.SendWR { return ci.SendWR{SGL: a.sge(0, 61)} },
			also: func(t *testing.T, _, b *side) { require.EqualValues(t, 1, b.hca.Counters()["drop_length"]) }},
		fault{name: "UC message longer than the receive", typ: ci.UC, a: success3, b: success3[:2],
			sa: ci.QPRTS, sb: ci.QPRTS,
			wr:   func(a, _ *side) ci.SendWR { return ci.SendWR{SGL: a.sge(0, 5000)} },
			also: func(t *testing.T, _, b *side) { require.NotZero(t, b.hca.Counters()["drop_length"]) }},
		fault{name: "UC without receive", typ: ci.UC, none: true, a: success3, sa: ci.QPRTS, sb: ci.QPRTS,
			also: func(t *testing.T, _, b *side) { require.EqualValues(t, 3, b.hca.Counters()["drop_no_receive"]) }},
		fault{name: "UD without receive", typ: ci.UD, none: true, a: success3, sa: ci.QPRTS, sb: ci.QPRTS,
			also: func(t *testing.T, _, b *side) { require.EqualValues(t, 3, b.hca.Counters()["drop_no_receive"]) }},
	)
	for _, typ := range []ci.QPType{ci.UC, ci.UD} {
		list = append(list, fault{name: "bad receive of a service that does not answer", typ: typ, a: success3,
			b: then(ci.WCLocalProtErr), sa: ci.QPRTS,
			sb: ci.QPError, recv: func(b *side) ci.RecvWR {
				g := b.sge(0,
					100)[0]
				g.LKey ^= 0x100
				return ci.RecvWR{SGL: []ci.SGE{g}}
			}})
	}
	return list
}

// withoutRights makes b a QP that permits no remote operation.
func withoutRights(_, b *ci.QPAttr) { b.Access = 0 }

func wcName(op ci.SendOp) string {
	return []string{"SEND", "WRITE", "READ", "compare-swap", "fetch-add"}[op]
}

func rightFor(op ci.SendOp) ci.Access {
	switch op {
	case ci.OpWrite:
		return ci.RemoteWrite
	case ci.OpRead:
		return ci.RemoteRead
	}
	return ci.RemoteAtomic
}

func (s *side) sim() *sim { return s.hca.ports[0].Port.(*linkPort).link.sim }

func TestFaultTable(t *testing.T) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			l := &wireLink{mtu: ci.MTU4096, sim: &sim{clock: newClock()}}
			a := newSide(t, l, 0xa, l.sim.clock, f.typ, nil)
			b := newSide(t, l, 0xb, l.sim.clock, f.typ, nil)
			aa, ab := a.attr(b), b.attr(a)
			aa.RetryCount, aa.RNRRetry = 2, 2
			if f.tweak != nil {
				f.tweak(&aa, &ab)
			}
			a.toRTS(aa)
			b.toRTS(ab)
			if f.setup != nil {
				f.setup(a, b)
			}
			if !f.none {
				first := ci.RecvWR{SGL: b.sge(0, 100)}
				if f.recv != nil {
					first = f.recv(b)
				}
				first.ID = 100
				b.recv(first, ci.RecvWR{ID: 101, SGL: b.sge(0, 100)}, ci.RecvWR{ID: 102, SGL: b.sge(0, 100)})
			}
			bad := ci.SendWR{SGL: a.sge(0, 10)}
			if f.wr != nil {
				bad = f.wr(a, b)
			}
			wrs := []ci.SendWR{bad, {ID: 1}, {ID: 2}}
			for i := range wrs {
				wrs[i].Flags |= ci.SendSignaled
				if f.typ == ci.UD {
					wrs[i].To = ci.Dest{AV: a.av(b.lid), QPN: b.qp.Num(), QKey: 0x1234}
				}
			}
			a.send(wrs...)
			var wa, wb []ci.WC
			l.sim.run(t, time.Minute, func() bool {
				wa, wb = append(wa, a.poll()...), append(wb, b.poll()...)
				return len(wa) >= 3 && len(wb) >= len(f.b)
			})
			l.sim.settle(t)
			wa, wb = append(wa, a.poll()...), append(wb, b.poll()...)
			require.Equal(t, f.a, statuses(t, wa, 0), "requester's completions")
			require.Equal(t, f.b, statuses(t, wb, 100), "responder's completions")
			require.Equal(t, f.sa, a.state())
			require.Equal(t, f.sb, b.state())
			a.wantEvent(f.evA)
			b.wantEvent(f.ev)
			if f.also != nil {
				f.also(t, a, b)
			}
			// Everything posted to a QP that has ended is flushed. Other QPs go on.
			for _, s := range []*side{a, b} {
				if s.state() == ci.QPError {
					s.recv(ci.RecvWR{ID: 200})
					require.Equal(t, ci.WC{ID: 200, Status: ci.WCFlushErr, Op: ci.WCRecv, QPN: s.qp.Num()}, s.onlyWC())
				}
				if st := s.state(); st == ci.QPError || st == ci.QPSQError {
					s.send(ci.SendWR{ID: 201, To: ci.Dest{AV: s.av(1)}}) // unsignaled, but reported
					require.Equal(t, ci.WC{ID: 201, Status: ci.WCFlushErr, QPN: s.qp.Num()}, s.onlyWC())
				}
			}
		})
	}
}

// statuses returns the statuses of requests whose IDs count up from first. It checks that each completes once, in
// order.
func statuses(t *testing.T, wcs []ci.WC, first uint64) (list []ci.WCStatus) {
	t.Helper()
	for i, wc := range wcs {
		require.Equal(t, first+uint64(i), wc.ID)
		list = append(list, wc.Status)
	}
	return list
}

// wantEvent takes the one event that must have been raised, or checks that there is none.
func (s *side) wantEvent(e ci.EventType) {
	s.t.Helper()
	if e != 0 {
		select {
		case got := <-s.events:
			require.Equal(s.t, e, got.Type)
		case <-time.After(testenv.Patience):
			require.Fail(s.t, "no event", "%v", e)
		}
	}
	select {
	case got := <-s.events:
		require.Fail(s.t, "unexpected event", "%v", got.Type)
	default:
	}
}

// TestFlushOrder moves a QP to Error while work of all kinds is queued.
func TestFlushOrder(t *testing.T) {
	for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			l := &wireLink{sim: &sim{clock: newClock()}, mtu: ci.MTU4096}
			a, b := simPair(t, l, typ, nil)
			a.toState(ci.QPSQD) // so that nothing is sent
			l.sim.settle(t)
			const n, m = 20, 30
			for i := range uint64(n) {
				a.send(ci.SendWR{ID: i, SGL: a.sge(0, 1), To: ci.Dest{AV: a.av(b.lid), QPN: b.qp.Num()}})
			}
			for i := range uint64(m) {
				a.recv(ci.RecvWR{ID: 100 + i, SGL: a.sge(0, 1)})
			}
			a.toState(ci.QPError)
			wcs := a.poll()
			require.Len(t, wcs, n+m)
			for _, st := range append(statuses(t, wcs[:n], 0), statuses(t, wcs[n:], 100)...) {
				require.Equal(t, ci.WCFlushErr, st)
			}
			require.Zero(t, l.sim.n)
			if typ != ci.RC {
				return
			}
			b.send(ci.SendWR{ID: 5})
			var wb []ci.WC
			l.sim.run(t, time.Minute, func() bool { wb = append(wb, b.poll()...); return len(wb) > 0 })
			require.Equal(t, ci.WCTimeoutRetryErr, wb[0].Status)
			require.Equal(t, ci.QPError, b.state())
		})
	}
}

// TestQPComm checks that the first packet at a QP in RTR raises one event.
func TestQPComm(t *testing.T) {
	for _, typ := range []ci.QPType{ci.RC, ci.UC} {
		a, b := pair(t, &wireLink{}, typ)
		b.toState(ci.QPReset)
		attr := b.attr(a)
		b.step(ci.QPInit, attr)
		b.step(ci.QPRTR, attr)
		b.recv(ci.RecvWR{}, ci.RecvWR{})
		b.wantEvent(0)
		a.send(ci.SendWR{}, ci.SendWR{})
		b.wantEvent(ci.EventQPComm)
		b.step(ci.QPRTS, attr)
		require.Len(t, b.poll(), 2)
		b.wantEvent(0)
	}
}
