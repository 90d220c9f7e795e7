package cisuite

import (
	"fmt"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Memory whose copies take long, and what waits for them and what does not.

// stalledMemory is memory without a direct view, of which a read blocks while the gate is closed.
type stalledMemory struct {
	kit.CopyMemory
	*gate
}

// gate lets reads pass, or not.
type gate struct {
	isClosed atomic.Bool
	entered  chan struct{} // a read has found the gate closed
	opened   chan struct{}
	reading  atomic.Int32 // reads that have begun and not ended
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 1), opened: make(chan struct{})} }

// open lets all reads pass. A second call does nothing.
func (g *gate) open() {
	if g.isClosed.Swap(false) {
		close(g.opened)
	}
}

// pass returns when the gate is open, or after a time, since a driver may have verbs of the case wait for it.
func (g *gate) pass() {
	if !g.isClosed.Load() {
		return
	}
	select {
	case g.entered <- struct{}{}:
	default:
	}
	timer := time.NewTimer(2 * time.Second)
	defer timer.Stop()
	select {
	case <-g.opened:
	case <-timer.C:
	}
}

func (m stalledMemory) ReadAt(p []byte, off int64) (int, error) {
	m.reading.Add(1)
	defer m.reading.Add(-1)
	m.pass()
	return m.CopyMemory.ReadAt(p, off)
}

// stalledTarget is memory without a direct view, of which a write blocks while the gate is closed.
type stalledTarget struct {
	kit.CopyMemory
	*gate
}

func (m stalledTarget) WriteAt(p []byte, off int64) (int, error) {
	m.pass()
	return m.CopyMemory.WriteAt(p, off)
}

// waitBriefly waits for a result, which stays in the channel, but not for long.
func waitBriefly(result chan error) {
	select {
	case err := <-result:
		result <- err
	case <-time.After(10 * time.Millisecond):
	}
}

// slowMemory is memory whose length takes long to find while the gate is closed.
type slowMemory struct {
	ci.Memory
	*gate
}

func (m slowMemory) Len() uint64 {
	m.pass()
	return m.Memory.Len()
}

// The case sends datagrams of many sizes to a QP whose own send reads memory that takes long. Those that are not
// dropped arrive in order when the memory has been read.
var _ = udCases.Add("ud.stalled", "datagrams to a QP that waits for the memory of a send", func(t *validate.T) {
	const room = 256
	n := min(290, t.Attr().MaxWRs, t.Attr().MaxCQEs/2)
	p := kit.UD(t, kit.Depth(n), kit.Size((n+1)*room))
	g := newGate()
	m := stalledMemory{kit.CopyMemory{B: make([]byte, 64)}, g}
	mr, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: m, Access: ci.LocalWrite})
	if err != nil {
		kit.WantRefused(t, mr, err, "PD.RegisterMR of memory without a direct view", ci.InvalidParameter)
		t.Skip("memory without a direct view is rejected")
	}
	r := kit.Own(t, mr, "MR").Region()
	kit.Random(t, p.A.Buf.Bytes)
	recvs, all := p.B.RecvWRs(n, room), p.A.SendWRs(n)
	to := p.A.QP.CA.AddressOf(p.B.QP.CA)
	if !to.Global { // each datagram has a GRH, with its own length
		to.Global, to.GRH = true, ci.GRH{DGID: p.B.QP.CA.Port.GIDs[0].GID, HopLimit: 1}
	}
	av, err := p.A.PD.CreateAV(to)
	kit.OK(t, err, "PD.CreateAV")
	kit.Own(t, av, "AV")
	size := func(i int) int { return 4 * (i*7%50 + 1) }
	for i := range all {
		all[i].SGL, all[i].To.AV = p.A.Buf.SGL(i*room, size(i)), av
	}
	sends, last := all[:n-1], all[n-1] // it is sent when the QP waits no more
	p.B.Recv(recvs...)
	p.A.Recv(p.A.RecvWR(1000, n*room, room))
	g.isClosed.Store(true)
	defer g.open() // if the case fails
	own := p.B.SendWR(1, 0, 8)
	own.SGL = []ci.SGE{r.SGE(0, 64)}
	sent := make(chan error, 1)
	t.Go(func() {
		_, err := p.B.PostSend([]ci.SendWR{own})
		sent <- err
	})
	expect(t, g.entered, "read of the memory of a send")
	posted := make(chan error, 1)
	t.Go(func() {
		_, err := p.A.PostSend(sends)
		posted <- err
	})
	waitBriefly(posted) // on some links the sender waits for the receiver
	g.open()
	kit.OK(t, expect(t, posted, "QP.PostSend of datagrams"), "QP.PostSend of datagrams")
	p.A.CQ.WaitOK(ids(1, uint64(n-1))...)
	kit.OK(t, expect(t, sent, "QP.PostSend"), "QP.PostSend")
	p.B.CQ.WaitOK(1)
	p.A.RecvCQ.WaitOK(1000)
	p.A.Send(last)
	p.A.CQ.WaitOK(last.ID)
	header := 0
	for i, from := 0, 0; from < n; i++ {
		wc := p.B.RecvCQ.WaitOK(uint64(i + 1))[0]
		what := fmt.Sprintf("receive %d of a QP that waits for memory", i+1)
		got := p.B.Buf.Bytes[i*room+grhLen:]
		for from < n && !isPrefix(p.A.Buf.Bytes[from*room:][:size(from)], got, wc.Length) {
			from++ // dropped
		}
		kit.True(t, from < n, what, "a datagram that was sent after the one before it", "%d bytes of others", wc.Length)
		bytes := size(from)
		from++
		if wc.Flags&ci.WCGRH == 0 {
			continue
		}
		// Each header has the length of its own packet.
		h := p.B.Buf.Bytes[i*room : i*room+grhLen]
		length := int(h[4])<<8 | int(h[5])
		if h[20]>>4 == 4 && h[0]>>4 != 6 {
			length = int(h[22])<<8 | int(h[23])
		}
		if i == 0 {
			header = length - bytes
		}
		kit.Equal(t, "length in the header of "+what, length, header+bytes)
	}
	p.B.RecvCQ.Empty()
}, ibta9_8_10, ibta9_8_11)

