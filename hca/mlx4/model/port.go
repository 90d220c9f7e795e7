package model

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// port is a port of the adapter.
type port struct {
	m    *Model
	num  uint8
	link rvt.Port
	eth  EthernetPort // nil: InfiniBand
	open atomic.Bool  // by INIT_PORT

	linkMu sync.Mutex // of changes of open and isCut
	isCut  bool       // the cable is pulled out
	isShut bool       // the link is down since the port was closed

	stats  ethStats   // of an Ethernet port
	filter ethFilters // the same
}

func newPort(m *Model, num uint8, c PortConfig) *port {
	p := &port{m: m, num: num, link: c.Link}
	if c.Link.Attr().Link == ci.LinkEthernet {
		p.eth, _ = ci.As[EthernetPort](c.Link)
		p.eth.OnFrame(p.receive)
	}
	return p
}

func (p *port) isEthernet() bool { return p.eth != nil }
func (p *port) isOpen() bool     { return p.open.Load() }

// guid returns the port's GUID.
func (p *port) guid() ci.GUID {
	if g := p.link.Attr().GUID; g != 0 {
		return g
	}
	return p.m.cfg.GUID + ci.GUID(p.num)
}

// mac returns the port's MAC address. That of an InfiniBand port is made from its GUID.
func (p *port) mac() (v uint64) {
	if p.eth == nil {
		g := uint64(p.guid())
		return g>>40<<24 | g&0xffffff
	}
	for _, b := range p.eth.MAC() {
		v = v<<8 | uint64(b)
	}
	return v
}

const (
	logVLANs  = 7
	logMACs   = 7
	maxEthMTU = 9600
	widths    = 0x3 // 1X and 4X
	maxVLs    = 8
)

func (c *command) queryPort() prm.Status {
	p := c.port(uint8(c.mod))
	if p == nil {
		return prm.BadParam
	}
	a := p.link.Attr()
	b := make([]byte, prm.PortMAC.Layout.Size)
	types := uint64(prm.PortTypeIB)
	if p.isEthernet() {
		types = prm.PortTypeEth
		prm.PortSuggested.Put(b, 1)
	}
	if a.State == ci.PortActive {
		prm.PortLinkUp.Put(b, 1)
	}
	prm.PortTypes.Put(b, types)
	prm.PortIBMTU.Put(b, uint64(ci.MTU4096))
	prm.PortEthMTU.Put(b, maxEthMTU)
	prm.PortSpeed.Put(b, prm.Speed40G)
	prm.PortWidths.Put(b, widths)
	prm.PortLogGIDs.Put(b, logGIDs)
	prm.PortLogPKeys.Put(b, logPKeys)
	prm.PortLogVLANs.Put(b, logVLANs)
	prm.PortLogMACs.Put(b, logMACs)
	prm.PortMaxTC.Put(b, maxVLs)
	prm.PortMaxVLs.Put(b, maxVLs)
	prm.PortMAC.Put(b, p.mac())
	return c.outbox(b)
}

func (c *command) sensePort() prm.Status {
	p := c.port(uint8(c.mod))
	if p == nil {
		return prm.BadParam
	}
	c.result = prm.PortTypeIB
	if p.isEthernet() {
		c.result = prm.PortTypeEth
	}
	return prm.OK
}

func (c *command) initPort() prm.Status {
	p := c.port(uint8(c.mod))
	if p == nil {
		return prm.BadParam
	}
	p.setOpen(true)
	return prm.OK
}

func (c *command) closePort() prm.Status {
	p := c.port(uint8(c.mod))
	if p == nil {
		return prm.BadParam
	}
	p.setOpen(false)
	return prm.OK
}

// setOpen opens or closes the port. The link of a port that is closed goes down, and comes up when the port is opened
// again. A new model leaves the link as it is until then. A link without a cable (rvt.CablePort) stays up, and only the
// frames that are not RoCE stop.
func (p *port) setOpen(open bool) {
	p.linkMu.Lock()
	defer p.linkMu.Unlock()
	if p.open.Swap(open) == open {
		return
	}
	if open && p.link.Attr().State == ci.PortActive { // the link raises no event
		p.changed(prm.PortChangeActive)
		return
	}
	p.isShut = !open
	_ = p.m.engine.SetLink(p.num, open && !p.isCut) // fails without a cable
}

// setCable plugs in or pulls out the cable, which a port that is closed does not use.
func (p *port) setCable(plugged bool) error {
	p.linkMu.Lock()
	defer p.linkMu.Unlock()
	p.isCut = !plugged
	if plugged && p.isShut {
		return nil
	}
	return p.m.engine.SetLink(p.num, plugged)
}

func (c *command) setPort() prm.Status {
	p := c.port(uint8(c.mod))
	if p == nil {
		return prm.BadParam
	}
	switch c.opMod {
	case prm.SetPortModeIB:
		if p.isEthernet() {
			return prm.BadParam
		}
		return c.setPortIB(p)
	case prm.SetPortModeEth:
		if !p.isEthernet() {
			return prm.BadParam
		}
		return c.setPortEthernet(p)
	case prm.SetPortModeBeacon:
		return prm.OK // the port has no light
	}
	return prm.BadOp
}

// setPortIB sets the capabilities that the agent of an InfiniBand port announces. The link determines MTU, VLs and
// tables.
func (c *command) setPortIB(p *port) prm.Status {
	b, ok := c.inbox(prm.SetPortPKeys.Layout.Size)
	if !ok {
		return prm.BadParam
	}
	if prm.SetPortChangeVL.Has(b) && prm.SetPortVLs.Get(b) > maxVLs {
		return prm.BadSize
	}
	if prm.SetPortChangeMTU.Has(b) && prm.SetPortMTU.Get(b) > uint64(ci.MTU4096) {
		return prm.BadSize
	}
	if prm.SetPortChangePKeys.Has(b) && prm.SetPortPKeys.Get(b) > 1<<logPKeys {
		return prm.BadSize
	}
	caps := ci.PortCap(prm.SetPortCapabilities.Get(b))
	if err := p.link.Modify(ci.PortFieldCapability, ci.PortModify{CapMask: driverCaps, Capability: caps}); err != nil {
		return prm.BadParam
	}
	return prm.OK
}

// driverCaps are the capabilities that belong to programs of the host.
const driverCaps = ci.PortCapSM | ci.PortCapSNMP | ci.PortCapDeviceManagement | ci.PortCapVendorClass |
	ci.PortCapCM | ci.PortCapReregister
