package cisuite

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// teardownArea: destruction under load, concurrency, and what is left. (IBTA 11.2.5.4; SAS 2.1, callbacks and destroy.)
func teardownArea() validate.Suite {
	const dqp = "ci_destroy_qp (28)"
	s := validate.Suite{}
	s.Requirements = append(s.Requirements,
		req.Driver.Must("CI-Teardown-01", "IBTA 11.2.5.4", dqp, "A QP can be destroyed while its peer sends to it and while its verbs are called; once Destroy has returned, each of them is InvalidQPHandle."),
		req.Driver.Must("CI-Teardown-02", "IBTA 11.2.5.4", dqp, "Work outstanding when a QP is destroyed never completes afterwards."),
		req.Driver.Must("CI-Teardown-03", "IBTA 11.2.5.4", dqp, "Completions that are in a CQ when their QP is destroyed stay there to be polled."),
		req.Driver.Must("CI-Teardown-04", "IBTA 10.8.2", "ci_post_send (55), ci_poll_cq (59)", "Whoever posts and whoever polls at the same time: each request that was taken completes exactly once."),
		req.Driver.Must("CI-Teardown-05", "SAS 0", "create and destroy verbs", "Objects made and destroyed over and over leave nothing behind."),
		req.Driver.Must("CI-Teardown-06", "CI context", "destroy verbs", "A destroyed object stays gone when others take its place: its verbs answer with the handle status and do not reach its successors."),
		req.Driver.Must("CI-Teardown-07", "CI context", "ci_close_ca (7)", "CA.Destroy is ResourceBusy while any object exists, and succeeds when all are destroyed, however lately they were in use."),
		req.Driver.Must("CI-Teardown-08", "IBTA 11.2.5.4", "timewait argument of ci_destroy_qp (28)", "The number of a destroyed QP is not issued again before the time given to TimeWait."),
		req.Driver.Must("CI-Teardown-09", "IBTA 10.2.3", "ci_create_qp (22)", "QP numbers are unique among the QPs that exist."),
	)
	s.Cases = []validate.Case{
		validate.NewCase("teardown.qp.flooded", "destroy a QP while its peer sends", validate.FeatureTeardown, tearFlooded, "CI-Teardown-01"),
		validate.NewCase("teardown.qp.posting", "destroy a QP while others post to it", validate.FeatureTeardown, tearPosting, "CI-Teardown-01"),
		validate.NewCase("teardown.qp.polling", "destroy a QP while another goroutine polls", validate.FeatureTeardown, tearPolling, "CI-Teardown-01", "CI-Teardown-02"),
		validate.NewCase("teardown.qp.outstanding", "destroy a QP with work outstanding", validate.FeatureTeardown, tearOutstanding, "CI-Teardown-02"),
		validate.NewCase("teardown.qp.retrying", "destroy a QP that waits for acknowledgements", validate.FeatureTeardown, tearRetrying, "CI-Teardown-02"),
		validate.NewCase("teardown.qp.entries", "destroy a QP with completions unread", validate.FeatureTeardown, tearEntries, "CI-Teardown-03"),
		validate.NewCase("teardown.qp.time-wait", "quarantine of a number", validate.FeatureTeardown, tearTimeWait, "CI-Teardown-08"),
		validate.NewCase("teardown.qp.numbers", "many QPs at the same time", validate.FeatureTeardown, tearNumbers, "CI-Teardown-09", "SAS-0-05"),
		validate.NewCase("teardown.posters", "two goroutines post, three poll", validate.FeatureTeardown, tearPosters, "CI-Teardown-04"),
		validate.NewCase("teardown.stale", "verbs on what was destroyed and replaced", validate.FeatureTeardown, tearStale, "CI-Teardown-06", "SAS-2.1-11"),
		validate.NewCase("teardown.close.busy", "close with one object of each kind left", validate.FeatureTeardown, tearCloseBusy, "CI-Teardown-07", "SAS-2.3-26"),
		validate.NewCase("teardown.close.hot", "close at once after traffic", validate.FeatureTeardown, tearCloseHot, "CI-Teardown-07"),
	}
	s.Cases = append(s.Cases, needing(validate.Needs{Live: true},
		validate.NewCase("teardown.churn", "create, use and destroy, again and again", validate.FeatureTeardown, tearChurn, "CI-Teardown-05", "SAS-0-05", "SAS-2.3-27", "SAS-2.3-24"))...)
	return s
}

