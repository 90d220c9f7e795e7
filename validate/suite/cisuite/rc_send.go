package cisuite

import (
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// rcSendCases are the cases of messages on reliable connections. (IBTA 9.7, 10.8, 11.4.)
var rcSendCases = &validate.Area{Feature: validate.FeatureRC}

// large16 returns why a CA cannot send messages of 16 MiB, or "".
func large16(a *ci.CAAttr) string {
	if a.MaxMRSize < 16<<20 || a.Ports[0].MaxMsgSize < 16<<20 {
		return "regions or messages are limited to less than 16 MiB"
	}
	return ""
}

var ibta9_7_01 = rcSendCases.Must("IBTA-9.7-01", "IBTA 9.7", "SEND; ci_post_send (55)",
	"A SEND of any length from 0 to the limit of the port arrives completely, and nothing else is written.")

var _ = rcSendCases.Add("rc.send.sizes", "messages of 0 bytes to 1 MiB, around packet boundaries", func(t *validate.T) {
	maxSize := int(min(1<<20, t.Attr().MaxMRSize, t.Attr().Ports[0].MaxMsgSize))
	p := kit.RC(t, kit.Size(maxSize))
	kit.Random(t, p.A.Buf.Bytes)
	p.B.Buf.Blank()
	for i, n := range kit.Variants(t, "bytes", kit.MessageSizes(p.A.PathMTU(), maxSize)) {
		id, at := uint64(i+1), (i*13)%(maxSize-n+1)
		p.B.Recv(p.B.RecvWR(id, at, n))
		p.A.Send(p.A.SendWR(id, maxSize-n, n))
		p.A.CQ.WaitOK(id)
		where := fmt.Sprintf("message of %d bytes", n)
		kit.Equal(t, where+": Length", p.B.RecvCQ.WaitOK(id)[0].Length, uint32(n))
		if n <= 4096 || n == maxSize {
			p.B.Buf.WantOnly(t, where, at, p.A.Buf.Bytes[maxSize-n:])
		} else {
			kit.SameBytes(t, where, p.B.Buf.Bytes[at:at+n], p.A.Buf.Bytes[maxSize-n:])
		}
		for j := at; j < at+n; j++ {
			p.B.Buf.Bytes[j] = 0xee
		}
	}
}, ibta9_7_01, req.SAS2_3_18)

var _ = rcSendCases.Needing(validate.Needs{Attr: large16}).Add("rc.send.large",
	"a message of 16 MiB", func(t *validate.T) {
		const n = 16 << 20
		p := kit.RC(t, kit.Size(n))
		kit.Random(t, p.A.Buf.Bytes)
		p.B.Recv(p.B.RecvWR(1, 0, n))
		p.A.Send(p.A.SendWR(1, 0, n))
		p.A.CQ.WaitOK(1)
		kit.Equal(t, "Length of a message of 16 MiB", p.B.RecvCQ.WaitOK(1)[0].Length, uint32(n))
		kit.SameBytes(t, "message of 16 MiB", p.B.Buf.Bytes, p.A.Buf.Bytes)
	}, ibta9_7_01)

var ibta9_7_02 = rcSendCases.Must("IBTA-9.7-02", "IBTA 9.7", "ordering",
	"Messages of a send queue use receives in the order of both posts, and both queues complete in that order.")

var _ = rcSendCases.Add("rc.send.order", "64 messages, in order", func(t *validate.T) {
	const n, size = 64, 96
	p := kit.RC(t, kit.Depth(n))
	msgs := kit.Random(t, p.A.Buf.Bytes[:n*size])
	p.B.Recv(p.B.RecvWRs(n, size)...)
	for i := range n {
		p.A.Send(p.A.SendWR(uint64(i+1), i*size, size-i%7))
	}
	p.A.CQ.WaitOK(ids(1, n)...)
	for i, wc := range p.B.RecvCQ.WaitOK(ids(1, n)...) {
		want := msgs[i*size : (i+1)*size-i%7]
		kit.Equal(t, fmt.Sprintf("Length of message %d", i+1), wc.Length, uint32(len(want)))
		kit.SameBytes(t, fmt.Sprintf("message %d", i+1), p.B.Buf.Bytes[i*size:i*size+len(want)], want)
	}
}, ibta9_7_02)

// The case finds what is wrong in the second or third round of a ring, such as the sense of an owner bit, at the first
// message: otherwise it shows as a completion that does not come, in many cases that use a ring longer.
var _ = rcSendCases.Add("rc.send.wrap",
	"one message at a time, until each queue has begun anew three times", func(t *validate.T) {
		const most, size = 4096, 64 // adapters that round up to more have other cases
		p := kit.RC(t, kit.Depth(2))
		longest := 0
		for _, e := range []*kit.End{p.A, p.B} {
			q, err := e.QP.Query()
			kit.OK(t, err, "QP.Query")
			longest = max(longest, q.SendDepth, q.RecvDepth)
			for _, c := range []*kit.CQ{e.CQ, e.RecvCQ} {
				a, err := c.Query()
				kit.OK(t, err, "CQ.Query")
				longest = max(longest, a.Size)
			}
		}
		kit.Random(t, p.A.Buf.Bytes)
		for i := range min(3*longest+1, most) {
			id, at := uint64(i+1), i%32*size
			t.Step("message %d", i+1)
			p.B.Recv(p.B.RecvWR(id, at, size))
			p.A.Send(p.A.SendWR(id, at, size))
			p.A.CQ.WaitOK(id)
			p.B.RecvCQ.WaitOK(id)
			kit.SameBytes(t, "its bytes", p.B.Buf.Bytes[at:at+size], p.A.Buf.Bytes[at:at+size])
		}
	}, ibta9_7_02)

var _ = rcSendCases.Add("rc.send.both-ways", "both ends send at the same time", func(t *validate.T) {
	const n, size = 16, 2000
	p := kit.RC(t, kit.Size(2*n*size))
	half := n * size
	kit.Random(t, p.A.Buf.Bytes[:half])
	kit.Random(t, p.B.Buf.Bytes[:half])
	for _, e := range []*kit.End{p.A, p.B} {
		for i := range n {
			e.Recv(e.RecvWR(uint64(i+1), half+i*size, size))
		}
	}
	for i := range n {
		p.A.Send(p.A.SendWR(uint64(i+1), i*size, size))
		p.B.Send(p.B.SendWR(uint64(i+1), i*size, size))
	}
	for _, e := range []*kit.End{p.A, p.B} {
		e.CQ.WaitOK(ids(1, n)...)
		e.RecvCQ.WaitOK(ids(1, n)...)
	}
	kit.SameBytes(t, "messages to B", p.B.Buf.Bytes[half:], p.A.Buf.Bytes[:half])
	kit.SameBytes(t, "messages to A", p.A.Buf.Bytes[half:], p.B.Buf.Bytes[:half])
}, ibta9_7_01, ibta9_7_02)

var _ = rcSendCases.Add("rc.send.path-mtu", "each path MTU", func(t *validate.T) {
	ca := kit.Open(t)
	top := ca.MTU()
	kit.OK(t, ca.Destroy(), "CA.Destroy")
	const maxSize = 80 << 10 // several hundred packets of the smallest
	var first *kit.Pair
	for m := ci.MTU256; m <= top; m++ {
		var p *kit.Pair
		if first == nil {
			first = kit.RC(t, kit.MTU(m), kit.Size(2*maxSize))
			p = first
		} else {
			first.A.Config.MTU, first.B.Config.MTU = m, m
			p = first.More(false)
		}
		for _, n := range kit.Variants(t, "bytes", kit.MessageSizes(m.Bytes(), maxSize)) {
			p.A.Exchange(p.B, n)
		}
		attr, err := p.A.Query()
		kit.OK(t, err, "QP.Query")
		kit.Equal(t, "QPAttr.MTU", attr.MTU, m)
	}
}, rcSendCases.Must("IBTA-9.7-03", "IBTA 9.7", "segmentation by path MTU",
	"A connection works with each path MTU up to that of the port."), ibta9_7_01)

// pieces splits n bytes into uneven segments, one of them empty. Their order in the buffer differs from that in the
// message.
func pieces(n int) (off, length []int) {
	length = []int{1, 0, n/2 + 3, n - n/2 - 4}
	off = []int{n + 500, 7, 32, n + 1000}
	return off, length
}

var ciPostSend01 = rcSendCases.Must("CI-PostSend-01", "IBTA 11.4.1.1", "ci_post_send (55), data segments",
	"The segments of a send are gathered in their order, whatever their lengths are. They may be empty.")

var _ = rcSendCases.Add("rc.send.gather", "send from uneven and empty segments", func(t *validate.T) {
	p := kit.RC(t, kit.Size(16<<10), kit.SGEs(min(4, t.Attr().MaxSGEs)))
	kit.Random(t, p.A.Buf.Bytes)
	for i, n := range kit.Variants(t, "bytes", []int{64, p.A.PathMTU() + 17, 5000}) {
		id := uint64(i + 1)
		off, length := pieces(n)
		w := ci.SendWR{ID: id, Op: ci.OpSend, Flags: ci.SendSignaled}
		var want []byte
		for k := range min(len(off), p.A.Config.Caps.SendSGE) {
			w.SGL = append(w.SGL, p.A.Buf.SGE(uint64(off[k]), uint32(length[k])))
			want = append(want, p.A.Buf.Bytes[off[k]:off[k]+length[k]]...)
		}
		p.B.Buf.Blank()
		p.B.Recv(p.B.RecvWR(id, 100, n))
		p.A.Send(w)
		p.A.CQ.WaitOK(id)
		where := fmt.Sprintf("message gathered from segments of %d bytes", length)
		kit.Equal(t, where+": Length", p.B.RecvCQ.WaitOK(id)[0].Length, uint32(len(want)))
		p.B.Buf.WantOnly(t, where, 100, want)
	}
	p.B.Recv(p.B.RecvWR(9, 0, 16))
	p.A.Send(ci.SendWR{ID: 9, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: []ci.SGE{p.A.Buf.SGE(5, 0)}})
	p.A.CQ.WaitOK(9)
	kit.Equal(t, "Length of a message with one empty segment", p.B.RecvCQ.WaitOK(9)[0].Length, 0)
}, ciPostSend01)

// The case transfers lists of two segments, the last of one byte. It may be alone in its packet.
var _ = rcSendCases.With(validate.Case{Checks: []string{ciPostRecv01.ID}}).Add("rc.send.gather-last",
	"lists whose last segment has one byte, around packet boundaries", func(t *validate.T) {
		const head, last = 1024, 20000 // offsets of the segments
		if t.Attr().MaxSGEs < 2 || t.Attr().MaxReadSGEs < 2 {
			t.Skip("lists have at most one segment")
		}
		p := kit.RC(t, kit.Size(32<<10), kit.SGEs(2))
		list := func(b *kit.Buf, n int) []ci.SGE {
			return []ci.SGE{b.SGE(head, uint32(n-1)), b.SGE(last, 1)}
		}
		bytesOf := func(b *kit.Buf, n int) []byte {
			return append(slices.Clone(b.Bytes[head:head+n-1]), b.Bytes[last])
		}
		m := p.A.PathMTU()
		id := uint64(0)
		for _, n := range kit.Variants(t, "bytes", []int{2, 4, 5, m, m + 1, 2*m + 1}) {
			for _, op := range kit.Variants(t, "opcode", []ci.SendOp{ci.OpSend, ci.OpWrite, ci.OpRead}) {
				id++
				kit.Random(t, p.A.Buf.Bytes)
				kit.Random(t, p.B.Buf.Bytes)
				w := p.A.RDMA(op, id, 0, n, p.B, 0)
				w.SGL = list(p.A.Buf, n)
				if op == ci.OpSend {
					w.Remote = ci.Remote{}
					p.B.Recv(ci.RecvWR{ID: id, SGL: list(p.B.Buf, n)})
				}
				from := bytesOf(p.A.Buf, n)
				p.A.Send(w)
				p.A.CQ.WaitOK(id)
				where := fmt.Sprintf("%v of %d bytes with a last segment of one", op, n)
				switch op {
				case ci.OpSend:
					p.B.RecvCQ.WaitOK(id)
					t.Charge("CI-PostRecv-01", func() {
						kit.True(t, p.B.Buf.Bytes[last] == from[n-1], where+": last byte at the receiver",
							fmt.Sprintf("%#02x", from[n-1]), "%#02x", p.B.Buf.Bytes[last])
					})
					kit.SameBytes(t, where, bytesOf(p.B.Buf, n), from)
				case ci.OpWrite:
					kit.SameBytes(t, where, p.B.Buf.Bytes[:n], from)
				default:
					kit.SameBytes(t, where, bytesOf(p.A.Buf, n), p.B.Buf.Bytes[:n])
				}
			}
		}
	}, ciPostSend01, ciPostRecv01)

var ciPostRecv01 = rcSendCases.Must("CI-PostRecv-01", "IBTA 11.4.1.2", "ci_post_recv (56), data segments",
	"The segments of a receive are filled in their order. Each is filled completely before the next one, and "+
		"empty ones are skipped.")

var _ = rcSendCases.Add("rc.send.scatter", "receive into uneven and empty segments", func(t *validate.T) {
	p := kit.RC(t, kit.Size(16<<10), kit.SGEs(min(4, t.Attr().MaxSGEs)))
	kit.Random(t, p.A.Buf.Bytes)
	for i, n := range kit.Variants(t, "bytes", []int{64, p.A.PathMTU() + 17, 5000}) {
		id := uint64(i + 1)
		off, length := pieces(n)
		w := ci.RecvWR{ID: id}
		room := 0
		for k := range min(len(off), p.B.Config.Caps.RecvSGE) {
			w.SGL = append(w.SGL, p.B.Buf.SGE(uint64(off[k]), uint32(length[k])))
			room += length[k]
		}
		size := room - room/5 // the message ends inside a segment
		p.B.Buf.Blank()
		p.B.Recv(w)
		p.A.Send(p.A.SendWR(id, 0, size))
		p.A.CQ.WaitOK(id)
		where := fmt.Sprintf("message of %d bytes scattered into segments of %d bytes", size, length)
		kit.Equal(t, where+": Length", p.B.RecvCQ.WaitOK(id)[0].Length, uint32(size))
		want := make([]byte, len(p.B.Buf.Bytes))
		for k := range want {
			want[k] = 0xee
		}
		sent := p.A.Buf.Bytes[:size]
		for k := range w.SGL {
			sent = sent[copy(want[off[k]:off[k]+length[k]], sent):]
		}
		kit.SameBytes(t, where, p.B.Buf.Bytes, want)
	}
}, ciPostRecv01)

var ciPostSend02 = rcSendCases.Must("CI-PostSend-02", "IBTA 11.4.1.1", "IMMEDIATE; SendWR.Imm",
	"Immediate data arrive with the value sent and with WCImmediate. Without SendImmediate that flag is not set.")

var _ = rcSendCases.Add("rc.send.immediate", "with and without immediate data", func(t *validate.T) {
	p := kit.RC(t)
	for i, imm := range kit.Variants(t, "immediate", []uint32{0x01020304, 0, 0xffffffff, 0x80000001}) {
		for k, n := range kit.Variants(t, "bytes", []int{0, 100, 2*p.A.PathMTU() + 1}) {
			id := uint64(10*i + k + 1)
			w := p.A.SendWR(id, 0, n)
			w.Flags |= ci.SendImmediate
			w.Imm = imm
			p.B.Recv(p.B.RecvWR(id, 0, n))
			p.A.Send(w)
			p.A.CQ.WaitOK(id)
			wc := p.B.RecvCQ.WaitOK(id)[0]
			kit.Equal(t, "Flags of a SEND with immediate data", wc.Flags&ci.WCImmediate, ci.WCImmediate)
			kit.Equal(t, "Imm", fmt.Sprintf("%08x", wc.Imm), fmt.Sprintf("%08x", imm))
			kit.Equal(t, "Length, without the immediate data", wc.Length, uint32(n))
			kit.Equal(t, "Op", wc.Op, ci.WCRecv)
		}
	}
	w := p.A.SendWR(99, 0, 8)
	w.Imm = 0x55aa55aa // ignored without the flag
	p.B.Recv(p.B.RecvWR(99, 0, 8))
	p.A.Send(w)
	p.A.CQ.WaitOK(99)
	kit.Equal(t, "Flags of a SEND without immediate data", p.B.RecvCQ.WaitOK(99)[0].Flags&ci.WCImmediate, 0)
}, ciPostSend02)

var _ = rcSendCases.Add("rc.send.same-buffer", "a buffer registered once and used 200 times", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	for range 200 {
		p.A.Exchange(p.B, 500)
	}
}, req.SAS2_3_25)

