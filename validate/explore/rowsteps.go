package explore

import (
	"ciddk/ci"
)

// half is the part of a side's memory that an end of a row uses: the requester the first, the responder the second. The
// first head bytes are those of neighbours.
const (
	half = arenaSize / 2
	head = 1024
)

// rowGen draws the steps of a session.
type rowGen struct {
	*gen
	*rowView // of the message
	steps    []Step
	end      [2]rowEnd // requester and responder
	mtu      int
	n        int // bytes of the message
}

// rowEnd is one end of a row.
type rowEnd struct {
	side, pd, other, all int // other: a PD that is not the end's; all: the region of all memory
	send, recv           int // CQs
	qp, srq, av          int
	depth                int
}

func (g *rowGen) add(s ...Step) { g.steps = append(g.steps, s...) }

// later adds a step that is drawn when it is its turn.
func (g *rowGen) later(f func(*gen) Step) { g.add(Later{f}) }

// sessionSteps returns the steps of a session.
func (g *gen) sessionSteps(s session) []Step {
	x := &rowGen{gen: g, rowView: s[len(s)-1].view()}
	for _, r := range s {
		x.inline = x.inline || r[fSource] == 4
	}
	x.sizes()
	for i := range x.end {
		x.create(i)
	}
	x.connect()
	for i := range s {
		x.rowView = s[i].view()
		x.sizes()
		local, remote := x.localPlace(), x.remotePlace()
		main := x.main(local, remote)
		x.prepare()
		x.post(main)
		x.polls()
		x.later(func(g *gen) Step {
			g.r.rows = append(g.r.rows, !g.r.w.Lost)
			return nil
		})
	}
	x.conclude()
	return x.steps
}

// sizes determines MTU and length.
func (g *rowGen) sizes() {
	s := g.r.sides
	mtu := min(s[0].port.MTU, s[1].port.MTU)
	mtu = min([]ci.MTU{ci.MTU256, ci.MTU512, ci.MTU1024, mtu}[g.row[fMTU]], mtu)
	if g.isUD {
		mtu = min(s[0].port.MTU, s[1].port.MTU)
	}
	g.mtu = mtu.Bytes()
	g.n = []int{64, 0, 1, 7, g.mtu - 1, g.mtu, g.mtu + 1, 2 * g.mtu, 3*g.mtu + 5}[g.row[fLength]]
	switch {
	case g.isWord:
		g.n = 8
	case !ops[g.row[fOp]].data:
		g.n = 0
	case g.inline:
		g.n = min(g.n, 64, s[0].attr.MaxInline)
	case g.row[fFault] == longDatagram:
		g.n = g.mtu + 1
	case g.isUD:
		g.n = min(g.n, g.mtu)
	}
	g.n = min(g.n, half-head-512)
}

// count returns how many requests are posted.
func (g *rowGen) count() int { return []int{1, 3, 3, 3, 3}[g.row[fBurst]] }

// create creates the objects of an end.
func (g *rowGen) create(i int) {
	e := &g.end[i]
	if e.side = i; g.row[fPlace] == 1 {
		e.side = 0
	}
	at := g.r.sides[e.side]
	e.pd, e.all = basePD(e.side), baseMR(e.side)
	e.other = g.name()
	g.add(NewPD{e.other, e.side})
	if g.row[fPD] == 1 {
		e.pd, e.other = e.other, e.pd
		e.all = g.name()
		g.add(NewMR{e.all, e.pd, 0, arenaSize, ci.LocalWrite | allRemote | ci.BindWindow, 0, 0})
	}
	size := 16
	if g.row[fCQs] == 2 {
		size = g.count() + 1
	}
	e.send = g.name()
	g.add(NewCQ{e.send, e.pd, size})
	if e.recv = e.send; g.row[fCQs] != 0 {
		e.recv = g.name()
		g.add(NewCQ{e.recv, e.pd, size})
	}
	e.depth = []int{4, 2, 1}[g.row[fRoom]]
	if i == 1 {
		e.depth = 4
	}
	sges := min(at.attr.MaxSGEs, mostSegments)
	o := QPOptions{Type: []ci.QPType{ci.RC, ci.UC, ci.UD}[g.row[fService]], Depth: e.depth, SGEs: sges}
	if g.inline {
		o.Inline = min(64, at.attr.MaxInline)
	}
	if g.row[fSignal] > 1 {
		o.Flags = ci.QPSignalAll
	}
	if i == 1 && g.row[fQueue] != 0 {
		e.srq = g.name()
		g.add(NewSRQ{e.srq, e.pd, 4, min(sges, at.attr.MaxSRQSGEs)})
		if d := min(32, at.attr.MaxSRQWRs); g.row[fQueue] == 3 { // a limit that the old size does not permit
			g.add(Limit{SRQ: e.srq, Limit: d, Set: ci.SRQFieldMaxWR | ci.SRQFieldLimit, Depth: d})
		}
		o.SRQ = e.srq
	}
	e.qp = g.name()
	g.add(NewQP{e.qp, e.pd, e.send, e.recv, o})
	if i == 1 && g.isUD {
		for k := range g.end {
			g.end[k].av = g.name()
			pd := g.end[k].pd
			if g.row[fFault] == avPD && k == 0 {
				pd = g.end[k].other
			}
			v := g.vector()
			if g.row[fVector] == 2 { // everything but the destination changes
				g.add(NewAV{g.end[k].av, pd, g.end[1-k].side, Vector{SL: 1, Global: true, Class: 0x11}},
					ModifyAV{g.end[k].av, g.end[1-k].side, v})
				continue
			}
			g.add(NewAV{g.end[k].av, pd, g.end[1-k].side, v})
		}
	}
}

