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

// QP returns a wrapper that replaces QPs.
func QP(f func(ci.QP, ci.QPCreate) ci.QP) func(ci.HCA) ci.HCA { return Layer(ciwrap.Layer{QP: f}) }

// Both returns a wrapper that applies a and b, for a fault that needs two taps.
func Both(a, b func(ci.HCA) ci.HCA) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA { return a(b(h)) }
}

// Send returns a wrapper that changes each send request before it reaches the driver.
func Send(f func(c ci.QPCreate, w *ci.SendWR)) func(ci.HCA) ci.HCA {
	return Sends(func(c ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
		for i := range wrs {
			f(c, &wrs[i])
		}
		return wrs
	})
}

// Sends returns a wrapper that changes each list of send requests. If the list grows, the count that PostSend returns
// is limited to the length of the consumer's list.
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

func (s sendQP) PostSend(wrs []ci.SendWR) (int, error) {
	n, err := s.QP.PostSend(s.f(s.c, CopySends(wrs)))
	return min(n, len(wrs)), err
}

// CopySends returns a copy of send requests, including their gather lists.
func CopySends(wrs []ci.SendWR) []ci.SendWR {
	out := slices.Clone(wrs)
	for i := range out {
		out[i].SGL = slices.Clone(out[i].SGL)
	}
	return out
}

// Post returns a wrapper that replaces PostSend.
func Post(f func(q ci.QP, c ci.QPCreate, wrs []ci.SendWR) (int, error)) func(ci.HCA) ci.HCA {
	return QP(func(q ci.QP, c ci.QPCreate) ci.QP { return postQP{ciwrap.QP{QP: q}, c, f} })
}

type postQP struct {
	ciwrap.QP
	c ci.QPCreate
	f func(ci.QP, ci.QPCreate, []ci.SendWR) (int, error)
}

func (p postQP) PostSend(wrs []ci.SendWR) (int, error) { return p.f(p.QP.QP, p.c, wrs) }

// Recv returns a wrapper that replaces PostRecv.
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

func (r recvQP) PostRecv(wrs []ci.RecvWR) (int, error) { return r.f(r.QP.QP, wrs) }

// Poll returns a wrapper that changes each completion before it reaches the consumer.
func Poll(f func(*ci.WC)) func(ci.HCA) ci.HCA {
	return Layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return PollOf(c, f) }})
}

// PollOf is Poll for one CQ.
func PollOf(c ci.CQ, f func(*ci.WC)) ci.CQ { return pollCQ{ciwrap.CQ{CQ: c}, f} }

type pollCQ struct {
	ciwrap.CQ
	f func(*ci.WC)
}

func (p pollCQ) Poll(wc []ci.WC) (int, error) {
	n, err := p.CQ.Poll(wc)
	for i := range wc[:n] {
		p.f(&wc[i])
	}
	return n, err
}

// Modify returns a wrapper that changes the attributes of QP.Modify.
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

func (m modifyQP) Modify(set ci.QPField, a ci.QPAttr) error {
	m.f(m.c, set, &a)
	return m.QP.Modify(set, a)
}
