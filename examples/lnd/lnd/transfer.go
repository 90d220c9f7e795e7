package lnd

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// The transfers, at both ends. Data moves in one way only, by RDMA WRITE: an adapter sends WRITEs as fast as it can, while READs stop
// it at so many under way, and they would ask for rights to read memory as well.
//
//	PUT   source ─ PUT_REQ → sink ─ PUT_ACK (where) → source ═ WRITEs, PUT_DONE → sink
//	GET   sink ─ GET_REQ (where) → source ═ WRITEs, GET_DONE → sink
//
// What fits in a message travels as IMMEDIATE. A PUT ends with LNet's ACK, when the application at the other end has had the data.

// put writes data to the peer.
func (c *conn) put(ctx context.Context, at Address, data []byte) error {
	o := &op{cookie: c.n.nextCookie(), data: data, waits: Immediate}
	h := c.header(LNetPut, at)
	h.Handle = Handle{c.n.stamp, o.cookie}
	h.PayloadLen = uint32(len(data))
	t := &tx{class: crediting, msg: Message{Type: Immediate, LNet: h, Payload: data}}
	if len(data) > MaxImmediate {
		m, err := c.n.pool.get(ctx, data, true, false)
		if err != nil {
			return err
		}
		// The region is taken before the peer is asked: once it has answered, its own region waits for us.
		o.m, o.waits = m, PutAck
		t = &tx{class: reserving, msg: Message{Type: PutReq, LNet: h, Cookie: o.cookie}}
	}
	n, err := c.run(ctx, o, t)
	if err == nil && n < len(data) {
		err = fmt.Errorf("lnd: the peer took %d of %d bytes: %w", n, len(data), io.ErrShortWrite)
	}
	return err
}

// putAck: the peer says where to write.
func (c *conn) putAck(o *op, ack *Message) error {
	n := ack.Desc.Len()
	if n == 0 || n > uint64(len(o.data)) || len(ack.Desc.Frags) > int(c.params.MaxFrags) {
		return malformed("PUT_ACK asks for %d bytes in %d pieces, of %d", n, len(ack.Desc.Frags), len(o.data))
	}
	o.waits = Immediate // LNet's ACK
	c.send(&tx{class: free, op: o, msg: Message{Type: PutDone, Cookie: ack.SinkCookie}, chain: append(o.m.chain(), writes(o.m, ack.Desc, n)...)})
	return nil
}

// get reads from the peer: as many bytes as it has, at most the length of into.
func (c *conn) get(ctx context.Context, at Address, into []byte) (int, error) {
	o := &op{cookie: c.n.nextCookie(), data: into, waits: Immediate}
	h := c.header(LNetGet, at)
	h.Handle = Handle{c.n.stamp, o.cookie}
	h.Length = uint32(len(into))
	t := &tx{class: crediting, msg: Message{Type: Immediate, LNet: h}}
	if len(into) > MaxImmediate {
		m, err := c.n.pool.get(ctx, into, true, true)
		if err != nil {
			return 0, err
		}
		o.m, o.waits = m, GetDone
		t = &tx{class: reserving, msg: Message{Type: GetReq, LNet: h, Cookie: o.cookie, Desc: m.desc()}, chain: m.chain()}
	}
	return c.run(ctx, o, t)
}

// run runs a transfer of ours to its end.
func (c *conn) run(ctx context.Context, o *op, t *tx) (int, error) {
	done := make(chan struct{})
	o.finish = func() { close(done) }
	c.start(o, t)
	select {
	case <-done:
	case <-ctx.Done():
		c.abort(o, context.Cause(ctx))
		<-done // soon: nothing of it is left, or the connection is being torn down
	}
	return o.n, errors.Join(o.err, c.giveBack(o))
}

func (c *conn) giveBack(o *op) error {
	if o.m == nil {
		return nil
	}
	return c.n.pool.put(o.m)
}

// serve is run for transfers that a peer began: done is the application's. The region goes back first, and not in the queue of the
// application's functions: one of them may be waiting for a region.
func (c *conn) serve(o *op, t *tx, done func(int, error)) {
	o.finish = func() {
		c.n.wg.Go(func() {
			err := errors.Join(o.err, c.giveBack(o))
			c.tasks.post(func() { done(o.n, err) })
		})
	}
	c.start(o, t)
}

