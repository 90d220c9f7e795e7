package cisuite

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// rcPostCases are the cases of posts: lists, full queues, signaling, inline data, fences, solicited completions.
// (IBTA 10.8, 11.4.1.)
var rcPostCases = &validate.Area{Feature: validate.FeatureRC}

var _ = rcPostCases.Add("post.list.send", "a list of 32 sends in one post", func(t *validate.T) {
	const n = 32
	p := kit.RC(t, kit.Depth(n))
	kit.Random(t, p.A.Buf.Bytes[:n])
	for i := range n {
		p.B.Recv(p.B.RecvWR(uint64(i+1), i, 1))
	}
	got, err := p.A.PostSend(p.A.SendWRs(n))
	kit.WantTaken(t, "QP.PostSend of 32 requests", got, err, n)
	p.A.CQ.WaitOK(ids(1, n)...)
	p.B.RecvCQ.WaitOK(ids(1, n)...)
	kit.SameBytes(t, "messages in order", p.B.Buf.Bytes[:n], p.A.Buf.Bytes[:n])
	p.A.CQ.Empty()
	p.B.RecvCQ.Empty()
}, req.SAS2_1_21, req.SAS2_3_18)

var _ = rcPostCases.Add("post.list.recv", "a list of 32 receives in one post", func(t *validate.T) {
	const n = 32
	p := kit.RC(t, kit.Depth(n))
	kit.Random(t, p.A.Buf.Bytes[:n])
	got, err := p.B.PostRecv(p.B.RecvWRs(n, 8))
	kit.WantTaken(t, "QP.PostRecv of 32 requests", got, err, n)
	for i := range n {
		p.A.Send(p.A.SendWR(uint64(i+1), i, 1))
	}
	p.A.CQ.WaitOK(ids(1, n)...)
	p.B.RecvCQ.WaitOK(ids(1, n)...)
	for i := range n {
		kit.Equal(t, fmt.Sprintf("byte of message %d", i+1), p.B.Buf.Bytes[8*i], p.A.Buf.Bytes[i])
	}
}, req.SAS2_1_21)

var _ = rcPostCases.Add("post.list.mixed", "a list of sends, writes and reads", func(t *validate.T) {
	p := kit.RC(t)
	kit.Random(t, p.A.Buf.Bytes[:4096])
	kit.Random(t, p.B.Buf.Bytes[8192:8192+3000])
	p.B.Recv(p.B.RecvWR(1, 0, 100), p.B.RecvWR(2, 100, 100))
	wrs := []ci.SendWR{
		p.A.RDMA(ci.OpWrite, 1, 0, 2000, p.B, 4096),
		p.A.SendWR(2, 100, 90),
		p.A.RDMA(ci.OpRead, 3, 8192, 3000, p.B, 8192),
		p.A.RDMA(ci.OpWrite, 4, 500, 10, p.B, 4096),
		p.A.SendWR(5, 300, 80),
	}
	n, err := p.A.PostSend(wrs)
	kit.WantTaken(t, "QP.PostSend of writes, sends and a read", n, err, len(wrs))
	var got []ci.WCOp
	for _, wc := range p.A.CQ.WaitOK(ids(1, 5)...) {
		got = append(got, wc.Op)
	}
	want := []ci.WCOp{ci.WCWrite, ci.WCSend, ci.WCRead, ci.WCWrite, ci.WCSend}
	kit.True(t, slices.Equal(got, want), "operations of the completions", fmt.Sprintf("%x", want), "%x", got)
	p.B.RecvCQ.WaitOK(1, 2)
	kit.SameBytes(t, "bytes read", p.A.Buf.Bytes[8192:8192+3000], p.B.Buf.Bytes[8192:8192+3000])
	kit.SameBytes(t, "first bytes of the target, which were written twice", p.B.Buf.Bytes[4096:4106],
		p.A.Buf.Bytes[500:510])
	kit.SameBytes(t, "rest of the target", p.B.Buf.Bytes[4106:4096+2000], p.A.Buf.Bytes[10:2000])
	kit.SameBytes(t, "first message", p.B.Buf.Bytes[:90], p.A.Buf.Bytes[100:190])
	kit.SameBytes(t, "second message", p.B.Buf.Bytes[100:180], p.A.Buf.Bytes[300:380])
}, req.SAS2_1_21)

