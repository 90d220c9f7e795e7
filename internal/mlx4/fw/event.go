package fw

import (
	"fmt"
	"sync"
	"sync/atomic"

	"ciddk/internal/mlx4/prm"
)

// An EventType is that of an event queue entry: prm.EventCompletion and so on.
type EventType uint8

// An Event is an entry of an event queue. Fields that the type does not have are 0.
type Event struct {
	Type     EventType
	Subtype  uint8
	Num      uint32 // QP, SRQ or CQ
	Syndrome uint8  // of a CQ error
	Port     uint8  // of a change of a port
	// Of prm.EventPortMgmtChange.
	Attr        uint32 // bits prm.MgmtSMLIDChanged and so on
	LID, SMLID  uint16
	SMSL        uint8
	GIDPrefix   uint64
	Block, Mask uint32 // entries of a table
}

// maxEventType bounds the types of events.
const maxEventType = 64

// asyncEvents are the types that go to the asynchronous EQ. Commands have an EQ of their own.
const asyncEvents = uint64(1<<prm.EventPathMigrated | 1<<prm.EventCommEstablished | 1<<prm.EventSQDrained |
	1<<prm.EventCQError | 1<<prm.EventWQCatastrophic | 1<<prm.EventEECatastrophic | 1<<prm.EventPathMigFailed |
	1<<prm.EventLocalCatas | 1<<prm.EventPortChange | 1<<prm.EventECC | 1<<prm.EventEQOverflow |
	1<<prm.EventWQInvalidReq | 1<<prm.EventWQAccess | 1<<prm.EventSRQCatastrophic | 1<<prm.EventSRQLastWQE |
	1<<prm.EventSRQLimit | 1<<prm.EventOpRequired | 1<<prm.EventFatalWarning | 1<<prm.EventPortMgmtChange)

// commandEvents are the types that go to the EQ of commands.
const commandEvents = uint64(1 << prm.EventCommand)

// maxQueued bounds the events that wait for the dispatcher. Events beyond it are lost, which the handlers learn by
// prm.EventEQOverflow.
const maxQueued = 1 << 14

// events passes events to the functions that handle them.
type events struct {
	mu       sync.Mutex
	queue    []queued
	hasLost  bool
	isLate   bool // a report of lost events waits
	isClosed bool
	wake     chan struct{} // of one element

	table [maxEventType]func(Event)
	cqs   handlers
	qps   handlers
	srqs  handlers

	count, bad, overruns atomic.Uint64
}

// queued is an event that waits for the dispatcher, and the handlers of its object.
type queued struct {
	event Event
	of    *handlers // nil: the table of types
}

// handlers has the functions of objects by number.
type handlers struct {
	mu sync.RWMutex
	m  map[uint32]*handler
}

type handler struct {
	completion func()
	event      func(Event)
	running    sync.WaitGroup
}

// add registers the functions of an object, whose number is below limit.
func (h *handlers) add(num, limit uint32, x *handler) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if num >= limit || h.m[num] != nil {
		return fmt.Errorf("%w: number %d of %d has functions, or does not exist", ErrInvalid, num, limit)
	}
	if h.m == nil {
		h.m = map[uint32]*handler{}
	}
	h.m[num] = x
	return nil
}

// remove removes the functions of an object, and waits until they do not run.
func (h *handlers) remove(num uint32) {
	h.mu.Lock()
	x := h.m[num]
	delete(h.m, num)
	h.mu.Unlock()
	if x != nil {
		x.running.Wait()
	}
}

// begin returns the functions of an object, whose end the caller reports by running.Done, or nil.
func (h *handlers) begin(num uint32) *handler {
	h.mu.RLock()
	defer h.mu.RUnlock()
	x := h.m[num]
	if x != nil {
		x.running.Add(1)
	}
	return x
}

// numbers returns the objects that have functions.
func (h *handlers) numbers() []uint32 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	list := make([]uint32, 0, len(h.m))
	for n := range h.m {
		list = append(list, n)
	}
	return list
}