// tick is the time between looks at what has no callback to wait for.
const tick = 100 * time.Microsecond

// over tells a goroutine of the case that it is time to end: stop is closed, or the case has failed.
func over(t *validate.T, stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	case <-t.Context().Done():
		return true
	default:
		return t.Failed()
	}
}

// posts repeats a post until stop is closed, and reports an answer that a QP in use or on its way out does not have. It gives room to
// others after each.
func posts(t *validate.T, where string, stop <-chan struct{}, post func() (int, error)) {
	for !over(t, stop) {
		_, err := post()
		switch ci.StatusOf(err) {
		case ci.Success, ci.InsufficientResources, ci.InsufficientMemory:
		case ci.InvalidQPHandle:
			return
		default:
			t.Report(validate.Failure{Where: where, Expected: "success, a full queue, or InvalidQPHandle", Got: kit.Describe(err)})
			return
		}
		runtime.Gosched()
	}
}

// flood posts SENDs to p.B from a goroutine until stop is called, and polls their completions. p needs no short timeout: a sender whose peer
// has been destroyed is destroyed with its requests outstanding.
func flood(t *validate.T, p *kit.Pair) (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	t.Go(func() {
		defer close(done)
		wr, wc := []ci.SendWR{p.A.SendWR(1, 0, 64)}, make([]ci.WC, 16)
		posts(t, "QP.PostSend of the sender", end, func() (int, error) {
			if _, err := p.A.CQ.Poll(wc); err != nil {
				return 0, err
			}
			return p.A.PostSend(wr)
		})
	})
	return func() { close(end); <-done }
}

func tearFlooded(t *validate.T) {
	p := kit.RC(t)
	for i := range 4 {
		q := p
		if i > 0 {
			q = p.More(false)
		}
		q.B.Recv(q.B.RecvWRs(16, 64)...)
		stop := flood(t, q)
		q.B.RecvCQ.Wait(4) // the flood has come
		err := q.B.QP.QP.Destroy()
		stop()
		kit.OK(t, err, "QP.Destroy while the peer sends")
		wantGone(t, q.B.QP)
		kit.Destroy(t, q.A.QP, "QP of the sender")
	}
	n := p.More(false)
	n.A.Exchange(n.B, 100) // the adapter has not suffered
}

// wantGone expects that every verb of a destroyed QP says so.
func wantGone(t *validate.T, q *kit.QP) {
	_, err := q.PostRecv([]ci.RecvWR{{}})
	kit.WantExactly(t, err, "QP.PostRecv after Destroy", ci.InvalidQPHandle)
	_, err = q.PostSend([]ci.SendWR{{Op: ci.OpSend}})
	kit.WantExactly(t, err, "QP.PostSend after Destroy", ci.InvalidQPHandle)
	_, err = q.Query()
	kit.WantExactly(t, err, "QP.Query after Destroy", ci.InvalidQPHandle)
	kit.WantExactly(t, q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}), "QP.Modify after Destroy", ci.InvalidQPHandle)
	kit.WantExactly(t, q.QP.Destroy(), "QP.Destroy, the second time", ci.InvalidQPHandle)
}

