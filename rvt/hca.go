package rvt

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// HCA is an adapter on this transport. It implements ci.HCA.
type HCA struct {
	ci.UnimplementedHCA
	device
	open    atomic.Pointer[CA] // nil: not open
	opening sync.Mutex         // orders OpenCA, Close and Unplug
	closed  bool               // opening is held
	face    ci.HCA             // as consumers see it, through Config.Override

	undelivered undelivered
}

// New creates an HCA and starts its ports. It takes over cfg.Ports, and closes them when it fails. Errors: a
// *SupportError when cfg claims a capability that it cannot have, InvalidGUID when cfg has no GUID, and
// InsufficientResources with the error of a port's Start.
func New(cfg Config) (*HCA, error) {
	h, err := start(cfg)
	if err != nil {
		closePorts(cfg.Ports)
	}
	return h, err
}

// start is New without the closing of ports.
func start(cfg Config) (*HCA, error) {
	if err := cfg.checkSupport(); err != nil {
		return nil, err
	}
	if cfg.Info.GUID == 0 {
		return nil, failf("rvt.New", ci.InvalidGUID, "Config.Info.GUID is zero")
	}
	h := newHCA(cfg)
	for _, p := range h.ports {
		if err := p.Start(h.portContext(p)); err != nil {
			return nil, failErr("rvt.New", ci.InsufficientResources, fmt.Errorf("port %d: %w", p.num, err))
		}
		p.refresh()
	}
	return h, nil
}

// newHCA creates an HCA whose ports have not been started.
func newHCA(cfg Config) *HCA {
	h := &HCA{}
	h.device.init(cfg)
	h.overrun = h.failUsers
	h.face = ciwrap.Wrap(inner{h}, cfg.Override)
	h.qps.management = make([][2]atomic.Pointer[QP], len(cfg.Ports))
	for i, p := range cfg.Ports {
		h.ports = append(h.ports, newPort(&h.device, uint8(i+1), p))
		h.ports[i].raise = h.raise
	}
	return h
}

// raise raises an event of the adapter or a port for the open CA.
func (h *HCA) raise(e ci.Event) {
	if ca := h.open.Load(); ca != nil {
		ca.handlers.Event(e)
	}
}

// failUsers takes the QPs that use a CQ to Error, after completions were lost (IBTA volume 1, 10.2.4.4).
func (h *HCA) failUsers(cq *CQ) {
	h.qps.each(func(q *QP) {
		if q.sendCQ == cq || q.recvCQ == cq {
			q.fatal()
		}
	})
}

// inner is the HCA below the overrides. ci.As finds the *HCA behind it.
type inner struct{ *HCA }

func (i inner) Unwrap() any { return i.HCA }

func (i inner) OpenCA(g ci.GUID, f func(ci.Event), arg any) (ci.CA, error) {
	return i.openCA(g, f, arg)
}

// Info returns the identity of the adapter.
func (h *HCA) Info() ci.HCAInfo { return h.cfg.Info }

// Attr returns the attributes without the ports. It may be called when the adapter is not open.
func (h *HCA) Attr() ci.CAAttr { return h.attr }

// OpenCA opens the adapter. The CA is wrapped by Config.Override.
func (h *HCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	return h.face.OpenCA(guid, onEvent, arg)
}

func (h *HCA) openCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	const verb = "HCA.OpenCA"
	switch {
	case guid == 0:
		return nil, failf(verb, ci.InvalidParameter, "the GUID is zero")
	case onEvent == nil:
		return nil, failf(verb, ci.InvalidParameter, "onEvent is nil")
	case guid != h.cfg.Info.GUID:
		return nil, fail(verb, ci.NotFound)
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	switch {
	case h.closed:
		return nil, failf(verb, ci.InvalidState, "the HCA has been closed")
	case h.open.Load() != nil:
		return nil, failf(verb, ci.ResourceBusy, "one open at a time")
	}
	ca := &CA{hca: h}
	ca.handlers.Open(onEvent, arg)
	h.open.Store(ca)
	for _, p := range h.ports {
		p.reopen()
	}
	return ca, nil
}

