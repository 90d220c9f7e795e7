package rvt

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// dest returns the address of peer's QP as seen by s.
func (s *side) dest(peer *side, key ci.QKey) ci.Dest {
	return ci.Dest{AV: s.av(peer.lid), QPN: peer.qp.Num(), QKey: key}
}

// TestUD checks that the data begins at byte 40, and all fields of a datagram's completion.
func TestUD(t *testing.T) {
	a, b := pair(t, &wireLink{}, ci.UD)
	to := a.dest(b, 0x1234)
	for _, size := range []int{0, 1, 4095, 4096} {
		for i := range size {
			a.buf[i] = byte(i * 7)
		}
		clear(b.buf[:8192])
		b.recv(ci.RecvWR{ID: 4, SGL: []ci.SGE{b.sge(0, 30)[0], b.sge(30, 8000)[0]}})
		a.send(ci.SendWR{ID: 3, Flags: ci.SendSignaled | ci.SendImmediate | ci.SendSolicited, Imm: 77,
			SGL: a.sge(0, size), To: to})
		require.Equal(t, ci.WC{ID: 3, Op: ci.WCSend, QPN: a.qp.Num(), Length: uint32(size)}, a.onlyWC())
		require.Equal(t, ci.WC{ID: 4, Op: ci.WCRecv, QPN: b.qp.Num(), Length: uint32(size + 40), SrcQP: a.qp.Num(),
			SLID: a.lid, Flags: ci.WCImmediate, Imm: 77}, b.onlyWC())
		require.Equal(t, a.buf[:size], b.buf[40:40+size])
		require.Equal(t, make([]byte, 40), b.buf[:40], "no GRH came")
	}
}

// TestUDQKey checks that a key in the request with the high bit set stands for the QP's own (IBTA volume 1, 10.2.5).
func TestUDQKey(t *testing.T) {
	a, b := pair(t, &wireLink{}, ci.UD)
	b.recv(ci.RecvWR{SGL: b.sge(0, 100)})
	a.send(ci.SendWR{To: a.dest(b, 0x80000001)})
	require.Equal(t, ci.WCSuccess, b.onlyWC().Status)
	require.NoError(t, a.qp.Modify(ci.QPFieldQKey, ci.QPAttr{QKey: 9}))
	a.send(ci.SendWR{To: a.dest(b, 0x80000001)})
	require.Empty(t, b.poll())
	require.EqualValues(t, 1, b.hca.Counters()["drop_qkey"])
	require.NoError(t, b.ca.Modify(1, ci.PortFieldQKeyErrors, ci.PortModify{}))
	attr, err := b.ca.Query()
	require.NoError(t, err)
	require.Zero(t, attr.Ports[0].QKeyErrors)
}

func TestHeaderType(t *testing.T) {
	assert.EqualValues(t, 1, headerType([]byte{0x60}), "IPv6")
	assert.EqualValues(t, 2, headerType(make([]byte, wire.GRHAreaLen)), "IPv4")
}

// TestUDGRH checks that a received GRH fills bytes 0 to 39 and is flagged in the completion.
func TestUDGRH(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.UD, nil)
	grh := make([]byte, 40)
	for i := range grh {
		grh[i] = byte(i + 1)
	}
	a.recv(ci.RecvWR{SGL: a.sge(0, 100)})
	r.say(Packet{Op: wire.OpSend, Start: true, End: true, QKey: 0x1234, SrcQP: 5, SL: 3, PathBits: 2, GRH: grh,
		Payload: [][]byte{[]byte("data")}})
	wc := a.onlyWC()
	require.Equal(t, ci.WCGRH, wc.Flags)
	require.EqualValues(t, 44, wc.Length)
	require.EqualValues(t, 3, wc.SL)
	require.EqualValues(t, 2, wc.PathBits)
	require.Equal(t, append(grh, "data"...), a.buf[:44])
}

