package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Requests whose objects change between their post and their execution, and requests that were executed before their
// QP fails.

// The case binds a window again and again through a QP in Error. No bind is executed, so that the window keeps its key.
var _ = mwCases.Add("mw.flushed", "more binds than a key has variants, all of which are flushed", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	q := p.More(false) // with the same PDs
	b := p.B.CA.Buf(p.B.PD, 64, bindable)
	w := p.B.CA.MW(p.B.PD, ci.MWType1)
	bind := ci.MWBind{MW: w, MR: b.MR, Addr: b.Addr, Length: 64, Access: ci.RemoteWrite}
	key := rebind(t, p.B, w, bind)
	p.B.To(ci.QPError)
	bind.Key = key
	for i := range 300 {
		next, err := p.B.BindMW(bindID, ci.SendSignaled, bind)
		kit.OK(t, err, "QP.BindMW in Error")
		kit.True(t, next != key, fmt.Sprintf("key of bind %d", i+1), "a new key", "%#x, the window's key", uint32(next))
		p.B.CQ.WaitFlushed(bindID)
		kit.Equal(t, "MW.Key after a bind that was flushed", w.Key(), key)
	}
	q.WantWrite("the window with the key of the last executed bind", ci.Remote{Addr: b.Addr, RKey: key}, b.Bytes)
}, ciBindMW02)

// The case posts a bind behind a SEND that the peer does not answer. A bind that was executed before the QP goes to
// Error is complete with success: if it is signaled, its completion says so. Any other bind is flushed.
var _ = mwCases.Add("mw.executed",
	"a bind behind a request without an answer, when the QP goes to Error", func(t *validate.T) {
		first := kit.NewPairInReset(t, kit.Type(ci.RC))
		for _, x := range kit.Variants(t, "", []struct {
			what  string
			qp    ci.QPFlags
			flags ci.SendFlags
		}{{"signaled", 0, ci.SendSignaled}, {"unsignaled", 0, 0}, {"of a QP with SignalAll", ci.QPSignalAll, 0}}) {
			p := first.AnotherInReset(kit.AckTime(0), kit.Flags(x.qp))
			p.A.Init()
			p.B.Init() // where it answers nothing
			p.A.RTR(p.B.QP)
			p.A.RTS()
			b := p.A.CA.Buf(p.A.PD, 64, bindable)
			w := p.A.CA.MW(p.A.PD, ci.MWType1)
			p.A.Send(p.A.SendWR(1, 0, 8))
			key, err := p.A.BindMW(2, x.flags,
				ci.MWBind{MW: w, MR: b.MR, Key: w.Key(), Addr: b.Addr, Length: 64, Access: ci.RemoteRead})
			kit.OK(t, err, "QP.BindMW behind a SEND without an answer")
			p.A.To(ci.QPError)
			p.A.CQ.WaitFlushed(1)
			what := "a bind that is " + x.what + ", behind a SEND without an answer"
			executed := true
			if x.flags != 0 || x.qp != 0 {
				executed = p.A.CQ.WaitStatus(2, ci.WCSuccess, ci.WCFlushErr).Status == ci.WCSuccess
			} else {
				p.A.Send(p.A.SendWR(3, 0, 8))
				if id := p.A.CQ.Wait(1)[0].ID; id != 3 {
					kit.Equal(t, "request of the completion after "+what, id, 2)
					executed = false
					p.A.CQ.WaitFlushed(3)
				}
			}
			p.A.WantDrained()
			p.A.CQ.Empty()
			kit.Equal(t, "MW.Key at the end of "+what, w.Key() == key, executed)
			kit.Destroy(t, w, "MW")
		}
	}, ciSignal01)

// overtaken drains the QP of B, posts a request, changes its objects, and lets the QP continue. The request must fail.
func overtaken(t *validate.T, p *kit.Pair, what string, wr ci.SendWR, change func(), want ...ci.WCStatus) {
	p.B.To(ci.QPSQD)
	p.B.Becomes(ci.QPSQD)
	p.B.Send(wr)
	change()
	kit.OK(t, p.B.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQD to RTS")
	if st := p.B.CQ.WaitStatus(wr.ID, want...).Status; st != want[0] {
		t.Note("%s: %s", what, st.String())
	}
	p.B.Becomes(ci.QPError)
	p.Reconnect()
}

var _ = mw2Cases.Add("mw2.overtaken", "window or region are destroyed between post and bind", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b, old := p.B.CA.Buf(p.B.PD, 64, bindable), p.B.CA.Buf(p.B.PD, 64, bindable)
	w, gone := p.B.CA.MW(p.B.PD, ci.MWType2), p.B.CA.MW(p.B.PD, ci.MWType2)
	failed := []ci.WCStatus{ci.WCBindErr, ci.WCLocalOpErr, ci.WCLocalProtErr}
	overtaken(t, p, "a bind of a window that was destroyed after the post", bind2(gone, nextKey(gone), b, 0, 64,
		ci.RemoteRead), func() { kit.Destroy(t, gone, "MW") }, failed...)
	before := w.Key()
	overtaken(t, p, "a bind to a region that was destroyed after the post", bind2(w, nextKey(w), old, 0, 64,
		ci.RemoteRead), func() { kit.Destroy(t, old, "MR") }, failed...)
	kit.Equal(t, "MW.Key after the failed bind", w.Key(), before)
	kit.Destroy(t, b, "MR after the failed binds")
}, ciBindMWTwo04)

