package cisuite

import (
	"encoding/binary"
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Offsets in a MAD (IBTA volume 1, 13.4.2) and in an SMP (14.2.1), in bytes. Numbers are big endian.
const (
	madBase      = 0 // base version, 1
	madClass     = 1
	madClassVer  = 2 // 1
	madMethod    = 3 // bit 7: response
	madStatus    = 4 // 2 bytes; in a directed-route SMP the first bit is the direction
	madTID       = 8 // 8 bytes
	madAttr      = 16
	madModifier  = 20 // 4 bytes
	smpData      = 64 // 64 bytes
	madGet       = 0x01
	madSet       = 0x02
	madRepress   = 0x07
	madResponse  = 0x81
	classLID     = 0x01
	classDirect  = 0x81
	attrNodeDesc = 0x0010
	attrNodeInfo = 0x0011
	attrSwitch   = 0x0012
	attrGUIDInfo = 0x0014
	attrPortInfo = 0x0015
	attrPKeys    = 0x0016
)

// Offsets in PortInfo (14.2.5.6), relative to the data of the SMP.
const (
	piLID      = 16 // 2 bytes
	piSMLID    = 18 // 2 bytes
	piCapMask  = 20 // 4 bytes
	piPort     = 28
	piState    = 32 // low nibble
	piLMC      = 34 // low 3 bits
	piMTU      = 36 // high nibble: NeighborMTU; low: master SM's SL
	piMTUCap   = 41 // low nibble
	piPKeyErrs = 46 // 2 bytes
	piQKeyErrs = 48 // 2 bytes
)

// madCases are the cases of the local MAD verb, with which a driver serves the management agents of its ports. (SAS
// 2.1, SMI and SMA; IBTA 13, 14.)
var madCases = &validate.Area{Feature: validate.FeatureMAD,
	Needs: validate.Needs{Caps: ci.CapLocalMAD, Links: []ci.Link{ci.LinkInfiniBand}}}

// request returns an SMP. Each byte of its transaction ID is set.
func request(method byte, attr uint16, modifier uint32) *ci.MAD {
	m := &ci.MAD{madBase: 1, madClass: classLID, madClassVer: 1, madMethod: method}
	binary.BigEndian.PutUint64(m[madTID:], 0x0102030405060708)
	binary.BigEndian.PutUint16(m[madAttr:], attr)
	binary.BigEndian.PutUint32(m[madModifier:], modifier)
	return m
}

// execute calls the verb with out filled with a pattern.
func execute(t *validate.T, ca *kit.CA, in *ci.MAD, what string) *ci.MAD {
	var out ci.MAD
	for i := range out {
		out[i] = 0xa5
	}
	kit.OK(t, ca.LocalMAD(ca.Port.Num, nil, in, &out), "CA.LocalMAD of "+what)
	return &out
}

func status(m *ci.MAD) uint16 { return binary.BigEndian.Uint16(m[madStatus:]) }

// localMAD executes a Get that must succeed and returns the response.
func localMAD(t *validate.T, ca *kit.CA, attr uint16, modifier uint32) *ci.MAD {
	in := request(madGet, attr, modifier)
	what := fmt.Sprintf("method %#x of attribute %#x", madGet, attr)
	out := execute(t, ca, in, what)
	kit.Equal(t, "MAD status of "+what, fmt.Sprintf("%#04x", status(out)), "0x0000")
	return out
}

func be16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

var _ = madCases.Needing(validate.Needs{}).With(validate.Case{Checks: []string{req.SAS2_1_16.ID}}).Add("mad.agent",
	"an agent executes subnet management", func(t *validate.T) {
		ca := kit.Open(t)
		local := t.Claims().Has(ci.CapLocalMAD)
		for i := range t.Attr().Ports {
			kit.True(t, local || t.Attr().HasHardwareAgents(uint8(i+1)),
				fmt.Sprintf("PortAttr.HardwareAgents of port %d", i+1),
				"true, since LocalMAD is not claimed", "false")
		}
		var out ci.MAD
		err := ca.LocalMAD(ca.Port.Num, nil, request(madGet, attrNodeInfo, 0), &out)
		agrees := func() { kit.Claim(t, ci.CapLocalMAD, err, "CA.LocalMAD") }
		if !local && t.Claims().Has(ci.CapHardwareSMA) {
			t.Charge("SAS-2.1-16", agrees)
		} else {
			agrees()
		}
		if local && ca.Port.Link == ci.LinkInfiniBand {
			kit.Equal(t, "MAD status of Get NodeInfo", status(&out), 0)
		}
	}, req.SAS2_1_15, req.SAS2_1_13, req.SAS2_1_16)

var _ = madCases.With(validate.Case{Checks: []string{req.SAS2_1_13.ID}}).Add("mad.header",
	"header of each response", func(t *validate.T) {
		ca := kit.Open(t)
		for _, attr := range kit.Variants(t, "attribute",
			[]uint16{attrNodeDesc, attrNodeInfo, attrPortInfo, attrPKeys, attrGUIDInfo}) {
			in := request(madGet, attr, 0)
			out := execute(t, ca, in, fmt.Sprintf("Get %#x", attr))
			for _, f := range kit.Variants(t, "", []struct {
				name     string
				from, to int
			}{{"base version", madBase, madClass}, {"class", madClass, madClassVer},
				{"class version", madClassVer, madMethod},
				{"transaction ID", madTID, madAttr}, {"attribute", madAttr, madAttr + 2},
				{"modifier", madModifier, madModifier + 4}}) {
				kit.SameBytes(t, fmt.Sprintf("%s of the response to Get %#x", f.name, attr), out[f.from:f.to],
					in[f.from:f.to])
			}
			kit.Equal(t, "method of the response", out[madMethod], madResponse)
			t.Charge("SAS-2.1-13", func() {
				kit.Equal(t, fmt.Sprintf("MAD status of Get %#x", attr), fmt.Sprintf("%#04x", status(out)), "0x0000")
			})
			stale := 0
			for _, b := range out[128:] { // reserved in an SMP routed by LID (14.2.1.1)
				if b == 0xa5 {
					stale++
				}
			}
			kit.Equal(t, "bytes of out that the verb has not written", stale, 0)
		}
	}, madCases.Must("CI-LocalMAD-01", "IBTA 13.4.5", "ci_local_mad (65)",
		"A response has the R bit set, and the class, versions, transaction ID, attribute and modifier of its "+
			"request. The verb overwrites out completely."), req.SAS2_1_13)

var _ = madCases.Add("mad.directed", "directed route without hops", func(t *validate.T) {
	ca := kit.Open(t)
	in := request(madGet, attrNodeInfo, 0)
	in[madClass] = classDirect
	copy(in[32:36], []byte{0xff, 0xff, 0xff, 0xff}) // DrSLID, DrDLID: permissive
	out := execute(t, ca, in, "Get NodeInfo with a directed route")
	kit.Equal(t, "class of the response", out[madClass], classDirect)
	kit.Equal(t, "method of the response", out[madMethod], madResponse)
	kit.Equal(t, "status of the response: direction bit and success", fmt.Sprintf("%#04x", status(out)), "0x8000")
	kit.Equal(t, "NodeInfo.NodeGUID", ci.GUID(be64(out[smpData+12:])), ca.Attr.GUID)
}, madCases.Must("CI-LocalMAD-11", "IBTA 14.2.1.2", "ci_local_mad (65)",
	"A directed-route request for this port is answered with the direction bit set."))

var _ = madCases.Add("mad.node-info", "Get NodeInfo", madNodeInfo,
	madCases.Must("CI-LocalMAD-02", "IBTA 14.2.5.3", "ci_local_mad (65)",
		"NodeInfo equals the attributes of the CA."))

func madNodeInfo(t *validate.T) {
	ca := kit.Open(t)
	d := localMAD(t, ca, attrNodeInfo, 0)[smpData:] // layout: 14.2.5.3
	kit.Equal(t, "NodeInfo.NodeType", d[2], 1)
	kit.Equal(t, "NodeInfo.NumPorts", int(d[3]), len(ca.Attr.Ports))
	if t.Claims().Has(ci.CapSystemGUID) {
		kit.Equal(t, "NodeInfo.SystemImageGUID", ci.GUID(be64(d[4:])), ca.Attr.SystemGUID)
	}
	kit.Equal(t, "NodeInfo.NodeGUID", ci.GUID(be64(d[12:])), ca.Attr.GUID)
	kit.Equal(t, "NodeInfo.PortGUID", ci.GUID(be64(d[20:])), ca.Port.GUID)
	kit.Equal(t, "NodeInfo.PartitionCap", int(be16(d[28:])), len(ca.Port.PKeys))
	kit.Equal(t, "NodeInfo.DeviceID", be16(d[30:]), ca.Attr.DeviceID)
	kit.Equal(t, "NodeInfo.Revision", binary.BigEndian.Uint32(d[32:]), uint32(ca.Attr.Revision))
	kit.Equal(t, "NodeInfo.LocalPortNum", d[36], ca.Port.Num)
	kit.Equal(t, "NodeInfo.VendorID", uint32(d[37])<<16|uint32(d[38])<<8|uint32(d[39]), ca.Attr.VendorID)
}

var _ = madCases.Add("mad.port-info", "Get PortInfo", func(t *validate.T) {
	ca := kit.Open(t)
	d := localMAD(t, ca, attrPortInfo, 0)[smpData:]
	p := portOf(t, ca)
	kit.Equal(t, "PortInfo.LID", ci.LID(be16(d[piLID:])), p.LID)
	kit.Equal(t, "PortInfo.MasterSMLID", ci.LID(be16(d[piSMLID:])), p.SMLID)
	kit.Equal(t, "PortInfo.CapabilityMask", ci.PortCap(binary.BigEndian.Uint32(d[piCapMask:])), p.Capability)
	kit.Equal(t, "PortInfo.LocalPortNum", d[piPort], p.Num)
	kit.Equal(t, "PortInfo.PortState", ci.PortState(d[piState]&15), p.State)
	kit.Equal(t, "PortInfo.LMC", d[piLMC]&7, p.LMC)
	kit.Equal(t, "PortInfo.NeighborMTU", ci.MTU(d[piMTU]>>4), p.MTU)
	kit.Equal(t, "PortInfo.MasterSMSL", d[piMTU]&15, p.SMSL)
	kit.Equal(t, "PortInfo.MTUCap", ci.MTU(d[piMTUCap]&15), p.MaxMTU)
	otherQKeys := t.Claims().Has(ci.CapQKeyCounter) && be16(d[piQKeyErrs:]) != p.QKeyErrors
	otherPKeys := t.Claims().Has(ci.CapPKeyCounter) && be16(d[piPKeyErrs:]) != p.PKeyErrors
	if otherQKeys || otherPKeys {
		t.Note("PortInfo and CA.Query have different violation counters: Q_Key %d and %d, P_Key %d and %d",
			be16(d[piQKeyErrs:]), p.QKeyErrors, be16(d[piPKeyErrs:]), p.PKeyErrors)
	}
}, madCases.Must("CI-LocalMAD-03", "IBTA 14.2.5.6", "ci_local_mad (65)",
	"PortInfo equals the attributes of the port."))

var _ = madCases.Add("mad.pkeys", "Get P_KeyTable", func(t *validate.T) {
	ca := kit.Open(t)
	const block = 32 // P_Keys in a block
	for b := 0; b*block < len(ca.Port.PKeys); b++ {
		d := localMAD(t, ca, attrPKeys, uint32(b))[smpData:]
		for i, k := range ca.Port.PKeys[b*block : min(len(ca.Port.PKeys), (b+1)*block)] {
			kit.Equal(t, fmt.Sprintf("P_KeyTable, entry %d", b*block+i), ci.PKey(be16(d[2*i:])), k)
		}
	}
}, madCases.Must("CI-LocalMAD-04", "IBTA 14.2.5.7", "ci_local_mad (65)",
	"The P_Key table equals the attributes of the port."))

var _ = madCases.Add("mad.guids", "Get GUIDInfo", func(t *validate.T) {
	ca := kit.Open(t)
	d := localMAD(t, ca, attrGUIDInfo, 0)[smpData:]
	kit.Equal(t, "GUIDInfo, entry 0", ci.GUID(be64(d)), ca.Port.GUID)
	for i, g := range ca.Port.GIDs[:min(8, len(ca.Port.GIDs))] {
		kit.Equal(t, fmt.Sprintf("GUIDInfo, entry %d, compared with the lower half of the GID", i), be64(d[8*i:]),
			be64(g.GID[8:]))
	}
}, madCases.Must("CI-LocalMAD-05", "IBTA 14.2.5.5", "ci_local_mad (65)",
	"The GUID table equals the GIDs of the port."))

var _ = madCases.Add("mad.unknown", "unknown attributes, methods and classes", func(t *validate.T) {
	ca := kit.Open(t)
	const badVersion, badMethod, badAttribute = 0x0004, 0x0008, 0x000c // 13.4.7
	for _, x := range kit.Variants(t, "", []struct {
		what   string
		change func(*ci.MAD)
		want   []uint16
	}{
		{"an attribute that does not exist", func(m *ci.MAD) { m[madAttr], m[madAttr+1] = 0x7f, 0x77 },
			[]uint16{badAttribute}},
		{"SwitchInfo, which a CA does not have", func(m *ci.MAD) { m[madAttr], m[madAttr+1] = 0, attrSwitch },
			[]uint16{badAttribute}},
		{"a method that subnet management does not define", func(m *ci.MAD) { m[madMethod] = 0x15 },
			[]uint16{badMethod, badAttribute}},
		{"Set of NodeInfo, which is read-only", func(m *ci.MAD) { m[madMethod] = madSet },
			[]uint16{badAttribute, badMethod}},
		{"base version 9", func(m *ci.MAD) { m[madBase] = 9 }, []uint16{badVersion}},
		{"class version 9", func(m *ci.MAD) { m[madClassVer] = 9 }, []uint16{badVersion}},
		{"a class without an agent", func(m *ci.MAD) { m[madClass] = 0x2e }, []uint16{badVersion}},
	}) {
		in := request(madGet, attrNodeInfo, 0)
		x.change(in)
		out := execute(t, ca, in, x.what)
		got := status(out)
		ok := false
		for _, w := range x.want {
			ok = ok || got == w
		}
		kit.True(t, ok, "MAD status of "+x.what, fmt.Sprintf("%#04x", x.want), "%#04x", got)
	}
}, madCases.Must("CI-LocalMAD-06", "IBTA 13.4.7", "ci_local_mad (65)",
	"An agent reports unknown attributes, methods and versions in the MAD status, and the verb succeeds."))

var _ = madCases.Add("mad.arguments", "invalid ports, no MAD", func(t *validate.T) {
	ca := kit.Open(t)
	var out ci.MAD
	in := request(madGet, attrNodeInfo, 0)
	for _, n := range kit.Variants(t, "port", []uint8{0, uint8(len(ca.Attr.Ports) + 1), 255}) {
		kit.WantExactly(t, ca.LocalMAD(n, nil, in, &out),
			fmt.Sprintf("CA.LocalMAD on port %d of %d", n, len(ca.Attr.Ports)), ci.InvalidPort)
	}
	kit.Want(t, ca.LocalMAD(ca.Port.Num, nil, nil, &out), "CA.LocalMAD without a request", ci.InvalidParameter)
	kit.Want(t, ca.LocalMAD(ca.Port.Num, nil, in, nil), "CA.LocalMAD without a buffer for the response",
		ci.InvalidParameter)
}, madCases.Must("CI-LocalMAD-07", "CI context", "ci_local_mad (65)",
	"A port that the CA does not have fails with InvalidPort, and a missing MAD with InvalidParameter."))

// setPortInfo reads PortInfo, changes it, writes it back and returns the response. State and physical state are "no
// change" unless change sets them.
func setPortInfo(t *validate.T, ca *kit.CA, change func(d []byte)) *ci.MAD {
	d := localMAD(t, ca, attrPortInfo, 0)[smpData:]
	in := request(madSet, attrPortInfo, 0)
	copy(in[smpData:smpData+64], d)
	in[smpData+piState] &^= 15  // PortState: no change
	in[smpData+piState+1] &= 15 // PortPhysicalState, the high nibble: no change
	change(in[smpData : smpData+64])
	return execute(t, ca, in, "Set PortInfo")
}

// withLID sets LID and SM LID and restores them at the end of the case.
func withLID(t *validate.T, ca *kit.CA, lid, sm ci.LID) {
	set := func(lid, sm ci.LID) *ci.MAD {
		out := setPortInfo(t, ca, func(d []byte) {
			binary.BigEndian.PutUint16(d[piLID:], uint16(lid))
			binary.BigEndian.PutUint16(d[piSMLID:], uint16(sm))
		})
		return out
	}
	was := *ca.Port
	t.Cleanup(func() { set(was.LID, was.SMLID) })
	out := set(lid, sm)
	kit.Equal(t, "MAD status of Set PortInfo", fmt.Sprintf("%#04x", status(out)), "0x0000")
	kit.Equal(t, "PortInfo.LID in the response", ci.LID(be16(out[smpData+piLID:])), lid)
}

var _ = madCases.Add("mad.set.lid", "Set LID and SM LID", func(t *validate.T) {
	ca := kit.Open(t)
	lid := ca.Port.LID + 0x100
	withLID(t, ca, lid, 0x77)
	p := portOf(t, ca)
	kit.Equal(t, "PortAttr.LID after Set PortInfo", p.LID, lid)
	kit.Equal(t, "PortAttr.SMLID after Set PortInfo", p.SMLID, 0x77)
	kit.Equal(t, "PortAttr.State after Set PortInfo", p.State, ca.Port.State)
}, madCases.Must("CI-LocalMAD-08", "IBTA 14.2.5.6", "ci_local_mad (65)",
	"After a Set of PortInfo with a LID and a subnet manager LID, CA.Query returns both."), req.SAS2_1_14)

var _ = madCases.Add("mad.set.lid-event", "event after a change of the LID", func(t *validate.T) {
	ca := kit.Open(t)
	withLID(t, ca, ca.Port.LID+0x200, ca.Port.SMLID|1)
	waitFor(t, "asynchronous events after a change of the LID", "the event LID change", func() (bool, string) {
		return ca.Events.Count(ci.EventLIDChange) > 0, fmt.Sprintf("%d events, none of this type", len(ca.Events.All()))
	})
}, req.SAS2_1_19)

var _ = madCases.With(validate.Case{Spoils: true}).Add("mad.set.state", "take the port down and up again",
	madSetState, req.SAS2_1_14)

func madSetState(t *validate.T) {
	ca := kit.Open(t)
	state := func(s ci.PortState) {
		out := setPortInfo(t, ca, func(d []byte) { d[piState] |= byte(s) })
		kit.Equal(t, "MAD status of Set PortInfo to "+s.String(), fmt.Sprintf("%#04x", status(out)), "0x0000")
	}
	state(ci.PortDown)
	// The link comes up again by itself, since its other end is up.
	waitFor(t, "PortAttr.State after Set PortInfo to Down", "Init", func() (bool, string) {
		s := portOf(t, ca).State
		return s == ci.PortInit, s.String()
	})
	state(ci.PortArmed)
	kit.Equal(t, "PortAttr.State after Set PortInfo to Armed", portOf(t, ca).State, ci.PortArmed)
	// An event that the change to Armed raises is too early, and must not count for the change to Active.
	_ = ca.Events.HasWithin(ci.EventPortActive, 10*time.Millisecond)
	early := ca.Events.Count(ci.EventPortActive)
	state(ci.PortActive)
	kit.Equal(t, "PortAttr.State after Set PortInfo to Active", portOf(t, ca).State, ci.PortActive)
	if t.Claims().Has(ci.CapPortActiveEvent) {
		waitFor(t, "events after Set PortInfo to Active", "another event port active", func() (bool, string) {
			n := ca.Events.Count(ci.EventPortActive)
			return n > early, fmt.Sprintf("%d, of which %d came before the Set", n, early)
		})
	}
	ca.Events.Wait(ci.EventPortDown)
}

var _ = madCases.With(validate.Case{Spoils: true}).Add("mad.set.state-event", "event after a port reaches Init",
	madInitEvent, req.SAS2_1_20)

func madInitEvent(t *validate.T) {
	ca := kit.Open(t)
	before := ca.Events.Count(ci.EventPortInit)
	setPortInfo(t, ca, func(d []byte) { d[piState] |= byte(ci.PortDown) })
	waitFor(t, "port after Set PortInfo to Down", "the state Init and its event", func() (bool, string) {
		s, n := portOf(t, ca).State, ca.Events.Count(ci.EventPortInit)-before
		return s == ci.PortInit && n > 0, fmt.Sprintf("state %s, %d events of this type", s, n)
	})
	for _, e := range ca.Events.All() {
		if e.Type == ci.EventPortInit {
			kit.Equal(t, "Event.Port of the event after a port reaches Init", e.Port, ca.Port.Num)
		}
	}
	for _, s := range []ci.PortState{ci.PortArmed, ci.PortActive} {
		setPortInfo(t, ca, func(d []byte) { d[piState] |= byte(s) })
		kit.Equal(t, "PortAttr.State after Set PortInfo to "+s.String(), portOf(t, ca).State, s)
	}
	ca.Events.HasWithin(ci.EventPortActive, quiet) // optional; events come in order, so that one of Init came before it
	kit.Equal(t, "events of a port that reached Init once", ca.Events.Count(ci.EventPortInit)-before, 1)
}

var _ = madCases.Add("mad.set.illegal", "Set with an unreachable state", func(t *validate.T) {
	ca := kit.Open(t)
	const badField = 0x001c
	before := portOf(t, ca)
	for _, s := range kit.Variants(t, "state", []byte{byte(ci.PortInit), 5, 9, 15}) {
		out := setPortInfo(t, ca, func(d []byte) {
			d[piState] |= s
			binary.BigEndian.PutUint16(d[piLID:], uint16(before.LID+0x300))
		})
		kit.Equal(t, fmt.Sprintf("MAD status of Set PortInfo with PortState %d", s), fmt.Sprintf("%#04x", status(out)),
			fmt.Sprintf("%#04x", badField))
		after := portOf(t, ca)
		kit.Equal(t, "PortAttr.State after the rejected Set", after.State, before.State)
		kit.Equal(t, "PortAttr.LID after the rejected Set", after.LID, before.LID)
	}
}, madCases.Must("CI-LocalMAD-09", "IBTA 14.2.5.6", "ci_local_mad (65)",
	"A Set of PortInfo with an unreachable state is rejected in the MAD status and changes nothing."))

var _ = madCases.Add("mad.trap-repress", "trap repress", func(t *validate.T) {
	ca := kit.Open(t)
	in := request(madRepress, 0x0002, 0) // Notice
	out := execute(t, ca, in, "trap repress")
	kit.True(t, out[madMethod]&0x80 == 0, "method in out after a trap repress", "no response", "%#x", out[madMethod])
	stale := 0
	for _, b := range out {
		if b == 0xa5 {
			stale++
		}
	}
	kit.True(t, stale < len(out)/8, "out after a trap repress", "overwritten completely", "%d of 256 bytes not written",
		stale)
}, madCases.Must("CI-LocalMAD-10", "IBTA 13.4.9", "ci_local_mad (65)",
	"A trap repress has no response and causes no error."))

var _ = madCases.Needing(validate.Needs{Caps: ci.CapLocalMAD, Links: []ci.Link{ci.LinkEthernet}}).Add("mad.ethernet",
	"requests of subnet management on an Ethernet port", func(t *validate.T) {
		const unsupported, direction = 0x0004, 0x8000
		ca := kit.Open(t)
		for _, class := range kit.Variants(t, "class", []byte{classLID, classDirect}) {
			want := uint16(unsupported)
			if class == classDirect {
				want |= direction
			}
			for _, method := range []byte{madGet, madSet} {
				in := request(method, attrNodeInfo, 0)
				in[madClass] = class
				what := fmt.Sprintf("method %#x of class %#x", method, class)
				out := execute(t, ca, in, what)
				kit.Equal(t, "method of the response to "+what, out[madMethod], madResponse)
				kit.Equal(t, "class of the response to "+what, out[madClass], class)
				kit.SameBytes(t, "transaction ID of the response to "+what, out[madTID:madAttr], in[madTID:madAttr])
				kit.Equal(t, "MAD status of the response to "+what, fmt.Sprintf("%#04x", status(out)),
					fmt.Sprintf("%#04x", want))
			}
		}
	}, madCases.Must("CI-LocalMAD-12", "IBTA 13.4.7", "ci_local_mad (65)",
		"On an Ethernet port, which has no subnet management, a request of subnet management gets a response with "+
			"the status that its class is not supported."))

var _ = madCases.Needing(validate.Needs{Caps: ci.CapLocalMAD}).Add("mad.no-request",
	"datagrams that need no response", func(t *validate.T) {
		const send, trap, classPerf = 0x03, 0x05, 0x04
		ca := kit.Open(t)
		for _, class := range kit.Variants(t, "class", []byte{classLID, classDirect, classPerf}) {
			for _, method := range kit.Variants(t, "method", []byte{send, trap, madRepress, madResponse, 0x86}) {
				in := request(method, attrNodeInfo, 0)
				in[madClass] = class
				out := execute(t, ca, in, fmt.Sprintf("method %#x of class %#x", method, class))
				kit.SameBytes(t, fmt.Sprintf("out after method %#x of class %#x", method, class), out[:],
					make([]byte, len(out)))
			}
		}
	}, madCases.Must("CI-LocalMAD-13", "IBTA 13.4.5", "ci_local_mad (65)",
		"A datagram that is no request, such as a response, a trap or one without a reply, has no response: out is "+
			"zero."))
