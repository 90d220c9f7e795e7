package mad_test

import (
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

// linkPacket returns an SMP as it is on an InfiniBand link, LRH to VCRC.
func linkPacket(s *mad.SMP) []byte {
	b := make([]byte, mad.Size)
	s.Put(b)
	w := wire.LinkPacket{LRH: wire.LRH{VL: 15, LNH: wire.LNHLocal, DLID: 0x101, SLID: 0x202},
		Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.UDSendOnly, PKey: 0xffff}, Payload: b}}
	if s.Class == mad.ClassSubnetDirected {
		w.LRH.DLID, w.LRH.SLID = mad.PermissiveLID, mad.PermissiveLID
	}
	return wire.AppendLinkPacket(nil, &w)
}

// smpCase is an SMP with the values that tshark prints for its attribute.
type smpCase struct {
	name   string
	smp    mad.SMP
	fields map[string]any // without "infiniband."; a number, a list of numbers, or text
}

func attributeCase(attr uint16, v interface{ Put([]byte) }, fields map[string]any) smpCase {
	c := smpCase{name: mad.AttributeName(mad.ClassSubnetLID, attr), fields: fields,
		smp: mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.GetResp,
			Status: 0x1c, TID: 0x1122334455667788, Attribute: attr, Modifier: 0x99}, MKey: 0x0102030405060708}}
	v.Put(c.smp.Data[:])
	fields["smplid.mkey"] = 0x0102030405060708
	return c
}

// trapCase returns a trap with the given details.
func trapCase(name string, trap uint16, v interface{ Put([]byte) }, fields map[string]any) smpCase {
	n := mad.Notice{Generic: true, Type: mad.NoticeSecurity, Producer: mad.ProducerCA, Trap: trap, IssuerLID: 0x7654}
	v.Put(n.Details[:])
	c := attributeCase(mad.AttrNotice, &n, fields)
	c.name, c.smp.Method, c.smp.Status = name, mad.Trap, 0
	fields["notice.isgeneric"], fields["notice.type"] = 1, int(mad.NoticeSecurity)
	fields["notice.producertypevendorid"], fields["notice.trapnumberdeviceid"] = 1, int(trap)
	fields["notice.issuerlid"] = 0x7654
	return c
}

// rawBytes is an attribute in bytes.
type rawBytes []byte

func (r rawBytes) Put(b []byte) { copy(b, r) }

