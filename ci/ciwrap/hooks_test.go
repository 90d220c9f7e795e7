package ciwrap_test

import (
	"testing"

	"github.com/golang/mock/gomock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
	"ciddk/ci/cimock"
	"ciddk/ci/ciwrap"
)

// tree opens l over mocks down to a PD.
func tree(t *testing.T, l ciwrap.Layer, onEvent func(ci.Event), arg any) (h *cimock.MockHCA, p *cimock.MockPD, ca ci.CA,
	pd ci.PD, fire func(ci.Event)) {
	ctrl := gomock.NewController(t)
	h, p = cimock.NewMockHCA(ctrl), cimock.NewMockPD(ctrl)
	c := cimock.NewMockCA(ctrl)
	h.EXPECT().OpenCA(gomock.Any(), gomock.Any(), gomock.Any()).DoAndReturn(func(_ ci.GUID, fn func(ci.Event),
		x any) (ci.CA, error) {
		fire = func(e ci.Event) { e.Context = x; fn(e) }
		return c, nil
	})
	c.EXPECT().AllocatePD(gomock.Any()).Return(p, nil)
	ca, err := ciwrap.Wrap(h, l).OpenCA(1, onEvent, arg)
	require.NoError(t, err)
	pd, err = ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	return h, p, ca, pd, fire
}

func TestHooksChangeWhatGoesDown(t *testing.T) {
	t.Parallel()
	var made ci.CQCreate
	_, p, _, pd, _ := tree(t, ciwrap.Layer{
		CQCreate:  func(c ci.CQCreate) ci.CQCreate { c.Size *= 2; return c },
		QPCreate:  func(c ci.QPCreate) ci.QPCreate { c.SendDepth++; return c },
		SRQCreate: func(c ci.SRQCreate) ci.SRQCreate { c.MaxWR++; return c },
		MRCreate:  func(c ci.MRCreate) ci.MRCreate { c.Access |= ci.LocalWrite; return c },
		CQ:        func(in ci.CQ, c ci.CQCreate) ci.CQ { made = c; return ciwrap.CQ{CQ: in} },
	}, func(ci.Event) {}, nil)
	ctrl := gomock.NewController(t)
	p.EXPECT().CreateCQ(ci.CQCreate{Size: 8}).Return(cimock.NewMockCQ(ctrl), nil)
	p.EXPECT().CreateQP(ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 5}}).Return(cimock.NewMockQP(ctrl), nil)
	p.EXPECT().CreateSpecialQP(uint8(1), ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 2}}).Return(cimock.NewMockQP(ctrl),
		nil)
	p.EXPECT().CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 3}}).Return(cimock.NewMockSRQ(ctrl), nil)
	p.EXPECT().RegisterMR(ci.MRCreate{Access: ci.LocalWrite}).Return(cimock.NewMockMR(ctrl), nil)
	_, err := pd.CreateCQ(ci.CQCreate{Size: 4})
	require.NoError(t, err)
	assert.Equal(t, 8, made.Size, "a replacement sees the attributes that went down")
	_, err = pd.CreateQP(ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 4}})
	require.NoError(t, err)
	_, err = pd.CreateSpecialQP(1, ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 1}})
	require.NoError(t, err)
	_, err = pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 2}})
	require.NoError(t, err)
	_, err = pd.RegisterMR(ci.MRCreate{})
	require.NoError(t, err)
}

// Event sees the events of every kind of object, and decides how often each is delivered.
func TestEventFilter(t *testing.T) {
	t.Parallel()
	times := map[ci.EventType]int{ci.EventPortDown: 0, ci.EventQPFatal: 2, ci.EventCQError: 1, ci.EventSRQLimit: 1}
	var seen, got []ci.EventType
	onEvent := func(e ci.Event) { got = append(got, e.Type) }
	l := ciwrap.Layer{
		Event: func(e ci.Event, deliver func(ci.Event)) {
			seen = append(seen, e.Type)
			for range times[e.Type] {
				deliver(e)
			}
		},
		Completion: func(arg any, deliver func(any)) { deliver(arg); deliver(arg) },
	}
	_, p, _, pd, fire := tree(t, l, onEvent, nil)
	ctrl := gomock.NewController(t)
	p.EXPECT().CreateCQ(gomock.Any()).DoAndReturn(func(c ci.CQCreate) (ci.CQ, error) {
		c.OnEvent(ci.Event{Type: ci.EventCQError})
		c.OnCompletion("cq")
		return cimock.NewMockCQ(ctrl), nil
	})
	p.EXPECT().CreateQP(gomock.Any()).DoAndReturn(func(c ci.QPCreate) (ci.QP, error) {
		c.OnEvent(ci.Event{Type: ci.EventQPFatal})
		return cimock.NewMockQP(ctrl), nil
	})
	p.EXPECT().CreateSRQ(gomock.Any()).DoAndReturn(func(c ci.SRQCreate) (ci.SRQ, error) {
		assert.Nil(t, c.OnEvent, "no callback was given")
		return cimock.NewMockSRQ(ctrl), nil
	})
	fire(ci.Event{Type: ci.EventPortDown})
	completions := 0
	_, err := pd.CreateCQ(ci.CQCreate{OnEvent: onEvent,
		OnCompletion: func(arg any) { assert.Equal(t, "cq", arg); completions++ }})
	require.NoError(t, err)
	_, err = pd.CreateQP(ci.QPCreate{OnEvent: onEvent})
	require.NoError(t, err)
	_, err = pd.CreateSRQ(ci.SRQCreate{})
	require.NoError(t, err)
	assert.Equal(t, []ci.EventType{ci.EventPortDown, ci.EventCQError, ci.EventQPFatal}, seen)
	assert.Equal(t, []ci.EventType{ci.EventCQError, ci.EventQPFatal, ci.EventQPFatal}, got)
	assert.Equal(t, 2, completions)
}

