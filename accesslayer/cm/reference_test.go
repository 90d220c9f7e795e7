package cm_test

import (
	"context"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
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
	"ciddk/link/impair"
	"ciddk/link/sim"
	"ciddk/link/udp"
	"ciddk/mad"
	"ciddk/rvt"
)

// These tests connect reference HCAs over real MAD services, on both link layers.

// stack is an HCA with its access layer and managers.
type stack struct {
	t    testing.TB
	al   *accesslayer.AL
	hca  *reference.HCA
	mads *mads.Manager
	cm   *cm.Manager
	c    *accesslayer.Client
	ca   *accesslayer.CA
	pd   *accesslayer.PD
	cq   *accesslayer.CQ
	buf  []byte
	mr   *accesslayer.MR
}

func newStack(t testing.TB, ports ...rvt.Port) *stack {
	s := &stack{t: t, al: accesslayer.New(accesslayer.Config{}), buf: make([]byte, 1<<16)}
	s.hca = must(reference.New(reference.Config{Ports: ports}))
	require.NoError(t, s.al.Register(s.hca))
	s.mads = must(mads.New(s.al, mads.Config{}))
	s.cm = must(cm.New(s.al, s.mads, cm.Config{}))
	s.c = must(s.al.Open(accesslayer.ClientConfig{Name: t.Name()}))
	s.ca = must(s.c.OpenCA(s.hca.Info().GUID, nil))
	s.pd = must(s.ca.NewPD(ci.PDNormal))
	s.cq = must(s.pd.NewCQ(ci.CQCreate{Size: 256}, accesslayer.CQHandler{}))
	s.mr = must(s.pd.NewMR(ci.MRCreate{Memory: ci.Bytes(s.buf), Access: ci.LocalWrite | ci.RemoteWrite |
		ci.RemoteRead}))
	t.Cleanup(s.close)
	return s
}

func (s *stack) close() {
	assert.NoError(s.t, s.cm.Close())
	assert.NoError(s.t, s.mads.Close())
	assert.NoError(s.t, s.al.Close())
	assert.NoError(s.t, s.hca.Close())
}

// A second connection manager on the same ports fails, and the first is not affected.
func TestOnePerPort(t *testing.T) {
	s := newStack(t, testenv.Must(direct.New(direct.NewLink(), direct.Config{})))
	_, err := cm.New(s.al, s.mads, cm.Config{})
	require.ErrorIs(t, err, ci.ResourceBusy)
	require.ErrorContains(t, err, "port 1 of HCA")
	require.ErrorContains(t, err, `agent "connection manager"`)
	require.NoError(t, s.cm.Close())
	s.cm, err = cm.New(s.al, s.mads, cm.Config{})
	require.NoError(t, err)
}

func (s *stack) qp(typ ci.QPType, events chan<- ci.EventType) *accesslayer.QP {
	return must(s.pd.NewQP(ci.QPCreate{Type: typ, SendCQ: s.cq, RecvCQ: s.cq,
		QPCaps: ci.QPCaps{SendDepth: 16, RecvDepth: 16, SendSGE: 1, RecvSGE: 1}}, func(_ *accesslayer.QP, e ci.Event) {
		if events != nil {
			events <- e.Type
		}
	}))
}

func (s *stack) attr(num uint8) *ci.PortAttr { return must(s.ca.Adapter().Port(num)) }

func (s *stack) path(num uint8, to *stack, toNum uint8) cm.Path {
	p := cm.Path{Port: mads.Port{CA: s.hca.Info().GUID, Num: num}, LifeTime: 10,
		AV: ci.AVAttr{GRH: ci.GRH{DGID: to.attr(toNum).GIDs[0].GID, FlowLabel: 0x4321}}}
	if s.attr(num).Link == ci.LinkInfiniBand {
		p.AV.DLID = to.attr(toNum).LID
	} else {
		p.AV.GRH.HopLimit = 64
	}
	return p
}

