package mad_test

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/mad"
)

// span is a run of bits, counted from the most significant bit of byte 0.
type span struct{ from, n int }

// parseSpans parses "offset:bits". The offset is "byte" or "byte.bit", where bit 0 is the most significant. Spans that
// are joined with + form one field, most significant first.
func parseSpans(t *testing.T, s string) (spans []span) {
	t.Helper()
	for part := range strings.SplitSeq(s, "+") {
		at, bits, ok := strings.Cut(part, ":")
		require.True(t, ok, s)
		byteAt, bitAt, _ := strings.Cut(at, ".")
		num := func(s string) int {
			if s == "" {
				return 0
			}
			n, err := strconv.Atoi(s)
			require.NoError(t, err)
			return n
		}
		spans = append(spans, span{8*num(byteAt) + num(bitAt), num(bits)})
	}
	return spans
}

// leaf is a field that is not a struct.
type leaf struct {
	name string
	v    reflect.Value
}

func leaves(prefix string, v reflect.Value) (ls []leaf) {
	if v.Kind() != reflect.Struct {
		return []leaf{{prefix, v}}
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name := f.Name
		if f.Anonymous {
			name = prefix
		} else if prefix != "" {
			name = prefix + "." + name
		}
		ls = append(ls, leaves(name, v.Field(i))...)
	}
	return ls
}

// setPattern sets bit i of a field of width bits to on(i). Bit 0 is the most significant bit, of the first element of
// an array.
func setPattern(v reflect.Value, width int, on func(i int) bool) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(on(0))
	case reflect.Array:
		w := int(v.Type().Elem().Size()) * 8
		for i := range v.Len() {
			setPattern(v.Index(i), w, func(j int) bool { return on(i*w + j) })
		}
	default:
		var n uint64
		for i := range width {
			n <<= 1
			if on(i) {
				n |= 1
			}
		}
		v.SetUint(n)
	}
}

// TestLayouts compares every layout with a table of the positions of its fields. Each bit of a field must have its
// position and no other, a value that is too large must not change other fields, and the fields together must cover all
// bits.
func TestLayouts(t *testing.T) {
	t.Parallel()
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			where := map[string][]span{}
			for line := range strings.Lines(l.fields) {
				w := strings.Fields(line)
				for i := 0; i+1 < len(w); i += 2 {
					require.NotContains(t, where, w[i])
					where[w[i]] = parseSpans(t, w[i+1])
				}
			}
			owner := make([]string, 8*l.len)
			for _, f := range leaves("", reflect.ValueOf(l.make()).Elem()) {
				spans, ok := where[f.name]
				require.True(t, ok, "the table lacks %s", f.name)
				delete(where, f.name)
				var bits []int
				for _, s := range spans {
					for i := range s.n {
						require.Empty(t, owner[s.from+i], "bit %d is of %s and of %s", s.from+i,
							owner[s.from+i], f.name)
						owner[s.from+i] = f.name
						bits = append(bits, s.from+i)
					}
				}
				checkBits(t, l.make, l.len, f.name, bits)
			}
			assert.Empty(t, where, "the structure lacks fields")
			for i, o := range owner {
				require.NotEmpty(t, o, "byte %d bit %d has no field", i/8, i%8)
			}
		})
	}
}

