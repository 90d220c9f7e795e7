package rings

import (
	"encoding/binary"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/rvt"
)

// sendRing is a send queue. The producer and the consumer each have an index that the other does not write.
type sendRing struct {
	q      queue
	sge    uint32 // entries per request
	inline uint32 // bytes per request

	// Producer.
	post   uint32 // next slot to fill
	extras bool   // the side table is in use

	// Consumer. The requests from tail to next are decoded and not retired.
	next uint32
	tail uint32

	side atomic.Pointer[sideTable]
	// In queues that are shared with another process, requests name objects by numbers and keys. The producer uses
	// names. The consumer uses vector, and has the binds by slot.
	names  Names
	vector func(number uint32) *rvt.AV
	binds  []rvt.WorkExt // made with the first bind
	// Published indices. Both sides are in this process. They publish their indices in the shared bytes and here, and
	// read them only here. Otherwise, if another process overwrites an index, both sides could use a slot of the side
	// table at once.
	posted, retired atomic.Uint32
	// In queues that are shared with another process, the other side's index when it was last read. It is read again
	// only when it matters, since it is on a cache line that the other side writes.
	seen uint32
}

// sideTable holds, by slot, the parts of requests that must not be in shared bytes. The producer fills a slot before it
// publishes the request. The consumer clears it before it publishes the slot as free.
type sideTable struct {
	av  []*rvt.AV
	ext []*rvt.WorkExt // kept for reuse with its page list
	has []bool         // ext is in use
}

// newSendRing returns an empty send queue over b, which has queueSize(sendGeometry(depth, sge, inline)) bytes.
func newSendRing(b []byte, depth, sge, inline int) *sendRing {
	slots, shift := sendGeometry(depth, sge, inline)
	return &sendRing{q: newQueue(b, slots, shift), sge: uint32(sge), inline: uint32(inline)}
}

func sendGeometry(depth, sge, inline int) (slots int, shift uint8) {
	return geometry(depth, sqSGE+max(sge*sgeSize, inline, ci.AtomicWriteSize))
}

func (r *sendRing) Depth() int { return r.q.depth() }

func (r *sendRing) Len() int { return int((r.posted.Load() - r.retired.Load()) & r.q.mask) }

// Reset empties the queue. No other method may run at the same time.
func (r *sendRing) Reset() {
	r.post, r.next, r.tail = 0, 0, 0
	r.seen = 0
	r.q.clear()
	r.side.Store(nil)
	r.extras = false
	r.posted.Store(0)
	r.retired.Store(0)
}

// Post encodes and publishes requests until the queue is full, and returns their number. A request beyond the queue's
// limits, which the engine rejects before, ends the batch.
func (r *sendRing) Post(wrs []ci.SendWR, obj rvt.Resolver) int {
	room := (r.retired.Load() - r.post - 1) & r.q.mask
	n := 0
	for n < len(wrs) && uint32(n) < room {
		w := &wrs[n]
		if len(w.SGL) > int(r.sge) || len(w.Inline) > int(r.inlineOf(w.Op)) {
			break
		}
		r.encode(w, obj)
		r.post = (r.post + 1) & r.q.mask
		n++
	}
	if n > 0 {
		r.posted.Store(r.post)
		atomic.StoreUint32(r.q.prod, r.post)
	}
	return n
}

