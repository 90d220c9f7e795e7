package lnd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/link/impair"
	"ciddk/link/sim"
)

func TestSizes(t *testing.T) {
	s := newStore()
	na, nb, c := pair(t, newNetwork(), Config{}, s.config())
	ctx := limit(t)
	room := make([]byte, 1<<20+1)
	for i, size := range []int{1, maxImmediate, maxImmediate + 1, 4096, 4097, 65536, 100001, 1<<20 - 1, 1 << 20} {
		for _, skew := range []int{0, 1} {
			at := 1<<40 + uint64(2*i+skew)
			data := append(make([]byte, skew), random(uint64(i), size)...)[skew:]
			require.Equal(t, size, must(c.Put(ctx, at, data)), "PUT")
			clear(room)
			into := room[skew : skew+size]
			require.Equal(t, size, must(c.Get(ctx, at, into)), "GET")
			require.True(t, bytes.Equal(data, into), "%d bytes", size)
			require.True(t, bytes.Equal(data, s.read(at)), "%d bytes", size)
		}
	}
	for _, size := range []int{0, MaxTransfer + 1} {
		_, err := c.Put(ctx, 0, make([]byte, size))
		require.ErrorContains(t, err, "want 1 to 1048576")
	}
	onLoop(t, c, func() { assert.Empty(t, c.ops, "transfers that have not ended, with their regions") })
	require.NoError(t, na.Close())
	require.NoError(t, nb.Close())
	s.check(t)
}

// The shorter memory of both ends limits a transfer, and the caller gets the number of bytes.
func TestRefusedAndCut(t *testing.T) {
	s := newStore()
	na, nb, c := pair(t, newNetwork(), Config{}, s.config()) // na serves no requests
	back := must(nb.Dial(limit(t), na.cfg.Addr))
	ctx := limit(t)
	data, into := random(1, 100000), make([]byte, 100000)
	for _, c := range []*Conn{c, back} {
		_, err := c.Put(ctx, nowhere, data)
		require.ErrorIs(t, err, ErrRefused)
		for _, n := range []int{100, 100000} {
			_, err = c.Get(ctx, nowhere, into[:n])
			require.ErrorIs(t, err, ErrRefused)
		}
		_, err = c.Put(ctx, nowhere, data[:100])
		require.ErrorIs(t, err, ErrRefused)
	}
	require.Equal(t, 50000, must(c.Put(ctx, half, data)))
	require.Equal(t, data[:50000], s.read(half))
	require.Equal(t, 50000, must(c.Get(ctx, half, into)), "a GET of more than the peer has")
	require.Equal(t, data[:50000], into[:50000])
	require.Equal(t, 10, must(c.Get(ctx, half, into[:10])), "a GET of less")
	require.Nil(t, s.read(nowhere))
}

// storm has both nodes PUT to and GET from each other, over connections in both directions, and checks all contents.
func storm(t *testing.T, network *sim.Network, cfg Config, each, largest int) {
	hosts := []*host{newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)}
	stores := []*store{newStore(), newStore()}
	var nodes []*Node
	for i, h := range hosts {
		cfg.OnPut, cfg.OnGet = stores[i].put, stores[i].get
		nodes = append(nodes, h.node(cfg))
	}
	ctx := limit(t)
	var wg sync.WaitGroup
	var conns []*Conn
	for i := range nodes {
		j := 1 - i
		c := must(nodes[i].Dial(ctx, hosts[j].addr))
		conns = append(conns, c)
		for k := range each {
			wg.Go(func() {
				seed := uint64(i)<<8 | uint64(k)
				size := rand.New(rand.NewPCG(seed, 1)).IntN(largest) + 1
				if k%3 == 0 {
					size = size%maxImmediate + 1
				}
				data, at := random(seed, size), seed
				if n, err := c.Put(ctx, at, data); !assert.NoError(t, err) || !assert.Equal(t, size, n) {
					return
				}
				into := make([]byte, size+1)
				n, err := c.Get(ctx, at, into)
				if assert.NoError(t, err) {
					assert.True(t, bytes.Equal(data, into[:n]), "%d bytes", size)
				}
			})
		}
	}
	wg.Wait()
	for i, n := range nodes {
		require.NoError(t, n.Close())
		stores[i].check(t)
		require.Empty(t, conns[i].ops, "each transfer has released its region")
	}
}