var _ = rcSendCases.Add("rc.wc.recv", "all fields of a receive completion", func(t *validate.T) {
	type mine struct{ name string }
	ctx := &mine{"context of the QP"}
	p := kit.RC(t, kit.With(func(c *kit.Config) { c.Context = ctx }))
	const big = uint64(1)<<63 | 12345
	for i, x := range kit.Variants(t, "", []struct {
		op  ci.SendOp
		imm bool
		n   int
	}{{ci.OpSend, false, 300}, {ci.OpSend, true, 0}, {ci.OpWrite, true, 77}, {ci.OpSend, true, 5000}}) {
		id := big + uint64(i)
		w := p.A.RDMA(x.op, 1, 0, x.n, p.B, 8192)
		want := ci.WC{ID: id, Op: ci.WCRecv, Length: uint32(x.n), QPN: p.B.Num(), Context: ctx}
		if x.op == ci.OpWrite {
			want.Op = ci.WCRecvWrite
		}
		if x.imm {
			w.Flags |= ci.SendImmediate
			w.Imm, want.Imm, want.Flags = 0x0a0b0c0d, 0x0a0b0c0d, ci.WCImmediate
		}
		p.B.Recv(p.B.RecvWR(id, 0, 6000))
		p.A.Send(w)
		p.A.CQ.WaitOK(1)
		kit.WantRecv(t, fmt.Sprintf("receive %d", i+1), p.B.RecvCQ.Wait(1)[0], want)
	}
}, req.SAS2_3_23)

