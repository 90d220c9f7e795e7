package cisuite

import (
	"fmt"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// mrCases are the cases of regions over virtual addresses. (IBTA 10.6, 11.2.8.)
var mrCases = &validate.Area{Feature: validate.FeatureMR}

var ciRegisterMR11 = mrCases.Must("CI-RegisterMR-11", "CI Memory", "Memory, ReadAt, WriteAt",
	"A request that uses memory whose ReadAt or WriteAt fails completes with an error. Other connections are not "+
		"affected, and the region works again when its memory does.")

var _ = mrCases.Add("mr.memory.gone", "memory whose ReadAt and WriteAt fail", mrMemoryGone, ciRegisterMR11)

var ciRegisterMR01 = mrCases.Must("CI-RegisterMR-01", "IBTA 11.2.8",
	"ci_register_mr (35), ci_register_mr_remap (36)",
	"A region covers exactly the requested bytes, wherever they start and end in a page.")

var _ = mrCases.With(validate.Case{Checks: []string{req.SAS2_3_13.ID}}).Add("mr.range",
	"1 byte, unaligned ranges, ranges across pages, part of a memory", func(t *validate.T) {
		p := kit.RC(t)
		mem := kit.Pages(3<<12, 1<<12)
		for _, x := range kit.Variants(t, "", []struct{ off, n uint64 }{
			{0, 1}, {1, 1}, {4095, 1}, {4095, 2}, {7, 4096}, {4000, 5000}, {0, 4096}, {4096, 8192}, {0, 0}, {1, 0},
			{12287, 0},
		}) {
			what := fmt.Sprintf("a region of %d bytes at offset %d", x.n, x.off)
			for i := range mem {
				mem[i] = 0xee
			}
			mr, err := p.B.PD.RegisterMR(ci.MRCreate{
				Memory: ci.Bytes(mem),
				Offset: x.off,
				Length: x.n,
				Access: kit.AllAccess,
			})
			kit.OK(t, err, "PD.RegisterMR of "+what)
			kit.Own(t, mr, "MR")
			n := x.n
			if n == 0 {
				n = uint64(len(mem)) - x.off
			}
			r := mr.Region()
			kit.Equal(t, "Region.Length of "+what, r.Length, n)
			t.Charge("SAS-2.3-13", func() {
				kit.Equal(t, "Region.Addr of "+what, r.Addr, ci.Bytes(mem).Addr()+x.off)
			})
			p.WantWrite(what, r.Remote(0), mem[x.off:x.off+n])
			for i, c := range mem {
				if (uint64(i) < x.off || uint64(i) >= x.off+n) && c != 0xee {
					t.Failf(what, "no byte written outside the region", "byte %d of the memory is %#02x", i, c)
				}
			}
			p.WantDenied("RDMA WRITE from the byte before "+what, ci.OpWrite, 1, r.Remote(^uint64(0)))
			p.WantDenied("RDMA WRITE of the byte after "+what, ci.OpWrite, 1, r.Remote(n))
			p.WantDenied("RDMA READ of one byte more than "+what, ci.OpRead, int(n)+1, r.Remote(0))
			kit.Destroy(t, mr, "MR")
		}
	}, ciRegisterMR01, req.SAS2_3_13)

var _ = mrCases.Add("mr.bounds.local", "SGEs that begin before the region or end after it", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	mem := kit.Pages(8192, 4096)
	mr, err := p.A.PD.RegisterMR(ci.MRCreate{Memory: ci.Bytes(mem), Offset: 100, Length: 200, Access: ci.LocalWrite})
	kit.OK(t, err, "PD.RegisterMR")
	kit.Own(t, mr, "MR")
	r := mr.Region()
	to := p.B.Buf.Remote(0)
	for _, x := range kit.Variants(t, "", []struct {
		what string
		sge  ci.SGE
		want ci.WCStatus
	}{
		{"the whole region", r.SGE(0, 200), ci.WCSuccess},
		{"its last byte", r.SGE(199, 1), ci.WCSuccess},
		{"the byte before it", r.SGE(^uint64(0), 2), ci.WCLocalProtErr},
		{"its last byte and the byte after it", r.SGE(199, 2), ci.WCLocalProtErr},
		{"the byte after it", r.SGE(200, 1), ci.WCLocalProtErr},
		{"a length that wraps the address around", ci.SGE{Addr: r.Addr + 1, Length: ^uint32(0), LKey: r.LKey},
			ci.WCLocalProtErr},
		{"the end of the address space", ci.SGE{Addr: ^uint64(0), Length: 2, LKey: r.LKey}, ci.WCLocalProtErr},
	}) {
		if uint64(x.sge.Length) > t.Attr().Ports[0].MaxMsgSize {
			continue // longer than a message may be, which is another rule
		}
		p.WantStatus("RDMA WRITE with an SGE of "+x.what, ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{x.sge}, Remote: to},
			x.want)
	}
}, ciRegisterMR01, req.SAS2_3_17)

