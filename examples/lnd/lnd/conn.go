package lnd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
)

// conn is a connection: a queue pair with its buffers, and the protocol on it. All completions come from one pump; the lock guards
// everything, and is never held while foreign code runs.
type conn struct {
	n    *Node
	peer *peer
	link link
	qp   ci.QP
	cq   *accesslayer.CQ
	pump *accesslayer.Pump
	bufs *buffers

	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	state    state
	err      error // why it is over
	stamp    uint64
	params   Params
	flow     flow[*tx]
	ops      map[uint64]*op // that wait for an answer, by cookie
	sending  []*tx          // by send buffer; nil: free
	noops    map[int]bool   // send buffers with NOOPs
	early    []ci.WC        // messages from before the connection is established
	invs     map[uint64]*op // whose invalidation is under way
	lastInv  uint64
	working  int           // work requests that will complete
	drained  chan struct{} // closed when there are none, of a connection that is closing
	late     []func()      // for when the lock is released
	doomed   []*op         // for when the queue pair is gone
	lastSent time.Duration
	timer    clock.Timer
	tasks    serial
	wrs      []ci.SendWR
}

type state uint8

const (
	connecting state = iota
	established
	closing
	closed
)

// A work request's ID says in its low bits what it is, and above which one.
const (
	wrSend  = 1 // by send buffer
	wrRecv  = 2 // by receive buffer
	wrChain = 3 // registrations and WRITEs: they only complete if they fail, and the SEND behind them then fails, too
	wrInv   = 4 // by op
	wrBits  = 3
)

// sendDepth is the room that the send queue must have: for each message a registration of two requests, all pieces of a peer, and the
// message; and the invalidations of transfers at their end, of which there are as many as there can be transfers in both directions.
func sendDepth(depth int) int { return depth*(2+MaxFrags+1) + 2*depth }

