package explore

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"ciddk/ci"
	"ciddk/internal/model"
)

// The names of the objects that every trace begins with: for side i, PD, region of the whole memory, and CQ.
func basePD(i int) int { return 1 + i }
func baseMR(i int) int { return 3 + i }
func baseCQ(i int) int { return 5 + i }

const firstName = 10

// prelude creates these objects.
func prelude() (out Trace) {
	const all = ci.LocalWrite | allRemote | ci.BindWindow
	for i := range 2 {
		out = append(out, NewPD{basePD(i), i}, NewMR{As: baseMR(i), PD: basePD(i), Len: arenaSize, Access: all},
			NewCQ{baseCQ(i), basePD(i), 64})
	}
	return out
}

// gen draws the steps of a trace while it is executed. It looks at the model, so that most steps do something.
type gen struct {
	*rand.Rand
	r    *Run
	next int // name
	// weights are those of draws in this trace. Each trace leaves some out and prefers others, so that features which
	// are rare in an average trace meet each other in some.
	weights []int
	isLossy bool // some packets are lost in this trace
	pend    []Step
	isRow   bool // nothing comes after pend
}

func newGen(r *Run, seed, trace uint64) *gen {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, trace)), r: r, next: firstName}
	for i, d := range draws {
		k := 1
		if i > 2 {
			k = pick(g, 0, 1, 1, 5)
		}
		g.weights = append(g.weights, k*d.weight)
	}
	g.isLossy = r.impair != nil && g.chance(25)
	return g
}

func (g *gen) name() int { g.next++; return g.next - 1 }

// chance is true in percent of the calls.
func (g *gen) chance(percent int) bool { return g.IntN(100) < percent }

// pick returns one of the values.
func pick[T any](g *gen, list ...T) T { return list[g.IntN(len(list))] }

// one returns one of the names, or 0.
func (g *gen) one(list []int) int {
	if len(list) == 0 {
		return 0
	}
	return list[g.IntN(len(list))]
}

// draws are the kinds of steps with their weights. Every trace has the first three.
var draws = []struct {
	weight int
	draw   func(*gen) Step
}{
	{8, (*gen).pair}, {30, (*gen).send}, {22, (*gen).recv}, {14, (*gen).poll}, {3, (*gen).resize}, {5, (*gen).arm},
	{4, func(g *gen) Step { return g.region(g.IntN(2)) }}, {3, (*gen).modifyMR}, {4, (*gen).fmr},
	{2, (*gen).queue}, {2, (*gen).domain}, {3, (*gen).srq}, {4, (*gen).limit}, {4, (*gen).destroy},
	{5, (*gen).state}, {2, (*gen).fill}, {3, (*gen).vector}, {2, (*gen).reconnect}, {2, (*gen).query},
	{2, (*gen).recycle}, {3, (*gen).flawed}, {3, (*gen).window}, {6, (*gen).bind},
	{3, (*gen).member}, {2, (*gen).count}, {2, (*gen).moderate}, {8, (*gen).link}, {1, (*gen).together},
	{4, (*gen).change}, {2, (*gen).brim},
}

// step returns the next step.
func (g *gen) step() Step {
	for len(g.pend) > 0 {
		s := g.pend[0]
		g.pend = g.pend[1:]
		if x, ok := s.(Later); ok {
			s = x.draw(g)
		}
		if s != nil {
			return s
		}
	}
	if g.isRow {
		return Query{baseCQ(0)}
	}
	sum := 0
	for _, k := range g.weights {
		sum += k
	}
	for range 200 {
		k := g.IntN(sum)
		for i, d := range draws {
			if k -= g.weights[i]; k < 0 {
				if s := d.draw(g); s != nil {
					g.look(s)
					return s
				}
				break
			}
		}
	}
	return Query{g.one(g.qps(nil))}
}

// look queries the object of a change after it: one that is rejected changes nothing.
func (g *gen) look(s Step) {
	n := 0
	switch s := s.(type) {
	case Resize:
		n = s.CQ
	case Moderate:
		n = s.CQ
	case Limit:
		n = s.SRQ
	case ModifyAV:
		n = s.AV
	}
	if n != 0 {
		g.pend = slices.Insert(g.pend, 0, Step(Query{n}))
	}
}

func (g *gen) qps(ok func(*qpObj) bool) []int {
	return names(g.r, func(o *qpObj) bool { return !o.m.Dead && (ok == nil || ok(o)) })
}

func (g *gen) obj(name int) *qpObj { o, _ := get[*qpObj](g.r, name); return o }

// cq returns a CQ of a side: the base CQ or a small one.
func (g *gen) cq(side int) int {
	return g.one(names(g.r, func(o *cqObj) bool { return !o.m.Dead && o.s.index == side && !o.m.Vague() }))
}

func (g *gen) pd(side int) int {
	if g.chance(80) {
		return basePD(side)
	}
	return g.one(names(g.r, func(o *pdObj) bool { return !o.m.Dead && o.s.index == side }))
}

// pair creates two connected QPs.
func (g *gen) pair() Step {
	if len(g.qps(nil)) > 6 {
		return nil
	}
	attr := g.r.sides[0].attr
	types := []ci.QPType{ci.RC, ci.RC, ci.RC}
	if attr.Caps.Has(ci.CapUC) {
		types = append(types, ci.UC)
	}
	if attr.Caps.Has(ci.CapUD | ci.CapAV) {
		types = append(types, ci.UD)
	}
	typ := types[g.IntN(len(types))]
	a, b := g.name(), g.name()
	var list []Step
	sides := [2]int{0, pick(g, 1, 1, 1, 0)}
	if g.chance(30) {
		sides[0], sides[1] = sides[1], sides[0]
	}
	for i, n := range []int{a, b} {
		s := sides[i]
		o := QPOptions{Type: typ, Depth: pick(g, 1, 2, 3, 4, 8), SGEs: min(pick(g, 1, 2, 3), attr.MaxSGEs),
			Inline: min(pick(g, 0, 0, 16, attr.MaxInline), attr.MaxInline)}
		if g.chance(15) {
			o.Flags = ci.QPSignalAll
		}
		if attr.Caps.Has(ci.CapSRQ) && g.chance(20) {
			o.SRQ = g.one(names(g.r, func(o *srqObj) bool { return !o.m.Dead && o.s.index == s }))
		}
		send, recv := g.cq(s), g.cq(s)
		if send == 0 || recv == 0 {
			return nil
		}
		list = append(list, NewQP{n, g.pd(s), send, recv, o})
	}
	list = append(list, g.connect(typ, a, b)...)
	if typ == ci.UD {
		for i := range 2 {
			list = append(list, NewAV{As: g.name(), PD: list[i].(NewQP).PD, To: sides[1-i], Vector: g.path()})
		}
	}
	g.pend = append(g.pend, list[1:]...)
	return list[0]
}

