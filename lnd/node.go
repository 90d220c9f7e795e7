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
	"syscall"
	"time"

	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
)

// A Config describes a node.
type Config struct {
	Addr    netip.Addr // IPv4 address of a local adapter, or its GID: see AddrOf
	Network uint16     // number of the o2ib network
	// AddrOf returns the address of an adapter of a node: its GID, on an InfiniBand subnet without IP addresses. Then
	// NID must be set. nil: the IPv4 address in the NID.
	AddrOf   func(NID) netip.Addr
	NID      NID          // of this node; 0: that of Addr and Network
	Tunables *Tunables    // nil: DefaultTunables
	Logger   *slog.Logger // nil: slog.Default
}

// A Node is one node of an LNet. All methods may be called concurrently.
type Node struct {
	cfg      Config
	tun      Tunables
	log      *slog.Logger
	m        *rdmacm.Manager
	nid      NID
	stamp    uint64          // its start time
	ctx      context.Context // until Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	slots    chan struct{} // of operations in progress
	counters counters

	mu        sync.Mutex
	closed    bool
	peers     map[NID]*peer
	entries   []*Entry // replaced, not changed
	replies   map[cookie]*reply
	lastReply cookie
}

// Listen creates a node at an address of an adapter of m. The node serves peers from then on. Close it before m.
// Errors: an address or a tunable is out of range; those of rdmacm.Manager.Listen.
func Listen(m *rdmacm.Manager, cfg Config) (*Node, error) {
	n, err := newNode(cfg, uint64(time.Now().UnixMicro()))
	if err != nil {
		return nil, err
	}
	n.m = m
	ln, err := m.IDs().Listen(netip.AddrPortFrom(cfg.Addr, uint16(n.tun.Service)), cmid.ListenConfig{})
	if err != nil {
		return nil, err
	}
	n.wg.Go(func() { n.serve(ln) })
	return n, nil
}

// newNode returns a node that does not listen yet.
func newNode(cfg Config, stamp uint64) (*Node, error) {
	self, err := cfg.NID, error(nil)
	if self == 0 {
		if self, err = NIDOf(cfg.Addr, cfg.Network); err != nil {
			return nil, err
		}
	}
	if cfg.AddrOf == nil {
		cfg.AddrOf = NID.Addr
	}
	n := &Node{cfg: cfg, tun: DefaultTunables(), log: cmp.Or(cfg.Logger, slog.Default()), nid: self, stamp: stamp,
		counters: counters{m: map[string]uint64{}}, peers: map[NID]*peer{}, replies: map[cookie]*reply{}}
	if cfg.Tunables != nil {
		n.tun = *cfg.Tunables
	}
	if err = n.tun.check(); err != nil {
		return nil, err
	}
	n.slots = make(chan struct{}, n.tun.Credits)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.Attach(n.pingEntry())
	return n, nil
}

// NID returns the name of the node.
func (n *Node) NID() NID { return n.nid }

func (n *Node) count(name string) { n.counters.count(name) }

// Close ends all connections and transfers, and waits for them. It is idempotent. It must not be called from a function
// of an Entry.
func (n *Node) Close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	n.wg.Wait()
	return nil
}

// goUnlessClosed runs f on a goroutine that Close waits for. The caller holds mu.
func (n *Node) goUnlessClosed(f func()) error {
	if n.closed {
		return net.ErrClosed
	}
	n.wg.Go(f)
	return nil
}

// Put writes at most MaxTransfer bytes to a node, and returns the number of bytes that its application has. It connects
// if there is no connection. data must not change until Put returns. If ctx ends after a transfer by RDMA has begun,
// Put ends the connection; otherwise an adapter might still use the memory. Errors: ErrRefused; *Reject; those of
// rdmacm.Manager.Dial; the context's; the cause of the end of the connection.
func (n *Node) Put(ctx context.Context, to NID, t Target, data []byte) (int, error) {
	return n.operate(ctx, to, func(c *conn) (int, error) { return c.put(ctx, t, data) })
}

// Get reads data of a node, at most len(into) bytes, and returns their number. into must not be used until Get returns.
// The peer cannot write to it afterwards. Otherwise Get is as Put.
func (n *Node) Get(ctx context.Context, from NID, t Target, into []byte) (int, error) {
	return n.operate(ctx, from, func(c *conn) (int, error) { return c.get(ctx, t, into) })
}

