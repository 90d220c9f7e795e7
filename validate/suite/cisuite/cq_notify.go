package cisuite

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// cqNotifyCases are the cases of notification by completion queues, and of their optional verbs. (IBTA 10.2.6,
// 11.2.6, 11.4.2.)
var cqNotifyCases = &validate.Area{Feature: validate.FeatureCQ}

// quiet is the time for which a case waits for a callback that must not happen. A slower driver may pass, but a correct
// one never fails.
const quiet = 20 * time.Millisecond

// bell counts callbacks of a CQ.
type bell struct {
	t     *validate.T
	rings chan any
}

func newBell(t *validate.T) *bell { return &bell{t, make(chan any, 1<<16)} }

func (b *bell) ring(arg any) { b.rings <- arg }

// wait expects a callback before the deadline.
func (b *bell) wait(where string) any {
	timer := time.NewTimer(b.t.Remaining())
	defer timer.Stop()
	select {
	case ctx := <-b.rings:
		return ctx
	case <-timer.C:
		b.t.Fail(validate.Failure{Where: where, Expected: "a completion callback", Got: "no callback by the deadline"})
		return nil
	}
}

// silent expects no callback.
func (b *bell) silent(where string) {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	select {
	case <-b.rings:
		b.t.Fail(validate.Failure{Where: where, Expected: "no completion callback", Got: "one"})
	case <-timer.C:
	}
}

// belled is a connected pair with a bell on the receive CQ of B.
type belled struct {
	*kit.Pair
	*bell
	cq *kit.CQ // receive CQ of B
}

func newBelled(t *validate.T, size int) belled { return newBelledAt(t, size, ci.Affinity{}) }

func newBelledAt(t *validate.T, size int, at ci.Affinity) belled {
	a, b := kit.OpenPair(t)
	bl := newBell(t)
	apd, bpd := a.PD(), b.PD()
	p := &kit.Pair{A: &kit.End{}, B: &kit.End{}}
	cq := b.CQWith(bpd, ci.CQCreate{Size: size, Context: bl, OnCompletion: bl.ring, Affinity: at})
	p.A.CQ, p.A.RecvCQ = a.CQ(apd, 64), a.CQ(apd, 64)
	p.B.CQ, p.B.RecvCQ = b.CQ(bpd, 64), cq
	// a driver may free an entry of the queue only when its completion is polled
	opts := []kit.Option{kit.Type(ci.RC), kit.Depth(max(64, size))}
	p.A.QP = a.QP(apd, p.A.CQ, p.A.RecvCQ, opts...)
	p.B.QP = b.QP(bpd, p.B.CQ, cq, opts...)
	p.A.Buf, p.B.Buf = a.Buf(apd, 4096, kit.AllAccess), b.Buf(bpd, 4096, kit.AllAccess)
	kit.Connect(p.A.QP, p.B.QP)
	return belled{p, bl, cq}
}

// messages sends n messages of one byte to B and waits until they are complete at A, so that they have arrived at B.
func (p belled) messages(n int, flags ci.SendFlags) {
	p.B.Recv(p.B.RecvWRs(n, 1)...)
	wrs := p.A.SendWRs(n)
	for i := range wrs {
		wrs[i].Flags |= flags
	}
	p.A.Send(wrs...)
	p.A.CQ.Wait(n)
}

func (p belled) arm(when ci.Notify) {
	kit.OK(p.t, p.cq.Notify(when), "CQ.Notify")
}

var ciNotify01 = cqNotifyCases.Must("CI-Notify-01", "IBTA 11.4.2.2", "ci_enable_cq_notify (61)",
	"An armed CQ makes one callback for the next completion, and no further one until it is armed again.")

var _ = cqNotifyCases.With(validate.Case{Checks: []string{req.SAS2_3_20.ID}}).Add("cq.notify.once",
	"one callback for each arming", func(t *validate.T) {
		armings(t, newBelled(t, 64))
	}, ciNotify01, req.SAS2_3_20)

var _ = cqNotifyCases.Add("cq.notify.vector",
	"one callback for each arming, on the last completion vector", func(t *validate.T) {
		armings(t, newBelledAt(t, 64, ci.Affinity{Vector: uint16(t.Attr().Vectors)}))
	}, ciNotify01)

