// Package modelmutants has drivers that the certifier once accepted: each is a mistake that a vendor made or would
// make, and cases of one example did not find it. Their rules are those that they break, and the model or a case of the
// rule catches them.
package modelmutants

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// All returns the mutants.
func All() []mutant.Mutant {
	one := func(name, breaks, does string, needs ci.Caps, wrap func(ci.HCA) ci.HCA) mutant.Mutant {
		return mutant.Of("model."+name, breaks, does, wrap).Needing(needs)
	}
	by := func(id string, m mutant.Mutant) mutant.Mutant { m.Case = "model." + id; return m }
	late := one("late-read", "CI-DeregisterMR-03", "a READ under way is served after its region is gone", 0, nil)
	late.Target = lateReads
	limited := one("limited-match", "IBTA-10.9-01", "two limited members of a partition reach each other",
		ci.CapUD|ci.CapAV|ci.CapLocalMAD, matchLimited)
	limited.Link = "direct"
	still := one("pkey-still", "IBTA-10.9-02", "the P_Key counter never counts", ci.CapPKeyCounter|ci.CapUD|ci.CapAV,
		tap.CAs(func(c ciwrap.CA) ci.CA { return &stillCounter{CA: c} }))
	still.Link = "direct"
	apm := by("apm-pkey", one("migrated-key", "CI-APM-02", "a path keeps the P_Key of the path before", ci.CapAPM,
		modifying(func() func(ci.QPField, *ci.QPAttr) {
			return func(set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldAlternate != 0 {
					a.Alternate.PKeyIndex = 0
				}
			}
		})))
	shown := by("apm-pkey", one("shown-key", "CI-APM-02", "a path has its P_Key in Query, and sends the one before",
		ci.CapAPM, tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return &shownKey{QP: ciwrap.QP{QP: q}} })))
	apm.Link, shown.Link = "direct", "direct"
	header := by("combinations", one("av-header", "SAS-0-01", "AV.Modify leaves all of the GRH but the GIDs",
		ci.CapAV|ci.CapUD, showing(func(is, to ci.AVAttr) ci.AVAttr {
			to.GRH.TrafficClass, to.GRH.FlowLabel, to.GRH.HopLimit = is.GRH.TrafficClass, is.GRH.FlowLabel,
				is.GRH.HopLimit
			return to
		})))
	header.Link = "direct"
	return append(fresh(), []mutant.Mutant{
		late, limited, still,
		one("resize-full", "CI-ResizeCQ-01", "Resize of a full CQ loses its newest entry", ci.CapResizeCQ,
			tap.CQs(func(q ciwrap.CQ) ci.CQ { return &ShortQueue{CQ: q} })),
		one("av-shown", "CI-ModifyAV-01", "AV.Modify changes what Query shows, and nothing else", ci.CapAV,
			showing(func(is, _ ci.AVAttr) ci.AVAttr { return is })),
		header,
		one("number-soon", "CI-Teardown-08", "the quarantine of a QP number is counted in 32 bits of nanoseconds", 0,
			soonNumbers),
		by("verb-pairs", one("crossed-locks", "CI-Parallel-01",
			"CreateQP locks two CQs in the order of its arguments", 0,
			tap.Layer(ciwrap.Layer{CQ: lockCQ, PD: lockingVerbs}))),
		by("verb-pairs", one("srq-locks", "CI-Parallel-01",
			"Destroy of a QP locks its CQ and then its SRQ, Modify of the SRQ the SRQ first", ci.CapSRQ,
			tap.Layer(ciwrap.Layer{CQ: lockCQ, QP: lockQP, SRQ: lockSRQ(false)}))),
		by("verb-pairs", one("post-locks", "CI-Parallel-01",
			"Destroy of a QP locks its CQ and then its SRQ, PostRecv of the SRQ the SRQ first", ci.CapSRQ,
			tap.Layer(ciwrap.Layer{CQ: lockCQ, QP: lockQP, SRQ: lockSRQ(true)}))),
		by("verb-pairs", one("fmr-locks", "CI-Parallel-01", "UnmapFMRs locks FMRs in the order of its arguments",
			ci.CapFMR, tap.Layer(ciwrap.Layer{PD: lockingVerbs, FMR: func(f ci.FMR, _ ci.FMRCreate) ci.FMR {
				return &lockedFMR{FMR: ciwrap.FMR{FMR: f}}
			}}))),
		one("unsolicited-errors", "CI-Notify-04", "errors of sends do not fire a CQ armed for solicited ones", 0,
			tap.PDs(func(p ciwrap.PD) ci.PD { return deafPD{p} })),
		one("early-drain", "CI-SQD-02", "SQ drained is raised while a READ is outstanding", 0, earlyDrain(ci.OpRead,
			ci.WCRead)),
		by("drain-read", one("drain-fenced", "CI-SQD-02", "a QP drains what waits behind a fence, too", 0,
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) { w.Flags &^= ci.SendFence }))),
		by("traffic", one("poll-race", "CI-Parallel-01", "two polls of a CQ at the same time return the same entry", 0,
			tap.CQs(func(q ciwrap.CQ) ci.CQ { return &racyCQ{CQ: q} }))),
		by("explore", one("modify-moves", "CI-ModifyMR-03", "a Modify that fails has changed the PD that Query returns",
			ci.CapModifyMR, tap.MRs(func(m ciwrap.MR) ci.MR { return &movedMR{MR: m} }))),
		by("explore", one("reset-full", "CI-PostSend-03", "what was in a full send queue takes its room after Reset",
			0, tap.QP(func(q ci.QP, c ci.QPCreate) ci.QP {
				return &fullQP{QP: ciwrap.QP{QP: q}, room: c.SendDepth}
			}))),
		by("drain-rnr", one("drain-waiting", "CI-SQD-02", "SQ drained is raised while a SEND waits for a receive", 0,
			earlyDrain(ci.OpSend, ci.WCSend))),
		one("sqd-sticky", "CI-SQD-02", "SQ drained is raised at each drain after one that requested it", 0,
			modifying(func() func(ci.QPField, *ci.QPAttr) {
				requested := false
				return func(set ci.QPField, a *ci.QPAttr) {
					requested = requested || set&ci.QPFieldSQDEvent != 0 && a.SQDEvent
					a.SQDEvent = a.SQDEvent || requested && set&ci.QPFieldState != 0 && a.State == ci.QPSQD
				}
			})),
		one("comm-twice", "CI-EventComm-01", "communication established is raised twice", 0, tap.Layer(ciwrap.Layer{
			Event: func(e ci.Event, deliver func(ci.Event)) {
				if deliver(e); e.Type == ci.EventQPComm {
					deliver(e)
				}
			}})),
		by("rnr-timer", one("rnr-zero", "IBTA-9.9-07", "the RNR timer 0 is no time", 0,
			modifying(func() func(ci.QPField, *ci.QPAttr) {
				return func(set ci.QPField, a *ci.QPAttr) {
					if set&ci.QPFieldMinRNRTimer != 0 && a.MinRNRTimer == 0 {
						a.MinRNRTimer = 1
					}
				}
			}))),
		by("no-timeout", one("default-timeout", "IBTA-9.9-09", "a timeout of 0 is one of 14", 0,
			modifying(func() func(ci.QPField, *ci.QPAttr) {
				return func(set ci.QPField, a *ci.QPAttr) {
					if set&ci.QPFieldAckTimeout != 0 && a.Primary.AckTimeout == 0 {
						a.Primary.AckTimeout = 14
					}
				}
			}))),
		apm, shown, one("unmap-last", "CI-UnmapFMR-01", "UnmapFMRs leaves out the last of three", ci.CapFMR,
			tap.PDs(func(p ciwrap.PD) ci.PD { return lazyUnmapper{p} })),
		one("fmr-seven", "CI-MapFMR-02", "an FMR can be mapped seven times at most", ci.CapFMR,
			tap.FMRs(func(f ciwrap.FMR) ci.FMR { return &fewMaps{FMR: f} })),
		one("fmr-third", "CI-MapFMR-01", "an FMR that is mapped again keeps its third page", ci.CapFMR,
			tap.FMRs(func(f ciwrap.FMR) ci.FMR { return &stickyFMR{FMR: f} })),
	}...)
}

