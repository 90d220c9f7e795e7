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
		{
			Name:   "send.packet-short",
			Area:   "rc",
			Breaks: "IBTA-9.7-01",
			Does:   "a message of one full packet loses its last byte",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpSend && total(w.SGL) == 1024 {
					shorten(w.SGL)
				}
			}),
		},
		{Name: "send.zero-as-one", Area: "rc", Breaks: "IBTA-9.7-01", Does: "an empty message is sent with one byte",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpSend && len(w.SGL) > 0 && total(w.SGL) == 0 {
					w.SGL[0].Length = 1
				}
			})},
		{
			Name:   "send.completions-reversed",
			Area:   "rc",
			Breaks: "IBTA-9.7-02",
			Does:   "completions polled together are returned newest first",
			Wrap: tap.Layer(
				ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return reversedCQ{ciwrap.CQ{CQ: c}} }},
			),
		},
		{Name: "send.mtu-256", Area: "rc", Breaks: "IBTA-9.7-03", Does: "every connection has a path MTU of 256",
			Wrap: tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldMTU != 0 {
					a.MTU = ci.MTU256
				}
			})},
		{
			Name:   "send.gather-reversed",
			Area:   "rc",
			Breaks: "CI-PostSend-01",
			Does:   "segments of a send are gathered in reverse order",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpSend {
					slices.Reverse(w.SGL)
				}
			}),
		},
		{
			Name:   "send.gather-last",
			Area:   "rc",
			Breaks: "CI-PostSend-01",
			Case:   "rc.send.gather-last",
			Does:   "a last segment of one byte is read from the byte after it",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if n := len(w.SGL); w.Op == ci.OpWrite && n > 1 && w.SGL[n-1].Length == 1 {
					w.SGL[n-1].Addr++
				}
			}),
		},
		{
			Name:   "send.scatter-last",
			Area:   "rc",
			Breaks: "CI-PostRecv-01",
			Case:   "rc.send.gather-last",
			Does:   "a last segment of one byte is filled one byte too far",
			Wrap: tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				wrs = slices.Clone(wrs)
				for i := range wrs {
					if n := len(wrs[i].SGL); n > 1 && wrs[i].SGL[n-1].Length == 1 {
						wrs[i].SGL = slices.Clone(wrs[i].SGL)
						wrs[i].SGL[n-1].Addr++
					}
				}
				return q.PostRecv(wrs)
			}),
		},
		{
			Name:   "send.scatter-reversed",
			Area:   "rc",
			Breaks: "CI-PostRecv-01",
			Does:   "segments of a receive are filled in reverse order",
			Wrap: tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				wrs = slices.Clone(wrs)
				for i := range wrs {
					wrs[i].SGL = slices.Clone(wrs[i].SGL)
					slices.Reverse(wrs[i].SGL)
				}
				return q.PostRecv(wrs)
			}),
		},
		{
			Name:   "send.immediate-swapped",
			Area:   "rc",
			Breaks: "CI-PostSend-02",
			Does:   "immediate data are sent in the wrong byte order",
			Wrap: tap.Poll(func(wc *ci.WC) {
				if wc.Flags&ci.WCImmediate != 0 {
					wc.Imm = bits.ReverseBytes32(wc.Imm)
				}
			}),
		},
		{
			Name:   "send.immediate-always",
			Area:   "rc",
			Breaks: "CI-PostSend-02",
			Does:   "every message carries immediate data",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpSend && w.Flags&ci.SendInvalidate == 0 {
					w.Flags |= ci.SendImmediate
				}
			}),
		},
		{
			Name:   "wc.no-context",
			Area:   "rc",
			Breaks: "SAS-2.1-07",
			Does:   "completions of a shared CQ carry the context of the first QP seen",
			Wrap:   firstContext,
		},
		{
			Name:   "wc.recv-op",
			Area:   "rc",
			Breaks: "SAS-2.3-23",
			Does:   "the completion of a receive taken by a write with immediate has the operation of a send",
			Wrap: tap.Poll(func(wc *ci.WC) {
				if wc.Status == ci.WCSuccess && wc.Op == ci.WCRecvWrite {
					wc.Op = ci.WCRecv
				}
			}),
		},
		{
			Name:   "wc.id-32",
			Area:   "rc",
			Breaks: "SAS-2.3-23",
			Does:   "completions lose the upper half of their ids",
			Wrap:   tap.Poll(func(wc *ci.WC) { wc.ID &= 1<<32 - 1 }),
		},
		{
			Name:   "wc.send-op",
			Area:   "rc",
			Breaks: "CI-WC-01",
			Does:   "every completion of a send queue has the operation of a send",
			Wrap: tap.Poll(func(wc *ci.WC) {
				if !wc.Op.IsRecv() {
					wc.Op = ci.WCSend
				}
			}),
		},
		{
			Name:   "qp.used-up",
			Area:   "rc",
			Breaks: "SAS-2.3-27",
			Does:   "destroyed QPs are never released, and there are only 24",
			Wrap:   usedUp,
		},
	}
}