var _ = mrFastCases.Add("mr.fast.overtaken", "a region is destroyed between post and registration", fastOvertaken,
	ciFastReg02)

func fastOvertaken(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	s, other := newFast(t, p, 1), newFast(t, p, 1)
	overtaken(t, p, "a fast registration of a region that was destroyed after the post", s.wr(1, kit.AllAccess),
		func() { kit.Destroy(t, s.MR, "fast registration MR") }, fastFailed...)
	p.WantDenied("RDMA WRITE with the key of that registration", ci.OpWrite, 8, ci.Remote{Addr: 0x40000, RKey: s.key})
	to := other.register(t, kit.AllAccess)
	overtaken(t, p, "an invalidation of a region that was destroyed after the post", ci.SendWR{ID: 8,
		Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: to.RKey},
		func() { kit.Destroy(t, other.MR, "fast registration MR") }, fastFailed...)
}

// The case posts a READ, and behind it a SEND without a fence that invalidates the key of the READ. The READ has the
// data, or it fails because the key has become invalid. In both cases, the key grants nothing afterwards.
var _ = mrFastCases.Needing(validate.Needs{Caps: ci.CapFastReg | ci.CapSendInvalidate}).Add("mr.fast.read-inv",
	"a READ and a SEND that invalidates its key in one list", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		s := newFast(t, p, 1)
		for range 3 {
			to := s.register(t, kit.AllAccess)
			src := kit.Random(t, s.mem[:500])
			p.B.Recv(p.B.RecvWR(3, 0, 64))
			read, send := p.Request(ci.OpRead, 500, to), p.A.SendWR(2, 1000, 20)
			read.ID, read.Flags = 1, ci.SendSignaled
			send.Flags |= ci.SendInvalidate
			send.Inv = to.RKey
			p.A.Send(read, send)
			if st := p.A.CQ.WaitStatus(1, ci.WCSuccess, ci.WCRemAccessErr).Status; st == ci.WCSuccess {
				kit.SameBytes(t, "data of a READ whose key was invalidated behind it", p.A.Buf.Bytes[:500], src)
				p.A.CQ.WaitOK(2)
				p.B.RecvCQ.WaitOK(3)
			} else {
				p.A.CQ.WaitStatus(2, ci.WCFlushErr)
				p.B.RecvCQ.WaitStatus(3, ci.WCSuccess, ci.WCFlushErr)
				p.Reconnect()
				s.invalidate(t, to.RKey) // if that has not happened
			}
			p.WantUntouched("the invalidated region", to, s.mem[:64])
		}
	}, ciSendInv01)

// The case posts a READ of many packets, a WRITE with an invalid key and a SEND in one list. The READ is complete
// before the WRITE fails, and the SEND is not executed.
var _ = faultCases.Add("fault.behind-read",
	"a WRITE that is refused, and a SEND, behind a long READ", func(t *validate.T) {
		const n = 3 << 18 // takes the engine several turns, and a slow receiver loses none of it
		p := kit.RC(t, kit.Size(n))
		for range 2 {
			src := kit.Random(t, p.B.Buf.Bytes)
			clear(p.A.Buf.Bytes)
			p.B.Recv(p.B.RecvWR(4, 0, 64))
			read, write := p.Request(ci.OpRead, n, p.B.Buf.Remote(0)), p.Request(ci.OpWrite, 8, p.B.Buf.Remote(0))
			read.ID, read.Flags = 1, ci.SendSignaled
			write.ID, write.Flags = 2, ci.SendSignaled
			write.Remote.RKey ^= 0x5a5a00
			write.SGL, read.SGL = []ci.SGE{p.A.Buf.SGE(0, 8)}, []ci.SGE{p.A.Buf.SGE(0, n)}
			p.A.Send(read, write, p.A.SendWR(3, 0, 20))
			p.A.CQ.WaitOK(1)
			kit.SameBytes(t, "data of the READ", p.A.Buf.Bytes, src)
			p.A.CQ.WaitStatus(2, ci.WCRemAccessErr)
			p.A.CQ.WaitFlushed(3)
			p.B.RecvCQ.WaitFlushed(4)
			p.B.Becomes(ci.QPError)
			p.Reconnect()
		}
	}, ciFlush03)

// The case expects that requests which could never be sent do not wait for ever.
var _ = rdmaCases.Add("rdma.read.depth-zero",
	"a READ and an atomic of a QP with initiator depth 0", func(t *validate.T) {
		p := kit.RC(t, kit.Reads(0, 1))
		for _, op := range kit.Variants(t, "opcode", []ci.SendOp{ci.OpRead, ci.OpFetchAdd, ci.OpCompareSwap}) {
			if op != ci.OpRead && t.Attr().Atomicity == ci.AtomicNone {
				continue
			}
			wr := p.Request(op, 8, p.B.Buf.Remote(0))
			wr.ID, wr.Flags = 1, ci.SendSignaled
			if n, err := p.A.PostSend([]ci.SendWR{wr}); err != nil {
				kit.WantTaken(t, "QP.PostSend", n, err, 0, ci.InvalidParameter, ci.InvalidWRType)
				continue
			}
			if p.A.CQ.WaitStatus(1, ci.WCLocalOpErr, ci.WCSuccess).Status != ci.WCSuccess {
				p.Reconnect()
			}
		}
		p.A.Exchange(p.B, 100)
	}, ibta9_4_06)
