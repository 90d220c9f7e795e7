package lnd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
	"ciddk/hca/reference"
)

func TestSizes(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	s := newStore()
	a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
	na, nb := a.node(Config{Checksum: true}), b.node(s.config())
	ctx := limit(t)
	room := make([]byte, 1<<20+1)
	sizes := []int{0, 1, MaxImmediate, MaxImmediate + 1, 4096, 4097, 65536, 100001, 1<<20 - 1, 1 << 20}
	for i, size := range sizes {
		for _, skew := range []int{0, 1} {
			at := Address{Portal: 4, Match: uint64(i), Offset: uint32(skew)}
			data := append(make([]byte, skew), random(uint64(i), size)...)[skew:]
			require.NoError(t, na.Put(ctx, b.addr, at, data), "PUT of %d bytes", size)
			require.True(t, bytes.Equal(data, s.read(at)), "PUT of %d bytes", size)
			clear(room)
			into := room[skew : skew+size]
			n, err := na.Get(ctx, b.addr, at, into)
			require.NoError(t, err, "GET of %d bytes", size)
			require.Equal(t, size, n)
			require.True(t, bytes.Equal(data, into), "GET of %d bytes", size)
		}
	}
	require.NoError(t, nb.Close())
	require.Equal(t, 4*len(sizes), s.asked)
	require.Equal(t, s.asked, s.done, "calls of Done")
}

// What the ends' memory does not fit is cut, and the caller hears of it.
func TestRefusedAndCut(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	s := newStore()
	a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
	c := r.host("10.0.0.3", direct(l))
	cfg := s.config()
	const short = 5
	cfg.OnPut = func(ctx context.Context, q Request) (Buffer, error) {
		buf, err := s.put(ctx, q)
		if q.At.Portal == short {
			buf.Data = buf.Data[:q.Length/2]
		}
		return buf, err
	}
	na := a.node(Config{})
	b.node(cfg)
	c.node(Config{}) // answers nobody
	ctx := limit(t)
	for _, size := range []int{100, 100000} {
		data := random(1, size)
		into := make([]byte, size)
		require.ErrorIs(t, na.Put(ctx, b.addr, Address{Portal: nowhere}, data), ErrRefused)
		_, err := na.Get(ctx, b.addr, Address{Portal: nowhere}, into)
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorIs(t, na.Put(ctx, c.addr, Address{}, data), ErrRefused)
		_, err = na.Get(ctx, c.addr, Address{}, into)
		require.ErrorIs(t, err, ErrRefused)
		require.ErrorIs(t, na.Put(ctx, b.addr, Address{Portal: short}, data), io.ErrShortWrite)
		require.Equal(t, data[:size/2], s.read(Address{Portal: short}))
		n, err := na.Get(ctx, b.addr, Address{Portal: short}, into)
		require.NoError(t, err, "a GET of more than there is")
		require.Equal(t, data[:size/2], into[:n])
	}
	require.ErrorContains(t, na.Put(ctx, b.addr, Address{}, make([]byte, MaxTransfer+1)), "a transfer holds 1048576")
	_, err := na.Get(ctx, netip.MustParseAddr("::1"), Address{}, nil)
	require.ErrorContains(t, err, "IPv4")
	require.ErrorContains(t, na.Put(ctx, netip.MustParseAddr("10.9.9.9"), Address{}, nil), "nobody there")
	require.Len(t, na.peers, 2, "a peer that does not answer is forgotten")
}

// starter is a place for a node.
type starter interface{ node(Config) *Node }

