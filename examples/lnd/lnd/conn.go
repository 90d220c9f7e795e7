package lnd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
)

// Conn is a connection to a peer. Put and Get may be called concurrently; there are as many transfers at a time as the depth, more wait.
type Conn struct {
	n      *Node
	id     *rdmacm.ID
	addr   netip.Addr // the peer's
	peer   uint64     // NID
	params params
	slots  chan struct{}     // of our transfers: as many as there are buffers for their answers
	begins chan func() error // from Put and Get
	wcs    chan []ci.WC      // completions, from pumps
	ctx    context.Context
	cancel context.CancelCauseFunc // ends the connection; the first reason counts
	over   chan struct{}           // closed at the end; then err is set
	err    error

	// The rest belongs to one goroutine, run: there is nothing to lock.
	stamp   uint64 // the peer's
	flow    flow
	pool    *accesslayer.FastRegPool // for the memory of transfers
	mr      *accesslayer.MR
	mem     []byte         // of messages: those being sent, then those to be received
	sending []*send        // by buffer; nil: free
	ops     map[cookie]*op // all transfers
	last    cookie
}

// send is a message to be sent.
type send struct {
	msg   message
	chain []ci.SendWR // goes in front: registration, WRITE
	op    *op         // whose memory that is about
}

const maxAsking = 1000 // messages that wait for credits: a peer that takes no ACKs may not have more

// errPeerRequest is what remains when nothing else explains a flush.
var errPeerRequest = errors.New("lnd: the queue pair has failed, and not by work of ours: perhaps a request of the peer's was bad")

// A work request's ID says in its low bits what it is, and above which one. Registrations and WRITEs have none: they only complete if they fail.
const (
	wrSend = 0 // by send buffer
	wrRecv = 1 // by receive buffer
	wrInv  = 2 // by transfer: its cookie
	wrBits = 2
)

func (n *Node) newConn(addr netip.Addr, peer uint64, p params) *Conn {
	return &Conn{n: n, addr: addr, peer: peer, params: p, begins: make(chan func() error), wcs: make(chan []ci.WC), over: make(chan struct{}), ops: map[cookie]*op{}}
}

// setup makes all that a connection needs beside its queue pair, and posts the receives: the peer may send as soon as it hears of us.
func (c *Conn) setup(id *rdmacm.ID) error {
	c.id = id
	c.ctx, c.cancel = context.WithCancelCause(id.Context()) // ends when the peer disconnects, or the adapter goes
	pd, err := id.PD()
	if err != nil {
		return err
	}
	depth := int(c.params.Depth)
	c.sending, c.mem = make([]*send, depth), make([]byte, (depth+recvs(depth))*msgSize)
	if c.mr, err = pd.NewMR(ci.MRCreate{Memory: ci.Bytes(c.mem), Access: ci.LocalWrite}); err != nil {
		return err
	}
	for i := 0; i < recvs(depth) && err == nil; i++ {
		err = c.postRecv(i)
	}
	if err == nil {
		// The pool never runs dry, so nobody waits for a region (and who waits for one thing while holding another can wait for ever): our transfers
		// are bounded by slots, and the peer's by credits, which go back when their regions do. MaxPages: memory may begin in the middle of one.
		c.pool, err = pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 2 * depth, MaxPages: MaxTransfer>>12 + 1})
	}
	return err
}

func (c *Conn) postRecv(i int) error {
	_, err := c.id.QP().PostRecv([]ci.RecvWR{{ID: uint64(i)<<wrBits | wrRecv, SGL: c.sgl(len(c.sending)+i, msgSize)}})
	return err
}

func (c *Conn) sgl(buffer, n int) []ci.SGE {
	return []ci.SGE{c.mr.Region().SGE(uint64(buffer*msgSize), uint32(n))}
}

// start begins the traffic, when both ends have agreed. What came before waits in the completion queue.
func (c *Conn) start(stamp uint64, agreed params) error {
	c.stamp, c.params, c.flow, c.slots = stamp, agreed, newFlow(int(agreed.Depth)), make(chan struct{}, agreed.Depth)
	p := accesslayer.PumpConfig{OnStop: c.cancel, Handle: func(wcs []ci.WC) { // on a goroutine of the access layer, which uses wcs again
		select {
		case c.wcs <- slices.Clone(wcs):
		case <-c.ctx.Done():
		}
	}}
	_, err := c.id.SendCQ().NewPump(p) // it is the one of both queues
	if err == nil {
		c.n.wg.Go(c.run)
	}
	return err
}

