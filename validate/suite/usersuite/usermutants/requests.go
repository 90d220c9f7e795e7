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
		caughtBy("user.post.fields",
			fault("user.post-swaps", req.SAS2_4_16, "compare and swap operands of a send are exchanged",
				editing(swapOperands, nil))),
		caughtBy("user.poll.fields",
			fault("user.poll-limited", req.SAS2_4_16, "a poll returns 64 completions at most",
				editing(limitPolls, nil))),
		caughtBy("user.post.malformed",
			fault("user.post-reserved", req.SAS2_4_06, "the reserved field of a post is ignored",
				editing(ignoreReserved, nil))),
		caughtBy("user.post.limits",
			fault("user.post-short", req.SAS2_1_24, "a list of more than 512 requests is refused",
				editing(refuseLong, nil))),
		caughtBy("user.post.partly",
			fault("user.post-none", req.SAS2_1_24, "a list that is accepted in part counts as refused",
				func() *usersuite.Fault { return &usersuite.Fault{Relay: forgetAccepted} })),
		caughtBy("user.request.longest",
			fault("user.lists-short", req.SAS2_4_08, "private data of the largest length are cut off",
				editing(cutPrivate, nil))),
		caughtBy("user.hello.first",
			fault("user.any-version", req.SAS2_4_06, "clients of every version are accepted",
				editing(anyVersion, nil))),
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

// swapOperands exchanges the operands of the first work request of a post.
func swapOperands(h *native.Header, body []byte) []byte {
	const head, compare, swap, end = 16, 16, 24, 32
	if h.Command == schema.CmdPostSend && len(body) >= head+end {
		w := body[head:]
		a, b := [8]byte(w[compare:swap]), [8]byte(w[swap:end])
		copy(w[compare:], b[:])
		copy(w[swap:], a[:])
	}
	return body
}

// countOf is the offset of the count in the body of a post or poll, and reservedOf that of the field after it.
const countOf, reservedOf = 8, 12

// limitPolls lowers the number of completions that a poll asks for.
func limitPolls(h *native.Header, body []byte) []byte {
	if h.Command == schema.CmdPoll && len(body) > countOf+1 && body[countOf+1] != 0 {
		body[countOf], body[countOf+1] = 64, 0
	}
	return body
}

// ignoreReserved clears the reserved field of posts.
func ignoreReserved(h *native.Header, body []byte) []byte {
	if h.Command == schema.CmdPostRecv && len(body) >= reservedOf+4 {
		clear(body[reservedOf : reservedOf+4])
	}
	return body
}

// refuseLong makes posts of more than 512 receives wrong.
func refuseLong(h *native.Header, body []byte) []byte {
	if h.Command == schema.CmdPostRecv && len(body) > countOf+1 && body[countOf+1] > 2 {
		return nil
	}
	return body
}

// cutPrivate shortens private data of the largest length by a byte.
func cutPrivate(h *native.Header, body []byte) []byte {
	var r schema.VendorCall
	if h.Command != schema.CmdVendorCall || native.Parse(body, &r) != nil || len(r.User.In) < schema.MaxPrivate {
		return body
	}
	r.User.In = r.User.In[:schema.MaxPrivate-1]
	return native.Append(nil, &r)
}

// anyVersion sets the daemon's version in first requests.
func anyVersion(h *native.Header, body []byte) []byte {
	var r schema.Hello
	if h.Command != schema.CmdHello || native.Parse(body, &r) != nil {
		return body
	}
	r.Version = schema.Version
	return native.Append(nil, &r)
}

// forgetAccepted passes messages, but for the number of accepted requests in errors.
func forgetAccepted(client, daemon *native.Conn) {
	both(client, daemon, passOn, func(from, to *native.Conn) {
		buf := make([]byte, schema.MaxMessage)
		for {
			n, files, err := from.Recv(buf)
			if err != nil {
				return
			}
			if h, body, err := native.ParseHeader(buf[:n]); err == nil && h.Status != 0 && len(body) >= 4 {
				clear(body[:4])
			}
			err = to.Send(buf[:n], files)
			usersuite.CloseFiles(files)
			if err != nil {
				return
			}
		}
	})
}
