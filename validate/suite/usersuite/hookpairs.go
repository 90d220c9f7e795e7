package usersuite

import (
	"net/netip"
	"strings"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = steps.With(validate.Case{Checks: []string{req.SAS2_4_08.ID, req.SAS2_4_12.ID}}).Add("user.hook.pairs",
	"each of the 28 pairs of hooks: before the message and after the driver, with the private data of both",
	hookPairs, req.SAS2_4_05, req.SAS2_4_08, req.SAS2_4_12)

// hookPairs calls the verb of each pair. A verb has private data if the driver's verb has a UserBuffer.
func hookPairs(t *validate.T) {
	s := newStage(t)
	a := s.app()
	after := map[string]string{} // private data that Post sees
	a.lib.after(func(verb string, _ any, ub *ci.UserBuffer, _ error) error {
		if after[verb] = "none"; ub != nil {
			after[verb] = describe(&ci.UserBuffer{Status: ub.Status, In: ub.Out})
		}
		return nil
	})
	other := s.app().open()
	to := other.AddressOf(other)
	seen := map[string]bool{}
	pair := func(hook string, hasData bool, call func() error) {
		t.Step("hooks of %s", hook)
		s.trace.take()
		kit.OK(t, call(), "the verb of the hooks "+hook)
		got := s.trace.take()
		isQueue := func(s string) bool { return strings.HasPrefix(s, "message ") }
		for hook == "OpenCA" && len(got) > 0 && isQueue(got[0]) {
			got = got[1:] // the event queues of the CA are made before it
		}
		for hook == "DestroyCA" && len(got) > 0 && isQueue(got[len(got)-1]) {
			got = got[:len(got)-1] // and end after it
		}
		text := strings.Join(got, ", ")
		kit.True(t, len(got) >= 3 && got[0] == "pre "+hook && strings.HasPrefix(got[1], "message ") &&
			got[len(got)-1] == "post "+hook && strings.Count(text, "pre ") == 1 && strings.Count(text, "post ") == 1,
			"order of "+hook, "pre "+hook+", a message, the driver, post "+hook, "%s", text)
		want, in := "none", "none"
		if hasData {
			want = describe(&ci.UserBuffer{In: []byte(replyTo(hook))})
			in = describe(&ci.UserBuffer{Command: privateCommand, Status: privateStatus, In: []byte(hook),
				Out: make([]byte, 0, privateRoom)})
			kit.Equal(t, "calls of the driver between the hooks", strings.Count(text, "driver "+hook), 1)
		}
		t.Charge(req.SAS2_4_08.ID, func() {
			if hasData {
				kit.Equal(t, "private data of "+hook+" at the driver", s.probe.seen(hook), in)
			}
		})
		t.Charge(req.SAS2_4_12.ID, func() { kit.Equal(t, "private data of "+hook+" at Post", after[hook], want) })
		seen[hook] = true
	}
	var h ci.HCA = a.hca(0)
	var ca ci.CA
	var err error
	pair("OpenCA", true, func() error { ca, err = h.OpenCA(s.guids[0], func(ci.Event) {}, nil); return err })
	var attr *ci.CAAttr
	pair("QueryCA", false, func() error { attr, err = ca.Query(); return err })
	port := attr.Ports[0].Num
	pair("ModifyCA", false, func() error {
		if err := ca.Modify(port, 0, ci.PortModify{}); ci.StatusOf(err) != ci.Unsupported {
			return err
		}
		return nil
	})
	pair("VendorCall", true, func() error { return ca.VendorCall(&ci.VendorOp{Data: []byte{1}}) })
	var pd ci.PD
	pair("AllocatePD", true, func() error { pd, err = ca.AllocatePD(ci.PDNormal); return err })
	var cq ci.CQ
	pair("CreateCQ", true, func() error { cq, err = pd.CreateCQ(ci.CQCreate{Size: 8}); return err })
	pair("QueryCQ", false, func() error { _, err := cq.Query(); return err })
	if t.Claims().Has(ci.CapResizeCQ) {
		pair("ResizeCQ", true, func() error { _, err := cq.Resize(ci.CQResize{Size: 9}); return err })
	}
	create := ci.QPCreate{SendCQ: cq, RecvCQ: cq, QPCaps: ci.QPCaps{SendDepth: 2, RecvDepth: 2, SendSGE: 1, RecvSGE: 1}}
	hasGroups := t.Claims().Has(ci.CapMulticast | ci.CapUD)
	if hasGroups {
		create.Type = ci.UD
	}
	var qp ci.QP
	pair("CreateQP", true, func() error { qp, err = pd.CreateQP(create); return err })
	set, init := ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: port, QKey: 5}
	if hasGroups {
		set = ci.QPFieldState | ci.QPFieldPKeyIndex | ci.QPFieldPort | ci.QPFieldQKey
	}
	pair("ModifyQP", true, func() error { return qp.Modify(set, init) })
	pair("QueryQP", false, func() error { _, err := qp.Query(); return err })
	if hasGroups {
		var m ci.Mcast
		group := ci.McastAttach{GID: ci.GID{0xff, 0x12, 15: 9}, LID: 0xc001}
		if netip.AddrFrom16(other.Port.GIDs[to.GRH.SGIDIndex].GID).Is4In6() {
			group.GID = netip.MustParseAddr("::ffff:239.0.0.9").As16()
		}
		pair("AttachMcast", true, func() error { m, err = qp.AttachMcast(group); return err })
		pair("DestroyMcast", false, m.Destroy)
	}
	pair("DestroyQP", false, qp.Destroy)
	pair("DestroyCQ", false, cq.Destroy)
	if t.Claims().Has(ci.CapSRQ) {
		var srq ci.SRQ
		size := ci.SRQAttr{MaxWR: 4, MaxSGE: 1}
		pair("CreateSRQ", true, func() error { srq, err = pd.CreateSRQ(ci.SRQCreate{SRQAttr: size}); return err })
		pair("ModifySRQ", true, func() error { return srq.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: 1}) })
		pair("QuerySRQ", false, func() error { _, err := srq.Query(); return err })
		pair("DestroySRQ", false, srq.Destroy)
	}
	if t.Claims().Has(ci.CapAV) {
		var av ci.AV
		pair("CreateAV", true, func() error { av, err = pd.CreateAV(to); return err })
		pair("ModifyAV", true, func() error { return av.Modify(to) })
		pair("QueryAV", false, func() error { _, _, err := av.Query(); return err })
		pair("DestroyAV", false, av.Destroy)
	}
	if t.Claims().Has(ci.CapMW1) {
		var mw ci.MW
		pair("CreateMW", true, func() error { mw, err = pd.CreateMW(ci.MWCreate{Type: ci.MWType1}); return err })
		pair("QueryMW", false, func() error { _, err := mw.Query(); return err })
		pair("DestroyMW", false, mw.Destroy)
	}
	pair("DestroyPD", false, pd.Destroy)
	pair("DestroyCA", false, ca.Destroy)
	if t.Claims().Has(ci.CapResizeCQ | ci.CapMulticast | ci.CapUD | ci.CapSRQ | ci.CapAV | ci.CapMW1) {
		kit.Equal(t, "pairs of hooks that ran", len(seen), 28)
	}
}