// armings arms a CQ three times and expects one callback each time.
func armings(t *validate.T, p belled) {
	for range 3 {
		p.arm(ci.NotifyNext)
		p.messages(3, 0)
		p.wait("3 messages to an armed CQ")
		p.silent("the same 3 messages, after the callback")
		p.messages(1, 0)
		t.Charge("SAS-2.3-20", func() { p.silent("a message after the callback, without another arming") })
		p.cq.Wait(4)
	}
}

var _ = cqNotifyCases.Add("cq.notify.unarmed", "completions on a CQ that is not armed", func(t *validate.T) {
	p := newBelled(t, 64)
	p.messages(5, ci.SendSolicited)
	p.silent("5 messages to a CQ that was never armed")
	p.cq.Wait(5)
}, cqNotifyCases.Must("CI-Notify-02", "IBTA 11.4.2.2", "ci_enable_cq_notify (61)",
	"A CQ that is not armed makes no callback."), req.SAS2_3_20)

var _ = cqNotifyCases.Add("cq.notify.present", "arm a CQ that has entries", func(t *validate.T) {
	p := newBelled(t, 64)
	p.messages(2, 0)
	p.arm(ci.NotifyNext)
	p.silent("arming a CQ with 2 entries")
	p.messages(1, 0)
	p.wait("a third message on a CQ armed with 2 entries")
	p.cq.Wait(3)
}, cqNotifyCases.Must("CI-Notify-03", "IBTA 11.4.2.2", "ci_enable_cq_notify (61)",
	"Completions that are already in a CQ when it is armed cause no callback."))

var ciNotify04 = cqNotifyCases.Must("CI-Notify-04", "IBTA 11.4.2.2", "ci_enable_cq_notify (61)",
	"A CQ armed for solicited completions makes a callback for solicited completions and for errors, and for no "+
		"others.")

var _ = cqNotifyCases.Add("cq.notify.solicited", "arm for solicited completions", func(t *validate.T) {
	p := newBelled(t, 64)
	p.arm(ci.NotifySolicited)
	p.messages(2, 0)
	p.silent("2 unsolicited messages to a CQ armed for solicited ones")
	p.messages(1, ci.SendSolicited)
	p.wait("a solicited message")
	p.cq.Wait(3)
}, ciNotify04)

var _ = cqNotifyCases.Add("cq.notify.solicited-error",
	"an error on a CQ armed for solicited completions", func(t *validate.T) {
		p := newBelled(t, 64)
		p.B.Recv(p.B.RecvWR(1, 0, 1))
		p.arm(ci.NotifySolicited)
		p.B.QP.To(ci.QPError)
		p.wait("a flushed receive on a CQ armed for solicited completions")
		p.cq.WaitStatus(1, ci.WCFlushErr)
	}, ciNotify04)

var _ = cqNotifyCases.Add("cq.notify.upgrade",
	"arm for solicited and for any completions, in both orders", func(t *validate.T) {
		p := newBelled(t, 64)
		p.arm(ci.NotifySolicited)
		p.arm(ci.NotifyNext)
		p.messages(1, 0)
		p.wait("an unsolicited message after arming for solicited and then for any completions")
		p.arm(ci.NotifyNext)
		p.arm(ci.NotifySolicited)
		p.messages(1, 0)
		p.wait("an unsolicited message after arming for any and then for solicited completions")
		p.cq.Wait(2)
	}, cqNotifyCases.Must("CI-Notify-05", "IBTA 11.4.2.2", "ci_enable_cq_notify (61)",
		"Arming for any completion replaces arming for solicited ones, but not the other way round."))

var _ = cqNotifyCases.Add("cq.notify.context", "argument of the callback", func(t *validate.T) {
	p := newBelled(t, 64)
	p.arm(ci.NotifyNext)
	p.messages(1, 0)
	ctx := p.wait("a message")
	kit.True(t, ctx == any(p.bell), "argument of the completion callback", "the context of the CQ's creation", "%v",
		ctx)
	p.cq.Wait(1)
}, req.SAS2_1_09)

