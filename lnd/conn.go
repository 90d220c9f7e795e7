package lnd

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

// A conn is a connection to a peer. The depth bounds the number of transfers by RDMA in progress; further calls wait.
type conn struct {
	n      *Node
	id     *cmid.ID
	peer   NID
	params params
	format format
	slots  chan struct{}     // of local transfers by RDMA (ko2iblnd: reserved credits)
	begins chan func() error // of Put and Get, to be run by run
	wcs    chan []ci.WC      // completions, from pumps
	ctx    context.Context
	cancel context.CancelCauseFunc // ends the connection; the first reason counts
	over   chan struct{}           // closed at the end; then err is set
	err    error
	stamp  uint64 // of the peer
	gone   bool   // guarded by Node.mu

	// The other fields are used only by the goroutine of run, so they need no lock.
	flow    flow
	pool    *accesslayer.FastRegPool // for the memory of transfers; made for the first one
	noPool  bool                     // the adapter has no fast registration
	mapped  func([]byte, ci.Access) (*mapping, error)
	mr      *accesslayer.MR
	mem     []byte         // of messages: send buffers, then receive buffers
	sending []*send        // by send buffer; nil if it is free
	ops     map[cookie]*op // all transfers by RDMA
	last    cookie
	waits   bool        // messages wait for credits
	stalled *time.Timer // then: begins again with each message that is sent, and ends the connection
}

// A send is a message to be sent.
type send struct {
	msg   message
	chain []ci.SendWR // work requests before the message: registration, WRITEs
	op    *op         // the transfer to which they belong
}

// extra returns the number of work requests beyond a registration, a WRITE and the message.
func (s *send) extra() int { return max(0, len(s.chain)-2) }

// maxRequests is the limit of messages that wait for credits. It bounds the memory that a peer occupies if it returns
// no credits for ACKs and REPLYs.
const maxRequests = 1000

// Causes of the end of a connection.
var (
	errPeerRequest = errors.New("lnd: the queue pair failed, and no local work request did: the peer may have sent " +
		"an invalid request")
	errStale    = errors.New("lnd: the peer was restarted")
	errCanceled = errors.New("lnd: a transfer was canceled")
)

// The low bits of a work request ID are its kind; the other bits are an index. Registrations and WRITEs have the ID 0,
// because they complete only with an error.
const (
	wrSend = 0 // by send buffer
	wrRecv = 1 // by receive buffer
	wrInv  = 2 // by transfer: its cookie
	wrBits = 2
)

func (n *Node) newConn(peer NID, version uint16, p params) *conn {
	c := &conn{n: n, peer: peer, params: p, format: n.format(version), begins: make(chan func() error),
		wcs: make(chan []ci.WC), over: make(chan struct{}), ops: map[cookie]*op{}}
	c.mapped = c.mapMemory
	return c
}

// format returns how this node encodes messages of a version.
func (n *Node) format(version uint16) format {
	return format{order: binary.LittleEndian, version: version, checksum: n.tun.Cksum != 0}
}

// setup creates what a connection needs beside its queue pair, and posts the receives. The peer may send as soon as it
// gets the request or the reply.
func (c *conn) setup(id *cmid.ID) error {
	c.id = id
	// The context ends when the peer disconnects, or when the adapter is removed.
	c.ctx, c.cancel = context.WithCancelCause(id.Context())
	pd, err := id.PD()
	if err != nil {
		return err
	}
	depth := int(c.params.Depth)
	c.sending = make([]*send, c.n.tun.sends(depth))
	c.mem = make([]byte, (len(c.sending)+recvs(depth))*msgSize)
	if c.mr, err = pd.NewMR(ci.MRCreate{Memory: ci.Bytes(c.mem), Access: ci.LocalWrite}); err != nil {
		return err
	}
	for i := 0; i < recvs(depth) && err == nil; i++ {
		err = c.postRecv(i)
	}
	return err
}

func (c *conn) postRecv(i int) error {
	_, err := c.id.QP().PostRecv([]ci.RecvWR{{ID: uint64(i)<<wrBits | wrRecv, SGL: c.sgl(len(c.sending)+i, msgSize)}})
	return err
}

func (c *conn) sgl(buffer, n int) []ci.SGE {
	return []ci.SGE{c.mr.Region().SGE(uint64(buffer*msgSize), uint32(n))}
}

// agree sets what both ends have agreed on.
func (c *conn) agree(stamp uint64, agreed params) {
	depth, t := int(agreed.Depth), &c.n.tun
	c.stamp, c.params = stamp, agreed
	c.flow, c.slots = newFlow(depth), make(chan struct{}, depth)
	c.flow.v1 = c.format.version == version1
	c.flow.high, c.flow.most = t.high(depth, c.format.version), t.sends(depth)
	c.flow.spare = int(agreed.Frags) - 1
}

