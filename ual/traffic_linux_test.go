package ual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/ual"
)

// pair is two connected QPs of one CA.
type pair struct {
	t    *testing.T
	ca   ci.CA
	pd   ci.PD
	cq   ci.CQ
	a, b ci.QP
}

func newPair(t *testing.T, ca ci.CA, create ci.CQCreate) *pair {
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	create.Size = 64
	cq, err := pd.CreateCQ(create)
	require.NoError(t, err)
	p := &pair{t: t, ca: ca, pd: pd, cq: cq}
	c := ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: 16, RecvDepth: 16, SendSGE: 4, RecvSGE: 4, MaxInline: 64}}
	c.Context = "a"
	p.a, err = pd.CreateQP(c)
	require.NoError(t, err)
	c.Context = "b"
	p.b, err = pd.CreateQP(c)
	require.NoError(t, err)
	attr, err := ca.Query()
	require.NoError(t, err)
	port := attr.Ports[0]
	for _, x := range []struct{ q, peer ci.QP }{{p.a, p.b}, {p.b, p.a}} {
		access := ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic
		require.NoError(t, x.q.Modify(ci.ToInit{Port: 1, Access: access}.For(ci.RC)))
		require.NoError(t, x.q.Modify(ci.ToRTR{AV: ci.AVAttr{Port: 1, Global: true,
			GRH: ci.GRH{DGID: port.GIDs[0].GID, HopLimit: 64}},
			MTU: ci.MTU1024, DestNum: x.peer.Num(), RQPSN: 7, RespRes: 4, MinRNRTimer: 12}.For(ci.RC)))
		require.NoError(t, x.q.Modify(ci.ToRTS{SQPSN: 7, AckTimeout: 14, RetryCount: 7, RNRRetry: 7,
			InitDepth: 4}.For(ci.RC)))
	}
	return p
}

// wait polls until n completions have come.
func (p *pair) wait(n int) []ci.WC {
	var list []ci.WC
	wc := make([]ci.WC, 16)
	require.Eventually(p.t, func() bool {
		got, err := p.cq.Poll(wc)
		require.NoError(p.t, err)
		list = append(list, wc[:got]...)
		return len(list) >= n
	}, time.Minute, time.Millisecond)
	return list
}

// TestTransfer moves data between memory of the process and memory that is shared with the daemon.
func TestTransfer(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	p := newPair(t, r.open(r.dial(), nil), ci.CQCreate{})
	own := make([]byte, 10000)
	for i := range own {
		own[i] = byte(i * 7)
	}
	source, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(own), Access: ci.LocalWrite})
	require.NoError(t, err)
	m, err := ual.NewMemory(20000)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	target, err := p.pd.RegisterMR(ci.MRCreate{Memory: m, Offset: 100, Length: 10000,
		Access: ci.LocalWrite | ci.RemoteWrite | ci.RemoteRead | ci.RemoteAtomic})
	require.NoError(t, err)

	_, err = p.b.PostRecv([]ci.RecvWR{{ID: 2, SGL: []ci.SGE{target.Region().SGE(0, 10000)}}})
	require.NoError(t, err)
	n, err := p.a.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled,
		SGL: []ci.SGE{source.Region().SGE(0, 10000)}}})
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	for _, wc := range p.wait(2) {
		assert.Equal(t, ci.WCSuccess, wc.Status)
		assert.Equal(t, map[uint64]any{1: "a", 2: "b"}[wc.ID], wc.Context)
	}
	assert.Equal(t, own, m.Bytes()[100:10100])

	clear(own)
	_, err = p.a.PostSend([]ci.SendWR{{ID: 3, Op: ci.OpRead, Flags: ci.SendSignaled,
		SGL:    []ci.SGE{source.Region().SGE(0, 5000)},
		Remote: target.Region().Remote(5000)}})
	require.NoError(t, err)
	assert.Equal(t, ci.WCSuccess, p.wait(1)[0].Status)
	assert.Equal(t, m.Bytes()[5100:10100], own[:5000])

	require.NoError(t, target.Destroy())
	require.NoError(t, source.Destroy())
	require.ErrorIs(t, source.Destroy(), ci.InvalidMRHandle)
	require.ErrorIs(t, p.cq.Destroy(), ci.ResourceBusy)
	require.ErrorIs(t, p.pd.Destroy(), ci.ResourceBusy)
	require.ErrorIs(t, p.ca.Destroy(), ci.ResourceBusy)
	for _, o := range []ci.Object{p.a, p.b, p.cq, p.pd, p.ca} {
		require.NoError(t, o.Destroy())
	}
	assert.Empty(t, live(r))
}

// live returns the objects of the driver that exist, without the CA that the access layer has open.
func live(r *rig) map[string]int {
	list := map[string]int{}
	for k, n := range r.hca.Live() {
		if n > 0 && k != "ca" {
			list[k] = n
		}
	}
	return list
}