// rightsOf returns all combinations of remote rights and local write that the HCA supports.
func rightsOf(a *ci.CAAttr) []ci.Access {
	var out []ci.Access
	for x := range ci.LocalWrite << 1 {
		if x&ci.RemoteAtomic == 0 || a.Atomicity != ci.AtomicNone {
			out = append(out, x)
		}
	}
	return out
}

// illegal reports whether no region may have these rights.
func illegal(a ci.Access) bool {
	return a&(ci.RemoteWrite|ci.RemoteAtomic) != 0 && a&ci.LocalWrite == 0
}

// rightNames returns the names of access rights.
func rightNames(a ci.Access) string {
	s := ""
	for i, n := range []string{"remote read", "remote write", "remote atomic", "local write", "bind window"} {
		if a&(1<<i) != 0 {
			if s != "" {
				s += ", "
			}
			s += n
		}
	}
	if s == "" {
		return "no access rights"
	}
	return s
}

var ciRegisterMR02 = mrCases.Must("CI-RegisterMR-02", "IBTA 10.6.3",
	"ci_register_mr (35), ci_register_mr_remap (36)",
	"Remote write or remote atomic without local write fails with InvalidPermission.")

var _ = mrCases.Add("mr.permission", "remote write and atomic without local write", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	for _, a := range kit.Variants(t, "access", rightsOf(ca.Attr)) {
		mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)), Access: a})
		if illegal(a) {
			kit.WantRefused(t, mr, err, "PD.RegisterMR with "+rightNames(a), ci.InvalidPermission)
			continue
		}
		kit.OK(t, err, "PD.RegisterMR with "+rightNames(a))
		kit.Destroy(t, kit.Own(t, mr, "MR"), "MR")
	}
}, ciRegisterMR02)

var _ = mrCases.Add("mr.rights", "all valid access rights, with read, write and atomic", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	for _, a := range kit.Variants(t, "access", rightsOf(t.Attr())) {
		if illegal(a) {
			continue
		}
		b := p.B.CA.BufOf(p.B.PD, kit.Pages(64, 64), a)
		probeRights(p, "a region with "+rightNames(a), b.Remote(0), a)
		kit.Destroy(t, b, "MR")
	}
}, mrCases.Must("CI-RegisterMR-03", "IBTA 10.6.3", "ci_register_mr (35), ci_register_mr_remap (36)",
	"A peer has exactly the remote access rights with which the region was registered."))

// probeRights tries each operation of a peer on 8 aligned bytes and expects it to succeed exactly if its access right
// is granted.
func probeRights(p *kit.Pair, what string, to ci.Remote, have ci.Access) {
	for _, x := range []struct {
		op    ci.SendOp
		name  string
		needs ci.Access
	}{{ci.OpRead, "RDMA READ from ", ci.RemoteRead}, {ci.OpWrite, "RDMA WRITE to ", ci.RemoteWrite},
		{ci.OpFetchAdd, "fetch-and-add at ", ci.RemoteAtomic},
		{ci.OpCompareSwap, "compare-and-swap at ", ci.RemoteAtomic}} {
		if x.needs == ci.RemoteAtomic && p.A.QP.CA.Attr.Atomicity == ci.AtomicNone {
			continue
		}
		if have&x.needs != 0 {
			p.WantReach(x.name+what, x.op, 8, to)
		} else {
			p.WantDenied(x.name+what, x.op, 8, to)
		}
	}
}

// smallPage returns the smallest page size of the HCA.
func smallPage(a *ci.CAAttr) uint64 {
	if len(a.PageSizes) == 0 {
		return 4096
	}
	return a.PageSizes[0]
}

var ciRegisterMR04 = mrCases.Must("CI-RegisterMR-04", "IBTA 11.2.8",
	"ci_register_mr (35), ci_register_mr_remap (36)",
	"A region that is registered with an IOVA has that address for SGEs and for peers. An IOVA with another "+
		"offset in its page is rejected.")

