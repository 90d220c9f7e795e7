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
		{
			Name:   "fault.local-length",
			Area:   "fault",
			Breaks: "IBTA-9.9-01",
			Does:   "a local protection error is reported as a local length error",
			Wrap:   status(ci.WCLocalProtErr, ci.WCLocalLenErr),
		},
		{
			Name:   "fault.unregistered",
			Area:   "fault",
			Breaks: "SAS-2.3-12",
			Does:   "a local protection error is reported as a flush",
			Wrap:   status(ci.WCLocalProtErr, ci.WCFlushErr),
		},
		{
			Name:   "fault.recv-access",
			Area:   "fault",
			Breaks: "IBTA-9.9-02",
			Does:   "a remote operation error is reported as a remote access error",
			Wrap:   status(ci.WCRemOpErr, ci.WCRemAccessErr),
		},
		{
			Name:   "fault.recv-length",
			Area:   "fault",
			Breaks: "IBTA-9.9-03",
			Does:   "a local length error is reported as a local protection error",
			Wrap:   status(ci.WCLocalLenErr, ci.WCLocalProtErr),
		},
		{
			Name:   "fault.uc-error",
			Area:   "fault",
			Breaks: "IBTA-9.9-04",
			Does:   "Query returns Error for a UC or UD QP in SQError",
			Wrap: tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP {
				return worse{ciwrap.QP{QP: q}}
			}),
		},
		{
			Name:   "fault.access-status",
			Area:   "fault",
			Breaks: "IBTA-9.9-05",
			Does:   "a remote access error is reported as a remote operation error",
			Wrap:   status(ci.WCRemAccessErr, ci.WCRemOpErr),
		},
		{Name: "fault.no-access-event", Area: "fault", Breaks: "IBTA-9.9-05", Does: "the access event is never raised",
			Wrap: withoutEvent(ci.EventWQAccessError)},
		{
			Name:   "fault.no-bounds",
			Area:   "fault",
			Breaks: "IBTA-9.9-05",
			Does:   "regions extend 8 bytes beyond their end",
			Wrap: tap.Layer(ciwrap.Layer{MRCreate: func(c ci.MRCreate) ci.MRCreate {
				if n := c.Memory.Len(); n == 1024 && c.Length == 0 {
					c.Memory = ci.Bytes(make([]byte, n+64))
				}
				return c
			}}),
		},
		{
			Name:   "fault.one-domain",
			Area:   "fault",
			Breaks: "SAS-2.3-07",
			Does:   "all regions belong to the first PD",
			Wrap:   oneDomain,
		},
		{
			Name:   "fault.invalid-status",
			Area:   "fault",
			Breaks: "IBTA-9.9-06",
			Does:   "a remote invalid request is reported as a bad response",
			Wrap:   status(ci.WCRemInvalidReqErr, ci.WCBadRespErr),
		},
		{
			Name:   "fault.qp-right-status",
			Area:   "fault",
			Breaks: "IBTA-9.9-13",
			Does:   "an operation that the QP does not grant is reported as a remote access error",
			Wrap:   status(ci.WCRemInvalidReqErr, ci.WCRemAccessErr),
		},
		{
			Name:   "fault.no-request-event",
			Area:   "fault",
			Breaks: "IBTA-9.9-13",
			Does:   "the request event is never raised",
			Wrap:   withoutEvent(ci.EventWQReqError),
		},
		{Name: "fault.rnr-once", Area: "fault", Breaks: "IBTA-9.9-07", Does: "RNRRetry below 7 is taken as 0",
			Wrap: tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldRNRRetry != 0 && a.RNRRetry < 7 {
					a.RNRRetry = 0
				}
			})},
		{Name: "fault.rnr-fast", Area: "fault", Breaks: "IBTA-9.9-07", Does: "every RNR timer is the shortest",
			Wrap: tap.Modify(func(_ ci.QPCreate, _ ci.QPField, a *ci.QPAttr) { a.MinRNRTimer = 1 })},
		{Name: "fault.rnr-seven", Area: "fault", Breaks: "IBTA-9.9-08", Does: "RNRRetry 7 means seven retries",
			Wrap: tap.Modify(func(_ ci.QPCreate, set ci.QPField, a *ci.QPAttr) {
				if set&ci.QPFieldRNRRetry != 0 && a.RNRRetry == 7 {
					a.RNRRetry = 6
				}
			})},
		{
			Name:   "fault.timeout-status",
			Area:   "fault",
			Breaks: "IBTA-9.9-09",
			Does:   "exhausted retries are reported as RNR retries",
			Wrap:   status(ci.WCTimeoutRetryErr, ci.WCRNRRetryErr),
		},
		{
			Name:   "fault.psn-zero",
			Area:   "fault",
			Breaks: "IBTA-9.9-10",
			Does:   "every connection begins with sequence number 0",
			Wrap:   tap.Modify(func(_ ci.QPCreate, _ ci.QPField, a *ci.QPAttr) { a.SQPSN, a.RQPSN = 0, 0 }),
		},
		{
			Name:   "fault.long-success",
			Area:   "fault",
			Breaks: "IBTA-9.9-11",
			Does:   "a message of more than 2^31 bytes is truncated",
			Wrap: tap.Send(func(_ ci.QPCreate, w *ci.SendWR) {
				if total(w.SGL) > 1<<31 {
					w.SGL = nil
				}
			}),
		},
		{
			Name:   "fault.flush-lost",
			Area:   "fault",
			Breaks: "CI-Flush-01",
			Does:   "one of seven flushed completions is lost",
			Wrap:   flushLost,
		},
		{
			Name:   "fault.flush-twice",
			Area:   "fault",
			Breaks: "CI-Flush-01",
			Does:   "one of seven flushed completions is returned twice",
			Wrap:   flushTwice,
		},
		{
			Name:   "fault.flush-success",
			Area:   "fault",
			Breaks: "CI-Flush-01",
			Does:   "flushed receives are reported as successful",
			Wrap: tap.Poll(func(wc *ci.WC) {
				if wc.Status == ci.WCFlushErr && wc.Op.IsRecv() {
					wc.Status = ci.WCSuccess
				}
			}),
		},
		{Name: "fault.sends-kept", Area: "fault", Breaks: "CI-Flush-02", Does: "flushed sends cause no completion",
			Wrap: tap.Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
				return sieve{
					ciwrap.CQ{CQ: c}, func(wc *ci.WC) bool { return wc.Status != ci.WCFlushErr || wc.Op.IsRecv() },
				}
			}})},
		{
			Name:   "fault.unsignaled-before",
			Area:   "fault",
			Breaks: "CI-Flush-03",
			Does:   "reads completed before an error are reported as flushed",
			Wrap: tap.Poll(func(wc *ci.WC) {
				if wc.Op == ci.WCRead && wc.Length == 2000 {
					wc.Status = ci.WCFlushErr
				}
			}),
		},
		{
			Name:   "fault.ud-recv-flushed",
			Area:   "fault",
			Breaks: "IBTA-9.9-12",
			Does:   "a receive with a bad segment is reported as flushed",
			Needs:  ci.CapUC,
			Wrap: tap.Poll(func(wc *ci.WC) {
				if wc.Op.IsRecv() && wc.Status == ci.WCLocalProtErr {
					wc.Status = ci.WCFlushErr
				}
			}),
		},
		{
			Name:   "fault.everybody",
			Area:   "fault",
			Breaks: "CI-Event-01",
			Does:   "an access error raises the event on every QP of the adapter",
			Wrap:   eventOnAll,
		},
		{Name: "impair.no-retry", Area: "impair", Breaks: "IBTA-9.7-10", Does: "nothing is retransmitted",
			Wrap: tap.Modify(func(_ ci.QPCreate, _ ci.QPField, a *ci.QPAttr) { a.RetryCount = 0 })},
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
