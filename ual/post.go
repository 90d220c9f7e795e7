package ual

import (
	"fmt"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
)

// PostSend posts work requests: one message for as many as fit.
func (q *QP) PostSend(wrs []ci.SendWR) (int, error) {
	if q.user.PostSend != nil {
		if err := q.ca.bypassError(schema.CmdPostSend); err != nil {
			return 0, err
		}
		return q.user.PostSend(wrs)
	}
	note(&q.sent)
	q.send.Lock()
	defer q.send.Unlock()
	total := 0
	for {
		n, sent, err := q.sendSome(wrs[total:])
		total += n
		if err != nil || total == len(wrs) || n < sent {
			return total, err
		}
	}
}

// sendSome posts the first work requests in one message. sent is the number in the message, n the number accepted.
func (q *QP) sendSome(wrs []ci.SendWR) (n, sent int, err error) {
	x := q.ca.c.begin()
	defer x.end()
	body := len(x.out)
	x.out = native.AppendPost(x.out, q.handle, 0)
	for i := range wrs {
		w := &wrs[i]
		limited := *w
		w = limit(&limited)
		if sent == schema.MaxBatch || len(x.out)+native.SendSize(w) > schema.MaxMessage {
			break
		}
		x.out = native.AppendSend(x.out, w, q.handles(w))
		sent++
	}
	native.SetPostCount(x.out[body:], sent)
	n, err = q.ca.c.posted(schema.CmdPostSend, x, sent)
	return n, sent, err
}

// handles returns the handles of the objects that a work request of this QP uses.
func (q *QP) handles(w *ci.SendWR) (h schema.SendHandles) {
	if q.create.Type == ci.UD {
		h.AV = handleAs[*AV](q.ca, w.To.AV)
	}
	if w.Op == ci.OpBindMW && w.Ext != nil {
		h.MW, h.MR = handleAs[*MW](q.ca, w.Ext.Bind.MW), handleAs[*MR](q.ca, w.Ext.Bind.MR)
	}
	return h
}

// limit shortens what exceeds the limits of the protocol to one more than a driver accepts, so that the driver's own
// check rejects it in its own order.
func limit(w *ci.SendWR) *ci.SendWR {
	if len(w.SGL) > schema.MaxSGE {
		w.SGL = w.SGL[:schema.MaxSGE+1]
	}
	if len(w.Inline) > schema.MaxInline {
		w.Inline = w.Inline[:schema.MaxInline+1]
	}
	return w
}

// postRecv posts receive buffers to a QP or an SRQ: one message for as many as fit.
func (c *Client) postRecv(cmd schema.Command, queue schema.Handle, wrs []ci.RecvWR) (int, error) {
	total := 0
	for {
		n, sent, err := c.recvSome(cmd, queue, wrs[total:])
		total += n
		if err != nil || total == len(wrs) || n < sent {
			return total, err
		}
	}
}

func (c *Client) recvSome(cmd schema.Command, queue schema.Handle, wrs []ci.RecvWR) (n, sent int, err error) {
	x := c.begin()
	defer x.end()
	body := len(x.out)
	x.out = native.AppendPost(x.out, queue, 0)
	for i := range wrs {
		w := wrs[i]
		if len(w.SGL) > schema.MaxSGE {
			w.SGL = w.SGL[:schema.MaxSGE+1]
		}
		if sent == schema.MaxBatch || len(x.out)+native.RecvSize(&w) > schema.MaxMessage {
			break
		}
		x.out = native.AppendRecv(x.out, &w)
		sent++
	}
	native.SetPostCount(x.out[body:], sent)
	n, err = c.posted(cmd, x, sent)
	return n, sent, err
}

// posted sends a post of sent work requests and returns the number that was accepted.
func (c *Client) posted(cmd schema.Command, x *call, sent int) (int, error) {
	if err := c.roundTrip(cmd, x, nil); err != nil {
		return 0, err
	}
	if x.header.Status != 0 {
		n, _, err := x.errorReply()
		return min(n, sent), err
	}
	n, err := native.ParseAccepted(x.body)
	if err == nil && n > sent {
		err = fmt.Errorf("ual: %d work requests accepted of %d", n, sent)
	}
	if err != nil {
		return 0, badReply(cmd, err)
	}
	return n, nil
}

// PostRecv posts receive buffers.
func (q *QP) PostRecv(wrs []ci.RecvWR) (int, error) {
	if q.user.PostRecv != nil {
		if err := q.ca.bypassError(schema.CmdPostRecv); err != nil {
			return 0, err
		}
		return q.user.PostRecv(wrs)
	}
	note(&q.recvd)
	q.recv.Lock()
	defer q.recv.Unlock()
	return q.ca.c.postRecv(schema.CmdPostRecv, q.handle, wrs)
}