// TestUDBadAddress checks that errors in an address vector are reported when it is used by a send.
func TestUDBadAddress(t *testing.T) {
	for _, attr := range []ci.AVAttr{{Port: 1}, {Port: 9, DLID: 1}, {}} {
		a, _ := pair(t, &wireLink{}, ci.UD)
		av, err := a.pd.CreateAV(attr)
		require.NoError(t, err)
		a.send(ci.SendWR{To: ci.Dest{AV: av, QPN: 1}})
		require.Equal(t, ci.WCLocalOpErr, a.onlyWC().Status)
		require.Equal(t, ci.QPSQError, a.state())
		require.NoError(t, av.Modify(ci.AVAttr{Port: 1, DLID: 2}))
		a.toState(ci.QPRTS)
		a.send(ci.SendWR{To: ci.Dest{AV: av, QPN: 1}, Flags: ci.SendSignaled})
		require.Equal(t, ci.WCSuccess, a.onlyWC().Status)
		require.NoError(t, av.Destroy())
		_, err = a.qp.PostSend([]ci.SendWR{{To: ci.Dest{AV: av}}})
		require.ErrorIs(t, err, ci.InvalidAVHandle)
	}
}

// TestUCGaps checks that a message with a missing packet is dropped as a whole and that its receive takes the next
// message.
func TestUCGaps(t *testing.T) {
	pkt := func(k int, start, end bool, data string) Packet {
		return Packet{Op: wire.OpSend, Start: start, End: end, PSN: psnAt(k), Payload: [][]byte{[]byte(data)}}
	}
	full := string(make([]byte, 1024))
	tests := []struct {
		name  string
		pkts  []Packet
		ids   []uint64
		sizes []uint32
		drops int
	}{
		{"whole", []Packet{pkt(0, true, false, full), pkt(1, false, true, "x")}, []uint64{0}, []uint32{1025}, 0},
		{"first missing", []Packet{pkt(1, false, true, "x"), pkt(2, true, true, "y")}, []uint64{0}, []uint32{1}, 1},
		{"middle missing", []Packet{pkt(0, true, false, full), pkt(2, false, false, full), pkt(3, false, true, "x"),
			pkt(4, true, true, "y")}, []uint64{0}, []uint32{1}, 2},
		{"last missing", []Packet{pkt(0, true, false, full), pkt(2, true, true, "yy")}, []uint64{0}, []uint32{2}, 0},
		{"twice", []Packet{pkt(0, true, true, "a"), pkt(0, true, true, "a"), pkt(1, true, true, "bcd")},
			[]uint64{0, 1, 2}, []uint32{1, 1, 3}, 0},
		{"only missing", []Packet{pkt(0, true, true, "a"), pkt(9, true, true, "b")}, []uint64{0, 1}, []uint32{1, 1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, r, c := rawPair(t, &wireLink{}, ci.UC, nil)
			for i := range uint64(3) {
				a.recv(ci.RecvWR{ID: i, SGL: a.sge(int(i)*4096, 4096)})
			}
			r.say(tt.pkts...)
			var ids []uint64
			var sizes []uint32
			for _, wc := range a.poll() {
				require.Equal(t, ci.WCSuccess, wc.Status)
				ids, sizes = append(ids, wc.ID), append(sizes, wc.Length)
			}
			require.Equal(t, tt.ids, ids)
			require.Equal(t, tt.sizes, sizes)
			require.EqualValues(t, tt.drops, a.hca.Counters()["drop_sequence"])
			require.Empty(t, r.take(), "UC answers nothing")
			require.Zero(t, c.Pending())
			require.Equal(t, ci.QPRTS, a.state())
		})
	}
}