var _ = rcPostCases.Add("post.list.bad-send",
	"an invalid request at the start, in the middle and at the end of a list", postBadSend, req.SAS2_1_23)

func postBadSend(t *validate.T) {
	p := kit.RC(t)
	attr, err := p.A.Query()
	kit.OK(t, err, "QP.Query")
	id := uint64(1)
	for _, b := range kit.Variants(t, "", []struct {
		what   string
		change func(*ci.SendWR)
		want   ci.Status
	}{
		{"an operation that RC does not support", func(w *ci.SendWR) { w.Op = ci.OpLSO; w.Ext = new(ci.SendExt) },
			ci.InvalidWRType},
		{"too many segments", func(w *ci.SendWR) { w.SGL = make([]ci.SGE, attr.SendSGE+1) }, ci.InvalidMaxSGE},
	}) {
		for _, at := range kit.Variants(t, "position", []int{0, 2, 4}) {
			where := fmt.Sprintf("QP.PostSend of 5 requests, of which number %d has %s", at+1, b.what)
			wrs := p.A.SendWRs(5)
			for i := range wrs {
				wrs[i].ID = id + uint64(i)
			}
			b.change(&wrs[at])
			for i := range at + 1 {
				p.B.Recv(p.B.RecvWR(id+uint64(i), 0, 8))
			}
			n, err := p.A.PostSend(wrs)
			kit.WantTaken(t, where, n, err, at, b.want)
			// The next request to complete, at both ends, is the one posted afterwards, so the rejected requests were
			// not posted.
			mark := id + uint64(at)
			p.A.Send(p.A.SendWR(1000, 0, 3))
			if at > 0 {
				p.A.CQ.WaitOK(ids(id, mark-1)...)
			}
			p.A.CQ.WaitOK(1000)
			wcs := p.B.RecvCQ.WaitOK(ids(id, mark)...)
			kit.Equal(t, "Length of the message posted after "+where, wcs[at].Length, 3)
			id += 5
		}
	}
}

var _ = rcPostCases.Add("post.list.bad-recv",
	"an invalid receive at the start, in the middle and at the end of a list", func(t *validate.T) {
		p := kit.RC(t)
		attr, err := p.B.Query()
		kit.OK(t, err, "QP.Query")
		for _, at := range kit.Variants(t, "position", []int{0, 2, 4}) {
			where := fmt.Sprintf("QP.PostRecv of 5 requests, of which number %d has too many segments", at+1)
			wrs := p.B.RecvWRs(5, 8)
			wrs[at].SGL = make([]ci.SGE, attr.RecvSGE+1)
			n, err := p.B.PostRecv(wrs)
			kit.WantTaken(t, where, n, err, at, ci.InvalidMaxSGE)
			p.B.Recv(p.B.RecvWR(1000, 100, 8))
			for i := range at + 1 {
				p.A.Send(p.A.SendWR(uint64(i+1), 0, 5))
			}
			p.A.CQ.WaitOK(ids(1, uint64(at+1))...)
			p.B.RecvCQ.WaitOK(append(ids(1, uint64(at)), 1000)...)
		}
	}, req.SAS2_1_23)

var _ = rcPostCases.Add("post.list.full", "a list longer than the free part of the queue", func(t *validate.T) {
	p := unanswering(t, kit.Depth(4))
	attr, err := p.A.Query()
	kit.OK(t, err, "QP.Query")
	d := attr.SendDepth
	n, err := p.A.PostSend(p.A.SendWRs(d + 3))
	kit.WantTaken(t, fmt.Sprintf("QP.PostSend of %d requests to a queue of %d", d+3, d), n, err, d,
		ci.InsufficientResources)
	if attr, err = p.B.Query(); err != nil {
		kit.OK(t, err, "QP.Query")
	}
	d = attr.RecvDepth
	n, err = p.B.PostRecv(p.B.RecvWRs(d+3, 8))
	kit.WantTaken(t, fmt.Sprintf("QP.PostRecv of %d requests to a queue of %d", d+3, d), n, err, d,
		ci.InsufficientResources)
	p.B.To(ci.QPError)
	p.B.RecvCQ.WaitFlushed(ids(1, uint64(d))...)
	p.B.WantDrained()
}, req.SAS2_1_23, ciPostSend03)

