package mutant

import (
	"ciddk/ci"
	"ciddk/validate/mutant/tap"
)

// status returns a wrapper that replaces a completion status.
func status(from, to ci.WCStatus) func(ci.HCA) ci.HCA {
	return tap.Poll(func(wc *ci.WC) {
		if wc.Status == from {
			wc.Status = to
		}
	})
}

// answers returns a wrapper that replaces a status of the post verbs. With ci.Success, rejected requests are dropped
// silently.
func answers(from ci.Status, to ci.Status) func(ci.HCA) ci.HCA {
	return tap.Both(
		tap.Post(func(q ci.QP, _ ci.QPCreate, wrs []ci.SendWR) (int, error) {
			n, err := q.PostSend(wrs)
			return answer(n, len(wrs), err, from, to, "QP.PostSend")
		}),
		tap.Recv(func(q ci.QP, wrs []ci.RecvWR) (int, error) {
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

// total returns the number of bytes of a gather list.
func total(sgl []ci.SGE) int {
	n := 0
	for _, g := range sgl {
		n += int(g.Length)
	}
	return n
}

// shorten removes the last byte of a gather list.
func shorten(sgl []ci.SGE) {
	for i := len(sgl) - 1; i >= 0; i-- {
		if sgl[i].Length > 0 {
			sgl[i].Length--
			return
		}
	}
}
