//go:build linux && (amd64 || arm64)

package ibv

import (
	"math/bits"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The extended calls of libibverbs: CQs that are read field by field (ibv_start_poll), and QPs whose requests are built
// by calls (ibv_wr_start). Providers have code of their own for them.

// extension returns the functions in front of the context, or nil if the library has none for this device.
func (c *Context) extension() *contextExt {
	if c.head.abiCompat != ^uintptr(0) {
		return nil
	}
	e := at[contextExt](c.ptr - unsafe.Sizeof(contextExt{}))
	// size counts the functions of the library from the context backwards, with the context.
	if e.size < unsafe.Sizeof(contextExt{}) {
		return nil
	}
	return e
}

// CreateExtendedCQ is CreateCQ for a queue that an extended poller polls.
func (c *Context) CreateExtendedCQ(entries int, h Channel, vector int) (CQ, error) {
	e := c.extension()
	if e == nil {
		return CQ{}, syscall.EOPNOTSUPP
	}
	v := heap[cqInitAttrEx]()
	*v = cqInitAttrEx{entries: uint32(entries), channel: h.ptr, vector: uint32(vector), wcFlags: wcStandardFlags}
	p, err := c.lib.callAt(e.createCQEx, c.ptr, address(v))
	runtime.KeepAlive(v)
	return CQ{p}, err
}

// CreateExtendedQP is CreateQP for a queue that an extended list posts to. ops are the bits 1<<WRSend, … of what will
// be posted.
func (c *Context) CreateExtendedQP(p PD, a QPInitAttr, send, recv CQ, srq SRQ, ops uint64) (QP, QPCap, error) {
	e := c.extension()
	if e == nil || c.lib.fn[qpToQPEx] == 0 {
		return QP{}, QPCap{}, syscall.EOPNOTSUPP
	}
	v := heap[qpInitAttrEx]()
	*v = qpInitAttrEx{sendCQ: send.ptr, recvCQ: recv.ptr, srq: srq.ptr, cap: a.Cap, typ: a.Type, signalAll: a.SignalAll,
		compMask: qpInitPD | qpInitSendOps, pd: p.ptr}
	for ; ops != 0; ops &= ops - 1 {
		v.sendOps |= 1 << sendOps[bits.TrailingZeros64(ops)]
	}
	q, err := c.lib.callAt(e.createQPEx, c.ptr, address(v))
	return QP{q}, v.cap, err
}

// sendOps has the bit of ibv_qp_create_send_ops_flags of each opcode.
var sendOps = [...]int{WRWrite: 0, WRWriteImm: 1, WRSend: 2, WRSendImm: 3, WRRead: 4, WRCompareSwap: 5, WRFetchAdd: 6,
	WRLocalInv: 7, WRBindMW: 8, WRSendInv: 9}

// ExtendedSendList is SendList for a QP of CreateExtendedQP, with its ops.
func (c *Context) ExtendedSendList(q QP, ops uint64, batch, sges, inline int) (*List[SendWR], error) {
	p, err := c.lib.call(qpToQPEx, q.ptr)
	if err != nil {
		return nil, err
	}
	l := c.SendList(q, batch, sges, inline)
	l.extended, l.ops = at[qpExHead](p), ops
	l.datagrams = l.extended.typ == QPTypeUD
	return l, nil
}

// postExtended posts the first total requests, one at a time, since a provider accepts all of a batch or nothing.
func (l *List[WR]) postExtended(total int) (int, error) {
	// A provider may hold a lock between the calls.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range l.wrs[:total] {
		if wr, ok := any(&l.wrs[i]).(*SendWR); ok {
			if err := l.build(wr); err != nil {
				return i, err
			}
		}
	}
	return total, nil
}

