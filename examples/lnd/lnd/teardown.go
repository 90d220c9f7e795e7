package lnd

import (
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// drainTime is how long flushed work requests may take to complete. They do so at once, unless the adapter has gone.
const drainTime = 5 * time.Second

// fail ends the connection. Only the first reason counts.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.unlock()
	c.failLocked(err)
}

func (c *conn) failLocked(err error) {
	if c.state >= closing {
		return
	}
	c.state, c.err = closing, err
	c.n.wg.Add(1)
	go c.teardown()
	c.cancel(err)
	if c.timer != nil {
		c.timer.Stop()
	}
}

// watch fails the connection when it is over below.
func (c *conn) watch() {
	defer c.n.wg.Done()
	select {
	case <-c.link.done():
		c.fail(c.overBelow())
	case <-c.ctx.Done():
	}
}

func (c *conn) overBelow() error {
	return fmt.Errorf("lnd: the connection to %v is over: %w", c.peer.nid, c.link.err())
}

// teardown takes the connection apart, in the one order that works. First the queue pair goes to Error: every work request completes,
// flushed. When all have, no adapter looks at our queues or memory any more, and the queue pair can go. Then whatever was under way ends.
func (c *conn) teardown() {
	defer c.n.wg.Done()
	c.n.forget(c)
	if err := c.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}, nil); !errors.Is(err, accesslayer.ErrClosed) { // else the adapter has gone
		c.drain()
	}
	c.explain()
	if err := c.destroy(); err != nil {
		c.n.cfg.Logger.Error("lnd: closing a connection", "peer", c.peer.nid, "error", err)
	}
	c.mu.Lock()
	c.state = closed
	for _, o := range c.leftOver() {
		if o.m != nil && o.m.state == registered {
			o.m.state = doubtful
		}
		c.late = append(c.late, o.finish)
	}
	c.unlock()
}

// drain waits until nothing is under way.
func (c *conn) drain() {
	c.mu.Lock()
	c.checkDrained()
	c.unlock()
	c.await(c.drained)
}

// await waits for an event that should be near.
func (c *conn) await(what <-chan struct{}) bool {
	late := make(chan struct{})
	timer := c.n.clock.AfterFunc(drainTime, func() { close(late) })
	defer timer.Stop()
	select {
	case <-what:
		return true
	case <-late:
		return false
	}
}

// explain finds a better reason than that work was flushed: somebody else moved the queue pair, and the link knows who.
func (c *conn) explain() {
	c.mu.Lock()
	flushed := errors.Is(c.err, ci.WCFlushErr)
	c.mu.Unlock()
	if flushed && c.await(c.link.done()) {
		c.mu.Lock()
		c.err = c.overBelow()
		c.mu.Unlock()
	}
}

// checkDrained tells teardown when nothing is under way any more; mu is held.
func (c *conn) checkDrained() {
	if c.state == closing && c.working == 0 {
		select {
		case <-c.drained:
		default:
			close(c.drained)
		}
	}
}

// leftOver are the transfers that have not ended, each once, with the reason in those that were not successful before.
func (c *conn) leftOver() []*op {
	var all []*op
	seen := map[*op]bool{}
	add := func(o *op, why error) {
		if o == nil || seen[o] {
			return
		}
		seen[o] = true
		if o.lost {
			why = c.err
		}
		if o.err == nil {
			o.err = why
		}
		all = append(all, o)
	}
	for _, t := range c.sending {
		if t != nil {
			add(t.op, c.err)
		}
	}
	for _, q := range [][]*tx{c.flow.wanting, c.flow.free} {
		for _, t := range q {
			add(t.op, c.err)
		}
	}
	for _, t := range c.flow.ready {
		add(t.item.op, c.err)
	}
	for _, o := range c.ops {
		add(o, c.err)
	}
	for _, o := range c.invs {
		add(o, nil)
	}
	for _, o := range c.doomed {
		add(o, nil)
	}
	c.ops, c.invs, c.doomed, c.sending, c.flow = nil, nil, nil, nil, flow[*tx]{}
	return all
}

// destroy destroys what create made. The queue pair goes first: it uses everything else.
func (c *conn) destroy() error {
	errs := []error{unlessGone(c.link.close())}
	if c.pump != nil {
		errs = append(errs, unlessGone(c.pump.Close()))
	}
	if c.cq != nil {
		errs = append(errs, unlessGone(c.cq.Close()))
	}
	if c.bufs != nil {
		errs = append(errs, unlessGone(c.bufs.mr.Close()))
	}
	return errors.Join(errs...)
}

// abort gives a transfer up, as far as that can be done. What was not sent, and what waits for an answer of LNet only, is forgotten. If RDMA
// may be under way, it takes the connection: there is no other way to be sure that the peer leaves the memory alone.
func (c *conn) abort(o *op, err error) {
	c.mu.Lock()
	defer c.unlock()
	c.abortLocked(o, err)
}

func (c *conn) abortLocked(o *op, err error) {
	switch {
	case c.state != established || o.waits == 0: // it ends by itself, and soon
	case c.flow.remove(o.req):
		c.answer(o, 0, err)
		c.drop(o, err)
	case o.waits == Immediate:
		c.answer(o, 0, err)
	default:
		c.failLocked(err)
	}
}

// tick looks for transfers that have taken too long, and for peers that have not heard of us for long.
func (c *conn) tick() {
	c.mu.Lock()
	defer c.unlock()
	if c.state != established {
		return
	}
	now := c.n.clock.Now()
	for _, o := range c.ops {
		if now >= o.deadline {
			c.abortLocked(o, ErrTimeout)
		}
	}
	if c.state == established {
		c.kick(now-c.lastSent >= c.n.cfg.Keepalive)
		c.timer.Reset(c.n.cfg.Timeout / 4)
	}
}
