// Package modelsuite has the cases that compare a driver with the reference model of the Channel Interface
// (validate/explore), and cases of rules that need losses, time or several goroutines, which the model does not
// reach yet.
package modelsuite

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/explore"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Requirements that no other suite declares.
var (
	partition = req.Driver.Must("IBTA-10.9-01", "IBTA 10.9.3", "P_Key, ci_modify_qp (26)",
		"A packet is accepted if its P_Key and that of the QP have the same low 15 bits and one of them is of a full "+
			"member, and is dropped otherwise.")
	pkeyCount = req.Driver.Must("IBTA-10.9-02", "IBTA 10.9.4", "P_Key violations, ci_query_ca (8)",
		"A port with the claim PKeyCounter counts each packet that is dropped for its P_Key.")
	parallel = req.Driver.Must("CI-Parallel-01", "SAS 2.1.2", "all verbs",
		"Verbs that use the same objects can be called at the same time. Each of them returns, and has the effect "+
			"that it has in some order of the calls.")
)

// Suite returns the cases.
func Suite() validate.Suite {
	rc := func(id, title string, run func(*validate.T), needs validate.Needs, rules ...string) validate.Case {
		c := validate.NewCase("model."+id, title, validate.FeatureRC, run, rules[0]).Checking(rules[1:]...)
		c.Needs = needs
		return c
	}
	with := func(c validate.Case, f validate.Feature) validate.Case { c.Feature = f; return c }
	patient := func(c validate.Case, d time.Duration) validate.Case { c.Timeout = d; return c }
	impair := validate.Needs{Impair: true}
	final := func(c validate.Case) validate.Case { c.Final = true; return c }
	walk := func(id, title string, c explore.Config) validate.Case {
		run := func(t *validate.T) { explore.Judge(t, c, t.HCAs(), explored...) }
		return final(patient(rc(id, title, run, validate.Needs{MayImpair: true},
			append([]string{"SAS-0-01"}, explored...)...), 2*time.Minute))
	}
	return validate.Suite{
		Name:         "model",
		Requirements: []req.Requirement{partition, pkeyCount, parallel},
		Cases: []validate.Case{
			walk("combinations", "pairs of features, compared with a model",
				explore.Config{Rows: 400, Traces: 400, Least: 120}),
			walk("explore", "random verbs, compared with a model", explore.Config{Traces: 200, Least: 60}),
			rc("read-late", "a READ that is repeated after its region is deregistered", lateRead, impair,
				"CI-DeregisterMR-03"),
			rc("drain-read", "SQD with a READ outstanding", drainRead, impair, "CI-SQD-02", "CI-SQD-01"),
			rc("drain-rnr", "SQD with a SEND that waits for a receive", drainRNR, validate.Needs{}, "CI-SQD-02",
				"CI-SQD-01"),
			rc("rnr-timer", "the longest RNR timers", rnrTimer, validate.Needs{}, "IBTA-9.9-07"),
			rc("rnr-restored", "each message has all RNR retries", rnrRestored, validate.Needs{}, "IBTA-9.9-07"),
			rc("no-timeout", "no answer, and no timeout", noTimeout, validate.Needs{}, "IBTA-9.9-09"),
			rc("resize-order", "completions around the end of a ring that is resized", resizeOrder,
				validate.Needs{Caps: ci.CapResizeCQ}, "CI-ResizeCQ-01"),
			rc("wrap-lossy", "messages across the wrap of the PSN, with losses", wrapLossy, impair, "IBTA-9.7-10"),
			with(rc("pkey-limited", "all pairs of P_Keys, with the counter", limitedKeys, validate.Needs{
				Caps: ci.CapUD | ci.CapAV | ci.CapLocalMAD, Links: []ci.Link{ci.LinkInfiniBand}, HCAs: 2},
				partition.ID, pkeyCount.ID), validate.FeatureUD),
			with(rc("pkey-changed", "the P_Key of connected QPs follows the table", changedKeys, validate.Needs{
				Caps:  ci.CapUD | ci.CapAV | ci.CapLocalMAD | ci.CapPKeyCounter,
				Links: []ci.Link{ci.LinkInfiniBand}, HCAs: 2}, partition.ID), validate.FeatureUD),
			with(rc("apm-pkey", "a path with another P_Key", migratedKey, validate.Needs{
				Caps:  ci.CapAPM | ci.CapLocalMAD,
				Links: []ci.Link{ci.LinkInfiniBand}, HCAs: 2}, "CI-APM-02"), validate.FeatureAPM),
			with(rc("fmr-remap", "an FMR that is mapped again has the new pages only", remap,
				validate.Needs{Caps: ci.CapFMR}, "CI-MapFMR-01"), validate.FeatureMROpt),
			final(patient(rc("verb-pairs", "each pair of verbs of an object at the same time", pairs, validate.Needs{},
				parallel.ID), 30*time.Second)),
			final(rc("traffic", "posts and polls of one queue from several goroutines", traffic, validate.Needs{},
				parallel.ID)),
			final(rc("destroys", "Destroy of one object from several goroutines", destroys, validate.Needs{},
				parallel.ID)),
			rc("solicited-errors", "a CQ armed for solicited completions, and each error of a send", solicitedErrors,
				validate.Needs{}, "CI-Notify-04"),
		},
	}
}

