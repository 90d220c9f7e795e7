package cisuite

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// impairCases are the cases of services on a bad link. They run on targets that can impair their link.
var impairCases = &validate.Area{Feature: validate.FeatureRC,
	Complete: func(c *validate.Case) { c.Needs.Impair = true }}

var ibta9_7_10 = impairCases.Must("IBTA-9.7-10", "IBTA 9.7", "reliability",
	"On a link that loses, duplicates, reorders or corrupts packets, each RC message is delivered once, intact "+
		"and in order.")

var ibta9_7_11 = impairCases.Must("IBTA-9.7-11", "IBTA 9.7.5.1", "READ responses",
	"On such a link a READ returns the requested bytes, and a WRITE writes the given ones.")

var ibta9_7_12 = impairCases.Must("IBTA-9.7-12", "IBTA 9.7.5.1.2", "duplicate atomics",
	"On such a link an atomic is executed once, however often its packets are retransmitted, and returns the "+
		"result of that execution.")

var ibta9_7_13 = impairCases.Must("IBTA-9.7-13", "IBTA 9.9.2.1", "retry",
	"A message that is lost for some time is delivered when the link is good again, if retries are left.")

var ibta9_8_20 = impairCases.Must("IBTA-9.8-20", "IBTA 9.8.2", "UC",
	"On a link that loses or corrupts packets a UC message arrives intact or not at all, and those that arrive "+
		"are in order.")

var ibta9_8_22 = impairCases.Must("IBTA-9.8-22", "IBTA 9.8.2.2", "UC, PSN",
	"On a link that reorders packets a UC message arrives intact or not at all.")

var ibta9_8_21 = impairCases.Must("IBTA-9.8-21", "IBTA 9.8.3", "UD",
	"On a link that loses or corrupts packets a datagram arrives intact or not at all.")

// badLink is a kind of impairment.
type badLink struct {
	name string
	i    validate.Impairment
}

// badTraffic is traffic that a link impairs.
type badTraffic struct {
	name, title string
	feature     validate.Feature
	atomics     ci.Atomicity
	rule        *req.Requirement
	run         func(*validate.T, validate.Impairment)
}

// impairRow is a kind of traffic with a kind of impairment.
type impairRow struct {
	badLink
	of badTraffic
}

// impairRows returns each kind of traffic with each kind of impairment.
func impairRows() []impairRow {
	links := []badLink{
		{"drop", validate.Impairment{Drop: 0.05}},
		{"duplicate", validate.Impairment{Duplicate: 0.05}},
		{"reorder", validate.Impairment{Reorder: 0.05}},
		{"corrupt", validate.Impairment{Corrupt: 0.05}},
		{"all", validate.Impairment{Drop: 0.02, Duplicate: 0.02, Reorder: 0.02, Corrupt: 0.02}},
	}
	traffic := []badTraffic{
		{"rc.send", "RC messages", validate.FeatureRC, ci.AtomicNone, ibta9_7_10, impairSend},
		{"rc.rdma", "RC writes and reads", validate.FeatureRC, ci.AtomicNone, ibta9_7_11, impairRDMA},
		{"rc.atomic", "atomics", validate.FeatureAtomic, ci.AtomicLocal, ibta9_7_12, impairAtomic},
	}
	var out []impairRow
	for _, l := range links {
		for _, f := range traffic {
			out = append(out, impairRow{l, f})
		}
	}
	return out
}

var _ = validate.Matrix(impairCases, impairRows(), func(r impairRow) (validate.Case, []*req.Requirement) {
	return validate.Case{
		ID:      "impair." + r.of.name + "." + r.name,
		Title:   r.of.title + " with " + r.name,
		Feature: r.of.feature,
		Needs:   validate.Needs{Atomics: r.of.atomics},
		Run:     func(t *validate.T) { r.of.run(t, r.i) },
	}, []*req.Requirement{r.of.rule}
})

var _ = impairCases.Add("impair.rc.rnr", "receives that are posted late, with loss", impairRNR, ibta9_7_10,
	ibta9_9_08)

var _ = impairCases.Add("impair.rc.mended", "a link that is cut for a moment", impairRepaired, ibta9_7_13)

var _ = impairCases.Of(validate.FeatureUC).Needing(validate.Needs{Caps: ci.CapUC}).Add("impair.uc",
	"UC messages with loss and corruption",
	func(t *validate.T) { impairUC(t, validate.Impairment{Drop: 0.05, Corrupt: 0.05}, true) }, ibta9_8_20)

// A first packet begins a message whatever its PSN (IBTA 9.8.2.2.1), so messages may arrive out of order.
var _ = impairCases.Of(validate.FeatureUC).Needing(validate.Needs{Caps: ci.CapUC}).Add("impair.uc-reorder",
	"UC messages with loss and reordering",
	func(t *validate.T) { impairUC(t, validate.Impairment{Drop: 0.02, Reorder: 0.05}, false) }, ibta9_8_22)

var _ = impairCases.Of(validate.FeatureUD).Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV}).Add("impair.ud",
	"datagrams with loss and corruption", impairUD, ibta9_8_21)

