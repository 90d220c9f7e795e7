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
	na, nb, c := pair(t, newNetwork(), Config{}, s)
	ctx := limit(t)
	room := make([]byte, 1<<20+1)
	for i, size := range []int{1, maxImmediate, maxImmediate + 1, 4096, 4097, 65536, 100001, 1<<20 - 1, 1 << 20} {
		for _, skew := range []int{0, 1} {
			at := 1<<40 + uint64(2*i+skew)
			data := append(make([]byte, skew), random(uint64(i), size)...)[skew:]
			require.Equal(t, size, must(c.put(ctx, target(at), data)), "PUT")
			clear(room)
			into := room[skew : skew+size]
			require.Equal(t, size, must(c.get(ctx, target(at), into)), "GET")
			require.True(t, bytes.Equal(data, into), "%d bytes", size)
			require.True(t, bytes.Equal(data, s.read(at)), "%d bytes", size)
		}
	}
	for _, size := range []int{0, MaxTransfer + 1} {
		_, err := c.put(ctx, target(0), make([]byte, size))
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
	na, nb, c := pair(t, newNetwork(), Config{}, s)
	ctx := limit(t)
	data, into := random(1, 100000), make([]byte, 100000)
	for _, n := range []int{100, 100000} {
		_, err := c.put(ctx, target(nowhere), data[:n])
		require.ErrorIs(t, err, ErrRefused)
		_, err = c.get(ctx, target(nowhere), into[:n])
		require.ErrorIs(t, err, ErrRefused)
	}
	// na has no match entry. It refuses transfers by RDMA, and drops the others.
	back := must(nb.connect(ctx, na.nid))
	require.Equal(t, []PeerStatus{{NID: na.nid, Connections: 1, Version: version2, Stamp: na.stamp}}, nb.Peers())
	_, err := back.put(ctx, target(1), data)
	require.ErrorIs(t, err, ErrRefused)
	_, err = back.get(ctx, target(1), into)
	require.ErrorIs(t, err, ErrRefused)
	for i, f := range []func(ctx context.Context) error{
		func(ctx context.Context) error { _, err := back.put(ctx, target(1), data[:100]); return err },
		func(ctx context.Context) error { _, err := back.get(ctx, target(1), into[:100]); return err },
	} {
		ctx, cancel := context.WithCancel(ctx)
		result := make(chan error, 1)
		go func() { result <- f(ctx) }()
		require.Eventually(t, func() bool { return na.Stats()["dropped: no match entry"] == uint64(3+i) }, time.Minute,
			time.Millisecond)
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
	}
	require.NoError(t, c.ctx.Err(), "the connection goes on")
	require.Equal(t, 50000, must(c.put(ctx, target(half), data)))
	require.Equal(t, data[:50000], s.read(half))
	require.Equal(t, 50000, must(c.get(ctx, target(half), into)), "a GET of more than the peer has")
	require.Equal(t, data[:50000], into[:50000])
	require.Equal(t, 10, must(c.get(ctx, target(half), into[:10])), "a GET of less")
	require.Nil(t, s.read(nowhere))
}

