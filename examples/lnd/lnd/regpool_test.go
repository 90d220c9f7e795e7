package lnd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
)

// looped is a host with a queue pair connected to itself.
type looped struct {
	*wired
	cq ci.CQ
	qp ci.QP
}

func newLooped(t *testing.T, c reference.Config) *looped {
	l := &looped{wired: newRig(t).host("10.0.0.1", c)}
	l.cq = must(l.domain.CreateCQ(ci.CQCreate{Size: 64}, nil))
	end := newWiredLink(l.wired, l.wired)
	l.qp = must(end.createQP(ci.QPCreate{SendCQ: l.cq, RecvCQ: l.cq, QPCaps: ci.QPCaps{SendDepth: 32, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}}))
	require.NoError(t, errors.Join(end.rtr(end), end.rts()))
	return l
}

// do posts requests of which the last is signaled, and waits for it.
func (l *looped) do(t *testing.T, wrs ...ci.SendWR) ci.WCStatus {
	wrs[len(wrs)-1].Flags |= ci.SendSignaled
	_, err := l.qp.PostSend(wrs)
	require.NoError(t, err)
	var wc [1]ci.WC
	require.Eventually(t, func() bool { return must(l.cq.Poll(wc[:])) > 0 }, time.Minute, time.Millisecond)
	return wc[0].Status
}

// A region is used over and over, more often than it has keys. Each time the chain in front takes the key of before away, whether that
// was left registered or not.
func TestRegPoolReuse(t *testing.T) {
	l := newLooped(t, direct(reference.NewDirectLink()))
	p := newRegPool(l.domain, 2)
	ctx := limit(t)
	src, dst := random(1, 5000), make([]byte, 5000)
	keys := map[ci.Key]int{}
	for i := range 300 {
		from, err := p.get(ctx, src[i:4096+i], true, false)
		require.NoError(t, err)
		require.Equal(t, i > 0, from.live, "a source stays registered until its region is used again")
		to, err := p.get(ctx, dst[:4096], false, true)
		require.NoError(t, err)
		require.False(t, to.live)
		keys[from.ext.FastReg.Key]++
		wrs := append(from.chain(), to.chain()...)
		wrs = append(wrs, writes(from, to.desc(), 4096)...)
		clear(dst)
		from.posted()
		to.posted()
		require.Equal(t, ci.WCSuccess, l.do(t, wrs...), "round %d", i)
		require.Equal(t, src[i:4096+i], dst[:4096])
		require.Equal(t, ci.WCSuccess, l.do(t, ci.SendWR{Op: ci.OpLocalInv, Inv: to.ext.FastReg.Key}))
		to.state = invalidated
		require.NoError(t, p.put(to))
		require.NoError(t, p.put(from)) // the last back is the first out
	}
	require.Len(t, keys, 256)
	require.Zero(t, p.lent)
	require.NoError(t, p.close())
}

// The pool makes regions as it needs them; beyond the limit one waits, as long as its context allows. What we begin leaves some for peers.
func TestRegPoolLimit(t *testing.T) {
	l := newLooped(t, direct(reference.NewDirectLink()))
	p := newRegPool(l.domain, 4)
	ctx := limit(t)
	mem := make([]byte, 100)
	var lent []*mapping
	for range 3 {
		lent = append(lent, must(p.get(ctx, mem, true, true)))
	}
	why, cancel := context.WithCancel(ctx)
	cancel()
	_, err := p.get(why, mem, true, true)
	require.ErrorIs(t, err, context.Canceled, "ours are three of four")
	lent = append(lent, must(p.get(ctx, mem, false, true)))
	_, err = p.get(why, mem, false, true)
	require.ErrorIs(t, err, context.Canceled, "all four are lent")
	got := make(chan *mapping)
	go func() { got <- must(p.get(ctx, mem, false, true)) }()
	require.NoError(t, p.put(lent[0]))
	m := <-got
	require.Same(t, lent[0].region, m.region)
	for _, m := range append(lent[1:], m) {
		require.NoError(t, p.put(m))
	}
	require.Len(t, p.idle, 4)
	require.NoError(t, p.close())
	require.NoError(t, p.close())
	_, err = p.get(ctx, mem, true, true)
	require.ErrorContains(t, err, "closed")
}

// A region whose fate is not known goes, and another takes its place.
func TestRegPoolDoubtful(t *testing.T) {
	l := newLooped(t, direct(reference.NewDirectLink()))
	p := newRegPool(l.domain, 2)
	ctx := limit(t)
	mem, from := make([]byte, 4096), random(1, 4096)
	m, src := must(p.get(ctx, mem, false, true)), must(p.get(ctx, from, true, false))
	require.Equal(t, ci.WCSuccess, l.do(t, append(m.chain(), src.chain()...)...))
	m.state, src.state = doubtful, registered
	require.NoError(t, p.put(m))
	require.NotEqual(t, ci.WCSuccess, l.do(t, writes(src, m.desc(), 4096)...), "its key must be dead")
	require.Equal(t, make([]byte, 4096), mem)
	require.NoError(t, p.put(src))
	require.Len(t, p.idle, 1)
	require.NoError(t, p.close())
}

// An adapter that has no more regions: who finds some lent waits for them.
func TestRegPoolOutOfRegions(t *testing.T) {
	var left atomic.Int32
	left.Store(1)
	c := direct(reference.NewDirectLink())
	c.Override = ciwrap.Layer{PD: func(in ci.PD, _ ci.PDType) ci.PD { return &fewRegions{ciwrap.PD{PD: in}, &left} }}
	l := newLooped(t, c)
	p := newRegPool(l.domain, 8)
	ctx := limit(t)
	mem := make([]byte, 100)
	m := must(p.get(ctx, mem, true, true))
	got := make(chan *mapping)
	go func() { got <- must(p.get(ctx, mem, true, true)) }()
	why, cancel := context.WithCancel(ctx)
	cancel()
	_, err := p.get(why, mem, true, true)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, p.put(m))
	require.NoError(t, p.put(<-got))
	require.NoError(t, p.close())

	left.Store(0)
	_, err = newRegPool(l.domain, 8).get(ctx, mem, true, true)
	require.ErrorIs(t, err, ci.InsufficientResources, "there is nobody to wait for")
}

type fewRegions struct {
	ciwrap.PD
	left *atomic.Int32
}

func (p *fewRegions) AllocFastRegMR(n int) (ci.MR, error) {
	if p.left.Add(-1) < 0 {
		return nil, &ci.Error{Verb: "PD.AllocFastRegMR", Status: ci.InsufficientResources}
	}
	return p.PD.AllocFastRegMR(n)
}
