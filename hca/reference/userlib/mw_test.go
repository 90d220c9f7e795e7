package userlib

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/rings"
	"ciddk/internal/testenv"
)

// userMW and userMR are a window and a region as a user access layer has them.
type (
	userMW struct {
		ci.MW
		u any
	}
	userMR struct {
		ci.MR
		pd     any
		access ci.Access
		ended  bool
	}
)

func (o *userMW) UserHandle() any { return o.u }

func (o *userMR) UserRegion() (any, ci.Access, bool) { return o.pd, o.access, !o.ended }

func (c *client) createMW(typ ci.MWType) *userMW {
	w := &userMW{}
	a := ci.UserCreateMW{PD: c.lpd, Create: ci.MWCreate{Type: typ}}
	require.NoError(c.t, create(c.t, c.lib.CreateMW, &a, func(ub *ci.UserBuffer) (err error) {
		w.MW, err = c.pd.CreateMW(ci.MWCreate{Type: typ, User: ub})
		if err == nil {
			a.Key = w.MW.Key()
		}
		return err
	}))
	w.u = a.MW
	c.keep(w.MW)
	return w
}

// key returns the key as MW.Query of a user access layer does.
func (c *client) key(w *userMW) ci.Key {
	return c.keyAfter(w, func() {})
}

// keyAfter is key, with a function that runs between the daemon's reply and its arrival.
func (c *client) keyAfter(w *userMW, late func()) ci.Key {
	a := ci.UserQueryMW{MW: w.u}
	require.NoError(c.t, c.lib.QueryMW.Pre(&a, nil))
	attr, err := w.MW.Query()
	require.NoError(c.t, err)
	late()
	a.Attr = attr
	c.lib.QueryMW.Post(&a, nil, nil)
	return a.Attr.Key
}

// TestKeyOfLateReply queries the key of a window while a bind is executed. The daemon's reply is from before, and is
// not the key with which the next bind names the window.
func TestKeyOfLateReply(t *testing.T) {
	t.Parallel()
	_, b := pairOf(t, ci.RC, nil)
	mr, w := b.region(), b.createMW(ci.MWType1)
	bind := func(key ci.Key) (ci.Key, error) {
		return b.qp.u.BindMW(1, ci.SendSignaled, ci.MWBind{MW: w, MR: mr, Key: key, Addr: mr.Region().Addr, Length: 100,
			Access: ci.RemoteWrite})
	}
	first, err := bind(b.key(w))
	require.NoError(t, err)
	require.Equal(t, first, b.keyAfter(w, func() { require.NoError(t, b.poll(1)[0].Err()) }), "executed meanwhile")
	var second ci.Key
	require.Equal(t, first, b.key(w))
	b.keyAfter(w, func() {
		second, err = bind(first)
		require.NoError(t, err)
		require.NoError(t, b.poll(1)[0].Err())
	})
	require.Equal(t, second, b.key(w), "posted and executed meanwhile")
	_, err = bind(second)
	require.NoError(t, err)
	require.NoError(t, b.poll(1)[0].Err())
}

// region returns the client's region with rights to bind.
func (c *client) region() *userMR {
	const access = ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite | ci.BindWindow
	mr, err := c.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(c.theirs.Bytes()), Access: access})
	require.NoError(c.t, err)
	c.keep(mr)
	return &userMR{MR: mr, pd: c.lpd, access: access}
}

// TestWindows binds windows of both types through shared queues, uses them, and invalidates one by the peer's send.
func TestWindows(t *testing.T) {
	t.Parallel()
	a, b := pairOf(t, ci.RC, nil)
	mr := b.region()
	base := mr.Region().Addr
	write := func(key ci.Key, addr uint64) ci.WCStatus {
		a.send(ci.SendWR{ID: 9, Op: ci.OpWrite, Flags: ci.SendSignaled, Inline: []byte("window"),
			Remote: ci.Remote{Addr: addr, RKey: key}})
		return a.poll(1)[0].Status
	}

	one := b.createMW(ci.MWType1)
	first := b.key(one)
	var keys []ci.Key
	current := first
	for i := range 3 { // several binds are posted before the first one is executed
		key, err := b.qp.u.BindMW(uint64(i), ci.SendSignaled, ci.MWBind{MW: one, MR: mr, Key: current,
			Addr: base + uint64(1000*i), Length: 100, Access: ci.RemoteWrite})
		require.NoError(t, err)
		require.Equal(t, first>>8, key>>8)
		require.NotContains(t, append(keys, first), key)
		require.Equal(t, key, b.key(one))
		keys, current = append(keys, key), key
	}
	for i, w := range b.poll(3) {
		require.NoError(t, w.Err())
		require.EqualValues(t, i, w.ID)
		require.Equal(t, ci.WCBindMW, w.Op)
	}
	require.Equal(t, ci.WCSuccess, write(keys[2], base+2000))
	require.Equal(t, "window", string(b.buf[2000:2006]))
	require.Equal(t, keys[2], one.MW.Key(), "the daemon knows the key of a bind that was executed")

	two := b.createMW(ci.MWType2)
	second := b.key(two)&^0xff | 0x5a
	b.send(ci.SendWR{ID: 4, Op: ci.OpBindMW, Flags: ci.SendSignaled, Ext: &ci.SendExt{Bind: ci.MWBind{MW: two, MR: mr,
		Key: second, Addr: base + 5000, Length: 64, Access: ci.RemoteWrite | ci.RemoteRead}}})
	require.NoError(t, b.poll(1)[0].Err())
	require.Equal(t, second, b.key(two))
	require.Equal(t, ci.WCSuccess, write(second, base+5000))
	b.recv(ci.RecvWR{ID: 7, SGL: b.sge(0, 16)})
	a.send(ci.SendWR{ID: 5, Flags: ci.SendSignaled | ci.SendInvalidate, Inv: second, Inline: []byte("x")})
	w := b.poll(1)[0]
	require.NoError(t, w.Err())
	require.NotZero(t, w.Flags&ci.WCInvalidated)
	require.EqualValues(t, second, w.Imm)
	require.NoError(t, a.poll(1)[0].Err())
	require.Equal(t, ci.WCRemAccessErr, write(second, base+5000))
}

