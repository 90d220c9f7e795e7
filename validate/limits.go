package validate

import (
	"fmt"
	"reflect"
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// A LimitError is the error of a verb that a driver rightly refuses, because it asks for more than CAAttr allows. A
// case that did not mean to exceed a limit is skipped then: see Unlimited.
type LimitError struct {
	Err    error
	Reason string // names the limit, its value and what was asked for
}

func (e *LimitError) Error() string { return e.Err.Error() }

// Unwrap returns the driver's error.
func (e *LimitError) Unwrap() error { return e.Err }

// ample has limits with which every case runs that is not about them. Features of services have more objects.
var ample = ci.CAAttr{
	MaxPDs: 64, MaxAVs: 256, MaxQPs: 256, MaxCQs: 256, MaxSRQs: 32, MaxMRs: 512, MaxMWs: 64, MaxFMRs: 64, MaxWRs: 1024,
	MaxSGEs: 8, MaxReadSGEs: 4, MaxInline: 64, MaxCQEs: 4096, MaxSRQWRs: 512, MaxSRQSGEs: 4, MaxMapsPerFMR: 4,
	MaxFastRegPages: 32, MaxMcastGroups: 16, MaxMcastQPs: 32, MaxQPsPerMcastGroup: 16, MaxRespResPerQP: 4,
	MaxInitDepthPerQP: 4, MaxRespRes: 128, Vectors: 1,
}

// ServiceLimits returns the limits with which the kit's services and a daemon for several clients run. Requests that
// clients make beyond the limits return no LimitError, so cases with more objects declare them in Needs.Attr.
func ServiceLimits() ci.CAAttr {
	return ci.CAAttr{
		MaxPDs: 3, MaxAVs: 8, MaxQPs: 16, MaxCQs: 16, MaxSRQs: 4, MaxMRs: 16, MaxMWs: 4, MaxFMRs: 4, MaxWRs: 64,
		MaxSGEs: 2, MaxReadSGEs: 1, MaxInline: 24, MaxCQEs: 256, MaxSRQWRs: 100, MaxSRQSGEs: 3, MaxMapsPerFMR: 2,
		MaxFastRegPages: 16, MaxMcastGroups: 4, MaxMcastQPs: 8, MaxQPsPerMcastGroup: 4, MaxRespResPerQP: 1,
		MaxInitDepthPerQP: 1, MaxRespRes: 16,
	}
}

var services = ServiceLimits()

// QueueDepth is the depth of a queue of which a case asks for nothing else, on an adapter that allows it.
const QueueDepth = 16

// Within returns a value for Needs.Attr: the limits of an adapter must be at least those of want that are not 0.
func Within(want ci.CAAttr) func(*ci.CAAttr) string {
	return func(a *ci.CAAttr) string { return Lacking(a, &want) }
}

// Lacking returns the first limit of a that is not 0 and less than that of want, as a reason for skipping, or "".
func Lacking(a, want *ci.CAAttr) string {
	has, needs := reflect.ValueOf(a).Elem(), reflect.ValueOf(want).Elem()
	for i := range needs.NumField() {
		if f := needs.Field(i); f.Kind() == reflect.Int && has.Field(i).Int() < f.Int() && has.Field(i).Int() > 0 {
			return fmt.Sprintf("%s is %d, the case needs %d", needs.Type().Field(i).Name, has.Field(i).Int(), f.Int())
		}
	}
	return ""
}

// limiter stands in front of an HCA with small limits. It compares requests that the driver refuses with the limits.
type limiter struct {
	attr *ci.CAAttr
	mu   sync.Mutex
	made map[string]int // objects that the running case has created
}

// limit returns h, or h behind a limiter if one of the limits in attr is not ample.
func limit(h ci.HCA, attr *ci.CAAttr) (ci.HCA, *limiter) {
	if Lacking(attr, &ample) == "" {
		return h, nil
	}
	l := &limiter{attr: attr, made: map[string]int{}}
	return ciwrap.Wrap(h, ciwrap.Layer{
		CA:     func(in ci.CA) ci.CA { return limitedCA{ciwrap.CA{CA: in}, l} },
		UserCA: func(in ci.UserCA, _ ci.Process) ci.UserCA { return limitedUserCA{ciwrap.UserCA{UserCA: in}, l} },
		PD:     func(in ci.PD, _ ci.PDType) ci.PD { return limitedPD{ciwrap.PD{PD: in}, l} },
		CQ:     func(in ci.CQ, _ ci.CQCreate) ci.CQ { return limitedCQ{ciwrap.CQ{CQ: in}, l} },
		SRQ:    func(in ci.SRQ, _ ci.SRQCreate) ci.SRQ { return limitedSRQ{ciwrap.SRQ{SRQ: in}, l} },
		QP:     func(in ci.QP, c ci.QPCreate) ci.QP { return limitedQP{ciwrap.QP{QP: in}, l, c} },
	}), l
}

// reset is called before each case.
func (l *limiter) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.made)
}

