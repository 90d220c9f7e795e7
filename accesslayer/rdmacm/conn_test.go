package rdmacm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/internal/cmrig"
	"ciddk/link/impair"
	"ciddk/link/sim"
)

// connPair returns both ends of a connection between two hosts in memory.
func connPair(t testing.TB, dial, listen rdmacm.ConnConfig) (a, b *rdmacm.Conn) {
	t.Helper()
	l := newLAN()
	s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	return connect(t, s, c, dial, listen)
}

// udpPair is connPair over UDP, on this machine.
func udpPair(t testing.TB, cfg rdmacm.ConnConfig) (a, b *rdmacm.Conn) {
	t.Helper()
	none := &lan{Open: open}
	s, c := none.Host(t, "127.20.18.1"), none.Host(t, "127.20.18.2")
	return connect(t, s, c, cfg, cfg)
}

func connect(t testing.TB, s, c *host, dial, listen rdmacm.ConnConfig) (a, b *rdmacm.Conn) {
	t.Helper()
	ctx := cmrig.Within(t)
	at := s.AL.Adapters()[0].Attr().Ports[0].GIDs[0].GID
	addr := netip.AddrFrom16(at).Unmap()
	ln, err := s.M.Listen(netip.AddrPortFrom(addr, 0), rdmacm.ListenConfig{Conn: listen})
	require.NoError(t, err)
	defer ln.Close()
	accepted := make(chan error, 1)
	go func() {
		r, err := ln.Accept(ctx)
		if err == nil {
			b, err = r.Accept(ctx)
		}
		accepted <- err
	}()
	d := rdmacm.Dialer{Manager: c.M, Conn: dial}
	a, err = d.Dial(ctx, ln.Addr().AddrPort)
	require.NoError(t, err)
	require.NoError(t, <-accepted)
	t.Cleanup(func() { assert.NoError(t, a.Close()); assert.NoError(t, b.Close()) })
	return a, b
}

func TestConnMessages(t *testing.T) {
	tests := map[string]struct{ dial, listen rdmacm.ConnConfig }{
		"usual":          {},
		"depth 1":        {rdmacm.ConnConfig{Depth: 1}, rdmacm.ConnConfig{Depth: 1}},
		"depths differ":  {rdmacm.ConnConfig{Depth: 3}, rdmacm.ConnConfig{Depth: 8}},
		"small messages": {rdmacm.ConnConfig{MaxMessage: 8}, rdmacm.ConnConfig{MaxMessage: 8}},
		"plain":          {rdmacm.ConnConfig{Plain: true}, rdmacm.ConnConfig{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := connPair(t, tt.dial, tt.listen)
			ctx := cmrig.Within(t)
			const count = 500
			// Both ends send without pause, and read more slowly than they could.
			send := func(c *rdmacm.Conn, first byte) error {
				for i := range count {
					if err := c.Send(ctx, []byte{first, byte(i), byte(i >> 8)}); err != nil {
						return err
					}
				}
				return c.Flush(ctx)
			}
			receive := func(c *rdmacm.Conn, first byte) error {
				for i := range count {
					m, err := c.Recv(ctx)
					if err != nil {
						return err
					}
					if !bytes.Equal(m, []byte{first, byte(i), byte(i >> 8)}) {
						return errors.New("out of order, or changed")
					}
				}
				return nil
			}
			results := make(chan error, 4)
			go func() { results <- send(a, 'a') }()
			go func() { results <- send(b, 'b') }()
			go func() { results <- receive(a, 'b') }()
			go func() { results <- receive(b, 'a') }()
			for range 4 {
				require.NoError(t, <-results)
			}
		})
	}
}