// TestUCWrite covers remote writes, with and without immediate, and one in between whose access is denied.
func TestUCWrite(t *testing.T) {
	a, b := pair(t, &wireLink{}, ci.UC)
	for i := range a.buf[:9000] {
		a.buf[i] = byte(i * 3)
	}
	far := b.mr.Region().Remote(100)
	bad := far
	bad.RKey++
	b.recv(ci.RecvWR{ID: 1}, ci.RecvWR{ID: 2})
	a.send(
		ci.SendWR{ID: 1, Op: ci.OpWrite, SGL: a.sge(0, 5000), Remote: far, Flags: ci.SendSignaled},
		ci.SendWR{ID: 2, Op: ci.OpWrite, SGL: a.sge(0, 5000), Remote: bad, Flags: ci.SendSignaled |
			ci.SendImmediate, Imm: 1},
		ci.SendWR{ID: 3, Op: ci.OpWrite, SGL: a.sge(5000, 4000), Remote: ci.Remote{Addr: far.Addr + 5000,
			RKey: far.RKey}, Flags: ci.SendSignaled | ci.SendImmediate, Imm: 2},
		ci.SendWR{ID: 4, Op: ci.OpSend},
	)
	require.Len(t, a.poll(), 3)
	require.Equal(t, a.buf[:9000], b.buf[100:9100])
	wcs := b.poll()
	require.Len(t, wcs, 2)
	require.Equal(t, ci.WC{ID: 1, Op: ci.WCRecvWrite, QPN: b.qp.Num(), Length: 4000, Flags: ci.WCImmediate,
		Imm: 2}, wcs[0])
	require.Equal(t, ci.WCRecv, wcs[1].Op)
	require.Equal(t, ci.QPRTS, b.state())
}

// TestUCOtherOps checks that an unreliable connection accepts only SENDs and WRITEs.
func TestUCOtherOps(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{}, ci.UC, nil)
	key := a.mr.Region()
	for op := wire.OpNone; op <= wire.OpCNP; op++ {
		if op == wire.OpSend || op == wire.OpWrite {
			continue
		}
		before := a.hca.Counters()["drop_service"]
		r.say(Packet{Op: op, Start: true, End: true, PSN: psn0, VA: key.Addr, RKey: key.RKey, DMALen: 4,
			Payload: [][]byte{{1, 2, 3, 4}}})
		require.Equal(t, before+1, a.hca.Counters()["drop_service"], "%v", op)
		require.Zero(t, a.buf[0])
	}
	require.Equal(t, ci.QPRTS, a.state())
}

// TestIllegalOps checks the matrix of operations by service (IBTA volume 1, tables 81 and 82).
func TestIllegalOps(t *testing.T) {
	const no, yes = ci.InvalidWRType, ci.Success
	for op, want := range map[ci.SendOp][3]ci.Status{ // RC, UC, UD
		ci.OpSend: {yes, yes, yes}, ci.OpWrite: {yes, yes, no}, ci.OpRead: {yes, no,
			no}, ci.OpCompareSwap: {yes, no, no},
		ci.OpFetchAdd: {yes, no, no}, ci.OpNop: {yes, yes, yes}, ci.OpLSO: {no, no,
			ci.Unsupported}, ci.OpLocalInv: {yes, yes, no}, 99: {no, no, no},
	} {
		for i, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
			a, b := pair(t, &wireLink{}, typ)
			n, err := a.qp.PostSend([]ci.SendWR{{Op: ci.OpNop}, {Op: op, SGL: a.sge(0, 8), To: a.dest(b, 0)},
				{Op: ci.OpNop}})
			require.Equal(t, want[i], ci.StatusOf(err), "%v on %v", op, typ)
			if want[i] == yes {
				require.Equal(t, 3, n)
			} else {
				require.Equal(t, 1, n, "what stands before the bad request is taken")
			}
		}
	}
}

func TestPostLimits(t *testing.T) {
	a, _ := pair(t, &wireLink{}, ci.RC)
	for _, tt := range []struct {
		wr   ci.SendWR
		want ci.Status
	}{
		{ci.SendWR{SGL: make([]ci.SGE, 5)}, ci.InvalidMaxSGE},
		{ci.SendWR{Inline: make([]byte, 257)}, ci.InvalidParameter},
		{ci.SendWR{Op: ci.OpRead, Inline: []byte{}}, ci.InvalidParameter},
		{ci.SendWR{Flags: ci.SendInvalidate | ci.SendImmediate}, ci.InvalidParameter},
		{ci.SendWR{Flags: ci.SendIPChecksum}, ci.Unsupported},
		{ci.SendWR{Op: ci.OpFastReg}, ci.InvalidParameter},
		{ci.SendWR{Op: ci.OpBindMW}, ci.InvalidParameter},
	} {
		n, err := a.qp.PostSend([]ci.SendWR{tt.wr})
		require.ErrorIs(t, err, tt.want)
		require.Zero(t, n)
	}
	a.toState(ci.QPSQD)
	n, err := a.qp.PostSend(make([]ci.SendWR, 300))
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.Equal(t, 256, n)
	n, err = a.qp.PostRecv(make([]ci.RecvWR, 300))
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.Equal(t, 256, n)
	_, err = a.qp.PostRecv([]ci.RecvWR{{SGL: make([]ci.SGE, 5)}})
	require.ErrorIs(t, err, ci.InvalidMaxSGE)
}