var _ = mrCases.Add("mr.iova", "a region with an IOVA", func(t *validate.T) {
	p := kit.RC(t, kit.Size(16<<10))
	page := smallPage(t.Attr())
	mem := make([]byte, 3*page+123)
	for _, off := range kit.Variants(t, "offset", []uint64{0, 1, page - 1}) {
		own := ci.Bytes(mem).Addr() + off
		for _, wanted := range kit.Variants(t, "IOVA", []uint64{0x7000_0000_0000, page, 1 << 62}) {
			want := wanted | own&(page-1)
			mr, err := p.B.PD.RegisterMR(ci.MRCreate{
				Memory: ci.Bytes(mem),
				Offset: off,
				Length: 2 * page,
				IOVA:   want,
				Access: kit.AllAccess,
			})
			kit.OK(t, err, fmt.Sprintf("PD.RegisterMR with IOVA %#x", want))
			kit.Own(t, mr, "MR")
			r := mr.Region()
			kit.Equal(t, "Region.Addr", fmt.Sprintf("%#x", r.Addr), fmt.Sprintf("%#x", want))
			p.WantWrite(fmt.Sprintf("the region with IOVA %#x", want), ci.Remote{Addr: want, RKey: r.RKey},
				mem[off:off+2*page])
			p.WantDenied("RDMA WRITE to the address of the memory, which is not that of the region", ci.OpWrite, 8,
				ci.Remote{Addr: own, RKey: r.RKey})
			kit.Destroy(t, mr, "MR")
		}
	}
	// An SGE has the same address.
	b := kit.Random(t, make([]byte, 4096))
	want := 0x5000_0000_0000 | ci.Bytes(b).Addr()&(page-1)
	mr, err := p.A.PD.RegisterMR(ci.MRCreate{Memory: ci.Bytes(b), IOVA: want})
	kit.OK(t, err, "PD.RegisterMR with IOVA")
	kit.Own(t, mr, "MR")
	p.WantStatus("RDMA WRITE from an SGE with the IOVA", ci.SendWR{Op: ci.OpWrite, Remote: p.B.Buf.Remote(0),
		SGL: []ci.SGE{{Addr: want, Length: 4096, LKey: mr.Region().LKey}}}, ci.WCSuccess)
	p.Fence()
	kit.SameBytes(t, "bytes sent from the IOVA", p.B.Buf.Bytes[:4096], b)
}, ciRegisterMR04)

var _ = mrCases.Add("mr.iova.offset", "an IOVA with another offset in the page", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	page := smallPage(ca.Attr)
	mem := make([]byte, page)
	for _, d := range kit.Variants(t, "shift", []uint64{1, page / 2, page - 1}) {
		iova := 0x7000_0000_0000 | (ci.Bytes(mem).Addr()+d)&(page-1)
		mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(mem), IOVA: iova, Access: kit.AllAccess})
		kit.WantRefused(t, mr, err,
			fmt.Sprintf("PD.RegisterMR with an IOVA whose offset in the page is %d bytes larger than that of the "+
				"memory", d), ci.InvalidParameter)
	}
}, ciRegisterMR04)

var _ = mrCases.Needing(validate.Needs{Caps: ci.CapZeroBased}).Add("mr.zero-based", "a zero-based region",
	mrZeroBased,
	mrCases.Must("CI-RegisterMR-05", "IBTA 10.6.2", "ZeroBased; CapZeroBased",
		"The first byte of a zero-based region has address 0."))

func mrZeroBased(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	mem := make([]byte, 3000)
	mr, err := p.B.PD.RegisterMR(ci.MRCreate{
		Memory: ci.Bytes(mem),
		Offset: 11,
		Length: 2000,
		Access: kit.AllAccess | ci.ZeroBased,
	})
	kit.OK(t, err, "PD.RegisterMR with ZeroBased")
	kit.Own(t, mr, "MR")
	r := mr.Region()
	kit.Equal(t, "Region.Addr", r.Addr, 0)
	p.WantWrite("the region from address 0", ci.Remote{Addr: 0, RKey: r.RKey}, mem[11:2011])
	p.WantWrite("the last byte of the region, at address 1999", ci.Remote{Addr: 1999, RKey: r.RKey}, mem[2010:2011])
	p.WantDenied("RDMA WRITE at address 2000", ci.OpWrite, 1, ci.Remote{Addr: 2000, RKey: r.RKey})
	p.WantDenied("RDMA WRITE at the address of the memory", ci.OpWrite, 1,
		ci.Remote{Addr: ci.Bytes(mem).Addr() + 11, RKey: r.RKey})
	both, err := p.A.PD.RegisterMR(ci.MRCreate{Memory: ci.Bytes(mem), IOVA: ci.Bytes(mem).Addr(), Access: ci.ZeroBased})
	kit.WantRefused(t, both, err, "PD.RegisterMR with ZeroBased and an IOVA", ci.InvalidParameter)
	local, err := p.A.PD.RegisterMR(ci.MRCreate{Memory: ci.Bytes(kit.Random(t, make([]byte, 100))),
		Access: ci.ZeroBased})
	kit.OK(t, err, "PD.RegisterMR with ZeroBased")
	kit.Own(t, local, "MR")
	p.WantStatus("RDMA WRITE from an SGE at address 0", ci.SendWR{Op: ci.OpWrite, Remote: p.B.Buf.Remote(0),
		SGL: []ci.SGE{{Addr: 0, Length: 100, LKey: local.Region().LKey}}}, ci.WCSuccess)
}

