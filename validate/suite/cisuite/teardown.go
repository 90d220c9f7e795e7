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

// teardownCases are the cases of destruction under load, concurrency, and objects left behind. (IBTA 11.2.5.4; SAS
// 2.1, callbacks and destroy.)
var teardownCases = &validate.Area{Feature: validate.FeatureTeardown}

// tick is the interval at which a case checks conditions that have no callback.
const tick = 100 * time.Microsecond

// over reports whether a goroutine of the case must end, because stop is closed or the case has failed.
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

// posts repeats a post until stop is closed. It reports statuses that are not possible for a QP in use or being
// destroyed, and yields after each post.
func posts(t *validate.T, where string, stop <-chan struct{}, post func() (int, error)) {
	for !over(t, stop) {
		_, err := post()
		switch ci.StatusOf(err) {
		case ci.Success, ci.InsufficientResources, ci.InsufficientMemory:
		case ci.InvalidQPHandle:
			return
		default:
			t.Report(validate.Failure{Where: where, Expected: "success, InsufficientResources or InvalidQPHandle",
				Got: kit.Describe(err)})
			return
		}
		runtime.Gosched()
	}
}

// flood posts SENDs to p.B from a goroutine and polls their completions until stop is called. p needs no short timeout:
// when its peer is destroyed, the sender is destroyed with its requests outstanding.
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

var ciTeardown01 = teardownCases.Must("CI-Teardown-01", "IBTA 11.2.5.4", "ci_destroy_qp (28)",
	"A QP can be destroyed while its peer sends to it and while its verbs are called. After Destroy has "+
		"returned, each verb fails with InvalidQPHandle.")

var _ = teardownCases.Add("teardown.qp.flooded", "destroy a QP while its peer sends", func(t *validate.T) {
	p := kit.RC(t)
	for i := range 4 {
		q := p
		if i > 0 {
			q = p.More(false)
		}
		q.B.Recv(q.B.RecvWRs(16, 64)...)
		stop := flood(t, q)
		q.B.RecvCQ.Wait(4) // messages arrive
		err := q.B.QP.QP.Destroy()
		stop()
		kit.OK(t, err, "QP.Destroy while the peer sends")
		wantDestroyed(t, q.B.QP)
		kit.Destroy(t, q.A.QP, "QP of the sender")
	}
	n := p.More(false)
	n.A.Exchange(n.B, 100) // the adapter still works
}, ciTeardown01)

// wantDestroyed expects each verb of a destroyed QP to fail.
func wantDestroyed(t *validate.T, q *kit.QP) {
	_, err := q.PostRecv([]ci.RecvWR{{}})
	kit.WantExactly(t, err, "QP.PostRecv after Destroy", ci.InvalidQPHandle)
	_, err = q.PostSend([]ci.SendWR{{Op: ci.OpSend}})
	kit.WantExactly(t, err, "QP.PostSend after Destroy", ci.InvalidQPHandle)
	_, err = q.Query()
	kit.WantExactly(t, err, "QP.Query after Destroy", ci.InvalidQPHandle)
	kit.WantExactly(t, q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}), "QP.Modify after Destroy",
		ci.InvalidQPHandle)
	kit.WantExactly(t, q.QP.Destroy(), "second QP.Destroy", ci.InvalidQPHandle)
}

var _ = teardownCases.Add("teardown.qp.posting", "destroy a QP while other goroutines post to it", func(t *validate.T) {
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
		q.B.RecvCQ.Wait(4) // posts are in progress
		err := q.A.QP.QP.Destroy()
		wantDestroyed(t, q.A.QP)
		close(stop)
		<-ended
		<-ended
		kit.OK(t, err, "QP.Destroy while other goroutines post")
		kit.Destroy(t, q.B.QP, "QP of the peer")
	}
}, ciTeardown01)