func (s *stack) requestTo(to *stack, qp ci.QP, typ ci.QPType) cm.ConnectConfig {
	return cm.ConnectConfig{Service: service1, QP: cm.QP{Num: qp.Num(), Type: typ, StartPSN: 0xfffff0},
		Primary:            s.path(1, to, 1),
		ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetry: 7}
}

func modify(t testing.TB, qp ci.QP, c cm.Conn, states ...ci.QPState) {
	for _, to := range states {
		assert.NoError(t, cm.Modify(qp, c, to, ci.LocalWrite|ci.RemoteWrite|ci.RemoteRead), "%v", to)
	}
}

func post(t testing.TB, s *stack, qp ci.QP) {
	for i := range 8 {
		must(qp.PostRecv([]ci.RecvWR{{ID: 100 + uint64(i),
			SGL: []ci.SGE{s.mr.Region().SGE(uint64(4096*(i+1)), 4096)}}}))
	}
}

// postOne posts one receive, in the place of the one that carry used.
func postOne(s *stack, qp ci.QP) {
	must(qp.PostRecv([]ci.RecvWR{{ID: 100, SGL: []ci.SGE{s.mr.Region().SGE(4096, 4096)}}}))
}

// carry sends a text from one QP to the other.
func carry(t testing.TB, from *stack, fromQP ci.QP, to *stack, text string) {
	t.Helper()
	copy(from.buf, text)
	must(fromQP.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled,
		SGL: []ci.SGE{from.mr.Region().SGE(0, uint32(len(text)))}}}))
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	wc := make([]ci.WC, 1)
	must(to.cq.Wait(ctx, wc))
	require.Equal(t, ci.WCSuccess, wc[0].Status)
	at := int(wc[0].ID-99) * 4096
	require.Equal(t, text, string(to.buf[at:at+len(text)]))
	must(from.cq.Wait(ctx, wc))
	require.Equal(t, ci.WCSuccess, wc[0].Status)
}

// onLinks runs a test on two stacks, on each kind of port.
func onLinks(t *testing.T, ports int, f func(t *testing.T, a, b *stack)) {
	t.Run("direct", func(t *testing.T) {
		l := direct.NewLink()
		make := func() (p []rvt.Port) {
			for range ports {
				p = append(p, testenv.Must(direct.New(l, direct.Config{})))
			}
			return p
		}
		f(t, newStack(t, make()...), newStack(t, make()...))
	})
	t.Run("UDP", func(t *testing.T) {
		make := func() (p []rvt.Port) {
			for range ports {
				p = append(p, testenv.Must(udp.New(udpAddr())))
			}
			return p
		}
		f(t, newStack(t, make()...), newStack(t, make()...))
	})
	t.Run("network, IPv6", func(t *testing.T) {
		n := sim.NewNetwork(sim.NetworkConfig{})
		make := func(node byte) (p []rvt.Port) {
			for i := range ports {
				p = append(p,
					testenv.Must(sim.New(n,
						sim.Config{Addr: netip.AddrFrom16([16]byte{0xfd, 15: node*16 + byte(i) + 1})})))
			}
			return p
		}
		f(t, newStack(t, make(0)...), newStack(t, make(1)...))
	})
}

var lastAddr atomic.Uint32

// udpAddr returns a loopback address that no other test and no other test process uses.
func udpAddr() udp.Config {
	n := uint32(os.Getpid())<<9 + lastAddr.Add(1)
	return udp.Config{Addr: netip.AddrFrom4([4]byte{127, byte(1 + n>>16%250), byte(n >> 8), byte(1 + n%250)}),
		Port: 4792}
}

// establish connects two QPs.
func establish(t testing.TB, a, b *stack, typ ci.QPType, edit ...func(*cm.ConnectConfig)) (ca, cb cm.Conn, qa,
	qb *accesslayer.QP) {
	return establishWatched(t, a, b, typ, nil, edit...)
}