// explored lists the rules of the case model.explore. If the explorer finds another rule broken, the failure names it.
var explored = []string{"CI-ResizeCQ-01", "CI-ModifyAV-01", "CI-Teardown-08", parallel.ID, "CI-SQD-02",
	"CI-EventComm-01", "CI-MapFMR-02", "CI-UnmapFMR-01", "CI-ModifyMR-01", "CI-ModifyMR-02", "CI-ModifyMR-03",
	"CI-PostSend-03", "IBTA-9.9-07", "IBTA-9.9-09", "CI-Flush-01", "IBTA-9.8-10", "SAS-2.3-19",
	"CI-ModifySRQ-02", "CI-DestroyCQ-01", "CI-DestroySRQ-01", "CI-AtomicWrite-01", "CI-AtomicWrite-02",
	"CI-AtomicWrite-04"}

// lateRead posts a READ on a link that loses half of its packets, and deregisters its region at once. If the response
// was lost, the READ is repeated. It may complete with what the region had, or with an error, but not with what the
// owner has written since.
func lateRead(t *validate.T) {
	p := kit.RC(t, kit.AckTime(12+2*ci.TimeExp(t.Rerun())), kit.Retry(7))
	for round := range 24 {
		buf := make([]byte, 64)
		mr, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: ci.Bytes(buf), Access: kit.AllAccess})
		kit.OK(t, err, "PD.RegisterMR")
		to := mr.Region().Remote(0)
		p.A.Buf.Blank()
		t.Impair(validate.Impairment{Drop: 0.5, Seed: t.Seed() + uint64(round)})
		p.A.Send(ci.SendWR{ID: 1, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: p.A.Buf.SGL(0, 64), Remote: to})
		pause(t, 2*time.Millisecond) // so that the request arrives, if it is not lost
		kit.OK(t, mr.Destroy(), "MR.Destroy")
		for i := range buf {
			buf[i] = 0x5a
		}
		t.Impair(validate.Impairment{})
		wc := p.A.CQ.Wait(1)[0]
		if wc.Status == ci.WCSuccess {
			kit.SameBytes(t, "bytes of a READ whose region was deregistered", p.A.Buf.Bytes[:64], make([]byte, 64))
			continue
		}
		if wc.Status != ci.WCRemAccessErr {
			t.Fail(validate.Failure{Where: "READ of a deregistered region",
				Expected: "success with the bytes before, or " +
					ci.WCRemAccessErr.String(), Got: wc.Status.String(), Doubt: kit.DoubtOf(wc.Status,
					ci.WCRemAccessErr)})
		}
		p.Reconnect()
	}
}