func smpCases() (list []smpCase) {
	info := mad.PortInfo{MKey: 0x0807060504030201, GIDPrefix: 0xfec0000000000001, LID: 0x1234, MasterSMLID: 0x2345,
		CapabilityMask: 0x02500a4c, DiagCode: 0x3456, MKeyLease: 0x4567, LocalPortNum: 0x56, WidthEnabled: 3,
		WidthSupported: 11, WidthActive: 2, SpeedSupported: 7, State: 4, PhysState: 5,
		LinkDownDefault: 2, MKeyProtect: 3,
		LMC: 5, SpeedActive: 4, SpeedEnabled: 6, NeighborMTU: 4, MasterSMSL: 9, VLCap: 3, InitType: 10,
		VLHighLimit:  0x67,
		VLArbHighCap: 0x40, VLArbLowCap: 0x20, InitTypeReply: 6, MTUCap: 5, VLStallCount: 6, HOQLife: 0x13,
		OperationalVLs: 2, Enforce: 0b1010, MKeyViolations: 0x1111, PKeyViolations: 0x2222, QKeyViolations: 0x3333,
		GUIDCap: 0x44, ClientReregister: true, SubnetTimeout: 0x12, RespTimeValue: 0x11, LocalPhyErrors: 7,
		OverrunErrors: 8, MaxCreditHint: 0x5678, RoundTripLatency: 0x123456}
	list = append(list,
		attributeCase(mad.AttrNodeDescription, rawBytes("a node"),
			map[string]any{"nodedescription.nodestring": "a node"}),
		attributeCase(mad.AttrNodeInfo, &mad.NodeInfo{BaseVersion: 1, ClassVersion: 2, Type: 2, NumPorts: 36,
			SystemGUID: 0x1112131415161718, NodeGUID: 0x2122232425262728, PortGUID: 0x3132333435363738,
			PartitionCap: 0x80,
			DeviceID:     0x1003, Revision: 0xa0b0c0d, LocalPort: 7, VendorID: 0x0002c9}, map[string]any{
			"nodeinfo.baseversion": 1, "nodeinfo.classversion": 2, "nodeinfo.nodetype": 2, "nodeinfo.numports": 36,
			"nodeinfo.systemimageguid": 0x1112131415161718, "nodeinfo.nodeguid": 0x2122232425262728,
			"nodeinfo.portguid": 0x3132333435363738, "nodeinfo.partitioncap": 0x80, "nodeinfo.deviceid": 0x1003,
			"nodeinfo.revision": 0xa0b0c0d, "nodeinfo.localportnum": 7, "nodeinfo.vendorid": 0x2c9}),
		attributeCase(mad.AttrSwitchInfo, &mad.SwitchInfo{LinearFDBCap: 0xc000, RandomFDBCap: 0x1234,
			McastFDBCap:  0x400,
			LinearFDBTop: 0x5678, DefaultPort: 3, DefaultMcastPrimary: 4, DefaultMcastNotPrimary: 5, LifeTimeValue: 19,
			PortStateChange: true, OptimizedSLtoVL: 1, LIDsPerPort: 0x77, PartEnfCap: 0x88,
			Flags: mad.SwitchEnforceIn | 1<<3}, map[string]any{"switchinfo.linearfdbcap": 0xc000,
			"switchinfo.randomfdbcap": 0x1234, "switchinfo.multicastfdbcap": 0x400, "switchinfo.linearfdbtop": 0x5678,
			"switchinfo.defaultport": 3, "switchinfo.defaultmulticastprimaryport": 4,
			"switchinfo.defaultmulticastnotprimaryport": 5, "switchinfo.lifetimevalue": 19,
			"switchinfo.portstatechange": 1, "switchinfo.optimizedsltovlmappingprogramming": 1,
			"switchinfo.lidsperport": 0x77, "switchinfo.partitionenforcementcap": 0x88,
			"switchinfo.inboundenforcementcap": 1, "switchinfo.outboundenforcementcap": 0,
			"switchinfo.filterrawinboundcap": 0, "switchinfo.filterrawoutboundcap": 0,
			"switchinfo.enhancedportzero": 1}),
		attributeCase(mad.AttrPortInfo, &info, map[string]any{"portinfo.m_key": int(info.MKey),
			"portinfo.guid": uint64(info.GIDPrefix), "portinfo.lid": 0x1234, "portinfo.mastersmlid": 0x2345,
			"portinfo.capabilitymask": 0x02500a4c, "portinfo.diagcode": 0x3456, "portinfo.m_keyleaseperiod": 0x4567,
			"portinfo.localportnum": 0x56, "portinfo.linkwidthenabled": 3, "portinfo.linkwidthsupported": 11,
			"portinfo.linkwidthactive": 2, "portinfo.linkspeedsupported": 7, "portinfo.portstate": 4,
			"portinfo.portphysicalstate": 5, "portinfo.linkdowndefaultstate": 2, "portinfo.m_keyprotectbits": 3,
			"portinfo.lmc": 5, "portinfo.linkspeedactive": 4, "portinfo.linkspeedenabled": 6, "portinfo.neighbormtu": 4,
			"portinfo.mastersmsl": 9, "portinfo.vlcap": 3, "portinfo.inittype": 10, "portinfo.vlhighlimit": 0x67,
			"portinfo.vlarbitrationhighcap": 0x40, "portinfo.vlarbitrationlowcap": 0x20, "portinfo.inittypereply": 6,
			"portinfo.mtucap": 5, "portinfo.vlstallcount": 6, "portinfo.hoqlife": 0x13, "portinfo.operationalvls": 2,
			"portinfo.partitionenforcementinbound": 1, "portinfo.partitionenforcementoutbound": 0,
			"portinfo.filterrawinbound": 1, "portinfo.filterrawoutbound": 0, "portinfo.m_keyviolations": 0x1111,
			"portinfo.p_keyviolations": 0x2222, "portinfo.q_keyviolations": 0x3333, "portinfo.guidcap": 0x44,
			"portinfo.clientreregister": 1, "portinfo.subnettimeout": 0x12, "portinfo.resptimevalue": 0x11,
			"portinfo.localphyerrors": 7, "portinfo.overrunerrors": 8, "portinfo.maxcredithint": 0x5678,
			"portinfo.linkroundtriplatency": 0x123456}),
		attributeCase(mad.AttrSMInfo, &mad.SMInfo{GUID: 0x1112131415161718, SMKey: 0x2122232425262728,
			ActCount: 0x31323334, Priority: 11, State: 3}, map[string]any{"sminfo.guid": 0x1112131415161718,
			"sminfo.sm_key": 0x2122232425262728, "sminfo.actcount": 0x31323334, "sminfo.priority": 11,
			"sminfo.smstate": 3}))
	return append(append(list, tableCases()...), trapCases()...)
}