func tearPosting(t *validate.T) {
	p := kit.RC(t)
	for i := range 4 {
		q := p
		if i > 0 {
			q = p.More(false)
		}
		q.B.Recv(q.B.RecvWRs(16, 64)...)
		stop := make(chan struct{})
		ended := make(chan struct{}, 2)
		send, recv := []ci.SendWR{q.A.SendWR(1, 0, 1)}, []ci.RecvWR{q.A.RecvWR(2, 64, 64)}
		t.Go(func() {
			posts(t, "QP.PostSend", stop, func() (int, error) { return q.A.PostSend(send) })
			ended <- struct{}{}
		})
		t.Go(func() {
			posts(t, "QP.PostRecv", stop, func() (int, error) { return q.A.PostRecv(recv) })
			ended <- struct{}{}
		})
		q.B.RecvCQ.Wait(4) // posts are going on
		err := q.A.QP.QP.Destroy()
		wantGone(t, q.A.QP)
		close(stop)
		<-ended
		<-ended
		kit.OK(t, err, "QP.Destroy while others post")
		kit.Destroy(t, q.B.QP, "QP of the peer")
	}
}

func tearPolling(t *validate.T) {
	p := kit.RC(t)
	for i := range 4 {
		q := p
		if i > 0 {
			q = p.More(false)
		}
		stop, ended := make(chan struct{}), make(chan struct{})
		var polled atomic.Int64
		seen := map[uint64]bool{}
		t.Go(func() {
			defer close(ended)
			for wc := make([]ci.WC, 3); ; runtime.Gosched() {
				last := over(t, stop) // before the poll, so that what completed before the Destroy is polled
				n, err := q.B.RecvCQ.Poll(wc)
				if err != nil {
					t.Report(validate.Failure{Where: "CQ.Poll while a QP of the CQ is destroyed", Expected: "success", Got: kit.Describe(err)})
					return
				}
				for _, w := range wc[:n] {
					if w.ID < 1 || w.ID > 16 || seen[w.ID] || w.QPN != q.B.Num() {
						t.Report(validate.Failure{Where: "CQ.Poll while a QP of the CQ is destroyed", Expected: "each of requests 1 to 16 at most once",
							Got: kit.Completions([]ci.WC{w})})
						return
					}
					seen[w.ID] = true
				}
				polled.Add(int64(n))
				if n == 0 && last {
					return
				}
			}
		})
		q.B.Recv(q.B.RecvWRs(16, 1)...)
		q.A.Send(q.A.SendWRs(8)...)
		waitFor(t, "receives polled", "4 or more", func() (bool, string) { n := polled.Load(); return n >= 4, fmt.Sprint(n) })
		kit.OK(t, q.B.QP.QP.Destroy(), "QP.Destroy while another goroutine polls its CQ")
		close(stop)
		<-ended
		q.B.RecvCQ.Quiet(2 * time.Millisecond)
		kit.Destroy(t, q.A.QP, "QP of the peer")
	}
}

// waitFor looks again and again until ok, and fails the case at its deadline with what was seen last.
func waitFor(t *validate.T, where, expected string, ok func() (bool, string)) {
	deadline := time.NewTimer(t.Remaining())
	defer deadline.Stop()
	next := time.NewTicker(tick)
	defer next.Stop()
	for {
		done, got := ok()
		if done {
			return
		}
		select {
		case <-next.C:
		case <-deadline.C:
			t.Fail(validate.Failure{Where: where, Expected: expected, Got: got + " by the deadline"})
		}
	}
}

func tearOutstanding(t *validate.T) {
	p := unanswering(t)
	p.A.Send(p.A.SendWRs(8)...)
	p.A.Recv(p.A.RecvWRs(8, 1)...)
	kit.OK(t, p.A.QP.QP.Destroy(), "QP.Destroy with 8 sends and 8 receives outstanding")
	p.A.CQ.Quiet(quiet)
	p.A.RecvCQ.Empty()
}

func tearRetrying(t *validate.T) {
	// The first retry is due in 1 ms or, where the HCA cannot be that quick, in some more.
	p := unanswering(t, kit.AckTime(8), kit.Retry(7))
	p.A.Send(p.A.SendWRs(8)...)
	kit.OK(t, p.A.QP.QP.Destroy(), "QP.Destroy between two retries")
	p.A.CQ.Quiet(2 * quiet)
}