var _ = rcSendCases.Add("rc.wc.send", "the fields of a send completion", func(t *validate.T) {
	ctx := new(int)
	p := kit.RC(t, kit.With(func(c *kit.Config) { c.Context = ctx }))
	for i, x := range kit.Variants(t, "", []struct {
		op   ci.SendOp
		want ci.WCOp
	}{{ci.OpSend, ci.WCSend}, {ci.OpWrite, ci.WCWrite}, {ci.OpRead, ci.WCRead}}) {
		id := ^uint64(i)
		p.B.Recv(p.B.RecvWR(1, 0, 64))
		p.A.Send(p.A.RDMA(x.op, id, 0, 64, p.B, 4096))
		wc := p.A.CQ.Wait(1)[0]
		where := fmt.Sprintf("completion of operation %d: ", x.op)
		kit.Equal(t, where+"ID", wc.ID, id)
		kit.Equal(t, where+"Status", wc.Status.String(), ci.WCSuccess.String())
		kit.Equal(t, where+"Op", wc.Op, x.want)
		kit.Equal(t, where+"QPN", wc.QPN, p.A.Num())
		kit.True(t, wc.Context == any(ctx), where+"Context", "the context set at creation", "%v", wc.Context)
		if x.op == ci.OpRead {
			kit.Equal(t, where+"Length", wc.Length, 64)
		}
	}
}, rcSendCases.Must("CI-WC-01", "IBTA 11.4.2.1", "ci_poll_cq (59)",
	"The completion of a send has the ID of its request, and its QP number, context and operation."),
	req.SAS2_3_23)

