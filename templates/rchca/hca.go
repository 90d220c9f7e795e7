package rchca

import (
	"fmt"
	"slices"
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/templates/rchca/userabi" // user.go
)

// The compiler reports mandatory verbs that are missing.
var (
	_ ci.HCA = (*HCA)(nil)
	_ ci.CA  = (*ca)(nil)
	_ ci.PD  = (*pd)(nil)
	_ ci.CQ  = (*cq)(nil)
	_ ci.QP  = (*qp)(nil)
	_ ci.MR  = (*mr)(nil)
)

// driverID identifies the driver; it is the same for all of its adapters. Replace it by your own.
const driverID ci.GUID = 0x02ddcd5443484341

// An HCA is an adapter. It implements ci.HCA.
type HCA struct {
	ci.UnimplementedHCA
	dev  Device
	info Info

	pds, cqs, qps, mrs driver.Pool

	avs    driver.Pool // ud.go
	srqs   driver.Pool // srq.go
	mws    driver.Pool // mw.go
	subnet *subnet     // sma.go

	mu     sync.RWMutex // guards the fields below; held only for lookups
	open   *ca
	closed bool
	qp     map[ci.QPN]*qp
	cq     map[CQN]*cq
	srq    map[SRQN]*srq // srq.go
}

// New starts the hardware. Register the result with ci.Registrar.Register, which calls back before it returns.
func New(dev Device) (*HCA, error) {
	i := dev.Info()
	h := &HCA{dev: dev, info: i, qp: make(map[ci.QPN]*qp), cq: make(map[CQN]*cq)}
	h.pds.Max, h.cqs.Max = i.MaxPDs, i.MaxCQs
	h.qps.Max, h.mrs.Max = i.MaxQPs, i.MaxMRs
	h.avs.Max = i.MaxAVs                               // ud.go
	h.srqs.Max, h.srq = i.MaxSRQs, make(map[SRQN]*srq) // srq.go
	h.mws.Max = i.MaxMWs                               // mw.go
	var err error
	if h.subnet, err = newSubnet(h); err != nil { // sma.go
		return nil, fmt.Errorf("rchca: port of adapter %v: %w", i.GUID, err)
	}
	if err = dev.Start((*interrupts)(h)); err != nil {
		return nil, fmt.Errorf("rchca: start of adapter %v: %w", i.GUID, err)
	}
	return h, nil
}

// Close stops the hardware. It is idempotent. Status: ResourceBusy (the CA is open [SAS-2.2-07]).
func (h *HCA) Close() error {
	h.mu.Lock()
	was, isOpen := h.closed, h.open != nil
	h.closed = was || !isOpen
	h.mu.Unlock()
	switch {
	case was:
		return nil
	case isOpen:
		return fail("HCA.Close", ci.ResourceBusy, "the CA is open")
	}
	h.subnet.agent.Close() // sma.go
	return h.dev.Close()
}

// Live returns the number of existing objects of each kind, for the leak check of the certifier.
func (h *HCA) Live() map[string]int {
	n := map[string]int{"pd": h.pds.Count(), "cq": h.cqs.Count(), "qp": h.qps.Count(), "mr": h.mrs.Count()}
	n["av"] = h.avs.Count()   // ud.go
	n["srq"] = h.srqs.Count() // srq.go
	n["mw"] = h.mws.Count()   // mw.go
	return n
}

// port returns a copy of the attributes of the port.
func (h *HCA) port() ci.PortAttr {
	if s := h.subnet; s != nil { // sma.go
		return s.PortAttr(1)
	}
	p := h.info.Port
	p.Num, p.GIDs, p.PKeys = 1, slices.Clone(p.GIDs), slices.Clone(p.PKeys)
	return p
}

// Info returns the identity of the adapter, which is constant.
func (h *HCA) Info() ci.HCAInfo {
	return ci.HCAInfo{GUID: h.info.GUID, DriverID: driverID, VendorID: h.info.VendorID, DeviceID: h.info.DeviceID,
		Revision: h.info.Revision, Version: ci.InterfaceVersion,
		Library: userabi.LibraryName, // user.go
	}
}

// OpenCA opens the adapter. Status: InvalidParameter (a zero GUID, a nil callback), NotFound, ResourceBusy (already
// open), InvalidState (Close was called).
func (h *HCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	const verb = "HCA.OpenCA"
	switch {
	case guid == 0 || onEvent == nil:
		return nil, fail(verb, ci.InvalidParameter, "a GUID and a callback are needed")
	case guid != h.info.GUID:
		return nil, fail(verb, ci.NotFound, "")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, fail(verb, ci.InvalidState, "the adapter is closed")
	case h.open != nil:
		return nil, fail(verb, ci.ResourceBusy, "already open")
	}
	h.open = &ca{hca: h, notify: driver.Notifier{OnEvent: onEvent, Context: arg}}
	return h.open, nil
}

// interrupts is the Handler of the HCA.
type interrupts HCA

func (h *interrupts) Completion(n CQN) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if q := h.cq[n]; q != nil {
		q.notify.Completion()
	}
}

func (h *interrupts) CQError(n CQN) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if q := h.cq[n]; q != nil {
		q.notify.Event(ci.Event{Type: ci.EventCQError})
	}
}

func (h *interrupts) QPEvent(n ci.QPN, t ci.EventType) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if q := h.qp[n]; q != nil {
		q.notify.Event(ci.Event{Type: t})
	}
}

func (h *interrupts) PortEvent(t ci.EventType) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.open != nil {
		h.open.notify.Event(ci.Event{Type: t, Port: 1})
	}
}
