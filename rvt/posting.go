package rvt

import (
	"ciddk/ci"
	"ciddk/ci/wrrules"
)

var (
	sendErrors    = wrrules.NewErrors("QP.PostSend", ci.InvalidQPHandle)
	recvErrors    = wrrules.NewErrors("QP.PostRecv", ci.InvalidQPHandle)
	srqPostErrors = wrrules.NewErrors("SRQ.PostRecv", ci.InvalidSRQHandle)
)

func postRecv(ring RecvRing, wrs []ci.RecvWR, sge int, e *wrrules.Errors) (int, error) {
	legal := len(wrs)
	for i := range wrs {
		if len(wrs[i].SGL) > sge {
			legal = i
			break
		}
	}
	n := ring.Post(wrs[:legal])
	switch {
	case n < legal:
		return n, e.Full
	case legal < len(wrs):
		return n, e.Of(wrrules.SGEs)
	}
	return n, nil
}
