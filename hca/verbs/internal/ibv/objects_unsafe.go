//go:build linux && (amd64 || arm64)

package ibv

import (
	"runtime"
	"syscall"
	"unsafe"
)

// Objects of the library. The zero value is no object.
type (
	PD      struct{ ptr uintptr }
	MR      struct{ ptr uintptr }
	MW      struct{ ptr uintptr }
	AH      struct{ ptr uintptr }
	CQ      struct{ ptr uintptr }
	SRQ     struct{ ptr uintptr }
	QP      struct{ ptr uintptr }
	Channel struct{ ptr uintptr }
)

// Ptr returns the address of the CQ, by which events name it.
func (q CQ) Ptr() uintptr { return q.ptr }

// Ptr returns the address of the SRQ, by which events name it.
func (s SRQ) Ptr() uintptr { return s.ptr }

// Ptr returns the address of the QP, by which events name it.
func (q QP) Ptr() uintptr { return q.ptr }

// AllocPD allocates a PD.
func (c *Context) AllocPD() (PD, error) {
	p, err := c.lib.call(allocPD, c.ptr)
	return PD{p}, err
}

// DeallocPD deallocates a PD.
func (c *Context) DeallocPD(p PD) error { return c.lib.do(deallocPD, p.ptr) }

// RegMR registers memory. The caller keeps b in place until DeregMR has returned. iova is the address of b[0] in
// requests; an older library only has that of b[0] itself, and then returns syscall.EOPNOTSUPP for another.
func (c *Context) RegMR(p PD, b []byte, iova uint64, access uint32) (MR, error) {
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if iova == uint64(addr) {
		m, err := c.lib.call(regMR, p.ptr, addr, uintptr(len(b)), uintptr(access))
		runtime.KeepAlive(b)
		return MR{m}, err
	}
	if c.lib.fn[regMRIOVA] == 0 {
		return MR{}, syscall.EOPNOTSUPP
	}
	m, err := c.lib.call(regMRIOVA, p.ptr, addr, uintptr(len(b)), uintptr(iova), uintptr(access))
	runtime.KeepAlive(b)
	return MR{m}, err
}

// DeregMR deregisters a region.
func (c *Context) DeregMR(m MR) error { return c.lib.do(deregMR, m.ptr) }

// Keys returns the keys of a region.
func (m MR) Keys() (lkey, rkey uint32) {
	h := at[mrHead](m.ptr)
	return h.LKey, h.RKey
}

// AllocMW allocates a window of type 1 or 2.
func (c *Context) AllocMW(p PD, kind int) (MW, error) {
	m, err := c.lib.callAt(c.head.ops.allocMW, p.ptr, uintptr(kind))
	return MW{m}, err
}

// DeallocMW deallocates a window.
func (c *Context) DeallocMW(m MW) error { return c.lib.doAt(c.head.ops.deallocMW, m.ptr) }

// Key returns the key of a window.
func (m MW) Key() uint32 { return at[mwHead](m.ptr).rkey }

// SetKey records the key of a window of type 2, as a consumer does who binds by a work request.
func (m MW) SetKey(key uint32) { at[mwHead](m.ptr).rkey = key }

// BindMW posts the bind of a window of type 1.
func (c *Context) BindMW(q QP, m MW, id uint64, flags uint32, r MR, addr, length uint64, access uint32) error {
	b := heap[mwBind]()
	*b = mwBind{id: id, flags: flags, mr: r.ptr, addr: addr, length: length, access: access}
	err := c.lib.doAt(c.head.ops.bindMW, q.ptr, m.ptr, address(b))
	runtime.KeepAlive(b)
	return err
}

// CreateAH creates an address handle.
func (c *Context) CreateAH(p PD, a AHAttr) (AH, error) {
	v := heap[AHAttr]()
	*v = a
	h, err := c.lib.call(createAH, p.ptr, address(v))
	runtime.KeepAlive(v)
	return AH{h}, err
}

// DestroyAH destroys an address handle.
func (c *Context) DestroyAH(a AH) error { return c.lib.do(destroyAH, a.ptr) }

// CreateChannel creates a completion channel.
func (c *Context) CreateChannel() (Channel, error) {
	p, err := c.lib.call(createChannel, c.ptr)
	return Channel{p}, err
}

// DestroyChannel destroys a completion channel.
func (c *Context) DestroyChannel(h Channel) error { return c.lib.do(destroyChannel, h.ptr) }

// FD returns the descriptor from which CQEvent reads.
func (h Channel) FD() int { return int(at[channelHead](h.ptr).fd) }

// CQEvent reads the event of a CQ, which AckCQEvent acknowledges.
func (c *Context) CQEvent(h Channel) (CQ, error) {
	out := heapSlice[uintptr](2)
	err := c.lib.do(getCQEvent, h.ptr, address(&out[0]), address(&out[1]))
	return CQ{out[0]}, err
}

