package mlx4_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// mutual is an adapter that forges completions and events, and a consumer that calls verbs at random.
type mutual struct {
	t    *testing.T
	rand *rand.Rand
	m    *model.Model
	h    *mlx4.HCA
	c    ci.CA
	pd   ci.PD
	b    []byte
	cqs  []ci.CQ
	srqs []ci.SRQ
	mrs  []ci.MR
	qps  []ci.QP
}

// FuzzMutual has the adapter forge completions and events while the verbs are random. No call panics or hangs. Verbs
// fail with a status if at all. At the end everything is released, and the driver starts again on the same adapter.
func FuzzMutual(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(seed, seed*0x9e3779b97f4a7c15)
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		x := &mutual{t: t, rand: rand.New(rand.NewPCG(a, b)), m: newModel(t, new(direct.Link)), b: make([]byte, 8192)}
		function := local.New(x.m, "a forger")
		x.open(function)
		for range 200 {
			x.step()
		}
		x.close()
		require.Zero(t, function.Memory().Len(), "DMA memory is left")

		again, err := mlx4.New(t.Context(), function, config)
		require.NoError(t, err)
		require.NoError(t, again.Close())
		require.NoError(t, function.Close())
	})
}

func (x *mutual) open(f *local.Function) {
	var err error
	x.h, err = mlx4.New(context.Background(), f, config)
	require.NoError(x.t, err)
	x.c, err = x.h.OpenCA(x.h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(x.t, err)
	x.pd, err = x.c.AllocatePD(ci.PDNormal)
	require.NoError(x.t, err)
}

// step calls a verb or forges an entry.
func (x *mutual) step() {
	switch x.rand.IntN(12) {
	case 0:
		cq, err := x.pd.CreateCQ(ci.CQCreate{Size: 1 + x.rand.IntN(20), OnCompletion: func(any) {},
			OnEvent: func(ci.Event) {}})
		x.cqs = keep(x, x.cqs, cq, err)
	case 1:
		srq, err := x.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1 + x.rand.IntN(9), MaxSGE: 1},
			OnEvent: func(ci.Event) {}})
		x.srqs = keep(x, x.srqs, srq, err)
	case 2:
		mr, err := x.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(x.b), Access: ci.LocalWrite | ci.RemoteWrite})
		x.mrs = keep(x, x.mrs, mr, err)
	case 3:
		x.createQP()
	case 4, 5:
		x.post()
	case 6:
		x.poll()
	case 7:
		x.destroy()
	case 8, 9, 10:
		x.forgeCompletion()
	default:
		x.forgeEvent()
	}
}

// keep checks the error of a create verb, and keeps the object.
func keep[T ci.Object](x *mutual, list []T, o T, err error) []T {
	if x.check(err) {
		return append(list, o)
	}
	return list
}

// check reports whether a verb has succeeded. Its error has a status.
func (x *mutual) check(err error) bool {
	if err != nil {
		var e *ci.Error
		require.ErrorAs(x.t, err, &e)
		require.NotEqual(x.t, ci.UnknownError, e.Status, "%v", err)
	}
	return err == nil
}

// anyOf returns an element, or false if there is none.
func anyOf[T any](r *rand.Rand, list []T) (v T, ok bool) {
	if len(list) == 0 {
		return v, false
	}
	return list[r.IntN(len(list))], true
}

func (x *mutual) createQP() {
	cq, ok := anyOf(x.rand, x.cqs)
	if !ok {
		return
	}
	types := []ci.QPType{ci.RC, ci.UC, ci.UD}
	c := ci.QPCreate{Type: types[x.rand.IntN(len(types))], SendCQ: cq, RecvCQ: cq, OnEvent: func(ci.Event) {},
		QPCaps: ci.QPCaps{SendDepth: 4, SendSGE: 1, RecvDepth: 4, RecvSGE: 1}}
	if srq, ok := anyOf(x.rand, x.srqs); ok && c.Type == ci.UD {
		c.SRQ, c.RecvDepth, c.RecvSGE = srq, 0, 0
	}
	q, err := x.pd.CreateQP(c)
	if x.qps = keep(x, x.qps, q, err); err != nil {
		return
	}
	x.check(q.Modify(ci.ToInit{Port: 1, Access: ci.RemoteWrite}.For(c.Type)))
	x.check(q.Modify(ci.ToRTR{AV: ci.AVAttr{Port: 1, DLID: 1}, MTU: ci.MTU1024, DestNum: q.Num()}.For(c.Type)))
	x.check(q.Modify(ci.ToRTS{RetryCount: 7, RNRRetry: 7}.For(c.Type)))
}

