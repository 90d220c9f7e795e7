package chaos

import (
	"time"

	"ciddk/ci"
	"ciddk/wire"
)

// step calls a random verb.
func (b *bench) step(a *actor, other *bench) {
	a.beat()
	b.w.tally.add("random verbs", 1)
	r := a.rnd
	pd := of[ci.PD](a, b, b, pds)
	if pd == nil {
		pd, err := b.ca.AllocatePD(ci.PDType(r.IntN(4)))
		b.keep(pds, pd, err)
		return
	}
	switch r.IntN(30) {
	case 0:
		b.create(a, other, pd)
	case 1:
		b.create(a, other, pd)
	case 2:
		b.create(a, other, pd)
	case 3, 4:
		b.destroy(a, class(r.IntN(int(classes))))
	case 5, 6:
		b.connect(a, other)
	case 7:
		b.modify(a, other)
	case 8, 9, 10, 11, 12:
		b.postSend(a, other)
	case 13, 14, 15:
		b.postRecv(a)
	case 16, 17, 18, 19, 20:
		if cq := of[ci.CQ](a, b, b, cqs); cq != nil {
			b.poll(cq, r.IntN(20))
		}
	case 21:
		b.useCQ(a)
	case 22:
		b.query(a)
	case 23:
		b.remap(a, other, pd)
	case 24:
		b.bind(a, other)
	case 25:
		b.attach(a, other)
	case 26:
		b.localMAD(a)
	case 27:
		b.modifyRegion(a, other)
	case 28:
		if r.IntN(20) == 0 {
			b.checkError(b.hca.SetLink(uint8(r.IntN(4)), r.IntN(3) > 0))
		}
	default:
		for k := range classes { // within the limits
			b.mu.Lock()
			n := len(b.objects[k])
			b.mu.Unlock()
			if n > mostObjects {
				b.destroy(a, k)
			}
		}
	}
}

// create creates a random object of a class.
func (b *bench) create(a *actor, other *bench, pd ci.PD) {
	r := a.rnd
	switch k := class(r.IntN(int(classes))); k {
	case qps, mcasts:
		c := ci.QPCreate{Type: one(r, []ci.QPType{ci.RC, ci.RC, ci.UC, ci.UD, ci.RD, ci.QP0, ci.QPType(r.IntN(9))}),
			Flags:  ci.QPFlags(r.IntN(2)) * ci.QPSignalAll,
			SendCQ: of[ci.CQ](a, b, other, cqs), RecvCQ: of[ci.CQ](a, b, other, cqs), OnEvent: func(ci.Event) {},
			QPCaps: ci.QPCaps{SendDepth: r.IntN(20), RecvDepth: r.IntN(20), SendSGE: r.IntN(4), RecvSGE: r.IntN(4),
				MaxInline: r.IntN(200)}}
		if r.IntN(30) == 0 {
			c.SendDepth = 1 << r.IntN(40)
		}
		if r.IntN(3) == 0 {
			c.RecvDepth, c.SRQ = 0, of[ci.SRQ](a, b, other, srqs)
		}
		if r.IntN(20) == 0 {
			c.Type = one(r, []ci.QPType{ci.QP0, ci.QP1})
			q, err := pd.CreateSpecialQP(uint8(r.IntN(4)), c)
			b.keep(qps, q, err)
			return
		}
		q, err := pd.CreateQP(c)
		b.keep(qps, q, err)
	case cqs:
		cq, err := pd.CreateCQ(ci.CQCreate{Size: r.IntN(64), OnCompletion: func(any) {}, OnEvent: func(ci.Event) {}})
		b.keep(cqs, cq, err)
	case srqs:
		s, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: r.IntN(40), MaxSGE: r.IntN(4), Limit: r.IntN(5)},
			OnEvent: func(ci.Event) {}})
		b.keep(srqs, s, err)
	case mrs, mws:
		if k == mws && r.IntN(2) == 0 {
			w, err := pd.CreateMW(ci.MWCreate{Type: ci.MWType(r.IntN(4))})
			b.keep(mws, w, err)
			return
		}
		m, err := pd.RegisterMR(b.region(a))
		b.keep(mrs, m, err)
	case shared:
		if src := of[ci.MR](a, b, other, mrs); src != nil {
			m, err := pd.RegisterSMR(src, 0, b.access(a))
			b.keep(shared, m, err)
		}
	case fmrs:
		f, err := pd.AllocFMR(ci.FMRCreate{MaxPages: r.IntN(4), MaxMaps: r.IntN(4), PageShift: uint8(10 + r.IntN(4)),
			Access: b.access(a)})
		b.keep(fmrs, f, err)
	case dmas:
		d, err := b.ca.MapDMA(ci.Bytes(one(r, b.areas).body()))
		b.keep(dmas, d, err)
	case avs:
		v, err := pd.CreateAV(b.address(a, other))
		b.keep(avs, v, err)
	case handlers:
		h, err := b.ca.OnEvent(func(ci.Event) {}, nil)
		b.keep(handlers, h, err)
	case pds:
		p, err := b.ca.AllocatePD(ci.PDNormal)
		b.keep(pds, p, err)
	}
}