func establishWatched(t testing.TB, a, b *stack, typ ci.QPType, events chan ci.EventType,
	edit ...func(*cm.ConnectConfig)) (ca, cb cm.Conn, qa, qb *accesslayer.QP) {
	l := must(b.cm.Listen(cm.ListenConfig{Service: service1}))
	defer func() { assert.NoError(t, l.Close()) }()
	qa, qb = a.qp(typ, events), b.qp(typ, events)
	done := make(chan error, 1)
	go func() {
		var err error
		if cb, err = l.Accept(t.Context()); err == nil {
			modify(t, qb, cb, ci.QPInit)
			post(t, b, qb)
			modify(t, qb, cb, ci.QPRTR)
			if err = cb.Accept(t.Context(), cm.AcceptConfig{QP: cm.QP{Num: qb.Num(), Type: typ}, ResponderResources: 1,
				InitiatorDepth: 1, RNRRetry: 7}); err == nil {
				modify(t, qb, cb, ci.QPRTS)
			}
		}
		done <- err
	}()
	cfg := a.requestTo(b, qa, typ)
	for _, e := range edit {
		e(&cfg)
	}
	ca, err := a.cm.Connect(t.Context(), cfg)
	require.NoError(t, err)
	modify(t, qa, ca, ci.QPInit)
	post(t, a, qa)
	modify(t, qa, ca, ci.QPRTR, ci.QPRTS)
	require.NoError(t, ca.Confirm(nil))
	require.NoError(t, <-done)
	return ca, cb, qa, qb
}

// Connected QPs transfer data in both directions. Either end disconnects.
func TestReferenceData(t *testing.T) {
	onLinks(t, 1, func(t *testing.T, a, b *stack) {
		for _, typ := range []ci.QPType{ci.RC, ci.UC} {
			for _, passive := range []bool{false, true} {
				ca, cb, qa, qb := establish(t, a, b, typ)
				carry(t, a, qa, b, "there")
				carry(t, b, qb, a, "and back")
				nextAfterDelays(t, cb, cm.EventEstablished)
				from, to := ca, cb
				if passive {
					from, to = cb, ca
				}
				answered := make(chan error, 1)
				go func() {
					nextAfterDelays(t, to, cm.EventDisconnect)
					answered <- to.AnswerDisconnect(nil)
				}()
				_, err := from.Disconnect(t.Context(), nil)
				require.NoError(t, err)
				require.NoError(t, <-answered)
				for _, e := range []struct {
					c  cm.Conn
					qp *accesslayer.QP
				}{{ca, qa}, {cb, qb}} {
					require.NoError(t, e.qp.Modify(ci.ToError()))
					require.NotZero(t, e.c.TimeWait())
					e.qp.TimeWait(e.c.TimeWait())
					require.NoError(t, e.qp.Destroy())
					nextAfterDelays(t, e.c, cm.EventDisconnected)
					nextAfterDelays(t, e.c, cm.EventTimeWaitExit)
				}
				drain(a.cq)
				drain(b.cq)
			}
		}
	})
}

func drain(cq *accesslayer.CQ) {
	wc := make([]ci.WC, 32)
	for {
		if n, _ := cq.Poll(wc); n == 0 {
			return
		}
	}
}

// A request without a listener is rejected with the reason.
func TestReferenceReject(t *testing.T) {
	onLinks(t, 1, func(t *testing.T, a, b *stack) {
		qp := a.qp(ci.RC, nil)
		_, err := a.cm.Connect(t.Context(), a.requestTo(b, qp, ci.RC))
		var rej *cm.RejectError
		require.ErrorAs(t, err, &rej)
		assert.Equal(t, mad.RejInvalidServiceID, rej.Reason)

		l := must(b.cm.Listen(cm.ListenConfig{Service: service1}))
		done := make(chan error, 1)
		go func() {
			c, err := l.Accept(t.Context())
			if err == nil {
				err = c.Reject(mad.RejConsumer, []byte("info"), []byte("no"))
			}
			done <- err
		}()
		_, err = a.cm.Connect(t.Context(), a.requestTo(b, qp, ci.RC))
		require.ErrorAs(t, err, &rej)
		require.NoError(t, <-done)
		assert.Equal(t, mad.RejConsumer, rej.Reason)
		assert.Equal(t, "info", string(rej.Info))
		assert.Equal(t, private([]byte("no"), mad.REJPrivateLen), rej.Private)
	})
}

