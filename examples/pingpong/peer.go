package main

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"ciddk/ci"
)

// A peer is the address of a QP, as the programs exchange it over TCP.
type peer struct {
	LID ci.LID // 0 on Ethernet
	QPN ci.QPN
	PSN ci.PSN // of the first packet that it will send
	GID ci.GID
}

// peerLen is the length of an encoded peer: "LLLL:QQQQQQ:PPPPPP:" in hexadecimal, the 16 bytes of the GID in
// hexadecimal, and a NUL.
const peerLen = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1

// encode returns the peer in the form of the original programs.
func (p peer) encode() []byte {
	return fmt.Appendf(nil, "%04x:%06x:%06x:%x\x00", uint16(p.LID), uint32(p.QPN)&0xffffff,
		uint32(p.PSN)&0xffffff, p.GID[:])
}

// decode parses an address from the network. Each field must have its exact length.
func decode(b []byte) (peer, error) {
	bad := func() (peer, error) {
		return peer{}, fmt.Errorf("the peer sent %q instead of LID:QPN:PSN:GID: is it a pingpong program in the same "+
			"mode?", b)
	}
	s, ok := strings.CutSuffix(string(b), "\x00")
	f := strings.Split(s, ":")
	if !ok || len(f) != 4 {
		return bad()
	}
	var n [3]uint64
	for i, digits := range []int{4, 6, 6} {
		var err error
		if n[i], err = strconv.ParseUint(f[i], 16, 32); err != nil || len(f[i]) != digits {
			return bad()
		}
	}
	p := peer{LID: ci.LID(n[0]), QPN: ci.QPN(n[1]), PSN: ci.PSN(n[2])}
	if len(f[3]) != 2*len(p.GID) {
		return bad()
	}
	if _, err := hex.Decode(p.GID[:], []byte(f[3])); err != nil {
		return bad()
	}
	return p, nil
}

// String returns the peer as the original programs print it.
func (p peer) String() string {
	return fmt.Sprintf("LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %s", uint16(p.LID), uint32(p.QPN), uint32(p.PSN),
		netip.AddrFrom16(p.GID))
}

// gidOf returns the GID of an address; that of an IPv4 address is the IPv4-mapped IPv6 address (IBTA annex A17.4).
func gidOf(a netip.Addr) ci.GID { return a.As16() }
