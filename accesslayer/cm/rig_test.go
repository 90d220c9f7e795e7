package cm_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

// Most tests run on a network in memory, in virtual time (testing/synctest). The network carries datagrams between the
// ports of real access layers, with loss, duplicates, reordering and delay determined by a seed. The tests in
// reference_test.go run on real MAD services and QPs.

type network struct {
	mu    sync.Mutex
	rng   *rand.Rand
	delay time.Duration // of each datagram
	// Probabilities, of each datagram.
	loss, double, reorder float64
	spread                time.Duration          // maximum extra delay of a reordered datagram
	filter                func(d *datagram) bool // returns false to lose the datagram
	tap                   func(d *datagram)      // called for each datagram that is sent
	agents                map[mads.Port][]*agent
	places                map[place]mads.Port
	behind                bool     // the agents have not delivered all datagrams that have arrived
	late                  []func() // functions that wait for CatchUp
	start                 time.Time
	last                  time.Duration // arrival of the last datagram, since start
}

// place is the destination of a datagram: a GID or a LID.
type place struct {
	gid ci.GID
	lid ci.LID
}

type datagram struct {
	from, to mads.Port
	mad      []byte
}

func (d *datagram) attr() uint16 { return uint16(d.mad[16])<<8 | uint16(d.mad[17]) }

func newNetwork(seed uint64) *network {
	return &network{rng: rand.New(rand.NewPCG(seed, 1)), delay: time.Millisecond, spread: 50 * time.Millisecond,
		agents: map[mads.Port][]*agent{},
		places: map[place]mads.Port{}}
}

// service is the network's mads.Service for one access layer.
type service struct {
	net *network
	al  *accesslayer.AL

	mu       sync.Mutex
	watchers []func(mads.Port, bool)
}

func (s *service) Ports() (ports []mads.Port) {
	for _, a := range s.al.Adapters() {
		for i := range a.Attr().Ports {
			ports = append(ports, mads.Port{CA: a.GUID(), Num: uint8(i + 1)})
		}
	}
	return ports
}

func (s *service) Watch(f func(mads.Port, bool)) func() {
	for _, p := range s.Ports() {
		f(p, true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, f)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers = nil
	}
}

// unplug closes the services of a port.
func (s *service) unplug(p mads.Port) {
	s.net.mu.Lock()
	for _, a := range s.net.agents[p] {
		a.closed = true
	}
	s.net.agents[p] = nil
	s.net.mu.Unlock()
	s.notify(p, false)
}

func (s *service) notify(p mads.Port, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.watchers {
		f(p, there)
	}
}

func (s *service) Register(cfg mads.AgentConfig) (mads.Agent, error) {
	s.net.mu.Lock()
	defer s.net.mu.Unlock()
	ad, err := s.al.Adapter(cfg.Port.CA)
	if err != nil {
		return nil, err
	}
	for _, o := range s.net.agents[cfg.Port] {
		if o.cfg.Version == cfg.Version {
			return nil, ci.ResourceBusy
		}
	}
	a := &agent{net: s.net, cfg: cfg, ad: ad}
	s.net.agents[cfg.Port] = append(s.net.agents[cfg.Port], a)
	for _, g := range a.attr().GIDs {
		s.net.places[place{gid: g.GID}] = cfg.Port
	}
	if a.attr().Link == ci.LinkInfiniBand {
		s.net.places[place{lid: a.attr().LID}] = cfg.Port
	}
	return a, nil
}

type agent struct {
	net    *network
	cfg    mads.AgentConfig
	ad     *accesslayer.Adapter
	closed bool
}

func (a *agent) attr() *ci.PortAttr { return &a.ad.Attr().Ports[a.cfg.Port.Num-1] }

func (a *agent) Port() mads.Port { return a.cfg.Port }

func (a *agent) Do(context.Context, *mads.Message) (*mads.Received, error) {
	panic("CM has no responses")
}

func (a *agent) StartDo(context.Context, *mads.Message, func(*mads.Received, error)) error {
	panic("CM has no responses")
}

// CatchUp implements mads.Backlog.
func (a *agent) CatchUp(f func()) bool {
	a.net.mu.Lock()
	defer a.net.mu.Unlock()
	if a.net.behind {
		a.net.late = append(a.net.late, f)
	}
	return a.net.behind
}

// catchUp calls the functions that wait for CatchUp.
func (n *network) catchUp() {
	n.mu.Lock()
	late := n.late
	n.late = nil
	n.mu.Unlock()
	for _, f := range late {
		f()
	}
}

func (a *agent) Recv(context.Context) (*mads.Received, error) { panic("the manager has OnReceive") }

func (a *agent) Close() error {
	a.net.mu.Lock()
	defer a.net.mu.Unlock()
	a.closed = true
	list := &a.net.agents
	(*list)[a.cfg.Port] = slices.DeleteFunc((*list)[a.cfg.Port], func(o *agent) bool { return o == a })
	return nil
}