func (g *rowGen) vector() Vector {
	v := Vector{SL: ci.SL(g.row[fVector] & 1), Global: g.row[fVector] > 1}
	if v.Global {
		v.Class = 0x9c
	}
	return v
}

// connection returns the parameters of the connection.
func (g *rowGen) connection() Connect {
	s := g.r.sides
	c := Connect{A: g.end[0].qp, B: g.end[1].qp, Ack: 18, MinRNR: 1, Access: allRemote, Path: g.vector(), Reads: 1,
		Retry: []uint8{7, 0, 1}[g.row[fRetry]], RNR: []uint8{7, 0, 1}[g.row[fRNR]]}
	for c.MTU = ci.MTU256; c.MTU.Bytes() < g.mtu && c.MTU < ci.MTU4096; {
		c.MTU++
	}
	if g.row[fReads] == 1 {
		for i := range s {
			c.Reads = uint8(min(16, s[0].attr.MaxInitDepthPerQP, s[0].attr.MaxRespResPerQP, s[i].attr.MaxInitDepthPerQP,
				s[i].attr.MaxRespResPerQP))
		}
	}
	switch g.row[fFault] {
	case peerReset, peerError, peerInit, badPKey:
		c.Ack = 10
	case noReceive:
		if g.isRC && c.RNR == 7 {
			c.RNR = 1
		}
	}
	if g.row[fLoss] != 0 {
		c.Ack = 13
	}
	psn := []ci.PSN{0, 0xffffff, 0xfffffe, 0x7fffff, ci.PSN(g.Uint32() & 0xffffff)}[g.row[fPSN]]
	c.PSN = [2]ci.PSN{psn, (psn + ci.PSN(g.IntN(2))) & 0xffffff}
	c.Access = g.access()
	if g.row[fRecv] == 4 && g.row[fRetry] != 0 { // the peer is not ready for longer than an answer may take
		c.Ack, c.MinRNR = 13, 26
	}
	if c.AtRTR = g.row[fRights] == 1; g.row[fPKey] != 0 { // a full and a limited member
		c.PKey = [2]uint16{1, 2}
	}
	if g.row[fFault] == badPKey { // of two partitions, or both limited
		c.PKey = pick(g.gen, [2]uint16{1, 3}, [2]uint16{2, 2}, [2]uint16{4, 4})
	}
	return c
}

