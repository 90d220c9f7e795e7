package mlx4_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/hca/mlx4/userlib"
	"ciddk/hca/reference/arena"
	"ciddk/internal/mlx4/userabi"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/link/direct"
	"ciddk/ual"
)

// userWait is how long a test waits for what must happen.
const userWait = testenv.Patience

// daemon is a daemon in this process, with one adapter.
type daemon struct {
	t      *testing.T
	m      *model.Model
	h      *mlx4.HCA
	server *server.Server
}

func newDaemon(t *testing.T) *daemon {
	d := &daemon{t: t, m: newModel(t, new(direct.Link))}
	f := local.New(d.m, "model 0")
	var err error
	d.h, err = mlx4.New(t.Context(), f, config)
	require.NoError(t, err)
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	require.NoError(t, al.Register(d.h))
	core, err := kproxy.New(kproxy.Config{AL: al})
	require.NoError(t, err)
	d.server = server.New(core, clock.Real())
	t.Cleanup(func() {
		d.server.Close()
		require.NoError(t, core.Close())
		require.NoError(t, al.Close())
		for kind, n := range d.h.Live() {
			assert.Zero(t, n, "%s left", kind)
		}
		require.NoError(t, d.h.Close())
		require.NoError(t, f.Close())
	})
	return d
}

// app is a client with the user library, and two QPs that are connected with each other.
type app struct {
	t      *testing.T
	client *ual.Client
	shared []byte // the shared memory, mapped once more
	ca     ci.CA
	pd     ci.PD
	cq     ci.CQ
	a, b   ci.QP
	mem    []byte
	mr     ci.MR
	done   chan struct{}
	events chan ci.EventType
}

func (d *daemon) start() *app { return d.startWith(userlib.New(), nil) }

// startWith starts an application with a library. handle, which may be nil, handles the events of its QPs.
func (d *daemon) startWith(lib *ci.UserLibrary, handle func(ci.Event)) *app {
	ours, theirs, err := native.Pair()
	require.NoError(d.t, err)
	d.server.ServeConn(ours)
	c, err := ual.New(theirs, ual.Config{Libraries: []*ci.UserLibrary{lib}})
	require.NoError(d.t, err)
	return newApp(d.t, c, lib, handle)
}

// newApp returns the application of a client, which it takes over.
func newApp(t *testing.T, c *ual.Client, lib *ci.UserLibrary, handle func(ci.Event)) *app {
	p := &app{t: t, client: c, events: make(chan ci.EventType, 1000), done: make(chan struct{}, 1000)}
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	open := lib.OpenCA.Post
	lib.OpenCA.Post = func(a *ci.UserOpenCA, ub *ci.UserBuffer, err error) error {
		if assert.Len(t, ub.OutFiles, 2) {
			m, err := arena.Open(ub.OutFiles[0])
			assert.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, m.Close()) })
			p.shared = m.Bytes()
		}
		return open(a, ub, err)
	}
	hcas, err := p.client.HCAs()
	require.NoError(t, err)
	onEvent := func(e ci.Event) {
		select {
		case p.events <- e.Type:
		default: // a hostile application may cause more than the test looks at
		}
	}
	p.ca, err = hcas[0].OpenCA(hcas[0].Info().GUID, onEvent, nil)
	require.NoError(t, err)
	attr, err := p.ca.Query()
	require.NoError(t, err)
	p.pd, err = p.ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	p.cq, err = p.pd.CreateCQ(ci.CQCreate{Size: 32, OnEvent: onEvent, OnCompletion: func(any) { p.done <- struct{}{} }})
	require.NoError(t, err)
	p.mem = make([]byte, 4096)
	p.mr, err = p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(p.mem), Access: ci.LocalWrite | ci.RemoteWrite})
	require.NoError(t, err)
	if handle == nil {
		handle = onEvent
	}
	create := ci.QPCreate{Type: ci.RC, SendCQ: p.cq, RecvCQ: p.cq, OnEvent: handle,
		QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8, SendSGE: 1, RecvSGE: 1, MaxInline: 64}}
	create.Context = "a"
	p.a, err = p.pd.CreateQP(create)
	require.NoError(t, err)
	create.Context = "b"
	p.b, err = p.pd.CreateQP(create)
	require.NoError(t, err)
	for _, x := range []struct{ q, peer ci.QP }{{p.a, p.b}, {p.b, p.a}} {
		require.NoError(t, x.q.Modify(ci.ToInit{Port: 1, Access: ci.RemoteWrite}.For(ci.RC)))
		require.NoError(t, x.q.Modify(ci.ToRTR{AV: ci.AVAttr{Port: 1, DLID: attr.Ports[0].LID}, MTU: ci.MTU1024,
			DestNum: x.peer.Num()}.For(ci.RC)))
		require.NoError(t, x.q.Modify(ci.ToRTS{AckTimeout: 0, RetryCount: 7, RNRRetry: 7}.For(ci.RC)))
	}
	return p
}

