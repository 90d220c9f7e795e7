package modelsuite

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// A verb is one that can be called at the same time as any other of its object.
type verb struct {
	name string
	call func() error
}

// Two verbs run beside each other until enoughCalls of each were, or mostCalls, or for pairTime and leastCalls. Slow
// ones, such as those of another process, are beside each other more easily.
const (
	enoughCalls  = 1000
	leastCalls   = 30
	mostCalls    = 20 * enoughCalls
	pairTime     = 400 * time.Millisecond
	slowCall     = 30 * time.Microsecond
	slowPairTime = 20 * time.Millisecond
)

// verbsOf returns the verbs of one object of each kind that the adapter has, and of the object's users. Each succeeds
// whatever the others of its object do.
func verbsOf(t *validate.T, ca *kit.CA) (names []string, verbs [][]verb) {
	pd := ca.PD()
	caps := ca.Attr.Caps
	add := func(name string, needs ci.Caps, list func() []verb) {
		if caps.Has(needs) {
			names, verbs = append(names, name), append(verbs, list())
		}
	}
	query := func(f func() error) verb { return verb{"Query", f} }
	made := func(o ci.Object, err error) error {
		if err != nil {
			return err
		}
		return o.Destroy()
	}
	cq := ca.CQ(pd, 16)
	c := kit.Options(ca, ca, kit.Type(ci.RC))
	qp := ca.QP(pd, cq, cq, kit.Type(ci.RC))
	create := ci.QPCreate{Type: ci.RC, QPCaps: c.Caps, SendCQ: cq.CQ, RecvCQ: cq.CQ}
	mem := ci.Bytes(make([]byte, 4096))
	add("CA", 0, func() []verb {
		return []verb{query(func() error { _, err := ca.Query(); return err }),
			{"AllocatePD", func() error { p, err := ca.AllocatePD(ci.PDNormal); return made(p, err) }},
			{"OnEvent", func() error {
				if !caps.Has(ci.CapEventHandlers) {
					return nil
				}
				o, err := ca.OnEvent(func(ci.Event) {}, nil)
				return made(o, err)
			}}}
	})
	add("PD", 0, func() []verb {
		return []verb{{"CreateCQ", func() error { q, err := pd.CreateCQ(ci.CQCreate{Size: 4}); return made(q, err) }},
			{"CreateQP", func() error { q, err := pd.CreateQP(create); return made(q, err) }},
			{"RegisterMR", func() error { m, err := pd.RegisterMR(ci.MRCreate{Memory: mem}); return made(m, err) }}}
	})
	add("CQ", 0, func() []verb {
		size := 16
		list := []verb{query(func() error { _, err := cq.Query(); return err }),
			{"Notify", func() error { return cq.Notify(ci.NotifyNext) }},
			{"Poll", func() error { _, err := cq.Poll(make([]ci.WC, 1)); return err }},
			{"CreateQP", func() error { q, err := pd.CreateQP(create); return made(q, err) }}}
		if caps.Has(ci.CapResizeCQ) {
			list = append(list, verb{"Resize", func() error {
				_, err := cq.Resize(ci.CQResize{Size: size})
				return err
			}})
		}
		if caps.Has(ci.CapModeration) {
			list = append(list, verb{"Modify", func() error { return cq.Modify(ci.Moderation{}) }})
		}
		return list
	})
	add("QP", 0, func() []verb {
		return []verb{query(func() error { _, err := qp.Query(); return err }),
			{"Modify", func() error { return qp.Modify(ci.ToReset()) }},
			{"PostSend", func() error { // in Reset
				if _, err := qp.PostSend([]ci.SendWR{{Op: ci.OpNop}}); !errors.Is(err, ci.InvalidQPState) {
					return fmt.Errorf("%w instead of %w", err, ci.InvalidQPState)
				}
				return nil
			}}, {"TimeWait", func() error { qp.TimeWait(0); return nil }}}
	})
	add("SRQ", ci.CapSRQ, func() []verb {
		s, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		kit.OK(t, err, "PD.CreateSRQ")
		kit.Own(t, s, "SRQ")
		list := []verb{query(func() error { _, err := s.Query(); return err }),
			{"Modify", func() error { return s.Modify(ci.SRQFieldLimit, ci.SRQAttr{}) }},
			{"PostRecv", func() error {
				if _, err := s.PostRecv([]ci.RecvWR{{}}); !errors.Is(err, ci.InsufficientResources) {
					return err
				}
				return nil
			}}}
		with := create
		with.SRQ, with.RecvDepth, with.RecvSGE = s, 0, 0
		list = append(list, verb{"CreateQP", func() error { q, err := pd.CreateQP(with); return made(q, err) }})
		if a, err := s.Query(); err == nil && caps.Has(ci.CapModifySRQDepth) {
			list = append(list, verb{"Modify of the depth", func() error {
				return s.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: a.MaxWR})
			}})
		}
		return list
	})
	add("MR", 0, func() []verb {
		m, err := pd.RegisterMR(ci.MRCreate{Memory: mem, Access: ci.LocalWrite})
		kit.OK(t, err, "PD.RegisterMR")
		kit.Own(t, m, "MR")
		list := []verb{query(func() error { _, err := m.Query(); return err }),
			{"Region", func() error { m.Region(); return nil }}}
		if caps.Has(ci.CapModifyMR) {
			list = append(list, verb{"Modify", func() error {
				return m.Modify(ci.MRFieldAccess, pd, ci.MRCreate{Access: ci.LocalWrite})
			}})
		}
		if caps.Has(ci.CapSharedMR) {
			list = append(list, verb{"RegisterSMR", func() error {
				s, err := pd.RegisterSMR(m, 0, 0)
				return made(s, err)
			}})
		}
		return list
	})
	for typ, needs := range map[ci.MWType]ci.Caps{ci.MWType1: ci.CapMW1, ci.MWType2: ci.CapMW2} {
		add(fmt.Sprintf("MW of type %d", typ), needs, func() []verb {
			w, err := pd.CreateMW(ci.MWCreate{Type: typ})
			kit.OK(t, err, "PD.CreateMW")
			kit.Own(t, w, "MW")
			return []verb{query(func() error { _, err := w.Query(); return err }),
				{"Key", func() error { w.Key(); return nil }}}
		})
	}
	add("AV", ci.CapAV, func() []verb {
		a := ca.AddressOf(ca)
		v, err := pd.CreateAV(a)
		kit.OK(t, err, "PD.CreateAV")
		kit.Own(t, v, "AV")
		return []verb{query(func() error { _, _, err := v.Query(); return err }),
			{"Modify", func() error { return v.Modify(a) }}}
	})
	add("FMR", ci.CapFMR, func() []verb {
		f, err := pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12})
		kit.OK(t, err, "PD.AllocFMR")
		kit.Own(t, f, "FMR")
		return []verb{{"UnmapFMRs", func() error { return pd.UnmapFMRs([]ci.FMR{f}) }},
			{"AllocFMR", func() error {
				f, err := pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12})
				return made(f, err)
			}}}
	})
	other := ca.CQ(pd, 16)
	add("two CQs", 0, func() []verb {
		there, back := create, create
		there.RecvCQ, back.SendCQ = other.CQ, other.CQ
		return []verb{{"CreateQP with CQs 1 and 2", func() error { q, err := pd.CreateQP(there); return made(q, err) }},
			{"CreateQP with CQs 2 and 1", func() error { q, err := pd.CreateQP(back); return made(q, err) }}}
	})
	add("two FMRs", ci.CapFMR, func() []verb {
		var fmrs []ci.FMR
		for range 2 {
			f, err := pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12})
			kit.OK(t, err, "PD.AllocFMR")
			kit.Own(t, f, "FMR")
			fmrs = append(fmrs, f)
		}
		return []verb{{"UnmapFMRs 1 and 2", func() error { return pd.UnmapFMRs(fmrs) }},
			{"UnmapFMRs 2 and 1", func() error { return pd.UnmapFMRs([]ci.FMR{fmrs[1], fmrs[0]}) }}}
	})
	return names, verbs
}

