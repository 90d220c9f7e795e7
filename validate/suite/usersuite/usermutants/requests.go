package usermutants

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate/mutant"
	"ciddk/validate/req"
	"ciddk/validate/suite/usersuite"
)

// requests returns proxies with a fault that one case alone looks for, in what they do about requests or in what they
// count.
func requests() []mutant.Mutant {
	return []mutant.Mutant{
		caughtBy("user.request.noise",
			fault("user.refusals-spread", req.SAS2_4_06, "after 40 refused requests of one process, others fail",
				func() *usersuite.Fault { return &usersuite.Fault{Relay: new(spread).relay} })),
		caughtBy("user.request.header",
			fault("user.header-answered", req.SAS2_4_15, "a message with a wrong header gets only a reply",
				func() *usersuite.Fault { return &usersuite.Fault{Relay: answerHeaders} })),
		caughtBy("user.request.layout",
			fault("user.padding-counted", req.SAS2_4_08, "the padding after private data counts as private data",
				editing(countPadding, nil))),
		caughtBy("user.quota.bytes",
			fault("user.resizes-count", req.SAS2_4_10, "the bytes of a CQ before a resize count until its destruction",
				resizesCount)),
		caughtBy("user.quota.removed",
			fault("user.removed-counts", req.SAS2_4_10, "regions of an adapter that was removed still count",
				removedCounts)),
	}
}

// spread is a proxy in which many refused requests of one process disturb the others.
type spread struct{ refused atomic.Int32 }

func (x *spread) relay(client, daemon *native.Conn) {
	own := int32(0) // those of this process; one goroutine passes its replies
	relayEdited(client, daemon, nil, func(h *native.Header) {
		switch {
		case h.Status != 0:
			x.refused.Add(1)
			own++
		case h.Command == schema.CmdQueryCA && x.refused.Load()-own > 40:
			h.Status = ci.InvalidState
		}
	})
}

// answerHeaders passes messages, and answers those with a wrong header itself.
func answerHeaders(client, daemon *native.Conn) {
	both(client, daemon, func(from, to *native.Conn) {
		buf := make([]byte, schema.MaxMessage)
		for {
			n, files, err := from.Recv(buf)
			if err != nil {
				return
			}
			if h, _, wrong := native.ParseHeader(buf[:n]); wrong != nil || h.Reply {
				m := native.Append(native.Start(nil), &schema.ErrorReply{})
				_ = native.Finish(m, native.Header{Command: schema.CmdQueryCQ, Reply: true,
					Status: ci.InvalidParameter}) // it is no longer than a message
				err = from.Send(m, nil)
			} else {
				err = to.Send(buf[:n], files)
			}
			usersuite.CloseFiles(files)
			if err != nil {
				return
			}
		}
	}, passOn)
}

// resizesCount refuses resizes after the 30th one.
func resizesCount() *usersuite.Fault {
	var resizes atomic.Int32
	return &usersuite.Fault{Relay: func(client, daemon *native.Conn) {
		relayEdited(client, daemon, nil, func(h *native.Header) {
			if h.Command == schema.CmdResizeCQ && resizes.Add(1) > 30 {
				h.Status = ci.InsufficientResources
			}
		})
	}}
}

// removedCounts refuses every region from the first one on that exceeds the quota, until the process destroys an
// object.
func removedCounts() *usersuite.Fault {
	var isFull atomic.Bool
	return &usersuite.Fault{Relay: func(client, daemon *native.Conn) {
		relayEdited(client, daemon, nil, func(h *native.Header) {
			switch {
			case h.Command == schema.CmdDestroy:
				isFull.Store(false)
			case h.Command != schema.CmdRegisterMR:
			case h.Status == ci.InsufficientResources:
				isFull.Store(true)
			case isFull.Load():
				h.Status = ci.InsufficientResources
			}
		})
	}}
}

// countPadding extends the private data of a create by the padding that follows them.
func countPadding(h *native.Header, body []byte) []byte {
	var c schema.CreateCQ
	if h.Command != schema.CmdCreateCQ || native.Parse(body, &c) != nil {
		return body
	}
	c.User.In = append(c.User.In, make([]byte, -len(c.User.In)&7)...)
	return native.Append(nil, &c)
}