var _ = teardownCases.Add("teardown.qp.polling", "destroy a QP while another goroutine polls its CQ", tearPolling,
	ciTeardown01, ciTeardown02)

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
				last := over(t, stop) // read before the poll, so that completions from before the Destroy are polled
				n, err := q.B.RecvCQ.Poll(wc)
				if err != nil {
					t.Report(validate.Failure{Where: "CQ.Poll while a QP of the CQ is destroyed",
						Expected: "success", Got: kit.Describe(err)})
					return
				}
				for _, w := range wc[:n] {
					isPosted := w.ID >= 1 && w.ID <= 16 && w.QPN == q.B.Num()
					if !isPosted || seen[w.ID] {
						t.Report(validate.Failure{Where: "CQ.Poll while a QP of the CQ is destroyed",
							Expected: "each of requests 1 to 16 at most once",
							Got:      kit.Completions([]ci.WC{w})})
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
		waitFor(t, "number of polled receives", "at least 4",
			func() (bool, string) { n := polled.Load(); return n >= 4, fmt.Sprint(n) })
		kit.OK(t, q.B.QP.QP.Destroy(), "QP.Destroy while another goroutine polls its CQ")
		close(stop)
		<-ended
		q.B.RecvCQ.Quiet(2 * time.Millisecond)
		kit.Destroy(t, q.A.QP, "QP of the peer")
	}
}

// waitFor calls ok repeatedly until it returns true. At the deadline it fails the case with the last value.
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

var ciTeardown02 = teardownCases.Must("CI-Teardown-02", "IBTA 11.2.5.4", "ci_destroy_qp (28)",
	"Outstanding requests of a destroyed QP never complete.")

var _ = teardownCases.Add("teardown.qp.outstanding", "destroy a QP with outstanding requests", func(t *validate.T) {
	p := unanswering(t)
	p.A.Send(p.A.SendWRs(8)...)
	p.A.Recv(p.A.RecvWRs(8, 1)...)
	kit.OK(t, p.A.QP.QP.Destroy(), "QP.Destroy with 8 outstanding sends and 8 outstanding receives")
	p.A.CQ.Quiet(quiet)
	p.A.RecvCQ.Empty()
}, ciTeardown02)

var _ = teardownCases.Add("teardown.qp.retrying", "destroy a QP that waits for acknowledgements", func(t *validate.T) {
	// The first retry is due after 1 ms or, on a slower HCA, somewhat later.
	p := unanswering(t, kit.AckTime(8), kit.Retry(7))
	p.A.Send(p.A.SendWRs(8)...)
	kit.OK(t, p.A.QP.QP.Destroy(), "QP.Destroy between two retries")
	p.A.CQ.Quiet(2 * quiet)
}, ciTeardown02)

// The case destroys the receiver of a message directly after it has polled the completion. The sender's request has
// been executed, and its acknowledgement must not be lost with the QP.
var _ = teardownCases.Add("rc.received-then-destroyed",
	"reset and destroy a QP as soon as its message has been polled", func(t *validate.T) {
		p := kit.RC(t, kit.Retry(1))
		for i := range uint64(12) {
			q := p.More(true)
			q.B.Recv(q.B.RecvWR(i, 0, 64))
			q.A.Send(q.A.SendWR(i, 0, 32))
			var wc [1]ci.WC
			for n := 0; n == 0 && t.Context().Err() == nil; {
				var err error
				n, err = q.B.RecvCQ.Poll(wc[:])
				kit.OK(t, err, "CQ.Poll")
			}
			if i%2 == 0 {
				kit.Destroy(t, q.B.QP.QP, "QP that has received a message")
			} else {
				q.B.To(ci.QPReset)
			}
			kit.Equal(t, "WC.Status of the message", wc[0].Status, ci.WCSuccess)
			q.A.CQ.WaitOK(i)
			kit.Destroy(t, q.A.QP.QP, "QP")
			if i%2 == 1 {
				kit.Destroy(t, q.B.QP.QP, "QP")
			}
		}
	}, ciTeardown02)