func TestBothDirections(t *testing.T) {
	for _, depth := range []int{2, 8, 40} {
		t.Run(fmt.Sprint("depth ", depth),
			func(t *testing.T) { storm(t, newNetwork(), Config{Depth: depth}, 60, 200000) })
	}
}

func TestImpairedLink(t *testing.T) {
	bad := sim.NewNetwork(sim.NetworkConfig{Seed: 1, Impairment: impair.Model{Drop: 0.01, Duplicate: 0.01,
		Reorder: 0.01, Corrupt: 0.01}})
	storm(t, bad, Config{}, 12, 300000)
	require.NotZero(t, bad.Count(impair.Drop))
}

// After Get has returned, a WRITE with the key that the peer has does not change the memory.
func TestNoWriteAfterwards(t *testing.T) {
	s := newStore()
	s.data[0] = random(1, 5000)
	_, nb, c := pair(t, newNetwork(), Config{}, s.config())
	ctx := limit(t)
	into, got := make([]byte, 5000), make(chan error, 1)
	var at where
	onLoop(t, c, func() { // as Get does
		o := &op{ours: true, mem: into, waits: getDone, done: func(_ int, err error) { got <- err }}
		c.add(o)
		assert.NoError(t, c.sendTarget(o, message{header: header{Type: getReq}, cookie: o.cookie,
			lnet: lnet{Op: lnetGet, Words: [4]uint32{2: 5000}}}))
		at = where{Key: uint32(o.reg.RKey), Addr: o.reg.Addr}
	})
	require.NoError(t, <-got)
	require.Equal(t, random(1, 5000), into)
	// Another connection of the same peer can use the key, too.
	back := must(nb.Dial(ctx, c.n.cfg.Addr))
	_, err := back.Put(ctx, 0, []byte("both ends are there"))
	require.ErrorIs(t, err, ErrRefused)
	onLoop(t, back, func() {
		o := &op{mem: make([]byte, 5000), done: func(int, error) {}}
		back.add(o)
		assert.NoError(t, back.write(o, o.mem, at, message{header: header{Type: noop}}))
	})
	<-back.over
	// The NAK, and the disconnection by the peer whose queue pair failed, may arrive in either order.
	if !errors.Is(back.err, rdmacm.ErrPeerDisconnected) {
		require.ErrorIs(t, back.err, ci.WCRemAccessErr.Err())
	}
	require.Equal(t, random(1, 5000), into)
}

// onLoop runs f on the goroutine of a connection.
func onLoop(t *testing.T, c *Conn, f func()) {
	done := make(chan struct{})
	select {
	case c.begins <- func() error { f(); close(done); return nil }:
		<-done
	case <-limit(t).Done():
		t.Fatal("the connection does not answer")
	}
}

// If an adapter lacks resources, its end reduces the depth until it can create a queue pair, and both ends use the
// smaller depth.
func TestDepthIsLowered(t *testing.T) {
	const all = 5 * 8
	tests := []struct {
		name            string
		active, passive int // send requests
		depth           uint16
		tries           [2]int
		fails           string
	}{
		{"room for all", all, all, 8, [2]int{1, 1}, ""},
		{"the active end", 5*5 + 4, all, 5, [2]int{4, 1}, ""},
		{"the passive end", all, 5 * 3, 3, [2]int{1, 6}, ""},
		{"both", 5 * 5, 5 * 4, 4, [2]int{4, 2}, ""},
		{"nothing at the passive end", all, 5, 0, [2]int{1, 7}, "reason 2"},
		{"nothing at the active end", 5, all, 0, [2]int{7, 0}, "insufficient resources"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tries [2]int
			network := newNetwork()
			a, b := newHost(t, network, "10.0.0.1", tt.active, &tries[0]), newHost(t, network, "10.0.0.2",
				tt.passive, &tries[1])
			s := newStore()
			na, nb := a.node(Config{}), b.node(s.config())
			ctx := limit(t)
			c, err := na.Dial(ctx, b.addr)
			if tt.fails != "" {
				require.Error(t, err)
				require.Contains(t, fmt.Sprint(err), tt.fails)
				require.Equal(t, tt.tries, tries)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1<<20, must(c.Put(ctx, 0, random(1, 1<<20))))
			require.Equal(t, random(1, 1<<20), s.read(0))
			require.NoError(t, na.Close())
			require.NoError(t, nb.Close())
			require.Equal(t, tt.tries, tries, "queue pairs tried")
			require.Equal(t, tt.depth, c.params.Depth)
			require.Equal(t, int(tt.depth), c.flow.depth)
		})
	}
}