// minRNR draws the code of an RNR timer.
func (g *gen) minRNR() uint8 { return pick[uint8](g, 1, 1, 1, 12, 17, 20) }

// connect draws a connection. Sometimes its second end stays in RTR for some messages.
func (g *gen) connect(typ ci.QPType, a, b int) []Step {
	c := g.connection(a, b)
	if c.Late = g.chance(15); !c.Late {
		return []Step{c}
	}
	f, x := c.rts(1).For(typ)
	list := []Step{c}
	for range 1 + g.IntN(3) {
		list = append(list, Later{func(g *gen) Step { return g.recvTo(b) }},
			Later{func(g *gen) Step { return g.sendFrom(a) }})
	}
	return append(list, Modify{b, f, x})
}

// connection draws the parameters of a connection.
func (g *gen) connection(a, b int) Connect {
	s := g.r.sides[0]
	mtu := min(s.port.MTU, g.r.sides[1].port.MTU)
	c := Connect{A: a, B: b, MTU: pick(g, ci.MTU256, ci.MTU256, ci.MTU512, mtu), Retry: 7, RNR: pick[uint8](g, 0, 1,
		3, 7, 7),
		Ack: 17, MinRNR: g.minRNR(),
		Reads:  uint8(min(pick(g, 1, 2, 4), s.attr.MaxInitDepthPerQP, s.attr.MaxRespResPerQP)),
		Access: allRemote}
	c.MTU = min(c.MTU, mtu)
	switch g.IntN(6) {
	case 0: // a connection that notices when its peer is gone
		if c.Retry, c.Ack = pick[uint8](g, 0, 1, 7), 12; c.Retry == 7 {
			c.Ack = 10
		}
	case 1:
		c.Ack = 0
	case 2:
		c.Access = pick(g, 0, ci.RemoteRead, ci.RemoteWrite, ci.RemoteAtomic, ci.RemoteRead|ci.RemoteWrite)
	}
	if g.isLossy {
		if c.Ack = 13; c.Retry != 7 {
			c.Ack = 12
		}
	}
	for i := range c.PSN {
		c.PSN[i] = pick(g, 0, 1, 0xffffff, 0xfffffe, 0x7fffff, ci.PSN(g.Uint32()&0xffffff))
		if keys := g.pkeys(i); len(keys) > 0 {
			c.PKey[i] = pick(g, keys...)
		}
	}
	if c.AnotherQKey = g.chance(10); g.chance(30) {
		c.Path = g.path()
	}
	c.AtRTR = g.chance(15) && s.port.PKeys[0]&0x7fff != 0 && g.r.sides[1].port.PKeys[0]&0x7fff != 0
	return c
}

// pkeys returns the indexes of valid P_Keys of a side.
func (g *gen) pkeys(side int) (out []uint16) {
	for i, k := range g.r.sides[side].port.PKeys {
		if k&0x7fff != 0 {
			out = append(out, uint16(i))
		}
	}
	if g.chance(75) && len(out) > 0 { // a full member that both have
		for i, k := range g.r.sides[side].port.PKeys {
			if k == 0xffff {
				return []uint16{uint16(i)}
			}
		}
	}
	return out
}

// size draws a length around those at which something changes.
func (g *gen) size(mtu int) int {
	if g.chance(30) {
		return g.IntN(3*mtu + 2)
	}
	return pick(g, 0, 1, 7, 8, 63, 64, mtu-1, mtu, mtu+1, 2*mtu, 2*mtu+1, 3*mtu)
}

// place draws n bytes of a region: at its start, at its end, in the middle, or beyond.
func (g *gen) place(o *mrObj, mr, n int) Piece {
	size := int(o.region.Length)
	n = min(n, size)
	p := Piece{MR: mr, Len: n, Off: pick(g, 0, size-n, g.IntN(size-n+1))}
	switch {
	case !g.chance(4):
	case g.chance(30):
		p.Off = size - n + 1
	case g.chance(50):
		p.Key = g.wrongKey()
	default:
		p.Len = n + 1
		p.Off = size - n
	}
	return p
}

// zone draws n bytes of the whole memory of a QP's side, which differ for each i. The ends of a pair on one side have
// halves of their own, so that no message overlaps its own source.
func (g *gen) zone(o *qpObj, i, n int) Piece {
	zone, from := arenaSize/4, 0
	if g.isInside(o) {
		zone = arenaSize / 8
		from = o.half * arenaSize / 2
	}
	n = min(n, zone)
	return Piece{MR: baseMR(o.s.index), Off: from + i%4*zone + pick(g, 0, min(1, zone-n), zone-n, g.IntN(zone-n+1)),
		Len: n}
}

// isInside reports whether both ends of a pair are on one side.
func (g *gen) isInside(o *qpObj) bool {
	p := g.obj(o.peer)
	return p != nil && p.s == o.s
}

// mr returns a region of a side, sometimes one that is destroyed.
func (g *gen) mr(side int) (int, *mrObj) {
	stale := g.chance(4)
	n := g.one(names(g.r, func(o *mrObj) bool { return (!o.m.Dead || stale) && o.s.index == side }))
	o, _ := get[*mrObj](g.r, n)
	return n, o
}

// send posts one to three sends.
func (g *gen) send() Step {
	return g.sendFrom(g.one(g.qps(func(o *qpObj) bool { return g.chance(3) || o.m.State == ci.QPRTS && !o.m.Loose })))
}

// sendFrom posts sends to a QP.
func (g *gen) sendFrom(name int) Step {
	o := g.obj(name)
	if o == nil {
		return nil
	}
	peer := g.obj(o.peer)
	if n, _ := o.m.Waiting(); peer == nil || n > 0 && g.chance(70) {
		return nil
	}
	room, _ := o.m.Room()
	count := min(pick(g, 1, 1, 1, 2, 3), max(room, 0)+g.IntN(2))
	if count < 1 {
		return nil
	}
	s := Send{QP: name, Overflow: g.chance(1)}
	for i := range count {
		s.WRs = append(s.WRs, g.wr(o, peer, i, count))
	}
	if o.m.Type != ci.RC && g.isTooLong(s) && !g.chance(2) { // whether the receive completes is open (D-94)
		return nil
	}
	return s
}

