package wirecheck_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/wire"
	"ciddk/wire/wirecheck"
)

// recorder is a T that records messages.
type recorder struct {
	errors []string
	fatal  string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}
func (r *recorder) Fatalf(f string, args ...any) { r.fatal = fmt.Sprintf(f, args...) }
func (r *recorder) String() string               { return strings.Join(r.errors, "\n") }
func packet(o wire.Opcode, n int) wire.Packet {
	return wire.Packet{BTH: wire.BTH{Opcode: o, SE: true, MigReq: true, AckReq: true, PKey: 0x8001, DestQP: 0x12,
		PSN: 0x34},
		DETH: wire.DETH{QKey: 0x56, SrcQP: 0x78}, RETH: wire.RETH{VA: 1, RKey: 2, DMALen: 3},
		AtomicETH: wire.AtomicETH{VA: 4, RKey: 5, SwapAdd: 6, Compare: 7}, AETH: wire.AETH{Syndrome: wire.RNRNAK(5),
			MSN: 0x9a},
		AtomicAckETH: wire.AtomicAckETH{Orig: 0xbc}, ImmDt: wire.ImmDt{Imm: 0xde}, IETH: wire.IETH{RKey: 0xf0},
		Payload: []byte("payload")[:n]}
}

// TestCheckers checks that each checker accepts the correct value, and reports the field and both values for a wrong
// one.
func TestCheckers(t *testing.T) {
	for _, c := range []struct {
		op          wire.Opcode
		right       wirecheck.Checker
		wrong       wirecheck.Checker
		text        string
		needsHeader string // header that the message names for a packet without it
	}{
		{wire.RCSendOnly, wirecheck.Opcode(wire.RCSendOnly), wirecheck.Opcode(wire.RCSendLast),
			"opcode: got RC_SEND_ONLY, want RC_SEND_LAST", ""},
		{wire.RCSendOnly, wirecheck.PSN(0x34), wirecheck.PSN(0x35), "PSN: got 0x34, want 0x35", ""},
		{wire.RCSendOnly, wirecheck.DestQP(0x12), wirecheck.DestQP(1), "destination QP: got 0x12, want 0x1", ""},
		{wire.RCSendOnly, wirecheck.PKey(0x8001), wirecheck.PKey(0xffff), "P_Key: got 0x8001, want 0xffff", ""},
		{wire.RCSendOnly, wirecheck.Solicited(true), wirecheck.Solicited(false),
			"solicited event: got true, want false", ""},
		{wire.RCSendOnly, wirecheck.MigReq(true), wirecheck.MigReq(false), "MigReq: got true, want false", ""},
		{wire.RCSendOnly, wirecheck.AckReq(true), wirecheck.AckReq(false), "AckReq: got true, want false", ""},
		{wire.RCSendOnly, wirecheck.Payload([]byte("pay")), wirecheck.Payload([]byte("pax")),
			"payload: got 3 bytes 70 61 79, want 3 bytes 70 61 78", ""},
		{wire.RCSendOnly, wirecheck.PayloadLen(3), wirecheck.PayloadLen(4), "payload length: got 3, want 4", ""},
		{wire.UDSendOnly, wirecheck.SrcQP(0x78), wirecheck.SrcQP(0), "source QP: got 0x78, want 0x0", "DETH"},
		{wire.UDSendOnly, wirecheck.QKey(0x56), wirecheck.QKey(0), "Q_Key: got 0x56, want 0x0", "DETH"},
		{wire.RCWriteOnly, wirecheck.RETH(wire.RETH{VA: 1, RKey: 2, DMALen: 3}),
			wirecheck.RETH(wire.RETH{VA: 1, RKey: 9, DMALen: 3}), "RETH R_Key: got 0x2, want 0x9", "RETH"},
		{wire.RCWriteOnly, wirecheck.RETH(wire.RETH{VA: 1, RKey: 2, DMALen: 3}),
			wirecheck.RETH(wire.RETH{VA: 9, RKey: 2, DMALen: 3}), "RETH virtual address: got 0x1, want 0x9", "RETH"},
		{wire.RCWriteOnly, wirecheck.RETH(wire.RETH{VA: 1, RKey: 2, DMALen: 3}),
			wirecheck.RETH(wire.RETH{VA: 1, RKey: 2, DMALen: 9}), "RETH DMA length: got 3, want 9", "RETH"},
		{wire.RCCompareSwap, wirecheck.AtomicETH(wire.AtomicETH{VA: 4, RKey: 5, SwapAdd: 6, Compare: 7}),
			wirecheck.AtomicETH(wire.AtomicETH{VA: 9, RKey: 9, SwapAdd: 9, Compare: 9}),
			"AtomicETH virtual address: got 0x4, want 0x9\nAtomicETH R_Key: got 0x5, want 0x9\n" +
				"AtomicETH swap or add: got 0x6, want 0x9\nAtomicETH compare: got 0x7, want 0x9", "AtomicETH"},
		{wire.RCAcknowledge, wirecheck.Syndrome(wire.RNRNAK(5)), wirecheck.Syndrome(wire.ACK(31)),
			"syndrome: got RNR NAK(60µs), want ACK", "AETH"},
		{wire.RCAcknowledge, wirecheck.SyndromeClass(wire.ClassRNRNAK), wirecheck.SyndromeClass(wire.ClassNAK),
			"syndrome class: got 1, want 3", "AETH"},
		{wire.RCAcknowledge, wirecheck.MSN(0x9a), wirecheck.MSN(0), "MSN: got 0x9a, want 0x0", "AETH"},
		{wire.RCAtomicAcknowledge, wirecheck.AtomicAck(0xbc), wirecheck.AtomicAck(0),
			"original value: got 0xbc, want 0x0",
			"AtomicAckETH"},
		{wire.RCSendOnlyImm, wirecheck.Imm(0xde), wirecheck.Imm(0), "immediate data: got 0xde, want 0x0", "ImmDt"},
		{wire.RCSendOnlyInv, wirecheck.InvRKey(0xf0), wirecheck.InvRKey(0), "invalidated R_Key: got 0xf0, want 0x0",
			"IETH"},
	} {
		n := 0
		if c.op.HasPayload() {
			n = 3
		}
		p := packet(c.op, n)
		b := wire.AppendPacket(nil, &p)
		wirecheck.Check(t, b, c.right)
		var r recorder
		wirecheck.Check(&r, b, c.wrong)
		assert.Equal(t, c.text, r.String())
		if c.needsHeader != "" {
			r = recorder{}
			p = packet(wire.RCSendOnly, 3)
			wirecheck.Packet(&r, &p, c.right)
			assert.Equal(t, "RC_SEND_ONLY has no "+c.needsHeader, r.String())
		}
	}
}

