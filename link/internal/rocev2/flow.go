package rocev2

import (
	"encoding/binary"
	"net/netip"

	"ciddk/wire"
)

// A packetFlow is the flow of received packets from src to dst.
type packetFlow struct {
	src, dst netip.AddrPort
	odd      uint16 // bits of the IPv4 flags other than DF
	made     uint16 // odd bits of flow4
	flow4    wire.Flow4
	flow6    wire.Flow6
}

// set selects a flow. It returns false if it is the present one.
func (f *packetFlow) set(src, dst netip.AddrPort) bool {
	if f.src == src && f.dst == dst && f.made == f.odd {
		return false
	}
	f.src, f.dst, f.made = src, dst, f.odd
	if dst.Addr().Is4() {
		f.flow4 = wire.NewFlow4(src.Addr().As4(), dst.Addr().As4(), src.Port(), dst.Port(), wire.IPv4DontFragment^f.odd)
	} else {
		f.flow6 = wire.NewFlow6(src.Addr().As16(), dst.Addr().As16(), src.Port(), dst.Port())
	}
	return true
}

// check checks the ICRC of a packet, BTH to ICRC, that was segment i of one receive. solved reports that the IPv4
// identification, which the socket does not show, was computed and is neither 0 nor i, so that 16 of the ICRC's 32 bits
// remained as a check. guess, if not 0, is the most probable identification.
func (f *packetFlow) check(b []byte, i int, guess uint16) (id uint16, ok, solved bool) {
	end := len(b) - wire.ICRCLen
	if !f.dst.Addr().Is4() {
		return 0, f.flow6.Check(b), false
	}
	want := binary.LittleEndian.Uint32(b[end:])
	if guess == 0 {
		guess = uint16(i)
	}
	got := uint32(f.flow4.Start(len(b), guess).Transport(b[:end]))
	if got == want {
		return guess, true, guess != uint16(i) && guess != 0
	}
	// The ICRC is linear, so the result is the difference from the guess.
	id, ok = wire.SolveIPv4ID(got, want, end)
	id ^= guess
	return id, ok, id != uint16(i) && id != 0
}