func tableCases() []smpCase {
	var guids mad.GUIDBlock
	var pkeys mad.PKeyBlock
	var lanes mad.SLtoVL
	var arb mad.VLArbBlock
	var linear mad.LinearBlock
	var mcast mad.MulticastBlock
	var guid, key, full, even, odd, vl, weight, port, mask []int
	for i := range 8 {
		guids[i] = 0x1000000000000000 + uint64(i)
		guid = append(guid, int(guids[i]))
	}
	for i := range 32 {
		pkeys[i] = uint16(0x100+i) | uint16(i&1)<<15
		key, full = append(key, 0x100+i), append(full, i&1)
		arb[i] = mad.VLWeight{VL: uint8(i) & 7, Weight: uint8(0x80 + i)}
		vl, weight = append(vl, i&7), append(weight, 0x80+i)
		mcast[i] = uint16(0x1234 + i)
		mask = append(mask, 0x1234+i)
	}
	for i := range 64 {
		linear[i] = uint8(200 - i)
		port = append(port, 200-i)
	}
	for i := range 16 {
		lanes[i] = uint8(15 - i)
		if i%2 == 0 {
			even = append(even, 15-i)
		} else {
			odd = append(odd, 15-i)
		}
	}
	return []smpCase{
		attributeCase(mad.AttrGUIDInfo, &guids, map[string]any{"switchinfo.guid": guid}),
		attributeCase(mad.AttrPKeyTable, &pkeys, map[string]any{"p_keytable.p_keybase": key,
			"p_keytable.membershiptype": full}),
		attributeCase(mad.AttrSLtoVL, &lanes, map[string]any{"sltovlmappingtable.sltovlhighbits": even,
			"sltovlmappingtable.sltovllowbits": odd}),
		attributeCase(mad.AttrVLArbitration, &arb, map[string]any{"vlarbitrationtable.vl": vl,
			"vlarbitrationtable.weight": weight}),
		attributeCase(mad.AttrLinearTable, &linear, map[string]any{"linearforwardingtable.port": port}),
		attributeCase(mad.AttrMulticastTable, &mcast, map[string]any{
			"multicastforwardingtable.portmask": mask[:16]}), // tshark 4.0 decodes half of the block
		attributeCase(mad.AttrLEDInfo, rawBytes{0x80}, map[string]any{"ledinfo.ledmask": 1}),
	}
}