// qp1 creates a QP1 on the side's port.
func (s *side) qp1() *side {
	s.t.Helper()
	x := *s
	q, err := s.pd.CreateSpecialQP(1, ci.QPCreate{Type: ci.QP1, SendCQ: s.cq, RecvCQ: s.cq,
		QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8, SendSGE: 2, RecvSGE: 2}})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, q.Destroy()) })
	x.qp = q
	x.toRTS(ci.QPAttr{QKey: 5})
	return &x
}

// TestQP1 checks that there is one QP1 per port, with the well-known Q_Key and a P_Key per request.
func TestQP1(t *testing.T) {
	a, b := pair(t, &wireLink{}, ci.RC)
	qa, qb := a.qp1(), b.qp1()
	require.EqualValues(t, 1, qa.qp.Num())
	_, err := a.pd.CreateSpecialQP(1, ci.QPCreate{Type: ci.QP1, SendCQ: a.cq, RecvCQ: a.cq})
	require.ErrorIs(t, err, ci.ResourceBusy)
	for _, tt := range []struct {
		port uint8
		typ  ci.QPType
		want ci.Status
	}{{0, ci.QP1, ci.InvalidPort}, {2, ci.QP1, ci.InvalidPort}, {1, ci.RC, ci.InvalidServiceType},
		{1, ci.RawIPv6, ci.Unsupported}, {1, ci.RawEther, ci.Unsupported}} {
		_, err := a.pd.CreateSpecialQP(tt.port, ci.QPCreate{Type: tt.typ, SendCQ: a.cq, RecvCQ: a.cq})
		require.ErrorIs(t, err, tt.want)
	}
	for i, want := range []ci.WCStatus{ci.WCSuccess, ci.WCLocalOpErr} {
		ix := uint16(5 * i)
		qb.recv(ci.RecvWR{SGL: qb.sge(0, 300)})
		to := qa.dest(qb, 0) // the request's key is ignored
		to.PKeyIndex = ix
		qa.send(ci.SendWR{Flags: ci.SendSignaled, SGL: qa.sge(400, 256), To: to})
		require.Equal(t, want, qa.onlyWC().Status)
		if want == ci.WCSuccess {
			wc := qb.onlyWC()
			require.EqualValues(t, 296, wc.Length)
			require.EqualValues(t, 1, wc.SrcQP)
			require.Equal(t, ix, wc.PKeyIndex)
		}
	}
	require.Equal(t, ci.QPSQError, qa.state())
	q0, err := a.pd.CreateSpecialQP(1, ci.QPCreate{Type: ci.QP0, SendCQ: a.cq, RecvCQ: a.cq})
	require.NoError(t, err)
	require.EqualValues(t, 0, q0.Num())
	require.NoError(t, q0.Destroy())
	q0, err = a.pd.CreateSpecialQP(1, ci.QPCreate{Type: ci.QP0, SendCQ: a.cq, RecvCQ: a.cq})
	require.NoError(t, err, "free again")
	require.NoError(t, q0.Destroy())
}

