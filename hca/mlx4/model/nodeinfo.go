package model

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/mad"
)

// nodeMAD responds for an Ethernet port, which has no subnet manager: Get of NodeInfo, NodeDescription and P_KeyTable,
// which Linux's driver reads on every link layer. Other requests are rejected.
func (m *Model) nodeMAD(p *port, in, out *ci.MAD) {
	var h mad.Header
	h.Parse(in[:])
	isSubnet := h.Class == mad.ClassSubnetLID || h.Class == mad.ClassSubnetDirected
	if !isSubnet || h.Method != mad.Get {
		reject(in, out)
		return
	}
	data := make([]byte, smpDataSize)
	switch h.Attribute {
	case mad.AttrNodeDescription:
		copy(data, m.cfg.NodeDescription)
	case mad.AttrNodeInfo:
		info := m.nodeInfo(p)
		info.Put(data)
	case mad.AttrPKeyTable:
		if h.Modifier == 0 { // the block of the one entry, which is the default
			binary.BigEndian.PutUint16(data, defaultPKey)
		}
	default:
		reject(in, out)
		return
	}
	*out = *in
	h.Method, h.Status = mad.GetResp, 0
	if h.Class == mad.ClassSubnetDirected {
		h.Status = mad.StatusDirection
	}
	h.Put(out[:])
	copy(out[smpData:], data)
}

const (
	smpDataSize = 64
	defaultPKey = 0xffff
)

// nodeInfo returns the NodeInfo of an Ethernet port.
func (m *Model) nodeInfo(p *port) mad.NodeInfo {
	info := mad.NodeInfo{BaseVersion: 1, ClassVersion: 1, Type: mad.NodeCA, NumPorts: uint8(len(m.ports)),
		SystemGUID: uint64(m.cfg.GUID), NodeGUID: uint64(m.cfg.GUID), PortGUID: uint64(p.guid()), PartitionCap: 1,
		DeviceID: prm.DeviceConnectX3, LocalPort: p.num, VendorID: 0x0002c9}
	if m.cfg.Pro {
		info.DeviceID = prm.DeviceConnectX3Pro
	}
	return info
}