// reply sends a message that belongs to no transfer; owe, if the request's credit goes back now.
func (c *conn) reply(t *tx, owe bool) {
	c.mu.Lock()
	defer c.unlock()
	if c.state != established {
		return
	}
	if t != nil {
		c.send(t)
	}
	if owe {
		c.flow.owe()
	}
	c.kick(false)
}

// putImmediate: data came with the message.
func (c *conn) putImmediate(h *LNetHeader, payload []byte) {
	n := 0
	if b, err := c.n.put(c.ctx, c.peer.nid, h); err == nil {
		n = copy(b.Data, payload)
		b.done(n, nil)
	}
	c.ack(h, n)
}

// ack sends LNet's ACK, if the PUT asks for it.
func (c *conn) ack(put *LNetHeader, n int) {
	if put.Handle == noHandle {
		return
	}
	h := c.header(LNetAck, Address{Match: put.Address.Match})
	h.Handle, h.Length = put.Handle, uint32(n)
	c.reply(&tx{class: crediting, msg: Message{Type: Immediate, LNet: h}}, false)
}

// putReq: a peer wants to write. It holds the credit until PUT_DONE has come, since that takes the buffer.
func (c *conn) putReq(req *Message) {
	nak := func(status int32) {
		c.reply(&tx{class: free, msg: Message{Type: PutNak, Cookie: req.Cookie, Status: status}}, true)
	}
	b, err := c.n.put(c.ctx, c.peer.nid, &req.LNet)
	if err != nil {
		nak(-enodata)
		return
	}
	data := b.Data[:min(uint64(len(b.Data)), uint64(req.LNet.PayloadLen))]
	if len(data) == 0 || len(data) > MaxTransfer {
		b.done(0, nil)
		nak(0)
		return
	}
	m, err := c.n.pool.get(c.ctx, data, false, true)
	if err != nil {
		b.done(0, err)
		nak(-enomem)
		return
	}
	o := &op{cookie: c.n.nextCookie(), data: data, m: m, waits: PutDone}
	ack := Message{Type: PutAck, Cookie: req.Cookie, SinkCookie: o.cookie, Desc: m.desc()}
	c.serve(o, &tx{class: free, msg: ack, chain: m.chain()}, func(n int, err error) {
		b.done(n, err)
		if err == nil {
			c.ack(&req.LNet, n)
		}
	})
}

// getImmediate: a peer wants so little that it fits in a message.
func (c *conn) getImmediate(get *LNetHeader) {
	h := c.header(LNetReply, Address{})
	h.Handle = get.Handle
	t := &tx{class: crediting, msg: Message{Type: Immediate}}
	b, err := c.n.get(c.ctx, c.peer.nid, get)
	if err == nil {
		t.msg.Payload = b.Data[:min(uint64(len(b.Data)), uint64(get.Length), MaxImmediate)]
	}
	h.PayloadLen = uint32(len(t.msg.Payload))
	t.msg.LNet = h
	c.serve(&op{n: len(t.msg.Payload)}, t, b.done)
}

// getReq: a peer wants us to write. All of it goes in one list: registration, WRITEs, and the message that says so, which cannot overtake
// them.
func (c *conn) getReq(req *Message) {
	fail := func(status int32) {
		c.reply(&tx{class: free, msg: Message{Type: GetDone, Cookie: req.Cookie, Status: status}}, true)
	}
	b, err := c.n.get(c.ctx, c.peer.nid, &req.LNet)
	if err != nil {
		fail(-enodata)
		return
	}
	n := min(uint64(len(b.Data)), req.Desc.Len(), uint64(req.LNet.Length))
	if n == 0 || n > MaxTransfer || len(req.Desc.Frags) > int(c.params.MaxFrags) {
		b.done(0, nil)
		if n == 0 {
			fail(0)
		} else {
			fail(-emsgsize)
		}
		return
	}
	m, err := c.n.pool.get(c.ctx, b.Data[:n], false, false)
	if err != nil {
		b.done(0, err)
		fail(-enomem)
		return
	}
	t := &tx{class: free, msg: Message{Type: GetDone, Cookie: req.Cookie, Status: int32(n)}, chain: append(m.chain(), writes(m, req.Desc, n)...)}
	c.serve(&op{m: m, n: int(n)}, t, b.done)
	c.reply(nil, true)
}

func (c *conn) header(t LNetType, at Address) LNetHeader {
	return LNetHeader{To: c.peer.nid, From: c.n.nid, ToPID: lustrePID, FromPID: lustrePID, Type: t, Address: at}
}
