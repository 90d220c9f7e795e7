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

func (m stalledMemory) ReadAt(p []byte, off int64) (int, error) {
	m.reading.Add(1)
	defer m.reading.Add(-1)
	if m.isClosed.Load() {
		select {
		case m.entered <- struct{}{}:
		default:
		}
		<-m.opened
	}
	return m.CopyMemory.ReadAt(p, off)
}

var _ = udCases.Case(validate.Case{
	ID:      "ud.stalled",
	Title:   "datagrams to a QP that waits for the memory of a send",
	Feature: validate.FeatureUD,
	Needs:   validate.Needs{Caps: ci.CapUD | ci.CapAV},
	Run:     udStalled,
}, IBTA9_8_10, IBTA9_8_11)

// udStalled sends datagrams of many sizes to a QP whose own send reads memory that takes long. They arrive when the
// memory has been read.
func udStalled(t *validate.T) {
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
	recvs, sends := p.B.RecvWRs(n, room), p.A.SendWRs(n)
	size := func(i int) int { return 4 * (i*7%50 + 1) }
	for i := range sends {
		sends[i].SGL = p.A.Buf.SGL(i*room, size(i))
	}
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
	select { // on some links the sender waits for the receiver
	case err := <-posted:
		posted <- err
	case <-time.After(10 * time.Millisecond):
	}
	g.open()
	kit.OK(t, expect(t, posted, "QP.PostSend of datagrams"), "QP.PostSend of datagrams")
	p.A.CQ.WaitOK(ids(1, uint64(n))...)
	kit.OK(t, expect(t, sent, "QP.PostSend"), "QP.PostSend")
	p.B.CQ.WaitOK(1)
	p.A.RecvCQ.WaitOK(1000)
	header := 0
	for i, wc := range p.B.RecvCQ.WaitOK(ids(1, uint64(n))...) {
		what := fmt.Sprintf("datagram %d of %d to a QP that waits for memory", i+1, n)
		kit.Equal(t, "Length of "+what, wc.Length, uint32(grhLen+size(i)))
		kit.SameBytes(t, what, p.B.Buf.Bytes[i*room+grhLen:][:size(i)], p.A.Buf.Bytes[i*room:][:size(i)])
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
			header = length - size(i)
		}
		kit.Equal(t, "length in the header of "+what, length, header+size(i))
	}
}

var _ = mrFastCases.Case(validate.Case{
	ID:      "mr.fast.stalled",
	Title:   "invalidate a region, and unmap its memory, while a READ takes long",
	Feature: validate.FeatureMROpt,
	Needs:   validate.Needs{Caps: ci.CapFastReg},
	Run:     fastStalled,
}, CILocalInv01)

// fastStalled invalidates the key of a READ whose memory is being read. The invalidation is not complete, and the
// mapping is not destroyed, before that read has ended.
func fastStalled(t *validate.T) {
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
}