var _ = teardownCases.Add("teardown.qp.entries", "destroy a QP with unpolled completions", func(t *validate.T) {
	p := kit.RC(t)
	p.B.Recv(p.B.RecvWRs(5, 1)...)
	p.A.Send(p.A.SendWRs(5)...)
	p.A.CQ.WaitOK(ids(1, 5)...) // acknowledged, so the receives are complete, and they are not polled yet
	num := p.B.Num()
	kit.OK(t, p.B.QP.QP.Destroy(), "QP.Destroy with 5 completions in its CQ")
	for _, wc := range p.B.RecvCQ.WaitOK(ids(1, 5)...) {
		kit.Equal(t, "WC.QPN of a destroyed QP", wc.QPN, num)
		kit.True(t, wc.Context == any(p.B.QP.Events), "WC.Context of a destroyed QP", "the context of its creation",
			"%v", wc.Context)
	}
	p.B.RecvCQ.Empty()
}, teardownCases.Must("CI-Teardown-03", "IBTA 11.2.5.4", "ci_destroy_qp (28)",
	"Completions in a CQ remain there when their QP is destroyed, and can be polled."))

var _ = teardownCases.With(validate.Case{Exhaustive: exhaustiveTime}).Add("teardown.qp.time-wait",
	"quarantine of a QP number", tearTimeWait,
	teardownCases.Must("CI-Teardown-08", "IBTA 11.2.5.4", "timewait argument of ci_destroy_qp (28)",
		"The number of a destroyed QP is not used again before the time set with TimeWait has passed."))

func tearTimeWait(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 16)
	// again creates and destroys QPs until one has the number. It returns how many QPs that took, or 0.
	again := func(num ci.QPN, limit int) int {
		for i := range limit {
			q := ca.QP(pd, cq, cq, kit.Depth(1))
			isSame := q.Num() == num
			kit.Destroy(t, q.QP, "QP")
			if isSame {
				return i + 1
			}
		}
		return 0
	}
	limit := 300
	if t.Profile().Exhaustive {
		limit = max(limit, 2*ca.Attr.MaxQPs)
	}
	plain := ca.QP(pd, cq, cq)
	kit.Destroy(t, plain.QP, "QP without TimeWait")
	k := again(plain.Num(), limit)
	if k == 0 {
		t.Note("the number of a QP without TimeWait is not used again within %d QPs either", limit)
	}
	// Times that are short if a driver counts them in 32 bits of nanoseconds, microseconds or milliseconds, or in 16
	// bits of milliseconds.
	const most = 1 << 32
	held := map[ci.QPN]time.Duration{}
	for _, d := range []time.Duration{most, most * time.Microsecond, most * time.Millisecond,
		1 << 16 * time.Millisecond, time.Hour} {
		q := ca.QP(pd, cq, cq)
		held[q.Num()] = d
		q.TimeWait(d + time.Millisecond)
		kit.Destroy(t, q.QP, "QP with TimeWait")
	}
	destroyed := time.Now()
	for i := 0; i < max(limit, 4*k) || time.Since(destroyed) < 20*time.Millisecond; i++ {
		q := ca.QP(pd, cq, cq, kit.Depth(1))
		if d, ok := held[q.Num()]; ok && time.Since(destroyed) < time.Second {
			t.Failf("number of a QP with TimeWait", fmt.Sprintf("not used again for %v", d),
				"the number %#x of QP %d after it", q.Num(), i+1)
		}
		kit.Destroy(t, q.QP, "QP")
	}
}

var _ = teardownCases.Add("teardown.qp.numbers", "many QPs at the same time", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	cq := ca.CQ(pd, 16)
	seen := map[ci.QPN]bool{}
	for range min(256, ca.Attr.MaxQPs) {
		n := ca.QP(pd, cq, cq, kit.Depth(1)).Num()
		kit.True(t, !seen[n], "QP.Num", "a number of no other QP", "%#x, the number of another QP", n)
		kit.True(t, n > 1 && n < 1<<24-1, "QP.Num",
			"2 to 0xfffffe: 24 bits, without QP0, QP1 and the multicast QP number", "%#x", n)
		seen[n] = true
	}
}, teardownCases.Must("CI-Teardown-09", "IBTA 10.2.3", "ci_create_qp (22)",
	"All existing QPs have different numbers."), req.SAS0_05)