func (r *sendRing) encode(w *ci.SendWR, obj rvt.Resolver) {
	b := r.q.slot(r.post)
	_ = b[sqSGE-1]
	if r.extras {
		s := r.side.Load()
		s.av[r.post], s.has[r.post] = nil, false
	}
	flags := packFlags(w.Flags)
	ex := uint32(0)
	op := uint32(opSend)
	switch w.Op {
	case ci.OpSend:
		switch {
		case w.Flags&ci.SendImmediate != 0:
			op, ex = opSendImm, immWord(w.Imm)
		case w.Flags&ci.SendInvalidate != 0:
			op, ex = opSendInv, uint32(w.Inv)
		case w.Ext != nil && r.names == nil:
			op = opRaw
			r.ext().Raw = w.Ext.Raw
		}
		if w.To.AV != nil {
			number := uint32(0)
			if r.names != nil {
				number = r.names.Vector(w.To.AV)
			} else {
				r.table().av[r.post] = obj.AV(w.To.AV)
			}
			ne.PutUint32(b[sqDestQP:], uint32(w.To.QPN))
			ne.PutUint32(b[sqQKey:], uint32(w.To.QKey))
			ne.PutUint16(b[sqPKeyIx:], w.To.PKeyIndex)
			ne.PutUint32(b[sqAH:], number)
		}
	case ci.OpWrite:
		op = opWrite
		if w.Flags&ci.SendImmediate != 0 {
			op, ex = opWriteImm, immWord(w.Imm)
		}
		ne.PutUint64(b[sqAddr:], w.Remote.Addr)
		ne.PutUint32(b[sqRKey:], uint32(w.Remote.RKey))
	case ci.OpRead:
		op = opRead
		ne.PutUint64(b[sqAddr:], w.Remote.Addr)
		ne.PutUint32(b[sqRKey:], uint32(w.Remote.RKey))
	case ci.OpCompareSwap, ci.OpFetchAdd:
		op = opCompSwap
		if w.Op == ci.OpFetchAdd {
			op = opFetchAdd
		}
		ne.PutUint64(b[sqAddr:], w.Remote.Addr)
		ne.PutUint64(b[sqCompare:], w.Atomic.Compare)
		ne.PutUint64(b[sqSwap:], w.Atomic.Swap)
		ne.PutUint32(b[sqAtomRKey:], uint32(w.Remote.RKey))
	case ci.OpAtomicWrite:
		op = opAtomWrite
		ne.PutUint64(b[sqAddr:], w.Remote.Addr)
		ne.PutUint32(b[sqRKey:], uint32(w.Remote.RKey))
	case ci.OpFlush:
		op = opFlush
		ne.PutUint64(b[sqAddr:], w.Remote.Addr)
		ne.PutUint32(b[sqFlushKey:], uint32(w.Remote.RKey))
		b[sqFlushTyp], b[sqFlushSel] = packFlush(&w.Ext.Flush)
	case ci.OpLocalInv:
		op, ex = opLocalInv, uint32(w.Inv)
	default:
		op = r.encodeRare(w, b, obj)
	}
	ne.PutUint64(b[sqID:], w.ID)
	ne.PutUint32(b[sqOpcode:], op)
	ne.PutUint32(b[sqEx:], ex)
	d := b[sqDMA:]
	if w.Op == ci.OpFlush {
		ne.PutUint32(b[sqFlags:], flags)
		ne.PutUint32(b[sqNumSGE:], 0)
		ne.PutUint32(b[sqFlushLen:], w.Ext.Flush.Length)
		ne.PutUint32(d[dmaLength:], w.Ext.Flush.Length)
		ne.PutUint32(d[dmaNumSGE:], 0)
		return
	}
	if w.Inline != nil {
		ne.PutUint32(b[sqFlags:], flags|flagInline)
		ne.PutUint32(b[sqNumSGE:], 0)
		ne.PutUint32(d[dmaLength:], uint32(len(w.Inline)))
		ne.PutUint32(d[dmaNumSGE:], 0)
		copy(b[sqSGE:], w.Inline)
		return
	}
	ne.PutUint32(b[sqFlags:], flags)
	sum := uint32(0)
	for i := range w.SGL {
		putSGE(b[sqSGE+i*sgeSize:], &w.SGL[i])
		sum += w.SGL[i].Length
	}
	ne.PutUint32(b[sqNumSGE:], uint32(len(w.SGL)))
	ne.PutUint32(d[dmaLength:], sum)
	ne.PutUint32(d[dmaResid:], sum)
	ne.PutUint32(d[dmaNumSGE:], uint32(len(w.SGL)))
}

