package alsuite

import (
	"fmt"
	"slices"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Registration of adapters, and opens. (SAS 2.2, 2.3.)
var registrations = area()

var _ = registrations.With(validate.Case{Checks: []string{req.SAS0_02.ID}}).Add("al.register.inside",
	"verbs inside Register", func(t *validate.T) {
		s := newStage(t)
		kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
		verbs := s.rec[0].all()
		kit.True(t, len(verbs) >= 2 && verbs[0] == "HCA.OpenCA" && slices.Contains(verbs, "CA.Query"),
			"verbs inside Register",
			"HCA.OpenCA as the first, and CA.Query", "%v", verbs)
		a, err := s.al.Adapter(s.guid(0))
		t.Charge(req.SAS0_02.ID, func() {
			kit.OK(t, err, "AL.Adapter after Register")
			kit.Equal(t, "Adapter.Attr().GUID", a.Attr().GUID, s.guid(0))
			kit.Equal(t, "ports of Adapter.Attr()", len(a.Attr().Ports), len(t.Attr().Ports))
		})
		p := s.open(s.client, 0)
		kit.Destroy(t, p.PD(), "PD")
		s.rec[0].clean(t)
	}, req.SAS2_2_10, req.SAS2_3_01, req.SAS0_02, req.SAS2_2_02)

var _ = registrations.Add("al.register.ready",
	"a client uses the adapter inside its add callback", func(t *validate.T) {
		s := newStage(t)
		result := make(chan error, len(s.hcas))
		_, err := s.client.RegisterPnP(accesslayer.PnPConfig{Add: func(a *accesslayer.Adapter) (any, error) {
			result <- func() error {
				ca, err := s.client.OpenCA(a.GUID(), nil)
				if err != nil {
					return fmt.Errorf("Client.OpenCA: %w", err)
				}
				pd, err := ca.NewPD(ci.PDNormal)
				if err != nil {
					return fmt.Errorf("CA.NewPD: %w", err)
				}
				cq, err := pd.NewCQ(ci.CQCreate{Size: 4}, accesslayer.CQHandler{})
				if err != nil {
					return fmt.Errorf("PD.NewCQ: %w", err)
				}
				qp, err := pd.NewQP(ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1},
					SendCQ: cq, RecvCQ: cq}, nil)
				if err != nil {
					return fmt.Errorf("PD.NewQP: %w", err)
				}
				if err := qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}); err != nil {
					return fmt.Errorf("QP.Modify: %w", err)
				}
				return nil
			}()
			return nil, nil
		}})
		kit.OK(t, err, "Client.RegisterPnP")
		for _, h := range s.hcas {
			kit.OK(t, s.al.Register(h), "Registrar.Register")
			kit.OK(t, expect(t, result, "add callback"), "verbs inside the add callback")
		}
		for i := range s.hcas {
			kit.OK(t, s.al.Deregister(s.guid(i)), "Registrar.Deregister with objects that the callback created")
			s.rec[i].shut(t)
		}
	}, req.SAS2_3_01, req.SAS0_02)

var _ = registrations.Add("al.register.twice", "register one adapter twice", func(t *validate.T) {
	s := registered(t)
	before := s.rec[0].all()
	kit.WantExactly(t, s.al.Register(s.hcas[0]), "Registrar.Register of a registered GUID", ci.ResourceBusy)
	kit.Equal(t, "verbs of the driver after a rejected registration", fmt.Sprint(s.rec[0].all()), fmt.Sprint(before))
	kit.Equal(t, "adapters", len(s.al.Adapters()), len(s.hcas))
	s.open(s.client, 0)
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register after the GUID was deregistered")
	s.open(s.client, 0)
}, req.SAS2_3_02)