// connect connects the QPs. What the sender does before is done with another connection.
func (g *rowGen) connect() {
	c := g.connection()
	if g.row[fSender] == 4 {
		before := c
		before.PSN = [2]ci.PSN{}
		before.Access = allRemote
		g.add(before)
	}
	c.Late = g.row[fReceiver] == 1
	switch g.row[fFault] {
	case inInit:
		c.Stay[0] = ci.QPInit
	case inRTR:
		c.Stay[0] = ci.QPRTR
	case peerInit:
		c.Stay[1] = ci.QPInit
	}
	access := c.Access
	if g.row[fRights] >= 2 && g.row[fRights] <= 5 { // what is right or wrong in the end is not so before
		if c.AnotherQKey = g.isUD; !g.isUD {
			c.Access ^= ops[g.row[fOp]].right
		}
	}
	b := g.end[1].qp
	grant := func(f ci.QPField, x ci.QPAttr) Modify { // a datagram QP has a Q_Key in place of rights
		if g.isUD {
			x.QKey = theQKey
			return Modify{b, f | ci.QPFieldQKey, x}
		}
		if x.Access = access; g.row[fService] == 1 {
			x.Access &= ci.RemoteWrite
		}
		return Modify{b, f | ci.QPFieldAccess, x}
	}
	switch rights := g.row[fRights]; {
	case rights < 2 || rights > 5:
		g.add(c)
	case rights == 2:
		c.Stay[1] = ci.QPRTR
		f, x := c.rts(1).For([]ci.QPType{ci.RC, ci.UC, ci.UD}[g.row[fService]])
		g.add(c, grant(f, x))
	case rights == 3:
		g.add(c, grant(0, ci.QPAttr{}))
	default:
		f, x := ci.ToSQD(false)
		g.add(c, Modify{b, f, x})
		if f, x = ci.BackToRTS(); rights == 4 {
			g.add(grant(0, ci.QPAttr{}), Modify{b, f, x})
		} else {
			g.add(grant(f, x))
		}
	}
}

// access returns the rights that the responder grants in the end.
func (g *rowGen) access() ci.Access {
	a, right := allRemote, ops[g.row[fOp]].right
	if g.row[fRights] == 6 {
		a = right
	}
	if g.row[fFault] == qpRight {
		a &^= right
	}
	return a
}

// A spot is a place in a region.
type spot struct {
	mr, off, size int // size: of the region
}

// region creates a region of a kind and returns the place of the message in it.
func (g *rowGen) region(kind, end, n int, access ci.Access) spot {
	e := &g.end[end]
	start := end*half + head
	pages := func() []int {
		p := g.Perm(half / pageSize)
		for i := range p {
			p[i] += end * half / pageSize
		}
		return p
	}
	mr := g.name()
	isPlain := access == ci.LocalWrite|allRemote|ci.BindWindow
	pd := e.pd
	if g.row[fFault] == localPD && end == 0 || g.row[fFault] == remotePD && end == 1 {
		pd, isPlain = e.other, false
	}
	gone := g.row[fFault] == localGone && end == 0 || g.row[fFault] == remoteGone && end == 1
	switch {
	case kind == 0 && isPlain && !gone:
		return spot{e.all, start, arenaSize}
	case kind == 0:
		g.add(NewMR{mr, pd, 0, arenaSize, access, 0, 0})
		return spot{mr, start, arenaSize}
	case kind == 1 && g.chance(50) && g.r.sides[0].attr.Caps.Has(ci.CapModifyMR|ci.CapZeroBased):
		g.add(NewMR{mr, pd, start, max(n, 1), access | ci.ZeroBased, 0, 0},
			ModifyMR{MR: mr, Was: g.name(), Set: ci.MRFieldAccess, PD: pd, Access: access})
		return spot{mr, 0, max(n, 1)}
	case kind == 2:
		g.add(NewMR{mr, pd, start, max(n, 1), access, pick(g.gen, 1, 3, 1<<20), 0})
		return spot{mr, 0, max(n, 1)}
	case kind == 3:
		g.add(NewPMR{mr, pd, pages(), 512, half - 1024, access &^ ci.BindWindow})
		return spot{mr, 512, half - 1024}
	case kind == 4:
		src := g.name()
		g.add(NewMR{src, e.pd, start, max(n, 1), ci.LocalWrite, 0, 0}, NewSMR{mr, pd, src, access})
		return spot{mr, 0, max(n, 1)}
	case kind == 5:
		g.add(NewMR{mr, pd, start, max(n, 1), access | ci.ZeroBased, 0, 0})
		return spot{mr, 0, max(n, 1)}
	case kind == 6:
		f := g.name()
		m := MapFMR{FMR: f, Pages: pages(), At: highPage}
		wrong := m
		wrong.Wrong = wrongPage(g.gen)
		most := min(2, g.r.sides[end].attr.MaxMapsPerFMR)
		g.add(NewFMR{f, mr, pd, half / pageSize, most, access &^ ci.BindWindow}, m, wrong)
		return spot{mr, 512, half}
	case kind == 7:
		g.add(NewFastMR{mr, pd, half / pageSize})
		w := WR{Op: ci.OpFastReg, Flags: ci.SendSignaled, Fast: &Fast{mr, pages(), 512, half - 1024, access, 1}}
		g.add(Send{QP: e.qp, WRs: []WR{w}}, Poll{e.send, 1})
		return spot{mr, 0, half - 1024}
	case kind == 8:
		k := min(n/2, 1024) &^ 7 // an atomic stays aligned
		off := end*half + pageSize - k
		g.add(NewMR{As: mr, PD: pd, Off: off, Len: max(n, 1), Access: access, IOVA: 5<<32 - uint64(k)})
		return spot{mr, 0, max(n, 1)}
	case kind > 8:
		return g.window(kind, end, n, pd, access)
	}
	g.add(NewMR{mr, pd, start, max(n, 1), access, 0, 0})
	return spot{mr, 0, max(n, 1)}
}

