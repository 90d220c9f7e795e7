package cisuite

import (
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// claim is an optional verb and its capability bits. try calls the verb and returns its error. It destroys the created
// object.
type claim struct {
	name string
	bits ci.Caps
	any  bool // whether one of the bits is enough
	try  func(*claimStage) error
}

// claimStage holds the objects on which the optional verbs are called.
type claimStage struct {
	t  *validate.T
	ca *kit.CA
	pd ci.PD
	cq *kit.CQ
	qp *kit.QP
}

// dropped registers the object of a create verb for its destruction and returns the error.
func (s *claimStage) dropped(o ci.Object, err error) error {
	switch {
	case err == nil && o != nil:
		kit.Own(s.t, o, "object of an optional verb")
	case o != nil:
		s.t.Charge("CI-Claims-03", func() {
			s.t.Failf("optional verb", "no object beside the error", "%s and an object of type %T",
				kit.Describe(err), o)
		})
	}
	return err
}

// qpOf creates a QP of the type.
func (s *claimStage) qpOf(typ ci.QPType) error {
	caps := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
	return s.dropped(s.pd.CreateQP(ci.QPCreate{Type: typ, QPCaps: caps, SendCQ: s.cq.CQ, RecvCQ: s.cq.CQ}))
}

// special creates a raw QP of the type.
func (s *claimStage) special(typ ci.QPType) error {
	return s.dropped(s.pd.CreateSpecialQP(s.ca.Port.Num, small(typ, s.cq)))
}

// connected returns an RC QP in RTS that is connected to itself.
func (s *claimStage) connected() *kit.QP {
	q := s.ca.QP(s.pd, s.cq, s.cq, kit.Type(ci.RC)).Init()
	return q.RTR(q).RTS()
}

// post posts a request to an RC QP in Error. Only the error of PostSend counts.
func (s *claimStage) post(wr ci.SendWR) error {
	q := s.connected().To(ci.QPError)
	_, err := q.PostSend([]ci.SendWR{wr})
	return err
}

var claims = []claim{
	{name: "uc", bits: ci.CapUC, try: func(s *claimStage) error { return s.qpOf(ci.UC) }},
	{name: "ud", bits: ci.CapUD, try: func(s *claimStage) error { return s.qpOf(ci.UD) }},
	{name: "rd", bits: ci.CapRD, try: func(s *claimStage) error { return s.dropped(s.pd.AllocRDD()) }},
	{name: "av", bits: ci.CapAV, try: func(s *claimStage) error {
		return s.dropped(s.pd.CreateAV(s.ca.AddressOf(s.ca)))
	}},
	{name: "special-qp", bits: ci.CapSpecialQP, try: func(s *claimStage) error {
		caps := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
		return s.dropped(s.pd.CreateSpecialQP(s.ca.Port.Num,
			ci.QPCreate{Type: ci.QP1, QPCaps: caps, SendCQ: s.cq.CQ, RecvCQ: s.cq.CQ}))
	}},
	{name: "srq", bits: ci.CapSRQ, try: func(s *claimStage) error {
		return s.dropped(s.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1, MaxSGE: 1}}))
	}},
	{
		name: "mw1",
		bits: ci.CapMW1,
		try:  func(s *claimStage) error { return s.dropped(s.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})) },
	},
	{
		name: "mw2",
		bits: ci.CapMW2,
		try:  func(s *claimStage) error { return s.dropped(s.pd.CreateMW(ci.MWCreate{Type: ci.MWType2})) },
	},
	{name: "fmr", bits: ci.CapFMR, try: func(s *claimStage) error {
		return s.dropped(s.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12, Access: ci.LocalWrite}))
	}},
	{name: "unmap-fmr", bits: ci.CapFMR, try: func(s *claimStage) error { return s.pd.UnmapFMRs(nil) }},
	{
		name: "fast-reg",
		bits: ci.CapFastReg,
		try:  func(s *claimStage) error { return s.dropped(s.pd.AllocFastRegMR(1)) },
	},
	{name: "physical-mr", bits: ci.CapPhysicalMR, try: func(s *claimStage) error {
		return s.dropped(s.pd.RegisterPMR(ci.PMRCreate{PageSize: 4096, Length: 1}))
	}},
	{name: "map-dma", bits: ci.CapPhysicalMR | ci.CapFMR | ci.CapFastReg, any: true, try: func(s *claimStage) error {
		return s.dropped(s.ca.MapDMA(ci.Bytes(make([]byte, 4096))))
	}},
	{name: "shared-mr", bits: ci.CapSharedMR, try: func(s *claimStage) error {
		return s.dropped(s.pd.RegisterSMR(s.ca.Buf(s.pd, 64, kit.AllAccess).MR, 0, ci.LocalWrite))
	}},
	{name: "modify-mr", bits: ci.CapModifyMR, try: func(s *claimStage) error {
		return s.ca.Buf(s.pd, 64, kit.AllAccess).Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.LocalWrite})
	}},
	{name: "modify-pmr", bits: ci.CapModifyMR | ci.CapPhysicalMR, try: func(s *claimStage) error {
		return s.ca.Buf(s.pd, 64, kit.AllAccess).ModifyPMR(ci.MRFieldAccess, nil, ci.PMRCreate{Access: ci.LocalWrite})
	}},
	{
		name: "resize-cq",
		bits: ci.CapResizeCQ,
		try:  func(s *claimStage) error { _, err := s.cq.Resize(ci.CQResize{Size: 32}); return err },
	},
	{
		name: "moderation",
		bits: ci.CapModeration,
		try:  func(s *claimStage) error { return s.cq.Modify(ci.Moderation{}) },
	},
	{name: "peek", bits: ci.CapPeek, try: func(s *claimStage) error { _, err := s.cq.Peek(); return err }},
	{name: "notify-after", bits: ci.CapNotifyAfter, try: func(s *claimStage) error { return s.cq.NotifyAfter(1) }},
	{name: "multicast", bits: ci.CapMulticast, try: func(s *claimStage) error {
		// for an RC QP: InvalidServiceType if claimed
		return s.dropped(s.qp.AttachMcast(ci.McastAttach{GID: ci.GID{0xff, 0x12, 15: 1}, LID: 0xc001}))
	}},
	{
		name: "bind-mw",
		bits: ci.CapMW1,
		try:  func(s *claimStage) error { _, err := s.qp.BindMW(1, 0, ci.MWBind{}); return err },
	},
	{
		name: "event-handlers",
		bits: ci.CapEventHandlers,
		try:  func(s *claimStage) error { return s.dropped(s.ca.OnEvent(noEvents, nil)) },
	},
	{name: "local-mad", bits: ci.CapLocalMAD, try: func(s *claimStage) error {
		var in, out ci.MAD
		return s.ca.LocalMAD(s.ca.Port.Num, nil, &in, &out)
	}},
	{name: "zero-based", bits: ci.CapZeroBased, try: func(s *claimStage) error {
		return s.dropped(s.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)),
			Access: ci.LocalWrite | ci.ZeroBased}))
	}},
	{name: "raw-ipv6", bits: ci.CapRawIPv6, try: func(s *claimStage) error { return s.special(ci.RawIPv6) }},
	{name: "raw-ether", bits: ci.CapRawEther, try: func(s *claimStage) error { return s.special(ci.RawEther) }},
	{name: "send-invalidate", bits: ci.CapSendInvalidate, try: func(s *claimStage) error {
		return s.post(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled | ci.SendInvalidate})
	}},
	{name: "local-invalidate", bits: ci.CapFastReg | ci.CapMW2, any: true, try: func(s *claimStage) error {
		mr := s.ca.Buf(s.pd, 64, kit.AllAccess)
		return s.post(ci.SendWR{Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: mr.LKey})
	}},
	{name: "ip-checksum", bits: ci.CapIPChecksum, try: func(s *claimStage) error {
		return s.post(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled | ci.SendIPChecksum})
	}},
	{name: "apm", bits: ci.CapAPM, try: func(s *claimStage) error {
		q := s.connected()
		return q.Modify(ci.QPFieldAlternate, ci.QPAttr{Alternate: ci.Path{AV: s.ca.AddressOf(s.ca)}})
	}},
	{name: "current-state", bits: ci.CapCurrentQPState, try: func(s *claimStage) error {
		q := s.connected()
		return q.Modify(ci.QPFieldState|ci.QPFieldCurrentState|ci.QPFieldAccess,
			ci.QPAttr{State: ci.QPRTS, CurrentState: ci.QPRTS, Access: ci.RemoteRead})
	}},
	{name: "wr-depth", bits: ci.CapModifyWRDepth, try: func(s *claimStage) error {
		q := s.connected()
		return q.Modify(ci.QPFieldState|ci.QPFieldSendDepth,
			ci.QPAttr{State: ci.QPRTS, QPCaps: ci.QPCaps{SendDepth: 32}})
	}},
	{name: "user", bits: ci.CapUser, try: func(s *claimStage) error {
		u, err := s.ca.OpenUser(process{}, &ci.UserBuffer{})
		if err != nil {
			return err
		}
		return u.Destroy()
	}},
	{
		name: "sl-for-ip",
		bits: ci.CapSLForIP,
		try:  func(s *claimStage) error { _, err := s.ca.SLForIP(s.ca.Port.Num, 4420); return err },
	},
	{name: "atomic-write", bits: ci.CapAtomicWrite, try: func(s *claimStage) error {
		return s.post(ci.SendWR{Op: ci.OpAtomicWrite, Flags: ci.SendSignaled, Inline: make([]byte, 8)})
	}},
	{name: "flush", bits: ci.CapFlush, try: func(s *claimStage) error {
		return s.post(flush(1, ci.FlushGlobal, ci.Region{}, 0, 0))
	}},
	{name: "flush-global", bits: ci.CapFlush, try: func(s *claimStage) error {
		return s.dropped(s.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: ci.FlushGlobal}))
	}},
	{name: "flush-persistent", bits: ci.CapFlush | ci.CapFlushPersistent, try: func(s *claimStage) error {
		return s.dropped(s.pd.RegisterMR(ci.MRCreate{Memory: &persistent{Memory: ci.Bytes(make([]byte, 64))},
			Access: ci.FlushPersistent}))
	}},
	{
		name: "vendor-call",
		bits: ci.CapVendorCall,
		try:  func(s *claimStage) error { return s.ca.VendorCall(&ci.VendorOp{Status: -1}) },
	},
}

