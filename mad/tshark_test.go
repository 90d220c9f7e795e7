package mad_test

import (
	"encoding/hex"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/pcapfile"
	"ciddk/internal/tsharktest"
	"ciddk/mad"
	"ciddk/wire"
)

// frame returns a RoCEv2 frame with a datagram for QP1.
func frame(datagram []byte, etherType uint16) []byte {
	f := wire.Frame{
		Eth: wire.Ethernet{Dst: [6]byte{2, 0, 0, 0, 0, 1}, Src: [6]byte{2, 0, 0, 0, 0, 2}, EtherType: etherType},
		IP4: wire.IPv4{TTL: 64, Src: [4]byte{192, 0, 2, 1}, Dst: [4]byte{192, 0, 2, 2}},
		IP6: wire.IPv6{HopLimit: 64, Src: [16]byte{0xfd, 15: 1}, Dst: [16]byte{0xfd, 15: 2}},
		UDP: wire.UDP{SrcPort: 0xc000},
		Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.UDSendOnly, PKey: 0xffff, DestQP: 1},
			DETH: wire.DETH{QKey: mad.QKeyGSI, SrcQP: 1}, Payload: datagram},
	}
	return wire.AppendFrame(nil, &f)
}

// expect is the value that tshark must print for a field: a number in any base, bytes in hexadecimal, or an address.
type expect map[string]any

func (e expect) check(t *testing.T, name, field, got string) {
	t.Helper()
	switch want := e[field].(type) {
	case int:
		n, err := strconv.ParseUint(got, 0, 64)
		if assert.NoError(t, err, "%s: %s is %q", name, field, got) {
			assert.Equal(t, uint64(want), n, "%s: %s", name, field)
		}
	case []byte:
		assert.Equal(t, hex.EncodeToString(want), strings.ReplaceAll(got, ":", ""), "%s: %s", name, field)
	case string:
		assert.Equal(t, want, got, "%s: %s", name, field)
	default:
		t.Fatalf("%s: no way to compare %T", field, want)
	}
}

func with(es ...expect) expect {
	all := expect{}
	for _, e := range es {
		maps.Copy(all, e)
	}
	return all
}

// prefixed returns the expectations with a prefix before every name.
func prefixed(p string, e expect) expect {
	all := expect{}
	for k, v := range e {
		all["infiniband."+p+"."+k] = v
	}
	return all
}

// pattern returns data without equal bytes in one message.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + 1)
	}
	return b
}

type tsharkCase struct {
	name     string
	datagram []byte
	want     expect
	v4       bool // an IPv4 packet, for which tshark prints GIDs as IPv4 addresses
}

func cmCase(t *testing.T, m mad.CMMessage, want expect) tsharkCase {
	t.Helper()
	name := mad.AttributeName(mad.ClassCM, m.Attribute())
	h := mad.CMHeader(0x1122334455667788, m)
	b, err := mad.AppendCM(nil, &h, m)
	require.NoError(t, err)
	return tsharkCase{name: name, datagram: b, want: with(want,
		prefixed("mad", expect{"mgmtclass": 7, "classversion": 2, "baseversion": 1, "method": 3, "status": 0,
			"transactionid": 0x1122334455667788, "attributeid": int(m.Attribute()), "attributemodifier": 0}))}
}

func ipv6(last byte) (string, [16]byte) {
	a := netip.MustParseAddr("2001:db8::").As16()
	a[15] = last
	return netip.AddrFrom16(a).String(), a
}