// storm has every node PUT to and GET from every node, itself included, and checks all contents.
func storm(t *testing.T, hosts []starter, cfg Config, each, largest int) {
	var nodes []*Node
	var stores []*store
	for _, h := range hosts {
		s := newStore()
		c := cfg
		c.OnPut, c.OnGet = s.put, s.get
		nodes, stores = append(nodes, h.node(c)), append(stores, s)
	}
	ctx := limit(t)
	var wg sync.WaitGroup
	for i, n := range nodes {
		for j, to := range nodes {
			for k := range each {
				wg.Go(func() {
					seed := uint64(i)<<16 | uint64(j)<<8 | uint64(k)
					size := rand.New(rand.NewPCG(seed, 1)).IntN(largest)
					if k%3 == 0 {
						size %= MaxImmediate
					}
					data, at := random(seed, size), Address{Match: seed}
					if !assert.NoError(t, n.Put(ctx, to.nid.Addr(), at, data)) {
						return
					}
					assert.True(t, bytes.Equal(data, stores[j].read(at)), "PUT from %d to %d", i, j)
					into := make([]byte, size+1)
					got, err := n.Get(ctx, to.nid.Addr(), at, into)
					if size == 0 { // nothing of something is a refusal
						assert.ErrorIs(t, err, ErrRefused)
						return
					}
					if assert.NoError(t, err) {
						assert.True(t, bytes.Equal(data, into[:got]), "GET of %d from %d", i, j)
					}
				})
			}
		}
	}
	wg.Wait()
	for i, n := range nodes {
		require.NoError(t, n.Close())
		require.Equal(t, stores[i].asked, stores[i].done, "calls of Done")
	}
}

func TestAllToAll(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
	}{
		{"as usual", Config{}},
		{"the shortest queue, few regions", Config{Depth: 2, Regions: 2}},
		{"a long queue", Config{Depth: 40}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, l := newRig(t), reference.NewDirectLink()
			hosts := []starter{r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l)), r.host("10.0.1.1", direct(l))}
			storm(t, hosts, tt.cfg, 20, 200000)
		})
	}
}

// needLoopback skips where only 127.0.0.1 is a loopback address, as on macOS.
func needLoopback(t *testing.T) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.19.79.255:0")
	if err != nil {
		t.Skip(err)
	}
	require.NoError(t, c.Close())
}

// udpPort is this package's own.
const udpPort = 47921

// udp is an adapter on loopback, on a UDP port of this package's own, over a link that harms so much of what it sends.
func udp(addr string, harm float64, seed uint64) reference.Config {
	p := reference.UDP(reference.UDPConfig{Addr: netip.MustParseAddr(addr), Port: udpPort})
	if harm > 0 {
		i := reference.Impairment{Drop: harm, Duplicate: harm, Reorder: harm, Corrupt: harm}
		p = reference.Impair(p, reference.ImpairConfig{Seed: seed, Out: i})
	}
	return reference.Config{Ports: []reference.PortConfig{p}}
}

func TestUDP(t *testing.T) {
	needLoopback(t)
	tests := []struct {
		name string
		harm float64
	}{{"good", 0}, {"bad", 0.01}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			hosts := []starter{r.host("127.19.79.1", udp("127.19.79.1", tt.harm, 1)), r.host("127.19.79.2", udp("127.19.79.2", tt.harm, 2))}
			storm(t, hosts, Config{}, 12, 300000)
			if tt.harm > 0 {
				require.NotZero(t, hosts[0].(*wired).hca.Counters()["impair_dropped"])
			}
		})
	}
}

// fewer is an adapter on which a queue pair with more than so many send requests cannot be made.
func fewer(c reference.Config, requests int, tries *int) reference.Config {
	c.Override = ciwrap.Layer{PD: func(in ci.PD, _ ci.PDType) ci.PD { return &fewerPD{ciwrap.PD{PD: in}, requests, tries} }}
	return c
}

type fewerPD struct {
	ciwrap.PD
	requests int
	tries    *int
}

func (p *fewerPD) CreateQP(c ci.QPCreate, ub *ci.UserBuffer) (ci.QP, error) {
	if *p.tries++; c.SendDepth > p.requests {
		return nil, &ci.Error{Verb: "PD.CreateQP", Status: ci.InsufficientResources}
	}
	return p.PD.CreateQP(c, ub)
}

