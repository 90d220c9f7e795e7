package uverbs

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/rings"
)

// TestIoctlDevice requests a context, its events, and the tables of the device.
func TestIoctlDevice(t *testing.T) {
	r := newRig(t)
	p := r.ioctlContext()
	v := p.mustIoctl(newIoctl(typeAsyncEvent, 0).use(attrHandle, 99))
	assert.Equal(t, make([]byte, 8), v[attrHandle])
	assert.Len(t, p.files, 1)
	assert.Equal(t, syscall.EOPNOTSUPP, p.ioctl(newIoctl(typeAsyncEvent, 0).use(attrHandle, 0)).Errno)
	assert.Equal(t, syscall.EINVAL, p.ioctl(newIoctl(typeDevice, 3)).Errno, "a second context")

	v = p.mustIoctl(newIoctl(typeDevice, 2).u64(attrPortNum, 1).out(attrPortResp, 64))
	require.Len(t, v[attrPortResp], 64)
	var port queryPortResp
	p.must(cmdQueryPort, queryPort{Response: replyAddr, PortNum: 1}, &port)
	assert.Equal(t, port.State, v[attrPortResp][26])
	assert.Equal(t, port.MaxMsgSz, ne.Uint32(v[attrPortResp][4:]))
	assert.Equal(t, make([]byte, 24), v[attrPortResp][40:])
	for _, port := range []uint64{0, 2, 256, 1 << 40} {
		assert.Equal(t, syscall.EINVAL, p.ioctl(newIoctl(typeDevice, 2).u64(attrPortNum, port).out(attrPortResp,
			48)).Errno, port)
	}

	gids := r.al.Adapters()[0].Attr().Ports[0].GIDs
	entry := func(index, port uint64) *ioctl {
		return newIoctl(typeDevice, 6).u64(attrEntryPort, port).u64(attrEntryIndex, index).u32(attrEntryFlags, 0).
			out(attrEntryResp, sizeGIDEntry)
	}
	v = p.mustIoctl(entry(0, 1))
	assert.Equal(t, gids[0].GID[:], v[attrEntryResp][:16])
	assert.EqualValues(t, 1, ne.Uint32(v[attrEntryResp][20:]))
	assert.EqualValues(t, gidTypeRoCEv2, ne.Uint32(v[attrEntryResp][24:]))
	assert.Equal(t, syscall.EINVAL, p.ioctl(entry(uint64(len(gids)), 1)).Errno)
	assert.Equal(t, syscall.EINVAL, p.ioctl(entry(0, 2)).Errno)
	assert.Equal(t, syscall.EINVAL, p.ioctl(entry(0, 0)).Errno)
	for i, g := range gids {
		if g.GID == (ci.GID{}) {
			assert.Equal(t, syscall.ENODATA, p.ioctl(entry(uint64(i), 1)).Errno)
		}
	}
	table := func(size uint64, room int) *ioctl {
		return newIoctl(typeDevice, 5).u64(attrTableEntrySize, size).u32(attrTableFlags, 0).
			out(attrTableEntries, room).out(attrTableCount, 8)
	}
	all := p.mustIoctl(table(sizeGIDEntry, 1024*sizeGIDEntry))
	count := ne.Uint64(all[attrTableCount])
	assert.EqualValues(t, len(all[attrTableEntries]), count*sizeGIDEntry)
	assert.Equal(t, v[attrEntryResp], all[attrTableEntries][:sizeGIDEntry])
	long := p.mustIoctl(table(48, 1024*48))
	assert.Equal(t, append(v[attrEntryResp], make([]byte, 16)...), long[attrTableEntries][:48])
	assert.Equal(t, v[attrEntryResp][:16], p.mustIoctl(table(16, 1024*16))[attrTableEntries][:16])
	for _, bad := range []*ioctl{table(0, 32), table(32, 33), table(sizeGIDEntry, 0), table(1<<40, 32),
		table(32, int(count-1)*32), table(32, 32*64).u32(attrTableFlags, 0)} {
		assert.Equal(t, syscall.EINVAL, p.ioctl(bad).Errno)
	}
}

