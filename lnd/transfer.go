package lnd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"ciddk/ci"
)

// This file has the transfers, at both ends. Data that fit in a message are in an IMMEDIATE with LNet's PUT or REPLY.
// The source moves others with RDMA WRITE:
//
//	PUT   source ─ PUT_REQ → sink ─ PUT_ACK (where) → source ═ WRITE, PUT_DONE → sink ─ ACK → source
//	GET   sink ─ GET_REQ (where) → source ═ WRITE, GET_DONE → sink

// Errors of transfers.
var (
	ErrRefused = errors.New("lnd: the peer has no memory or no data for this transfer")
	ErrTimeout = errors.New("lnd: the peer does not go on with a transfer, or returns no credits")
)

// An op is a transfer by RDMA at one of its two ends.
type op struct {
	cookie cookie
	ours   bool     // begun by this end
	mem    []byte   // the data, or the memory for them
	reg    *mapping // of the memory, or nil
	posted bool     // the registration: earlier, no peer can have the key
	waits  msgType  // the reply that it waits for, or 0
	n      int      // bytes moved
	err    error
	done   func(n int, err error) // called once
	timer  *time.Timer
}

// end ends o.
func (o *op) end(n int, err error) {
	o.timer.Stop()
	o.done(n, err)
}

// put writes data to the peer, and returns the number of bytes that the peer's application has. It waits for the peer's
// ACK, because a peer may receive a message and end before it has handled it. See Node.Put.
func (c *conn) put(ctx context.Context, t Target, data []byte) (int, error) {
	h := t.header(lnetPut, len(data))
	return c.operate(ctx, lnetAck, &h, data, func(o *op) error {
		o.waits = putAck
		c.push(nil, nil, message{header: header{Type: putReq}, lnet: h, cookie: o.cookie})
		return nil
	})
}

// get reads data of the peer. See Node.Get.
func (c *conn) get(ctx context.Context, t Target, into []byte) (int, error) {
	h := t.header(lnetGet, len(into))
	return c.operate(ctx, lnetReply, &h, into, func(o *op) error {
		o.waits = getDone
		return c.sendTarget(o, message{header: header{Type: getReq}, lnet: h, cookie: o.cookie})
	})
}

// operate carries out an operation of this end, which waits for an ACK or a REPLY of LNet. begin begins one that needs
// RDMA, on the goroutine of run. The GET_DONE of such a GET stands for its REPLY.
func (c *conn) operate(ctx context.Context, wants uint32, h *lnetHeader, mem []byte, begin func(*op) error) (n int,
	err error) {
	if len(mem) == 0 || len(mem) > MaxTransfer {
		return 0, fmt.Errorf("lnd: %d bytes, want 1 to %d", len(mem), MaxTransfer)
	}
	r := c.n.await(c.peer, wants, mem)
	defer c.n.forget(r)
	h.Handle = r.handle
	if len(mem) > int(c.params.MsgSize)-headerSize-lnetSize {
		n, err = c.transfer(ctx, mem, begin)
		if err != nil || wants == lnetReply {
			return n, err
		}
	} else if err = c.sendImmediate(ctx, h, mem); err != nil {
		return 0, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-c.over:
		select {
		case <-r.done:
		default:
			return 0, c.err
		}
	}
	if r.n = min(r.n, len(mem)); r.n == 0 {
		err = ErrRefused
	}
	return r.n, err
}

// sendImmediate queues an operation in a message. The data of a PUT are copied, so that it can be canceled.
func (c *conn) sendImmediate(ctx context.Context, h *lnetHeader, mem []byte) error {
	m := message{header: header{Type: immediate}, lnet: *h}
	if h.Op == lnetPut {
		m.payload = bytes.Clone(mem)
	}
	select {
	case c.begins <- func() error { c.push(nil, nil, m); return nil }:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.over:
		return c.err
	}
}

// transfer carries out a transfer by RDMA. The goroutine of run calls begin and handles the rest.
func (c *conn) transfer(ctx context.Context, mem []byte, begin func(*op) error) (n int, err error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-c.over:
		return 0, c.err
	}
	ended := make(chan struct{})
	o := &op{ours: true, mem: mem, done: func(k int, e error) { n, err = k, e; close(ended) }}
	select {
	case c.begins <- func() error { c.add(o); return begin(o) }:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-c.over:
		return 0, c.err
	}
	select {
	case <-ended:
	case <-ctx.Done():
		c.cancel(fmt.Errorf("%w: %w", errCanceled, context.Cause(ctx)))
		<-ended // run ends the transfer
	}
	return n, err
}

