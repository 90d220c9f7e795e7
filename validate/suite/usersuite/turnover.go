package usersuite

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Processes that use many queues of the driver's user library, at once and one after the other. (SAS 2.4.)
var turnovers = area()

var _ = turnovers.Needing(validate.Needs{Caps: ci.CapUser, Attr: manyObjects}).With(
	validate.Case{Timeout: 45 * time.Second}).Add("user.library.many",
	"a process with thousands of QPs, of which each has its work done", libraryMany, req.SAS2_4_17)

// libraryMany creates more than 4,096 QPs. A driver may mark those with work by the bits of 64-bit words, and the words
// by the bits of one more word, which has no room for more. The case uses the QPs around each power of two and the last
// ones, each alone and then all of them together. The ends of a pair belong to two opened adapters, of which one must
// have that number.
func libraryMany(t *validate.T) {
	const number = 64*64 + 200
	lib := *t.UserLibrary()
	s := startStage(t, new(trace), nil)
	a := s.with(&lib)
	p := a.pair(kit.Depth(1))
	most := min(number, t.Attr().MaxQPs-2)
	qps := make([]ci.QP, 0, most)
	ends := map[int]*kit.Pair{}
	isUsed := func(i int) bool { // the QPs of a pair follow one another
		n := i &^ 1
		return n < 4 || n&(n-1) == 0 || (n+2)&(n+1) == 0 || n >= 64*64
	}
	for len(qps) < most {
		if i := len(qps); isUsed(i) && i+1 < most {
			x := p.Another(kit.Depth(1))
			ends[i] = x
			qps = append(qps, x.A.QP.QP, x.B.QP.QP)
			continue
		}
		qp, err := p.A.PD.CreateQP(ci.QPCreate{QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1},
			SendCQ: p.A.CQ.CQ, RecvCQ: p.A.CQ.CQ})
		if err != nil {
			kit.WantRefused(t, qp, err, fmt.Sprintf("PD.CreateQP, number %d of a process", len(qps)+1),
				ci.InsufficientResources)
			t.Note("the process has %d QPs: %v", len(qps), err)
			break
		}
		qps = append(qps, qp)
	}
	t.Step("%d QPs, %d of them connected", len(qps), 2*len(ends))
	for i, x := range ends {
		t.Step("pair of QPs %d and %d", i+1, i+2)
		x.A.Exchange(x.B, 100)
		x.B.Exchange(x.A, 100)
	}
	t.Step("all pairs at once")
	for _, x := range ends {
		x.B.Recv(x.B.RecvWR(2, 0, 100))
		x.A.Recv(x.A.RecvWR(2, 0, 100))
	}
	for _, x := range ends {
		x.A.Send(x.A.SendWR(1, 0, 100))
		x.B.Send(x.B.SendWR(1, 0, 100))
	}
	for _, x := range ends {
		for _, q := range []*kit.CQ{x.A.CQ, x.B.CQ, x.A.RecvCQ, x.B.RecvCQ} {
			for _, wc := range q.Wait(1) {
				kit.True(t, wc.Status == ci.WCSuccess, "completion of one of many QPs", "success", "%s",
					kit.Completions([]ci.WC{wc}))
			}
		}
	}
	a.cut()
	s.gone("the daemon after a process with many QPs")
}

var _ = turnovers.Needing(validate.Needs{Caps: ci.CapUser, Attr: manyObjects}).With(
	validate.Case{Timeout: 60 * time.Second}).Add("user.library.resized",
	"queues that a process resizes again and again", libraryResized, req.SAS2_4_06)

// libraryResized resizes queues so often that they need, in total, more memory than a driver shares with a process. In
// between, it creates queues, which must not get memory that another queue still has.
func libraryResized(t *validate.T) {
	const total = 280 << 20
	claims, attr := t.Claims(), t.Attr()
	if !claims.Has(ci.CapResizeCQ) && !claims.Has(ci.CapSRQ|ci.CapModifySRQDepth) {
		t.Skip("the driver claims neither CapResizeCQ nor CapModifySRQDepth")
	}
	lib := *t.UserLibrary()
	s := startStage(t, new(trace), nil)
	a := s.with(&lib)
	p := a.pair(kit.Depth(4))
	// both resizes a queue to each of two sizes in turn, so that it moves each time, and tests the queue by use. A pair
	// that was created meanwhile must not share memory with it.
	both := func(sizes [2]int, entry int, resize func(int) error, use func()) {
		var pairs []*kit.Pair
		for i := range min(2*total/((sizes[0]+sizes[1])*entry), 500) { // odd adapters have small queues
			n := sizes[i%2]
			kit.OK(t, resize(n), fmt.Sprintf("resize %d, to %d", i+1, n))
			if i < 8 {
				pairs = append(pairs, p.Another(kit.Depth(4)))
			}
			if i >= 8 && i%32 != 0 {
				continue
			}
			use()
			for _, x := range append(pairs, p) {
				x.A.Exchange(x.B, 100)
			}
			use()
		}
		for _, x := range pairs {
			kit.Destroy(t, x.A.QP.QP, "QP")
			kit.Destroy(t, x.B.QP.QP, "QP")
		}
	}
	if claims.Has(ci.CapResizeCQ) {
		x := p.Another(kit.Depth(4))
		size := min(attr.MaxCQEs, 1<<16)
		const entry = 32 // bytes that a completion needs, at least
		both([2]int{size, size/2 - 1}, entry, func(n int) error {
			// Completions wait while the queue moves.
			x.B.Recv(x.B.RecvWRs(3, 16)...)
			x.A.Send(x.A.SendWRs(3)...)
			x.B.RecvCQ.WaitOK(1, 2, 3)
			_, err := x.A.CQ.Resize(ci.CQResize{Size: n})
			x.A.CQ.WaitOK(1, 2, 3)
			return err
		}, func() { x.A.Exchange(x.B, 100) })
		_, err := x.A.CQ.Resize(ci.CQResize{Size: 1})
		kit.OK(t, err, "CQ.Resize to 1")
		x.A.Exchange(x.B, 100)
	}
	if claims.Has(ci.CapSRQ | ci.CapModifySRQDepth) {
		srq, err := p.B.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		kit.OK(t, err, "PD.CreateSRQ")
		kit.Own(t, srq, "SRQ")
		qa := p.A.QP.CA.QP(p.A.PD, p.A.CQ, p.A.RecvCQ)
		qb := p.B.QP.CA.QP(p.B.PD, p.B.CQ, p.B.RecvCQ, kit.WithSRQ(srq))
		kit.Connect(qa, qb)
		depth := min(attr.MaxSRQWRs, 1<<15)
		const entry = 32 // bytes that a receive needs, at least
		next, oldest := uint64(100), uint64(100)
		post := func() {
			took, err := srq.PostRecv([]ci.RecvWR{p.B.RecvWR(next, 0, 16)})
			kit.WantTaken(t, "SRQ.PostRecv", took, err, 1)
			next++
		}
		both([2]int{depth, depth/2 - 1}, entry, func(n int) error {
			post()
			err := srq.Modify(ci.SRQFieldMaxWR, ci.SRQAttr{MaxWR: n})
			post()
			for ; oldest+1 < next; oldest++ {
				qa.Send(p.A.SendWR(5, 0, 16))
				p.A.CQ.WaitOK(5)
				p.B.RecvCQ.WaitOK(oldest)
			}
			return err
		}, func() {})
	}
	a.cut()
	s.gone("the daemon after queues that were resized often")
}