var _ = teardownCases.Add("teardown.posters", "two goroutines post and three poll", func(t *validate.T) {
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
					t.Report(validate.Failure{Where: "CQ.Poll by one of three goroutines", Expected: "success",
						Got: kit.Describe(err)})
					return
				}
				for _, w := range wc[:n] {
					if w.ID < 1 || w.ID > posters*each || w.Status != ci.WCSuccess {
						t.Report(validate.Failure{Where: "completion", Expected: "success of a posted request",
							Got: kit.Completions([]ci.WC{w})})
						continue
					}
					seen[w.ID].Add(1)
				}
				count.Add(int64(n))
			}
		})
	}
	var gate sync.WaitGroup // so that both post at the same time
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
					t.Report(validate.Failure{Where: "QP.PostSend by one of two goroutines",
						Expected: "1 request accepted", Got: fmt.Sprintf("%d accepted, %s", n, kit.Describe(err))})
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
	kit.True(t, len(missing)+len(twice) == 0, "completions of requests posted by two goroutines and polled by three",
		fmt.Sprintf("each of %d requests once", posters*each), "missing %v, more than once %v", missing, twice)
	p.A.CQ.Empty()
}, teardownCases.Must("CI-Teardown-04", "IBTA 10.8.2", "ci_post_send (55), ci_poll_cq (59)",
	"When several goroutines post and poll at the same time, each accepted request completes exactly once."))

// leftover creates one object of a kind. status is the result of a verb with a handle of this kind that is not valid.
type leftover struct {
	kind   string
	caps   ci.Caps
	any    bool // whether one of the bits is enough
	status ci.Status
	make   func(s *claimStage) (ci.Object, error)
}

// leftovers are the kinds of objects of a PD and of a CA.
var leftovers = []leftover{
	{"CQ", 0, false, ci.InvalidCQHandle,
		func(s *claimStage) (ci.Object, error) { return s.pd.CreateCQ(ci.CQCreate{Size: 4}) }},
	{"QP", 0, false, ci.InvalidQPHandle, func(s *claimStage) (ci.Object, error) {
		caps := ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
		return s.pd.CreateQP(ci.QPCreate{QPCaps: caps, SendCQ: s.cq.CQ, RecvCQ: s.cq.CQ})
	}},
	{"MR", 0, false, ci.InvalidMRHandle, func(s *claimStage) (ci.Object, error) {
		return s.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
	}},
	{"AV", ci.CapAV, false, ci.InvalidAVHandle,
		func(s *claimStage) (ci.Object, error) { return s.pd.CreateAV(s.ca.AddressOf(s.ca)) }},
	{"SRQ", ci.CapSRQ, false, ci.InvalidSRQHandle, func(s *claimStage) (ci.Object, error) {
		return s.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 1, MaxSGE: 1}})
	}},
	{"MW", ci.CapMW1, false, ci.InvalidMWHandle,
		func(s *claimStage) (ci.Object, error) { return s.pd.CreateMW(ci.MWCreate{Type: ci.MWType1}) }},
	{"FMR", ci.CapFMR, false, ci.InvalidFMRHandle, func(s *claimStage) (ci.Object, error) {
		return s.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12, Access: ci.LocalWrite})
	}},
	{"fast registration MR", ci.CapFastReg, false, ci.InvalidMRHandle,
		func(s *claimStage) (ci.Object, error) { return s.pd.AllocFastRegMR(1) }},
	{"handler", ci.CapEventHandlers, false, ci.InvalidHandle,
		func(s *claimStage) (ci.Object, error) { return s.ca.OnEvent(noEvents, nil) }},
	{"DMA mapping", ci.CapPhysicalMR | ci.CapFMR | ci.CapFastReg, true, ci.InvalidHandle,
		func(s *claimStage) (ci.Object, error) {
			return s.ca.MapDMA(ci.Bytes(make([]byte, 4096)))
		}},
}

// claimed returns the kinds that the driver claims.
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
	kit.OK(t, err, "creation of "+l.kind)
	return kit.Own(t, o, l.kind)
}

var _ = teardownCases.Add("teardown.stale", "verbs on destroyed objects after others were created", tearStale,
	teardownCases.Must("CI-Teardown-06", "CI context", "destroy verbs",
		"Verbs on a destroyed object fail with its handle status, also after other objects were created, and do not "+
			"affect those."), req.SAS2_1_11)

