package lnd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/clock"
)

// Port is where nodes listen, in port space TCP of the RDMA CM.
const Port = 987

// Config describes a node. Zero values are those of the Linux implementation.
type Config struct {
	// Addr is the IPv4 address of one of our adapters. It makes the NID.
	Addr netip.Addr
	// Net is the number of the network, of o2ib, o2ib1, …
	Net uint16
	// Port is where to listen, and where peers do; 0: Port.
	Port uint16
	// Depth is how many messages may be under way to a peer, 2 to 255; 0: 8. Both ends use the smaller of theirs. Where the adapter has not
	// enough room for it, it is less.
	Depth int
	// Regions limits the fast registration regions, and with them the larger transfers at a time; 0: 512.
	Regions int
	// Timeout of a transfer, after which its connection is closed; 0: 50 s. Of an attempt to connect it is a quarter, but 5 s at least.
	Timeout time.Duration
	// Keepalive is the silence after which a sign of life is sent, so that it is noticed when the peer has gone; 0: 100 s.
	Keepalive time.Duration
	// Checksum has all messages carry one.
	Checksum bool
	// OnPut and OnGet answer peers; nil refuses everything.
	OnPut, OnGet Handler
	// Clock is the source of time; nil: the machine's.
	Clock  clock.Clock
	Logger *slog.Logger // nil: slog.Default
}

// Handler finds the memory for a PUT or GET of a peer. It may block, until ctx ends with the connection: then the peer's later requests wait.
// The handlers and the Done functions of one connection are called one at a time. Of a PUT, Buffer is where the data goes, of a GET where it
// is: as much of it as fits in both ends' memory is moved. An error refuses: the peer learns ErrRefused.
type Handler func(ctx context.Context, r Request) (Buffer, error)

// Request is what a peer asks for.
type Request struct {
	From   NID
	At     Address
	Length int // bytes
}

// Buffer is memory for a transfer. It is the caller's again when Done is called: once, with the bytes moved, or the reason why not. Done
// may be nil.
type Buffer struct {
	Data []byte
	Done func(n int, err error)
}

func (b Buffer) done(n int, err error) {
	if b.Done != nil {
		b.Done(n, err)
	}
}

func (c Config) withDefaults() (Config, error) {
	if c.Port == 0 {
		c.Port = Port
	}
	if c.Depth == 0 {
		c.Depth = 8
	}
	if c.Regions == 0 {
		c.Regions = 512
	}
	if c.Timeout == 0 {
		c.Timeout = 50 * time.Second
	}
	if c.Keepalive == 0 {
		c.Keepalive = 100 * time.Second
	}
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	switch {
	case c.Depth < minDepth || c.Depth > 255:
		return c, fmt.Errorf("lnd: Config.Depth is %d, must be %d to 255", c.Depth, minDepth)
	case c.Regions < 2:
		return c, fmt.Errorf("lnd: Config.Regions is %d, must be 2 or more: one for what we begin, one for what peers do", c.Regions)
	case c.Timeout < 0 || c.Keepalive < 0:
		return c, errors.New("lnd: Config.Timeout and Keepalive must not be negative")
	}
	return c, nil
}

// Node is one node of the network: it moves data to and from others, and answers them. All methods may be called concurrently.
type Node struct {
	cfg       Config
	nid       NID
	stamp     uint64 // incarnation
	clock     clock.Clock
	transport transport
	pool      *regPool
	cookies   atomic.Uint64

	ctx    context.Context // ends with the node
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // goroutines

	mu    sync.Mutex
	peers map[NID]*peer
	conns map[*conn]struct{} // including those being made
	ended bool
	close func() error // once
}

func newNode(cfg Config, t transport, stamp uint64) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	nid, err := NIDOf(cfg.Net, cfg.Addr)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, nid: nid, stamp: stamp, clock: cfg.Clock, transport: t, pool: newRegPool(t.pd(), cfg.Regions),
		peers: map[NID]*peer{}, conns: map[*conn]struct{}{}}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	n.close = sync.OnceValue(n.shutdown)
	n.wg.Add(2) // one is the node's own, until shutdown: connections come and go with goroutines of their own
	go n.listen()
	return n, nil
}

// NID is the node's.
func (n *Node) NID() NID { return n.nid }

// Put writes data to a peer, MaxTransfer bytes at most, and returns when the peer's application has it. Data must not be changed meanwhile.
// When ctx ends, it returns soon; if the data is just being moved, by closing the connection to the peer.
// Errors: ErrRefused; io.ErrShortWrite (the peer took less); ErrTimeout; the context's; what keeps us from connecting, *Reject among that;
// what ended the connection.
func (n *Node) Put(ctx context.Context, to netip.Addr, at Address, data []byte) error {
	c, err := n.to(ctx, to, len(data))
	if err != nil {
		return err
	}
	return c.put(ctx, at, data)
}

// Get reads from a peer, as much as it has, and returns the number of bytes. Into must not be used meanwhile; afterwards the peer cannot write
// to it any more. All else is as with Put.
func (n *Node) Get(ctx context.Context, from netip.Addr, at Address, into []byte) (int, error) {
	c, err := n.to(ctx, from, len(into))
	if err != nil {
		return 0, err
	}
	return c.get(ctx, at, into)
}

func (n *Node) to(ctx context.Context, a netip.Addr, length int) (*conn, error) {
	if length > MaxTransfer {
		return nil, fmt.Errorf("lnd: %d bytes, a transfer holds %d", length, MaxTransfer)
	}
	nid, err := NIDOf(n.cfg.Net, a)
	if err != nil {
		return nil, err
	}
	return n.connect(ctx, nid)
}

// Close ends all connections and transfers, and returns when nothing runs any more. It is idempotent. Not from a handler.
func (n *Node) Close() error { return n.close() }

func (n *Node) shutdown() error {
	n.mu.Lock()
	n.ended = true
	conns := slices.Collect(maps.Keys(n.conns))
	n.mu.Unlock()
	n.cancel(net.ErrClosed)
	for _, c := range conns {
		c.fail(net.ErrClosed)
	}
	err := n.transport.close()
	n.wg.Done()
	n.wg.Wait()
	return errors.Join(unlessGone(err), n.pool.close())
}

func (n *Node) nextCookie() uint64 { return n.cookies.Add(1) }

func (n *Node) put(ctx context.Context, from NID, h *LNetHeader) (Buffer, error) {
	return ask(ctx, n.cfg.OnPut, Request{From: from, At: h.Address, Length: int(min(h.PayloadLen, MaxTransfer))})
}

func (n *Node) get(ctx context.Context, from NID, h *LNetHeader) (Buffer, error) {
	return ask(ctx, n.cfg.OnGet, Request{From: from, At: h.Address, Length: int(min(h.Length, MaxTransfer))})
}

func ask(ctx context.Context, h Handler, r Request) (Buffer, error) {
	if h == nil {
		return Buffer{}, ErrRefused
	}
	return h(ctx, r)
}