// A peer that rejects a depth names the one that it accepts, and the active end tries that.
func TestDepthIsNegotiated(t *testing.T) {
	s := newStore()
	cfg := s.config()
	cfg.Depth = 5
	_, _, c := pair(t, newNetwork(), Config{Depth: 20}, cfg)
	require.EqualValues(t, 5, c.params.Depth)
	require.Equal(t, 50000, must(c.Put(limit(t), 0, random(1, 50000))))
}

func TestDialFails(t *testing.T) {
	network := newNetwork()
	a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
	na := a.node(Config{})
	ctx := limit(t)
	_, err := na.Dial(ctx, b.addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	_, err = na.Dial(ctx, netip.MustParseAddr("::1"))
	require.ErrorContains(t, err, "IPv4")
	why, cancel := context.WithCancel(ctx)
	cancel()
	_, err = na.Dial(why, b.addr)
	require.ErrorIs(t, err, context.Canceled)

	// Peers with another protocol, in both roles.
	ln := must(b.m.IDs().Listen(netip.AddrPortFrom(b.addr, 987), cmid.ListenConfig{}))
	defer ln.Close()
	answers := []func(*cmid.ID) error{
		func(id *cmid.ID) error {
			return errors.Join(id.CreateQP(cmid.QPConfig{}),
				id.Accept(ctx, cmid.ConnParam{Private: []byte("welcome")}))
		},
		func(id *cmid.ID) error { return id.Reject([]byte("go away")) },
		func(id *cmid.ID) error { return id.Reject(Reject{Why: 200}.append(nil)) },
	}
	for i, is := range []error{ErrMessage, syscall.ECONNREFUSED, nil} {
		done := make(chan error)
		go func() {
			id, err := ln.Accept(ctx)
			if err == nil {
				err = answers[i](id)
				if i == 0 {
					<-id.Done()
				}
				err = errors.Join(err, id.Close())
			}
			done <- err
		}()
		_, err = na.Dial(ctx, b.addr)
		if is == nil {
			var r *Reject
			require.ErrorAs(t, err, &r)
			require.ErrorContains(t, err, "reason 200")
		} else {
			require.ErrorIs(t, err, is)
		}
		require.NoError(t, <-done)
	}
	for private, why := range map[string]Why{"hello": WhyFatal,
		string(message{header: header{Type: connReq, From: nidB, To: nidA, ToStamp: 1}}.append(nil)): WhyStale} {
		_, err = b.m.IDs().Dial(ctx, netip.AddrPortFrom(a.addr, 987),
			cmid.DialConfig{Conn: cmid.ConnParam{Private: []byte(private)}})
		var r *Reject
		require.ErrorAs(t, refusal(err), &r)
		require.Equal(t, why, r.Why)
		require.Equal(t, na.stamp, r.Stamp)
	}
	require.NoError(t, na.Close())
	_, err = na.Dial(ctx, b.addr)
	require.ErrorIs(t, err, net.ErrClosed)
}

// A peer that violates the protocol loses its connection. Pending transfers end with an error, and the node goes on.
// The messages come from the network.
func TestHostilePeer(t *testing.T) {
	tests := []struct {
		name string
		edit func(m *message)
		says string
	}{
		{"from another node", func(m *message) { m.From++ }, "restarted"},
		{"to another node", func(m *message) { m.To++ }, "restarted"},
		{"from an earlier incarnation", func(m *message) { m.FromStamp-- }, "restarted"},
		{"to an earlier incarnation", func(m *message) { m.ToStamp-- }, "restarted"},
		{"credits out of nothing", func(m *message) { m.Credits = 200 }, "credits, of 8"},
		{"a request to connect", func(m *message) { m.Type = connReq }, "type 0xc0"},
		{"an unknown type", func(m *message) { m.Type = 0x33 }, "unknown type 0x33"},
		{"an ACK of nothing", func(m *message) { m.Type = immediate }, "no transfer"},
		{"LNet's GET", func(m *message) { m.Type, m.lnet.Op = immediate, lnetGet }, "operation 2"},
		{"less payload than it says", func(m *message) {
			m.Type, m.lnet.Op, m.lnet.PayloadLen = immediate, lnetPut,
				1<<32-1
		}, "4294967295 bytes"},
		{"an answer to nothing", func(m *message) { m.Type, m.cookie = putDone, 99 }, "no transfer"},
		{"a refusal of nothing", func(m *message) { m.Type, m.cookie = putNak, 99 }, "no transfer"},
		{"the wrong answer", func(m *message) { m.Type = getDone }, "no transfer"},
		{"a PUT_ACK for too much", func(m *message) { m.Type, m.where = putAck, where{Pieces: 1, Len: 1 << 31} },
			"2147483648 bytes"},
		{"a PUT_ACK for nothing", func(m *message) { m.Type, m.where = putAck, where{Pieces: 1} },
			"PUT_ACK for 0 bytes"},
		{"a PUT_ACK in pieces", func(m *message) { m.Type, m.where = putAck, where{Pieces: 3, Len: 1} }, "3 pieces"},
		{"a PUT_ACK with a wrong key", func(m *message) { m.Type, m.where = putAck, where{Pieces: 1, Len: 5, Key: 1} },
			"remote access"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore()
			block, asked := make(chan struct{}), make(chan *message, 1)
			network := newNetwork()
			a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
			cfg := s.config()
			cfg.OnPut = func(from netip.Addr, at uint64, n int) ([]byte, func(int, error)) {
				select {
				case asked <- nil:
					<-block // the source of the PUT gets another message meanwhile
				default:
				}
				return s.put(from, at, n)
			}
			na, nb := a.node(Config{}), b.node(cfg)
			ctx := limit(t)
			c := must(na.Dial(ctx, b.addr))
			done := make(chan error)
			go func() { _, err := c.Put(ctx, 0, make([]byte, 100000)); done <- err }()
			<-asked
			m := message{header: header{Type: noop, From: nb.nid, FromStamp: nb.stamp, To: na.nid, ToStamp: na.stamp}}
			onLoop(t, c, func() {
				for k := range c.ops {
					m.cookie = k
				}
				tt.edit(&m)
				n := len(m.append(c.mem[len(c.sending)*msgSize : len(c.sending)*msgSize]))
				if err := errors.Join(c.completed(ci.WC{ID: wrRecv, Length: uint32(n)}), c.send()); err != nil {
					c.cancel(err)
				}
			})
			err := <-done
			close(block)
			require.ErrorContains(t, err, tt.says)
			if tt.name != "a PUT_ACK with a wrong key" {
				require.ErrorIs(t, err, ErrMessage)
			}
			c = must(na.Dial(ctx, b.addr))
			require.Equal(t, 100000, must(c.Put(ctx, 0, make([]byte, 100000))), "over a new connection")
		})
	}
}

