package faults_test

import (
	"errors"
	"math"
	"reflect"
	"sync"
	"testing"

	"github.com/golang/mock/gomock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
	"ciddk/ci/cimock"
	"ciddk/ci/ciwrap/faults"
)

// Every verb of ci that returns an error has a name for rules, and no other verb has.
func TestVerbsAreThoseOfCI(t *testing.T) {
	t.Parallel()
	var want []string
	for _, typ := range []reflect.Type{reflect.TypeFor[ci.HCA](), reflect.TypeFor[ci.CA](),
		reflect.TypeFor[ci.UserCA](), reflect.TypeFor[ci.PD](),
		reflect.TypeFor[ci.AV](), reflect.TypeFor[ci.CQ](), reflect.TypeFor[ci.SRQ](), reflect.TypeFor[ci.QP](),
		reflect.TypeFor[ci.Mcast](),
		reflect.TypeFor[ci.MR](), reflect.TypeFor[ci.FMR](), reflect.TypeFor[ci.MW](), reflect.TypeFor[ci.RDD](),
		reflect.TypeFor[ci.EEC](), reflect.TypeFor[ci.DMA]()} {
		for m := range typ.Methods() {
			if n := m.Type.NumOut(); n > 0 && m.Type.Out(n-1) == reflect.TypeFor[error]() {
				want = append(want, typ.Name()+"."+m.Name)
			}
		}
	}
	assert.ElementsMatch(t, append(want, "EventHandler.Destroy"), faults.Verbs())
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]faults.Rule{
		"unknown verb": {Verb: "PD.MakeTea", Status: ci.Timeout},
		"too likely":   {Verb: "PD.CreateQP", Probability: 1.5},
		"negative":     {Verb: "PD.CreateQP", Probability: -0.1},
		"not a number": {Verb: "PD.CreateQP", Probability: math.NaN()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := faults.New(1).Add(r)
			assert.ErrorIs(t, err, ci.InvalidParameter)
			assert.Panics(t, func() { faults.New(1).MustAdd(r) })
		})
	}
}

// open returns a CA of inj over mocks.
func open(t *testing.T, inj *faults.Injector) (*cimock.MockCA, ci.CA) {
	ctrl := gomock.NewController(t)
	h, c := cimock.NewMockHCA(ctrl), cimock.NewMockCA(ctrl)
	h.EXPECT().OpenCA(gomock.Any(), gomock.Any(), gomock.Any()).Return(c, nil)
	ca, err := inj.Wrap(h).OpenCA(1, func(ci.Event) {}, nil)
	require.NoError(t, err)
	return c, ca
}

func TestSkipAndCount(t *testing.T) {
	t.Parallel()
	inj := faults.New(1)
	c, ca := open(t, inj)
	c.EXPECT().Query().Return(&ci.CAAttr{}, nil).Times(3)
	f := inj.MustAdd(faults.Rule{Verb: "CA.Query", Status: ci.Timeout, Skip: 2, Count: 2})
	var got []ci.Status
	for range 5 {
		attr, err := ca.Query()
		assert.Equal(t, err == nil, attr != nil)
		got = append(got, ci.StatusOf(err))
	}
	assert.Equal(t, []ci.Status{0, 0, ci.Timeout, ci.Timeout, 0}, got)
	assert.EqualValues(t, 2, f.Struck())
	assert.EqualValues(t, 5, inj.Calls("CA.Query"))
	assert.Zero(t, inj.Calls("CA.Brew"))
}

func TestRemoveClearHookAndErr(t *testing.T) {
	t.Parallel()
	inj := faults.New(1)
	c, ca := open(t, inj)
	c.EXPECT().Query().Return(&ci.CAAttr{}, nil).Times(3)
	strange := errors.New("a stranger's error")
	var hooks []uint64
	watch := inj.MustAdd(faults.Rule{Verb: "CA.Query", Hook: func(n uint64) { hooks = append(hooks, n) }})
	f := inj.MustAdd(faults.Rule{Verb: "CA.Query", Err: strange})
	_, err := ca.Query()
	assert.Same(t, strange, err)
	f.Remove()
	f.Remove()
	_, err = ca.Query()
	assert.NoError(t, err)
	watch.Remove()
	_, err = ca.Query()
	assert.NoError(t, err)
	assert.Equal(t, []uint64{1, 2}, hooks, "a rule without an error only watches")
	inj.MustAdd(faults.Rule{Verb: "CA.Query", Status: ci.Timeout})
	inj.Clear()
	_, err = ca.Query()
	assert.NoError(t, err)
}

// The same seed strikes the same calls, and about as many as the probability says.
func TestProbabilityBySeed(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (struck []bool) {
		inj := faults.New(seed)
		c, ca := open(t, inj)
		c.EXPECT().Query().Return(&ci.CAAttr{}, nil).AnyTimes()
		inj.MustAdd(faults.Rule{Verb: "CA.Query", Status: ci.Timeout, Probability: 0.25})
		for range 2000 {
			_, err := ca.Query()
			struck = append(struck, err != nil)
		}
		return struck
	}
	a := run(42)
	assert.Equal(t, a, run(42))
	assert.NotEqual(t, a, run(43))
	n := 0
	for _, s := range a {
		if s {
			n++
		}
	}
	assert.InDelta(t, 500, n, 120)
}

