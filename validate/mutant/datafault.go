package mutant

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Faults returns mutants with faults in error handling: completions, states, events, flushing, retries.
func Faults() []Mutant {
	return []Mutant{
		Of("fault.local-length", "IBTA-9.9-01", "a local protection error is reported as a local length error",
			status(ci.WCLocalProtErr, ci.WCLocalLenErr)),
		Of("fault.unregistered", "SAS-2.3-12", "a local protection error is reported as a flush",
			status(ci.WCLocalProtErr, ci.WCFlushErr)),
		Of("fault.recv-access", "IBTA-9.9-02", "a remote operation error is reported as a remote access error",
			status(ci.WCRemOpErr, ci.WCRemAccessErr)),
		Of("fault.recv-length", "IBTA-9.9-03", "a local length error is reported as a local protection error",
			status(ci.WCLocalLenErr, ci.WCLocalProtErr)),
		Of("fault.uc-error", "IBTA-9.9-04", "Query returns Error for a UC or UD QP in SQError",
			tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP {
				return worse{ciwrap.QP{QP: q}}
			})),
		Of("fault.access-status", "IBTA-9.9-05", "a remote access error is reported as a remote operation error",
			status(ci.WCRemAccessErr, ci.WCRemOpErr)),
		Of("fault.no-access-event", "IBTA-9.9-05", "the access event is never raised",
			withoutEvent(ci.EventWQAccessError)),
		Of("fault.no-bounds", "IBTA-9.9-05", "regions extend 8 bytes beyond their end",
			tap.Layer(ciwrap.Layer{MRCreate: func(c ci.MRCreate) ci.MRCreate {
				if n := c.Memory.Len(); n == 1024 && c.Length == 0 {
					c.Memory = ci.Bytes(make([]byte, n+64))
				}
				return c
			}})),
		Of("fault.one-domain", "SAS-2.3-07", "all regions belong to the first PD", oneDomain),
		Of("fault.invalid-status", "IBTA-9.9-06", "a remote invalid request is reported as a bad response",
			status(ci.WCRemInvalidReqErr, ci.WCBadRespErr)),
		Of("fault.qp-right-status", "IBTA-9.9-13",
			"an operation that the QP does not grant is reported as a remote access error",
			status(ci.WCRemInvalidReqErr, ci.WCRemAccessErr)),
		Of("fault.no-request-event", "IBTA-9.9-13", "the request event is never raised",
			withoutEvent(ci.EventWQReqError)),
		Of("fault.rnr-once", "IBTA-9.9-07", "RNRRetry below 7 is taken as 0",
			tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldRNRRetry != 0 && a.RNRRetry < 7 {
					a.RNRRetry = 0
				}
			})),
		Of("fault.rnr-fast", "IBTA-9.9-07", "every RNR timer is the shortest",
			tap.Modify(func(_ ci.QPCreate, _ ci.QPField, a *ci.QPAttr) { a.MinRNRTimer = 1 })),
		Of("fault.rnr-seven", "IBTA-9.9-08", "RNRRetry 7 means seven retries",
			tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldRNRRetry != 0 && a.RNRRetry == 7 {
					a.RNRRetry = 6
				}
			})),
		Of("fault.timeout-status", "IBTA-9.9-09", "exhausted retries are reported as RNR retries",
			status(ci.WCTimeoutRetryErr, ci.WCRNRRetryErr)),
		Of("fault.psn-zero", "IBTA-9.9-10", "every connection begins with sequence number 0",
			tap.Modify(func(_ ci.QPCreate, _ ci.QPField, a *ci.QPAttr) { a.SQPSN, a.RQPSN = 0, 0 })),
		Of("fault.long-success", "IBTA-9.9-11", "a message of more than 2^31 bytes is truncated",
			tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if total(w.SGL) > 1<<31 {
					w.SGL = nil
				}
			})),
		Of("fault.flush-lost", "CI-Flush-01", "one of seven flushed completions is lost", flushLost),
		Of("fault.shared-flush-lost", "CI-Flush-01", "an entry of an SRQ that a QP has taken when it fails is lost",
			sharedFlushLost).Needing(ci.CapSRQ).By("srq.partial"),
		Of("fault.flush-twice", "CI-Flush-01", "one of seven flushed completions is returned twice", flushTwice),
		Of("fault.flush-success", "CI-Flush-01", "flushed receives are reported as successful",
			tap.Poll(func(wc *ci.WC) {
				if wc.Status == ci.WCFlushErr && wc.Op.IsRecv() {
					wc.Status = ci.WCSuccess
				}
			})),
		Of("fault.sends-kept", "CI-Flush-02", "flushed sends cause no completion",
			tap.Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
				return sieve{
					ciwrap.CQ{CQ: c}, func(wc *ci.WC) bool { return wc.Status != ci.WCFlushErr || wc.Op.IsRecv() },
				}
			}})),
		Of("fault.unsignaled-before", "CI-Flush-03", "reads completed before an error are reported as flushed",
			tap.Poll(func(wc *ci.WC) {
				if wc.Op == ci.WCRead && wc.Length == 2000 {
					wc.Status = ci.WCFlushErr
				}
			})),
		Of("fault.ud-recv-flushed", "IBTA-9.9-12", "a receive with a bad segment is reported as flushed",
			tap.Poll(func(wc *ci.WC) {
				if wc.Op.IsRecv() && wc.Status == ci.WCLocalProtErr {
					wc.Status = ci.WCFlushErr
				}
			})).Needing(ci.CapUC),
		Of("fault.everybody", "CI-Event-01", "an access error raises the event on every QP of the adapter",
			eventOnAll),
		Of("impair.no-retry", "IBTA-9.7-10", "nothing is retransmitted",
			tap.Modify(func(_ ci.QPCreate, _ ci.QPField, a *ci.QPAttr) { a.RetryCount = 0 })),
	}
}