// complete calls the completion function of a CQ. It reports whether there is one.
func (h *handlers) complete(num uint32) bool {
	x := h.begin(num)
	if x == nil {
		return false
	}
	defer x.running.Done()
	if x.completion != nil {
		x.completion()
	}
	return true
}

// handle calls the event function of an object. It reports whether there is one.
func (h *handlers) handle(e Event) bool {
	x := h.begin(e.Num)
	if x == nil {
		return false
	}
	defer x.running.Done()
	if x.event != nil {
		x.event(e)
	}
	return true
}

// OnEvent sets the function that handles events of the given types that belong to no QP, SRQ or CQ: those of ports and
// of the adapter. An event of type prm.EventEQOverflow reports that events were lost: the handler reads the state of
// ports and objects again. One of type prm.EventLocalCatas reports that the device has failed. nil removes a function.
func (d *Device) OnEvent(f func(Event), types ...EventType) {
	d.events.mu.Lock()
	defer d.events.mu.Unlock()
	for _, t := range types {
		if t < maxEventType {
			d.events.table[t] = f
		}
	}
}

// HandleCQ registers the functions of a CQ: completion for completion events, event for errors. Each may be nil. An
// event of type prm.EventEQOverflow reports that events of the CQ may have been lost. The same holds for QPs and SRQs.
// Errors: ErrInvalid for a number that the adapter does not have, or that has functions.
func (d *Device) HandleCQ(cqn uint32, completion func(), event func(Event)) error {
	return d.events.cqs.add(cqn, d.caps.NumCQs, &handler{completion: completion, event: event})
}

// HandleQP registers the function for the events of a QP. Errors: as HandleCQ.
func (d *Device) HandleQP(qpn uint32, event func(Event)) error {
	return d.events.qps.add(qpn, d.caps.NumQPs, &handler{event: event})
}

// HandleSRQ registers the function for the events of an SRQ. Errors: as HandleCQ.
func (d *Device) HandleSRQ(srqn uint32, event func(Event)) error {
	return d.events.srqs.add(srqn, d.caps.NumSRQs, &handler{event: event})
}

// ReleaseCQ removes the functions of a CQ, and waits until they do not run. They must not call it.
func (d *Device) ReleaseCQ(cqn uint32) { d.events.cqs.remove(cqn) }

// ReleaseQP removes the function of a QP, and waits until it does not run. It must not call it.
func (d *Device) ReleaseQP(qpn uint32) { d.events.qps.remove(qpn) }

// ReleaseSRQ removes the function of an SRQ, and waits until it does not run. It must not call it.
func (d *Device) ReleaseSRQ(srqn uint32) { d.events.srqs.remove(srqn) }

// dispatch handles an entry of an EQ, which the device may have written in any way.
func (d *Device) dispatch(b []byte) {
	v := &d.events
	v.count.Add(1)
	x := queued{event: Event{Type: EventType(prm.EQEType.Get(b)), Subtype: uint8(prm.EQESubtype.Get(b))}}
	ev := &x.event
	switch ev.Type {
	case prm.EventCompletion:
		if !v.cqs.complete(uint32(prm.EQECQN.Get(b))) {
			v.bad.Add(1)
		}
		return
	case prm.EventCommand:
		r := result{prm.Status(prm.EQEStatus.Get(b)), prm.EQEOutHigh.Get(b)<<32 | prm.EQEOutLow.Get(b)}
		if !d.commands.complete(uint16(prm.EQEToken.Get(b)), r) {
			v.bad.Add(1)
		}
		return
	case prm.EventCQError:
		x.of, ev.Num, ev.Syndrome = &v.cqs, uint32(prm.EQECQErrCQN.Get(b)), uint8(prm.EQECQErrSyn.Get(b))
	case prm.EventPathMigrated, prm.EventCommEstablished, prm.EventSQDrained, prm.EventWQCatastrophic,
		prm.EventPathMigFailed, prm.EventWQInvalidReq, prm.EventWQAccess, prm.EventSRQLastWQE:
		x.of, ev.Num = &v.qps, uint32(prm.EQEQPN.Get(b))
	case prm.EventSRQCatastrophic, prm.EventSRQLimit:
		x.of, ev.Num = &v.srqs, uint32(prm.EQESRQN.Get(b))
	case prm.EventPortChange:
		ev.Port = uint8(prm.EQEPort.Get(b))
	case prm.EventPortMgmtChange:
		ev.readManagement(b)
	case prm.EventEQOverflow:
		v.overruns.Add(1)
		d.wakeCompletions()
	case prm.EventLocalCatas:
		d.checkHealth()
		d.Fail(errCatastrophic)
		return
	case prm.EventECC, prm.EventOpRequired, prm.EventFatalWarning, prm.EventEECatastrophic:
	default:
		v.bad.Add(1)
		return
	}
	isPortEvent := ev.Type == prm.EventPortChange || ev.Type == prm.EventPortMgmtChange
	if isPortEvent && (ev.Port == 0 || ev.Port > d.caps.NumPorts) {
		v.bad.Add(1)
		return
	}
	v.put(x)
}