// Cookies can be guessed. A reply that arrives before its request was sent must not release memory whose registration
// is queued.
func TestAnswerBeforeQuestion(t *testing.T) {
	s := newStore()
	_, _, c := pair(t, newNetwork(), Config{}, s.config())
	ctx := limit(t)
	onLoop(t, c, func() { c.flow.credits = 0 })
	done := make(chan error)
	go func() { _, err := c.Get(ctx, 1, make([]byte, 5000)); done <- err }()
	begun := false
	require.Eventually(t, func() bool { onLoop(t, c, func() { begun = len(c.ops) == 1 }); return begun }, time.Minute,
		time.Millisecond)
	onLoop(t, c, func() {
		for k := range c.ops {
			c.cancel(c.received(&message{header: header{Type: getDone}, cookie: k, status: 5000}))
		}
	})
	require.ErrorIs(t, <-done, ErrMessage)
}

// The number of ACKs that wait for credits is limited, if a peer returns no credits.
func TestAcksPileUp(t *testing.T) {
	s := newStore()
	_, _, c := pair(t, newNetwork(), Config{}, s.config())
	onLoop(t, c, func() {
		c.flow.credits = 0
		for range maxRequests + 1 {
			assert.NoError(t,
				c.received(&message{header: header{Type: immediate}, lnet: lnet{Op: lnetPut, PayloadLen: 1},
					payload: []byte{1}}))
		}
	})
	<-c.over
	require.ErrorContains(t, c.err, "1001 ACKs wait for credits")
}

