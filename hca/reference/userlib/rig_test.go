package userlib

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/hca/reference/arena"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/rvt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeProcess is a client process without memory of its own.
type fakeProcess struct{}

func (fakeProcess) PID() int         { return 1 }
func (fakeProcess) PointerBits() int { return 64 }
func (fakeProcess) Memory(uint64, uint64, ci.Access) (ci.Memory, error) {
	return nil, ci.InvalidPermission
}

// daemon is an adapter that is open.
type daemon struct {
	t   *testing.T
	hca *reference.HCA
	ca  ci.CA
}

func newDaemon(t *testing.T, link *direct.Link, tweak func(*reference.Config)) *daemon {
	if runtime.GOOS != "linux" {
		t.Skip("no shared memory on this system")
	}
	c := reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(link, direct.Config{}))}}
	if tweak != nil {
		tweak(&c)
	}
	d := &daemon{t: t, hca: testenv.Must(reference.New(c))}
	var err error
	d.ca, err = d.hca.OpenCA(d.hca.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, d.ca.Destroy())
		for kind, n := range d.hca.Live() {
			assert.Zero(t, n, "%s left", kind)
		}
		used, _ := d.hca.QueueMemory()
		assert.Zero(t, used, "queue memory left")
		assert.NoError(t, d.hca.Close())
	})
	return d
}

// client is a process with the user library. It does what a user access layer and a proxy do: the hooks around each
// verb, and a copy of the private data for the driver.
type client struct {
	*daemon
	lib     *ci.UserLibrary
	user    ci.UserCA
	lca     any
	pd      ci.PD
	lpd     any
	cq      *userCQ
	qp      *userQP
	mr      ci.MR
	buf     []byte
	answers [][]byte   // of the driver, in order of OpenUser, CreateCQ, CreateQP
	files   []*os.File // of OpenUser
	fired   atomic.Int64
	ours    *arena.Memory // registered memory, as the process sees it
	theirs  *arena.Memory // and the daemon
	objects []ci.Object   // newest last; what a daemon destroys when the process dies
}

type (
	userCQ struct {
		ci.CQ
		u ci.UserCQ
	}
	userQP struct {
		ci.QP
		u ci.UserQP
	}
	userSRQ struct {
		ci.SRQ
		u ci.UserSRQ
	}
	userAV struct {
		ci.AV
		u any
	}
)

func (o *userCQ) UserHandle() any  { return o.u.Handle }
func (o *userQP) UserHandle() any  { return o.u.Handle }
func (o *userSRQ) UserHandle() any { return o.u.Handle }
func (o *userAV) UserHandle() any  { return o.u }

func (o *userCQ) Unwrap() any  { return o.CQ }
func (o *userSRQ) Unwrap() any { return o.SRQ }

// create runs the hooks of a create around verb, which gets the daemon's copy of the private data.
func create[A any](t *testing.T, h ci.UserFallibleHook[A], a *A, verb func(ub *ci.UserBuffer) error) error {
	ub := &ci.UserBuffer{}
	if h.Pre != nil {
		if err := h.Pre(a, ub); err != nil {
			return err
		}
	}
	down := &ci.UserBuffer{Command: ub.Command, Status: ub.Status, In: append([]byte(nil), ub.In...),
		Out: make([]byte, 0, cap(ub.Out))}
	err := verb(down)
	if err == nil && down.Status == 0 {
		require.LessOrEqual(t, len(down.Out), cap(ub.Out))
		ub.Status, ub.Out = 0, append([]byte(nil), down.Out...)
		ub.OutFiles = down.OutFiles
	}
	if h.Post != nil {
		if perr := h.Post(a, ub, err); err == nil {
			err = perr
		}
	}
	return err
}