// drainRead moves a QP to SQD while its READ cannot be answered. It is drained when the READ has completed. A fenced
// request behind it has not begun then, and waits for RTS.
func drainRead(t *validate.T) {
	p := kit.RC(t, kit.AckTime(14), kit.Retry(7))
	drain(t, p, func(id uint64) {
		t.Impair(validate.Impairment{Cut: true})
		fenced := p.A.RDMA(ci.OpWrite, id+behind, 0, 64, p.B, 0)
		fenced.Flags |= ci.SendFence
		p.A.Send(p.A.RDMA(ci.OpRead, id, 0, 64, p.B, 0), fenced)
	}, func(uint64) { t.Impair(validate.Impairment{}) }, behind)
}

// behind is added to the id of a request for that of the one behind it.
const behind = 100

// drainRNR moves a QP to SQD while its SEND waits for a receive.
func drainRNR(t *validate.T) {
	p := kit.RC(t)
	drain(t, p, func(id uint64) {
		p.A.Send(p.A.SendWR(id, 0, 8))
		pause(t, 2*time.Millisecond) // in which the message is refused
	}, func(id uint64) { p.B.Recv(p.B.RecvWR(id, 64, 8)) })
}

// drain moves a QP to SQD while a request that begin posts cannot complete, and has it complete with end. The requests
// with the ids of later added to its own complete in RTS.
func drain(t *validate.T, p *kit.Pair, begin, end func(id uint64), later ...uint64) {
	resume := func(id uint64) {
		f, a := ci.BackToRTS()
		kit.OK(t, p.A.Modify(f, a), "QP.Modify to RTS")
		for _, n := range later {
			p.A.CQ.WaitOK(id + n)
		}
	}
	for round := range 3 {
		id := uint64(round + 1)
		begin(id)
		f, a := ci.ToSQD(true)
		kit.OK(t, p.A.Modify(f, a), "QP.Modify to SQD")
		pause(t, 5*time.Millisecond) // in which a driver that does not wait would report that it has drained
		if a, err := p.A.Query(); err == nil && a.State == ci.QPSQD && len(p.A.Events.All()) == round+1 {
			end(id)
			notBegun(t, p.A, id)
			resume(id)
			continue
		}
		p.A.WantState(ci.QPSQDraining)
		if all := p.A.Events.All(); len(all) != round {
			t.Failf("events of a QP with a request outstanding", fmt.Sprintf("%d, those of earlier rounds", round),
				"%v", all)
		}
		end(id)
		p.A.CQ.WaitOK(id)
		p.A.Becomes(ci.QPSQD)
		p.A.Events.Wait(ci.EventSQDrained)
		if len(later) > 0 {
			p.A.CQ.Quiet(20 * time.Millisecond)
		}
		resume(id)
		f, a = ci.ToSQD(false) // which raises no event, as the next round would see
		kit.OK(t, p.A.Modify(f, a), "QP.Modify to SQD without an event")
		p.A.Becomes(ci.QPSQD)
		f, a = ci.BackToRTS()
		kit.OK(t, p.A.Modify(f, a), "QP.Modify to RTS")
	}
}

// notBegun ends a round of drain in which the queue drained before the request began, as it may if posts are seen
// late, such as those of a user library. The request is not executed in SQD, however often an outstanding one would be
// repeated.
func notBegun(t *validate.T, e *kit.End, id uint64) {
	e.CQ.Quiet(300 * time.Millisecond) // a timeout of 67 ms may be four times as long
	f, a := ci.BackToRTS()
	kit.OK(t, e.Modify(f, a), "QP.Modify to RTS")
	e.CQ.WaitOK(id)
}

