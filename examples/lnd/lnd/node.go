package lnd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

// A Config describes a node.
type Config struct {
	Addr netip.Addr // IPv4 address of a local adapter
	Port uint16     // of all nodes, in port space TCP of RDMA CM; 0 is 987
	// Depth is the number of messages in flight to a peer, 2 to 255; 0 is 8. A peer or an adapter without the
	// resources reduces it.
	Depth int
	// Timeout is the time limit for a peer to connect, and to send data that it has announced; 0 is 50 s. Dial, Put
	// and Get have a context instead. A peer is probed when nothing was sent to it for half the time or longer.
	Timeout time.Duration
	// OnPut returns the memory for n bytes that a peer puts. OnGet returns the data that a peer gets; they must not
	// change afterwards. match identifies the data (the match bits of LNet). The shorter one of both ends' memory
	// limits the transfer. An empty slice refuses the transfer. done is called once, when the data have arrived or the
	// transfer has failed. Calls for one connection are made one at a time, those for several concurrently. They must
	// not block, because the connection waits for them.
	OnPut func(from netip.Addr, match uint64, n int) (into []byte, done func(n int, err error))
	OnGet func(from netip.Addr, match uint64, n int) []byte
}

// A Node is one node of the network.
type Node struct {
	cfg    Config
	m      *rdmacm.Manager
	nid    uint64
	stamp  uint64          // its start time
	ctx    context.Context // until Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Listen creates a node at an address of an adapter of m. The node serves peers from then on. Close it before m.
// Errors: a field of cfg is out of range; those of rdmacm.Manager.Listen.
func Listen(m *rdmacm.Manager, cfg Config) (*Node, error) {
	cfg.Port, cfg.Depth, cfg.Timeout = cmp.Or(cfg.Port, 987), cmp.Or(cfg.Depth, 8), cmp.Or(cfg.Timeout, 50*time.Second)
	if cfg.OnPut == nil {
		cfg.OnPut = func(netip.Addr, uint64, int) ([]byte, func(int, error)) { return nil, func(int, error) {} }
	}
	if cfg.OnGet == nil {
		cfg.OnGet = func(netip.Addr, uint64, int) []byte { return nil }
	}
	if cfg.Depth < minDepth || cfg.Depth > 255 || cfg.Timeout < 0 {
		return nil,
			fmt.Errorf("lnd: Config.Depth is %d, want %d to 255; Config.Timeout is %v, want a positive duration",
				cfg.Depth, minDepth, cfg.Timeout)
	}
	self, err := nid(cfg.Addr)
	if err != nil {
		return nil, err
	}
	ln, err := m.IDs().Listen(netip.AddrPortFrom(cfg.Addr, cfg.Port), cmid.ListenConfig{})
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, m: m, nid: self, stamp: uint64(time.Now().UnixMicro())}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.wg.Go(func() { n.serve(ln) })
	return n, nil
}

// Close ends all connections and transfers, and waits for them. It is idempotent. It must not be called from a
// callback, or while Dial runs.
func (n *Node) Close() error {
	n.cancel()
	n.wg.Wait()
	return nil
}

// Dial connects to a peer. Errors: *Reject; those of rdmacm.Manager.Dial; ErrMessage; net.ErrClosed.
func (n *Node) Dial(ctx context.Context, peer netip.Addr) (*Conn, error) {
	to, err := nid(peer)
	if err != nil {
		return nil, err
	}
	if n.ctx.Err() != nil {
		return nil, net.ErrClosed
	}
	want := n.most()
	for want.Depth > 0 {
		c := n.newConn(peer, to, want)
		req := message{header: header{Type: connReq, From: n.nid, FromStamp: n.stamp, To: to}, params: want}
		var ack message
		if _, err = n.m.IDs().Dial(ctx, netip.AddrPortFrom(peer, n.cfg.Port),
			cmid.DialConfig{Local: netip.AddrPortFrom(n.cfg.Addr, 0), QP: qpConfig(want.Depth),
				Conn: terms(req), Setup: c.setup}); err == nil {
			ack, err = agree(c.id.Reply(), &req)
		}
		if err == nil {
			err = c.start(ack.FromStamp, ack.params)
		}
		if err == nil {
			return c, nil
		}
		err = refusal(errors.Join(err, c.close()))
		want.Depth = lower(want.Depth, err)
	}
	return nil, fmt.Errorf("lnd: connecting to %v: %w", peer, err)
}

// most returns the highest parameters of this node.
func (n *Node) most() params { return params{Depth: uint16(n.cfg.Depth), Pieces: 1, MsgSize: msgSize} }

// qpConfig describes a queue pair for depth messages. Each one may follow a registration and a WRITE, and an
// invalidation may follow later. The same is true for the messages of the peer.
func qpConfig(depth uint16) cmid.QPConfig {
	caps := ci.QPCaps{SendDepth: 5 * int(depth), RecvDepth: recvs(int(depth))}
	return cmid.QPConfig{OneCQ: true, Access: ci.RemoteWrite, Caps: caps}
}

// terms are the connection parameters: no READs and no atomics. There are few RNR retries, because a peer without a
// posted receive has miscounted its credits.
func terms(m message) cmid.ConnParam {
	return cmid.ConnParam{Private: m.append(nil), ResponderResources: -1, InitiatorDepth: -1,
		Retries: 5, RNRRetries: 6}
}

// serve accepts connections, a limited number at a time.
func (n *Node) serve(ln *cmid.Listener) {
	busy := make(chan struct{}, 64)
	for {
		id, err := ln.Accept(n.ctx)
		if err != nil {
			if err = errors.Join(err, ln.Close()); n.ctx.Err() == nil {
				slog.Error("lnd: listening", "error", err)
			}
			return
		}
		busy <- struct{}{}
		n.wg.Go(func() {
			if err := n.accept(id); err != nil && n.ctx.Err() == nil {
				slog.Info("lnd: a connection request failed", "from", id.RemoteAddr(), "error", err)
			}
			<-busy
		})
	}
}

// accept accepts a connection.
func (n *Node) accept(id *cmid.ID) error {
	from := id.RemoteAddr().Addr()
	peer, err := nid(from)
	req, why := checkRequest(id.Request().Private, peer, n.nid, n.stamp, n.most())
	c := n.newConn(from, peer, req.params)
	c.id = id
	if why == 0 && err == nil {
		for err = id.CreateQP(qpConfig(c.params.Depth)); lower(c.params.Depth,
			err) > 0; err = id.CreateQP(qpConfig(c.params.Depth)) {
			c.params.Depth = lower(c.params.Depth, err)
		}
		if err == nil {
			err = c.setup(id)
		}
	}
	if why == 0 && err != nil {
		why = WhyResources
	}
	if why != 0 {
		return errors.Join(err, id.Reject(Reject{Why: why, Stamp: n.stamp, Params: n.most()}.append(nil)), c.close())
	}
	ctx, cancel := context.WithTimeout(n.ctx, n.cfg.Timeout)
	defer cancel()
	ack := message{header: header{Type: connAck, From: n.nid, FromStamp: n.stamp, To: req.From, ToStamp: req.FromStamp},
		params: c.params}
	if err = id.Accept(ctx, terms(ack)); err == nil {
		err = c.start(req.FromStamp, c.params)
	}
	if err != nil {
		err = errors.Join(err, c.close())
	}
	return err
}
