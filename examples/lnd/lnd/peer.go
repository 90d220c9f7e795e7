package lnd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// peer is another node, from when we first hear of it. Node.mu guards it.
type peer struct {
	nid     NID
	stamp   uint64  // its incarnation, 0: not known
	conns   []*conn // established; usually one, the last is used
	dialing bool
	using   int           // by requests of either end and by who waits for them: then it is not forgotten
	races   int           // requests refused since our own was under way
	tries   int           // attempts that are over
	err     error         // of the last of them
	changed chan struct{} // closed, and replaced, when any of this changes
}

const (
	maxRaces = 20          // then the peer has its way
	maxTries = 10          // of one attempt, in changing terms
	raceWait = time.Second // for the peer's own request to come, before we ask again
)

// peer finds or makes one; mu is held.
func (n *Node) peer(nid NID) *peer {
	p := n.peers[nid]
	if p == nil {
		p = &peer{nid: nid, changed: make(chan struct{})}
		n.peers[nid] = p
	}
	return p
}

func (p *peer) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// connect gives the connection to a peer, and makes one if there is none. Whoever else wants one meanwhile waits for the same.
func (n *Node) connect(ctx context.Context, nid NID) (*conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peer(nid)
	p.using++
	defer n.releaseLocked(p)
	for tries := p.tries; ; {
		switch {
		case n.ended:
			return nil, net.ErrClosed
		case len(p.conns) > 0:
			return p.conns[len(p.conns)-1], nil
		case p.tries > tries:
			return nil, p.err
		case !p.dialing:
			p.dialing = true
			p.using++
			n.wg.Add(1)
			go n.dial(p)
		}
		changed := p.changed
		n.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		n.mu.Lock()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("lnd: connecting to %v: %w", nid, context.Cause(ctx))
		}
	}
}

// dial is one attempt to connect: as many requests as it takes to agree.
func (n *Node) dial(p *peer) {
	defer n.wg.Done()
	ctx, cancel := n.within(max(5*time.Second, n.cfg.Timeout/4))
	defer cancel()
	err := n.negotiate(ctx, p)
	n.mu.Lock()
	defer n.mu.Unlock()
	p.dialing, p.races = false, 0
	defer n.releaseLocked(p)
	p.tries++
	p.err = nil
	if err != nil {
		p.err = fmt.Errorf("lnd: connecting to %v: %w", p.nid, err)
	}
	p.change()
}

// within is a context for so long, by the node's clock.
func (n *Node) within(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(n.ctx)
	t := n.clock.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() { t.Stop(); cancel(nil) }
}

func (n *Node) negotiate(ctx context.Context, p *peer) error {
	want := n.most()
	for range maxTries {
		err := n.request(ctx, p, want)
		r, ok := errors.AsType[*Reject](err)
		if !ok {
			return err
		}
		if r.Why == WhyRace {
			if n.awaitConn(ctx, p) {
				return nil
			}
			continue
		}
		n.mu.Lock()
		p.stamp = r.Stamp
		n.mu.Unlock()
		if want, ok = retry(r, want); !ok {
			return err
		}
	}
	return fmt.Errorf("no agreement after %d requests", maxTries)
}

// most is what we can have.
func (n *Node) most() Params {
	return Params{Depth: uint16(n.cfg.Depth), MaxFrags: MaxFrags, MsgSize: MsgSize}
}

// request asks once.
func (n *Node) request(ctx context.Context, p *peer, want Params) error {
	l, err := n.transport.dial(ctx, p.nid.Addr())
	if err != nil {
		return err
	}
	c, err := n.newConn(p, l, want)
	if err != nil {
		return errors.Join(err, c.destroy())
	}
	n.mu.Lock()
	req := Message{Version: version2, Type: ConnReq, From: n.nid, FromStamp: n.stamp, To: p.nid, ToStamp: p.stamp, Params: c.params}
	n.mu.Unlock()
	reply, err := l.connect(ctx, req.Append(nil, n.cfg.Checksum))
	var ack Message
	if err == nil {
		ack, err = accept(reply, &req)
	}
	if err != nil {
		c.fail(err)
		return err
	}
	n.add(c, ack.FromStamp, ack.Params)
	return nil
}

