package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// grhLen is the number of bytes that precede the payload in the receive buffer of a datagram.
const grhLen = 40

// udCases are the cases of datagrams and of the address vectors that they use. (IBTA 9.8.3, 10.2.2, 11.2.2.)
var udCases = &validate.Area{Feature: validate.FeatureUD, Needs: validate.Needs{Caps: ci.CapUD | ci.CapAV}}

var ibta9_8_10 = udCases.Must("IBTA-9.8-10", "IBTA 9.8.3", "UD SEND",
	"A datagram of any length from 0 to the MTU arrives completely after the first 40 bytes of the receive "+
		"buffer. Its length includes them.")

var _ = udCases.Add("ud.sizes", "datagrams of 0 bytes to the MTU", func(t *validate.T) {
	p := kit.UD(t)
	mtu := p.A.QP.CA.MTU().Bytes()
	kit.Random(t, p.A.Buf.Bytes[:mtu])
	for i, n := range kit.Variants(t, "bytes", kit.MessageSizes(mtu, mtu)) {
		id, at := uint64(i+1), 64*i
		p.B.Buf.Blank()
		p.B.Recv(p.B.RecvWR(id, at, grhLen+n))
		p.A.Send(p.A.SendWR(id, 0, n))
		p.A.CQ.WaitOK(id)
		where := fmt.Sprintf("datagram of %d bytes", n)
		kit.Equal(t, where+": Length, including the 40 bytes", p.B.RecvCQ.WaitOK(id)[0].Length, uint32(grhLen+n))
		for k := range grhLen { // any contents are permitted
			p.B.Buf.Bytes[at+k] = 0xee
		}
		p.B.Buf.WantOnly(t, where, at+grhLen, p.A.Buf.Bytes[:n])
	}
}, ibta9_8_10)

var _ = udCases.Add("ud.scatter",
	"a datagram into segments that end inside the header and the payload", func(t *validate.T) {
		p := kit.UD(t)
		if p.B.Config.Caps.RecvSGE < 3 {
			t.Skip("RecvSGE is less than 3")
		}
		kit.Random(t, p.A.Buf.Bytes[:300])
		p.B.Recv(ci.RecvWR{ID: 1, SGL: []ci.SGE{p.B.Buf.SGE(0, 13), p.B.Buf.SGE(1000, 100), p.B.Buf.SGE(2000, 400)}})
		p.A.Send(p.A.SendWR(1, 0, 300))
		p.A.CQ.WaitOK(1)
		kit.Equal(t, "Length", p.B.RecvCQ.WaitOK(1)[0].Length, grhLen+300)
		kit.SameBytes(t, "payload in the second segment", p.B.Buf.Bytes[1000+27:1100], p.A.Buf.Bytes[:73])
		kit.SameBytes(t, "payload in the third segment", p.B.Buf.Bytes[2000:2000+227], p.A.Buf.Bytes[73:300])
	}, ibta9_8_10, ciPostRecv01)

// global makes A's destination one with a routing header, which is optional on InfiniBand and always present on
// Ethernet. It returns the source and destination GIDs.
func global(t *validate.T, p *kit.Pair) (src, dst ci.GID) {
	a, b := p.A.QP.CA, p.B.QP.CA
	attr := a.AddressOf(b)
	if !attr.Global {
		attr.Global = true
		attr.GRH = ci.GRH{DGID: b.Port.GIDs[0].GID, HopLimit: 1}
		kit.OK(t, p.A.AV.Modify(attr), "AV.Modify to a path with a GRH")
	}
	return a.Port.GIDs[attr.GRH.SGIDIndex].GID, attr.GRH.DGID
}

var ibta9_8_11 = udCases.Must("IBTA-9.8-11", "IBTA 11.4.2.1", "IB_RECV_OPT_GRH_VALID",
	"WCGRH is set exactly if the first 40 bytes hold the routing header, or on RoCEv2 over IPv4 bytes 20 to 39 "+
		"the IP header. The header has the source and destination addresses.")

