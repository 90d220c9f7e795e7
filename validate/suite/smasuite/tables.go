package smasuite

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The attributes with tables, and those that describe the node.
var tables = area()

var smaTable01 = tables.Must("SMA-Table-01", "IBTA 14.2.5", verb,
	"NodeInfo, PortInfo, P_KeyTable and GUIDInfo agree with CA.Query.")

var _ = tables.Add("sma.table.query", "what subnet management reads, and what CA.Query returns", direct(tableQuery),
	smaTable01)

func tableQuery(p *port) {
	t := p.t
	a, err := p.ca.Query()
	kit.OK(t, err, "CA.Query")
	attr := &a.Ports[p.ca.Port.Num-1]
	var n mad.NodeInfo
	p.get(mad.AttrNodeInfo, 0, &n)
	kit.Equal(t, "NodeInfo.NodeType", n.Type, mad.NodeCA)
	kit.Equal(t, "NodeInfo.NumPorts", int(n.NumPorts), len(a.Ports))
	kit.Equal(t, "NodeInfo.NodeGUID and PortGUID", [2]uint64{n.NodeGUID, n.PortGUID},
		[2]uint64{uint64(a.GUID), uint64(attr.GUID)})
	kit.Equal(t, "NodeInfo.LocalPortNum", n.LocalPort, attr.Num)
	system := a.SystemGUID
	if system == 0 {
		system = a.GUID
	}
	kit.Equal(t, "NodeInfo.SystemImageGUID", ci.GUID(n.SystemGUID), system)
	kit.Equal(t, "NodeInfo.VendorID, DeviceID and Revision", [3]uint32{n.VendorID, uint32(n.DeviceID), n.Revision},
		[3]uint32{a.VendorID, uint32(a.DeviceID), uint32(a.Revision)})
	kit.Equal(t, "NodeInfo.BaseVersion and ClassVersion", [2]uint8{n.BaseVersion, n.ClassVersion},
		[2]uint8{mad.BaseVersion, mad.ClassVersionSubnet})
	kit.Equal(t, "NodeInfo.PartitionCap", int(n.PartitionCap), len(attr.PKeys))
	i := p.info()
	kit.Equal(t, "PortInfo.LID", ci.LID(i.LID), attr.LID)
	kit.Equal(t, "PortInfo.LMC", i.LMC, attr.LMC)
	kit.Equal(t, "PortInfo.MasterSMLID", ci.LID(i.MasterSMLID), attr.SMLID)
	kit.Equal(t, "PortInfo.PortState", ci.PortState(i.State), attr.State)
	kit.Equal(t, "PortInfo.NeighborMTU and MTUCap", [2]ci.MTU{ci.MTU(i.NeighborMTU), ci.MTU(i.MTUCap)},
		[2]ci.MTU{attr.MTU, attr.MaxMTU})
	kit.Equal(t, "PortInfo.CapabilityMask", ci.PortCap(i.CapabilityMask), attr.Capability)
	kit.Equal(t, "PortInfo.MasterSMSL, SubnetTimeOut and InitTypeReply",
		[3]uint8{i.MasterSMSL, i.SubnetTimeout, i.InitTypeReply},
		[3]uint8{attr.SMSL, uint8(attr.SubnetTimeout), uint8(attr.InitTypeReply)})
	kit.Equal(t, "PortInfo.PortPhysicalState, LinkWidthActive, LinkSpeedActive and VLCap",
		[4]uint8{i.PhysState, i.WidthActive, i.SpeedActive, i.VLCap},
		[4]uint8{attr.PhysState, attr.WidthActive, attr.SpeedActive, attr.MaxVLs})
	kit.Equal(t, "PortInfo.LocalPortNum", i.LocalPortNum, attr.Num)
	kit.Equal(t, "GID 0", attr.GIDs[0].GID, mad.GID(i.GIDPrefix, uint64(attr.GUID)))
	for b := 0; 32*b < len(attr.PKeys); b++ {
		var block mad.PKeyBlock
		p.get(mad.AttrPKeyTable, uint32(b), &block)
		for k, key := range attr.PKeys[32*b : min(32*b+32, len(attr.PKeys))] {
			kit.Equal(t, fmt.Sprintf("P_Key %d", 32*b+k), ci.PKey(block[k]), key)
		}
	}
	var g mad.GUIDBlock
	p.get(mad.AttrGUIDInfo, 0, &g)
	kit.Equal(t, "GUID 0", ci.GUID(g[0]), attr.GUID)
}

