package tap

import (
	"slices"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// Layer returns the wrapper of a layer without state.
func Layer(l ciwrap.Layer) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA { return ciwrap.Wrap(h, l) }
}

// QP replaces QPs.
func QP(f func(ci.QP, ci.QPCreate) ci.QP) func(ci.HCA) ci.HCA { return Layer(ciwrap.Layer{QP: f}) }

// Both applies two wrappers, for a fault that needs two taps.
func Both(a, b func(ci.HCA) ci.HCA) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA { return a(b(h)) }
}

// Send changes each send request on its way to the driver.
func Send(f func(c ci.QPCreate, w *ci.SendWR)) func(ci.HCA) ci.HCA {
	return Sends(func(c ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
		for i := range wrs {
			f(c, &wrs[i])
		}
		return wrs
	})
}

// Sends changes each list of send requests. Where the list grows, the driver's count is limited to the consumer's.
func Sends(f func(c ci.QPCreate, wrs []ci.SendWR) []ci.SendWR) func(ci.HCA) ci.HCA {
	return QP(func(q ci.QP, c ci.QPCreate) ci.QP { return SendsOf(q, c, f) })
}

// SendsOf is Sends for one QP.
func SendsOf(q ci.QP, c ci.QPCreate, f func(ci.QPCreate, []ci.SendWR) []ci.SendWR) ci.QP {
	return sendQP{ciwrap.QP{QP: q}, c, f}
}

type sendQP struct {
	ciwrap.QP
	c ci.QPCreate
	f func(ci.QPCreate, []ci.SendWR) []ci.SendWR
}

func (q sendQP) PostSend(wrs []ci.SendWR) (int, error) {
	n, err := q.QP.PostSend(q.f(q.c, CopySends(wrs)))
	return min(n, len(wrs)), err
}

// CopySends returns a copy of send requests with gather lists of their own.
func CopySends(wrs []ci.SendWR) []ci.SendWR {
	out := slices.Clone(wrs)
	for i := range out {
		out[i].SGL = slices.Clone(out[i].SGL)
	}
	return out
}

// Post replaces PostSend.
func Post(f func(q ci.QP, c ci.QPCreate, wrs []ci.SendWR) (int, error)) func(ci.HCA) ci.HCA {
	return QP(func(q ci.QP, c ci.QPCreate) ci.QP { return postQP{ciwrap.QP{QP: q}, c, f} })
}

type postQP struct {
	ciwrap.QP
	c ci.QPCreate
	f func(ci.QP, ci.QPCreate, []ci.SendWR) (int, error)
}

func (q postQP) PostSend(wrs []ci.SendWR) (int, error) { return q.f(q.QP.QP, q.c, wrs) }

// Recv replaces PostRecv.
func Recv(f func(q ci.QP, wrs []ci.RecvWR) (int, error)) func(ci.HCA) ci.HCA {
	return QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return RecvOf(q, f) })
}

// RecvOf is Recv for one QP.
func RecvOf(q ci.QP, f func(ci.QP, []ci.RecvWR) (int, error)) ci.QP {
	return recvQP{ciwrap.QP{QP: q}, f}
}

type recvQP struct {
	ciwrap.QP
	f func(ci.QP, []ci.RecvWR) (int, error)
}

func (q recvQP) PostRecv(wrs []ci.RecvWR) (int, error) { return q.f(q.QP.QP, wrs) }

// Poll changes each completion on its way to the consumer.
func Poll(f func(*ci.WC)) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return PollOf(c, f) }})
}

// PollOf is Poll for one CQ.
func PollOf(c ci.CQ, f func(*ci.WC)) ci.CQ { return pollCQ{ciwrap.CQ{CQ: c}, f} }

type pollCQ struct {
	ciwrap.CQ
	f func(*ci.WC)
}

func (q pollCQ) Poll(wc []ci.WC) (int, error) {
	n, err := q.CQ.Poll(wc)
	for i := range wc[:n] {
		q.f(&wc[i])
	}
	return n, err
}

// Modify changes the attributes that a QP is modified to.
func Modify(f func(c ci.QPCreate, set ci.QPField, a *ci.QPAttr)) func(ci.HCA) ci.HCA {
	return QP(func(q ci.QP, c ci.QPCreate) ci.QP { return ModifyOf(q, c, f) })
}

// ModifyOf is Modify for one QP.
func ModifyOf(q ci.QP, c ci.QPCreate, f func(ci.QPCreate, ci.QPField, *ci.QPAttr)) ci.QP {
	return modifyQP{ciwrap.QP{QP: q}, c, f}
}

type modifyQP struct {
	ciwrap.QP
	c ci.QPCreate
	f func(ci.QPCreate, ci.QPField, *ci.QPAttr)
}

func (q modifyQP) Modify(set ci.QPField, a ci.QPAttr) error {
	q.f(q.c, set, &a)
	return q.QP.Modify(set, a)
}
