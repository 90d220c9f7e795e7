package mutant

import (
	"strings"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/mutant/tap"
)

// hollowAt are the places where a claim can be seen to be hollow, if not on every link.
var hollowAt = map[ci.Caps]string{
	ci.CapHardwareSMA: "direct", // elsewhere there is no subnet management
	ci.CapInitType:    "direct",
}

// Hollow are drivers that claim a capability with nothing behind it, one for each bit, and one that claims all that the
// right driver lacks. Their optional verbs answer anything but Unsupported.
func Hollow() []Mutant {
	var out []Mutant
	for bit := ci.Caps(1); bit <= validate.AllCaps; bit <<= 1 {
		name := validate.CapNames(bit)
		out = append(out, Mutant{
			Name:   "claims.hollow-" + strings.ToLower(name),
			Area:   "claims",
			Breaks: "CI-Claims-04",
			Does:   name + " is claimed with nothing behind it",
			Hollow: bit,
			Link:   hollowAt[bit],
			Wrap:   HollowClaims(bit),
		})
	}
	const lacking = ci.CapRD | ci.CapRawIPv6 | ci.CapRawEther | ci.CapRawMulticast | ci.CapLSO | ci.CapIPChecksum | ci.CapModifyWRDepth |
		ci.CapUser | ci.CapVendorCall | ci.CapSLForIP
	return append(out, Mutant{
		Name:   "claims.hollow-all",
		Area:   "claims",
		Breaks: "CI-Claims-04",
		Does:   "RD, raw QPs, raw multicast, LSO, checksums, WR depth, user mode, vendor calls and SL lookup are claimed with nothing behind them",
		Hollow: lacking,
		Wrap:   HollowClaims(lacking),
	})
}

// HollowClaims returns a wrapper that claims the capabilities and takes away what is behind them: their verbs answer
// InvalidParameter, and what they promise of other verbs is not done.
func HollowClaims(bits ci.Caps) func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{
		CA:  func(c ci.CA) ci.CA { return hollowCA{ciwrap.CA{CA: c}, bits} },
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
		},
	})
}

// nothingBehind is the answer of a verb that is claimed and not there.
func nothingBehind(verb string) error { return &ci.Error{Verb: verb, Status: ci.InvalidParameter} }

type hollowCA struct {
	ciwrap.CA
	bits ci.Caps
}

func (c hollowCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err == nil {
		a.Caps |= c.bits
	}
	return a, err
}

func (c hollowCA) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	if c.bits.Has(ci.CapUser) {
		return nil, nothingBehind("CA.OpenUser")
	}
	return c.CA.OpenUser(p, ub)
}

func (c hollowCA) OnEvent(fn func(ci.Event), ctx any) (ci.Object, error) {
	if c.bits.Has(ci.CapEventHandlers) {
		return nil, nothingBehind("CA.OnEvent")
	}
	return c.CA.OnEvent(fn, ctx)
}

func (c hollowCA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	if c.bits.Has(ci.CapLocalMAD) {
		return nothingBehind("CA.LocalMAD")
	}
	return c.CA.LocalMAD(port, src, in, out)
}

func (c hollowCA) SLForIP(port uint8, ipPort uint16) (ci.SL, error) {
	if c.bits.Has(ci.CapSLForIP) {
		return 0, nil // of any port
	}
	return c.CA.SLForIP(port, ipPort)
}

func (c hollowCA) VendorCall(op *ci.VendorOp, objects ...ci.Object) error {
	if c.bits.Has(ci.CapVendorCall) {
		return nothingBehind("CA.VendorCall")
	}
	return c.CA.VendorCall(op, objects...)
}

// hollowFields are fields of ports that are taken and forgotten.
var hollowFields = map[ci.Caps]ci.PortField{
	ci.CapShutdownPort: ci.PortFieldShutdown,
	ci.CapInitType:     ci.PortFieldInitType,
	ci.CapSystemGUID:   ci.PortFieldSystemGUID,
	ci.CapPKeyCounter:  ci.PortFieldPKeyErrors,
	ci.CapQKeyCounter:  ci.PortFieldQKeyErrors,
}

func (c hollowCA) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	for bit, field := range hollowFields {
		if c.bits.Has(bit) {
			set &^= field
		}
	}
	if set == 0 {
		return nil
	}
	return c.CA.Modify(port, set, a)
}

type hollowPD struct {
	ciwrap.PD
	bits ci.Caps
}

func (p hollowPD) CreateAV(a ci.AVAttr) (ci.AV, error) {
	if p.bits.Has(ci.CapAV) {
		return nil, nothingBehind("PD.CreateAV")
	}
	if p.bits.Has(ci.CapAVPortCheck) {
		a.Port = 1
	}
	return p.PD.CreateAV(a)
}

func (p hollowPD) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	if p.bits.Has(ci.CapSRQ) {
		return nil, nothingBehind("PD.CreateSRQ")
	}
	return p.PD.CreateSRQ(c)
}

func (p hollowPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if bit := map[ci.QPType]ci.Caps{ci.UC: ci.CapUC, ci.UD: ci.CapUD, ci.RD: ci.CapRD}[c.Type]; p.bits&bit != 0 {
		return nil, nothingBehind("PD.CreateQP")
	}
	return p.PD.CreateQP(c)
}