// start starts the goroutines after both ends have agreed. Earlier completions wait in the completion queue.
func (c *conn) start() error {
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
func (c *conn) run() {
	defer context.AfterFunc(c.n.ctx, func() { c.cancel(net.ErrClosed) })()
	probe := time.NewTicker(cmp.Or(seconds(c.n.tun.Keepalive)/2, time.Hour))
	defer probe.Stop()
	limit := seconds(c.n.tun.Timeout)
	c.stalled = time.AfterFunc(limit, func() { c.cancel(ErrTimeout) })
	c.stalled.Stop()
	defer c.stalled.Stop()
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
			if c.n.tun.Keepalive > 0 {
				c.flow.probe()
			}
		case <-c.ctx.Done():
		}
		if err = errors.Join(err, c.send()); err != nil {
			c.cancel(fmt.Errorf("lnd: the connection to %v: %w", c.peer, err))
		}
	}
	// When the queue pair and the regions are destroyed, no adapter reads the memory of transfers, and no peer can
	// write to it. Only then do the transfers end, and their memory is the application's again.
	c.err = context.Cause(c.ctx)
	c.n.ended(c)
	if err := c.close(); err != nil {
		c.n.log.Error("lnd: closing a connection", "peer", c.peer, "error", err)
	}
	for _, o := range c.ops {
		o.end(0, c.err)
	}
	close(c.over)
}

// close destroys the objects in the order that their dependencies require.
func (c *conn) close() (err error) {
	if c.id != nil {
		err = c.id.Close()
	}
	for _, o := range c.ops {
		if o.reg != nil {
			err = errors.Join(err, o.reg.drop())
		}
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

// completed handles a completion.
func (c *conn) completed(wc ci.WC) error {
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
		return c.sent(s)
	case what == wrRecv:
		m, err := c.expect(c.mem[(len(c.sending)+i)*msgSize:][:wc.Length])
		if err == nil {
			err = c.received(&m)
		}
		return errors.Join(err, c.postRecv(i)) // before the credit is returned: run sends later
	case what == wrInv:
		return c.released(c.ops[cookie(i)])
	}
	return nil
}

// sent handles the arrival of a message at the peer.
func (c *conn) sent(s *send) error {
	c.flow.sent(s)
	if s.op != nil && (s.msg.Type == putDone || s.msg.Type == getDone) {
		return c.release(s.op)
	}
	return nil
}

// expect decodes a message. It checks that the message is from the peer, is addressed to this node, and had a credit if
// it needs one.
func (c *conn) expect(b []byte) (message, error) {
	m, err := parse(b)
	if err == nil && (m.From != c.peer || m.FromStamp != c.stamp || m.To != c.n.nid || m.ToStamp != c.n.stamp) {
		err = malformed("it is from another node than the peer, or for another node than this one (has one "+
			"restarted?): %+v", m.header)
	}
	if err == nil && len(m.where.frags) > int(c.params.Frags) {
		err = malformed("%v with memory in %d pieces, %d were agreed", m.Type, len(m.where.frags), c.params.Frags)
	}
	if err == nil {
		err = c.flow.received(m.Type, m.Credits)
	}
	if err == nil {
		c.n.counters.received[m.Type].Add(1)
	}
	return m, err
}

// encode appends an encoded message to b.
func (c *conn) encode(b []byte, s *send) []byte {
	s.msg.From, s.msg.FromStamp = c.n.nid, c.n.stamp
	s.msg.To, s.msg.ToStamp = c.peer, c.stamp
	return s.msg.append(b, c.format)
}

// send sends the messages that may be sent. A message and the work requests before it are posted as one list.
func (c *conn) send() error {
	if len(c.flow.requests) > maxRequests {
		return fmt.Errorf("lnd: %d messages wait for credits, and the peer returns none", len(c.flow.requests))
	}
	waiting := len(c.flow.requests)
	for s := c.flow.next(); s != nil; s = c.flow.next() {
		i := slices.Index(c.sending, nil) // flow.next returns a message only if there is one
		c.sending[i] = s
		n := len(c.encode(c.mem[i*msgSize:i*msgSize], s))
		wr := ci.SendWR{ID: uint64(i)<<wrBits | wrSend, Op: ci.OpSend, Flags: ci.SendSignaled | ci.SendSolicited,
			SGL: c.sgl(i, n)}
		if _, err := c.id.QP().PostSend(append(s.chain, wr)); err != nil {
			return err
		}
		if s.op != nil {
			s.op.posted = true
		}
		c.n.counters.sent[s.msg.Type].Add(1)
	}
	switch left := len(c.flow.requests); {
	case left == 0:
		c.waits = false
		c.stalled.Stop()
	case !c.waits || left < waiting:
		c.waits = true
		c.stalled.Reset(seconds(c.n.tun.Timeout))
	}
	return nil
}