// lateReads makes MR.Destroy of a region that a READ names return at once, and takes effect when the READ is complete.
func lateReads(t *validate.Target) {
	var mu sync.Mutex
	type request struct {
		q  ci.QPN
		id uint64
	}
	reads, named := map[request]ci.Key{}, map[ci.Key]int{}
	late := map[ci.Key]ci.MR{}
	end := func(match func(request) bool) {
		for r, key := range reads {
			if !match(r) {
				continue
			}
			delete(reads, r)
			if named[key]--; named[key] == 0 && late[key] != nil {
				_ = late[key].Destroy()
				delete(late, key)
			}
		}
	}
	for i, h := range t.HCAs {
		t.HCAs[i] = ciwrap.Wrap(h, ciwrap.Layer{
			QP: func(q ci.QP, c ci.QPCreate) ci.QP {
				n := q.Num()
				return endingQP{ciwrap.QP{QP: tap.SendsOf(q, c, func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
					mu.Lock()
					defer mu.Unlock()
					for _, w := range wrs {
						if r := (request{n, w.ID}); w.Op == ci.OpRead && reads[r] == 0 {
							reads[r] = w.Remote.RKey
							named[w.Remote.RKey]++
						}
					}
					return wrs
				})}, func() {
					mu.Lock()
					defer mu.Unlock()
					end(func(r request) bool { return r.q == n })
				}}
			},
			CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ {
				return tap.PollOf(q, func(wc *ci.WC) {
					mu.Lock()
					defer mu.Unlock()
					end(func(r request) bool { return r == request{wc.QPN, wc.ID} })
				})
			},
			MR: func(m ci.MR, _ ciwrap.MROrigin) ci.MR {
				return destroyed{ciwrap.MR{MR: m}, func() error {
					mu.Lock()
					defer mu.Unlock()
					if key := m.Region().RKey; named[key] > 0 && late[key] == nil {
						late[key] = m
						return nil
					}
					return m.Destroy()
				}}
			},
		})
	}
}