var _ = udCases.Add("ud.grh", "the header before the payload", func(t *validate.T) {
	p := kit.UD(t)
	src, dst := global(t, p)
	p.B.Recv(p.B.RecvWR(1, 0, 100))
	p.A.Send(p.A.SendWR(1, 200, 60))
	p.A.CQ.WaitOK(1)
	wc := p.B.RecvCQ.WaitOK(1)[0]
	kit.Equal(t, "Flags", wc.Flags&ci.WCGRH, ci.WCGRH)
	h := p.B.Buf.Bytes[:grhLen]
	typ := p.A.QP.CA.Port.GIDs[0].Type
	if [12]byte(src[:12]) == ([12]byte{10: 0xff, 11: 0xff}) && typ != ci.GIDInfiniBand {
		kit.Equal(t, "version of the IP header at byte 20", h[20]>>4, 4)
		kit.SameBytes(t, "source in the IP header", h[32:36], src[12:])
		kit.SameBytes(t, "destination in the IP header", h[36:40], dst[12:])
		return
	}
	kit.Equal(t, "version of the routing header", h[0]>>4, 6)
	kit.SameBytes(t, "source in the routing header", h[8:24], src[:])
	kit.SameBytes(t, "destination in the routing header", h[24:40], dst[:])
}, ibta9_8_11)

var _ = udCases.Add("ud.grh-local",
	"no header on a local InfiniBand path, always a header on Ethernet", func(t *validate.T) {
		p := kit.UD(t)
		p.B.Recv(p.B.RecvWR(1, 0, 100))
		p.A.Send(p.A.SendWR(1, 200, 60))
		p.A.CQ.WaitOK(1)
		wc := p.B.RecvCQ.WaitOK(1)[0]
		if p.A.QP.CA.AddressOf(p.B.QP.CA).Global {
			kit.Equal(t, "Flags of a datagram on Ethernet", wc.Flags&ci.WCGRH, ci.WCGRH)
		} else {
			kit.Equal(t, "Flags of a datagram without a routing header", wc.Flags&ci.WCGRH, 0)
		}
		kit.Equal(t, "Length", wc.Length, 100)
	}, ibta9_8_11)

var ibta9_8_12 = udCases.Must("IBTA-9.8-12", "IBTA 11.4.2.1", "ci_poll_cq (59)",
	"The completion of a datagram has the sender's QP number and, on InfiniBand, its LID and service level.")

var _ = udCases.Add("ud.wc", "all fields of a datagram's completion", udWC, ibta9_8_12, req.SAS2_3_23)

func udWC(t *validate.T) {
	ctx := new(string)
	p := kit.UD(t, kit.With(func(c *kit.Config) { c.Context = ctx }))
	a := p.A.QP.CA
	attr := a.AddressOf(p.B.QP.CA)
	attr.SL = 5
	kit.OK(t, p.A.AV.Modify(attr), "AV.Modify to service level 5")
	p.B.Recv(p.B.RecvWR(77, 0, 100))
	p.A.Send(p.A.SendWR(1, 0, 33))
	kit.Equal(t, "Op of the send", p.A.CQ.WaitOK(1)[0].Op, ci.WCSend)
	wc := p.B.RecvCQ.Wait(1)[0]
	want := ci.WC{ID: 77, Op: ci.WCRecv, Length: grhLen + 33, QPN: p.B.Num(), Context: ctx}
	if attr.Global {
		want.Flags = ci.WCGRH
	}
	kit.WantRecv(t, "receive of a datagram", wc, want)
	kit.Equal(t, "SrcQP", wc.SrcQP, p.A.Num())
	if a.Port.Link == ci.LinkInfiniBand {
		kit.Equal(t, "SLID", wc.SLID, a.Port.LID)
		kit.Equal(t, "SL", wc.SL, 5)
		kit.Equal(t, "PathBits", wc.PathBits, 0)
	}
}