var _ = rcPostCases.Add("post.list.empty", "an empty list", func(t *validate.T) {
	p := kit.RC(t)
	for _, wrs := range [][]ci.SendWR{nil, {}} {
		n, err := p.A.PostSend(wrs)
		kit.WantTaken(t, "QP.PostSend of no requests", n, err, 0)
	}
	for _, wrs := range [][]ci.RecvWR{nil, {}} {
		n, err := p.B.PostRecv(wrs)
		kit.WantTaken(t, "QP.PostRecv of no requests", n, err, 0)
	}
	p.A.Exchange(p.B, 10)
	p.A.CQ.Empty()
}, rcPostCases.Must("CI-PostSend-06", "CI posting", "QP.PostSend in ci",
	"A post of an empty list succeeds and does nothing."))

var _ = rcPostCases.Add("post.poll-list", "poll several completions in one call", func(t *validate.T) {
	const n, rounds = 8, 20
	p := kit.RC(t)
	largest := 0
	for range rounds {
		p.B.Recv(p.B.RecvWRs(n, 8)...)
		wrs := p.A.SendWRs(n)
		for i := range n - 1 {
			wrs[i].Flags = 0
		}
		p.A.Send(wrs...)
		p.A.CQ.WaitOK(n) // acknowledged receives are in B's CQ now, or soon
		wc := make([]ci.WC, n+3)
		got := 0
		for got < n {
			k, err := p.B.RecvCQ.Poll(wc[got:])
			kit.OK(t, err, "CQ.Poll")
			kit.True(t, k >= 0 && got+k <= n, "CQ.Poll", fmt.Sprintf("at most %d, the remaining completions", n-got),
				"%d", k)
			if k == 0 {
				k = copy(wc[got:], p.B.RecvCQ.Wait(1)) // a late completion
			}
			largest = max(largest, k)
			got += k
		}
		for i := range n {
			kit.Equal(t, "WC.ID of a completion polled with others", wc[i].ID, uint64(i+1))
		}
	}
	kit.True(t, largest > 1,
		fmt.Sprintf("CQ.Poll into %d entries, with %d completions expected, %d times", n+3, n, rounds),
		"more than one completion in one call", "never more than one completion")
}, req.SAS2_1_22)

var ciPostSend03 = rcPostCases.Must("CI-PostSend-03", "IBTA 10.8.2", "ci_post_send (55), ci_post_recv (56)",
	"A queue accepts as many outstanding requests as its depth. The next one fails with InsufficientResources. "+
		"When requests have completed, it accepts as many others.")

var _ = rcPostCases.Add("post.full.send", "fill a send queue", func(t *validate.T) {
	p := kit.NewPairInReset(t, kit.Type(ci.RC), kit.Depth(5))
	p.A.Init()
	p.B.Init()
	p.B.RTR(p.A.QP) // B has no receive yet, so A waits as long as necessary
	p.A.RTR(p.B.QP)
	p.B.RTS()
	p.A.RTS()
	attr, err := p.A.Query()
	kit.OK(t, err, "QP.Query")
	d := attr.SendDepth
	for round := range 2 {
		for i := range d {
			n, err := p.A.PostSend([]ci.SendWR{p.A.SendWR(uint64(i+1), 0, 1)})
			kit.WantTaken(t, fmt.Sprintf("QP.PostSend of request %d to a queue of %d", i+1, d), n, err, 1)
		}
		n, err := p.A.PostSend([]ci.SendWR{p.A.SendWR(99, 0, 1)})
		kit.WantTaken(t, fmt.Sprintf("QP.PostSend of request %d to a queue of %d", d+1, d), n, err, 0,
			ci.InsufficientResources)
		left := d
		for left > 0 {
			k := min(left, p.B.Config.Caps.RecvDepth)
			p.B.Recv(p.B.RecvWRs(k, 8)...)
			p.B.RecvCQ.WaitOK(ids(1, uint64(k))...)
			left -= k
		}
		p.A.CQ.WaitOK(ids(1, uint64(d))...)
		t.Logf("round %d: %d requests accepted and completed", round, d)
	}
}, ciPostSend03)