// operate carries out an operation over a connection to a peer.
func (n *Node) operate(ctx context.Context, to NID, f func(*conn) (int, error)) (int, error) {
	select {
	case n.slots <- struct{}{}:
		defer func() { <-n.slots }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	c, err := n.connect(ctx, to)
	if err != nil {
		return 0, fmt.Errorf("lnd: connecting to %v: %w", to, err)
	}
	return f(c)
}

// most returns the highest parameters of this node.
func (n *Node) most() params {
	return params{Depth: uint16(n.tun.PeerCredits), Frags: maxFrags, MsgSize: msgSize}
}

// qpConfig describes a queue pair. Each message may follow a registration and a WRITE, and an invalidation may follow
// later. The same is true for the messages of the peer. One message at a time may have a WRITE for each piece.
func qpConfig(p params) cmid.QPConfig {
	depth := int(p.Depth)
	caps := ci.QPCaps{SendDepth: sendDepth(depth) + int(p.Frags) - 1, RecvDepth: recvs(depth)}
	return cmid.QPConfig{OneCQ: true, Access: ci.RemoteWrite, Caps: caps}
}

func sendDepth(depth int) int { return 5 * depth }

// terms are the connection parameters: no READs and no atomics.
func (n *Node) terms(m message, version uint16) cmid.ConnParam {
	orNone := func(k int) int { return cmp.Or(k, -1) }
	return cmid.ConnParam{Private: m.append(nil, n.format(version)), ResponderResources: -1, InitiatorDepth: -1,
		Retries: orNone(n.tun.RetryCount), RNRRetries: orNone(n.tun.RNRRetryCount)}
}

// serve accepts connections, a limited number at a time.
func (n *Node) serve(ln *cmid.Listener) {
	busy := make(chan struct{}, 64)
	for {
		id, err := ln.Accept(n.ctx)
		if err != nil {
			if err = errors.Join(err, ln.Close()); n.ctx.Err() == nil {
				n.log.Error("lnd: listening", "error", err)
			}
			return
		}
		busy <- struct{}{}
		n.wg.Go(func() {
			if err := n.accept(id); err != nil && n.ctx.Err() == nil {
				n.log.Info("lnd: a connection request failed", "from", id.RemoteAddr(), "error", err)
			}
			<-busy
		})
	}
}

// accept accepts a connection, or rejects it.
func (n *Node) accept(id *cmid.ID) (err error) {
	req, why, err := checkRequest(id.Request().Private, n.nid, n.stamp, n.most())
	from := req.From
	c := n.newConn(from, req.Version, req.params)
	c.id = id
	switch addr := id.RemoteAddr().Addr().Unmap(); {
	case why != 0:
	case n.cfg.AddrOf(from) != addr || from.Network() != n.nid.Network():
		why, err = WhyFatal, malformed("CONNREQ of %v from %v", from, addr)
	case n.tun.RequirePrivilegedPort != 0 && id.RemoteAddr().Port() > privilegedPort:
		why = WhyFatal
	default:
		why = n.admit(from, &req.header)
	}
	if why == 0 {
		defer n.admitted(from)
		for err = id.CreateQP(qpConfig(c.params)); err != nil; err = id.CreateQP(qpConfig(c.params)) {
			smaller, ok := attempt{params: c.params}.next(err)
			if !ok {
				why = WhyResources
				break
			}
			c.params = smaller.params
		}
		if err == nil {
			if err = c.setup(id); err != nil {
				why = WhyResources
			}
		}
	}
	if why != 0 {
		n.count("rejected: " + why.String())
		r := Reject{Version: cmp.Or(knownVersion(req.Version), version2), Why: why, Stamp: n.stamp, Params: n.most()}
		return errors.Join(err, id.Reject(r.encode()), c.close())
	}
	ctx, cancel := context.WithTimeout(n.ctx, seconds(n.tun.Timeout))
	defer cancel()
	c.agree(req.FromStamp, c.params)
	ack := message{header: header{Type: connAck, From: n.nid, FromStamp: n.stamp, To: req.From, ToStamp: req.FromStamp},
		params: c.params}
	if err = id.Accept(ctx, n.terms(ack, req.Version)); err == nil {
		err = c.start()
	}
	if err != nil {
		return errors.Join(err, c.close())
	}
	n.established(c, "accepted")
	return nil
}

// knownVersion returns v, or 0 if this node does not have it.
func knownVersion(v uint16) uint16 {
	if v == version1 || v == version2 {
		return v
	}
	return 0
}

const privilegedPort = 1023 // the highest one

// dial connects to a peer once.
func (n *Node) dial(ctx context.Context, to NID, a attempt) (*conn, error) {
	c := n.newConn(to, a.version, a.params)
	req := message{header: header{Type: connReq, From: n.nid, FromStamp: n.stamp, To: to, ToStamp: a.stamp},
		params: a.params}
	cfg := cmid.DialConfig{Local: netip.AddrPortFrom(n.cfg.Addr, 0), QP: qpConfig(a.params),
		Conn: n.terms(req, a.version), Setup: c.setup}
	remote := netip.AddrPortFrom(n.cfg.AddrOf(to), uint16(n.tun.Service))
	err := error(syscall.EADDRINUSE)
	if n.tun.UsePrivilegedPort != 0 {
		shared := cfg // connections to several peers share the port
		shared.ID.ReuseAddr, shared.Local = true, netip.AddrPortFrom(n.cfg.Addr, privilegedPort)
		_, err = n.m.IDs().Dial(ctx, remote, shared)
	}
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
		_, err = n.m.IDs().Dial(ctx, remote, cfg)
	}
	if err == nil {
		var ack message
		if ack, err = checkReply(c.id.Reply(), &req, a.version); err == nil {
			c.agree(ack.FromStamp, ack.params)
			err = c.start()
		}
	}
	if err != nil {
		return nil, refusal(errors.Join(err, c.close()))
	}
	return c, nil
}