var _ = rcSendCases.Add("rc.shared-cq",
	"two QPs of two PDs with one CQ, identified by their contexts", func(t *validate.T) {
		a, b := kit.OpenPair(t)
		cq := b.CQ(b.PD(), 64)
		type link struct {
			from *kit.End
			to   *kit.QP
			buf  *kit.Buf
		}
		var links []link
		byContext := map[any]int{}
		for i := range 2 {
			p := kit.Options(a, b)
			from := a.End(p)
			pd := b.PD() // each QP has its own PD
			c := p
			c.Context = fmt.Sprintf("QP %d", i)
			to := b.QP(pd, cq, cq, kit.With(func(o *kit.Config) { *o = c }))
			byContext[c.Context] = i
			kit.Connect(from.QP, to)
			links = append(links, link{from, to, b.Buf(pd, 4096, kit.AllAccess)})
		}
		const n = 8
		for k := range n {
			for i, l := range links {
				id := uint64(k) // both QPs use the same ids, so only the context identifies the QP
				l.to.Recv(ci.RecvWR{ID: id, SGL: l.buf.SGL(k*64, 64)})
				kit.Random(t, l.from.Buf.Bytes[k*64:k*64+i+1])
				l.from.Send(l.from.SendWR(id, k*64, i+1))
			}
		}
		var next [2]uint64
		for _, wc := range cq.Wait(2 * n) {
			i, ok := byContext[wc.Context]
			kit.True(t, ok, "WC.Context", "the context of one of the two QPs", "%v", wc.Context)
			kit.Equal(t, "WC.QPN of "+fmt.Sprint(wc.Context), wc.QPN, links[i].to.Num())
			kit.Equal(t, "WC.Status of "+fmt.Sprint(wc.Context), wc.Status.String(), ci.WCSuccess.String())
			kit.Equal(t, "WC.ID of "+fmt.Sprint(wc.Context), wc.ID, next[i])
			kit.Equal(t, "WC.Length of "+fmt.Sprint(wc.Context), wc.Length, uint32(i+1))
			next[i]++
		}
		cq.Empty()
		for i, l := range links {
			for k := range n {
				kit.SameBytes(t, "message", l.buf.Bytes[k*64:k*64+i+1], l.from.Buf.Bytes[k*64:k*64+i+1])
			}
		}
	}, req.SAS2_1_07, req.SAS2_3_23)