func postMutants() []Mutant {
	return []Mutant{
		{
			Name:   "post.list-reversed",
			Area:   "post",
			Breaks: "SAS-2.1-21",
			Does:   "a list of sends is posted in reverse order",
			Wrap:   tap.Sends(func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR { slices.Reverse(wrs); return wrs }),
		},
		{
			Name:   "post.recv-list-one",
			Area:   "post",
			Breaks: "SAS-2.1-21",
			Does:   "only the first receive of a list is posted, and success is returned",
			Wrap: tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				n, err := q.PostRecv(wrs[:min(1, len(wrs))])
				if err == nil {
					n = len(wrs)
				}
				return n, err
			}),
		},
		{Name: "post.bad-skipped", Area: "post", Breaks: "SAS-2.1-23", Does: "requests after a bad one are posted",
			Wrap: tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				if err != nil && n+1 < len(wrs) {
					_, _ = q.PostSend(wrs[n+1:])
				}
				return n, err
			})},
		{
			Name:   "post.count-off",
			Area:   "post",
			Breaks: "SAS-2.1-23",
			Does:   "the number of requests taken includes the bad one",
			Wrap: tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				if err != nil && n < len(wrs) {
					n++
				}
				return n, err
			}),
		},
		{
			Name:   "post.recv-all-or-none",
			Area:   "post",
			Breaks: "SAS-2.1-23",
			Does:   "a list of receives with a bad one is rejected as a whole",
			Wrap: tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				attr, err := q.Query()
				if err == nil && slices.ContainsFunc(wrs, func(w ci.RecvWR) bool { return len(w.SGL) > attr.RecvSGE }) {
					return 0, &ci.Error{Verb: "QP.PostRecv", Status: ci.InvalidMaxSGE}
				}
				return q.PostRecv(wrs)
			}),
		},
		{
			Name:   "post.poll-one",
			Area:   "post",
			Breaks: "SAS-2.1-22",
			Does:   "Poll returns one completion at a time",
			Wrap: tap.Layer(
				ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return oneByOne{ciwrap.CQ{CQ: c}} }},
			),
		},
		{
			Name:   "post.full-dropped",
			Area:   "post",
			Breaks: "CI-PostSend-03",
			Does:   "a request to a full queue is dropped, and success is returned",
			Wrap:   answers(ci.InsufficientResources, ci.Success),
		},
		{
			Name:   "post.full-status",
			Area:   "post",
			Breaks: "CI-PostSend-03",
			Does:   "a full queue returns InvalidMaxWRs",
			Wrap:   answers(ci.InsufficientResources, ci.InvalidMaxWRs),
		},
		{Name: "post.sges-cut", Area: "post", Breaks: "CI-PostSend-04", Does: "segments above the limit are dropped",
			Wrap: tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				if ci.StatusOf(err) == ci.InvalidMaxSGE {
					return len(wrs), nil
				}
				return n, err
			})},
		{
			Name:   "post.late",
			Area:   "post",
			Breaks: "CI-PostSend-05",
			Does:   "requests are read when the CQ is polled, not when they are posted",
			Wrap:   lateReader(),
		},
		{
			Name:   "post.late-inline",
			Area:   "post",
			Breaks: "CI-Inline-01",
			Does:   "inline data are read when the CQ is polled, not when they are posted",
			Wrap:   lateReader(),
		},
		{
			Name:   "post.waits",
			Area:   "post",
			Breaks: "SAS-2.3-19",
			Does:   "PostSend waits until the QP leaves its state",
			Wrap: tap.QP(
				func(q ci.QP, _ ci.QPCreate) ci.QP { return &waiter{QP: ciwrap.QP{QP: q}, moved: make(chan struct{})} },
			),
		},
		{
			Name:   "post.waits-briefly",
			Area:   "post",
			Breaks: "SAS-2.3-19",
			Does:   "PostSend waits 150 ms for an answer if the QP has no ACK timeout",
			Wrap:   tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return &briefWaiter{QP: ciwrap.QP{QP: q}} }),
		},
		{
			Name:   "post.empty-refused",
			Area:   "post",
			Breaks: "CI-PostSend-06",
			Does:   "an empty list returns InvalidParameter",
			Wrap: tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				if len(wrs) == 0 {
					return 0, &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidParameter}
				}
				return q.PostSend(wrs)
			}),
		},
		{Name: "post.signal-always", Area: "post", Breaks: "CI-Signal-01", Does: "every send causes a completion",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) { w.Flags |= ci.SendSignaled })},
		{
			Name:   "post.signal-all-ignored",
			Area:   "post",
			Breaks: "CI-Signal-01",
			Does:   "SignalAll has no effect",
			Wrap: tap.Layer(
				ciwrap.Layer{QPCreate: func(c ci.QPCreate) ci.QPCreate { c.Flags &^= ci.QPSignalAll; return c }},
			),
		},
		{
			Name:   "post.slots-lost",
			Area:   "post",
			Breaks: "CI-Signal-02",
			Does:   "slots of unsignaled sends are never released",
			Wrap:   slotsLost(),
		},
		{
			Name:   "post.silent-failure",
			Area:   "post",
			Breaks: "CI-Signal-03",
			Does:   "an unsignaled send that fails causes no completion",
			Wrap:   silentFailure,
		},
		{
			Name:   "post.inline-dropped",
			Area:   "post",
			Breaks: "CI-Inline-02",
			Does:   "a request with too much inline data is dropped, and success is returned",
			Wrap:   answers(ci.InvalidParameter, ci.Success),
		},
		{Name: "post.no-fence", Area: "post", Breaks: "CI-Fence-01", Does: "SendFence has no effect",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) { w.Flags &^= ci.SendFence })},
		{Name: "post.all-solicited", Area: "post", Breaks: "CI-Solicited-01", Does: "every message is solicited",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) { w.Flags |= ci.SendSolicited })},
		{Name: "post.none-solicited", Area: "post", Breaks: "CI-Solicited-01", Does: "no message is solicited",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) { w.Flags &^= ci.SendSolicited })},
		{
			Name:   "opcode.other-status",
			Area:   "opcode",
			Breaks: "CI-Opcode-02",
			Does:   "an operation that the service does not have returns Unsupported",
			Wrap:   answers(ci.InvalidWRType, ci.Unsupported),
		},
		{
			Name:   "opcode.dropped",
			Area:   "opcode",
			Breaks: "CI-Opcode-02",
			Does:   "an operation that the service does not have is dropped, and success is returned",
			Wrap:   answers(ci.InvalidWRType, ci.Success),
		},
		{
			Name:   "opcode.not-claimed",
			Area:   "opcode",
			Breaks: "CI-Opcode-03",
			Does:   "an operation that is not claimed returns InvalidWRType",
			Wrap:   answers(ci.Unsupported, ci.InvalidWRType),
		},
		{
			Name:   "opcode.imm-and-inv",
			Area:   "opcode",
			Breaks: "CI-Opcode-04",
			Does:   "a send with immediate data and invalidation sends the immediate data",
			Needs:  ci.CapSendInvalidate,
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Flags&ci.SendImmediate != 0 {
					w.Flags &^= ci.SendInvalidate
				}
			}),
		},
		{
			Name:   "opcode.recv-srq",
			Area:   "opcode",
			Breaks: "CI-PostRecv-02",
			Does:   "PostRecv on a QP with an SRQ succeeds and does nothing",
			Needs:  ci.CapSRQ,
			Wrap: tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				n, err := q.PostRecv(wrs)
				return answer(n, len(wrs), err, ci.InvalidWRType, ci.Success, "QP.PostRecv")
			}),
		},
		{Name: "opcode.no-nop", Area: "opcode", Breaks: "CI-Opcode-01", Does: "OpNop returns InvalidWRType",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if w.Op == ci.OpNop {
					w.Op = 255
				}
			})},
	}
}

