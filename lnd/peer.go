package lnd

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"
)

// A peer is a node to which there are connections, or to which one is being made. Node.mu guards it.
type peer struct {
	nid     NID
	conns   []*conn
	turn    int      // of conns
	dialing *dialing // or nil
	accepts int      // requests of the peer that are being accepted
	missing int      // connections that this end still makes (conns_per_peer)
	races   int      // requests of the peer that were rejected with WhyRace in a row
	stamp   uint64   // start time, 0 if it is not known
	version uint16
	info    *PingInfo // that the peer has pushed
}

// dialing is the work to connect to a peer. The first connection that is established ends it, whichever end began it.
type dialing struct {
	done chan struct{} // closed when there is a connection or an error
	conn *conn
	err  error
}

const (
	maxRaces     = 20 // as in ko2iblnd: then the peer's request is accepted
	quickTries   = 10 // as in ko2iblnd: attempts to connect without a delay
	maxPeerConns = 128
	maxConns     = 2048 // of all peers, those that are being accepted among them
)

// peer returns the entry of a node. The caller holds mu.
func (n *Node) peer(nid NID) *peer {
	p := n.peers[nid]
	if p == nil {
		p = &peer{nid: nid, missing: n.tun.ConnsPerPeer}
		n.peers[nid] = p
	}
	return p
}

// tidy removes a peer without connections. The caller holds mu.
func (n *Node) tidy(p *peer) {
	if len(p.conns) == 0 && p.dialing == nil && p.accepts == 0 {
		delete(n.peers, p.nid)
	}
}

// connect returns a connection to a peer, and makes one if there is none. Several connections are used in turn.
func (n *Node) connect(ctx context.Context, to NID) (*conn, error) {
	n.mu.Lock()
	p := n.peer(to)
	live := slices.DeleteFunc(slices.Clone(p.conns), func(c *conn) bool { return c.ctx.Err() != nil })
	d := p.dialing
	if d == nil && (len(live) == 0 || p.missing > 0) {
		d = &dialing{done: make(chan struct{})}
		if err := n.goUnlessClosed(func() { n.dialPeer(p, d) }); err != nil {
			n.tidy(p)
			n.mu.Unlock()
			return nil, err
		}
		p.dialing = d
	}
	if k := len(live); k > 0 {
		p.turn++
		c := live[p.turn%k]
		n.mu.Unlock()
		return c, nil
	}
	n.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// dialPeer connects to a peer, and tries again after rejections that allow it.
func (n *Node) dialPeer(p *peer, d *dialing) {
	ctx, cancel := context.WithTimeoutCause(n.ctx, seconds(n.tun.Timeout), ErrTimeout)
	defer cancel()
	n.mu.Lock()
	a := attempt{version: version2, params: n.most(), stamp: p.stamp}
	if p.version == version1 {
		a.version, a.params.Depth = version1, version1Depth
	}
	n.mu.Unlock()
	var c *conn
	err := errors.New("no attempt")
	for tries, again := 1, true; again; tries++ {
		if c, err = n.dial(ctx, p.nid, a); err == nil {
			break
		}
		a, again = a.next(err)
		r, rejected := errors.AsType[*Reject](err)
		if rejected {
			n.count("rejected by the peer: " + r.Why.String())
		}
		if again && (tries >= quickTries || rejected && r.Why == WhyRace) {
			// After a race, the connection of the peer is expected first.
			select {
			case <-d.done:
				again = false
			case <-time.After(time.Second):
			case <-ctx.Done():
				again = false
			}
		}
	}
	if err == nil {
		n.established(c, "dialed")
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.dialing == d {
		d.err, p.dialing = err, nil
		if n.ctx.Err() != nil {
			d.err = net.ErrClosed
		}
		close(d.done)
		p.missing = 0 // the connections that there are suffice
		n.tidy(p)
	}
}

// admit decides at the passive end whether a valid request is accepted. After 0, admitted must be called.
func (n *Node) admit(from NID, req *header) Why {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peer(from)
	defer n.tidy(p)
	known := p.stamp != 0 && (p.stamp != req.FromStamp || p.version != req.Version)
	p.stamp, p.version = req.FromStamp, req.Version
	switch {
	case n.closed, len(p.conns)+p.accepts >= maxPeerConns, n.held() >= maxConns:
		return WhyResources
	case known && len(p.conns) > 0: // the peer was restarted; it may connect again at once
		for _, c := range p.conns {
			c.cancel(errStale)
		}
		return WhyStale
	case p.dialing != nil && len(p.conns) == 0 && from < n.nid && p.races < maxRaces:
		p.races++
		return WhyRace
	}
	p.races = 0
	p.accepts++
	return 0
}

// held returns the number of connections, those that are being accepted among them. The caller holds mu.
func (n *Node) held() (k int) {
	for _, p := range n.peers {
		k += len(p.conns) + p.accepts
	}
	return k
}

// admitted ends what admit has begun.
func (n *Node) admitted(from NID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peer(from)
	p.accepts--
	n.tidy(p)
}

// established adds a connection to its peer, and ends those to earlier incarnations of the peer.
func (n *Node) established(c *conn, how string) {
	n.count("connections " + how)
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peer(c.peer)
	p.stamp, p.version = c.stamp, c.format.version
	for _, old := range p.conns {
		if old.stamp != c.stamp || old.format.version != c.format.version {
			old.cancel(errStale)
		}
	}
	p.missing = max(0, p.missing-1)
	if d := p.dialing; d != nil {
		d.conn, p.dialing = c, nil
		close(d.done)
	}
	if !c.gone { // it may have ended already
		p.conns = append(p.conns, c)
	}
	n.tidy(p)
}

// ended removes a connection.
func (n *Node) ended(c *conn) {
	name, usual := ending(c.err)
	n.count("connections ended: " + name)
	if !usual && n.ctx.Err() == nil {
		n.log.Warn("lnd: a connection has ended", "peer", c.peer, "reason", c.err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c.gone = true
	p := n.peer(c.peer)
	p.conns = slices.DeleteFunc(p.conns, func(x *conn) bool { return x == c })
	if len(p.conns) == 0 {
		p.missing = n.tun.ConnsPerPeer
	}
	n.tidy(p)
}

// pushed keeps what a peer says about itself.
func (n *Node) pushed(from NID, p PingInfo) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.peer(from).info = &p
	n.tidy(n.peer(from))
}

// A PeerStatus describes a peer to which there are connections.
type PeerStatus struct {
	NID         NID
	Connections int
	Version     uint16    // of the protocol
	Stamp       uint64    // start time in microseconds since 1970, by its clock
	Info        *PingInfo // that the peer has pushed by discovery, or nil
}

// Peers returns the peers to which there are connections, by NID.
func (n *Node) Peers() []PeerStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []PeerStatus
	for _, p := range n.peers {
		if len(p.conns) > 0 {
			all = append(all, PeerStatus{p.nid, len(p.conns), p.version, p.stamp, p.info})
		}
	}
	slices.SortFunc(all, func(a, b PeerStatus) int { return int(min(max(int64(a.NID)-int64(b.NID), -1), 1)) })
	return all
}
