package impair

import (
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// corrupt encodes a packet, flips one bit of it, and decodes it again. It returns false if the ICRC detects that, or if
// the bytes are no packet.
func corrupt(p *rvt.Packet, bit uint32) bool {
	var w wire.Packet
	if !train.Encode(&w, p) {
		return false
	}
	// The addresses are the same on both sides, so any will do. IPv6 has no identification to be solved for.
	flow := wire.NewFlow6([16]byte{}, [16]byte{}, 0, 0)
	b := wire.AppendPacket(nil, &w)
	end := len(b) - wire.ICRCLen
	flow.Start(len(b)).Transport(b[:end]).Put(b[end:])
	bit %= uint32(8 * len(b))
	b[bit/8] ^= 1 << (bit % 8)
	if !flow.Check(b) || wire.ParsePacket(b, &w) != nil {
		return false
	}
	mtu := p.MTU
	train.TakeHeaders(p, &w)
	p.MTU = mtu
	p.Payload = [][]byte{w.Payload}
	return true
}