func tearEntries(t *validate.T) {
	p := kit.RC(t)
	p.B.Recv(p.B.RecvWRs(5, 1)...)
	p.A.Send(p.A.SendWRs(5)...)
	p.A.CQ.WaitOK(ids(1, 5)...) // acknowledged: the receives are complete, and nobody has polled them
	num := p.B.Num()
	kit.OK(t, p.B.QP.QP.Destroy(), "QP.Destroy with 5 completions in its CQ")
	for _, wc := range p.B.RecvCQ.WaitOK(ids(1, 5)...) {
		kit.Equal(t, "WC.QPN of a QP that is gone", wc.QPN, num)
		kit.True(t, wc.Context == any(p.B.QP.Events), "WC.Context of a QP that is gone", "the context of its create", "%v", wc.Context)
	}
	p.B.RecvCQ.Empty()
}

func tearTimeWait(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 16)
	first := ca.QP(pd, cq, cq)
	num := first.Num()
	first.TimeWait(time.Hour)
	kit.Destroy(t, first.QP, "QP in time-wait")
	for i := range 300 {
		q := ca.QP(pd, cq, cq, kit.Depth(1))
		kit.True(t, q.Num() != num, fmt.Sprintf("number of QP %d after the one in time-wait", i+1), fmt.Sprintf("another than %#x", num), "%#x", q.Num())
		kit.Destroy(t, q.QP, "QP")
	}
}

func tearNumbers(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 16)
	seen := map[ci.QPN]bool{}
	for range min(256, ca.Attr.MaxQPs) {
		n := ca.QP(pd, cq, cq, kit.Depth(1)).Num()
		kit.True(t, !seen[n], "QP.Num", "a number that no other QP has", "%#x again", n)
		kit.True(t, n > 1 && n < 1<<24-1, "QP.Num", "2 to 0xfffffe: 24 bits, without QP0, QP1 and the multicast number", "%#x", n)
		seen[n] = true
	}
}

func tearPosters(t *validate.T) {
	const posters, each = 2, 150
	p := kit.RC(t, kit.Depth(posters*each))
	p.B.Recv(p.B.RecvWRs(posters*each, 1)...)
	var seen [posters*each + 1]atomic.Int32
	var count atomic.Int64
	stop := make(chan struct{})
	for range 3 {
		t.Go(func() {
			for wc := make([]ci.WC, 4); !over(t, stop); runtime.Gosched() {
				n, err := p.A.CQ.Poll(wc)
				if err != nil {
					t.Report(validate.Failure{Where: "CQ.Poll by one of three", Expected: "success", Got: kit.Describe(err)})
					return
				}
				for _, w := range wc[:n] {
					if w.ID < 1 || w.ID > posters*each || w.Status != ci.WCSuccess {
						t.Report(validate.Failure{Where: "completion", Expected: "success of a request posted", Got: kit.Completions([]ci.WC{w})})
						continue
					}
					seen[w.ID].Add(1)
				}
				count.Add(int64(n))
			}
		})
	}
	var gate sync.WaitGroup // both post at the same time
	gate.Add(posters)
	for g := range posters {
		t.Go(func() {
			gate.Done()
			gate.Wait()
			for i := range each {
				if i%8 == 0 {
					runtime.Gosched()
				}
				wr := p.A.SendWR(uint64(g*each+i+1), 0, 1)
				if n, err := p.A.PostSend([]ci.SendWR{wr}); n != 1 || err != nil {
					t.Report(validate.Failure{Where: "QP.PostSend by one of two", Expected: "1 request taken", Got: fmt.Sprintf("%d taken, %s", n, kit.Describe(err))})
					return
				}
			}
		})
	}
	timeout := time.NewTimer(t.Remaining())
	defer timeout.Stop()
	next := time.NewTicker(tick)
	defer next.Stop()
wait:
	for count.Load() < posters*each && !t.Failed() {
		select {
		case <-next.C:
		case <-timeout.C:
			break wait
		}
	}
	close(stop)
	var missing, twice []int
	for i := 1; i <= posters*each; i++ {
		switch seen[i].Load() {
		case 0:
			missing = append(missing, i)
		case 1:
		default:
			twice = append(twice, i)
		}
	}
	kit.True(t, len(missing)+len(twice) == 0, "completions of requests posted by two and polled by three goroutines",
		fmt.Sprintf("each of %d requests once", posters*each), "missing %v, more than once %v", missing, twice)
	p.A.CQ.Empty()
}

