package wirecheck

import "ciddk/wire"

// LinkTransport applies checkers to the transport packet of an InfiniBand packet.
func LinkTransport(checks ...Checker) LinkChecker {
	return func(t T, _ []byte, p *wire.LinkPacket) { t.Helper(); Packet(t, &p.Packet, checks...) }
}

// CRCs checks VCRC and ICRC.
func CRCs() LinkChecker {
	return func(t T, b []byte, p *wire.LinkPacket) {
		t.Helper()
		if err := wire.CheckLinkCRC(b, p); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// LIDs checks the source and destination LIDs.
func LIDs(src, dst uint16) LinkChecker {
	return func(t T, _ []byte, p *wire.LinkPacket) {
		t.Helper()
		equal(t, "source LID", p.LRH.SLID, src)
		equal(t, "destination LID", p.LRH.DLID, dst)
	}
}

// ServiceLevel checks the SL.
func ServiceLevel(want uint8) LinkChecker {
	return func(t T, _ []byte, p *wire.LinkPacket) { t.Helper(); equal(t, "SL", p.LRH.SL, want) }
}

// VirtualLane checks the VL. Packets of QP0 use VL 15.
func VirtualLane(want uint8) LinkChecker {
	return func(t T, _ []byte, p *wire.LinkPacket) { t.Helper(); equal(t, "VL", p.LRH.VL, want) }
}

// Global checks whether the packet has a GRH.
func Global(want bool) LinkChecker {
	return func(t T, _ []byte, p *wire.LinkPacket) { t.Helper(); equal(t, "global", p.Global(), want) }
}
