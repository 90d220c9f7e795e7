package mlx4

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"ciddk/bus"
	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/clock"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/userabi"
	"ciddk/mad"
)

// The compiler reports mandatory verbs that are missing.
var (
	_ ci.HCA = (*HCA)(nil)
	_ ci.CA  = (*ca)(nil)
	_ ci.PD  = (*pd)(nil)
	_ ci.AV  = (*av)(nil)
	_ ci.CQ  = (*cq)(nil)
	_ ci.QP  = (*qp)(nil)
	_ ci.MR  = (*mr)(nil)
)

// driverID identifies the driver; it is the same for all of its adapters.
const driverID ci.GUID = 0x02ddcd6d6c783430

// Config configures an adapter. The zero value is usable.
type Config struct {
	// Firmware configures the device layer.
	Firmware fw.Config
	// GIDs are the GID tables of Ethernet ports, by port from 0 on. A zero GID is an empty entry, which the first one
	// must not be. A port without a table has the link-local GID of its MAC address, for RoCE v1 and, on a ConnectX-3
	// Pro, for RoCE v2.
	GIDs [][]ci.GIDEntry
	// EthernetMTU is the MTU of the network of Ethernet ports. 0 is 1500 bytes, which makes the path MTU of RoCE 1024.
	EthernetMTU uint16
	// Rand is the source of the parts of keys that peers must not guess; nil is crypto/rand.
	Rand io.Reader
	// ResolveMAC returns the MAC address for a GID of the network. It is called for address vectors without one, unless
	// the GID contains it. It may be nil.
	ResolveMAC func(port uint8, gid ci.GID) ([6]byte, error)
	// HardwareAgents states that management datagrams of the InfiniBand ports are answered below the driver. This holds
	// for a model on ports of package fabric. The driver cannot find it out.
	HardwareAgents bool
	// OnRecovery, if not nil, is called by the driver of a bus after each attempt to start an adapter again that had
	// failed for the reason cause. err is nil if the adapter is registered again. Otherwise there will be another
	// attempt. It must not remove the adapter from its bus.
	OnRecovery func(f bus.Function, cause, err error)
}

// An HCA is an adapter. It implements ci.HCA.
type HCA struct {
	ci.UnimplementedHCA
	cfg    Config
	f      bus.Function
	dev    *fw.Device
	caps   *fw.Caps
	ctx    context.Context // of commands; it ends with Close
	cancel context.CancelFunc
	info   ci.HCAInfo
	claims ci.Caps
	uar    *fw.UAR
	clock  clock.Clock
	ports  []*port
	node   mad.NodeInfo
	down   chan struct{} // wakes watchTraining
	failed chan struct{} // closed when the consumers have been told of a failure

	pds, avs, cqs, qps, srqs, mrs, mws, fmrs, mcasts driver.Pool
	numHandlers                                      atomic.Int32

	qpTable                 *table[qp]
	quarantine              quarantine
	qpns, cqns, srqns, mpts numbers
	groups                  groups
	dmas                    dmaTable
	flames                  flames
	keys                    keySource
	unmapFMR                sync.Mutex               // held by UnmapFMRs
	special                 [2][2]atomic.Pointer[qp] // by port from 0 on; QP0 and QP1

	mu     sync.RWMutex // guards what follows
	open   *ca
	closed bool
	wait   sync.WaitGroup

	sharedMu sync.Mutex
	shared   map[*shared]struct{} // of processes with the user library
}

// New initializes the adapter of a function. Close releases it; the function remains the caller's.
func New(ctx context.Context, f bus.Function, c Config) (*HCA, error) {
	dev, err := fw.Open(ctx, f, c.Firmware)
	if err != nil {
		return nil, fmt.Errorf("mlx4.New: %w", err)
	}
	h := &HCA{cfg: c, f: f, dev: dev, caps: dev.Caps(), clock: c.Firmware.Clock,
		down: make(chan struct{}, 1), failed: make(chan struct{})}
	if h.clock == nil {
		h.clock = clock.Real()
	}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := h.start(ctx); err != nil {
		h.cancel()
		return nil, errors.Join(fmt.Errorf("mlx4.New: %w", err), dev.Close())
	}
	h.wait.Go(h.watch)
	h.wait.Go(h.watchTraining)
	return h, nil
}

