package mlx4_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/link/direct"
)

// single is an adapter with one QP.
type single struct {
	m      *model.Model
	f      *local.Function
	h      *mlx4.HCA
	c      ci.CA
	pd     ci.PD
	send   ci.CQ
	recv   ci.CQ
	b      []byte
	mr     ci.MR
	qp     ci.QP
	done   chan string
	events chan ci.Event
	ports  chan ci.Event // of newTwoPorts
}

// newSingle returns an adapter whose QP has itself as its peer, or a peer that does not answer.
func newSingle(t *testing.T, isLoop bool) *single {
	return newSingleWith(t, isLoop, config)
}

// newSingleWith is newSingle with a configuration.
func newSingleWith(t *testing.T, isLoop bool, c mlx4.Config) *single {
	o := &single{m: newModel(t, new(direct.Link)), done: make(chan string, 64), events: make(chan ci.Event, 64)}
	o.f = local.New(o.m, "model 0")
	var err error
	o.h, err = mlx4.New(t.Context(), o.f, c)
	require.NoError(t, err)
	o.c, err = o.h.OpenCA(o.h.Info().GUID, func(e ci.Event) {
		if e.Type == ci.EventLocalFatal { // others may be more than the channel takes
			o.events <- e
		}
	}, nil)
	require.NoError(t, err)
	o.pd, err = o.c.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	cq := func(name string) ci.CQ {
		q, err := o.pd.CreateCQ(ci.CQCreate{Size: 10, OnCompletion: func(any) { o.done <- name }})
		require.NoError(t, err)
		require.NoError(t, q.Notify(ci.NotifyNext))
		return q
	}
	o.send, o.recv = cq("send"), cq("recv")
	o.b = make([]byte, 4096)
	o.mr, err = o.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(o.b),
		Access: ci.LocalWrite | ci.RemoteWrite | ci.BindWindow})
	require.NoError(t, err)
	o.qp, err = o.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: o.send, RecvCQ: o.recv, Context: "qp",
		QPCaps: ci.QPCaps{SendDepth: 8, SendSGE: 1, RecvDepth: 8, RecvSGE: 1, MaxInline: 512}})
	require.NoError(t, err)
	require.NoError(t, o.qp.Modify(ci.ToInit{Port: 1, Access: ci.RemoteWrite}.For(ci.RC)))
	peer := ci.ToRTR{AV: ci.AVAttr{Port: 1, DLID: 7}, MTU: ci.MTU1024, DestNum: 5}
	if isLoop {
		a, err := o.c.Query()
		require.NoError(t, err)
		peer.AV.DLID, peer.DestNum = a.Ports[0].LID, o.qp.Num()
	}
	require.NoError(t, o.qp.Modify(peer.For(ci.RC)))
	require.NoError(t, o.qp.Modify(ci.ToRTS{AckTimeout: 0, RetryCount: 7, RNRRetry: 7}.For(ci.RC)))
	return o
}

func (o *single) sge() []ci.SGE {
	r := o.mr.Region()
	return []ci.SGE{{Addr: r.Addr, Length: 8, LKey: r.LKey}}
}

// close destroys everything.
func (o *single) close(t *testing.T, more ...ci.Object) {
	for _, x := range append(more, o.qp, o.mr, o.send, o.recv, o.pd, o.c) {
		require.NoError(t, x.Destroy())
	}
	for kind, n := range o.h.Live() {
		assert.Zero(t, n, kind)
	}
	require.NoError(t, o.h.Close())
	require.NoError(t, o.f.Close())
}