// run is the connection's life: whatever happens, happens here.
func (c *Conn) run() {
	defer context.AfterFunc(c.n.ctx, func() { c.cancel(net.ErrClosed) })()
	for c.ctx.Err() == nil {
		var err error
		select {
		case wcs := <-c.wcs:
			for i := 0; i < len(wcs) && err == nil; i++ {
				err = c.completed(wcs[i])
			}
		case begin := <-c.begins:
			err = begin()
		case <-c.ctx.Done():
		}
		if err = errors.Join(err, c.send()); err != nil {
			c.cancel(fmt.Errorf("lnd: the connection to %v: %w", c.addr, err))
		}
	}
	// The end. When the queue pair and the regions have gone, no adapter looks at our memory any more, and nobody can write to it: then what
	// was under way ends, and its memory is its owner's again.
	c.err = context.Cause(c.ctx)
	if err := c.close(); err != nil {
		slog.Error("lnd: closing a connection", "peer", c.addr, "error", err)
	}
	for _, o := range c.ops {
		o.done(0, c.err)
	}
	close(c.over)
}

// close destroys what there is, in the one order that works.
func (c *Conn) close() (err error) {
	if c.id != nil {
		err = c.id.Close()
	}
	if c.pool != nil {
		err = errors.Join(err, unlessDestroyed(c.pool.Destroy()))
	}
	if c.mr != nil {
		err = errors.Join(err, unlessDestroyed(c.mr.Destroy()))
	}
	return err
}

// unlessDestroyed returns err, or nil if the object was destroyed before, as when its adapter was removed.
func unlessDestroyed(err error) error {
	if errors.Is(err, accesslayer.ErrClosed) {
		return nil
	}
	return err
}

// Close ends the connection and its transfers, and returns when all is over. It is idempotent. Not from a callback.
func (c *Conn) Close() error {
	c.cancel(net.ErrClosed)
	<-c.over
	return nil
}

// completed takes a completion.
func (c *Conn) completed(wc ci.WC) error {
	i := int(wc.ID >> wrBits)
	switch what := wc.ID & (1<<wrBits - 1); {
	case wc.Status == ci.WCFlushErr:
		// Something else has gone wrong before, and not with work of ours: its completion would have come first. If the connection manager did not
		// end the connection, either, it was a request of the peer's.
		return cmp.Or(c.id.Err(), errPeerRequest)
	case wc.Status != ci.WCSuccess:
		return wc.Err()
	case what == wrSend:
		s := c.sending[i]
		c.sending[i] = nil
		c.flow.sent(s.msg.Type)
		if s.op != nil && (s.msg.Type == putDone || s.msg.Type == getDone) {
			return c.release(s.op)
		}
	case what == wrRecv:
		m, err := c.expect(c.mem[(len(c.sending)+i)*msgSize:][:wc.Length])
		if err == nil {
			err = c.received(&m)
		}
		return errors.Join(err, c.postRecv(i)) // before the credit goes back: run sends later
	case what == wrInv:
		return c.invalidated(c.ops[cookie(i)])
	}
	return nil
}

// expect decodes a message. It must be from whom we are connected to, for us, and have a credit if it needs one.
func (c *Conn) expect(b []byte) (message, error) {
	m, err := parse(b)
	if err == nil && (m.From != c.peer || m.FromStamp != c.stamp || m.To != c.n.nid || m.ToStamp != c.n.stamp) {
		err = malformed("it is not from who connected, or not for us: was somebody restarted? %+v", m.header)
	}
	if err == nil {
		err = c.flow.received(m.Type, m.Credits)
	}
	return m, err
}

// send sends what may be sent. What belongs together is posted as one list.
func (c *Conn) send() error {
	if len(c.flow.asking) > maxAsking {
		return fmt.Errorf("lnd: %d ACKs wait for credits that do not come", len(c.flow.asking))
	}
	for s := c.flow.next(); s != nil; s = c.flow.next() {
		i := slices.Index(c.sending, nil) // there is one: flow lets out no more
		c.sending[i] = s
		s.msg.From, s.msg.FromStamp, s.msg.To, s.msg.ToStamp = c.n.nid, c.n.stamp, c.peer, c.stamp
		n := len(s.msg.append(c.mem[i*msgSize : i*msgSize]))
		wr := ci.SendWR{ID: uint64(i)<<wrBits | wrSend, Op: ci.OpSend, Flags: ci.SendSignaled | ci.SendSolicited, SGL: c.sgl(i, n)}
		if _, err := c.id.QP().PostSend(append(s.chain, wr)); err != nil {
			return err
		}
		if s.op != nil {
			s.op.posted = true
		}
	}
	return nil
}