// isTooLong reports whether a message may be longer than its receive.
func (g *gen) isTooLong(s Send) bool {
	for _, w := range s.WRs {
		n := max(w.Inline, 0)
		for _, p := range w.SGL {
			n += p.Len
		}
		o := g.obj(s.QP)
		to := g.obj(o.peer)
		if o.m.Type == ci.UD {
			n += 40
			to = g.obj(w.To)
		}
		if to != nil && w.Op == ci.OpSend && n > to.m.Shortest(len(s.WRs)) {
			return true
		}
	}
	return false
}

// wr draws a send request.
func (g *gen) wr(o, peer *qpObj, i, count int) WR {
	w := WR{Op: ci.OpSend, Flags: ci.SendSignaled}
	far := peer.s.index
	atomics := o.s.attr.Atomicity != ci.AtomicNone
	switch {
	case g.chance(2):
		w.Op = pick(g, ci.OpSend, ci.OpWrite, ci.OpRead, ci.OpFetchAdd, ci.SendOp(77))
	case o.m.Type == ci.RC:
		w.Op = pick(g, ci.OpSend, ci.OpSend, ci.OpWrite, ci.OpWrite, ci.OpRead, ci.OpRead, ci.OpCompareSwap,
			ci.OpFetchAdd)
		if w.Op == ci.OpFetchAdd && o.s.attr.Caps.Has(ci.CapAtomicWrite) && g.chance(40) {
			w.Op = ci.OpAtomicWrite
		}
	case o.m.Type == ci.UC:
		w.Op = pick(g, ci.OpSend, ci.OpSend, ci.OpWrite)
	}
	if (w.Op == ci.OpCompareSwap || w.Op == ci.OpFetchAdd) && !atomics {
		w.Op = ci.OpWrite
	}
	isWord := w.Op == ci.OpCompareSwap || w.Op == ci.OpFetchAdd || w.Op == ci.OpAtomicWrite
	for _, f := range []struct {
		percent int
		flag    ci.SendFlags
	}{{20, ci.SendImmediate}, {15, ci.SendSolicited}, {15, ci.SendFence}} {
		if g.chance(f.percent) {
			w.Flags |= f.flag
		}
	}
	if g.chance(25) && (count == 1 || i < count-1) && !g.r.w.Lossy {
		w.Flags &^= ci.SendSignaled
	}
	w.Imm = g.Uint32()
	mtu := max(o.m.Attr.MTU.Bytes(), 256)
	n := g.size(mtu)
	if isWord {
		n = 8
		w.Atomic = ci.Atomic{Compare: pick(g, 0, 1, g.Uint64(), ^uint64(0)), Swap: g.Uint64()}
	}
	if o.m.Type == ci.UD {
		n = min(n, o.s.port.MTU.Bytes()+g.IntN(50)/49)
		av := names(g.r, func(a *avObj) bool {
			return a.s == o.s && (!a.m.Dead || g.chance(3)) && (a.m.PD == o.m.PD || g.chance(10))
		})
		w.AV, w.To, w.QKey = g.one(av), o.peer, theQKey
		if g.chance(10) {
			w.QKey = pick[ci.QKey](g, theQKey+1, 0x80000000, 0)
		}
		if g.chance(10) {
			w.To = g.one(g.qps(func(x *qpObj) bool { return x.m.Type == ci.UD }))
		}
	}
	w.SGL = g.segments(o, n, i, count, isWord)
	if (w.Op == ci.OpSend || w.Op == ci.OpWrite) && g.chance(20) && o.m.MaxInline > 0 {
		w.Inline = min(max(n, 1), o.m.MaxInline+g.IntN(30)/29)
		n = w.Inline
		w.SGL = nil
	}
	if w.Op == ci.OpWrite || w.Op == ci.OpRead || isWord {
		if n := g.windowFor(peer); n != 0 && g.chance(60) && !g.isInside(o) {
			t, _ := g.r.target(n)
			size := int(t.Length)
			w.Remote = Piece{MR: n, Len: len8(w.SGL, w.Inline), Off: pick(g, 0, max(size-len8(w.SGL, w.Inline), 0))}
			if g.chance(10) {
				w.Remote.Off += pick(g, 1, -1, size)
			}
			if isWord && !g.chance(5) {
				w.Remote.Off += int(-(t.Addr + uint64(w.Remote.Off)) & 7)
			}
			return w
		}
		mr, t := g.mr(far)
		if t == nil {
			mr = baseMR(far)
			t, _ = get[*mrObj](g.r, mr)
		}
		if w.Remote = g.place(t, mr, n); g.isInside(o) {
			mr = baseMR(far)
			t, _ = get[*mrObj](g.r, mr)
			w.Remote = g.zone(peer, i, n)
		}
		if w.Remote.Len != n && w.Remote.Off >= 0 && w.Remote.Key == 0 { // the region is smaller
			w.Remote.Len = n
		}
		if isWord && !g.chance(5) {
			w.Remote.Off &^= 7
			w.Remote.Off += int(-t.region.Addr & 7)
		}
		w.Remote.Len = n
		if isWord && mr == baseMR(far) && w.Remote.Off+8 <= arenaSize && g.chance(60) { // compare what is there
			w.Atomic.Compare = binary.NativeEndian.Uint64(g.r.sides[far].mem.Bytes[w.Remote.Off:])
		}
	}
	return w
}

// windowFor returns a window that the peer of o has bound, or one that it had, or 0.
func (g *gen) windowFor(peer *qpObj) int {
	return g.one(names(g.r, func(w *mwObj) bool {
		b := w.m.Bound()
		return w.s == peer.s && !w.m.Vague && (b != nil && (b.Through() == nil || b.Through() == peer.m) || g.chance(4))
	}))
}

// len8 returns the length of a request.
func len8(sgl []Piece, inline int) (n int) {
	for _, p := range sgl {
		n += p.Len
	}
	return n + max(inline, 0)
}

