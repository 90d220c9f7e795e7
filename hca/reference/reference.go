package reference

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference/arena"
	"ciddk/internal/rings"
	"ciddk/rvt"
)

// An HCA is an adapter in service. It implements ci.HCA. The methods of rvt.HCA are its own, too: Close, Counters,
// QPCounters, SetLink, Live.
type HCA struct {
	*rvt.HCA
	cfg   Config // with defaults
	users *userPoller
}

// Counters returns a snapshot of the counters of the HCA by name: those of rvt.HCA.Counters, and those of the processes
// that have the user library (see the package comment).
func (h *HCA) Counters() map[string]uint64 {
	m := h.HCA.Counters()
	h.users.addCounters(m)
	return m
}

// Doorbells returns how often client processes have woken the engine since the HCA was created.
func (h *HCA) Doorbells() uint64 { return h.users.doorbells.Load() }

// DriverID identifies this driver in HCAInfo.
const DriverID ci.GUID = 0x02ddcd4b52565431

// Identity of the HCAs of this driver. The vendor ID is Linux's for software devices, which have no OUI.
const (
	vendorID           = 0xffffff
	deviceID           = 0xdd01
	revision           = 1
	firmware           = 1 << 32 // 1.0.0
	defaultDescription = "ciddk reference HCA"
)

// engineCaps are what the engine does on any port.
const engineCaps = ci.CapUC | ci.CapUD | ci.CapAV | ci.CapSpecialQP | ci.CapMulticast | ci.CapSRQ | ci.CapMW1 |
	ci.CapMW2 | ci.CapFMR | ci.CapFastReg | ci.CapPhysicalMR | ci.CapSharedMR | ci.CapModifyMR | ci.CapZeroBased |
	ci.CapSendInvalidate | ci.CapResizeCQ | ci.CapModeration | ci.CapPeek | ci.CapNotifyAfter | ci.CapModifySRQDepth |
	ci.CapAPM | ci.CapCurrentQPState | ci.CapAVPortCheck | ci.CapUser | ci.CapEventHandlers | ci.CapVendorCall |
	ci.CapShutdownPort | ci.CapPortActiveEvent | ci.CapSystemGUID | ci.CapPKeyCounter | ci.CapQKeyCounter |
	ci.CapAtomicWrite | ci.CapFlush | ci.CapFlushPersistent

// New makes an HCA of ports and starts them. It takes over Config.Ports, and closes them when it fails. Close the HCA
// when done. Errors: no port or a nil one; a NodeDescription that is too long; errors of a port's Start.
func New(c Config) (*HCA, error) {
	h, err := newHCA(&c)
	if err != nil {
		for _, p := range c.Ports {
			if !ci.IsNil(p) {
				_ = p.Close() // the error to report is the first one
			}
		}
		return nil, fmt.Errorf("reference.New: %w", err)
	}
	return h, nil
}

// newHCA is New without the closing of ports.
func newHCA(c *Config) (*HCA, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c.setDefaults()
	h := &HCA{cfg: *c}
	a := newAgent(h)
	cfg := rvt.Config{Info: c.info(), Attr: c.attr(), Ports: c.Ports, NodeDescription: c.NodeDescription,
		Rings: c.Rings, Clock: c.Clock, Rand: c.Rand,
		Override: c.Override, QueueMemory: c.QueueMemory, InboxMemory: c.InboxMemory,
		CNPInterval: c.CNPInterval,
		Ops: rvt.Ops{LocalMAD: a.localMAD, OpenUser: h.openUser, VendorCall: h.vendorCall, QPN: c.QPN,
			Suspect: c.OnSuspicion}}
	var err error
	if h.HCA, err = rvt.New(cfg); err != nil {
		return nil, err
	}
	h.users = newUserPoller(h.HCA, c.UserIdle, c.Clock)
	return h, nil
}

