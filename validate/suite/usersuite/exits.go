package usersuite

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The end of a process. (SAS 2.4.)
var exits = area()

var _ = exits.Add("user.exit.killed",
	"a process is killed, or ends, at every step of a create and under load", func(t *validate.T) {
		s := newStage(t)
		other := s.app().open()
		base := s.probe.living()
		for _, step := range clientSteps {
			t.Step("the process ends: %s", step)
			end := s.runClient(step)
			s.await("objects of a process that has ended: "+step, "none", func() string { return s.extra(base) })
			end()
			_, err := other.Query()
			kit.OK(t, err, "CA.Query of another process")
		}
	}, req.SAS2_4_15)

var _ = exits.Add("user.exit.traffic",
	"a connection is cut under traffic; its peer sees a transport error", func(t *validate.T) {
		s := newStage(t)
		gone, stays := s.app(), s.app()
		a, b := gone.open(), stays.open()
		if len(s.guids) > 1 {
			b = kit.OpenHCA(t, stays.hca(1))
		}
		contexts := s.probe.living()["UserCA"] - 1
		c := kit.Options(a, b, kit.Type(ci.RC), kit.AckTime(10), kit.Retry(1))
		p := &kit.Pair{A: a.End(c), B: b.End(c)}
		kit.Connect(p.A.QP, p.B.QP)
		p.A.Exchange(p.B, 3000)
		p.A.Recv(p.A.RecvWRs(8, 16)...)
		p.B.Recv(p.B.RecvWRs(8, 16)...)
		p.A.Send(p.A.SendWRs(8)...)
		gone.cut()
		s.await("clients after one was cut", "one", func() string {
			if len(s.core.Sessions()) > 1 {
				return "two"
			}
			return ""
		})
		live := s.probe.living()
		kit.Equal(t, "QPs at the driver", live["QP"], 1)
		kit.Equal(t, "contexts of processes at the driver", live["UserCA"], contexts)
		p.B.Send(p.B.SendWR(77, 0, 1))
		p.B.CQ.WaitStatus(77, ci.WCTimeoutRetryErr)
		p.B.WantState(ci.QPError)
	}, req.SAS2_4_15)

var _ = exits.Needing(validate.Needs{Caps: ci.CapUser}).Add("user.exit.context",
	"the driver's context of a process is destroyed once and without an error, after its objects", func(t *validate.T) {
		r := new(contexts)
		s := startStage(t, new(trace), nil, r.over)
		for range 3 {
			a := s.with()
			ca := a.open()
			pd := ca.PD()
			cq := ca.CQ(pd, 8)
			ca.QP(pd, cq, cq)
			ca.Buf(pd, 4096, kit.AllAccess)
			a.cut()
			s.gone("the daemon after an application was cut")
			r.want(t)
		}
	}, req.SAS2_4_15)

// contexts records the contexts of processes that a driver has.
type contexts struct {
	mu          sync.Mutex
	made, ended int
	wrong       []string
}

// over returns an adapter whose contexts are recorded.
func (r *contexts) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{UserCA: func(in ci.UserCA, _ ci.Process) ci.UserCA {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.made++
		return recordedContext{ciwrap.UserCA{UserCA: in}, r}
	}})
}

type recordedContext struct {
	ciwrap.UserCA
	r *contexts
}

func (c recordedContext) Destroy() error {
	err := c.UserCA.Destroy()
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	c.r.ended++
	if err != nil {
		c.r.wrong = append(c.r.wrong, kit.Describe(err))
	}
	return err
}

// want expects that all contexts were destroyed once, without an error.
func (r *contexts) want(t *validate.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kit.True(t, len(r.wrong) == 0, "UserCA.Destroy after the end of the process", "success, since it cannot fail", "%v",
		r.wrong)
	kit.Equal(t, "UserCA.Destroy, for each context", r.ended, r.made)
}
