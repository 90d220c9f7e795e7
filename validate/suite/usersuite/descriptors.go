package usersuite

import (
	"fmt"
	"os"
	"runtime"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = memories.Case(validate.Case{
	ID: "user.memory.descriptors",
	Title: "shared memory: ranges and descriptors that are accepted and refused, rights of a descriptor, and " +
		"changes of regions",
	Run: memoryDescriptors,
}, req.SAS2_4_09)

func memoryDescriptors(t *validate.T) {
	s := newStage(t)
	x := s.speaker()
	queue, _ := x.queue()
	w := x.whole(0, queue)
	page := uint64(os.Getpagesize())
	size := 3 * page
	m := s.sharedMemory(int(size))
	f, _ := m.File()
	kit.Random(t, m.Bytes())
	addr := m.Addr()
	register := func(change func(*schema.Memory), files ...*os.File) (schema.RegionReply, error) {
		r := &schema.RegisterMR{PD: w.pd, Memory: schema.Memory{Addr: addr, Length: size, IOVA: addr,
			Access: ci.LocalWrite, Shared: true}}
		change(&r.Memory)
		var reply schema.RegionReply
		err := x.do(schema.CmdRegisterMR, r, &reply, files...)
		return reply, err
	}
	same := func(*schema.Memory) {}

	t.Step("ranges")
	at := func(off, n uint64) func(*schema.Memory) {
		return func(m *schema.Memory) {
			m.FileOffset, m.Length = off, n
			m.Addr, m.IOVA = addr+off, addr+off
		}
	}
	for _, v := range []struct {
		off, n uint64
		ok     bool
	}{{0, size, true}, {0, 1, true}, {size - 1, 1, true}, {page, page, true}, {page - 1, page + 2, true},
		{0, 0, false}, {0, size + 1, false}, {1, size, false}, {size, 1, false}, {size + page, 1, false},
		{page, size, false}, {^uint64(0), 2, false}, {^uint64(page - 1), page, false}, {page, ^uint64(0), false}} {
		where := fmt.Sprintf("PD.RegisterMR of %d bytes at offset %d of a file of %d", v.n, v.off, size)
		r, err := register(at(v.off, v.n), f)
		if !v.ok {
			kit.True(t, err != nil, where, "an error", "success")
			continue
		}
		kit.OK(t, err, where)
		kit.Equal(t, "address and length of the region", [2]uint64{r.Region.Addr, r.Region.Length},
			[2]uint64{addr + v.off, v.n})
		got := make([]byte, v.n)
		_, err = s.probe.lastMemory().ReadAt(got, 0)
		kit.OK(t, err, "Memory.ReadAt of shared memory")
		kit.SameBytes(t, "bytes of shared memory at the driver", got, m.Bytes()[v.off:][:v.n])
		x.destroyed(r.Handle)
	}
	for _, off := range []uint64{1, page / 2, page - 1} {
		_, err := register(func(m *schema.Memory) { m.Length, m.FileOffset = 1, off }, f)
		kit.WantExactly(t, err, "PD.RegisterMR with an address and an offset that differ within a page",
			ci.InvalidPermission)
	}

	t.Step("descriptors")
	_, err := register(same)
	kit.WantExactly(t, err, "PD.RegisterMR of shared memory without a descriptor", ci.InvalidParameter)
	_, err = register(func(m *schema.Memory) { m.Shared = false }, f)
	kit.WantExactly(t, err, "PD.RegisterMR of own memory with a descriptor", ci.InvalidParameter)
	file := func(dir string) *os.File {
		f, err := os.CreateTemp(dir, "ddk-validate-")
		if err != nil {
			return nil
		}
		t.Cleanup(func() { f.Close() })
		_ = os.Remove(f.Name()) // its descriptor is enough
		if err := f.Truncate(int64(size)); err != nil {
			t.Harness("a file of %d bytes: %v", size, err)
		}
		return f
	}
	r, wr, err := os.Pipe()
	if err != nil {
		t.Harness("a pipe: %v", err)
	}
	t.Cleanup(func() { CloseFiles([]*os.File{r, wr}) })
	for what, f := range map[string]*os.File{"a file": file(""), "a file in memory": file("/dev/shm"), "a pipe": r} {
		if f == nil {
			continue
		}
		_, err = register(same, f)
		kit.WantExactly(t, err, "PD.RegisterMR of "+what+", whose size may change", ci.InvalidPermission)
	}

	t.Step("a descriptor that permits reading only")
	if runtime.GOOS != "linux" {
		return
	}
	readOnly, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		t.Harness("a descriptor for reading: %v", err)
	}
	t.Cleanup(func() { readOnly.Close() })
	_, err = register(same, readOnly)
	kit.WantExactly(t, err, "PD.RegisterMR, with write access, of a descriptor for reading", ci.InvalidPermission)
	mr, err := register(func(m *schema.Memory) { m.Access = ci.RemoteRead }, readOnly)
	kit.OK(t, err, "PD.RegisterMR, without write access, of a descriptor for reading")
	twice := func(mr schema.Handle, a ci.Access) (schema.Handle, error) {
		return x.create(schema.CmdRegisterSMR, &schema.RegisterSMR{PD: w.pd, MR: mr, IOVA: addr, Access: a})
	}
	modify := func(mr schema.Handle, set ci.MRField, a ci.Access, pd schema.Handle) error {
		return x.do(schema.CmdModifyMR, &schema.ModifyMR{MR: mr, PD: pd, Set: uint32(set),
			Memory: schema.Memory{Addr: addr, Length: size, IOVA: addr, Access: a, Shared: true}},
			&schema.RegionReply{})
	}
	writes := []ci.Access{ci.LocalWrite, ci.LocalWrite | ci.RemoteWrite, ci.LocalWrite | ci.RemoteAtomic,
		ci.RemoteWrite, ci.RemoteAtomic}
	for _, a := range writes {
		if t.Claims().Has(ci.CapSharedMR) {
			_, err = twice(mr.Handle, a)
			kit.WantExactly(t, err, fmt.Sprintf("PD.RegisterSMR with access %v to memory for reading", a),
				ci.InvalidPermission)
		}
		if t.Claims().Has(ci.CapModifyMR) {
			kit.WantExactly(t, modify(mr.Handle, ci.MRFieldAccess, a, 0),
				fmt.Sprintf("MR.Modify to access %v of memory for reading", a), ci.InvalidPermission)
		}
	}
	if t.Claims().Has(ci.CapSharedMR) {
		h, err := twice(mr.Handle, ci.RemoteRead)
		kit.OK(t, err, "PD.RegisterSMR without write access")
		x.destroyed(h)
	}

	if t.Claims().Has(ci.CapModifyMR) {
		t.Step("changes of regions")
		kit.OK(t, modify(mr.Handle, ci.MRFieldAccess, 0, 0), "MR.Modify to no access of peers")
		var attr schema.QueryMRReply
		kit.OK(t, x.do(schema.CmdQueryMR, &schema.MR{MR: mr.Handle}, &attr), "MR.Query")
		kit.Equal(t, "access, address and length of the changed region", fmt.Sprint(attr.Access, attr.Region.Addr,
			attr.Region.Length), fmt.Sprint(ci.Access(0), addr, size))
		kit.OK(t, modify(mr.Handle, ci.MRFieldAccess, ci.RemoteRead, 0), "MR.Modify back")
		pd := x.made("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{CA: w.ca})
		x.destroyed(pd)
		pd = x.made("CA.AllocatePD", schema.CmdAllocatePD, &schema.AllocatePD{CA: w.ca})
		kit.OK(t, modify(mr.Handle, ci.MRFieldPD, 0, pd), "MR.Modify to another PD")
		kit.WantExactly(t, x.destroy(pd), "PD.Destroy with a region that was moved to it", ci.ResourceBusy)
		kit.OK(t, x.do(schema.CmdQueryMR, &schema.MR{MR: mr.Handle}, &attr), "MR.Query")
		kit.Equal(t, "access of a region that was moved", attr.Access, ci.RemoteRead)
		kit.OK(t, modify(mr.Handle, ci.MRFieldPD, 0, w.pd), "MR.Modify to the first PD")
		x.destroyed(pd)
		_, err = x.execute(schema.CmdModifyMR, native.Append(nil, &schema.ModifyMR{MR: mr.Handle,
			Set: uint32(ci.MRFieldMemory), Memory: schema.Memory{Addr: addr, Length: page, IOVA: addr, Shared: true}}),
			readOnly)
		kit.OK(t, err, "MR.Modify of the memory, with the rights that the region has")
		kit.OK(t, x.do(schema.CmdQueryMR, &schema.MR{MR: mr.Handle}, &attr), "MR.Query")
		kit.Equal(t, "length of the changed region", attr.Region.Length, page)
		_, err = x.execute(schema.CmdModifyMR, native.Append(nil, &schema.ModifyMR{MR: mr.Handle,
			Set: uint32(ci.MRFieldMemory | ci.MRFieldAccess), Memory: schema.Memory{Addr: addr, Length: page,
				IOVA: addr, Access: ci.LocalWrite, Shared: true}}), readOnly)
		kit.WantExactly(t, err, "MR.Modify of memory for reading to write access", ci.InvalidPermission)
	}
	x.destroyed(mr.Handle)
}
