package chaos

import (
	"encoding/binary"
	"time"

	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/wire"
)

// forgery sends forged packets that a receiver must not act on. RoCEv2 cannot detect a forged packet with the correct
// source address, QP number and PSN, so there are none of these.
func (w *world) forgery() error {
	end, err := w.net.End(attacker)
	if err != nil {
		return err
	}
	w.start("attacker's ear", func(a *actor) {
		for {
			a.beat()
			if _, err := end.Recv(w.ctx); err != nil { // discard the responses of HCAs
				return
			}
			w.tally.add("packets sent to the attacker", 1)
		}
	})
	w.start("attacker", func(a *actor) {
		defer end.Close()
		for w.ctx.Err() == nil {
			w.forge(a, end)
			if a.rnd.IntN(8) == 0 {
				a.pause(2 * time.Millisecond)
			}
		}
	})
	return nil
}

// forge sends one packet.
func (w *world) forge(a *actor, end *sim.End) {
	b := w.sniff.any(a.rnd)
	if a.rnd.IntN(2) == 0 {
		b = w.sniff.latest()
	}
	if len(b) == 0 {
		a.pause(time.Millisecond)
		return
	}
	how := one(a.rnd, forgeries)
	if b = how.change(a, b); b == nil {
		return
	}
	w.tally.add("forged: "+how.name, 1)
	if err := end.Send(b); err != nil && len(b) >= wire.IPv4Len {
		w.tally.add("forged packets that the network refused", 1)
	}
}

// forgeries lists functions that change a packet, or return nil for unsuitable packets.
var forgeries = []struct {
	name   string
	change func(*actor, []byte) []byte
}{
	{"a bit flipped", func(a *actor, b []byte) []byte {
		o := wire.IPv4Len + wire.UDPLen
		bit := a.rnd.IntN(8 * (len(b) - o))
		if bit/8 == 4 { // the ICRC does not cover it, and receivers ignore it
			bit += 8
		}
		b[o+bit/8] ^= 1 << (bit % 8)
		return b
	}},
	{"cut off", func(a *actor, b []byte) []byte {
		b = b[:wire.IPv4Len+a.rnd.IntN(len(b)-wire.IPv4Len)]
		return rebuiltLengths(b)
	}},
	{"garbage", func(a *actor, b []byte) []byte {
		b = b[:wire.IPv4Len+wire.UDPLen+a.rnd.IntN(len(b)-wire.IPv4Len-wire.UDPLen+1)]
		for i := wire.IPv4Len + wire.UDPLen; i < len(b); i++ {
			b[i] = byte(a.rnd.Uint32())
		}
		return rebuiltLengths(b)
	}},
	{"another source address", forged(func(a *actor, f *wire.Frame) bool {
		if f.Packet.BTH.Opcode.Service() == wire.UD { // any port may send datagrams
			return false
		}
		f.IP4.Src = attacker.As4()
		f.Packet.BTH.PSN = wire.PSNAdd(f.Packet.BTH.PSN, a.rnd.IntN(4))
		return true
	})},
	{"another source address, another operation", forged(func(a *actor, f *wire.Frame) bool {
		p := &f.Packet
		if p.BTH.Opcode.Service() != wire.RC {
			return false
		}
		f.IP4.Src = attacker.As4()
		p.BTH.PSN = wire.PSNAdd(p.BTH.PSN, a.rnd.IntN(4))
		return reopcode(a, p)
	})},
	{"PSN far away", forged(func(a *actor, f *wire.Frame) bool {
		if f.Packet.BTH.Opcode.Service() != wire.RC {
			return false
		}
		f.Packet.BTH.PSN = farPSN(a, f.Packet.BTH.PSN)
		return true
	})},
	{"PSN far away, another operation", forged(func(a *actor, f *wire.Frame) bool {
		if f.Packet.BTH.Opcode.Service() != wire.RC {
			return false
		}
		f.Packet.BTH.PSN = farPSN(a, f.Packet.BTH.PSN)
		return reopcode(a, &f.Packet)
	})},
	{"another partition", forged(func(a *actor, f *wire.Frame) bool {
		f.Packet.BTH.PKey ^= uint16(1 + a.rnd.IntN(0x7ffe))
		spoil(&f.Packet)
		return true
	})},
	{"another service", forged(func(a *actor, f *wire.Frame) bool {
		p := &f.Packet
		if p.BTH.DestQP <= 1 || p.BTH.Opcode.Service() == wire.UD {
			return false
		}
		p.BTH.Opcode = one(a.rnd, []wire.Opcode{wire.UCSendOnly, wire.UCWriteOnly, wire.UCSendFirst, wire.UDSendOnly,
			wire.CNP})
		p.DETH = wire.DETH{QKey: a.rnd.Uint32(), SrcQP: a.rnd.Uint32() & wire.Mask24}
		p.RETH = wire.RETH{VA: a.rnd.Uint64(), RKey: a.rnd.Uint32(), DMALen: uint32(len(p.Payload))}
		return true
	})},
	{"another Q_Key", forged(func(a *actor, f *wire.Frame) bool {
		p := &f.Packet
		if p.BTH.Opcode.Service() != wire.UD {
			return false
		}
		p.DETH.QKey ^= 1 + a.rnd.Uint32N(1<<31)
		spoil(p)
		return true
	})},
	{"another QP", forged(func(a *actor, f *wire.Frame) bool {
		f.Packet.BTH.DestQP = a.rnd.Uint32() & wire.Mask24
		return f.Packet.BTH.DestQP > 1
	})},
	{"a management datagram", forged(func(a *actor, f *wire.Frame) bool {
		p := &f.Packet
		f.IP4.Src = attacker.As4()
		p.BTH = wire.BTH{Opcode: wire.UDSendOnly, PKey: 0xffff, DestQP: 1, PSN: a.rnd.Uint32() & wire.Mask24}
		p.DETH = wire.DETH{QKey: 0x80010000, SrcQP: 1 + a.rnd.Uint32N(3)}
		p.Payload = randomMAD(a)
		return true
	})},
	{"a management datagram from elsewhere", forged(func(a *actor, f *wire.Frame) bool {
		if f.Packet.BTH.DestQP != 1 || len(f.Packet.Payload) != mad.Size {
			return false
		}
		f.IP4.Src = attacker.As4()
		b := f.Packet.Payload
		for range a.rnd.IntN(4) { // a message of another dialogue, possibly changed
			b[a.rnd.IntN(len(b))] ^= byte(1 << a.rnd.IntN(8))
		}
		return true
	})},
}

