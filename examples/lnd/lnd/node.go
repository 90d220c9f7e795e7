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
	"ciddk/ci"
)

// Config describes a node.
type Config struct {
	Addr    netip.Addr    // IPv4 address of one of our adapters
	Port    uint16        // where all nodes listen, in port space TCP of the RDMA CM; 0: 987
	Depth   int           // messages under way to a peer, 2 to 255; 0: 8. Less, where the peer or an adapter does not have room for so many
	Timeout time.Duration // for a peer to connect, and to send what it announced; 0: 50 s. What we begin has a context
	// OnPut gives the memory into which n bytes of a peer's go, and OnGet that in which the bytes are that a peer wants, and which does not change any
	// more. Match says what they are: LNet's match bits. As much is moved as fits in both ends' memory; nothing refuses. When the data has come, or is
	// known not to come, done is called, once. All may be called concurrently, but one at a time for each connection, and must not block: nothing else
	// happens on the connection meanwhile.
	OnPut func(from netip.Addr, match uint64, n int) (into []byte, done func(n int, err error))
	OnGet func(from netip.Addr, match uint64, n int) []byte
}

// Node is one node of the network.
type Node struct {
	cfg    Config
	m      *rdmacm.Manager
	nid    uint64
	stamp  uint64          // when it was started
	ctx    context.Context // ends with the node
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Listen makes a node at an address of one of the adapters that m knows, which answers peers from now on. Close it before m. Errors: what is
// wrong with cfg; those of rdmacm.Manager.Listen.
func Listen(m *rdmacm.Manager, cfg Config) (*Node, error) {
	cfg.Port, cfg.Depth, cfg.Timeout = cmp.Or(cfg.Port, 987), cmp.Or(cfg.Depth, 8), cmp.Or(cfg.Timeout, 50*time.Second)
	if cfg.OnPut == nil {
		cfg.OnPut = func(netip.Addr, uint64, int) ([]byte, func(int, error)) { return nil, func(int, error) {} }
	}
	if cfg.OnGet == nil {
		cfg.OnGet = func(netip.Addr, uint64, int) []byte { return nil }
	}
	if cfg.Depth < minDepth || cfg.Depth > 255 || cfg.Timeout < 0 {
		return nil, fmt.Errorf("lnd: Config.Depth is %d, must be %d to 255; Timeout is %v, must be positive", cfg.Depth, minDepth, cfg.Timeout)
	}
	self, err := nid(cfg.Addr)
	if err != nil {
		return nil, err
	}
	ln, err := m.ListenID(netip.AddrPortFrom(cfg.Addr, cfg.Port), rdmacm.ListenIDConfig{})
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, m: m, nid: self, stamp: uint64(time.Now().UnixMicro())}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.wg.Go(func() { n.serve(ln) })
	return n, nil
}

// Close ends all connections and transfers, and returns when nothing runs any more. It is idempotent. Not from a callback, and not while Dial
// runs.
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
		if _, err = n.m.DialID(ctx, netip.AddrPortFrom(peer, n.cfg.Port), rdmacm.DialIDConfig{Local: netip.AddrPortFrom(n.cfg.Addr, 0), QP: qpConfig(want.Depth),
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

// most is what we can have.
func (n *Node) most() params { return params{Depth: uint16(n.cfg.Depth), Pieces: 1, MsgSize: msgSize} }

// qpConfig is a queue pair for so many messages. Each may have a registration and a WRITE in front, and later an invalidation; so may those of
// the peer.
func qpConfig(depth uint16) rdmacm.QPConfig {
	caps := ci.QPCaps{SendDepth: 5 * int(depth), RecvDepth: recvs(int(depth))}
	return rdmacm.QPConfig{OneCQ: true, Access: ci.RemoteWrite, QPCreate: ci.QPCreate{QPCaps: caps}}
}

// terms: no READs and no atomics, ever. A peer that has no receive posted has lost count, so retries are few.
func terms(m message) rdmacm.ConnParam {
	return rdmacm.ConnParam{Private: m.append(nil), ResponderResources: -1, InitiatorDepth: -1, Retries: 5, RNRRetries: 6}
}

// serve takes requests, so many at a time.
func (n *Node) serve(ln *rdmacm.IDListener) {
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
			if err := n.accept(id); err != nil {
				slog.Info("lnd: a request to connect came to nothing", "from", id.RemoteAddr(), "error", err)
			}
			<-busy
		})
	}
}

// accept is the passive end of Dial.
func (n *Node) accept(id *rdmacm.ID) error {
	from := id.RemoteAddr().Addr()
	peer, err := nid(from)
	req, why := judge(id.Request().Private, peer, n.nid, n.stamp, n.most())
	c := n.newConn(from, peer, req.params)
	c.id = id
	if why == 0 && err == nil {
		for err = id.CreateQP(qpConfig(c.params.Depth)); lower(c.params.Depth, err) > 0; err = id.CreateQP(qpConfig(c.params.Depth)) {
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
	ack := message{header: header{Type: connAck, From: n.nid, FromStamp: n.stamp, To: req.From, ToStamp: req.FromStamp}, params: c.params}
	if err = id.Accept(ctx, terms(ack)); err == nil {
		err = c.start(req.FromStamp, c.params)
	}
	if err != nil {
		err = errors.Join(err, c.close())
	}
	return err
}