var _ = cqNotifyCases.Add("cq.notify.inside", "poll, arm and post in the callback", func(t *validate.T) {
	a, b := kit.OpenPair(t)
	for _, vector := range kit.Variants(t, "vector", []int{0, t.Attr().Vectors}) {
		cqInsideAt(t, a, b, ci.Affinity{Vector: uint16(vector)})
	}
}, req.SAS2_3_22)

func cqInsideAt(t *validate.T, a, b *kit.CA, at ci.Affinity) {
	apd, bpd := a.PD(), b.PD()
	// The fields are set later: a callback may run before the create verb returns. [SAS-2.1-12]
	type owner struct {
		cq   *kit.CQ
		end  *kit.End
		ok   chan error
		seen int
	}
	o := &owner{ok: make(chan error, 16)}
	cq := b.CQWith(bpd, ci.CQCreate{Size: 64, Context: o, Affinity: at, OnCompletion: func(arg any) {
		o := arg.(*owner)
		var wc [4]ci.WC
		// Once armed, the queue is polled again until it is empty: entries may have arrived between the last poll and
		// the arming.
		for isArmed := false; ; {
			n, err := o.cq.Poll(wc[:])
			switch {
			case err == nil && n > 0:
				o.seen += n
				if n, err = o.end.PostRecv([]ci.RecvWR{o.end.RecvWR(9, 0, 1)}); err == nil && n != 1 {
					err = fmt.Errorf("PostRecv accepted %d of 1", n)
				}
			case err == nil && o.seen < 10 && !isArmed:
				isArmed, err = true, o.cq.Notify(ci.NotifyNext)
			case err == nil && o.seen < 10:
				return
			}
			if err != nil || o.seen >= 10 {
				o.ok <- err
				return
			}
		}
	}})
	p := &kit.Pair{A: &kit.End{}, B: &kit.End{}}
	p.A.CQ, p.A.RecvCQ = a.CQ(apd, 64), a.CQ(apd, 64)
	p.B.CQ, p.B.RecvCQ = b.CQ(bpd, 64), cq
	p.A.QP, p.B.QP = a.QP(apd, p.A.CQ, p.A.RecvCQ, kit.Depth(32)), b.QP(bpd, p.B.CQ, cq, kit.Depth(32))
	p.A.Buf, p.B.Buf = a.Buf(apd, 64, kit.AllAccess), b.Buf(bpd, 64, kit.AllAccess)
	kit.Connect(p.A.QP, p.B.QP)
	o.cq, o.end = cq, p.B
	p.B.Recv(p.B.RecvWRs(10, 1)...)
	kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify")
	p.A.Send(p.A.SendWRs(10)...)
	p.A.CQ.Wait(10)
	timer := time.NewTimer(t.Remaining())
	defer timer.Stop()
	select {
	case err := <-o.ok:
		kit.OK(t, err, "verbs inside the completion callback")
	case <-timer.C:
		t.Fail(validate.Failure{Where: "completion callbacks that poll and arm", Expected: "10 completions",
			Got: "fewer by the deadline"})
	}
}

// The case polls while a batch arrives. The next batch is sent only when the CQ is armed and found empty, so that the
// consumer waits for at least one callback for each batch.
var _ = cqNotifyCases.Add("cq.notify.stranded",
	"many completions while the consumer polls, arms and polls", func(t *validate.T) {
		const batch = 20
		a := t.Attr()
		total := max(min(600, a.MaxWRs, a.MaxCQEs)/batch, 1) * batch
		p := newBelled(t, total)
		next := make(chan struct{}, 1)
		t.Go(func() {
			for sent := 0; sent < total; sent += batch {
				select {
				case <-next:
				case <-t.Context().Done():
					return
				}
				p.B.Recv(p.B.RecvWRs(batch, 1)...)
				p.A.Send(p.A.SendWRs(batch)...)
				p.A.CQ.Wait(batch)
			}
		})
		wc := make([]ci.WC, 7)
		got, granted := 0, 0
		poll := func() {
			for {
				n, err := p.cq.Poll(wc)
				kit.OK(t, err, "CQ.Poll")
				if got += n; n == 0 {
					return
				}
			}
		}
		for got < total {
			poll()
			p.arm(ci.NotifyNext)
			before := got
			poll()
			if got == before && got < total {
				if got == granted*batch { // not again when the wait ends by the callback of an entry that was polled
					granted++
					next <- struct{}{}
				}
				p.wait(fmt.Sprintf("callback of an armed CQ after %d of %d completions", got, total))
			}
		}
		kit.Equal(t, "completions", got, total)
	}, cqNotifyCases.Must("CI-Notify-06", "IBTA 11.4.2.2", "ci_enable_cq_notify (61)",
		"No completion is missed: a consumer that polls, arms and polls again receives each entry or a callback for "+
			"it."))

