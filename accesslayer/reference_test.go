package accesslayer_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/rvt"
)

// stack is the access layer over the kit's own HCA: two adapters on a direct link.

type side struct {
	t   *testing.T
	al  *accesslayer.AL
	hca *reference.HCA
	c   *accesslayer.Client
	ca  *accesslayer.CA
	pd  *accesslayer.PD
	cq  *accesslayer.CQ
	qp  *accesslayer.QP
	buf []byte
	mr  *accesslayer.MR
}

func newSide(t *testing.T, al *accesslayer.AL, link *direct.Link, typ ci.QPType) *side {
	s := &side{t: t, al: al, buf: make([]byte, 1<<16)}
	s.hca = must(reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(link, direct.Config{}))}}))
	t.Cleanup(func() {
		if err := al.Deregister(s.hca.Info().GUID); !errors.Is(err, ci.NotFound) { // the test may have removed it
			assert.NoError(t, err)
		}
		assert.NoError(t, s.hca.Close())
	})
	require.NoError(t, al.Register(s.hca))
	s.c = must(al.Open(accesslayer.ClientConfig{Name: t.Name()}))
	s.ca = must(s.c.OpenCA(s.hca.Info().GUID, nil))
	s.pd = must(s.ca.NewPD(ci.PDNormal))
	s.cq = must(s.pd.NewCQ(ci.CQCreate{Size: 256}, accesslayer.CQHandler{}))
	s.qp = must(s.pd.NewQP(ci.QPCreate{Type: typ, SendCQ: s.cq, RecvCQ: s.cq,
		QPCaps: ci.QPCaps{SendDepth: 64, RecvDepth: 64, SendSGE: 1, RecvSGE: 1}}, nil))
	s.mr = must(s.pd.NewMR(ci.MRCreate{Memory: ci.Bytes(s.buf), Access: ci.LocalWrite}))
	return s
}

func (s *side) lid() ci.LID { return must(s.ca.Adapter().Port(1)).LID }

func (s *side) connect(peer *side) {
	path := ci.Path{AckTimeout: 14, AV: ci.AVAttr{Port: 1, DLID: peer.lid()}}
	require.NoError(s.t, s.qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}))
	require.NoError(s.t, s.qp.Modify(ci.QPFieldsRTR, ci.QPAttr{State: ci.QPRTR, Primary: path, MTU: ci.MTU1024,
		DestNum: peer.qp.Num(), RespRes: 1, MinRNRTimer: 1}))
	require.NoError(s.t, s.qp.Modify(ci.QPFieldsRTS, ci.QPAttr{State: ci.QPRTS, Primary: path, InitDepth: 1,
		RetryCount: 7, RNRRetry: 7}))
}

// Messages of a reliable connection pass through pumps in each mode, and none is lost.
func TestReferenceTraffic(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			al, link := newAL(t), direct.NewLink()
			a, b := newSide(t, al, link, ci.RC), newSide(t, al, link, ci.RC)
			a.connect(b)
			b.connect(a)
			const messages = 5000
			recv := []ci.RecvWR{{SGL: []ci.SGE{b.mr.Region().SGE(0, 64)}}}
			for range 64 {
				must(b.qp.PostRecv(recv))
			}
			var got atomic.Int64
			received, sent := make(chan struct{}), make(chan struct{}, messages)
			must(b.cq.NewPump(accesslayer.PumpConfig{Mode: mode, Handle: func(wc []ci.WC) {
				for _, c := range wc {
					assert.Equal(t, ci.WCSuccess, c.Status)
					if n := got.Add(1); n == messages {
						close(received)
					} else if n <= messages-64 {
						_, err := b.qp.PostRecv(recv)
						assert.NoError(t, err)
					}
				}
			}}))
			must(a.cq.NewPump(accesslayer.PumpConfig{Mode: mode, Handle: func(wc []ci.WC) {
				for _, c := range wc {
					assert.Equal(t, ci.WCSuccess, c.Status)
					sent <- struct{}{}
				}
			}}))
			send := []ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{a.mr.Region().SGE(0, 64)}}}
			for i := range messages {
				if i >= 32 {
					wait(t, sent, "a send's completion")
				}
				must(a.qp.PostSend(send))
			}
			wait(t, received, "the last message")
		})
	}
}