// add assigns a cookie to o. If the peer does not go on with it, the connection ends.
func (c *conn) add(o *op) {
	c.last++
	o.cookie = c.last
	c.ops[o.cookie] = o
	o.timer = time.AfterFunc(seconds(c.n.tun.Timeout), func() { c.cancel(ErrTimeout) })
}

// settle ends o when nothing is left to wait for.
func (c *conn) settle(o *op) {
	delete(c.ops, o.cookie)
	o.end(o.n, o.err)
}

// push queues a message, and the work requests before it for o's memory.
func (c *conn) push(o *op, chain []ci.SendWR, m message) {
	m.lnet.To, m.lnet.From = c.peer, c.n.nid
	c.flow.push(&send{op: o, chain: chain, msg: m})
}

// sendTarget sends a message with the description of o's memory, to which the peer then writes.
func (c *conn) sendTarget(o *op, m message) (err error) {
	if o.reg, err = c.mapped(o.mem, ci.LocalWrite|ci.RemoteWrite); err == nil {
		m.where = where{uint32(o.reg.RKey), []frag{{Addr: o.reg.Addr, Len: uint32(o.reg.Length)}}}
		c.push(o, o.reg.register(), m)
	}
	return err
}

// write writes to the memory of the peer, with one WRITE for each of its pieces. The message that reports the end
// follows the WRITEs in the queue and cannot overtake them, so nothing waits for them.
func (c *conn) write(o *op, data []byte, to where, done message) (err error) {
	if o.reg, err = c.mapped(data, 0); err != nil {
		return err
	}
	chain := o.reg.register()
	for off, i := uint64(0), 0; off < uint64(len(data)); i++ {
		f := to.frags[i]
		n := min(uint64(f.Len), uint64(len(data))-off)
		if n == 0 {
			continue
		}
		chain = append(chain, ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{o.reg.SGE(off, uint32(n))},
			Remote: ci.Remote{Addr: f.Addr, RKey: ci.Key(to.key)}})
		off += n
	}
	c.push(o, chain, done)
	return nil
}

// release releases o's memory at the end of the transfer. It invalidates the keys of registered memory first, so that
// the peer cannot write to it when the application has it again. (The Linux implementation invalidates them at the next
// use of the region.)
func (c *conn) release(o *op) (err error) {
	if o.reg == nil {
		c.settle(o)
		return nil
	}
	if o.reg.fast == nil {
		return c.released(o)
	}
	wr := o.reg.fast.Invalidate()
	wr.ID = uint64(o.cookie)<<wrBits | wrInv
	_, err = c.id.QP().PostSend([]ci.SendWR{wr})
	return err
}

// released completes the release of registered memory. If the transfer was the peer's, its credit is returned.
func (c *conn) released(o *op) error {
	err := o.reg.unmap()
	if o.reg = nil; !o.ours {
		c.flow.owed++
	}
	c.settle(o)
	return err
}

// received handles a message.
func (c *conn) received(m *message) error {
	switch {
	case m.Type == noop:
		return nil
	case m.Type == immediate:
		return c.operation(m)
	case m.Type == putReq && m.lnet.Op == lnetPut:
		return c.putRequested(m)
	case m.Type == getReq && m.lnet.Op == lnetGet:
		return c.getRequested(m)
	case m.Type == putReq || m.Type == getReq:
		return malformed("%v with operation %d of LNet", m.Type, m.lnet.Op)
	}
	want := m.Type
	if m.Type == putNak {
		want = putAck
	}
	o := c.ops[m.cookie]
	if o == nil || o.waits != want || o.reg != nil && !o.posted {
		return malformed("%v for no transfer that waits for it", m.Type)
	}
	o.waits = 0
	switch n := m.where.length(); {
	case m.Type == putAck && (n == 0 || n > uint64(len(o.mem))):
		return malformed("PUT_ACK for %d bytes, of %d", n, len(o.mem))
	case m.Type == putAck:
		o.n = int(n)
		return c.write(o, o.mem[:n], m.where, message{header: header{Type: putDone}, cookie: m.sinkCookie})
	case m.Type == putNak || m.status < 0:
		o.err = fmt.Errorf("%w: errno %d", ErrRefused, -m.status)
	case m.Type == putDone:
		o.n = len(o.mem)
	case int(m.status) > len(o.mem):
		return malformed("GET_DONE with %d bytes, of %d", m.status, len(o.mem))
	default:
		o.n = int(m.status)
	}
	return c.release(o)
}