var _ = cqNotifyCases.Of(validate.FeatureCQOpt).Needing(validate.Needs{Caps: ci.CapNotifyAfter}).Add(
	"cq.notify.after", "arm for the n-th completion", cqAfter,
	cqNotifyCases.Must("CI-NotifyAfter-01", "IBTA 11.4.2.2", "ci_enable_ncomp_cq_notify (62)",
		"A CQ armed for n completions makes a callback at the n-th and not before."))

func cqAfter(t *validate.T) {
	p := newBelled(t, 64)
	kit.OK(t, p.cq.NotifyAfter(3), "CQ.NotifyAfter(3)")
	p.messages(2, ci.SendSolicited)
	p.silent("2 of 3 completions")
	p.messages(1, 0)
	p.wait("third completion")
	p.messages(3, 0)
	p.silent("3 more completions, without another arming")
	p.cq.Wait(6)
	kit.OK(t, p.cq.NotifyAfter(1), "CQ.NotifyAfter(1)")
	p.messages(1, 0)
	p.wait("first completion after NotifyAfter(1)")
	p.cq.Wait(1)
}

var _ = cqNotifyCases.Of(validate.FeatureCQOpt).Needing(validate.Needs{Caps: ci.CapNotifyAfter}).Add(
	"cq.notify.after-range", "arm for 0 and size+1 completions", cqAfterRange,
	cqNotifyCases.Must("CI-NotifyAfter-02", "IBTA 11.4.2.2", "ci_enable_ncomp_cq_notify (62)",
		"A count of 0 or above the size of the CQ fails with InvalidParameter."))

func cqAfterRange(t *validate.T) {
	p := newBelled(t, 16)
	a, err := p.cq.Query()
	kit.OK(t, err, "CQ.Query")
	for _, n := range kit.Variants(t, "count", []int{0, -1, a.Size + 1}) {
		kit.Want(t, p.cq.NotifyAfter(n), fmt.Sprintf("CQ.NotifyAfter(%d) on a CQ of size %d", n, a.Size),
			ci.InvalidParameter)
	}
	kit.OK(t, p.cq.NotifyAfter(a.Size), "CQ.NotifyAfter of the size of the CQ")
}

var _ = cqNotifyCases.Add("cq.poll.order", "poll 1, 2 and many entries at a time", func(t *validate.T) {
	p := newBelled(t, 64)
	p.messages(30, 0)
	want := uint64(1)
	for _, room := range kit.Variants(t, "room for", []int{1, 2, 7, 64}) {
		wc := make([]ci.WC, room)
		n, err := p.cq.Poll(wc)
		kit.OK(t, err, "CQ.Poll")
		kit.Equal(t, fmt.Sprintf("entries returned by CQ.Poll with room for %d and %d in the CQ", room, 31-want), n,
			min(room, 31-int(want)))
		for _, c := range wc[:n] {
			kit.Equal(t, "WC.ID", c.ID, want)
			want++
		}
	}
	p.cq.Empty()
}, cqNotifyCases.Must("CI-PollCQ-02", "IBTA 11.4.2.1", "ci_poll_cq (59)",
	"Poll returns completions in the order of their queue, each once, and as many as fit into the result."),
	req.SAS2_1_22)