// poll returns the next n completions.
func (p *app) poll(n int) []ci.WC {
	p.t.Helper()
	var list []ci.WC
	wc := make([]ci.WC, 8)
	require.Eventually(p.t, func() bool {
		k, err := p.cq.Poll(wc)
		require.NoError(p.t, err)
		list = append(list, wc[:k]...)
		return len(list) >= n
	}, userWait, time.Millisecond, "%d completions", n)
	return list
}

// exchange sends a message from a to b, by SEND and by RDMA WRITE.
func (p *app) exchange(text string) {
	p.t.Helper()
	sge, source := p.mr.Region().SGE(0, 64), p.mr.Region().SGE(2048, 64)
	copy(p.mem[2048:], text)
	_, err := p.b.PostRecv([]ci.RecvWR{{ID: 2, SGL: []ci.SGE{sge}}})
	require.NoError(p.t, err)
	_, err = p.a.PostSend([]ci.SendWR{{ID: 1, Flags: ci.SendSignaled, Inline: []byte(text)},
		{ID: 3, Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: []ci.SGE{source},
			Remote: ci.Remote{Addr: sge.Addr + 1024, RKey: p.mr.Region().RKey}}})
	require.NoError(p.t, err)
	for _, wc := range p.poll(3) {
		require.NoError(p.t, wc.Err())
		assert.Equal(p.t, map[uint64]any{1: "a", 2: "b", 3: "a"}[wc.ID], wc.Context)
	}
	require.Equal(p.t, text, string(p.mem[:len(text)]))
	require.Equal(p.t, text, string(p.mem[1024:][:len(text)]))
}

// post posts n writes to a QP.
func (p *app) post(q ci.QP, n int) (int, error) {
	sge := p.mr.Region().SGE(0, 64)
	wrs := make([]ci.SendWR, n)
	for i := range wrs {
		wrs[i] = ci.SendWR{ID: uint64(i), Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: []ci.SGE{sge},
			Remote: ci.Remote{Addr: sge.Addr, RKey: p.mr.Region().RKey}}
	}
	return q.PostSend(wrs)
}

// TestUserLibrary sends more messages than the queues have slots. The daemon sees no message for posts and completions,
// and the callback of an armed CQ runs.
func TestUserLibrary(t *testing.T) {
	p := newDaemon(t).start()
	for range 20 {
		p.exchange("message")
	}
	for range 5 {
		require.NoError(t, p.cq.Notify(ci.NotifyNext))
		_, err := p.post(p.a, 1)
		require.NoError(t, err)
		select {
		case <-p.done:
		case <-time.After(userWait):
			require.FailNow(t, "no callback")
		}
		p.poll(1)
	}
	text, err := p.client.Status()
	require.NoError(t, err)
	var st kproxy.Status
	require.NoError(t, json.Unmarshal(text, &st))
	require.Len(t, st.Clients, 1)
	assert.Zero(t, st.Clients[0].Posts)
	assert.Zero(t, st.Clients[0].Completions)

	require.NoError(t, p.a.Modify(ci.ToReset()))
	_, err = p.post(p.a, 1)
	require.ErrorIs(t, err, ci.InvalidQPState)
	require.NoError(t, p.b.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}))
	_, err = p.post(p.b, 4)
	require.NoError(t, err)
	wcs := p.poll(4)
	require.NoError(t, p.b.Destroy())
	_, err = p.post(p.b, 1)
	require.ErrorIs(t, err, ci.InvalidQPHandle)
	for _, wc := range wcs {
		assert.Equal(t, ci.WCFlushErr, wc.Status)
		assert.Equal(t, "b", wc.Context)
	}
}