// readManagement reads the fields of a port management change.
func (e *Event) readManagement(b []byte) {
	e.Port = uint8(prm.EQEMgmtPort.Get(b))
	if e.Subtype != prm.MgmtPortInfo {
		e.Block, e.Mask = uint32(prm.EQEMgmtBlock.Get(b)), uint32(prm.EQEMgmtMask.Get(b))
		return
	}
	e.Attr = uint32(prm.EQEMgmtAttr.Get(b))
	e.LID, e.SMLID = uint16(prm.EQEMgmtLID.Get(b)), uint16(prm.EQEMgmtSMLID.Get(b))
	e.SMSL, e.GIDPrefix = uint8(prm.EQEMgmtSMSL.Get(b)), prm.EQEMgmtGID.Get(b)
}

// wakeCompletions calls the completion functions of all CQs, after events may have been lost.
func (d *Device) wakeCompletions() {
	for _, n := range d.events.cqs.numbers() {
		d.events.cqs.complete(n)
	}
}

// put queues an event for the dispatcher.
func (v *events) put(x queued) {
	v.mu.Lock()
	switch {
	case v.isClosed, v.isLate && x.event.Type == prm.EventEQOverflow:
	case len(v.queue) >= maxQueued:
		v.hasLost = true
	default:
		v.isLate = v.isLate || x.event.Type == prm.EventEQOverflow
		v.queue = append(v.queue, x)
	}
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// next returns the next event and the function of its type.
func (v *events) next() (x queued, f func(Event), ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.isClosed:
		return x, nil, false
	case len(v.queue) > 0:
		x = v.queue[0]
		v.queue = v.queue[1:]
		if x.event.Type == prm.EventEQOverflow {
			v.isLate = false
		}
	case v.hasLost:
		v.hasLost = false
		v.overruns.Add(1)
		x.event.Type = prm.EventEQOverflow
	default:
		return x, nil, false
	}
	return x, v.table[x.event.Type], true
}

// run is the goroutine of the dispatcher. It ends with stop.
func (v *events) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-v.wake:
		}
		for x, f, ok := v.next(); ok; x, f, ok = v.next() {
			switch {
			case x.of != nil:
				if !x.of.handle(x.event) {
					v.bad.Add(1)
				}
			case f != nil:
				f(x.event)
			}
			if x.event.Type == prm.EventEQOverflow {
				v.reportLoss()
			}
		}
	}
}

// reportLoss reports to all objects that events have been lost.
func (v *events) reportLoss() {
	for _, h := range []*handlers{&v.cqs, &v.qps, &v.srqs} {
		for _, n := range h.numbers() {
			h.handle(Event{Type: prm.EventEQOverflow, Num: n})
		}
	}
}

// close drops the events that wait.
func (v *events) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.isClosed, v.queue = true, nil
}
