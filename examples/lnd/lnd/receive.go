package lnd

import (
	"fmt"

	"ciddk/ci"
)

// receive takes a message apart; mu is held. What concerns transfers that are under way is done here, at once: the rest of the connection may
// wait for it. What a peer begins goes to the application's handlers, which may take their time.
//
// A buffer is posted again before its credit goes back.
func (c *conn) receive(wc ci.WC) {
	i := int(wc.ID >> wrBits)
	m, err := Parse(c.bufs.received(i, wc.Length))
	switch {
	case err != nil:
	case m.Version != version2 || m.From != c.peer.nid || m.To != c.n.nid:
		err = malformed("%v of version %#x from %v to %v", m.Type, m.Version, m.From, m.To)
	case m.FromStamp != c.stamp || m.ToStamp != c.n.stamp:
		err = ErrStale
	default:
		err = c.flow.received(m.Type, m.Credits)
	}
	if err == nil {
		err = c.dispatch(i, &m)
	}
	if err != nil {
		c.failLocked(fmt.Errorf("lnd: a message of %v: %w", c.peer.nid, err))
	}
}

func (c *conn) dispatch(i int, m *Message) error {
	switch m.Type {
	case Noop:
		return c.repost(i)
	case Immediate:
		return c.immediate(i, m)
	case PutReq:
		req := *m
		c.tasks.post(func() { c.putReq(&req) })
		return c.repost(i) // the credit goes back with PUT_NAK, or stays for PUT_DONE
	case GetReq:
		req := *m
		c.tasks.post(func() { c.getReq(&req) })
		return c.repost(i)
	}
	// The others answer, by cookie.
	o := c.ops[m.Cookie]
	want := m.Type
	if want == PutNak {
		want = PutAck
	}
	if o == nil || o.waits != want {
		return malformed("%v for no transfer that waits for it", m.Type)
	}
	if err := c.repost(i); err != nil {
		return err
	}
	switch m.Type {
	case PutAck:
		c.flow.answered()
		return c.putAck(o, m)
	case PutNak:
		c.flow.answered()
		err := ErrRefused
		if m.Status < 0 {
			err = failure(m.Status)
		}
		c.answer(o, 0, err)
	case PutDone:
		c.flow.owe()
		if m.Status < 0 {
			c.answer(o, 0, failure(m.Status))
		} else {
			c.answer(o, len(o.data), nil)
		}
	case GetDone:
		c.flow.answered()
		switch {
		case m.Status < 0:
			c.answer(o, 0, failure(m.Status))
		case int(m.Status) > len(o.data):
			return malformed("%d bytes for a GET of %d", m.Status, len(o.data))
		default:
			c.answer(o, int(m.Status), nil)
		}
	default:
		return malformed("%v on a connection", m.Type)
	}
	return nil
}

// repost gives receive buffer i back to the adapter.
func (c *conn) repost(i int) error {
	_, err := c.qp.PostRecv(c.bufs.recvWR(i))
	if err == nil {
		c.working++
	}
	return err
}

// release gives a buffer back whose message the application has handled, and with it the credit.
func (c *conn) release(i int) {
	c.mu.Lock()
	defer c.unlock()
	if c.state != established {
		return
	}
	if err := c.repost(i); err != nil {
		c.failLocked(err)
		return
	}
	c.flow.owe()
	c.kick(false)
}

// immediate is LNet's own message. Answers are handled at once: late ones, to transfers that were given up, are nobody's.
func (c *conn) immediate(i int, m *Message) error {
	h := m.LNet
	if uint64(h.PayloadLen) > uint64(len(m.Payload)) && h.Type != LNetGet {
		return malformed("%d bytes of payload, of which %d are there", h.PayloadLen, len(m.Payload))
	}
	switch h.Type {
	case LNetPut:
		payload := m.Payload[:h.PayloadLen] // in the receive buffer, until release
		c.tasks.post(func() { c.putImmediate(&h, payload); c.release(i) })
		return nil
	case LNetGet:
		c.tasks.post(func() { c.getImmediate(&h); c.release(i) })
		return nil
	case LNetAck, LNetReply:
	default:
		return malformed("operation %d of LNet", h.Type)
	}
	if o := c.ops[h.Handle.Object]; o != nil && o.waits == Immediate && h.Handle.Interface == c.n.stamp {
		n, want := int(min(uint64(h.Length), uint64(len(o.data)))), len(o.data)
		if h.Type == LNetReply {
			n = copy(o.data, m.Payload[:h.PayloadLen])
		}
		var err error
		if n == 0 && want > 0 { // there is no other way to say so, in LNet
			err = ErrRefused
		}
		c.answer(o, n, err)
	}
	if err := c.repost(i); err != nil {
		return err
	}
	c.flow.owe()
	return nil
}