// start sets the adapter up.
func (h *HCA) start(ctx context.Context) (err error) {
	if h.uar, err = h.dev.AllocUAR(); err != nil {
		return err
	}
	h.flames.start(h)
	h.startNumbers()
	h.setLimits()
	h.qpTable = newTable[qp](max(h.caps.NumQPs, h.caps.SpecialQPs+4))
	for n := range h.caps.NumPorts {
		p := &port{hca: h, num: n + 1}
		if err := p.start(ctx); err != nil {
			return fmt.Errorf("port %d: %w", n+1, err)
		}
		h.ports = append(h.ports, p)
	}
	if h.node, err = h.ports[0].nodeInfo(ctx); err != nil {
		return err
	}
	if h.node.NodeGUID == 0 {
		return errNodeGUID
	}
	h.info = ci.HCAInfo{GUID: ci.GUID(h.node.NodeGUID), DriverID: driverID, VendorID: h.node.VendorID,
		DeviceID: h.node.DeviceID, Revision: uint16(h.node.Revision), Version: ci.InterfaceVersion,
		Library: userabi.LibraryName}
	h.setClaims()
	h.dev.OnEvent(h.portEvent, prm.EventPortChange, prm.EventPortMgmtChange, prm.EventEQOverflow)
	for _, p := range h.ports {
		if err := h.dev.InitPort(ctx, p.num); err != nil {
			return fmt.Errorf("port %d: %w", p.num, err)
		}
		a, err := p.query(ctx)
		if err != nil {
			return fmt.Errorf("port %d: %w", p.num, err)
		}
		p.isActive.Store(a.State == ci.PortActive)
	}
	return nil
}

// watch flushes all requests when the adapter fails, and reports the failure to its consumers.
func (h *HCA) watch() {
	select {
	case <-h.dev.Failed():
	case <-h.ctx.Done():
		return
	}
	defer close(h.failed)
	h.flush()
	h.failShared()
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.open != nil {
		h.open.event(ci.Event{Type: ci.EventLocalFatal})
	}
}

// errUnplugged is the reason of the failure of an adapter that is unplugged.
var errUnplugged = errors.New("mlx4: the adapter was removed")

// Unplug makes the adapter fail like the removal of a card: the consumer's requests complete, and verbs fail with
// InvalidState. Its memory remains until Close.
func (h *HCA) Unplug() { h.dev.Fail(errUnplugged) }

// Close stops the adapter and releases its memory. It is idempotent. If the CA is open, it does nothing, and returns an
// error with the status ResourceBusy [SAS-2.2-07].
func (h *HCA) Close() error {
	h.mu.Lock()
	was, isOpen := h.closed, h.open != nil
	h.closed = was || !isOpen
	h.mu.Unlock()
	switch {
	case was:
		return nil
	case isOpen:
		return &ci.Error{Verb: "HCA.Close", Status: ci.ResourceBusy, Detail: "the CA is open (close it first)"}
	}
	h.cancel()
	h.wait.Wait()
	h.uar.Free()
	return h.dev.Close()
}

// Live returns the number of existing objects of each kind, for leak checks.
func (h *HCA) Live() map[string]int {
	return map[string]int{"pd": h.pds.Count(), "av": h.avs.Count(), "cq": h.cqs.Count(), "qp": h.qps.Count(),
		"srq": h.srqs.Count(), "mr": h.mrs.Count(), "mw": h.mws.Count(), "fmr": h.fmrs.Count(),
		"mcast": h.mcasts.Count(), "handler": int(h.numHandlers.Load())}
}

// Info returns the identity of the adapter, which is constant.
func (h *HCA) Info() ci.HCAInfo { return h.info }

// OpenCA opens the adapter. Status: InvalidParameter (a zero GUID, a nil callback), NotFound, ResourceBusy (already
// open), InvalidState (the adapter has failed or is closed).
func (h *HCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	const verb = "HCA.OpenCA"
	switch {
	case guid == 0 || onEvent == nil:
		return nil, fail(verb, ci.InvalidParameter, "a GUID and a callback are needed")
	case guid != h.info.GUID:
		return nil, fail(verb, ci.NotFound, "")
	}
	c := &ca{hca: h}
	c.handlers.Open(onEvent, arg)
	if err := h.setOpen(verb, c); err != nil {
		return nil, err
	}
	for _, p := range h.ports {
		if !p.isShut.Swap(false) {
			continue
		}
		if err := h.dev.InitPort(h.ctx, p.num); err != nil {
			p.isShut.Store(true)
			return nil, errors.Join(firmwareError(verb, err), c.Destroy())
		}
	}
	return c, nil
}

// setOpen records the CA as the one that is open.
func (h *HCA) setOpen(verb string, c *ca) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.open != nil:
		return fail(verb, ci.ResourceBusy, "already open")
	case h.closed:
		return fail(verb, ci.InvalidState, "the adapter is closed")
	}
	if err := h.dev.Err(); err != nil {
		return firmwareError(verb, err)
	}
	h.open = c
	return nil
}

// cmd executes a command of a verb.
func (h *HCA) cmd(op prm.Opcode, a fw.Args) error { return h.dev.Cmd(h.ctx, op, a) }

// release executes a command that ends an object. An adapter that has failed does not use the object any more.
func (h *HCA) release(op prm.Opcode, a fw.Args) error {
	err := h.cmd(op, a)
	if errors.Is(err, fw.ErrFailed) {
		return nil
	}
	return err
}