// patient returns options for a pair on a link that loses packets: all retries and an ACK timeout of 34 ms, since each
// loss may cost one. On a busy machine eight timeouts may pass before the other half of a software driver runs.
// Therefore the timeout is four times as long each time the case is run again.
func patient(t *validate.T) []kit.Option {
	return []kit.Option{kit.AckTime(13 + 2*ci.TimeExp(t.Rerun())), kit.Retry(7), kit.MTU(ci.MTU256), kit.Depth(16),
		kit.Size(64 << 10)}
}

const stamp = 8 // length of the message number at the start of a message

// stamped writes message i of n bytes to p and returns it.
func stamped(t *validate.T, p []byte, i, n int) []byte {
	kit.Random(t, p[:n])
	binary.LittleEndian.PutUint64(p, uint64(i))
	return p[:n]
}

func impairSend(t *validate.T, i validate.Impairment) {
	const rounds, batch, slot = 12, 8, 2048
	p := kit.RC(t, patient(t)...)
	t.Impair(i)
	num := 0
	for range rounds {
		var want [][]byte
		var wrs []ci.SendWR
		for k := range batch {
			n := stamp + (num*331)%(slot-stamp)
			want = append(want, stamped(t, p.A.Buf.Bytes[k*slot:], num, n))
			wrs = append(wrs, p.A.SendWR(uint64(k+1), k*slot, n))
			num++
		}
		p.B.Recv(p.B.RecvWRs(batch, slot)...)
		p.A.Send(wrs...)
		wcs := p.B.RecvCQ.WaitOK(ids(1, batch)...)
		p.A.CQ.WaitOK(ids(1, batch)...)
		for k, w := range want {
			kit.Equal(t, fmt.Sprintf("Length of message %d", num-batch+k), wcs[k].Length, uint32(len(w)))
			kit.SameBytes(t, fmt.Sprintf("message %d", num-batch+k), p.B.Buf.Bytes[k*slot:k*slot+len(w)], w)
		}
		p.B.RecvCQ.Empty()
	}
	p.A.WantState(ci.QPRTS)
	p.B.WantState(ci.QPRTS)
}

func impairRDMA(t *validate.T, i validate.Impairment) {
	const rounds, n, half = 12, 5000, 16 << 10
	p := kit.RC(t, patient(t)...)
	t.Impair(i)
	for k := range rounds {
		size := n + 97*k
		out := kit.Random(t, p.A.Buf.Bytes[:size])
		p.B.Buf.Blank()
		in := kit.Random(t, p.B.Buf.Bytes[half:half+size])
		p.A.Send(p.A.RDMA(ci.OpWrite, 1, 0, size, p.B, 0), p.A.RDMA(ci.OpRead, 2, half, size, p.B, half),
			p.A.RDMA(ci.OpRead, 3, 2*half, size, p.B, 0))
		p.A.CQ.WaitOK(1, 2, 3)
		kit.SameBytes(t, "bytes read", p.A.Buf.Bytes[half:half+size], in)
		kit.SameBytes(t, "bytes written and then read", p.A.Buf.Bytes[2*half:2*half+size], out)
	}
	p.A.WantState(ci.QPRTS)
}

func impairAtomic(t *validate.T, i validate.Impairment) {
	const rounds, batch = 12, 8
	p := kit.RC(t, patient(t)...)
	t.Impair(i)
	for round := range rounds {
		var wrs []ci.SendWR
		for k := range batch {
			wrs = append(wrs, atomicOp(p, ci.OpFetchAdd, uint64(k+1), 8*k, 0, 1, 0))
		}
		p.A.Send(wrs...)
		p.A.CQ.WaitOK(ids(1, batch)...)
		for k := range batch {
			kit.Equal(t, "original value of an atomic", wordAt(p.A.Buf, 8*k), uint64(batch*round+k))
		}
	}
	p.A.Send(p.A.RDMA(ci.OpRead, 1, 0, 8, p.B, 0))
	p.A.CQ.WaitOK(1)
	kit.Equal(t, "word after 96 increments", wordAt(p.A.Buf, 0), rounds*batch)
}

func impairRNR(t *validate.T) {
	p := kit.RC(t, append(patient(t), kit.MinRNR(5))...)
	t.Impair(validate.Impairment{Drop: 0.05, Duplicate: 0.05})
	for k := range 30 {
		msg := stamped(t, p.A.Buf.Bytes, k, 700)
		p.A.Send(p.A.SendWR(uint64(k), 0, 700))
		p.B.Recv(p.B.RecvWR(uint64(k), 0, 700)) // often after the first transmission
		p.B.RecvCQ.WaitOK(uint64(k))
		p.A.CQ.WaitOK(uint64(k))
		kit.SameBytes(t, "message", p.B.Buf.Bytes[:700], msg)
	}
	p.B.RecvCQ.Empty()
}

