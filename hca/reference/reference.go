package reference

import (
	"errors"
	"fmt"
	"io"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference/rings"
	"ciddk/rvt"
)

// Config describes an HCA.
type Config struct {
	// GUID is the node GUID; 0 derives it from the first port's address, the same at every start.
	GUID  ci.GUID
	Ports []PortConfig // Ports[i] is port i+1
	Clock rvt.Clock    // nil: the machine's
	Rand  io.Reader    // where keys and QP numbers come from; nil: crypto/rand
	// Override wraps the objects before consumers see them.
	Override ciwrap.Layer
	// Caps, if not 0, are the only capabilities that are claimed, of those that the HCA has: for a smaller HCA in tests.
	Caps ci.Caps
}

// PortConfig says how to make a port.
type PortConfig struct {
	open func(portEnv) (rvt.Port, error)
	guid func() ci.GUID // for an HCA whose first port this is
	link ci.Link
}

// portEnv is what a port learns of its HCA.
type portEnv struct {
	clock rvt.Clock
	guid  ci.GUID // of the port
}

// HCA is the software HCA. It implements ci.HCA.
type HCA struct {
	*rvt.HCA
	ports []rvt.Port
}

// DriverID identifies this driver in HCAInfo.
const DriverID ci.GUID = 0x02ddcd4b52565431

// capabilities are what every reference HCA has.
const capabilities = ci.CapUC | ci.CapUD | ci.CapAV | ci.CapSpecialQP | ci.CapMulticast | ci.CapSRQ | ci.CapMW1 | ci.CapMW2 | ci.CapFMR |
	ci.CapFastReg | ci.CapPhysicalMR | ci.CapSharedMR | ci.CapModifyMR | ci.CapZeroBased | ci.CapSendInvalidate | ci.CapResizeCQ |
	ci.CapModeration | ci.CapPeek | ci.CapNotifyAfter | ci.CapModifySRQDepth | ci.CapAPM | ci.CapChangePrimaryPort |
	ci.CapCurrentQPState | ci.CapAVPortCheck | ci.CapEventHandlers | ci.CapShutdownPort | ci.CapPortActiveEvent | ci.CapSystemGUID |
	ci.CapPKeyCounter | ci.CapQKeyCounter

// New makes an HCA. Errors name the port that could not be had, and why. Close gives everything back.
func New(c Config) (*HCA, error) {
	if len(c.Ports) == 0 {
		return nil, errors.New("reference.New: Config.Ports is empty: give at least one, such as reference.UDP(reference.UDPConfig{Addr: …})")
	}
	if c.Clock == nil {
		c.Clock = rvt.RealClock()
	}
	if c.GUID == 0 && c.Ports[0].guid != nil {
		c.GUID = c.Ports[0].guid()
	}
	h := &HCA{}
	caps := capabilities | ci.CapHardwareSMA
	for i, p := range c.Ports {
		if p.open == nil {
			h.closePorts()
			return nil, fmt.Errorf("reference.New: port %d is an empty PortConfig: make it with UDP, Direct or Impair", i+1)
		}
		port, err := p.open(portEnv{clock: c.Clock, guid: c.GUID + ci.GUID(i) + 1})
		if err != nil {
			h.closePorts()
			return nil, fmt.Errorf("reference.New: port %d: %w", i+1, err)
		}
		h.ports = append(h.ports, port)
	}
	if c.Caps != 0 {
		caps &= c.Caps | ci.CapHardwareSMA
	}
	var err error
	h.HCA, err = rvt.New(rvt.Config{
		Info:     ci.HCAInfo{GUID: c.GUID, DriverID: DriverID, VendorID: 0x02ddcd, DeviceID: 1, Revision: 1},
		Attr:     ci.CAAttr{Caps: caps, Firmware: 1 << 32},
		Ports:    h.ports,
		Rings:    rings.RXE{},
		Clock:    c.Clock,
		Rand:     c.Rand,
		Override: c.Override,
	})
	if err != nil {
		h.closePorts()
		return nil, fmt.Errorf("reference.New: %w", err)
	}
	return h, nil
}

// closePorts undoes the opening of ports after a failure, which is the error to tell.
func (h *HCA) closePorts() {
	for _, p := range h.ports {
		_ = p.Close()
	}
}

// Counters adds what the ports count for themselves to the engine's counters.
func (h *HCA) Counters() map[string]uint64 {
	m := h.HCA.Counters()
	for _, p := range h.ports {
		if s, ok := p.(interface{ counters(map[string]uint64) }); ok {
			s.counters(m)
		}
	}
	return m
}

// SetLink plugs or pulls the cable of port num, counted from 1: the port's state and an event follow.
func (h *HCA) SetLink(num uint8, up bool) error {
	if num == 0 || int(num) > len(h.ports) {
		return fmt.Errorf("reference: port %d: the HCA has ports 1 to %d", num, len(h.ports))
	}
	p, ok := h.ports[num-1].(interface{ setLink(up bool) })
	if !ok {
		return fmt.Errorf("reference: port %d has no cable", num)
	}
	p.setLink(up)
	return nil
}
