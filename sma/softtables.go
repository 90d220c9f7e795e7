package sma

import (
	"encoding/binary"

	"ciddk/mad"
)

// guidBlock returns the port and the block of the GUID table that a request selects. Only ports with an address have
// one; on a switch, that is port 0.
func (n *SoftNode) guidBlock(q *Request) (p *softPort, block int) {
	p = n.keyPort(q.Port)
	if p == nil || uint64(q.Modifier)*8 >= uint64(len(p.guids)) {
		return nil, 0
	}
	return p, int(q.Modifier)
}

func (n *SoftNode) getGUIDs(q *Request) uint16 {
	p, block := n.guidBlock(q)
	if p == nil {
		return mad.StatusBadField
	}
	clear(q.Data)
	for i := 8 * block; i < min(8*block+8, len(p.guids)); i++ {
		binary.BigEndian.PutUint64(q.Data[8*(i-8*block):], p.guids[i])
	}
	return mad.StatusOK
}

func (n *SoftNode) setGUIDs(q *Request) uint16 {
	n.mu.Lock()
	p, block := n.guidBlock(q)
	if p == nil {
		n.mu.Unlock()
		return mad.StatusBadField
	}
	changed := false
	for i := 8 * block; i < min(8*block+8, len(p.guids)); i++ {
		if v := binary.BigEndian.Uint64(q.Data[8*(i-8*block):]); i > 0 && v != p.guids[i] { // entry 0 is read only
			p.guids[i] = v
			changed = true
		}
	}
	status := n.getGUIDs(q)
	n.mu.Unlock()
	if changed {
		n.hw.Changed(p.num, ChangeGUIDs)
	}
	return status
}

// pkeyBlock returns the port and the block of the P_Key table that a request selects. The upper half of the modifier is
// the port of a switch; on an adapter it is 0, or the port itself.
func (n *SoftNode) pkeyBlock(q *Request) (p *softPort, block int) {
	port, block := q.Modifier>>16, int(q.Modifier&0xffff)
	if port > 0xff {
		return nil, 0
	}
	p = n.selected(q, uint8(port))
	if p == nil || 32*block >= p.pkeys.Len() {
		return nil, 0
	}
	return p, block
}

func (n *SoftNode) getPKeys(q *Request) uint16 {
	p, block := n.pkeyBlock(q)
	if p == nil {
		return mad.StatusBadField
	}
	clear(q.Data)
	p.pkeys.w.get(64*block, q.Data)
	return mad.StatusOK
}

func (n *SoftNode) setPKeys(q *Request) uint16 {
	p, block := n.pkeyBlock(q)
	if p == nil {
		return mad.StatusBadField
	}
	p.pkeys.mask(block, q.Data)
	if p.pkeys.w.put(64*block, q.Data) {
		n.hw.Changed(p.num, ChangePKeys)
	}
	return n.getPKeys(q)
}