// A demand is what a request asks for of one limit.
type demand struct {
	limit     string
	is, wants int
}

// judge returns err, as a LimitError if the driver has refused a demand beyond a limit.
func (l *limiter) judge(err error, demands ...demand) error {
	if err == nil {
		return nil
	}
	for _, d := range demands {
		if d.wants > d.is {
			return &LimitError{err, fmt.Sprintf("%s is %d, the case needs %d", d.limit, d.is, d.wants)}
		}
	}
	return err
}

// create counts an object, and judges the error of its creation. A limit on objects counts only if the driver has
// nothing left.
func (l *limiter) create(err error, limit string, most int, demands ...demand) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.made[limit]++
		return nil
	}
	if s := ci.StatusOf(err); s == ci.InsufficientResources || s == ci.InsufficientMemory {
		demands = append(demands, demand{limit, most, l.made[limit] + 1})
	}
	return l.judge(err, demands...)
}

type limitedCA struct {
	ciwrap.CA
	l *limiter
}

func (c limitedCA) AllocatePD(typ ci.PDType) (ci.PD, error) {
	pd, err := c.CA.AllocatePD(typ)
	return pd, c.l.create(err, "MaxPDs", c.l.attr.MaxPDs)
}

type limitedUserCA struct {
	ciwrap.UserCA
	l *limiter
}

func (c limitedUserCA) AllocatePD(typ ci.PDType, ub *ci.UserBuffer) (ci.PD, error) {
	pd, err := c.UserCA.AllocatePD(typ, ub)
	return pd, c.l.create(err, "MaxPDs", c.l.attr.MaxPDs)
}

type limitedPD struct {
	ciwrap.PD
	l *limiter
}

func (p limitedPD) CreateAV(a ci.AVAttr) (ci.AV, error) {
	av, err := p.PD.CreateAV(a)
	return av, p.l.create(err, "MaxAVs", p.l.attr.MaxAVs)
}

func (p limitedPD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	cq, err := p.PD.CreateCQ(c)
	return cq, p.l.create(err, "MaxCQs", p.l.attr.MaxCQs, demand{"MaxCQEs", p.l.attr.MaxCQEs, c.Size},
		demand{"Vectors", p.l.attr.Vectors, int(c.Affinity.Vector)})
}

func (p limitedPD) CreateSRQ(c ci.SRQCreate) (ci.SRQ, error) {
	s, err := p.PD.CreateSRQ(c)
	return s, p.l.create(err, "MaxSRQs", p.l.attr.MaxSRQs, demand{"MaxSRQWRs", p.l.attr.MaxSRQWRs, c.MaxWR},
		demand{"MaxSRQSGEs", p.l.attr.MaxSRQSGEs, c.MaxSGE})
}

func (p limitedPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	q, err := p.PD.CreateQP(c)
	return q, p.l.createQP(err, c)
}

func (p limitedPD) CreateSpecialQP(port uint8, c ci.QPCreate) (ci.QP, error) {
	q, err := p.PD.CreateSpecialQP(port, c)
	return q, p.l.createQP(err, c)
}

func (l *limiter) createQP(err error, c ci.QPCreate) error {
	return l.create(err, "MaxQPs", l.attr.MaxQPs, demand{"MaxWRs", l.attr.MaxWRs, max(c.SendDepth, c.RecvDepth)},
		demand{"MaxSGEs", l.attr.MaxSGEs, max(c.SendSGE, c.RecvSGE)},
		demand{"MaxInline", l.attr.MaxInline, c.MaxInline})
}

func (p limitedPD) CreateMW(c ci.MWCreate) (ci.MW, error) {
	w, err := p.PD.CreateMW(c)
	return w, p.l.create(err, "MaxMWs", p.l.attr.MaxMWs)
}

func (p limitedPD) RegisterMR(c ci.MRCreate) (ci.MR, error) {
	mr, err := p.PD.RegisterMR(c)
	return mr, p.l.create(err, "MaxMRs", p.l.attr.MaxMRs)
}