// window binds a window through an end's QP.
func (g *rowGen) window(kind, end, n, pd int, access ci.Access) spot {
	e := &g.end[end]
	w := g.name()
	size, to := max(n, 1), Piece{MR: e.all, Off: end*half + head, Len: max(n, 1)}
	access &= allRemote
	if kind == 9 {
		g.add(NewMW{w, pd, ci.MWType1}, Bind{e.qp, w, to, access, ci.SendSignaled})
	} else {
		g.add(NewMW{w, pd, ci.MWType2},
			Send{QP: e.qp, WRs: []WR{{Op: ci.OpBindMW, Flags: ci.SendSignaled, MW: w, Bind: to, Rights: access}}})
	}
	g.add(Poll{e.send, 1})
	return spot{w, 0, size}
}

// mostSegments bounds the segments of a request. It is above the limits of most adapters.
const mostSegments = 32

const allRights = ci.LocalWrite | allRemote | ci.BindWindow

// localPlace creates the region of the local segments.
func (g *rowGen) localPlace() spot {
	access := allRights
	if g.row[fFault] == notWritable {
		access = ci.RemoteRead
	}
	return g.region(int(g.row[fLocal]), 0, g.n, access)
}

// remotePlace creates the region that the request names.
func (g *rowGen) remotePlace() spot {
	right := ops[g.row[fOp]].right
	if right == 0 {
		return spot{}
	}
	access := allRights
	if g.row[fFault] == regionRight {
		access &^= right
	}
	s := g.region(int(g.row[fRemote]), 1, g.n, access)
	return s
}

// shifted returns the offset of n bytes in a region, moved by a fault.
func (s spot) shifted(n int, beyond, before bool) int {
	switch {
	case beyond:
		return s.size - n + 1
	case before:
		return -1
	}
	return s.off
}

// segments splits n bytes at off.
func (g *rowGen) split(mr, off, n, level, most int) []Piece {
	one := []Piece{{MR: mr, Off: off, Len: n}}
	switch {
	case level == 1 && most >= 2:
		return []Piece{{MR: mr, Off: off, Len: n / 3}, {MR: mr, Off: off + n/3, Len: n - n/3}}
	case level == 2 && most >= 3:
		return []Piece{{MR: mr, Off: off, Len: n / 2}, {MR: mr, Off: off}, {MR: mr, Off: off + n/2, Len: n - n/2}}
	case level == 3 && most > 1:
		var out []Piece
		for i := range most {
			from, to := n*i/most, n*(i+1)/most
			out = append(out, Piece{MR: mr, Off: off + from, Len: to - from})
		}
		return out
	}
	return one
}

// wrongKey returns what makes a key that of another object, or another key of the same one.
func (g *gen) wrongKey() ci.Key { return pick[ci.Key](g, 1, 0xff, 0x100, 0x80000000) }

