package userlib

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/link/direct"
)

// TestDestroyContext ends a process that has objects of every kind, with traffic in progress: its context is closed
// after all of them, whether their queues are in shared memory or not, and another process is not affected.
func TestDestroyContext(t *testing.T) {
	t.Parallel()
	link := direct.NewLink()
	d := newDaemon(t, link, nil)
	other := newClient(d, ci.RC)
	before := d.hca.Live()

	c := newClient(d, ci.RC)
	c.connect(other)
	other.connect(c)
	c.recv(ci.RecvWR{ID: 1, SGL: c.sge(0, 10)})
	srq := c.createSRQ(ci.SRQAttr{MaxWR: 7, MaxSGE: 1})
	c.createQP(ci.QPCreate{Type: ci.RC, SendCQ: c.cq, RecvCQ: c.cq, SRQ: srq, QPCaps: ci.QPCaps{SendDepth: 3}})
	c.createAV(ci.AVAttr{Port: 1, DLID: other.lid()})
	ud, err := c.pd.CreateQP(ci.QPCreate{Type: ci.UD, SendCQ: c.cq.CQ, RecvCQ: c.cq.CQ, User: &ci.UserBuffer{}})
	require.NoError(t, err)
	require.NoError(t, ud.Modify(ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1}))
	c.keep(ud)
	gid := ci.GID{0xff, 0x12, 15: 1}
	group, err := ud.AttachMcast(ci.McastAttach{GID: gid, LID: 0xc001})
	require.NoError(t, err)
	c.keep(group)
	shared, err := c.pd.RegisterSMR(c.mr, 0, ci.LocalWrite)
	require.NoError(t, err)
	c.keep(shared)
	for _, typ := range []ci.MWType{ci.MWType1, ci.MWType2} {
		mw, err := c.pd.CreateMW(ci.MWCreate{Type: typ})
		require.NoError(t, err)
		c.keep(mw)
	}
	fast, err := c.pd.AllocFastRegMR(4)
	require.NoError(t, err)
	c.keep(fast)
	pd, err := c.user.AllocatePD(ci.PDNormal, nil)
	require.NoError(t, err)
	c.keep(pd)
	for i := range 10 {
		c.send(ci.SendWR{ID: uint64(i), Inline: []byte("x")})
	}

	require.ErrorIs(t, c.user.Destroy(), ci.ResourceBusy)
	c.die()
	require.Equal(t, before, d.hca.Live())
	require.ErrorIs(t, c.user.Destroy(), ci.InvalidCAHandle)
	other.send(ci.SendWR{ID: 5, Op: ci.OpNop, Flags: ci.SendSignaled})
	require.NoError(t, other.poll(1)[0].Err())
	other.die()
}

// TestDestroyContextWhileCreating closes a context while other goroutines create and destroy objects in it. It is
// refused while a PD exists, and then no PD is created.
func TestDestroyContextWhileCreating(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, direct.NewLink(), nil)
	for range 20 {
		u, err := d.ca.OpenUser(fakeProcess{}, &ci.UserBuffer{})
		require.NoError(t, err)
		var wg sync.WaitGroup
		started := make(chan struct{}, 4)
		for range 4 {
			wg.Go(func() {
				for k := range 100 {
					pd, err := u.AllocatePD(ci.PDNormal, nil)
					if err != nil {
						assert.ErrorIs(t, err, ci.InvalidCAHandle)
						assert.NotZero(t, k)
						return
					}
					if k == 0 {
						started <- struct{}{}
					}
					cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
					if !assert.NoError(t, err) {
						return
					}
					qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq})
					if assert.NoError(t, err) {
						assert.NoError(t, qp.Destroy())
					}
					assert.NoError(t, cq.Destroy())
					assert.NoError(t, pd.Destroy())
				}
			})
		}
		for range 4 {
			<-started
		}
		for err = u.Destroy(); err != nil; err = u.Destroy() {
			require.ErrorIs(t, err, ci.ResourceBusy)
			runtime.Gosched()
		}
		wg.Wait()
		for kind, n := range d.hca.Live() {
			require.True(t, n == 0 || kind == "ca", "%d %s left", n, kind)
		}
	}
}

// TestObjectsOfOtherContexts checks that no object of a process depends on an object of another process.
func TestObjectsOfOtherContexts(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, direct.NewLink(), nil)
	a, b := newClient(d, ci.RC), newClient(d, ci.RC)
	defer a.die()
	defer b.die()
	own, err := d.ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	srq := b.createSRQ(ci.SRQAttr{MaxWR: 7, MaxSGE: 1})
	for name, pd := range map[string]ci.PD{"of a process": a.pd, "of the daemon": own} {
		_, err = pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: b.cq.CQ, RecvCQ: b.cq.CQ})
		require.ErrorIs(t, err, ci.InvalidCQHandle, name)
		_, err = pd.RegisterSMR(b.mr, 0, ci.LocalWrite)
		require.ErrorIs(t, err, ci.InvalidMRHandle, name)
		require.ErrorIs(t, b.mr.Modify(ci.MRFieldPD, pd, ci.MRCreate{}), ci.InvalidPDHandle, name)
	}
	_, err = a.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: a.cq.CQ, RecvCQ: a.cq.CQ, SRQ: srq.SRQ})
	require.ErrorIs(t, err, ci.InvalidSRQHandle)
	require.NoError(t, own.Destroy())
}

// TestDestroyWhilePolling destroys everything of a process while two goroutines poll a CQ without a lock. The memory
// stays mapped until they have read it: the last object unmaps it.
func TestDestroyWhilePolling(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, direct.NewLink(), nil)
	for range 10 {
		c := newClient(d, ci.RC)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for err := error(nil); err == nil; {
					if _, err = c.cq.u.Peek(); err == nil {
						_, err = c.cq.u.Poll(make([]ci.WC, 1))
					}
				}
			})
		}
		c.die()
		qp := ci.UserDestroyQP{QP: c.qp.u.Handle}
		require.NoError(t, c.lib.DestroyQP.Pre(&qp, nil))
		c.lib.DestroyQP.Post(&qp, nil, nil)
		q := ci.UserDestroyCQ{CQ: c.cq.u.Handle}
		require.NoError(t, c.lib.DestroyCQ.Pre(&q, nil))
		c.lib.DestroyCQ.Post(&q, nil, nil) // which unmaps the memory
		wg.Wait()
		require.EqualValues(t, 0, c.cq.u.Handle.(*cq).readers.Load())
	}
}