func trapCases() []smpCase {
	one, oneGID := ipv6(1)
	two, twoGID := ipv6(2)
	return []smpCase{
		trapCase("link state", mad.TrapLinkState, &mad.TrapLID{LID: 0x1234}, map[string]any{"trap.lidaddr": 0x1234}),
		trapCase("link integrity", mad.TrapLinkIntegrity, &mad.TrapPort{LID: 0x1234, Port: 7},
			map[string]any{"trap.lidaddr": 0x1234, "trap.portno": 7}),
		trapCase("capability", mad.TrapCapabilityMask, &mad.TrapCapability{LID: 0x1234, OtherChanges: true,
			CapabilityMask: 0x02500a4c, ChangeFlags: 5}, map[string]any{"trap.lidaddr": 0x1234,
			"trap.otherlocalchanges": 1,
			"trap.capabilitymask":    0x02500a4c, "trap.linkspeecenabledchange": 1, "trap.linkwidthenabledchange": 0,
			"trap.nodedescriptionchange": 1}),
		trapCase("system GUID", mad.TrapSystemGUIDChanged, &mad.TrapSystemGUID{LID: 0x1234, GUID: 0x1112131415161718},
			map[string]any{"trap.lidaddr": 0x1234, "trap.systemimageguid": 0x1112131415161718}),
		trapCase("M_Key", mad.TrapBadMKey, &mad.TrapMKey{LID: 0x1234, DrSLID: 0x2345, Method: mad.Set,
			Attribute: mad.AttrPortInfo, Modifier: 0x31323334, MKey: 0x1112131415161718, Directed: true,
			Truncated: false,
			HopCount:  3, ReturnPath: [30]byte{1, 2, 3}}, map[string]any{"trap.lidaddr": 0x1234, "trap.drslid": 0x2345,
			"trap.method": 2, "trap.attributeid": 0x15, "trap.attributemodifier": 0x31323334,
			"trap.mkey": 0x1112131415161718, "trap.drnotice": 1, "trap.drpathtruncated": 0, "trap.drhopcount": 3}),
		trapCase("P_Key", mad.TrapBadPKey, &mad.TrapKey{LID1: 0x1234, LID2: 0x2345, Key: 0x8765, SL: 9, QP1: 0x111213,
			QP2: 0x212223, GID1: oneGID, GID2: twoGID}, map[string]any{"trap.lidaddr1": 0x1234, "trap.lidaddr2": 0x2345,
			"trap.key": 0x8765, "trap.sl": 9, "trap.qp1": 0x111213, "trap.qp2": 0x212223, "trap.gidaddr1": one,
			"trap.gidaddr2": two}),
	}
}

// TestTsharkSMP compares the fields of SMPs on an InfiniBand link, as tshark prints them, with those that were written.
func TestTsharkSMP(t *testing.T) {
	t.Parallel()
	cases := smpCases()
	route := smpCase{name: "directed route", smp: mad.SMP{Header: mad.Header{BaseVersion: 1,
		Class: mad.ClassSubnetDirected, ClassVersion: 1, Method: mad.Get, TID: 5, Attribute: mad.AttrNodeInfo},
		MKey: 0x0102030405060708, DrSLID: 0xffff, DrDLID: 0x1234}, fields: map[string]any{
		"smpdirected.hoppointer": 2, "smpdirected.hopcount": 3, "smpdirected.drslid": 0xffff,
		"smpdirected.drdlid": 0x1234, "lrh.dlid": 0xffff}}
	route.smp.SetHops(2, 3)
	cases = append(cases, route)
	var frames [][]byte
	var fields []string
	at := map[string]int{}
	for i := range cases {
		c := &cases[i]
		frames = append(frames, linkPacket(&c.smp))
		h := &c.smp.Header
		c.fields["lrh.vl"], c.fields["bth.destqp"] = 15, 0
		c.fields["mad.mgmtclass"], c.fields["mad.method"] = int(h.Class), int(h.Method)
		c.fields["mad.transactionid"], c.fields["mad.attributeid"] = int(h.TID), int(h.Attribute)
		c.fields["mad.attributemodifier"] = int(h.Modifier)
		for f := range c.fields {
			if _, ok := at[f]; !ok {
				at[f] = len(fields)
				fields = append(fields, "infiniband."+f)
			}
		}
	}
	rows := tsharktest.ReadAll(t, tsharktest.Write(t, pcapfile.InfiniBand, frames), fields...)
	require.Len(t, rows, len(cases))
	for i, row := range rows {
		for f, want := range cases[i].fields {
			assert.Equal(t, want, printed(t, row[at[f]], want), "%s: %s is %q", cases[i].name, f, row[at[f]])
		}
	}
}

// printed returns what tshark prints for a field in the type of want.
func printed(t *testing.T, text string, want any) any {
	t.Helper()
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 0, 64)
		assert.NoError(t, err)
		return n
	}
	switch want.(type) {
	case int:
		return int(number(text))
	case uint64:
		return number(text)
	case []int:
		var list []int
		for s := range strings.SplitSeq(text, ",") {
			list = append(list, int(number(s)))
		}
		return list
	}
	return text
}
