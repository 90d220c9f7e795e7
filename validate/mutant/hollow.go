package mutant

import (
	"strings"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/mutant/tap"
)

// hollowAt has the link on which a hollow claim can be detected, for capabilities for which it is only one.
var hollowAt = map[ci.Caps]string{
	ci.CapHardwareSMA: "direct", // other links have no subnet management
	ci.CapInitType:    "direct",
}

// Hollow returns mutants that claim a capability without implementing it: one for each bit, and one for all
// capabilities that the correct driver lacks. Their optional verbs return statuses other than Unsupported.
func Hollow() []Mutant {
	var out []Mutant
	for bit := ci.Caps(1); bit <= validate.AllCaps; bit <<= 1 {
		name := validate.CapNames(bit)
		out = append(out, Of("claims.hollow-"+strings.ToLower(name), "CI-Claims-04",
			name+" is claimed but not implemented", HollowClaims(bit)).On(hollowAt[bit]).Claiming(bit))
	}
	const lacking = ci.CapRD | ci.CapRawIPv6 | ci.CapRawEther | ci.CapRawMulticast | ci.CapLSO | ci.CapIPChecksum |
		ci.CapModifyWRDepth | ci.CapUser | ci.CapVendorCall | ci.CapSLForIP
	return append(out, Of("claims.hollow-all", "CI-Claims-04",
		"RD, raw QPs, raw multicast, LSO, checksums, WR depth, user mode, vendor calls and SL lookup "+
			"are claimed but not implemented", HollowClaims(lacking)).Claiming(lacking))
}

// HollowClaims returns a wrapper that claims the capabilities and removes their implementation. Their verbs return
// InvalidParameter, and they have no effect on other verbs.
func HollowClaims(bits ci.Caps) func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { return hollowCA{ciwrap.CA{CA: c}, bits} },
		PD:  func(p ci.PD, _ ci.PDType) ci.PD { return hollowPD{ciwrap.PD{PD: p}, bits} },
		CQ:  func(c ci.CQ, _ ci.CQCreate) ci.CQ { return hollowCQ{ciwrap.CQ{CQ: c}, bits} },
		QP:  func(q ci.QP, _ ci.QPCreate) ci.QP { return hollowQP{ciwrap.QP{QP: q}, bits} },
		SRQ: func(s ci.SRQ, _ ci.SRQCreate) ci.SRQ { return hollowSRQ{ciwrap.SRQ{SRQ: s}, bits} },
		MR:  func(m ci.MR, _ ciwrap.MROrigin) ci.MR { return hollowMR{ciwrap.MR{MR: m}, bits} },
		AV:  func(a ci.AV, _ ci.AVAttr) ci.AV { return hollowAV{ciwrap.AV{AV: a}, bits} },
		Event: func(e ci.Event, deliver func(ci.Event)) {
			if e.Type != ci.EventPortActive || !bits.Has(ci.CapPortActiveEvent) {
				deliver(e)
			}
		}})
}

// nothingBehind returns the error of a verb that is claimed but not implemented.
func nothingBehind(verb string) error { return &ci.Error{Verb: verb, Status: ci.InvalidParameter} }

type hollowCA struct {
	ciwrap.CA
	bits ci.Caps
}

func (h hollowCA) Query() (*ci.CAAttr, error) {
	a, err := h.CA.Query()
	if err == nil {
		a.Caps |= h.bits
	}
	return a, err
}

func (h hollowCA) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	if h.bits.Has(ci.CapUser) {
		return nil, nothingBehind("CA.OpenUser")
	}
	return h.CA.OpenUser(p, ub)
}

func (h hollowCA) OnEvent(fn func(ci.Event), arg any) (ci.Object, error) {
	if h.bits.Has(ci.CapEventHandlers) {
		return nil, nothingBehind("CA.OnEvent")
	}
	return h.CA.OnEvent(fn, arg)
}

func (h hollowCA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	if h.bits.Has(ci.CapLocalMAD) {
		return nothingBehind("CA.LocalMAD")
	}
	return h.CA.LocalMAD(port, src, in, out)
}