// Close stops the ports. It returns an error with the status ResourceBusy, and does nothing, while the CA is open
// [SAS-2.2-07]: close the CA, or deregister the HCA from its access layer, first; Unplug does not wait for that. A
// second Close does nothing and returns nil. Context: thread.
func (h *HCA) Close() error { return h.stop(false) }

// Unplug stops the ports like the removal of a card, whether the CA is open or not. Verbs on the objects of the
// consumer then fail with InvalidState, and requests complete with errors. Close has nothing left to do. Context:
// thread.
func (h *HCA) Unplug() error { return h.stop(true) }

// stop stops the ports once.
func (h *HCA) stop(evenOpen bool) error {
	h.opening.Lock()
	was, isOpen := h.closed, h.open.Load() != nil
	h.closed = was || !isOpen || evenOpen
	h.opening.Unlock()
	switch {
	case was:
		return nil
	case isOpen && !evenOpen:
		return failf("HCA.Close", ci.ResourceBusy, "the CA is open (close it first, or call Unplug)")
	}
	var errs []error
	for _, p := range h.ports {
		errs = append(errs, p.Port.Close())
	}
	h.wheel.Stop()
	h.suspects.close()
	if !isOpen { // else callbacks of the consumer may run for as long as they please
		for i := range h.vectors {
			h.vectors[i].Wait()
		}
	}
	for _, p := range h.ports {
		p.turns.stop()
	}
	return errors.Join(errs...)
}

// Progress receives on the ports once, without blocking, and gives a turn to QPs that wait for one, as a Poll of an
// empty CQ does. It reports whether there was anything to do. A driver calls it for consumers that poll memory.
func (h *HCA) Progress() bool { return h.drive() }

// Tend reports that a goroutine calls Progress again and again from now on, until it calls Untend. Meanwhile a QP that
// waits for Progress wakes no other goroutine.
func (h *HCA) Tend() { h.tend(1) }

// Untend ends what Tend began. Each call of Tend has one.
func (h *HCA) Untend() { h.tend(-1) }

// Attend makes the ports receive by themselves, since no goroutine calls Progress for a while.
func (h *HCA) Attend() { h.attend() }

// Counters returns a snapshot of the counters of the HCA by name: the engine's, for all ports together, and those of
// the ports (CounterPort).
func (h *HCA) Counters() map[string]uint64 {
	m := h.engineCounters()
	for _, p := range h.ports {
		addCounters(m, p.Port)
	}
	return m
}

// engineCounters returns a snapshot of the engine's counters.
func (h *HCA) engineCounters() map[string]uint64 {
	m := h.count.snapshot()
	for _, p := range h.ports {
		m[CountRecv.String()] += p.traffic.rcvPkts.Load()
		m[CountSent.String()] += p.traffic.xmitPkts.Load()
	}
	addLinuxNames(m)
	return m
}

// Live returns the number of objects that exist, by kind, for tests of leaks.
func (h *HCA) Live() map[string]int {
	m := make(map[string]int, numKinds)
	for k := range h.limit {
		m[kindNames[k]] = int(h.limit[k].Load())
	}
	return m
}

// QueueMemory returns the bytes that the queues of the adapter occupy and the limit, Config.QueueMemory.
func (h *HCA) QueueMemory() (used, limit int64) { return h.queues.used.Load(), h.queues.limit }

// PortCount returns the counts of a port, which is counted from 1. They are 0 for a port that does not exist.
func (h *HCA) PortCount(num uint8) PortCount {
	p := h.port(num)
	if p == nil {
		return PortCount{}
	}
	c := &p.traffic
	return PortCount{XmitPkts: c.xmitPkts.Load(), RcvPkts: c.rcvPkts.Load(),
		XmitBytes: c.xmitBytes.Load(), RcvBytes: c.rcvBytes.Load(),
		RcvErrors: c.rcvErrors.Load(), XmitDiscards: c.xmitDiscards.Load()}
}

// QPCounters returns the counters of a QP and whether the QP exists.
func (h *HCA) QPCounters(num ci.QPN) (QPCounters, bool) {
	q := h.qps.byNum.get(uint32(num))
	if q == nil {
		return QPCounters{}, false
	}
	q.mu.Lock()
	defer q.unlock()
	return q.origin.count, true
}