func (a *agent) Send(m *mads.Message) error {
	n := a.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.start.IsZero() {
		n.start = time.Now()
	}
	if a.closed {
		return &ci.Error{Verb: "Agent.Send", Status: ci.InvalidState, Err: accesslayer.ErrClosed}
	}
	if len(m.MAD) != mad.Size || m.To.QPN != 1 {
		panic(fmt.Sprintf("%d bytes to QP %d", len(m.MAD), m.To.QPN))
	}
	av := &m.To.AV
	from := mads.Address{QPN: 1, QKey: ci.QKey(mad.QKeyGSI), PKeyIndex: m.To.PKeyIndex}
	from.AV = ci.AVAttr{Global: av.Global, SL: av.SL, DLID: a.attr().LID}
	to, ok := n.places[place{lid: av.DLID}]
	r := &mads.Received{GRH: av.Global}
	if av.Global {
		to, ok = n.places[place{gid: av.GRH.DGID}]
		r.SGID, r.DGID = a.attr().GIDs[av.GRH.SGIDIndex].GID, av.GRH.DGID
		from.AV.GRH = ci.GRH{DGID: r.SGID, HopLimit: 64}
	}
	d := &datagram{from: a.cfg.Port, to: to, mad: bytes.Clone(m.MAD)}
	if n.tap != nil {
		n.tap(d)
	}
	if !ok || n.filter != nil && !n.filter(d) {
		return nil
	}
	copies := 1
	if n.rng.Float64() < n.double {
		copies = 2
	}
	for range copies {
		if n.rng.Float64() < n.loss {
			continue
		}
		n.last = max(n.last+1, time.Since(n.start)+n.delay) // datagrams arrive in the order of Send
		delay := n.last - time.Since(n.start)
		if n.rng.Float64() < n.reorder {
			delay += time.Duration(n.rng.Int64N(int64(n.spread)))
		}
		c := *r
		c.From, c.Port, c.MAD = from, to, bytes.Clone(d.mad)
		time.AfterFunc(delay, func() { n.deliver(&c) })
	}
	return nil
}

// deliver passes a datagram to the agent of its destination.
func (n *network) deliver(r *mads.Received) {
	n.mu.Lock()
	var to *agent
	for _, a := range n.agents[r.Port] {
		if len(r.MAD) > 2 && a.cfg.Version == r.MAD[2] || to == nil && a.cfg.Version == mad.ClassVersionCM {
			to = a
		}
	}
	if to != nil && r.GRH {
		for i, g := range to.attr().GIDs {
			if g.GID == r.DGID {
				r.From.AV.GRH.SGIDIndex = uint16(i)
			}
		}
	}
	n.mu.Unlock()
	if to != nil {
		to.cfg.OnReceive(r)
	}
}

// node is an access layer with an HCA and its connection manager.
type node struct {
	t   testing.TB
	al  *accesslayer.AL
	hca *reference.HCA
	svc *service
	m   *cm.Manager
}

// link connects nodes: an InfiniBand link, or an Ethernet network with addresses.
type link struct {
	direct *direct.Link
	ether  *sim.Network
	n      byte
}

func newLink(typ ci.Link) *link {
	if typ == ci.LinkEthernet {
		return &link{ether: sim.NewNetwork(sim.NetworkConfig{})}
	}
	return &link{direct: direct.NewLink()}
}

