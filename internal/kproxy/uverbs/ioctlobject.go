package uverbs

import (
	"math"
	"syscall"

	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/schema"
)

func (f *File) ioctlCreateCQ(c *ioctlCall) error {
	flags, err := c.flags(attrCQFlags, math.MaxUint32)
	if err != nil {
		return err
	}
	q := &exCreateCQ{UserHandle: c.u64(attrCQUserHandle), CQE: c.u32(attrCQSize), CompVector: c.u32(attrCQVector),
		CompChannel: noCompChannel, Flags: flags}
	if a := c.attrs[attrCQChannel]; a != nil {
		q.CompChannel = int32(a.data)
	}
	if flags&^(cqTimestamp|cqIgnoreOverrun) != 0 {
		return syscall.EINVAL
	}
	var r exCreateCQResp
	if err := f.exCreateCQ(&c.call, q, &r); err != nil || c.reply.NeedFile {
		return err
	}
	c.created(attrHandle, r.Base.CQHandle)
	return c.output(attrCQRespSize, ne.AppendUint32(nil, r.Base.CQE))
}

// Flags of a new CQ. The adapter has neither.
const (
	cqTimestamp     = 1
	cqIgnoreOverrun = 2
)

// Flags of a new QP (enum ib_uverbs_qp_create_flags).
const (
	qpBlockLoopback = 1 << 1
	qpScatterFCS    = 1 << 8
	qpStripVLAN     = 1 << 9
	qpEndPadding    = 1 << 11
	qpSignalAll     = 1 << 12
)

func (f *File) ioctlCreateQP(c *ioctlCall) error {
	typ, err := c.constant(attrQPType, math.MaxUint8)
	if err != nil {
		return err
	}
	if _, err = f.typeOf(uint8(typ)); err != nil {
		return err
	}
	b := c.attrs[attrQPCap].in
	q := &createQPArgs{UserHandle: c.u64(attrQPUserHandle), MaxSendWR: ne.Uint32(b), MaxRecvWR: ne.Uint32(b[4:]),
		MaxSendSGE: ne.Uint32(b[8:]), MaxRecvSGE: ne.Uint32(b[12:]), MaxInlineData: ne.Uint32(b[16:]),
		QPType: uint8(typ)}
	for _, x := range []struct {
		to *uint32
		id uint16
	}{{&q.PDHandle, attrQPPD}, {&q.SendCQHandle, attrQPSendCQ}, {&q.RecvCQHandle, attrQPRecvCQ}} {
		if *x.to, err = c.handle(x.id); err != nil {
			return err
		}
	}
	if err := q.setFlags(c); err != nil {
		return err
	}
	if c.has(attrQPSRQ) {
		q.IsSRQ = 1
		q.SRQHandle, _ = c.handle(attrQPSRQ) // it has one
	}
	var r createQPResp
	if err := f.newQP(&c.call, q, &r); err != nil {
		return err
	}
	c.created(attrHandle, r.QPHandle)
	b = nil
	for _, n := range []uint32{r.MaxSendWR, r.MaxRecvWR, r.MaxSendSGE, r.MaxRecvSGE, r.MaxInlineData} {
		b = ne.AppendUint32(b, n)
	}
	if err := c.outputStruct(attrQPRespCap, b); err != nil {
		return err
	}
	return c.output(attrQPRespNumber, ne.AppendUint32(nil, r.QPN))
}

// setFlags sets the flags of a new QP. The adapter has none of those that Linux defines for UD and raw QPs.
func (q *createQPArgs) setFlags(c *ioctlCall) error {
	flags, err := c.flags(attrQPFlags, qpBlockLoopback|qpScatterFCS|qpStripVLAN|qpEndPadding|qpSignalAll)
	if err != nil {
		return err
	}
	if flags&qpSignalAll != 0 {
		q.SQSigAll = 1
	}
	switch {
	case flags&^qpSignalAll != 0 && q.QPType != createQPUD, flags&(qpScatterFCS|qpStripVLAN) != 0:
		return syscall.EINVAL
	case flags&^qpSignalAll != 0, c.has(attrQPSource):
		return syscall.EOPNOTSUPP
	}
	return nil
}

func (f *File) ioctlCreateSRQ(c *ioctlCall) error {
	typ, err := c.constant(attrSRQType, math.MaxUint32)
	if err != nil {
		return err
	}
	pd, err := c.handle(attrSRQPD)
	if err != nil {
		return err
	}
	var r createSRQResp
	err = f.createXSRQ(&c.call, &createXSRQ{UserHandle: c.u64(attrSRQUserHandle), SRQType: uint32(typ), PDHandle: pd,
		MaxWR: c.u32(attrSRQMaxWR), MaxSGE: c.u32(attrSRQMaxSGE), SRQLimit: c.u32(attrSRQLimit)}, &r)
	if err != nil {
		return err
	}
	c.created(attrHandle, r.SRQHandle)
	if err := c.output(attrSRQRespMaxWR, ne.AppendUint32(nil, r.MaxWR)); err != nil {
		return err
	}
	return c.output(attrSRQRespMaxSGE, ne.AppendUint32(nil, r.MaxSGE))
}

// ioctlDestroy destroys an object, and stores how many of its events the program has read.
func (f *File) ioctlDestroy(c *ioctlCall, k kind) error {
	h, err := c.handle(attrHandle)
	if err != nil {
		return err
	}
	d, err := f.remove(k, h)
	if err != nil {
		return err
	}
	var b []byte
	switch k {
	case kindCQ:
		b = ne.AppendUint32(ne.AppendUint32(nil, uint32(d.Completions)), uint32(d.Async))
	case kindQP:
		c.reply.Bell = &devices.Bell{Handle: h}
		b = ne.AppendUint32(nil, uint32(d.Async))
	case kindSRQ:
		b = ne.AppendUint32(nil, uint32(d.Async))
	default:
		return nil
	}
	return c.output(attrDestroyResp, b)
}

// adviseMR reports that the adapter takes no advice: it has no paging on demand.
func (f *File) adviseMR(*ioctlCall) error { return syscall.EOPNOTSUPP }

func (f *File) ioctlQueryMR(c *ioctlCall) error {
	a, err := do[schema.QueryMRReply](f, schema.CmdQueryMR, &schema.MR{MR: c.attrs[attrHandle].obj.handle})
	if err != nil {
		return err
	}
	for id, b := range map[uint16][]byte{attrQueryMRLKey: ne.AppendUint32(nil, uint32(a.Region.LKey)),
		attrQueryMRRKey:   ne.AppendUint32(nil, uint32(a.Region.RKey)),
		attrQueryMRLength: ne.AppendUint64(nil, a.Region.Length),
		attrQueryMRIOVA:   ne.AppendUint64(nil, a.Region.Addr)} {
		if x := c.attrs[id]; x != nil {
			c.store(x, b)
		}
	}
	return nil
}
