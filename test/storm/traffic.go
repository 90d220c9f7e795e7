package storm

import (
	"fmt"

	"ciddk/ci"
)

// refill posts requests up to the end's window. The last one is signaled.
func (e *end) refill() error {
	if e.pair.ended || e.side.failed || e.s.enough() {
		return nil
	}
	n := min(1+e.rnd.IntN(depth), e.window-len(e.open))
	if n <= 0 {
		return nil
	}
	wrs := make([]ci.SendWR, n)
	for i := range wrs {
		e.compose(&wrs[i], i == n-1)
	}
	e.side.posted()
	if k, err := e.qp.PostSend(wrs); err != nil || k != n {
		return fmt.Errorf("%s: PostSend of %d posted %d: %w", e.side.name, n, k, err)
	}
	return nil
}

// size draws the length of a message: from nothing to several packets.
func (e *end) size() uint32 {
	mtu := int(e.side.mtu)
	n := 0
	switch e.rnd.IntN(8) {
	case 0:
		n = e.rnd.IntN(2)
	case 1, 2, 3:
		n = 1 + e.rnd.IntN(64)
	case 4:
		n = mtu - 1 + e.rnd.IntN(3)
	case 5, 6:
		n = e.rnd.IntN(2*mtu + 1)
	default:
		n = e.rnd.IntN(5*mtu + 1)
	}
	return uint32(min(n, maxBytes))
}

// compose fills in a random request, and passes it to the oracle.
func (e *end) compose(w *ci.SendWR, last bool) {
	e.ids++
	s := &sending{request: &request{id: e.ids}, slot: int(e.ids % depth)}
	e.open = append(e.open, s)
	e.choose(s)
	if last || e.rnd.IntN(4) > 0 {
		s.flags |= ci.SendSignaled
	}
	if e.rnd.IntN(8) == 0 {
		s.flags |= ci.SendFence
	}
	if e.rnd.IntN(4) == 0 {
		s.flags |= ci.SendSolicited
	}
	switch s.op {
	case ci.OpLocalInv, ci.OpBindMW, ci.OpFastReg:
		s.flags = ci.SendSignaled
	}
	*w = ci.SendWR{ID: s.id, Op: s.op, Flags: s.flags, Imm: s.imm, Inv: s.inv, Remote: s.remote, Atomic: s.atomic}
	e.bind(w, s)
	e.gather(w, s)
	e.side.post(s.request)
}

// gather sets the data of a request: inline, or in one or more segments.
func (e *end) gather(w *ci.SendWR, s *sending) {
	at, n := e.sendAt(s.slot), int(s.size)
	buf := e.host.mem[at : at+slotBytes]
	switch s.op {
	case ci.OpSend, ci.OpWrite:
		copy(buf, e.s.pattern(e.num, e.pair.life, s.id, n))
		if n <= 64 && s.wrong == nothing && e.rnd.IntN(2) == 0 {
			w.Inline = append([]byte{}, buf[:n]...)
			return
		}
	case ci.OpRead, ci.OpCompareSwap, ci.OpFetchAdd:
		clear(buf)
	default:
		return
	}
	for n > 0 && len(w.SGL) < 2 {
		k := n
		if !(s.op == ci.OpCompareSwap || s.op == ci.OpFetchAdd) && e.rnd.IntN(2) == 0 {
			k = 1 + e.rnd.IntN(n)
		}
		w.SGL = append(w.SGL, e.host.sge(at, k))
		at, n = at+k, n-k
	}
	if n > 0 {
		w.SGL = append(w.SGL, e.host.sge(at, n))
	}
	if s.wrong == localKey {
		for i := range w.SGL {
			w.SGL[i].LKey ^= 0x5a00
		}
	}
}