var _ = cqNotifyCases.Of(validate.FeatureCQOpt).Needing(validate.Needs{Caps: ci.CapPeek}).Add("cq.peek",
	"results of Peek and Poll", cqPeek,
	cqNotifyCases.Must("CI-PeekCQ-01", "SAS 2.3", "ci_peek_cq (58)",
		"Peek returns the number of entries that Poll would return."))

func cqPeek(t *validate.T) {
	p := newBelled(t, 64)
	for _, n := range kit.Variants(t, "count", []int{0, 1, 5}) {
		if n > 0 {
			p.messages(n, 0)
		}
		got, err := p.cq.Peek()
		kit.OK(t, err, "CQ.Peek")
		kit.Equal(t, fmt.Sprintf("CQ.Peek with %d entries", n), got, n)
		if n > 0 {
			p.cq.Wait(n)
		}
	}
}

var ciResizeCQ01 = cqNotifyCases.Must("CI-ResizeCQ-01", "IBTA 11.2.6.3", "ci_resize_cq (31)",
	"Resize keeps the entries, their order and the arming, and returns the size that Query returns.")

var _ = cqNotifyCases.Of(validate.FeatureCQOpt).Needing(validate.Needs{Caps: ci.CapResizeCQ}).Add("cq.resize.keeps",
	"grow and shrink a CQ that has entries", cqResizeKeeps, ciResizeCQ01)

func cqResizeKeeps(t *validate.T) {
	p := newBelled(t, 16)
	p.messages(10, 0)
	for _, size := range kit.Variants(t, "size", []int{200, 11}) {
		granted, err := p.cq.Resize(ci.CQResize{Size: size})
		kit.OK(t, err, fmt.Sprintf("CQ.Resize to %d with 10 entries", size))
		kit.AtLeast(t, "size returned by CQ.Resize", granted, size)
		a, err := p.cq.Query()
		kit.OK(t, err, "CQ.Query")
		kit.Equal(t, "CQAttr.Size after CQ.Resize", a.Size, granted)
	}
	p.messages(1, 0)
	p.cq.WaitOK(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1)
	_, err := p.cq.Resize(ci.CQResize{Size: 1})
	kit.OK(t, err, "CQ.Resize to 1, the smallest size")
	p.messages(1, 0)
	p.cq.WaitOK(1)
}

var _ = cqNotifyCases.Of(validate.FeatureCQOpt).Needing(validate.Needs{Caps: ci.CapResizeCQ}).Add("cq.resize.armed",
	"resize an armed CQ", func(t *validate.T) {
		p := newBelled(t, 16)
		p.arm(ci.NotifyNext)
		_, err := p.cq.Resize(ci.CQResize{Size: 100})
		kit.OK(t, err, "CQ.Resize of an armed CQ")
		p.messages(1, 0)
		p.wait("a message after CQ.Resize of an armed CQ")
		p.cq.Wait(1)
	}, ciResizeCQ01)

var _ = cqNotifyCases.Of(validate.FeatureCQOpt).Needing(validate.Needs{Caps: ci.CapResizeCQ}).Add("cq.resize.overflow",
	"shrink below the number of entries", func(t *validate.T) {
		p := newBelled(t, 64)
		p.messages(40, 0)
		before, err := p.cq.Query()
		kit.OK(t, err, "CQ.Query")
		_, err = p.cq.Resize(ci.CQResize{Size: 10})
		if err == nil {
			t.Note("the driver accepts and ignores a smaller size")
		} else {
			kit.Want(t, err, "CQ.Resize to 10 with 40 entries", ci.Overflow)
		}
		after, err := p.cq.Query()
		kit.OK(t, err, "CQ.Query")
		kit.Equal(t, "CQAttr.Size after CQ.Resize below the number of entries", after.Size, before.Size)
		for i, wc := range p.cq.Wait(40) {
			kit.Equal(t, "WC.ID after CQ.Resize below the number of entries", wc.ID, uint64(i+1))
		}
	}, cqNotifyCases.Must("CI-ResizeCQ-02", "IBTA 11.2.6.3", "ci_resize_cq (31)",
		"Resize to fewer entries than the CQ has fails with Overflow and leaves the CQ unchanged."))