var _ = mrCases.Add("mr.refused", "no memory, ranges outside, unknown access rights", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	mem := ci.Bytes(make([]byte, 4096))
	page := smallPage(ca.Attr)
	// registered at the last page of the address space, so that the second half is beyond it
	two := ci.Bytes(make([]byte, 2*page))
	for _, x := range kit.Variants(t, "", []struct {
		what string
		c    ci.MRCreate
	}{
		{"no Memory", ci.MRCreate{Length: 64}},
		{"an Offset after the end of the memory", ci.MRCreate{Memory: mem, Offset: 4097}},
		{"a Length beyond the end of the memory", ci.MRCreate{Memory: mem, Length: 4097}},
		{"Offset and Length beyond the end of the memory", ci.MRCreate{Memory: mem, Offset: 4000, Length: 97}},
		{"Offset and Length whose sum wraps around", ci.MRCreate{Memory: mem, Offset: 8, Length: ^uint64(0) - 3}},
		{"an address range that wraps around", ci.MRCreate{Memory: two, IOVA: -page | two.Addr()&(page-1)}},
		{"an unknown access right", ci.MRCreate{Memory: mem, Access: 1 << 20}},
	}) {
		x.c.Access |= ci.LocalWrite
		mr, err := pd.RegisterMR(x.c)
		kit.WantRefused(t, mr, err, "PD.RegisterMR with "+x.what, ci.InvalidParameter)
	}
	// Whether a region may be empty is not specified.
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(nil), Access: ci.LocalWrite})
	if err == nil {
		kit.Destroy(t, kit.Own(t, mr, "MR"), "MR of no bytes")
		t.Note("a region of no bytes can be registered")
		return
	}
	kit.WantRefused(t, mr, err, "PD.RegisterMR of an empty memory", ci.InvalidParameter)
}, mrCases.Must("CI-RegisterMR-06", "IBTA 11.2.8", "ci_register_mr (35), ci_register_mr_remap (36)",
	"Missing memory, a range outside the memory, or unknown access rights fail with InvalidParameter."))

var ciRegisterMR07 = mrCases.Must("CI-RegisterMR-07", "CI Memory", "Memory.Slice, ReadAt, WriteAt",
	"Memory without a direct view, or with views in pieces, is used like any other or rejected with "+
		"InvalidParameter.")

var _ = mrCases.Add("mr.memory.copied", "memory with only ReadAt and WriteAt", func(t *validate.T) {
	mrMemory(t, "memory without a direct view", func(b []byte) ci.Memory { return kit.CopyMemory{B: b} })
}, ciRegisterMR07)

var _ = mrCases.Add("mr.memory.pieces", "memory in extents", func(t *validate.T) {
	mrMemory(t, "memory in pieces of 1000 bytes",
		func(b []byte) ci.Memory { return kit.PiecedMemory{Memory: ci.Bytes(b), Piece: 1000} })
}, ciRegisterMR07)

// mrMemory transfers data to and from a kind of memory, if the driver accepts it.
func mrMemory(t *validate.T, kind string, of func([]byte) ci.Memory) {
	p := kit.RC(t, kit.Size(16<<10))
	mem := make([]byte, 10000)
	mr, err := p.B.PD.RegisterMR(ci.MRCreate{Memory: of(mem), Offset: 10, Access: kit.AllAccess})
	if err != nil {
		kit.WantRefused(t, mr, err, "PD.RegisterMR of "+kind, ci.InvalidParameter)
		t.Note("%s is rejected", kind)
		return
	}
	kit.Own(t, mr, "MR")
	r := mr.Region()
	kit.Equal(t, "Region.Length", r.Length, 9990)
	p.WantWrite(kind, r.Remote(0), mem[10:])
	p.WantWrite("1001 bytes from the middle of "+kind, r.Remote(1500), mem[1510:2511])
	want := kit.Random(t, mem)[10:]
	clear(p.A.Buf.Bytes)
	p.WantReach("RDMA READ from "+kind, ci.OpRead, len(want), r.Remote(0))
	kit.SameBytes(t, "bytes read from "+kind, p.A.Buf.Bytes[:len(want)], want)
	msg := kit.Random(t, p.A.Buf.Bytes[:5000])
	p.B.Recv(ci.RecvWR{ID: 1, SGL: []ci.SGE{r.SGE(990, 5000)}})
	p.A.Send(p.A.SendWR(1, 0, 5000))
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(1)
	kit.SameBytes(t, "message received into "+kind, mem[1000:6000], msg)
}