func (p hollowPD) CreateSpecialQP(port uint8, c ci.QPCreate) (ci.QP, error) {
	bit := ci.CapSpecialQP
	switch c.Type {
	case ci.RawIPv6:
		bit = ci.CapRawIPv6
	case ci.RawEther:
		bit = ci.CapRawEther
	}
	if p.bits.Has(bit) {
		return nil, nothingBehind("PD.CreateSpecialQP")
	}
	return p.PD.CreateSpecialQP(port, c)
}

func (p hollowPD) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	if p.bits.Has(ci.CapZeroBased) {
		c.Access &^= ci.ZeroBased
	}
	return p.PD.RegisterMR(c)
}

func (p hollowPD) RegisterPMR(c ci.PMRCreate) (ci.MR, error) {
	if p.bits.Has(ci.CapPhysicalMR) {
		return nil, nothingBehind("PD.RegisterPMR")
	}
	return p.PD.RegisterPMR(c)
}

func (p hollowPD) RegisterSMR(src ci.MR, iova uint64, a ci.Access) (ci.MR, error) {
	if p.bits.Has(ci.CapSharedMR) {
		return nil, nothingBehind("PD.RegisterSMR")
	}
	return p.PD.RegisterSMR(src, iova, a)
}

func (p hollowPD) AllocFastRegMR(n int) (ci.MR, error) {
	if p.bits.Has(ci.CapFastReg) {
		return nil, nothingBehind("PD.AllocFastRegMR")
	}
	return p.PD.AllocFastRegMR(n)
}

func (p hollowPD) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	if p.bits.Has(ci.CapFMR) {
		return nil, nothingBehind("PD.AllocFMR")
	}
	return p.PD.AllocFMR(c)
}

func (p hollowPD) CreateMW(c ci.MWCreate) (ci.MW, error) {
	if bit := map[ci.MWType]ci.Caps{ci.MWType1: ci.CapMW1, ci.MWType2: ci.CapMW2}[c.Type]; p.bits&bit != 0 {
		return nil, nothingBehind("PD.CreateMW")
	}
	return p.PD.CreateMW(c)
}

func (p hollowPD) AllocRDD() (ci.RDD, error) {
	if p.bits.Has(ci.CapRD) {
		return nil, nothingBehind("PD.AllocRDD")
	}
	return p.PD.AllocRDD()
}

type hollowCQ struct {
	ciwrap.CQ
	bits ci.Caps
}

func (q hollowCQ) NotifyAfter(n int) error {
	if q.bits.Has(ci.CapNotifyAfter) {
		return nil // and no callback
	}
	return q.CQ.NotifyAfter(n)
}

func (q hollowCQ) Peek() (int, error) {
	if q.bits.Has(ci.CapPeek) {
		return 0, nil
	}
	return q.CQ.Peek()
}

func (q hollowCQ) Resize(r ci.CQResize) (int, error) {
	if q.bits.Has(ci.CapResizeCQ) {
		return r.Size, nil
	}
	return q.CQ.Resize(r)
}

func (q hollowCQ) Modify(m ci.Moderation) error {
	if q.bits.Has(ci.CapModeration) {
		return nothingBehind("CQ.Modify")
	}
	return q.CQ.Modify(m)
}

type hollowQP struct {
	ciwrap.QP
	bits ci.Caps
}

func (q hollowQP) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	if q.bits&(ci.CapMulticast|ci.CapRawMulticast) != 0 {
		return nil, nothingBehind("QP.AttachMcast")
	}
	return q.QP.AttachMcast(c)
}

func (q hollowQP) Modify(set ci.QPField, a ci.QPAttr) error {
	switch {
	case q.bits.Has(ci.CapModifyWRDepth) && set&(ci.QPFieldSendDepth|ci.QPFieldRecvDepth) != 0,
		q.bits.Has(ci.CapAPM) && set&(ci.QPFieldAlternate|ci.QPFieldAPM) != 0:
		return nothingBehind("QP.Modify")
	case q.bits.Has(ci.CapCurrentQPState):
		set &^= ci.QPFieldCurrentState
	}
	return q.QP.Modify(set, a)
}

func (q hollowQP) PostSend(wrs []ci.SendWR) (int, error) {
	list := tap.CopySends(wrs)
	for i := range list {
		w := &list[i]
		if q.bits.Has(ci.CapLSO) && w.Op == ci.OpLSO {
			w.Op, w.Ext = ci.OpSend, nil // as one datagram, without its header
		}
		if q.bits.Has(ci.CapIPChecksum) {
			w.Flags &^= ci.SendIPChecksum | ci.SendL4Checksum
		}
		if q.bits.Has(ci.CapSendInvalidate) {
			w.Flags &^= ci.SendInvalidate
		}
	}
	return q.QP.PostSend(list)
}

type hollowSRQ struct {
	ciwrap.SRQ
	bits ci.Caps
}

func (s hollowSRQ) Modify(set ci.SRQField, a ci.SRQAttr) error {
	if s.bits.Has(ci.CapModifySRQDepth) {
		if set &^= ci.SRQFieldMaxWR; set == 0 {
			return nil
		}
	}
	return s.SRQ.Modify(set, a)
}

type hollowMR struct {
	ciwrap.MR
	bits ci.Caps
}

func (m hollowMR) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
	if m.bits.Has(ci.CapModifyMR) {
		return nil
	}
	return m.MR.Modify(set, pd, c)
}

type hollowAV struct {
	ciwrap.AV
	bits ci.Caps
}

func (v hollowAV) Modify(a ci.AVAttr) error {
	if v.bits.Has(ci.CapAVPortCheck) {
		a.Port = 1
	}
	return v.AV.Modify(a)
}