var _ = cqNotifyCases.Of(validate.FeatureCQOpt).Needing(validate.Needs{Caps: ci.CapResizeCQ}).Add("cq.resize.bad-size",
	"resize to 0 and MaxCQEs+1", func(t *validate.T) {
		p := newBelled(t, 16)
		before, err := p.cq.Query()
		kit.OK(t, err, "CQ.Query")
		for _, size := range kit.Variants(t, "size", []int{0, -5, p.B.QP.CA.Attr.MaxCQEs + 1}) {
			_, err := p.cq.Resize(ci.CQResize{Size: size})
			kit.Want(t, err, fmt.Sprintf("CQ.Resize to %d", size), ci.InvalidCQSize)
		}
		after, err := p.cq.Query()
		kit.OK(t, err, "CQ.Query")
		kit.Equal(t, "CQAttr after rejected calls of CQ.Resize", after, before)
	}, cqNotifyCases.Must("CI-ResizeCQ-03", "IBTA 11.2.6.3", "ci_resize_cq (31)",
		"Resize to 0 or above MaxCQEs fails with InvalidCQSize and leaves the CQ unchanged."))

var ciModifyCQ01 = cqNotifyCases.Must("CI-ModifyCQ-01", "SAS 2.3", "ci_modify_cq (32)",
	"Moderation delays callbacks and does not lose any.")

var _ = cqNotifyCases.Of(validate.FeatureCQOpt).Needing(validate.Needs{Caps: ci.CapModeration}).Add("cq.moderation",
	"moderated callbacks", cqModeration, ciModifyCQ01)

// shortPeriod is a period of moderation that every driver with CapModeration has to accept.
const shortPeriod = 5 * time.Millisecond

func cqModeration(t *validate.T) {
	p := newBelled(t, 64)
	m := ci.Moderation{Count: 8, Period: shortPeriod}
	kit.OK(t, p.cq.Modify(m), "CQ.Modify to 8 completions or 5 ms")
	for _, n := range kit.Variants(t, "count", []int{1, 2, 8, 20}) { // two periods end by themselves
		p.arm(ci.NotifyNext)
		p.messages(n, 0)
		p.wait(fmt.Sprintf("%d messages to an armed, moderated CQ", n))
		p.messages(1, 0)
		p.silent(fmt.Sprintf("a message after the callback of %d, to a moderated CQ that is not armed again", n))
		p.cq.Wait(n + 1)
	}
	// The period is longer than the case, so that only the count ends the delay.
	if err := p.cq.Modify(ci.Moderation{Count: 4, Period: time.Hour}); err != nil {
		t.Note("CQ.Modify to 4 completions or an hour: %s", kit.Describe(err))
		cqShortModeration(t, p)
	} else {
		p.arm(ci.NotifyNext)
		p.messages(3, 0)
		p.silent("3 messages to a CQ whose callbacks wait for 4")
		p.messages(1, 0)
		p.wait("the fourth message to a CQ whose callbacks wait for 4")
		p.cq.Wait(4)
		p.arm(ci.NotifyNext)
		p.messages(2, 0)
		p.silent("2 messages to a CQ whose callbacks wait for 4")
		kit.OK(t, p.cq.Modify(ci.Moderation{}), "CQ.Modify to no moderation, while a callback is held back")
		p.wait("the end of moderation while a callback is held back")
		p.cq.Wait(2)
	}
	kit.OK(t, p.cq.Modify(ci.Moderation{}), "CQ.Modify to no moderation")
	p.arm(ci.NotifyNext)
	p.messages(1, 0)
	p.wait("a message without moderation")
	p.cq.Wait(1)
}

var _ = cqNotifyCases.Of(validate.FeatureCQOpt).Needing(validate.Needs{Caps: ci.CapModeration}).Add(
	"cq.moderation.again", "a period that begins while another one has not ended, and a count without a period",
	cqModerationAgain, ciModifyCQ01)

