package reference

import (
	"net/netip"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// Room of a decoder. A batch is delivered when it is full.
const (
	decodePackets = 256
	decodePieces  = 512
)

// decoder turns datagrams into packets for the engine: every datagram is checked and counted once. Payload stays where it is, so a
// batch must be delivered before the datagrams' storage is used again. Not for concurrent use.
type decoder struct {
	port   *udpPort
	polled bool
	flow   packetFlow
	from   sender
	src    rvt.Addr
	dst    rvt.Addr
	class  uint8  // of the IP header, where it is known
	hops   uint8  // likewise; 0: not known
	label  uint32 // likewise
	seg    int    // packet length of the last train that header had to cut
	w      wire.Packet
	n      int
	pieces int
	pkts   [decodePackets]rvt.Packet
	segs   [decodePieces][]byte
	grh    [decodePackets][wire.GRHAreaLen]byte
}

// newDecoder makes a decoder for datagrams whose IPv4 header is not seen.
func newDecoder(p *udpPort) *decoder {
	d := &decoder{port: p}
	if p.addr.Is4() {
		d.from.table, d.from.clock = newHabits(), p.clock
	}
	return d
}

// datagram takes in what one receive gave: one packet, or with seg > 0 several of seg bytes each but for the last. Errors are counted.
func (d *decoder) datagram(src, dst netip.AddrPort, b []byte, seg int) {
	if seg <= 0 || seg > len(b) {
		seg = len(b)
	}
	if !d.port.active() {
		d.port.recv.Count(rvt.DropNotForUs, (len(b)+seg-1)/max(seg, 1))
		return
	}
	if d.flow.set(src, dst) && d.from.table != nil {
		d.from.set(src.Addr(), dst.Addr())
	}
	d.src.GID, d.dst.GID = gidOf(src.Addr()), gidOf(dst.Addr())
	if len(b) == 0 {
		d.refuse(rvt.DropMalformed, b)
		return
	}
	for i := 0; len(b) > 0; i++ {
		k := min(seg, len(b))
		d.packet(b[:k:k], i)
		b = b[k:]
	}
}

// packet takes in one packet, BTH to ICRC.
func (d *decoder) packet(b []byte, i int) {
	if len(b) < wire.BTHLen+wire.ICRCLen || len(b)%4 != 0 {
		d.refuse(rvt.DropMalformed, b)
		return
	}
	id, ok, solved := d.flow.check(b, i, d.from.guess())
	if !ok {
		d.refuse(rvt.DropICRC, b)
		return
	}
	if !d.parse(b) {
		return
	}
	if d.from.table != nil && (solved || !d.from.settled()) {
		// Behind parse, so that the table learns from sensible packets only.
		switch d.from.judge(id, solved) {
		case idRefused:
			d.refuse(rvt.DropIPv4ID, b)
			return
		case idUnchecked:
			d.port.stats.uncheckedID.Add(1)
		}
	}
	if solved {
		d.port.stats.solvedID.Add(1)
	}
	d.take(b, id)
}

// checked takes in a packet whose ICRC is right.
func (d *decoder) checked(b []byte, id uint16) {
	if d.parse(b) {
		d.take(b, id)
	}
}

// parse reads a packet whose ICRC is right to d.w; false if it goes no further.
func (d *decoder) parse(b []byte) bool {
	if wire.ParsePacket(b, &d.w) != nil {
		d.refuse(rvt.DropMalformed, b)
		return false
	}
	if d.w.BTH.Opcode.Service() == wire.Congestion {
		d.refuse(rvt.DropService, b) // nothing here paces itself by them
		return false
	}
	return true
}

// take takes in the packet in d.w.
func (d *decoder) take(b []byte, id uint16) {
	if d.merge() {
		return
	}
	if d.n == decodePackets || d.pieces == decodePieces {
		d.deliver()
	}
	p := &d.pkts[d.n]
	*p = rvt.Packet{Src: d.src, Dst: d.dst, Entropy: d.flow.src.Port()}
	takeHeaders(p, &d.w)
	if len(d.w.Payload) > 0 {
		d.segs[d.pieces] = d.w.Payload
		p.Payload = d.segs[d.pieces : d.pieces+1 : d.pieces+1]
		d.pieces++
	}
	if d.w.BTH.Opcode.HasDETH() {
		p.GRH = d.grh[d.n][:]
		d.putGRH(p.GRH, len(b), id)
	}
	d.n++
}

// refuse counts a datagram that goes no further.
func (d *decoder) refuse(c rvt.Counter, b []byte) {
	d.port.recv.Count(c, 1)
	if d.port.refused != nil {
		d.port.refused(c, rawDatagram(d.flow.src, d.flow.dst, b))
	}
}

// merge makes the packet in d.w the end of the train before it, if it is: the engine then looks up a QP and a region once for all.
// The train's MTU is the size of its first packet, whatever the path's is.
func (d *decoder) merge() bool {
	if d.n == 0 || d.pieces == decodePieces {
		return false
	}
	op := d.w.BTH.Opcode
	p := &d.pkts[d.n-1]
	n := uint32(len(d.w.Payload))
	switch {
	case op.Start() || p.End || p.Ack || p.SE || p.Len == 0 || p.Len != p.N*p.MTU || n == 0 || n > p.MTU || !op.End() && n != p.MTU,
		op.Op() != p.Op || op.Service() != p.Service || d.w.BTH.DestQP != uint32(p.DestQP),
		d.w.BTH.PSN != wire.PSNAdd(uint32(p.PSN), int(p.N)),
		d.w.BTH.PKey != uint16(p.PKey) || d.w.BTH.MigReq != p.MigReq,
		p.Src != d.src || p.Dst != d.dst || p.Entropy != d.flow.src.Port() || p.MTU%4 != 0:
		return false
	}
	d.segs[d.pieces] = d.w.Payload
	d.pieces++
	first := d.pieces - int(p.N) - 1
	p.Payload = d.segs[first:d.pieces:d.pieces]
	p.N++
	p.Len += n
	p.End, p.SE, p.Ack = op.End(), d.w.BTH.SE, d.w.BTH.AckReq
	if p.HasImm = op.HasImm(); p.HasImm {
		p.Imm = d.w.ImmDt.Imm
	}
	if p.HasInv = op.HasIETH(); p.HasInv {
		p.Inv = ci.Key(d.w.IETH.RKey)
	}
	if op.HasAETH() {
		p.Syndrome, p.MSN = d.w.AETH.Syndrome, d.w.AETH.MSN
	}
	d.port.stats.merged.Add(1)
	return true
}

// putGRH fills the 40 bytes in front of a datagram. A plain socket shows neither TOS nor TTL, so those are what our senders use.
func (d *decoder) putGRH(b []byte, n int, id uint16) {
	s, t := d.flow.src.Addr(), d.flow.dst.Addr()
	hops := d.hops
	if hops == 0 {
		hops = defaultHops
	}
	if t.Is4() {
		h := wire.IPv4{TOS: d.class, TotalLen: uint16(wire.IPv4Len + wire.UDPLen + n), ID: id, Frag: wire.IPv4DontFragment ^ d.flow.odd, TTL: hops,
			Protocol: wire.ProtocolUDP, Src: s.As4(), Dst: t.As4()}
		h.SetChecksum()
		wire.PutGRHArea4(b, &h)
		return
	}
	wire.PutGRHArea6(b, &wire.IPv6{TrafficClass: d.class, FlowLabel: d.label, PayloadLen: uint16(wire.UDPLen + n), NextHeader: wire.ProtocolUDP, HopLimit: hops,
		Src: s.As16(), Dst: t.As16()})
}

// deliver hands the batch to the engine. It may wait, since a port's receiver stands on no lock of the engine.
func (d *decoder) deliver() {
	if d.n > 0 {
		d.port.recv.Deliver(d.pkts[:d.n], true, d.polled)
	}
	d.n, d.pieces, d.from.timed = 0, 0, false
}