func (b *bench) access(a *actor) ci.Access {
	if a.rnd.IntN(2) == 0 {
		return allRights
	}
	return ci.Access(a.rnd.IntN(64))
}

// region returns a random region within the body of an area.
func (b *bench) region(a *actor) ci.MRCreate {
	g := one(a.rnd, b.areas)
	off := a.rnd.IntN(areaLen)
	return ci.MRCreate{Memory: ci.Bytes(g.body()), Offset: uint64(off), Length: uint64(a.rnd.IntN(areaLen - off + 2)),
		Access: b.access(a)}
}

// address returns an address of the other bench, or an unused one.
func (b *bench) address(a *actor, other *bench) ci.AVAttr {
	r := a.rnd
	v := ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: gidOf(other.addr), HopLimit: 64}}
	switch r.IntN(8) {
	case 0, 1:
		v = ci.AVAttr{Port: 2, DLID: ci.LID(r.IntN(5))}
	case 2:
		v.GRH.DGID = gidOf(unplugged)
	case 3:
		v.GRH.DGID = ci.GID{0xff, 1: byte(r.Uint32())}
	case 4:
		v.Port, v.GRH.SGIDIndex = uint8(r.IntN(5)), uint16(r.IntN(4))
	}
	return v
}

// connect connects a QP of each bench. Other actors may use them at the same time.
func (b *bench) connect(a *actor, other *bench) {
	p, q := of[ci.QP](a, b, b, qps), of[ci.QP](a, other, other, qps)
	if p == nil || q == nil {
		return
	}
	there := connectedAttr(gidOf(other.addr), q.Num(), 10, 20)
	back := connectedAttr(gidOf(b.addr), p.Num(), 20, 10)
	there.RetryCount, back.RetryCount = uint8(a.rnd.IntN(3)), uint8(a.rnd.IntN(3))
	there.RNRRetry, back.RNRRetry = uint8(a.rnd.IntN(3)), uint8(a.rnd.IntN(3))
	there.Primary.AckTimeout, back.Primary.AckTimeout = 12, 12
	for _, s := range []struct {
		q    ci.QP
		attr ci.QPAttr
	}{{p, there}, {q, back}} {
		now, err := s.q.Query()
		if err != nil || now.Type != ci.RC && now.Type != ci.UC && now.Type != ci.UD {
			continue
		}
		b.checkError(s.q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
		sets := []ci.QPField{ci.QPFieldsInit, ci.QPFieldsRTR, ci.QPFieldsRTS}
		switch now.Type {
		case ci.UC:
			sets = []ci.QPField{ci.QPFieldsInit, ci.QPFieldsUCRTR, ci.QPFieldsUCRTS}
		case ci.UD:
			sets = []ci.QPField{ci.QPFieldsUDInit, ci.QPFieldsUDRTR, ci.QPFieldsUDRTS}
		}
		for i, to := range []ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS} {
			s.attr.State, s.attr.QKey = to, 0x11111111
			b.checkError(s.q.Modify(sets[i], s.attr))
		}
	}
}

