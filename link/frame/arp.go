package frame

import (
	"encoding/binary"
	"net/netip"

	"ciddk/wire"
)

const (
	etherTypeARP = 0x0806
	arpLen       = 28
	arpRequest   = 1
	arpReply     = 2
)

// arpStart is the beginning of ARP packets for IPv4 over Ethernet (RFC 826).
var arpStart = [6]byte{0, 1, 0x08, 0x00, 6, 4}

// allStations is the broadcast address.
var allStations = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// An arp is an ARP packet for IPv4 over Ethernet.
type arp struct {
	op         uint16
	senderMAC  [6]byte
	sender     [4]byte
	targetMAC  [6]byte
	targetAddr [4]byte
}

func parseARP(b []byte) (a arp, ok bool) {
	if len(b) < arpLen || [6]byte(b) != arpStart {
		return a, false
	}
	return arp{binary.BigEndian.Uint16(b[6:]), [6]byte(b[8:]), [4]byte(b[14:]), [6]byte(b[18:]), [4]byte(b[24:])}, true
}

// frame returns a frame with the packet, from its sender's MAC address.
func (a *arp) frame(dst [6]byte) []byte {
	b := make([]byte, wire.EthernetLen+arpLen)
	eth := wire.Ethernet{Dst: dst, Src: a.senderMAC, EtherType: etherTypeARP}
	eth.Put(b)
	p := b[wire.EthernetLen:]
	copy(p, arpStart[:])
	binary.BigEndian.PutUint16(p[6:], a.op)
	copy(p[8:], a.senderMAC[:])
	copy(p[14:], a.sender[:])
	copy(p[18:], a.targetMAC[:])
	copy(p[24:], a.targetAddr[:])
	return b
}

// receiveARP learns the sender of a packet, and answers a request for an address of the port.
func (r *resolver) receiveARP(b []byte) {
	a, ok := parseARP(b)
	if !ok {
		return
	}
	sender := netip.AddrFrom4(a.sender)
	if !sender.IsUnspecified() {
		r.learn(sender, a.senderMAC)
	}
	if a.op != arpRequest || !r.port.table.Load().hasAddr(netip.AddrFrom4(a.targetAddr)) {
		return
	}
	reply := arp{op: arpReply, senderMAC: r.port.MAC(), sender: a.targetAddr, targetMAC: a.senderMAC,
		targetAddr: a.sender}
	r.port.SendFrame(reply.frame(a.senderMAC))
}

// request sends a request for an address.
func (r *resolver) request(a netip.Addr) {
	own, ok := r.port.table.Load().firstOf(a.Is4())
	if !ok {
		return // the port has no address of the family
	}
	if a.Is6() {
		r.solicit(own, a)
		return
	}
	q := arp{op: arpRequest, senderMAC: r.port.MAC(), sender: own.As4(), targetAddr: a.As4()}
	r.port.SendFrame(q.frame(allStations))
}

// receive handles a frame of address resolution. It returns false for other frames.
func (r *resolver) receive(b []byte) bool {
	l3 := b[wire.EthernetLen:]
	switch binary.BigEndian.Uint16(b[12:]) {
	case etherTypeARP:
		r.receiveARP(l3)
		return true
	case wire.EtherTypeIPv6:
		return r.receiveND(l3)
	}
	return false
}
