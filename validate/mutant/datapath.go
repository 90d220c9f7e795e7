package mutant

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// DataPath returns mutants with faults in messages and in posting.
func DataPath() []Mutant {
	return slices.Concat(messageMutants(), postMutants(), stateMutants())
}

func messageMutants() []Mutant {
	return []Mutant{
		Of("send.packet-short", "IBTA-9.7-01", "a message of one full packet loses its last byte",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpSend && total(w.SGL) == 1024 {
					shorten(w.SGL)
				}
			})),
		Of("send.zero-as-one", "IBTA-9.7-01", "an empty message is sent with one byte",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpSend && len(w.SGL) > 0 && total(w.SGL) == 0 {
					w.SGL[0].Length = 1
				}
			})),
		Of("send.completions-reversed", "IBTA-9.7-02", "completions polled together are returned newest first",
			tap.CQs(func(c ciwrap.CQ) ci.CQ { return reversedCQ{c} })),
		Of("send.mtu-256", "IBTA-9.7-03", "every connection has a path MTU of 256",
			tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldMTU != 0 {
					a.MTU = ci.MTU256
				}
			})),
		Of("send.gather-reversed", "CI-PostSend-01", "segments of a send are gathered in reverse order",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpSend {
					slices.Reverse(w.SGL)
				}
			})),
		Of("send.gather-last", "CI-PostSend-01", "a last segment of one byte is read from the byte after it",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if n := len(w.SGL); w.Op == ci.OpWrite && n > 1 && w.SGL[n-1].Length == 1 {
					w.SGL[n-1].Addr++
				}
			})).By("rc.send.gather-last"),
		Of("send.scatter-last", "CI-PostRecv-01", "a last segment of one byte is filled one byte too far",
			tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				wrs = slices.Clone(wrs)
				for i := range wrs {
					if n := len(wrs[i].SGL); n > 1 && wrs[i].SGL[n-1].Length == 1 {
						wrs[i].SGL = slices.Clone(wrs[i].SGL)
						wrs[i].SGL[n-1].Addr++
					}
				}
				return q.PostRecv(wrs)
			})).By("rc.send.gather-last"),
		Of("send.scatter-reversed", "CI-PostRecv-01", "segments of a receive are filled in reverse order",
			tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				wrs = slices.Clone(wrs)
				for i := range wrs {
					wrs[i].SGL = slices.Clone(wrs[i].SGL)
					slices.Reverse(wrs[i].SGL)
				}
				return q.PostRecv(wrs)
			})),
		Of("send.immediate-swapped", "CI-PostSend-02", "immediate data are sent in the wrong byte order",
			tap.Poll(func(wc *ci.WC) {
				if wc.Flags&ci.WCImmediate != 0 {
					wc.Imm = bits.ReverseBytes32(wc.Imm)
				}
			})),
		Of("send.immediate-always", "CI-PostSend-02", "every message carries immediate data",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpSend && w.Flags&ci.SendInvalidate == 0 {
					w.Flags |= ci.SendImmediate
				}
			})),
		Of("wc.no-context", "SAS-2.1-07", "completions of a shared CQ carry the context of the first QP seen",
			firstContext),
		Of("wc.recv-op", "SAS-2.3-23",
			"the completion of a receive taken by a write with immediate has the operation of a send",
			tap.Poll(func(wc *ci.WC) {
				if wc.Status == ci.WCSuccess && wc.Op == ci.WCRecvWrite {
					wc.Op = ci.WCRecv
				}
			})),
		Of("wc.id-32", "SAS-2.3-23", "completions lose the upper half of their ids",
			tap.Poll(func(wc *ci.WC) { wc.ID &= 1<<32 - 1 })),
		Of("wc.send-op", "CI-WC-01", "every completion of a send queue has the operation of a send",
			tap.Poll(func(wc *ci.WC) {
				if !wc.Op.IsRecv() {
					wc.Op = ci.WCSend
				}
			})),
		Of("qp.used-up", "SAS-2.3-27", "destroyed QPs are never released, and there are only 24", usedUp),
	}
}