// modify calls QP.Modify with random arguments.
func (b *bench) modify(a *actor, other *bench) {
	r := a.rnd
	q := of[ci.QP](a, b, b, qps)
	if q == nil {
		return
	}
	attr := connectedAttr(gidOf(other.addr), ci.QPN(r.Uint32()&wire.Mask24), ci.PSN(r.Uint32()), ci.PSN(r.Uint32()))
	attr.State, attr.CurrentState = ci.QPState(r.IntN(9)), ci.QPState(r.IntN(9))
	attr.MTU, attr.APM, attr.SQDEvent = ci.MTU(r.IntN(7)), ci.APMState(r.IntN(5)), r.IntN(2) == 0
	attr.Port, attr.Primary.AV = uint8(r.IntN(4)), b.address(a, other)
	attr.Alternate.AV, attr.Alternate.PKeyIndex = b.address(a, other), uint16(r.IntN(3))
	attr.RetryCount, attr.RNRRetry, attr.MinRNRTimer = uint8(r.IntN(9)), uint8(r.IntN(9)), uint8(r.IntN(33))
	attr.InitDepth, attr.RespRes = uint8(r.Uint32()), uint8(r.Uint32())
	set := ci.QPFieldState | ci.QPField(r.Uint32()&r.Uint32()&(1<<23-1))
	if r.IntN(2) == 0 {
		set = ci.QPFieldState
	}
	b.checkError(q.Modify(set, attr))
}

// sgl returns a random list of segments, most of them within a region.
func (b *bench) sgl(a *actor) []ci.SGE {
	var l []ci.SGE
	for range a.rnd.IntN(4) {
		m := of[ci.MR](a, b, b, one(a.rnd, []class{mrs, mrs, shared}))
		if m == nil {
			continue
		}
		g := m.Region()
		s := g.SGE(uint64(a.rnd.IntN(int(g.Length)+1)), uint32(a.rnd.IntN(512)))
		switch a.rnd.IntN(20) {
		case 0:
			s.Length = a.rnd.Uint32()
		case 1:
			s.Addr -= 16
		case 2:
			s.LKey ^= ci.Key(1 << a.rnd.IntN(32))
		}
		l = append(l, s)
	}
	return l
}

// postSend posts requests of all kinds.
func (b *bench) postSend(a *actor, other *bench) {
	r := a.rnd
	q := of[ci.QP](a, b, b, qps)
	if q == nil {
		return
	}
	wrs := make([]ci.SendWR, r.IntN(5))
	for i := range wrs {
		wr := ci.SendWR{ID: b.id(), Op: ci.SendOp(r.IntN(11)), Flags: ci.SendFlags(r.IntN(16)), Imm: r.Uint32(),
			SGL: b.sgl(a)}
		if r.IntN(3) > 0 {
			wr.Op = ci.SendOp(r.IntN(5))
		}
		if r.IntN(8) == 0 {
			wr.SGL, wr.Inline = nil, make([]byte, r.IntN(256))
		}
		if m := of[ci.MR](a, other, b, mrs); m != nil {
			g := m.Region()
			wr.Remote = g.Remote(uint64(r.IntN(int(g.Length)+1)) &^ 7)
			wr.Inv = g.RKey
		}
		if r.IntN(10) == 0 {
			wr.Flags |= ci.SendInvalidate
		}
		if r.IntN(16) == 0 {
			wr.Remote.Addr = r.Uint64()
		}
		wr.To = ci.Dest{QPN: ci.QPN(r.Uint32() & wire.Mask24), QKey: 0x11111111}
		if t := of[ci.QP](a, other, b, qps); t != nil {
			wr.To.QPN = t.Num()
		}
		if v := of[ci.AV](a, b, other, avs); v != nil {
			wr.To.AV = v
		}
		if wr.Op >= ci.OpLSO && r.IntN(4) > 0 {
			wr.Ext = b.ext(a, other)
		}
		wrs[i] = wr
	}
	_, err := q.PostSend(wrs)
	b.checkError(err)
}

