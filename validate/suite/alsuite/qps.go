package alsuite

import (
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// What the access layer adds to QPs.
var qps = area()

// watched stands above the driver. It records the quarantines of QPs, and rejects a transition if the case says so.
type watched struct {
	mu     sync.Mutex
	waits  []time.Duration
	reject ci.QPState // the new state of a transition that fails; -1: none
}

func (w *watched) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
		return watchedQP{ciwrap.QP{QP: q}, w}
	}})
}

func (w *watched) rejects(s ci.QPState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reject = s
}

type watchedQP struct {
	ciwrap.QP
	w *watched
}

func (q watchedQP) TimeWait(d time.Duration) {
	q.w.mu.Lock()
	q.w.waits = append(q.w.waits, d)
	q.w.mu.Unlock()
	q.QP.TimeWait(d)
}

func (q watchedQP) Modify(set ci.QPField, a ci.QPAttr) error {
	q.w.mu.Lock()
	isRejected := set&ci.QPFieldState != 0 && a.State == q.w.reject
	q.w.mu.Unlock()
	if isRejected {
		return &ci.Error{Verb: "QP.Modify", Status: ci.InsufficientResources}
	}
	return q.QP.Modify(set, a)
}

// noState is no state of a QP.
const noState ci.QPState = 0xff

var CITimeWait01 = qps.Must("CI-TimeWait-01", "IBTA 12.9.8.4", "accesslayer, QP.TimeWait",
	"During the quarantine of its number, a connected QP can be moved to Error, Reset and Init only. The driver gets "+
		"the rest of the time when the QP is destroyed.")

var _ = qps.Case(validate.Case{
	ID:    "al.qp.time-wait",
	Title: "transitions and destroy during the quarantine",
	Run:   qpTimeWait,
}, CITimeWait01)

func qpTimeWait(t *validate.T) {
	w := &watched{reject: noState}
	s := newStageOver(t, accesslayer.Config{}, w.over)
	for _, h := range s.hcas {
		kit.OK(t, s.al.Register(h), "Registrar.Register")
	}
	p := s.pair()
	q := typed[*accesslayer.QP](t, p.A.QP.QP, "QP")
	q.TimeWait(time.Hour)
	kit.OK(t, q.Modify(ci.QPFieldMinRNRTimer, ci.QPAttr{MinRNRTimer: 9}),
		"QP.Modify without a transition, in quarantine")
	kit.OK(t, q.Modify(ci.ToError()), "QP.Modify to Error, in quarantine")
	p.A.QP.To(ci.QPReset)
	p.A.QP.Init()
	f, a := p.A.QP.RTRAttr(p.B.QP)
	kit.WantExactly(t, q.Modify(f, a), "QP.Modify to RTR, in quarantine", ci.QPInTimewait)
	p.A.QP.WantState(ci.QPInit)
	q.TimeWait(0)
	p.A.QP.RTR(p.B.QP)
	q.TimeWait(time.Hour)
	f, a = p.A.QP.RTSAttr()
	kit.WantExactly(t, q.Modify(f, a), "QP.Modify to RTS, in quarantine", ci.QPInTimewait)
	kit.WantExactly(t, q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPSQD}), "QP.Modify to SQD, in quarantine",
		ci.QPInTimewait)
	kit.OK(t, q.Destroy(), "QP.Destroy in quarantine")
	w.mu.Lock()
	kit.Equal(t, "quarantines that the driver gets", len(w.waits), 1)
	kit.True(t, w.waits[0] > 0 && w.waits[0] <= time.Hour, "quarantine that the driver gets",
		"what was left of an hour", "%v", w.waits[0])
	w.mu.Unlock()
	other := typed[*accesslayer.QP](t, p.B.QP.QP, "QP")
	other.TimeWait(time.Hour)
	other.TimeWait(-1)
	kit.OK(t, other.Destroy(), "QP.Destroy without a quarantine")
	w.mu.Lock()
	defer w.mu.Unlock()
	kit.Equal(t, "quarantines that the driver gets", len(w.waits), 1)
	s.rec[0].clean(t)
}

var CIInitDatagram01 = qps.Must("CI-InitDatagram-01", "CI access layer", "accesslayer, QP.InitDatagram",
	"A QP for datagrams is taken to RTS with its port, Q_Key and partition. If a step fails, its error is returned "+
		"and the QP is in Reset. A QP that needs a connection is rejected.")

var _ = qps.Case(validate.Case{
	ID:    "al.qp.datagram",
	Title: "take QPs of each service to RTS, and fail at each step",
	Needs: validate.Needs{Caps: ci.CapUD},
	Run:   qpDatagram,
}, CIInitDatagram01)

func qpDatagram(t *validate.T) {
	w := &watched{reject: noState}
	s := newStageOver(t, accesslayer.Config{}, w.over)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := s.open(s.client, 0)
	pd := typed[*accesslayer.PD](t, ca.PD(), "PD")
	cq := ca.CQ(pd.CI(), 8)
	create := func(typ ci.QPType) *accesslayer.QP {
		q, err := pd.NewQP(ci.QPCreate{Type: typ, SendCQ: cq.CQ, RecvCQ: cq.CQ,
			QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}}, nil)
		kit.OK(t, err, "PD.NewQP")
		return q
	}
	state := func(q *accesslayer.QP) ci.QPAttr {
		a, err := q.Query()
		kit.OK(t, err, "QP.Query")
		return a
	}
	key := uint16(len(ca.Port.PKeys))
	for key--; key > 0 && ca.Port.PKeys[key]&0x7fff == 0; key-- {
	}
	q := create(ci.UD)
	kit.True(t, q.PD() == pd, "QP.PD", "the PD of NewQP", "another one")
	for _, at := range kit.Variants(t, "state", []ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS}) {
		w.rejects(at)
		kit.WantExactly(t, q.InitDatagram(ca.Port.Num, 0x1234, key), "QP.InitDatagram whose transition to "+
			at.String()+" fails", ci.InsufficientResources)
		kit.Equal(t, "state after QP.InitDatagram has failed", state(q).State, ci.QPReset)
	}
	w.rejects(noState)
	kit.OK(t, q.InitDatagram(ca.Port.Num, 0x1234, key), "QP.InitDatagram")
	a := state(q)
	kit.Equal(t, "state after QP.InitDatagram", a.State, ci.QPRTS)
	kit.Equal(t, "Q_Key after QP.InitDatagram", a.QKey, 0x1234)
	kit.Equal(t, "port after QP.InitDatagram", a.Port, ca.Port.Num)
	kit.Equal(t, "P_Key index after QP.InitDatagram", a.Primary.PKeyIndex, key)
	kit.True(t, ci.Same(a.PD, pd.CI()), "PD of QP.Query", "the PD of NewQP", "another one")
	kit.True(t, ci.Same(a.SendCQ, cq.CQ) && ci.Same(a.RecvCQ, cq.CQ), "CQs of QP.Query", "the CQ of NewQP",
		"another one")
	kit.OK(t, q.Destroy(), "QP.Destroy")
	rc := create(ci.RC)
	kit.WantExactly(t, rc.InitDatagram(ca.Port.Num, 0, 0), "QP.InitDatagram of an RC QP", ci.InvalidServiceType)
	kit.Equal(t, "state after QP.InitDatagram was rejected", state(rc).State, ci.QPReset)
	kit.OK(t, rc.Destroy(), "QP.Destroy")
	s.rec[0].clean(t)
}