// A peer that announces data and does not send them loses its connection after the timeout. After the data have
// arrived, there is no timeout.
func TestSilentSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		_, _, c := pair(t, newNetwork(), Config{}, s.config())
		ctx := t.Context()
		require.Equal(t, 10000, must(c.Put(ctx, 0, make([]byte, 10000))))
		time.Sleep(10 * time.Minute)
		require.Equal(t, 10000, must(c.Put(ctx, 0, make([]byte, 10000))))
		onLoop(t, c, func() {
			c.push(nil, nil, message{header: header{Type: putReq}, cookie: 77,
				lnet: lnet{Op: lnetPut, PayloadLen: 10000}})
			c.ops[77] = &op{waits: putAck, mem: make([]byte, 10000), ours: true, done: func(int, error) {}}
			assert.NoError(t, c.send())
			c.flow.posted = 1 << 20 // no more messages are sent
		})
		begun := time.Now()
		<-c.over
		require.ErrorIs(t, c.err, rdmacm.ErrPeerDisconnected)
		require.InDelta(t, 50*time.Second, time.Since(begun), float64(time.Second))
		synctest.Wait()
		require.Equal(t, 3, s.done)
		require.ErrorIs(t, s.errs[0], ErrTimeout)
	})
}

// A peer is detected as silent if all transfers wait for it, and it has acknowledged every message.
func TestSilentSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, dead := mortalNetwork()
		block := make(chan struct{})
		_, _, c := pair(t, network, Config{}, Config{OnPut: func(netip.Addr, uint64, int) ([]byte, func(int, error)) {
			<-block
			return nil, func(int, error) {}
		}})
		var wg sync.WaitGroup
		for _, n := range []int{1, 100000} {
			wg.Go(func() {
				_, err := c.Put(t.Context(), 0, make([]byte, n))
				assert.ErrorIs(t, err, ci.WCTimeoutRetryErr.Err())
			})
		}
		synctest.Wait()
		time.Sleep(10 * time.Minute) // its host is alive: probes are acknowledged
		select {
		case <-c.over:
			require.NoError(t, c.err)
		default:
		}
		dead.Store(true)
		wg.Wait()
		close(block)
	})
}