// AckCQEvent acknowledges an event of a CQ, for which DestroyCQ waits.
func (c *Context) AckCQEvent(q CQ) { _, _ = c.lib.call(ackCQEvents, q.ptr, 1) }

// CreateCQ creates a CQ whose events go to a channel, or nowhere.
func (c *Context) CreateCQ(entries int, h Channel, vector int) (CQ, error) {
	p, err := c.lib.call(createCQ, c.ptr, uintptr(entries), 0, h.ptr, uintptr(vector))
	return CQ{p}, err
}

// ResizeCQ changes the size of a CQ.
func (c *Context) ResizeCQ(q CQ, entries int) error {
	return c.lib.do(resizeCQ, q.ptr, uintptr(entries))
}

// DestroyCQ destroys a CQ.
func (c *Context) DestroyCQ(q CQ) error { return c.lib.do(destroyCQ, q.ptr) }

// Size returns the number of entries that were granted.
func (q CQ) Size() int { return int(at[cqHead](q.ptr).cqe) }

// NotifyCQ arms a CQ for one event.
func (c *Context) NotifyCQ(q CQ, solicited bool) error {
	var only uintptr
	if solicited {
		only = 1
	}
	return c.lib.doAt(c.head.ops.notifyCQ, q.ptr, only)
}

// CreateSRQ creates an SRQ, and returns the sizes that were granted.
func (c *Context) CreateSRQ(p PD, a SRQAttr) (SRQ, SRQAttr, error) {
	v := heap[srqInitAttr]()
	v.attr = a
	s, err := c.lib.call(createSRQ, p.ptr, address(v))
	return SRQ{s}, v.attr, err
}

// ModifySRQ changes the attributes in mask.
func (c *Context) ModifySRQ(s SRQ, a SRQAttr, mask int) error {
	v := heap[SRQAttr]()
	*v = a
	err := c.lib.do(modifySRQ, s.ptr, address(v), uintptr(mask))
	runtime.KeepAlive(v)
	return err
}

// QuerySRQ returns the attributes of an SRQ.
func (c *Context) QuerySRQ(s SRQ) (SRQAttr, error) {
	v := heap[SRQAttr]()
	err := c.lib.do(querySRQ, s.ptr, address(v))
	return *v, err
}

// DestroySRQ destroys an SRQ.
func (c *Context) DestroySRQ(s SRQ) error { return c.lib.do(destroySRQ, s.ptr) }

// CreateQP creates a QP, and returns the sizes that were granted.
func (c *Context) CreateQP(p PD, a QPInitAttr, send, recv CQ, srq SRQ) (QP, QPCap, error) {
	v := heap[QPInitAttr]()
	*v = a
	v.sendCQ, v.recvCQ, v.srq = send.ptr, recv.ptr, srq.ptr
	q, err := c.lib.call(createQP, p.ptr, address(v))
	return QP{q}, v.Cap, err
}

// ModifyQP changes the attributes in mask.
func (c *Context) ModifyQP(q QP, a QPAttr, mask int) error {
	v := heap[QPAttr]()
	*v = a
	err := c.lib.do(modifyQP, q.ptr, address(v), uintptr(mask))
	runtime.KeepAlive(v)
	return err
}

// QueryQP returns the attributes of a QP.
func (c *Context) QueryQP(q QP) (QPAttr, error) {
	v, init := heap[QPAttr](), heap[QPInitAttr]()
	err := c.lib.do(queryQP, q.ptr, address(v), queryAll, address(init))
	runtime.KeepAlive(init)
	return *v, err
}

// queryAll is the mask of all attributes.
const queryAll = QPDestQPN<<1 - 1

// DestroyQP destroys a QP.
func (c *Context) DestroyQP(q QP) error { return c.lib.do(destroyQP, q.ptr) }

// Num returns the QP number.
func (q QP) Num() uint32 { return at[qpHead](q.ptr).num }

// AttachMcast attaches a QP to a multicast group.
func (c *Context) AttachMcast(q QP, gid [16]byte, lid uint16) error {
	return c.group(attachMcast, q, gid, lid)
}

// DetachMcast detaches a QP from a multicast group.
func (c *Context) DetachMcast(q QP, gid [16]byte, lid uint16) error {
	return c.group(detachMcast, q, gid, lid)
}

func (c *Context) group(s symbol, q QP, gid [16]byte, lid uint16) error {
	g := heap[[2]uint64]() // aligned as the C union is
	*(*[16]byte)(unsafe.Pointer(g)) = gid
	err := c.lib.do(s, q.ptr, address(g), uintptr(lid))
	runtime.KeepAlive(g)
	return err
}