// TestIoctlAtEnd sends ioctls whose attributes lie beyond the end of the address space, where a hostile program states
// that it has memory. No such call has an effect, and the daemon continues to work.
func TestIoctlAtEnd(t *testing.T) {
	r := newRig(t)
	p := r.ioctlContext()
	c := newIoctl(typeDevice, 1).u64(attrInfoType, 1).out(attrInfoTotal, 4).out(attrInfoList, 8)
	whole := uint64(len(c.bytes()))
	for n := uint64(1); n < whole; n++ {
		base := -n
		req := &devices.Request{IsIoctl: true, Ioctl: verbsIoctl, Operand: base,
			Memory: []devices.Range{{Addr: base, Size: whole, Data: c.bytes()}}}
		reply := p.f.Call(req)
		assert.NotEmpty(t, reply.NeedMemory, "%d bytes before the end", n)
		assert.Empty(t, reply.Stores)
	}
	p.mustIoctl(c)
}

// TestIoctlObjects creates and destroys objects by ioctls, and lists their handles.
func TestIoctlObjects(t *testing.T) {
	r := newRig(t)
	p := r.ioctlContext()
	b := make([]byte, 8192)
	o := p.create(b)
	var ch createCompChannelResp
	p.must(cmdCreateChan, createCompChannel{replyAddr}, &ch)
	p.files[5] = p.files[replyAddr]

	v := p.mustIoctl(ioctlCQ(10).use(attrCQChannel, 5))
	cq := ne.Uint64(v[attrHandle])
	assert.EqualValues(t, 15, ne.Uint32(v[attrCQRespSize]))
	assert.Len(t, v[attrDriverOut], 16)
	limits := make([]byte, sizeQPCap)
	for i, n := range []uint32{4, 4, 1, 1, 0} {
		ne.PutUint32(limits[4*i:], n)
	}
	qp := func(typ uint64) *ioctl {
		return newIoctl(typeQP, 0).use(attrHandle, 0).use(attrQPPD, uint64(o.pd)).use(attrQPSendCQ, cq).
			use(attrQPRecvCQ, cq).u64(attrQPUserHandle, 88).in(attrQPCap, limits).u64(attrQPType, typ).
			out(attrQPRespCap, 32).out(attrQPRespNumber, 4).out(attrDriverOut, rings.VerbsQPSize)
	}
	v = p.mustIoctl(qp(createQPRC).u64(attrQPFlags, qpSignalAll))
	handle := ne.Uint64(v[attrHandle])
	assert.NotZero(t, ne.Uint32(v[attrQPRespNumber]))
	assert.GreaterOrEqual(t, ne.Uint32(v[attrQPRespCap]), uint32(4))
	assert.Equal(t, make([]byte, 12), v[attrQPRespCap][20:])
	var q queryQPResp
	p.must(cmdQueryQP, queryQP{Response: replyAddr, QPHandle: uint32(handle)}, &q)
	assert.EqualValues(t, 1, q.SQSigAll)

	srq := newIoctl(typeSRQ, 0).use(attrHandle, 0).use(attrSRQPD, uint64(o.pd)).u64(attrSRQUserHandle, 99).
		u32(attrSRQMaxWR, 10).u32(attrSRQMaxSGE, 2).u32(attrSRQLimit, 0).u64(attrSRQType, 0).
		out(attrSRQRespMaxWR, 4).out(attrSRQRespMaxSGE, 4).out(attrDriverOut, 64)
	v = p.mustIoctl(srq)
	shared := ne.Uint64(v[attrHandle])
	assert.GreaterOrEqual(t, ne.Uint32(v[attrSRQRespMaxWR]), uint32(10))
	v = p.mustIoctl(qp(createQPUD).use(attrQPSRQ, shared))
	onSRQ := ne.Uint64(v[attrHandle])

	v = p.mustIoctl(newIoctl(typeMR, 3).use(attrHandle, uint64(o.mr)).out(attrQueryMRLKey, 4).
		out(attrQueryMRRKey, 4).out(attrQueryMRLength, 8).out(attrQueryMRIOVA, 8))
	assert.EqualValues(t, len(b), ne.Uint64(v[attrQueryMRLength]))
	assert.Equal(t, ci.Bytes(b).Addr(), ne.Uint64(v[attrQueryMRIOVA]))

	handles := func(typ uint64, room int) []byte {
		return p.mustIoctl(newIoctl(typeDevice, 1).u64(attrInfoType, typ).out(attrInfoTotal, 4).
			out(attrInfoList, room))[attrInfoList]
	}
	list := ne.AppendUint32(ne.AppendUint32(nil, uint32(cq)), o.cq)
	assert.Equal(t, list, handles(typeCQ, 400))
	assert.Equal(t, list[:4], handles(typeCQ, 4))
	assert.Empty(t, handles(typeAsyncEvent, 4))

	busy := func(object, method uint16, h uint32) syscall.Errno {
		return p.ioctl(newIoctl(object, method).use(attrHandle, uint64(h))).Errno
	}
	assert.Equal(t, syscall.EBUSY, busy(typePD, 0, o.pd))
	for _, x := range []struct {
		object, method uint16
		handle         uint64
		size           int
	}{{typeQP, 1, onSRQ, 4}, {typeQP, 1, handle, 4}, {typeQP, 1, uint64(o.qp), 4}, {typeSRQ, 1, shared, 4},
		{typeSRQ, 1, uint64(o.srq), 4}, {typeCQ, 1, cq, 8}, {typeCQ, 1, uint64(o.cq), 8}, {typeMW, 0, uint64(o.mw), 0},
		{typeMR, 1, uint64(o.mr), 0}, {typeAH, 0, uint64(o.ah), 0}, {typePD, 0, uint64(o.pd), 0}} {
		destroy := newIoctl(x.object, x.method).use(attrHandle, x.handle)
		if x.size > 0 {
			assert.Equal(t, syscall.EINVAL, p.ioctl(destroy).Errno, "without room for the events")
			destroy.out(attrDestroyResp, x.size)
		}
		v := p.mustIoctl(destroy)
		assert.Equal(t, make([]byte, x.size), append([]byte{}, v[attrDestroyResp]...))
		assert.Equal(t, syscall.ENOENT, p.ioctl(destroy).Errno)
	}
	p.f.Close()
	assert.Empty(t, r.live())
}