// segments draws the local segments of a request.
func (g *gen) segments(o *qpObj, n, i, count int, isWord bool) (out []Piece) {
	if count > 1 || g.chance(60) || g.isInside(o) {
		out = []Piece{g.zone(o, i, n)}
	} else if mr, t := g.mr(o.s.index); t != nil {
		p := g.place(t, mr, n)
		if p.Len < n {
			out = []Piece{g.zone(o, i, n)}
		} else {
			out = []Piece{p}
		}
	} else {
		out = []Piece{g.zone(o, i, n)}
	}
	p := out[0]
	limit := o.m.SendSGE
	if mr, t := g.mr(o.s.index); t != nil && count == 1 && limit > 1 && n > 1 && !isWord && !g.isInside(o) &&
		g.chance(20) {
		return append(out[:0], Piece{p.MR, p.Off, n / 2, p.Key}, g.place(t, mr, n-n/2)) // of two regions
	}
	if isWord {
		out[0].Len = 8
	}
	if isWord || n == 0 || limit < 2 {
		if n == 0 && g.chance(50) {
			return nil
		}
		return out
	}
	switch g.IntN(4) {
	case 0: // two pieces, the second of which may be empty
		k := pick(g, n, n/2, 1)
		out = []Piece{{p.MR, p.Off, k, p.Key}, {p.MR, p.Off + k, p.Len - k, p.Key}}
	case 1:
		if limit > 2 && n > 2 {
			out = []Piece{{p.MR, p.Off, 1, p.Key}, {p.MR, p.Off + 1, 0, pick(g, p.Key, 0x80000000)},
				{p.MR, p.Off + 1, p.Len - 1, p.Key}}
		}
	}
	if g.chance(2) {
		for len(out) <= limit {
			out = append(out, Piece{MR: p.MR})
		}
	}
	return out
}

// recv posts receives.
func (g *gen) recv() Step {
	var s Recv
	var room, free, sges, side, mtu int
	var o *qpObj
	if srqs := names(g.r, func(o *srqObj) bool { return !o.m.Dead }); len(srqs) > 0 && g.chance(30) {
		s.Queue = g.one(srqs)
		q, _ := get[*srqObj](g.r, s.Queue)
		room, sges, side = q.m.Room(), q.m.MaxSGE, q.s.index
		mtu, free = 512, 100
		for _, n := range g.qps(func(x *qpObj) bool { return x.m.SRQ == q.m }) {
			o = g.obj(n)
			free = min(free, o.m.RecvCQ.Free())
			if g.isInside(o) && g.chance(50) {
				break
			}
		}
	} else {
		return g.recvTo(g.one(g.qps(func(o *qpObj) bool { return (o.m.SRQ == nil || g.chance(3)) && !o.m.Loose })))
	}
	return g.receives(s, o, room, sges, side, free, mtu)
}

// recvTo posts receives to a QP.
func (g *gen) recvTo(name int) Step {
	o := g.obj(name)
	if o == nil {
		return nil
	}
	_, room := o.m.Room()
	return g.receives(Recv{Queue: name}, o, room, o.m.RecvSGE, o.s.index, o.m.RecvCQ.Free(),
		max(o.m.Attr.MTU.Bytes(), 256))
}

// receives draws receives for a queue, into memory of the QP o.
func (g *gen) receives(s Recv, o *qpObj, room, sges, side, free, mtu int) Step {
	count := min(pick(g, 1, 1, 2, 3, 8), max(room, 0)+g.IntN(10)/9, free)
	for i := range count {
		n := max(g.size(mtu), 1)
		if g.chance(70) {
			n = 3*mtu + 64
		}
		n = min(n, arenaSize/4-1)
		var w []Piece
		if o == nil {
			return nil
		}
		p := g.zone(o, i, n)
		if mr, t := g.mr(side); t != nil && g.chance(30) && !g.isInside(o) {
			p = g.place(t, mr, n)
		}
		w = []Piece{p}
		if sges > 1 && g.chance(40) {
			k := pick(g, 1, p.Len/2, p.Len)
			w = []Piece{{p.MR, p.Off, k, p.Key}, {p.MR, p.Off + k, p.Len - k, p.Key}}
			if mr, t := g.mr(side); t != nil && g.chance(40) && !g.isInside(o) {
				w[1] = g.place(t, mr, p.Len-k)
			}
		}
		if sges == 0 || g.chance(3) {
			w = nil
		}
		s.WRs = append(s.WRs, w)
	}
	if len(s.WRs) == 0 {
		return nil
	}
	return s
}

func (g *gen) poll() Step {
	n := g.one(names(g.r, func(o *cqObj) bool { return g.chance(5) || !o.m.Dead && o.m.Pending() > 0 }))
	o, ok := get[*cqObj](g.r, n)
	if !ok {
		return nil
	}
	return Poll{n, pick(g, 1, 2, max(o.m.Pending(), 1), o.m.Pending()+1)}
}

func (g *gen) resize() Step {
	n := g.one(names(g.r, func(o *cqObj) bool { return !o.m.Dead && !o.m.Vague() }))
	o, ok := get[*cqObj](g.r, n)
	if !ok {
		return nil
	}
	need := o.m.Size - o.m.Free()
	return Resize{n, max(need, pick(g, 1, o.m.Pending(), o.m.Pending()+1, 2*o.m.Size, o.m.Size, o.m.Size-1))}
}

func (g *gen) arm() Step {
	n := g.one(names(g.r, func(o *cqObj) bool { return !o.m.Dead && !o.m.Vague() }))
	o, ok := get[*cqObj](g.r, n)
	if !ok {
		return nil
	}
	a := Arm{CQ: n, Solicited: g.chance(50)}
	if g.chance(20) && o.s.attr.Caps.Has(ci.CapNotifyAfter) {
		a.After = pick(g, 1, 2, o.m.Size, o.m.Size+1)
	}
	return a
}

// queue creates a CQ, mostly a small one, and a pair that uses it.
func (g *gen) queue() Step {
	if len(names(g.r, func(o *cqObj) bool { return !o.m.Dead })) > 6 {
		return nil
	}
	side := g.IntN(2)
	return NewCQ{g.name(), g.pd(side), pick(g, 1, 2, 3, 4, 5, 0, g.r.sides[side].attr.MaxCQEs+1)}
}

func (g *gen) domain() Step { return NewPD{g.name(), g.IntN(2)} }

