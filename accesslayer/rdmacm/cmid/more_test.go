package cmid_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/internal/cmrig"
)

// TestUseQP tests a QP that the caller creates and destroys and the ID moves, with an SRQ, in a PD of the caller's.
func TestUseQP(t *testing.T) {
	l := newLAN()
	s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	ctx := cmrig.Within(t)
	ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
	require.NoError(t, err)
	peer := serve(t, ln, func(id *cmid.ID) { assert.True(t, id.Request().SRQ) }, cmid.ConnParam{})
	id, err := c.M.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	require.NoError(t, id.ResolveAddr(ctx, ap("10.66.0.1:7174")))
	require.NoError(t, id.ResolveRoute(ctx))
	ca, err := id.CA()
	require.NoError(t, err)
	pd, err := ca.NewPD(ci.PDNormal)
	require.NoError(t, err)
	srq, err := pd.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}}, nil)
	require.NoError(t, err)
	cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
	require.NoError(t, err)
	create := ci.QPCreate{SendCQ: cq, RecvCQ: cq, SRQ: srq, QPCaps: ci.QPCaps{SendDepth: 1, SendSGE: 1}}
	create.Type = ci.UC
	wrong, err := pd.NewQP(create, nil)
	require.NoError(t, err)
	require.ErrorIs(t, id.UseQP(wrong, 0), ci.InvalidServiceType)
	create.Type = ci.RC
	qp, err := pd.NewQP(create, nil)
	require.NoError(t, err)
	require.NoError(t, id.UseQP(qp, ci.RemoteRead))
	require.ErrorIs(t, id.UseQP(qp, 0), ci.InvalidState)
	assert.Nil(t, id.SendCQ())
	assert.Nil(t, id.RecvCQ())
	assert.Same(t, qp, id.QP())
	path := id.Path()
	path.MTU = ci.MTU512
	require.NoError(t, id.SetPath(path))
	elsewhere := path
	elsewhere.Port.Num = 2
	require.ErrorIs(t, id.SetPath(elsewhere), ci.InvalidPort)
	require.NoError(t, id.Connect(ctx, cmid.ConnParam{}))
	require.ErrorIs(t, id.SetPath(path), ci.InvalidState)
	p := <-peer
	require.NoError(t, p.err)
	attr, err := qp.Query()
	require.NoError(t, err)
	assert.Equal(t, ci.QPRTS, attr.State)
	assert.Equal(t, ci.MTU512, attr.MTU)
	assert.Equal(t, ci.RemoteRead, attr.Access)
	assert.NoError(t, id.Context().Err())
	require.NoError(t, p.id.Close())
	cmrig.Await(t, id.Context().Done(), "the end")
	assert.ErrorIs(t, context.Cause(id.Context()), cmid.ErrPeerDisconnected)
	require.NoError(t, id.Close())
	attr, err = qp.Query()
	require.NoError(t, err, "the caller destroys it")
	assert.Equal(t, ci.QPError, attr.State)
	require.NoError(t, qp.Destroy())
}

// errorHook is a QP that calls a function before it goes to Error, and another one after.
type errorHook struct {
	ciwrap.QP
	before, after func()
}

func (q errorHook) Modify(set ci.QPField, a ci.QPAttr) error {
	end := set&ci.QPFieldState != 0 && a.State == ci.QPError
	if end {
		q.before()
	}
	err := q.QP.Modify(set, a)
	if end {
		q.after()
	}
	return err
}

// readyID is an ID with a resolved route to a server that accepts, and a QP that it can use.
type readyID struct {
	*cmid.ID
	host *host
	cq   *accesslayer.CQ
	qp   *accesslayer.QP
	peer <-chan accepted
}

// newRoutedID returns an ID that has resolved the way to a peer that accepts, and its host.
func newRoutedID(t *testing.T) (*cmid.ID, *host, <-chan accepted) {
	t.Helper()
	l := newLAN()
	s, c := l.Host(t, "10.66.0.1"), l.Host(t, "10.66.0.2")
	ctx := cmrig.Within(t)
	ln, err := s.M.Listen(ap("10.66.0.1:7174"), cmid.ListenConfig{})
	require.NoError(t, err)
	peer := serve(t, ln, nil, cmid.ConnParam{})
	id, err := c.M.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	require.NoError(t, id.ResolveAddr(ctx, ap("10.66.0.1:7174")))
	require.NoError(t, id.ResolveRoute(ctx))
	return id, c, peer
}

func newReadyID(t *testing.T) readyID {
	t.Helper()
	id, c, peer := newRoutedID(t)
	pd, err := id.PD()
	require.NoError(t, err)
	cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
	require.NoError(t, err)
	qp, err := pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq, QPCaps: ci.QPCaps{SendDepth: 1, SendSGE: 1, RecvDepth: 2,
		RecvSGE: 1}}, nil)
	require.NoError(t, err)
	return readyID{id, c, cq, qp, peer}
}