// bind2 binds a new window of type 2 at the start of the region, and returns the key.
func (c *client) bind2(mr *userMR) ci.Key {
	w := c.createMW(ci.MWType2)
	key := c.key(w)&^0xff | 0x5a
	c.send(ci.SendWR{ID: 4, Op: ci.OpBindMW, Flags: ci.SendSignaled, Ext: &ci.SendExt{Bind: ci.MWBind{MW: w, MR: mr,
		Key: key, Addr: mr.Region().Addr, Length: 64, Access: ci.RemoteWrite}}})
	require.NoError(c.t, c.poll(1)[0].Err())
	return key
}

// TestLocalInvalidate invalidates windows of type 2 through a shared queue. Keys that the process may not invalidate
// keep what they grant.
func TestLocalInvalidate(t *testing.T) {
	t.Parallel()
	write := func(a *client, mr *userMR, key ci.Key) ci.WCStatus {
		a.send(ci.SendWR{ID: 9, Op: ci.OpWrite, Flags: ci.SendSignaled, Inline: []byte("window"),
			Remote: ci.Remote{Addr: mr.Region().Addr, RKey: key}})
		return a.poll(1)[0].Status
	}
	invalidate := func(c *client, key ci.Key) ci.WC {
		c.send(ci.SendWR{ID: 8, Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: key})
		return c.poll(1)[0]
	}
	t.Run("window", func(t *testing.T) {
		t.Parallel()
		a, b := pairOf(t, ci.RC, nil)
		mr := b.region()
		key := b.bind2(mr)
		require.Equal(t, ci.WCSuccess, write(a, mr, key))
		wc := invalidate(b, key)
		require.NoError(t, wc.Err())
		require.Equal(t, ci.WCLocalInv, wc.Op)
		require.Equal(t, ci.WCRemAccessErr, write(a, mr, key))
	})
	t.Run("window of another process", func(t *testing.T) {
		t.Parallel()
		a, b := pairOf(t, ci.RC, nil)
		hostile := newClient(b.daemon, ci.RC)
		t.Cleanup(hostile.die)
		hostile.connect(a)
		mr := b.region()
		key := b.bind2(mr)
		require.Equal(t, ci.WCBindErr, invalidate(hostile, key).Status)
		require.Equal(t, ci.WCSuccess, write(a, mr, key))
	})
	t.Run("region", func(t *testing.T) {
		t.Parallel()
		_, b := pairOf(t, ci.RC, nil)
		require.Equal(t, ci.WCBindErr, invalidate(b, b.region().Region().LKey).Status)
	})
}