// cqModerationAgain ends a period by the count and begins the next one at once. The timer of the first may still run.
func cqModerationAgain(t *validate.T) {
	p := newBelled(t, 64)
	kit.OK(t, p.cq.Modify(ci.Moderation{Count: 2, Period: 4 * shortPeriod}), "CQ.Modify to 2 completions or 20 ms")
	for range 3 {
		p.arm(ci.NotifyNext)
		p.messages(1, 0)
		p.messages(1, 0)
		p.wait("2 messages to a CQ whose callbacks wait for 2")
		p.arm(ci.NotifyNext)
		p.messages(1, 0)
		p.wait("a message after a callback that the count has caused")
		p.cq.Wait(3)
	}
	if err := p.cq.Modify(ci.Moderation{Count: 3}); err != nil {
		t.Note("CQ.Modify to 3 completions without a period: %s", kit.Describe(err))
		return
	}
	p.arm(ci.NotifyNext)
	p.messages(3, 0)
	p.wait("3 messages to a CQ whose callbacks wait for 3, without a period")
	p.cq.Wait(3)
	p.arm(ci.NotifyNext)
	p.messages(1, 0)
	p.wait("one message to a CQ whose callbacks wait for 3, without a period, which must not wait for ever")
	p.cq.Wait(1)
}

// cqShortModeration is for an HCA that counts no long periods: too few completions must take a short one.
func cqShortModeration(t *validate.T, p belled) {
	period := 50 * time.Millisecond
	if err := p.cq.Modify(ci.Moderation{Count: 4, Period: period}); err != nil {
		t.Note("CQ.Modify to 4 completions or %v: %s", period, kit.Describe(err))
		period = shortPeriod // which it has accepted for another count
		where := fmt.Sprintf("CQ.Modify to 4 completions or %v", period)
		kit.OK(t, p.cq.Modify(ci.Moderation{Count: 4, Period: period}), where)
	}
	p.arm(ci.NotifyNext)
	began := time.Now()
	p.messages(3, 0)
	where := fmt.Sprintf("3 messages to a CQ whose callbacks wait for 4 or %v", period)
	p.wait(where)
	if took := time.Since(began); took < period {
		t.Failf(where, "a callback after the period", "one after %v", took.Round(time.Millisecond))
	}
	p.cq.Wait(3)
	p.arm(ci.NotifyNext)
	p.messages(4, 0)
	p.wait(fmt.Sprintf("4 messages to a CQ whose callbacks wait for 4 or %v", period))
	p.cq.Wait(4)
}

var ciCQError01 = cqNotifyCases.Must("CI-CQError-01", "IBTA 10.2.6.1", "ci_create_cq (29)",
	"A CQ that overflows raises the event CQ error once, with the context of the CQ. Its QPs go to Error.")

var _ = cqNotifyCases.Of(validate.FeatureEvents).Add("cq.overflow",
	"more completions than the CQ holds", func(t *validate.T) {
		p := newBelled(t, 4)
		p.overflow()
	}, ciCQError01, req.SAS2_1_10)

var _ = cqNotifyCases.Of(validate.FeatureEvents).Needing(validate.Needs{Caps: ci.CapResizeCQ}).Add(
	"cq.overflow.smaller", "more completions than a CQ holds that had more entries before", cqOverflowSmaller,
	ciCQError01)

func cqOverflowSmaller(t *validate.T) {
	p := newBelled(t, 20)
	a, err := p.cq.Query()
	kit.OK(t, err, "CQ.Query")
	for _, n := range []int{min(a.Size, 40), 1, 1} { // to the end of the ring, and around it
		p.messages(n, 0)
		p.cq.Wait(n)
	}
	_, err = p.cq.Resize(ci.CQResize{Size: 4})
	kit.OK(t, err, "CQ.Resize to 4")
	p.overflow()
}

// overflow sends more messages than the CQ has entries.
func (p *belled) overflow() {
	t := p.t
	a, err := p.cq.Query()
	kit.OK(t, err, "CQ.Query")
	n := 1<<bits.Len(uint(a.Size)) + 1 // drivers may keep entries of a ring for themselves, such as for its resize
	if n > 60 {
		t.Skip("the smallest CQ of the driver has %d entries, more than the case can fill", a.Size)
	}
	p.B.Recv(p.B.RecvWRs(n, 1)...)
	p.A.Send(p.A.SendWRs(n)...)
	e := p.cq.Events.Wait(ci.EventCQError)
	kit.True(t, e.Context == any(p.bell), "Event.Context", "the context of the CQ's creation", "%v", e.Context)
	p.B.QP.Events.Wait(ci.EventQPFatal)
	p.B.QP.WantState(ci.QPError)
	kit.Equal(t, "events CQ error", p.cq.Events.Count(ci.EventCQError), 1)
}