// encodeRare encodes requests that need the side table.
func (r *sendRing) encodeRare(w *ci.SendWR, b []byte, obj rvt.Resolver) (op uint32) {
	if w.Ext == nil || w.Op == ci.OpNop {
		return opNop
	}
	if r.names != nil {
		return r.encodeByName(w, b)
	}
	x := r.ext()
	switch w.Op {
	case ci.OpFastReg:
		pages := append(x.FastReg.Pages[:0], w.Ext.FastReg.Pages...)
		x.FastReg = w.Ext.FastReg
		x.FastReg.Pages, x.FastReg.MR = pages, nil
		if w.Ext.FastReg.MR != nil {
			x.MR = obj.MR(w.Ext.FastReg.MR)
		}
		return opFastReg
	case ci.OpBindMW:
		x.Bind = w.Ext.Bind
		x.Bind.MW, x.Bind.MR = nil, nil
		if w.Ext.Bind.MW != nil {
			x.MW = obj.MW(w.Ext.Bind.MW)
		}
		if w.Ext.Bind.MR != nil {
			x.MR = obj.MR(w.Ext.Bind.MR)
		}
		return opBindMW
	case ci.OpLSO:
		x.LSO.Header = append(x.LSO.Header[:0], w.Ext.LSO.Header...)
		x.LSO.MSS = w.Ext.LSO.MSS
		if w.To.AV != nil {
			r.table().av[r.post] = obj.AV(w.To.AV)
			ne.PutUint32(b[sqDestQP:], uint32(w.To.QPN))
			ne.PutUint32(b[sqQKey:], uint32(w.To.QKey))
			ne.PutUint16(b[sqPKeyIx:], w.To.PKeyIndex)
		}
		return opLSO
	}
	return opNop
}

// encodeByName encodes requests of another process, which has no side table.
func (r *sendRing) encodeByName(w *ci.SendWR, b []byte) (op uint32) {
	if w.Op != ci.OpBindMW {
		return opNop
	}
	m := &w.Ext.Bind
	ne.PutUint64(b[sqMWAddr:], m.Addr)
	ne.PutUint64(b[sqMWLength:], m.Length)
	region := ci.Key(0)
	if m.Length > 0 {
		region = r.names.Region(m.MR)
	}
	ne.PutUint32(b[sqMWRegion:], uint32(region))
	ne.PutUint32(b[sqMWKey:], uint32(r.names.Window(m.MW)))
	ne.PutUint32(b[sqMWNewKey:], uint32(m.Key))
	ne.PutUint32(b[sqMWAccess:], packAccess(m.Access))
	return opBindByKey
}

// localRights are rights that programs set for windows as for regions. Linux's Soft-RoCE accepts them
// (RXE_ACCESS_SUPPORTED_MW). They have no meaning there, since a window grants remote rights only.
const localRights = ci.LocalWrite | ci.BindWindow

// decodeBind decodes a bind that names its objects by keys.
func (r *sendRing) decodeBind(w *rvt.Work, i uint32, b []byte) {
	if r.binds == nil {
		r.binds = make([]rvt.WorkExt, r.q.mask+1)
	}
	access, ok := unpackAccess(ne.Uint32(b[sqMWAccess:]))
	if !ok {
		w.Bad = ci.WCLocalOpErr
		return
	}
	w.Ext = &r.binds[i]
	*w.Ext = rvt.WorkExt{ByKey: true, MWKey: ci.Key(ne.Uint32(b[sqMWKey:])), MRKey: ci.Key(ne.Uint32(b[sqMWRegion:])),
		Bind: ci.MWBind{Addr: ne.Uint64(b[sqMWAddr:]), Length: ne.Uint64(b[sqMWLength:]),
			Key: ci.Key(ne.Uint32(b[sqMWNewKey:])), Access: access &^ localRights}}
}

// table returns the side table, and allocates it at its first use.
func (r *sendRing) table() *sideTable {
	if !r.extras {
		n := int(r.q.mask) + 1
		r.side.Store(&sideTable{av: make([]*rvt.AV, n), ext: make([]*rvt.WorkExt, n), has: make([]bool, n)})
		r.extras = true
	}
	return r.side.Load()
}