// main returns the request of the row.
func (g *rowGen) main(local, remote spot) WR {
	o := &ops[g.row[fOp]]
	fault := g.row[fFault]
	w := WR{Op: o.op, Imm: g.Uint32(), Atomic: ci.Atomic{Compare: g.Uint64(), Swap: g.Uint64()}}
	for _, x := range []struct {
		is   bool
		flag ci.SendFlags
	}{{g.row[fImm] == 1, ci.SendImmediate}, {g.row[fSol] == 1, ci.SendSolicited}, {g.row[fFence] == 1, ci.SendFence},
		{g.row[fSignal]&1 == 0, ci.SendSignaled}, {g.row[fOp] == opSendInv, ci.SendInvalidate}} {
		if x.is {
			w.Flags |= x.flag
		}
	}
	most := min(g.r.sides[0].attr.MaxSGEs, mostSegments)
	switch {
	case g.inline:
		w.Inline = max(g.n, 0)
		if g.n == 0 {
			w.Inline = -1
		}
		if fault == longInline {
			w.Inline = g.r.sides[0].attr.MaxInline + 1
		}
	case o.data && g.row[fSource] != 5:
		off := local.shifted(g.n, fault == localBeyond, fault == localBefore)
		if w.SGL = g.split(local.mr, off, g.n, int(g.row[fSource]), min(most, g.limit())); fault == badLKey {
			w.SGL[len(w.SGL)-1].Key = g.wrongKey()
		}
		if fault == manySegments {
			for len(w.SGL) <= 64 {
				w.SGL = append(w.SGL, Piece{MR: local.mr})
			}
		}
	}
	if o.right != 0 {
		off := remote.shifted(g.n, fault == remoteBeyond, fault == remoteBefore)
		w.Remote = Piece{MR: remote.mr, Off: off, Len: g.n}
		if fault == misaligned {
			w.Remote.Off += 4
		}
		if fault == badRKey {
			w.Remote.Key = g.wrongKey()
		}
	}
	switch g.row[fOp] {
	case opSendInv:
		w.MW = g.region(10, 1, 64, allRights).mr
	case opLocalInv:
		w.MW = g.region(10, 0, 64, allRights).mr
	case opBind1, opBind2:
		w.MW = g.name()
		g.add(NewMW{w.MW, g.end[0].pd, ci.MWType(2 - g.row[fOp]&1)})
		w.Bind, w.Rights = Piece{MR: g.end[0].all, Off: head, Len: 64}, allRemote
	case opNop:
		if fault == badOp {
			w.Op = 77
		}
	}
	if g.isUD {
		w.AV, w.To, w.QKey = g.end[0].av, g.end[1].qp, theQKey
		switch fault {
		case badQKey:
			w.QKey = pick(g.gen, theQKey+1, theQKey-1, theQKey|0x4000000, 0)
		case ownQKey:
			w.QKey = pick[ci.QKey](g.gen, 0x80000000, 0x80000001, 0xffffffff)
		}
	}
	return w
}

// limit returns how many segments the operation may have.
func (g *rowGen) limit() int {
	if g.isRead {
		return g.r.sides[g.end[0].side].attr.MaxReadSGEs
	}
	return 1 << 10
}

// prepare brings the ends into the states that the row names, and arms CQs.
func (g *rowGen) prepare() {
	a, b := &g.end[0], &g.end[1]
	modify := func(qp int) func(ci.QPField, ci.QPAttr) {
		return func(f ci.QPField, x ci.QPAttr) { g.add(Modify{qp, f, x}) }
	}
	switch g.row[fFault] {
	case inError:
		modify(a.qp)(ci.ToError())
	case inReset:
		modify(a.qp)(ci.ToReset())
	case peerReset:
		modify(b.qp)(ci.ToReset())
	case peerError:
		modify(b.qp)(ci.ToError())
	case avGone:
		g.add(Destroy{a.av})
	}
	if n := g.row[fCount]; n != 0 {
		g.add(ModifyCA{b.side, ci.PortFieldPKeyErrors | ci.PortFieldQKeyErrors,
			ci.PortModify{PKeyErrors: -uint16(n), QKeyErrors: -uint16(n)}})
	}
	switch g.row[fSender] {
	case 1, 5:
		modify(a.qp)(ci.ToSQD(g.chance(50)))
	case 3:
		g.add(Modify{a.qp, ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}})
	}
	if g.row[fReceiver] == 2 {
		modify(b.qp)(ci.ToSQD(g.chance(50)))
	}
	g.arm(a.send, g.row[fArmSend])
	g.arm(b.recv, g.row[fArmRecv])
	if g.row[fQueue] == 2 {
		g.add(Limit{SRQ: b.srq, Limit: 1 + g.IntN(3), Set: ci.SRQFieldLimit})
	}
	if g.row[fLoss] != 0 {
		g.add(Link{Drop: 20, Duplicate: 10, Reorder: 20, Seed: 1 + g.Uint64()>>1})
	}
}