// TestBindErrors checks the statuses of QP.BindMW, and that a bind that fails leaves the key as it was.
func TestBindErrors(t *testing.T) {
	t.Parallel()
	a, b := pairOf(t, ci.RC, nil)
	mr, foreign := b.region(), a.region()
	mw, other, two := b.createMW(ci.MWType1), a.createMW(ci.MWType1), b.createMW(ci.MWType2)
	key := b.key(mw)
	good := ci.MWBind{MW: mw, MR: mr, Key: key, Addr: mr.Region().Addr, Length: 8, Access: ci.RemoteRead}
	for name, c := range map[string]struct {
		change func(*ci.MWBind)
		want   ci.Status
	}{
		"no window":        {func(m *ci.MWBind) { m.MW = nil }, ci.InvalidMWHandle},
		"foreign window":   {func(m *ci.MWBind) { m.MW = other }, ci.InvalidMWHandle},
		"no region":        {func(m *ci.MWBind) { m.MR = nil }, ci.InvalidMRHandle},
		"foreign region":   {func(m *ci.MWBind) { m.MR = foreign }, ci.InvalidMRHandle},
		"destroyed region": {func(m *ci.MWBind) { m.MR = &userMR{MR: mr, pd: b.lpd, ended: true} }, ci.InvalidMRHandle},
		"region's rights":  {func(m *ci.MWBind) { m.MR = &userMR{MR: mr, pd: b.lpd} }, ci.InvalidPermission},
		"rights":           {func(m *ci.MWBind) { m.Access = ci.LocalWrite }, ci.InvalidParameter},
		"key":              {func(m *ci.MWBind) { m.Key++ }, ci.InvalidRKey},
		"window of type 2": {func(m *ci.MWBind) { m.MW, m.Key = two, b.key(two) }, ci.InvalidRKey},
	} {
		bad := good
		c.change(&bad)
		_, err := b.qp.u.BindMW(1, 0, bad)
		require.ErrorIs(t, err, c.want, name)
	}
	// The range is validated when the bind is executed.
	bad := good
	bad.Length = 1 << 40
	next, err := b.qp.u.BindMW(1, 0, bad)
	require.NoError(t, err)
	w := b.poll(1)[0]
	require.Equal(t, ci.WCBindErr, w.Status)
	require.NotEqual(t, key, next)
	require.Equal(t, key, b.key(mw))
	require.Equal(t, key, mw.MW.Key())

	require.NoError(t, b.modify(b.qp, ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
	_, err = b.qp.u.BindMW(1, 0, good)
	require.ErrorIs(t, err, ci.InvalidQPState)
	b.lib.DestroyMW.Post(&ci.UserDestroyMW{MW: mw.u}, nil, nil)
	_, err = b.qp.u.BindMW(1, 0, good)
	require.ErrorIs(t, err, ci.InvalidMWHandle)
}

// TestForgedBinds posts binds that the library would not post: of windows and regions of another process, with a key
// that is not current, and with unknown rights. None has an effect.
func TestForgedBinds(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(b, victim *client, slot []byte){
		"window of another process": func(_, victim *client, slot []byte) {
			binary.NativeEndian.PutUint32(slot[44:], uint32(victim.createMW(ci.MWType1).MW.Key()))
		},
		"region of another process": func(_, victim *client, slot []byte) {
			binary.NativeEndian.PutUint32(slot[40:], uint32(victim.region().Region().LKey))
		},
		"no window":      func(_, _ *client, slot []byte) { binary.NativeEndian.PutUint32(slot[44:], 0) },
		"old key":        func(_, _ *client, slot []byte) { slot[44]++ },
		"same key":       func(_, _ *client, slot []byte) { slot[48] = slot[44] },
		"unknown rights": func(_, _ *client, slot []byte) { slot[53] = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := pairOf(t, ci.RC, nil)
			mr, mw := b.region(), b.createMW(ci.MWType1)
			before := mw.MW.Key()
			q := b.qp.u.Handle.(*qp)
			bind := ci.SendWR{ID: 1, Op: ci.OpBindMW, Ext: &ci.SendExt{Bind: ci.MWBind{MW: mw, MR: mr,
				Key: before&^0xff | (before+1)&0xff, Addr: mr.Region().Addr, Length: 8, Access: ci.RemoteRead}}}
			require.Equal(t, 1, q.send.Post([]ci.SendWR{bind})) // the engine reads the queue after notify
			forge(b, a, b.slot(0))
			q.pd.ca.notify(q.index)
			require.NotEqual(t, ci.WCSuccess, b.poll(1)[0].Status)
			require.Equal(t, before, mw.MW.Key())
		})
	}
}

// slot returns the bytes of an element of the send queue.
func (c *client) slot(i int) []byte {
	const header = 384
	var r rings.UserQP
	require.NoError(c.t, r.Decode(c.answers[2]))
	b := c.lca.(*ca).Bytes()[r.Send.Offset+rings.ControlSize+header:]
	return b[i<<r.Send.Shape.Shift:][:1<<r.Send.Shape.Shift]
}

// TestNoAllocationOfVerbs checks that arming, peeking and binding do not allocate, except for what the new key of a
// window grants, which the adapter makes when it executes the bind.
func TestNoAllocationOfVerbs(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	a, _ := pairOf(t, ci.RC, func(c *reference.Config) { c.UserIdle = time.Hour })
	mr, mw := a.region(), a.createMW(ci.MWType1)
	wc := make([]ci.WC, 4)
	key := a.key(mw)
	bind := ci.MWBind{MW: mw, MR: mr, Addr: mr.Region().Addr, Length: 8, Access: ci.RemoteRead}
	for name, c := range map[string]struct {
		fn    func() error
		limit float64
	}{
		"notify": {func() error { return a.cq.u.Notify(ci.NotifySolicited) }, 1},
		"peek":   {func() error { _, err := a.cq.u.Peek(); return err }, 1},
		"bind": {func() (err error) {
			bind.Key = key
			if key, err = a.qp.u.BindMW(1, ci.SendSignaled, bind); err != nil {
				return err
			}
			for n := 0; n == 0 && err == nil; {
				n, err = a.cq.u.Poll(wc)
			}
			return err
		}, 2},
	} {
		run := func() {
			if err := c.fn(); err != nil {
				t.Error(err)
			}
		}
		run()
		require.Less(t, testing.AllocsPerRun(50, run), c.limit, name)
	}
}