// tsharkREQ sets every field that tshark prints, to values that differ between adjacent fields. It leaves out flow
// label and rate, which tshark decodes wrongly: it applies the masks of a 32-bit word to the first three bytes and to
// the first byte. TestGoldenREQ checks the flow label in packets of Linux.
func tsharkREQ(t *testing.T) []tsharkCase {
	t.Helper()
	local, localGID := ipv6(1)
	remote, remoteGID := ipv6(2)
	_, altLocal := ipv6(3)
	_, altRemote := ipv6(4)
	req := mad.REQ{
		LocalCommID: 0x01020304, ServiceID: 0x1122334455667788, LocalCAGUID: 0x0807060504030201, LocalQKey: 0x21222324,
		LocalQPN:     0xabcdef,
		ResponderRes: 5, LocalEECN: 0x313233, InitiatorDepth: 6, RemoteEECN: 0x414243, RemoteTimeout: 19,
		Service:     mad.ServiceUC,
		FlowControl: true, StartingPSN: 0xfedcba, LocalTimeout: 21, RetryCount: 6, PKey: 0x8765, PathMTU: mad.MTU2048,
		RDCExists:     true,
		RNRRetryCount: 5, MaxCMRetries: 11, SRQ: true, ExtendedService: 3,
		Primary: mad.CMPath{LocalLID: 0x101, RemoteLID: 0x202, LocalGID: localGID, RemoteGID: remoteGID,
			FlowLabel:    0xabcde,
			Rate:         0x2b,
			TrafficClass: 0x71, HopLimit: 0x72, SL: 9, SubnetLocal: true, AckTimeout: 17},
		Alternate: mad.CMPath{LocalLID: 0x303, RemoteLID: 0x404, LocalGID: altLocal, RemoteGID: altRemote,
			FlowLabel: 0x54321, Rate: 0x15,
			TrafficClass: 0x73, HopLimit: 0x74, SL: 6, SubnetLocal: true, AckTimeout: 14},
		PrivateData: [mad.REQPrivateLen]byte(pattern(mad.REQPrivateLen)),
	}
	fields := expect{
		"infiniband.cm.req": 0x01020304,
	}
	plain := prefixed("cm.req", expect{
		"serviceid": 0x1122334455667788, "localcaguid": 0x0807060504030201, "localqkey": 0x21222324,
		"localqpn":     0xabcdef,
		"responderres": 5,
		"localeecn":    0x313233, "initdepth": 6, "remoteeecn": 0x414243, "remoteresptout": 19, "transpsvctype": 1,
		"e2eflowctrl": 1,
		"startpsn":    0xfedcba, "localresptout": 21, "retrcount": 6, "pkey": 0x8765, "pppmtu": 4, "rdcexist": 1,
		"rnrretrcount": 5,
		"maxcmretr":    11, "srq": 1, "ext_transport": 3, "prim_locallid": 0x101, "prim_remotelid": 0x202,
		"prim_localgid":  local,
		"prim_remotegid": remote, "prim_tfcclass": 0x71,
		"prim_hoplim": 0x72, "prim_sl": 9, "prim_subnetlocal": 1, "prim_reserved1": 0, "prim_localacktout": 17,
		"prim_reserved2": 0,
		"alt_locallid":   0x303, "alt_remotelid": 0x404, "alt_localgid": altLocal[:], "alt_remotegid": altRemote[:],
		"alt_tfcclass": 0x73, "alt_hoplim": 0x74, "alt_sl": 6,
		"alt_subnetlocal": 1, "alt_reserved1": 0, "alt_localacktout": 14, "private": pattern(mad.REQPrivateLen),
	})
	cases := []tsharkCase{cmCase(t, &req, with(fields, plain))}

	byIP := func(source, destination string, want expect) {
		r := req
		if src, dst := netip.MustParseAddrPort(source).Addr(), netip.MustParseAddr(destination); src.Is4() {
			r.Primary.LocalGID, r.Primary.RemoteGID = wire.GIDFromIPv4(src.As4()), wire.GIDFromIPv4(dst.As4())
		}
		r.ServiceID = mad.PortSpaceTCP.ServiceID(7174)
		src := netip.MustParseAddrPort(source)
		h, err := mad.NewIPCM(src, netip.MustParseAddr(destination))
		require.NoError(t, err)
		require.NoError(t, mad.SetIPCM(&r, &h, pattern(mad.REQConsumerLen)))
		c := cmCase(t, &r,
			with(fields, want, prefixed("cm.req", expect{"serviceid.protocol": 6, "serviceid.dport": 7174,
				"ip_cm.majv": 0, "ip_cm.minv": 0, "ip_cm.reserved": 0, "ip_cm.sport": int(src.Port()),
				"ip_cm.private": pattern(mad.REQConsumerLen)})))
		c.name += " by IP from " + source
		c.v4 = src.Addr().Is4()
		cases = append(cases, c)
	}
	byIP("192.0.2.1:40000", "192.0.2.2", prefixed("cm.req",
		expect{"ip_cm.ipv": 4, "ip_cm.sip4": "192.0.2.1", "ip_cm.dip4": "192.0.2.2",
			"prim_localgid_ipv4": "192.0.2.1", "prim_remotegid_ipv4": "192.0.2.2"}))
	byIP("[2001:db8::1]:40001", "2001:db8::2", prefixed("cm.req.ip_cm",
		expect{"ipv": 6, "sip6": "2001:db8::1", "dip6": "2001:db8::2"}))
	return cases
}

