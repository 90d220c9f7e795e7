package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// ucCases are the cases of unreliable connections. (IBTA 9.8.2.)
var ucCases = &validate.Area{Feature: validate.FeatureUC, Needs: validate.Needs{Caps: ci.CapUC}}

var ibta9_8_01 = ucCases.Must("IBTA-9.8-01", "IBTA 9.8.2", "SEND on UC",
	"On a link without losses, a SEND on UC of any length arrives completely, with its length and immediate data.")

var _ = ucCases.Add("uc.send.sizes", "messages of 0 bytes to 32 KiB", func(t *validate.T) {
	const maxSize = 32 << 10
	p := kit.UC(t, kit.Size(maxSize))
	kit.Random(t, p.A.Buf.Bytes)
	for i, n := range kit.Variants(t, "bytes", kit.MessageSizes(p.A.PathMTU(), maxSize)) {
		id, at := uint64(i+1), (i*13)%(maxSize-n+1)
		p.B.Buf.Blank()
		p.B.Recv(p.B.RecvWR(id, at, n))
		p.A.Send(p.A.SendWR(id, maxSize-n, n))
		p.A.CQ.WaitOK(id)
		where := fmt.Sprintf("UC message of %d bytes", n)
		kit.WantRecv(t, where, p.B.RecvCQ.Wait(1)[0],
			ci.WC{ID: id, Op: ci.WCRecv, Length: uint32(n), QPN: p.B.Num(), Context: p.B.QP.Events})
		p.B.Buf.WantOnly(t, where, at, p.A.Buf.Bytes[maxSize-n:])
	}
}, ibta9_8_01)

var _ = ucCases.Add("uc.send.order", "16 messages in order", ucOrder,
	ucCases.Must("IBTA-9.8-05", "IBTA 9.8.2", "ordering", "UC messages arrive in the order of their posts."),
	ibta9_8_01)

func ucOrder(t *validate.T) {
	const n, size = 16, 64
	p := kit.UC(t)
	msgs := kit.Random(t, p.A.Buf.Bytes[:n*size])
	p.B.Recv(p.B.RecvWRs(n, size)...)
	for i := range n {
		p.A.Send(p.A.SendWR(uint64(i+1), i*size, size))
	}
	p.A.CQ.WaitOK(ids(1, n)...)
	p.B.RecvCQ.WaitOK(ids(1, n)...)
	kit.SameBytes(t, "UC messages", p.B.Buf.Bytes[:n*size], msgs)
}

var _ = ucCases.Add("uc.send.immediate", "immediate data", func(t *validate.T) {
	p := kit.UC(t)
	for i, n := range kit.Variants(t, "bytes", []int{0, 50, p.A.PathMTU() + 1}) {
		w := p.A.SendWR(uint64(i), 0, n)
		w.Flags |= ci.SendImmediate
		w.Imm = 0xa0b0c0d0 + uint32(i)
		p.B.Recv(p.B.RecvWR(uint64(i), 0, n))
		p.A.Send(w)
		p.A.CQ.WaitOK(uint64(i))
		kit.WantRecv(t, "UC receive with immediate data", p.B.RecvCQ.Wait(1)[0],
			ci.WC{ID: uint64(i), Op: ci.WCRecv, Length: uint32(n), QPN: p.B.Num(),
				Context: p.B.QP.Events, Flags: ci.WCImmediate, Imm: w.Imm})
	}
}, ibta9_8_01, ciPostSend02)

var ibta9_8_02 = ucCases.Must("IBTA-9.8-02", "IBTA 9.8.2", "RDMA WRITE on UC",
	"On a link without losses, an RDMA WRITE on UC writes its bytes. With immediate data it uses one receive.")

var _ = ucCases.Add("uc.write.sizes", "writes of 0 bytes to 32 KiB", func(t *validate.T) {
	const maxSize = 32 << 10
	p := kit.UC(t, kit.Size(maxSize))
	kit.Random(t, p.A.Buf.Bytes)
	for i, n := range kit.Variants(t, "bytes", kit.MessageSizes(p.A.PathMTU(), maxSize)) {
		at := (i * 13) % (maxSize - n + 1)
		p.B.Buf.Blank()
		p.A.Send(p.A.RDMA(ci.OpWrite, 1, maxSize-n, n, p.B, at))
		p.A.CQ.WaitOK(1)
		settle(p)
		p.B.Buf.WantOnly(t, fmt.Sprintf("target of a UC write of %d bytes", n), at, p.A.Buf.Bytes[maxSize-n:])
	}
}, ibta9_8_02)

var _ = ucCases.Add("uc.write.immediate", "a write with immediate data", ucWriteImmediate, ibta9_8_02)

func ucWriteImmediate(t *validate.T) {
	p := kit.UC(t)
	kit.Random(t, p.A.Buf.Bytes[:8192])
	for i, n := range kit.Variants(t, "bytes", []int{0, 1, 3*p.A.PathMTU() + 7}) {
		w := p.A.RDMA(ci.OpWrite, 1, 0, n, p.B, 512)
		w.Flags |= ci.SendImmediate
		w.Imm = uint32(i) << 24
		p.B.Buf.Blank()
		p.B.Recv(p.B.RecvWR(7, 0, 100))
		p.A.Send(w)
		p.A.CQ.WaitOK(1)
		kit.WantRecv(t, "receive used by a UC write", p.B.RecvCQ.Wait(1)[0],
			ci.WC{ID: 7, Op: ci.WCRecvWrite, Length: uint32(n), QPN: p.B.Num(),
				Context: p.B.QP.Events, Flags: ci.WCImmediate, Imm: w.Imm})
		p.B.Buf.WantOnly(t, "target of a UC write with immediate data", 512, p.A.Buf.Bytes[:n])
	}
}