func newClient(d *daemon, typ ci.QPType) *client {
	c := &client{daemon: d, lib: New()}
	require.Equal(d.t, c.lib.Name, d.hca.Info().Library)
	open := ci.UserOpenCA{GUID: d.hca.Info().GUID}
	require.NoError(d.t, create(d.t, c.lib.OpenCA, &open, func(ub *ci.UserBuffer) (err error) {
		c.user, err = d.ca.OpenUser(fakeProcess{}, ub)
		c.answers, c.files = append(c.answers, ub.Out), ub.OutFiles
		return err
	}))
	require.NotNil(d.t, open.CA)
	c.lca = open.CA
	pd := ci.UserAllocatePD{CA: c.lca}
	require.NoError(d.t, create(d.t, c.lib.AllocatePD, &pd, func(ub *ci.UserBuffer) (err error) {
		c.pd, err = c.user.AllocatePD(ci.PDNormal, ub)
		return err
	}))
	c.lpd = pd.PD
	c.keep(c.pd)
	c.cq = c.createCQ(100)
	c.qp = c.createQP(ci.QPCreate{Type: typ, SendCQ: c.cq, RecvCQ: c.cq, Context: c,
		QPCaps: ci.QPCaps{SendDepth: 15, RecvDepth: 15, SendSGE: 2, RecvSGE: 2, MaxInline: 64}})
	// The process and the daemon have mappings of their own of the registered memory, as of the queues.
	var err error
	c.theirs, err = arena.Create(1 << 16)
	require.NoError(d.t, err)
	c.ours, err = arena.Open(c.theirs.File())
	require.NoError(d.t, err)
	c.buf = c.ours.Bytes()
	c.mr, err = c.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(c.theirs.Bytes()), Access: ci.LocalWrite | ci.RemoteRead |
		ci.RemoteWrite | ci.RemoteAtomic})
	require.NoError(d.t, err)
	c.keep(c.mr)
	return c
}

func (c *client) keep(o ci.Object) { c.objects = append(c.objects, o) }

func (c *client) createCQ(size int) *userCQ {
	q := &userCQ{}
	a := ci.UserCreateCQ{PD: c.lpd, Create: ci.CQCreate{Size: size}}
	require.NoError(c.t, create(c.t, c.lib.CreateCQ, &a, func(ub *ci.UserBuffer) (err error) {
		q.CQ, err = c.pd.CreateCQ(ci.CQCreate{Size: size, User: ub, OnCompletion: func(any) { c.fired.Add(1) }})
		c.answers = append(c.answers, ub.Out)
		return err
	}))
	q.u = a.CQ
	require.NotNil(c.t, q.u.Poll)
	c.keep(q.CQ)
	return q
}

func (c *client) createQP(create_ ci.QPCreate) *userQP {
	q := &userQP{}
	a := ci.UserCreateQP{PD: c.lpd, Create: create_}
	require.NoError(c.t, create(c.t, c.lib.CreateQP, &a, func(ub *ci.UserBuffer) (err error) {
		create_.User = ub
		q.QP, err = c.pd.CreateQP(create_)
		c.answers = append(c.answers, ub.Out)
		return err
	}))
	q.u = a.QP
	require.NotNil(c.t, q.u.PostSend)
	c.keep(q.QP)
	return q
}

func (c *client) createSRQ(attr ci.SRQAttr) *userSRQ {
	s := &userSRQ{}
	a := ci.UserCreateSRQ{PD: c.lpd, Create: ci.SRQCreate{SRQAttr: attr}}
	require.NoError(c.t, create(c.t, c.lib.CreateSRQ, &a, func(ub *ci.UserBuffer) (err error) {
		attr.User = ub
		s.SRQ, err = c.pd.CreateSRQ(ci.SRQCreate{SRQAttr: attr})
		return err
	}))
	s.u = a.SRQ
	require.NotNil(c.t, s.u.PostRecv)
	c.keep(s.SRQ)
	return s
}

func (c *client) createAV(attr ci.AVAttr) *userAV {
	v := &userAV{}
	a := ci.UserCreateAV{PD: c.lpd, Attr: attr}
	require.NoError(c.t, create(c.t, c.lib.CreateAV, &a, func(ub *ci.UserBuffer) (err error) {
		attr.User = ub
		v.AV, err = c.pd.CreateAV(attr)
		return err
	}))
	v.u = a.AV
	require.NotNil(c.t, v.u)
	c.keep(v.AV)
	return v
}