// TestTsharkCM compares the fields that tshark prints with those that were written. tshark decodes only the header of
// MRA, LAP, APR and SIDR messages.
func TestTsharkCM(t *testing.T) {
	t.Parallel()
	rej := mad.REJ{LocalCommID: 0x01020304, RemoteCommID: 0x05060708, Message: mad.WhichREP, Reason: mad.RejConsumer,
		PrivateData: [mad.REJPrivateLen]byte(pattern(mad.REJPrivateLen))}
	require.NoError(t, rej.SetAdditionalInfo(pattern(70)))
	cases := append(tsharkREQ(t),
		cmCase(t, &mad.REP{LocalCommID: 0x01020304, RemoteCommID: 0x05060708, LocalQKey: 0x11121314, LocalQPN: 0xabcdef,
			LocalEECN:   0x212223,
			StartingPSN: 0xfedcba, ResponderRes: 3, InitiatorDepth: 4, TargetAckDelay: 15,
			Failover:      mad.FailoverRejected,
			FlowControl:   true,
			RNRRetryCount: 6, SRQ: true, LocalCAGUID: 0x0807060504030201,
			PrivateData: [mad.REPPrivateLen]byte(pattern(mad.REPPrivateLen))},
			with(expect{"infiniband.cm.rep": 0x01020304}, prefixed("cm.rep",
				expect{"remotecommid": 0x05060708, "localqkey": 0x11121314,
					"localqpn": 0xabcdef, "localeecn": 0x212223, "startpsn": 0xfedcba, "respres": 3, "initdepth": 4,
					"tgtackdelay": 15,
					"failoveracc": 2, "e2eflowctrl": 1, "rnrretrcount": 6, "srq": 1, "reserved": 0,
					"localcaguid": 0x0807060504030201,
					"private":     pattern(mad.REPPrivateLen)}))),
		cmCase(t, &mad.RTU{LocalCommID: 0x01020304, RemoteCommID: 0x05060708,
			PrivateData: [mad.RTUPrivateLen]byte(pattern(mad.RTUPrivateLen))},
			prefixed("cm.rtu", expect{"localcommid": 0x01020304, "remotecommid": 0x05060708,
				"private": pattern(mad.RTUPrivateLen)})),
		cmCase(t, &rej, prefixed("cm.rej", expect{"localcommid": 0x01020304, "remotecommid": 0x05060708, "msgrej": 1,
			"reserved0":  0,
			"rejinfolen": 70, "reserved1": 0, "reason": 28, "ari": append(pattern(70), 0,
				0), "private": pattern(mad.REJPrivateLen)})),
		cmCase(t, &mad.DREQ{LocalCommID: 0x01020304, RemoteCommID: 0x05060708, RemoteQPN: 0xabcdef,
			PrivateData: [mad.DREQPrivateLen]byte(pattern(mad.DREQPrivateLen))},
			with(expect{"infiniband.cm.req.remoteqpneecn": 0xabcdef},
				prefixed("cm.dreq", expect{"localcommid": 0x01020304,
					"remotecommid": 0x05060708, "private": pattern(mad.DREQPrivateLen)}))),
		cmCase(t, &mad.DREP{LocalCommID: 0x01020304, RemoteCommID: 0x05060708,
			PrivateData: [mad.DREPPrivateLen]byte(pattern(mad.DREPPrivateLen))},
			prefixed("cm.drsp", expect{"localcommid": 0x01020304, "remotecommid": 0x05060708,
				"private": pattern(mad.DREPPrivateLen)})),
		cmCase(t, &mad.MRA{Message: mad.WhichLAP, ServiceTimeout: 20}, nil),
		cmCase(t, &mad.LAP{RemoteQPN: 5}, nil),
		cmCase(t, &mad.APR{Status: mad.APRUnsupported}, nil),
		cmCase(t, &mad.SIDRREQ{ServiceID: mad.PortSpaceUDP.ServiceID(1)}, nil),
		cmCase(t, &mad.SIDRREP{QPN: 7}, nil),
	)
	checkTshark(t, cases)
}