var _ = tables.Add("sma.table.sl-to-vl", "write SLtoVLMappingTable", func(t *validate.T) {
	p := open(t)
	if i := p.info(); i.CapabilityMask&uint32(ci.PortCapSLMapping) == 0 {
		t.Skip("PortInfo.CapabilityMask does not claim SL mapping")
	}
	for k := range uint8(2) {
		want := mad.SLtoVL{}
		for sl := range want {
			want[sl] = uint8(sl)&1 ^ k
		}
		want[3] = 15 // discards
		q := p.smp(mad.Set, mad.AttrSLtoVL, 0)
		want.Put(q.Data[:])
		table := q.Data
		for i := mad.SLtoVLLen; i < len(q.Data); i++ {
			q.Data[i] = 0xff // reserved
		}
		r := p.do(q, mad.StatusOK)
		kit.SameBytes(t, "SLtoVLMappingTable in the response to a Set", r.Data[:], table[:])
		r = p.do(p.smp(mad.Get, mad.AttrSLtoVL, 0), mad.StatusOK)
		kit.SameBytes(t, "SLtoVLMappingTable after a Set", r.Data[:], table[:])
		r = p.do(p.smp(mad.Get, mad.AttrSLtoVL, uint32(p.ca.Port.Num)), mad.StatusOK)
		kit.SameBytes(t, "SLtoVLMappingTable with the port in the modifier", r.Data[:], table[:])
	}
}, tables.Must("SMA-Table-02", "IBTA 14.2.5.8", verb,
	"A port that claims SL mapping keeps a VL for each SL. The rest of the attribute is zero."))

var smaTable03 = tables.Must("SMA-Table-03", "IBTA 14.2.5.9", verb,
	"The blocks of the two VL arbitration tables are separate. Entries beyond the capacity of a table are zero.")

var smaTable04 = tables.Must("SMA-Table-04", "IBTA 14.2.5.9", verb,
	"Modifiers of VLArbitrationTable that select no block have status 0x001c.")

var _ = tables.Add("sma.table.arbitration", "write each block of VLArbitrationTable", tableArbitration, smaTable03)

// arbitration returns the numbers of entries in the blocks 1 to 4 of VLArbitrationTable. It skips the case if the port
// has one VL.
func (p *port) arbitration() (numEntries [5]int) {
	i := p.info()
	if i.VLCap < 2 || i.VLArbLowCap == 0 {
		p.t.Skip("PortInfo has one VL, or no table for arbitration")
	}
	for b := 1; b <= 4; b++ {
		capacity := int(i.VLArbLowCap)
		if b > 2 {
			capacity = int(i.VLArbHighCap)
		}
		numEntries[b] = min(max(capacity-32*((b-1)%2), 0), 32)
	}
	return numEntries
}

func tableArbitration(t *validate.T) {
	p := open(t)
	numEntries := p.arbitration()
	var want [5]mad.VLArbBlock
	for b := uint32(1); b <= 4; b++ {
		if numEntries[b] == 0 {
			continue
		}
		for i := range want[b] {
			want[b][i] = mad.VLWeight{VL: uint8(i & 1), Weight: uint8(0x10*b) + uint8(i)}
		}
		q := p.smp(mad.Set, mad.AttrVLArbitration, b<<16)
		want[b].Put(q.Data[:])
		for i := 0; i < len(q.Data); i += 2 {
			q.Data[i] |= 0xf0 // reserved
		}
		r := p.do(q, mad.StatusOK)
		clear(want[b][numEntries[b]:])
		var table [mad.SMPDataLen]byte
		want[b].Put(table[:])
		kit.SameBytes(t, fmt.Sprintf("block %d of VLArbitrationTable in the response to a Set", b), r.Data[:], table[:])
	}
	for b := uint32(1); b <= 4; b++ {
		if numEntries[b] == 0 {
			continue
		}
		r := p.do(p.smp(mad.Get, mad.AttrVLArbitration, b<<16), mad.StatusOK)
		var table [mad.SMPDataLen]byte
		want[b].Put(table[:])
		kit.SameBytes(t, fmt.Sprintf("block %d of VLArbitrationTable", b), r.Data[:], table[:])
	}
}

var _ = tables.Add("sma.table.arbitration-modifier", "modifiers of VLArbitrationTable", func(t *validate.T) {
	p := open(t)
	numEntries := p.arbitration()
	own, other := uint32(p.ca.Port.Num), uint32(len(p.ca.Attr.Ports))+1
	bad := []uint32{0, 5 << 16, 0xffff << 16, 1<<16 | other, 1<<16 | 0xff}
	for bit := uint32(0x100); bit <= 0x8000; bit <<= 1 { // of an input port, which adapters do not have
		bad = append(bad, 1<<16|bit, 1<<16|bit|own)
	}
	for b := uint32(1); b <= 4; b++ {
		if numEntries[b] == 0 {
			bad = append(bad, b<<16)
		}
	}
	for _, m := range kit.Variants(t, "modifier", bad) {
		p.do(p.smp(mad.Get, mad.AttrVLArbitration, m), mad.StatusBadField)
		p.do(p.smp(mad.Set, mad.AttrVLArbitration, m), mad.StatusBadField)
	}
	byPort := p.do(p.smp(mad.Get, mad.AttrVLArbitration, 1<<16|own), mad.StatusOK)
	all := p.do(p.smp(mad.Get, mad.AttrVLArbitration, 1<<16), mad.StatusOK)
	kit.SameBytes(t, "VLArbitrationTable with the port in the modifier", byPort.Data[:], all.Data[:])
}, smaTable04)