func (c *client) modify(q *userQP, set ci.QPField, attr ci.QPAttr) error {
	a := ci.UserModifyQP{QP: q.u.Handle, Set: set, Attr: attr}
	ub := &ci.UserBuffer{}
	require.NoError(c.t, c.lib.ModifyQP.Pre(&a, ub))
	attr.User = &ci.UserBuffer{}
	err := q.QP.Modify(set, attr)
	c.lib.ModifyQP.Post(&a, ub, err)
	return err
}

// lid returns the LID of the adapter's port.
func (c *client) lid() ci.LID {
	a, err := c.ca.Query()
	require.NoError(c.t, err)
	return a.Ports[0].LID
}

// connect moves the QP to RTS.
func (c *client) connect(to *client) {
	path := ci.Path{AV: ci.AVAttr{Port: 1, DLID: to.lid()}, AckTimeout: 14}
	require.NoError(c.t, c.modify(c.qp, ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1,
		Access: ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic}))
	require.NoError(c.t, c.modify(c.qp, ci.QPFieldsRTR, ci.QPAttr{State: ci.QPRTR, Primary: path, MTU: ci.MTU1024,
		DestNum: to.qp.Num(), RespRes: 4, MinRNRTimer: 1}))
	require.NoError(c.t, c.modify(c.qp, ci.QPFieldsRTS, ci.QPAttr{State: ci.QPRTS, Primary: path, InitDepth: 4,
		RetryCount: 7, RNRRetry: 7}))
}

// toDatagrams moves a UD QP to RTS.
func (c *client) toDatagrams() {
	a := ci.QPAttr{State: ci.QPInit, Port: 1, QKey: 7}
	require.NoError(c.t, c.modify(c.qp, ci.QPFieldsUDInit, a))
	a.State = ci.QPRTR
	require.NoError(c.t, c.modify(c.qp, ci.QPFieldsUDRTR, a))
	a.State = ci.QPRTS
	require.NoError(c.t, c.modify(c.qp, ci.QPFieldsUDRTS, a))
}

func (c *client) sge(off uint64, n uint32) []ci.SGE { return []ci.SGE{c.mr.Region().SGE(off, n)} }

// send posts requests through the library.
func (c *client) send(wrs ...ci.SendWR) {
	c.t.Helper()
	n, err := c.qp.u.PostSend(wrs)
	require.NoError(c.t, err)
	require.Equal(c.t, len(wrs), n)
}

func (c *client) recv(wrs ...ci.RecvWR) {
	c.t.Helper()
	n, err := c.qp.u.PostRecv(wrs)
	require.NoError(c.t, err)
	require.Equal(c.t, len(wrs), n)
}

// poll waits for n completions.
func (c *client) poll(n int) (list []ci.WC) {
	c.t.Helper()
	var wc [8]ci.WC
	for end := time.Now().Add(10 * time.Second); len(list) < n; {
		k, err := c.cq.u.Poll(wc[:])
		require.NoError(c.t, err)
		list = append(list, wc[:k]...)
		if k == 0 {
			require.True(c.t, time.Now().Before(end), "%d completions of %d", len(list), n)
			runtime.Gosched()
		}
	}
	return list
}

// die ends the process: the daemon destroys its objects, newest first, and no hook runs.
func (c *client) die() {
	for i := range c.objects {
		err := c.objects[len(c.objects)-1-i].Destroy()
		if !errors.Is(err, ci.InvalidQPHandle) && !errors.Is(err, ci.InvalidAVHandle) &&
			!errors.Is(err, ci.InvalidSRQHandle) {
			assert.NoError(c.t, err)
		}
	}
	assert.NoError(c.t, c.user.Destroy())
	assert.NoError(c.t, c.theirs.Close())
	assert.NoError(c.t, c.ours.Close())
	require.NoError(c.t, c.lib.DestroyCA.Post(&ci.UserDestroyCA{CA: c.lca}, nil, nil)) // the system unmaps the memory
}
