package mutant

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/mutant/tap"
)

// Reread returns mutants that earlier versions of the cases accepted: each is what a wrong driver could do to pass.
func Reread() []Mutant {
	one := func(name, breaks, id, does string, needs ci.Caps, l ciwrap.Layer) Mutant {
		return Of("reread."+name, breaks, does, tap.Layer(l)).By(id).Needing(needs)
	}
	return []Mutant{
		Of("reread.first-ca", "SAS-2.1-01", "the PDs of a second CA belong to the first one that was opened",
			nil).By("pd.innermost").Changing(pdsOfFirstCA),
		one("read-as-write", "SAS-0-01", "contract.meanings", "RDMA READ is executed as RDMA WRITE", 0, ciwrap.Layer{
			QP: func(q ci.QP, c ci.QPCreate) ci.QP {
				return tap.SendsOf(q, c, func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
					for i := range wrs {
						if wrs[i].Op == ci.OpRead {
							wrs[i].Op = ci.OpWrite
						}
					}
					return wrs
				})
			}}),
		one("no-immediate", "SAS-2.2-01", "contract.mandatory", "immediate data is not implemented", 0, ciwrap.Layer{
			QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return withoutImmediate{ciwrap.QP{QP: q}} }}),
		one("offended-cq", "SAS-2.3-26", "order.cq.send", "a CQ whose Destroy was rejected has no more completions", 0,
			ciwrap.Layer{CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ { return &offendedCQ{CQ: ciwrap.CQ{CQ: q}} }}),
		one("offended-srq", "SAS-2.3-26", "order.srq.qp", "an SRQ whose Destroy was rejected accepts no more receives",
			ci.CapSRQ, ciwrap.Layer{SRQ: func(s ci.SRQ, _ ci.SRQCreate) ci.SRQ {
				return &offendedSRQ{SRQ: ciwrap.SRQ{SRQ: s}}
			}}),
		receiveKeepsMR(),
		one("late-second-callback", "CI-DestroyCQ-03", "cq.destroy.quiet",
			"all callbacks of a CQ but the first run later, on another goroutine", 0,
			ciwrap.Layer{CQCreate: lateSecond}),
		one("moderation-ignored-shortest", "CI-ModifyCQ-01", "cq.moderation",
			"Modify has periods of up to 10 ms, and moderates nothing", ci.CapModeration,
			ciwrap.Layer{CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ {
				return unmoderated{CQ: ciwrap.CQ{CQ: q}, most: 10 * time.Millisecond}
			}}),
		initEventMutant("init-event-port", "the event of a port that reaches Init names another port",
			func(e ci.Event) []ci.Event { e.Port++; return []ci.Event{e} }),
		initEventMutant("init-event-twice", "a port that reaches Init raises its event twice",
			func(e ci.Event) []ci.Event { return []ci.Event{e, e} }),
	}
}

// initEventMutant changes the event of a port that reaches Init.
func initEventMutant(name, does string, change func(ci.Event) []ci.Event) Mutant {
	return Of("reread."+name, "SAS-2.1-20", does,
		tap.Layer(ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
			list := []ci.Event{e}
			if e.Type == ci.EventPortInit {
				list = change(e)
			}
			for _, e := range list {
				deliver(e)
			}
		}})).By("mad.set.state-event").Needing(ci.CapLocalMAD).On("direct")
}

// pdsOfFirstCA makes each CA of a target allocate its PDs from the CA that was opened first and is still open.
func pdsOfFirstCA(t *validate.Target) {
	var mu sync.Mutex
	var open []ci.CA
	for i, h := range t.HCAs {
		t.HCAs[i] = ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA {
			mu.Lock()
			defer mu.Unlock()
			open = append(open, c)
			return guest{ciwrap.CA{CA: c}, &mu, &open}
		}})
	}
}

type guest struct {
	ciwrap.CA
	mu   *sync.Mutex
	open *[]ci.CA
}