func (g *gen) srq() Step {
	side := g.IntN(2)
	a := g.r.sides[side].attr
	if !a.Caps.Has(ci.CapSRQ) || len(names(g.r, func(o *srqObj) bool { return !o.m.Dead })) > 2 {
		return nil
	}
	return NewSRQ{g.name(), g.pd(side), pick(g, 1, 2, 4, 8), min(pick(g, 1, 2, 3), a.MaxSRQSGEs)}
}

func (g *gen) limit() Step {
	n := g.one(names(g.r, func(o *srqObj) bool { return !o.m.Dead }))
	o, ok := get[*srqObj](g.r, n)
	if !ok {
		return nil
	}
	set := ci.SRQFieldLimit
	if o.s.attr.Caps.Has(ci.CapModifySRQDepth) && g.chance(60) {
		set = pick(g, ci.SRQFieldMaxWR, ci.SRQFieldMaxWR|ci.SRQFieldLimit)
	}
	depth := pick(g, 1, o.m.Waiting(), max(o.m.Waiting(), 1), o.m.MaxWR-1, 2*o.m.MaxWR, 0, o.s.attr.MaxSRQWRs+1)
	size := o.m.MaxWR
	if set&ci.SRQFieldMaxWR != 0 {
		size = depth
	}
	limit := pick(g, 0, 1, o.m.Waiting(), o.m.Waiting()+1, size, size+1)
	if set == ci.SRQFieldMaxWR|ci.SRQFieldLimit && g.chance(50) { // which only one of the sizes permits
		depth = pick(g, 2*o.m.MaxWR, max(o.m.Waiting(), 1))
		limit = max(depth, o.m.MaxWR)
	}
	return Limit{n, limit, set, depth}
}

// count sets the counters of a port, mostly near their end, and has datagrams be dropped.
func (g *gen) count() Step {
	s := ModifyCA{g.IntN(2), 0, ci.PortModify{PKeyErrors: uint16(pick(g, 0, 1, 0xfffe, 0xffff)),
		QKeyErrors: uint16(pick(g, 0, 1, 0xfffe, 0xffff))}}
	if caps := g.r.at(s.Side).attr.Caps; !caps.Has(ci.CapPKeyCounter | ci.CapQKeyCounter) {
		return nil
	}
	s.Set = pick(g, ci.PortFieldPKeyErrors, ci.PortFieldQKeyErrors, ci.PortFieldPKeyErrors|ci.PortFieldQKeyErrors)
	from := g.one(g.qps(func(o *qpObj) bool {
		p := g.obj(o.peer)
		return o.m.Type == ci.UD && o.m.State == ci.QPRTS && p != nil && p.s.index == s.Side && !g.isInside(o)
	}))
	for range 2 {
		g.pend = append(g.pend, Later{func(g *gen) Step {
			x, ok := g.sendFrom(from).(Send)
			for i := range x.WRs {
				x.WRs[i].QKey = theQKey + 2
			}
			if !ok {
				return nil
			}
			return x
		}})
	}
	return s
}

func (g *gen) moderate() Step {
	n := g.one(names(g.r, func(o *cqObj) bool { return !o.m.Dead && !o.m.Vague() }))
	if o, ok := get[*cqObj](g.r, n); !ok || !o.s.attr.Caps.Has(ci.CapModeration) {
		return nil
	}
	if g.chance(40) {
		return Moderate{CQ: n}
	}
	return Moderate{n, pick(g, 1, 2, 4), pick(g, 1, 3)}
}

// region registers a part of the memory, at page ends and with rights of all kinds.
func (g *gen) region(side int) NewMR {
	off := pick(g, 0, 1, 4095, 4096, 4097, 8191, g.IntN(arenaSize-1))
	size := pick(g, 1, 8, 100, 4096, 4097, 8192, arenaSize-off)
	size = min(size, arenaSize-off)
	access := pick(g, ci.LocalWrite|allRemote, ci.LocalWrite|allRemote|ci.BindWindow, ci.RemoteRead,
		ci.Access(g.IntN(32)))
	if g.chance(3) {
		size = arenaSize - off + 1
	}
	if g.chance(5) {
		access |= ci.ZeroBased
	}
	return NewMR{g.name(), g.pd(side), off, size, access, pick(g, 0, 0, 1, 100, 1<<38), 0}
}

// window creates a window.
func (g *gen) window() Step {
	side := g.IntN(2)
	var types []ci.MWType
	for typ, c := range []ci.Caps{1: ci.CapMW1, 2: ci.CapMW2} {
		if c != 0 && g.r.sides[side].attr.Caps.Has(c) {
			types = append(types, ci.MWType(typ))
		}
	}
	if len(types) == 0 || len(names(g.r, func(o *mwObj) bool { return !o.m.Dead })) > 3 {
		return nil
	}
	if g.chance(3) {
		types = []ci.MWType{0, 3}
	}
	return NewMW{g.name(), g.pd(side), pick(g, types...)}
}

