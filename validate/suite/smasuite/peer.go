package smasuite

import (
	"encoding/binary"
	"time"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// A peer is QP0 or QP1 of another port of the link: a subnet manager, packet by packet.
type peer struct {
	t    *validate.T
	ca   *kit.CA
	end  *kit.End
	lid  ci.LID // of the port under test
	old  ci.LID // the first lid, to which switches forward
	avs  map[ci.LID]ci.AV
	list []ci.MAD // received, and not taken yet
}

const (
	numSlots   = 16
	grhLen     = 40 // bytes in front of a received datagram (IBTA volume 1, 11.4.1.1)
	slotLen    = grhLen + mad.Size
	idSend     = 1000
	permissive = ci.LID(mad.PermissiveLID)
)

// newPeer opens the second adapter of the target with a special QP.
func newPeer(t *validate.T, to *kit.CA, typ ci.QPType) *peer {
	_, h := t.Pair()
	if ci.Same(h, t.HCA()) {
		t.Skip("needs two adapters, and the target has one")
	}
	defer t.Setup()()
	ca := kit.OpenHCA(t, h)
	e := specialEnd(t, ca, typ)
	p := &peer{t: t, ca: ca, end: e, lid: to.Port.LID, old: to.Port.LID, avs: map[ci.LID]ci.AV{}}
	for i := range numSlots {
		e.Recv(e.RecvWR(uint64(i), i*slotLen, slotLen))
	}
	return p
}

// specialEnd creates QP0 or QP1 of an adapter's port in RTS, with a buffer of numSlots receives and one datagram.
func specialEnd(t *validate.T, ca *kit.CA, typ ci.QPType) *kit.End {
	pd := ca.PD()
	e := &kit.End{CQ: ca.CQ(pd, 32), RecvCQ: ca.CQ(pd, 32), Buf: ca.Buf(pd, (numSlots+1)*slotLen, kit.AllAccess)}
	c := kit.Options(ca, ca, kit.Type(typ), kit.QKey(ci.QKey(mad.QKeyGSI)))
	if typ == ci.QP0 {
		c.QKey = 0
	}
	e.QP = &kit.QP{CA: ca, PD: pd, SendCQ: e.CQ, RecvCQ: e.RecvCQ, Events: kit.NewEvents(t), Config: c}
	q, err := pd.CreateSpecialQP(ca.Port.Num, e.Create())
	kit.OK(t, err, "PD.CreateSpecialQP of "+typ.String())
	e.QP.QP = kit.Own(t, q, typ.String())
	e.Init().RTR(nil).RTS()
	return e
}

// av returns an address vector for a LID.
func (p *peer) av(lid ci.LID) ci.AV {
	if p.avs[lid] == nil {
		p.avs[lid] = p.avOf(p.end, lid)
	}
	return p.avs[lid]
}

// avOf creates an address vector for a LID in the domain of an end at the peer's port.
func (p *peer) avOf(e *kit.End, lid ci.LID) ci.AV {
	av, err := e.PD.CreateAV(ci.AVAttr{Port: p.ca.Port.Num, DLID: lid})
	kit.OK(p.t, err, "PD.CreateAV")
	return kit.Own(p.t, av, "AV")
}

// send sends a datagram to the port under test: with a permissive LID if it is at the beginning of a directed route.
func (p *peer) send(m *ci.MAD) {
	lid := p.lid
	if mad.Class(m[1]) == mad.ClassSubnetDirected && m[7] != 0 {
		lid = permissive
	}
	p.sendTo(lid, m)
}

// sendTo sends a datagram to a LID.
func (p *peer) sendTo(lid ci.LID, m *ci.MAD) {
	copy(p.end.Buf.Bytes[numSlots*slotLen:], m[:])
	wr := p.end.SendWR(idSend, numSlots*slotLen, mad.Size)
	wr.To = ci.Dest{AV: p.av(lid), QPN: p.end.Num(), QKey: p.end.Config.QKey}
	p.end.Send(wr)
	p.end.CQ.WaitOK(idSend)
}

// receive waits up to d for datagrams, and reports whether there are new ones.
func (p *peer) receive(d time.Duration) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	wc := make([]ci.WC, numSlots)
	for last := false; ; {
		n, err := p.end.RecvCQ.Poll(wc)
		kit.OK(p.t, err, "CQ.Poll")
		for _, w := range wc[:n] {
			kit.Equal(p.t, "status of a receive of the peer", w.Status, ci.WCSuccess)
			slot := p.end.Buf.Bytes[int(w.ID)*slotLen:][:slotLen]
			if w.Length == slotLen {
				p.list = append(p.list, ci.MAD(slot[grhLen:]))
			}
			p.end.Recv(p.end.RecvWR(w.ID, int(w.ID)*slotLen, slotLen))
		}
		if n > 0 || last {
			return n > 0
		}
		select {
		case <-tick.C:
		case <-end.C:
			last = true
		}
	}
}

// take waits up to d for the first datagram that matches.
func (p *peer) take(d time.Duration, matches func(m *ci.MAD) bool) (m ci.MAD, ok bool) {
	end := time.Now().Add(d)
	for {
		for i := range p.list {
			if matches(&p.list[i]) {
				m = p.list[i]
				p.list = append(p.list[:i], p.list[i+1:]...)
				return m, true
			}
		}
		if left := time.Until(end); left <= 0 || !p.receive(left) {
			return m, false
		}
	}
}

// isResponse returns a function that reports whether a datagram is the response to a transaction.
func isResponse(tid uint64) func(m *ci.MAD) bool {
	return func(m *ci.MAD) bool {
		return mad.Method(m[3]) == mad.GetResp && binary.BigEndian.Uint64(m[8:]) == tid
	}
}

// late is how long a response may take longer than that to a later request.
const late = 50 * time.Millisecond

// ask sends a request and waits for its response. Then it sends another request, a probe, which is answered whether the
// first one is or not: without it, the case would have to wait to find out that there is no response.
func (p *peer) ask(in *ci.MAD, probe *mad.SMP, out *ci.MAD) (answered bool) {
	tid := binary.BigEndian.Uint64(in[8:])
	p.send(in)
	if *out, answered = p.take(late, isResponse(tid)); answered {
		return true
	}
	p.probe(probe)
	*out, answered = p.take(late, isResponse(tid))
	return answered
}

// probe sends a request that is answered.
func (p *peer) probe(q *mad.SMP) {
	var m ci.MAD
	q.Put(m[:])
	p.send(&m)
	_, ok := p.take(p.t.Remaining(), isResponse(q.TID))
	kit.True(p.t, ok, "response to "+name(q)+" from another port of the link", "a response", "none")
}

// asks sends a request and reports whether it is answered soon.
func (p *peer) asks(q *mad.SMP) bool {
	var m ci.MAD
	q.Put(m[:])
	p.send(&m)
	_, ok := p.take(late, isResponse(q.TID))
	return ok
}