type destroyed struct {
	ciwrap.MR
	destroy func() error
}

func (d destroyed) Destroy() error { return d.destroy() }

type endingQP struct {
	ciwrap.QP
	end func()
}

func (q endingQP) Destroy() error {
	defer q.end()
	return q.QP.Destroy()
}

// matchLimited uses the entry of a full member in place of that of a limited member of the same partition for
// datagrams that are received.
func matchLimited(h ci.HCA) ci.HCA {
	var ca atomic.Pointer[ci.CA]
	return ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { ca.Store(&c); return c },
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			return tap.ModifyOf(q, c, func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				at, err := (*ca.Load()).Query()
				if set&ci.QPFieldPKeyIndex == 0 || err != nil || int(a.Primary.PKeyIndex) >= len(at.Ports[0].PKeys) {
					return
				}
				key := at.Ports[0].PKeys[a.Primary.PKeyIndex]
				if i := slices.Index(at.Ports[0].PKeys, key|0x8000); i >= 0 && key&0x7fff != 0 {
					a.Primary.PKeyIndex = uint16(i)
				}
			})
		}})
}

// racyCQ returns an entry again to a poll that begins before another one has returned it.
type racyCQ struct {
	ciwrap.CQ
	now  atomic.Int32 // polls
	last atomic.Pointer[ci.WC]
}