func postMutants() []Mutant {
	return []Mutant{
		Of("post.list-reversed", "SAS-2.1-21", "a list of sends is posted in reverse order",
			tap.Sends(func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR { slices.Reverse(wrs); return wrs })),
		Of("post.recv-list-one", "SAS-2.1-21", "only the first receive of a list is posted, and success is returned",
			tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				n, err := q.PostRecv(wrs[:min(1, len(wrs))])
				if err == nil {
					n = len(wrs)
				}
				return n, err
			})),
		Of("post.bad-skipped", "SAS-2.1-23", "requests after a bad one are posted",
			tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				if err != nil && n+1 < len(wrs) {
					_, _ = q.PostSend(wrs[n+1:])
				}
				return n, err
			})),
		Of("post.count-off", "SAS-2.1-23", "the number of requests taken includes the bad one",
			tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				if err != nil && n < len(wrs) {
					n++
				}
				return n, err
			})),
		Of("post.recv-all-or-none", "SAS-2.1-23", "a list of receives with a bad one is rejected as a whole",
			tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				attr, err := q.Query()
				if err == nil && slices.ContainsFunc(wrs, func(w ci.RecvWR) bool { return len(w.SGL) > attr.RecvSGE }) {
					return 0, &ci.Error{Verb: "QP.PostRecv", Status: ci.InvalidMaxSGE}
				}
				return q.PostRecv(wrs)
			})),
		Of("post.poll-one", "SAS-2.1-22", "Poll returns one completion at a time",
			tap.CQs(func(c ciwrap.CQ) ci.CQ { return oneByOne{c} })),
		Of("post.full-dropped", "CI-PostSend-03", "a request to a full queue is dropped, and success is returned",
			answers(ci.InsufficientResources, ci.Success)),
		Of("post.full-status", "CI-PostSend-03", "a full queue returns InvalidMaxWRs",
			answers(ci.InsufficientResources, ci.InvalidMaxWRs)),
		Of("post.sges-cut", "CI-PostSend-04", "segments above the limit are dropped",
			tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				if ci.StatusOf(err) == ci.InvalidMaxSGE {
					return len(wrs), nil
				}
				return n, err
			})),
		Of("post.late", "CI-PostSend-05", "requests are read when the CQ is polled, not when they are posted",
			lateReader()),
		Of("post.late-inline", "CI-Inline-01", "inline data are read when the CQ is polled, not when they are posted",
			lateReader()),
		Of("post.waits", "SAS-2.3-19", "PostSend waits until the QP leaves its state", tap.QP(
			func(q ci.QP, _ ci.QPCreate) ci.QP { return &waiter{QP: ciwrap.QP{QP: q}, moved: make(chan struct{})} })),
		Of("post.waits-briefly", "SAS-2.3-19", "PostSend waits 150 ms for an answer if the QP has no ACK timeout",
			tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return &briefWaiter{QP: ciwrap.QP{QP: q}} })),
		Of("post.empty-refused", "CI-PostSend-06", "an empty list returns InvalidParameter",
			tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				if len(wrs) == 0 {
					return 0, &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidParameter}
				}
				return q.PostSend(wrs)
			})),
		Of("post.signal-always", "CI-Signal-01", "every send causes a completion",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) { w.Flags |= ci.SendSignaled })),
		Of("post.signal-all-ignored", "CI-Signal-01", "SignalAll has no effect", tap.Layer(
			ciwrap.Layer{QPCreate: func(c ci.QPCreate) ci.QPCreate { c.Flags &^= ci.QPSignalAll; return c }})),
		Of("post.slots-lost", "CI-Signal-02", "slots of unsignaled sends are never released", slotsLost()),
		Of("post.silent-failure", "CI-Signal-03", "an unsignaled send that fails causes no completion",
			silentFailure),
		Of("post.inline-dropped", "CI-Inline-02",
			"a request with too much inline data is dropped, and success is returned",
			answers(ci.InvalidParameter, ci.Success)),
		Of("post.no-fence", "CI-Fence-01", "SendFence has no effect",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) { w.Flags &^= ci.SendFence })),
		Of("post.all-solicited", "CI-Solicited-01", "every message is solicited",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) { w.Flags |= ci.SendSolicited })),
		Of("post.none-solicited", "CI-Solicited-01", "no message is solicited",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) { w.Flags &^= ci.SendSolicited })),
		Of("opcode.other-status", "CI-Opcode-02", "an operation that the service does not have returns Unsupported",
			answers(ci.InvalidWRType, ci.Unsupported)),
		Of("opcode.dropped", "CI-Opcode-02",
			"an operation that the service does not have is dropped, and success is returned",
			answers(ci.InvalidWRType, ci.Success)),
		Of("opcode.not-claimed", "CI-Opcode-03", "an operation that is not claimed returns InvalidWRType",
			answers(ci.Unsupported, ci.InvalidWRType)),
		Of("opcode.imm-and-inv", "CI-Opcode-04",
			"a send with immediate data and invalidation sends the immediate data",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Flags&ci.SendImmediate != 0 {
					w.Flags &^= ci.SendInvalidate
				}
			})).Needing(ci.CapSendInvalidate),
		Of("opcode.recv-srq", "CI-PostRecv-02", "PostRecv on a QP with an SRQ succeeds and does nothing",
			tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				n, err := q.PostRecv(wrs)
				return answer(n, len(wrs), err, ci.InvalidWRType, ci.Success, "QP.PostRecv")
			})).Needing(ci.CapSRQ),
		Of("opcode.no-nop", "CI-Opcode-01", "OpNop returns InvalidWRType",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpNop {
					w.Op = 255
				}
			})),
	}
}