// leftover makes one object of a kind. gone is its handle status.
type leftover struct {
	kind string
	caps ci.Caps
	any  bool // one of the bits is enough
	gone ci.Status
	make func(s *claimStage) (ci.Object, error)
}

// leftovers are the kinds below a PD, and those below a CA.
var leftovers = []leftover{
	{"CQ", 0, false, ci.InvalidCQHandle, func(s *claimStage) (ci.Object, error) { return s.pd.CreateCQ(ci.CQCreate{Size: 4}) }},
	{"QP", 0, false, ci.InvalidQPHandle, func(s *claimStage) (ci.Object, error) {
		caps := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
		return s.pd.CreateQP(ci.QPCreate{QPCaps: caps, SendCQ: s.cq.CQ, RecvCQ: s.cq.CQ})
	}},
	{"MR", 0, false, ci.InvalidMRHandle, func(s *claimStage) (ci.Object, error) {
		return s.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
	}},
	{"AV", ci.CapAV, false, ci.InvalidAVHandle, func(s *claimStage) (ci.Object, error) { return s.pd.CreateAV(s.ca.AddressOf(s.ca)) }},
	{"SRQ", ci.CapSRQ, false, ci.InvalidSRQHandle, func(s *claimStage) (ci.Object, error) {
		return s.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1, MaxSGE: 1}})
	}},
	{"MW", ci.CapMW1, false, ci.InvalidMWHandle, func(s *claimStage) (ci.Object, error) { return s.pd.CreateMW(ci.MWCreate{Type: ci.MWType1}) }},
	{"FMR", ci.CapFMR, false, ci.InvalidFMRHandle, func(s *claimStage) (ci.Object, error) {
		return s.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12, Access: ci.LocalWrite})
	}},
	{"fast registration MR", ci.CapFastReg, false, ci.InvalidMRHandle, func(s *claimStage) (ci.Object, error) { return s.pd.AllocFastRegMR(1) }},
	{"handler", ci.CapEventHandlers, false, ci.InvalidHandle, func(s *claimStage) (ci.Object, error) { return s.ca.OnEvent(noEvents, nil) }},
	{"DMA mapping", ci.CapPhysicalMR | ci.CapFMR | ci.CapFastReg, true, ci.InvalidHandle, func(s *claimStage) (ci.Object, error) {
		return s.ca.MapDMA(ci.Bytes(make([]byte, 4096)))
	}},
}

// claimed gives the kinds that the driver claims.
func claimed(t *validate.T) (out []leftover) {
	for _, l := range leftovers {
		if t.Claims().Has(l.caps) || l.any && t.Claims()&l.caps != 0 {
			out = append(out, l)
		}
	}
	return out
}

func (l leftover) create(t *validate.T, s *claimStage) ci.Object {
	o, err := l.make(s)
	kit.OK(t, err, "create of "+l.kind)
	return kit.Own(t, o, l.kind)
}

func tearStale(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	s := &claimStage{t: t, ca: ca, pd: pd, cq: ca.CQ(pd, 16)}
	for _, l := range kit.Variants(t, "", claimed(t)) {
		var old, heirs []ci.Object
		for range 8 {
			old = append(old, l.create(t, s))
		}
		for _, o := range old {
			kit.OK(t, o.Destroy(), l.kind+".Destroy")
		}
		for range 16 {
			heirs = append(heirs, l.create(t, s))
		}
		for _, o := range old {
			kit.Want(t, o.Destroy(), l.kind+".Destroy of one that is gone, when others have taken its place", handleOf(l)...)
			if q, ok := o.(interface{ Query() (ci.QPAttr, error) }); ok {
				_, err := q.Query()
				kit.Want(t, err, "QP.Query of one that is gone", ci.InvalidQPHandle)
			}
		}
		for _, o := range heirs {
			kit.OK(t, o.Destroy(), l.kind+".Destroy of one made after another was destroyed")
		}
	}
}