// isPrefix reports whether a datagram with that Length of its completion has the bytes of data.
func isPrefix(data, got []byte, length uint32) bool {
	return length == uint32(grhLen+len(data)) && string(got[:len(data)]) == string(data)
}

// The case sends messages to a QP whose own send reads memory that takes long. On a link that loses nothing, they
// arrive when the memory has been read, without a timeout.
var _ = rcSendCases.Add("rc.send.stalled", "messages to a QP that waits for the memory of a send", func(t *validate.T) {
	n := min(290, t.Attr().MaxWRs, t.Attr().MaxCQEs/2)
	p := kit.RC(t, kit.Depth(n), kit.AckTime(0), kit.Size(8*n))
	if p.A.QP.CA.Port.Link != ci.LinkInfiniBand {
		t.Skip("a network may lose packets")
	}
	g := newGate()
	mr, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: stalledMemory{kit.CopyMemory{B: make([]byte, 64)}, g},
		Access: ci.LocalWrite})
	if err != nil {
		kit.WantRefused(t, mr, err, "PD.RegisterMR of memory without a direct view", ci.InvalidParameter)
		t.Skip("memory without a direct view is rejected")
	}
	r := kit.Own(t, mr, "MR").Region()
	kit.Random(t, p.A.Buf.Bytes)
	p.B.Recv(p.B.RecvWRs(n, 8)...)
	sends := p.A.SendWRs(n)
	for i := range sends {
		sends[i].SGL = p.A.Buf.SGL(8*i, 8)
	}
	g.isClosed.Store(true)
	defer g.open() // if the case fails
	target := p.A.CA.Buf(p.A.PD, 64, kit.AllAccess)
	own := ci.SendWR{ID: 1, Op: ci.OpWrite, Flags: ci.SendSignaled, SGL: []ci.SGE{r.SGE(0, 64)},
		Remote: target.Remote(0)}
	posted, sent := make(chan error, 1), make(chan error, 1)
	t.Go(func() {
		_, err := p.B.PostSend([]ci.SendWR{own})
		sent <- err
	})
	expect(t, g.entered, "read of the memory of a send")
	t.Go(func() {
		_, err := p.A.PostSend(sends)
		posted <- err
	})
	waitBriefly(posted) // on some links the sender waits for the receiver
	g.open()
	kit.OK(t, expect(t, posted, "QP.PostSend of messages"), "QP.PostSend of messages")
	kit.OK(t, expect(t, sent, "QP.PostSend"), "QP.PostSend")
	p.B.CQ.WaitOK(1)
	p.A.CQ.WaitOK(ids(1, uint64(n))...)
	p.B.RecvCQ.WaitOK(ids(1, uint64(n))...)
	kit.SameBytes(t, "messages to a QP that waits for memory", p.B.Buf.Bytes[:8*n], p.A.Buf.Bytes[:8*n])
}, ibta9_7_02)