// bind binds a window, or invalidates it, mostly through a QP of its PD.
func (g *gen) bind() Step {
	n := g.one(names(g.r, func(o *mwObj) bool { return !o.m.Dead && !o.m.Vague || g.chance(3) }))
	w, ok := get[*mwObj](g.r, n)
	if !ok {
		return nil
	}
	q := g.one(g.qps(func(o *qpObj) bool {
		return o.s == w.s && (o.m.PD == w.m.PD && o.m.Type != ci.UD && o.m.State == ci.QPRTS || g.chance(5))
	}))
	if q == 0 {
		return nil
	}
	flags := pick(g, ci.SendSignaled, ci.SendSignaled, ci.SendSignaled|ci.SendFence, 0)
	if w.m.Bound() != nil && w.m.Type == ci.MWType2 && g.chance(80) {
		for from, r := range g.r.objs { // through the QP that bound it
			if o, ok := r.(*qpObj); ok && o.m == w.m.Bound().Through() && !g.chance(10) {
				q = from
			}
		}
		inv := WR{Op: ci.OpLocalInv, Flags: flags, MW: n}
		if g.chance(5) {
			inv.Bind.Key = pick[ci.Key](g, 1, 0x100)
		}
		if o := g.obj(q); g.chance(40) && o.s.attr.Caps.Has(ci.CapSendInvalidate) && g.obj(o.peer) != nil {
			if p := g.obj(o.peer); p.m.State == ci.QPRTS && p.peer == q && o.m.Type == ci.RC {
				if _, k := o.m.Waiting(); k > 0 {
					inv.Op, inv.Flags = ci.OpSend, flags|ci.SendInvalidate
					return Send{QP: o.peer, WRs: []WR{inv}}
				}
			}
		}
		return Send{QP: q, WRs: []WR{inv}}
	}
	mr := g.one(names(g.r, func(o *mrObj) bool {
		isRight := o.m.Access&ci.BindWindow != 0 && !o.m.Dead && o.m.PD == w.m.PD
		return o.s == w.s && o.m.Access&ci.ZeroBased == 0 && (isRight || g.chance(4)) // D-105
	}))
	o, ok := get[*mrObj](g.r, mr)
	if !ok {
		return nil
	}
	size := int(o.region.Length)
	p := g.place(o, mr, pick(g, 1, 8, 64, 4096, size, size-1, g.IntN(size)+1))
	access := pick(g, allRemote, allRemote, ci.RemoteRead, ci.RemoteWrite, ci.RemoteAtomic,
		ci.RemoteRead|ci.RemoteWrite)
	g.use(q, n, mr, p.Len)
	if w.m.Type == ci.MWType1 {
		if g.chance(15) {
			p = Piece{MR: mr}
		} else if g.chance(5) {
			p.Len = size + 1 - pick(g, 0, p.Off)
		}
		return Bind{q, n, p, access, flags}
	}
	if g.chance(20) && w.s.attr.Caps.Has(ci.CapZeroBased) {
		access |= ci.ZeroBased
	}
	p.Key = pick[ci.Key](g, 0, 0, 1, 0xfe, 0xff, zeroKey) // 0xff: the same low bits as before
	s := Send{QP: q, WRs: []WR{{Op: ci.OpBindMW, Flags: flags, MW: n, Bind: p, Rights: access}}}
	if o := g.obj(q); g.chance(30) && g.obj(o.peer) != nil { // the peer learns of the bind
		if w := g.wr(o, g.obj(o.peer), 1, 2); w.Op == ci.OpSend {
			s.WRs = append(s.WRs, w)
		}
	}
	return s
}

// use draws what follows a bind: the peer uses the window around its ends, and its region is destroyed.
func (g *gen) use(q, w, mr, size int) {
	if mr >= firstName && g.chance(20) {
		g.pend = append(g.pend, Destroy{mr})
	}
	o := g.obj(q)
	p := g.obj(o.peer)
	if p == nil || o.s == p.s || p.m.Type == ci.UD || p.m.State != ci.QPRTS || g.chance(40) {
		return
	}
	n := min(size, pick(g, 1, 8, 8, size))
	op := pick(g, ci.OpWrite, ci.OpRead, ci.OpFetchAdd)
	switch {
	case p.m.Type == ci.UC || op == ci.OpFetchAdd && o.s.attr.Atomicity == ci.AtomicNone:
		op = ci.OpWrite
	case op == ci.OpFetchAdd:
		n = 8
	}
	off := pick(g, 0, size-n, pick(g, size-n, size-n, -1)+pick(g, 0, 0, 1))
	g.pend = append(g.pend, Send{QP: o.peer, WRs: []WR{{Op: op, Flags: ci.SendSignaled, SGL: []Piece{g.zone(p, 0, n)},
		Remote: Piece{MR: w, Off: off, Len: n}}}})
}

// destroy destroys an object that nothing needs, and sometimes one that is needed.
func (g *gen) destroy() Step {
	n := g.one(names(g.r, func(o any) bool {
		m := modelOf(o)
		return m != nil && (m.Dead && g.chance(10) || !m.Dead && (m.Users() == 0 || g.chance(10)))
	}))
	if n < firstName {
		return nil
	}
	if _, ok := get[*qpObj](g.r, n); ok && g.chance(40) {
		g.pend = append(g.pend, Destroy{n})
		return Quarantine{n}
	}
	return Destroy{n}
}

// state moves a QP to another state.
func (g *gen) state() Step {
	n := g.one(g.qps(nil))
	o := g.obj(n)
	if o == nil {
		return nil
	}
	f, a := ci.ToError()
	switch g.IntN(6) {
	case 0:
		f, a = ci.ToReset()
	case 1, 2:
		f, a = ci.ToSQD(g.chance(70))
	case 3, 4:
		f, a = ci.BackToRTS()
		if o.m.State != ci.QPSQD && o.m.State != ci.QPSQError {
			return nil
		}
	}
	return Modify{n, f, a}
}

// flushAll arms all CQs and flushes all QPs.
func (g *gen) flushAll() (out []Step) {
	for _, n := range names(g.r, func(o *cqObj) bool { return !o.m.Dead && !o.m.Vague() }) {
		out = append(out, Arm{CQ: n})
	}
	f, a := ci.ToError()
	for _, n := range g.qps(func(o *qpObj) bool { return !o.m.Loose }) {
		out = append(out, Modify{n, f, a})
	}
	return out
}

// link impairs the link or mends it. It is cut for a few steps only: no connection with many retries may fail.
func (g *gen) link() Step {
	w := g.r.w
	switch {
	case !g.isLossy || g.r.impair == nil:
		return nil
	case w.Lossy || w.Cut:
		return Link{}
	case g.chance(40):
		for _, s := range []Step{g.send(), g.recv(), g.send()} {
			if s == nil {
				continue
			}
			g.pend = append(g.pend, s)
			if x, ok := s.(Send); ok && g.chance(20) {
				f, a := ci.ToSQD(true)
				g.pend = append(g.pend, Modify{x.QP, f, a})
			}
		}
		g.pend = append(g.pend, Link{})
		return Link{Cut: true}
	}
	for range 6 {
		g.pend = append(g.pend, Later{(*gen).send})
	}
	return Link{Drop: pick(g, 5, 15, 25), Duplicate: pick(g, 0, 10), Reorder: pick(g, 0, 10, 30),
		Seed: 1 + g.Uint64()>>1}
}

func (g *gen) fill() Step {
	return Fill{g.IntN(2), pick(g, 0, 4090, g.IntN(arenaSize)), pick(g, 1, 8, 300, 4096), byte(g.Uint32())}
}

// path draws what an address has beside the destination.
func (g *gen) path() Vector {
	v := Vector{SL: ci.SL(pick(g, 0, 0, 1, 7)), Global: g.chance(30)}
	if v.Global {
		v.Class = pick[uint8](g, 0, 0x9c, 0xff)
	}
	return v
}