// The depth goes down until a queue pair can be made, at either end, and both ends use the smaller one.
func TestDepthIsLowered(t *testing.T) {
	tests := []struct {
		name             string
		active, passive  func(*int, reference.Config) reference.Config
		depth, maxActive int
		tries            int
		fails            string
	}{
		{"room for all", nil, nil, 8, 8, 0, ""},
		{"the active end is refused", scarce(sendDepth(5)), nil, 5, 5, 4, ""},
		{"the passive end is refused", nil, scarce(sendDepth(3)), 3, 8, 6, ""},
		{"both", scarce(sendDepth(5)), scarce(sendDepth(4)), 4, 5, 6, ""},
		{"the active end's limits", limited(sendDepth(6) + 1), nil, 6, 6, 0, ""},
		{"nothing at the passive end", nil, scarce(sendDepth(1)), 0, 0, 7, "out of resources"},
		{"nothing at the active end", scarce(sendDepth(1)), nil, 0, 0, 7, "for 2 messages"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, l := newRig(t), reference.NewDirectLink()
			tries := 0
			config := func(f func(*int, reference.Config) reference.Config) reference.Config {
				if f == nil {
					return direct(l)
				}
				return f(&tries, direct(l))
			}
			a, b := r.host("10.0.0.1", config(tt.active)), r.host("10.0.0.2", config(tt.passive))
			asked := uint16(0)
			r.onRequest = func(_, _ netip.Addr, private []byte) { asked = must(Parse(private)).Params.Depth }
			s := newStore()
			na, nb := a.node(Config{}), b.node(s.config())
			err := na.Put(limit(t), b.addr, Address{}, random(1, 1<<20))
			if tt.tries > 0 {
				require.Equal(t, tt.tries, tries, "queue pairs tried")
			}
			if tt.fails != "" {
				require.ErrorContains(t, err, tt.fails)
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, tt.maxActive, asked, "depth in the request")
			for _, n := range []*Node{na, nb} {
				require.Equal(t, []int{tt.depth, tt.depth}, depths(n))
			}
		})
	}
}

func scarce(requests int) func(*int, reference.Config) reference.Config {
	return func(tries *int, c reference.Config) reference.Config { return fewer(c, requests, tries) }
}

func limited(requests int) func(*int, reference.Config) reference.Config {
	return func(_ *int, c reference.Config) reference.Config { c.Attr.MaxWRs = requests; return c }
}

// Different wishes: the end that asks for more than the other has asks again for less.
func TestDepthIsNegotiated(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
	var asked []uint16
	r.onRequest = func(_, _ netip.Addr, private []byte) { asked = append(asked, must(Parse(private)).Params.Depth) }
	s := newStore()
	cfg := s.config()
	cfg.Depth = 5
	na := a.node(Config{Depth: 20})
	b.node(cfg)
	require.NoError(t, na.Put(limit(t), b.addr, Address{}, random(1, 50000)))
	require.Equal(t, []uint16{20, 5}, asked)
}

// A peer that was restarted refuses who means its earlier self, tells its new incarnation, and is asked again.
func TestStaleIncarnation(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	s := newStore()
	a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
	na, nb := a.node(Config{}), b.incarnation(s.config(), 100)
	ctx := limit(t)
	require.NoError(t, na.Put(ctx, b.addr, Address{}, []byte("one")))
	var stamps []uint64
	r.onRequest = func(_, _ netip.Addr, private []byte) { stamps = append(stamps, must(Parse(private)).ToStamp) }
	na.mu.Lock()
	p := na.peers[must(NIDOf(0, b.addr))]
	p.using++ // as somebody who waits for the next connection does
	changed := p.changed
	na.mu.Unlock()
	require.NoError(t, nb.Close())
	<-changed // the connection is gone
	b.incarnation(s.config(), 200)
	require.NoError(t, na.Put(ctx, b.addr, Address{}, []byte("two")))
	require.Equal(t, []uint64{100, 200}, stamps)
	require.Equal(t, "two", string(s.read(Address{})))
	na.release(p)
}

