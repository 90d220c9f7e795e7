package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// setPortEthernet sets parameters and tables of an Ethernet port. What the port does not need to know, since the
// steering table selects frames by MAC address, is accepted: MAC and VLAN tables, priorities, scheduling.
func (c *command) setPortEthernet(p *port) prm.Status {
	switch c.mod >> 8 & 0xff {
	case prm.SetPortGeneral:
		b, ok := c.inbox(prm.GeneralFlags.Layout.Size)
		if !ok || prm.GeneralMTU.Get(b) > maxEthMTU {
			return prm.BadParam
		}
		p.stats.mtu.Store(uint32(prm.GeneralMTU.Get(b)))
		return prm.OK
	case prm.SetPortGIDTable:
		b, ok := c.inbox(prm.GIDTableSize * prm.GIDSize)
		if !ok {
			return prm.BadParam
		}
		t := make([]ci.GIDEntry, prm.GIDTableSize)
		for i := range t {
			t[i] = ci.GIDEntry{GID: ci.GID(b[i*prm.GIDSize:]), Type: ci.GIDRoCEv1}
		}
		p.eth.SetGIDs(t)
		return prm.OK
	case prm.SetPortRoCEAddr:
		return c.setRoCEAddresses(p)
	case prm.SetPortRQPCalc, prm.SetPortMACTable, prm.SetPortVLANs, prm.SetPortPriority, prm.SetPortPrio2TC,
		prm.SetPortSchedule:
		return prm.OK
	}
	return prm.BadOp
}

func (c *command) setRoCEAddresses(p *port) prm.Status {
	if !c.cfg.Pro {
		return prm.BadOp
	}
	size := prm.RoCEGID.Layout.Size
	b, ok := c.inbox(prm.GIDTableSize * size)
	if !ok {
		return prm.BadParam
	}
	const version2 = 2
	t := make([]ci.GIDEntry, prm.GIDTableSize)
	for i := range t {
		e := b[i*size:]
		t[i] = ci.GIDEntry{GID: ci.GID(prm.RoCEGID.Bytes(e, prm.GIDSize)), Type: ci.GIDRoCEv1}
		if prm.RoCEVersion.Get(e) == version2 {
			t[i].Type = ci.GIDRoCEv2
		}
	}
	p.eth.SetGIDs(t)
	return prm.OK
}