var _ = mrCases.Add("mr.local-write", "receive and read into a region without local write", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	for _, a := range kit.Variants(t, "access", []ci.Access{0, ci.RemoteRead}) {
		b := p.A.CA.Buf(p.A.PD, 64, a)
		p.WantStatus("RDMA READ into a region with "+rightNames(a),
			ci.SendWR{Op: ci.OpRead, SGL: b.SGL(0, 64), Remote: p.B.Buf.Remote(0)}, ci.WCLocalProtErr)
		kit.SameBytes(t, "memory of the region", b.Bytes, make([]byte, 64))
		p.WantStatus("RDMA WRITE from a region with "+rightNames(a),
			ci.SendWR{Op: ci.OpWrite, SGL: b.SGL(0, 64), Remote: p.B.Buf.Remote(0)}, ci.WCSuccess)
		r := p.B.CA.Buf(p.B.PD, 64, a)
		p.A.Buf.Fill(t, 0, 64)
		p.B.Recv(ci.RecvWR{ID: 1, SGL: r.SGL(0, 64)})
		p.A.Send(p.A.SendWR(1, 0, 64))
		p.B.RecvCQ.WaitStatus(1, ci.WCLocalProtErr)
		p.A.CQ.WaitStatus(1, ci.WCRemOpErr)
		kit.SameBytes(t, "memory of the region", r.Bytes, make([]byte, 64))
		p.Reconnect()
	}
}, mrCases.Must("CI-RegisterMR-08", "IBTA 10.6.3", "ci_register_mr (35), ci_register_mr_remap (36)",
	"Local write is required for memory that the HCA writes for its own consumer."))

var _ = mrCases.Add("mr.pd.local", "an SGE with the key of another PD", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.A.CA.Buf(p.A.CA.PD(), 64, kit.AllAccess)
	p.WantStatus("RDMA WRITE from a region of another PD",
		ci.SendWR{Op: ci.OpWrite, SGL: b.SGL(0, 64), Remote: p.B.Buf.Remote(0)}, ci.WCLocalProtErr)
	p.WantStatus("RDMA READ into a region of another PD",
		ci.SendWR{Op: ci.OpRead, SGL: b.SGL(0, 64), Remote: p.B.Buf.Remote(0)}, ci.WCLocalProtErr)
	kit.SameBytes(t, "memory of the region", b.Bytes, make([]byte, 64))
}, req.SAS2_3_07, req.SAS2_3_12)

var _ = mrCases.Needing(validate.Needs{Caps: ci.CapUD | ci.CapAV}).Add("mr.pd.datagram",
	"receive a datagram into a region of another PD", func(t *validate.T) {
		p := kit.UD(t, kit.Size(4096))
		b := p.B.CA.Buf(p.B.CA.PD(), 256, kit.AllAccess)
		p.A.Buf.Fill(t, 0, 64)
		p.B.Recv(ci.RecvWR{ID: 1, SGL: b.SGL(0, 256)})
		p.A.Send(p.A.SendWR(2, 0, 64))
		p.A.CQ.WaitOK(2)
		p.B.RecvCQ.WaitStatus(1, ci.WCLocalProtErr)
		kit.SameBytes(t, "memory of the region", b.Bytes, make([]byte, 256))
	}, req.SAS2_3_07, req.SAS2_3_12)

var _ = mrCases.Add("mr.pd.remote", "a peer uses the key of another PD", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.CA.PD(), 64, kit.AllAccess)
	p.WantUntouched("a region of another PD than the QP's", b.Remote(0), b.Bytes)
	p.WantDenied("RDMA READ from a region of another PD than the QP's", ci.OpRead, 8, b.Remote(0))
}, req.SAS2_3_07)

var _ = mrCases.Add("mr.unknown-key", "keys that were never issued", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	known := map[ci.Key]bool{p.A.Buf.LKey: true, p.B.Buf.LKey: true, p.A.Buf.RKey: true, p.B.Buf.RKey: true}
	for _, k := range keysBeside(t, p.A.Buf.LKey) {
		if known[k] {
			continue
		}
		sge := ci.SGE{Addr: p.A.Buf.Addr, Length: 8, LKey: k}
		p.WantStatus(fmt.Sprintf("RDMA WRITE with the L_Key %#x", uint32(k)),
			ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{sge}, Remote: p.B.Buf.Remote(0)}, ci.WCLocalProtErr)
	}
	for _, k := range keysBeside(t, p.B.Buf.RKey) {
		if !known[k] {
			p.WantDenied(fmt.Sprintf("RDMA WRITE with the R_Key %#x", uint32(k)), ci.OpWrite, 8,
				ci.Remote{Addr: p.B.Buf.Addr, RKey: k})
		}
	}
}, req.SAS2_3_12, req.SAS2_3_17)

