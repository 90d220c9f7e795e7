package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// mrFastCases are the cases of regions that work requests register and invalidate. (IBTA 10.6.4, 10.6.6, 11.4.1.)
var mrFastCases = &validate.Area{Feature: validate.FeatureMROpt, Needs: validate.Needs{Caps: ci.CapFastReg}}

// fastFailed are the statuses of a failed registration or invalidation. IBTA 11.6.2 defines a memory management
// operation error, the later name of the window bind error. The headers define none, and drivers also report protection
// or operation errors.
var fastFailed = []ci.WCStatus{ci.WCBindErr, ci.WCLocalProtErr, ci.WCLocalOpErr}

// fastStage is a fast registration region on B's side of a pair, and pages for it.
type fastStage struct {
	ci.MR
	p     *kit.Pair
	mem   []byte
	pages []uint64
	page  uint64
	ext   ci.SendExt
	key   ci.Key // key of the last request
}

// newFast returns a region for up to n pages on B's side, and n pages of memory.
func newFast(t *validate.T, p *kit.Pair, n int) *fastStage {
	mr, err := p.B.PD.AllocFastRegMR(n)
	kit.OK(t, err, "PD.AllocFastRegMR")
	page := smallPage(t.Attr())
	s := &fastStage{MR: mr, p: p, page: page, mem: kit.Pages(n*int(page), int(page))}
	s.pages = kit.PageList(p.B.CA.DMA(s.mem).Ranges(), page)
	kit.Equal(t, "whole pages that CA.MapDMA maps", len(s.pages), n)
	kit.Own(t, mr, "fast registration MR")
	s.key = mr.Region().RKey
	return s
}

// wr returns a request that registers all pages with the next key.
func (s *fastStage) wr(id uint64, a ci.Access) ci.SendWR {
	s.key = s.key&^0xff | (s.key+1)&0xff
	s.ext = ci.SendExt{FastReg: ci.FastReg{MR: s.MR, Pages: s.pages, PageShift: pageShift(s.p.B.CA.Attr),
		Length: uint64(len(s.pages)) * s.page,
		IOVA:   0x40000, Key: s.key, Access: a}}
	return ci.SendWR{ID: id, Op: ci.OpFastReg, Flags: ci.SendSignaled, Ext: &s.ext}
}

// register registers the region and expects success.
func (s *fastStage) register(t *validate.T, a ci.Access) ci.Remote {
	s.p.B.Send(s.wr(7, a))
	wc := s.p.B.CQ.WaitOK(7)[0]
	kit.Equal(t, "WC.Op of a fast registration", wc.Op, ci.WCFastReg)
	return ci.Remote{Addr: 0x40000, RKey: s.key}
}

// invalidate invalidates a key with a work request.
func (s *fastStage) invalidate(t *validate.T, key ci.Key) {
	s.p.B.Send(ci.SendWR{ID: 8, Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: key})
	wc := s.p.B.CQ.WaitOK(8)[0]
	kit.Equal(t, "WC.Op of a local invalidate", wc.Op, ci.WCLocalInv)
}

// fails posts a request to B's queue that must fail, either in PostSend with InvalidParameter or with an error
// completion.
func (s *fastStage) fails(t *validate.T, what string, wr ci.SendWR) {
	n, err := s.p.B.PostSend([]ci.SendWR{wr})
	if err != nil {
		kit.WantTaken(t, "QP.PostSend of "+what, n, err, 0, ci.InvalidParameter)
		return
	}
	if st := s.p.B.CQ.WaitStatus(wr.ID, fastFailed...).Status; st != ci.WCBindErr {
		t.Note("%s: %s", what, st.String())
	}
	s.p.Reconnect()
}

var _ = mrFastCases.Add("mr.fast.alloc", "invalid page counts", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	for _, n := range kit.Variants(t, "pages", []int{0, -1, ca.Attr.MaxFastRegPages + 1}) {
		mr, err := pd.AllocFastRegMR(n)
		kit.WantRefused(t, mr, err, fmt.Sprintf("PD.AllocFastRegMR of %d pages", n), ci.InvalidParameter)
	}
	mr, err := pd.AllocFastRegMR(ca.Attr.MaxFastRegPages)
	kit.OK(t, err, fmt.Sprintf("PD.AllocFastRegMR of %d pages, the value of MaxFastRegPages", ca.Attr.MaxFastRegPages))
	kit.DestroyTwice(t, kit.Own(t, mr, "MR"), "fast registration MR", ci.InvalidMRHandle)
}, mrFastCases.Must("CI-AllocFastReg-01", "IBTA 11.2.8", "ci_alloc_fast_reg_mr (48); OpFastReg",
	"A page count of 0 or above MaxFastRegPages is rejected."))

