package alsuite

import (
	"errors"
	"sync/atomic"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Asynchronous destroy. (SAS 2.1.)
var destroys = area()

func drain(t *validate.T, q ci.QP) {
	kit.OK(t, q.Modify(ci.QPFieldState|ci.QPFieldSQDEvent, ci.QPAttr{State: ci.QPSQD, SQDEvent: true}),
		"QP.Modify to SQD, with event")
}

// typed returns an object that package kit has created as its type in the access layer.
func typed[O any](t *validate.T, o any, what string) O {
	x, ok := ci.As[O](o)
	if !ok {
		t.Harness("%s of package kit is a %T and not an object of the access layer", what, o)
	}
	return x
}

var _ = destroys.Add("al.destroy.completion", "destroy QP and CQ inside the CQ's completion callback",
	destroyInCompletion, req.SAS2_1_29, req.SAS2_1_28)

func destroyInCompletion(t *validate.T) {
	s := registered(t)
	ca := s.open(s.client, 0)
	pd := typed[*accesslayer.PD](t, ca.PD(), "PD")
	done := make(chan error, 2)
	var started atomic.Bool
	var qp *accesslayer.QP
	cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{OnCompletion: func(cq *accesslayer.CQ) {
		inCallback(func() {
			if started.Swap(true) {
				return
			}
			for _, destroy := range []func(func(error)) error{qp.DestroyAsync, cq.DestroyAsync} {
				if err := destroy(func(err error) { done <- err }); err != nil {
					done <- err
				}
			}
		})
	}})
	kit.OK(t, err, "PD.NewCQ")
	qp, err = pd.NewQP(ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}, SendCQ: cq,
		RecvCQ: cq}, nil)
	kit.OK(t, err, "PD.NewQP")
	buf := ca.Buf(pd.CI(), 64, kit.AllAccess)
	kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify")
	kit.OK(t, qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: ca.Port.Num}), "QP.Modify to Init")
	_, err = qp.PostRecv([]ci.RecvWR{{ID: 1, SGL: buf.SGL(0, 8)}})
	kit.OK(t, err, "QP.PostRecv")
	kit.OK(t, qp.Modify(ci.ToError()), "QP.Modify to Error, which flushes the receive")
	for range 2 {
		kit.OK(t, expect(t, done, "callback of a DestroyAsync called in a completion callback"),
			"DestroyAsync in a completion callback")
	}
	kit.Equal(t, "destroys of the QP that reached the driver", s.rec[0].count("QP.Destroy"), 1)
	kit.Equal(t, "destroys of the CQ that reached the driver", s.rec[0].count("CQ.Destroy"), 1)
	s.rec[0].clean(t)
}

var _ = destroys.Add("al.destroy.event", "destroy a QP inside its event callback", func(t *validate.T) {
	s := registered(t)
	p := s.pair()
	pd := typed[*accesslayer.PD](t, p.A.PD, "PD")
	done := make(chan error, 2)
	c := p.A.QP.Create()
	c.OnEvent = nil
	qp, err := pd.NewQP(c, func(q *accesslayer.QP, _ ci.Event) {
		inCallback(func() {
			if err := q.DestroyAsync(func(err error) { done <- err }); err != nil {
				done <- err
			}
			if _, err := q.Query(); !errors.Is(err, accesslayer.ErrClosed) {
				done <- errors.New("QP.Query after DestroyAsync does not return ErrClosed")
			}
		})
	})
	kit.OK(t, err, "PD.NewQP")
	before := s.rec[0].count("QP.Destroy")
	p.A.QP.QP = kit.Own[ci.QP](t, qp, "QP")
	p.B.QP.To(ci.QPReset)
	kit.Connect(p.A.QP, p.B.QP)
	drain(t, qp)
	kit.OK(t, expect(t, done, "callback of a DestroyAsync called in an event callback"),
		"DestroyAsync in an event callback")
	none(t, done, "callbacks of DestroyAsync")
	kit.Equal(t, "destroys of the QP that reached the driver", s.rec[0].count("QP.Destroy")-before, 1)
	s.rec[0].clean(t)
}, req.SAS2_1_29)

var _ = destroys.Add("al.destroy.async", "asynchronous destroy while events are pending", func(t *validate.T) {
	s := registered(t)
	p := s.pair()
	for range 10 {
		var ended atomic.Bool
		late, done := make(chan ci.EventType, 16), make(chan error, 4)
		p.A.Config.OnEvent = func(e ci.Event) {
			if ended.Load() {
				late <- e.Type
			}
		}
		q := p.More(false)
		qp := typed[*accesslayer.QP](t, q.A.QP.QP, "QP")
		drain(t, qp)
		kit.OK(t, qp.DestroyAsync(func(err error) { ended.Store(true); done <- err }), "QP.DestroyAsync")
		err := qp.DestroyAsync(func(err error) {
			done <- errors.Join(errors.New("callback of the second DestroyAsync"), err)
		})
		kit.True(t, errors.Is(err, accesslayer.ErrClosed), "second QP.DestroyAsync", "ErrClosed", "%v", err)
		kit.OK(t, expect(t, done, "callback of DestroyAsync"), "QP.DestroyAsync")
		if len(late)+len(done) > 0 {
			t.Failf("callbacks after that of DestroyAsync", "none, since it is called once and last",
				"%d events, %d callbacks of DestroyAsync", len(late), len(done))
		}
		kit.Destroy(t, q.B.QP.QP, "QP of the peer")
	}
	s.rec[0].clean(t)
}, req.SAS2_1_31)

var _ = destroys.Add("al.destroy.tree", "asynchronous destroy of a PD with all its objects", func(t *validate.T) {
	s := registered(t)
	ca := s.open(s.client, 0)
	keep, pd := ca.PD(), ca.PD()
	cq := ca.CQ(pd, 8)
	foreign := ca.QP(keep, cq, cq) // a QP of another PD, which is destroyed with its CQ
	ca.QP(pd, cq, cq)
	ca.Buf(pd, 64, kit.AllAccess)
	if t.Claims().Has(ci.CapMW1) {
		mw, err := pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
		kit.OK(t, err, "PD.CreateMW")
		kit.Own(t, mw, "MW")
	}
	done := make(chan error, 2)
	kit.OK(t, typed[*accesslayer.PD](t, pd, "PD").DestroyAsync(func(err error) { done <- err }), "PD.DestroyAsync")
	kit.OK(t, expect(t, done, "callback of PD.DestroyAsync"), "PD.DestroyAsync with objects in the PD")
	none(t, done, "callbacks of PD.DestroyAsync")
	_, err := foreign.Query()
	kit.Want(t, err, "QP.Query of a QP whose CQ is destroyed", ci.InvalidQPHandle)
	kit.Destroy(t, keep, "the other PD")
	s.rec[0].clean(t)
	s.rec[0].empty(t)
}, req.SAS2_1_31, req.SAS2_1_29)