// Both ends ask at once: the one with the lower rank is refused, and uses the connection that the other makes.
func TestRace(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
	sa, sb := newStore(), newStore()
	na, nb := a.node(sa.config()), b.node(sb.config())
	require.Less(t, na.nid.rank(), nb.nid.rank())
	dialing, refused := make(chan struct{}), make(chan struct{})
	r.onRequest = func(from, _ netip.Addr, _ []byte) {
		if from == b.addr {
			close(dialing)
			<-refused // b's request is on its way for so long
		}
	}
	ctx := limit(t)
	var wg sync.WaitGroup
	wg.Go(func() { assert.NoError(t, nb.Put(ctx, a.addr, Address{}, []byte("from b"))) })
	<-dialing
	wg.Go(func() { assert.NoError(t, na.Put(ctx, b.addr, Address{}, []byte("from a"))) })
	races := func() int {
		nb.mu.Lock()
		defer nb.mu.Unlock()
		return nb.peer(na.nid).races
	}
	require.Eventually(t, func() bool { return races() == 1 }, time.Minute, time.Millisecond)
	close(refused)
	wg.Wait()
	require.Equal(t, "from a", string(sb.read(Address{})))
	require.Equal(t, "from b", string(sa.read(Address{})))
	for _, n := range []*Node{na, nb} {
		n.mu.Lock()
		conns := 0
		for _, p := range n.peers {
			conns += len(p.conns)
		}
		n.mu.Unlock()
		require.Equal(t, 1, conns)
	}
}

// blocked is a node whose handlers wait until they are let go or their connection ends.
type blocked struct {
	entered chan struct{}
	leave   chan struct{}
}

func newBlocked() *blocked {
	return &blocked{entered: make(chan struct{}, 100), leave: make(chan struct{})}
}

func (b *blocked) handle(ctx context.Context, r Request) (Buffer, error) {
	b.entered <- struct{}{}
	select {
	case <-b.leave:
		return Buffer{Data: make([]byte, r.Length)}, nil
	case <-ctx.Done():
		return Buffer{}, ctx.Err()
	}
}

// Callers that give up: small and unsent transfers leave no trace, a large one under way takes the connection, and the next one makes a
// new one.
func TestContextEnds(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	slow := newBlocked()
	a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
	na := a.node(Config{Depth: 2})
	b.node(Config{OnPut: slow.handle, OnGet: slow.handle})
	ctx := limit(t)
	why := errors.New("no patience")
	conn := func() *conn { return must(na.connect(ctx, must(NIDOf(0, b.addr)))) }
	c := conn()
	var wg sync.WaitGroup
	put := func(size int) context.CancelCauseFunc {
		ctx, cancel := context.WithCancelCause(ctx)
		wg.Go(func() { assert.ErrorIs(t, na.Put(ctx, b.addr, Address{}, make([]byte, size)), why) })
		return cancel
	}
	first := put(100)
	<-slow.entered
	first(why) // it is being handled at the other end
	wg.Wait()
	require.Same(t, c, conn())
	put(100)(why) // sent, or not
	wg.Wait()
	require.Same(t, c, conn())
	require.NoError(t, context.Cause(c.ctx))

	close(slow.leave) // the handlers go on; their ACKs are for nobody
	require.NoError(t, na.Put(ctx, b.addr, Address{}, make([]byte, 100000)))
	slow.leave = make(chan struct{})
	for len(slow.entered) > 0 {
		<-slow.entered
	}
	second := put(100000)
	<-slow.entered
	second(why)
	wg.Wait()
	require.NotSame(t, c, conn())
	close(slow.leave)
	require.NoError(t, na.Put(ctx, b.addr, Address{}, make([]byte, 100000)))
}