func (q *racyCQ) Poll(wc []ci.WC) (int, error) {
	isBeside := q.now.Add(1) > 1
	defer q.now.Add(-1)
	if last := q.last.Load(); isBeside && last != nil && len(wc) > 0 {
		wc[0] = *last
		return 1, nil
	}
	n, err := q.CQ.Poll(wc)
	if n > 0 {
		x := wc[n-1]
		q.last.Store(&x)
		runtime.Gosched() // a driver does something before it advances its index
		q.last.Store(nil)
	}
	return n, err
}

// movedMR returns the PD of the last Modify from Query, also if it has failed.
type movedMR struct {
	ciwrap.MR
	to atomic.Pointer[ci.PD]
}

func (m *movedMR) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
	err := m.MR.Modify(set, pd, c)
	if set&ci.MRFieldPD != 0 && (err == nil || set&ci.MRFieldMemory != 0) {
		m.to.Store(&pd)
	}
	return err
}

func (m *movedMR) Query() (ci.MRAttr, error) {
	a, err := m.MR.Query()
	if p := m.to.Load(); p != nil && err == nil {
		a.PD = *p
	}
	return a, err
}

// fullQP accepts no request after a Reset if it had as many as its send queue has room for.
type fullQP struct {
	ciwrap.QP
	room int
	n    atomic.Int64 // posted since Reset
	full atomic.Bool
}

func (q *fullQP) PostSend(wrs []ci.SendWR) (int, error) {
	if q.full.Load() {
		return 0, &ci.Error{Verb: "QP.PostSend", Status: ci.InsufficientResources}
	}
	n, err := q.QP.PostSend(wrs)
	q.n.Add(int64(n))
	return n, err
}

func (q *fullQP) Modify(set ci.QPField, a ci.QPAttr) error {
	now, _ := q.QP.Query()
	err := q.QP.Modify(set, a)
	if err == nil && set&ci.QPFieldState != 0 && a.State == ci.QPReset {
		q.full.Store(now.State == ci.QPRTS && q.n.Swap(0) == int64(q.room))
	}
	return err
}

type stillCounter struct {
	ciwrap.CA
	set [256]atomic.Uint32 // what Modify has set, by port
}

func (c *stillCounter) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	err := c.CA.Modify(port, set, a)
	if err == nil && set&ci.PortFieldPKeyErrors != 0 {
		c.set[port].Store(uint32(a.PKeyErrors))
	}
	return err
}

func (c *stillCounter) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err != nil {
		return a, err
	}
	for i := range a.Ports {
		a.Ports[i].PKeyErrors = uint16(c.set[a.Ports[i].Num].Load())
	}
	return a, nil
}

// ShortQueue loses the newest entry of a CQ that is full when it is resized.
type ShortQueue struct {
	ciwrap.CQ
	mu   sync.Mutex
	held []ci.WC
}

// Resize resizes the queue.
func (q *ShortQueue) Resize(r ci.CQResize) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, err := q.CQ.Query()
	if err != nil {
		return 0, err
	}
	if n, err := q.CQ.Peek(); err == nil && n == a.Size && r.Size >= n && len(q.held) == 0 {
		q.held = make([]ci.WC, n)
		if n, err = q.CQ.Poll(q.held); err != nil {
			return 0, err
		}
		q.held = q.held[:max(n-1, 0)]
	}
	return q.CQ.Resize(r)
}

// Peek returns the number of entries.
func (q *ShortQueue) Peek() (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, err := q.CQ.Peek()
	if err != nil {
		return 0, err
	}
	return n + len(q.held), nil
}

// Poll returns entries.
func (q *ShortQueue) Poll(wc []ci.WC) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := copy(wc, q.held)
	q.held = q.held[k:]
	n, err := q.CQ.Poll(wc[k:])
	return n + k, err
}

// showing makes AV.Modify use what use returns of the attributes at the create and of the new ones, which Query shows.
func showing(use func(is, to ci.AVAttr) ci.AVAttr) func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{AV: func(v ci.AV, a ci.AVAttr) ci.AV {
		return &shownAV{AV: ciwrap.AV{AV: v}, is: a, use: use}
	}})
}