func (h hollowCA) SLForIP(port uint8, ipPort uint16) (ci.SL, error) {
	if h.bits.Has(ci.CapSLForIP) {
		return 0, nil // for any port
	}
	return h.CA.SLForIP(port, ipPort)
}

func (h hollowCA) VendorCall(op *ci.VendorOp, objects ...ci.Object) error {
	if h.bits.Has(ci.CapVendorCall) {
		return nothingBehind("CA.VendorCall")
	}
	return h.CA.VendorCall(op, objects...)
}

// hollowFields are the fields of ports that are ignored.
var hollowFields = map[ci.Caps]ci.PortField{
	ci.CapShutdownPort: ci.PortFieldShutdown,
	ci.CapInitType:     ci.PortFieldInitType,
	ci.CapSystemGUID:   ci.PortFieldSystemGUID,
	ci.CapPKeyCounter:  ci.PortFieldPKeyErrors,
	ci.CapQKeyCounter:  ci.PortFieldQKeyErrors,
}

func (h hollowCA) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	has := set
	for bit, field := range hollowFields {
		if h.bits.Has(bit) {
			has &^= field
		}
	}
	if has == 0 && set != 0 {
		return nil
	}
	return h.CA.Modify(port, has, a)
}

type hollowPD struct {
	ciwrap.PD
	bits ci.Caps
}

func (h hollowPD) CreateAV(a ci.AVAttr) (ci.AV, error) {
	if h.bits.Has(ci.CapAV) {
		return nil, nothingBehind("PD.CreateAV")
	}
	if h.bits.Has(ci.CapAVPortCheck) {
		a.Port = 1
	}
	return h.PD.CreateAV(a)
}

func (h hollowPD) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	if h.bits.Has(ci.CapSRQ) {
		return nil, nothingBehind("PD.CreateSRQ")
	}
	return h.PD.CreateSRQ(c)
}

func (h hollowPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if bit := map[ci.QPType]ci.Caps{ci.UC: ci.CapUC, ci.UD: ci.CapUD, ci.RD: ci.CapRD}[c.Type]; h.bits&bit != 0 {
		return nil, nothingBehind("PD.CreateQP")
	}
	return h.PD.CreateQP(c)
}

func (h hollowPD) CreateSpecialQP(port uint8, c ci.QPCreate) (ci.QP, error) {
	bit := ci.CapSpecialQP
	switch c.Type {
	case ci.RawIPv6:
		bit = ci.CapRawIPv6
	case ci.RawEther:
		bit = ci.CapRawEther
	}
	if h.bits.Has(bit) {
		return nil, nothingBehind("PD.CreateSpecialQP")
	}
	return h.PD.CreateSpecialQP(port, c)
}

func (h hollowPD) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	if h.bits.Has(ci.CapZeroBased) {
		c.Access &^= ci.ZeroBased
	}
	if h.bits.Has(ci.CapFlushPersistent) {
		c.Access &^= ci.FlushPersistent
	}
	return h.PD.RegisterMR(c)
}

func (h hollowPD) RegisterPMR(c ci.PMRCreate) (ci.MR, error) {
	if h.bits.Has(ci.CapPhysicalMR) {
		return nil, nothingBehind("PD.RegisterPMR")
	}
	return h.PD.RegisterPMR(c)
}

func (h hollowPD) RegisterSMR(src ci.MR, iova uint64, a ci.Access) (ci.MR, error) {
	if h.bits.Has(ci.CapSharedMR) {
		return nil, nothingBehind("PD.RegisterSMR")
	}
	return h.PD.RegisterSMR(src, iova, a)
}

func (h hollowPD) AllocFastRegMR(n int) (ci.MR, error) {
	if h.bits.Has(ci.CapFastReg) {
		return nil, nothingBehind("PD.AllocFastRegMR")
	}
	return h.PD.AllocFastRegMR(n)
}

func (h hollowPD) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	if h.bits.Has(ci.CapFMR) {
		return nil, nothingBehind("PD.AllocFMR")
	}
	return h.PD.AllocFMR(c)
}