var ciFastReg01 = mrFastCases.Must("CI-FastReg-01", "IBTA 10.6.4", "ci_alloc_fast_reg_mr (48); OpFastReg",
	"A fast registration grants access to its pages, in their order and with its access rights, once its request "+
		"has been executed. Before that the region grants no access.")

var _ = mrFastCases.Add("mr.fast.use", "register, write, read, receive", fastUse, ciFastReg01, req.SAS2_3_17)

func fastUse(t *validate.T) {
	p := kit.RC(t, kit.Size(64<<10))
	s := newFast(t, p, 3)
	r := s.MR.Region()
	p.WantDenied("RDMA WRITE with the key of an unregistered region", ci.OpWrite, 8,
		ci.Remote{Addr: 0x40000, RKey: r.RKey})
	// The order of the pages differs from that in memory.
	s.pages[0], s.pages[2] = s.pages[2], s.pages[0]
	to := s.register(t, kit.AllAccess)
	src := kit.Random(t, p.A.Buf.Bytes[:3*s.page])
	p.WantReach("RDMA WRITE to a fast-registered region", ci.OpWrite, len(src), to)
	p.Fence()
	for i, at := range kit.Variants(t, "position", []uint64{2, 1, 0}) {
		kit.SameBytes(t, fmt.Sprintf("page %d of the region", i), s.mem[at*s.page:(at+1)*s.page],
			src[uint64(i)*s.page:uint64(i+1)*s.page])
	}
	p.WantDenied("RDMA WRITE of the byte after the region", ci.OpWrite, 1,
		ci.Remote{Addr: to.Addr + 3*s.page, RKey: to.RKey})
	p.WantDenied("RDMA WRITE with another key of the region", ci.OpWrite, 8,
		ci.Remote{Addr: to.Addr, RKey: to.RKey ^ 0x80})
	msg := kit.Random(t, p.A.Buf.Bytes[:100])
	p.B.Recv(ci.RecvWR{ID: 1, SGL: []ci.SGE{{Addr: 0x40000, Length: 100, LKey: s.key}}})
	p.A.Send(p.A.SendWR(1, 0, 100))
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(1)
	kit.SameBytes(t, "message received with the region's key", s.mem[2*s.page:2*s.page+100], msg)
	kit.Destroy(t, s.MR, "valid fast registration MR")
	p.WantDenied("RDMA WRITE to the destroyed region", ci.OpWrite, 8, to)
}

var _ = mrFastCases.Add("mr.fast.rights", "access rights and operations", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	s := newFast(t, p, 1)
	for _, a := range kit.Variants(t, "access", rightsOf(t.Attr())) {
		if illegal(a) {
			continue
		}
		probeRights(p, "a fast-registered region with "+rightNames(a), s.register(t, a), a)
		s.invalidate(t, s.key)
	}
}, ciFastReg01)

var ciFastReg03 = mrFastCases.Must("CI-FastReg-03", "IBTA 10.6.4", "ci_alloc_fast_reg_mr (48); OpFastReg",
	"Requests after a fast registration in the same queue are executed after it.")

var _ = mrFastCases.Add("mr.fast.behind", "a request that uses the key directly after the registration",
	fastThenUse, ciFastReg03)

func fastThenUse(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	s := newFast(t, p, 1)
	copy(s.mem, kit.Random(t, make([]byte, 500)))
	reg := s.wr(1, ci.LocalWrite)
	reg.Flags = 0
	send := ci.SendWR{
		ID:    2,
		Op:    ci.OpSend,
		Flags: ci.SendSignaled,
		SGL:   []ci.SGE{{Addr: 0x40000, Length: 500, LKey: s.key}},
	}
	p.A.Recv(p.A.RecvWR(2, 0, 500))
	p.B.Send(reg, send)
	p.B.CQ.WaitOK(2)
	p.A.RecvCQ.WaitOK(2)
	kit.SameBytes(t, "message sent from the region, with send and registration posted in one list", p.A.Buf.Bytes[:500],
		s.mem[:500])
}

var ciLocalInv01 = mrFastCases.Must("CI-LocalInv-01", "IBTA 10.6.6", "OpLocalInv, SendInvalidate",
	"After a local invalidate the key grants no access, and the region can be registered again with another key.")

var _ = mrFastCases.Add("mr.fast.local-inv", "invalidate, register again", fastLocalInv, ciLocalInv01,
	ciDeregisterMR02)

func fastLocalInv(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	s := newFast(t, p, 1)
	old := s.register(t, kit.AllAccess)
	p.WantWrite("the region", old, s.mem[:64])
	for range 3 {
		s.invalidate(t, old.RKey)
		p.WantUntouched("the invalidated region", old, s.mem[:64])
		to := s.register(t, kit.AllAccess)
		p.WantWrite("the region after another registration", to, s.mem[:64])
		p.WantUntouched("the region after another registration, with the previous key", old, s.mem[:64])
		old = to
	}
}

