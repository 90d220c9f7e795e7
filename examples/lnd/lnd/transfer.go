package lnd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// The transfers, at both ends. Data that does not fit in a message moves in one way only, by RDMA WRITE of who has it:
//
//	PUT   source ─ PUT_REQ → sink ─ PUT_ACK (where) → source ═ WRITE, PUT_DONE → sink ─ ACK → source
//	GET   sink ─ GET_REQ (where) → source ═ WRITE, GET_DONE → sink

// Errors of transfers.
var (
	ErrRefused = errors.New("lnd: the peer has no place or no data for this")
	ErrTimeout = errors.New("lnd: the peer announced data and did not send it")
)

const enodata = 61 // errno of Linux

// op is a transfer, at one of its two ends.
type op struct {
	cookie cookie
	ours   bool                        // we began it
	mem    []byte                      // the data, or where it goes
	reg    *accesslayer.FastRegMapping // of the data, nil: none
	posted bool                        // the registration: before, no peer can know of it
	waits  msgType                     // for which answer, 0: none; immediate: for LNet's ACK
	n      int                         // bytes moved
	err    error
	done   func(n int, err error) // called once
	timer  *time.Timer            // nil: our caller's context is enough
}

// Put writes data to the peer, MaxTransfer bytes at most, and returns how many its application has: that a message has arrived could be known
// earlier, but a peer may receive it and end before it has looked. Data must not be changed meanwhile. If ctx ends when the transfer has begun, the
// connection ends: only so is it certain that no adapter touches the memory any more.
// Errors: ErrRefused; the context's; what ended the connection.
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

// Get reads from the peer as much as it has, and returns the number of bytes. Into must not be used meanwhile; afterwards the peer cannot write to
// it any more. All else is as with Put.
func (c *Conn) Get(ctx context.Context, match uint64, into []byte) (int, error) {
	return c.transfer(ctx, into, func(o *op) error {
		o.waits = getDone
		return c.invite(o, message{header: header{Type: getReq}, cookie: o.cookie,
			lnet: lnet{Op: lnetGet, Match: match, Words: [4]uint32{portal, 0, uint32(len(into))}}})
	})
}

// transfer runs a transfer of ours. Begin, and all that follows, happens in run.
func (c *Conn) transfer(ctx context.Context, mem []byte, begin func(*op) error) (n int, err error) {
	if len(mem) == 0 || len(mem) > MaxTransfer {
		return 0, fmt.Errorf("lnd: %d bytes, a transfer has 1 to %d", len(mem), MaxTransfer)
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
		c.cancel(fmt.Errorf("lnd: a transfer was given up: %w", context.Cause(ctx)))
		<-ended // soon
	}
	return n, err
}

// add gives o a cookie.
func (c *Conn) add(o *op) {
	c.last++
	o.cookie = c.last
	c.ops[o.cookie] = o
}

// settle ends o, if nothing holds it any more.
func (c *Conn) settle(o *op) {
	if o.waits == 0 && o.reg == nil {
		delete(c.ops, o.cookie)
		if o.timer != nil {
			o.timer.Stop()
		}
		o.done(o.n, o.err)
	}
}

// push queues a message, and what is to be posted in front of it for o's memory.
func (c *Conn) push(o *op, chain []ci.SendWR, m message) {
	m.lnet.To, m.lnet.From, m.lnet.ToPID, m.lnet.FromPID = c.peer, c.n.nid, lnetPID, lnetPID
	c.flow.push(&send{op: o, chain: chain, msg: m})
}

// invite sends a message that tells the peer to write to o's memory.
func (c *Conn) invite(o *op, m message) (err error) {
	if o.reg, err = c.pool.Map(ci.Bytes(o.mem), ci.LocalWrite|ci.RemoteWrite); err == nil {
		m.where = where{Key: uint32(o.reg.RKey), Pieces: 1, Addr: o.reg.Addr, Len: uint32(o.reg.Length)}
		c.push(o, []ci.SendWR{o.reg.Register()}, m)
	}
	return err
}

// write accepts such an invitation. The message that says it is done goes behind the WRITE, and cannot overtake it: nothing waits in between.
func (c *Conn) write(o *op, data []byte, to where, done message) (err error) {
	if o.reg, err = c.pool.Map(ci.Bytes(data), 0); err == nil {
		wr := ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{o.reg.SGE(0, uint32(len(data)))}, Remote: ci.Remote{Addr: to.Addr, RKey: ci.Key(to.Key)}}
		c.push(o, []ci.SendWR{o.reg.Register(), wr}, done)
	}
	return err
}

// release is for when no more is done to o's memory. If that is registered, the keys go first: the peer must not be able to write to it when its
// owner has it again. (The Linux implementation leaves that to the region's next use.)
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

// invalidated: the keys are dead. In place of a transfer of the peer's, the peer may begin another.
func (c *Conn) invalidated(o *op) error {
	err := o.reg.Unmap()
	if o.reg = nil; !o.ours {
		c.flow.owed++
	}
	c.settle(o)
	return err
}

// received takes a message.
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
		c.settle(o) // PUT_DONE was received, but that is perhaps not known yet
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

// put: the peer has data, with the message or to be written. In the latter case its credit goes back when that is over, for PUT_DONE takes the
// buffer.
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
		return c.invite(o, message{header: header{Type: putAck}, cookie: m.cookie, sinkCookie: o.cookie})
	}
	return nil
}

// get: the peer wants data. Its credit goes back when that is over, and the region is free.
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
