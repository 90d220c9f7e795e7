package mutant

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// Migration returns mutants with faults in path migration that this end did not request.
func Migration() []Mutant {
	m := func(name, breaks, does string, l func() ciwrap.Layer) Mutant {
		return Of(name, breaks, does, func(h ci.HCA) ci.HCA { return ciwrap.Wrap(h, l()) }).Needing(ci.CapAPM)
	}
	return []Mutant{
		m("apm.error-silent", "CI-APM-08", "a rejected request to migrate causes no event", func() ciwrap.Layer {
			return ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
				if e.Type != ci.EventQPAPMError {
					deliver(e)
				}
			}}
		}),
		m("apm.error-migrated", "CI-APM-08", "a rejected request to migrate is reported as a migration",
			func() ciwrap.Layer {
				return ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
					if e.Type == ci.EventQPAPMError {
						e.Type = ci.EventQPAPM
					}
					deliver(e)
				}}
			}),
		m("apm.follows-all", "CI-APM-08", "every alternate path leads to the peer, whatever is loaded",
			func() ciwrap.Layer {
				return onModifyLayer(func(q *modifier, set ci.QPField, a ci.QPAttr) error {
					if set&ci.QPFieldAlternate != 0 {
						now, err := q.Query()
						if err != nil {
							return err
						}
						a.Alternate.AV = now.Primary.AV
					}
					return q.inner(set, a)
				})
			}),
		m("apm.automatic-silent", "CI-APM-09", "a migration that was not requested causes no event",
			func() ciwrap.Layer {
				var requested atomic.Int64
				l := onModifyLayer(func(q *modifier, set ci.QPField, a ci.QPAttr) error {
					if set&ci.QPFieldAPM != 0 && a.APM == ci.APMMigrated {
						requested.Add(1)
					}
					return q.inner(set, a)
				})
				l.Event = func(e ci.Event, deliver func(ci.Event)) {
					if e.Type != ci.EventQPAPM || requested.Add(-1) >= 0 {
						deliver(e)
					}
				}
				return l
			}),
		m("apm.automatic-stays", "CI-APM-09",
			"after a migration that was not requested, the QP has the timeout of the old path", func() ciwrap.Layer {
				return ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
					return queryer{
						ciwrap.QP{QP: q},
						func(a *ci.QPAttr) { a.Primary.AckTimeout = min(a.Primary.AckTimeout, 14) },
					}
				}}
			}),
		m("apm.automatic-fails", "CI-APM-09", "exhausted retries end a QP even if it is armed", func() ciwrap.Layer {
			return ciwrap.Layer{QPCreate: func(c ci.QPCreate) ci.QPCreate {
				c.Context = &brittle{ctx: c.Context}
				return c
			}, QP: func(q ci.QP, c ci.QPCreate) ci.QP {
				b := c.Context.(*brittle)
				b.qp.Store(&q)
				return &modifier{
					QP:  ciwrap.QP{QP: q},
					typ: c.Type,
					f: func(q *modifier, set ci.QPField, a ci.QPAttr) error {
						if set&ci.QPFieldAPM != 0 && a.APM == ci.APMMigrated {
							b.requested.Store(true)
						}
						return q.inner(set, a)
					},
				}
			}, Event: func(e ci.Event, deliver func(ci.Event)) {
				if b, ok := e.Context.(*brittle); ok {
					e.Context = b.ctx
					if q := b.qp.Load(); q != nil && e.Type == ci.EventQPAPM && !b.requested.Load() {
						_ = (*q).Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError})
					}
				}
				deliver(e)
			}, CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
				return editor{ciwrap.CQ{CQ: c}, func(w *ci.WC) {
					if b, ok := w.Context.(*brittle); ok {
						w.Context = b.ctx
					}
				}}
			}}
		}),
	}
}

// onModifyLayer returns a layer that calls f for each QP.Modify.
func onModifyLayer(f func(q *modifier, set ci.QPField, a ci.QPAttr) error) ciwrap.Layer {
	return ciwrap.Layer{
		QP: func(q ci.QP, c ci.QPCreate) ci.QP { return &modifier{QP: ciwrap.QP{QP: q}, typ: c.Type, f: f} }}
}

// brittle is the context of a QP that fails when it migrates without a request.
type brittle struct {
	ctx       any
	qp        atomic.Pointer[ci.QP]
	requested atomic.Bool
}