// withoutEvent returns a wrapper that drops every event of the type.
func withoutEvent(typ ci.EventType) func(ci.HCA) ci.HCA {
	return tap.Layer(ciwrap.Layer{Event: func(e ci.Event, deliver func(ci.Event)) {
		if e.Type != typ {
			deliver(e)
		}
	}})
}

// worse reports Error instead of SQError.
type worse struct{ ciwrap.QP }

func (w worse) Query() (ci.QPAttr, error) {
	a, err := w.QP.Query()
	if a.State == ci.QPSQError {
		a.State = ci.QPError
	}
	return a, err
}

// oneDomain registers all regions in the first PD.
func oneDomain(h ci.HCA) ci.HCA {
	d := &domain{}
	return ciwrap.Wrap(h, ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.first == nil {
			d.first = p
		}
		return shared{ciwrap.PD{PD: p}, d}
	}})
}

type domain struct {
	mu    sync.Mutex
	first ci.PD
}

type shared struct {
	ciwrap.PD
	d *domain
}

func (s shared) RegisterMR(c ci.MRCreate) (ci.MR, error) { return s.d.first.RegisterMR(c) }

func (s shared) CreateQP(c ci.QPCreate) (ci.QP, error) {
	return s.d.first.CreateQP(c)
}

// flushLost drops every seventh flushed completion.
func flushLost(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
		n := 0
		return sieve{ciwrap.CQ{CQ: c}, func(wc *ci.WC) bool {
			if wc.Status == ci.WCFlushErr {
				n++
				return n%7 != 0
			}
			return true
		}}
	}})
}

// sharedFlushLost drops the flushed receives of QPs with an SRQ.
func sharedFlushLost(h ci.HCA) ci.HCA {
	var shared sync.Map
	return ciwrap.Wrap(h, ciwrap.Layer{
		QP: func(q ci.QP, c ci.QPCreate) ci.QP {
			if c.SRQ != nil {
				shared.Store(q.Num(), true)
			}
			return q
		},
		CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
			return sieve{ciwrap.CQ{CQ: c}, func(wc *ci.WC) bool {
				_, isShared := shared.Load(wc.QPN)
				return !isShared || wc.Status != ci.WCFlushErr || !wc.Op.IsRecv()
			}}
		}})
}

// flushTwice returns every seventh flushed completion a second time from the next Poll.
func flushTwice(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return &echo{CQ: ciwrap.CQ{CQ: c}} }})
}

type echo struct {
	ciwrap.CQ
	n     int
	again []ci.WC
}

func (e *echo) Poll(wc []ci.WC) (int, error) {
	if len(e.again) > 0 && len(wc) > 0 {
		n := copy(wc, e.again)
		e.again = e.again[n:]
		return n, nil
	}
	n, err := e.CQ.Poll(wc)
	for i := range wc[:n] {
		if wc[i].Status == ci.WCFlushErr {
			if e.n++; e.n%7 == 0 {
				e.again = append(e.again, wc[i])
			}
		}
	}
	return n, err
}

// eventOnAll raises the access event of one QP on all QPs.
func eventOnAll(h ci.HCA) ci.HCA {
	var mu sync.Mutex
	var all []ci.QPCreate
	return ciwrap.Wrap(h, ciwrap.Layer{QPCreate: func(c ci.QPCreate) ci.QPCreate {
		own := c.OnEvent
		mu.Lock()
		defer mu.Unlock()
		all = append(all, c)
		c.OnEvent = func(e ci.Event) {
			if e.Type != ci.EventWQAccessError {
				own(e)
				return
			}
			mu.Lock()
			list := append([]ci.QPCreate(nil), all...)
			mu.Unlock()
			for _, x := range list {
				if x.Context != e.Context {
					x.OnEvent(ci.Event{Type: e.Type, Context: x.Context})
				}
			}
			own(e)
		}
		return c
	}})
}