// checkTshark checks the fields of all cases in one run of tshark, since starting tshark takes longer than decoding.
func checkTshark(t *testing.T, cases []tsharkCase) {
	t.Helper()
	var frames [][]byte
	var fields []string
	at := map[string]int{}
	for _, c := range cases {
		etherType := uint16(wire.EtherTypeIPv6)
		if c.v4 {
			etherType = wire.EtherTypeIPv4
		}
		frames = append(frames, frame(c.datagram, etherType))
		for f := range c.want {
			if _, ok := at[f]; !ok {
				at[f] = len(fields)
				fields = append(fields, f)
			}
		}
	}
	rows := tsharktest.Read(t, tsharktest.Write(t, pcapfile.Ethernet, frames), fields...)
	require.Len(t, rows, len(cases))
	for i, row := range rows {
		for f := range cases[i].want {
			cases[i].want.check(t, cases[i].name, f, row[at[f]])
		}
	}
}

// madFields returns the fields of the common header that tshark prints.
func madFields(h *mad.Header) expect {
	return prefixed("mad", expect{"mgmtclass": int(h.Class), "classversion": int(h.ClassVersion),
		"baseversion": int(h.BaseVersion),
		"method":      int(h.Method), "status": int(h.Status), "classspecific": int(h.ClassSpecific),
		"transactionid": int(h.TID),
		"attributeid":   int(h.Attribute), "attributemodifier": int(h.Modifier)})
}