// Many callers whose patience ends at any moment, while others have all the time: who succeeds has the right data, everybody returns,
// and the nodes go on.
func TestImpatience(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
	sa, sb := newStore(), newStore()
	ca, cb := sa.config(), sb.config()
	ca.Depth, cb.Depth, ca.Regions, cb.Regions = 3, 3, 4, 4
	na, nb := a.node(ca), b.node(cb)
	stores := map[*Node]*store{na: sb, nb: sa}
	to := map[*Node]netip.Addr{na: b.addr, nb: a.addr}
	ctx := limit(t)
	sa.data[Address{Match: 1}], sb.data[Address{Match: 1}] = random(1, 200000), random(1, 200000)
	var wg sync.WaitGroup
	var bad, lost atomic.Int32
	transfer := func(i int) {
		n := []*Node{na, nb}[i%2]
		rnd := rand.New(rand.NewPCG(uint64(i), 7))
		size := rnd.IntN(200000) + 1
		if i%3 == 0 {
			size = size%MaxImmediate + 1
		}
		once := func(ctx context.Context) (err error) {
			data := random(uint64(i), size)
			if i%4 < 2 {
				at := Address{Match: uint64(i + 10)}
				if err = n.Put(ctx, to[n], at, data); err == nil {
					assert.True(t, bytes.Equal(data, stores[n].read(at)), "PUT %d", i)
				}
				return err
			}
			k, err := n.Get(ctx, to[n], Address{Match: 1}, data)
			assert.True(t, err != nil || k == size && bytes.Equal(random(1, 200000)[:k], data), "GET %d", i)
			return err
		}
		if i%8 == 0 {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(rnd.IntN(3000))*time.Microsecond)
			defer cancel()
			if once(ctx) != nil {
				bad.Add(1)
			}
			return
		}
		err := once(ctx)
		for err != nil && ctx.Err() == nil { // another one's impatience took the connection
			lost.Add(1)
			err = once(ctx)
		}
		assert.NoError(t, err)
	}
	work := make(chan int)
	go func() {
		defer close(work)
		for i := range 400 {
			work <- i
		}
	}()
	for range 12 {
		wg.Go(func() {
			for i := range work {
				transfer(i)
			}
		})
	}
	wg.Wait()
	require.NoError(t, ctx.Err(), "somebody waited for ever")
	t.Logf("%d transfers given up, %d lost with their connection and begun again", bad.Load(), lost.Load())
	require.NoError(t, na.Close())
	require.NoError(t, nb.Close())
	for _, s := range stores {
		require.Equal(t, s.asked, s.done, "calls of Done")
	}
	for _, n := range []*Node{na, nb} {
		require.Zero(t, n.pool.lent)
		require.Empty(t, n.pool.all)
		require.Empty(t, n.pool.ours)
	}
}

// depths are those of a node's connections.
func depths(n *Node) (all []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		c.mu.Lock()
		all = append(all, int(c.params.Depth), c.flow.depth)
		c.mu.Unlock()
	}
	return all
}

// A peer that does not answer in time loses the connection.
func TestTimeout(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	slow := newBlocked()
	a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
	now := clock.NewVirtual(0)
	na := a.node(Config{Clock: now, Timeout: 40 * time.Second})
	b.node(Config{OnPut: slow.handle})
	done := make(chan error)
	go func() { done <- na.Put(context.Background(), b.addr, Address{}, make([]byte, 100000)) }()
	<-slow.entered
	now.Advance(39 * time.Second)
	select {
	case err := <-done:
		t.Fatal("too early: ", err)
	default:
	}
	now.Advance(11 * time.Second) // the look at the deadlines comes each quarter of the timeout
	require.ErrorIs(t, <-done, ErrTimeout)
}