// handleOf gives the statuses of a destroyed object. A DMA mapping has no status of its own, and is often kept as a region.
func handleOf(l leftover) []ci.Status {
	if l.any {
		return []ci.Status{l.gone, ci.InvalidMRHandle, ci.InvalidParameter}
	}
	return []ci.Status{l.gone}
}

func tearCloseBusy(t *validate.T) {
	for _, l := range kit.Variants(t, "", claimed(t)) {
		ca := kit.Open(t)
		pd := ca.PD()
		s := &claimStage{t: t, ca: ca, pd: pd, cq: ca.CQ(pd, 16)}
		o := l.create(t, s)
		below := l.kind != "handler" && l.kind != "DMA mapping"
		if below {
			kit.WantExactly(t, pd.Destroy(), "PD.Destroy with a "+l.kind+" left", ci.ResourceBusy)
		} else {
			kit.Destroy(t, s.cq.CQ, "CQ")
			kit.Destroy(t, pd, "PD")
		}
		kit.WantExactly(t, ca.Destroy(), "CA.Destroy with a "+l.kind+" left", ci.ResourceBusy)
		_, err := ca.Query()
		kit.OK(t, err, "CA.Query after the refusal")
		kit.OK(t, o.Destroy(), l.kind+".Destroy after the refusals")
		if below {
			kit.Destroy(t, s.cq.CQ, "CQ")
			kit.Destroy(t, pd, "PD")
		}
		kit.OK(t, ca.Destroy(), "CA.Destroy when the "+l.kind+" is gone")
	}
}

func tearCloseHot(t *validate.T) {
	for range 3 {
		p := kit.RC(t)
		p.B.Recv(p.B.RecvWRs(16, 64)...)
		stop := flood(t, p)
		p.B.RecvCQ.Wait(4)
		ends := []*kit.End{p.B, p.A}
		for i, e := range ends {
			if i == 1 {
				stop()
			}
			kit.Destroy(t, e.QP.QP, "QP in use")
			kit.Destroy(t, e.CQ.CQ, "CQ")
			kit.Destroy(t, e.RecvCQ.CQ, "CQ")
			kit.Destroy(t, e.Buf.MR, "MR")
			kit.Destroy(t, e.PD, "PD")
			if i == 0 && p.A.QP.CA == p.B.QP.CA {
				continue // one adapter that talks to itself
			}
			kit.OK(t, e.QP.CA.Destroy(), "CA.Destroy at once after traffic")
		}
	}
}

func tearChurn(t *validate.T) {
	p := kit.RC(t)
	ca := p.A.QP.CA
	pd := ca.PD()
	s := &claimStage{t: t, ca: ca, pd: pd, cq: ca.CQ(pd, 16)}
	kinds := claimed(t)
	before := t.Live()
	for i := range 200 {
		var made []ci.Object
		for _, l := range kinds {
			o, err := l.make(s)
			kit.OK(t, err, fmt.Sprintf("create of %s, round %d", l.kind, i+1))
			made = append(made, o)
		}
		for j, o := range slices.Backward(made) {
			kit.OK(t, o.Destroy(), fmt.Sprintf("%s.Destroy, round %d", kinds[j].kind, i+1))
		}
		if i%50 == 0 {
			p.A.Exchange(p.B, 100)
		}
	}
	waitFor(t, "living objects after 200 rounds of create and destroy", fmt.Sprint(before), func() (bool, string) {
		now := t.Live()
		return maps.Equal(now, before), fmt.Sprint(now)
	})
}