// TestQP1PKeyPerRequest checks that a limited member reaches a full member but no other limited member.
func TestQP1PKeyPerRequest(t *testing.T) {
	l := &wireLink{mtu: ci.MTU4096}
	pa, pb := l.port(), l.port()
	pa.attr = func(a *ci.PortAttr) { a.PKeys = []ci.PKey{0xffff, 0x0002, 0x8003} }
	pb.attr = func(a *ci.PortAttr) { a.PKeys = []ci.PKey{0x8002, 0x0003, 0x0004} }
	a := newSideOn(t, []*linkPort{pa}, 0xa, nil, plainRings{}, ci.RC, nil).qp1()
	b := newSideOn(t, []*linkPort{pb}, 0xb, nil, plainRings{}, ci.RC, nil).qp1()
	for ix, want := range []int{-1, 0, 1} {
		b.recv(ci.RecvWR{SGL: b.sge(0, 100)})
		to := a.dest(b, 0)
		to.PKeyIndex = uint16(ix)
		a.send(ci.SendWR{To: to})
		if want < 0 {
			require.Empty(t, b.poll())
			require.EqualValues(t, 1, b.hca.Counters()["drop_pkey"])
			continue
		}
		require.EqualValues(t, want, b.onlyWC().PKeyIndex)
	}
}

// TestPKeyTableChange checks that a QP uses the entry at its index after the subnet manager has changed the table.
func TestPKeyTableChange(t *testing.T) {
	l := &wireLink{mtu: ci.MTU4096}
	pa, pb := l.port(), l.port()
	keys := []ci.PKey{0xffff}
	pb.attr = func(a *ci.PortAttr) { a.PKeys = keys }
	a := newSideOn(t, []*linkPort{pa}, 0xa, nil, plainRings{}, ci.UC, nil)
	b := newSideOn(t, []*linkPort{pb}, 0xb, nil, plainRings{}, ci.UC, nil)
	a.connect(b, nil)
	b.connect(a, nil)
	b.recv(ci.RecvWR{}, ci.RecvWR{})
	a.send(ci.SendWR{})
	require.Len(t, b.poll(), 1)
	for _, k := range [][]ci.PKey{{0x8005}, {0}} {
		keys = k
		receiverOf(b.hca, 0).PortEvent(ci.EventPKeyChange)
		a.send(ci.SendWR{})
		require.Empty(t, b.poll())
	}
	keys = []ci.PKey{0x7fff} // a limited member receives from a full one
	receiverOf(b.hca, 0).PortEvent(ci.EventPKeyChange)
	a.send(ci.SendWR{})
	require.Len(t, b.poll(), 1)
}

// TestUDPortMTU checks that the current MTU of the port limits datagrams, sent and received, including requests posted
// before it changed. A connection keeps its own MTU.
func TestUDPortMTU(t *testing.T) {
	l := &wireLink{mtu: ci.MTU4096}
	a, b := pair(t, l, ci.UD)
	change := func(m ci.MTU, sides ...*side) {
		l.mtu = m
		for _, s := range sides {
			receiverOf(s.hca, 0).PortEvent(ci.EventPortActive)
		}
	}
	try := func(size int, sent ci.WCStatus, arrives bool) {
		t.Helper()
		b.recv(ci.RecvWR{ID: uint64(size), SGL: b.sge(0, 8192)})
		a.send(ci.SendWR{Flags: ci.SendSignaled, SGL: a.sge(0, size), To: a.dest(b, 0x1234)})
		require.Equal(t, sent, a.onlyWC().Status)
		require.Len(t, b.poll(), map[bool]int{true: 1}[arrives])
		if sent != ci.WCSuccess {
			require.Equal(t, ci.QPSQError, a.state())
			a.toState(ci.QPRTS)
		}
	}
	try(4096, ci.WCSuccess, true)
	change(ci.MTU1024, a, b)
	try(1025, ci.WCLocalLenErr, false)
	try(1024, ci.WCSuccess, true)
	change(ci.MTU2048, a)
	try(2048, ci.WCSuccess, false)
	require.EqualValues(t, 1, b.hca.Counters()["drop_length"])
	change(ci.MTU2048, b)
	try(2048, ci.WCSuccess, true)

	l = &wireLink{mtu: ci.MTU4096}
	a, b = pair(t, l, ci.RC)
	b.recv(ci.RecvWR{SGL: b.sge(0, 8192)})
	change(ci.MTU256, a, b)
	a.send(ci.SendWR{Flags: ci.SendSignaled, SGL: a.sge(0, 5000)})
	require.Equal(t, ci.WCSuccess, a.onlyWC().Status)
	require.EqualValues(t, 5000, b.onlyWC().Length)
	attr, err := a.qp.Query()
	require.NoError(t, err)
	require.Equal(t, ci.MTU1024, attr.MTU, "as connected")
}

