package rvt

import (
	"bufio"
	"crypto/rand"
	"errors"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
)

// HCA is an adapter on this transport. It implements ci.HCA.
type HCA struct {
	ci.UnimplementedHCA
	cfg     Config
	clock   clock.Clock
	rand    *source
	attr    ci.CAAttr // without ports
	ports   []*port   // ports[i] is port i+1
	count   counters
	wheel   clock.Wheel
	keys    keyTable
	qps     table[QP]
	retired quarantine
	mcast   mcastTable
	limit   [numKinds]atomic.Int64
	queues  budget // Config.QueueMemory
	inboxes budget // Config.InboxMemory

	sysGUID atomic.Uint64
	open    atomic.Pointer[CA]
	closed  atomic.Bool
	face    ci.HCA // as consumers see it, through Config.Override

	suspects suspects
}

// New builds an HCA. Errors: *SupportError when it claims what it has no means for, and whatever a port's Start says.
func New(cfg Config) (*HCA, error) {
	if err := cfg.checkSupport(); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.Real()
	}
	if cfg.Rand == nil {
		cfg.Rand = bufio.NewReaderSize(rand.Reader, 512)
	}
	if cfg.Info.GUID == 0 {
		return nil, failf("rvt.New", ci.InvalidGUID, "Config.Info.GUID is zero")
	}
	cfg.Info.Version = ci.InterfaceVersion
	h := &HCA{cfg: cfg, clock: cfg.Clock, rand: &source{r: cfg.Rand}, attr: limits(cfg)}
	h.sysGUID.Store(uint64(h.attr.SystemGUID))
	h.wheel.Init(cfg.Clock)
	h.queues.limit, h.inboxes.limit = cfg.QueueMemory, cfg.InboxMemory
	if h.queues.limit == 0 {
		h.queues.limit = DefaultQueueMemory
	}
	if h.inboxes.limit == 0 {
		h.inboxes.limit = DefaultInboxMemory
	}
	h.suspects.report = cfg.Ops.Suspect
	h.face = ciwrap.Wrap(inner{h}, cfg.Override)
	for i, p := range cfg.Ports {
		h.ports = append(h.ports, newPort(h, uint8(i+1), p))
	}
	for i, p := range h.ports {
		if err := p.Start(p); err != nil {
			for _, q := range h.ports[:i] {
				_ = q.Port.Close() // the error to tell is the first one
			}
			return nil, failErr("rvt.New", ci.InsufficientResources, err)
		}
	}
	return h, nil
}

// inner is the HCA below the overrides; ci.As finds the *HCA behind it.
type inner struct{ *HCA }

func (i inner) Unwrap() any { return i.HCA }

func (i inner) OpenCA(g ci.GUID, f func(ci.Event), ctx any) (ci.CA, error) {
	return i.openCA(g, f, ctx)
}

// Info identifies the adapter.
func (h *HCA) Info() ci.HCAInfo { return h.cfg.Info }

// OpenCA opens it, seen through the overrides.
func (h *HCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), ctx any) (ci.CA, error) {
	return h.face.OpenCA(guid, onEvent, ctx)
}

func (h *HCA) openCA(guid ci.GUID, onEvent func(ci.Event), ctx any) (ci.CA, error) {
	const verb = "HCA.OpenCA"
	switch {
	case guid == 0:
		return nil, failf(verb, ci.InvalidParameter, "the GUID is zero")
	case onEvent == nil:
		return nil, failf(verb, ci.InvalidParameter, "onEvent is nil")
	case guid != h.cfg.Info.GUID:
		return nil, fail(verb, ci.NotFound)
	case h.closed.Load():
		return nil, failf(verb, ci.InvalidState, "the HCA has been closed")
	}
	ca := &CA{hca: h}
	ca.handlers = newHandlers(onEvent, ctx)
	if !h.open.CompareAndSwap(nil, ca) {
		return nil, failf(verb, ci.ResourceBusy, "one open at a time")
	}
	return ca, nil
}

// Close takes the HCA out of service: its ports stop. Close the CA, or deregister the HCA from an access layer, first. If a CA is open, Close
// stops the ports all the same, as the removal of a card would, and returns an error with the status ResourceBusy; the consumer's objects then
// answer InvalidState or complete with errors. A second Close does nothing and returns nil. Context: thread.
func (h *HCA) Close() error {
	if h.closed.Swap(true) {
		return nil
	}
	var errs []error
	if h.open.Load() != nil {
		errs = append(errs, failf("HCA.Close", ci.ResourceBusy, "the CA is open, and its consumer has lost the adapter (close the CA first)"))
	}
	for _, p := range h.ports {
		errs = append(errs, p.Port.Close())
	}
	h.wheel.Stop()
	h.suspects.close()
	for _, p := range h.ports {
		p.turns.stop()
	}
	return errors.Join(errs...)
}

// Counters is a snapshot of the HCA's counters by name, ports together.
func (h *HCA) Counters() map[string]uint64 {
	m := h.count.snapshot()
	for _, p := range h.ports {
		m[CountRecv.String()] += p.traffic.rcvPkts.Load()
		m[CountSent.String()] += p.traffic.xmitPkts.Load()
	}
	return m
}

// Live counts the objects that exist, by kind: what a leak test compares.
func (h *HCA) Live() map[string]int {
	m := make(map[string]int, numKinds)
	for k := range h.limit {
		m[kindNames[k]] = int(h.limit[k].Load())
	}
	return m
}

// QueueMemory returns the bytes that the queues of the adapter occupy, and the limit, which is Config.QueueMemory.
func (h *HCA) QueueMemory() (used, limit int64) { return h.queues.used.Load(), h.queues.limit }

// PortCount gives the counts of a port, counted from 1; zeros for a port that does not exist.
func (h *HCA) PortCount(num uint8) PortCount {
	p := h.port(num)
	if p == nil {
		return PortCount{}
	}
	c := &p.traffic
	return PortCount{XmitPkts: c.xmitPkts.Load(), RcvPkts: c.rcvPkts.Load(), XmitBytes: c.xmitBytes.Load(), RcvBytes: c.rcvBytes.Load(),
		RcvErrors: c.rcvErrors.Load(), XmitDiscards: c.xmitDiscards.Load()}
}