func TestOpenCAHook(t *testing.T) {
	t.Parallel()
	var got ci.Event
	l := ciwrap.Layer{OpenCA: func(fn func(ci.Event), arg any) (func(ci.Event), any) {
		return func(e ci.Event) { e.Vendor++; e.Context = arg; fn(e) }, "mine"
	}}
	_, _, _, _, fire := tree(t, l, func(e ci.Event) { got = e }, "theirs")
	fire(ci.Event{Type: ci.EventPortActive, Port: 2})
	assert.Equal(t, ci.Event{Type: ci.EventPortActive, Port: 2, Vendor: 1, Context: "theirs"}, got)

	ctrl := gomock.NewController(t)
	h := cimock.NewMockHCA(ctrl)
	h.EXPECT().OpenCA(ci.GUID(1), gomock.Nil(), nil).Return(nil, ci.InvalidParameter)
	_, err := ciwrap.Wrap(h, l).OpenCA(1, nil, nil)
	assert.ErrorIs(t, err, ci.InvalidParameter, "a nil callback is the driver's to refuse")
}

// Any stack of layers over any subset of kinds is transparent to ci.As and ci.Same, and calls each layer once, the
// newest first.
func TestStackOfLayers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		ctrl := gomock.NewController(t)
		bare, p := cimock.NewMockQP(ctrl), cimock.NewMockPD(ctrl)
		c, h := cimock.NewMockCA(ctrl), cimock.NewMockHCA(ctrl)
		h.EXPECT().OpenCA(gomock.Any(), gomock.Any(), gomock.Any()).Return(c, nil)
		c.EXPECT().AllocatePD(gomock.Any()).Return(p, nil)
		p.EXPECT().CreateQP(gomock.Any()).Return(bare, nil)
		bare.EXPECT().PostSend(gomock.Any()).Return(0, nil)
		var order, want []int
		var hca ci.HCA = h
		for i := range rapid.IntRange(0, 6).Draw(rt, "layers") {
			var l ciwrap.Layer
			if rapid.Bool().Draw(rt, "QP") {
				l.QP = func(in ci.QP, _ ci.QPCreate) ci.QP {
					return &tap{QP: ciwrap.QP{QP: in}, post: func() { order = append(order, i) }}
				}
				want = append([]int{i}, want...)
			}
			if rapid.Bool().Draw(rt, "PD") {
				l.PD = func(in ci.PD, _ ci.PDType) ci.PD { return ciwrap.PD{PD: in} }
			}
			if rapid.Bool().Draw(rt, "Mcast") {
				l.Mcast = func(in ci.Mcast, _ ci.McastAttach) ci.Mcast { return ciwrap.Mcast{Mcast: in} }
			}
			hca = ciwrap.Wrap(hca, l)
		}
		ca, err := hca.OpenCA(1, func(ci.Event) {}, nil)
		require.NoError(rt, err)
		pd, err := ca.AllocatePD(ci.PDNormal)
		require.NoError(rt, err)
		qp, err := pd.CreateQP(ci.QPCreate{})
		require.NoError(rt, err)
		_, err = qp.PostSend(nil)
		require.NoError(rt, err)
		assert.Equal(rt, want, order)
		assert.True(rt, ci.Same(qp, bare))
		got, ok := ci.As[*cimock.MockQP](qp)
		assert.True(rt, ok)
		assert.Same(rt, bare, got)
	})
}

type tap struct {
	ciwrap.QP
	post func()
}

func (q *tap) PostSend(wrs []ci.SendWR) (int, error) { q.post(); return q.QP.PostSend(wrs) }