// pairs runs every pair of verbs of an object at the same time, each of them also beside itself.
func pairs(t *validate.T) {
	ca := kit.Open(t)
	names, verbs := verbsOf(t, ca)
	for k, list := range verbs {
		for i, a := range list {
			for _, b := range list[i:] {
				t.Step("%s: %s and %s", names[k], a.name, b.name)
				if beside(t, names[k], a, b); t.Context().Err() != nil {
					t.Inconclusive("the time was not enough for all pairs")
				}
			}
		}
	}
}

// beside runs two verbs at the same time until enough calls of each were beside one of the other, however the machine
// schedules them. Verbs that take two locks in different orders stop for ever when each has its first one. Objects that
// the adapter has no room for are no failure.
func beside(t *validate.T, object string, list ...verb) {
	var wg sync.WaitGroup
	calls := make([]atomic.Int64, len(list))
	var open atomic.Int64 // how many have not called often enough
	open.Store(int64(len(list)))
	begin := time.Now()
	for i, v := range list {
		wg.Add(1)
		other := &calls[len(list)-1-i]
		t.Go(func() {
			defer wg.Done()
			defer open.Store(0)
			isEnough, fastest := false, pairTime
			isOver := func() bool {
				now := time.Since(begin)
				return open.Load() <= 0 || now > pairTime || fastest > slowCall && now > slowPairTime
			}
			for n, met := 0, 0; (n < leastCalls || !isOver()) && t.Context().Err() == nil; n++ {
				before, from := other.Load(), time.Now()
				err := v.call()
				fastest = min(fastest, time.Since(from))
				if calls[i].Add(1); other.Load() != before {
					met++
				}
				if !isEnough && (met >= enoughCalls || n >= mostCalls) {
					isEnough = true
					open.Add(-1)
				}
				if _, full := errors.AsType[*validate.LimitError](err); err != nil && !full {
					t.Report(validate.Failure{Where: object + ": " + list[0].name + " and " + list[1].name,
						Expected: "success, as in any order of the calls", Got: v.name + ": " + kit.Describe(err)})
					return
				}
			}
		})
	}
	wg.Wait()
}

