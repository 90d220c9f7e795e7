package wiresuite

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/wire"
)

var (
	here4  = ci.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}
	there4 = ci.GID{10: 0xff, 11: 0xff, 12: 10, 15: 2}
	here6  = ci.GID{0: 0xfd, 15: 1}
	there6 = ci.GID{0: 0xfd, 15: 2}
)

// rules returns the rules that a packet breaks.
func rules(info validate.WireInfo, b []byte, service wire.Service) []string {
	p, err := take(&info, b)
	out := []string{}
	for _, f := range newForm(info, 0xffff).check(p, err,
		origin{service: service, lid: 3, av: ci.AVAttr{GRH: ci.GRH{HopLimit: 64}}}) {
		out = append(out, f.rule)
	}
	return out
}

// TestFormOfLinux checks packets of Linux, with their IP headers. They break no rule. Linux sends UDP checksums of
// zero.
func TestFormOfLinux(t *testing.T) {
	info := validate.WireInfo{Link: ci.LinkEthernet, UDPPort: 4791, Raw: true, Header: true, Checksum: true}
	for name, b := range golden(t) {
		op := wire.Opcode(b[bthAt(ci.LinkEthernet, b)])
		assert.Empty(t, rules(info, b, op.Service()), name)
	}
}

// TestForm breaks each rule of form in a packet that is otherwise valid.
func TestForm(t *testing.T) {
	eth := validate.WireInfo{Link: ci.LinkEthernet, UDPPort: 4791, Raw: true, Header: true, Checksum: true}
	ib := validate.WireInfo{Link: ci.LinkInfiniBand, LID: 7, Raw: true}
	send := func(o *outgoing) { o.Payload = []byte("hello") }
	ack := func(o *outgoing) {
		o.BTH.Opcode = wire.RCAcknowledge
		o.AETH = wire.AETH{Syndrome: wire.ACK(wire.CreditsInvalid), MSN: 1}
	}
	six := func(o *outgoing) { send(o); o.src, o.dst = here6, there6 }
	after := func(f func(b []byte)) func(*outgoing) { return func(o *outgoing) { send(o); o.whole = f } }
	after6 := func(f func(b []byte)) func(*outgoing) { return func(o *outgoing) { six(o); o.whole = f } }
	ip := func(f func(b []byte)) func(*outgoing) {
		return after(func(b []byte) {
			f(b)
			b[10], b[11] = 0, 0
			binary.BigEndian.PutUint16(b[10:], ^sum(b[:ip4Len], 0))
		})
	}
	lrh := func(f func(b []byte)) func(*outgoing) { // the VCRC covers the changed packet
		return after(func(b []byte) {
			f(b)
			binary.LittleEndian.PutUint16(b[len(b)-vcrcLen:], vcrc(b[:len(b)-vcrcLen]))
		})
	}
	for _, x := range []struct {
		name string
		info validate.WireInfo
		make func(*outgoing)
		want []string
	}{
		{"right", eth, send, []string{}},
		{"valid, IPv6", eth, six, []string{}},
		{"valid, acknowledge", eth, ack, []string{}},
		{"valid, InfiniBand", ib, send, []string{}},
		{"ICRC", eth, func(o *outgoing) { send(o); o.icrcDelta = 1 }, []string{ruleICRC}},
		{"TVer", eth, func(o *outgoing) { send(o); o.alter = func(b []byte) { b[1] |= 4 } }, []string{ruleTVer}},
		{"reserved in byte 4", eth, func(o *outgoing) { send(o); o.BTH.Resv6 = 1 }, []string{ruleReserved}},
		{"reserved in byte 8", eth, func(o *outgoing) { send(o); o.BTH.Resv7 = 1 }, []string{ruleReserved}},
		{"pad in a FIRST", eth, func(o *outgoing) { send(o); o.BTH.Opcode = wire.RCSendFirst }, []string{rulePadCount}},
		{"nonzero pad", eth, func(o *outgoing) { send(o); o.padding = []byte{1, 1, 1} }, []string{rulePadZero}},
		{"P_Key", eth, func(o *outgoing) { send(o); o.BTH.PKey = 0x8001 }, []string{rulePKey}},
		{"service", eth, func(o *outgoing) { send(o); o.BTH.Opcode = wire.UCSendOnly }, []string{ruleOpcode}},
		{"undefined opcode", eth, func(o *outgoing) { send(o); o.alter = func(b []byte) { b[0] = 0x1f } },
			[]string{ruleOpcode}},
		{"acknowledge with payload", eth, func(o *outgoing) { ack(o); o.Payload = []byte("four") },
			[]string{ruleOpcode}},
		{"reserved syndrome", eth, func(o *outgoing) { ack(o); o.AETH.Syndrome = 0x65 }, []string{ruleSyndrome}},
		{"NAK in a READ response", eth,
			func(o *outgoing) { o.BTH.Opcode = wire.RCReadResponseOnly; o.AETH.Syndrome = 0x61 },
			[]string{ruleSyndrome}},
		{"UDP length", eth, after(func(b []byte) { b[ip4Len+5] += 4 }), []string{ruleUDP, ruleICRC}},
		{"UDP checksum", eth, after(func(b []byte) { b[ip4Len+6] = 0x12 }), []string{ruleChecksum}},
		{"UDP checksum, IPv6", eth, after6(func(b []byte) { b[ip6Len+6] = 0x12 }), []string{ruleChecksum}},
		{"correct UDP checksum", eth, after(func(b []byte) {
			binary.BigEndian.PutUint16(b[ip4Len+6:], ^sum(b[ip4Len:], uint32(sum(b[12:20], 17+uint32(len(b)-ip4Len)))))
		}), []string{}},
		{"correct UDP checksum, IPv6", eth, after6(func(b []byte) {
			binary.BigEndian.PutUint16(b[ip6Len+6:], ^sum(b[ip6Len:], uint32(sum(b[8:40], 17+uint32(len(b)-ip6Len)))))
		}), []string{}},
		{"no DF", eth, ip(func(b []byte) { b[6] = 0 }), []string{ruleIP, ruleICRC}},
		{"TTL 0", eth, ip(func(b []byte) { b[8] = 0 }), []string{ruleIP}},
		{"IP checksum", eth, after(func(b []byte) { b[10] ^= 1 }), []string{ruleIP}},
		{"IP length", eth, ip(func(b []byte) { b[3] += 4 }), []string{ruleIP, ruleICRC}},
		{"hop limit 0", eth, after6(func(b []byte) { b[7] = 0 }), []string{ruleIP}},
		{"LRH length", ib, lrh(func(b []byte) { b[5]++ }), []string{ruleLRH, ruleICRC}},
		{"LRH reserved", ib, lrh(func(b []byte) { b[1] |= 4 }), []string{ruleLRH, ruleICRC}},
		{"link version", ib, lrh(func(b []byte) { b[0] |= 1 }), []string{ruleLRH, ruleICRC}},
		{"VL 15", ib, lrh(func(b []byte) { b[0] |= 0xf0 }), []string{ruleLRH}},
		{"DLID", ib, lrh(func(b []byte) { b[3]++ }), []string{ruleLRH, ruleICRC}},
		{"VCRC", ib, after(func(b []byte) { b[len(b)-1] ^= 1 }), []string{ruleVCRC}},
	} {
		o := outgoing{src: here4, dst: there4, slid: 3, dlid: 7, sport: 50000}
		o.BTH = wire.BTH{Opcode: wire.RCSendOnly, PKey: 0xffff, DestQP: 0x123, PSN: 5}
		x.make(&o)
		assert.ElementsMatch(t, x.want, rules(x.info, o.bytes(&x.info), wire.RC), x.name)
	}
}

