package lnd

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/hca/reference"
)

// rig is a network of nodes whose connections are made by hand: QPs are told of each other by channels, as a connection manager would by
// messages.
type rig struct {
	t     *testing.T
	al    *accesslayer.AL
	mu    sync.Mutex
	nodes map[netip.Addr]*wired
	// onRequest, if not nil, sees each request before its receiver does.
	onRequest func(from, to netip.Addr, private []byte)
}

func newRig(t *testing.T) *rig {
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	t.Cleanup(func() { require.NoError(t, al.Close()) })
	return &rig{t: t, al: al, nodes: map[netip.Addr]*wired{}}
}

// wired is the transport of one node.
type wired struct {
	r        *rig
	addr     netip.Addr
	hca      *reference.HCA
	domain   *accesslayer.PD
	path     ci.AVAttr // to this node
	requests chan *wiredLink
}

// host adds an adapter and a transport for it.
func (r *rig) host(addr string, c reference.Config) *wired {
	hca, err := reference.New(c)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, hca.Close()) })
	require.NoError(r.t, r.al.Register(hca))
	r.t.Cleanup(func() { _ = r.al.Deregister(hca.Info().GUID) })
	client := must(r.al.Open(accesslayer.ClientConfig{Name: addr}))
	r.t.Cleanup(func() { require.NoError(r.t, unlessGone(client.Close())) })
	ca := must(client.OpenCA(hca.Info().GUID, nil))
	port := must(ca.Adapter().Port(1))
	w := &wired{r: r, addr: netip.MustParseAddr(addr), hca: hca, domain: must(ca.NewPD(ci.PDNormal)), requests: make(chan *wiredLink, 16),
		path: ci.AVAttr{Port: 1, DLID: port.LID}}
	if port.Link == ci.LinkEthernet {
		w.path = ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: port.GIDs[0].GID, HopLimit: 64}}
	}
	r.mu.Lock()
	r.nodes[w.addr] = w
	r.mu.Unlock()
	return w
}

// direct is an adapter on a link within the process.
func direct(l *reference.DirectLink) reference.Config {
	return reference.Config{Ports: []reference.PortConfig{reference.Direct(l, reference.DirectConfig{})}}
}

// node starts one on a host.
func (w *wired) node(cfg Config) *Node { return w.incarnation(cfg, rand.Uint64()) }

func (w *wired) incarnation(cfg Config, stamp uint64) *Node {
	cfg.Addr = w.addr
	n, err := newNode(cfg, w, stamp)
	require.NoError(w.r.t, err)
	w.r.t.Cleanup(func() { require.NoError(w.r.t, n.Close()) })
	return n
}

func (w *wired) pd() *accesslayer.PD { return w.domain }

func (w *wired) close() error { return nil }

func (w *wired) accept(ctx context.Context) (link, error) {
	select {
	case l := <-w.requests:
		return l, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *wired) dial(_ context.Context, to netip.Addr) (link, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	peer := w.r.nodes[to]
	if peer == nil {
		return nil, &net.AddrError{Err: "nobody there", Addr: to.String()}
	}
	return newWiredLink(w, peer), nil
}

// wiredLink is one end of a connection.
type wiredLink struct {
	w, to  *wired
	qp     *accesslayer.QP
	psn    ci.PSN
	over   chan struct{}
	once   sync.Once
	why    error
	far    *wiredLink // the other end, of one that was requested
	asked  []byte
	answer chan wiredAnswer
	ready  chan struct{} // closed instead of RTU
}

type wiredAnswer struct {
	from    *wiredLink
	private []byte
	reject  *Reject
}

func newWiredLink(w, to *wired) *wiredLink {
	return &wiredLink{w: w, to: to, psn: ci.PSN(rand.Uint32N(1 << 24)), over: make(chan struct{}), answer: make(chan wiredAnswer, 1), ready: make(chan struct{})}
}

func (l *wiredLink) createQP(c ci.QPCreate) (ci.QP, error) {
	qp, err := l.w.domain.NewQP(c, nil)
	if err != nil {
		return nil, err
	}
	l.qp = qp
	return qp, qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1, Access: ci.RemoteWrite}, nil)
}

