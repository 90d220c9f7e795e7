// Package wirecheck provides assertions on packets, which can be combined:
//
//	wirecheck.IP(t, datagram,
//		wirecheck.ICRC(),
//		wirecheck.Transport(
//			wirecheck.Opcode(wire.RCAcknowledge),
//			wirecheck.PSN(17),
//			wirecheck.Syndrome(wire.NAKRemoteAccess)))
//
// A packet that does not parse ends the test. Each checker reports a field that differs, with the actual and the
// expected value. Checkers are values without state, and may be used concurrently.
package wirecheck

import "ciddk/wire"

// T is the part of *testing.T that checkers use.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// A Checker checks one property of a transport packet.
type Checker func(t T, p *wire.Packet)

// A FrameChecker checks one property of a RoCE frame.
type FrameChecker func(t T, f *wire.Frame)

// A LinkChecker checks one property of an InfiniBand packet. b has the bytes of the packet.
type LinkChecker func(t T, b []byte, p *wire.LinkPacket)

// Check parses a transport packet, from BTH to ICRC, and applies the checkers.
func Check(t T, b []byte, checks ...Checker) {
	t.Helper()
	var p wire.Packet
	if err := wire.ParsePacket(b, &p); err != nil {
		t.Fatalf("packet % x: %v", b, err)
		return
	}
	Packet(t, &p, checks...)
}

// Packet applies the checkers to a parsed packet.
func Packet(t T, p *wire.Packet, checks ...Checker) {
	t.Helper()
	for _, c := range checks {
		c(t, p)
	}
}

// Frame parses an Ethernet frame and applies the checkers.
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

// IP parses a RoCEv2 packet that begins with its IP header, and applies the checkers.
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

// Link parses an InfiniBand packet, from LRH to VCRC, and applies the checkers.
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

// equal reports an error if got and want differ.
func equal[V comparable](t T, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// equalHex is like equal, but prints the numbers in hexadecimal.
func equalHex[V uint8 | uint16 | uint32 | uint64](t T, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %#x, want %#x", what, got, want)
	}
}