// TestConnBackPressure tests a reader that stops. Its sender waits after Depth messages, and every message finds a
// receive. One-sided transfers and the other direction continue.
func TestConnBackPressure(t *testing.T) {
	const depth = 4
	a, b := connPair(t, rdmacm.ConnConfig{}, rdmacm.ConnConfig{Depth: depth})
	ctx := cmrig.Within(t)
	mem := rdmacm.New(b.ID().Manager()).NewMemory(ci.Bytes([]byte("remote memory")), ci.RemoteRead)
	defer mem.Close()
	region, err := mem.Region(b)
	require.NoError(t, err)
	for range depth {
		require.NoError(t, a.Send(ctx, []byte("x")))
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Send(short, []byte("y")), context.DeadlineExceeded)
	require.NoError(t, a.Flush(ctx), "the peer has a receive for each message that was sent")
	got := make([]byte, len("remote memory"))
	require.NoError(t, a.Read(ctx, got, region))
	assert.Equal(t, "remote memory", string(got))
	for range 100 {
		require.NoError(t, b.Send(ctx, []byte("z")))
		m, err := a.Recv(ctx)
		require.NoError(t, err)
		require.Equal(t, "z", string(m))
	}
	for range depth {
		m, err := b.Recv(ctx)
		require.NoError(t, err)
		require.Equal(t, "x", string(m))
	}
	require.NoError(t, a.Send(ctx, []byte("last")))
	m, err := b.Recv(ctx)
	require.NoError(t, err)
	assert.Equal(t, "last", string(m), "the message whose context ended was not sent")
}

func TestConnRemoteMemory(t *testing.T) {
	a, b := connPair(t, rdmacm.ConnConfig{Depth: 4, MaxMessage: 64}, rdmacm.ConnConfig{})
	ctx := cmrig.Within(t)
	remote := rdmacm.New(b.ID().Manager()).NewMemory(ci.Bytes(make([]byte, 10000)),
		ci.RemoteRead|ci.RemoteWrite|ci.RemoteAtomic)
	defer remote.Close()
	region, err := remote.Region(b)
	require.NoError(t, err)
	sent, err := region.MarshalBinary()
	require.NoError(t, err)
	require.NoError(t, b.Send(ctx, sent))
	m, err := a.Recv(ctx)
	require.NoError(t, err)
	var r rdmacm.Region
	require.NoError(t, r.UnmarshalBinary(m))
	require.Equal(t, region, r)

	data := make([]byte, 5000)
	for i := range data {
		data[i] = byte(i * 7)
	}
	part, err := r.Slice(100, 5000)
	require.NoError(t, err)
	require.NoError(t, a.Write(ctx, part, data))
	got := make([]byte, 5000)
	require.NoError(t, a.Read(ctx, got, part))
	assert.Equal(t, data, got)

	own := make([]byte, 8192)
	local := rdmacm.New(a.ID().Manager()).NewMemory(ci.Bytes(own), 0)
	defer local.Close()
	require.NoError(t, a.ReadInto(ctx, local, 10, 5000, part))
	assert.Equal(t, data, own[10:5010])
	copy(own, "direct")
	require.NoError(t, a.WriteFrom(ctx, r, local, 0, 6))
	require.NoError(t, a.Read(ctx, got[:6], r))
	assert.Equal(t, "direct", string(got[:6]))

	at, err := r.Slice(8000, 8)
	require.NoError(t, err)
	for i := range uint64(3) {
		old, err := a.FetchAdd(ctx, at, 5)
		require.NoError(t, err)
		assert.Equal(t, i*5, old)
	}
	old, err := a.CompareSwap(ctx, at, 15, 99)
	require.NoError(t, err)
	assert.EqualValues(t, 15, old)
	old, err = a.CompareSwap(ctx, at, 15, 1)
	require.NoError(t, err)
	assert.EqualValues(t, 99, old)

	wc, err := a.Do(ctx, ci.SendWR{ID: 77, Op: ci.OpWrite})
	require.NoError(t, err)
	assert.EqualValues(t, 77, wc.ID)

	require.ErrorIs(t, a.Read(ctx, make([]byte, 10001), r), ci.InvalidParameter)
	require.ErrorIs(t, a.ReadInto(ctx, local, 8000, 193, r), ci.InvalidParameter)
	_, err = r.Slice(9999, 2)
	require.ErrorIs(t, err, ci.InvalidParameter)
	require.NoError(t, a.Err())
}

