package cisuite

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Arguments that no value of an enumeration has, memory that is longer than the limit, alternate paths in each
// transition, and the management QP of a CQ that overflows. (IBTA 10.2.4.4, 10.4, 11.2.)
var unknownCases = &validate.Area{Feature: validate.FeatureCore}

var _ = unknownCases.Add("args.unknown", "values that no enumeration has", func(t *validate.T) {
	ca := kit.Open(t)
	for _, typ := range kit.Variants(t, "PD type", []ci.PDType{ci.PDDatagram + 1, 255}) {
		pd, err := ca.AllocatePD(typ)
		kit.WantRefused(t, pd, err, fmt.Sprintf("CA.AllocatePD of type %d", typ), ci.InvalidParameter)
	}
	pd := ca.PD()
	if t.Claims().Has(ci.CapMW1 | ci.CapMW2) {
		w, err := pd.CreateMW(ci.MWCreate{Type: 9})
		kit.WantRefused(t, w, err, "PD.CreateMW of type 9", ci.InvalidParameter, ci.Unsupported)
	}
	cq := ca.CQ(pd, 4)
	kit.Want(t, cq.Notify(9), "CQ.Notify of condition 9", ci.InvalidParameter)
	if !t.Claims().Has(ci.CapModeration) {
		return
	}
	set := ci.Moderation{Count: 3, Period: time.Millisecond}
	kit.OK(t, cq.Modify(set), "CQ.Modify")
	for _, m := range kit.Variants(t, "", []ci.Moderation{{Count: -1, Period: 1}, {Count: 1, Period: -1}}) {
		kit.Want(t, cq.Modify(m), fmt.Sprintf("CQ.Modify to a count of %d and a period of %v", m.Count, m.Period),
			ci.InvalidParameter)
		a, err := cq.Query()
		kit.OK(t, err, "CQ.Query")
		kit.Equal(t, "CQAttr.Moderation after the rejected CQ.Modify", a.Moderation, set)
	}
}, unknownCases.Must("CI-Unknown-01", "CI context", "enumerations of package ci",
	"A PD type, window type or notification condition that does not exist, and a negative moderation, fail with "+
		"InvalidParameter and change nothing."))

var _ = unknownCases.Of(validate.FeatureMR).Add("mr.longest", "register and map more bytes than MaxMRSize",
	mrLongest,
	unknownCases.Must("CI-Unknown-02", "IBTA 11.2.8", "CAAttr.MaxMRSize; ci_register_mr (35)",
		"Memory of more bytes than MaxMRSize cannot be registered or mapped."))

// longMemory is memory that claims to be longer than it is. No driver may use it.
type longMemory struct{ size uint64 }

var errLong = errors.New("the memory is longer than the limit, and does not exist")

func (longMemory) Addr() uint64                       { return 0x1000 }
func (m longMemory) Len() uint64                      { return m.size }
func (longMemory) Slice(uint64, uint64) []byte        { return nil }
func (longMemory) ReadAt([]byte, int64) (int, error)  { return 0, errLong }
func (longMemory) WriteAt([]byte, int64) (int, error) { return 0, errLong }
func (longMemory) Pin() (func(), error)               { return nil, errLong }

func mrLongest(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	if ca.Attr.MaxMRSize >= math.MaxInt64 {
		t.Skip("MaxMRSize is beyond the size of any memory")
	}
	m := longMemory{ca.Attr.MaxMRSize + 1}
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: m, Access: kit.AllAccess})
	kit.WantRefused(t, mr, err, "PD.RegisterMR of MaxMRSize+1 bytes", ci.InvalidParameter, ci.InsufficientResources)
	if t.Claims()&(ci.CapPhysicalMR|ci.CapFMR|ci.CapFastReg) == 0 {
		return
	}
	d, err := ca.MapDMA(m)
	kit.WantRefused(t, d, err, "CA.MapDMA of MaxMRSize+1 bytes", ci.InvalidParameter, ci.InsufficientResources)
}

var _ = unknownCases.Of(validate.FeatureAPM).Needing(validate.Needs{Caps: ci.CapAPM}).Add("apm.transitions",
	"an alternate path in each transition that permits it", func(t *validate.T) { apmTransitions(t, ci.RC) },
	ciAPM06)

var _ = unknownCases.Of(validate.FeatureAPM).Needing(validate.Needs{Caps: ci.CapAPM | ci.CapUC}).Add(
	"apm.transitions.uc", "UC: an alternate path in each transition that permits it",
	func(t *validate.T) { apmTransitions(t, ci.UC) }, ciAPM06)

func apmTransitions(t *validate.T, typ ci.QPType) {
	l := newLadder(t, typ)
	for _, e := range kit.Variants(t, "", edges(typ)) {
		if e.from < ci.QPInit || e.from == ci.QPSQError || e.to < ci.QPRTR || e.from == ci.QPRTS && e.to == ci.QPSQD {
			continue
		}
		l.climb(e.from)
		f, a := l.attrs(e)
		a.Alternate, a.APM = alternate(l.A, l.B), ci.APMRearm
		f |= ci.QPFieldAlternate
		want := ci.APMMigrated
		if e.from >= ci.QPRTR {
			f |= ci.QPFieldAPM
			want = ci.APMRearm
		}
		kit.OK(t, l.A.QP.Modify(f, a), "QP.Modify from "+e.String()+" with an alternate path")
		got := apmOf(t, l.A)
		kit.Equal(t, "QPAttr.Alternate", got.Alternate, a.Alternate)
		kit.Equal(t, "QPAttr.APM", got.APM, want)
	}
	l.climb(ci.QPReset)
	kit.Equal(t, "QPAttr.APM in Reset", apmOf(t, l.A).APM, ci.APMMigrated)
	kit.Equal(t, "QPAttr.Alternate in Reset", apmOf(t, l.A).Alternate, ci.Path{})
}

var _ = unknownCases.Of(validate.FeatureEvents).Needing(validate.Needs{Caps: ci.CapSpecialQP}).Add(
	"cq.overflow.special", "QP1 uses the CQ that overflows", cqOverflowSpecial, ciCQError01)

func cqOverflowSpecial(t *validate.T) {
	p := newBelled(t, 4)
	a, err := p.cq.Query()
	kit.OK(t, err, "CQ.Query")
	n := 1<<bits.Len(uint(a.Size)) + 1
	if n > 60 {
		t.Skip("the smallest CQ of the driver has %d entries, more than the case can fill", a.Size)
	}
	ca := p.B.QP.CA
	q := &kit.QP{CA: ca, PD: p.B.PD, SendCQ: p.cq, RecvCQ: p.cq, Events: kit.NewEvents(t),
		Config: kit.Options(ca, ca, kit.Type(ci.QP1), kit.QKey(wellKnownQKey))}
	in, err := p.B.PD.CreateSpecialQP(ca.Port.Num, q.Create())
	kit.OK(t, err, "PD.CreateSpecialQP")
	q.QP = kit.Own(t, in, "QP1")
	q.Init().RTR(nil).RTS()
	p.B.Recv(p.B.RecvWRs(n, 1)...)
	p.A.Send(p.A.SendWRs(n)...)
	p.cq.Events.Wait(ci.EventCQError)
	q.Events.Wait(ci.EventQPFatal)
	q.Becomes(ci.QPError)
}
