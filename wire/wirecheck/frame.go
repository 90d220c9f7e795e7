package wirecheck

import "ciddk/wire"

// Transport applies checkers to the transport packet of a frame.
func Transport(checks ...Checker) FrameChecker {
	return func(t T, f *wire.Frame) { t.Helper(); Packet(t, &f.Packet, checks...) }
}

// ICRC checks the invariant CRC.
func ICRC() FrameChecker {
	return func(t T, f *wire.Frame) {
		t.Helper()
		if err := f.CheckICRC(); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// EtherType checks the EtherType: wire.EtherTypeIPv4, EtherTypeIPv6 or EtherTypeRoCEv1.
func EtherType(want uint16) FrameChecker {
	return func(t T, f *wire.Frame) { t.Helper(); equalHex(t, "EtherType", f.Eth.EtherType, want) }
}

// SourcePort checks the UDP source port.
func SourcePort(want uint16) FrameChecker {
	return func(t T, f *wire.Frame) { t.Helper(); equal(t, "UDP source port", f.UDP.SrcPort, want) }
}

// GIDs checks the source and destination addresses. IPv4 addresses are compared as IPv4-mapped GIDs.
func GIDs(src, dst [16]byte) FrameChecker {
	return func(t T, f *wire.Frame) {
		t.Helper()
		s, d := f.GRH.SGID, f.GRH.DGID
		switch f.Eth.EtherType {
		case wire.EtherTypeIPv4:
			s, d = wire.GIDFromIPv4(f.IP4.Src), wire.GIDFromIPv4(f.IP4.Dst)
		case wire.EtherTypeIPv6:
			s, d = f.IP6.Src, f.IP6.Dst
		}
		equal(t, "source GID", s, src)
		equal(t, "destination GID", d, dst)
	}
}

// TrafficClass checks the IPv4 TOS, or the traffic class of IPv6 or GRH.
func TrafficClass(want uint8) FrameChecker {
	return func(t T, f *wire.Frame) {
		t.Helper()
		got := f.GRH.TrafficClass
		switch f.Eth.EtherType {
		case wire.EtherTypeIPv4:
			got = f.IP4.TOS
		case wire.EtherTypeIPv6:
			got = f.IP6.TrafficClass
		}
		equalHex(t, "traffic class", got, want)
	}
}

// DontFragment checks that an IPv4 packet has the DF flag, which RoCEv2 requires. Other packets pass.
func DontFragment() FrameChecker {
	return func(t T, f *wire.Frame) {
		t.Helper()
		if f.Eth.EtherType == wire.EtherTypeIPv4 {
			equalHex(t, "IPv4 flags", f.IP4.Frag, wire.IPv4DontFragment)
		}
	}
}