// TestIoctlErrors makes calls that are wrong.
func TestIoctlErrors(t *testing.T) {
	r := newRig(t)
	p := r.ioctlContext()
	o := p.create(make([]byte, 4096))
	limits := make([]byte, sizeQPCap)
	qp := func(typ uint64, flags uint32, limits []byte) *ioctl {
		return newIoctl(typeQP, 0).use(attrHandle, 0).use(attrQPPD, uint64(o.pd)).use(attrQPSendCQ, uint64(o.cq)).
			use(attrQPRecvCQ, uint64(o.cq)).u64(attrQPUserHandle, 88).in(attrQPCap, limits).u64(attrQPType, typ).
			u32(attrQPFlags, flags).out(attrQPRespCap, 20).out(attrQPRespNumber, 4)
	}
	advise := newIoctl(typeMR, 2).use(attrAdvicePD, uint64(o.pd)).u64(attrAdvice, 0).u32(attrAdviceFlags, 0)
	for name, x := range map[string]struct {
		c    *ioctl
		want syscall.Errno
	}{
		"object type":         {newIoctl(77, 0), syscall.EPROTONOSUPPORT},
		"method":              {newIoctl(typeDevice, 0), syscall.EPROTONOSUPPORT},
		"driver":              {&ioctl{object: typePD, driver: 1}, syscall.EINVAL},
		"reserved":            {&ioctl{object: typePD, driver: 14, reserved: 1}, syscall.EPROTONOSUPPORT},
		"mandatory attribute": {ioctlCQ(10).u32(40, 0), syscall.EPROTONOSUPPORT},
		"duplicate":           {ioctlCQ(10).u32(attrCQSize, 1), syscall.EINVAL},
		"missing":             {newIoctl(typePD, 0), syscall.EINVAL},
		"length":              {newIoctl(typePD, 0).attr(attrHandle, 4, 0, 0), syscall.EINVAL},
		"no such object":      {newIoctl(typePD, 0).use(attrHandle, 1000), syscall.ENOENT},
		"handle too large":    {newIoctl(typePD, 0).use(attrHandle, 1<<32), syscall.ENOENT},
		"negative handle":     {newIoctl(typePD, 0).use(attrHandle, ^uint64(0)), syscall.ENOENT},
		"other kind":          {newIoctl(typePD, 0).use(attrHandle, uint64(o.cq)), syscall.EINVAL},
		"value too short":     {newIoctl(typeDevice, 2).u32(attrPortNum, 1).out(attrPortResp, 48), syscall.EINVAL},
		"value too long":      {newIoctl(typeDevice, 2).in(attrPortNum, make([]byte, 9)), syscall.EINVAL},
		"room too small":      {newIoctl(typeDevice, 2).u64(attrPortNum, 1).out(attrPortResp, 47), syscall.EINVAL},
		"list of handles":     {newIoctl(typeDevice, 1).u64(attrInfoType, typePD).out(attrInfoList, 6), syscall.EINVAL},
		"no list": {newIoctl(typeDevice, 1).u64(attrInfoType, typePD).out(attrInfoTotal, 4),
			syscall.EINVAL},
		"no total":          {newIoctl(typeDevice, 1).u64(attrInfoType, typePD).out(attrInfoList, 4), syscall.ENOENT},
		"type of handles":   {newIoctl(typeDevice, 1).u64(attrInfoType, 99).out(attrInfoList, 4), syscall.EINVAL},
		"not a channel":     {ioctlCQ(10).use(attrCQChannel, 9), syscall.EBADF},
		"negative channel":  {ioctlCQ(10).use(attrCQChannel, ^uint64(0)), syscall.EBADF},
		"large channel":     {ioctlCQ(10).use(attrCQChannel, 1<<32), syscall.EINVAL},
		"CQ of size 0":      {ioctlCQ(0), syscall.EINVAL},
		"time stamps":       {ioctlCQ(10).u32(attrCQFlags, cqTimestamp), syscall.EOPNOTSUPP},
		"flags of a CQ":     {ioctlCQ(10).u64(attrCQFlags, 1<<40), syscall.EINVAL},
		"flags of 5 bytes":  {ioctlCQ(10).in(attrCQFlags, make([]byte, 5)), syscall.EINVAL},
		"QP type":           {qp(77, 0, limits), syscall.EINVAL},
		"raw QP":            {qp(createQPRaw, 0, limits), errnoOfRaw()},
		"flags of an RC QP": {qp(createQPRC, qpBlockLoopback, limits), syscall.EINVAL},
		"flags of a UD QP":  {qp(createQPUD, qpBlockLoopback, limits), syscall.EOPNOTSUPP},
		"later fields":      {qp(createQPRC, 0, append(make([]byte, 20), 1)), syscall.EOPNOTSUPP},
		"QP without CQ": {newIoctl(typeQP, 0).use(attrHandle, 0).use(attrQPPD, uint64(o.pd)).
			u64(attrQPUserHandle, 1).in(attrQPCap, limits).u64(attrQPType, createQPRC).out(attrQPRespCap, 20).
			out(attrQPRespNumber, 4), syscall.ENOENT},
		"bad address": {newIoctl(typeMR, 2).attr(attrAdviceList, 16, 0, 0x10).use(attrAdvicePD, uint64(o.pd)).
			u64(attrAdvice, 0).u32(attrAdviceFlags, 0), syscall.EFAULT},
		"advice":          {advise.in(attrAdviceList, make([]byte, 32)), syscall.EOPNOTSUPP},
		"too much memory": {ioctlCQ(10).in(attrDriverIn, make([]byte, 65535)), syscall.ENOMEM},
	} {
		reply := p.ioctl(x.c)
		assert.Equal(t, x.want, reply.Errno, name)
		assert.Empty(t, reply.Stores, name)
	}
	for _, size := range []uint16{0, 23, 25, 24 + 15, 24 + 16, 4096 + 8} {
		b := make([]byte, 1<<13)
		ne.PutUint16(b, size)
		ne.PutUint32(b[16:], 14)
		req := &devices.Request{IsIoctl: true, Ioctl: verbsIoctl, Operand: ioctlAddr}
		assert.Equal(t, syscall.EINVAL, p.ioctlOf(req, []devices.Range{{Addr: ioctlAddr, Data: b}}).Errno, size)
	}
	bad := &devices.Request{IsIoctl: true, Ioctl: verbsIoctl, Operand: ^uint64(3)}
	assert.Equal(t, syscall.EFAULT, p.ioctlOf(bad, nil).Errno)
	assert.Equal(t, syscall.ENOTTY, p.f.Call(&devices.Request{IsIoctl: true, Ioctl: 0x541b}).Errno)

	before := r.open()
	for name, c := range map[string]*ioctl{"CQ": ioctlCQ(10), "port": newIoctl(typeDevice, 2).u64(attrPortNum, 1).
		out(attrPortResp, 48), "events": newIoctl(typeAsyncEvent, 0).use(attrHandle, 0)} {
		assert.Equal(t, syscall.EINVAL, before.ioctl(c).Errno, "%s before the context", name)
	}
	handles := newIoctl(typeDevice, 1).u64(attrInfoType, typePD).out(attrInfoTotal, 4).out(attrInfoList, 4)
	assert.Zero(t, before.ioctl(handles).Errno, "handles before the context")
}