// The case invalidates the key of a READ whose memory is being read. The invalidation is not complete, and the mapping
// is not destroyed, before that read has ended.
var _ = mrFastCases.Add("mr.fast.stalled",
	"invalidate a region, and unmap its memory, while a READ takes long", func(t *validate.T) {
		p := kit.RC(t, kit.Size(4096))
		q := p.More(false) // with the same PDs
		page := smallPage(t.Attr())
		g := newGate()
		d, err := p.B.CA.MapDMA(stalledMemory{kit.CopyMemory{B: kit.Pages(int(page), int(page))}, g})
		if err != nil {
			kit.WantRefused(t, d, err, "CA.MapDMA of memory without a direct view", ci.InvalidParameter)
			t.Skip("memory without a direct view is rejected")
		}
		kit.Own(t, d, "DMA")
		mr, err := p.B.PD.AllocFastRegMR(1)
		kit.OK(t, err, "PD.AllocFastRegMR")
		kit.Own(t, mr, "fast registration MR")
		s := &fastStage{MR: mr, p: p, page: page, pages: kit.PageList(d.Ranges(), page), key: mr.Region().RKey}
		to := s.register(t, kit.AllAccess)
		g.isClosed.Store(true)
		defer g.open() // if the case fails
		read := q.Request(ci.OpRead, 100, to)
		read.ID, read.Flags = 1, ci.SendSignaled
		sent := make(chan error, 1)
		t.Go(func() {
			_, err := q.A.PostSend([]ci.SendWR{read})
			sent <- err
		})
		expect(t, g.entered, "read of the memory of a READ")
		p.B.Send(ci.SendWR{ID: 8, Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: s.key})
		p.B.CQ.Quiet(5 * time.Millisecond)
		unmapped := make(chan int32, 1)
		t.Go(func() {
			err := d.Destroy()
			still := g.reading.Load()
			if ci.StatusOf(err) == ci.ResourceBusy { // the region has the mapping until the read has ended
				still = -1
			} else if err != nil {
				t.Report(validate.Failure{Where: "DMA.Destroy", Expected: "success or resource busy",
					Got: kit.Describe(err)})
			}
			unmapped <- still
		})
		select {
		case still := <-unmapped:
			unmapped <- still
		case <-time.After(5 * time.Millisecond):
		}
		g.open()
		still := expect(t, unmapped, "DMA.Destroy")
		kit.True(t, still <= 0, "reads of the memory when DMA.Destroy returns", "none", "%d", still)
		kit.OK(t, expect(t, sent, "QP.PostSend"), "QP.PostSend")
		q.A.CQ.WaitStatus(1, ci.WCSuccess, ci.WCRemAccessErr)
		p.B.CQ.WaitOK(8)
	}, ciLocalInv01)

var _ = claimsCases.Needing(validate.Needs{Caps: ci.CapUser | ci.CapModifyMR}).Add("claims.user.modify",
	"close a process while a region of it is modified", userModify, ciClaims04)

// busyUser destroys a UserCA with objects while a verb waits at the gate. It opens the gate and expects ResourceBusy.
func busyUser(t *validate.T, u ci.UserCA, g *gate) {
	done := make(chan error, 1)
	t.Go(func() { done <- u.Destroy() })
	waitBriefly(done) // it may wait for the verb
	g.open()
	kit.WantExactly(t, expect(t, done, "UserCA.Destroy"), "UserCA.Destroy of a process with objects", ci.ResourceBusy)
}

// userModify closes a process while a region of it is modified.
func userModify(t *validate.T) {
	ca := kit.Open(t)
	u, err := ca.OpenUser(process{}, &ci.UserBuffer{})
	kit.OK(t, err, "CA.OpenUser")
	t.Cleanup(func() { _ = u.Destroy() })
	pd, err := u.AllocatePD(ci.PDNormal, &ci.UserBuffer{})
	kit.OK(t, err, "UserCA.AllocatePD")
	kit.Own(t, pd, "PD of a process")
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
	kit.OK(t, err, "PD.RegisterMR")
	kit.Own(t, mr, "MR of a process")
	g := newGate()
	g.isClosed.Store(true)
	defer g.open() // if the case fails
	modified := make(chan error, 1)
	t.Go(func() {
		modified <- mr.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: slowMemory{ci.Bytes(make([]byte, 64)), g}})
	})
	expect(t, g.entered, "MR.Modify with memory whose length takes long")
	busyUser(t, u, g)
	kit.OK(t, expect(t, modified, "MR.Modify"), "MR.Modify")
	kit.Destroy(t, mr, "MR of a process")
	kit.Destroy(t, pd, "PD of a process")
	kit.OK(t, u.Destroy(), "UserCA.Destroy")
}

