//go:build linux && (amd64 || arm64)

package verbs

import (
	"ciddk/ci"
	"ciddk/hca/verbs/internal/ibv"
)

// readCompletion reads the event of a CQ. The CQ is looked up before the acknowledgement, for which its Destroy waits.
func (h *HCA) readCompletion() error {
	e, err := h.dev.CQEvent(h.channel)
	if err != nil {
		return err
	}
	h.mu.RLock()
	q := h.cq[e.Ptr()]
	h.mu.RUnlock()
	h.dev.AckCQEvent(e)
	if q != nil {
		q.notify.Completion()
	}
	return nil
}

// The events of objects and of ports, in the order of ibv_event_type. 0: package ci has no such event.
var (
	cqEvents  = map[int32]ci.EventType{ibv.EventCQErr: ci.EventCQError}
	srqEvents = map[int32]ci.EventType{ibv.EventSRQErr: ci.EventSRQFatal, ibv.EventSRQLimit: ci.EventSRQLimit}
	qpEvents  = map[int32]ci.EventType{
		ibv.EventQPFatal: ci.EventQPFatal, ibv.EventQPReqErr: ci.EventWQReqError,
		ibv.EventQPAccessErr: ci.EventWQAccessError, ibv.EventCommEst: ci.EventQPComm,
		ibv.EventSQDrained: ci.EventSQDrained, ibv.EventPathMig: ci.EventQPAPM,
		ibv.EventPathMigErr: ci.EventQPAPMError, ibv.EventLastWQE: ci.EventLastWQE,
	}
	portEvents = map[int32]ci.EventType{
		ibv.EventPortActive: ci.EventPortActive, ibv.EventPortErr: ci.EventPortDown,
		ibv.EventLIDChange: ci.EventLIDChange, ibv.EventPKeyChange: ci.EventPKeyChange,
		ibv.EventSMChange: ci.EventSMChange, ibv.EventReregister: ci.EventReregister,
		ibv.EventGIDChange: ci.EventGIDChange,
	}
)

// readAsync reads an asynchronous event, and acknowledges it after its object was looked up.
func (h *HCA) readAsync() error {
	e, err := h.dev.AsyncEvent()
	if err != nil {
		return err
	}
	defer h.dev.Ack(e)
	h.mu.RLock()
	defer h.mu.RUnlock()
	if t, ok := cqEvents[e.Type]; ok {
		if q := h.cq[e.Element]; q != nil {
			q.notify.Event(ci.Event{Type: t})
		}
	} else if t, ok := srqEvents[e.Type]; ok {
		if s := h.srq[e.Element]; s != nil {
			s.notify.Event(ci.Event{Type: t})
		}
	} else if t, ok := qpEvents[e.Type]; ok {
		if q := h.qp[e.Element]; q != nil {
			q.notify.Event(ci.Event{Type: t})
		}
	} else if h.open == nil {
		return nil
	} else if t, ok := portEvents[e.Type]; ok {
		h.open.handlers.Event(ci.Event{Type: t, Port: uint8(e.Element)})
	} else if e.Type == ibv.EventDeviceFatal {
		h.open.handlers.Event(ci.Event{Type: ci.EventLocalFatal})
	}
	return nil
}