func (l *link) port() rvt.Port {
	if l.direct != nil {
		return testenv.Must(direct.New(l.direct, direct.Config{PKeys: []ci.PKey{0xffff, 0x8001}}))
	}
	l.n++
	return testenv.Must(sim.New(l.ether, sim.Config{Addr: netip.AddrFrom4([4]byte{10, 0, 0, l.n})}))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newNode returns a node with a number of ports on a link.
func newNode(t testing.TB, n *network, l *link, ports int, cfg cm.Config) *node {
	var ps []rvt.Port
	for range ports {
		ps = append(ps, l.port())
	}
	return newNodeOn(t, n, cfg, ps...)
}

func newNodeOn(t testing.TB, n *network, cfg cm.Config, ports ...rvt.Port) *node {
	x := &node{t: t, al: accesslayer.New(accesslayer.Config{PollInterval: -1}),
		hca: must(reference.New(reference.Config{Ports: ports}))}
	require.NoError(t, x.al.Register(x.hca))
	x.svc = &service{net: n, al: x.al}
	if cfg.Rand == nil {
		cfg.Rand = rand.New(rand.NewPCG(n.rng.Uint64(), 2))
	}
	x.m = must(cm.New(x.al, x.svc, cfg))
	return x
}

func (n *node) close() {
	require.NoError(n.t, n.m.Close())
	require.NoError(n.t, n.al.Close())
	require.NoError(n.t, n.hca.Close())
}

func (n *node) port(num uint8) mads.Port { return mads.Port{CA: n.hca.Info().GUID, Num: num} }

func (n *node) attr(num uint8) *ci.PortAttr {
	return must(must(n.al.Adapter(n.hca.Info().GUID)).Port(num))
}

// path returns the path from a port of a node to a port of another.
func (n *node) path(num uint8, to *node, toNum uint8) cm.Path {
	p := cm.Path{Port: n.port(num), LifeTime: 14,
		AV: ci.AVAttr{GRH: ci.GRH{DGID: to.attr(toNum).GIDs[0].GID, HopLimit: 64, FlowLabel: 0x12345}}}
	if n.attr(num).Link == ci.LinkInfiniBand {
		p.AV.DLID = to.attr(toNum).LID
		p.AV.GRH.HopLimit = 0
	}
	return p
}

// pass sleeps, in virtual time.
func pass(d time.Duration) { time.Sleep(d) }

const service1 mad.ServiceID = 0x1001

// requestTo returns the configuration of a request to another node.
func (n *node) requestTo(to *node, edit ...func(*cm.ConnectConfig)) cm.ConnectConfig {
	cfg := cm.ConnectConfig{Service: service1, QP: cm.QP{Num: 0x100, StartPSN: 0x111111}, Primary: n.path(1, to, 1),
		Private:            []byte("request"),
		ResponderResources: 4, InitiatorDepth: 3, RetryCount: 7, RNRRetry: 6, MaxRetries: 5, ResponseTime: 18,
		RemoteResponseTime: 18}
	for _, e := range edit {
		e(&cfg)
	}
	return cfg
}

func reply() cm.AcceptConfig {
	return cm.AcceptConfig{QP: cm.QP{Num: 0x200, StartPSN: 0x222222}, Private: []byte("accepts"), ResponderResources: 9,
		InitiatorDepth: 2, RNRRetry: 5}
}

// pair is two nodes in a bubble of virtual time.
type pair struct {
	t    *testing.T
	net  *network
	a, b *node
}

// inPair runs a test on two nodes of each link layer. After the test and the end of time-wait, no state may be left in
// either manager.
func inPair(t *testing.T, f func(t *testing.T, p *pair)) {
	for name, typ := range map[string]ci.Link{"InfiniBand": ci.LinkInfiniBand, "Ethernet": ci.LinkEthernet} {
		t.Run(name, func(t *testing.T) { inPairOn(t, typ, 1, cm.Config{}, f) })
	}
}

func inPairOn(t *testing.T, typ ci.Link, ports int, cfg cm.Config, f func(t *testing.T, p *pair)) {
	synctest.Test(t, func(t *testing.T) {
		n, l := newNetwork(1), newLink(typ)
		p := &pair{t: t, net: n, a: newNode(t, n, l, ports, cfg), b: newNode(t, n, l, ports, cfg)}
		f(t, p)
		time.Sleep(time.Hour)
		for _, x := range []*node{p.a, p.b} {
			c := x.m.Counters()
			require.Zero(t, c.Conns, "%v", c)
			require.Zero(t, c.Pending)
			require.Zero(t, c.TimeWait)
			require.Zero(t, c.Lookups)
			require.Zero(t, cm.PendingTimers(x.m), "timers are left")
			x.close()
		}
	})
}

// listen creates a listener on a node.
func (n *node) listen(edit ...func(*cm.ListenConfig)) cm.Listener {
	cfg := cm.ListenConfig{Service: service1}
	for _, e := range edit {
		e(&cfg)
	}
	return must(n.m.Listen(cfg))
}

// establish establishes a connection from a to b.
func (p *pair) establish(edit ...func(*cm.ConnectConfig)) (active, passive cm.Conn) {
	l := p.b.listen()
	defer func() { require.NoError(p.t, l.Close()) }()
	return p.connect(l, p.a.requestTo(p.b, edit...), reply())
}

func (p *pair) connect(l cm.Listener, request cm.ConnectConfig, answer cm.AcceptConfig) (active, passive cm.Conn) {
	accepted := make(chan error, 1)
	passives := make(chan cm.Conn, 1)
	go func() {
		c, err := l.Accept(p.t.Context())
		if err == nil {
			passives <- c
			err = c.Accept(p.t.Context(), answer)
		}
		accepted <- err
	}()
	active, err := p.a.m.Connect(p.t.Context(), request)
	require.NoError(p.t, err)
	require.Equal(p.t, cm.StateREPRcvd, active.State())
	require.NoError(p.t, active.Confirm([]byte("confirms")))
	require.NoError(p.t, <-accepted)
	return active, <-passives
}

// next waits for the next event and checks its type.
func next(t testing.TB, c cm.Conn, typ cm.EventType) cm.Event {
	t.Helper()
	e, err := c.Next(context.Background())
	assert.NoError(t, err)
	assert.Equal(t, typ, e.Type, "%v", e.Type)
	return e
}

// nextAfterDelays is next for peers with real clocks, which send an MRA when the machine is busy.
func nextAfterDelays(t testing.TB, c cm.Conn, typ cm.EventType) cm.Event {
	t.Helper()
	for {
		e, err := c.Next(context.Background())
		if !assert.NoError(t, err) || e.Type != cm.EventDelayed {
			assert.Equal(t, typ, e.Type, "%v", e.Type)
			return e
		}
	}
}

func private(b []byte, n int) []byte { return append(bytes.Clone(b), make([]byte, n-len(b))...) }
