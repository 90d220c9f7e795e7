package accesslayer_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// TestObjectTreeModel compares random trees, destroyed in random orders with callbacks in progress, with a model: which
// objects exist, which calls fail and with which status, and how often the last callback runs. The fake driver checks
// that no destroy of the driver comes early, twice or in the wrong order. Half of the clients are strict.
func TestObjectTreeModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := newTreeModel(rt, rapid.Bool().Draw(rt, "strict"))
		defer m.end(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"create":  m.create,
			"hold":    m.hold,
			"release": m.release,
			"destroy": m.destroy,
			"closing": m.closeNow,
		})
	})
}

type treeModel struct {
	h      *fakeHCA
	al     *accesslayer.AL
	c      *accesslayer.Client
	strict bool
	all    []*modelObj
	holds  []*holdup
	done   []chan struct{}
	dones  map[*modelObj]*int
}

type modelObj struct {
	kind       string
	obj        tracked
	drv        *fakeObj // nil for a CA
	parent     *modelObj
	uses       []*modelObj
	destroying bool
	held       int
}

type holdup struct {
	o    *modelObj
	gate chan struct{}
	out  chan struct{}
}

func newTreeModel(rt *rapid.T, strict bool) *treeModel {
	m := &treeModel{strict: strict, h: newFake(1),
		al: accesslayer.New(accesslayer.Config{Logger: quiet, PollInterval: -1,
			DestroyBackoff: time.Millisecond}), dones: map[*modelObj]*int{}}
	require.NoError(rt, m.al.Register(m.h))
	m.c = must(m.al.Open(accesslayer.ClientConfig{Strict: strict}))
	for _, kind := range []string{"CA", "PD", "PD", "CQ", "CQ", "SRQ", "MR"} {
		m.createOne(rt, kind)
	}
	return m
}

func (o *modelObj) String() string {
	if o.drv == nil {
		return o.kind
	}
	return o.drv.name()
}

// below returns the objects that are destroyed before b.
func (m *treeModel) below(b *modelObj) (out []*modelObj) {
	for _, a := range m.all {
		if a.parent == b || slices.Contains(a.uses, b) {
			out = append(out, a)
		}
	}
	return out
}

func (m *treeModel) mark(o *modelObj) {
	if o.destroying {
		return
	}
	o.destroying = true
	for _, a := range m.below(o) {
		m.mark(a)
	}
}

// pick draws an object of one of the kinds, sometimes one that is being destroyed.
func (m *treeModel) pick(rt *rapid.T, kinds ...string) *modelObj {
	var from, dying []*modelObj
	for _, o := range m.all {
		switch {
		case !slices.Contains(kinds, o.kind):
		case o.destroying:
			dying = append(dying, o)
		default:
			from = append(from, o)
		}
	}
	if len(dying) > 0 && (len(from) == 0 || rapid.IntRange(0, 7).Draw(rt, "dying") == 0) {
		from = dying
	}
	if len(from) == 0 {
		rt.Skip("no " + fmt.Sprint(kinds))
	}
	return rapid.SampledFrom(from).Draw(rt, kinds[0])
}

// victim draws the object to destroy, usually one low in the tree.
func (m *treeModel) victim(rt *rapid.T) *modelObj {
	return m.pick(rt, rapid.SampledFrom([]string{"QP", "QP", "QP", "CQ", "CQ", "SRQ", "SRQ", "MR", "MR", "MR", "MW",
		"AV", "Mcast", "Mcast", "PD", "CA"}).Draw(rt, "kind"))
}

func (m *treeModel) create(rt *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(rt, "objects") {
		m.createOne(rt, rapid.SampledFrom([]string{"CA", "PD", "CQ", "CQ", "QP", "QP", "QP", "QP", "SRQ", "MR", "MW",
			"SMR", "SMR", "AV", "Mcast", "Mcast"}).Draw(rt, "kind"))
	}
}