// A call that waits for completions of the CQ on behalf of all sees that another call has released what it waits for,
// though that is no completion.
func TestReleaseWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := connPair(t, rdmacm.ConnConfig{}, rdmacm.ConnConfig{})
		release := rdmacm.HoldSends(a)
		sent := make(chan error, 1)
		go func() { sent <- a.Send(cmrig.Within(t), []byte("ping")) }()
		synctest.Wait()
		released := time.Now()
		release()
		require.NoError(t, <-sent)
		require.Less(t, time.Since(released), time.Second, "the call did not wait for the end of its context")
		m, err := b.Recv(cmrig.Within(t))
		require.NoError(t, err)
		assert.Equal(t, "ping", string(m))
	})
}

// TestConnConcurrent runs many callers at once, with few buffers.
func TestConnConcurrent(t *testing.T) {
	a, b := connPair(t, rdmacm.ConnConfig{Depth: 3, MaxMessage: 32}, rdmacm.ConnConfig{Depth: 2, MaxMessage: 32})
	ctx := cmrig.Within(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 64)
	remote := rdmacm.New(b.ID().Manager()).NewMemory(ci.Bytes(data), ci.RemoteRead)
	defer remote.Close()
	region, err := remote.Region(b)
	require.NoError(t, err)
	const callers, each = 8, 60
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() { // echo
			for range each {
				m, err := b.Recv(ctx)
				if !assert.NoError(t, err) || !assert.NoError(t, b.Send(ctx, m)) {
					return
				}
			}
		})
		wg.Go(func() {
			for range each {
				if !assert.NoError(t, a.Send(ctx, []byte("ping"))) {
					return
				}
				m, err := a.Recv(ctx)
				if !assert.NoError(t, err) || !assert.Equal(t, "ping", string(m)) {
					return
				}
			}
		})
		wg.Go(func() {
			got := make([]byte, 1024)
			for range each / 4 {
				clear(got)
				if !assert.NoError(t, a.Read(ctx, got, region)) || !assert.Equal(t, data, got) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestConnEnd tests the ways in which a connection ends: every call returns an error of the same form, and the messages
// that arrived before are not lost.
func TestConnEnd(t *testing.T) {
	tests := map[string]struct {
		end  func(t *testing.T, a, b *rdmacm.Conn)
		want error // of end a
	}{
		"the peer closes": {func(t *testing.T, a, b *rdmacm.Conn) { require.NoError(t, b.Close()) },
			rdmacm.ErrPeerDisconnected},
		"the peer disconnects": {func(t *testing.T, a, b *rdmacm.Conn) {
			require.NoError(t,
				b.ID().Disconnect(cmrig.Within(t)))
		}, rdmacm.ErrPeerDisconnected},
		"closed here": {func(t *testing.T, a, b *rdmacm.Conn) { require.NoError(t, a.Close()) }, net.ErrClosed},
		"disconnected here": {func(t *testing.T, a, b *rdmacm.Conn) {
			require.NoError(t,
				a.ID().Disconnect(cmrig.Within(t)))
		}, rdmacm.ErrDisconnected},
		"no such region": {func(t *testing.T, a, b *rdmacm.Conn) {
			require.ErrorIs(t, a.Read(cmrig.Within(t), make([]byte, 8), rdmacm.Region{Addr: 4096, Length: 8, RKey: 1}),
				ci.WCRemAccessErr.Err())
		}, rdmacm.ErrQPFailed},
		"the peer's QP fails": {func(t *testing.T, a, b *rdmacm.Conn) {
			require.Error(t, b.Read(cmrig.Within(t), make([]byte, 8), rdmacm.Region{Addr: 4096, Length: 8, RKey: 1}))
		}, rdmacm.ErrEnded},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := connPair(t, rdmacm.ConnConfig{}, rdmacm.ConnConfig{})
			ctx := cmrig.Within(t)
			for range 3 {
				require.NoError(t, b.Send(ctx, []byte("before")))
			}
			require.NoError(t, b.Flush(ctx))
			blocked := make(chan error, 1)
			if name != "closed here" {
				for range 3 { // the messages before the end are returned first
					m, err := a.Recv(ctx)
					require.NoError(t, err)
					require.Equal(t, "before", string(m))
				}
			}
			go func() {
				_, err := a.Recv(ctx)
				for err == nil {
					_, err = a.Recv(ctx)
				}
				blocked <- err
			}()
			tt.end(t, a, b)
			err := <-blocked
			require.ErrorIs(t, err, rdmacm.ErrEnded)
			require.ErrorIs(t, err, tt.want)
			cmrig.Await(t, a.Done(), "the end")
			require.ErrorIs(t, a.Err(), rdmacm.ErrEnded)
			for what, err := range map[string]error{
				"send": a.Send(ctx, nil), "flush": a.Flush(ctx), "read": a.Read(ctx, make([]byte, 1),
					rdmacm.Region{Length: 1}),
			} {
				assert.ErrorIs(t, err, rdmacm.ErrEnded, what)
				_, isOp := errors.AsType[*net.OpError](err)
				assert.True(t, isOp, what)
			}
			cmrig.Await(t, b.Done(), "the end of the peer")
			_, err = b.Recv(ctx)
			require.ErrorIs(t, err, rdmacm.ErrEnded)
		})
	}
}

// TestConnFailureBeforeEnd tests that a work request that failed is the reason also if the peer's DREQ is processed
// before its completion is polled.
func TestConnFailureBeforeEnd(t *testing.T) {
	a, _ := connPair(t, rdmacm.ConnConfig{}, rdmacm.ConnConfig{})
	release := rdmacm.HoldPolling(a)
	failed := make(chan error, 1)
	go func() {
		failed <- a.Read(cmrig.Within(t), make([]byte, 8), rdmacm.Region{Addr: 4096, Length: 8, RKey: 1})
	}()
	cmrig.Await(t, a.Done(), "the peer's DREQ")
	require.ErrorIs(t, a.Err(), rdmacm.ErrPeerDisconnected)
	release()
	err := <-failed
	require.ErrorIs(t, err, ci.WCRemAccessErr.Err())
	require.ErrorIs(t, err, rdmacm.ErrQPFailed)
	require.ErrorIs(t, err, rdmacm.ErrEnded)
	_, err = a.Recv(cmrig.Within(t))
	require.ErrorIs(t, err, rdmacm.ErrQPFailed, "later calls return the same reason")
}

// TestConnReadAfterEnd tests that messages that arrived before the peer closed can be read after the end.
func TestConnReadAfterEnd(t *testing.T) {
	a, b := connPair(t, rdmacm.ConnConfig{}, rdmacm.ConnConfig{})
	ctx := cmrig.Within(t)
	for i := range 20 {
		require.NoError(t, b.Send(ctx, []byte{byte(i)}))
	}
	require.NoError(t, b.Close())
	cmrig.Await(t, a.Done(), "the end")
	for i := range 20 {
		m, err := a.Recv(ctx)
		require.NoError(t, err)
		require.Equal(t, []byte{byte(i)}, m)
	}
	_, err := a.Recv(ctx)
	require.ErrorIs(t, err, rdmacm.ErrPeerDisconnected)
}

// TestSendInvalidate invalidates memory that the peer has registered with a work request. A message that names a key
// that the peer does not have ends the connection.
func TestSendInvalidate(t *testing.T) {
	a, b := connPair(t, rdmacm.ConnConfig{Plain: true}, rdmacm.ConnConfig{})
	ctx := cmrig.Within(t)
	pd, err := b.ID().PD()
	require.NoError(t, err)
	pool, err := pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 1, MaxPages: 2})
	require.NoError(t, err)
	memory := make([]byte, 16)
	m, err := pool.Map(ci.Bytes(memory), ci.LocalWrite|ci.RemoteWrite)
	require.NoError(t, err)
	_, err = b.Do(ctx, m.Register())
	require.NoError(t, err)
	require.NoError(t, a.Write(ctx, rdmacm.Region{Addr: m.Addr, Length: m.Length, RKey: m.RKey}, []byte("written")))
	require.NoError(t, a.SendInvalidate(ctx, []byte("done"), m.RKey))
	got, err := b.Recv(ctx)
	require.NoError(t, err)
	assert.Equal(t, "done", string(got))
	assert.Equal(t, "written", string(memory[:7]))
	require.NoError(t, m.Unmap())
	require.NoError(t, a.SendInvalidate(ctx, nil, m.RKey+0x100))
	_, err = b.Recv(ctx)
	require.ErrorIs(t, err, rdmacm.ErrEnded)
	require.NoError(t, b.Close())
	require.NoError(t, pool.Destroy())

	counted, _ := connPair(t, rdmacm.ConnConfig{}, rdmacm.ConnConfig{})
	require.ErrorIs(t, counted.SendInvalidate(ctx, nil, 1), ci.InvalidParameter)
}