// Silence is broken by NOOPs.
func TestKeepalive(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	s := newStore()
	a, b := r.host("10.0.0.1", direct(l)), r.host("10.0.0.2", direct(l))
	now := clock.NewVirtual(0)
	na := a.node(Config{Clock: now})
	nb := b.node(s.config())
	require.NoError(t, na.Put(limit(t), b.addr, Address{}, []byte("hello")))
	conn := func(n *Node) *conn {
		for c := range n.conns {
			return c
		}
		panic("no connection")
	}
	ca, cb := conn(na), conn(nb)
	require.Eventually(t, func() bool { ca.mu.Lock(); defer ca.mu.Unlock(); return ca.flow.posted == 0 }, time.Minute, time.Millisecond)
	ca.mu.Lock()
	owed := ca.flow.owed
	ca.mu.Unlock()
	require.Equal(t, 1, owed, "for the ACK")
	before := func() int { cb.mu.Lock(); defer cb.mu.Unlock(); return cb.flow.credits }()
	now.Advance(120 * time.Second)
	require.Eventually(t, func() bool { cb.mu.Lock(); defer cb.mu.Unlock(); return cb.flow.credits == before+1 }, time.Minute, time.Millisecond)
}

// The peer's adapter is pulled in the middle of things: everything that is pending ends, with an error, at both ends.
func TestPeerKilled(t *testing.T) {
	needLoopback(t)
	for _, kill := range []string{"peer", "own"} {
		t.Run(kill, func(t *testing.T) {
			r := newRig(t)
			s := newStore()
			s.data[Address{Match: 1}] = random(1, 1<<20)
			a, b := r.host("127.19.79.3", udp("127.19.79.3", 0, 0)), r.host("127.19.79.4", udp("127.19.79.4", 0, 0))
			na, nb := a.node(Config{}), b.node(s.config())
			ctx := limit(t)
			require.NoError(t, na.Put(ctx, b.addr, Address{}, []byte("connected")))
			var wg sync.WaitGroup
			moved := make(chan struct{}, 1000)
			for i := range 16 {
				wg.Go(func() {
					for buf := make([]byte, 1<<20); ; {
						var err error
						if i%2 == 0 {
							err = na.Put(ctx, b.addr, Address{Match: 2}, buf)
						} else {
							_, err = na.Get(ctx, b.addr, Address{Match: 1}, buf)
						}
						if err != nil {
							assert.NoError(t, ctx.Err(), "the connection must end before the test's patience: %v", err)
							return
						}
						select {
						case moved <- struct{}{}:
						default:
						}
					}
				})
			}
			for range 8 {
				<-moved
			}
			victim := b
			if kill == "own" {
				victim = a
			}
			require.NoError(t, r.al.Deregister(victim.hca.Info().GUID))
			require.NoError(t, victim.hca.Close())
			// A host that is gone has no connection manager that would say so, and the dial of the next PUT finds nobody.
			r.mu.Lock()
			delete(r.nodes, b.addr)
			r.mu.Unlock()
			wg.Wait()
			require.NoError(t, na.Close())
			require.NoError(t, nb.Close())
			require.Equal(t, s.asked, s.done, "calls of Done")
		})
	}
}

func TestConfig(t *testing.T) {
	r, l := newRig(t), reference.NewDirectLink()
	w := r.host("10.0.0.1", direct(l))
	tests := []struct {
		cfg  Config
		says string
	}{
		{Config{Addr: w.addr, Depth: 1}, "Depth is 1, must be 2 to 255"},
		{Config{Addr: w.addr, Depth: 256}, "Depth is 256"},
		{Config{Addr: w.addr, Regions: 1}, "Regions is 1"},
		{Config{Addr: w.addr, Timeout: -1}, "must not be negative"},
		{Config{Addr: netip.MustParseAddr("::1")}, "IPv4"},
		{Config{}, "IPv4"},
	}
	for _, tt := range tests {
		_, err := newNode(tt.cfg, w, 1)
		require.ErrorContains(t, err, tt.says)
	}
	n := w.node(Config{})
	require.Equal(t, "10.0.0.1@o2ib", n.NID().String())
	require.NoError(t, n.Close())
	require.NoError(t, n.Close())
	require.ErrorContains(t, n.Put(limit(t), w.addr, Address{}, nil), "closed")
}