func (p limitedPD) RegisterPMR(c ci.PMRCreate) (ci.MR, error) {
	mr, err := p.PD.RegisterPMR(c)
	return mr, p.l.create(err, "MaxMRs", p.l.attr.MaxMRs)
}

func (p limitedPD) RegisterSMR(src ci.MR, iova uint64, a ci.Access) (ci.MR, error) {
	mr, err := p.PD.RegisterSMR(src, iova, a)
	return mr, p.l.create(err, "MaxMRs", p.l.attr.MaxMRs)
}

func (p limitedPD) AllocFastRegMR(n int) (ci.MR, error) {
	mr, err := p.PD.AllocFastRegMR(n)
	return mr, p.l.create(err, "MaxMRs", p.l.attr.MaxMRs, demand{"MaxFastRegPages", p.l.attr.MaxFastRegPages, n})
}

func (p limitedPD) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	f, err := p.PD.AllocFMR(c)
	return f, p.l.create(err, "MaxFMRs", p.l.attr.MaxFMRs, demand{"MaxMapsPerFMR", p.l.attr.MaxMapsPerFMR, c.MaxMaps})
}

type limitedCQ struct {
	ciwrap.CQ
	l *limiter
}

func (c limitedCQ) Resize(r ci.CQResize) (int, error) {
	n, err := c.CQ.Resize(r)
	return n, c.l.judge(err, demand{"MaxCQEs", c.l.attr.MaxCQEs, r.Size})
}

type limitedSRQ struct {
	ciwrap.SRQ
	l *limiter
}

func (s limitedSRQ) Modify(f ci.SRQField, a ci.SRQAttr) error {
	return s.l.judge(s.SRQ.Modify(f, a), demand{"MaxSRQWRs", s.l.attr.MaxSRQWRs, a.MaxWR})
}

type limitedQP struct {
	ciwrap.QP
	l *limiter
	c ci.QPCreate
}

func (q limitedQP) PostSend(wrs []ci.SendWR) (int, error) {
	n, err := q.QP.PostSend(wrs)
	if err == nil || n < 0 || n >= len(wrs) {
		return n, err
	}
	d := []demand{entries(q.c.SendSGE, wrs[n].SGL)}
	if wrs[n].Op == ci.OpRead {
		d = append(d, demand{"MaxReadSGEs", q.l.attr.MaxReadSGEs, len(wrs[n].SGL)})
	}
	return n, q.l.post(err, q.c.SendDepth, d...)
}

func (q limitedQP) PostRecv(wrs []ci.RecvWR) (int, error) {
	n, err := q.QP.PostRecv(wrs)
	if err == nil || n < 0 || n >= len(wrs) {
		return n, err
	}
	return n, q.l.post(err, q.c.RecvDepth, entries(q.c.RecvSGE, wrs[n].SGL))
}

// entries returns what a request demands of a queue for requests of most entries, which may be as many as both adapters
// allow.
func entries(most int, sgl []ci.SGE) demand { return demand{"MaxSGEs of an adapter", most, len(sgl)} }

// post judges the error of a post. A queue of less than QueueDepth requests is as deep as the limits allow.
func (l *limiter) post(err error, depth int, d ...demand) error {
	if ci.StatusOf(err) == ci.InsufficientResources && depth < QueueDepth {
		d = append(d, demand{"MaxWRs or half of MaxCQEs of an adapter", depth, QueueDepth})
	}
	return l.judge(err, d...)
}

func (q limitedQP) Modify(f ci.QPField, a ci.QPAttr) error {
	err := q.QP.Modify(f, a)
	if err == nil {
		return nil
	}
	d := []demand{{"MaxRespResPerQP", q.l.attr.MaxRespResPerQP, int(a.RespRes)},
		{"MaxInitDepthPerQP", q.l.attr.MaxInitDepthPerQP, int(a.InitDepth)}}
	if ci.StatusOf(err) == ci.InsufficientResources {
		d = append(d, demand{"MaxRespRes", q.l.attr.MaxRespRes, q.l.attr.MaxRespRes + 1})
	}
	return q.l.judge(err, d...)
}

func (q limitedQP) AttachMcast(a ci.McastAttach) (ci.Mcast, error) {
	m, err := q.QP.AttachMcast(a)
	least := min(q.l.attr.MaxMcastGroups, q.l.attr.MaxMcastQPs, q.l.attr.MaxQPsPerMcastGroup)
	return m, q.l.create(err, "MaxMcastGroups, MaxMcastQPs or MaxQPsPerMcastGroup", least)
}