var _ = rcSendCases.Add("rc.reuse", "create, connect, use and destroy QPs, 40 rounds", func(t *validate.T) {
	first := kit.RC(t, kit.Size(4096))
	for round := range 40 {
		// The case tests creation, so it does not use a constructor of package kit.
		qp, err := first.A.PD.CreateQP(first.A.QP.Create())
		kit.OK(t, err, fmt.Sprintf("PD.CreateQP after %d QPs were created and destroyed", round))
		kit.Own(t, qp, "QP")
		kit.Destroy(t, qp, "QP")
		if round%8 != 0 {
			continue
		}
		p := first.More(false)
		p.A.Exchange(p.B, 100)
		p.B.Recv(p.B.RecvWR(1, 0, 8)) // outstanding requests must not complete after Destroy
		for _, e := range []*kit.End{p.A, p.B} {
			kit.Destroy(t, e.QP, "QP")
			e.CQ.Empty()
			e.RecvCQ.Empty()
			kit.Destroy(t, e.CQ, "CQ")
			kit.Destroy(t, e.RecvCQ, "CQ")
			kit.Destroy(t, e.Buf, "MR")
		}
	}
	first.A.Exchange(first.B, 100)
}, req.SAS2_3_27)

// The case gathers a message from segments that are regions of their own, more than most drivers keep at hand for a
// request, and scatters it likewise. An empty segment between them may have any key.
var _ = rcSendCases.Add("rc.send.regions", "send from many regions, and receive into as many", func(t *validate.T) {
	n := min(20, t.Attr().MaxSGEs)
	const size = 40
	p := kit.RC(t, kit.SGEs(n))
	from, to := regions(p.A, n, size), regions(p.B, n, size)
	for id := range uint64(3) {
		send := ci.SendWR{ID: id, Op: ci.OpSend, Flags: ci.SendSignaled}
		recv := ci.RecvWR{ID: id}
		var want []byte
		for k := range n {
			if k == 1 && n > 2 {
				send.SGL = append(send.SGL, ci.SGE{Addr: 1, LKey: 0})
				continue
			}
			kit.Random(t, from[k].Bytes)
			want = append(want, from[k].Bytes...)
			send.SGL, recv.SGL = append(send.SGL, from[k].SGE(0, size)), append(recv.SGL, to[k].SGE(0, size))
		}
		p.B.Recv(recv)
		p.A.Send(send)
		p.A.CQ.WaitOK(id)
		where := fmt.Sprintf("message from %d regions", len(recv.SGL))
		kit.Equal(t, where+": Length", p.B.RecvCQ.WaitOK(id)[0].Length, uint32(len(want)))
		var got []byte
		for k := range n {
			if k != 1 || n <= 2 {
				got = append(got, to[k].Bytes...)
			}
		}
		kit.SameBytes(t, where, got, want)
	}
	// A list of messages, each with all regions, the last of them twice.
	var sends []ci.SendWR
	var recvs []ci.RecvWR
	segment := func(k int) (region int, off uint64) {
		region = min(k, max(n-2, 0))
		return region, uint64(k-region) * 16
	}
	for id := range uint64(4) {
		send, recv := ci.SendWR{ID: id, Op: ci.OpSend, Flags: ci.SendSignaled}, ci.RecvWR{ID: id}
		for k := range n {
			r, off := segment(k)
			send.SGL, recv.SGL = append(send.SGL, from[r].SGE(id, 8)), append(recv.SGL, to[r].SGE(off, 8))
		}
		sends, recvs = append(sends, send), append(recvs, recv)
	}
	p.B.Recv(recvs...)
	p.A.Send(sends...)
	p.A.CQ.WaitOK(0, 1, 2, 3)
	p.B.RecvCQ.WaitOK(0, 1, 2, 3)
	for k := range n { // the last message is the one that is left
		r, off := segment(k)
		kit.SameBytes(t, fmt.Sprintf("segment %d of the last of a list of messages", k), to[r].Bytes[off:off+8],
			from[r].Bytes[3:11])
	}
}, ciPostSend01)

// regions returns buffers with a region each.
func regions(e *kit.End, n, size int) []*kit.Buf {
	list := make([]*kit.Buf, n)
	for i := range list {
		list[i] = e.QP.CA.Buf(e.PD, size, kit.AllAccess)
	}
	return list
}