// destroys destroys an object from several goroutines. One of them succeeds, and the others find it destroyed.
func destroys(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 16)
	c := kit.Options(ca, ca, kit.Type(ci.RC))
	caps := ca.Attr.Caps
	mem := ci.Bytes(make([]byte, 64))
	for _, x := range []struct {
		kind   string
		needs  ci.Caps
		status ci.Status
		create func() (ci.Object, error)
	}{
		{"PD", 0, ci.InvalidPDHandle, func() (ci.Object, error) { return ca.AllocatePD(ci.PDNormal) }},
		{"CQ", 0, ci.InvalidCQHandle, func() (ci.Object, error) { return pd.CreateCQ(ci.CQCreate{Size: 4}) }},
		{"QP", 0, ci.InvalidQPHandle, func() (ci.Object, error) {
			return pd.CreateQP(ci.QPCreate{Type: ci.RC, QPCaps: c.Caps, SendCQ: cq.CQ, RecvCQ: cq.CQ})
		}},
		{"SRQ", ci.CapSRQ, ci.InvalidSRQHandle, func() (ci.Object, error) {
			return pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		}},
		{"MR", 0, ci.InvalidMRHandle, func() (ci.Object, error) { return pd.RegisterMR(ci.MRCreate{Memory: mem}) }},
		{"MW", ci.CapMW1, ci.InvalidMWHandle, func() (ci.Object, error) {
			return pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
		}},
		{"AV", ci.CapAV, ci.InvalidAVHandle, func() (ci.Object, error) { return pd.CreateAV(ca.AddressOf(ca)) }},
		{"FMR", ci.CapFMR, ci.InvalidFMRHandle, func() (ci.Object, error) {
			return pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12})
		}},
	} {
		if !caps.Has(x.needs) {
			continue
		}
		t.Step("%s", x.kind)
		for range 40 {
			o, err := x.create()
			if _, full := errors.AsType[*validate.LimitError](err); full {
				t.Note("the adapter has no room for another %s", x.kind)
				break
			}
			kit.OK(t, err, "create of a "+x.kind)
			errs := make([]error, 3)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Add(1)
				t.Go(func() { defer wg.Done(); errs[i] = o.Destroy() })
			}
			wg.Wait()
			succeeded := 0
			for _, err := range errs {
				if err == nil {
					succeeded++
				} else if !errors.Is(err, x.status) {
					t.Failf("Destroy of one "+x.kind+" at the same time", x.status.Error(), "%s", kit.Describe(err))
				}
			}
			if succeeded != 1 {
				t.Failf("Destroy of one "+x.kind+" from 3 goroutines", "1 success", "%d", succeeded)
			}
		}
	}
}

// traffic has goroutines post to the same queues at the same time, and others poll the CQ with the completions of all.
// Each request completes once.
func traffic(t *validate.T) {
	const goroutines, each, rounds = 3, 8, 40
	p := kit.RC(t, kit.Depth(goroutines*each))
	check := func(what string, list []ci.WC) {
		seen := map[uint64]int{}
		for _, wc := range list {
			if seen[wc.ID]++; wc.Status != ci.WCSuccess || seen[wc.ID] > 1 || wc.ID >= goroutines*each {
				t.Fail(validate.Failure{Where: what + " that several goroutines posted and polled",
					Expected: "one success for each request", Doubt: kit.DoubtOf(wc.Status, ci.WCSuccess),
					Got: fmt.Sprintf("request %d %d times: %v", wc.ID, seen[wc.ID], wc.Status)})
			}
		}
	}
	together := func(f func(i int)) {
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Add(1)
			t.Go(func() { defer wg.Done(); f(i) })
		}
		wg.Wait()
	}
	poll := func(cq *kit.CQ) []ci.WC {
		lists := [goroutines][]ci.WC{}
		var found atomic.Int64
		together(func(i int) {
			wc := make([]ci.WC, 1)
			for found.Load() < goroutines*each && t.Context().Err() == nil {
				n, err := cq.Poll(wc)
				kit.OK(t, err, "CQ.Poll")
				found.Add(int64(n))
				lists[i] = append(lists[i], wc[:n]...)
			}
		})
		return slices.Concat(lists[:]...)
	}
	for range rounds {
		together(func(i int) {
			for k := range each {
				id := i*each + k
				p.B.Recv(p.B.RecvWR(uint64(id), 64*id, 64))
			}
		})
		together(func(i int) {
			for k := range each {
				id := i*each + k
				p.A.Send(p.A.SendWR(uint64(id), 64*id, 8))
			}
		})
		check("sends", poll(p.A.CQ))
		check("receives", poll(p.B.RecvCQ))
		p.A.CQ.Empty()
		p.B.RecvCQ.Empty()
	}
}