// keysBeside returns keys that differ from an issued one in one bit, and others.
func keysBeside(t *validate.T, k ci.Key) []ci.Key {
	keys := []ci.Key{0, 0xffffffff, ci.Key(t.Rand().Uint32())}
	for i := range 32 {
		keys = append(keys, k^1<<i)
	}
	return keys
}

var _ = mrCases.Add("mr.keys.unique", "keys of 256 regions", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	seen := map[ci.Key]bool{}
	mem := make([]byte, 4096)
	for range min(256, ca.Attr.MaxMRs) {
		r := ca.BufOf(pd, mem, kit.AllAccess).Region
		kit.True(t, !seen[r.LKey], "L_Key", "a key of no other region", "%#x, the key of another region",
			uint32(r.LKey))
		kit.True(t, !seen[r.RKey], "R_Key", "a key of no other region", "%#x, the key of another region",
			uint32(r.RKey))
		seen[r.LKey], seen[r.RKey] = true, true
	}
}, mrCases.Must("CI-RegisterMR-09", "IBTA 10.6.3", "ci_register_mr (35), ci_register_mr_remap (36)",
	"All registered regions have different keys."))

var _ = mrCases.Add("mr.keys.guess", "predictability of keys", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	mem := make([]byte, 64)
	n := min(64, ca.Attr.MaxMRs)
	var keys []uint32
	for range n {
		keys = append(keys, uint32(ca.BufOf(pd, mem, kit.AllAccess).RKey))
	}
	// Count the most frequent difference between consecutive keys, for whole keys and for their upper 24 bits, since
	// the low 8 bits may be random.
	for _, shift := range kit.Variants(t, "shift", []int{0, 8}) {
		diff, highest := map[uint32]int{}, 0
		for i := 1; i < n; i++ {
			d := keys[i]>>shift - keys[i-1]>>shift
			diff[d]++
			highest = max(highest, diff[d])
		}
		if n > 8 && highest > n/4 {
			t.Failf("R_Keys of consecutively registered regions", "keys that are not predictable",
				"the same difference between consecutive keys %d times in %d (bits %d and up); first keys: %#x %#x %#x",
				highest, n-1, shift, keys[0], keys[1], keys[2])
		}
	}
	for range 16 {
		b := ca.BufOf(pd, mem, kit.AllAccess)
		old := b.RKey
		kit.Destroy(t, b, "MR")
		next := ca.BufOf(pd, mem, kit.AllAccess)
		kit.True(t, next.RKey != old, "R_Key of a region registered directly after a Destroy",
			"a key other than that of the destroyed region", "%#x, the same key", uint32(old))
		kit.Destroy(t, next, "MR")
	}
}, mrCases.Should("CI-RegisterMR-10", "IBTA 10.6.3", "ci_register_mr (35), ci_register_mr_remap (36)",
	"Keys are not predictable, and a new region does not get the key of the region destroyed last."))

var _ = mrCases.With(validate.Case{Checks: []string{req.SAS2_1_02.ID}}).Add("mr.query",
	"Region, Query, bounds and PD", mrQuery,
	mrCases.Must("CI-QueryMR-01", "IBTA 11.2.8", "ci_query_mr (39)",
		"Region and Query return the same values, the PD and the access rights. The enforced bounds contain the "+
			"requested range."), req.SAS2_1_02)

func mrQuery(t *validate.T) {
	ca := kit.Open(t)
	pd, other := ca.PD(), ca.PD()
	mem := make([]byte, 10000)
	for _, x := range kit.Variants(t, "", []struct {
		pd     ci.PD
		off, n uint64
		access ci.Access
	}{{pd, 0, 10000, kit.AllAccess}, {other, 5, 1, ci.LocalWrite}, {other, 4095, 3, ci.RemoteRead}, {pd, 9, 0, 0}}) {
		mr, err := x.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(mem), Offset: x.off, Length: x.n, Access: x.access})
		kit.OK(t, err, "PD.RegisterMR")
		kit.Own(t, mr, "MR")
		a, err := mr.Query()
		kit.OK(t, err, "MR.Query")
		t.Charge("SAS-2.1-02", func() { kit.SameObject(t, "MRAttr.PD", a.PD, x.pd) })
		wantQuery(t, mr, x.pd, x.access)
		if x.n > 0 {
			kit.Equal(t, "Region.Length", mr.Region().Length, x.n)
		}
	}
}