func (m *treeModel) createOne(rt *rapid.T, kind string) {
	n := &modelObj{kind: kind}
	var err error
	onEvent := func() {
		m.h.mu.Lock() // this goroutine reads holds, and the test's goroutine writes it
		var g *holdup
		for _, x := range m.holds {
			if x.o == n {
				g = x
			}
		}
		m.h.mu.Unlock()
		<-g.gate
		close(g.out)
	}
	switch kind {
	case "CA":
		ca, e := m.c.OpenCA(fakeGUID, nil)
		if m.strict && m.refusesOpen(rt, e) {
			return
		}
		require.NoError(rt, e)
		n.obj = ca
	case "PD":
		n.parent = m.pick(rt, "CA")
		var o *accesslayer.PD
		o, err = n.parent.obj.(*accesslayer.CA).NewPD(ci.PDNormal)
		n.obj = o
	case "Mcast":
		n.parent = m.pick(rt, "QP")
		var o ci.Mcast
		o, err = n.parent.obj.(*accesslayer.QP).AttachMcast(ci.McastAttach{GID: ci.GID{0xff}, LID: 0xc000})
		n.obj, _ = o.(*accesslayer.Mcast)
	default:
		n.parent = m.pick(rt, "PD")
		pd := n.parent.obj.(*accesslayer.PD)
		switch kind {
		case "CQ":
			var o *accesslayer.CQ
			o, err = pd.NewCQ(ci.CQCreate{Size: 1},
				accesslayer.CQHandler{OnEvent: func(*accesslayer.CQ, ci.Event) { onEvent() }})
			n.obj = o
		case "SRQ":
			var o *accesslayer.SRQ
			o, err = pd.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1, MaxSGE: 1}}, nil)
			n.obj = o
		case "MR":
			var o *accesslayer.MR
			o, err = pd.NewMR(ci.MRCreate{})
			n.obj = o
		case "SMR":
			src := m.pick(rt, "MR", "SMR")
			n.kind, n.uses = "MR", []*modelObj{src}
			var o *accesslayer.MR
			o, err = pd.NewSMR(src.obj.(*accesslayer.MR), 0, 0)
			n.obj = o
		case "MW":
			var o *accesslayer.MW
			o, err = pd.NewMW(ci.MWCreate{Type: ci.MWType1})
			n.obj = o
		case "AV":
			var o *accesslayer.AV
			o, err = pd.NewAV(ci.AVAttr{})
			n.obj = o
		case "QP":
			s, r := m.pick(rt, "CQ"), m.pick(rt, "CQ")
			n.uses = []*modelObj{s, r}
			c := ci.QPCreate{SendCQ: s.obj.(*accesslayer.CQ), RecvCQ: r.obj.(*accesslayer.CQ)}
			if rapid.Bool().Draw(rt, "with SRQ") {
				q := m.pick(rt, "SRQ")
				n.uses = append(n.uses, q)
				c.SRQ = q.obj.(*accesslayer.SRQ)
			}
			var o *accesslayer.QP
			o, err = pd.NewQP(c, func(*accesslayer.QP, ci.Event) { onEvent() })
			n.obj = o
		}
	}
	refused := n.parent != nil && n.parent.destroying
	for _, u := range n.uses {
		refused = refused || u.destroying
	}
	if refused {
		require.ErrorIs(rt, err, accesslayer.ErrClosed)
		require.False(rt, m.strict && errors.Is(err, ci.InvalidState), "package ci has a status for each kind")
		return
	}
	require.NoError(rt, err)
	if kind != "CA" { // all CAs share one object of the driver
		n.drv = behind(n.obj)
	}
	m.all = append(m.all, n)
}

// refusesOpen checks the result of opening the HCA with a strict client. It reports whether the open was refused. It is
// refused while the client has another open. The model has that open only until its destruction begins.
func (m *treeModel) refusesOpen(rt *rapid.T, err error) bool {
	opens, dying := 0, 0
	for _, o := range m.all {
		switch {
		case o.kind != "CA":
		case o.destroying:
			dying++
		default:
			opens++
		}
	}
	if opens > 0 {
		require.ErrorIs(rt, err, ci.ResourceBusy)
	}
	return opens > 0 || dying > 0 && errors.Is(err, ci.ResourceBusy)
}

// hold starts an event callback that blocks until release.
func (m *treeModel) hold(rt *rapid.T) {
	o := m.pick(rt, "QP", "CQ")
	if o.destroying || o.held > 0 {
		rt.Skip("dying or busy")
	}
	g := &holdup{o: o, gate: make(chan struct{}), out: make(chan struct{})}
	m.h.mu.Lock()
	m.holds = append(m.holds, g)
	m.h.mu.Unlock()
	o.held++
	require.True(rt, o.drv.fire(ci.EventQPFatal, 0))
}