var _ = rcPostCases.Add("post.full.recv", "fill a receive queue", func(t *validate.T) {
	p := kit.RC(t, kit.Depth(5))
	attr, err := p.B.Query()
	kit.OK(t, err, "QP.Query")
	d := attr.RecvDepth
	for range 2 {
		for i := range d {
			n, err := p.B.PostRecv([]ci.RecvWR{p.B.RecvWR(uint64(i+1), 0, 8)})
			kit.WantTaken(t, fmt.Sprintf("QP.PostRecv of request %d to a queue of %d", i+1, d), n, err, 1)
		}
		n, err := p.B.PostRecv([]ci.RecvWR{p.B.RecvWR(99, 0, 8)})
		kit.WantTaken(t, fmt.Sprintf("QP.PostRecv of request %d to a queue of %d", d+1, d), n, err, 0,
			ci.InsufficientResources)
		for i := range d {
			p.A.Send(p.A.SendWR(1, 0, 1))
			p.A.CQ.WaitOK(1)
			p.B.RecvCQ.WaitOK(uint64(i + 1))
		}
	}
}, ciPostSend03)

var _ = rcPostCases.Add("post.sges", "more segments than the queue supports", func(t *validate.T) {
	p := kit.RC(t, kit.SGEs(1))
	attr, err := p.A.Query()
	kit.OK(t, err, "QP.Query")
	over := make([]ci.SGE, max(attr.SendSGE, attr.RecvSGE)+1)
	for i := range over {
		over[i] = p.A.Buf.SGE(uint64(i), 1)
	}
	for _, op := range kit.Variants(t, "opcode", []ci.SendOp{ci.OpSend, ci.OpWrite, ci.OpRead}) {
		w := p.A.RDMA(op, 1, 0, 1, p.B, 0)
		w.SGL = over[:attr.SendSGE+1]
		n, err := p.A.PostSend([]ci.SendWR{w})
		kit.WantTaken(t,
			fmt.Sprintf("QP.PostSend of operation %d with %d segments to a queue with %d", op, len(w.SGL),
				attr.SendSGE),
			n, err, 0, ci.InvalidMaxSGE)
	}
	n, err := p.A.PostRecv([]ci.RecvWR{{SGL: over[:attr.RecvSGE+1]}})
	kit.WantTaken(t, fmt.Sprintf("QP.PostRecv with %d segments to a queue with %d", attr.RecvSGE+1, attr.RecvSGE), n,
		err, 0, ci.InvalidMaxSGE)
	p.A.Exchange(p.B, 1)
	p.B.Exchange(p.A, 1)
	if m := t.Attr().MaxReadSGEs; m < t.Attr().MaxSGEs {
		q := p.Another(kit.SGEs(m + 1))
		w := q.A.RDMA(ci.OpRead, 1, 0, 1, q.B, 0)
		for len(w.SGL) <= m {
			w.SGL = append(w.SGL, q.A.Buf.SGE(0, 1))
		}
		n, err := q.A.PostSend([]ci.SendWR{w})
		kit.WantTaken(t, "QP.PostSend of a read with more than MaxReadSGEs segments", n, err, 0, ci.InvalidMaxSGE)
	}
}, rcPostCases.Must("CI-PostSend-04", "IBTA 11.4.1.1", "ci_post_send (55), ci_post_recv (56)",
	"A request with more segments than the queue supports fails with InvalidMaxSGE and is not posted."))