// wantQuery expects Query and Region to return the same values, and the given PD and access rights.
func wantQuery(t *validate.T, mr ci.MR, pd ci.PD, access ci.Access) {
	a, err := mr.Query()
	kit.OK(t, err, "MR.Query")
	kit.Equal(t, "MRAttr.Region", a.Region, mr.Region())
	kit.SameObject(t, "MRAttr.PD", a.PD, pd)
	const rights = ci.LocalWrite<<1 - 1
	kit.Equal(t, "MRAttr.Access", rightNames(a.Access&rights), rightNames(access&rights))
	hold := func(what string, lo, hi uint64) {
		if lo > a.Addr || hi < a.Addr+a.Length {
			t.Failf("MRAttr: "+what, fmt.Sprintf("bounds that contain %#x to %#x", a.Addr, a.Addr+a.Length),
				"%#x to %#x", lo, hi)
		}
	}
	hold("LocalLo and LocalHi", a.LocalLo, a.LocalHi)
	if access&(ci.RemoteRead|ci.RemoteWrite|ci.RemoteAtomic) != 0 {
		hold("RemoteLo and RemoteHi", a.RemoteLo, a.RemoteHi)
	}
}

var _ = mrCases.Add("mr.destroy.local", "send from a destroyed region", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.A.CA.Buf(p.A.PD, 64, kit.AllAccess)
	from := ci.SendWR{Op: ci.OpWrite, SGL: b.SGL(0, 64), Remote: p.B.Buf.Remote(0)}
	p.WantStatus("RDMA WRITE from the region", from, ci.WCSuccess)
	kit.Destroy(t, b, "MR")
	p.WantStatus("RDMA WRITE from the destroyed region", from, ci.WCLocalProtErr)
	p.WantStatus("RDMA READ into the destroyed region",
		ci.SendWR{Op: ci.OpRead, SGL: b.SGL(0, 64), Remote: p.B.Buf.Remote(0)}, ci.WCLocalProtErr)
	r := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
	p.B.Recv(ci.RecvWR{ID: 1, SGL: r.SGL(0, 64)}) // posted while the region exists, used after its Destroy
	kit.Destroy(t, r, "MR")
	p.A.Buf.Fill(t, 0, 64)
	p.A.Send(p.A.SendWR(1, 0, 64))
	p.B.RecvCQ.WaitStatus(1, ci.WCLocalProtErr)
	kit.SameBytes(t, "memory of the destroyed region", r.Bytes, make([]byte, 64))
}, mrCases.Must("CI-DeregisterMR-01", "IBTA 11.2.8", "ci_deregister_mr (43)",
	"A local request with the key of a destroyed region completes with a local protection error."))

var ciDeregisterMR02 = mrCases.Must("CI-DeregisterMR-02", "IBTA 11.2.8", "ci_deregister_mr (43)",
	"A remote request with the key of a destroyed region completes with a remote access error.")

var _ = mrCases.Add("mr.destroy.remote", "write to a destroyed region", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	b := p.B.CA.Buf(p.B.PD, 64, kit.AllAccess)
	p.WantWrite("the region", b.Remote(0), b.Bytes)
	kit.Destroy(t, b, "MR")
	p.WantUntouched("the destroyed region", b.Remote(0), b.Bytes)
	p.WantDenied("RDMA READ from the destroyed region", ci.OpRead, 8, b.Remote(0))
	if t.Attr().Atomicity != ci.AtomicNone {
		p.WantDenied("fetch-and-add at the destroyed region", ci.OpFetchAdd, 8, b.Remote(0))
	}
}, ciDeregisterMR02)

var ciDeregisterMR03 = mrCases.Must("CI-DeregisterMR-03", "CI Memory", "ci_deregister_mr (43)",
	"The HCA does not access the memory of a region after its Destroy has returned, whatever peers do.")