func (c *Config) check() error {
	if len(c.Ports) == 0 {
		return errors.New("Config.Ports is empty: give at least one port, for instance of udp.New")
	}
	for i, p := range c.Ports {
		if ci.IsNil(p) {
			return fmt.Errorf("Config.Ports[%d] is nil", i)
		}
	}
	if n := len(c.NodeDescription); n > 64 {
		return fmt.Errorf("NodeDescription has %d bytes: at most 64", n)
	}
	if c.UserMemory < 0 || c.UserMemory%arena.PageSize != 0 || c.UserMemory > 0 && c.UserMemory < 2*arena.PageSize ||
		c.UserMemory > math.MaxInt {
		return fmt.Errorf("UserMemory is %d bytes: want a multiple of %d, at least %d", c.UserMemory, arena.PageSize,
			2*arena.PageSize)
	}
	if c.UserIdle < 0 {
		return fmt.Errorf("UserIdle is %v: want a positive time, or 0 for %v", c.UserIdle, defaultUserIdle)
	}
	return nil
}

// countedGUIDs counts HCAs without a suggested GUID: their GUIDs differ within a process, and are the same in every run
// that makes the same HCAs in the same order.
var countedGUIDs atomic.Uint64

func (c *Config) setDefaults() {
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.Rings == nil {
		c.Rings = rings.RXE{}
	}
	if c.UserMemory == 0 {
		c.UserMemory = defaultUserMemory
	}
	if c.UserIdle == 0 {
		c.UserIdle = defaultUserIdle
	}
	if c.NodeDescription == "" {
		c.NodeDescription = defaultDescription
	}
	if c.GUID != 0 {
		return
	}
	if p, ok := ci.As[rvt.GUIDPort](c.Ports[0]); ok {
		c.GUID = p.NodeGUID()
	} else {
		c.GUID = ci.GUID(0x02dd<<48 | countedGUIDs.Add(1)<<8)
	}
}

// info returns the identity of the HCA.
func (c *Config) info() ci.HCAInfo {
	library := ""
	if runtime.GOOS == "linux" { // elsewhere there is no memory to share
		library = rings.LibraryName
	}
	i := ci.HCAInfo{Library: library, GUID: c.GUID, DriverID: DriverID, VendorID: vendorID, DeviceID: deviceID,
		Revision: revision}
	if c.Attr.VendorID != 0 {
		i.VendorID = c.Attr.VendorID
	}
	if c.Attr.DeviceID != 0 {
		i.DeviceID = c.Attr.DeviceID
	}
	if c.Attr.Revision != 0 {
		i.Revision = c.Attr.Revision
	}
	return i
}

// attr returns limits and capabilities.
func (c *Config) attr() ci.CAAttr {
	a := c.Attr
	a.Caps = engineCaps | c.linkCaps()
	if c.Caps != 0 {
		a.Caps &= c.Caps | ci.CapHardwareSMA
	}
	if a.Firmware == 0 {
		a.Firmware = firmware
	}
	if a.MaxPartitions == 0 {
		for _, p := range c.Ports {
			a.MaxPartitions = max(a.MaxPartitions, len(p.Attr().PKeys))
		}
	}
	return a
}

// linkCaps returns the capabilities that depend on the ports. Only InfiniBand ports have an init type. Without
// one, or with agents in the ports, there is nothing left to execute for a subnet manager. Datagrams of performance
// management are executed on every link.
func (c *Config) linkCaps() ci.Caps {
	numIB, numManaged := 0, 0
	for _, p := range c.Ports {
		a := p.Attr()
		if a.Link == ci.LinkInfiniBand {
			numIB++
			if !a.HardwareAgents {
				numManaged++
			}
		}
	}
	caps := ci.CapLocalMAD
	if len(c.Ports) > 1 {
		caps |= ci.CapChangePrimaryPort
	}
	if numManaged == 0 {
		caps |= ci.CapHardwareSMA
	}
	if numIB == len(c.Ports) {
		caps |= ci.CapInitType
	}
	return caps
}

// Unwrap returns the engine's HCA, for ci.As.
func (h *HCA) Unwrap() any { return h.HCA }
