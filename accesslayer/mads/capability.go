package mads

import (
	"ciddk/ci"
	"ciddk/mad"
)

// capability returns the bit of PortInfo.CapabilityMask which states that a port answers requests of a class (IBTA
// volume 1, 14.2.5.6). It returns 0 if no such bit exists.
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

// serves reports whether an agent answers requests of a class with the capability c.
func (t *table) serves(bit ci.PortCap) bool {
	for k := range t.claims {
		if capability(k.class) == bit {
			return true
		}
	}
	return false
}

// announce sets or clears the capability bit of a class, after an agent was registered or closed. The subnet manager
// reads from it whether the port answers requests of the class. A bit that was set before the first agent is not
// changed. No lock is held, since the driver may block.
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
	if err := p.h.ca.Modify(p.id.Num, ci.PortFieldCapability,
		change); err != nil { // the HCA is being removed, or its driver refuses the change
		p.m.al.Logger().Debug("mads: cannot change the capability mask of the port", "guid", p.id.CA, "port", p.id.Num,
			"class", c, "error", err)
		return
	}
	p.announced ^= bit
}
