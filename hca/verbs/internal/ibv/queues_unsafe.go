//go:build linux && (amd64 || arm64)

package ibv

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A List is a list of work requests that is built, posted by one call, and built again. Its memory is allocated once,
// so a post allocates nothing. It is not safe for concurrent use.
type List[WR SendWR | RecvWR] struct {
	wrs    []WR
	sges   []SGE
	inline []byte
	fn     uintptr
	queue  uintptr
	bad    uintptr
	args   [3]uintptr
	n      int // requests in the list
	used   int // SGEs in the list
	copied int // inline bytes in the list

	extended  *qpExHead // of a list for a QP of CreateExtendedQP; otherwise nil
	ops       uint64    // of that QP
	datagrams bool      // the QP sends datagrams
	pieces    [4]uint64 // ibv_data_buf of the inline data
}

// SendList returns a list for the send queue of a QP, with room for batch requests of sges SGEs and inline bytes each.
func (c *Context) SendList(q QP, batch, sges, inline int) *List[SendWR] {
	return newList[SendWR](c.head.ops.postSend, q.ptr, batch, sges, inline)
}

// RecvList returns a list for the receive queue of a QP.
func (c *Context) RecvList(q QP, batch, sges int) *List[RecvWR] {
	return newList[RecvWR](c.head.ops.postRecv, q.ptr, batch, sges, 0)
}

// SRQList returns a list for an SRQ.
func (c *Context) SRQList(s SRQ, batch, sges int) *List[RecvWR] {
	return newList[RecvWR](c.head.ops.postSRQ, s.ptr, batch, sges, 0)
}

func newList[WR SendWR | RecvWR](fn, queue uintptr, batch, sges, inline int) *List[WR] {
	sges = max(sges, 1)
	return &List[WR]{fn: fn, queue: queue, wrs: heapSlice[WR](batch), sges: heapSlice[SGE](batch * sges),
		inline: heapSlice[byte](batch * inline)}
}

// Full reports whether the list has no room for another request.
func (l *List[WR]) Full() bool { return l.n == len(l.wrs) }

// Add adds a request, and returns it for its fields to be set, and its SGEs, which hold n.
func (l *List[WR]) Add(n int) (*WR, []SGE) {
	wr, sges := &l.wrs[l.n], l.sges[l.used:l.used+n]
	var zero WR
	*wr = zero
	var list uintptr
	if n > 0 {
		list = uintptr(unsafe.Pointer(&sges[0]))
	}
	switch w := any(wr).(type) {
	case *SendWR:
		w.sgList, w.numSGE = list, int32(n)
	case *RecvWR:
		w.sgList, w.numSGE = list, int32(n)
	}
	l.n++
	l.used += n
	return wr, sges
}

// Inline returns an SGE with a copy of b, for a request with SendInline.
func (l *List[WR]) Inline(b []byte) SGE {
	if len(b) == 0 {
		return SGE{}
	}
	at := l.inline[l.copied : l.copied+len(b)]
	copy(at, b)
	l.copied += len(b)
	return SGE{Addr: uint64(uintptr(unsafe.Pointer(&at[0]))), Length: uint32(len(b))}
}

// Post posts the list and empties it. n is the number of requests that were accepted; err is the reason why request n
// was not. err is a syscall.Errno.
func (l *List[WR]) Post() (n int, err error) {
	total := l.n
	l.n, l.used, l.copied = 0, 0, 0
	if total == 0 {
		return 0, nil
	}
	if l.extended != nil {
		return l.postExtended(total)
	}
	size := unsafe.Sizeof(l.wrs[0])
	first := uintptr(unsafe.Pointer(&l.wrs[0]))
	for i := range l.wrs[:total] {
		var next uintptr
		if i+1 < total {
			next = first + uintptr(i+1)*size
		}
		switch w := any(&l.wrs[i]).(type) {
		case *SendWR:
			w.next = next
		case *RecvWR:
			w.next = next
		}
	}
	l.bad = 0
	l.args = [3]uintptr{l.queue, first, uintptr(unsafe.Pointer(&l.bad))}
	r, _, _ := purego.SyscallN(l.fn, l.args[:]...)
	code := int32(r)
	if code == 0 {
		return total, nil
	}
	// A provider that reports no request has accepted none.
	if i := (l.bad - first) / size; l.bad >= first && i < uintptr(total) {
		n = int(i)
	}
	if code < 0 {
		code = -code
	}
	return n, syscall.Errno(code)
}

// To sets the destination of a datagram.
func (w *SendWR) To(a AH, qpn, qkey uint32) {
	w.wr[0] = uint64(a.ptr)
	w.wr[1] = uint64(qpn) | uint64(qkey)<<32
}

// Remote sets the place of a READ or WRITE in the peer's memory.
func (w *SendWR) Remote(addr uint64, rkey uint32) { w.wr[0], w.wr[1] = addr, uint64(rkey) }

// Atomic sets the place and the operands of an atomic.
func (w *SendWR) Atomic(addr, compareAdd, swap uint64, rkey uint32) {
	w.wr = [4]uint64{addr, compareAdd, swap, uint64(rkey)}
}

// SetImm sets the immediate data: 01020304 is sent as bytes 01 02 03 04.
func (w *SendWR) SetImm(v uint32) { w.Imm = be32{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)} }

// SetInvalidate sets the key that is invalidated, here or at the peer.
func (w *SendWR) SetInvalidate(key uint32) { *(*uint32)(unsafe.Pointer(&w.Imm)) = key }

// Bind sets the window, its range and its new key, for WRBindMW.
func (w *SendWR) Bind(m MW, r MR, key uint32, addr, length uint64, access uint32) {
	w.bind = bindInfo{mw: m.ptr, rkey: key, mr: r.ptr, addr: addr, length: length, access: access}
}

// A Poller polls a CQ. It is not safe for concurrent use.
type Poller struct {
	fn       uintptr
	args     [3]uintptr
	wcs      []WC
	extended *cqExHead // of an extended poller
	attr     *pollCQAttr
}

// Poller returns a poller of up to batch completions a call.
func (c *Context) Poller(q CQ, batch int) *Poller {
	p := &Poller{fn: c.head.ops.pollCQ, wcs: heapSlice[WC](batch)}
	p.args = [3]uintptr{q.ptr, 0, uintptr(unsafe.Pointer(&p.wcs[0]))}
	return p
}

// Poll returns up to n completions, which are valid until the next call.
func (p *Poller) Poll(n int) ([]WC, error) {
	n = min(n, len(p.wcs))
	if p.extended != nil {
		return p.pollExtended(n)
	}
	p.args[1] = uintptr(n)
	r, _, _ := purego.SyscallN(p.fn, p.args[:]...)
	runtime.KeepAlive(p)
	got := int32(r)
	switch {
	case got < 0:
		return nil, syscall.EIO
	case int(got) > n:
		return nil, syscall.EOVERFLOW
	}
	return p.wcs[:got], nil
}

// Immediate returns the immediate data of a completion with WCWithImm.
func (w *WC) Immediate() uint32 {
	return uint32(w.Imm[0])<<24 | uint32(w.Imm[1])<<16 | uint32(w.Imm[2])<<8 | uint32(w.Imm[3])
}

// Invalidated returns the key of a completion with WCWithInv.
func (w *WC) Invalidated() uint32 { return *(*uint32)(unsafe.Pointer(&w.Imm)) }