func (h hollowPD) CreateMW(c ci.MWCreate) (ci.MW, error) {
	if bit := map[ci.MWType]ci.Caps{ci.MWType1: ci.CapMW1, ci.MWType2: ci.CapMW2}[c.Type]; h.bits&bit != 0 {
		return nil, nothingBehind("PD.CreateMW")
	}
	return h.PD.CreateMW(c)
}

func (h hollowPD) AllocRDD() (ci.RDD, error) {
	if h.bits.Has(ci.CapRD) {
		return nil, nothingBehind("PD.AllocRDD")
	}
	return h.PD.AllocRDD()
}

type hollowCQ struct {
	ciwrap.CQ
	bits ci.Caps
}

func (h hollowCQ) NotifyAfter(n int) error {
	if h.bits.Has(ci.CapNotifyAfter) {
		return nil // without a callback later
	}
	return h.CQ.NotifyAfter(n)
}

func (h hollowCQ) Peek() (int, error) {
	if h.bits.Has(ci.CapPeek) {
		return 0, nil
	}
	return h.CQ.Peek()
}

func (h hollowCQ) Resize(r ci.CQResize) (int, error) {
	if h.bits.Has(ci.CapResizeCQ) {
		return r.Size, nil
	}
	return h.CQ.Resize(r)
}

func (h hollowCQ) Modify(m ci.Moderation) error {
	if h.bits.Has(ci.CapModeration) {
		return nothingBehind("CQ.Modify")
	}
	return h.CQ.Modify(m)
}

type hollowQP struct {
	ciwrap.QP
	bits ci.Caps
}

func (h hollowQP) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	if h.bits&(ci.CapMulticast|ci.CapRawMulticast) != 0 {
		return nil, nothingBehind("QP.AttachMcast")
	}
	return h.QP.AttachMcast(c)
}

func (h hollowQP) Modify(set ci.QPField, a ci.QPAttr) error {
	switch {
	case h.bits.Has(ci.CapModifyWRDepth) && set&(ci.QPFieldSendDepth|ci.QPFieldRecvDepth) != 0,
		h.bits.Has(ci.CapAPM) && set&(ci.QPFieldAlternate|ci.QPFieldAPM) != 0:
		return nothingBehind("QP.Modify")
	case h.bits.Has(ci.CapCurrentQPState):
		set &^= ci.QPFieldCurrentState
	}
	return h.QP.Modify(set, a)
}

func (h hollowQP) PostSend(wrs []ci.SendWR) (int, error) {
	list := tap.CopySends(wrs)
	for i := range list {
		w := &list[i]
		if h.bits.Has(ci.CapLSO) && w.Op == ci.OpLSO {
			w.Op, w.Ext = ci.OpSend, nil // sent as one datagram, without its header
		}
		if h.bits.Has(ci.CapIPChecksum) {
			w.Flags &^= ci.SendIPChecksum | ci.SendL4Checksum
		}
		if h.bits.Has(ci.CapAtomicWrite) && w.Op == ci.OpAtomicWrite || h.bits.Has(ci.CapFlush) && w.Op == ci.OpFlush {
			w.Op = ci.OpNop
		}
		if h.bits.Has(ci.CapSendInvalidate) {
			w.Flags &^= ci.SendInvalidate
		}
	}
	return h.QP.PostSend(list)
}

type hollowSRQ struct {
	ciwrap.SRQ
	bits ci.Caps
}

func (h hollowSRQ) Modify(set ci.SRQField, a ci.SRQAttr) error {
	if h.bits.Has(ci.CapModifySRQDepth) {
		if set &^= ci.SRQFieldMaxWR; set == 0 {
			return nil
		}
	}
	return h.SRQ.Modify(set, a)
}

type hollowMR struct {
	ciwrap.MR
	bits ci.Caps
}

func (h hollowMR) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
	if h.bits.Has(ci.CapModifyMR) {
		return nil
	}
	return h.MR.Modify(set, pd, c)
}

type hollowAV struct {
	ciwrap.AV
	bits ci.Caps
}

func (h hollowAV) Modify(a ci.AVAttr) error {
	if h.bits.Has(ci.CapAVPortCheck) {
		a.Port = 1
	}
	return h.AV.Modify(a)
}
