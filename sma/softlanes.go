package sma

import (
	"encoding/binary"

	"ciddk/mad"
)

// VL returns the virtual lane of a packet with a service level. On a switch, it depends on the input and the output
// port; on an adapter, both are ignored. VL 15 discards the packet.
func (n *SoftNode) VL(in, out, sl uint8) uint8 {
	i := n.lane(in, out)
	if i < 0 {
		return discardVL
	}
	return uint8(n.sltovl[i].Load() >> (60 - 4*(sl&15)) & 15)
}

const discardVL = 15

// lane returns the index in n.sltovl, or -1.
func (n *SoftNode) lane(in, out uint8) int {
	if n.columns == 1 {
		return 0
	}
	if int(in) >= n.columns || int(out) >= n.columns {
		return -1
	}
	return int(in)*n.columns + int(out)
}

// VLArbitration returns a block of the VL arbitration table of a port: 1 and 2 are the halves of the low priority
// table, 3 and 4 those of the high priority table.
func (n *SoftNode) VLArbitration(port uint8, block int) (b mad.VLArbBlock) {
	p := n.port(port)
	if p == nil || block < 1 || block > len(p.vlarb) {
		return b
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.vlarb == nil {
		return b
	}
	return p.vlarb[block-1]
}

// arbBlock returns the port and the block of the VL arbitration table that a request selects, counted from 0.
func (n *SoftNode) arbBlock(q *Request) (p *softPort, block int) {
	block = int(q.Modifier>>16) - 1
	if block < 0 || block >= 4 || q.Modifier&0xff00 != 0 {
		return nil, 0
	}
	p = n.selected(q, uint8(q.Modifier))
	if p == nil || !p.kind.hasLink() {
		return nil, 0
	}
	capacity := p.info.VLArbLowCap
	if block >= 2 {
		capacity = p.info.VLArbHighCap
	}
	if int(capacity) <= 32*(block%2) {
		return nil, 0
	}
	return p, block
}

func (n *SoftNode) getLanes(q *Request) uint16 {
	if q.Attribute == mad.AttrSLtoVL {
		i := n.lane(uint8(q.Modifier>>8), uint8(q.Modifier))
		if i < 0 || n.columns > 1 && q.Modifier > 0xffff {
			return mad.StatusBadField
		}
		clear(q.Data)
		binary.BigEndian.PutUint64(q.Data, n.sltovl[i].Load())
		return mad.StatusOK
	}
	p, block := n.arbBlock(q)
	if p == nil {
		return mad.StatusBadField
	}
	clear(q.Data)
	if p.vlarb != nil {
		p.vlarb[block].Put(q.Data)
	}
	return mad.StatusOK
}

func (n *SoftNode) setLanes(q *Request) uint16 {
	if q.Attribute == mad.AttrSLtoVL {
		return n.setSLtoVL(q)
	}
	n.mu.Lock()
	p, block := n.arbBlock(q)
	if p == nil {
		n.mu.Unlock()
		return mad.StatusBadField
	}
	capacity := int(p.info.VLArbLowCap)
	if block >= 2 {
		capacity = int(p.info.VLArbHighCap)
	}
	var want mad.VLArbBlock
	want.Parse(q.Data)
	for i := range want {
		want[i].VL &= 15
		if 32*(block%2)+i >= capacity {
			want[i] = mad.VLWeight{}
		}
	}
	if p.vlarb == nil {
		p.vlarb = new([4]mad.VLArbBlock)
	}
	changed := p.vlarb[block] != want
	p.vlarb[block] = want
	status := n.getLanes(q)
	n.mu.Unlock()
	if changed {
		n.hw.Changed(p.num, ChangeVLArb)
	}
	return status
}

func (n *SoftNode) setSLtoVL(q *Request) uint16 {
	in, out := uint8(q.Modifier>>8), uint8(q.Modifier)
	i := n.lane(in, out)
	if i < 0 || n.columns > 1 && q.Modifier > 0xffff {
		return mad.StatusBadField
	}
	want := binary.BigEndian.Uint64(q.Data)
	changed := n.sltovl[i].Swap(want) != want
	clear(q.Data[8:])
	if changed {
		port := out
		if n.columns == 1 {
			port = q.Port
		}
		n.hw.Changed(port, ChangeSLtoVL)
	}
	return mad.StatusOK
}
