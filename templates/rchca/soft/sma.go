package soft

import (
	"ciddk/ci"
	"ciddk/sma/pma"
)

// infiniband makes the port one of a subnet, with the next free LID.
func (d *Device) infiniband() {
	p := &d.info.Port
	p.Link, p.HardwareAgents = ci.LinkInfiniBand, false
	p.LID, p.SMLID = ci.LID(len(d.fab.devs)+1), 1
	p.GIDs[0].Type = ci.GIDInfiniBand
}

// SetPort implements rchca.Device.
func (d *Device) SetPort(p ci.PortAttr) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	d.info.Port = p
	d.kick()
}

// Train implements rchca.Device. The other end of the link is always there.
func (d *Device) Train(isUp bool) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if isUp {
		d.raise(d.h.LinkUp)
	}
}

// findLID returns the device with a LID. It returns nil unless both ports are active.
func (d *Device) findLID(lid ci.LID) *Device {
	if d.info.Port.State != ci.PortActive {
		return nil
	}
	for _, x := range d.fab.devs {
		p := &x.info.Port
		if p.State == ci.PortActive && p.LID != 0 && lid>>p.LMC == p.LID>>p.LMC {
			return x
		}
	}
	return nil
}

// isPartner reports whether the P_Keys of two QPs match (IBTA volume 1, 10.9.3): they are of one partition, and one of
// them is a full member.
func (q *qp) isPartner(p *qp) bool {
	a, b := q.pkey(), p.pkey()
	return a&0x7fff != 0 && a&0x7fff == b&0x7fff && (a|b)&0x8000 != 0
}

func (q *qp) pkey() ci.PKey {
	keys := q.d.info.Port.PKeys
	if i := int(q.attr.Primary.PKeyIndex); i < len(keys) {
		return keys[i]
	}
	return 0
}

// counters are those of a port, in bytes and packets.
type counters struct{ sentBytes, sentPackets, receivedBytes, receivedPackets uint64 }

// Counters implements pma.Source: data in units of 4 bytes.
func (d *Device) Counters(_ uint8, v *pma.Values) bool {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	c := &d.counters
	v[pma.XmitData], v[pma.XmitPkts] = c.sentBytes/4, c.sentPackets
	v[pma.RcvData], v[pma.RcvPkts] = c.receivedBytes/4, c.receivedPackets
	return true
}

// count counts packets from d to an address, with bytes of payload and extension headers in all of them. No device may
// be there.
func (d *Device) count(to *ci.AVAttr, packets, bytes uint64) {
	headers := uint64(8 + 12 + 4) // LRH, BTH, ICRC
	if to.Global {
		headers += 40 // GRH
	}
	bytes = packets*headers + (bytes+3)&^3
	d.counters.sentPackets += packets
	d.counters.sentBytes += bytes
	if p := d.find(to); p != nil {
		p.counters.receivedPackets += packets
		p.counters.receivedBytes += bytes
	}
}

// countMessage counts a message of a connection, and its acknowledgement or response.
func (q *qp) countMessage(p *qp, s *sendSlot, packets, bytes uint64) {
	const reth, aeth = 16, 4
	there, back := &q.attr.Primary.AV, &p.attr.Primary.AV
	if s.Op == ci.OpRead {
		q.d.count(there, 1, reth)
		if packets > 1 {
			bytes += aeth // the last response has one, too
		}
		p.d.count(back, packets, aeth+bytes)
		return
	}
	if s.Op == ci.OpWrite {
		bytes += reth
	}
	q.d.count(there, packets, s.immediate()+bytes)
	p.d.count(back, 1, aeth)
}