// Of n posted requests, those before the failing one reach the driver, whatever the batches are.
func TestPostsFailByRequest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		skip := rapid.Uint64Range(0, 20).Draw(rt, "skip")
		batches := rapid.SliceOfN(rapid.IntRange(0, 7), 1, 8).Draw(rt, "batches")
		inj := faults.New(1)
		qp, posted := newQP(t, inj)
		inj.MustAdd(faults.Rule{Verb: "QP.PostSend", Status: ci.InsufficientResources, Skip: skip, Count: 1})
		var id, want uint64
		struck := false
		for _, b := range batches {
			wrs := make([]ci.SendWR, b)
			for i := range wrs {
				wrs[i].ID = id + uint64(i)
			}
			n, err := qp.PostSend(wrs)
			if !struck && want+uint64(b) > skip {
				struck = true
				assert.Equal(rt, int(skip-want), n)
				assert.ErrorIs(rt, err, ci.InsufficientResources)
			} else {
				assert.Equal(rt, b, n)
				assert.NoError(rt, err)
			}
			want += uint64(n)
			id += uint64(n) // what was refused is posted again
		}
		for i, got := range *posted {
			require.Equal(rt, uint64(i), got)
		}
		assert.Len(rt, *posted, int(want))
	})
}

func newQP(t *testing.T, inj *faults.Injector) (ci.QP, *[]uint64) {
	ctrl := gomock.NewController(t)
	c, ca := open(t, inj)
	p := cimock.NewMockPD(ctrl)
	drv := &countingQP{}
	c.EXPECT().AllocatePD(gomock.Any()).Return(p, nil)
	p.EXPECT().CreateQP(gomock.Any()).Return(drv, nil)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	qp, err := pd.CreateQP(ci.QPCreate{})
	require.NoError(t, err)
	return qp, &drv.posted
}

type countingQP struct {
	ci.QP
	posted []uint64
}

func (q *countingQP) PostSend(wrs []ci.SendWR) (int, error) {
	for i := range wrs {
		q.posted = append(q.posted, wrs[i].ID)
	}
	return len(wrs), nil
}

// A post may be cut short by the driver before the injector's failing request: then the driver's reason counts.
func TestDriversFailureComesFirst(t *testing.T) {
	t.Parallel()
	ctrl := gomock.NewController(t)
	inj := faults.New(1)
	c, ca := open(t, inj)
	p, q := cimock.NewMockPD(ctrl), cimock.NewMockQP(ctrl)
	c.EXPECT().AllocatePD(gomock.Any()).Return(p, nil)
	p.EXPECT().CreateQP(gomock.Any()).Return(q, nil)
	q.EXPECT().PostRecv(gomock.Len(3)).Return(1, ci.InvalidMaxSGE)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	qp, err := pd.CreateQP(ci.QPCreate{})
	require.NoError(t, err)
	inj.MustAdd(faults.Rule{Verb: "QP.PostRecv", Status: ci.InsufficientResources, Skip: 3})
	n, err := qp.PostRecv(make([]ci.RecvWR, 5))
	assert.Equal(t, 1, n)
	assert.Equal(t, ci.InvalidMaxSGE, err)
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	inj := faults.New(1)
	c, ca := open(t, inj)
	c.EXPECT().Query().Return(&ci.CAAttr{}, nil).AnyTimes()
	var wg sync.WaitGroup
	var mu sync.Mutex
	failed := uint64(0)
	keep := inj.MustAdd(faults.Rule{Verb: "CA.Query", Status: ci.Timeout, Skip: 10, Count: 50})
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if _, err := ca.Query(); ci.StatusOf(err) == ci.Timeout {
					mu.Lock()
					failed++
					mu.Unlock()
				}
				inj.MustAdd(faults.Rule{Verb: "CA.Query", Status: ci.Canceled, Probability: 0.5}).Remove()
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 50, failed)
	assert.EqualValues(t, 50, keep.Struck())
	assert.EqualValues(t, 800, inj.Calls("CA.Query"))
}

// The data path through an injector allocates nothing, neither when it passes nor when it fails.
func TestDataPathAllocatesNothing(t *testing.T) {
	inj := faults.New(1)
	qp, posted := newQP(t, inj)
	*posted = make([]uint64, 0, 1<<16)
	wrs := make([]ci.SendWR, 4)
	post := func() { _, _ = qp.PostSend(wrs) }
	assert.Zero(t, testing.AllocsPerRun(100, post))
	inj.MustAdd(faults.Rule{Verb: "QP.PostSend", Status: ci.InsufficientResources, Probability: 0.5})
	assert.Zero(t, testing.AllocsPerRun(100, post))
}
