package cisuite

import (
	"fmt"
	"math/bits"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// caModifyCases are the cases of CA.Modify, of several CAs, and of verbs inside a registrar. (IBTA 11.2.1.3; SAS
// 2.1, 2.2.)
var caModifyCases = &validate.Area{Feature: validate.FeatureCore}

var ciModifyCA02 = caModifyCases.Must("CI-ModifyCA-02", "IBTA 11.2.1.3", "ci_modify_ca (6)",
	"A violation counter takes the given value, and Query returns it.")

var _ = caModifyCases.Needing(validate.Needs{Caps: ci.CapPKeyCounter}).Add("ca.modify.pkey-counter",
	"write the P_Key counter", pkeyCounter, ciModifyCA02)

func pkeyCounter(t *validate.T) {
	caCounter(t, ci.PortFieldPKeyErrors, func(m *ci.PortModify, v uint16) { m.PKeyErrors = v },
		func(p *ci.PortAttr) uint16 { return p.PKeyErrors })
}

var _ = caModifyCases.Needing(validate.Needs{Caps: ci.CapQKeyCounter}).Add("ca.modify.qkey-counter",
	"write the Q_Key counter", qkeyCounter, ciModifyCA02)

func qkeyCounter(t *validate.T) {
	caCounter(t, ci.PortFieldQKeyErrors, func(m *ci.PortModify, v uint16) { m.QKeyErrors = v },
		func(p *ci.PortAttr) uint16 { return p.QKeyErrors })
}

// portOf queries the CA and returns the attributes of the port that was the first active one at the start of the case.
func portOf(t *validate.T, ca *kit.CA) *ci.PortAttr {
	a, err := ca.Query()
	kit.OK(t, err, "CA.Query")
	return &a.Ports[ca.Port.Num-1]
}

func caModify(t *validate.T, ca *kit.CA, set ci.PortField, m ci.PortModify, what string) {
	kit.OK(t, ca.Modify(ca.Port.Num, set, m), "CA.Modify of "+what)
}

// restored restores the capability bits of the port at the end of the case.
func restored(t *validate.T, ca *kit.CA) {
	was := ca.Port.Capability
	t.Cleanup(func() {
		_ = ca.Modify(ca.Port.Num, ci.PortFieldCapability, ci.PortModify{CapMask: ^ci.PortCap(0), Capability: was})
	})
}

var _ = caModifyCases.Add("ca.modify.capability", "set and clear capability bits", func(t *validate.T) {
	ca := kit.Open(t)
	restored(t, ca)
	was := portOf(t, ca).Capability
	for _, bit := range kit.Variants(t, "capability",
		[]ci.PortCap{ci.PortCapCM, ci.PortCapDeviceManagement, ci.PortCapVendorClass, ci.PortCapReregister,
			ci.PortCapCM | ci.PortCapSNMP}) {
		caModify(t, ca, ci.PortFieldCapability, ci.PortModify{CapMask: bit, Capability: ^ci.PortCap(0)},
			"capability bits to set")
		kit.Equal(t, fmt.Sprintf("PortAttr.Capability with %#x set", bit), fmt.Sprintf("%#x", portOf(t, ca).Capability),
			fmt.Sprintf("%#x", was|bit))
		caModify(t, ca, ci.PortFieldCapability, ci.PortModify{CapMask: bit}, "capability bits to clear")
		kit.Equal(t, fmt.Sprintf("PortAttr.Capability with %#x cleared", bit),
			fmt.Sprintf("%#x", portOf(t, ca).Capability), fmt.Sprintf("%#x", was&^bit))
		caModify(t, ca, ci.PortFieldCapability, ci.PortModify{CapMask: bit, Capability: was},
			"capability bits to restore")
	}
}, caModifyCases.Must("CI-ModifyCA-01", "IBTA 11.2.1.3", "ci_modify_ca (6)",
	"Capability bits in the mask take the given values, others stay the same, and Query returns them."))

var _ = caModifyCases.Add("ca.modify.bad-port", "ports 0 and n+1", func(t *validate.T) {
	ca := kit.Open(t)
	for _, n := range kit.Variants(t, "port", []uint8{0, uint8(len(ca.Attr.Ports) + 1), 255}) {
		kit.WantExactly(t, ca.Modify(n, ci.PortFieldCapability, ci.PortModify{}),
			fmt.Sprintf("CA.Modify of port %d of %d", n, len(ca.Attr.Ports)), ci.InvalidPort)
	}
}, caModifyCases.Must("CI-ModifyCA-05", "IBTA 11.2.1.3", "ci_modify_ca (6)",
	"A port that the CA does not have fails with InvalidPort."))

var _ = caModifyCases.Add("ca.modify.unknown", "unknown fields", func(t *validate.T) {
	ca := kit.Open(t)
	restored(t, ca)
	was := portOf(t, ca).Capability
	for bit := ci.PortFieldShutdown << 1; bit != 0; bit <<= 3 {
		m := ci.PortModify{CapMask: ci.PortCapCM, Capability: ^was}
		kit.WantExactly(t, ca.Modify(ca.Port.Num, ci.PortFieldCapability|bit, m),
			fmt.Sprintf("CA.Modify with field %#x", uint32(bit)), ci.InvalidParameter)
		kit.Equal(t, "PortAttr.Capability after the rejected CA.Modify", portOf(t, ca).Capability, was)
	}
}, caModifyCases.Must("CI-ModifyCA-06", "CI context", "ci_modify_ca (6)",
	"An unknown field fails with InvalidParameter, and nothing changes, including the other fields of the call."))

var _ = caModifyCases.Add("ca.modify.claims", "each field and its capability", func(t *validate.T) {
	ca := kit.Open(t)
	now := portOf(t, ca)
	m := ci.PortModify{PKeyErrors: now.PKeyErrors, QKeyErrors: now.QKeyErrors, SystemGUID: ca.Attr.SystemGUID}
	for _, f := range kit.Variants(t, "", []struct {
		name string
		set  ci.PortField
		bit  ci.Caps
	}{{"PKeyErrors", ci.PortFieldPKeyErrors, ci.CapPKeyCounter},
		{"QKeyErrors", ci.PortFieldQKeyErrors, ci.CapQKeyCounter},
		{"InitType", ci.PortFieldInitType, ci.CapInitType}, {"SystemGUID", ci.PortFieldSystemGUID, ci.CapSystemGUID},
		{"Shutdown", ci.PortFieldShutdown, ci.CapShutdownPort}}) {
		if f.set == ci.PortFieldShutdown && t.Claims().Has(f.bit) {
			continue // tested by events.port-down
		}
		kit.Claim(t, f.bit, ca.Modify(ca.Port.Num, f.set, m), "CA.Modify of "+f.name)
	}
}, caModifyCases.Must("CI-ModifyCA-07", "CI claims", "ci_modify_ca (6)",
	"A field whose capability is not claimed fails with Unsupported, and no other field does."))

var _ = caModifyCases.Add("ca.modify.mask", "values of fields that are not set", func(t *validate.T) {
	ca := kit.Open(t)
	before := portOf(t, ca)
	m := ci.PortModify{CapMask: ^ci.PortCap(0), Capability: ^before.Capability, PKeyErrors: 0x7777, QKeyErrors: 0x7777,
		InitType:   0xff,
		SystemGUID: ca.Attr.SystemGUID + 1}
	kit.OK(t, ca.Modify(ca.Port.Num, 0, m), "CA.Modify without a field")
	a, err := ca.Query()
	kit.OK(t, err, "CA.Query")
	after := a.Ports[ca.Port.Num-1]
	kit.Equal(t, "CAAttr.SystemGUID", a.SystemGUID, ca.Attr.SystemGUID)
	kit.Equal(t, "PortAttr.Capability", after.Capability, before.Capability)
	kit.Equal(t, "PortAttr.State", after.State, before.State)
	kit.True(t, after.PKeyErrors != 0x7777 && after.QKeyErrors != 0x7777, "violation counters", "unchanged",
		"PKeyErrors %d, QKeyErrors %d", after.PKeyErrors, after.QKeyErrors)
}, caModifyCases.Must("CI-ModifyCA-08", "CI context", "ci_modify_ca (6)",
	"Values of fields that are not in the mask are ignored."))

func caCounter(t *validate.T, field ci.PortField, put func(*ci.PortModify, uint16), get func(*ci.PortAttr) uint16) {
	ca := kit.Open(t)
	for _, v := range kit.Variants(t, "value", []uint16{7, 0xffff, 0}) { // the last value resets the counter
		var m ci.PortModify
		put(&m, v)
		caModify(t, ca, field, m, "a violation counter")
		kit.Equal(t, "violation counter after it was set", get(portOf(t, ca)), v)
	}
}

var _ = caModifyCases.Of(validate.FeatureUD).Needing(
	validate.Needs{Caps: ci.CapUD | ci.CapAV | ci.CapQKeyCounter}).Add("ca.modify.qkey-violation",
	"send with a wrong Q_Key and read the counter", caQKeyViolation,
	caModifyCases.Must("CI-ModifyCA-03", "IBTA 10.2.5", "Q_Key violation counter of PortInfo",
		"A datagram with a wrong Q_Key increments the port's Q_Key violation counter and no other."))

func caQKeyViolation(t *validate.T) {
	p := kit.UD(t)
	b := p.B.QP.CA
	caModify(t, b, ci.PortFieldQKeyErrors, ci.PortModify{}, "the Q_Key counter")
	p.B.Recv(p.B.RecvWRs(4, 64)...)
	for i := range 3 {
		wr := p.A.SendWR(uint64(i+1), 0, 8)
		wr.To.QKey = 0x00facade // the high bit is clear, so the request's own key is sent (IBTA 10.2.5)
		p.A.Send(wr)
	}
	p.A.CQ.WaitOK(1, 2, 3)
	waitFor(t, "Q_Key violation counter after 3 datagrams with a wrong Q_Key", "3", func() (bool, string) {
		n := portOf(t, b).QKeyErrors
		return n == 3, fmt.Sprint(n)
	})
	p.A.Send(p.A.SendWR(4, 0, 8))
	p.B.RecvCQ.WaitOK(1)
	kit.Equal(t, "Q_Key violation counter after a valid datagram", portOf(t, b).QKeyErrors, 3)
	kit.Equal(t, "P_Key violation counter", portOf(t, b).PKeyErrors, b.Port.PKeyErrors)
	caModify(t, b, ci.PortFieldQKeyErrors, ci.PortModify{}, "the Q_Key counter")
	kit.Equal(t, "Q_Key violation counter after its reset", portOf(t, b).QKeyErrors, 0)
}

var _ = caModifyCases.Needing(validate.Needs{Caps: ci.CapSystemGUID}).Add("ca.modify.system-guid",
	"set the system image GUID", caSystemGUID,
	caModifyCases.Must("CI-ModifyCA-04", "IBTA 11.2.1.3", "ci_modify_ca (6)",
		"The system image GUID takes the given value, and Query returns it."))

func caSystemGUID(t *validate.T) {
	ca := kit.Open(t)
	was := ca.Attr.SystemGUID
	kit.True(t, was != 0, "CAAttr.SystemGUID", "not 0, since SystemGUID is claimed", "0")
	for _, g := range kit.Variants(t, "GUID", []ci.GUID{0x0123456789abcdef, was}) {
		caModify(t, ca, ci.PortFieldSystemGUID, ci.PortModify{SystemGUID: g}, "the system image GUID")
		a, err := ca.Query()
		kit.OK(t, err, "CA.Query")
		kit.Equal(t, "CAAttr.SystemGUID", fmt.Sprintf("%#x", uint64(a.SystemGUID)), fmt.Sprintf("%#x", uint64(g)))
		kit.Equal(t, "CAAttr.GUID, which no verb can change", a.GUID, ca.Attr.GUID)
	}
}

var _ = caModifyCases.Of(validate.FeatureMAD).Needing(validate.Needs{Caps: ci.CapLocalMAD | ci.CapInitType}).Add(
	"ca.modify.init-type", "set the init type", caInitType,
	caModifyCases.Must("CI-ModifyCA-09", "IBTA 14.2.5.6", "ci_modify_ca (6)",
		"The init type takes the given value, and PortInfo returns it."))

func caInitType(t *validate.T) {
	ca := kit.Open(t)
	for _, v := range kit.Variants(t, "value", []ci.InitType{1, 15, 0}) {
		caModify(t, ca, ci.PortFieldInitType, ci.PortModify{InitType: v}, "the init type")
		out := localMAD(t, ca, attrPortInfo, 0)
		kit.Equal(t, "PortInfo.InitType", ci.InitType(out[smpData+37]&15), v) // IBTA 14.2.5.6: byte 37, low nibble
	}
}

var _ = caModifyCases.Add("query.identity", "identity of the adapter, closed and open", func(t *validate.T) {
	h := t.HCA()
	before := h.Info()
	ca := kit.Open(t)
	kit.Equal(t, "CAAttr.GUID", ca.Attr.GUID, before.GUID)
	kit.Equal(t, "CAAttr.VendorID", ca.Attr.VendorID, before.VendorID)
	kit.Equal(t, "CAAttr.DeviceID", ca.Attr.DeviceID, before.DeviceID)
	kit.Equal(t, "CAAttr.Revision", ca.Attr.Revision, before.Revision)
	kit.Equal(t, "HCA.Info while open", h.Info(), before)
	kit.True(t, before.VendorID < 1<<24, "HCAInfo.VendorID", "an OUI of 24 bits", "%#x", before.VendorID)
	kit.Equal(t, "major part of HCAInfo.Version", before.Version>>16, ci.InterfaceVersion>>16)
	for _, p := range ca.Attr.Ports {
		kit.True(t, p.GUID != 0, fmt.Sprintf("GUID of port %d", p.Num), "not zero", "0")
		kit.True(t, p.LMC < 8, fmt.Sprintf("LMC of port %d", p.Num), "0 to 7", "%d", p.LMC)
		kit.True(t, p.WidthActive == 0 || bits.OnesCount8(p.WidthActive) == 1,
			fmt.Sprintf("WidthActive of port %d", p.Num), "one of the codes 0, 1, 2, 4, 8", "%d", p.WidthActive)
		for i, g := range p.GIDs {
			kit.True(t, (g.Type == ci.GIDInfiniBand) == (p.Link == ci.LinkInfiniBand),
				fmt.Sprintf("GIDs[%d].Type of port %d", i, p.Num),
				"InfiniBand on an InfiniBand link, another type on Ethernet", "type %d on %s", g.Type,
				validate.LinkName(p.Link))
		}
		for i, k := range p.PKeys {
			kit.True(t, k&0x7fff != 0 || k == 0, fmt.Sprintf("PKeys[%d] of port %d", i, p.Num),
				"a P_Key, or 0 for an empty entry", "%#x", k)
		}
	}
	kit.OK(t, ca.Destroy(), "CA.Destroy")
	kit.Equal(t, "HCA.Info after CA.Destroy", h.Info(), before)
}, caModifyCases.Must("CI-QueryCA-05", "CI context", "ci_query_ca (5)",
	"The identity of the adapter before it is opened equals that in its attributes and does not change."))

var _ = caModifyCases.Add("open.in-register", "all verbs inside Register", func(t *validate.T) {
	calls := 0
	r := &kit.Registrar{Inside: func(ca ci.CA) error {
		calls++
		a, err := ca.Query()
		if err != nil {
			return fmt.Errorf("CA.Query inside Register: %w", err)
		}
		if len(a.Ports) == 0 {
			return fmt.Errorf("CA.Query inside Register returns no port: %w", ci.InvalidPort)
		}
		pd, err := ca.AllocatePD(ci.PDNormal)
		if err != nil {
			return fmt.Errorf("CA.AllocatePD inside Register: %w", err)
		}
		mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 4096)), Access: kit.AllAccess})
		if err != nil {
			return fmt.Errorf("PD.RegisterMR inside Register: %w", err)
		}
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 4})
		if err != nil {
			return fmt.Errorf("PD.CreateCQ inside Register: %w", err)
		}
		qp, err := pd.CreateQP(ci.QPCreate{
			QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1},
			SendCQ: cq,
			RecvCQ: cq,
		})
		if err != nil {
			return fmt.Errorf("PD.CreateQP inside Register: %w", err)
		}
		if err := qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}); err != nil {
			return fmt.Errorf("QP.Modify inside Register: %w", err)
		}
		for _, o := range []ci.Object{qp, cq, mr, pd} {
			if err := o.Destroy(); err != nil {
				return fmt.Errorf("Destroy inside Register: %w", err)
			}
		}
		return nil
	}}
	for _, h := range t.HCAs() {
		kit.OK(t, r.Register(h), "Registrar.Register that calls verbs")
	}
	kit.Equal(t, "Register calls that called verbs", calls, len(t.HCAs()))
	for _, h := range t.HCAs() {
		kit.OK(t, r.Deregister(h.Info().GUID), "Registrar.Deregister, which closes the CA")
	}
}, req.SAS2_2_10, req.SAS2_3_01, req.SAS2_2_02, req.SAS0_01)