func (g *rowGen) arm(cq int, level uint8) {
	switch level {
	case 1:
		g.add(Arm{CQ: cq})
	case 2:
		g.add(Arm{CQ: cq, Solicited: true})
	case 3, 4:
		g.add(Arm{CQ: cq, After: int(level) - 2})
	case 5:
		g.add(Arm{CQ: cq, Solicited: true}, Arm{CQ: cq})
	case 6:
		g.add(Arm{CQ: cq}, Arm{CQ: cq, Solicited: true})
	case 7, 8:
		g.add(Arm{CQ: cq, After: 2}, Arm{CQ: cq, Solicited: level == 8})
	}
}

// neighbour returns a request beside the main one.
func (g *rowGen) neighbour(i int) WR {
	a, b := &g.end[0], &g.end[1]
	w := WR{Op: []ci.SendOp{ci.OpWrite, ci.OpSend, ci.OpRead, ci.OpNop}[g.row[fOther]], Flags: ci.SendSignaled}
	if w.Op == ci.OpNop {
		return w
	}
	w.SGL = []Piece{{MR: a.all, Off: 128 * i, Len: 100}}
	if w.Op != ci.OpSend {
		w.Remote = Piece{MR: b.all, Off: half + 128*i, Len: 100}
	}
	if g.isUD {
		w.AV, w.To, w.QKey = a.av, b.qp, theQKey
	}
	return w
}

// post posts receives and the requests.
func (g *rowGen) post(main WR) {
	a := &g.end[0]
	position := []int{0, 0, 1, 2, 2}[g.row[fBurst]]
	var list []WR
	for i := range g.count() {
		if i == position {
			list = append(list, main)
		} else {
			list = append(list, g.neighbour(i))
		}
	}
	if g.row[fFault] == localGone {
		g.gone(list[position].SGL)
	}
	if g.row[fFault] == remoteGone {
		g.gone([]Piece{list[position].Remote})
	}
	isLate := g.row[fRecv] == 4
	if !isLate {
		g.receives(position)
	}
	switch {
	case g.row[fOp] == opBind1:
		g.add(Bind{a.qp, main.MW, main.Bind, main.Rights, main.Flags})
	case g.row[fBurst] == 4:
		g.add(Send{QP: a.qp, WRs: list[:2]}, Send{QP: a.qp, WRs: list[2:]})
	default:
		g.add(Send{QP: a.qp, WRs: list})
	}
	if isLate {
		g.receives(position)
	}
	switch g.row[fSender] {
	case 1:
		f, x := ci.BackToRTS()
		g.add(Modify{a.qp, f, x})
	case 2:
		f, x := ci.ToSQD(true)
		g.add(Modify{a.qp, f, x})
		f, x = ci.BackToRTS()
		g.add(Modify{a.qp, f, x})
	}
	if g.row[fSender] == 5 {
		f, x := ci.ToError()
		g.add(Modify{a.qp, f, x})
	}
	if g.row[fReceiver] == 2 {
		f, x := ci.BackToRTS()
		g.add(Modify{g.end[1].qp, f, x})
	}
	if g.row[fLoss] != 0 {
		g.add(Link{})
	}
}

// gone destroys the region, or the window, of a piece.
func (g *rowGen) gone(list []Piece) {
	for _, p := range list[:min(1, len(list))] {
		for _, s := range g.steps {
			if f, ok := s.(NewFMR); ok && f.Now == p.MR {
				g.add(Unmap{[]int{f.As}})
				return
			}
		}
		if p.MR >= firstName {
			g.add(Destroy{p.MR})
		}
	}
}

// receives posts the receives of all messages that use one.
func (g *rowGen) receives(position int) {
	b := &g.end[1]
	usesOne := func(i int) bool {
		if i == position {
			return ops[g.row[fOp]].recvs || g.row[fOp] == opWrite && g.row[fImm] == 1
		}
		return g.row[fOther] == 1
	}
	s := Recv{Queue: b.qp}
	if b.srq != 0 {
		s.Queue = b.srq
	}
	for i := range g.count() {
		switch {
		case !usesOne(i):
		case i != position:
			s.WRs = append(s.WRs, []Piece{{MR: b.all, Off: half + 512 + 160*i, Len: 150}})
		case g.row[fFault] == noReceive:
			if len(s.WRs) > 0 {
				g.add(s)
			}
			return
		default:
			s.WRs = append(s.WRs, g.receive())
		}
	}
	if len(s.WRs) > 0 {
		g.add(s)
	}
}