// claimsCases are one case for each optional verb, and one for the demands of the profile.
var claimsCases = &validate.Area{Feature: validate.FeatureClaims}

var ciClaims01 = claimsCases.Must("CI-Claims-01", "CI claims", "Caps in ci; IBTA 11.2.1, HCA attributes",
	"An optional verb fails with Unsupported exactly if its capability is not claimed.")

var ciClaims02 = claimsCases.Must("CI-Claims-02", "CI claims", "SAS 2.3: objects and verbs not marked optional",
	"The driver claims all capabilities that the profile of the certificate demands.")

var ciClaims03 = claimsCases.Must("CI-Claims-03", "CI claims", "ci: a failed verb leaves everything as it was",
	"An optional verb that fails with Unsupported leaves no object behind and changes nothing.")

var _ = claimsCases.Add("claims.profile", "the profile's demands are claimed", claimsProfile, ciClaims02,
	req.SAS2_2_01)

var _ = validate.Matrix(claimsCases, claims, func(c claim) (validate.Case, []*req.Requirement) {
	rules := []*req.Requirement{ciClaims01, ciClaims03}
	if c.bits == ci.CapRD {
		// RDDs belong to a PD, or neither the verb nor the claim exists
		rules = append(rules, req.SAS2_1_05)
	}
	return validate.Case{
		ID:      "claims." + c.name,
		Title:   "error and claim of " + c.name,
		Feature: validate.FeatureClaims,
		Checks:  []string{ciClaims03.ID},
		Run:     func(t *validate.T) { claimCase(t, c) },
	}, rules
})