// resizeOrder resizes a CQ that has three completions, after any number of earlier ones. They stay in order.
func resizeOrder(t *validate.T) {
	const size, phases = 4, 12 // more than a ring of the size has slots
	p := kit.RC(t)
	cq := p.A.QP.CA.CQ(p.A.PD, size)
	x := p.A.QP.CA.QP(p.A.PD, cq, p.A.RecvCQ, kit.Type(ci.RC))
	kit.Connect(x, p.B.QP.CA.QP(p.B.PD, p.B.CQ, p.B.RecvCQ, kit.Type(ci.RC)))
	resize := func(n int) {
		_, err := cq.Resize(ci.CQResize{Size: n})
		kit.OK(t, err, "CQ.Resize")
	}
	write := func(id uint64) ci.SendWR { return p.A.RDMA(ci.OpWrite, id, 0, 8, p.B, 0) }
	for phase := range phases {
		t.Step("after %d completions", phase)
		for range phase {
			x.Send(write(1))
			cq.WaitOK(1)
		}
		x.Send(write(2), write(3), write(4))
		for end := time.Now().Add(t.Remaining()); t.Attr().Caps.Has(ci.CapPeek); pause(t, 50*time.Microsecond) {
			if n, err := cq.Peek(); err != nil || n == 3 || time.Now().After(end) {
				break
			}
		}
		resize(8 * size)
		cq.WaitOK(2, 3, 4)
		resize(size)
	}
}

// rnrTimer has messages fail for want of a receive. Their one retry is at least as late as the code of the timer says.
// Code 0 is the longest time.
func rnrTimer(t *validate.T) {
	p := kit.RC(t, kit.RNRRetry(1))
	for code, d := range map[uint8]time.Duration{0: 655360 * time.Microsecond, 31: 491520 * time.Microsecond} {
		t.Step("RNR timer %d", code)
		kit.OK(t, p.B.Modify(ci.QPFieldMinRNRTimer, ci.QPAttr{MinRNRTimer: code}), "QP.Modify of MinRNRTimer")
		begin := time.Now()
		p.A.Send(p.A.SendWR(1, 0, 8))
		p.A.CQ.WaitStatus(1, ci.WCRNRRetryErr)
		if got := time.Since(begin); got < d {
			t.Failf("time until a message without a receive fails", fmt.Sprintf("at least %v", d), "%v", got)
		}
		p.Reconnect()
	}
}

// rnrRestored sends messages that come before their receives. Each of them has all RNR retries of the QP.
func rnrRestored(t *validate.T) {
	const timer = 245 * time.Millisecond // of code 29
	p := kit.RC(t, kit.RNRRetry(1), kit.MinRNR(29))
	for id := range uint64(3) {
		begin := time.Now()
		p.A.Send(p.A.SendWR(id, 0, 8))
		pause(t, 20*time.Millisecond) // in which the message is refused
		p.B.Recv(p.B.RecvWR(id, 64, 8))
		isLate := time.Since(begin) > timer
		if wc := p.A.CQ.Wait(1)[0]; wc.Status != ci.WCSuccess {
			x := validate.Failure{Where: fmt.Sprintf("message %d, whose receive is posted before its retry", id+1),
				Expected: ci.WCSuccess.String(), Got: wc.Status.String()}
			if isLate {
				x.Doubt = validate.DoubtTime
			}
			t.Fail(x)
		}
		p.B.RecvCQ.WaitOK(id)
	}
}

// noTimeout sends to a QP that does not answer, without a timeout and with the longest. The request neither fails nor
// completes.
func noTimeout(t *validate.T) {
	a, b := kit.OpenPair(t)
	list := []ci.TimeExp{0, 20, 31}
	var ends []*kit.End
	for _, ack := range list {
		c := kit.Options(a, b, kit.Type(ci.RC), kit.AckTime(ack), kit.Retry(0))
		x, y := a.End(c), b.End(c)
		kit.Connect(x.QP, y.QP)
		y.To(ci.QPReset)
		x.Send(x.SendWR(1, 0, 8))
		ends = append(ends, x)
	}
	begin := time.Now()
	for i, x := range ends {
		t.Step("timeout %d", list[i])
		x.CQ.Quiet(max(600*time.Millisecond-time.Since(begin), time.Millisecond))
		x.WantState(ci.QPRTS)
	}
}

