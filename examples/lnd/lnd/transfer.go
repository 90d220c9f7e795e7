package lnd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// This file has the transfers, at both ends. The source moves data that do not fit in a message with RDMA WRITE:
//
//	PUT   source ─ PUT_REQ → sink ─ PUT_ACK (where) → source ═ WRITE, PUT_DONE → sink ─ ACK → source
//	GET   sink ─ GET_REQ (where) → source ═ WRITE, GET_DONE → sink

// Errors of transfers.
var (
	ErrRefused = errors.New("lnd: the peer has no memory or no data for this transfer")
	ErrTimeout = errors.New("lnd: the peer announced data and did not send them")
)

const enodata = 61 // errno of Linux

// An op is a transfer at one of its two ends.
type op struct {
	cookie cookie
	ours   bool                        // begun by this end
	mem    []byte                      // the data, or the memory for them
	reg    *accesslayer.FastRegMapping // of the memory, or nil
	posted bool                        // the registration: earlier, no peer can have the key
	waits  msgType                     // the reply that it waits for, or 0; immediate stands for LNet's ACK
	n      int                         // bytes moved
	err    error
	done   func(n int, err error) // called once
	timer  *time.Timer            // nil for a transfer of this end, which has a context
}

// Put writes at most MaxTransfer bytes to the peer, and returns the number of bytes that the peer's application has. It
// waits for the peer's ACK, because a peer may receive a message and end before it has handled it. data must not change
// until Put returns. If ctx ends after the transfer has begun, Put ends the connection; otherwise an adapter might
// still use the memory. Errors: ErrRefused; the context's; the cause of the end of the connection.
func (c *Conn) Put(ctx context.Context, match uint64, data []byte) (int, error) {
	return c.transfer(ctx, data, func(o *op) error {
		m := message{lnet: lnet{Op: lnetPut, Match: match, Words: [4]uint32{2: portal}, PayloadLen: uint32(len(data))}}
		m.lnet.Handle = handle{c.n.stamp, o.cookie}
		if len(data) <= maxImmediate {
			m.Type, o.waits, m.payload = immediate, immediate, data
		} else {
			m.Type, o.waits, m.cookie = putReq, putAck, o.cookie
		}
		c.push(nil, nil, m)
		return nil
	})
}

// Get reads data of the peer, at most len(into) bytes, and returns their number. into must not be used until Get
// returns. The peer cannot write to it afterwards. Otherwise Get is as Put.
func (c *Conn) Get(ctx context.Context, match uint64, into []byte) (int, error) {
	return c.transfer(ctx, into, func(o *op) error {
		o.waits = getDone
		return c.sendTarget(o, message{header: header{Type: getReq}, cookie: o.cookie,
			lnet: lnet{Op: lnetGet, Match: match, Words: [4]uint32{portal, 0, uint32(len(into))}}})
	})
}

// transfer carries out a transfer of this end. The goroutine of run calls begin and handles the rest.
func (c *Conn) transfer(ctx context.Context, mem []byte, begin func(*op) error) (n int, err error) {
	if len(mem) == 0 || len(mem) > MaxTransfer {
		return 0, fmt.Errorf("lnd: %d bytes, want 1 to %d", len(mem), MaxTransfer)
	}
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
	case <-c.over:
		return 0, c.err
	}
	select {
	case <-ended:
	case <-ctx.Done():
		c.cancel(fmt.Errorf("lnd: a transfer was canceled: %w", context.Cause(ctx)))
		<-ended // run ends the transfer
	}
	return n, err
}

// add assigns a cookie to o.
func (c *Conn) add(o *op) {
	c.last++
	o.cookie = c.last
	c.ops[o.cookie] = o
}

// settle ends o when nothing is left to wait for.
func (c *Conn) settle(o *op) {
	if o.waits == 0 && o.reg == nil {
		delete(c.ops, o.cookie)
		if o.timer != nil {
			o.timer.Stop()
		}
		o.done(o.n, o.err)
	}
}

// push queues a message, and the work requests before it for o's memory.
func (c *Conn) push(o *op, chain []ci.SendWR, m message) {
	m.lnet.To, m.lnet.From = c.peer, c.n.nid
	m.lnet.ToPID, m.lnet.FromPID = lnetPID, lnetPID
	c.flow.push(&send{op: o, chain: chain, msg: m})
}

// sendTarget sends a message with the description of o's memory, to which the peer then writes.
func (c *Conn) sendTarget(o *op, m message) (err error) {
	if o.reg, err = c.pool.Map(ci.Bytes(o.mem), ci.LocalWrite|ci.RemoteWrite); err == nil {
		m.where = where{Key: uint32(o.reg.RKey), Pieces: 1, Addr: o.reg.Addr, Len: uint32(o.reg.Length)}
		c.push(o, []ci.SendWR{o.reg.Register()}, m)
	}
	return err
}