func (x *mutual) post() {
	q, ok := anyOf(x.rand, x.qps)
	mr, ok2 := anyOf(x.rand, x.mrs)
	if !ok || !ok2 {
		return
	}
	r := mr.Region()
	sgl := []ci.SGE{{Addr: r.Addr, Length: 64, LKey: r.LKey}}
	if x.rand.IntN(2) == 0 {
		_, err := q.PostRecv([]ci.RecvWR{{ID: x.rand.Uint64(), SGL: sgl}})
		x.check(err)
		return
	}
	op := []ci.SendOp{ci.OpSend, ci.OpWrite, ci.OpRead}[x.rand.IntN(3)]
	_, err := q.PostSend([]ci.SendWR{{ID: x.rand.Uint64(), Flags: ci.SendSignaled, Op: op, SGL: sgl,
		Remote: ci.Remote{Addr: r.Addr + 4096, RKey: r.RKey}}})
	x.check(err)
}

func (x *mutual) poll() {
	if cq, ok := anyOf(x.rand, x.cqs); ok {
		var wc [8]ci.WC
		n, err := cq.Poll(wc[:])
		x.check(err)
		require.LessOrEqual(x.t, n, len(wc))
		for _, w := range wc[:n] {
			switch {
			case w.Status != ci.WCSuccess:
			case w.Op.IsRecv():
				require.True(x.t, w.Length <= 64 || w.Op == ci.WCRecvWrite, "%+v", w)
			default:
				require.EqualValues(x.t, 64, w.Length, "%+v", w)
			}
		}
		x.check(cq.Notify(ci.NotifyNext))
	}
}

// destroy destroys an object. One that is in use stays.
func (x *mutual) destroy() {
	switch x.rand.IntN(4) {
	case 0:
		x.cqs = removeOne(x, x.cqs)
	case 1:
		x.srqs = removeOne(x, x.srqs)
	case 2:
		x.mrs = removeOne(x, x.mrs)
	default:
		x.qps = removeOne(x, x.qps)
	}
}

func removeOne[T ci.Object](x *mutual, list []T) []T {
	if len(list) == 0 {
		return list
	}
	i := x.rand.IntN(len(list))
	if err := list[i].Destroy(); ci.StatusOf(err) == ci.ResourceBusy {
		return list
	}
	return slices.Delete(list, i, i+1)
}

// forgeCompletion writes a completion of an existing QP, or of any.
func (x *mutual) forgeCompletion() {
	n, ok := anyOf(x.rand, x.m.CQs())
	if !ok {
		return
	}
	var e [prm.CQESize]byte
	x.fill(e[:])
	if q, ok := anyOf(x.rand, x.qps); ok && x.rand.IntN(4) > 0 {
		prm.CQEQPN.Put(e[:], uint64(mlx4.Hardware(q)))
		prm.CQEWQEIndex.Put(e[:], uint64(x.rand.IntN(8)))
	}
	x.m.ForgeCompletion(n, e)
}

// forgeEvent writes an event of any type but that of a failed adapter, whose flush ends the game early.
func (x *mutual) forgeEvent() {
	var e [32]byte
	x.fill(e[:])
	if x.rand.IntN(2) == 0 {
		clear(e[4:])
		if n, ok := anyOf(x.rand, x.m.CQs()); ok {
			prm.EQECQN.Put(e[:], uint64(n))
		}
		if q, ok := anyOf(x.rand, x.qps); ok && x.rand.IntN(2) == 0 {
			prm.EQEQPN.Put(e[:], uint64(mlx4.Hardware(q)))
		}
	}
	prm.EQEType.Put(e[:], uint64(x.rand.IntN(0x20)))
	if prm.EQEType.Get(e[:]) == prm.EventLocalCatas && x.rand.IntN(8) > 0 {
		return
	}
	x.m.ForgeEvent(uint32(x.rand.IntN(4)), e)
}

func (x *mutual) fill(b []byte) {
	for i := range b {
		b[i] = byte(x.rand.Uint32())
	}
}

// close destroys everything. An adapter that has failed makes no verb of it fail.
func (x *mutual) close() {
	for _, q := range x.qps {
		x.check(q.Destroy())
	}
	for _, s := range x.srqs {
		x.check(s.Destroy())
	}
	for _, m := range x.mrs {
		x.check(m.Destroy())
	}
	for _, q := range x.cqs {
		x.check(q.Destroy())
	}
	x.check(x.pd.Destroy())
	x.check(x.c.Destroy())
	for kind, n := range x.h.Live() {
		assert.Zero(x.t, n, kind)
	}
	_ = x.h.Close() // of an adapter that has failed it may report the cause
}
