package rocev2

import (
	"cmp"
	"net/netip"

	"ciddk/ci"
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// Capacity of a Decoder. A batch is delivered when it is full.
const (
	decodePackets = 256
	decodePieces  = 512
)

// A Decoder turns datagrams into packets for the engine: every datagram is checked and counted once. Payload stays
// where it is, so a batch must be delivered before the datagrams' storage is used again. A Decoder is not safe for
// concurrent use.
type Decoder struct {
	// Polled is the argument of Receiver.Deliver.
	Polled bool
	// Class, HopLimit and Label are those of the IP header of the next Datagram, where the system shows them. HopLimit
	// is 0 where it does not.
	Class, HopLimit uint8
	Label           uint32

	port   *Port
	flow   packetFlow
	from   idChecker
	src    rvt.Addr
	dst    rvt.Addr
	seg    int // packet length of the last train that RawIP split
	w      wire.Packet
	n      int
	pieces int
	pkts   [decodePackets]rvt.Packet
	segs   [decodePieces][]byte
	grh    [decodePackets][wire.GRHAreaLen]byte
}

// NewDecoder returns a decoder of what p receives. hidden reports that the IPv4 header of datagrams is not visible:
// identifications are then checked by the rules of ipid.go.
func NewDecoder(p *Port, hidden bool) *Decoder {
	d := &Decoder{port: p}
	if hidden && p.Addr.Is4() {
		d.from.table, d.from.clock = newIDTable(), p.Clock
	}
	return d
}

// Datagram decodes the UDP payload of one receive: one packet or, with seg > 0, several of seg bytes each except the
// last. Errors are counted.
func (d *Decoder) Datagram(src, dst netip.AddrPort, b []byte, seg int) {
	if seg <= 0 || seg > len(b) {
		seg = len(b)
	}
	if !d.port.Active() {
		d.port.Receiver.Count(rvt.DropNotForUs, (len(b)+seg-1)/max(seg, 1))
		return
	}
	if d.flow.set(src, dst) && d.from.table != nil {
		d.from.set(src.Addr(), dst.Addr())
	}
	d.src.GID, d.dst.GID = GIDOf(src.Addr()), GIDOf(dst.Addr())
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

// packet decodes one packet, BTH to ICRC.
func (d *Decoder) packet(b []byte, i int) {
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
		// After parse, so that only well-formed packets change the table.
		switch d.from.check(id, solved) {
		case idRejected:
			d.refuse(rvt.DropIPv4ID, b)
			return
		case idUnchecked:
			d.port.Stats.UncheckedID.Add(1)
		}
	}
	if solved {
		d.port.Stats.SolvedID.Add(1)
	}
	d.take(b, id)
}

// checked decodes a packet whose ICRC is right.
func (d *Decoder) checked(b []byte, id uint16) {
	if d.parse(b) {
		d.take(b, id)
	}
}

// parse parses a packet whose ICRC is right into d.w. It returns false if the packet is dropped.
func (d *Decoder) parse(b []byte) bool {
	if wire.ParsePacket(b, &d.w) != nil {
		d.refuse(rvt.DropMalformed, b)
		return false
	}
	return true
}

// take adds the packet in d.w to the batch.
func (d *Decoder) take(b []byte, id uint16) {
	if d.merge() {
		return
	}
	if d.n == decodePackets || d.pieces == decodePieces {
		d.Deliver()
	}
	p := &d.pkts[d.n]
	*p = rvt.Packet{Src: d.src, Dst: d.dst, Entropy: d.flow.src.Port(), CE: wire.IsCE(d.Class)}
	train.TakeHeaders(p, &d.w)
	if len(d.w.Payload) > 0 {
		d.segs[d.pieces] = d.w.Payload
		p.Payload = d.segs[d.pieces : d.pieces+1 : d.pieces+1]
		d.pieces++
	}
	if d.w.BTH.Opcode.HasDETH() {
		p.GRH = d.grh[d.n][:]
		// Where the system does not show a hop limit, it is the one that senders use by default.
		g := grhHeader{src: d.flow.src.Addr(), dst: d.flow.dst.Addr(), class: d.Class,
			hops: cmp.Or(d.HopLimit, DefaultHops), label: d.Label, id: id, odd: d.flow.odd}
		g.put(p.GRH, len(b))
	}
	d.n++
}

// refuse counts a dropped datagram.
func (d *Decoder) refuse(c rvt.Counter, b []byte) {
	d.port.Receiver.Count(c, 1)
	if d.port.lost != nil {
		d.port.lost(rvt.Loss{Direction: rvt.Received, Frame: appendHeaders(d.flow.src, d.flow.dst, b),
			Reason: c.String()})
	}
}

// merge appends the packet in d.w to the previous train if it continues that train, so that the engine looks up QP and
// region once for all. The train's MTU is the size of its first packet, whatever the path's MTU is.
func (d *Decoder) merge() bool {
	if d.n == 0 || d.pieces == decodePieces {
		return false
	}
	op := d.w.BTH.Opcode
	p := &d.pkts[d.n-1]
	n := uint32(len(d.w.Payload))
	switch {
	case op.Start() || p.End || p.Ack || p.SE || p.Len == 0 || p.Len != p.N*p.MTU || n == 0 || n > p.MTU ||
		!op.End() && n != p.MTU,
		op.Op() != p.Op || op.Service() != p.Service || d.w.BTH.DestQP != uint32(p.DestQP),
		d.w.BTH.PSN != wire.PSNAdd(uint32(p.PSN), int(p.N)),
		d.w.BTH.PKey != uint16(p.PKey) || d.w.BTH.MigReq != p.MigReq,
		!p.Syndrome.IsACK(), // of the first packet: that of the last one would replace it
		p.Src != d.src || p.Dst != d.dst || p.Entropy != d.flow.src.Port() || p.MTU%4 != 0,
		p.CE != wire.IsCE(d.Class):
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
	d.port.Stats.Merged.Add(1)
	return true
}

// A grhHeader is the IP header that a datagram's receiver gets.
type grhHeader struct {
	src, dst    netip.Addr
	class, hops uint8
	label       uint32
	id, odd     uint16 // of IPv4: identification, and bits of the fragmentation field that are not as usual
}

// put fills in the 40 bytes before a datagram of n bytes, BTH to ICRC: the IP header, over IPv4 in the last 20 bytes
// (A17.4.5.2).
func (g *grhHeader) put(b []byte, n int) {
	if g.dst.Is4() {
		h := wire.IPv4{TOS: g.class, TotalLen: uint16(wire.IPv4Len + wire.UDPLen + n), ID: g.id,
			Frag: wire.IPv4DontFragment ^ g.odd, TTL: g.hops, Protocol: wire.ProtocolUDP, Src: g.src.As4(),
			Dst: g.dst.As4()}
		h.SetChecksum()
		wire.PutGRHArea4(b, &h)
		return
	}
	wire.PutGRHArea6(b, &wire.IPv6{TrafficClass: g.class, FlowLabel: g.label, PayloadLen: uint16(wire.UDPLen + n),
		NextHeader: wire.ProtocolUDP, HopLimit: g.hops, Src: g.src.As16(), Dst: g.dst.As16()})
}

// Deliver passes the batch to the engine. It may block, since a port's receiver holds no lock of the engine.
func (d *Decoder) Deliver() {
	if d.n > 0 {
		d.port.Receiver.Deliver(d.pkts[:d.n], true, d.Polled)
	}
	d.n, d.pieces, d.from.timed = 0, 0, false
}