// TestSourcePort checks that one flow has one source port, and that two flows may have different ones.
func TestSourcePort(t *testing.T) {
	info := validate.WireInfo{Link: ci.LinkEthernet, UDPPort: 4791, Raw: true}
	f := newForm(info, 0xffff)
	for i, x := range []struct {
		qp    uint32
		sport uint16
		ok    bool
	}{{1, 50000, true}, {1, 50000, true}, {2, 50001, true}, {1, 50002, false}} {
		o := outgoing{src: here4, dst: there4, sport: x.sport}
		o.BTH = wire.BTH{Opcode: wire.RCSendOnly, PKey: 0xffff, DestQP: x.qp}
		p, err := take(&info, o.bytes(&info))
		require.NoError(t, err)
		assert.Equal(t, x.ok, len(f.check(p, err, origin{service: wire.RC})) == 0, i)
	}
}

// FuzzForm checks that bytes which are not a packet break a rule and cause no panic.
func FuzzForm(f *testing.F) {
	o := outgoing{src: here4, dst: there4, slid: 3, dlid: 7, sport: 50000}
	o.BTH = wire.BTH{Opcode: wire.RCSendOnly, PKey: 0xffff}
	o.Payload = []byte("hello")
	for _, l := range []ci.Link{ci.LinkEthernet, ci.LinkInfiniBand} {
		info := validate.WireInfo{Link: l, UDPPort: 4791}
		f.Add(l == ci.LinkInfiniBand, o.bytes(&info))
	}
	f.Fuzz(func(t *testing.T, ib bool, b []byte) {
		info := validate.WireInfo{Link: ci.LinkEthernet, UDPPort: 4791, Header: true, Checksum: true}
		if ib {
			info.Link = ci.LinkInfiniBand
		}
		p, err := take(&info, b)
		found := newForm(info, 0xffff).check(p, err, origin{service: wire.RC})
		if err != nil && len(found) == 0 {
			t.Fatalf("an invalid packet breaks no rule: %v", err)
		}
		_ = p.String()
	})
}