// bind fills in local operations.
func (e *end) bind(w *ci.SendWR, s *sending) {
	at := e.host.mr.Region().Addr + uint64(e.base)
	switch s.op {
	case ci.OpBindMW:
		e.variant++
		e.winKey = e.mw.(ci.MW).Key()&^0xff | ci.Key(e.variant)
		e.winVA = at
		w.Ext = &ci.SendExt{Bind: ci.MWBind{MW: e.mw.(ci.MW), MR: e.host.mr, Key: e.winKey, Addr: at, Length: winBytes,
			Access: ci.RemoteWrite | ci.RemoteRead}}
		e.win = winBinding
	case ci.OpFastReg:
		e.variant++
		e.winKey = e.fast.(ci.MR).Region().LKey&^0xff | ci.Key(e.variant)
		e.winVA = 0x7000_0000_0000 + uint64(e.num)<<16
		w.Ext = &ci.SendExt{FastReg: ci.FastReg{MR: e.fast.(ci.MR), Pages: e.host.pages[e.base/4096 : e.base/4096+1],
			PageShift: 12, Length: winBytes,
			IOVA: e.winVA, Key: e.winKey, Access: ci.LocalWrite | ci.RemoteWrite | ci.RemoteRead}}
		e.win = winBinding
	case ci.OpLocalInv:
		e.win = winClosing
	}
}

// choose draws an operation and its target.
func (e *end) choose(s *sending) {
	p, r := e.peer, e.rnd
	target := p.host.mr.Region().Remote(uint64(p.targetAt(s.slot)))
	switch {
	case e.win == winIdle && r.IntN(16) == 0:
		s.op = pick(r, ci.OpBindMW, ci.OpFastReg)
		return
	case e.win == winOpen && !e.winUsed && r.IntN(64) == 0:
		s.op, s.inv = ci.OpLocalInv, e.winKey
		return
	case p.win == winOpen && !p.winUsed && r.IntN(8) == 0:
		s.window, p.winUsed = true, true
		s.op, s.size, s.remote = ci.OpWrite, min(e.size(), winBytes-64), ci.Remote{Addr: p.winVA, RKey: p.winKey}
		return
	case p.win == winOpen && !p.winUsed && r.IntN(8) == 0:
		p.win = winClosing
		s.op, s.size = ci.OpSend, e.size()
		s.flags, s.inv = ci.SendInvalidate, p.winKey
		return
	}
	switch n := r.IntN(16); n {
	case 0, 1, 2, 3, 4:
		s.op, s.size = ci.OpSend, e.size()
	case 5, 6, 7, 8, 9:
		s.op, s.size, s.remote = ci.OpWrite, e.size(), target
	case 10, 11, 12:
		s.op, s.size = ci.OpRead, e.size()
		s.source = r.IntN(maxBytes - int(s.size) + 1)
		s.remote = p.host.mr.Region().Remote(uint64(p.sourceAt() + s.source))
	default:
		e.atomic(s)
	}
	if (s.op == ci.OpSend || s.op == ci.OpWrite) && r.IntN(3) == 0 {
		s.flags, s.imm = ci.SendImmediate, r.Uint32()
	}
	if r.IntN(e.s.c.Wrong) == 0 {
		e.spoil(s)
	}
}

// atomic draws an atomic on a word that all queue pairs of the host share.
func (e *end) atomic(s *sending) {
	p, r := e.peer, e.rnd
	i := r.IntN(nWords)
	s.size, s.word = 8, p.host.words[i]
	s.remote = p.host.mr.Region().Remote(uint64(p.host.wordsAt + 8*i))
	if i < nWords/2 {
		s.op, s.atomic = ci.OpCompareSwap, ci.Atomic{Compare: r.Uint64N(4), Swap: r.Uint64N(4)}
		return
	}
	s.op, s.atomic = ci.OpFetchAdd, ci.Atomic{Compare: r.Uint64()}
}

// spoil makes a request invalid, if its operation allows.
func (e *end) spoil(s *sending) {
	atomic := s.op == ci.OpCompareSwap || s.op == ci.OpFetchAdd
	switch e.rnd.IntN(3) {
	case 0:
		if s.op != ci.OpSend && s.size > 0 {
			s.wrong = remoteKey
			s.remote.RKey ^= 0x5a00
		}
	case 1:
		if atomic {
			s.wrong = misaligned
			s.remote.Addr += 4
		}
	default:
		if (s.op == ci.OpSend || s.op == ci.OpWrite) && s.size > 0 {
			s.wrong = localKey
		}
	}
}