// write writes to the memory of the peer. The message that reports the end follows the WRITE in the queue and cannot
// overtake it, so nothing waits for the WRITE.
func (c *Conn) write(o *op, data []byte, to where, done message) (err error) {
	if o.reg, err = c.pool.Map(ci.Bytes(data), 0); err == nil {
		wr := ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{o.reg.SGE(0, uint32(len(data)))}, Remote: ci.Remote{Addr: to.Addr,
			RKey: ci.Key(to.Key)}}
		c.push(o, []ci.SendWR{o.reg.Register(), wr}, done)
	}
	return err
}

// release releases o's memory at the end of the transfer. It invalidates the keys of registered memory first, so that
// the peer cannot write to it when the application has it again. (The Linux implementation invalidates them at the next
// use of the region.)
func (c *Conn) release(o *op) (err error) {
	if o.reg == nil {
		c.settle(o)
		return nil
	}
	wr := o.reg.Invalidate()
	wr.ID = uint64(o.cookie)<<wrBits | wrInv
	_, err = c.id.QP().PostSend([]ci.SendWR{wr})
	return err
}

// invalidated completes the release of registered memory. If the transfer was the peer's, its credit is returned.
func (c *Conn) invalidated(o *op) error {
	err := o.reg.Unmap()
	if o.reg = nil; !o.ours {
		c.flow.owed++
	}
	c.settle(o)
	return err
}

// received handles a message.
func (c *Conn) received(m *message) error {
	answers, want := m.cookie, m.Type
	switch {
	case m.Type == noop:
		return nil
	case m.Type == putReq, m.Type == immediate && m.lnet.Op == lnetPut:
		return c.put(m)
	case m.Type == getReq:
		return c.get(m)
	case m.Type == putNak:
		want = putAck
	case m.Type == immediate && m.lnet.Op == lnetAck:
		answers = m.lnet.Handle.Transfer
		c.flow.owed++
	case m.Type == immediate:
		return malformed("IMMEDIATE with operation %d of LNet", m.lnet.Op)
	}
	o := c.ops[answers]
	if o == nil || o.waits != want || o.reg != nil && !o.posted {
		return malformed("type %#x for no transfer that waits for it", m.Type)
	}
	o.waits = 0
	switch {
	case m.Type == putAck && (m.where.Len == 0 || int64(m.where.Len) > int64(len(o.mem))):
		return malformed("PUT_ACK for %d bytes, of %d", m.where.Len, len(o.mem))
	case m.Type == putAck:
		o.waits = immediate
		return c.write(o, o.mem[:m.where.Len], m.where, message{header: header{Type: putDone}, cookie: m.sinkCookie})
	case m.Type == immediate:
		if o.n = int(min(uint64(m.lnet.Words[0]), uint64(len(o.mem)))); o.n == 0 {
			o.err = ErrRefused
		}
		c.settle(o) // the send of PUT_DONE may not have completed yet
		return nil
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

// put handles a PUT of the peer, whose data are in the message or to be written. In the second case the credit is
// returned after the transfer, because PUT_DONE needs the buffer.
func (c *Conn) put(m *message) error {
	h := m.lnet
	if m.Type == immediate && int64(h.PayloadLen) > int64(len(m.payload)) {
		return malformed("IMMEDIATE with %d bytes, of which %d are there", h.PayloadLen, len(m.payload))
	}
	n := int(min(h.PayloadLen, MaxTransfer))
	into, done := c.n.cfg.OnPut(c.addr, h.Match, n)
	o := &op{mem: into[:min(len(into), n)], waits: putDone, done: func(n int, err error) {
		if done(n, err); err == nil && h.Handle.Stamp != noStamp {
			h.Op, h.PayloadLen, h.Words = lnetAck, 0, [4]uint32{uint32(n)}
			c.push(nil, nil, message{header: header{Type: immediate}, lnet: h})
		}
	}}
	switch {
	case m.Type == immediate:
		c.flow.owed++
		o.done(copy(o.mem, m.payload), nil)
	case len(o.mem) == 0:
		c.flow.owed++
		c.push(nil, nil, message{header: header{Type: putNak}, cookie: m.cookie, status: -enodata})
		o.done(0, ErrRefused)
	default:
		c.add(o)
		o.timer = time.AfterFunc(c.n.cfg.Timeout, func() { c.cancel(ErrTimeout) })
		return c.sendTarget(o, message{header: header{Type: putAck}, cookie: m.cookie, sinkCookie: o.cookie})
	}
	return nil
}

// get handles a GET of the peer. The credit is returned after the transfer, when the region is free.
func (c *Conn) get(m *message) error {
	n := int(min(m.lnet.Words[2], m.where.Len, MaxTransfer))
	data := c.n.cfg.OnGet(c.addr, m.lnet.Match, n)
	data = data[:min(len(data), n)]
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