var _ = mrFastCases.Add("mr.fast.unknown-inv", "invalidate an unknown key", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	s := newFast(t, p, 1)
	to := s.register(t, kit.AllAccess)
	old := newFast(t, p, 1)
	key := old.MR.Region().RKey
	kit.Destroy(t, old.MR, "fast registration MR")
	s.fails(t, "a local invalidate of the key of a destroyed region",
		ci.SendWR{ID: 1, Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: key})
	s.fails(t, "a local invalidate of key 0", ci.SendWR{ID: 2, Op: ci.OpLocalInv, Flags: ci.SendSignaled})
	p.WantWrite("the region whose key was not invalidated", to, s.mem[:64])
}, mrFastCases.Must("CI-LocalInv-02", "IBTA 10.6.6", "OpLocalInv, SendInvalidate",
	"A local invalidate of a key that the HCA has not issued fails."))

var ciFastReg02 = mrFastCases.Must("CI-FastReg-02", "IBTA 10.6.4", "ci_alloc_fast_reg_mr (48); OpFastReg",
	"A fast registration with more pages than allocated, with a key that is not the region's, or of a valid "+
		"region fails and changes nothing.")

var _ = mrFastCases.Add("mr.fast.twice", "register a valid region", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	s := newFast(t, p, 1)
	to := s.register(t, kit.AllAccess)
	s.fails(t, "a fast registration of a valid region", s.wr(1, ci.LocalWrite))
	p.WantWrite("the region with its key", to, s.mem[:64])
	p.WantDenied("RDMA WRITE with the key of the failed registration", ci.OpWrite, 8,
		ci.Remote{Addr: to.Addr, RKey: s.key})
}, ciFastReg02)

var _ = mrFastCases.Add("mr.fast.key", "a key of another region", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	s := newFast(t, p, 1)
	wr := s.wr(1, kit.AllAccess)
	wrong := s.key ^ 1<<20
	s.ext.FastReg.Key = wrong
	s.fails(t, "a fast registration with another index in the key", wr)
	p.WantDenied("RDMA WRITE with that key", ci.OpWrite, 8, ci.Remote{Addr: 0x40000, RKey: wrong})
	p.WantWrite("the region, registered with a key of its own", s.register(t, kit.AllAccess), s.mem[:64])
}, ciFastReg02)

var _ = mrFastCases.Add("mr.fast.pages", "too many pages", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	big := newFast(t, p, 2)
	s := newFast(t, p, 1)
	wr := s.wr(1, kit.AllAccess)
	s.ext.FastReg.Pages, s.ext.FastReg.Length = big.pages, 2*s.page
	s.fails(t, "a fast registration of two pages for a region of one", wr)
	wr = s.wr(2, kit.AllAccess)
	s.ext.FastReg.Length++
	s.fails(t, "a fast registration of more bytes than its pages have", wr)
	p.WantWrite("the region, registered with one page", s.register(t, kit.AllAccess), s.mem[:64])
}, ciFastReg02)

