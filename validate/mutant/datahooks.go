package mutant

import (
	"slices"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// The faults of the data path are made from four taps: on what is posted to send queues, on what is posted to receive queues, on what is polled,
// and on what QPs are modified to. A tap changes copies: what the consumer handed over stays as it is.

// onQP replaces QPs.
func onQP(f func(ci.QP, ci.QPCreate) ci.QP) func(ci.HCA) ci.HCA { return layer(ciwrap.Layer{QP: f}) }

// onSend changes each send request on its way to the driver.
func onSend(f func(c ci.QPCreate, w *ci.SendWR)) func(ci.HCA) ci.HCA {
	return onSends(func(c ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
		for i := range wrs {
			f(c, &wrs[i])
		}
		return wrs
	})
}

// onSends changes each list of send requests. The driver's count is cut to the consumer's.
func onSends(f func(c ci.QPCreate, wrs []ci.SendWR) []ci.SendWR) func(ci.HCA) ci.HCA {
	return onQP(func(q ci.QP, c ci.QPCreate) ci.QP { return sendTap{ciwrap.QP{QP: q}, c, f} })
}

type sendTap struct {
	ciwrap.QP
	c ci.QPCreate
	f func(ci.QPCreate, []ci.SendWR) []ci.SendWR
}

func (q sendTap) PostSend(wrs []ci.SendWR) (int, error) {
	n, err := q.QP.PostSend(q.f(q.c, copySends(wrs)))
	return min(n, len(wrs)), err
}

func copySends(wrs []ci.SendWR) []ci.SendWR {
	out := slices.Clone(wrs)
	for i := range out {
		out[i].SGL = slices.Clone(out[i].SGL)
	}
	return out
}

// onPost replaces PostSend as a whole.
func onPost(f func(q ci.QP, c ci.QPCreate, wrs []ci.SendWR) (int, error)) func(ci.HCA) ci.HCA {
	return onQP(func(q ci.QP, c ci.QPCreate) ci.QP { return postTap{ciwrap.QP{QP: q}, c, f} })
}

type postTap struct {
	ciwrap.QP
	c ci.QPCreate
	f func(ci.QP, ci.QPCreate, []ci.SendWR) (int, error)
}

func (q postTap) PostSend(wrs []ci.SendWR) (int, error) { return q.f(q.QP.QP, q.c, wrs) }

// onRecv replaces PostRecv as a whole.
func onRecv(f func(q ci.QP, wrs []ci.RecvWR) (int, error)) func(ci.HCA) ci.HCA {
	return onQP(func(q ci.QP, _ ci.QPCreate) ci.QP { return recvTap{ciwrap.QP{QP: q}, f} })
}

type recvTap struct {
	ciwrap.QP
	f func(ci.QP, []ci.RecvWR) (int, error)
}

func (q recvTap) PostRecv(wrs []ci.RecvWR) (int, error) { return q.f(q.QP.QP, wrs) }

// onPoll changes each completion on its way up.
func onPoll(f func(*ci.WC)) func(ci.HCA) ci.HCA {
	return layer(ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return pollTap{ciwrap.CQ{CQ: c}, f} }})
}

type pollTap struct {
	ciwrap.CQ
	f func(*ci.WC)
}

func (q pollTap) Poll(wc []ci.WC) (int, error) {
	n, err := q.CQ.Poll(wc)
	for i := range wc[:n] {
		q.f(&wc[i])
	}
	return n, err
}

// status gives one completion status in place of another.
func status(from, to ci.WCStatus) func(ci.HCA) ci.HCA {
	return onPoll(func(wc *ci.WC) {
		if wc.Status == from {
			wc.Status = to
		}
	})
}

// onModify changes what a QP is modified to.
func onModify(f func(c ci.QPCreate, set ci.QPField, a *ci.QPAttr)) func(ci.HCA) ci.HCA {
	return onQP(func(q ci.QP, c ci.QPCreate) ci.QP { return modifyTap{ciwrap.QP{QP: q}, c, f} })
}

type modifyTap struct {
	ciwrap.QP
	c ci.QPCreate
	f func(ci.QPCreate, ci.QPField, *ci.QPAttr)
}

func (q modifyTap) Modify(set ci.QPField, a ci.QPAttr) error {
	q.f(q.c, set, &a)
	return q.QP.Modify(set, a)
}

// both puts one fault that needs two taps together.
func both(a, b func(ci.HCA) ci.HCA) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA { return a(b(h)) }
}

// answers gives one status of posting in place of another; 0 for success: what was refused is then dropped without a word.
func answers(from ci.Status, to ci.Status) func(ci.HCA) ci.HCA {
	return both(
		onPost(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
			n, err := q.PostSend(wrs)
			return answer(n, len(wrs), err, from, to, "QP.PostSend")
		}),
		onRecv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
			n, err := q.PostRecv(wrs)
			return answer(n, len(wrs), err, from, to, "QP.PostRecv")
		}))
}

func answer(n, all int, err error, from, to ci.Status, verb string) (int, error) {
	switch {
	case ci.StatusOf(err) != from:
		return n, err
	case to == ci.Success:
		return all, nil
	}
	return n, &ci.Error{Verb: verb, Status: to}
}

// total is the bytes of a gather list.
func total(sgl []ci.SGE) int {
	n := 0
	for _, g := range sgl {
		n += int(g.Length)
	}
	return n
}

// shorten takes the last byte off a gather list.
func shorten(sgl []ci.SGE) {
	for i := len(sgl) - 1; i >= 0; i-- {
		if sgl[i].Length > 0 {
			sgl[i].Length--
			return
		}
	}
}