// A manager of another class version is rejected, also with real MAD services.
func TestReferenceClassVersion(t *testing.T) {
	onLinks(t, 1, func(t *testing.T, a, b *stack) {
		agent := must(a.mads.Register(mads.AgentConfig{Name: "old", Port: mads.Port{CA: a.hca.Info().GUID, Num: 1}}))
		req := &mad.REQ{LocalCommID: 0x1234}
		h := mad.CMHeader(1, req)
		h.ClassVersion = 1
		m := make([]byte, mad.Size)
		h.Put(m)
		req.Put(m[mad.HeaderLen:])
		av := a.path(1, b, 1).AV
		av.Global = a.attr(1).Link == ci.LinkEthernet
		require.NoError(t, agent.Send(&mads.Message{To: mads.Address{AV: av, QPN: 1}, MAD: m}))
		require.Eventually(t, func() bool { return a.cm.Counters().Received[mad.AttrREJ] == 1 }, testenv.Patience,
			time.Millisecond)
		require.Eventually(t, func() bool { return b.cm.Counters().Sent[mad.AttrREJ] == 1 }, testenv.Patience,
			time.Millisecond,
			"the counter is incremented after Send, which may be after the arrival")
		require.NoError(t, agent.Close())
	})
}

// 32 clients at a time connect QPs and transfer data, over a link that loses, duplicates and reorders one packet in
// twenty each.
func TestReferenceLossy(t *testing.T) {
	l := direct.NewLink()
	port := func(seed uint64) rvt.Port {
		return testenv.Must(impair.New(testenv.Must(direct.New(l, direct.Config{})),
			impair.Config{Seed: seed, Out: impair.Model{Drop: 0.05, Duplicate: 0.05, Reorder: 0.05}}))
	}
	a, b := newStack(t, port(1)), newStack(t, port(2))
	listener := must(b.cm.Listen(cm.ListenConfig{Service: service1}))
	const conns = 32
	var wg sync.WaitGroup
	quick := func(c *cm.ConnectConfig) { c.ResponseTime, c.RemoteResponseTime = 13, 13 }
	for range conns {
		wg.Go(func() {
			c, err := listener.Accept(t.Context())
			if !assert.NoError(t, err) {
				return
			}
			qp := b.qp(ci.RC, nil)
			assert.NoError(t, cm.Modify(qp, c, ci.QPInit, ci.LocalWrite))
			assert.NoError(t, cm.Modify(qp, c, ci.QPRTR, 0))
			assert.NoError(t, c.Accept(t.Context(), cm.AcceptConfig{QP: cm.QP{Num: qp.Num()}, RNRRetry: 7}))
			for {
				e, err := c.Next(t.Context())
				if err != nil {
					return
				}
				if e.Type == cm.EventDisconnect {
					assert.NoError(t, qp.Destroy())
					_ = c.AnswerDisconnect(nil)
				}
			}
		})
		wg.Go(func() {
			qp := a.qp(ci.RC, nil)
			cfg := a.requestTo(b, qp, ci.RC)
			quick(&cfg)
			c, err := a.cm.Connect(t.Context(), cfg)
			if !assert.NoError(t, err) {
				return
			}
			for _, to := range []ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS} {
				assert.NoError(t, cm.Modify(qp, c, to, ci.LocalWrite))
			}
			assert.NoError(t, c.Confirm(nil))
			_, err = c.Disconnect(t.Context(), nil)
			assert.NoError(t, err)
			assert.NoError(t, qp.Destroy())
		})
	}
	wg.Wait()
	require.NoError(t, listener.Close())
	assert.Equal(t, uint64(conns), a.cm.Counters().Established)
	assert.Equal(t, uint64(conns), b.cm.Counters().Established)
}