// A canceled call ends the connection if its transfer has begun.
func TestContextEnds(t *testing.T) {
	block, asked := make(chan struct{}), make(chan struct{}, 100)
	cfg := Config{Depth: 2, OnPut: func(_ netip.Addr, _ uint64, n int) ([]byte, func(int, error)) {
		asked <- struct{}{}
		<-block
		return make([]byte, n), func(int, error) {}
	}}
	_, _, c := pair(t, newNetwork(), Config{Depth: 2}, cfg)
	ctx := limit(t)
	errCanceled := errors.New("no patience")
	results := make(chan error, 10)
	put := func() context.CancelCauseFunc {
		ctx, cancel := context.WithCancelCause(ctx)
		go func() { _, err := c.Put(ctx, 0, make([]byte, 100000)); results <- err }()
		return cancel
	}
	first, second := put(), put()
	<-asked
	require.Eventually(t, func() bool { return len(c.slots) == 2 }, time.Minute, time.Millisecond)
	third := put()
	third(errCanceled)
	require.ErrorIs(t, <-results, errCanceled)
	require.NoError(t, c.ctx.Err(), "its transfer had not begun")
	first(errCanceled)
	require.ErrorIs(t, <-results, errCanceled)
	require.ErrorIs(t, <-results, errCanceled, "the connection has ended")
	close(block)
	second(nil)
	_, err := c.Put(ctx, 0, []byte("more"))
	require.ErrorIs(t, err, errCanceled, "the connection has ended")
	require.NoError(t, c.Close())
}

// An adapter is removed, a host becomes silent, or a node is closed during transfers: all transfers end, at both ends.
func TestEnds(t *testing.T) {
	tests := []struct {
		name string
		kill func(a, b *host, na, nb *Node) error // nil: the network drops all packets
		is   error                                // nil if there are several
	}{
		{"the peer closes", func(_, _ *host, _, nb *Node) error { return nb.Close() }, rdmacm.ErrPeerDisconnected},
		{"we close", func(_, _ *host, na, _ *Node) error { return na.Close() }, net.ErrClosed},
		{"our adapter is pulled", func(a, _ *host, _, _ *Node) error { return a.al.Deregister(a.hca.Info().GUID) },
			nil},
		{"the peer's adapter is pulled",
			func(_, b *host, _, _ *Node) error { return b.al.Deregister(b.hca.Info().GUID) }, nil},
		{"silence", nil, ci.WCTimeoutRetryErr.Err()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network, dead := mortalNetwork()
				s := newStore()
				s.data[1] = random(1, 1<<20)
				a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
				na, nb := a.node(Config{}), b.node(s.config())
				ctx := limit(t)
				c := must(na.Dial(ctx, b.addr))
				var wg sync.WaitGroup
				moved := make(chan struct{}, 1000)
				for i := range 12 {
					wg.Go(func() {
						var err error
						for buf := make([]byte, 1<<20); err == nil; {
							if i%2 == 0 {
								_, err = c.Put(ctx, 2, buf)
							} else {
								_, err = c.Get(ctx, 1, buf)
							}
							select {
							case moved <- struct{}{}:
							default:
							}
						}
						if tt.is != nil {
							assert.ErrorIs(t, err, tt.is)
						}
						assert.NoError(t, ctx.Err(), "the connection must end before the test times out: %v", err)
					})
				}
				for range 6 {
					<-moved
				}
				if dead.Store(tt.kill == nil); tt.kill != nil {
					require.NoError(t, tt.kill(a, b, na, nb))
				}
				wg.Wait()
				require.NoError(t, c.Close())
				require.NoError(t, na.Close())
				require.NoError(t, nb.Close())
				s.check(t)
			})
		})
	}
}

func TestConfig(t *testing.T) {
	h := newHost(t, newNetwork(), "10.0.0.1", 0, nil)
	for want, cfg := range map[string]Config{
		"Depth is 1, want 2 to 255": {Addr: h.addr, Depth: 1},
		"Depth is 256":              {Addr: h.addr, Depth: 256},
		"want a positive duration":  {Addr: h.addr, Timeout: -1},
		`"::1", want an IPv4`:       {Addr: netip.MustParseAddr("::1")},
		`"invalid IP", want`:        {},
	} {
		_, err := Listen(h.m, cfg)
		require.ErrorContains(t, err, want)
	}
	n := h.node(Config{})
	_, err := Listen(h.m, Config{Addr: h.addr})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NoError(t, n.Close())
	require.NoError(t, n.Close())
	c := must(h.node(Config{}).Dial(limit(t), h.addr))
	require.NoError(t, c.Close(), "a node may connect to itself")
	require.NoError(t, c.Close())
}
