package rchca

import (
	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/ci/wrrules"
	"ciddk/templates/rchca/userabi" // user.go
)

type pd struct {
	ci.UnimplementedPD
	refs   driver.Refs
	parent *driver.Refs // of the CA, or of the process
	hca    *HCA
	num    uint32 // of the PD in the hardware

	user *user // user.go
}

// Destroy destroys the PD. Status: ResourceBusy (it has children), InvalidPDHandle.
func (p *pd) Destroy() error {
	if err := p.refs.BeginDestroy("PD.Destroy", ci.InvalidPDHandle); err != nil {
		return err
	}
	p.hca.pds.Give()
	p.parent.Put()
	return nil
}

// CreateCQ creates a CQ. c.User has the private data of the user library.
// Status: InvalidCQSize, InvalidParameter (vector, private data), InvalidPDHandle, InsufficientResources, Timeout.
func (p *pd) CreateCQ(c ci.CQCreate) (_ ci.CQ, err error) {
	const verb = "PD.CreateCQ"
	h := p.hca
	if c.Size < 1 || c.Size > h.info.MaxCQEs {
		return nil, fail(verb, ci.InvalidCQSize, "want 1 to MaxCQEs")
	}
	if c.Affinity.Vector > 1 {
		return nil, fail(verb, ci.InvalidParameter, "Affinity.Vector: the adapter has one vector")
	}
	data, err := openPrivate(verb, c.User) // user.go
	if err != nil {                        // user.go
		return nil, err
	}
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	if err := h.cqs.Take(verb); err != nil { // a verb that fails must change nothing
		p.refs.Put()
		return nil, err
	}
	q := &cq{pd: p, hca: h, size: c.Size,
		notify: driver.Notifier{OnCompletion: c.OnCompletion, OnEvent: c.OnEvent, Context: c.Context}}
	if q.num, err = h.dev.CreateCQ(c.Size); err != nil {
		h.cqs.Give()
		p.refs.Put()
		return nil, commandError(verb, err)
	}
	answer := userabi.Answer{Number: uint32(q.num)} // user.go
	if data.library && p.user != nil {              // user.go
		q.user = p.user.newCompletions(q.size, &answer)
	}
	h.mu.Lock()
	h.cq[q.num] = q
	h.mu.Unlock()
	if q.user != nil { // user.go
		h.dev.Deliver(q.num, q.deliver)
	}
	data.answer(answer) // user.go
	return q, nil
}