func (b *bench) ext(a *actor, other *bench) *ci.SendExt {
	r := a.rnd
	x := &ci.SendExt{LSO: ci.LSO{Header: make([]byte, r.IntN(80)), MSS: r.IntN(2000)}}
	x.Bind = b.windowBind(a, other)
	if m := of[ci.MR](a, b, other, mrs); m != nil {
		x.FastReg = ci.FastReg{MR: m, Pages: b.pages(a), PageShift: 12, Length: uint64(r.IntN(8192)),
			Key: m.Region().LKey&^0xff | ci.Key(r.IntN(256)), Access: b.access(a)}
	}
	return x
}

func (b *bench) windowBind(a *actor, other *bench) (w ci.MWBind) {
	w.MW = of[ci.MW](a, b, other, mws)
	w.Access, w.Length = ci.Access(a.rnd.IntN(8)), uint64(a.rnd.IntN(2000))
	if m := of[ci.MR](a, b, other, mrs); m != nil {
		w.MR, w.Addr = m, m.Region().Addr
	}
	if w.MW != nil {
		w.Key = w.MW.Key()
	}
	return w
}

// pages returns addresses in DMA space, if there is a mapping.
func (b *bench) pages(a *actor) []uint64 {
	d := of[ci.DMA](a, b, b, dmas)
	if d == nil {
		return []uint64{a.rnd.Uint64() &^ 4095}
	}
	var l []uint64
	for _, g := range d.Ranges() {
		l = append(l, g.Addr)
	}
	return l
}

// postRecv posts receives to a QP or SRQ.
func (b *bench) postRecv(a *actor) {
	wrs := make([]ci.RecvWR, a.rnd.IntN(5))
	for i := range wrs {
		wrs[i] = ci.RecvWR{ID: b.id(), SGL: b.sgl(a)}
	}
	if s := of[ci.SRQ](a, b, b, srqs); s != nil && a.rnd.IntN(3) == 0 {
		_, err := s.PostRecv(wrs)
		b.checkError(err)
		return
	}
	if q := of[ci.QP](a, b, b, qps); q != nil {
		_, err := q.PostRecv(wrs)
		b.checkError(err)
	}
}

// useCQ calls the verbs of a CQ.
func (b *bench) useCQ(a *actor) {
	r := a.rnd
	q := of[ci.CQ](a, b, b, cqs)
	if q == nil {
		return
	}
	switch r.IntN(5) {
	case 0:
		b.checkError(q.Notify(ci.Notify(r.IntN(3))))
	case 1:
		b.checkError(q.NotifyAfter(r.IntN(80)))
	case 2:
		_, err := q.Peek()
		b.checkError(err)
	case 3:
		_, err := q.Resize(ci.CQResize{Size: r.IntN(80)})
		b.checkError(err)
	case 4:
		b.checkError(q.Modify(ci.Moderation{Count: r.IntN(10), Period: time.Duration(r.IntN(1000000))}))
	}
}

// query queries a random object.
func (b *bench) query(a *actor) {
	var err error
	switch o := b.pick(a, class(a.rnd.IntN(int(classes)))).(type) {
	case ci.QP:
		_, err = o.Query()
	case ci.CQ:
		_, err = o.Query()
	case ci.SRQ:
		if a.rnd.IntN(2) == 0 {
			err = o.Modify(ci.SRQField(a.rnd.IntN(4)), ci.SRQAttr{MaxWR: a.rnd.IntN(40), Limit: a.rnd.IntN(10)})
		} else {
			_, err = o.Query()
		}
	case ci.MR:
		_, err = o.Query()
	case ci.MW:
		_, err = o.Query()
	case ci.AV:
		if a.rnd.IntN(2) == 0 {
			err = o.Modify(b.address(a, b))
		} else {
			_, _, err = o.Query()
		}
	default:
		_, err = b.ca.Query()
	}
	b.checkError(err)
}