// TestUserHostile overwrites all memory that an application shares with the daemon while its queues are in use: queues,
// doorbell records, doorbells of other numbers. Another application is not affected, and everything is released.
func TestUserHostile(t *testing.T) {
	d := newDaemon(t)
	p, other := d.start(), d.start()
	other.exchange("before")
	random := rand.New(rand.NewPCG(1, 2))
	const used = 16 * userabi.PageSize // header, and the queues of the application
	for range 200 {
		for range 64 {
			p.shared[userabi.HeaderSize+random.IntN(used-userabi.HeaderSize)] = byte(random.Uint32())
		}
		for i := 128; i < userabi.HeaderSize; i++ { // all doorbells
			p.shared[i] = 0xff
		}
		_, _ = p.post(p.a, 1) // wakes the daemon; the library has lost count
		_, _ = p.post(p.b, 1)
		_, err := p.cq.Poll(make([]ci.WC, 8))
		require.NoError(t, err)
		_ = p.cq.Notify(ci.NotifyNext)
		other.exchange("meanwhile")
	}
	_ = p.a.Modify(ci.ToReset())
	require.NoError(t, p.b.Destroy())
	require.NoError(t, p.a.Destroy())
	require.NoError(t, p.cq.Destroy())
	other.exchange("after")
}

// TestUserFailure fails an adapter with outstanding requests of an application. They complete, the callback of the
// armed CQ runs, and posts fail from then on.
func TestUserFailure(t *testing.T) {
	d := newDaemon(t)
	p := d.start()
	p.exchange("before")
	require.NoError(t, p.a.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPSQD})) // nothing completes
	n, err := p.post(p.a, 3)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	_, err = p.a.PostRecv(make([]ci.RecvWR, 2))
	require.NoError(t, err)
	for range len(p.done) {
		<-p.done
	}
	require.NoError(t, p.cq.Notify(ci.NotifyNext))
	d.m.FailDevice()
	select {
	case <-p.done:
	case <-time.After(userWait):
		require.FailNow(t, "no callback")
	}
	for _, wc := range p.poll(5) {
		assert.Equal(t, ci.WCFlushErr, wc.Status)
		assert.Equal(t, "a", wc.Context)
	}
	_, err = p.post(p.a, 1)
	require.ErrorIs(t, err, ci.InvalidState)
	_, err = p.b.PostRecv(make([]ci.RecvWR, 1))
	require.ErrorIs(t, err, ci.InvalidState)
	require.Eventually(t, func() bool { return <-p.events == ci.EventLocalFatal }, userWait, time.Millisecond)
}

// aProcess is a client process.
type aProcess struct{}

func (aProcess) PID() int         { return 1 }
func (aProcess) PointerBits() int { return 64 }
func (aProcess) Memory(uint64, uint64, ci.Access) (ci.Memory, error) {
	return nil, ci.InvalidPermission
}

// ask returns the private data of a library that accepts n bytes.
func ask(n int) *ci.UserBuffer {
	return &ci.UserBuffer{Command: userabi.Command, Status: -1, Out: make([]byte, 0, n)}
}