// awaitConn waits for a connection that the peer makes, but not for long.
func (n *Node) awaitConn(ctx context.Context, p *peer) bool {
	late := make(chan struct{})
	defer n.clock.AfterFunc(raceWait, func() { close(late) }).Stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(p.conns) == 0 {
		changed := p.changed
		n.mu.Unlock()
		ok := true
		select {
		case <-changed:
		case <-late:
			ok = false
		case <-ctx.Done():
			ok = false
		}
		n.mu.Lock()
		if !ok {
			break
		}
	}
	return len(p.conns) > 0
}

// newConn is newConn, and the node knows of it.
func (n *Node) newConn(p *peer, l link, want Params) (*conn, error) {
	c, err := newConn(n, p, l, want)
	if err != nil {
		return c, err
	}
	n.mu.Lock()
	n.conns[c] = struct{}{}
	ended := n.ended
	n.mu.Unlock()
	if ended {
		c.fail(net.ErrClosed) // shutdown did not see it
	}
	return c, nil
}

// listen answers requests, a bounded number at a time.
func (n *Node) listen() {
	defer n.wg.Done()
	busy := make(chan struct{}, 64)
	for {
		l, err := n.transport.accept(n.ctx)
		if err != nil {
			if n.ctx.Err() == nil {
				n.cfg.Logger.Error("lnd: listening", "error", err)
			}
			return
		}
		busy <- struct{}{}
		n.wg.Add(1)
		go func() {
			defer n.wg.Done()
			defer func() { <-busy }()
			if err := n.answer(l); err != nil {
				n.cfg.Logger.Info("lnd: a request to connect came to nothing", "error", err)
			}
		}()
	}
}

// answer decides on a request.
func (n *Node) answer(l link) error {
	refuse := func(why Why) error {
		r := Reject{Version: version2, Why: why, Stamp: n.stamp, Params: n.most()}
		return l.reject(r.Append(nil))
	}
	req, why := judge(l.request(), n.nid, n.stamp, n.most())
	if why != 0 {
		return errors.Join(refuse(why), l.close())
	}
	n.mu.Lock()
	p := n.peer(req.From)
	// Both ends ask each other at the same time. One of the two requests must win, the same at both ends.
	race := p.dialing && req.From.rank() < n.nid.rank() && p.races < maxRaces
	if race {
		p.races++
	}
	p.using++
	n.mu.Unlock()
	defer n.release(p)
	if race {
		return errors.Join(refuse(WhyRace), l.close())
	}
	c, err := n.newConn(p, l, req.Params)
	if err != nil {
		return errors.Join(err, refuse(WhyResources), c.destroy())
	}
	ctx, cancel := n.within(max(5*time.Second, n.cfg.Timeout/4))
	defer cancel()
	// Made with less depth than asked for? The answer says so, and both ends keep to it.
	ack := Message{Version: version2, Type: ConnAck, From: n.nid, FromStamp: n.stamp, To: req.From, ToStamp: req.FromStamp, Params: c.params}
	if err := l.confirm(ctx, ack.Append(nil, n.cfg.Checksum)); err != nil {
		c.fail(err)
		return err
	}
	n.add(c, req.FromStamp, c.params)
	return nil
}

// release ends a use of a peer. One about which there is nothing to know is forgotten.
func (n *Node) release(p *peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.releaseLocked(p)
}

func (n *Node) releaseLocked(p *peer) {
	p.using--
	n.unlessUsed(p)
}

func (n *Node) unlessUsed(p *peer) {
	if p.using == 0 && len(p.conns) == 0 && n.peers[p.nid] == p {
		delete(n.peers, p.nid)
	}
}

// add makes a connection one of its peer's; those to an earlier incarnation of the peer end.
func (n *Node) add(c *conn, stamp uint64, agreed Params) {
	c.establish(stamp, agreed)
	p := c.peer
	n.mu.Lock()
	var stale []*conn
	if _, live := n.conns[c]; live {
		for _, o := range p.conns {
			if o.stamp != stamp {
				stale = append(stale, o)
			}
		}
		p.conns = append(p.conns, c)
		p.stamp = stamp
		p.change()
	}
	n.mu.Unlock()
	for _, o := range stale {
		o.fail(ErrStale)
	}
}

// forget takes a connection out: nothing new goes over it.
func (n *Node) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
	c.peer.conns = slices.DeleteFunc(c.peer.conns, func(o *conn) bool { return o == c })
	c.peer.change()
	n.unlessUsed(c.peer)
}