func (g *gen) vector() Step {
	if !g.r.sides[0].attr.Caps.Has(ci.CapAV) {
		return nil
	}
	list := names(g.r, func(o *avObj) bool { return !o.m.Dead })
	if len(list) < 4 && g.chance(60) {
		side := g.IntN(2)
		return NewAV{g.name(), g.pd(side), g.IntN(2), g.path()}
	}
	if len(list) == 0 {
		return nil
	}
	s := ModifyAV{g.one(list), g.IntN(2), g.path()}
	o, _ := get[*avObj](g.r, s.AV)
	n := g.one(g.qps(func(q *qpObj) bool { return q.m.Type == ci.UD && q.m.PD == o.m.PD && q.m.State == ci.QPRTS }))
	for range 2 {
		g.pend = append(g.pend, Later{func(g *gen) Step { return g.sendFrom(n) }})
	}
	return s
}

// reconnect connects a pair again, mostly one that is broken.
func (g *gen) reconnect() Step {
	n := g.one(g.qps(func(o *qpObj) bool { return g.chance(10) || o.m.State == ci.QPError || o.m.State == ci.QPReset }))
	o := g.obj(n)
	if o == nil {
		return nil
	}
	p := g.obj(o.peer)
	if p == nil || p.m.Dead || p == o {
		return nil
	}
	list := g.connect(o.m.Type, n, o.peer)
	g.pend = append(g.pend, list[1:]...)
	return list[0]
}

func (g *gen) query() Step {
	return Query{g.one(names(g.r, func(o any) bool { return isDead(o) == g.chance(10) }))}
}

// recycle destroys a QP whose number is in quarantine and creates others.
func (g *gen) recycle() Step {
	n := g.one(g.qps(func(o *qpObj) bool { return o.m.Users() == 0 }))
	o := g.obj(n)
	if o == nil {
		return nil
	}
	side := o.s.index
	again := NewQP{g.name(), o.pd, baseCQ(side), baseCQ(side), QPOptions{Type: o.m.Type, Depth: 1, SGEs: 1}}
	g.pend = append(g.pend, Destroy{n}, again, Destroy{again.As})
	return Quarantine{n}
}

// change modifies attributes of a connected QP in place, in RTS or while its send queue is drained, and uses them.
func (g *gen) change() Step {
	n := g.one(g.qps(func(o *qpObj) bool {
		waits, _ := o.m.Waiting()
		return !o.m.Loose && waits == 0 && (o.m.State == ci.QPRTS || o.m.State == ci.QPSQD)
	}))
	o := g.obj(n)
	if o == nil || g.obj(o.peer) == nil {
		return nil
	}
	p := g.obj(o.peer)
	isDrained := o.m.State == ci.QPSQD || g.chance(70)
	a, far, most := o.m.Attr, p.m.Attr, o.s.attr
	var probe []Step
	later := func(f func(*gen) Step) { probe = append(probe, Later{f}) }
	send := func(from int) { later(func(g *gen) Step { return g.sendFrom(from) }) }
	reads := func(from int) { later(func(g *gen) Step { return g.readsFrom(from) }) }
	var set ci.QPField
	for _, c := range model.Changes(o.m.Type, isDrained) {
		if g.chance(55) {
			continue
		}
		switch set |= c; c {
		case ci.QPFieldAccess:
			a.Access = pick(g, allRemote, allRemote, 0, ci.RemoteRead, ci.RemoteWrite, ci.RemoteAtomic)
			send(o.peer)
			send(o.peer)
		case ci.QPFieldPKeyIndex:
			if keys := g.pkeys(o.s.index); len(keys) > 0 {
				a.Primary.PKeyIndex = pick(g, keys...)
			}
			send(n)
			send(o.peer)
		case ci.QPFieldQKey:
			a.QKey = pick(g, theQKey, theQKey+1)
			send(o.peer)
		case ci.QPFieldMinRNRTimer:
			a.MinRNRTimer = g.minRNR()
			send(o.peer)
		case ci.QPFieldRNRRetry:
			a.RNRRetry = pick[uint8](g, 0, 1, 3, 7)
			send(n)
		case ci.QPFieldRetryCount, ci.QPFieldAckTimeout:
			a.RetryCount, a.Primary.AckTimeout = pick[uint8](g, 0, 1, 7), pick[ci.TimeExp](g, 10, 12, 17)
			if set |= ci.QPFieldRetryCount | ci.QPFieldAckTimeout; g.chance(30) { // without an answer
				f, x := ci.ToReset()
				probe = append(probe, Modify{o.peer, f, x})
				send(n)
			}
		case ci.QPFieldInitDepth:
			a.InitDepth = uint8(min(int(pick(g, 1, max(far.RespRes, 1))), most.MaxInitDepthPerQP))
			reads(n)
		case ci.QPFieldRespRes:
			a.RespRes = uint8(min(max(int(far.InitDepth), pick(g, 1, 2, 4, 8)), most.MaxRespResPerQP))
			if g.chance(60) { // which the peer uses
				far.InitDepth = uint8(min(int(a.RespRes), p.s.attr.MaxInitDepthPerQP))
				f, x := ci.ToSQD(false)
				probe = append(probe, Modify{o.peer, f, x}, Modify{o.peer, ci.QPFieldInitDepth, far})
				f, x = ci.BackToRTS()
				probe = append(probe, Modify{o.peer, f, x})
			}
			reads(o.peer)
		}
	}
	if set == 0 {
		return nil
	}
	list := []Step{Modify{n, set, a}}
	if isDrained {
		if o.m.State == ci.QPRTS {
			f, x := ci.ToSQD(g.chance(50))
			list = append([]Step{Modify{n, f, x}}, list...)
		}
		f, x := ci.BackToRTS()
		list = append(list, Modify{n, f, x})
	}
	g.pend = append(append(g.pend, list[1:]...), probe...)
	return list[0]
}

// readsFrom posts as many READs as a QP may have outstanding, and more.
func (g *gen) readsFrom(name int) Step {
	o := g.obj(name)
	p := g.obj(o.peer)
	if room, _ := o.m.Room(); p != nil && p.s != o.s && o.m.Type == ci.RC && o.m.State == ci.QPRTS && room > 1 {
		s := Send{QP: name}
		for i := range min(room, 8) {
			s.WRs = append(s.WRs, WR{Op: ci.OpRead, Flags: ci.SendSignaled,
				SGL:    []Piece{{MR: baseMR(o.s.index), Off: 500 * i, Len: 300}},
				Remote: Piece{MR: baseMR(p.s.index), Off: 8 * i, Len: 300}})
		}
		return s
	}
	return nil
}