type shownAV struct {
	ciwrap.AV
	use func(is, to ci.AVAttr) ci.AVAttr
	mu  sync.Mutex
	is  ci.AVAttr
	to  *ci.AVAttr
}

func (v *shownAV) Modify(a ci.AVAttr) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	err := v.AV.Modify(a)
	if err == nil {
		v.to = &a
		err = v.AV.Modify(v.use(v.is, a))
	}
	return err
}

func (v *shownAV) Query() (ci.AVAttr, ci.PD, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	a, pd, err := v.AV.Query()
	if err == nil && v.to != nil {
		user := a.User
		a = *v.to
		a.User = user
	}
	return a, pd, err
}

// soonNumbers creates the next QP with the number of one that was destroyed, as soon as a quarantine ends that is
// counted in 32 bits of nanoseconds.
func soonNumbers(h ci.HCA) ci.HCA {
	p := &numbers{until: map[ci.QPN]time.Time{}}
	return ciwrap.Wrap(h, ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP {
		p.mu.Lock()
		defer p.mu.Unlock()
		x := &soonNumber{QP: ciwrap.QP{QP: q}, p: p, num: q.Num()}
		for n, t := range p.until {
			if time.Now().After(t) {
				x.num = n
				delete(p.until, n)
				break
			}
		}
		return x
	}})
}

type numbers struct {
	mu    sync.Mutex
	until map[ci.QPN]time.Time
}

type soonNumber struct {
	ciwrap.QP
	p    *numbers
	num  ci.QPN
	wait time.Duration
}

func (q *soonNumber) Num() ci.QPN { return q.num }

func (q *soonNumber) TimeWait(d time.Duration) {
	q.wait = d
	q.QP.TimeWait(d)
}

func (q *soonNumber) Destroy() error {
	err := q.QP.Destroy()
	if q.p.mu.Lock(); err == nil && q.wait > 0 {
		q.p.until[q.num] = time.Now().Add(time.Duration(uint32(q.wait)))
	}
	q.p.mu.Unlock()
	return err
}

// lockCQ and the other functions of its kind add a lock to objects. A verb takes one lock right after the other.
func lockCQ(q ci.CQ, _ ci.CQCreate) ci.CQ { return &lockedCQ{CQ: ciwrap.CQ{CQ: q}} }

func lockingVerbs(p ci.PD, _ ci.PDType) ci.PD { return lockingPD{ciwrap.PD{PD: p}} }

func lockSRQ(inPost bool) func(ci.SRQ, ci.SRQCreate) ci.SRQ {
	return func(s ci.SRQ, _ ci.SRQCreate) ci.SRQ { return &lockedSRQ{SRQ: ciwrap.SRQ{SRQ: s}, inPost: inPost} }
}

func lockQP(q ci.QP, c ci.QPCreate) ci.QP {
	srq, ok := c.SRQ.(*lockedSRQ)
	if !ok {
		return q
	}
	cq, _ := c.RecvCQ.(*lockedCQ)
	srq.cq.Store(cq)
	return lockingQP{ciwrap.QP{QP: q}, cq, srq}
}

type lockedCQ struct {
	ciwrap.CQ
	mu sync.Mutex
}

type lockedFMR struct {
	ciwrap.FMR
	mu sync.Mutex
}

type lockedSRQ struct {
	ciwrap.SRQ
	mu     sync.Mutex
	inPost bool
	cq     atomic.Pointer[lockedCQ] // of the newest QP
}

// lock locks the SRQ and then the CQ.
func (s *lockedSRQ) lock() (unlock func()) {
	s.mu.Lock()
	q := s.cq.Load()
	if q == nil {
		return s.mu.Unlock
	}
	q.mu.Lock()
	return func() { q.mu.Unlock(); s.mu.Unlock() }
}