// checkBits sets the bits of a field one by one and all together, and checks the bytes that Put writes.
func checkBits(t *testing.T, mk func() codec, n int, name string, bits []int) {
	t.Helper()
	put := func(on func(i int) bool) []byte {
		c := mk()
		for _, f := range leaves("", reflect.ValueOf(c).Elem()) {
			if f.name == name {
				setPattern(f.v, len(bits), on)
			}
		}
		b := make([]byte, n)
		c.Put(b)
		back := mk()
		back.Parse(b)
		require.Equal(t, c, back, "%s: put and parsed", name)
		return b
	}
	want := make([]byte, n)
	for _, at := range bits {
		want[at/8] |= 0x80 >> (at % 8)
	}
	require.Equal(t, want, put(func(int) bool { return true }), "%s: all bits", name)
	for i, at := range bits {
		one := make([]byte, n)
		one[at/8] = 0x80 >> (at % 8)
		require.Equal(t, one, put(func(j int) bool { return j == i }), "%s: bit %d", name, i)
	}
	c := mk()
	for _, f := range leaves("", reflect.ValueOf(c).Elem()) {
		if f.name == name && f.v.CanUint() {
			f.v.SetUint(1<<f.v.Type().Bits() - 1)
			b := make([]byte, n)
			c.Put(b)
			require.Equal(t, want, b, "%s: a value too wide", name)
		}
	}
}

// counters returns the table for consecutive 64-bit numbers.
func counters(from int, names ...string) string {
	var b strings.Builder
	for i, n := range names {
		fmt.Fprintf(&b, "%s %d:64\n", n, from+8*i)
	}
	return b.String()
}

const headerBits = `BaseVersion 0:8 Class 1:8 ClassVersion 2:8 Method 3:8 Status 4:16 ClassSpecific 6:16 TID 8:64
	Attribute 16:16 Reserved 18:16
	Modifier 20:32
`

const commIDs = `LocalCommID 0:32 RemoteCommID 4:32
`