// remap uses fast registration and FMRs with DMA addresses.
func (b *bench) remap(a *actor, other *bench, pd ci.PD) {
	r := a.rnd
	switch r.IntN(4) {
	case 0:
		if f := of[ci.FMR](a, b, other, fmrs); f != nil {
			_, err := f.Map(b.pages(a), 0)
			b.checkError(err)
		}
	case 1:
		if f := of[ci.FMR](a, b, other, fmrs); f != nil {
			b.checkError(pd.UnmapFMRs([]ci.FMR{f}))
		}
	case 2:
		m, err := pd.AllocFastRegMR(r.IntN(8))
		b.keep(mrs, m, err)
	case 3:
		if d := of[ci.DMA](a, b, other, dmas); d != nil {
			m, err := pd.RegisterPMR(ci.PMRCreate{Ranges: d.Ranges(), PageSize: 1 << (9 + r.IntN(6)),
				Length: uint64(r.IntN(5000)), Access: b.access(a)})
			b.keep(mrs, m, err)
		}
	}
}

// bind posts a bind of a type 1 window.
func (b *bench) bind(a *actor, other *bench) {
	if q := of[ci.QP](a, b, b, qps); q != nil {
		_, err := q.BindMW(b.id(), ci.SendFlags(a.rnd.IntN(16)), b.windowBind(a, other))
		b.checkError(err)
	}
}

// attach attaches a QP to a multicast group.
func (b *bench) attach(a *actor, _ *bench) {
	if q := of[ci.QP](a, b, b, qps); q != nil {
		m, err := q.AttachMcast(ci.McastAttach{GID: ci.GID{0xff, 1: 0x0e, 15: byte(a.rnd.IntN(4))},
			LID: ci.LID(0xc000 + a.rnd.IntN(4))})
		b.keep(mcasts, m, err)
	}
}

// localMAD executes a datagram on a port.
func (b *bench) localMAD(a *actor) {
	var in, out ci.MAD
	copy(in[:], randomMAD(a))
	in[1] = one(a.rnd, []byte{1, 0x81, 4})
	in[3] = one(a.rnd, []byte{1, 2})
	in[17] = byte(0x10 + a.rnd.IntN(16))
	if in[1] == 1 && in[3] == 2 {
		in[3] = 1 // a Set could take the port down
	}
	b.checkError(b.ca.LocalMAD(uint8(a.rnd.IntN(4)), nil, &in, &out))
}

// modifyRegion calls MR.Modify.
func (b *bench) modifyRegion(a *actor, other *bench) {
	if m := of[ci.MR](a, b, b, mrs); m != nil {
		b.checkError(m.Modify(ci.MRField(a.rnd.IntN(8)), of[ci.PD](a, b, other, pds), b.region(a)))
	}
}

// linkPacket returns a frame for the direct link: well-formed with random fields, or damaged.
func linkPacket(a *actor, lid uint16) []byte {
	r := a.rnd
	p := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHLocal, DLID: uint16(1 + r.IntN(3)), SLID: lid}}
	p.Packet.BTH = wire.BTH{Opcode: wire.Opcode(r.Uint32()), PKey: 0xffff, DestQP: r.Uint32N(4),
		PSN: r.Uint32() & wire.Mask24}
	if !p.Packet.BTH.Opcode.Valid() {
		p.Packet.BTH.Opcode = wire.UDSendOnly
	}
	p.Packet.DETH = wire.DETH{QKey: one(r, []uint32{0, 0x80010000, r.Uint32()}), SrcQP: 1}
	if p.Packet.BTH.Opcode.HasPayload() {
		p.Packet.Payload = make([]byte, r.IntN(300))
		if p.Packet.BTH.DestQP <= 1 {
			p.Packet.Payload = randomMAD(a)
		}
	}
	b := wire.AppendLinkPacket(nil, &p)
	switch r.IntN(4) {
	case 0:
		b[r.IntN(len(b))] ^= byte(1 << r.IntN(8))
	case 1:
		b = b[:r.IntN(len(b)+1)]
	}
	return b
}
