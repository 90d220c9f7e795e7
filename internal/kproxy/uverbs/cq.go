package uverbs

import (
	"syscall"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

func (f *File) createCQ(c *call, q *createCQ, r *createCQResp) error {
	return f.newCQ(c, &exCreateCQ{UserHandle: q.UserHandle, CQE: q.CQE, CompVector: q.CompVector,
		CompChannel: q.CompChannel}, r)
}

func (f *File) exCreateCQ(c *call, q *exCreateCQ, r *exCreateCQResp) error {
	r.ResponseLength = uint32(min(size[exCreateCQResp](), c.room))
	switch {
	case q.CompMask != 0 || q.Reserved != 0:
		return syscall.EINVAL
	case q.Flags != 0: // time stamps, ignored overruns
		return syscall.EOPNOTSUPP
	}
	return f.newCQ(c, q, &r.Base)
}

func (f *File) newCQ(c *call, q *exCreateCQ, r *createCQResp) error {
	a, err := f.attr()
	if err != nil {
		return err
	}
	if q.CompVector >= uint32(max(1, a.NumVectors)) {
		return syscall.EINVAL
	}
	if q.CompChannel >= 0 {
		f.channelMu.Lock()
		defer f.channelMu.Unlock()
	}
	events, wait, err := f.channelOf(c, q.CompChannel)
	if err == nil && !wait && events != 0 {
		err = f.session.HoldEventQueue(events, c.request.File)
	}
	if err != nil || wait {
		return err
	}
	if err := f.checkCQE(q.CQE); err != nil {
		return err
	}
	pd, err := f.hiddenPD()
	if err != nil {
		return err
	}
	made, err := do[schema.CreateCQReply](f, schema.CmdCreateCQ, &schema.CreateCQ{PD: pd, Token: q.UserHandle,
		Completions: events, Async: f.async, Size: limit(q.CQE), User: f.private(c)})
	if err != nil {
		return err
	}
	c.answer(&made.User)
	r.CQE = number(made.Size)
	r.CQHandle = f.add(&object{kind: kindCQ, handle: made.Handle})
	return nil
}

// checkCQE returns EINVAL for a size that no CQ of the device has, as the drivers of Linux do.
func (f *File) checkCQE(n uint32) error {
	if n == 0 || uint64(n) > uint64(f.dev.attr.MaxCQEs) {
		return syscall.EINVAL
	}
	return nil
}

// hiddenPD returns the PD in which CQs are created, since CQs of the ABI have none.
func (f *File) hiddenPD() (schema.Handle, error) {
	f.pdMu.Lock()
	defer f.pdMu.Unlock()
	if f.pd == 0 {
		created, err := do[schema.Created](f, schema.CmdAllocatePD, &schema.AllocatePD{CA: f.ca})
		if err != nil {
			return 0, err
		}
		f.pd = created.Handle
	}
	return f.pd, nil
}

func (f *File) resizeCQ(c *call, q *resizeCQ, r *resizeCQResp) error {
	cq, err := f.handleOf(kindCQ, q.CQHandle)
	if err != nil {
		return err
	}
	if err := f.checkCQE(q.CQE); err != nil {
		return err
	}
	resized, err := do[schema.ResizeCQReply](f, schema.CmdResizeCQ, &schema.ResizeCQ{CQ: cq, Size: limit(q.CQE),
		User: f.private(c)})
	if err != nil {
		return err
	}
	c.answer(&resized.User)
	r.CQE = number(resized.Size)
	return nil
}

func (f *File) destroyCQ(_ *call, q *destroyEvents, r *destroyCQResp) error {
	d, err := f.remove(kindCQ, q.Handle)
	if err == nil {
		r.CompEventsReported, r.AsyncEventsReported = uint32(d.Completions), uint32(d.Async)
	}
	return err
}

func (f *File) reqNotifyCQ(_ *call, q *reqNotifyCQ, _ *none) error {
	cq, err := f.handleOf(kindCQ, q.CQHandle)
	if err != nil {
		return err
	}
	n := &schema.Notify{CQ: cq, Mode: schema.NotifyNext}
	if q.SolicitedOnly != 0 {
		n.Mode = schema.NotifySolicited
	}
	return f.session.Notify(n)
}

func (f *File) createSRQ(c *call, q *createSRQ, r *createSRQResp) error {
	pd, err := f.handleOf(kindPD, q.PDHandle)
	if err != nil {
		return err
	}
	if uint64(q.MaxWR) > uint64(f.dev.attr.MaxSRQWRs) {
		return syscall.EINVAL
	}
	attr := schema.SRQAttr{MaxWR: limit(q.MaxWR), MaxSGE: max(1, limit(q.MaxSGE)), Limit: limit(q.SRQLimit)}
	if q.SRQLimit > q.MaxWR { // programs need not set it: ibv_create_srq(3)
		attr.Limit = 0
	}
	made, err := do[schema.Created](f, schema.CmdCreateSRQ, &schema.CreateSRQ{PD: pd, Token: q.UserHandle,
		Async: f.async, Attr: attr, User: f.private(c)})
	if err != nil {
		return err
	}
	c.answer(&made.User)
	granted, err := do[schema.SRQAttr](f, schema.CmdQuerySRQ, &schema.SRQ{SRQ: made.Handle})
	if err != nil {
		_, _ = do[schema.DestroyReply](f, schema.CmdDestroy, &schema.Object{Handle: made.Handle}) // see err
		return err
	}
	r.MaxWR, r.MaxSGE = number(granted.MaxWR), number(granted.MaxSGE)
	r.SRQHandle = f.add(&object{kind: kindSRQ, handle: made.Handle})
	return nil
}

func (f *File) createXSRQ(c *call, q *createXSRQ, r *createSRQResp) error {
	if q.SRQType != createSRQBasic {
		return syscall.EOPNOTSUPP
	}
	return f.createSRQ(c, &createSRQ{UserHandle: q.UserHandle, PDHandle: q.PDHandle, MaxWR: q.MaxWR, MaxSGE: q.MaxSGE,
		SRQLimit: q.SRQLimit}, r)
}

// The attributes of an SRQ that can be changed (enum ib_srq_attr_mask).
const (
	srqMaxWR = 1 << iota
	srqLimit
)

func (f *File) modifySRQ(c *call, q *modifySRQ, _ *none) error {
	srq, err := f.handleOf(kindSRQ, q.SRQHandle)
	if err != nil || q.AttrMask&(srqMaxWR|srqLimit) == 0 { // other attributes have no effect
		return err
	}
	if q.AttrMask&srqMaxWR != 0 && uint64(q.MaxWR) > uint64(f.dev.attr.MaxSRQWRs) {
		return syscall.EINVAL
	}
	modify := &schema.ModifySRQ{SRQ: srq, Attr: schema.SRQAttr{MaxWR: limit(q.MaxWR), Limit: limit(q.SRQLimit)},
		User: f.private(c)}
	if q.AttrMask&srqMaxWR != 0 {
		modify.Set |= uint32(ci.SRQFieldMaxWR)
	}
	if q.AttrMask&srqLimit != 0 {
		modify.Set |= uint32(ci.SRQFieldLimit)
	}
	changed, err := do[schema.Changed](f, schema.CmdModifySRQ, modify)
	if err != nil {
		return err
	}
	c.answer(&changed.User)
	c.storeIndirect()
	return nil
}

func (f *File) querySRQ(_ *call, q *querySRQ, r *querySRQResp) error {
	srq, err := f.handleOf(kindSRQ, q.SRQHandle)
	if err != nil {
		return err
	}
	a, err := do[schema.SRQAttr](f, schema.CmdQuerySRQ, &schema.SRQ{SRQ: srq})
	if err == nil {
		r.MaxWR, r.MaxSGE, r.SRQLimit = number(a.MaxWR), number(a.MaxSGE), number(a.Limit)
	}
	return err
}

func (f *File) destroySRQ(_ *call, q *destroyEvents, r *destroyEventsResp) error {
	d, err := f.remove(kindSRQ, q.Handle)
	if err == nil {
		r.EventsReported = uint32(d.Async)
	}
	return err
}