func TestTsharkSA(t *testing.T) {
	t.Parallel()
	one, oneGID := ipv6(1)
	two, twoGID := ipv6(2)
	build := func(attr uint16, r interface{ Put([]byte) }, want expect) tsharkCase {
		s := mad.SA{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetAdmin, ClassVersion: 2,
			Method:        mad.GetResp,
			Status:        mad.StatusSANoRecords,
			ClassSpecific: 0x1234, TID: 0x1122334455667788, Attribute: attr, Modifier: 0x99},
			RMPP: mad.RMPP{Version: 1, Type: mad.RMPPData, ResponseTime: 21,
				Flags: mad.RMPPActive | mad.RMPPLast, Status: 0,
				Data1: 3, Data2: 120},
			SMKey: 0x0102030405060708, AttributeOffset: 8, ComponentMask: 0x1112131415161718}
		r.Put(s.Data[:])
		b := make([]byte, mad.Size)
		s.Put(b)
		// tshark 4.0 decodes four bits each for response time and flags. IBTA has five and three.
		return tsharkCase{name: mad.AttributeName(mad.ClassSubnetAdmin, attr), datagram: b,
			want: with(want, madFields(&s.Header),
				prefixed("rmpp", expect{"rmppversion": 1, "rmpptype": 1, "rresptime": 21 >> 1, "rmppflags": 21&1<<3 | 5,
					"rmppstatus":    0,
					"segmentnumber": 3, "payloadlength": 120}),
				prefixed("sa", expect{"smkey": 0x0102030405060708, "attributeoffset": 8,
					"componentmask": 0x1112131415161718}))}
	}
	checkTshark(t, []tsharkCase{
		build(mad.AttrPathRecord, &mad.PathRecord{DGID: oneGID, SGID: twoGID, DLID: 0x101, SLID: 0x202,
			RawTraffic: true,
			FlowLabel:  0xabcde,
			HopLimit:   0x71, TrafficClass: 0x72, Reversible: true, NumbPath: 0x55, PKey: 0x8765, SL: 9,
			MTUSelector: mad.Exactly,
			MTU:         mad.MTU2048, RateSelector: mad.Less, Rate: 0x13,
			LifeTimeSelector: mad.Best, LifeTime: 0x12, Preference: 0x44},
			prefixed("pathrecord", expect{"dgid": one, "sgid": two, "dlid": 0x101, "slid": 0x202, "rawtraffic": 1,
				"flowlabel": 0xabcde,
				"hoplimit":  0x71, "tclass": 0x72, "reversible": 1, "numbpath": 0x55, "p_key": 0x8765, "sl": 9,
				"mtuselector":  2,
				"mtu":          4,
				"rateselector": 1, "rate": 0x13, "packetlifetimeselector": 3, "packetlifetime": 0x12,
				"preference": 0x44})),
		build(mad.AttrMCMemberRecord, &mad.MCMemberRecord{MGID: oneGID, PortGID: twoGID, QKey: 0x01020304, MLID: 0xc001,
			MTUSelector: mad.Exactly,
			MTU:         mad.MTU2048, TrafficClass: 0x71, PKey: 0x8765, RateSelector: mad.Less, Rate: 0x13,
			LifeTimeSelector: mad.Best,
			LifeTime:         0x12,
			SL:               9, FlowLabel: 0xabcde, HopLimit: 0x72, Scope: 5,
			JoinState: mad.FullMember | mad.SendOnlyNonMember,
			ProxyJoin: true},
			prefixed("mcmemberrecord", expect{"mgid": one, "portgid": two, "q_key": 0x01020304, "mlid": 0xc001,
				"mtuselector": 2, "mtu": 4,
				"tclass": 0x71, "p_key": 0x8765, "rateselector": 1, "rate": 0x13, "packetlifetimeselector": 3,
				"packetlifetime": 0x12, "sl": 9,
				"flowlabel": 0xabcde, "hoplimit": 0x72, "scope": 5, "joinstate": 5, "proxyjoin": 1})),
	})
}