func tearStale(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	s := &claimStage{t: t, ca: ca, pd: pd, cq: ca.CQ(pd, 16)}
	for _, l := range kit.Variants(t, "", claimed(t)) {
		var old, next []ci.Object
		for range 8 {
			old = append(old, l.create(t, s))
		}
		for _, o := range old {
			kit.OK(t, o.Destroy(), l.kind+".Destroy")
		}
		for range 16 {
			next = append(next, l.create(t, s))
		}
		for _, o := range old {
			kit.Want(t, o.Destroy(), l.kind+".Destroy of a destroyed object after others were created", handleOf(l)...)
			if q, ok := o.(interface{ Query() (ci.QPAttr, error) }); ok {
				_, err := q.Query()
				kit.Want(t, err, "QP.Query of a destroyed QP after others were created", ci.InvalidQPHandle)
			}
		}
		for _, o := range next {
			kit.OK(t, o.Destroy(), l.kind+".Destroy of an object created after another was destroyed")
		}
	}
}

// handleOf returns the statuses of a destroyed object. A DMA mapping has no status of its own and is often implemented
// as a region.
func handleOf(l leftover) []ci.Status {
	if l.any {
		return []ci.Status{l.status, ci.InvalidMRHandle, ci.InvalidParameter}
	}
	return []ci.Status{l.status}
}

var ciTeardown07 = teardownCases.Must("CI-Teardown-07", "CI context", "ci_close_ca (7)",
	"CA.Destroy fails with ResourceBusy while any object exists. It succeeds when all are destroyed, even "+
		"directly after their use.")

var _ = teardownCases.Add("teardown.close.busy", "close a CA with one object of each kind", func(t *validate.T) {
	for _, l := range kit.Variants(t, "", claimed(t)) {
		ca := kit.Open(t)
		pd := ca.PD()
		s := &claimStage{t: t, ca: ca, pd: pd, cq: ca.CQ(pd, 16)}
		o := l.create(t, s)
		below := l.kind != "handler" && l.kind != "DMA mapping"
		if below {
			kit.WantExactly(t, pd.Destroy(), "PD.Destroy with an object: "+l.kind, ci.ResourceBusy)
		} else {
			kit.Destroy(t, s.cq.CQ, "CQ")
			kit.Destroy(t, pd, "PD")
		}
		kit.WantExactly(t, ca.Destroy(), "CA.Destroy with an object: "+l.kind, ci.ResourceBusy)
		_, err := ca.Query()
		kit.OK(t, err, "CA.Query after the rejected CA.Destroy")
		kit.OK(t, o.Destroy(), l.kind+".Destroy after rejected calls of Destroy of its parents")
		if below {
			kit.Destroy(t, s.cq.CQ, "CQ")
			kit.Destroy(t, pd, "PD")
		}
		kit.OK(t, ca.Destroy(), "CA.Destroy after the destroy of its last object: "+l.kind)
	}
}, ciTeardown07, req.SAS2_3_26)

var _ = teardownCases.Add("teardown.close.hot", "close a CA directly after traffic", func(t *validate.T) {
	for range 3 {
		p := kit.RC(t, kit.OwnPD)
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
				continue // both ends belong to one adapter
			}
			kit.OK(t, e.QP.CA.Destroy(), "CA.Destroy directly after traffic")
		}
	}
}, ciTeardown07)

var _ = teardownCases.Needing(validate.Needs{Live: true}).Add("teardown.churn",
	"create, use and destroy repeatedly", tearChurn,
	teardownCases.Must("CI-Teardown-05", "SAS 0", "create and destroy verbs",
		"Objects that are created and destroyed repeatedly leave nothing behind."), req.SAS0_05, req.SAS2_3_27,
	req.SAS2_3_24)

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
			kit.OK(t, err, fmt.Sprintf("creation of %s in round %d", l.kind, i+1))
			made = append(made, o)
		}
		for j, o := range slices.Backward(made) {
			kit.OK(t, o.Destroy(), fmt.Sprintf("%s.Destroy in round %d", kinds[j].kind, i+1))
		}
		if i%50 == 0 {
			p.A.Exchange(p.B, 100)
		}
	}
	waitFor(t, "existing objects after 200 rounds of create and destroy", fmt.Sprint(before), func() (bool, string) {
		now := t.Live()
		return maps.Equal(now, before), fmt.Sprint(now)
	})
}