func (g guest) AllocatePD(typ ci.PDType) (ci.PD, error) {
	g.mu.Lock()
	first := (*g.open)[0]
	g.mu.Unlock()
	return first.AllocatePD(typ)
}

func (g guest) Destroy() error {
	err := g.CA.Destroy()
	if err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		*g.open = slices.DeleteFunc(*g.open, func(c ci.CA) bool { return c == g.CA.CA })
	}
	return err
}

// withoutImmediate rejects immediate data.
type withoutImmediate struct{ ciwrap.QP }

func (q withoutImmediate) PostSend(wrs []ci.SendWR) (int, error) {
	for i, w := range wrs {
		if w.Flags&ci.SendImmediate != 0 {
			n, err := q.QP.PostSend(wrs[:i])
			if err == nil {
				err = &ci.Error{Verb: "QP.PostSend", Status: ci.Unsupported}
			}
			return n, err
		}
	}
	return q.QP.PostSend(wrs)
}

// offendedCQ is a CQ that stays empty after a rejected Destroy.
type offendedCQ struct {
	ciwrap.CQ
	refused atomic.Bool
}

func (q *offendedCQ) Destroy() error {
	err := q.CQ.Destroy()
	if ci.StatusOf(err) == ci.ResourceBusy {
		q.refused.Store(true)
	}
	return err
}

func (q *offendedCQ) Poll(wc []ci.WC) (int, error) {
	if q.refused.Load() {
		return 0, nil
	}
	return q.CQ.Poll(wc)
}

// offendedSRQ is an SRQ that accepts nothing after a rejected Destroy.
type offendedSRQ struct {
	ciwrap.SRQ
	refused atomic.Bool
}

func (s *offendedSRQ) Destroy() error {
	err := s.SRQ.Destroy()
	if ci.StatusOf(err) == ci.ResourceBusy {
		s.refused.Store(true)
	}
	return err
}

func (s *offendedSRQ) PostRecv(wrs []ci.RecvWR) (int, error) {
	if s.refused.Load() {
		return 0, &ci.Error{Verb: "SRQ.PostRecv", Status: ci.InvalidSRQHandle}
	}
	return s.SRQ.PostRecv(wrs)
}

// receiveKeepsMR returns a driver whose regions stay in use after a receive.
func receiveKeepsMR() Mutant {
	return Of("reread.receive-keeps-mr", "SAS-2.3-24",
		"a region into which something was received rejects its first Destroy", func(h ci.HCA) ci.HCA {
			used := &sync.Map{}
			return tap.Layer(ciwrap.Layer{
				MR: func(m ci.MR, _ ciwrap.MROrigin) ci.MR { return keptMR{ciwrap.MR{MR: m}, used} },
				QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
					return tap.RecvOf(q, func(q ci.QP, wrs []ci.RecvWR) (int, error) {
						for _, w := range wrs {
							for _, g := range w.SGL {
								used.Store(g.LKey, true)
							}
						}
						return q.PostRecv(wrs)
					})
				}})(h)
		}).By("mr.destroy.completed")
}

type keptMR struct {
	ciwrap.MR
	used *sync.Map // LKeys of receives
}

func (m keptMR) Destroy() error {
	if _, was := m.used.LoadAndDelete(m.Region().LKey); was {
		return &ci.Error{Verb: "MR.Destroy", Status: ci.ResourceBusy}
	}
	return m.MR.Destroy()
}

// lateSecond delays all callbacks but the first.
func lateSecond(c ci.CQCreate) ci.CQCreate {
	fn := c.OnCompletion
	if fn == nil {
		return c
	}
	var n atomic.Int32
	c.OnCompletion = func(arg any) {
		if n.Add(1) == 1 {
			fn(arg)
			return
		}
		time.AfterFunc(15*time.Millisecond, func() { fn(arg) })
	}
	return c
}