func claimsProfile(t *validate.T) {
	p := t.Profile()
	if missing := p.Demands &^ (t.Claims() | t.Withheld()); missing != 0 {
		t.Failf("CAAttr.Caps", "the capabilities that profile "+p.Name+" demands: "+validate.CapNames(p.Demands),
			"not claimed: %s", validate.CapNames(missing))
	}
	if p.OneOf != 0 && p.OneOf&t.Claims() == 0 {
		t.Failf("CAAttr.Caps", "one of the capabilities that profile "+p.Name+" demands: "+validate.CapNames(p.OneOf),
			"none is claimed")
	}
	kit.AtLeast(t, "CAAttr.Atomicity for profile "+p.Name, t.Attr().Atomicity, p.Atomics)
}

// oneOf returns those of the bits that are claimed, or all bits if none is.
func oneOf(t *validate.T, bits ci.Caps) ci.Caps {
	if claimed := t.Claims() & bits; claimed != 0 {
		return claimed
	}
	return bits
}

func claimCase(t *validate.T, c claim) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 16)
	s := &claimStage{t: t, ca: ca, pd: pd, cq: cq, qp: ca.QP(pd, cq, cq)}
	bits := c.bits
	if c.any {
		bits = oneOf(t, bits)
	}
	kit.Claim(t, bits, c.try(s), c.name)
	if t.Claims().Has(bits) { // that the verb does not fail is no proof
		t.Skip("claimed: claims.works.* tests whether it works")
	}
}
