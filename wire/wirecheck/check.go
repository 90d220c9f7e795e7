// Package wirecheck holds assertions on packets that compose:
//
//	wirecheck.IP(t, datagram,
//		wirecheck.ICRC(),
//		wirecheck.Transport(
//			wirecheck.Opcode(wire.RCAcknowledge),
//			wirecheck.PSN(17),
//			wirecheck.Syndrome(wire.NAKRemoteAccess)))
//
// A packet that cannot be decoded ends the test; every field that differs is reported with what was got and wanted.
package wirecheck

import "ciddk/wire"

// T is what a checker needs of a *testing.T.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// A Checker judges one property of a transport packet.
type Checker func(t T, p *wire.Packet)

// A FrameChecker judges one property of a RoCE frame.
type FrameChecker func(t T, f *wire.Frame)

// A LinkChecker judges one property of an InfiniBand packet, b being its bytes.
type LinkChecker func(t T, b []byte, p *wire.LinkPacket)

// Check decodes a transport packet, BTH to ICRC, and applies the checkers.
func Check(t T, b []byte, checks ...Checker) {
	t.Helper()
	var p wire.Packet
	if err := wire.ParsePacket(b, &p); err != nil {
		t.Fatalf("packet % x: %v", b, err)
		return
	}
	Packet(t, &p, checks...)
}

// Packet applies the checkers to a decoded packet.
func Packet(t T, p *wire.Packet, checks ...Checker) {
	t.Helper()
	for _, c := range checks {
		c(t, p)
	}
}

// Frame decodes an Ethernet frame and applies the checkers.
func Frame(t T, b []byte, checks ...FrameChecker) {
	t.Helper()
	var f wire.Frame
	if err := wire.ParseFrame(b, &f); err != nil {
		t.Fatalf("frame % x: %v", b, err)
		return
	}
	for _, c := range checks {
		c(t, &f)
	}
}

// IP decodes a RoCEv2 packet from the IP header on and applies the checkers.
func IP(t T, b []byte, checks ...FrameChecker) {
	t.Helper()
	var f wire.Frame
	if err := wire.ParseIP(b, &f); err != nil {
		t.Fatalf("IP packet % x: %v", b, err)
		return
	}
	for _, c := range checks {
		c(t, &f)
	}
}

// Link decodes an InfiniBand packet, LRH to VCRC, and applies the checkers.
func Link(t T, b []byte, checks ...LinkChecker) {
	t.Helper()
	var p wire.LinkPacket
	if err := wire.ParseLinkPacket(b, &p); err != nil {
		t.Fatalf("link packet % x: %v", b, err)
		return
	}
	for _, c := range checks {
		c(t, b, &p)
	}
}

func equal[V comparable](t T, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// equalHex is equal for numbers that people read in hexadecimal.
func equalHex[V uint8 | uint16 | uint32 | uint64](t T, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %#x, want %#x", what, got, want)
	}
}
