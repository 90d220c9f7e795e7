package kproxy

import (
	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// Token returns the token that a client chose for the QP of a completion's context.
func Token(context any) uint64 {
	if o, ok := context.(*object); ok {
		return o.token
	}
	return 0
}

// PostSend posts a batch to a QP. handles[i] are the objects that wrs[i] names. It returns the number of work requests
// that were accepted; the error is that of the first one that was not.
func (c *Session) PostSend(qp schema.Handle, wrs []ci.SendWR, handles []schema.SendHandles) (int, error) {
	const verb = "QP.PostSend"
	c.mu.Lock()
	o, err := c.find(verb, schema.KindQP, qp)
	if err != nil {
		c.mu.Unlock()
		return 0, err
	}
	n := len(wrs)
	var bad error
	for i := range wrs {
		if bad = c.resolveSend(verb, o, &wrs[i], &handles[i]); bad != nil {
			n = i
			break
		}
	}
	c.mu.Unlock()
	c.stats.posts.Add(uint64(n))
	if n == 0 {
		return 0, bad
	}
	accepted, err := o.al.(*accesslayer.QP).PostSend(wrs[:n])
	if err == nil {
		return accepted, bad
	}
	return accepted, c.orRemoved(verb, o, err)
}

// StartSends starts the send queue of a QP whose requests the client has put into shared memory. In a state in which
// the QP cannot send, these requests are removed, and the error is ci.InvalidQPState. It may
// be called concurrently.
func (c *Session) StartSends(qp schema.Handle) error {
	const verb = "QP.PostSend"
	o, err := c.lookup(verb, schema.KindQP, qp)
	if err != nil {
		return err
	}
	_, err = o.al.(*accesslayer.QP).PostSend(nil)
	return c.orRemoved(verb, o, err)
}

// resolveSend replaces the handles of a work request by objects. mu is held.
func (c *Session) resolveSend(verb string, qp *object, w *ci.SendWR, h *schema.SendHandles) error {
	// With CapFastReg, the driver accepts these requests on connected QPs, so they are rejected here. On datagram QPs
	// the driver rejects them itself.
	if qp.qpType != ci.UD && isFastRegistration(w.Op, qp.ca.attr.Caps) {
		return failf(verb, ci.Unsupported,
			"fast registration takes DMA addresses, which only consumers in the daemon have")
	}
	if h.AV != 0 {
		o, err := c.find(verb, schema.KindAV, h.AV)
		if err != nil {
			return err
		}
		w.To.AV = o.al.(*accesslayer.AV)
	}
	if h.MW != 0 {
		o, err := c.find(verb, schema.KindMW, h.MW)
		if err != nil {
			return err
		}
		w.Ext.Bind.MW = o.al.(*accesslayer.MW)
	}
	if h.MR != 0 {
		o, err := c.find(verb, schema.KindMR, h.MR)
		if err != nil {
			return err
		}
		w.Ext.Bind.MR = o.al.(*accesslayer.MR)
	}
	return nil
}

// isFastRegistration reports whether an operation needs CapFastReg. An adapter with windows of type 2 has OpLocalInv
// for them.
func isFastRegistration(op ci.SendOp, caps ci.Caps) bool {
	return op == ci.OpFastReg || op == ci.OpLocalInv && !caps.Has(ci.CapMW2)
}

// PostRecv posts a batch to the receive queue of a QP, as PostSend does.
func (c *Session) PostRecv(qp schema.Handle, wrs []ci.RecvWR) (int, error) {
	const verb = "QP.PostRecv"
	o, err := c.lookup(verb, schema.KindQP, qp)
	if err != nil {
		return 0, err
	}
	c.stats.posts.Add(uint64(len(wrs)))
	n, err := o.al.(*accesslayer.QP).PostRecv(wrs)
	return n, c.orRemoved(verb, o, err)
}

// PostSRQRecv posts a batch to an SRQ, as PostSend does.
func (c *Session) PostSRQRecv(srq schema.Handle, wrs []ci.RecvWR) (int, error) {
	const verb = "SRQ.PostRecv"
	o, err := c.lookup(verb, schema.KindSRQ, srq)
	if err != nil {
		return 0, err
	}
	c.stats.posts.Add(uint64(len(wrs)))
	n, err := o.al.(*accesslayer.SRQ).PostRecv(wrs)
	return n, c.orRemoved(verb, o, err)
}

// Poll takes completions from a CQ. Token returns the token of a completion's context.
func (c *Session) Poll(cq schema.Handle, wc []ci.WC) (int, error) {
	const verb = "CQ.Poll"
	o, err := c.lookup(verb, schema.KindCQ, cq)
	if err != nil {
		return 0, err
	}
	n, err := o.al.(*accesslayer.CQ).Poll(wc)
	c.stats.polls.Add(1)
	c.stats.completions.Add(uint64(n))
	return n, c.orRemoved(verb, o, err)
}

// Notify arms a CQ.
func (c *Session) Notify(r *schema.Notify) error {
	const verb = "CQ.Notify"
	o, err := c.lookup(verb, schema.KindCQ, r.CQ)
	if err != nil {
		return err
	}
	cq := o.al.(*accesslayer.CQ)
	if r.Mode == schema.NotifyAfter {
		return c.orRemoved(verb, o, cq.NotifyAfter(int(r.N)))
	}
	return c.orRemoved(verb, o, cq.Notify(ci.Notify(r.Mode)))
}

// Peek stores the number of completions that wait in reply.
func (c *Session) Peek(r *schema.CQ, reply *schema.PeekReply) error {
	const verb = "CQ.Peek"
	o, err := c.lookup(verb, schema.KindCQ, r.CQ)
	if err != nil {
		return err
	}
	n, err := o.al.(*accesslayer.CQ).Peek()
	reply.N = uint32(max(n, 0))
	return c.orRemoved(verb, o, err)
}

// BindMW posts the bind of a window of type 1, and stores the key that the window will have in reply.
func (c *Session) BindMW(r *schema.BindMW, reply *schema.WindowReply) error {
	const verb = "QP.BindMW"
	c.mu.Lock()
	o, err := c.find(verb, schema.KindQP, r.QP)
	b := ci.MWBind{Key: r.Bind.Key, Addr: r.Bind.Addr, Length: r.Bind.Length, Access: r.Bind.Access}
	if err == nil && r.Bind.MW != 0 {
		var w *object
		if w, err = c.find(verb, schema.KindMW, r.Bind.MW); err == nil {
			b.MW = w.al.(*accesslayer.MW)
		}
	}
	if err == nil && r.Bind.MR != 0 {
		var m *object
		if m, err = c.find(verb, schema.KindMR, r.Bind.MR); err == nil {
			b.MR = m.al.(*accesslayer.MR)
		}
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	key, err := o.al.(*accesslayer.QP).BindMW(r.ID, r.Flags, b)
	*reply = schema.WindowReply{Handle: r.Bind.MW, Key: key}
	return c.orRemoved(verb, o, err)
}
