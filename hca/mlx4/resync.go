package mlx4

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// The adapter loses events when an event queue is full. What they would have reported is read from the adapter then:
// each object has a note of what its consumer waits for. No event is reported twice, except for those of ports.

// An awaited event is one that a consumer waits for.
type awaited struct{ is atomic.Bool }

// expect records that the event will come.
func (a *awaited) expect() { a.is.Store(true) }

// forget records that the event will not come.
func (a *awaited) forget() { a.is.Store(false) }

// take reports whether the event was awaited, which it is not any more.
func (a *awaited) take() bool { return a.is.CompareAndSwap(true, false) }

// resync reports what a port has changed to. Other changes than that of the state are reported in any case.
func (p *port) resync() {
	p.forget()
	a, err := p.query(p.hca.ctx)
	if err != nil {
		return // the next query fails, too
	}
	tell := func(t ci.EventType) { p.hca.notifyCA(ci.Event{Type: t, Port: p.num}) }
	isActive := a.State == ci.PortActive
	switch was := p.isActive.Swap(isActive); {
	case was && !isActive:
		tell(ci.EventPortDown)
		p.wentDown()
	case isActive && !was:
		tell(ci.EventPortActive)
	}
	if !p.isEthernet() {
		for _, t := range []ci.EventType{ci.EventLIDChange, ci.EventSMChange, ci.EventGIDChange, ci.EventPKeyChange} {
			tell(t)
		}
	}
}

// resync reports the events of a QP that its state shows.
func (q *qp) resync() {
	q.modify.Lock()
	defer q.modify.Unlock()
	if !q.refs.Alive() || q.attr.State == ci.QPReset {
		return
	}
	ctx, err := q.query()
	if err != nil {
		return // the adapter has failed, or the next query fails, too
	}
	tell := func(t ci.EventType) { q.notify.Event(ci.Event{Type: t}) }
	state := states[prm.QPCState.Get(ctx)&7]
	if state == ci.QPSQD && q.drained.take() {
		tell(ci.EventSQDrained)
	}
	if prm.QPCMigration.Get(ctx) == prm.MigrationMigrated && q.migrated.take() {
		tell(ci.EventQPAPM)
	}
	if state == ci.QPError && q.srq != nil && q.lastWQE.take() {
		tell(ci.EventLastWQE)
	}
}

// note records that an event has come.
func (q *qp) note(e fw.Event) {
	switch uint8(e.Type) {
	case prm.EventSQDrained:
		q.drained.forget()
	case prm.EventPathMigrated, prm.EventPathMigFailed:
		q.migrated.forget()
	case prm.EventSRQLastWQE:
		q.lastWQE.forget()
	}
}

// resync reports an error of a CQ.
func (q *cq) resync() {
	if !q.refs.Use() {
		return
	}
	defer q.refs.Done()
	var b [0x40]byte
	if q.hca.cmd(prm.CmdQueryCQ, fw.Args{Out: b[:], Modifier: q.num}) != nil {
		return // the adapter has failed
	}
	if s := prm.CQCStatus.Get(b[:]); s != 0 && q.failure.take() {
		q.notify.Event(ci.Event{Type: ci.EventCQError})
	}
}

// resync reports that the limit of an SRQ was reached: the adapter has no limit any more.
func (s *srq) resync() {
	if a, err := s.Query(); err == nil && a.Limit == 0 && s.limitEvent.take() {
		s.notify.Event(ci.Event{Type: ci.EventSRQLimit})
	}
}
