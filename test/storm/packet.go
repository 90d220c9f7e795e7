package storm

import (
	"net/netip"

	"ciddk/hca/reference"
	"ciddk/wire"
)

// unprotected tells the bits of a RoCEv2 packet that no receiver notices (annex A17.3.3 and IBTA volume 1, 7.8.1): the fields that the ICRC
// masks. Of those of IPv4, the header checksum covers TOS and TTL, and itself.
func unprotected(bit int, v6 bool) bool {
	at := bit / 8
	if v6 {
		switch {
		case at == 0:
			return bit%8 < 4 // traffic class; the upper half is the version
		case at < 4, at == 7: // traffic class, flow label; hop limit
			return true
		}
		at -= wire.IPv6Len
	} else {
		at -= wire.IPv4Len
	}
	return at == 6 || at == 7 || at == wire.UDPLen+4 // UDP checksum; FECN, BECN, reserved
}

// accepted tells whether a datagram passes the checks of its receiver.
func accepted(d *reference.Datagram) bool {
	return d.Flipped < 0 || unprotected(d.Flipped, d.To.Is6())
}

// sight is one packet as one side saw it, for the story that a failure tells.
type sight struct {
	at      int64
	dir     string
	op      wire.Opcode
	psn     uint32
	n       uint32 // READ: bytes asked for; responses: the syndrome
	verdict reference.Verdict
	flipped bool
}

type endpoint struct {
	addr netip.Addr
	qpn  uint32
}