func stateMutants() []Mutant {
	return []Mutant{
		{
			Name:   "state.early-sends",
			Area:   "post-state",
			Breaks: "CI-PostState-01",
			Does:   "sends posted before RTS are dropped, and success is returned",
			Wrap: tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
				n, err := q.PostSend(wrs)
				return answer(n, len(wrs), err, ci.InvalidQPState, ci.Success, "QP.PostSend")
			}),
		},
		{
			Name:   "state.reset-recvs",
			Area:   "post-state",
			Breaks: "CI-PostState-02",
			Does:   "receives posted in Reset are dropped, and success is returned",
			Wrap: tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				n, err := q.PostRecv(wrs)
				return answer(n, len(wrs), err, ci.InvalidQPState, ci.Success, "QP.PostRecv")
			}),
		},
		{
			Name:   "state.init-recvs",
			Area:   "post-state",
			Breaks: "CI-PostState-03",
			Does:   "posting receives in Init returns InvalidQPState",
			Wrap: tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
				if a, err := q.Query(); err == nil && a.State == ci.QPInit {
					return 0, &ci.Error{Verb: "QP.PostRecv", Status: ci.InvalidQPState}
				}
				return q.PostRecv(wrs)
			}),
		},
		{
			Name:   "state.error-refuses",
			Area:   "post-state",
			Breaks: "CI-PostState-04",
			Does:   "posting sends in Error returns InvalidQPState",
			Wrap:   refusesIn(ci.QPError),
		},
		{
			Name:   "state.sqerror-refuses",
			Area:   "post-state",
			Breaks: "CI-PostState-05",
			Does:   "posting sends in SQError returns InvalidQPState",
			Wrap:   refusesIn(ci.QPSQError),
			Needs:  ci.CapUC,
		},
		{
			Name:   "state.sqd-refuses",
			Area:   "post-state",
			Breaks: "CI-PostState-06",
			Does:   "posting sends in SQD returns InvalidQPState",
			Wrap:   refusesIn(ci.QPSQD),
		},
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
	return ciwrap.Wrap(
		h, ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return &stuckContext{CQ: ciwrap.CQ{CQ: c}} }},
	)
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
	return tap.Layer(ciwrap.Layer{
		CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return &lateCQ{CQ: ciwrap.CQ{CQ: c}} },
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			cq, _ := ci.As[*lateCQ](c.SendCQ)
			return lateQP{ciwrap.QP{QP: q}, cq}
		},
	})
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
		func(q ci.QP, c ci.QPCreate) ci.QP { return &leakyQueue{QP: ciwrap.QP{QP: q}, room: 8 * c.SendDepth} },
	)
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
