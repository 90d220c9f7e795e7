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
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

// A Conn is a connection to a peer. Put and Get may be called concurrently. The depth bounds the number of transfers in
// progress; further calls wait.
type Conn struct {
	n      *Node
	id     *cmid.ID
	addr   netip.Addr // of the peer
	peer   uint64     // NID
	params params
	slots  chan struct{}     // of local transfers: one for each buffer for a reply
	begins chan func() error // of Put and Get, to be run by run
	wcs    chan []ci.WC      // completions, from pumps
	ctx    context.Context
	cancel context.CancelCauseFunc // ends the connection; the first reason counts
	over   chan struct{}           // closed at the end; then err is set
	err    error

	// The other fields are used only by the goroutine of run, so they need no lock.
	stamp   uint64 // of the peer
	flow    flow
	pool    *accesslayer.FastRegPool // for the memory of transfers
	mr      *accesslayer.MR
	mem     []byte         // of messages: send buffers, then receive buffers
	sending []*send        // by send buffer; nil if it is free
	ops     map[cookie]*op // all transfers
	last    cookie
}

// A send is a message to be sent.
type send struct {
	msg   message
	chain []ci.SendWR // work requests before the message: registration, WRITE
	op    *op         // the transfer to which they belong
}

// maxRequests is the limit of messages that wait for credits. It bounds the memory that a peer occupies if it returns
// no credits for ACKs.
const maxRequests = 1000

// errPeerRequest is the cause of the end of a connection whose work was flushed for no other known reason.
var errPeerRequest = errors.New("lnd: the queue pair failed, and no local work request did: the peer may have sent " +
	"an invalid request")

// The low bits of a work request ID are its kind; the other bits are an index. Registrations and WRITEs have the ID 0,
// because they complete only with an error.
const (
	wrSend = 0 // by send buffer
	wrRecv = 1 // by receive buffer
	wrInv  = 2 // by transfer: its cookie
	wrBits = 2
)

func (n *Node) newConn(addr netip.Addr, peer uint64, p params) *Conn {
	return &Conn{n: n, addr: addr, peer: peer, params: p, begins: make(chan func() error), wcs: make(chan []ci.WC),
		over: make(chan struct{}), ops: map[cookie]*op{}}
}

// setup creates what a connection needs beside its queue pair, and posts the receives. The peer may send as soon as it
// gets the request or the reply.
func (c *Conn) setup(id *cmid.ID) error {
	c.id = id
	// The context ends when the peer disconnects, or when the adapter is removed.
	c.ctx, c.cancel = context.WithCancelCause(id.Context())
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
		// The pool always has a free region, so no transfer waits for one, and there can be no deadlock. Slots bound
		// the local transfers. Credits bound those of the peer, and return together with their regions. MaxPages
		// includes one page because memory may begin in the middle of a page.
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

// start starts the goroutines after both ends have agreed. Earlier completions wait in the completion queue.
func (c *Conn) start(stamp uint64, agreed params) error {
	c.stamp, c.params = stamp, agreed
	c.flow, c.slots = newFlow(int(agreed.Depth)), make(chan struct{}, agreed.Depth)
	p := accesslayer.PumpConfig{OnStop: c.cancel,
		Handle: func(wcs []ci.WC) { // on a goroutine of the access layer, which reuses wcs
			select {
			case c.wcs <- slices.Clone(wcs):
			case <-c.ctx.Done():
			}
		}}
	_, err := c.id.SendCQ().NewPump(p) // the CQ of both queues
	if err == nil {
		c.n.wg.Go(c.run)
	}
	return err
}

// run handles all events of the connection until its end.
func (c *Conn) run() {
	defer context.AfterFunc(c.n.ctx, func() { c.cancel(net.ErrClosed) })()
	probe := time.NewTicker(max(1, c.n.cfg.Timeout/2))
	defer probe.Stop()
	for c.ctx.Err() == nil {
		var err error
		select {
		case wcs := <-c.wcs:
			for i := 0; i < len(wcs) && err == nil; i++ {
				err = c.completed(wcs[i])
			}
		case begin := <-c.begins:
			err = begin()
		case <-probe.C:
			c.flow.probe()
		case <-c.ctx.Done():
		}
		if err = errors.Join(err, c.send()); err != nil {
			c.cancel(fmt.Errorf("lnd: the connection to %v: %w", c.addr, err))
		}
	}
	// When the queue pair and the regions are destroyed, no adapter reads the memory of transfers, and no peer can
	// write to it. Only then do the transfers end, and their memory is the application's again.
	c.err = context.Cause(c.ctx)
	if err := c.close(); err != nil {
		slog.Error("lnd: closing a connection", "peer", c.addr, "error", err)
	}
	for _, o := range c.ops {
		o.done(0, c.err)
	}
	close(c.over)
}

// close destroys the objects in the order that their dependencies require.
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

// unlessDestroyed returns err, or nil if the object was destroyed before because its adapter was removed.
func unlessDestroyed(err error) error {
	if errors.Is(err, accesslayer.ErrClosed) {
		return nil
	}
	return err
}

// Close ends the connection and its transfers, and waits for them. It is idempotent. It must not be called from a
// callback.
func (c *Conn) Close() error {
	c.cancel(net.ErrClosed)
	<-c.over
	return nil
}

// completed handles a completion.
func (c *Conn) completed(wc ci.WC) error {
	i := int(wc.ID >> wrBits)
	switch what := wc.ID & (1<<wrBits - 1); {
	case wc.Status == ci.WCFlushErr:
		// No local work request failed, since its completion would have come first. If the connection manager did not
		// end the connection, the cause was a request of the peer.
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
		return errors.Join(err, c.postRecv(i)) // before the credit is returned: run sends later
	case what == wrInv:
		return c.invalidated(c.ops[cookie(i)])
	}
	return nil
}

// expect decodes a message. It checks that the message is from the peer, is addressed to this node, and had a credit if
// it needs one.
func (c *Conn) expect(b []byte) (message, error) {
	m, err := parse(b)
	if err == nil && (m.From != c.peer || m.FromStamp != c.stamp || m.To != c.n.nid || m.ToStamp != c.n.stamp) {
		err = malformed("it is from another node than the peer, or for another node than this one (has one "+
			"restarted?): %+v", m.header)
	}
	if err == nil {
		err = c.flow.received(m.Type, m.Credits)
	}
	return m, err
}

// send sends the messages that may be sent. A message and the work requests before it are posted as one list.
func (c *Conn) send() error {
	if len(c.flow.requests) > maxRequests {
		return fmt.Errorf("lnd: %d ACKs wait for credits, and the peer returns none", len(c.flow.requests))
	}
	for s := c.flow.next(); s != nil; s = c.flow.next() {
		i := slices.Index(c.sending, nil) // flow.next returns a message only if there is one
		c.sending[i] = s
		s.msg.From, s.msg.FromStamp = c.n.nid, c.n.stamp
		s.msg.To, s.msg.ToStamp = c.peer, c.stamp
		n := len(s.msg.append(c.mem[i*msgSize : i*msgSize]))
		wr := ci.SendWR{ID: uint64(i)<<wrBits | wrSend, Op: ci.OpSend, Flags: ci.SendSignaled | ci.SendSolicited,
			SGL: c.sgl(i, n)}
		if _, err := c.id.QP().PostSend(append(s.chain, wr)); err != nil {
			return err
		}
		if s.op != nil {
			s.op.posted = true
		}
	}
	return nil
}