func (l *wiredLink) rtr(far *wiredLink) error {
	return l.qp.Modify(ci.QPFieldsRTR, ci.QPAttr{State: ci.QPRTR, Primary: ci.Path{AV: l.to.path}, MTU: ci.MTU1024, DestNum: far.qp.Num(), RQPSN: far.psn,
		RespRes: 0, MinRNRTimer: 12}, nil)
}

func (l *wiredLink) rts() error {
	return l.qp.Modify(ci.QPFieldsRTS, ci.QPAttr{State: ci.QPRTS, SQPSN: l.psn, Primary: ci.Path{AckTimeout: 14}, RetryCount: 5, RNRRetry: 6}, nil)
}

func (l *wiredLink) connect(ctx context.Context, private []byte) ([]byte, error) {
	if f := l.w.r.onRequest; f != nil {
		f(l.w.addr, l.to.addr, private)
	}
	far := newWiredLink(l.to, l.w)
	far.far, far.asked = l, append(slices.Clone(private), make([]byte, 56-len(private))...)
	l.to.requests <- far
	select {
	case a := <-l.answer:
		if a.reject != nil {
			return nil, a.reject
		}
		l.far = a.from
		if err := errors.Join(l.rtr(a.from), l.rts()); err != nil {
			return nil, err
		}
		close(a.from.ready)
		return append(a.private, make([]byte, 196-len(a.private))...), nil
	case <-l.over:
		return nil, l.why
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *wiredLink) request() []byte { return l.asked }

func (l *wiredLink) confirm(ctx context.Context, private []byte) error {
	if err := l.rtr(l.far); err != nil {
		return err
	}
	l.far.answer <- wiredAnswer{from: l, private: private}
	select {
	case <-l.ready:
		return l.rts()
	case <-l.over:
		return l.why
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *wiredLink) reject(private []byte) error {
	r, err := ParseReject(append(private, make([]byte, 148-len(private))...))
	l.far.answer <- wiredAnswer{reject: r}
	return err
}

func (l *wiredLink) done() <-chan struct{} { return l.over }

func (l *wiredLink) err() error { return l.why }

func (l *wiredLink) end(why error) { l.once.Do(func() { l.why = why; close(l.over) }) }

// close is a disconnect: the other end hears of it.
func (l *wiredLink) close() error {
	l.end(net.ErrClosed)
	if l.far != nil {
		l.far.end(errors.New("the peer has disconnected"))
	}
	if l.qp != nil {
		return unlessGone(l.qp.Close())
	}
	return nil
}

// store is what the tests' nodes have to give, and where they keep what they get.
type store struct {
	mu    sync.Mutex
	data  map[Address][]byte
	asked int
	done  int // calls of Done
}

func newStore() *store { return &store{data: map[Address][]byte{}} }

func (s *store) put(_ context.Context, r Request) (Buffer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.At.Portal == nowhere {
		return Buffer{}, ErrRefused
	}
	s.asked++
	b := make([]byte, r.Length)
	return Buffer{Data: b, Done: func(n int, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done++
		if err == nil {
			s.data[r.At] = b[:n]
		}
	}}, nil
}

func (s *store) get(_ context.Context, r Request) (Buffer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.data[r.At]
	if !ok {
		return Buffer{}, ErrRefused
	}
	s.asked++
	return Buffer{Data: b, Done: func(int, error) { s.mu.Lock(); s.done++; s.mu.Unlock() }}, nil
}

func (s *store) read(at Address) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data[at]
}

func (s *store) config() Config { return Config{OnPut: s.put, OnGet: s.get} }

// nowhere is a portal that refuses.
const nowhere = 99

// random bytes from a seed.
func random(seed uint64, n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