// TestMulticast checks that each member receives one copy, and a QP that has left the group none.
func TestMulticast(t *testing.T) {
	l := &wireLink{mtu: ci.MTU4096}
	r := &rawPeer{linkPort: l.port(), typ: ci.UD}
	r.linkPort.rx = r
	s := newSide(t, l, 0xa, nil, ci.UD, nil)
	r.side = s
	g1, g2 := ci.GID{0xff, 0x12, 15: 1}, ci.GID{0xff, 0x12, 15: 2}
	var members []*side
	for range 3 {
		x := *s
		var err error
		x.cq, err = s.pd.CreateCQ(ci.CQCreate{Size: 20})
		require.NoError(t, err)
		x.qp, err = s.pd.CreateQP(ci.QPCreate{Type: ci.UD, SendCQ: x.cq, RecvCQ: x.cq,
			QPCaps: ci.QPCaps{RecvDepth: 10, RecvSGE: 1}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, x.qp.Destroy()); require.NoError(t, x.cq.Destroy()) })
		x.toRTS(s.attrTo(0, 1))
		for range 9 {
			x.recv(ci.RecvWR{SGL: x.sge(0, 100)})
		}
		members = append(members, &x)
	}
	attach := func(m int, g ci.GID) ci.Mcast {
		mc, err := members[m].qp.AttachMcast(ci.McastAttach{GID: g, LID: 0xc001})
		require.NoError(t, err)
		return mc
	}
	say := func(g ci.GID, want ...int) {
		t.Helper()
		p := Packet{Op: wire.OpSend, Start: true, End: true, QKey: 0x1234, SrcQP: 5, Dst: Addr{GID: g},
			Payload: [][]byte{[]byte("all")}}
		p.Service, p.DestQP, p.PKey = wire.UD, mcastQPN, 0xffff
		p.N, p.Len = 1, 3
		receiverOf(s.hca, 0).Deliver([]Packet{p}, true, false)
		for i, n := range want {
			require.Len(t, members[i].poll(), n, "member %d", i)
		}
	}
	say(g1, 0, 0, 0)
	require.EqualValues(t, 1, s.hca.Counters()["drop_no_qp"])
	m0, m1 := attach(0, g1), attach(1, g1)
	again, other := attach(1, g1), attach(2, g2)
	say(g1, 1, 1, 0)
	say(g2, 0, 0, 1)
	require.ErrorIs(t, members[0].qp.Destroy(), ci.ResourceBusy)
	require.NoError(t, m1.Destroy())
	say(g1, 1, 1, 0)
	require.NoError(t, again.Destroy())
	say(g1, 1, 0, 0)
	for _, m := range []ci.Mcast{m0, other} {
		require.NoError(t, m.Destroy())
		require.ErrorIs(t, m.Destroy(), ci.InvalidMcastHandle)
	}
	say(g1, 0, 0, 0)
	require.Zero(t, s.hca.Live()["Mcast"])

	for _, tt := range []struct {
		gid  ci.GID
		mlid ci.LID
		want ci.Status
	}{{ci.GID{0xfe}, 0xc001, ci.InvalidGID}, {ci.GID{10: 0xff, 11: 0xff, 12: 224}, 0xc001, ci.InvalidGID},
		{g1, 0xbfff, ci.InvalidLID}, {g1, 0xffff, ci.InvalidLID}} {
		_, err := s.qp.AttachMcast(ci.McastAttach{GID: tt.gid, LID: tt.mlid})
		require.ErrorIs(t, err, tt.want)
	}
	a, _ := pair(t, &wireLink{}, ci.RC)
	_, err := a.qp.AttachMcast(ci.McastAttach{GID: g1, LID: 0xc001})
	require.ErrorIs(t, err, ci.InvalidServiceType)
}