// TestUserPrivate calls verbs with private data that the library would not send, and mixes queues of the library with
// others.
func TestUserPrivate(t *testing.T) {
	o := newSingle(t, false)
	for name, ub := range map[string]*ci.UserBuffer{"nil": nil, "another library": {Command: 1},
		"unexpected data": {Command: userabi.Command, In: []byte{1}, Out: make([]byte, 0, 100)}, "no room": ask(3)} {
		_, err := o.c.OpenUser(aProcess{}, ub)
		require.ErrorIs(t, err, ci.InvalidParameter, name)
	}
	_, err := o.c.OpenUser(nil, new(ci.UserBuffer))
	require.ErrorIs(t, err, ci.InvalidParameter)
	u, err := o.c.OpenUser(aProcess{}, ask(userabi.OpenSize))
	require.NoError(t, err)
	ub := ask(0)
	pd, err := u.AllocatePD(ci.PDNormal, ub)
	require.NoError(t, err)
	require.Zero(t, ub.Status)

	_, err = pd.RegisterPMR(ci.PMRCreate{})
	require.ErrorIs(t, err, ci.InvalidPermission)
	_, err = pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12})
	require.ErrorIs(t, err, ci.InvalidPermission)
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 8))})
	require.NoError(t, err)
	require.ErrorIs(t, mr.ModifyPMR(ci.MRFieldMemory, nil, ci.PMRCreate{PageSize: 4096}), ci.InvalidPermission)
	require.NoError(t, mr.Destroy())
	_, err = pd.CreateSpecialQP(1, ci.QPCreate{Type: ci.QP1})
	require.ErrorIs(t, err, ci.InvalidPermission)
	_, err = pd.CreateCQ(ci.CQCreate{Size: 4, User: ask(3)})
	require.ErrorIs(t, err, ci.InvalidParameter)
	theirs, err := pd.CreateCQ(ci.CQCreate{Size: 4, User: ask(userabi.CQSize)})
	require.NoError(t, err)
	ours, err := pd.CreateCQ(ci.CQCreate{Size: 4, User: new(ci.UserBuffer)})
	require.NoError(t, err)
	_, err = theirs.Poll(make([]ci.WC, 1))
	require.ErrorIs(t, err, ci.InvalidState)
	require.ErrorIs(t, theirs.Notify(ci.NotifyNext), ci.InvalidState)
	_, err = theirs.Peek()
	require.ErrorIs(t, err, ci.InvalidState)
	_, err = theirs.Resize(ci.CQResize{Size: 100})
	require.ErrorIs(t, err, ci.InvalidState)
	n, err := ours.Poll(make([]ci.WC, 1))
	require.NoError(t, err)
	require.Zero(t, n)

	_, err = pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1, User: ask(0)}})
	require.ErrorIs(t, err, ci.InvalidParameter)
	srq, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1, User: ask(userabi.SRQSize)}})
	require.NoError(t, err)
	_, err = srq.PostRecv(make([]ci.RecvWR, 1))
	require.ErrorIs(t, err, ci.InvalidState)

	caps := ci.QPCaps{SendDepth: 4, SendSGE: 1}
	for name, c := range map[string]ci.QPCreate{
		"no room":         {SendCQ: theirs, RecvCQ: theirs, User: ask(3)},
		"a send CQ":       {SendCQ: ours, RecvCQ: theirs, User: ask(userabi.QPSize)},
		"a receive CQ":    {SendCQ: theirs, RecvCQ: ours, User: ask(userabi.QPSize)},
		"no library":      {SendCQ: theirs, RecvCQ: ours, User: new(ci.UserBuffer)},
		"the library's":   {SendCQ: theirs, RecvCQ: theirs},
		"an SRQ of the l": {SendCQ: ours, RecvCQ: ours, SRQ: srq},
	} {
		c.Type, c.QPCaps = ci.RC, caps
		_, err = pd.CreateQP(c)
		require.Error(t, err, name)
		require.Contains(t, []ci.Status{ci.InvalidParameter, ci.InvalidCQHandle}, ci.StatusOf(err), name)
	}
	qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: theirs, RecvCQ: theirs, SRQ: srq, QPCaps: caps,
		User: ask(userabi.QPSize)})
	require.NoError(t, err)
	require.NoError(t, qp.Modify(ci.ToInit{Port: 1}.For(ci.RC)))
	_, err = qp.PostSend(make([]ci.SendWR, 1))
	require.ErrorIs(t, err, ci.InvalidState)
	_, err = qp.PostRecv(make([]ci.RecvWR, 1))
	require.ErrorIs(t, err, ci.InvalidState)

	require.ErrorIs(t, u.Destroy(), ci.ResourceBusy)
	require.NoError(t, qp.Modify(ci.ToReset()))
	for _, x := range []ci.Object{qp, srq, theirs, ours, pd} {
		require.NoError(t, x.Destroy())
	}
	require.NoError(t, u.Destroy())
	require.ErrorIs(t, u.Destroy(), ci.InvalidCAHandle)
	_, err = u.AllocatePD(ci.PDNormal, ask(0))
	require.ErrorIs(t, err, ci.InvalidCAHandle)
	o.close(t)
}
