package rchca

import (
	"fmt"
	"sync"

	"ciddk/ci"
)

// Mandatory verbs that are missing do not compile.
var (
	_ ci.HCA = (*HCA)(nil)
	_ ci.CA  = (*ca)(nil)
	_ ci.PD  = (*pd)(nil)
	_ ci.CQ  = (*cq)(nil)
	_ ci.QP  = (*qp)(nil)
	_ ci.MR  = (*mr)(nil)
)

// driverID is the same for every adapter of this driver: put your own.
const driverID ci.GUID = 0x02ddcd5443484341

// HCA is the adapter.
type HCA struct {
	ci.UnimplementedHCA
	dev  Device
	info Info

	pds, cqs, qps, mrs pool

	mu   sync.RWMutex // below; held for look-ups only
	open *ca
	qp   map[ci.QPN]*qp
	cq   map[CQN]*cq
}

// New brings up the hardware. Announce the result with ci.Registrar.Register, which calls back before it returns.
func New(dev Device) (*HCA, error) {
	i := dev.Info()
	h := &HCA{dev: dev, info: i, qp: make(map[ci.QPN]*qp), cq: make(map[CQN]*cq)}
	h.pds.max, h.cqs.max = i.MaxPDs, i.MaxCQs
	h.qps.max, h.mrs.max = i.MaxQPs, i.MaxMRs
	if err := dev.Start((*interrupts)(h)); err != nil {
		return nil, fmt.Errorf("rchca: start of adapter %v: %w", i.GUID, err)
	}
	return h, nil
}

// Close stops the hardware. The CA must be closed. Idempotent.
func (h *HCA) Close() error { return h.dev.Close() }

// Live counts living objects by kind, for the certifier's search for leaks.
func (h *HCA) Live() map[string]int {
	return map[string]int{"pd": h.pds.count(), "cq": h.cqs.count(), "qp": h.qps.count(), "mr": h.mrs.count()}
}

// Info is constant and needs no open.
func (h *HCA) Info() ci.HCAInfo {
	return ci.HCAInfo{GUID: h.info.GUID, DriverID: driverID, VendorID: h.info.VendorID, DeviceID: h.info.DeviceID, Revision: h.info.Revision,
		Version: ci.InterfaceVersion}
}

// OpenCA opens the adapter. Status: InvalidParameter (zero GUID, nil callback), NotFound, ResourceBusy (open already).
func (h *HCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), ctx any) (ci.CA, error) {
	const verb = "HCA.OpenCA"
	switch {
	case guid == 0 || onEvent == nil:
		return nil, fail(verb, ci.InvalidParameter, "a GUID and a callback are needed")
	case guid != h.info.GUID:
		return nil, fail(verb, ci.NotFound, "")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open != nil {
		return nil, fail(verb, ci.ResourceBusy, "open already")
	}
	h.open = &ca{hca: h, notify: newNotifier(nil, onEvent, ctx)}
	return h.open, nil
}

// interrupts is the HCA as the hardware sees it.
type interrupts HCA

func (h *interrupts) Completion(n CQN) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if q := h.cq[n]; q != nil {
		q.notify.completion()
	}
}

func (h *interrupts) CQError(n CQN) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if q := h.cq[n]; q != nil {
		q.notify.event(ci.EventCQError, 0)
	}
}

func (h *interrupts) QPEvent(n ci.QPN, t ci.EventType) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if q := h.qp[n]; q != nil {
		q.notify.event(t, 0)
	}
}

func (h *interrupts) PortEvent(t ci.EventType) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.open != nil {
		h.open.notify.event(t, 1)
	}
}