// receive returns the receive of the message.
func (g *rowGen) receive() []Piece {
	b := &g.end[1]
	n := g.n
	if g.isUD {
		n += 40
	}
	if g.row[fOp] == opWrite {
		return []Piece{{MR: b.all, Off: half + 512, Len: 16}}
	}
	mr, size := b.all, n
	switch fault := g.row[fFault]; {
	case fault == shortReceive:
		size = n - 1
	case fault == recvPD || fault == recvRight:
		pd, access := b.pd, ci.RemoteRead
		if mr = g.name(); fault == recvPD {
			pd, access = b.other, allRights
		}
		g.add(NewMR{mr, pd, 0, arenaSize, access, 0, 0})
	case g.row[fRecv] != 1:
		size = min(n+100, half-head-512)
	}
	most := min(g.r.sides[0].attr.MaxSGEs, mostSegments)
	if b.srq != 0 {
		most = min(most, g.r.sides[b.side].attr.MaxSRQSGEs)
	}
	level := []int{0, 0, 1, 3, 0}[g.row[fRecv]]
	list := g.split(mr, half+head, size, level, most)
	if g.row[fFault] == recvLKey {
		list[0].Key = g.wrongKey()
	}
	return list
}

// conclude polls the CQs, uses the connection once more if it still works, and polls again.
func (g *rowGen) conclude() {
	a, b := &g.end[0], &g.end[1]
	g.later(func(x *gen) Step {
		p, q := x.obj(a.qp), x.obj(b.qp)
		if p == nil || q == nil || p.m.State != ci.QPRTS || p.m.Loose || q.m.Loose {
			return nil
		}
		return Recv{Queue: max(b.srq, b.qp*(1-min(b.srq, 1))), WRs: [][]Piece{{{MR: b.all, Off: half + 700, Len: 100}}}}
	})
	g.later(func(x *gen) Step {
		p, q := x.obj(a.qp), x.obj(b.qp)
		n := 0
		if p != nil {
			n, _ = p.m.Waiting()
		}
		if p == nil || q == nil || p.m.State != ci.QPRTS || n > 0 || p.m.Loose || q.m.Loose ||
			!g.isUD && !p.m.Answers() {
			return nil
		}
		w := WR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []Piece{{MR: a.all, Off: 700, Len: 50}}}
		if g.isUD {
			w.AV, w.To, w.QKey = a.av, b.qp, theQKey
		}
		return Send{QP: a.qp, WRs: []WR{w}}
	})
	g.later(func(x *gen) Step { // and in the other direction
		p, q := x.obj(a.qp), x.obj(b.qp)
		switch {
		case p == nil || q == nil || p.m.Loose || q.m.Loose || q.m.State != ci.QPRTS,
			p.m.State < ci.QPRTR || p.m.State == ci.QPError || !g.isUD && !q.m.Answers():
			return nil
		}
		w := WR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []Piece{{MR: b.all, Off: half + 900, Len: 50}}}
		if g.isUD {
			w.AV, w.To, w.QKey = b.av, a.qp, theQKey
		}
		x.pend = append([]Step{Send{QP: b.qp, WRs: []WR{w}}}, x.pend...)
		return Recv{Queue: a.qp, WRs: [][]Piece{{{MR: a.all, Off: 1000, Len: 100}}}}
	})
	if g.row[fEnd] == 1 {
		g.add(Destroy{a.qp}, Destroy{b.qp})
	}
	g.polls()
}

// polls polls all CQs of the row.
func (g *rowGen) polls() {
	for _, e := range g.end {
		for _, cq := range []int{e.send, e.recv} {
			for i := range 4 {
				g.later(func(x *gen) Step {
					o, ok := get[*cqObj](x.r, cq)
					if !ok || o.m.Dead || o.m.Pending() == 0 {
						return nil
					}
					switch {
					case g.row[fPoll] == 1:
						return Poll{cq, 1}
					case i > 0:
						return nil
					}
					return Poll{cq, o.m.Pending() + int(g.row[fPoll])/2}
				})
			}
		}
	}
}