// wrapLossy sends messages of several packets that begin at each PSN around the wrap, with losses. They are written to
// and read from addresses on both sides of 4 GiB.
func wrapLossy(t *validate.T) {
	const packets = 5
	p := kit.RC(t, kit.MTU(ci.MTU256), kit.AckTime(12+2*ci.TimeExp(t.Rerun())), kit.Retry(7))
	const half = 4096
	mem := kit.Pages(2*half, half)
	mr, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: ci.Bytes(mem), Access: kit.AllAccess, IOVA: 1<<32 - half})
	kit.OK(t, err, "PD.RegisterMR")
	kit.Own(t, mr, "MR")
	for back := range ci.PSN(packets + 1) {
		for _, e := range []*kit.End{p.A, p.B} {
			e.QP.To(ci.QPReset)
			e.PSN = (0xffffff - back + 1) & 0xffffff
		}
		kit.Connect(p.A.QP, p.B.QP)
		t.Impair(validate.Impairment{Drop: 0.25, Seed: t.Seed() + uint64(back)})
		const n = 256*packets - 3
		want := append([]byte(nil), kit.Random(t, p.A.Buf.Bytes[:n])...)
		p.B.Recv(p.B.RecvWR(1, 0, n))
		p.A.Send(p.A.SendWR(1, 0, n))
		p.A.CQ.WaitOK(1) // by an ACK of its own, of the PSN before the wrap in one of the rounds
		write, read := p.A.RDMA(ci.OpWrite, 2, 0, n, p.B, 0), p.A.RDMA(ci.OpRead, 3, 8192, n, p.B, 0)
		write.Remote = mr.Region().Remote(half - n/2) // across 4 GiB
		read.Remote = write.Remote
		p.A.Send(write, read)
		p.A.CQ.WaitOK(2, 3)
		p.B.RecvCQ.WaitOK(1)
		t.Impair(validate.Impairment{})
		kit.SameBytes(t, "message sent across the wrap", p.B.Buf.Bytes[:n], want)
		kit.SameBytes(t, "bytes written and read across the wrap", p.A.Buf.Bytes[8192:8192+n], want)
	}
}

// setPKeys writes the P_Key table of a port as a subnet manager does.
func setPKeys(t *validate.T, ca *kit.CA, keys ...ci.PKey) {
	status, err := explore.SetPKeys(ca, ca.Port.Num, t.Rand().Uint32(), keys...)
	kit.OK(t, err, "CA.LocalMAD of Set(P_KeyTable)")
	if status != 0 {
		t.Skip("the P_Key table cannot be set: status %#x", status)
	}
}

// limitedKeys tries all pairs of full and limited members of two partitions. A datagram arrives exactly if both are of
// one partition and one of them is a full member (IBTA volume 1, 10.9.3). Otherwise the receiver's counter grows.
func limitedKeys(t *validate.T) {
	a, b := kit.OpenPair(t)
	keys := []ci.PKey{0xffff, 0x8123, 0x0123, 0x8777, 0x7fff}
	if len(a.Port.PKeys) < len(keys) || len(b.Port.PKeys) < len(keys) {
		t.Skip("the P_Key tables have %d and %d entries", len(a.Port.PKeys), len(b.Port.PKeys))
	}
	old := [2][]ci.PKey{a.Port.PKeys, b.Port.PKeys}
	for i, ca := range []*kit.CA{a, b} {
		t.Cleanup(func() { setPKeys(t, ca, old[i]...) })
		setPKeys(t, ca, keys...)
	}
	services := []ci.QPType{ci.UD, ci.RC}
	if a.Attr.Caps.Has(ci.CapUC) && b.Attr.Caps.Has(ci.CapUC) {
		services = append(services, ci.UC)
	}
	for _, typ := range services {
		c := kit.Options(a, b, kit.Type(typ))
		x, y := a.End(c), b.End(c)
		send := x.SendWR(2, 0, 8)
		if typ == ci.UD {
			send.To = ci.Dest{AV: a.AV(x.PD, b), QPN: y.Num(), QKey: c.QKey}
		}
		for i, from := range keys {
			for j, to := range keys {
				t.Step("%s, P_Key %#04x to %#04x", typ, uint16(from), uint16(to))
				withPKeys(t, x.QP, y.QP, uint16(i), uint16(j))
				before := pkeyErrors(t, b)
				y.Recv(y.RecvWR(1, 0, 128))
				x.Send(send)
				switch {
				case from&0x7fff == to&0x7fff && (from|to)&0x8000 != 0:
					x.CQ.WaitOK(2)
					y.RecvCQ.WaitOK(1)
					continue
				case typ != ci.RC: // which is repeated until the QP is reset
					x.CQ.WaitOK(2)
				}
				end := time.Now().Add(t.Remaining())
				for b.Attr.Caps.Has(ci.CapPKeyCounter) && pkeyErrors(t, b) == before {
					if y.RecvCQ.Empty(); time.Now().After(end) {
						t.Fail(validate.Failure{Rule: pkeyCount.ID, Where: "PKeyErrors of the receiver",
							Expected: fmt.Sprint(before + 1), Got: fmt.Sprint(before)})
					}
					pause(t, 200*time.Microsecond)
				}
				pause(t, 2*time.Millisecond)
				y.RecvCQ.Empty()
			}
		}
	}
}