var _ = udCases.Add("ud.immediate", "immediate data", func(t *validate.T) {
	p := kit.UD(t)
	for i, n := range kit.Variants(t, "bytes", []int{0, 60}) {
		w := p.A.SendWR(1, 0, n)
		w.Flags |= ci.SendImmediate
		w.Imm = 0x11223344 + uint32(i)
		p.B.Recv(p.B.RecvWR(1, 0, 100))
		p.A.Send(w)
		p.A.CQ.WaitOK(1)
		wc := p.B.RecvCQ.WaitOK(1)[0]
		kit.Equal(t, "Flags", wc.Flags&ci.WCImmediate, ci.WCImmediate)
		kit.Equal(t, "Imm", fmt.Sprintf("%08x", wc.Imm), fmt.Sprintf("%08x", w.Imm))
		kit.Equal(t, "Length", wc.Length, uint32(grhLen+n))
	}
}, udCases.Must("IBTA-9.8-18", "IBTA 9.8.3", "UD immediate", "A datagram can have immediate data."))

var _ = udCases.Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV, Attr: inline16}).Add("ud.inline",
	"a datagram sent inline", func(t *validate.T) {
		p := kit.UD(t, kit.Inline(16))
		data := kit.Random(t, make([]byte, 16))
		sent := append([]byte(nil), data...)
		p.B.Recv(p.B.RecvWR(1, 0, 100))
		p.A.Send(ci.SendWR{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled, Inline: data, To: p.A.Dest})
		clear(data)
		p.A.CQ.WaitOK(1)
		p.B.RecvCQ.WaitOK(1)
		kit.SameBytes(t, "inline datagram", p.B.Buf.Bytes[grhLen:grhLen+16], sent)
	}, ciInline01, ibta9_8_10)

// dropped sends a datagram that B must drop, and one that B must accept, which must arrive in the first receive.
func dropped(t *validate.T, p *kit.Pair, what string, bad ci.SendWR) {
	p.B.Recv(p.B.RecvWR(1, 0, 1000), p.B.RecvWR(2, 1000, 1000))
	bad.ID = 1
	p.A.Send(bad)
	p.A.CQ.WaitOK(1)
	p.A.Send(p.A.SendWR(2, 0, 3))
	p.A.CQ.WaitOK(2)
	kit.Equal(t, "Length of the first received datagram, sent after one with "+what, p.B.RecvCQ.WaitOK(1)[0].Length,
		grhLen+3)
	p.A.Send(p.A.SendWR(3, 0, 4))
	p.A.CQ.WaitOK(3)
	kit.Equal(t, "Length of the second received datagram", p.B.RecvCQ.WaitOK(2)[0].Length, grhLen+4)
	p.A.WantState(ci.QPRTS)
	p.B.WantState(ci.QPRTS)
}

var _ = udCases.Add("ud.batch",
	"a list of as many datagrams as the queue holds, of many sizes, to two QPs in turn", func(t *validate.T) {
		const room = 256
		n := min(600, t.Attr().MaxWRs, t.Attr().MaxCQEs/2)
		p := kit.UD(t, kit.Depth(n), kit.Size(2*n*room))
		q := p.More(false)
		kit.Random(t, p.A.Buf.Bytes)
		size := func(i int) int { return (i*37+11)%200 + 1 }
		to := func(i int) *kit.End { return []*kit.End{p.B, q.B}[i/3%2] }
		var wrs []ci.SendWR
		var ids []uint64
		recvs, want := map[*kit.End][]ci.RecvWR{}, map[*kit.End][]uint64{}
		for i := range n {
			id := uint64(i + 1)
			w := p.A.SendWR(id, i*room, size(i))
			w.To.QPN = to(i).Num()
			wrs, ids = append(wrs, w), append(ids, id)
			e := to(i)
			recvs[e], want[e] = append(recvs[e], e.RecvWR(id, i*room, room)), append(want[e], id)
		}
		for e, list := range recvs {
			e.Recv(list...)
		}
		p.A.Send(wrs...)
		p.A.CQ.WaitOK(ids...)
		for _, e := range []*kit.End{p.B, q.B} {
			for k, wc := range e.RecvCQ.WaitOK(want[e]...) {
				i := int(want[e][k]) - 1
				what := fmt.Sprintf("datagram %d of %d", i+1, n)
				kit.Equal(t, "Length of "+what, wc.Length, uint32(grhLen+size(i)))
				kit.SameBytes(t, what, e.Buf.Bytes[i*room+grhLen:][:size(i)], p.A.Buf.Bytes[i*room:][:size(i)])
			}
		}
	}, ibta9_8_10)

