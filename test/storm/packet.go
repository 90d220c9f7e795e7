package storm

import (
	"net/netip"

	"ciddk/link/impair"
	"ciddk/link/sim"
	"ciddk/wire"
)

// unprotected reports whether no check of a receiver covers a bit of a RoCEv2 packet (annex A17.3.3 and IBTA volume 1,
// 7.8.1). These are the bits that the ICRC masks, except TOS, TTL and header checksum of IPv4, which the header
// checksum covers.
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

// accepted reports whether a datagram passes the checks of its receiver.
func accepted(d *sim.Datagram) bool {
	return d.Flipped < 0 || unprotected(d.Flipped, d.To.Is6())
}

// traceEntry is a packet that a side sent or received. A failure prints the last ones.
type traceEntry struct {
	at      int64
	dir     string
	op      wire.Opcode
	psn     uint32
	n       uint32 // READ: number of bytes; responses: syndrome
	verdict impair.Verdict
	flipped bool
}

// endpoint identifies a queue pair.
type endpoint struct {
	addr netip.Addr
	qpn  uint32
}