// build builds and posts one request.
func (l *List[WR]) build(w *SendWR) error {
	x := l.extended
	if l.ops>>w.Opcode&1 == 0 {
		return syscall.EOPNOTSUPP // there is no function to call
	}
	q := uintptr(unsafe.Pointer(x))
	_, _, _ = purego.SyscallN(x.start, q)
	x.wrID, x.wrFlags = w.ID, w.Flags&^SendInline
	imm := uintptr(*(*uint32)(unsafe.Pointer(&w.Imm)))
	switch w.Opcode {
	case WRSend:
		_, _, _ = purego.SyscallN(x.send, q)
	case WRSendImm:
		_, _, _ = purego.SyscallN(x.sendImm, q, imm)
	case WRSendInv:
		_, _, _ = purego.SyscallN(x.sendInv, q, imm)
	case WRWrite:
		_, _, _ = purego.SyscallN(x.write, q, uintptr(w.wr[1]), uintptr(w.wr[0]))
	case WRWriteImm:
		_, _, _ = purego.SyscallN(x.writeImm, q, uintptr(w.wr[1]), uintptr(w.wr[0]), imm)
	case WRRead:
		_, _, _ = purego.SyscallN(x.read, q, uintptr(w.wr[1]), uintptr(w.wr[0]))
	case WRCompareSwap:
		_, _, _ = purego.SyscallN(x.compareSwap, q, uintptr(w.wr[3]), uintptr(w.wr[0]), uintptr(w.wr[1]),
			uintptr(w.wr[2]))
	case WRFetchAdd:
		_, _, _ = purego.SyscallN(x.fetchAdd, q, uintptr(w.wr[3]), uintptr(w.wr[0]), uintptr(w.wr[1]))
	case WRLocalInv:
		_, _, _ = purego.SyscallN(x.localInv, q, imm)
	case WRBindMW:
		_, _, _ = purego.SyscallN(x.bindMW, q, w.bind.mw, uintptr(w.bind.rkey), uintptr(unsafe.Pointer(&w.bind.mr)))
	}
	if l.datagrams && (w.Opcode == WRSend || w.Opcode == WRSendImm) {
		_, _, _ = purego.SyscallN(x.setAddr, q, uintptr(w.wr[0]), uintptr(uint32(w.wr[1])), uintptr(w.wr[1]>>32))
	}
	l.setData(w, q)
	r, _, _ := purego.SyscallN(x.complete, q)
	code := int32(r)
	if code < 0 {
		code = -code
	}
	if code != 0 {
		return syscall.Errno(code)
	}
	return nil
}

// setData sets the data of a request. Inline data goes as a list of two pieces, which is the harder case.
func (l *List[WR]) setData(w *SendWR, q uintptr) {
	x, n := l.extended, int(w.numSGE)
	switch {
	case w.Opcode == WRLocalInv || w.Opcode == WRBindMW:
	case w.Flags&SendInline != 0:
		s := at[SGE](w.sgList)
		first := uint64(s.Length / 2)
		l.pieces = [4]uint64{s.Addr, first, s.Addr + first, uint64(s.Length) - first}
		_, _, _ = purego.SyscallN(x.setInlineList, q, 2, uintptr(unsafe.Pointer(&l.pieces[0])))
	case n == 1:
		s := at[SGE](w.sgList)
		_, _, _ = purego.SyscallN(x.setSGE, q, uintptr(s.LKey), uintptr(s.Addr), uintptr(s.Length))
	default:
		_, _, _ = purego.SyscallN(x.setSGEList, q, uintptr(n), w.sgList)
	}
}

// ExtendedPoller is Poller for a queue of CreateExtendedCQ.
func (c *Context) ExtendedPoller(q CQ, batch int) *Poller {
	return &Poller{extended: at[cqExHead](q.ptr), wcs: heapSlice[WC](batch), attr: heap[pollCQAttr]()}
}

// pollExtended returns up to n completions.
func (p *Poller) pollExtended(n int) ([]WC, error) {
	if n == 0 {
		return nil, nil
	}
	x := p.extended
	q := uintptr(unsafe.Pointer(x))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, _, _ := purego.SyscallN(x.startPoll, q, address(p.attr))
	switch code := int32(r); {
	case code == int32(syscall.ENOENT):
		return nil, nil
	case code != 0:
		return nil, syscall.Errno(max(code, -code))
	}
	got := 0
	for more := true; more; {
		p.read(&p.wcs[got], q)
		if got++; got == n {
			break
		}
		r, _, _ := purego.SyscallN(x.nextPoll, q)
		more = int32(r) == 0 // the next call reports an error
	}
	_, _, _ = purego.SyscallN(x.endPoll, q)
	return p.wcs[:got], nil
}

// read reads the completion that the queue is at. Of one with an error, only some fields are valid.
func (p *Poller) read(w *WC, q uintptr) {
	x := p.extended
	get := func(fn uintptr) uint32 {
		r, _, _ := purego.SyscallN(fn, q)
		return uint32(r)
	}
	*w = WC{ID: x.wrID, Status: x.status, QPNum: get(x.qpNum), VendorErr: get(x.vendorErr)}
	if w.Status != 0 {
		return
	}
	w.Opcode, w.ByteLen, w.Flags = int32(get(x.opcode)), get(x.byteLen), get(x.flags)
	w.SrcQP, w.SLID = get(x.srcQP), uint16(get(x.slid))
	w.SL, w.DLIDPathBits = uint8(get(x.sl)), uint8(get(x.pathBits))
	if w.Flags&(WCWithImm|WCWithInv) != 0 {
		*(*uint32)(unsafe.Pointer(&w.Imm)) = get(x.imm)
	}
}