// moved returns a table for a nested struct: names with the prefix in, and offsets increased by by.
func moved(in string, by int, table string) string {
	var b strings.Builder
	w := strings.Fields(table)
	for i := 0; i+1 < len(w); i += 2 {
		fmt.Fprintf(&b, "%s.%s ", in, w[i])
		for j, part := range strings.Split(w[i+1], "+") {
			if j > 0 {
				b.WriteByte('+')
			}
			at, bits, _ := strings.Cut(part, ":")
			byteAt, bitAt, dotted := strings.Cut(at, ".")
			n, err := strconv.Atoi(byteAt)
			if err != nil {
				panic(err)
			}
			if dotted {
				bitAt = "." + bitAt
			}
			fmt.Fprintf(&b, "%d%s:%s", n+by, bitAt, bits)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

const reqPath = `LocalLID 0:16 RemoteLID 2:16 LocalGID 4:128 RemoteGID 20:128 FlowLabel 36:20 ReservedFlow 38.4:6
	Rate 39.2:6 TrafficClass 40:8
	HopLimit 41:8 SL 42:4 SubnetLocal 42.4:1 ReservedSL 42.5:3 AckTimeout 43:5 ReservedAck 43.5:3`

const lapPath = `LocalLID 0:16 RemoteLID 2:16 LocalGID 4:128 RemoteGID 20:128 FlowLabel 36:20 ReservedFlow 38.4:4+41:2
	TrafficClass 39:8
	HopLimit 40:8 Rate 41.2:6 SL 42:4 SubnetLocal 42.4:1 ReservedSL 42.5:3 AckTimeout 43:5 ReservedAck 43.5:3`

const classAddress = `GID 0:128 TrafficClass 16:8 SL 17:4 FlowLabel 17.4:20 LID 20:16 PKey 22:16 HopLimit 24:8
	QPN 25:24 QKey 28:32`

const nodeInfo = `BaseVersion 0:8 ClassVersion 1:8 Type 2:8 NumPorts 3:8 SystemGUID 4:64 NodeGUID 12:64 PortGUID 20:64
	PartitionCap 28:16
	DeviceID 30:16 Revision 32:32 LocalPort 36:8 VendorID 37:24`

const portInfo = `MKey 0:64 GIDPrefix 8:64 LID 16:16 MasterSMLID 18:16 CapabilityMask 20:32 DiagCode 24:16
	MKeyLease 26:16 LocalPortNum 28:8
	WidthEnabled 29:8 WidthSupported 30:8 WidthActive 31:8 SpeedSupported 32:4 State 32.4:4 PhysState 33:4
	LinkDownDefault 33.4:4
	MKeyProtect 34:2 ReservedLMC 34.2:3 LMC 34.5:3 SpeedActive 35:4 SpeedEnabled 35.4:4 NeighborMTU 36:4
	MasterSMSL 36.4:4 VLCap 37:4
	InitType 37.4:4 VLHighLimit 38:8 VLArbHighCap 39:8 VLArbLowCap 40:8 InitTypeReply 41:4 MTUCap 41.4:4
	VLStallCount 42:3
	HOQLife 42.3:5 OperationalVLs 43:4 Enforce 43.4:4 MKeyViolations 44:16 PKeyViolations 46:16 QKeyViolations 48:16
	GUIDCap 50:8
	ClientReregister 51:1 McastTrapSupp 51.1:2 SubnetTimeout 51.3:5 ReservedResp 52:3 RespTimeValue 52.3:5
	LocalPhyErrors 53:4
	OverrunErrors 53.4:4 MaxCreditHint 54:16 ReservedLatency 56:8 RoundTripLatency 57:24 CapabilityMask2 60:16
	SpeedExtActive 62:4
	SpeedExtSupp 62.4:4 ReservedSpeedExt 63:3 SpeedExtEnabled 63.3:5`

const switchInfo = `LinearFDBCap 0:16 RandomFDBCap 2:16
	McastFDBCap 4:16 LinearFDBTop 6:16 DefaultPort 8:8 DefaultMcastPrimary 9:8 DefaultMcastNotPrimary 10:8
	LifeTimeValue 11:5 PortStateChange 11.5:1 OptimizedSLtoVL 11.6:2 LIDsPerPort 12:16 PartEnfCap 14:16 Flags 16:8
	Reserved17 17:8 McastFDBTop 18:16`

const smInfo = `GUID 0:64 SMKey 8:64 ActCount 16:32 Priority 20:4 State 20.4:4`

const notice = `Generic 0:1 Type 0.1:7 Producer 1:24 Trap 4:16 IssuerLID 6:16 Toggle 8:1 Count 8.1:15 Details 10:432`

const informInfo = `GID 0:128 LIDBegin 16:16 LIDEnd 18:16 Reserved20 20:16 Generic 22:8 Subscribe 23:8 Type 24:16
	Trap 26:16 QPN 28:24 Reserved31 31:3 ResponseTime 31.3:5 Reserved32 32:8 Producer 33:24`

const rmppBits = `Version 0:8 Type 1:8 ResponseTime 2:5 Flags 2.5:3 Status 3:8 Data1 4:32 Data2 8:32`

// layouts lists all layouts that are structs. The tables follow the message tables of IBTA volume 1.
var layouts = []struct {
	name   string
	len    int
	make   func() codec
	fields string
}{
	{"Header", mad.HeaderLen, func() codec { return new(mad.Header) }, headerBits},
	{"SMP", mad.Size, func() codec { return new(mad.SMP) }, headerBits + `MKey 24:64 DrSLID 32:16 DrDLID 34:16
		Reserved28 36:224
		Data 64:512 InitialPath 128:512 ReturnPath 192:512`},
	{"NodeInfo", mad.NodeInfoLen, func() codec { return new(mad.NodeInfo) }, nodeInfo},
	{"PortInfo", mad.PortInfoLen, func() codec { return new(mad.PortInfo) }, portInfo},
	{"SwitchInfo", mad.SwitchInfoLen, func() codec { return new(mad.SwitchInfo) }, switchInfo},
	{"SMInfo", mad.SMInfoLen, func() codec { return new(mad.SMInfo) }, smInfo},
	{"Notice", mad.NoticeLen, func() codec { return new(mad.Notice) }, notice},
	{"TrapLID", mad.TrapLIDLen, func() codec { return new(mad.TrapLID) }, `LID 0:16`},
	{"TrapPort", mad.TrapPortLen, func() codec { return new(mad.TrapPort) }, `Reserved0 0:16 LID 2:16 Port 4:8`},
	{"TrapCapability", mad.TrapCapabilityLen, func() codec { return new(mad.TrapCapability) }, `Reserved0 0:16 LID 2:16
		Reserved4 4:15 OtherChanges 5.7:1 CapabilityMask 6:32 ChangeFlags 10:16`},
	{"TrapSystemGUID", mad.TrapSystemGUIDLen, func() codec { return new(mad.TrapSystemGUID) }, `Reserved0 0:16 LID 2:16
		Reserved4 4:16 GUID 6:64`},
	{"TrapMKey", mad.TrapMKeyLen, func() codec { return new(mad.TrapMKey) }, `Reserved0 0:16 LID 2:16 DrSLID 4:16
		Method 6:8 Reserved7 7:8 Attribute 8:16 Modifier 10:32 MKey 14:64 Reserved22 22:8 Directed 23:1
		Truncated 23.1:1 HopCount 23.2:6 ReturnPath 24:240`},
	{"TrapKey", mad.TrapKeyLen, func() codec { return new(mad.TrapKey) }, `Reserved0 0:16 LID1 2:16 LID2 4:16 Key 6:32
		SL 10:4 Reserved10 10.4:4 QP1 11:24 Reserved14 14:8 QP2 15:24 GID1 18:128 GID2 34:128`},
	{"TrapSwitchPKey", mad.TrapSwitchPKeyLen, func() codec { return new(mad.TrapSwitchPKey) }, `Valid 0:16 LID1 2:16
		LID2 4:16 PKey 6:16 SL 8:4 Reserved8 8.4:4 QP1 9:24 Reserved12 12:8 QP2 13:24 GID1 16:128 GID2 32:128
		SwitchLID 48:16 Port 50:8`},
	{"RMPP", mad.RMPPLen, func() codec { return new(mad.RMPP) }, rmppBits},
	{"REQ", mad.CMDataLen, func() codec { return new(mad.REQ) }, `LocalCommID 0:32 Reserved4 4:8 VendorID 5:24
		ServiceID 8:64
		LocalCAGUID 16:64 Reserved24 24:32 LocalQKey 28:32 LocalQPN 32:24 ResponderRes 35:8 LocalEECN 36:24
		InitiatorDepth 39:8
		RemoteEECN 40:24 RemoteTimeout 43:5 Service 43.5:2 FlowControl 43.7:1 StartingPSN 44:24 LocalTimeout 47:5
		RetryCount 47.5:3
		PKey 48:16 PathMTU 50:4 RDCExists 50.4:1 RNRRetryCount 50.5:3 MaxCMRetries 51:4 SRQ 51.4:1
		ExtendedService 51.5:3
		PrivateData 140:736
		` + moved("Primary", 52, reqPath) + moved("Alternate", 96, reqPath)},
	{"MRA", mad.CMDataLen, func() codec { return new(mad.MRA) }, commIDs + `Message 8:2 ReservedMessage 8.2:6
		ServiceTimeout 9:5
		ReservedTimeout 9.5:3 PrivateData 10:1776`},
	{"REJ", mad.CMDataLen, func() codec { return new(mad.REJ) }, commIDs + `Message 8:2 ReservedMessage 8.2:6
		InfoLength 9:7
		ReservedLength 9.7:1 Reason 10:16 Info 12:576 PrivateData 84:1184`},
	{"REP", mad.CMDataLen, func() codec { return new(mad.REP) },
		commIDs + `LocalQKey 8:32 LocalQPN 12:24 LocalEECN 16:24
		StartingPSN 20:24 VendorID 15:8+19:8+23:8 ResponderRes 24:8 InitiatorDepth 25:8 TargetAckDelay 26:5
		Failover 26.5:2
		FlowControl 26.7:1 RNRRetryCount 27:3 SRQ 27.3:1 Reserved27 27.4:4 LocalCAGUID 28:64 PrivateData 36:1568`},
	{"RTU", mad.CMDataLen, func() codec { return new(mad.RTU) }, commIDs + "PrivateData 8:1792"},
	{"DREQ", mad.CMDataLen, func() codec { return new(mad.DREQ) },
		commIDs + "RemoteQPN 8:24 Reserved11 11:8 PrivateData 12:1760"},
	{"DREP", mad.CMDataLen, func() codec { return new(mad.DREP) }, commIDs + "PrivateData 8:1792"},
	{"LAP", mad.CMDataLen, func() codec { return new(mad.LAP) }, commIDs + `Reserved8 8:32 RemoteQPN 12:24
		RemoteTimeout 15:5
		ReservedTimeout 15.5:3 Reserved16 16:32 PrivateData 64:1344
		` + moved("Alternate", 20, lapPath)},
	{"APR", mad.CMDataLen, func() codec { return new(mad.APR) }, commIDs + `InfoLength 8:8 Status 9:8 Reserved10 10:16
		Info 12:576
		PrivateData 84:1184`},
	{"SIDR_REQ", mad.CMDataLen, func() codec { return new(mad.SIDRREQ) }, `RequestID 0:32 PKey 4:16 Reserved6 6:16
		ServiceID 8:64
		PrivateData 16:1728`},
	{"SIDR_REP", mad.CMDataLen, func() codec { return new(mad.SIDRREP) }, `RequestID 0:32 Status 4:8 InfoLength 5:8
		VendorID 6:16+11:8
		QPN 8:24 ServiceID 12:64 QKey 20:32 Info 24:576 PrivateData 96:1088`},
	{"IPCM", mad.IPCMLen, func() codec { return new(mad.IPCM) }, `MajorVersion 0:4 MinorVersion 0.4:4 IPVersion 1:4
		ReservedIP 1.4:4
		SourcePort 2:16 Source 4:128 Destination 20:128`},
	{"SA", mad.Size, func() codec { return new(mad.SA) }, headerBits + moved("RMPP", 24, rmppBits) + `SMKey 36:64
		AttributeOffset 44:16 Reserved46 46:16 ComponentMask 48:64 Data 56:1600`},
	{"PathRecord", mad.PathRecordLen, func() codec { return new(mad.PathRecord) },
		`ServiceID 0:64 DGID 8:128 SGID 24:128
		DLID 40:16
		SLID 42:16 RawTraffic 44:1 ReservedRaw 44.1:3 FlowLabel 44.4:20 HopLimit 47:8 TrafficClass 48:8 Reversible 49:1
		NumbPath 49.1:7
		PKey 50:16 QoSClass 52:12 SL 53.4:4 MTUSelector 54:2 MTU 54.2:6 RateSelector 55:2 Rate 55.2:6
		LifeTimeSelector 56:2
		LifeTime 56.2:6 Preference 57:8 Reserved58 58:48`},
	{"MCMemberRecord", mad.MCMemberRecordLen, func() codec { return new(mad.MCMemberRecord) },
		`MGID 0:128 PortGID 16:128
		QKey 32:32
		MLID 36:16 MTUSelector 38:2 MTU 38.2:6 TrafficClass 39:8 PKey 40:16 RateSelector 42:2 Rate 42.2:6
		LifeTimeSelector 43:2
		LifeTime 43.2:6 SL 44:4 FlowLabel 44.4:20 HopLimit 47:8 Scope 48:4 JoinState 48.4:4 ProxyJoin 49:1
		ReservedProxy 49.1:7
		Reserved50 50:16`},
	{"ServiceRecord", mad.ServiceRecordLen, func() codec { return new(mad.ServiceRecord) }, `ServiceID 0:64 GID 8:128
		PKey 24:16
		Reserved26 26:16
		Lease 28:32 Key 32:128 Name 48:512 Data8 112:128 Data16 128:128 Data32 144:128 Data64 160:128`},
	{"PortInfoRecord", mad.PortInfoRecordLen, func() codec { return new(mad.PortInfoRecord) }, `EndportLID 0:16
		PortNum 2:8 Options 3:8
		` + moved("PortInfo", 4, portInfo)},
	{"NodeRecord", mad.NodeRecordLen, func() codec { return new(mad.NodeRecord) }, `LID 0:16 Reserved2 2:16
		Description 44:512
		` + moved("NodeInfo", 4, nodeInfo)},
	{"InformInfo", mad.InformInfoLen, func() codec { return new(mad.InformInfo) }, informInfo},
	{"NoticeRecord", mad.NoticeRecordLen, func() codec { return new(mad.NoticeRecord) }, `IssuerGID 64:128
		` + moved("Notice", 0, notice)},
	{"TrapGID", mad.TrapGIDLen, func() codec { return new(mad.TrapGID) }, `Reserved0 0:48 GID 6:128`},
	{"LinkRecord", mad.LinkRecordLen, func() codec { return new(mad.LinkRecord) }, `FromLID 0:16 FromPort 2:8 ToPort 3:8
		ToLID 4:16`},
	{"SMInfoRecord", mad.SMInfoRecordLen, func() codec { return new(mad.SMInfoRecord) }, `LID 0:16 Reserved2 2:16
		` + moved("SMInfo", 4, smInfo)},
	{"SwitchInfoRecord", mad.SwitchInfoRecordLen, func() codec { return new(mad.SwitchInfoRecord) },
		`LID 0:16 Reserved2 2:16
		` + moved("SwitchInfo", 4, switchInfo)},
	{"PKeyTableRecord", mad.PKeyTableRecordLen, func() codec { return new(mad.PKeyTableRecord) }, `LID 0:16 Block 2:16
		Port 4:8 Reserved5 5:24 PKeys 8:512`},
	{"ClassPortInfo", mad.ClassPortInfoLen, func() codec { return new(mad.ClassPortInfo) }, `BaseVersion 0:8
		ClassVersion 1:8
		CapabilityMask 2:16 CapabilityMask2 4:27 ResponseTime 7.3:5
		` + moved("Redirect", 8, classAddress) + moved("Trap", 40, classAddress)},
	{"Perf", mad.Size, func() codec { return new(mad.Perf) }, headerBits + "Reserved24 24:320 Data 64:1536"},
	{"PortCounters", mad.PortCountersLen, func() codec { return new(mad.PortCounters) }, `Reserved0 0:8 PortSelect 1:8
		CounterSelect 2:16
		SymbolErrors 4:16 LinkErrorRecovery 6:8 LinkDowned 7:8 PortRcvErrors 8:16 PortRcvRemotePhysicalErrors 10:16
		PortRcvSwitchRelayErrors 12:16 PortXmitDiscards 14:16 PortXmitConstraintErrors 16:8 PortRcvConstraintErrors 17:8
		CounterSelect2 18:8 LocalLinkIntegrityErrors 19:4 ExcessiveBufferOverrunErrors 19.4:4 QP1Dropped 20:16
		VL15Dropped 22:16
		PortXmitData 24:32 PortRcvData 28:32 PortXmitPkts 32:32 PortRcvPkts 36:32 PortXmitWait 40:32`},
	{"PortCountersExtended", mad.PortCountersExtendedLen, func() codec { return new(mad.PortCountersExtended) }, `
		Reserved0 0:8 PortSelect 1:8 CounterSelect 2:16 CounterSelect2 4:32
		` + counters(8, "PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts", "PortUnicastXmitPkts",
		"PortUnicastRcvPkts", "PortMulticastXmitPkts", "PortMulticastRcvPkts", "SymbolErrors", "LinkErrorRecovery",
		"LinkDowned", "PortRcvErrors",
		"PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors", "PortXmitDiscards", "PortXmitConstraintErrors",
		"PortRcvConstraintErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors",
		"VL15Dropped", "PortXmitWait",
		"QP1Dropped")},
}