var _ = mrCases.Add("mr.destroy.under-load", "destroy a region while a peer writes to it", func(t *validate.T) {
	const size, rounds, outstanding = 8 << 10, 8, 4
	p := kit.RC(t, kit.Size(2*size))
	for i := range p.A.Buf.Bytes {
		p.A.Buf.Bytes[i] = byte(1 + i/size) // one half of ones, one half of twos
	}
	for range rounds {
		b := p.B.CA.BufOf(p.B.PD, make([]byte, size), kit.AllAccess)
		h := &hammer{
			t:       t,
			a:       p.A,
			b:       b,
			size:    size,
			depth:   outstanding,
			started: make(chan struct{}),
			stop:    make(chan struct{}),
			ended:   make(chan ci.WCStatus, 1),
		}
		t.Cleanup(sync.OnceFunc(func() { close(h.stop) }))
		t.Go(func() { h.ended <- h.run() })
		select {
		case <-h.started:
		case st := <-h.ended:
			t.Failf("first RDMA WRITE to a region", "success", "%s", st)
		case <-time.After(t.Remaining()):
			t.Failf("RDMA WRITEs to a region", "the first one completes", "none by the deadline")
		}
		kit.Destroy(t, b, "MR with RDMA WRITEs outstanding")
		after := append([]byte(nil), b.Bytes...)
		st := h.wait(func() {
			kit.SameBytes(t, "memory of a region some time after its Destroy returned", b.Bytes, after)
		})
		p.Reconnect() // both ends discard all state of the writes
		kit.SameBytes(t, "memory of a region after its Destroy, when all writes have ended", b.Bytes, after)
		kit.Equal(t, "status of the first RDMA WRITE after the Destroy", st.String(), ci.WCRemAccessErr.String())
	}
}, ciDeregisterMR03, ciDeregisterMR02)

var _ = mrCases.Add("mr.destroy.held", "destroy a region while its memory is accessed", mrDestroyHeld,
	ciDeregisterMR03)

// hammer writes to a region until a write fails, with several writes outstanding. It runs on another goroutine and
// therefore only reports failures.
type hammer struct {
	t           *validate.T
	a           *kit.End
	b           *kit.Buf
	size, depth int
	started     chan struct{}    // closed after the first success
	stop        chan struct{}    // closed when the case ends
	ended       chan ci.WCStatus // status of the first write that failed
}

// wait returns the status of the first write that failed. Until then it calls look every millisecond.
func (h *hammer) wait(look func()) ci.WCStatus {
	tick, deadline := time.NewTicker(time.Millisecond), time.NewTimer(h.t.Remaining())
	defer tick.Stop()
	defer deadline.Stop()
	for {
		select {
		case st := <-h.ended:
			return st
		case <-tick.C:
			look()
		case <-deadline.C:
			h.t.Failf("RDMA WRITEs to a region after its Destroy", "one of them fails",
				"all succeed until the deadline")
		}
	}
}

func (h *hammer) run() ci.WCStatus {
	var wcs [8]ci.WC
	posted, turn, first := 0, 0, true
	for {
		select {
		case <-h.stop:
			return ci.WCGeneralErr
		default:
		}
		for ; posted < h.depth; posted++ {
			turn ^= 1
			wr := ci.SendWR{
				ID:     1,
				Op:     ci.OpWrite,
				Flags:  ci.SendSignaled,
				SGL:    h.a.Buf.SGL(turn*h.size, h.size),
				Remote: h.b.Remote(0),
			}
			if n, err := h.a.PostSend([]ci.SendWR{wr}); n != 1 {
				h.t.Report(validate.Failure{Where: "QP.PostSend", Expected: "1 request accepted",
					Got: kit.Describe(err)})
				return ci.WCGeneralErr
			}
		}
		n, err := h.a.CQ.Poll(wcs[:])
		if err != nil {
			h.t.Report(validate.Failure{Where: "CQ.Poll", Expected: "success", Got: kit.Describe(err)})
			return ci.WCGeneralErr
		}
		for _, wc := range wcs[:n] {
			if wc.Status != ci.WCSuccess {
				return wc.Status
			}
			posted--
			if first {
				first = false
				close(h.started)
			}
		}
	}
}

var ciDeregisterMR04 = mrCases.Must("CI-DeregisterMR-04", "IBTA 11.2.8", "ci_deregister_mr (43)",
	"A verb on a destroyed region fails with InvalidMRHandle.")

var _ = mrCases.With(validate.Case{Exhaustive: exhaustiveTime}).Add("mr.loop",
	"register and deregister, ten times the size of the table", func(t *validate.T) {
		ca := kit.Open(t)
		pd := ca.PD()
		mem := ci.Bytes(make([]byte, 4096))
		const maxRounds = 20000
		n := 10 * ca.Attr.MaxMRs
		if n > maxRounds && !t.Profile().Exhaustive {
			n = maxRounds
			t.Note("only %d rounds; ten times the size of the table would be %d", n, 10*ca.Attr.MaxMRs)
		}
		for i := range n {
			mr, err := pd.RegisterMR(ci.MRCreate{Memory: mem, Access: kit.AllAccess})
			if err == nil {
				err = mr.Destroy()
			}
			kit.OK(t, err, fmt.Sprintf("PD.RegisterMR and MR.Destroy, round %d of %d", i+1, n))
		}
		kit.Destroy(t, ca.Buf(pd, 64, kit.AllAccess), "MR after the rounds")
	}, req.SAS2_3_28, req.SAS2_3_24)
