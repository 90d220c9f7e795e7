package sma

import (
	"ciddk/ci"
	"ciddk/mad"
)

// Execute implements Node.
func (n *SoftNode) Execute(q Request) (status uint16, answered bool) {
	if q.Set {
		n.sets.Lock()
		defer n.sets.Unlock()
		return n.set(&q), true
	}
	return n.get(&q), true
}

func (n *SoftNode) get(q *Request) uint16 {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch q.Attribute {
	case mad.AttrNodeDescription:
		copy(q.Data, n.name[:])
	case mad.AttrNodeInfo:
		n.nodeInfo(q)
	case mad.AttrPortInfo:
		p := n.selected(q, uint8(q.Modifier))
		if p == nil || q.Modifier > 0xff {
			return mad.StatusBadField
		}
		p.showInfo(q, false)
	case mad.AttrSwitchInfo:
		if q.Modifier != 0 {
			return mad.StatusBadField
		}
		clear(q.Data)
		n.sw.Put(q.Data)
	case mad.AttrGUIDInfo:
		return n.getGUIDs(q)
	case mad.AttrPKeyTable:
		return n.getPKeys(q)
	case mad.AttrSLtoVL, mad.AttrVLArbitration:
		return n.getLanes(q)
	case mad.AttrLinearTable, mad.AttrMulticastTable:
		return n.getForwarding(q)
	case mad.AttrLEDInfo:
		return n.getLED(q)
	default:
		return mad.StatusBadMethodAttribute
	}
	return mad.StatusOK
}

// set executes a Set. The caller holds n.sets.
func (n *SoftNode) set(q *Request) uint16 {
	switch q.Attribute {
	case mad.AttrPortInfo:
		return n.setPortInfo(q)
	case mad.AttrSwitchInfo:
		return n.setSwitchInfo(q)
	case mad.AttrGUIDInfo:
		return n.setGUIDs(q)
	case mad.AttrPKeyTable:
		return n.setPKeys(q)
	case mad.AttrSLtoVL, mad.AttrVLArbitration:
		return n.setLanes(q)
	case mad.AttrLinearTable, mad.AttrMulticastTable:
		return n.setForwarding(q)
	case mad.AttrLEDInfo:
		return n.setLED(q)
	}
	return mad.StatusBadMethodAttribute
}

// selected returns the port that a modifier names, or nil. On an adapter, 0 is the port on which the SMP arrived.
func (n *SoftNode) selected(q *Request, num uint8) *softPort {
	if num == 0 && n.c.Type != mad.NodeSwitch {
		num = q.Port
	}
	return n.port(num)
}

// nodeInfo executes Get(NodeInfo). The modifier is ignored.
func (n *SoftNode) nodeInfo(q *Request) {
	i := mad.NodeInfo{BaseVersion: mad.BaseVersion, ClassVersion: mad.ClassVersionSubnet, Type: n.c.Type,
		NumPorts: n.c.NumPorts, SystemGUID: uint64(n.sys), NodeGUID: uint64(n.c.GUID), DeviceID: n.c.DeviceID,
		Revision: n.c.Revision, LocalPort: q.Port, VendorID: n.c.VendorID}
	if p := n.keyPort(q.Port); p != nil {
		i.PortGUID, i.PartitionCap = p.guids[0], uint16(p.pkeys.Len())
	}
	clear(q.Data)
	i.Put(q.Data)
}

// showInfo writes the PortInfo of the response. The caller holds SoftNode.mu.
func (p *softPort) showInfo(q *Request, reregister bool) {
	key := p.info.MKey
	if !q.Authentic && p.info.MKeyProtect != 0 {
		p.info.MKey = 0
	}
	p.info.ClientReregister = reregister
	local := p.info.LocalPortNum
	p.info.LocalPortNum = q.Port
	p.info.Put(q.Data)
	p.info.MKey, p.info.ClientReregister, p.info.LocalPortNum = key, false, local
}

func (n *SoftNode) setPortInfo(q *Request) uint16 {
	var want mad.PortInfo
	want.Parse(q.Data)
	p := n.selected(q, uint8(q.Modifier))
	if p == nil || q.Modifier > 0xff {
		return mad.StatusBadField
	}
	n.mu.Lock()
	if InvalidPortInfo(p.kind, &p.info, &want) != "" {
		n.mu.Unlock()
		return mad.StatusBadField
	}
	c, train := ApplyPortInfo(p.kind, &p.info, &want)
	p.unmanaged = p.unmanaged && !c.Has(ChangeSM)
	p.publish()
	n.mu.Unlock()
	if c != 0 {
		n.hw.Changed(p.num, c)
	}
	if train != PhysNoChange {
		n.hw.Train(p.num, train)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p.showInfo(q, want.ClientReregister)
	return mad.StatusOK
}

func (n *SoftNode) getLED(q *Request) uint16 {
	p := n.selected(q, uint8(q.Modifier))
	if p == nil || q.Modifier > 0xff {
		return mad.StatusBadField
	}
	if p.info.CapabilityMask&uint32(ci.PortCapLEDInfo) == 0 {
		return mad.StatusBadMethodAttribute
	}
	clear(q.Data)
	if p.led {
		q.Data[0] = 0x80
	}
	return mad.StatusOK
}

func (n *SoftNode) setLED(q *Request) uint16 {
	n.mu.Lock()
	on := q.Data[0]&0x80 != 0
	status := n.getLED(q)
	p := n.selected(q, uint8(q.Modifier))
	if status != mad.StatusOK {
		n.mu.Unlock()
		return status
	}
	changed := p.led != on
	p.led = on
	status = n.getLED(q)
	n.mu.Unlock()
	if changed {
		n.hw.Changed(p.num, ChangeLED)
	}
	return status
}