func (s *lockedSRQ) Modify(set ci.SRQField, a ci.SRQAttr) error {
	if !s.inPost {
		defer s.lock()()
	}
	return s.SRQ.Modify(set, a)
}

func (s *lockedSRQ) PostRecv(wrs []ci.RecvWR) (int, error) {
	if s.inPost {
		defer s.lock()()
	}
	return s.SRQ.PostRecv(wrs)
}

type lockingQP struct {
	ciwrap.QP
	cq  *lockedCQ
	srq *lockedSRQ
}

func (q lockingQP) Destroy() error {
	q.cq.mu.Lock()
	defer q.cq.mu.Unlock()
	q.srq.mu.Lock()
	defer q.srq.mu.Unlock()
	return q.QP.Destroy()
}

type lockingPD struct{ ciwrap.PD }

func (p lockingPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	a, ok := c.SendCQ.(*lockedCQ)
	b, ok2 := c.RecvCQ.(*lockedCQ)
	if ok && ok2 && a != b {
		a.mu.Lock()
		defer a.mu.Unlock()
		b.mu.Lock()
		defer b.mu.Unlock()
	}
	return p.PD.CreateQP(c)
}

func (p lockingPD) UnmapFMRs(list []ci.FMR) error {
	for _, f := range list {
		if f, ok := f.(*lockedFMR); ok {
			f.mu.Lock()
			defer f.mu.Unlock()
		}
	}
	return p.PD.UnmapFMRs(list)
}

// deafPD creates CQs that do not call back for a send with an error if they are armed for solicited completions.
type deafPD struct{ ciwrap.PD }

func (p deafPD) CreateCQ(c ci.CQCreate) (ci.CQ, error) {
	d := &deafCQ{}
	if fn := c.OnCompletion; fn != nil {
		c.OnCompletion = func(arg any) {
			if d.isError() {
				return
			}
			fn(arg)
		}
	}
	q, err := p.PD.CreateCQ(c)
	if err != nil {
		return q, err
	}
	d.mu.Lock()
	d.CQ.CQ = q
	d.mu.Unlock()
	return d, nil
}

type deafCQ struct {
	ciwrap.CQ
	mu        sync.Mutex
	held      []ci.WC
	solicited bool
}

// isError reports whether the CQ is armed for solicited completions and its newest entry is that of a send that failed.
func (d *deafCQ) isError() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.solicited || d.CQ.CQ == nil {
		return false
	}
	n, err := d.CQ.Peek()
	if err != nil || n != 1 {
		return false
	}
	wc := make([]ci.WC, 1)
	if n, err = d.CQ.Poll(wc); err != nil || n != 1 {
		return false
	}
	d.held = append(d.held, wc...)
	if wc[0].Status == ci.WCSuccess || wc[0].Op.IsRecv() {
		return false
	}
	_ = d.CQ.Notify(ci.NotifySolicited)
	return true
}

func (d *deafCQ) Notify(when ci.Notify) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.solicited = when == ci.NotifySolicited
	return d.CQ.Notify(when)
}

func (d *deafCQ) Peek() (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.CQ.Peek()
	if err != nil {
		return 0, err
	}
	return n + len(d.held), nil
}

func (d *deafCQ) Poll(wc []ci.WC) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k := copy(wc, d.held)
	d.held = d.held[k:]
	n, err := d.CQ.Poll(wc[k:])
	return n + k, err
}

// modifying changes the attributes of each Modify of a QP.
func modifying(change func() func(ci.QPField, *ci.QPAttr)) func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{QP: func(q ci.QP, c ci.QPCreate) ci.QP {
		f := change()
		return tap.ModifyOf(q, c, func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) { f(set, a) })
	}})
}

// shownKey sends with the first P_Key on every alternate path, and shows the one that the consumer asked for.
type shownKey struct {
	ciwrap.QP
	asked atomic.Uint32
}