var _ = udCases.Add("ud.qkey.mismatch", "a wrong Q_Key", func(t *validate.T) {
	p := kit.UD(t)
	for _, bits := range kit.Variants(t, "bits", []ci.QKey{1, 0x40000000, 0x7fffffff}) {
		bad := p.A.SendWR(1, 0, 50)
		bad.To.QKey ^= bits
		dropped(t, p, fmt.Sprintf("a Q_Key with wrong bits %#x", uint32(bits)), bad)
	}
}, udCases.Must("IBTA-9.8-13", "IBTA 10.2.5", "Q_Key",
	"A datagram whose Q_Key is not that of the receiving QP is dropped and uses no receive. The sender's request "+
		"completes with success."))

var _ = udCases.Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV | ci.CapQKeyCounter}).Add("ud.qkey.counter",
	"the port's Q_Key violation counter", func(t *validate.T) {
		p := kit.UD(t)
		b := p.B.QP.CA
		count := func() uint16 {
			a, err := b.Query()
			kit.OK(t, err, "CA.Query")
			return a.Ports[b.Port.Num-1].QKeyErrors
		}
		before := count()
		bad := p.A.SendWR(1, 0, 50)
		bad.To.QKey ^= 0x1000
		dropped(t, p, "a wrong Q_Key", bad)
		kit.Equal(t, "PortAttr.QKeyErrors after one datagram with a wrong Q_Key", count(), before+1)
	}, udCases.Must("IBTA-9.8-15", "IBTA 9.8.3", "Q_Key counter",
		"With CapQKeyCounter, a datagram with a wrong Q_Key increments the counter of the port."))

var _ = udCases.Add("ud.qkey.privileged", "a Q_Key with the high bit set", func(t *validate.T) {
	p := kit.UD(t, kit.QKey(0x0badcafe))
	w := p.A.SendWR(1, 0, 20)
	w.To.QKey = 0x80000000 | 0x1234 // not B's Q_Key; the sending QP's own is used, which is B's
	p.B.Recv(p.B.RecvWR(1, 0, 100))
	p.A.Send(w)
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(1)
	// If the sending QP's own Q_Key is not the receiver's, the privileged value of the request must not be sent.
	q := p.AnotherInReset(kit.QKey(0x00112233))
	q.B.Config.QKey = 0x80000007
	kit.Connect(q.A.QP, q.B.QP)
	av := q.A.QP.CA.AV(q.A.PD, q.B.QP.CA)
	q.A.AV, q.A.Dest = av, ci.Dest{AV: av, QPN: q.B.Num(), QKey: 0x80000007}
	q.B.Recv(q.B.RecvWR(1, 0, 100))
	q.A.Send(q.A.SendWR(1, 0, 20))
	q.A.CQ.WaitOK(1)
	f, attr := ci.QPFieldQKey, ci.QPAttr{QKey: 0x80000007} // now the sending QP's own Q_Key is the receiver's
	kit.OK(t, q.A.Modify(f, attr), "QP.Modify of the Q_Key in RTS")
	q.A.Send(q.A.SendWR(2, 0, 3))
	q.A.CQ.WaitOK(2)
	kit.Equal(t, "Length of the first received datagram, that of a QP with the receiver's Q_Key",
		q.B.RecvCQ.WaitOK(1)[0].Length, grhLen+3)
}, udCases.Must("IBTA-9.8-14", "IBTA 10.2.5", "Q_Key; D-64",
	"If the Q_Key of a request has the high bit set, the Q_Key of the sending QP is used."))