// TestCauseBeforeFlush tests that, whichever end ends a connection, the cause is set before work is flushed, and Done
// is closed after.
func TestCauseBeforeFlush(t *testing.T) {
	for name, x := range map[string]struct {
		end  func(t *testing.T, h *host, id, peer *cmid.ID)
		want error
	}{
		"disconnect": {func(t *testing.T, _ *host, id, _ *cmid.ID) {
			assert.NoError(t,
				id.Disconnect(cmrig.Within(t)))
		}, cmid.ErrDisconnected},
		"the peer does": {func(t *testing.T, _ *host, _, peer *cmid.ID) {
			assert.NoError(t,
				peer.Disconnect(cmrig.Within(t)))
		}, cmid.ErrPeerDisconnected},
		"close": {func(t *testing.T, _ *host, id, _ *cmid.ID) { assert.NoError(t, id.Close()) },
			cmid.ErrDisconnected},
		"the HCA is out": {func(t *testing.T, h *host, _, _ *cmid.ID) { h.Pull(t, "10.66.0.2") },
			cmid.ErrDeviceRemoved},
	} {
		t.Run(name, func(t *testing.T) {
			id := newReadyID(t)
			ctx := cmrig.Within(t)
			var mu sync.Mutex
			var causes []error
			note := func() {
				mu.Lock()
				defer mu.Unlock()
				causes = append(causes, id.Err())
				select {
				case <-id.Done():
					assert.Fail(t, "Done is closed before the QP is in Error")
				default:
				}
			}
			require.NoError(t, id.UseQP(errorHook{ciwrap.QP{QP: id.qp}, note, note}, 0))
			_, err := id.qp.PostRecv([]ci.RecvWR{{ID: 5}})
			require.NoError(t, err)
			require.NoError(t, id.Connect(ctx, cmid.ConnParam{}))
			p := <-id.peer
			require.NoError(t, p.err)
			require.NoError(t, id.Err())
			x.end(t, id.host, id.ID, p.id)
			cmrig.Await(t, id.Done(), "the end")
			require.ErrorIs(t, id.Err(), x.want)
			require.ErrorIs(t, context.Cause(id.Context()), x.want)
			wc := make([]ci.WC, 2)
			if n, err := id.cq.Poll(wc); !errors.Is(x.want, cmid.ErrDeviceRemoved) {
				require.NoError(t, err)
				require.Equal(t, 1, n, "work is flushed before Done is closed")
				require.Equal(t, ci.WCFlushErr, wc[0].Status)
			}
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, causes, 2)
			require.ErrorIs(t, causes[0], x.want, "the cause is set before the QP goes to Error")
			require.ErrorIs(t, causes[1], x.want)
		})
	}
}

// TestSRQNeedsCQ tests that a QP with an SRQ needs a CQ, because the SRQ does not limit the receives that complete.
func TestSRQNeedsCQ(t *testing.T) {
	c := newLAN().Host(t, "10.66.0.2")
	id, err := c.M.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	require.NoError(t, id.Bind(ap("10.66.0.2:0")))
	pd, err := id.PD()
	require.NoError(t, err)
	srq, err := pd.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}}, nil)
	require.NoError(t, err)
	require.ErrorIs(t, id.CreateQP(cmid.QPConfig{SRQ: srq}), ci.InvalidParameter)
	require.ErrorIs(t, id.CreateQP(cmid.QPConfig{Caps: ci.QPCaps{SendSGE: 1 << 20}}),
		ci.InvalidMaxSGE)
	cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
	require.NoError(t, err)
	require.NoError(t, id.CreateQP(cmid.QPConfig{PD: pd, SRQ: srq, RecvCQ: cq}),
		"the failed calls have left nothing")
	assert.NotNil(t, id.SendCQ())
	assert.Nil(t, id.RecvCQ())
}

// TestDisconnectBeforeEstablish tests that an end that has accepted can reject as long as there is no connection.
func TestDisconnectBeforeEstablish(t *testing.T) {
	id, _, peer := newRoutedID(t)
	ctx := cmrig.Within(t)
	require.NoError(t, id.Connect(ctx, cmid.ConnParam{QP: &cm.QP{Num: 0x123, StartPSN: 1}}))
	require.NoError(t, id.Disconnect(ctx))
	assert.ErrorIs(t, id.Err(), cmid.ErrDisconnected)
	require.ErrorIs(t, (<-peer).err, syscall.ECONNREFUSED)
}