var _ = tables.Add("sma.table.end", "write the last blocks of P_KeyTable and GUIDInfo completely", direct(tableEnd),
	tables.Must("SMA-Table-05", "IBTA 14.2.5.7", verb,
		"Entries of P_KeyTable and GUIDInfo beyond the end of the table are zero, whatever a Set has in them."))

func tableEnd(p *port) {
	t := p.t
	check := func(attr uint16, numEntries, perBlock int) {
		block := (numEntries - 1) / perBlock
		q := p.smp(mad.Set, attr, uint32(block))
		for i := range q.Data {
			q.Data[i] = 0x5a
		}
		set := p.do(q, mad.StatusOK)
		r := p.do(p.smp(mad.Get, attr, uint32(block)), mad.StatusOK)
		kit.SameBytes(t, name(q)+": the response", set.Data[:], r.Data[:])
		rest := r.Data[(numEntries-block*perBlock)*len(r.Data)/perBlock:]
		kit.SameBytes(t, name(q)+": entries beyond the end", rest, make([]byte, len(rest)))
	}
	check(mad.AttrPKeyTable, len(p.ca.Port.PKeys), 32)
	check(mad.AttrGUIDInfo, int(p.info().GUIDCap), 8)
}

var _ = tables.Add("sma.table.led", "switch the LED on and off", func(t *validate.T) {
	p := open(t)
	if i := p.info(); i.CapabilityMask&uint32(ci.PortCapLEDInfo) == 0 {
		p.do(p.smp(mad.Get, mad.AttrLEDInfo, 0), mad.StatusBadMethodAttribute)
		return
	}
	for _, on := range kit.Variants(t, "LED", []byte{0x80, 0, 0x80}) {
		q := p.smp(mad.Set, mad.AttrLEDInfo, 0)
		q.Data[0] = on
		led := q.Data
		for i := range q.Data {
			q.Data[i] |= 0x7f // reserved, at least below the first bit
		}
		r := p.do(q, mad.StatusOK)
		kit.SameBytes(t, "LedInfo in the response to a Set", r.Data[:], led[:])
		r = p.do(p.smp(mad.Get, mad.AttrLEDInfo, 0), mad.StatusOK)
		kit.SameBytes(t, "LedInfo after a Set", r.Data[:], led[:])
		q = p.smp(mad.Set, mad.AttrLEDInfo, 0)
		q.Data[0] = on ^ 0x80
		other := uint32(len(p.ca.Attr.Ports)) + 1
		for _, m := range []uint32{other, 0xff, 0x100, 0x100 + uint32(p.ca.Port.Num), 0xffffffff} {
			q.Modifier = m
			p.do(q, mad.StatusBadField)
			p.do(p.smp(mad.Get, mad.AttrLEDInfo, m), mad.StatusBadField)
		}
		r = p.do(p.smp(mad.Get, mad.AttrLEDInfo, uint32(p.ca.Port.Num)), mad.StatusOK)
		kit.SameBytes(t, "LedInfo with the port in the modifier, after Sets of other ports", r.Data[:], led[:])
	}
}, tables.Must("SMA-Table-06", "IBTA 14.2.5.15", verb,
	"A port that claims LedInfo keeps the state of its LED, and has status 0x001c for a modifier of another "+
		"port. One that does not has status 0x000c."))

var _ = tables.Add("sma.table.notice", "read Notice without a trap", func(t *validate.T) {
	p := open(t)
	if i := p.info(); i.CapabilityMask&uint32(ci.PortCapNotice) == 0 {
		t.Skip("PortInfo.CapabilityMask does not claim notices")
	}
	var n mad.Notice
	p.get(mad.AttrNotice, 0, &n)
	kit.Equal(t, "Notice", n, mad.Notice{Generic: true, Type: mad.NoticeEmpty, Producer: mad.ProducerCA})
	p.do(p.smp(mad.Get, mad.AttrNotice, 1), mad.StatusBadField)
}, tables.Must("SMA-Table-07", "IBTA 13.4.9", verb,
	"A port that claims notices and has none answers a Get of Notice with type 0x7f. Another modifier than 0 has "+
		"status 0x001c."))

var _ = tables.Add("sma.table.description", "read NodeDescription", func(t *validate.T) {
	p := open(t)
	r := p.do(p.smp(mad.Get, mad.AttrNodeDescription, 0), mad.StatusOK)
	text := strings.TrimRight(string(r.Data[:]), "\x00")
	kit.True(t, utf8.ValidString(text) && !strings.ContainsRune(text, 0), "NodeDescription",
		"text in UTF-8, then zeros", "%q", text)
}, tables.Must("SMA-Table-08", "IBTA 14.2.5.2", verb,
	"NodeDescription is text in UTF-8, and what follows it in the 64 bytes is zero."))