// operation handles an operation of LNet in a message.
func (c *conn) operation(m *message) error {
	h := m.lnet
	if int64(h.PayloadLen) > int64(len(m.payload)) {
		return malformed("IMMEDIATE with %d bytes, of which %d are there", h.PayloadLen, len(m.payload))
	}
	c.flow.owed++
	data := m.payload[:h.PayloadLen]
	switch h.Op {
	case lnetAck, lnetReply:
		c.n.replied(c.peer, &h, data)
	case lnetPut:
		into, done := c.memoryFor(&h, len(data))
		if done != nil {
			n := copy(into, data)
			done(n, nil)
			c.acknowledge(h, n)
		}
	case lnetGet:
		if data, ok := c.dataFor(&h, int(c.params.MsgSize)-headerSize-lnetSize); ok {
			r := lnetHeader{ToPID: h.FromPID, FromPID: lnetPID, Op: lnetReply, PayloadLen: uint32(len(data)),
				Handle: h.Handle}
			c.push(nil, nil, message{header: header{Type: immediate}, lnet: r, payload: data})
		}
	default:
		return malformed("IMMEDIATE with operation %d of LNet", h.Op)
	}
	return nil
}

// memoryFor returns the memory for n bytes of a PUT, and the function that is to be called afterwards, which is nil if
// no entry matches.
func (c *conn) memoryFor(h *lnetHeader, n int) ([]byte, func(int, error)) {
	r := requestOf(h)
	r.From, r.Len = c.peer, min(n, MaxTransfer)
	e := c.n.match(lnetPut, &r)
	if e == nil {
		return nil, nil
	}
	into, done := e.OnPut(r)
	return into[:min(len(into), r.Len)], done
}

// dataFor returns at most limit bytes for a GET, and whether an entry matches.
func (c *conn) dataFor(h *lnetHeader, limit int) ([]byte, bool) {
	r := requestOf(h)
	r.From, r.Len = c.peer, min(r.Len, limit)
	e := c.n.match(lnetGet, &r)
	if e == nil {
		return nil, false
	}
	data := e.OnGet(r)
	return data[:min(len(data), r.Len)], true
}

// acknowledge sends the ACK of a PUT, if its source has requested one.
func (c *conn) acknowledge(h lnetHeader, n int) {
	if h.Handle.Stamp == noStamp {
		return
	}
	a := lnetHeader{ToPID: h.FromPID, FromPID: lnetPID, Op: lnetAck, Handle: h.Handle, Match: h.Match,
		Words: [4]uint32{uint32(n)}}
	c.push(nil, nil, message{header: header{Type: immediate}, lnet: a})
}

// putRequested handles a PUT of the peer whose data are to be written. The credit is returned after the transfer,
// because PUT_DONE needs the buffer.
func (c *conn) putRequested(m *message) error {
	h := m.lnet
	into, done := c.memoryFor(&h, int(min(h.PayloadLen, MaxTransfer)))
	if len(into) == 0 {
		c.flow.owed++
		nak := message{header: header{Type: putNak}, cookie: m.cookie, status: -enodata}
		c.push(nil, nil, nak)
		if done != nil {
			done(0, ErrRefused)
		}
		return nil
	}
	o := &op{mem: into, waits: putDone, done: func(n int, err error) {
		done(n, err)
		if err == nil {
			c.acknowledge(h, n)
		}
	}}
	c.add(o)
	return c.sendTarget(o, message{header: header{Type: putAck}, cookie: m.cookie, sinkCookie: o.cookie})
}

// getRequested handles a GET of the peer by RDMA. The credit is returned after the transfer, when the region is free.
func (c *conn) getRequested(m *message) error {
	data, _ := c.dataFor(&m.lnet, int(min(m.where.length(), MaxTransfer)))
	done := message{header: header{Type: getDone}, cookie: m.cookie, status: int32(len(data))}
	if len(data) == 0 {
		c.flow.owed++
		done.status = -enodata
		c.push(nil, nil, done)
		return nil
	}
	o := &op{done: func(int, error) {}}
	c.add(o)
	return c.write(o, data, m.where, done)
}