func stateMutants() []Mutant {
	return []Mutant{
		Of("state.early-sends", "CI-PostState-01", "sends posted before RTS are dropped, and success is returned",
			tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				return answer(n, len(wrs), err, ci.InvalidQPState, ci.Success, "QP.PostSend")
			})),
		Of("state.reset-recvs", "CI-PostState-02", "receives posted in Reset are dropped, and success is returned",
			tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				n, err := q.PostRecv(wrs)
				return answer(n, len(wrs), err, ci.InvalidQPState, ci.Success, "QP.PostRecv")
			})),
		Of("state.init-recvs", "CI-PostState-03", "posting receives in Init returns InvalidQPState",
			tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				if a, err := q.Query(); err == nil && a.State == ci.QPInit {
					return 0, &ci.Error{Verb: "QP.PostRecv", Status: ci.InvalidQPState}
				}
				return q.PostRecv(wrs)
			})),
		Of("state.error-refuses", "CI-PostState-04", "posting sends in Error returns InvalidQPState",
			refusesIn(ci.QPError)),
		Of("state.sqerror-refuses", "CI-PostState-05", "posting sends in SQError returns InvalidQPState",
			refusesIn(ci.QPSQError)).Needing(ci.CapUC),
		Of("state.sqd-refuses", "CI-PostState-06", "posting sends in SQD returns InvalidQPState",
			refusesIn(ci.QPSQD)),
	}
}

// refusesIn returns a wrapper that rejects sends in a state.
func refusesIn(s ci.QPState) func(ci.HCA) ci.HCA {
	return tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
		if a, err := q.Query(); err == nil && a.State == s {
			return 0, &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidQPState}
		}
		return q.PostSend(wrs)
	})
}

type reversedCQ struct{ ciwrap.CQ }

func (r reversedCQ) Poll(wc []ci.WC) (int, error) {
	n, err := r.CQ.Poll(wc)
	slices.Reverse(wc[:n])
	return n, err
}

type oneByOne struct{ ciwrap.CQ }

func (o oneByOne) Poll(wc []ci.WC) (int, error) { return o.CQ.Poll(wc[:min(1, len(wc))]) }

// firstContext sets the context of all completions of a CQ to that of the first one.
func firstContext(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h,
		ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return &stuckContext{CQ: ciwrap.CQ{CQ: c}} }})
}

type stuckContext struct {
	ciwrap.CQ
	mu  sync.Mutex
	has bool
	ctx any
}

func (s *stuckContext) Poll(wc []ci.WC) (int, error) {
	n, err := s.CQ.Poll(wc)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range wc[:n] {
		if !s.has {
			s.has, s.ctx = true, wc[i].Context
		}
		wc[i].Context = s.ctx
	}
	return n, err
}

// usedUp limits the number of QPs that a target ever creates to 24.
func usedUp(h ci.HCA) ci.HCA {
	var mu sync.Mutex
	made := 0
	return ciwrap.Wrap(h, ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD {
		return limitedPD{ciwrap.PD{PD: p}, func() bool {
			mu.Lock()
			defer mu.Unlock()
			made++
			return made <= 24
		}}
	}})
}

type limitedPD struct {
	ciwrap.PD
	may func() bool
}

func (l limitedPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if !l.may() {
		return nil, &ci.Error{Verb: "PD.CreateQP", Status: ci.InsufficientResources}
	}
	return l.PD.CreateQP(c)
}

