package sma

import (
	"ciddk/ci"
	"ciddk/mad"
)

const firstMulticastLID = 0xc000

// Route returns the port to which a switch forwards packets to a unicast LID, or mad.NoPort. Port 0 is the switch
// itself.
func (n *SoftNode) Route(lid ci.LID) uint8 {
	if int(lid) >= int(n.sw.LinearFDBCap) || uint32(lid) > n.linTop.Load() {
		return mad.NoPort
	}
	return n.linear.byteAt(int(lid))
}

// A PortMask is a set of ports of a switch: bit i%64 of word i/64 is port i.
type PortMask [4]uint64

// Has reports whether the set has a port.
func (m *PortMask) Has(port uint8) bool { return m[port/64]>>(port%64)&1 != 0 }

// MulticastPorts sets m to the ports to which a switch forwards packets to a multicast LID. It reports whether the
// table has the LID; otherwise, the packet goes to SwitchInfo.DefaultMcastPrimary or DefaultMcastNotPrimary.
func (n *SoftNode) MulticastPorts(lid ci.LID, m *PortMask) bool {
	*m = PortMask{}
	i := int(lid) - firstMulticastLID
	if i < 0 || i >= int(n.sw.McastFDBCap) {
		return false
	}
	if top := n.mcTop.Load(); top != 0 && uint32(lid) > top {
		return false
	}
	for pos, w := range n.mcast {
		m[pos/4] |= uint64(w.uint16At(i)) << (16 * (pos % 4))
	}
	return true
}

// SwitchInfo returns a copy of the SwitchInfo.
func (n *SoftNode) SwitchInfo() mad.SwitchInfo {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sw
}

// setSwitchInfo executes Set(SwitchInfo). It applies LinearFDBTop, the default ports, LifeTimeValue and McastFDBTop,
// and clears PortStateChange if the Set has it (IBTA volume 1, 14.2.5.4).
func (n *SoftNode) setSwitchInfo(q *Request) uint16 {
	var want mad.SwitchInfo
	want.Parse(q.Data)
	n.mu.Lock()
	s := &n.sw
	if q.Modifier != 0 || want.LinearFDBTop != 0 && want.LinearFDBTop >= s.LinearFDBCap || !n.isMulticastTop(&want) {
		n.mu.Unlock()
		return mad.StatusBadField
	}
	before := *s
	s.LinearFDBTop, s.LifeTimeValue = want.LinearFDBTop, want.LifeTimeValue
	s.DefaultPort = want.DefaultPort
	s.DefaultMcastPrimary, s.DefaultMcastNotPrimary = want.DefaultMcastPrimary, want.DefaultMcastNotPrimary
	if want.McastFDBTop != 0 {
		s.McastFDBTop = want.McastFDBTop
	}
	if want.PortStateChange {
		s.PortStateChange = false
	}
	n.linTop.Store(uint32(s.LinearFDBTop))
	n.mcTop.Store(uint32(s.McastFDBTop))
	changed := *s != before
	clear(q.Data)
	s.Put(q.Data)
	n.mu.Unlock()
	if changed {
		n.hw.Changed(0, ChangeSwitch)
	}
	return mad.StatusOK
}

// isMulticastTop reports whether McastFDBTop of a Set is valid: 0 leaves the whole table in use.
func (n *SoftNode) isMulticastTop(w *mad.SwitchInfo) bool {
	top := w.McastFDBTop
	return top == 0 || top >= mad.NoMulticastTop && int(top) < firstMulticastLID+int(n.sw.McastFDBCap)
}

// forwardingBlock returns the table and the offset in bytes that a request selects, or nil.
func (n *SoftNode) forwardingBlock(q *Request) (w words, off int) {
	if q.Attribute == mad.AttrLinearTable {
		w, off = n.linear, 64*int(min(q.Modifier, 0xffff))
	} else {
		pos := int(q.Modifier >> 28)
		if pos >= len(n.mcast) || q.Modifier&0x0ffffe00 != 0 {
			return nil, 0
		}
		w, off = n.mcast[pos], 64*int(q.Modifier&0x1ff)
	}
	if off >= 8*len(w) {
		return nil, 0
	}
	return w, off
}

func (n *SoftNode) getForwarding(q *Request) uint16 {
	w, off := n.forwardingBlock(q)
	if w == nil {
		return mad.StatusBadField
	}
	w.get(off, q.Data)
	return mad.StatusOK
}

func (n *SoftNode) setForwarding(q *Request) uint16 {
	w, off := n.forwardingBlock(q)
	if w == nil {
		return mad.StatusBadField
	}
	if w.put(off, q.Data) {
		c := ChangeLinear
		if q.Attribute == mad.AttrMulticastTable {
			c = ChangeMulticast
		}
		n.hw.Changed(0, c)
	}
	return mad.StatusOK
}