func TestReserved(t *testing.T) {
	p := packet(wire.RCSendOnly, 3)
	wirecheck.Packet(t, &p, wirecheck.Reserved())
	p.BTH.Resv7 = 1
	var r recorder
	wirecheck.Packet(&r, &p, wirecheck.Reserved())
	assert.Contains(t, r.String(), "BTH byte 8 has reserved bits 0x01")
}

func TestUndecodable(t *testing.T) {
	never := func(wirecheck.T, *wire.Packet) { t.Error("checker ran on a packet that does not decode") }
	var r recorder
	wirecheck.Check(&r, []byte{1, 2}, never)
	assert.Contains(t, r.fatal, "packet 01 02: wire: packet too short")
	wirecheck.IP(&r, []byte{0x10}, wirecheck.Transport(never))
	assert.Contains(t, r.fatal, "IP version 1")
	wirecheck.Frame(&r, nil, wirecheck.Transport(never))
	assert.Contains(t, r.fatal, "want at least 14 for an Ethernet header")
	wirecheck.Link(&r, nil, wirecheck.LinkTransport(never))
	assert.Contains(t, r.fatal, "for an IBA packet")
}

func TestFrameCheckers(t *testing.T) {
	src, dst := wire.GIDFromIPv4([4]byte{10, 0, 0, 1}), wire.GIDFromIPv4([4]byte{10, 0, 0, 2})
	for _, et := range []uint16{wire.EtherTypeIPv4, wire.EtherTypeIPv6, wire.EtherTypeRoCEv1} {
		f := wire.Frame{Eth: wire.Ethernet{EtherType: et}, Packet: packet(wire.UDSendOnly, 3),
			UDP: wire.UDP{SrcPort: 50000}}
		f.IP4 = wire.IPv4{TOS: 7, Frag: wire.IPv4DontFragment, Src: [4]byte{10, 0, 0, 1}, Dst: [4]byte{10, 0, 0, 2}}
		f.IP6 = wire.IPv6{TrafficClass: 7, Src: src, Dst: dst}
		f.GRH = wire.GRH{TrafficClass: 7, SGID: src, DGID: dst}
		b := wire.AppendFrame(nil, &f)
		checks := []wirecheck.FrameChecker{wirecheck.EtherType(et), wirecheck.ICRC(), wirecheck.GIDs(src, dst),
			wirecheck.TrafficClass(7),
			wirecheck.DontFragment(), wirecheck.Transport(wirecheck.PSN(0x34), wirecheck.SrcQP(0x78))}
		if et != wire.EtherTypeRoCEv1 {
			checks = append(checks, wirecheck.SourcePort(50000))
			wirecheck.IP(t, b[wire.EthernetLen:], checks...)
		}
		wirecheck.Frame(t, b, checks...)

		b[len(b)-1] ^= 1
		var r recorder
		wirecheck.Frame(&r, b, wirecheck.EtherType(1), wirecheck.ICRC(), wirecheck.GIDs(dst, src),
			wirecheck.TrafficClass(8),
			wirecheck.SourcePort(1), wirecheck.Transport(wirecheck.PSN(1)))
		require.Len(t, r.errors, 7, r.String())
		for i, want := range []string{"EtherType: got", "ICRC 0x", "source GID: got", "destination GID: got",
			"traffic class: got 0x7, want 0x8",
			"UDP source port: got", "PSN: got 0x34, want 0x1"} {
			assert.Contains(t, r.errors[i], want)
		}
	}
	f := wire.Frame{Eth: wire.Ethernet{EtherType: wire.EtherTypeIPv4}, Packet: packet(wire.UDSendOnly, 3)}
	var r recorder
	wirecheck.Frame(&r, wire.AppendFrame(nil, &f), wirecheck.DontFragment())
	assert.Equal(t, "IPv4 flags: got 0x0, want 0x4000", r.String())
}