func (m *treeModel) release(rt *rapid.T) {
	if len(m.holds) == 0 {
		rt.Skip("nothing held")
	}
	m.h.mu.Lock()
	i := rapid.IntRange(0, len(m.holds)-1).Draw(rt, "which")
	g := m.holds[i]
	m.h.mu.Unlock()
	close(g.gate)
	wait(rt, g.out, "the callback of "+g.o.String())
	m.h.mu.Lock()
	m.holds = slices.Delete(m.holds, i, i+1)
	m.h.mu.Unlock()
	g.o.held--
}

func (m *treeModel) destroy(rt *rapid.T) {
	o := m.victim(rt)
	done := make(chan struct{})
	count := new(int)
	err := o.obj.DestroyAsync(func(err error) {
		*count++
		if err == nil {
			close(done)
		}
	})
	if m.expect(rt, o, err, false) {
		m.done, m.dones[o] = append(m.done, done), count
	}
}

// expect compares the result of a destroy with the model, and marks the objects that are destroyed.
func (m *treeModel) expect(rt *rapid.T, o *modelObj, err error, sync bool) bool {
	strict := m.strict && sync
	users, dying := 0, 0
	for _, a := range m.all {
		if slices.Contains(a.uses, o) || strict && a.parent == o {
			users++
			if a.destroying {
				dying++
			}
		}
	}
	switch {
	case o.destroying:
		require.ErrorIs(rt, err, accesslayer.ErrClosed)
		return false
	case (o.kind == "SRQ" || o.kind == "MR" || strict) && users > dying:
		require.ErrorIs(rt, err, ci.ResourceBusy)
		return false
	case (o.kind == "SRQ" || o.kind == "MR" || strict) && dying > 0 &&
		errors.Is(err, ci.ResourceBusy): // its last user may have been destroyed
		return false
	}
	require.NoError(rt, err)
	m.mark(o)
	return true
}

// closeNow destroys an object synchronously, if no held callback delays it.
func (m *treeModel) closeNow(rt *rapid.T) {
	if len(m.holds) > 0 {
		rt.Skip("would wait for what is held")
	}
	o := m.victim(rt)
	m.expect(rt, o, o.obj.Destroy(), true)
	if err := o.obj.Destroy(); err == nil || errors.Is(err, accesslayer.ErrClosed) {
		m.mark(o) // destroyed at the latest now
	} else {
		require.ErrorIs(rt, err, ci.ResourceBusy)
		require.False(rt, o.destroying)
	}
}

// check compares the driver with the model: objects that are not being destroyed exist, as do those with a held
// callback and everything that they use.
func (m *treeModel) check(rt *rapid.T) {
	live := m.h.liveObjects()
	var must func(o *modelObj)
	must = func(o *modelObj) {
		if o.drv != nil {
			require.Contains(rt, live, o.drv.name())
		}
		if o.parent != nil {
			must(o.parent)
		}
		for _, u := range o.uses {
			must(u)
		}
	}
	for _, o := range m.all {
		if !o.destroying || o.held > 0 {
			must(o)
		}
	}
	require.Empty(rt, m.h.violationList())
}

// end releases all callbacks. Then the driver has the objects of the model, and none at the end.
func (m *treeModel) end(rt *rapid.T) {
	for _, g := range m.holds {
		close(g.gate)
		wait(rt, g.out, "a held callback")
	}
	for _, d := range m.done {
		wait(rt, d, "a destroy callback")
	}
	var want []string
	for _, o := range m.all {
		if !o.destroying && o.drv != nil {
			want = append(want, o.drv.name())
		}
	}
	slices.Sort(want)
	if want == nil {
		assert.Empty(rt, m.h.liveObjects())
	} else {
		assert.Equal(rt, want, m.h.liveObjects())
	}
	assert.NoError(rt, m.c.Close())
	assert.NoError(rt, m.al.Close())
	for o, n := range m.dones {
		assert.Equal(rt, 1, *n, "destroy callbacks of %v", o)
	}
	assert.Empty(rt, m.h.liveObjects())
	assert.True(rt, m.h.closed)
	assert.Empty(rt, m.h.violationList())
}
