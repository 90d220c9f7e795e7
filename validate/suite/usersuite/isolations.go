package usersuite

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Processes against each other. (SAS 2.4.)
var isolations = area()

var _ = isolations.Add("user.isolation.events",
	"completion and asynchronous events of two processes reach their own contexts", func(t *validate.T) {
		s := newStage(t)
		const rounds = 5
		type process struct {
			ca     *kit.CA
			cq     ci.CQ
			qp     *kit.QP
			buf    *kit.Buf
			called chan any
			wrong  atomic.Int32
		}
		list := make([]*process, 3)
		for i := range list {
			p := &process{ca: s.app().open(), called: make(chan any, 8)}
			list[i] = p
			pd := p.ca.PD()
			cq := p.ca.CQWith(pd, ci.CQCreate{Size: 16, Context: p, OnCompletion: func(arg any) {
				if arg != p {
					p.wrong.Add(1)
				}
				p.called <- arg
			}})
			p.cq, p.qp = cq.CQ, p.ca.QP(pd, cq, cq, kit.Depth(4), kit.SGEs(1))
			p.buf = p.ca.Buf(pd, 64, kit.AllAccess)
		}
		for range rounds {
			for i, p := range list {
				kit.OK(t, p.cq.Notify(ci.NotifyNext), "CQ.Notify")
				kit.OK(t, p.qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: p.ca.Port.Num}),
					"QP.Modify to Init")
				_, err := p.qp.PostRecv([]ci.RecvWR{{ID: uint64(i), SGL: p.buf.SGL(0, 8)}})
				kit.OK(t, err, "QP.PostRecv")
				kit.OK(t, p.qp.Modify(ci.ToError()), "QP.Modify to Error, which flushes the receive")
				s.await("completion events of the process whose CQ has an entry", "one callback", func() string {
					if len(p.called) == 0 {
						return "none"
					}
					return ""
				})
				kit.Equal(t, "the context of the callback is the CQ's", <-p.called, any(p))
				for j, o := range list {
					kit.True(t, len(o.called) == 0, "completion events of the other processes", "none",
						"process %d has one",
						j)
				}
				var wc [4]ci.WC
				n, err := p.cq.Poll(wc[:])
				kit.OK(t, err, "CQ.Poll")
				kit.Equal(t, "completions", n, 1)
				kit.Equal(t, "WC.ID", wc[0].ID, uint64(i))
				kit.OK(t, p.qp.Modify(ci.ToReset()), "QP.Modify to Reset")
			}
		}
	}, req.SAS2_4_11)