func TestLinkCheckers(t *testing.T) {
	p := wire.LinkPacket{LRH: wire.LRH{VL: 15, SL: 3, LNH: wire.LNHLocal, SLID: 4, DLID: 5},
		Packet: packet(wire.UDSendOnly, 3)}
	b := wire.AppendLinkPacket(nil, &p)
	wirecheck.Link(t, b, wirecheck.CRCs(), wirecheck.LIDs(4, 5), wirecheck.ServiceLevel(3), wirecheck.VirtualLane(15),
		wirecheck.Global(false),
		wirecheck.LinkTransport(wirecheck.PSN(0x34)))
	b[len(b)-1] ^= 1
	var r recorder
	wirecheck.Link(&r, b, wirecheck.CRCs(), wirecheck.LIDs(5, 4), wirecheck.ServiceLevel(1), wirecheck.VirtualLane(0),
		wirecheck.Global(true),
		wirecheck.LinkTransport(wirecheck.PSN(1)))
	require.Len(t, r.errors, 7, r.String())
	for i, want := range []string{"VCRC 0x", "source LID: got 4, want 5", "destination LID: got 5, want 4",
		"SL: got 3, want 1",
		"VL: got 15, want 0", "global: got false, want true", "PSN: got 0x34, want 0x1"} {
		assert.Contains(t, r.errors[i], want)
	}
}