// changedKeys changes the entry of the P_Key table that QPs in RTS use, of one port and then of the other. Datagrams
// are dropped while the entries differ.
func changedKeys(t *validate.T) {
	a, b := kit.OpenPair(t)
	if len(a.Port.PKeys) < 2 || len(b.Port.PKeys) < 2 {
		t.Skip("the P_Key tables have %d and %d entries", len(a.Port.PKeys), len(b.Port.PKeys))
	}
	for _, ca := range []*kit.CA{a, b} {
		old := ca.Port.PKeys
		t.Cleanup(func() { setPKeys(t, ca, old...) })
		setPKeys(t, ca, 0xffff, 0x8123)
	}
	c := kit.Options(a, b, kit.Type(ci.UD))
	x, y := a.End(c), b.End(c)
	send := x.SendWR(2, 0, 8)
	send.To = ci.Dest{AV: a.AV(x.PD, b), QPN: y.Num(), QKey: c.QKey}
	withPKeys(t, x.QP, y.QP, 1, 1)
	arrives := func(what string) {
		t.Step("%s", what)
		y.Recv(y.RecvWR(1, 0, 128))
		x.Send(send)
		x.CQ.WaitOK(2)
		y.RecvCQ.WaitOK(1)
	}
	arrives("before the change")
	setPKeys(t, b, 0xffff, 0x8555)
	before := pkeyErrors(t, b)
	until := func(is func() bool, want, got string) { // a change may take a while
		for end := time.Now().Add(t.Remaining()); !is(); pause(t, time.Millisecond) {
			if time.Now().After(end) {
				t.Failf("datagrams to a QP after an entry of the P_Key table has changed", want, "%s", got)
			}
			x.Send(send)
			x.CQ.WaitOK(2)
		}
	}
	until(func() bool { return pkeyErrors(t, b) != before }, "dropped for their P_Key", "not")
	setPKeys(t, a, 0xffff, 0x8555)
	y.Recv(y.RecvWR(1, 0, 128))
	until(func() bool { n, err := y.RecvCQ.Poll(make([]ci.WC, 1)); return n > 0 && err == nil }, "received", "none")
}