// CreateQP creates a QP in Reset. c.User has the private data of the user library. Status: Unsupported and
// InvalidServiceType (other services), InvalidMaxWRs, InvalidMaxSGE, InvalidSetting (inline data; Error.Most has the
// limits), InvalidCQHandle, InvalidPDHandle, InsufficientResources, Timeout.
func (p *pd) CreateQP(c ci.QPCreate) (_ ci.QP, err error) {
	const verb = "PD.CreateQP"
	h := p.hca
	if err := h.checkQP(verb, &c); err != nil {
		return nil, err
	}
	data, err := openPrivate(verb, c.User) // user.go
	if err != nil {                        // user.go
		return nil, err
	}
	c.User = nil                      // c is kept, and the private data must not be
	send, ok1 := ci.As[*cq](c.SendCQ) // As also finds a CQ behind wrappers
	recv, ok2 := ci.As[*cq](c.RecvCQ)
	if !ok1 || !ok2 || send.hca != h || recv.hca != h { // the CQs may be of any PD of this CA
		return nil, fail(verb, ci.InvalidCQHandle, "the CQs are not CQs of this adapter")
	}
	uses := []*driver.Refs{&p.refs, &send.refs, &recv.refs}
	var shared *srq   // srq.go
	if c.SRQ != nil { // srq.go
		s, ok := ci.As[*srq](c.SRQ)
		if !ok || s.pd.hca != h || !s.refs.Alive() { // the SRQ may be of any PD of this CA
			return nil, fail(verb, ci.InvalidSRQHandle, "the SRQ is not an SRQ of this adapter")
		}
		shared, uses = s, append(uses, &s.refs)
	}
	if destroyed, ok := driver.GetAll(uses...); !ok {
		return nil, fail(verb, []ci.Status{ci.InvalidPDHandle, ci.InvalidCQHandle, ci.InvalidCQHandle,
			ci.InvalidSRQHandle}[destroyed], "")
	}
	if err := h.qps.Take(verb); err != nil {
		driver.PutAll(uses)
		return nil, err
	}
	q := &qp{pd: p, hca: h, send: send, recv: recv, uses: uses, create: c,
		notify: driver.Notifier{OnEvent: c.OnEvent, Context: c.Context},
		rules: wrrules.Rules{Type: c.Type, Caps: claims(), MaxReadSGEs: h.info.MaxSGEs, SendSGE: c.SendSGE,
			MaxInline: c.MaxInline}}
	q.sq.ids, q.rq.ids = make([]uint64, c.SendDepth), make([]uint64, c.RecvDepth)
	config := QPConfig{PD: p.num, Type: c.Type, Caps: c.QPCaps, SignalAll: c.Flags&ci.QPSignalAll != 0,
		SendCQ: send.num, RecvCQ: recv.num}
	if shared != nil { // srq.go
		q.srq, config.SRQ = shared, shared.num
	}
	if q.num, err = h.dev.CreateQP(config); err != nil {
		h.qps.Give()
		driver.PutAll(uses)
		return nil, commandError(verb, err)
	}
	answer := userabi.Answer{Number: uint32(q.num)}                          // user.go
	if data.library && p.user != nil && c.SendDepth > 0 && c.Type == ci.RC { // user.go
		q.user = p.user.newSend(q, &answer)
	}
	q.clear()
	h.mu.Lock()
	h.qp[q.num] = q
	h.mu.Unlock()
	if q.user != nil { // user.go
		p.user.add(q)
	}
	data.answer(answer) // user.go
	return q, nil
}

// checkQP compares a QPCreate with the limits of the adapter.
func (h *HCA) checkQP(verb string, c *ci.QPCreate) error {
	const flags = ci.QPSignalAll | ci.QPClientSyncSend | ci.QPClientSyncRecv | ci.QPNoOverflow
	i := &h.info
	switch {
	case c.Type > ci.UD:
		return fail(verb, ci.InvalidServiceType, "CreateSpecialQP creates special and raw QPs")
	case c.Type != ci.RC && (c.Type != ci.UD || !claims().Has(ci.CapUD)):
		return fail(verb, ci.Unsupported, c.Type.String())
	case c.Flags&^flags != 0:
		return fail(verb, ci.InvalidParameter, "unknown flag")
	case c.SRQ != nil && !claims().Has(ci.CapSRQ):
		return fail(verb, ci.InvalidSRQHandle, "the adapter has no SRQs")
	case c.SRQ != nil && c.RecvDepth != 0:
		return fail(verb, ci.InvalidParameter, "RecvDepth is not 0, and the receives come from an SRQ")
	case c.RDD != nil || c.MaxInline < 0:
		return fail(verb, ci.InvalidParameter, "RDD is set, or MaxInline is negative")
	case c.MaxInline > i.MaxInline:
		most := ci.QPCaps{SendDepth: min(c.SendDepth, i.MaxWRs), RecvDepth: min(c.RecvDepth, i.MaxWRs),
			SendSGE: min(c.SendSGE, i.MaxSGEs), RecvSGE: min(c.RecvSGE, i.MaxSGEs), MaxInline: i.MaxInline}
		return &ci.Error{Verb: verb, Status: ci.InvalidSetting, Detail: "MaxInline", Most: &most}
	case c.SendDepth < 0 || c.RecvDepth < 0 || c.SendDepth > i.MaxWRs || c.RecvDepth > i.MaxWRs:
		return fail(verb, ci.InvalidMaxWRs, "")
	case c.SendSGE < 0 || c.RecvSGE < 0 || c.SendSGE > i.MaxSGEs || c.RecvSGE > i.MaxSGEs:
		return fail(verb, ci.InvalidMaxSGE, "")
	}
	return nil
}