func TestTsharkPerf(t *testing.T) {
	t.Parallel()
	one, oneGID := ipv6(1)
	two, twoGID := ipv6(2)
	build := func(attr uint16, r interface{ Put([]byte) }, want expect) tsharkCase {
		p := mad.Perf{Header: mad.Header{BaseVersion: 1, Class: mad.ClassPerformance, ClassVersion: 1,
			Method: mad.GetResp,
			TID:    5, Attribute: attr}}
		r.Put(p.Data[:])
		b := make([]byte, mad.Size)
		p.Put(b)
		return tsharkCase{name: mad.AttributeName(mad.ClassPerformance, attr), datagram: b,
			want: with(want, madFields(&p.Header))}
	}
	checkTshark(t, []tsharkCase{
		build(mad.AttrPortCounters, &mad.PortCounters{PortSelect: 1, CounterSelect: 0x1234, SymbolErrors: 0x201,
			LinkErrorRecovery: 3,
			LinkDowned:        4, PortRcvErrors: 0x505, PortRcvRemotePhysicalErrors: 0x606,
			PortRcvSwitchRelayErrors: 0x707,
			PortXmitDiscards:         0x808,
			PortXmitConstraintErrors: 9, PortRcvConstraintErrors: 10, LocalLinkIntegrityErrors: 11,
			ExcessiveBufferOverrunErrors: 12,
			VL15Dropped:                  0xd0d, PortXmitData: 0xe0e0e0e, PortRcvData: 0xf0f0f0f,
			PortXmitPkts: 0x10101010,
			PortRcvPkts:  0x11111111},
			prefixed("portcounters", expect{"portselect": 1, "counterselect": 0x1234, "symbolerrorcounter": 0x201,
				"linkerrorrecoverycounter": 3, "linkdownedcounter": 4, "portrcverrors": 0x505,
				"portrcvremotephysicalerrors": 0x606,
				"portrcvswitchrelayerrors":    0x707, "portxmitdiscards": 0x808, "portxmitconstrainterrors": 9,
				"portrcvconstrainterrors": 10,
				"vl15dropped":             0xd0d, "portxmitdata": 0xe0e0e0e, "portrcvdata": 0xf0f0f0f,
				"portxmitpkts": 0x10101010,
				"portrcvpkts":  0x11111111, "locallinkintegrityerrors": 11, "excessivebufferoverrunerrors": 12})),
		build(mad.AttrPortCountersExtended, &mad.PortCountersExtended{PortSelect: 1, CounterSelect: 0x12,
			PortXmitData: 1 << 40,
			PortRcvData:  2 << 40, PortXmitPkts: 3 << 40, PortRcvPkts: 4 << 40, PortUnicastXmitPkts: 5 << 40,
			PortUnicastRcvPkts:    6 << 40,
			PortMulticastXmitPkts: 7 << 40, PortMulticastRcvPkts: 8 << 40},
			prefixed("portcounters_ext", expect{"portselect": 1, "counterselect": 0x12, "portxmitdata": 1 << 40,
				"portrcvdata":  2 << 40,
				"portxmitpkts": 3 << 40, "portrcvpkts": 4 << 40, "portunicastxmitpkts": 5 << 40,
				"portunicastrcvpkts":    6 << 40,
				"portmulticastxmitpkts": 7 << 40, "portmulticastrcvpkts": 8 << 40})),
		build(mad.AttrClassPortInfo, &mad.ClassPortInfo{BaseVersion: 1, ClassVersion: 2, CapabilityMask: 0x301,
			CapabilityMask2: 0x7654321,
			ResponseTime:    18, Redirect: mad.ClassAddress{GID: oneGID, TrafficClass: 0x11, SL: 2, FlowLabel: 0x33333,
				LID:  0x404,
				PKey: 0x505,
				QPN:  0x60606, QKey: 0x7070707}, Trap: mad.ClassAddress{GID: twoGID, TrafficClass: 0x88, SL: 9,
				FlowLabel: 0xaaaaa,
				LID:       0xb0b,
				PKey:      0xc0c, HopLimit: 0xdd, QPN: 0xe0e0e, QKey: 0xf0f0f0f}},
			prefixed("classportinfo", expect{"baseversion": 1, "classversion": 2, "capabilitymask": 0x301,
				"capabilitymask2": 0x7654321,
				"resptimevalue":   18, "redirectgid": one, "redirecttc": 0x11, "redirectsl": 2, "redirectfl": 0x33333,
				"redirectlid":  0x404,
				"redirectpkey": 0x505, "redirectqp": 0x60606, "redirectqkey": 0x7070707, "trapgid": two, "traptc": 0x88,
				"trapsl": 9,
				"trapfl": 0xaaaaa, "traplid": 0xb0b, "trappkey": 0xc0c, "trapqp": 0xe0e0e, "trapqkey": 0xf0f0f0f})),
	})
}