func TestConnMistakes(t *testing.T) {
	a, b := connPair(t, rdmacm.ConnConfig{MaxMessage: 100}, rdmacm.ConnConfig{MaxMessage: 50})
	ctx := cmrig.Within(t)
	assert.Equal(t, 50, a.MaxMessage())
	require.ErrorIs(t, a.Send(ctx, make([]byte, 51)), ci.InvalidParameter)
	_, err := a.Do(ctx, ci.SendWR{Op: ci.OpSend})
	require.ErrorIs(t, err, ci.InvalidParameter)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, a.Send(ended, nil), context.Canceled)
	_, err = a.Recv(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, b.Send(ctx, []byte("four")))
	n, err := a.RecvInto(ctx, make([]byte, 3))
	require.ErrorIs(t, err, io.ErrShortBuffer)
	require.Equal(t, 4, n)
	buf := make([]byte, 4)
	n, err = a.RecvInto(ctx, buf)
	require.NoError(t, err)
	assert.Equal(t, "four", string(buf[:n]))

	m := rdmacm.New(a.ID().Manager())
	for name, cfg := range map[string]rdmacm.ConnConfig{"depth": {Depth: -1}, "deep": {Depth: 8193},
		"size": {MaxMessage: -1}, "long": {MaxMessage: 1<<30 + 1}} {
		_, err := (&rdmacm.Dialer{Manager: m, Conn: cfg}).Dial(ctx, ap("10.66.0.1:1"))
		require.ErrorIs(t, err, ci.InvalidParameter, name)
		_, err = m.Listen(ap("10.66.0.2:0"), rdmacm.ListenConfig{Conn: cfg})
		require.ErrorIs(t, err, ci.InvalidParameter, name)
	}
	_, err = (&rdmacm.Dialer{}).Dial(ctx, ap("10.66.0.1:1"))
	require.ErrorIs(t, err, ci.InvalidParameter)
	_, err = (&rdmacm.Dialer{Manager: m, ID: cmid.IDConfig{Space: cmid.UDP}}).Dial(ctx, ap("10.66.0.1:1"))
	require.ErrorIs(t, err, ci.InvalidServiceType)
}