// The case destroys a QP of a process that is sending, to memory that takes long, and closes the process at the same
// time. On links without queues, the QP cannot be destroyed before the memory has been written.
var _ = claimsCases.Needing(validate.Needs{Caps: ci.CapUser}).Add("claims.user.destroy",
	"close a process while a QP of it is destroyed; destroy a region that is older than its PD", func(t *validate.T) {
		a, b := kit.OpenPair(t)
		u, err := b.OpenUser(process{}, &ci.UserBuffer{})
		kit.OK(t, err, "CA.OpenUser")
		t.Cleanup(func() { _ = u.Destroy() })
		var pds [2]ci.PD
		var old ci.MR
		for i := range pds {
			pds[i], err = u.AllocatePD(ci.PDNormal, &ci.UserBuffer{})
			kit.OK(t, err, "UserCA.AllocatePD")
			kit.Own(t, pds[i], "PD of a process")
			if i == 0 {
				old, err = pds[0].RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: kit.AllAccess})
				kit.OK(t, err, "PD.RegisterMR")
				kit.Own(t, old, "MR of a process")
			}
		}
		if t.Claims().Has(ci.CapModifyMR) {
			kit.OK(t, old.Modify(ci.MRFieldPD, pds[1], ci.MRCreate{}), "MR.Modify to a younger PD")
		}
		from, to := a.CQ(a.PD(), 16), b.CQ(pds[0], 16)
		qa, qb := a.QP(a.PD(), from, from, kit.Type(ci.RC)), b.QP(pds[0], to, to, kit.Type(ci.RC))
		kit.Connect(qa, qb)
		g := newGate()
		mr, err := qa.PD.RegisterMR(ci.MRCreate{Memory: stalledTarget{kit.CopyMemory{B: make([]byte, 64)}, g},
			Access: kit.AllAccess})
		if err != nil {
			kit.WantRefused(t, mr, err, "PD.RegisterMR of memory without a direct view", ci.InvalidParameter)
			t.Skip("memory without a direct view is rejected")
		}
		r := kit.Own(t, mr, "MR").Region()
		buf := b.Buf(pds[0], 64, kit.AllAccess)
		g.isClosed.Store(true)
		defer g.open() // if the case fails
		sent := make(chan error, 1)
		t.Go(func() {
			_, err := qb.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpWrite, SGL: buf.SGL(0, 64), Remote: r.Remote(0)}})
			sent <- err
		})
		expect(t, g.entered, "write to memory that takes long")
		destroyed := make(chan error, 1)
		t.Go(func() { destroyed <- qb.QP.Destroy() })
		waitBriefly(destroyed) // if the machine does not run the goroutine in time, the case tests less
		busyUser(t, u, g)
		kit.OK(t, expect(t, sent, "QP.PostSend"), "QP.PostSend")
		kit.OK(t, expect(t, destroyed, "QP.Destroy"), "QP.Destroy")
		for _, o := range []ci.Object{to.CQ, buf.MR, mr, old, pds[0], pds[1], u} {
			kit.Destroy(t, o, "object of a process")
		}
	}, ciClaims04)

// The case arms a CQ while its callback runs. The next completion causes another call, after the first has ended.
var _ = cqNotifyCases.Add("cq.notify.vector-busy",
	"a completion while the callback of its CQ runs, with and without a completion vector", func(t *validate.T) {
		a, b := kit.OpenPair(t)
		apd, bpd := a.PD(), b.PD()
		from := a.CQ(apd, 16)
		for _, vector := range kit.Variants(t, "vector", []int{0, t.Attr().Vectors}) {
			entered, release := make(chan struct{}, 8), make(chan struct{}, 8)
			at := ci.Affinity{Vector: uint16(vector)}
			cq := b.CQWith(bpd, ci.CQCreate{Size: 16, Affinity: at, OnCompletion: func(any) {
				entered <- struct{}{}
				<-release
			}})
			qa, qb := a.QP(apd, from, from, kit.Type(ci.RC)), b.QP(bpd, cq, cq, kit.Type(ci.RC))
			kit.Connect(qa, qb)
			for i := range uint64(2) {
				kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify")
				qb.Recv(ci.RecvWR{ID: i + 1})
				qa.Send(ci.SendWR{ID: i + 1, Op: ci.OpSend, Flags: ci.SendSignaled})
				from.WaitOK(i + 1)
				if i == 0 {
					expect(t, entered, "callback for the first completion")
				}
			}
			release <- struct{}{}
			release <- struct{}{}
			expect(t, entered, "callback for a completion that came while the first callback ran")
			cq.WaitOK(1, 2)
		}
	}, ciNotify01)
