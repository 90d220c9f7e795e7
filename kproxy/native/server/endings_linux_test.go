package server_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// seat is the only place for a CQ of a driver.
type seat struct {
	isTaken                      atomic.Bool
	refused, destroying, release chan struct{}
}

type seatPD struct {
	ciwrap.PD
	*seat
}

func (p seatPD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	if p.isTaken.Swap(true) {
		close(p.refused)
		return nil, ci.InsufficientResources
	}
	return p.PD.CreateCQ(c)
}

type seatCQ struct {
	ciwrap.CQ
	*seat
}

func (q seatCQ) Destroy() error {
	q.destroying <- struct{}{}
	<-q.release
	err := q.CQ.Destroy()
	q.isTaken.Store(false)
	return err
}

// TestCreateAfterEnd has a client create the only CQ of an adapter, and end. Its CQ is still being destroyed when the
// next client creates one, which succeeds, as it does on Linux, where nothing of an ended process is left.
func TestCreateAfterEnd(t *testing.T) {
	s := &seat{refused: make(chan struct{}), destroying: make(chan struct{}, 2), release: make(chan struct{})}
	layer := ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { return seatPD{ciwrap.PD{PD: p}, s} },
		CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ { return seatCQ{ciwrap.CQ{CQ: q}, s} }}
	r := newRigOf(t, kproxy.Config{}, clock.Real(), layer.Wrap)
	first, second := r.client(), r.client()
	first.create()
	var created schema.Created
	require.NoError(t, second.do(schema.CmdCreateEventQueue, &schema.CreateEventQueue{}, &created))
	open := &schema.OpenCA{GUID: r.hca.Info().GUID, Async: created.Handle}
	require.NoError(t, second.do(schema.CmdOpenCA, open, &created))
	require.NoError(t, second.do(schema.CmdAllocatePD, &schema.AllocatePD{CA: created.Handle}, &created))
	require.NoError(t, first.c.Close())
	<-s.destroying
	second.send(schema.CmdCreateCQ, native.Append(nil, &schema.CreateCQ{PD: created.Handle, Size: 4}))
	<-s.refused
	close(s.release)
	require.NoError(t, second.reply(&schema.CreateCQReply{}))
}