var _ = caModifyCases.Add("open.register-again", "register and deregister repeatedly", func(t *validate.T) {
	r := &kit.Registrar{}
	for range 10 {
		kit.OK(t, r.Register(t.HCA()), "Registrar.Register")
		second, err := t.HCA().OpenCA(t.HCA().Info().GUID, noEvents, nil)
		refusedCA(t, second, err, "HCA.OpenCA while the registrar has it open", ci.ResourceBusy)
		kit.OK(t, r.Deregister(t.HCA().Info().GUID), "Registrar.Deregister")
	}
	kit.Open(t) // closed by the last Deregister
}, req.SAS2_2_08, req.SAS2_2_09)

var _ = caModifyCases.Needing(validate.Needs{HCAs: 2}).Add("open.two",
	"two adapters at the same time", func(t *validate.T) {
		seen := map[ci.GUID]bool{}
		var cas []*kit.CA
		for _, h := range t.HCAs() {
			g := h.Info().GUID
			kit.True(t, !seen[g], "HCAInfo.GUID", "a different one for each adapter", "%#x twice", uint64(g))
			seen[g] = true
			cas = append(cas, kit.OpenHCA(t, h))
		}
		a, b := cas[0], cas[1]
		p := kit.Pair{A: a.End(kit.Options(a, a)), B: a.End(kit.Options(a, a))}
		kit.Equal(t, "CA.Query of the second adapter: GUID", b.Attr.GUID, b.HCA.Info().GUID)
		wrong, err := a.HCA.OpenCA(b.Attr.GUID, noEvents, nil)
		refusedCA(t, wrong, err, "HCA.OpenCA of the other adapter's GUID", ci.NotFound)
		kit.OK(t, b.Destroy(), "CA.Destroy of one adapter")
		kit.Connect(p.A.QP, p.B.QP)
		p.A.Exchange(p.B, 100) // the other adapter still works, in loopback
		kit.OpenHCA(t, b.HCA)
	}, req.SAS2_1_11)