// ext returns the extension of the producer's slot. It is empty, but keeps the storage of its lists.
func (r *sendRing) ext() *rvt.WorkExt {
	s := r.table()
	x := s.ext[r.post]
	if x == nil {
		x = new(rvt.WorkExt)
		s.ext[r.post] = x
	}
	*x = rvt.WorkExt{FastReg: ci.FastReg{Pages: x.FastReg.Pages[:0]}, LSO: ci.LSO{Header: x.LSO.Header[:0]}}
	s.has[r.post] = true
	return x
}

// Next decodes one request, and reads each field of the slot once. It returns false if there is none.
func (r *sendRing) Next(w *rvt.Work) bool {
	if r.next == r.posted.Load() {
		return false
	}
	r.decode(w)
	return true
}

// decode decodes the request at next.
func (r *sendRing) decode(w *rvt.Work) {
	i := r.next
	r.next = (i + 1) & r.q.mask
	b := r.q.slot(i)
	_ = b[sqSGE-1]
	flags := ne.Uint32(b[sqFlags:])
	w.ID = ne.Uint64(b[sqID:])
	w.Flags = unpackFlags(flags)
	w.SGL, w.Inline, w.IsInl = w.SGL[:0], nil, false
	w.Remote, w.Compare, w.Swap = ci.Remote{}, 0, 0
	w.AV, w.Ext, w.DestQP = nil, nil, 0
	w.QKey, w.PKeyIx = 0, 0
	w.Imm, w.Inv = 0, 0
	w.Bad, w.Length, w.Flush = ci.WCSuccess, 0, ci.Flush{}

	op := ne.Uint32(b[sqOpcode:])
	mayInline := false
	switch op {
	case opSend, opSendImm, opSendInv, opRaw, opLSO:
		w.Op, mayInline = ci.OpSend, true
		switch op {
		case opSendImm:
			w.Imm, w.Flags = binary.BigEndian.Uint32(b[sqEx:]), w.Flags|ci.SendImmediate
		case opSendInv:
			w.Inv, w.Flags = ci.Key(ne.Uint32(b[sqEx:])), w.Flags|ci.SendInvalidate
		case opLSO:
			w.Op = ci.OpLSO
		}
		if w.AV = r.vectorAt(i, b); w.AV != nil {
			w.DestQP = ci.QPN(ne.Uint32(b[sqDestQP:])) & 0xffffff
			w.QKey = ci.QKey(ne.Uint32(b[sqQKey:]))
			w.PKeyIx = ne.Uint16(b[sqPKeyIx:])
		}
	case opWrite, opWriteImm:
		w.Op, mayInline = ci.OpWrite, true
		if op == opWriteImm {
			w.Imm, w.Flags = binary.BigEndian.Uint32(b[sqEx:]), w.Flags|ci.SendImmediate
		}
		w.Remote = ci.Remote{Addr: ne.Uint64(b[sqAddr:]), RKey: ci.Key(ne.Uint32(b[sqRKey:]))}
	case opRead:
		w.Op = ci.OpRead
		w.Remote = ci.Remote{Addr: ne.Uint64(b[sqAddr:]), RKey: ci.Key(ne.Uint32(b[sqRKey:]))}
	case opCompSwap, opFetchAdd:
		w.Op = ci.OpCompareSwap
		if op == opFetchAdd {
			w.Op = ci.OpFetchAdd
		}
		w.Remote = ci.Remote{Addr: ne.Uint64(b[sqAddr:]), RKey: ci.Key(ne.Uint32(b[sqAtomRKey:]))}
		w.Compare, w.Swap = ne.Uint64(b[sqCompare:]), ne.Uint64(b[sqSwap:])
	case opAtomWrite:
		w.Op, mayInline = ci.OpAtomicWrite, true
		w.Remote = ci.Remote{Addr: ne.Uint64(b[sqAddr:]), RKey: ci.Key(ne.Uint32(b[sqRKey:]))}
	case opFlush:
		w.Op = ci.OpFlush
		w.Remote = ci.Remote{Addr: ne.Uint64(b[sqAddr:]), RKey: ci.Key(ne.Uint32(b[sqFlushKey:]))}
		w.Flush = unpackFlush(b[sqFlushTyp], b[sqFlushSel], ne.Uint32(b[sqDMA+dmaLength:]))
		return // it has no data
	case opLocalInv:
		w.Op, w.Inv = ci.OpLocalInv, ci.Key(ne.Uint32(b[sqEx:]))
	case opNop:
		w.Op = ci.OpNop
	case opFastReg:
		w.Op = ci.OpFastReg
	case opBindMW:
		w.Op = ci.OpBindMW
	case opBindByKey:
		w.Op = ci.OpBindMW
		if r.vector == nil { // a queue of this process
			w.Bad = ci.WCLocalOpErr
			return
		}
		r.decodeBind(w, i, b)
	default:
		w.Op, w.Bad = ci.OpNop, ci.WCLocalOpErr
		return
	}
	if op >= opFastReg && op != opNop {
		s := r.side.Load()
		if s == nil || !s.has[i] {
			w.Bad = ci.WCLocalOpErr
			return
		}
		w.Ext = s.ext[i]
	}
	r.gather(w, b, flags&flagInline != 0, mayInline)
}