var _ = udCases.Add("ud.too-long", "a datagram of MTU+1 bytes", func(t *validate.T) {
	p := kit.UD(t)
	mtu := p.A.QP.CA.MTU().Bytes()
	p.B.Recv(p.B.RecvWR(1, 0, grhLen+2*mtu))
	n, err := p.A.PostSend([]ci.SendWR{p.A.SendWR(1, 0, mtu+1)})
	if err != nil {
		kit.WantExactly(t, err, "QP.PostSend of a datagram of MTU+1 bytes", ci.InvalidParameter)
		kit.Equal(t, "requests accepted", n, 0)
		t.Note("a datagram longer than the MTU is rejected by PostSend")
	} else {
		p.A.CQ.WaitStatus(1, ci.WCLocalLenErr)
		p.A.Becomes(ci.QPSQError)
		kit.OK(t, p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQError to RTS")
	}
	p.A.Send(p.A.SendWR(2, 0, 6))
	p.A.CQ.WaitOK(2)
	kit.Equal(t, "Length of the first received datagram", p.B.RecvCQ.WaitOK(1)[0].Length, grhLen+6)
}, udCases.Must("IBTA-9.8-16", "IBTA 9.8.3", "UD length",
	"A datagram longer than the MTU completes with a local length error or is rejected by PostSend, and is not "+
		"sent."))

var ibta9_8_17 = udCases.Must("IBTA-9.8-17", "IBTA 9.8.3", "UD responder",
	"A datagram without a receive, with too short a receive, or to a QP that does not exist is dropped. The "+
		"sender's request completes with success, and both QPs still work.")

var _ = udCases.Add("ud.drop.short-receive", "a datagram longer than its receive", func(t *validate.T) {
	p := kit.UD(t)
	p.B.Buf.Blank()
	p.B.Recv(p.B.RecvWR(1, 0, grhLen+10), p.B.RecvWR(2, 200, 100))
	p.A.Send(p.A.SendWR(1, 0, 50), p.A.SendWR(2, 0, 10))
	p.A.CQ.WaitOK(1, 2)
	p.A.WantState(ci.QPRTS)
	tooShort(t, p, grhLen+10)
	for i, c := range p.B.Buf.Bytes[grhLen+10 : 200] {
		kit.Equal(t, fmt.Sprintf("byte %d after a receive that is too short", i), c, 0xee)
	}
}, ibta9_8_17)

var _ = udCases.Add("ud.drop.no-receive", "a datagram without a receive", func(t *validate.T) {
	p := kit.UD(t)
	q := p.More(false) // on the same adapter, so that a datagram that it receives has arrived after the dropped one
	kit.Random(t, p.A.Buf.Bytes[:100])
	q.B.Recv(q.B.RecvWR(1, 0, 100))
	p.A.Send(p.A.SendWR(1, 0, 44))
	p.A.CQ.WaitOK(1)
	w := p.A.SendWR(2, 0, 1)
	w.To.QPN = q.B.Num()
	p.A.Send(w)
	p.A.CQ.WaitOK(2)
	q.B.RecvCQ.WaitOK(1)
	p.B.Recv(p.B.RecvWR(3, 0, 100))
	p.A.Send(p.A.SendWR(3, 0, 5))
	p.A.CQ.WaitOK(3)
	kit.Equal(t, "Length of the first received datagram, sent after one was dropped", p.B.RecvCQ.WaitOK(3)[0].Length,
		grhLen+5)
	p.B.WantState(ci.QPRTS)
}, ibta9_8_17)

var _ = udCases.Add("ud.drop.no-qp", "a datagram to a QP that does not exist", func(t *validate.T) {
	p := kit.UD(t)
	q := p.More(false)
	old := q.B.Num()
	kit.Destroy(t, q.B.QP, "QP")
	bad := p.A.SendWR(1, 0, 50)
	bad.To.QPN = old
	dropped(t, p, "the number of a destroyed QP", bad)
}, ibta9_8_17)

var _ = udCases.Add("ud.two-peers", "one QP exchanges datagrams with two others in turn", func(t *validate.T) {
	p := kit.UD(t)
	q := p.More(false)
	for i := range 8 {
		to := []*kit.End{p.B, q.B}[i%2]
		to.Recv(to.RecvWR(uint64(i), 0, 100))
		w := p.A.SendWR(uint64(i), 0, 10+i)
		w.To.QPN = to.Num()
		p.A.Send(w)
		p.A.CQ.WaitOK(uint64(i))
		wc := to.RecvCQ.WaitOK(uint64(i))[0]
		kit.Equal(t, "Length", wc.Length, uint32(grhLen+10+i))
		kit.Equal(t, "SrcQP", wc.SrcQP, p.A.Num())
		// The answer goes to the source of the datagram.
		p.A.Recv(p.A.RecvWR(uint64(i), 0, 100))
		back := to.SendWR(uint64(i), 0, i)
		back.To.QPN = wc.SrcQP
		to.Send(back)
		to.CQ.WaitOK(uint64(i))
		kit.Equal(t, "SrcQP of the answer", p.A.RecvCQ.WaitOK(uint64(i))[0].SrcQP, to.Num())
	}
}, ibta9_8_12)

var _ = udCases.Add("ud.av.modify", "send after AV.Modify", func(t *validate.T) {
	p := kit.UD(t)
	a, b := p.A.QP.CA, p.B.QP.CA
	self, peer := a.AddressOf(a), a.AddressOf(b)
	av, err := p.A.PD.CreateAV(self)
	kit.OK(t, err, "PD.CreateAV")
	kit.Own(t, av, "AV")
	peer.SL, peer.StaticRate = 2, 3
	kit.OK(t, av.Modify(peer), "AV.Modify")
	got, pd, err := av.Query()
	kit.OK(t, err, "AV.Query")
	kit.SameObject(t, "PD of AV.Query", pd, p.A.PD)
	kit.Equal(t, "AVAttr after AV.Modify", got, peer)
	p.B.Recv(p.B.RecvWR(1, 0, 100))
	w := p.A.SendWR(1, 0, 17)
	w.To.AV = av
	p.A.Send(w)
	p.A.CQ.WaitOK(1)
	kit.Equal(t, "Length of the datagram at the new target", p.B.RecvCQ.WaitOK(1)[0].Length, grhLen+17)
	// The next target is this HCA itself, so only the address changes.
	own := p.More(false).A
	kit.OK(t, av.Modify(self), "AV.Modify")
	own.Recv(own.RecvWR(1, 0, 100))
	w.To.QPN = own.Num()
	p.A.Send(w)
	p.A.CQ.WaitOK(1)
	kit.Equal(t, "Length of the datagram at this HCA", own.RecvCQ.WaitOK(1)[0].Length, grhLen+17)
}, udCases.Must("CI-ModifyAV-01", "IBTA 11.2.2", "ci_modify_av (16)",
	"Datagrams posted after AV.Modify go to the new address, and Query returns it."))

var _ = udCases.Add("ud.av.gone",
	"send with no AV, with a destroyed one, and with one of another HCA", func(t *validate.T) {
		p := kit.UD(t)
		av, err := p.A.PD.CreateAV(p.A.QP.CA.AddressOf(p.B.QP.CA))
		kit.OK(t, err, "PD.CreateAV")
		kit.Own(t, av, "AV")
		kit.Destroy(t, av, "AV")
		type bad struct {
			what string
			av   ci.AV
		}
		list := []bad{{"no AV", nil}, {"a destroyed AV", av}}
		if len(t.HCAs()) > 1 {
			list = append(list, bad{"an AV of another HCA", p.B.AV})
		}
		for _, x := range list {
			wrs := []ci.SendWR{p.A.SendWR(1, 0, 7), p.A.SendWR(2, 0, 8), p.A.SendWR(3, 0, 9)}
			wrs[1].To.AV = x.av
			p.B.Recv(p.B.RecvWR(1, 0, 100), p.B.RecvWR(2, 0, 100))
			n, err := p.A.PostSend(wrs)
			kit.WantTaken(t, "QP.PostSend of 3 datagrams, the second with "+x.what, n, err, 1, ci.InvalidAVHandle)
			p.A.CQ.WaitOK(1)
			p.A.Send(p.A.SendWR(4, 0, 1))
			p.A.CQ.WaitOK(4)
			wcs := p.B.RecvCQ.WaitOK(1, 2)
			kit.Equal(t, "Length of the datagram before the rejected one", wcs[0].Length, grhLen+7)
			kit.Equal(t, "Length of the datagram posted afterwards", wcs[1].Length, grhLen+1)
		}
	}, udCases.Must("CI-PostSend-07", "IBTA 11.4.1.1", "ci_post_send (55), address handle",
		"PostSend of a datagram without an address vector, or with a destroyed one or one of another HCA, fails with "+
			"InvalidAVHandle and does not post it."), req.SAS2_1_23)

var _ = udCases.Add("ud.av.other-pd", "send with an AV of another PD", func(t *validate.T) {
	p := kit.UD(t)
	w := p.A.SendWR(1, 0, 7)
	w.To.AV = p.A.QP.CA.AV(p.A.QP.CA.PD(), p.B.QP.CA)
	p.B.Recv(p.B.RecvWR(1, 0, 100))
	n, err := p.A.PostSend([]ci.SendWR{w})
	if err != nil {
		kit.WantTaken(t, "QP.PostSend of a datagram with an AV of another PD", n, err, 0, ci.InvalidAVHandle)
	} else {
		p.A.CQ.WaitStatus(1, ci.WCLocalOpErr)
		p.A.Becomes(ci.QPSQError)
		kit.OK(t, p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQError to RTS")
	}
	p.A.Send(p.A.SendWR(2, 0, 9))
	p.A.CQ.WaitOK(2)
	kit.Equal(t, "Length of the first received datagram, sent with an AV of the QP's PD",
		p.B.RecvCQ.WaitOK(1)[0].Length, grhLen+9)
}, udCases.Must("CI-PostSend-08", "IBTA 11.4.1.1", "ci_post_send (55), address handle",
	"A datagram with an address vector of a PD other than the QP's is rejected by PostSend with InvalidAVHandle, "+
		"or completes with a local operation error. It is not sent."))

var ciDestroyAV01 = udCases.Must("CI-DestroyAV-01", "IBTA 11.2.2", "ci_destroy_av (17)",
	"Each verb on a destroyed AV fails with InvalidAVHandle.")

var _ = udCases.Add("ud.av.port", "an AV for a port that does not exist", func(t *validate.T) {
	p := kit.UD(t)
	good := p.A.QP.CA.AddressOf(p.B.QP.CA)
	for _, port := range kit.Variants(t, "port", []uint8{0, uint8(len(t.Attr().Ports) + 1), 255}) {
		attr := good
		attr.Port = port
		where := fmt.Sprintf("PD.CreateAV for port %d", port)
		av, err := p.A.PD.CreateAV(attr)
		if t.Claims().Has(ci.CapAVPortCheck) {
			kit.WantRefused(t, av, err, where, ci.InvalidPort)
			kit.WantExactly(t, p.A.AV.Modify(attr), fmt.Sprintf("AV.Modify to port %d", port), ci.InvalidPort)
			got, _, err := p.A.AV.Query()
			kit.OK(t, err, "AV.Query")
			kit.Equal(t, "AVAttr after the rejected AV.Modify", got, good)
			continue
		}
		kit.OK(t, err, where+", which must succeed since CapAVPortCheck is not claimed")
		kit.Own(t, av, "AV")
		unusable(t, p, av)
	}
	p.A.Exchange(p.B, 9)
}, udCases.Must("CI-CreateAV-01", "IBTA 11.2.2", "ci_create_av (14); D-45",
	"With CapAVPortCheck, CreateAV and AV.Modify with a port that does not exist fail with InvalidPort. "+
		"Otherwise the send completes with a local operation error."))

var _ = udCases.Add("ud.av.unusable", "an AV with an address that cannot be used", udAVUnusable,
	udCases.Must("CI-CreateAV-02", "IBTA 11.2.2", "ci_create_av (14); D-45",
		"An address that the port cannot use causes a local operation error of the send."))

// address is an address with a description.
type address struct {
	what string
	attr ci.AVAttr
}

// unusableAddresses returns addresses that the port of A cannot send to.
func unusableAddresses(p *kit.Pair) []address {
	good := p.A.QP.CA.AddressOf(p.B.QP.CA)
	port := p.A.QP.CA.Port
	routed := good
	routed.Global = true
	if routed.GRH.DGID == (ci.GID{}) {
		routed.GRH.DGID = p.B.QP.CA.Port.GIDs[0].GID
	}
	var list []address
	add := func(what string, from ci.AVAttr, change func(*ci.AVAttr)) {
		change(&from)
		list = append(list, address{what, from})
	}
	add("a source GID index beyond the table", routed,
		func(a *ci.AVAttr) { a.GRH.SGIDIndex = uint16(len(port.GIDs)) })
	for i, e := range port.GIDs {
		if e.GID == (ci.GID{}) {
			add("the index of an empty entry of the GID table", routed,
				func(a *ci.AVAttr) { a.GRH.SGIDIndex = uint16(i) })
			break
		}
	}
	if port.Link == ci.LinkEthernet {
		other := ci.GID{0xfd, 0xdd, 15: 77}
		if !isIPv4(port.GIDs[routed.GRH.SGIDIndex].GID) {
			other = ci.GID{10: 0xff, 11: 0xff, 12: 10, 15: 77}
		}
		add("no GRH", good, func(a *ci.AVAttr) { a.Global = false })
		add("destination GID 0", routed, func(a *ci.AVAttr) { a.GRH.DGID = ci.GID{} })
		add("a destination of the other address family", routed, func(a *ci.AVAttr) { a.GRH.DGID = other })
		add("the IPv4 broadcast address", routed, func(a *ci.AVAttr) {
			a.GRH.DGID = ci.GID{10: 0xff, 11: 0xff, 12: 0xff, 13: 0xff, 14: 0xff, 15: 0xff}
		})
	} else {
		add("DLID 0", good, func(a *ci.AVAttr) { a.Global, a.DLID = false, 0 })
		add("a multicast LID without a GRH", good, func(a *ci.AVAttr) { a.Global, a.DLID = false, mlid1 })
		add("a multicast LID with the GID of a port", routed, func(a *ci.AVAttr) { a.DLID = mlid1 })
	}
	return list
}

func udAVUnusable(t *validate.T) {
	p := kit.UD(t)
	for _, x := range kit.Variants(t, "", unusableAddresses(p)) {
		t.Step("%s", x.what)
		av, err := p.A.PD.CreateAV(x.attr)
		kit.OK(t, err, "PD.CreateAV with "+x.what+", which must succeed")
		kit.Own(t, av, "AV")
		unusable(t, p, av)
	}
}

// unusable sends with an AV that leads nowhere, and then with a valid one.
func unusable(t *validate.T, p *kit.Pair, av ci.AV) {
	bad := p.A.SendWR(1, 0, 4)
	bad.To.AV = av
	p.A.Send(bad, p.A.SendWR(2, 0, 5))
	p.A.CQ.WaitStatus(1, ci.WCLocalOpErr)
	p.A.CQ.WaitFlushed(2)
	p.A.Becomes(ci.QPSQError)
	kit.OK(t, p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQError to RTS")
	p.A.Exchange(p.B, 8)
}