func impairRepaired(t *validate.T) {
	p := kit.RC(t, kit.AckTime(14), kit.Retry(7)) // 67 ms, eight transmissions
	p.A.Exchange(p.B, 100)
	t.Impair(validate.Impairment{Cut: true})
	kit.Random(t, p.A.Buf.Bytes[:3000])
	p.B.Recv(p.B.RecvWR(1, 0, 3000))
	p.A.Send(p.A.SendWR(1, 0, 3000), p.A.RDMA(ci.OpRead, 2, 8192, 3000, p.B, 0))
	p.A.CQ.Empty()
	p.B.RecvCQ.Empty()
	t.Impair(validate.Impairment{})
	p.B.RecvCQ.WaitOK(1)
	p.A.CQ.WaitOK(1, 2)
	kit.SameBytes(t, "message sent while the link was cut", p.B.Buf.Bytes[:3000], p.A.Buf.Bytes[:3000])
	kit.SameBytes(t, "bytes of a READ posted while the link was cut", p.A.Buf.Bytes[8192:8192+3000],
		p.A.Buf.Bytes[:3000])
}

// arrivals checks the messages that B has received in slots of slot bytes. Each must equal one of sent, and if ordered
// is set, their numbers must increase.
func arrivals(t *validate.T, p *kit.Pair, sent [][]byte, wcs []ci.WC, slot, pad int, ordered bool) {
	last := -1
	for _, wc := range wcs {
		kit.Equal(t, "Status of a receive", wc.Status.String(), ci.WCSuccess.String())
		at := int(wc.ID)*slot + pad
		got := p.B.Buf.Bytes[at : at+int(wc.Length)-pad]
		kit.AtLeast(t, "Length", len(got), stamp)
		k := binary.LittleEndian.Uint64(got)
		kit.True(t, k < uint64(len(sent)) && bytes.Equal(got, sent[k]), "message received", "one of those sent, intact",
			"%d bytes: % x…", len(got), got[:stamp])
		if ordered {
			kit.True(t, int(k) > last, "number of a received message", fmt.Sprintf("more than %d", last), "%d", k)
		}
		last = int(k)
	}
}

func impairUC(t *validate.T, i validate.Impairment, ordered bool) {
	const n, slot = 60, 1024
	p := kit.UC(t, kit.Depth(n+1), kit.MTU(ci.MTU256), kit.Size(2*n*slot))
	t.Impair(i)
	var sent [][]byte
	for i := range n {
		p.B.Recv(p.B.RecvWR(uint64(i), i*slot, slot))
	}
	for i := range n {
		size := stamp + (i*173)%(slot-stamp)
		sent = append(sent, stamped(t, p.A.Buf.Bytes[i*slot:], i, size))
		p.A.Send(p.A.SendWR(uint64(i), i*slot, size))
	}
	p.A.CQ.WaitOK(ids(0, n-1)...)
	repair(t, p)
	wcs := lastArrival(t, p, n)
	arrivals(t, p, sent, wcs, slot, 0, ordered)
	t.Logf("%d of %d messages arrived", len(wcs), n)
}

func impairUD(t *validate.T) {
	const n, slot = 60, 512
	p := kit.UD(t, kit.Depth(n+1), kit.Size(2*n*slot))
	t.Impair(validate.Impairment{Drop: 0.05, Corrupt: 0.05})
	var sent [][]byte
	for i := range n {
		p.B.Recv(p.B.RecvWR(uint64(i), i*slot, slot))
	}
	for i := range n {
		size := stamp + (i*173)%(slot-stamp-grhLen)
		sent = append(sent, stamped(t, p.A.Buf.Bytes[i*slot:], i, size))
		p.A.Send(p.A.SendWR(uint64(i), i*slot, size))
	}
	p.A.CQ.WaitOK(ids(0, n-1)...)
	repair(t, p)
	wcs := lastArrival(t, p, n)
	arrivals(t, p, sent, wcs, slot, grhLen, false)
	t.Logf("%d of %d datagrams arrived", len(wcs), n)
}

// repair makes the link good and sends one more message to B. When it has arrived, all other messages have arrived or
// are lost.
func repair(t *validate.T, p *kit.Pair) {
	t.Impair(validate.Impairment{})
	const last = 1000
	w := ci.SendWR{ID: last, Op: ci.OpSend, Flags: ci.SendSignaled | ci.SendImmediate, Imm: last, To: p.A.Dest}
	p.B.Recv(ci.RecvWR{ID: last, SGL: p.B.Buf.SGL(len(p.B.Buf.Bytes)-64, 64)})
	p.A.Send(w)
	p.A.CQ.WaitOK(last)
}

// lastArrival returns the completions of B before that of repair's message, which are at most n.
func lastArrival(t *validate.T, p *kit.Pair, n int) []ci.WC {
	var out []ci.WC
	for {
		wc := p.B.RecvCQ.Wait(1)[0]
		if wc.Flags&ci.WCImmediate != 0 && wc.Imm == 1000 {
			return out
		}
		out = append(out, wc)
		kit.True(t, len(out) <= n, "messages received", fmt.Sprintf("at most %d", n), "%d", len(out))
	}
}