// FuzzIoctl executes sequences of ioctls on one file. The input is a list of them, each a u16 size and the header with
// its attributes. content fills the memory that they refer to. No call may stop the daemon, store more than a reply can
// have, or leave anything behind.
func FuzzIoctl(f *testing.F) {
	add := func(calls ...*ioctl) {
		var b []byte
		for _, c := range calls {
			x := c.bytes()
			b = append(ne.AppendUint16(b, uint16(len(x))), x...)
		}
		f.Add(b, []byte{1, 2, 3})
	}
	context := newIoctl(typeDevice, 3).out(attrContextVectors, 4)
	limits := make([]byte, sizeQPCap)
	qp := newIoctl(typeQP, 0).use(attrHandle, 0).use(attrQPPD, 1).use(attrQPSendCQ, 0).use(attrQPRecvCQ, 0).
		u64(attrQPUserHandle, 88).in(attrQPCap, limits).u64(attrQPType, createQPRC).u32(attrQPFlags, qpSignalAll).
		out(attrQPRespCap, 20).out(attrQPRespNumber, 4).out(attrDriverOut, 32)
	add(context, newIoctl(typeAsyncEvent, 0).use(attrHandle, 0), ioctlCQ(10), qp,
		newIoctl(typeQP, 1).use(attrHandle, 2).out(attrDestroyResp, 4), newIoctl(typeCQ, 1).use(attrHandle,
			0).out(attrDestroyResp, 8))
	add(context, newIoctl(typeDevice, 5).u64(attrTableEntrySize, 32).out(attrTableEntries, 1024).
		out(attrTableCount, 8), newIoctl(typeDevice, 6).u64(attrEntryPort, 1).u64(attrEntryIndex, 0).
		out(attrEntryResp, 32), newIoctl(typeDevice, 2).u64(attrPortNum, 1).out(attrPortResp, 48))
	add(context, newIoctl(typeSRQ, 0).use(attrHandle, 0).use(attrSRQPD, 1).u64(attrSRQUserHandle, 99).
		u32(attrSRQMaxWR, 10).u32(attrSRQMaxSGE, 2).u32(attrSRQLimit, 0).u64(attrSRQType, 0).
		out(attrSRQRespMaxWR, 4).out(attrSRQRespMaxSGE, 4), newIoctl(typeDevice, 1).u64(attrInfoType, typePD).
		out(attrInfoTotal, 4).out(attrInfoList, 8), newIoctl(typePD, 0).use(attrHandle, 1))
	r := newRig(f)
	f.Fuzz(func(t *testing.T, input, content []byte) {
		r.t = t
		p := r.open()
		memory := make([]byte, 1<<16)
		for i := range memory {
			if len(content) > 0 {
				memory[i] = content[i%len(content)]
			}
		}
		for n := 0; len(input) >= 2 && n < 50; n++ {
			size := min(int(ne.Uint16(input)), len(input)-2)
			call := input[2 : 2+size]
			input = input[2+size:]
			if n == 1 { // perhaps the file has a context now
				p.f.Call(&devices.Request{Data: encode(cmdAllocPD, allocPD{replyAddr}, nil, 8)})
			}
			fuzzIoctl(t, p, call, memory)
		}
		p.f.Close()
		assert.Empty(t, r.live())
	})
}