// migratedKey has connections migrate to a path with another P_Key: on request, and because the peer has left the
// partition of the path before. The QPs then use the new key and not the old one, which the ports do not share. If
// messages fail, the counters of the ports show whether the key or the link is the cause.
func migratedKey(t *validate.T) {
	const retries = 3
	p := kit.RC(t, kit.Retry(retries), kit.AckTime(14))
	ends := []*kit.End{p.A, p.B}
	old := ends[0].QP.CA.Port.PKeys
	for _, e := range ends {
		if len(e.QP.CA.Port.PKeys) < 2 {
			t.Skip("the P_Key table has %d entries", len(e.QP.CA.Port.PKeys))
		}
		t.Cleanup(func() { setPKeys(t, e.QP.CA, e.QP.CA.Port.PKeys...) })
	}
	drops := func() int { return int(pkeyErrors(t, p.A.QP.CA)) + int(pkeyErrors(t, p.B.QP.CA)) }
	send := func(from, to *kit.End, dropped int) { // for the old P_Key, by right
		before := drops()
		to.Recv(to.RecvWR(1, 0, 64))
		from.Send(from.SendWR(1, 64, 64))
		wc := from.CQ.Wait(1)[0]
		if n := drops() - before; wc.Status != ci.WCSuccess && n > dropped {
			t.Failf("a message over an alternate path with another P_Key", "packets with the P_Key of that path",
				"%v, and %d packets that a port dropped for their P_Key", wc.Status, n)
		}
		if wc.Status != ci.WCSuccess {
			t.Fail(validate.Failure{Where: "a message of a connection with an alternate path",
				Expected: ci.WCSuccess.String(), Got: wc.Status.String(), Doubt: kit.DoubtOf(wc.Status)})
		}
		to.RecvCQ.WaitOK(1)
	}
	for _, isRequested := range []bool{true, false} {
		for i, e := range ends {
			setPKeys(t, e.QP.CA, old[0], 0x8123)
			to := ci.Path{AV: e.QP.CA.AddressOf(ends[1-i].QP.CA), AckTimeout: e.Config.AckTimeout, PKeyIndex: 1}
			kit.OK(t, e.Modify(ci.QPFieldAlternate|ci.QPFieldAPM, ci.QPAttr{Alternate: to, APM: ci.APMRearm}),
				"QP.Modify of an alternate path with another P_Key")
		}
		for range 4 {
			send(p.A, p.B, 0)
			send(p.B, p.A, 0)
		}
		for _, e := range ends {
			a, err := e.Query()
			kit.OK(t, err, "QP.Query")
			kit.Equal(t, "QPAttr.APM after four messages in each direction", a.APM, ci.APMArmed)
		}
		if isRequested {
			kit.OK(t, p.A.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}), "QP.Modify to Migrated")
			send(p.A, p.B, 0)
			send(p.B, p.A, 0)
			setPKeys(t, p.A.QP.CA, 0x8777, 0x8123)
		} else {
			setPKeys(t, p.B.QP.CA, 0x8777, 0x8123)
			send(p.A, p.B, 1+retries)
		}
		send(p.A, p.B, 0)
		send(p.B, p.A, 0)
		for _, e := range ends {
			a, err := e.Query()
			kit.OK(t, err, "QP.Query")
			kit.Equal(t, "QPAttr.Primary.PKeyIndex after the migration", a.Primary.PKeyIndex, 1)
		}
		p.Reconnect()
	}
}

// pkeyErrors returns the counter of a port. One that is saturated would not grow, and is set to 0.
func pkeyErrors(t *validate.T, ca *kit.CA) uint16 {
	a, err := ca.Query()
	kit.OK(t, err, "CA.Query")
	n := a.Ports[ca.Port.Num-1].PKeyErrors
	if n == 0xffff && a.Caps.Has(ci.CapPKeyCounter) {
		kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldPKeyErrors, ci.PortModify{}), "CA.Modify")
		n = 0
	}
	return n
}

// withPKeys takes two QPs through Reset to RTS, with entries of the P_Key tables.
func withPKeys(t *validate.T, x, y *kit.QP, from, to uint16) {
	for _, q := range []*kit.QP{x, y} {
		q.To(ci.QPReset)
	}
	for q, i := range map[*kit.QP]uint16{x: from, y: to} {
		set, a := q.InitAttr()
		a.Primary.PKeyIndex = i
		kit.OK(t, q.Modify(set, a), "QP.Modify to Init")
	}
	x.RTR(y)
	y.RTR(x)
	x.RTS()
	y.RTS()
}