var _ = registrations.Add("al.register.bad", "register nil", func(t *validate.T) {
	s := newStage(t)
	kit.WantExactly(t, s.al.Register(nil), "Registrar.Register of nil", ci.InvalidParameter)
	kit.WantExactly(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister of a GUID that is not registered", ci.NotFound)
	_, err := s.client.OpenCA(s.guid(0), nil)
	kit.WantExactly(t, err, "Client.OpenCA of a GUID that is not registered", ci.NotFound)
}, req.SAS0_02)

var _ = registrations.Add("al.open.shared", "three opens by two clients", func(t *validate.T) {
	s := registered(t)
	other := s.newClient("another")
	first, second, third := s.open(s.client, 0), s.open(s.client, 0), s.open(other, 0)
	kit.Equal(t, "opens of the driver for three opens of clients", s.rec[0].count("HCA.OpenCA"), 1)
	pd := third.PD()
	third.CQ(pd, 4)
	third.Buf(pd, 64, kit.AllAccess)
	kit.OK(t, first.Destroy(), "CA.Destroy of one open")
	kit.OK(t, other.Close(), "Client.Close of another client that has objects")
	_, err := second.Query()
	kit.OK(t, err, "CA.Query of the remaining open")
	s.rec[0].clean(t)
	s.rec[0].empty(t)
	kit.Equal(t, "closes of the driver while the adapter is registered", s.rec[0].count("CA.Destroy"), 0)
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	s.rec[0].shut(t)
}, req.SAS2_2_08, req.SAS2_2_07)

var _ = registrations.Add("al.events", "an event of a port reaches each open", func(t *validate.T) {
	s := registered(t)
	a, b := s.open(s.client, 0), s.open(s.newClient("another"), 0)
	bit := ci.PortCapVendorClass
	was := a.Port.Capability
	kit.OK(t, a.Modify(a.Port.Num, ci.PortFieldCapability, ci.PortModify{CapMask: bit, Capability: ^was & bit}),
		"CA.Modify of a capability bit")
	defer func() {
		_ = a.Modify(a.Port.Num, ci.PortFieldCapability, ci.PortModify{CapMask: bit, Capability: was & bit})
	}()
	if !a.Events.HasWithin(ci.EventPortTrap, 20*time.Millisecond) {
		t.Skip("the driver raises no event when the capabilities of a port change")
	}
	ea, eb := a.Events.Wait(ci.EventPortTrap), b.Events.Wait(ci.EventPortTrap)
	kit.True(t, ea.Context == any(a.Events), "Event.Context at the first open", "the context passed to its OpenCA",
		"%v", ea.Context)
	kit.True(t, eb.Context == any(b.Events), "Event.Context at the second open", "the context passed to its OpenCA",
		"%v", eb.Context)
	kit.Equal(t, "Event.Port", ea.Port, a.Port.Num)
}, req.SAS2_3_04)

// The case sets a LID with a MAD through the access layer, as a subnet management agent does.
var _ = registrations.Needing(validate.Needs{Caps: ci.CapLocalMAD, Links: []ci.Link{ci.LinkInfiniBand}}).Add("al.lid",
	"a change of LID is reported to clients", func(t *validate.T) {
		s := registered(t)
		changes := make(chan accesslayer.PortEvent, 64)
		_, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
			Port: func(a *accesslayer.Adapter, _ any, e accesslayer.PortEvent) {
				if a.GUID() == s.guid(0) && (e.Type == accesslayer.PortLID || e.Type == accesslayer.PortSM) {
					changes <- e
				}
			}})
		kit.OK(t, err, "Client.RegisterPnP")
		ca := s.open(s.client, 0)
		// The case gets PortInfo and sets it with another LID. Layouts: IBTA volume 1, 13.4.2, 14.2.1, 14.2.5.6.
		const data, lid, smLID, state = 64, 64 + 16, 64 + 18, 64 + 32
		set := func(field int, want ci.LID) {
			in := ci.MAD{0: 1, 1: 1, 2: 1, 3: 1, 15: 9, 17: 0x15}
			var out ci.MAD
			kit.OK(t, ca.LocalMAD(ca.Port.Num, nil, &in, &out), "CA.LocalMAD of Get PortInfo")
			copy(in[data:data+64], out[data:data+64])
			in[3] = 2
			in[state] &^= 15
			in[state+1] &= 15
			in[field], in[field+1] = byte(want>>8), byte(want)
			kit.OK(t, ca.LocalMAD(ca.Port.Num, nil, &in, &out), "CA.LocalMAD of Set PortInfo")
			kit.True(t, out[4] == 0 && out[5] == 0, "MAD status of Set PortInfo", "0x0000", "%#02x%02x", out[4], out[5])
		}
		// Each change has its own event and no other: an event that a change has not caused comes before the next one.
		change := func(where string, field int, want ci.LID, event accesslayer.PortEventType) *ci.PortAttr {
			set(field, want)
			e := expect(t, changes, "event after "+where)
			kit.Equal(t, "PortEvent.Type after "+where, e.Type, event)
			kit.Equal(t, "PortEvent.Port after "+where, e.Port, ca.Port.Num)
			return e.Attr
		}
		was, wasSM := ca.Port.LID, ca.Port.SMLID
		for range 2 {
			got := change("a change of the LID", lid, was+0x40, accesslayer.PortLID)
			kit.Equal(t, "PortEvent.Attr.LID", got.LID, was+0x40)
			got = change("a change of the SM's LID", smLID, wasSM+0x40, accesslayer.PortSM)
			kit.Equal(t, "PortEvent.Attr.SMLID", got.SMLID, wasSM+0x40)
			got = change("the LID was set back", lid, was, accesslayer.PortLID)
			kit.Equal(t, "PortEvent.Attr.LID after it was set back", got.LID, was)
			got = change("the SM's LID was set back", smLID, wasSM, accesslayer.PortSM)
			kit.Equal(t, "PortEvent.Attr.SMLID after it was set back", got.SMLID, wasSM)
		}
	}, req.SAS2_1_17)