var _ = rcPostCases.Add("post.copied", "overwrite a request directly after the post", func(t *validate.T) {
	p := kit.RC(t)
	kit.Random(t, p.A.Buf.Bytes[:512])
	p.B.Buf.Blank()
	sgl := p.A.Buf.SGL(0, 256)
	wrs := []ci.SendWR{{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: sgl}}
	p.A.Send(wrs...) // no receive is posted, so it waits
	sgl[0] = ci.SGE{Addr: 1, Length: 9, LKey: 2}
	wrs[0] = ci.SendWR{ID: 77, Op: ci.OpRead, SGL: sgl}
	rsgl := p.B.Buf.SGL(1024, 256)
	recv := []ci.RecvWR{{ID: 5, SGL: rsgl}}
	p.B.Recv(recv...)
	rsgl[0] = ci.SGE{Addr: 3, Length: 4, LKey: 5}
	recv[0].ID = 78
	p.A.CQ.WaitOK(1)
	kit.Equal(t, "Length", p.B.RecvCQ.WaitOK(5)[0].Length, 256)
	p.B.Buf.WantOnly(t, "message whose requests were overwritten after the posts", 1024, p.A.Buf.Bytes[:256])
	// The same holds for posted receives and for a write.
	for i := range 2 {
		rsgl[0], recv[0] = p.B.Buf.SGE(uint64(64*i), 64), ci.RecvWR{ID: uint64(i), SGL: rsgl}
		p.B.Recv(recv...)
	}
	rsgl[0], recv[0] = ci.SGE{}, ci.RecvWR{}
	for i := range 2 {
		p.A.Send(p.A.SendWR(9, 64*i, 64))
		p.A.CQ.WaitOK(9)
		p.B.RecvCQ.WaitOK(uint64(i))
	}
	kit.SameBytes(t, "messages into receives that used the same list", p.B.Buf.Bytes[:128], p.A.Buf.Bytes[:128])
}, rcPostCases.Must("CI-PostSend-05", "CI posting", "QP.PostSend in ci",
	"When a post returns, its requests, segment lists and inline data belong to the caller again: later changes "+
		"to them have no effect."))

// The case posts to a peer that does not answer, in one list and then one by one. The second part compares the time of
// a post with that of a post to a peer that answers, since the machine may be busy.
var _ = rcPostCases.Add("post.returns", "post to a peer that does not answer", func(t *validate.T) {
	first := kit.RC(t)
	if !postListReturns(t, silentPeer(first)) {
		return
	}
	const each, allowance = 16, 50 * time.Millisecond
	first.B.Recv(first.B.RecvWRs(each, 8)...)
	usual := medianPost(first.A, each)
	first.A.CQ.WaitOK(ids(1, each)...)
	p := silentPeer(first)
	took := medianPost(p.A, each)
	kit.True(t, took <= 10*usual+allowance, "time of QP.PostSend to a peer that does not answer",
		fmt.Sprintf("at most %v: a post to one that does takes %v", 10*usual+allowance, usual), "%v", took)
	p.A.To(ci.QPError)
	p.A.CQ.WaitFlushed(ids(1, each)...)
}, req.SAS2_3_19)

// silentPeer returns another pair in which A can send, while B stays in Init and drops what arrives. A has no ACK
// timeout.
func silentPeer(first *kit.Pair) *kit.Pair {
	p := first.AnotherInReset(kit.AckTime(0))
	p.A.Init()
	p.B.Init()
	p.A.RTR(p.B.QP)
	p.A.RTS()
	return p
}

// postListReturns posts a list, and reports whether the call returned.
func postListReturns(t *validate.T, p *kit.Pair) (returned bool) {
	done := make(chan struct{})
	t.Go(func() {
		defer close(done)
		n, err := p.A.PostSend(p.A.SendWRs(4))
		if n != 4 || err != nil {
			t.Report(validate.Failure{Where: "QP.PostSend to a peer that does not answer",
				Expected: "4 requests accepted", Got: fmt.Sprintf("%d accepted, %s", n, kit.Describe(err))})
		}
	})
	patience := time.NewTimer(t.Remaining() / 4)
	defer patience.Stop()
	select {
	case <-done:
		returned = true
	case <-patience.C:
		t.Report(validate.Failure{Where: "QP.PostSend to a peer that does not answer",
			Expected: "return of the call", Got: "no return"})
	}
	if err := p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}); err != nil { // ends a blocked call
		t.Report(validate.Failure{Where: "QP.Modify to Error", Expected: "success", Got: kit.Describe(err)})
	}
	p.A.CQ.WaitFlushed(1, 2, 3, 4)
	return returned
}

