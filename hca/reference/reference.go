package reference

import (
	"errors"
	"fmt"
	"io"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
	"ciddk/hca/reference/rings"
	"ciddk/rvt"
)

// Config describes an HCA.
type Config struct {
	// GUID is the node's; 0 derives it from the first port: from a UDP port's address, the same in every run; on direct links,
	// counted up within the process.
	GUID ci.GUID
	// Ports are made by UDP, Virtual, Direct, Impair and Capture; Ports[i] is port i+1. At least one.
	Ports []PortConfig
	// Clock is the source of time; nil is the machine's.
	Clock clock.Clock
	// Rand is where keys, QP numbers and the like come from; nil is crypto/rand. For runs that must replay.
	Rand io.Reader
	// QueueMemory is the limit, in bytes, of all queues of the HCA together, and InboxMemory that of packets that wait for busy QPs: see
	// rvt.Config. 0: 4 GiB and 64 MiB.
	QueueMemory, InboxMemory int64
	// Override replaces verbs: see package ciwrap.
	Override ciwrap.Layer
	// Caps, if not 0, are the only capabilities that are claimed, of those that the HCA has: for a smaller HCA in tests.
	Caps ci.Caps
	// Attr overrides limits and identity where it is not zero (MaxQPs, MaxCQEs, VendorID, …); its Caps are Config.Caps's business.
	Attr ci.CAAttr
	// QPN, if not nil, names the numbers of new QPs, for peers that expect certain ones; see rvt.Ops.
	QPN func(ci.QPCreate) (ci.QPN, error)
	// OnSuspicion, if not nil, is called with reports of packets that the peer of a connected QP would hardly send: see rvt.Suspicion.
	// Calls are made one at a time. OnSuspicion must not call Close.
	OnSuspicion func(rvt.Suspicion)
	// Rings makes the queues; nil is rings.RXE{}, on the Go heap.
	Rings rvt.Rings
	// NodeDescription is what subnet management shows, at most 64 bytes.
	NodeDescription string
}

// PortConfig says how to make a port.
type PortConfig struct {
	open func(portEnv) (rvt.Port, error)
	guid func() ci.GUID // for an HCA whose first port this is
	link ci.Link
}

// portEnv is what a port learns of its HCA.
type portEnv struct {
	clock clock.Clock
	guid  ci.GUID // the node's
	num   uint8   // 1-based
	view  *engineView
}

// HCA is an adapter in service. It implements ci.HCA; rvt.HCA has its other methods: Close, Counters, Live.
type HCA struct {
	*rvt.HCA
	ports       []rvt.Port
	undelivered undelivered
}

// DriverID identifies this driver in HCAInfo.
const DriverID ci.GUID = 0x02ddcd4b52565431

// Identity of the HCAs of this driver. The vendor ID is Linux's for software devices, which have no OUI.
const (
	vendorID   = 0xffffff
	deviceID   = 0xdd01
	revision   = 1
	defaultDoc = "ciddk reference HCA"
)

// everyCap is what the engine does on any port.
const everyCap = ci.CapUC | ci.CapUD | ci.CapAV | ci.CapSpecialQP | ci.CapMulticast | ci.CapSRQ | ci.CapMW1 | ci.CapMW2 | ci.CapFMR |
	ci.CapFastReg | ci.CapPhysicalMR | ci.CapSharedMR | ci.CapModifyMR | ci.CapZeroBased | ci.CapSendInvalidate | ci.CapResizeCQ |
	ci.CapModeration | ci.CapPeek | ci.CapNotifyAfter | ci.CapModifySRQDepth | ci.CapAPM | ci.CapCurrentQPState | ci.CapAVPortCheck | ci.CapEventHandlers | ci.CapShutdownPort | ci.CapPortActiveEvent | ci.CapSystemGUID |
	ci.CapPKeyCounter | ci.CapQKeyCounter