// newConn makes everything that a connection needs, up to a queue pair in Init with its receives posted. Where the adapter has not enough for
// the depth, there is less of it: c.params.Depth tells. After an error, destroy what there is.
func newConn(n *Node, p *peer, l link, want Params) (c *conn, err error) {
	c = &conn{n: n, peer: p, link: l, params: want, ops: map[uint64]*op{}, noops: map[int]bool{}, invs: map[uint64]*op{}, drained: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(n.ctx)
	c.tasks.wg = &n.wg
	if err = c.create(); err != nil {
		c.cancel(err)
		return c, err
	}
	n.wg.Add(1)
	go c.watch()
	return c, nil
}

func (c *conn) create() (err error) {
	pd := c.n.transport.pd()
	attr, depth := pd.CA().Adapter().Attr(), int(c.params.Depth)
	for depth > minDepth && (sendDepth(depth) > attr.MaxWRs || sendDepth(depth)+recvs(depth) > attr.MaxCQEs) {
		depth-- // what the adapter never has need not be asked for
	}
	for ; ; depth-- {
		err = c.createQP(pd, depth)
		if err == nil || !outOf(err) || depth == minDepth {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("lnd: making a queue pair for %d messages: %w", depth, err)
	}
	c.params.Depth = uint16(depth)
	if c.bufs, err = newBuffers(pd, depth); err != nil {
		return err
	}
	c.sending = make([]*tx, depth)
	if c.pump, err = c.cq.NewPump(accesslayer.PumpConfig{Handle: c.completed, OnStop: func(err error) { c.fail(err) }}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range recvs(depth) {
		if _, err = c.qp.PostRecv(c.bufs.recvWR(i)); err != nil {
			return err
		}
		c.working++
	}
	return nil
}

func (c *conn) createQP(pd *accesslayer.PD, depth int) (err error) {
	if c.cq, err = pd.NewCQ(ci.CQCreate{Size: sendDepth(depth) + recvs(depth)}, accesslayer.CQHandler{}); err != nil {
		return err
	}
	c.qp, err = c.link.createQP(ci.QPCreate{Type: ci.RC, SendCQ: c.cq, RecvCQ: c.cq,
		QPCaps: ci.QPCaps{SendDepth: sendDepth(depth), RecvDepth: recvs(depth), SendSGE: 1, RecvSGE: 1}})
	if err != nil {
		err = errors.Join(err, c.cq.Close())
		c.cq = nil
	}
	return err
}

// establish begins the traffic, when both ends have agreed: with messages that came before.
func (c *conn) establish(stamp uint64, agreed Params) {
	c.mu.Lock()
	defer c.unlock()
	if c.state != connecting {
		return
	}
	c.state, c.stamp, c.params = established, stamp, agreed
	c.flow = newFlow[*tx](int(agreed.Depth))
	c.lastSent = c.n.clock.Now()
	c.timer = c.n.clock.AfterFunc(c.n.cfg.Timeout/4, c.tick)
	for _, wc := range c.early {
		c.receive(wc)
	}
	c.early = nil
	c.kick(false)
}

// unlock releases the lock, and then calls what has waited for that.
func (c *conn) unlock() {
	late := c.late
	c.late = nil
	c.mu.Unlock()
	for _, f := range late {
		f()
	}
}

// completed gets all completions, from the pump.
func (c *conn) completed(wcs []ci.WC) {
	c.mu.Lock()
	defer c.unlock()
	for _, wc := range wcs {
		what, i := wc.ID&(1<<wrBits-1), wc.ID>>wrBits
		if what != wrChain {
			c.working--
		}
		if wc.Status != ci.WCSuccess && c.state < closing {
			c.failLocked(fmt.Errorf("lnd: the connection to %v failed: %w", c.peer.nid, wc.Status))
		}
		switch what {
		case wrSend:
			c.sent(int(i), wc.Status)
		case wrRecv:
			switch {
			case wc.Status != ci.WCSuccess:
			case c.state == connecting:
				c.early = append(c.early, wc)
			case c.state == established:
				c.receive(wc)
			}
		case wrInv:
			o := c.invs[i]
			delete(c.invs, i)
			if wc.Status == ci.WCSuccess {
				o.m.state = invalidated
			}
			c.drop(o, nil)
		}
	}
	if c.state == established {
		c.kick(false)
	}
	c.checkDrained()
}

// sent: the message in send buffer i has arrived, or has not.
func (c *conn) sent(i int, st ci.WCStatus) {
	t := c.sending[i]
	c.sending[i] = nil
	if c.noops[i] {
		delete(c.noops, i)
		c.flow.sent(true)
		return
	}
	c.flow.sent(false)
	if t.op != nil {
		t.op.lost = t.op.lost || st != ci.WCSuccess
		c.drop(t.op, nil)
	}
}

// kick sends what may be sent; mu is held.
func (c *conn) kick(keepalive bool) {
	for c.state == established {
		t, noop, credits, ok := c.flow.next(keepalive)
		if !ok {
			return
		}
		keepalive = false
		if noop {
			t = &tx{msg: Message{Type: Noop}}
		}
		m := t.msg
		m.Version, m.Credits = version2, credits
		m.From, m.FromStamp, m.To, m.ToStamp = c.n.nid, c.n.stamp, c.peer.nid, c.stamp
		i := slices.Index(c.sending, nil) // there is one: flow lets out no more than there are
		c.sending[i] = t
		if noop {
			c.noops[i] = true
		}
		c.wrs = append(c.wrs[:0], t.chain...)
		for k := range c.wrs {
			c.wrs[k].ID = wrChain
		}
		c.wrs = append(c.wrs, ci.SendWR{ID: uint64(i)<<wrBits | wrSend, Op: ci.OpSend, Flags: ci.SendSignaled | ci.SendSolicited, SGL: c.bufs.encode(i, &m, c.n.cfg.Checksum)})
		if len(t.chain) > 0 {
			t.op.m.posted()
		}
		if _, err := c.qp.PostSend(c.wrs); err != nil {
			c.failLocked(err) // teardown finds t among those being sent
			return
		}
		c.working++
		c.lastSent = c.n.clock.Now()
	}
}

// start begins a transfer with its first message, or ends it at once if the connection is over.
func (c *conn) start(o *op, t *tx) {
	c.mu.Lock()
	defer c.unlock()
	switch c.state {
	case closing: // teardown knows better why
		o.lost = true
		c.doomed = append(c.doomed, o)
		return
	case closed:
		o.err = c.err
		c.late = append(c.late, o.finish)
		return
	}
	o.deadline = c.n.clock.Now() + c.n.cfg.Timeout
	if o.req = t; o.waits != 0 {
		o.holds++
		c.ops[o.cookie] = o
	}
	t.op = o
	c.send(t)
	c.kick(false)
}

// send queues a message of a transfer that is under way, or of none.
func (c *conn) send(t *tx) {
	if t.op != nil {
		t.op.holds++
	}
	c.flow.push(t.class, t)
}

// answer ends the wait of o for its answer.
func (c *conn) answer(o *op, n int, err error) {
	delete(c.ops, o.cookie)
	o.waits = 0
	o.n = n
	c.drop(o, err)
}

// drop lets go of o once. The last one ends it: when the peer can reach its memory no more.
func (c *conn) drop(o *op, err error) {
	if o.err == nil {
		o.err = err
	}
	if o.holds--; o.holds > 0 {
		return
	}
	switch {
	case c.state != established:
		c.doomed = append(c.doomed, o)
	case o.m != nil && o.m.exposed && o.m.state == registered:
		c.invalidate(o)
	default:
		c.late = append(c.late, o.finish)
	}
}

// invalidate takes the peer's key away, before the memory goes back to its owner.
func (c *conn) invalidate(o *op) {
	o.holds++
	c.lastInv++
	c.invs[c.lastInv] = o
	c.wrs = append(c.wrs[:0], ci.SendWR{ID: c.lastInv<<wrBits | wrInv, Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: o.m.ext.FastReg.Key})
	if _, err := c.qp.PostSend(c.wrs); err != nil {
		c.failLocked(err) // teardown finds o
		return
	}
	c.working++
}