func (q *shownKey) Modify(set ci.QPField, a ci.QPAttr) error {
	if set&ci.QPFieldPKeyIndex != 0 {
		q.asked.Store(uint32(a.Primary.PKeyIndex))
	}
	if set&ci.QPFieldAlternate != 0 {
		q.asked.Store(uint32(a.Alternate.PKeyIndex))
		a.Alternate.PKeyIndex = 0
	}
	return q.QP.Modify(set, a)
}

func (q *shownKey) Query() (ci.QPAttr, error) {
	a, err := q.QP.Query()
	if a.APM == ci.APMMigrated {
		a.Primary.PKeyIndex = uint16(q.asked.Load())
	} else {
		a.Alternate.PKeyIndex = uint16(q.asked.Load())
	}
	return a, err
}

type lazyUnmapper struct{ ciwrap.PD }

func (p lazyUnmapper) UnmapFMRs(list []ci.FMR) error {
	if len(list) > 2 {
		list = list[:len(list)-1]
	}
	return p.PD.UnmapFMRs(list)
}

type fewMaps struct {
	ciwrap.FMR
	n atomic.Int32
}

func (f *fewMaps) Map(pages []uint64, iova uint64) (ci.Region, error) {
	if f.n.Add(1) > 7 {
		return ci.Region{}, &ci.Error{Verb: "FMR.Map", Status: ci.InsufficientResources}
	}
	return f.FMR.Map(pages, iova)
}

// earlyDrain raises SQ drained within Modify if requests of an operation are outstanding, and not when they are
// complete.
func earlyDrain(op ci.SendOp, ends ci.WCOp) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA { return drainedEarly(h, op, ends) }
}

func drainedEarly(h ci.HCA, op ci.SendOp, ends ci.WCOp) ci.HCA {
	var mu sync.Mutex
	reads, early := map[any]int{}, map[any]int{}
	return ciwrap.Wrap(h, ciwrap.Layer{
		Event: func(e ci.Event, deliver func(ci.Event)) {
			mu.Lock()
			skip := e.Type == ci.EventSQDrained && early[e.Context] > 0
			if skip {
				early[e.Context]--
			}
			if mu.Unlock(); !skip {
				deliver(e)
			}
		},
		CQ: func(q ci.CQ, _ ci.CQCreate) ci.CQ {
			return tap.PollOf(q, func(wc *ci.WC) {
				mu.Lock()
				defer mu.Unlock()
				if wc.Op == ends || wc.Status != ci.WCSuccess {
					reads[wc.Context] = max(reads[wc.Context]-1, 0)
				}
			})
		},
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			counted := tap.SendsOf(q, c, func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
				mu.Lock()
				defer mu.Unlock()
				for _, w := range wrs {
					if w.Op == op {
						reads[c.Context]++
					}
				}
				return wrs
			})
			return drainingQP{ciwrap.QP{QP: counted}, func() {
				mu.Lock()
				raise := reads[c.Context] > 0 && c.OnEvent != nil
				if raise {
					early[c.Context]++
				}
				if mu.Unlock(); raise {
					c.OnEvent(ci.Event{Context: c.Context, Type: ci.EventSQDrained})
				}
			}}
		},
	})
}

type drainingQP struct {
	ciwrap.QP
	raise func()
}

func (q drainingQP) Modify(set ci.QPField, a ci.QPAttr) error {
	err := q.QP.Modify(set, a)
	if err == nil && set&ci.QPFieldState != 0 && a.State == ci.QPSQD && a.SQDEvent {
		q.raise()
	}
	return err
}

type stickyFMR struct {
	ciwrap.FMR
	mu   sync.Mutex
	last []uint64
}

func (f *stickyFMR) Map(pages []uint64, iova uint64) (ci.Region, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pages = slices.Clone(pages)
	if len(pages) > 2 && len(f.last) > 2 {
		pages[2] = f.last[2]
	}
	r, err := f.FMR.Map(pages, iova)
	if err == nil {
		f.last = pages
	}
	return r, err
}
