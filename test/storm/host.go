package storm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/link/sim"
	"ciddk/rvt"
)

// host is an HCA with the objects that its queue pairs share.
type host struct {
	addr   netip.Addr
	hca    *reference.HCA
	ca     ci.CA
	pd     ci.PD
	sendCQ ci.CQ
	recvCQ ci.CQ
	srq    ci.SRQ
	shared *recvQueue // model of the oracle for srq
	ends   map[ci.QPN]*end
	mem    []byte // memory of all ends, then the buffers of the SRQ, then the words
	mr     ci.MR
	dma    ci.DMA
	pages  []uint64
	words  []*uint64 // values that the oracle expects of the words at wordsAt
	// srqIDs is the last receive ID of the SRQ; its low bits are the number of the buffer.
	srqIDs   uint64
	srqFree  []int
	wordsAt  int
	srqAt    int
	ackDelay ci.TimeExp
}

// Sizes.
const (
	depth     = 8             // maximum of outstanding requests, and number of slots
	maxBytes  = 12 << 10      // maximum bytes of a message
	slotBytes = maxBytes + 64 // bytes after the message must not change
	winBytes  = 4096          // bytes of the window, at the start
	// followed by send, receive and target slots, and the source of READs
	endBytes  = (winBytes + (3*depth+1)*slotBytes + 4095) &^ 4095
	srqDepth  = 64
	srqLevel  = 12 // number of receives to keep posted in an SRQ: few for so many queue pairs
	nWords    = 16
	hostCount = 3
)

const remoteAll = ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.BindWindow

// windows are the windows of the hosts' ports (0 is unlimited). The small ones split READs.
var windows = [hostCount]int{0, 32 << 10, 16 << 10}

func (s *storm) newHost(i, ends int) (*host, error) {
	h := &host{addr: netip.AddrFrom4([4]byte{10, 1, 0, byte(1 + i)}), ends: map[ci.QPN]*end{}, shared: &recvQueue{}}
	if s.c.IPv6 {
		h.addr = netip.AddrFrom16([16]byte{0: 0xfd, 14: 1, 15: byte(1 + i)})
	}
	var port rvt.Port
	port, err := sim.New(s.net, sim.Config{Addr: h.addr, Window: windows[i]})
	if err != nil {
		return nil, err
	}
	if s.c.Port != nil {
		port = s.c.Port(port)
	}
	var seed [32]byte
	copy(seed[:], fmt.Sprintf("%d of seed %d", i, s.c.Seed))
	if h.hca, err = reference.New(reference.Config{Ports: []rvt.Port{port}, Clock: s.clock,
		Rand: rand.NewChaCha8(seed)}); err != nil {
		return nil, err
	}
	if h.ca, err = h.hca.OpenCA(h.hca.Info().GUID, func(ci.Event) {}, nil); err != nil {
		return nil, err
	}
	attr, err := h.ca.Query()
	if err != nil {
		return nil, err
	}
	h.ackDelay = attr.AckDelay
	if h.pd, err = h.ca.AllocatePD(ci.PDNormal); err != nil {
		return nil, err
	}
	for _, q := range []*ci.CQ{&h.sendCQ, &h.recvCQ} {
		if *q, err = h.pd.CreateCQ(ci.CQCreate{Size: (ends + 8) * 4 * depth}); err != nil {
			return nil, err
		}
	}
	h.srqAt = ends * endBytes
	h.wordsAt = h.srqAt + srqDepth*slotBytes
	h.mem = make([]byte, (h.wordsAt+8*nWords+8191)&^4095)
	if h.mr, err = h.pd.RegisterMR(ci.MRCreate{Memory: placed{ci.Bytes(h.mem)}, Access: remoteAll}); err != nil {
		return nil, err
	}
	if h.srq, err = h.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: srqDepth, MaxSGE: 2}}); err != nil {
		return nil, err
	}
	for range nWords {
		h.words = append(h.words, new(uint64))
	}
	for i := range srqDepth {
		h.srqFree = append(h.srqFree, i)
	}
	if h.dma, err = h.ca.MapDMA(ci.Bytes(h.mem)); err != nil {
		return nil, err
	}
	for _, g := range h.dma.Ranges() {
		for a := g.Addr; a < g.Addr+g.Size; a += 4096 {
			h.pages = append(h.pages, a)
		}
	}
	return h, nil
}

// placed is memory at an address that is the same in every run, because packets contain it.
type placed struct{ ci.Memory }

func (placed) Addr() uint64 { return 1 << 32 }

// sge returns an SGE for n bytes of the host's memory.
func (h *host) sge(off, n int) ci.SGE { return h.mr.Region().SGE(uint64(off), uint32(n)) }

// feedSRQ posts receives until n are posted.
func (h *host) feedSRQ(n int) error {
	var wrs []ci.RecvWR
	for len(h.shared.list) < n && len(h.srqFree) > 0 {
		slot := h.srqFree[0]
		h.srqFree = h.srqFree[1:]
		h.srqIDs++
		id := h.srqIDs<<8 | uint64(slot)
		at := h.srqAt + slot*slotBytes
		clear(h.mem[at : at+slotBytes])
		wrs = append(wrs, ci.RecvWR{ID: id, SGL: []ci.SGE{h.sge(at, maxBytes)}})
		h.shared.post(recv{id, maxBytes})
	}
	if len(wrs) == 0 {
		return nil
	}
	if k, err := h.srq.PostRecv(wrs); err != nil || k != len(wrs) {
		return fmt.Errorf("SRQ.PostRecv of %d posted %d: %w", len(wrs), k, err)
	}
	return nil
}

// close destroys all objects, and checks that the HCA has none left.
func (h *host) close() error {
	for _, e := range h.ends {
		for _, o := range []ci.Object{e.mw, e.fast, e.qp} {
			if o == nil {
				continue
			}
			if err := o.Destroy(); err != nil {
				return err
			}
		}
	}
	for _, o := range []ci.Object{h.srq, h.mr, h.dma, h.sendCQ, h.recvCQ, h.pd} {
		if err := o.Destroy(); err != nil {
			return err
		}
	}
	if err := h.ca.Destroy(); err != nil {
		return err
	}
	live := h.hca.Live()
	if err := h.hca.Close(); err != nil {
		return err
	}
	for kind, n := range live {
		if n != 0 {
			return fmt.Errorf("%d objects of kind %v are left at %v", n, kind, h.addr)
		}
	}
	return nil
}
