package modelmutants

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// fresh are mistakes of which each was at a member of its rule that no case had: another group of the QP, another tag
// of the key, a state between, the largest number.
func fresh() []mutant.Mutant {
	by := func(id string, m mutant.Mutant, needs ci.Caps) mutant.Mutant { m.Case = id; return m.Needing(needs) }
	const rows = "model.combinations"
	var windows sync.Map // of all adapters, by the upper bits of their keys
	return []mutant.Mutant{
		by("mcast.groups", mutant.Of("model.leaves-all", "CI-Mcast-08", "a QP that leaves a group leaves all groups",
			tap.Layer(ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return &leaver{QP: ciwrap.QP{QP: q}} }})),
			ci.CapMulticast|ci.CapUD|ci.CapAV),
		by("mw2.bind", mutant.Of("model.any-tag", "CI-BindMWTwo-01", "the low bits of the key of a window are ignored",
			anyTag(&windows)), ci.CapMW2),
		by("model.explore", mutant.Of("model.srq-resized", "CI-ModifySRQ-02",
			"a Modify of an SRQ whose limit is invalid has changed the size",
			tap.SRQs(func(s ciwrap.SRQ) ci.SRQ { return resizedSRQ{s} })), ci.CapSRQ|ci.CapModifySRQDepth),
		by(rows, mutant.Of("model.qkey-stays", "IBTA-9.8-10", "datagrams need the Q_Key before a change in RTS",
			tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return &stayingKey{QP: ciwrap.QP{QP: q}} })),
			ci.CapUD|ci.CapAV),
		by(rows, mutant.Of("model.read-segments", "SAS-2.3-19", "a READ of 32 segments is rejected",
			tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				for i, w := range wrs {
					if w.Op == ci.OpRead && len(w.SGL) == 32 {
						n, err := q.PostSend(wrs[:i])
						if err == nil {
							err = &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidMaxSGE}
						}
						return n, err
					}
				}
				return q.PostSend(wrs)
			})), 0),
		by(rows, mutant.Of("model.failed-map", "SAS-0-01", "FMR.Map that fails has withdrawn the mapping before",
			tap.FMRs(func(f ciwrap.FMR) ci.FMR { return &failedMap{FMR: f} })), ci.CapFMR),
		by(rows, mutant.Of("model.stays-zero", "CI-ModifyMR-01", "a region that was zero-based begins at 0 for ever",
			tap.MRs(func(m ciwrap.MR) ci.MR { return &zeroRegion{MR: m} })), ci.CapModifyMR|ci.CapZeroBased),
		by("mr.destroy.held", mutant.Of("model.destroy-early", "CI-DeregisterMR-03",
			"MR.Destroy does not wait for an access under way",
			tap.MRs(func(m ciwrap.MR) ci.MR { return hastyRegion{m} })), 0),
	}
}

// resizedSRQ takes the size of a Modify before it validates the limit.
type resizedSRQ struct{ ciwrap.SRQ }

func (s resizedSRQ) Modify(set ci.SRQField, a ci.SRQAttr) error {
	err := s.SRQ.Modify(set, a)
	if err != nil && set == ci.SRQFieldMaxWR|ci.SRQFieldLimit {
		_ = s.SRQ.Modify(ci.SRQFieldMaxWR, a)
	}
	return err
}

// leaver detaches its QP from all groups when one attachment is destroyed.
type leaver struct {
	ciwrap.QP
	mu   sync.Mutex
	list []ci.Mcast
}

func (q *leaver) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	m, err := q.QP.AttachMcast(c)
	if err != nil {
		return m, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, m)
	return &leaving{Mcast: ciwrap.Mcast{Mcast: m}, q: q}, nil
}

type leaving struct {
	ciwrap.Mcast
	q    *leaver
	gone atomic.Bool
}

func (m *leaving) Destroy() error {
	if m.gone.Swap(true) {
		return m.Mcast.Destroy()
	}
	m.q.mu.Lock()
	defer m.q.mu.Unlock()
	for _, x := range m.q.list {
		_ = x.Destroy()
	}
	m.q.list = nil
	return nil
}

// anyTag has requests name the present key of a window of type 2.
func anyTag(windows *sync.Map) func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{MW: func(w ci.MW, c ci.MWCreate) ci.MW {
		if c.Type == ci.MWType2 {
			windows.Store(w.Key()>>8, w)
		}
		return w
	}, QP: func(q ci.QP, c ci.QPCreate) ci.QP {
		return tap.SendsOf(q, c, func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
			wrs = tap.CopySends(wrs)
			for i := range wrs {
				if w, ok := windows.Load(wrs[i].Remote.RKey >> 8); ok {
					wrs[i].Remote.RKey = w.(ci.MW).Key()
				}
			}
			return wrs
		})
	}})
}

// stayingKey is a QP that keeps its Q_Key if another is set in RTS, and returns that one from Query.
type stayingKey struct {
	ciwrap.QP
	shown atomic.Pointer[ci.QKey]
}

func (q *stayingKey) Modify(set ci.QPField, a ci.QPAttr) error {
	now, _ := q.QP.Query()
	isLater := set&ci.QPFieldQKey != 0 && now.Type == ci.UD && now.State == ci.QPRTS && set&ci.QPFieldState == 0
	key := a.QKey
	if isLater {
		a.QKey = now.QKey
	}
	err := q.QP.Modify(set, a)
	if isLater && err == nil {
		q.shown.Store(&key)
	} else if err == nil && (set&ci.QPFieldQKey != 0 || set&ci.QPFieldState != 0 && a.State == ci.QPReset) {
		q.shown.Store(nil)
	}
	return err
}

func (q *stayingKey) Query() (ci.QPAttr, error) {
	a, err := q.QP.Query()
	if k := q.shown.Load(); k != nil {
		a.QKey = *k
	}
	return a, err
}

// failedMap maps its FMR anew to the pages that it has when a Map fails, so that their keys are others.
type failedMap struct {
	ciwrap.FMR
	mu    sync.Mutex
	pages []uint64
	iova  uint64
}

func (f *failedMap) Map(pages []uint64, iova uint64) (ci.Region, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.FMR.Map(pages, iova)
	if err == nil {
		f.pages, f.iova = slices.Clone(pages), iova
	} else if f.pages != nil {
		_, _ = f.FMR.Map(f.pages, f.iova)
	}
	return r, err
}

type zeroRegion struct {
	ciwrap.MR
	wasZero atomic.Bool
}

func (m *zeroRegion) Region() ci.Region {
	r := m.MR.Region()
	if r.Length > 0 && r.Addr == 0 {
		m.wasZero.Store(true)
	}
	if m.wasZero.Load() {
		r.Addr = 0
	}
	return r
}

// hastyRegion returns from a Destroy that takes long before its end.
type hastyRegion struct{ ciwrap.MR }

func (m hastyRegion) Destroy() error {
	done := make(chan error, 1)
	go func() { done <- m.MR.Destroy() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}
