package model_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/rvt"
)

// A lossyPort loses what it is told to send, if that is armed, once.
type lossyPort struct {
	rvt.Port
	isArmed atomic.Bool
}

func (p *lossyPort) Unwrap() any { return p.Port }

func (p *lossyPort) Send(list []rvt.Packet) {
	if !p.isArmed.CompareAndSwap(true, false) {
		p.Port.Send(list)
	}
}

// newLossyPeers returns two adapters on a link, and their ports.
func newLossyPeers(t *testing.T, service uint64) (peers [2]*peer, ports [2]*lossyPort) {
	l := direct.NewLink()
	for i := range peers {
		p, err := direct.New(l, direct.Config{})
		require.NoError(t, err)
		ports[i] = &lossyPort{Port: p}
		m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: ports[i]}}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		peers[i] = newPeer(t, m, service)
	}
	return peers, ports
}

// diag returns a counter of DIAG_RPRT.
func (d *driver) diag(f *prm.Field) uint64 {
	d.t.Helper()
	return f.Get(d.query(prm.CmdDiagReport, 1, 2))
}

// awaitDiag waits until a counter is at least v.
func (d *driver) awaitDiag(f *prm.Field, v uint64) {
	d.t.Helper()
	require.Eventually(d.t, func() bool { return d.diag(f) >= v }, waitTime, time.Millisecond)
}

// TestDiagTransport lets each kind of disturbance happen, and checks the counters of both sides.
func TestDiagTransport(t *testing.T) {
	const slow = 20 // a timeout of 4 s
	for name, tt := range map[string]struct {
		timeout uint64
		disturb func(t *testing.T, a, b *peer, ports [2]*lossyPort)
		of      [2][]*prm.Field // the counters that are not 0
	}{
		"nothing": {slow, func(*testing.T, *peer, *peer, [2]*lossyPort) {}, [2][]*prm.Field{}},
		"no receive": {slow, func(t *testing.T, a, b *peer, _ [2]*lossyPort) {
			a.qp.post(prm.WQESend, 0, inlineSegment("x"))
			b.awaitDiag(&prm.DiagRQRNR, 1)
			a.awaitDiag(&prm.DiagSQRNR, 1)
			b.qp.postRecv(dataSegment(10, b.mr.key, b.mr.start))
			requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESend)
		}, [2][]*prm.Field{{&prm.DiagSQRNR}, {&prm.DiagRQRNR}}},
		"lost request": {slow, func(t *testing.T, a, b *peer, ports [2]*lossyPort) {
			ports[0].isArmed.Store(true)
			a.writeTo(b)
			require.Eventually(t, func() bool { return !ports[0].isArmed.Load() }, waitTime, time.Millisecond)
			a.writeTo(b)
			requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQEWrite)
			requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQEWrite)
		}, [2][]*prm.Field{{&prm.DiagSQOutOfSequence}, {&prm.DiagRQOutOfSequence}}},
		"lost acknowledgement": {0, func(t *testing.T, a, b *peer, ports [2]*lossyPort) {
			ports[1].isArmed.Store(true)
			a.writeTo(b)
			requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQEWrite)
			b.awaitDiag(&prm.DiagRQDuplicates, 1)
		}, [2][]*prm.Field{{&prm.DiagSQTimeouts}, {&prm.DiagRQDuplicates}}},
		"no rights": {slow, func(t *testing.T, a, b *peer, _ [2]*lossyPort) {
			a.qp.post(prm.WQEWrite, 0, remoteSegment(b.mr.key+1, b.mr.start), dataSegment(10, a.mr.key, a.mr.start))
			require.EqualValues(t, prm.SynRemoteAccess, prm.CQESyndrome.Get(a.cq.wait()))
			b.awaitDiag(&prm.DiagRQRemoteAccess, 1)
		}, [2][]*prm.Field{{&prm.DiagSQRemoteAccess}, {&prm.DiagRQRemoteAccess}}},
	} {
		t.Run(name, func(t *testing.T) {
			peers, ports := newLossyPeers(t, prm.ServiceRC)
			a, b := peers[0], peers[1]
			a.qp.timeout, b.qp.timeout = tt.timeout, tt.timeout
			a.qp.connect(2, b.qp.num)
			b.qp.connect(1, a.qp.num)
			tt.disturb(t, a, b, ports)
			for i, p := range peers {
				for _, f := range transportDiag {
					if v := p.diag(f); slices.Contains(tt.of[i], f) {
						assert.NotZero(t, v, "%s of %d", f.Name, i)
					} else {
						assert.Zero(t, v, "%s of %d", f.Name, i)
					}
				}
				p.closeHCA()
				requireAlive(t, p.driver)
				for _, f := range transportDiag {
					assert.Zero(t, p.diag(f), "%s of %d after a reset", f.Name, i)
				}
			}
		})
	}
}

// writeTo writes 10 bytes to the memory of another adapter.
func (p *peer) writeTo(to *peer) {
	p.qp.post(prm.WQEWrite, 0, remoteSegment(to.mr.key, to.mr.start), dataSegment(10, p.mr.key, p.mr.start))
}

// transportDiag are the counters of what happens to packets.
var transportDiag = []*prm.Field{&prm.DiagRQRNR, &prm.DiagSQRNR, &prm.DiagRQOutOfSequence, &prm.DiagSQOutOfSequence,
	&prm.DiagRQDatagramDrops, &prm.DiagRQDuplicates, &prm.DiagSQTimeouts, &prm.DiagRQRemoteAccess,
	&prm.DiagSQRemoteAccess, &prm.DiagRQRemoteInvalid, &prm.DiagCQOverflows}

// TestDiagDatagrams counts datagrams that find no receive.
func TestDiagDatagrams(t *testing.T) {
	a, b := newPeers(t, prm.ServiceUD)
	a.qp.start()
	b.qp.start()
	for range 3 {
		a.qp.post(prm.WQESend, 0, datagramSegment(2, ci.GID{}, b.qp.num, 0x1234), inlineSegment("x"))
		requireCQE(t, a.cq.wait(), a.qp.num, true, prm.WQESend)
	}
	b.awaitDiag(&prm.DiagRQDatagramDrops, 3)
	assert.EqualValues(t, 3, b.diag(&prm.DiagRQDatagramDrops))
	assert.Zero(t, a.diag(&prm.DiagRQDatagramDrops))
}