// A work request uses an address vector of the access layer, and a window is bound to a region of the access layer.
func TestReferenceObjectsInRequests(t *testing.T) {
	t.Parallel()
	al, link := newAL(t), direct.NewLink()
	a, b := newSide(t, al, link, ci.UD), newSide(t, al, link, ci.UD)
	for _, s := range []*side{a, b} {
		require.NoError(t, s.qp.Modify(ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, QKey: 5}))
		require.NoError(t, s.qp.Modify(ci.QPFieldsUDRTR, ci.QPAttr{State: ci.QPRTR}))
		require.NoError(t, s.qp.Modify(ci.QPFieldsUDRTS, ci.QPAttr{State: ci.QPRTS}))
	}
	must(b.qp.PostRecv([]ci.RecvWR{{ID: 3, SGL: []ci.SGE{b.mr.Region().SGE(0, 256)}}}))
	av := must(a.pd.NewAV(ci.AVAttr{Port: 1, DLID: b.lid()}))
	copy(a.buf, "by an address vector")
	must(a.qp.PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{a.mr.Region().SGE(0, 20)},
		To: ci.Dest{AV: av, QPN: b.qp.Num(), QKey: 5}}}))
	wc := make([]ci.WC, 1)
	must(b.cq.Wait(t.Context(), wc))
	assert.Equal(t, ci.WC{ID: 3, Status: ci.WCSuccess, Op: ci.WCRecv},
		ci.WC{ID: wc[0].ID, Status: wc[0].Status, Op: wc[0].Op})
	assert.Equal(t, "by an address vector", string(b.buf[40:60]))
	must(a.cq.Wait(t.Context(), wc))
	require.Equal(t, ci.WCSuccess, wc[0].Status)

	group := must(b.qp.AttachMcast(ci.McastAttach{GID: ci.GID{0xff, 0x12}, LID: 0xc001}))
	require.NoError(t, group.Destroy())
	attr := must(b.qp.Query())
	assert.Same(t, b.pd.CI(), attr.PD)

	mw := must(a.pd.NewMW(ci.MWCreate{Type: ci.MWType2}))
	require.NoError(t, a.pd.Destroy(), "windows, regions, vectors and queues at once")
	assert.ErrorIs(t, mw.Destroy(), ci.InvalidMWHandle)
}

// The HCA is removed while two QPs exchange messages. The driver is closed with no objects left, and the other HCA
// continues to work.
func TestReferenceHotRemoval(t *testing.T) {
	t.Parallel()
	al, link := newAL(t), direct.NewLink()
	a, b := newSide(t, al, link, ci.RC), newSide(t, al, link, ci.RC)
	a.connect(b)
	b.connect(a)
	busy := make(chan struct{}, 1)
	must(a.cq.NewPump(accesslayer.PumpConfig{Handle: func([]ci.WC) {
		select {
		case busy <- struct{}{}:
		default:
		}
	}}))
	must(b.cq.NewPump(accesslayer.PumpConfig{Mode: accesslayer.PollHybrid, Handle: func(wc []ci.WC) {
		for range wc {
			_, _ = b.qp.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{b.mr.Region().SGE(0, 64)}}})
		}
	}}))
	for range 64 {
		must(b.qp.PostRecv([]ci.RecvWR{{SGL: []ci.SGE{b.mr.Region().SGE(0, 64)}}}))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = a.qp.PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled,
					SGL: []ci.SGE{a.mr.Region().SGE(0, 64)}}})
			}
		}
	})
	wait(t, busy, "traffic")
	require.NoError(t, al.Deregister(b.hca.Info().GUID))
	close(stop)
	wg.Wait()
	_, err := b.qp.Query()
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	_, err = b.qp.PostRecv([]ci.RecvWR{{}})
	assert.ErrorIs(t, err, ci.InvalidQPHandle, "the driver rejects verbs of the data path")
	_, err = a.ca.Query()
	assert.NoError(t, err)
	ca, err := b.hca.OpenCA(b.hca.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err, "the driver's one open was closed")
	require.NoError(t, ca.Destroy())
}

// PnP reports a cable that is pulled and plugged in again, in the order that clients rely on.
func TestReferenceLinkEvents(t *testing.T) {
	t.Parallel()
	al, link := newAL(t), direct.NewLink()
	a := newSide(t, al, link, ci.RC)
	events := make(chan string, 16)
	must(a.c.RegisterPnP(accesslayer.PnPConfig{Port: func(_ *accesslayer.Adapter, _ any,
		e accesslayer.PortEvent) {
		events <- e.Type.String()
	}}))
	next := func(n int) string {
		var s []string
		for range n {
			s = append(s, <-events)
		}
		return strings.Join(s, ", ")
	}
	assert.Equal(t, "add, active", next(2))
	require.NoError(t, a.hca.SetLink(1, false))
	assert.Equal(t, "down", next(1))
	require.NoError(t, a.hca.SetLink(1, true))
	assert.Equal(t, "init, armed, active", next(3))
}