// lateReader keeps requests until the send CQ is polled, and only then reads their segments and inline data.
func lateReader() func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return &lateCQ{CQ: ciwrap.CQ{CQ: c}} },
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			cq, _ := ci.As[*lateCQ](c.SendCQ)
			return lateQP{ciwrap.QP{QP: q}, cq}
		}})
}

type lateCQ struct {
	ciwrap.CQ
	mu   sync.Mutex
	kept []func()
}

func (l *lateCQ) Poll(wc []ci.WC) (int, error) {
	l.mu.Lock()
	for _, f := range l.kept {
		f()
	}
	l.kept = nil
	l.mu.Unlock()
	return l.CQ.Poll(wc)
}

type lateQP struct {
	ciwrap.QP
	cq *lateCQ
}

func (l lateQP) PostSend(wrs []ci.SendWR) (int, error) {
	l.cq.mu.Lock()
	defer l.cq.mu.Unlock()
	l.cq.kept = append(l.cq.kept, func() { _, _ = l.QP.PostSend(wrs) })
	return len(wrs), nil
}

// waiter is a QP whose PostSend returns only when the QP is modified or destroyed.
type waiter struct {
	ciwrap.QP
	mu    sync.Mutex
	moved chan struct{}
}

func (w *waiter) PostSend(wrs []ci.SendWR) (int, error) {
	n, err := w.QP.PostSend(wrs)
	w.mu.Lock()
	moved := w.moved
	w.mu.Unlock()
	<-moved
	return n, err
}

func (w *waiter) move() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.moved)
	w.moved = make(chan struct{})
}

func (w *waiter) Modify(set ci.QPField, a ci.QPAttr) error {
	defer w.move()
	return w.QP.Modify(set, a)
}

func (w *waiter) Destroy() error {
	defer w.move()
	return w.QP.Destroy()
}

// briefWaiter is a QP whose PostSend takes 150 ms if its ACK timeout was set to none.
type briefWaiter struct {
	ciwrap.QP
	waits atomic.Bool
}

func (w *briefWaiter) Modify(set ci.QPField, a ci.QPAttr) error {
	if set&ci.QPFieldAckTimeout != 0 {
		w.waits.Store(a.Primary.AckTimeout == 0)
	}
	return w.QP.Modify(set, a)
}

func (w *briefWaiter) PostSend(wrs []ci.SendWR) (int, error) {
	if w.waits.Load() {
		timer := time.NewTimer(150 * time.Millisecond)
		defer timer.Stop()
		<-timer.C
	}
	return w.QP.PostSend(wrs)
}

// slotsLost never releases the slots of unsignaled sends.
func slotsLost() func(ci.HCA) ci.HCA {
	return tap.QP(
		func(q ci.QP, c ci.QPCreate) ci.QP { return &leakyQueue{QP: ciwrap.QP{QP: q}, room: 8 * c.SendDepth} })
}

type leakyQueue struct {
	ciwrap.QP
	mu   sync.Mutex
	room int
}

func (l *leakyQueue) PostSend(wrs []ci.SendWR) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range wrs {
		if wrs[i].Flags&ci.SendSignaled == 0 {
			l.room--
		}
	}
	if l.room < 0 {
		return 0, &ci.Error{Verb: "QP.PostSend", Status: ci.InsufficientResources}
	}
	return l.QP.PostSend(wrs)
}

// silentFailure drops the completions of unsignaled sends that fail. It recognizes them by a bit that it sets in their
// ids.
func silentFailure(h ci.HCA) ci.HCA {
	const mark = 1 << 63
	l := ciwrap.Layer{
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			return tap.SendsOf(q, c, func(c ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
				for i := range wrs {
					if wrs[i].Flags&ci.SendSignaled == 0 && c.Flags&ci.QPSignalAll == 0 {
						wrs[i].ID ^= mark
					}
				}
				return wrs
			})
		},
		CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
			return sieve{ciwrap.CQ{CQ: c}, func(wc *ci.WC) bool { return wc.Status == ci.WCSuccess || wc.ID&mark == 0 }}
		},
	}
	return ciwrap.Wrap(h, l)
}

// sieve drops completions.
type sieve struct {
	ciwrap.CQ
	keep func(*ci.WC) bool
}

func (s sieve) Poll(wc []ci.WC) (int, error) {
	for {
		n, err := s.CQ.Poll(wc)
		k := 0
		for i := range wc[:n] {
			if s.keep(&wc[i]) {
				wc[k] = wc[i]
				k++
			}
		}
		if k > 0 || n == 0 || err != nil {
			return k, err
		}
	}
}