// pause lets a driver that is wrong act for d, or until the case ends.
func pause(t *validate.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// remap maps an FMR to pages, and then to others, and writes and reads every page of each mapping.
func remap(t *validate.T) {
	const pages = 4
	p := kit.RC(t)
	size := int(p.B.CA.Attr.PageSizes[0])
	mem := kit.Pages(2*pages*size, size)
	shift := uint8(0)
	for 1<<shift < size {
		shift++
	}
	list := kit.PageList(p.B.CA.DMA(mem).Ranges(), uint64(size))
	if len(list) != 2*pages {
		t.Skip("the adapter maps %d bytes to %d pages", len(mem), len(list))
	}
	f, err := p.B.PD.AllocFMR(ci.FMRCreate{MaxPages: pages, MaxMaps: 1, PageShift: shift, Access: kit.AllAccess})
	kit.OK(t, err, "PD.AllocFMR")
	t.Cleanup(func() {
		kit.OK(t, p.B.PD.UnmapFMRs([]ci.FMR{f}), "PD.UnmapFMRs")
		kit.OK(t, f.Destroy(), "FMR.Destroy")
	})
	for round := range 4 {
		at := make([]int, pages) // page of mem for each page of the mapping; none is where it was
		for i := range at {
			at[i] = (round%2)*pages + (i+round)%pages
		}
		var addrs []uint64
		for _, n := range at {
			addrs = append(addrs, list[n])
		}
		kit.OK(t, p.B.PD.UnmapFMRs([]ci.FMR{f}), "PD.UnmapFMRs")
		r, err := f.Map(addrs, 1<<20)
		kit.OK(t, err, "FMR.Map")
		for i, n := range at {
			t.Step("mapping %d, page %d", round+1, i)
			p.WantWrite(fmt.Sprintf("page %d", i), r.Remote(uint64(i*size)+8), mem[n*size+8:n*size+40])
		}
	}
}

// solicitedErrors arms the CQ of a send queue for solicited completions and has a send fail in each way. Completions
// with errors count as solicited.
func solicitedErrors(t *validate.T) {
	p := kit.RC(t)
	fired := make(chan struct{}, 64)
	a, b := p.A.QP.CA, p.B.QP.CA
	cq := a.CQWith(p.A.PD, ci.CQCreate{Size: 16, OnCompletion: func(any) { fired <- struct{}{} }})
	x := a.QP(p.A.PD, cq, p.A.RecvCQ, kit.Type(ci.RC), kit.RNRRetry(0), kit.MinRNR(1))
	y := b.QP(p.B.PD, p.B.CQ, p.B.RecvCQ, kit.Type(ci.RC))
	send := p.A.SendWR(1, 0, 8)
	bad, far := send, p.A.RDMA(ci.OpWrite, 1, 0, 8, p.B, 0)
	bad.SGL = []ci.SGE{{Addr: send.SGL[0].Addr, Length: 8, LKey: ^send.SGL[0].LKey}}
	far.Remote.RKey = ^far.Remote.RKey
	flushed := send
	for _, c := range []struct {
		what   string
		wr     ci.SendWR
		before bool // the QP is in Error before the post
		want   ci.WCStatus
	}{
		{"an invalid L_Key", bad, false, ci.WCLocalProtErr}, {"an invalid R_Key", far, false, ci.WCRemAccessErr},
		{"no receive", send, false, ci.WCRNRRetryErr}, {"a QP in Error", flushed, true, ci.WCFlushErr},
	} {
		t.Step("%s", c.what)
		for _, q := range []*kit.QP{x, y} {
			q.To(ci.QPReset)
		}
		kit.Connect(x, y)
		if c.before {
			x.To(ci.QPError)
		}
		kit.OK(t, cq.Notify(ci.NotifySolicited), "CQ.Notify")
		x.Send(c.wr)
		select {
		case <-fired:
		case <-time.After(t.Remaining()):
			t.Failf("callback of a CQ armed for solicited completions", "one for a send that fails", "none")
		}
		cq.WaitStatus(1, c.want)
	}
}