// Later is a step that is drawn when it is its turn.
type Later struct{ draw func(*gen) Step }

func (Later) run(*Run) *model.Violation { return nil }

// String describes the step.
func (Later) String() string { return "" }

// spoil adds to the mask of a Modify what the transition permits, and one value that is out of range.
func (g *gen) spoil(o *qpObj, a *ci.QPAttr, set *ci.QPField) {
	may := model.Permitted(o.m.Type, o.m.State, a.State) &^ (ci.QPFieldCurrentState | ci.QPFieldAlternate |
		ci.QPFieldAPM)
	*set |= may
	type wrong struct {
		field ci.QPField
		spoil func()
	}
	var list []wrong
	for _, x := range []wrong{
		{ci.QPFieldRetryCount, func() { a.RetryCount = 8 }}, {ci.QPFieldMinRNRTimer, func() { a.MinRNRTimer = 32 }},
		{ci.QPFieldSQPSN, func() { a.SQPSN = 1 << 24 }}, {ci.QPFieldPort, func() { a.Port = 99 }},
		{ci.QPFieldPKeyIndex, func() { a.Primary.PKeyIndex = 0xffff }}, {ci.QPFieldMTU, func() { a.MTU = 9 }},
		{ci.QPFieldAccess, func() { a.Access = 1 << 20 }}, {ci.QPFieldRespRes, func() { a.RespRes = 255 }},
		{ci.QPFieldRNRRetry, func() { a.RNRRetry = 8 }},
	} {
		isIn := x.field != ci.QPFieldRespRes || o.s.attr.MaxRespResPerQP < 255
		if may&x.field != 0 && isIn {
			list = append(list, x)
		}
	}
	if len(list) > 0 {
		list[g.IntN(len(list))].spoil()
	}
}

// brim fills a send queue whose peer has no receives to its last entry. Then the queue is flushed, emptied or goes on.
func (g *gen) brim() Step {
	n := g.one(g.qps(func(o *qpObj) bool {
		p := g.obj(o.peer)
		isReady := o.m.Type == ci.RC && o.m.State == ci.QPRTS && !o.m.Loose && o.m.Attr.RNRRetry == 7
		if p == nil || !isReady || p.m.SRQ != nil {
			return false
		}
		waits, _ := o.m.Waiting()
		_, receives := p.m.Waiting()
		return waits == 0 && receives == 0 && o.m.Answers() && !g.r.w.Lossy && !g.r.w.Cut
	}))
	o := g.obj(n)
	if o == nil {
		return nil
	}
	s := Send{QP: n}
	room, _ := o.m.Room()
	for i := range min(room, o.m.SendCQ.Free(), 64) {
		s.WRs = append(s.WRs, WR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []Piece{g.zone(o, i, 8)}})
	}
	if len(s.WRs) == 0 {
		return nil
	}
	f, a := pick(g, ci.ToError, ci.ToReset)()
	switch g.IntN(4) {
	case 0:
		g.pend = append(g.pend, Send{QP: n, WRs: s.WRs[:1]})
	case 1:
		g.pend = append(g.pend, Later{func(g *gen) Step { return g.recvTo(o.peer) }})
	default: // and nothing of it is left in the next connection
		g.pend = append(append(g.pend, Modify{n, f, a}), g.connect(o.m.Type, n, o.peer)...)
		g.pend = append(g.pend, Later{func(g *gen) Step { return g.recvTo(o.peer) }},
			Later{func(g *gen) Step { return g.sendFrom(n) }})
	}
	return s
}

// flawed modifies a QP with a random set of fields.
func (g *gen) flawed() Step {
	n := g.one(g.qps(func(o *qpObj) bool { return !o.m.Loose }))
	o := g.obj(n)
	if o == nil {
		return nil
	}
	if k, _ := o.m.Waiting(); k > 0 {
		return nil
	}
	a := o.m.Attr
	a.State = ci.QPState(g.IntN(int(ci.QPError) + 1))
	isWrong := g.chance(50)
	if isWrong { // all that is right differs from what is set, and has no effect
		a.Access ^= allRemote
		a.QKey++
		a.MinRNRTimer = a.MinRNRTimer ^ 1
		a.RetryCount, a.RNRRetry, a.Primary.AckTimeout = a.RetryCount^1, a.RNRRetry^1, a.Primary.AckTimeout^1
		a.RQPSN, a.SQPSN = a.RQPSN^1, a.SQPSN^1
		if g.chance(60) {
			a.State = o.m.State
		}
	}
	a.CurrentState = o.m.State
	if slices.Contains([]ci.QPState{ci.QPSQDraining, ci.QPSQError}, a.State) {
		a.State = ci.QPSQD
	}
	var set ci.QPField
	switch {
	case g.chance(40):
		for from, f := range model.Fields(o.m.Type) {
			if from[0] == o.m.State && from[1] == a.State {
				set = f
			}
		}
		if a.Port == 0 {
			a.Port = o.s.port.Num
		}
		set |= ci.QPFieldState
		if isWrong {
			g.spoil(o, &a, &set)
		} else if g.chance(60) {
			set ^= 1 << g.IntN(22)
		}
	default:
		set = ci.QPField(g.Uint32()) & (1<<22 - 1)
	}
	if g.r.at(o.s.index).attr.Caps.Has(ci.CapAPM) { // they are wrong, and what else is in the call has no effect
		set &^= ci.QPFieldAlternate | ci.QPFieldAPM
		if o.m.Type != ci.UD && g.chance(40) {
			set |= pick(g, ci.QPFieldAlternate, ci.QPFieldAPM)
			a.Alternate.AV.Port, a.APM = 99, ci.APMRearm
			a.Access ^= allRemote
			if o.m.State == ci.QPRTS && g.chance(70) {
				set = set&(ci.QPFieldAlternate|ci.QPFieldAPM) | ci.QPFieldAccess
			}
		}
	}
	set &^= ci.QPFieldSendDepth | ci.QPFieldRecvDepth | ci.QPFieldPrimary // judged by their own cases
	return Modify{n, set, a}
}