// storm has both nodes PUT to and GET from each other, over connections in both directions, and checks all contents.
func storm(t *testing.T, network *sim.Network, cfg Config, each, largest int) {
	hosts := []*host{newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)}
	stores := []*store{newStore(), newStore()}
	var nodes []*Node
	for i, h := range hosts {
		nodes = append(nodes, h.nodeWith(cfg, stores[i]))
	}
	ctx := limit(t)
	var wg sync.WaitGroup
	var conns []*conn
	for i := range nodes {
		j := 1 - i
		c := must(nodes[i].connect(ctx, nodes[j].nid))
		conns = append(conns, c)
		for k := range each {
			wg.Go(func() {
				seed := uint64(i)<<8 | uint64(k)
				size := rand.New(rand.NewPCG(seed, 1)).IntN(largest) + 1
				if k%3 == 0 {
					size = size%maxImmediate + 1
				}
				data, at := random(seed, size), seed
				if n, err := c.put(ctx, target(at), data); !assert.NoError(t, err) || !assert.Equal(t, size, n) {
					return
				}
				into := make([]byte, size+1)
				n, err := c.get(ctx, target(at), into)
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
		for _, o := range conns[i].ops {
			require.False(t, o.ours, "each transfer of this end has released its region")
		}
	}
}

func TestBothDirections(t *testing.T) {
	for _, n := range []int{2, 8, 40} {
		t.Run(fmt.Sprint("depth ", n),
			func(t *testing.T) { storm(t, newNetwork(), depth(n), 60, 200000) })
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
	_, nb, c := pair(t, newNetwork(), Config{}, s)
	ctx := limit(t)
	into, got := make([]byte, 5000), make(chan error, 1)
	var at where
	onLoop(t, c, func() { // as Get does
		o := &op{ours: true, mem: into, waits: getDone, done: func(_ int, err error) { got <- err }}
		c.add(o)
		assert.NoError(t, c.sendTarget(o, message{header: header{Type: getReq}, cookie: o.cookie,
			lnet: target(0).header(lnetGet, 5000)}))
		at = where{uint32(o.reg.RKey), []frag{{5000, o.reg.Addr}}}
	})
	require.NoError(t, <-got)
	require.Equal(t, random(1, 5000), into)
	back := must(nb.connect(ctx, c.n.nid))
	_, err := back.put(ctx, target(0), make([]byte, 5000)) // both ends are there
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
func onLoop(t *testing.T, c *conn, f func()) {
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
	const pieces = maxFrags - 1
	const all = 5*8 + pieces
	tests := []struct {
		name            string
		active, passive int // send requests
		depth           uint16
		tries           [2]int
		fails           string
	}{
		{"room for all", all, all, 8, [2]int{1, 1}, ""},
		{"the active end", 5*5 + 4 + pieces, all, 5, [2]int{4, 1}, ""},
		{"the passive end", all, 5*3 + pieces, 3, [2]int{1, 6}, ""},
		{"both", 5*5 + pieces, 5*4 + pieces, 4, [2]int{4, 2}, ""},
		{"nothing at the passive end", all, 5 + pieces, 0, [2]int{1, 7}, "resources"},
		{"nothing at the active end", 5 + pieces, all, 0, [2]int{7, 0}, "insufficient resources"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tries [2]int
			network := newNetwork()
			a, b := newHost(t, network, "10.0.0.1", tt.active, &tries[0]), newHost(t, network, "10.0.0.2",
				tt.passive, &tries[1])
			s := newStore()
			na, nb := a.node(Config{}), b.nodeWith(Config{}, s)
			ctx := limit(t)
			c, err := na.connect(ctx, nidOf(b))
			if tt.fails != "" {
				require.Error(t, err)
				require.Contains(t, fmt.Sprint(err), tt.fails)
				require.Equal(t, tt.tries, tries)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1<<20, must(c.put(ctx, target(0), random(1, 1<<20))))
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
	network := newNetwork()
	a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
	b.nodeWith(depth(5), s)
	na := a.node(depth(20))
	c := must(na.connect(limit(t), nidOf(b)))
	require.EqualValues(t, 5, c.params.Depth)
	require.EqualValues(t, 1, na.Stats()["rejected by the peer: queue depth"])
	require.Equal(t, 50000, must(c.put(limit(t), target(0), random(1, 50000))))
}

func TestDialFails(t *testing.T) {
	network := newNetwork()
	a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
	na := a.node(Config{})
	ctx := limit(t)
	_, err := na.connect(ctx, nidOf(b))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	why, cancel := context.WithCancel(ctx)
	cancel()
	_, err = na.connect(why, nidOf(b))
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
		func(id *cmid.ID) error { return id.Reject(Reject{Why: 200}.encode()) },
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
		_, err = na.connect(ctx, nidOf(b))
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
		string(message{header: header{Type: connReq, From: nidB, To: nidA, ToStamp: 1},
			params: na.most()}.append(nil, plain)): WhyStale} {
		_, err = b.m.IDs().Dial(ctx, netip.AddrPortFrom(a.addr, 987),
			cmid.DialConfig{Conn: cmid.ConnParam{Private: []byte(private)}})
		var r *Reject
		require.ErrorAs(t, refusal(err), &r)
		require.Equal(t, why, r.Why)
		require.Equal(t, na.stamp, r.Stamp)
	}
	require.NoError(t, na.Close())
	_, err = na.connect(ctx, nidOf(b))
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
		{"a request to connect", func(m *message) { m.Type = connReq }, "CONNREQ"},
		{"an unknown operation", func(m *message) { m.Type, m.lnet.Op = immediate, 7 }, "operation 7"},
		{"a PUT_REQ to get", func(m *message) { m.Type, m.lnet.Op = putReq, lnetGet }, "PUT_REQ with operation 2"},
		{"less payload than it says", func(m *message) {
			m.Type, m.lnet.Op, m.lnet.PayloadLen = immediate, lnetPut,
				1<<32-1
		}, "4294967295 bytes"},
		{"an answer to nothing", func(m *message) { m.Type, m.cookie = putDone, 99 }, "no transfer"},
		{"a refusal of nothing", func(m *message) { m.Type, m.cookie = putNak, 99 }, "no transfer"},
		{"the wrong answer", func(m *message) { m.Type = getDone }, "no transfer"},
		{"a PUT_ACK for too much", func(m *message) { m.Type, m.where = putAck, where{frags: []frag{{Len: 1 << 31}}} },
			"2147483648 bytes"},
		{"a PUT_ACK for nothing", func(m *message) { m.Type, m.where = putAck, where{frags: []frag{{}}} },
			"PUT_ACK for 0 bytes"},
		{"a PUT_ACK in pieces", func(m *message) { m.Type, m.where = putAck, where{frags: make([]frag, 258)} },
			"258 pieces"},
		{"a PUT_ACK with a wrong key", func(m *message) { m.Type, m.where = putAck, where{1, []frag{{Len: 5}}} },
			"remote access"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore()
			block, asked := make(chan struct{}), make(chan *message, 1)
			network := newNetwork()
			a, b := newHost(t, network, "10.0.0.1", 0, nil), newHost(t, network, "10.0.0.2", 0, nil)
			na, nb := a.node(Config{}), b.node(Config{})
			e := s.entry()
			e.OnPut = func(r Request) ([]byte, func(int, error)) {
				select {
				case asked <- nil:
					<-block // the source of the PUT gets another message meanwhile
				default:
				}
				return s.put(r)
			}
			nb.Attach(e)
			ctx := limit(t)
			c := must(na.connect(ctx, nidOf(b)))
			done := make(chan error)
			go func() { _, err := c.put(ctx, target(0), make([]byte, 100000)); done <- err }()
			<-asked
			m := message{header: header{Type: noop, From: nb.nid, FromStamp: nb.stamp, To: na.nid, ToStamp: na.stamp}}
			onLoop(t, c, func() {
				for k := range c.ops {
					m.cookie = k
				}
				tt.edit(&m)
				n := len(m.append(c.mem[len(c.sending)*msgSize:len(c.sending)*msgSize], plain))
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
			c = must(na.connect(ctx, nidOf(b)))
			require.Equal(t, 100000, must(c.put(ctx, target(0), make([]byte, 100000))), "over a new connection")
		})
	}
}

// Cookies can be guessed. A reply that arrives before its request was sent must not release memory whose registration
// is queued.
func TestAnswerBeforeQuestion(t *testing.T) {
	s := newStore()
	_, _, c := pair(t, newNetwork(), Config{}, s)
	ctx := limit(t)
	onLoop(t, c, func() { c.flow.credits = 0 })
	done := make(chan error)
	go func() { _, err := c.get(ctx, target(1), make([]byte, 5000)); done <- err }()
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

// The number of messages that wait for credits is limited, if a peer returns no credits.
func TestRepliesPileUp(t *testing.T) {
	for _, op := range []uint32{lnetPut, lnetGet} {
		s := newStore()
		s.data[0] = []byte{1}
		na, _, c := pair(t, newNetwork(), Config{}, s)
		na.Attach(s.entry())
		onLoop(t, c, func() {
			c.flow.credits = 0
			for range maxRequests + 1 {
				assert.NoError(t, c.received(&message{header: header{Type: immediate}, lnet: target(0).header(op, 1),
					payload: []byte{1}}))
			}
		})
		<-c.over
		require.ErrorContains(t, c.err, "1001 messages wait for credits")
	}
}

// An ACK or a REPLY that nobody waits for is dropped.
func TestUnknownReplies(t *testing.T) {
	na, nb, c := pair(t, newNetwork(), Config{}, newStore())
	r := na.await(nb.nid, lnetAck, nil)
	onLoop(t, c, func() {
		for _, edit := range []func(h *lnetHeader){
			func(h *lnetHeader) { h.Handle.Reply++ },
			func(h *lnetHeader) { h.Handle.Stamp-- },
			func(h *lnetHeader) { h.Op = lnetReply },
		} {
			h := lnetHeader{Op: lnetAck, Handle: r.handle}
			edit(&h)
			assert.NoError(t, c.received(&message{header: header{Type: immediate}, lnet: h}))
			c.flow.owed-- // the message came from nowhere
		}
		na.replied(na.nid, &lnetHeader{Op: lnetAck, Handle: r.handle}, nil)
	})
	require.EqualValues(t, 4, na.Stats()["dropped: no operation"])
	_, err := na.Ping(limit(t), nb.nid)
	require.NoError(t, err)
}

// A peer that announces data and does not send them loses its connection after the timeout. After the data have
// arrived, there is no timeout.
func TestSilentSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		_, _, c := pair(t, newNetwork(), Config{}, s)
		ctx := t.Context()
		require.Equal(t, 10000, must(c.put(ctx, target(0), make([]byte, 10000))))
		time.Sleep(10 * time.Minute)
		require.Equal(t, 10000, must(c.put(ctx, target(0), make([]byte, 10000))))
		onLoop(t, c, func() {
			c.push(nil, nil, message{header: header{Type: putReq}, cookie: 77,
				lnet: target(0).header(lnetPut, 10000)})
			c.ops[77] = &op{waits: putAck, mem: make([]byte, 10000), ours: true, done: func(int, error) {},
				timer: time.NewTimer(time.Hour)}
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

// A peer is detected as silent if all operations wait for it, and it has acknowledged every message: a NOOP is not
// acknowledged. An application may take its time with an operation in a message, and not with a transfer by RDMA.
func TestSilentSink(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    int
		want error
	}{
		{"message", 1, ci.WCTimeoutRetryErr.Err()},
		{"RDMA", 100000, ErrTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network, dead := mortalNetwork()
				block := make(chan struct{})
				_, nb, c := pair(t, network, Config{}, nil)
				nb.Attach(Entry{Portal: portal, OnPut: func(Request) ([]byte, func(int, error)) {
					<-block
					return nil, func(int, error) {}
				}})
				begun, done := time.Now(), make(chan struct{})
				go func() {
					defer close(done)
					_, err := c.put(t.Context(), target(0), make([]byte, tt.n))
					assert.ErrorIs(t, err, tt.want)
				}()
				synctest.Wait()
				if !errors.Is(tt.want, ErrTimeout) {
					time.Sleep(10 * time.Minute) // its host is alive: probes are acknowledged
					require.NoError(t, c.ctx.Err())
					dead.Store(true)
				}
				<-done
				if errors.Is(tt.want, ErrTimeout) {
					require.Equal(t, 50*time.Second, time.Since(begun).Round(time.Second))
				}
				close(block)
			})
		})
	}
}

// A peer that returns no credits loses its connection after the timeout.
func TestNoCredits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		na, nb, c := pair(t, newNetwork(), Config{}, nil)
		onLoop(t, c, func() { c.flow.credits, c.flow.theirs = 0, 0 })
		begun := time.Now()
		_, err := na.Ping(t.Context(), nb.nid)
		require.ErrorIs(t, err, ErrTimeout)
		require.Equal(t, 50*time.Second, time.Since(begun).Round(time.Second))
		require.EqualValues(t, 1, na.Stats()["connections ended: timeout"])
		_, err = na.Ping(t.Context(), nb.nid)
		require.NoError(t, err, "over a new connection")
	})
}

// A canceled call ends the connection if its transfer has begun.
func TestContextEnds(t *testing.T) {
	block, asked := make(chan struct{}), make(chan struct{}, 100)
	_, nb, c := pair(t, newNetwork(), depth(2), nil)
	nb.Attach(Entry{Portal: portal, OnPut: func(r Request) ([]byte, func(int, error)) {
		asked <- struct{}{}
		<-block
		return make([]byte, r.Len), func(int, error) {}
	}})
	ctx := limit(t)
	errPatience := errors.New("no patience")
	results := make(chan error, 10)
	put := func() context.CancelCauseFunc {
		ctx, cancel := context.WithCancelCause(ctx)
		go func() { _, err := c.put(ctx, target(0), make([]byte, 100000)); results <- err }()
		return cancel
	}
	first, second := put(), put()
	<-asked
	require.Eventually(t, func() bool { return len(c.slots) == 2 }, time.Minute, time.Millisecond)
	third := put()
	third(errPatience)
	require.ErrorIs(t, <-results, errPatience)
	require.NoError(t, c.ctx.Err(), "its transfer had not begun")
	first(errPatience)
	require.ErrorIs(t, <-results, errPatience)
	require.ErrorIs(t, <-results, errPatience, "the connection has ended")
	close(block)
	second(nil)
	_, err := c.put(ctx, target(0), []byte("more"))
	require.ErrorIs(t, err, errPatience, "the connection has ended")
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
				na, nb := a.node(Config{}), b.nodeWith(Config{}, s)
				ctx := limit(t)
				c := must(na.connect(ctx, nidOf(b)))
				var wg sync.WaitGroup
				moved := make(chan struct{}, 1000)
				for i := range 12 {
					wg.Go(func() {
						var err error
						for buf := make([]byte, 1<<20); err == nil; {
							if i%2 == 0 {
								_, err = c.put(ctx, target(2), buf)
							} else {
								_, err = c.get(ctx, target(1), buf)
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
				<-c.over
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
		"peer_credits is 1, want 2 to 255": depth(1),
		"peer_credits is 256":              depth(256),
		`"::1", want an IPv4`:              {Addr: netip.MustParseAddr("::1")},
		`"invalid IP", want`:               {},
	} {
		if cfg.Tunables != nil {
			cfg.Addr = h.addr
		}
		_, err := Listen(h.m, cfg)
		require.ErrorContains(t, err, want)
	}
	n := h.node(Config{})
	_, err := Listen(h.m, Config{Addr: h.addr})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NoError(t, n.Close())
	require.NoError(t, n.Close())
	n = h.node(Config{})
	_, err = n.Ping(limit(t), n.nid)
	require.NoError(t, err, "a node may connect to itself")
}

func TestTunables(t *testing.T) {
	tun := DefaultTunables()
	require.NoError(t, tun.check())
	require.NoError(t, tun.Set("peer_credits=16"))
	require.Equal(t, 16, tun.PeerCredits)
	require.ErrorContains(t, tun.Set("peer_credits=1000"), "want 2 to 255")
	require.ErrorContains(t, tun.Set("peer_credits"), "NAME=NUMBER")
	require.ErrorContains(t, tun.Set("nscheds=1"), "NAME=NUMBER")

	for _, tt := range []struct{ credits, hiw, sends, depth, high, at int }{
		{8, 0, 0, 8, 4, 6},
		{8, 0, 0, 3, 1, 2},
		{8, 7, 16, 8, 7, 16},
		{8, 200, 510, 8, 7, 16},
		{8, 1, 1, 8, 4, 4},
		{2, 0, 0, 2, 1, 2},
		{100, 75, 50, 10, 7, 5},
	} {
		tun := Tunables{PeerCredits: tt.credits, PeerCreditsHiw: tt.hiw, ConcurrentSends: tt.sends}
		require.Equal(t, tt.high, tun.high(tt.depth, version2), "%+v", tt)
		require.Equal(t, tt.at, tun.sends(tt.depth), "%+v", tt)
	}
	require.Equal(t, 7, tun.high(8, version1))
	require.Equal(t, 1, tun.high(2, version1))
}