var ibta9_8_03 = ucCases.Must("IBTA-9.8-03", "IBTA 9.8.2.2", "UC responder",
	"A UC message that the responder cannot accept is dropped. The sender's request completes with success, and "+
		"the connection still works.")

var _ = ucCases.Add("uc.drop.bad-key", "a write with a key that does not exist", func(t *validate.T) {
	p := kit.UC(t)
	p.B.Buf.Blank()
	w := p.A.RDMA(ci.OpWrite, 1, 0, 3*p.A.PathMTU(), p.B, 0)
	w.Remote.RKey ^= 0x00777700
	p.A.Send(w)
	p.A.CQ.WaitOK(1)
	settle(p)
	p.B.Buf.WantOnly(t, "target of a UC write with a wrong key", 0, nil)
	p.A.WantState(ci.QPRTS)
	p.B.WantState(ci.QPRTS)
	p.A.Exchange(p.B, 100)
}, ibta9_8_03)

var _ = ucCases.Add("uc.drop.qp-right", "a write to a QP that does not grant it", func(t *validate.T) {
	p := kit.UC(t, kit.With(func(c *kit.Config) { c.Access, c.BufAccess = ci.RemoteRead, kit.AllAccess }))
	p.B.Buf.Blank()
	p.A.Send(p.A.RDMA(ci.OpWrite, 1, 0, 3*p.A.PathMTU(), p.B, 0), p.A.RDMA(ci.OpWrite, 2, 0, 64, p.B, 0))
	p.A.CQ.WaitOK(1, 2)
	settle(p)
	p.B.Buf.WantOnly(t, "target of UC writes that the QP does not grant", 0, nil)
	p.B.WantState(ci.QPRTS)
	p.A.Exchange(p.B, 100)
}, ibta9_8_03, ciRights02)

var _ = ucCases.Add("uc.drop.keeps-receive", "a dropped write with immediate data, then a send", func(t *validate.T) {
	p := kit.UC(t)
	kit.Random(t, p.A.Buf.Bytes[:64])
	p.B.Recv(p.B.RecvWR(1, 1000, 64), p.B.RecvWR(2, 2000, 64))
	w := p.A.RDMA(ci.OpWrite, 1, 0, 2*p.A.PathMTU(), p.B, 0)
	w.Flags |= ci.SendImmediate
	w.Remote.RKey ^= 0x00777700
	p.A.Send(w, p.A.SendWR(2, 0, 64))
	p.A.CQ.WaitOK(1, 2)
	wc := p.B.RecvCQ.WaitOK(1)[0]
	kit.Equal(t, "Op of the first receive after a dropped message", wc.Op, ci.WCRecv)
	kit.Equal(t, "Length", wc.Length, 64)
	kit.SameBytes(t, "message after the dropped one", p.B.Buf.Bytes[1000:1064], p.A.Buf.Bytes[:64])
	p.A.Send(p.A.SendWR(3, 0, 1))
	p.A.CQ.WaitOK(3)
	p.B.RecvCQ.WaitOK(2)
}, ucCases.Must("IBTA-9.8-04", "IBTA 9.8.2.2", "UC responder",
	"The next UC message uses the receive that a dropped message would have used."))

var _ = ucCases.Add("uc.drop.no-receive", "a send without a receive", func(t *validate.T) {
	p := kit.UC(t)
	setWord(p.A.Buf, 0, 0x600d)
	p.A.Send(p.A.SendWR(1, 100, 2*p.A.PathMTU()), p.A.RDMA(ci.OpWrite, 2, 0, 8, p.B, 64))
	p.A.CQ.WaitOK(1, 2)
	p.B.Buf.WaitWord(t, 64, 0x600d) // the write follows the message, which is dropped by now
	p.B.Recv(p.B.RecvWR(1, 1000, 5000))
	p.A.Send(p.A.SendWR(3, 0, 7))
	p.A.CQ.WaitOK(3)
	kit.Equal(t, "Length of the first receive, posted after a message was dropped", p.B.RecvCQ.WaitOK(1)[0].Length, 7)
	p.B.WantState(ci.QPRTS)
}, ibta9_8_03)

var _ = ucCases.Add("uc.drop.too-long", "a send longer than the receive", func(t *validate.T) {
	p := kit.UC(t)
	p.B.Recv(p.B.RecvWR(1, 0, 16), p.B.RecvWR(2, 100, 16))
	p.A.Send(p.A.SendWR(1, 0, 64), p.A.SendWR(2, 0, 9))
	p.A.CQ.WaitOK(1, 2)
	p.A.WantState(ci.QPRTS)
	tooShort(t, p, 9)
}, ibta9_8_03)

// tooShort checks the result of a UD or UC message that is longer than the first of two receives, followed by one that
// fits and arrives with length n. The long message must be dropped, or complete the first receive with a length error.
func tooShort(t *validate.T, p *kit.Pair, n int) {
	wc := p.B.RecvCQ.Wait(1)[0]
	kit.Equal(t, "ID of the first completion", wc.ID, 1)
	switch wc.Status {
	case ci.WCSuccess:
		kit.Equal(t, "Length of the message after the one that was too long", wc.Length, uint32(n))
	case ci.WCLocalLenErr:
		t.Note("a %s message longer than its receive completes it with a local length error; other drivers drop the "+
			"message", p.B.Config.Type)
	default:
		t.Failf("completion of the receive that was too short", "success for the next message, or a local length error",
			"%s", kit.Completions([]ci.WC{wc}))
	}
}