var _ = cqNotifyCases.Of(validate.FeatureTeardown).Add("cq.destroy.quiet", "destroy a CQ while it makes callbacks",
	cqDestroyQuiet,
	cqNotifyCases.Must("CI-DestroyCQ-03", "SAS 2.1", "ci_destroy_cq (34)",
		"After Destroy of a CQ has returned, none of its callbacks runs or starts."), req.SAS2_1_30)

// cqDestroyQuiet destroys CQs while a completion callback runs, which does not return until Destroy was called. If the
// machine does not run the destroying goroutine in time, the case tests less.
func cqDestroyQuiet(t *validate.T) {
	p := newBelled(t, 64)
	const rounds = 6
	var late atomic.Int64
	for i := range rounds {
		// In turns without and with a vector.
		at := ci.Affinity{Vector: uint16(i % 2 * t.Attr().Vectors)}
		var inside, destroyed atomic.Bool
		entered, release, done := make(chan struct{}, 64), make(chan struct{}), make(chan error, 1)
		cq := p.B.QP.CA.CQWith(p.B.PD, ci.CQCreate{Size: 64, Affinity: at, OnCompletion: func(any) {
			if destroyed.Load() {
				late.Add(1)
			}
			inside.Store(true)
			entered <- struct{}{}
			<-release
			inside.Store(false)
		}})
		q := p.B.QP.CA.QP(p.B.PD, p.B.CQ, cq, kit.Type(ci.RC))
		q.Init()
		q.Recv(p.B.RecvWRs(1, 1)...)
		kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify")
		q.To(ci.QPError) // flushes the receive
		expect(t, entered, "completion callback of an armed CQ with a flushed receive")
		t.Go(func() {
			err := q.QP.Destroy()
			if err == nil {
				err = cq.CQ.Destroy()
			}
			destroyed.Store(true)
			if inside.Load() {
				t.Report(validate.Failure{Where: "CQ.Destroy while a completion callback runs",
					Expected: "a return after the callback has returned", Got: "a return before"})
			}
			done <- err
		})
		select {
		case err := <-done:
			done <- err
		case <-time.After(5 * time.Millisecond):
		}
		close(release)
		kit.OK(t, expect(t, done, "QP.Destroy and CQ.Destroy while a completion callback runs"),
			"QP.Destroy and CQ.Destroy while a completion callback runs")
	}
	for range rounds {
		q := p.B.QP.CA
		var destroyed atomic.Bool
		entered := make(chan struct{}, 64)
		cq := q.CQWith(p.B.PD, ci.CQCreate{Size: 64, OnCompletion: func(any) {
			if destroyed.Load() {
				late.Add(1)
			}
			entered <- struct{}{}
		}})
		qp := q.QP(p.B.PD, p.B.CQ, cq, kit.Type(ci.RC)).Init().To(ci.QPError)
		for i := range 2 {
			kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify")
			qp.Recv(p.B.RecvWRs(1, 1)...) // is flushed
			if i == 0 {
				expect(t, entered, "completion callback of an armed CQ with a flushed receive")
			}
		}
		cq.Wait(2)
		select { // the second one may still be due, and may then be dropped, but must not come late
		case <-entered:
		case <-time.After(5 * time.Millisecond):
		}
		kit.OK(t, qp.QP.Destroy(), "QP.Destroy")
		kit.OK(t, cq.CQ.Destroy(), "CQ.Destroy after its second callback")
		destroyed.Store(true)
	}
	p.silent("an unused CQ, while late callbacks of destroyed CQs may run")
	kit.Equal(t, fmt.Sprintf("completion callbacks of %d CQs after CQ.Destroy has returned", 2*rounds), late.Load(), 0)
}