var _ = mrFastCases.Add("mr.fast.refused", "invalid pages, sizes, offsets and rights", func(t *validate.T) {
	p := kit.RC(t, kit.Size(64<<10))
	s := newFast(t, p, 2)
	page := s.page
	for _, x := range kit.Variants(t, "", []struct {
		what   string
		change func(*ci.FastReg)
	}{
		{"no page", func(f *ci.FastReg) { f.Pages, f.Length = nil, 0 }},
		{"no page and a length", func(f *ci.FastReg) { f.Pages = nil }},
		{"no bytes", func(f *ci.FastReg) { f.Length = 0 }},
		{"half of the smallest page size", func(f *ci.FastReg) { f.PageShift--; f.Length = page / 2 }},
		{"pages of 2^64 bytes", func(f *ci.FastReg) { f.PageShift = 64 }},
		{"a first page that begins inside of one",
			func(f *ci.FastReg) { f.Pages = []uint64{s.pages[0] + 8, s.pages[1]} }},
		{"a last page that begins in the middle of one", func(f *ci.FastReg) {
			f.Pages, f.Length = []uint64{s.pages[1], s.pages[0] + page/2}, page+page/2
		}},
		{"an offset that the address does not have", func(f *ci.FastReg) { f.Offset = 8; f.Length -= 8 }},
		{"an address whose offset is not given", func(f *ci.FastReg) { f.IOVA += 8; f.Length -= 8 }},
		{"an offset of a page", func(f *ci.FastReg) { f.Offset = uint32(page); f.Length = page }},
		{"more bytes than the pages have behind the offset", func(f *ci.FastReg) { f.Offset, f.IOVA = 8, f.IOVA+8 }},
		{"addresses that wrap around", func(f *ci.FastReg) { f.IOVA = -page }},
		{"an unknown right", func(f *ci.FastReg) { f.Access |= 1 << 20 }},
		{"remote write without local write", func(f *ci.FastReg) { f.Access = ci.RemoteWrite }},
	}) {
		wr := s.wr(1, kit.AllAccess)
		x.change(&s.ext.FastReg)
		s.fails(t, "a fast registration with "+x.what, wr)
		p.WantDenied("RDMA WRITE with the key of a failed registration", ci.OpWrite, 8,
			ci.Remote{Addr: s.ext.FastReg.IOVA, RKey: s.key})
	}
	// A device may look for a page only when it is accessed.
	wr := s.wr(1, kit.AllAccess)
	s.ext.FastReg.Pages = []uint64{s.pages[0], 1 << 62}
	p.B.Send(wr)
	if p.B.CQ.WaitStatus(1, append([]ci.WCStatus{ci.WCSuccess}, fastFailed...)...).Status == ci.WCSuccess {
		kit.Equal(t, "Region.Length after a fast registration with a page that is not mapped", s.MR.Region().Length,
			2*page)
		s.invalidate(t, s.key)
	} else {
		p.Reconnect()
	}
	p.WantWrite("the region, registered after failures", s.register(t, kit.AllAccess), s.mem[:2*page])
}, mrFastCases.Must("CI-FastReg-04", "IBTA 11.4.1", "ci_alloc_fast_reg_mr (48); OpFastReg",
	"A fast registration with no page, with a page size that the HCA does not support, with a page whose address "+
		"is not a multiple of that size, with an offset that is not that of its address, with more bytes than "+
		"its pages have, or with invalid access rights fails and changes nothing."))

var _ = mrFastCases.Add("mr.fast.offset", "offsets in the first page, odd lengths", func(t *validate.T) {
	p := kit.RC(t, kit.Size(64<<10))
	s := newFast(t, p, 3)
	page := s.page
	for _, x := range kit.Variants(t, "",
		[]struct{ off, n uint64 }{{0, 1}, {1, 3*page - 1}, {page - 1, 2}, {7, page}, {page / 2, page + 1}}) {
		wr := s.wr(7, kit.AllAccess)
		f := &s.ext.FastReg
		f.Offset, f.IOVA, f.Length = uint32(x.off), 0x40000+x.off, x.n
		p.B.Send(wr)
		p.B.CQ.WaitOK(7)
		what := fmt.Sprintf("a region of %d bytes from offset %d on", x.n, x.off)
		to := ci.Remote{Addr: f.IOVA, RKey: s.key}
		kit.Equal(t, "Region.Length of "+what, s.MR.Region().Length, x.n)
		kit.Equal(t, "Region.Addr of "+what, s.MR.Region().Addr, f.IOVA)
		p.WantWrite(what, to, s.mem[x.off:x.off+x.n])
		p.WantDenied("RDMA WRITE of the byte before "+what, ci.OpWrite, 1, ci.Remote{Addr: to.Addr - 1, RKey: to.RKey})
		p.WantDenied("RDMA WRITE of the byte after "+what, ci.OpWrite, 1,
			ci.Remote{Addr: to.Addr + x.n, RKey: to.RKey})
		s.invalidate(t, s.key)
	}
}, ciFastReg01)

var ciSendInv01 = mrFastCases.Must("CI-SendInv-01", "IBTA 9.4", "OpLocalInv, SendInvalidate",
	"A SEND with invalidate invalidates the key at its receiver. The receive completion has WCInvalidated and "+
		"the key.")

var _ = mrFastCases.Needing(validate.Needs{Caps: ci.CapFastReg | ci.CapSendInvalidate}).Add("mr.fast.send-inv",
	"the peer invalidates", fastSendInv, ciSendInv01)

func fastSendInv(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	s := newFast(t, p, 1)
	for range 2 {
		to := s.register(t, kit.AllAccess)
		p.WantWrite("the region", to, s.mem[:64])
		p.B.Recv(p.B.RecvWR(3, 0, 64))
		wr := p.A.SendWR(4, 0, 20)
		wr.Flags |= ci.SendInvalidate
		wr.Inv = to.RKey
		p.A.Send(wr)
		p.A.CQ.WaitOK(4)
		wc := p.B.RecvCQ.WaitOK(3)[0]
		kit.WantRecv(t, "receive of a SEND with invalidate", wc,
			ci.WC{
				ID:      3,
				Op:      ci.WCRecv,
				Length:  20,
				QPN:     p.B.Num(),
				Flags:   ci.WCInvalidated,
				Imm:     uint32(to.RKey),
				Context: p.B.Events,
			})
		p.WantUntouched("the region after the peer has invalidated its key", to, s.mem[:64])
	}
}
