package mads

import (
	"ciddk/ci"
	"ciddk/mad"
)

// capability is the bit of PortInfo.CapabilityMask that says that a port answers requests of a class (IBTA volume 1, 14.2.5.6); 0: there is none.
func capability(c mad.Class) ci.PortCap {
	switch {
	case c == mad.ClassCM:
		return ci.PortCapCM
	case c == mad.ClassSNMP:
		return ci.PortCapSNMP
	case c == mad.ClassDevice:
		return ci.PortCapDeviceManagement
	case c == mad.ClassBoot:
		return ci.PortCapBootManagement
	case c >= mad.ClassVendor1First && c <= mad.ClassVendor1Last || c.Vendor2():
		return ci.PortCapVendorClass
	}
	return 0
}

// serves tells whether an agent answers requests of a class with a capability.
func (t *table) serves(bit ci.PortCap) bool {
	for k := range t.claims {
		if capability(k.class) == bit {
			return true
		}
	}
	return false
}

// announce has the subnet manager know whether the port answers requests of a class, after an agent has come or gone. No lock is held: the driver may
// block. A bit that was set before is not ours, and stays.
func (p *port) announce(c mad.Class) {
	bit := capability(c)
	if bit == 0 || p.link != ci.LinkInfiniBand {
		return
	}
	p.announcing.Lock()
	defer p.announcing.Unlock()
	serves := p.qp[1].table.Load().serves(bit)
	if serves == (p.announced&bit != 0) || p.foreign&bit != 0 {
		return
	}
	change := ci.PortModify{CapMask: bit}
	if serves {
		change.Capability = bit
	}
	if err := p.h.ca.Modify(p.id.Num, ci.PortFieldCapability, change); err != nil { // of an HCA that goes, or that has its own mind
		p.m.al.Logger().Debug("mads: the port does not change its capability mask", "guid", p.id.CA, "port", p.id.Num, "class", c, "error", err)
		return
	}
	p.announced ^= bit
}