// vectorAt returns the address vector of the request in slot i, or nil. b has the bytes of the slot.
func (r *sendRing) vectorAt(i uint32, b []byte) *rvt.AV {
	if r.vector != nil {
		return r.vector(ne.Uint32(b[sqAH:]))
	}
	if s := r.side.Load(); s != nil {
		return s.av[i]
	}
	return nil
}

// gather decodes the scatter/gather list or the inline data.
//
// ibv_wr_set_inline_data of librxe does not mark a request that it fills as inline, which its man page does not ask of
// programs either. Such a request has bytes, and no entry.
func (r *sendRing) gather(w *rvt.Work, b []byte, inline, mayInline bool) {
	n, total := ne.Uint32(b[sqDMA+dmaNumSGE:]), ne.Uint32(b[sqDMA+dmaLength:])
	if inline || n == 0 && total != 0 && mayInline {
		n = total
		if n > r.inlineOf(w.Op) || !mayInline {
			w.Bad = ci.WCLocalOpErr
			return
		}
		w.IsInl, w.Inline = true, b[sqSGE:sqSGE+n:sqSGE+n]
		return
	}
	if n > r.sge {
		w.Bad = ci.WCLocalOpErr
		return
	}
	sum := uint64(0)
	if w.SGL, sum = sgesAppend(w.SGL, b[sqSGE:], n); sum > maxMessage {
		w.Bad = ci.WCLocalLenErr
		w.SGL = w.SGL[:0]
	}
}

// inlineOf returns the most bytes that a request can have inline. Every slot has room for those of an ATOMIC WRITE.
func (r *sendRing) inlineOf(op ci.SendOp) uint32 {
	if op == ci.OpAtomicWrite {
		return max(r.inline, ci.AtomicWriteSize)
	}
	return r.inline
}

// Retire frees the slots of the n oldest requests that are decoded, or of all of them if there are fewer.
func (r *sendRing) Retire(n int) {
	if most := int((r.next - r.tail) & r.q.mask); n > most {
		n = most
	}
	if n <= 0 {
		return
	}
	if s := r.side.Load(); s != nil {
		for k := range uint32(n) {
			i := (r.tail + k) & r.q.mask
			s.av[i] = nil
			if s.has[i] {
				s.has[i] = false
				s.ext[i].MR, s.ext[i].MW = nil, nil
			}
		}
	}
	r.tail = (r.tail + uint32(n)) & r.q.mask
	atomic.StoreUint32(r.q.cons, r.tail)
	r.retired.Store(r.tail)
}

// immWord returns the word in the machine's byte order whose bytes are v in network byte order.
func immWord(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return ne.Uint32(b[:])
}