// fuzzIoctl executes an ioctl. Every address below 1<<32 refers to memory.
func fuzzIoctl(t *testing.T, p *program, call, memory []byte) {
	req := &devices.Request{IsIoctl: true, Ioctl: verbsIoctl, Operand: ioctlAddr}
	for range 4 {
		reply := p.f.Call(req)
		for _, d := range reply.Files {
			d.File.Close()
		}
		if reply.Errno != 0 {
			require.Empty(t, reply.Stores)
		}
		if len(reply.NeedMemory) == 0 {
			total := 0
			for _, s := range reply.Stores {
				total += len(s.Data)
			}
			require.LessOrEqual(t, total, 1<<17)
			return
		}
		require.LessOrEqual(t, len(reply.NeedMemory), devices.MaxRanges)
		req.Memory = nil
		total := uint64(0)
		for _, m := range reply.NeedMemory {
			total += m.Size
			switch {
			case m.Addr == ioctlAddr && m.Size <= uint64(len(call)):
				m.Data = call[:m.Size]
			case m.Addr != ioctlAddr && m.Addr < 1<<32 && m.Size <= uint64(len(memory)):
				m.Data = memory[:m.Size]
			default:
				return
			}
			req.Memory = append(req.Memory, m)
		}
		require.LessOrEqual(t, total, uint64(devices.MaxMemory))
	}
	require.Fail(t, "the call needs memory again and again")
}