// medianPost posts n requests one by one and returns the median of the times that the calls took.
func medianPost(e *kit.End, n int) time.Duration {
	var times []time.Duration
	for _, w := range e.SendWRs(n) {
		start := time.Now()
		e.Send(w)
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[n/2]
}

var ciSignal01 = rcPostCases.Must("CI-Signal-01", "IBTA 10.8.6", "SIGNALED; ib_qp_create_t.sq_signaled",
	"A successful send completes exactly if it is signaled or its QP was created with SignalAll.")

var _ = rcPostCases.Add("post.signal.flag", "signaled and unsignaled sends", func(t *validate.T) {
	const n = 12
	p := kit.RC(t)
	p.B.Recv(p.B.RecvWRs(n, 8)...)
	wrs := p.A.SendWRs(n)
	var want []uint64
	for i := range wrs {
		if i%3 != 2 {
			wrs[i].Flags = 0
		} else {
			want = append(want, wrs[i].ID)
		}
	}
	p.A.Send(wrs...)
	p.A.CQ.WaitOK(want...)
	p.B.RecvCQ.WaitOK(ids(1, n)...)
	p.A.CQ.Empty()
}, ciSignal01)

var _ = rcPostCases.Add("post.signal.all", "SignalAll without flags", func(t *validate.T) {
	const n = 6
	p := kit.RC(t, kit.Flags(ci.QPSignalAll))
	p.B.Recv(p.B.RecvWRs(n, 8)...)
	wrs := p.A.SendWRs(n)
	for i := range wrs {
		if i%2 == 0 {
			wrs[i].Flags = 0
		}
	}
	p.A.Send(wrs...)
	p.A.CQ.WaitOK(ids(1, n)...)
	p.A.CQ.Empty()
}, ciSignal01)

var _ = rcPostCases.Add("post.signal.freed",
	"a queue of 4 with one signaled send in four, 40 rounds", func(t *validate.T) {
		p := kit.RC(t, kit.Depth(4))
		for round := range 40 {
			p.B.Recv(p.B.RecvWRs(4, 8)...)
			wrs := p.A.SendWRs(4)
			for i := range 3 {
				wrs[i].Flags = 0
			}
			n, err := p.A.PostSend(wrs)
			kit.WantTaken(t, fmt.Sprintf("QP.PostSend of 4 requests to a queue of 4, round %d", round+1), n, err, 4)
			p.A.CQ.WaitOK(4)
			p.B.RecvCQ.WaitOK(1, 2, 3, 4)
		}
	}, rcPostCases.Must("CI-Signal-02", "IBTA 10.8.6", "SIGNALED",
		"Queue entries of unsignaled sends are free again when a later signaled one has completed."))

var _ = rcPostCases.Add("post.signal.error", "an unsignaled send fails", func(t *validate.T) {
	p := kit.RC(t)
	wrs := p.A.SendWRs(3)
	for i := range wrs {
		wrs[i].Flags = 0
	}
	wrs[0].SGL[0].LKey ^= 0x5a5a00
	p.A.Send(wrs...)
	p.A.CQ.WaitStatus(1, ci.WCLocalProtErr)
	p.A.CQ.WaitFlushed(2, 3)
	p.A.Becomes(ci.QPError)
	p.A.WantDrained()
}, rcPostCases.Must("CI-Signal-03", "IBTA 10.8.6", "SIGNALED",
	"A send that fails or is flushed completes, whether it is signaled or not."))

var ciInline01 = rcPostCases.Must("CI-Inline-01", "IBTA 11.4.1.1", "INLINE; SendWR.Inline",
	"Inline data are sent as they were when they were posted. They need no region.")

var _ = rcPostCases.Needing(validate.Needs{Attr: inline16}).Add("post.inline.overwritten",
	"inline data overwritten directly after the post", inlineOverwritten, ciInline01)

func inlineOverwritten(t *validate.T) {
	n := min(64, t.Attr().MaxInline)
	p := kit.RC(t, kit.Inline(n))
	sent := kit.Random(t, make([]byte, n))
	data := append([]byte(nil), sent...)
	p.B.Buf.Blank()
	p.A.Send(ci.SendWR{ID: 1, Op: ci.OpSend, Flags: ci.SendSignaled, Inline: data}) // no receive is posted, so it waits
	clear(data)
	p.B.Recv(p.B.RecvWR(1, 0, n))
	p.A.CQ.WaitOK(1)
	kit.Equal(t, "Length", p.B.RecvCQ.WaitOK(1)[0].Length, uint32(n))
	p.B.Buf.WantOnly(t, "inline data overwritten after the post", 0, sent)
}

var _ = rcPostCases.Needing(validate.Needs{Attr: inline16}).Add("post.inline.sizes",
	"inline sends and writes of 0 bytes to MaxInline bytes", func(t *validate.T) { inlineSizes(t, ci.RC) }, ciInline01)

var _ = ucCases.Needing(validate.Needs{Caps: ci.CapUC, Attr: inline16}).Add("uc.inline",
	"inline sends and writes of 0 bytes to MaxInline bytes", func(t *validate.T) { inlineSizes(t, ci.UC) }, ciInline01)

func inlineSizes(t *validate.T, service ci.QPType) {
	maxInline := min(256, t.Attr().MaxInline)
	p := kit.NewPair(t, kit.Type(service), kit.Inline(maxInline))
	data := kit.Random(t, make([]byte, maxInline))
	for i, n := range kit.Variants(t, "count", []int{1, maxInline, maxInline - 1, 7, 0}) {
		id := uint64(i + 1)
		p.B.Buf.Blank()
		p.B.Recv(p.B.RecvWR(id, 0, n))
		p.A.Send(
			ci.SendWR{ID: id, Op: ci.OpWrite, Flags: ci.SendSignaled, Inline: data[:n], Remote: p.B.Buf.Remote(4096)},
			ci.SendWR{ID: id, Op: ci.OpSend, Flags: ci.SendSignaled, Inline: data[:n]})
		p.A.CQ.WaitOK(id, id)
		kit.Equal(t, "Length of the inline data", p.B.RecvCQ.WaitOK(id)[0].Length, uint32(n))
		kit.SameBytes(t, "inline data sent", p.B.Buf.Bytes[:n], data[:n])
		kit.SameBytes(t, "inline data written", p.B.Buf.Bytes[4096:4096+n], data[:n])
	}
}

// The case sends as much inline data as a QP was created for. A queue whose elements are made for a whole number of
// words may have one byte too few.
var _ = rcPostCases.Needing(validate.Needs{Attr: inline16}).Add("post.inline.exact",
	"QPs with each length of inline data around a multiple of 8, which they send", func(t *validate.T) {
		p := kit.RC(t, kit.Depth(1), kit.Size(1024))
		for n := 8; n < min(520, t.Attr().MaxInline); n += 8 {
			for _, n := range []int{n, n + 1} {
				p.A.Config.Caps.MaxInline = n
				q := p.More(true)
				data := kit.Random(t, make([]byte, n))
				id := uint64(n)
				q.B.Recv(q.B.RecvWR(id, 0, 1024))
				q.A.Send(ci.SendWR{ID: id, Op: ci.OpSend, Flags: ci.SendSignaled, Inline: data})
				p.A.CQ.WaitOK(id)
				what := fmt.Sprintf("inline data of a QP created for %d bytes", n)
				kit.Equal(t, "Length of "+what, p.B.RecvCQ.WaitOK(id)[0].Length, uint32(n))
				kit.SameBytes(t, what, q.B.Buf.Bytes[:n], data)
				kit.Destroy(t, q.A.QP.QP, "QP")
				kit.Destroy(t, q.B.QP.QP, "QP")
			}
		}
	}, ciInline01)

var _ = rcPostCases.Needing(validate.Needs{Attr: inline16}).Add("post.inline.too-long",
	"inline data that are too long, or in a read", func(t *validate.T) {
		p := kit.RC(t, kit.Inline(16))
		attr, err := p.A.Query()
		kit.OK(t, err, "QP.Query")
		long := make([]byte, attr.MaxInline+1)
		for _, op := range kit.Variants(t, "opcode", []ci.SendOp{ci.OpSend, ci.OpWrite}) {
			n, err := p.A.PostSend([]ci.SendWR{{Op: op, Inline: long, Remote: p.B.Buf.Remote(0)}})
			kit.WantTaken(t,
				fmt.Sprintf("QP.PostSend of operation %d with %d bytes of inline data, MaxInline %d", op, len(long),
					attr.MaxInline), n, err, 0, ci.InvalidParameter)
		}
		n, err := p.A.PostSend([]ci.SendWR{{Op: ci.OpRead, Inline: long[:8], Remote: p.B.Buf.Remote(0)}})
		kit.WantTaken(t, "QP.PostSend of a read with inline data", n, err, 0, ci.InvalidParameter)
		p.A.Exchange(p.B, 4)
	}, rcPostCases.Must("CI-Inline-02", "IBTA 11.4.1.1", "INLINE; QPCaps.MaxInline",
		"Inline data longer than the QP's MaxInline, or in an operation that sends no data, fail with "+
			"InvalidParameter."))

var _ = rcPostCases.Add("post.fence", "a fenced send of data that a read returns", func(t *validate.T) {
	const n = 32 << 10
	p := kit.RC(t, kit.Size(2*n))
	for round := range 10 {
		kit.Random(t, p.B.Buf.Bytes[:n])
		clear(p.A.Buf.Bytes[:n])
		p.B.Recv(p.B.RecvWR(1, n, n))
		w := p.A.SendWR(2, 0, n)
		w.Flags |= ci.SendFence
		p.A.Send(p.A.RDMA(ci.OpRead, 1, 0, n, p.B, 0), w)
		p.A.CQ.WaitOK(1, 2)
		p.B.RecvCQ.WaitOK(1)
		kit.SameBytes(t, fmt.Sprintf("fenced send of the data of a read, round %d", round+1), p.B.Buf.Bytes[n:],
			p.B.Buf.Bytes[:n])
	}
}, rcPostCases.Must("CI-Fence-01", "IBTA 10.8.3.3", "FENCE",
	"A request with SendFence starts after earlier reads of its queue have completed, so it sends the data that "+
		"they have returned."))

var _ = rcPostCases.Add("post.solicited",
	"solicited and other messages, with a CQ armed for solicited ones", func(t *validate.T) {
		a, b := kit.OpenPair(t)
		var calls atomic.Int32
		called := make(chan struct{}, 16)
		c := kit.Options(a, b)
		from := a.End(c)
		pd := b.PD()
		cq := b.CQWith(pd, ci.CQCreate{Size: 16, OnCompletion: func(any) { calls.Add(1); called <- struct{}{} }})
		to := b.QP(pd, cq, cq, kit.With(func(o *kit.Config) { *o = c }))
		buf := b.Buf(pd, 64, kit.AllAccess)
		kit.Connect(from.QP, to)
		for round, op := range kit.Variants(t, "opcode", []ci.SendOp{ci.OpSend, ci.OpWrite}) {
			kit.OK(t, cq.Notify(ci.NotifySolicited), "CQ.Notify")
			w := from.SendWR(1, 0, 4)
			w.Op, w.Remote, w.Imm = op, buf.Remote(32), 1
			w.Flags |= ci.SendImmediate
			for range 3 {
				to.Recv(ci.RecvWR{ID: 1, SGL: buf.SGL(0, 4)})
				from.Send(w)
				from.CQ.WaitOK(1)
				cq.WaitOK(1)
			}
			cq.Quiet(2 * time.Millisecond)
			kit.Equal(t, "callbacks of a CQ armed for solicited completions, after three unsolicited ones",
				int(calls.Load()), round)
			w.Flags |= ci.SendSolicited
			to.Recv(ci.RecvWR{ID: 2, SGL: buf.SGL(0, 4)})
			from.Send(w)
			from.CQ.WaitOK(1)
			patience := time.NewTimer(t.Remaining())
			select {
			case <-called:
			case <-patience.C:
				t.Failf("CQ armed for solicited completions", "a callback for a solicited message",
					"no callback by the deadline")
			}
			patience.Stop()
			cq.WaitOK(2)
		}
	}, rcPostCases.Must("CI-Solicited-01", "IBTA 9.2.3", "SOLICITED",
		"A CQ armed for solicited completions makes a callback for a message sent with SendSolicited, and none for "+
			"other messages."))
