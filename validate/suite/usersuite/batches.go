package usersuite

import (
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The data path without bypass, and with the functions of a library. (SAS 2.1, SAS 2.4.)
var batches = area()

var _ = batches.Add("user.batch.messages",
	"lists of requests and completions cross the process boundary in one message each", batchMessages,
	req.SAS2_1_24)

func batchMessages(t *validate.T) {
	s := newStage(t)
	p := s.with().pair(kit.Depth(16))
	s.trace.take()
	n, err := p.B.PostRecv(p.B.RecvWRs(16, 1))
	kit.OK(t, err, "QP.PostRecv of 16 requests")
	kit.Equal(t, "requests accepted", n, 16)
	s.trace.want(t, "messages of a PostRecv of 16 requests", "message QP.PostRecv")
	n, err = p.A.PostSend(p.A.SendWRs(16))
	kit.OK(t, err, "QP.PostSend of 16 requests")
	kit.Equal(t, "requests accepted", n, 16)
	s.trace.want(t, "messages of a PostSend of 16 requests", "message QP.PostSend")
	p.A.CQ.Wait(16)
	s.trace.take()
	var wc [32]ci.WC
	polls, total := 0, 0
	s.await("completions of 16 receives", "16", func() string {
		polls++
		n, err := p.B.RecvCQ.CQ.Poll(wc[:])
		kit.OK(t, err, "CQ.Poll")
		if total += n; total < 16 {
			return "fewer"
		}
		return ""
	})
	kit.Equal(t, "messages of the calls of Poll with room for 32 completions", s.trace.count("message CQ.Poll"), polls)
}

var _ = batches.Add("user.batch.time", "a list of 64 requests takes less time than 64 posts", func(t *validate.T) {
	const depth, rounds = 64, 5
	s := newStage(t)
	ca := s.with().open()
	pd := ca.PD()
	cq := ca.CQ(pd, depth)
	qp := ca.QP(pd, cq, cq, kit.Depth(depth), kit.SGEs(1))
	buf := ca.Buf(pd, depth, kit.AllAccess)
	wrs := make([]ci.RecvWR, depth)
	for i := range wrs {
		wrs[i] = ci.RecvWR{ID: uint64(i), SGL: buf.SGL(i, 1)}
	}
	// measure returns the shortest time of some rounds of posts.
	measure := func(size int) time.Duration {
		best := time.Hour
		for range rounds {
			kit.OK(t, qp.Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: ca.Port.Num}), "QP.Modify to Init")
			begin := time.Now()
			for at := 0; at < depth; at += size {
				_, err := qp.PostRecv(wrs[at : at+size])
				kit.OK(t, err, "QP.PostRecv")
			}
			best = min(best, time.Since(begin))
			kit.OK(t, qp.Modify(ci.ToError()), "QP.Modify to Error")
			cq.Wait(depth)
			kit.OK(t, qp.Modify(ci.ToReset()), "QP.Modify to Reset")
		}
		return best
	}
	single, list := measure(1), measure(depth)
	kit.True(t, list < single/2, "time to post 64 requests in one list", "less than half of the time of 64 posts",
		"%v and %v", list, single)
}, req.SAS2_1_25)

var _ = batches.Add("user.no-bypass.traffic", "traffic of a process without a user library", func(t *validate.T) {
	s := newStage(t)
	p := s.with().pair()
	for _, n := range []int{0, 1, 3000, 20000} {
		p.A.Exchange(p.B, n)
		p.B.Exchange(p.A, n)
	}
	kit.OK(t, p.B.RecvCQ.Notify(ci.NotifyNext), "CQ.Notify")
	for _, verb := range []string{"QP.PostSend", "QP.PostRecv", "CQ.Poll", "CQ.Notify"} {
		kit.AtLeast(t, "messages of "+verb, s.trace.count("message "+verb), 1)
	}
}, req.SAS2_4_16)

var _ = batches.Add("user.bypass.functions",
	"a library's functions replace the verbs of the data path, which then send no message", bypassFunctions,
	req.SAS0_03)

func bypassFunctions(t *validate.T) {
	s := newStage(t)
	a := s.app()
	calls := map[string]int{}
	a.lib.after(func(_ string, x any, _ *ci.UserBuffer, err error) error {
		switch x := x.(type) {
		case *ci.UserCreateCQ:
			x.CQ.Poll = func([]ci.WC) (int, error) { calls["Poll"]++; return 0, nil }
			x.CQ.Peek = func() (int, error) { calls["Peek"]++; return 0, nil }
			x.CQ.Notify = func(ci.Notify) error { calls["Notify"]++; return nil }
			x.CQ.NotifyAfter = func(int) error { calls["NotifyAfter"]++; return nil }
		case *ci.UserCreateQP:
			x.QP.PostSend = func(wrs []ci.SendWR) (int, error) { calls["PostSend"] += len(wrs); return len(wrs), nil }
			x.QP.PostRecv = func(wrs []ci.RecvWR) (int, error) { calls["PostRecv"] += len(wrs); return len(wrs), nil }
		}
		return nil
	})
	ca := a.open()
	pd := ca.PD()
	cq := ca.CQ(pd, 8)
	qp := ca.QP(pd, cq, cq)
	s.trace.take()
	_, err := qp.PostSend(make([]ci.SendWR, 3))
	kit.OK(t, err, "QP.PostSend, which the library replaces")
	_, err = qp.PostRecv(make([]ci.RecvWR, 2))
	kit.OK(t, err, "QP.PostRecv, which the library replaces")
	_, err = cq.CQ.Poll(make([]ci.WC, 1))
	kit.OK(t, err, "CQ.Poll, which the library replaces")
	_, err = cq.Peek()
	kit.OK(t, err, "CQ.Peek, which the library replaces")
	kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify, which the library replaces")
	kit.OK(t, cq.NotifyAfter(1), "CQ.NotifyAfter, which the library replaces")
	s.trace.want(t, "messages of verbs that the library replaces")
	for verb, n := range map[string]int{"PostSend": 3, "PostRecv": 2, "Poll": 1, "Peek": 1, "Notify": 1,
		"NotifyAfter": 1} {
		kit.Equal(t, "requests that the library's "+verb+" has received", calls[verb], n)
	}
}