func TestRequest(t *testing.T) {
	l := newLAN()
	s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	ctx := cmrig.Within(t)
	ln, err := s.M.Listen(ap("10.66.0.1:7174"), rdmacm.ListenConfig{})
	require.NoError(t, err)
	defer ln.Close()
	results := make(chan error, 2)
	dial := func(cfg rdmacm.ConnConfig) {
		go func() {
			conn, err := (&rdmacm.Dialer{Manager: c.M, Conn: cfg}).Dial(ctx, ap("10.66.0.1:7174"))
			if err == nil {
				err = errors.Join(errors.New(string(bytes.TrimRight(conn.Reply(), "\x00"))), conn.Close())
			}
			results <- err
		}()
	}
	dial(rdmacm.ConnConfig{Private: []byte("let me in")})
	r, err := ln.Accept(ctx)
	require.NoError(t, err)
	assert.Equal(t, "let me in", string(bytes.TrimRight(r.Private(), "\x00")))
	assert.Equal(t, "10.66.0.2", r.RemoteAddr().Addr().String())
	require.NoError(t, r.Delay())
	require.NoError(t, r.Reject([]byte("no")))
	err = <-results
	require.ErrorContains(t, err, "rejected by the peer")

	dial(rdmacm.ConnConfig{})
	r, err = ln.Accept(ctx)
	require.NoError(t, err)
	r.Config.Private = []byte("welcome")
	conn, err := r.Accept(ctx)
	require.NoError(t, err)
	require.EqualError(t, <-results, "welcome")
	require.NoError(t, conn.Close())

	// The peer uses the steps, like a program of another library, and does not count messages.
	dial(rdmacm.ConnConfig{})
	r, err = ln.Accept(ctx)
	require.NoError(t, err)
	id := r.ID()
	require.NoError(t, id.CreateQP(cmid.QPConfig{}))
	require.NoError(t, id.Accept(ctx, cmid.ConnParam{}))
	require.ErrorIs(t, <-results, rdmacm.ErrPlainPeer)
	require.NoError(t, id.Close())

	// A request that cannot be accepted leaves nothing.
	dial(rdmacm.ConnConfig{})
	r, err = ln.Accept(ctx)
	require.NoError(t, err)
	r.Config.Plain = true
	_, err = r.Accept(ctx)
	require.ErrorIs(t, err, ci.InvalidParameter)
	require.Error(t, <-results)
}