// TestListenID tests that an ID becomes a listener, with or without an address.
func TestListenID(t *testing.T) {
	s := newLAN().Host(t, "10.66.0.1")
	id, err := s.M.NewID(cmid.IDConfig{})
	require.NoError(t, err)
	ln, err := id.Listen(1)
	require.NoError(t, err)
	assert.NotZero(t, ln.Addr().Port())
	_, err = id.Listen(1)
	require.ErrorIs(t, err, ci.InvalidState)
	require.NoError(t, id.Close(), "the listener is the ID's")
	_, err = ln.Accept(cmrig.Within(t))
	require.ErrorIs(t, err, net.ErrClosed)

	reuse := cmid.IDConfig{ReuseAddr: true}
	a, err := s.M.NewID(reuse)
	require.NoError(t, err)
	b, err := s.M.NewID(reuse)
	require.NoError(t, err)
	require.NoError(t, a.Bind(ap("10.66.0.1:99")))
	require.NoError(t, b.Bind(ap("10.66.0.1:99")))
	_, err = a.Listen(0)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NoError(t, b.Close())
	_, err = a.Listen(0)
	require.NoError(t, err, "the other listener is closed")
}

// TestNew tests invalid arguments, and a wrong order of closing.
func TestNew(t *testing.T) {
	_, err := cmid.New(nil, cmid.Config{CM: &fakeCM{}})
	require.ErrorIs(t, err, ci.InvalidParameter)
	var none *cm.Manager
	al := accesslayer.New(accesslayer.Config{})
	client, err := al.Open(accesslayer.ClientConfig{})
	require.NoError(t, err)
	for _, c := range []cm.Service{nil, none} {
		_, err = cmid.New(client, cmid.Config{CM: c})
		require.ErrorIs(t, err, ci.InvalidParameter)
	}
	_, err = cmid.New(client, cmid.Config{CM: &fakeCM{}, Ephemeral: [2]uint16{5, 4}})
	require.ErrorIs(t, err, ci.InvalidParameter)
	m, err := cmid.New(client, cmid.Config{CM: &fakeCM{}, Ephemeral: [2]uint16{5, 5},
		Rand: rand.New(rand.NewPCG(1, 2))})
	require.NoError(t, err)
	ln, err := m.Listen(netip.AddrPort{}, cmid.ListenConfig{})
	require.NoError(t, err)
	assert.EqualValues(t, 5, ln.Addr().Port())
	_, err = m.Listen(netip.AddrPort{}, cmid.ListenConfig{})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	_, _, err = m.Device(7)
	require.ErrorIs(t, err, ci.NotFound)
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	require.NoError(t, al.Close())
	_, err = open(al)
	require.ErrorIs(t, err, accesslayer.ErrClosed)
}

func TestNames(t *testing.T) {
	at := ap("10.0.0.1:7")
	for a, want := range map[cmid.Addr]string{
		{Space: cmid.TCP, AddrPort: at}:                                "rdma-tcp 10.0.0.1:7",
		{Space: cmid.UDP, AddrPort: at}:                                "rdma-udp 10.0.0.1:7",
		{Space: cmid.IB, AddrPort: at}:                                 "rdma-ib 10.0.0.1:7",
		{Space: 7, AddrPort: at}:                                       "rdma-0x7 10.0.0.1:7",
		{Space: cmid.IB, AddrPort: ap("[fe80::1]:0"), Service: 0x1234}: "rdma-ib [fe80::1]#0000000000001234",
	} {
		assert.Equal(t, want, a.Network()+" "+a.String())
	}
	seen := map[string]bool{}
	for e := cmid.EventAddrResolved; e <= cmid.EventAlternate; e++ {
		seen[e.String()] = true
	}
	assert.Len(t, seen, int(cmid.EventAlternate))
	assert.Equal(t, "unknown event", cmid.EventType(99).String())
}

// stuckQP is a QP that cannot be moved to Error.
type stuckQP struct{ ciwrap.QP }

func (q stuckQP) Modify(set ci.QPField, a ci.QPAttr) error {
	if set&ci.QPFieldState != 0 && a.State == ci.QPError {
		return &ci.Error{Verb: "QP.Modify", Status: ci.InsufficientResources}
	}
	return q.QP.Modify(set, a)
}

// TestStuckQP tests that a program learns that its work is not flushed, because the QP could not be moved to Error.
func TestStuckQP(t *testing.T) {
	id := newReadyID(t)
	ctx := cmrig.Within(t)
	require.NoError(t, id.UseQP(stuckQP{ciwrap.QP{QP: id.qp}}, 0))
	require.NoError(t, id.Connect(ctx, cmid.ConnParam{}))
	p := <-id.peer
	require.NoError(t, p.err)
	require.NoError(t, p.id.Disconnect(ctx))
	cmrig.Await(t, id.Done(), "the end")
	for _, err := range []error{id.Err(), context.Cause(id.Context())} {
		require.ErrorIs(t, err, cmid.ErrPeerDisconnected)
		require.ErrorIs(t, err, cmid.ErrEnded)
		require.ErrorIs(t, err, ci.InsufficientResources)
		require.ErrorContains(t, err, "its work is not flushed")
	}
}