// spoil changes the content of a packet, so that a receiver that accepts it reports a failure.
func spoil(p *wire.Packet) {
	if len(p.Payload) > 0 {
		p.Payload[0] ^= 0xff
	}
}

// farPSN returns a PSN that is neither expected nor outstanding.
func farPSN(a *actor, psn uint32) uint32 {
	d := 1<<20 + a.rnd.IntN(1<<21)
	if a.rnd.IntN(2) == 0 {
		d = -d
	}
	return wire.PSNAdd(psn, d)
}

// reopcode returns a packet with a random opcode of the reliable service, and random operands.
func reopcode(a *actor, p *wire.Packet) bool {
	op := wire.Opcode(a.rnd.IntN(0x18))
	if !op.Valid() {
		return false
	}
	p.BTH.Opcode, p.BTH.AckReq = op, a.rnd.IntN(2) == 0
	if p.RETH == (wire.RETH{}) {
		p.RETH = wire.RETH{VA: a.rnd.Uint64(), RKey: a.rnd.Uint32(), DMALen: uint32(len(p.Payload))}
	}
	if a.rnd.IntN(4) == 0 {
		p.RETH.DMALen = a.rnd.Uint32()
	}
	p.AtomicETH = wire.AtomicETH{VA: p.RETH.VA, RKey: p.RETH.RKey, SwapAdd: a.rnd.Uint64(), Compare: a.rnd.Uint64()}
	p.AETH = wire.AETH{Syndrome: wire.Syndrome(a.rnd.Uint32()), MSN: a.rnd.Uint32() & wire.Mask24}
	if !op.HasPayload() {
		p.Payload = nil
	}
	return true
}

// forged changes a parsed packet, and writes it with a correct ICRC.
func forged(change func(*actor, *wire.Frame) bool) func(*actor, []byte) []byte {
	return func(a *actor, b []byte) []byte {
		var f wire.Frame
		if wire.ParseIP(b, &f) != nil || !change(a, &f) {
			return nil
		}
		return wire.AppendIP(nil, &f)
	}
}

// rebuiltLengths corrects the lengths and the checksum of the IP and UDP headers.
func rebuiltLengths(b []byte) []byte {
	if len(b) < wire.IPv4Len+wire.UDPLen {
		return b
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[10:], 0)
	binary.BigEndian.PutUint16(b[wire.IPv4Len+4:], uint16(len(b)-wire.IPv4Len))
	var sum uint32
	for i := 0; i < wire.IPv4Len; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum))
	return b
}

// randomMAD returns a datagram with a valid header and random content.
func randomMAD(a *actor) []byte {
	b := make([]byte, mad.Size)
	for i := range b {
		b[i] = byte(a.rnd.Uint32())
	}
	class := one(a.rnd, []mad.Class{mad.ClassCM, mad.ClassSubnetAdmin, mad.ClassPerformance, rmppClass,
		mad.Class(a.rnd.Uint32())})
	b[0], b[1], b[2] = 1, byte(class), byte(1+a.rnd.IntN(2))
	b[3] = byte(one(a.rnd, []mad.Method{mad.Get, mad.Set, mad.Send, mad.GetResp, mad.Method(a.rnd.Uint32())}))
	if class == mad.ClassCM {
		b[2], b[3] = 2, byte(mad.Send)
		binary.BigEndian.PutUint16(b[16:], uint16(0x10+a.rnd.IntN(12)))
	}
	if class == rmppClass {
		b[24], b[25], b[26] = 1, byte(a.rnd.IntN(6)), byte(a.rnd.IntN(8))|1 // RMPP version, type, flags
		copy(b[36:], []byte{0, vendorOUI[0], vendorOUI[1], vendorOUI[2]})
		if a.rnd.IntN(2) == 0 {
			binary.BigEndian.PutUint32(b[28:], uint32(a.rnd.IntN(5)))
		}
	}
	return b
}