// New makes an HCA and starts its ports. Errors say which port could not be made and what to do about it; nothing is left behind
// then. Close the HCA when done.
func New(c Config) (*HCA, error) {
	if len(c.Ports) == 0 {
		return nil, errors.New("reference.New: Config.Ports is empty: give at least one of UDP, Virtual, Direct")
	}
	if len(c.NodeDescription) > 64 {
		return nil, fmt.Errorf("reference.New: a NodeDescription of %d bytes: at most 64", len(c.NodeDescription))
	}
	for i, p := range c.Ports {
		if p.open == nil {
			return nil, fmt.Errorf("reference.New: port %d is the zero PortConfig: make it with UDP, Virtual, Direct or Impair", i+1)
		}
	}
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.Rings == nil {
		c.Rings = rings.RXE{}
	}
	if c.GUID == 0 {
		c.GUID = c.Ports[0].guid()
	}
	h := &HCA{}
	view := &engineView{}
	for i, p := range c.Ports {
		port, err := p.open(portEnv{clock: c.Clock, guid: c.GUID, num: uint8(i + 1), view: view})
		if err != nil {
			h.closePorts()
			return nil, fmt.Errorf("reference.New: port %d: %w", i+1, err)
		}
		h.ports = append(h.ports, port)
		h.watchUndelivered(uint8(i+1), port)
	}
	a := &agent{hca: h, guid: c.GUID, text: c.NodeDescription}
	if a.text == "" {
		a.text = defaultDoc
	}
	cfg := rvt.Config{Info: ci.HCAInfo{GUID: c.GUID, DriverID: DriverID, VendorID: vendorID, DeviceID: deviceID, Revision: revision},
		Attr: c.Attr, Ports: h.ports, Rings: c.Rings, Clock: c.Clock, Rand: c.Rand, Override: c.Override,
		QueueMemory: c.QueueMemory, InboxMemory: c.InboxMemory,
		Ops: rvt.Ops{LocalMAD: a.localMAD, QPN: c.QPN, Suspect: c.OnSuspicion}}
	identify(&cfg, c.Attr)
	cfg.Attr.Caps = everyCap | c.linkCaps()
	if c.Caps != 0 {
		cfg.Attr.Caps &= c.Caps | ci.CapHardwareSMA
	}
	if cfg.Attr.Firmware == 0 {
		cfg.Attr.Firmware = 1 << 32 // 1.0.0
	}
	if cfg.Attr.MaxPartitions == 0 {
		for _, p := range h.ports {
			cfg.Attr.MaxPartitions = max(cfg.Attr.MaxPartitions, len(p.Attr().PKeys))
		}
	}
	a.attr = cfg.Attr
	engine, err := rvt.New(cfg)
	if err != nil {
		h.closePorts()
		return nil, fmt.Errorf("reference.New: %w", err)
	}
	h.HCA = engine
	counters := engine.Counters
	view.counters.Store(&counters)
	return h, nil
}

// identify lets Config.Attr override who the HCA says it is.
func identify(cfg *rvt.Config, a ci.CAAttr) {
	if a.VendorID != 0 {
		cfg.Info.VendorID = a.VendorID
	}
	if a.DeviceID != 0 {
		cfg.Info.DeviceID = a.DeviceID
	}
	if a.Revision != 0 {
		cfg.Info.Revision = a.Revision
	}
}

// linkCaps are claims that depend on the ports: an init type has only InfiniBand, and where there is no subnet manager, there is nothing left
// to be executed for it. Datagrams of performance management are executed on every link.
func (c *Config) linkCaps() ci.Caps {
	ib, caps := 0, ci.Caps(0)
	if len(c.Ports) > 1 {
		caps = ci.CapChangePrimaryPort // there is another to change to
	}
	for _, p := range c.Ports {
		if p.link == ci.LinkInfiniBand {
			ib++
		}
	}
	switch ib {
	case 0:
		return caps | ci.CapHardwareSMA | ci.CapLocalMAD
	case len(c.Ports):
		return caps | ci.CapLocalMAD | ci.CapInitType
	}
	return caps | ci.CapLocalMAD
}

func (h *HCA) closePorts() {
	for _, p := range h.ports {
		_ = p.Close() // on the way out with an error that says more
	}
}

// Unwrap gives the engine's HCA, for ci.As.
func (h *HCA) Unwrap() any { return h.HCA }

// Counters is a snapshot of all counters by name; see the package documentation.
func (h *HCA) Counters() map[string]uint64 {
	m := h.HCA.Counters()
	for _, p := range h.ports {
		if s, ok := p.(interface{ counters(map[string]uint64) }); ok {
			s.counters(m)
		}
	}
	return m
}

// SetLink plugs in (up) or pulls out the cable of a port, counted from 1. Events follow as from a real one. Errors: ci.InvalidPort.
func (h *HCA) SetLink(port uint8, up bool) error {
	if port == 0 || int(port) > len(h.ports) {
		return &ci.Error{Verb: "HCA.SetLink", Status: ci.InvalidPort, Detail: fmt.Sprintf("port %d, the HCA has 1 to %d", port, len(h.ports))}
	}
	h.ports[port-1].(interface{ setLink(bool) }).setLink(up)
	return nil
}

func (p *udpPort) counters(m map[string]uint64) {
	p.stats.snapshot(m)
	if s, ok := p.sock.(interface{ drops() uint64 }); ok {
		m["udp_kernel_drops"] += s.drops()
	}
}