// TestConnKeepAlive tests that KeepAlive detects a silent peer, and that blocked calls end.
func TestConnKeepAlive(t *testing.T) {
	var dead atomic.Bool
	l := &lan{Open: open, Network: sim.NewNetwork(sim.NetworkConfig{Filter: func(*sim.Datagram) impair.Verdict {
		if dead.Load() {
			return impair.Drop
		}
		return impair.Pass
	}})}
	s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	alive := net.KeepAliveConfig{Enable: true, Idle: 50 * time.Millisecond, Interval: 50 * time.Millisecond, Count: 2}
	a, _ := connect(t, s, c, rdmacm.ConnConfig{KeepAlive: alive, Linger: -1}, rdmacm.ConnConfig{Linger: -1})
	dead.Store(true)
	_, err := a.Recv(cmrig.Within(t))
	require.ErrorIs(t, err, rdmacm.ErrEnded)
	require.ErrorIs(t, err, rdmacm.ErrPeerLost)
}

func TestStream(t *testing.T) {
	for name, cfg := range map[string]rdmacm.ConnConfig{"usual": {}, "narrow": {Depth: 2, MaxMessage: 100},
		"plain": {Plain: true, Depth: 8}} {
		t.Run(name, func(t *testing.T) {
			l := newLAN()
			s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				listen := cfg
				listen.Plain = false
				a, b := connect(t, s, c, cfg, listen)
				c1, c2 = rdmacm.NewStream(a), rdmacm.NewStream(b)
				return c1, c2, func() { _, _ = c1.Close(), c2.Close() }, nil
			})
		})
	}
}

func TestStreamCloseWrite(t *testing.T) {
	a, b := connPair(t, rdmacm.ConnConfig{}, rdmacm.ConnConfig{})
	x, y := rdmacm.NewStream(a), rdmacm.NewStream(b)
	_, err := x.Write([]byte("question"))
	require.NoError(t, err)
	require.NoError(t, x.CloseWrite())
	require.NoError(t, x.CloseWrite())
	got, err := io.ReadAll(y)
	require.NoError(t, err)
	assert.Equal(t, "question", string(got))
	_, err = x.Write([]byte("more"))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = y.Write([]byte("answer"))
	require.NoError(t, err)
	require.NoError(t, y.Close())
	got, err = io.ReadAll(x)
	require.NoError(t, err)
	assert.Equal(t, "answer", string(got))
}

// FuzzRegion decodes a Region as a peer could send it.
func FuzzRegion(f *testing.F) {
	f.Add(make([]byte, rdmacm.RegionLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r rdmacm.Region
		if r.UnmarshalBinary(b) != nil {
			return
		}
		if r.Addr+r.Length < r.Addr {
			t.Fatal("reaches past the end")
		}
		again, err := r.MarshalBinary()
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x became %x, %v", b, again, err)
		}
	})
}
