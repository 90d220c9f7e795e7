package uverbs

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/rings"
	"ciddk/kproxy"
)

// TestSizes compares the sizes of the structures with those of Linux's header file, as a C compiler reports them.
func TestSizes(t *testing.T) {
	for name, s := range map[string][2]int{
		"get_context_resp": {size[getContextResp](), 8}, "query_device_resp": {size[queryDeviceResp](), 176},
		"ex_query_device_resp": {size[exQueryDeviceResp](), 304}, "query_port": {size[queryPort](), 16},
		"query_port_resp": {size[queryPortResp](), 40}, "reg_mr": {size[regMR](), 40},
		"reg_mr_resp": {size[regMRResp](), 12}, "rereg_mr": {size[reregMR](), 48},
		"rereg_mr_resp": {size[reregMRResp](), 8}, "alloc_mw": {size[allocMW](), 16},
		"alloc_mw_resp": {size[allocMWResp](), 8}, "create_cq": {size[createCQ](), 32},
		"ex_create_cq": {size[exCreateCQ](), 32}, "ex_create_cq_resp": {size[exCreateCQResp](), 16},
		"resize_cq": {size[resizeCQ](), 16}, "resize_cq_resp": {size[resizeCQResp](), 8},
		"req_notify_cq": {size[reqNotifyCQ](), 8},
		"destroy_cq":    {size[destroyEvents](), 16}, "ah_attr": {size[ahAttr](), 32}, "create_ah": {size[createAH](),
			56},
		"create_qp": {size[createQP](), 56}, "create_qp_resp": {size[createQPResp](), 32},
		"ex_create_qp": {size[exCreateQP](), 64}, "ex_create_qp_resp": {size[exCreateQPResp](), 40},
		"qp_dest": {size[qpDest](), 32}, "query_qp": {size[queryQP](), 16}, "query_qp_resp": {size[queryQPResp](), 128},
		"modify_qp": {size[modifyQP](), 112}, "ex_modify_qp": {size[exModifyQP](), 120},
		"post_send": {size[postSend](), 24}, "attach_mcast": {size[mcast](), 24}, "create_srq": {size[createSRQ](), 32},
		"create_xsrq": {size[createXSRQ](), 48}, "create_srq_resp": {size[createSRQResp](), 16},
		"modify_srq": {size[modifySRQ](), 16}, "query_srq": {size[querySRQ](), 16},
		"query_srq_resp": {size[querySRQResp](), 16},
	} {
		assert.Equal(t, s[1], s[0], name)
	}
}

// TestNames opens front ends with names of devices, valid and not.
func TestNames(t *testing.T) {
	r := newRig(t)
	assert.Equal(t, "rxe_ddk0", r.front.Devices()[0].Name)
	for _, name := range []string{"mlx5_", "My-Device_7x", strings.Repeat("x", MaxName)} {
		u, err := New(Config{AL: r.al, Core: r.core, Providers: softRoCE, Name: name})
		require.NoError(t, err)
		assert.Equal(t, name+"0", u.Devices()[0].Name)
	}
	for _, name := range []string{"a/b", "..", "a b", "a\n", "é", strings.Repeat("x", MaxName+1)} {
		_, err := New(Config{AL: r.al, Core: r.core, Providers: softRoCE, Name: name})
		require.ErrorContains(t, err, "Config.Name", name)
	}
}

// TestNumbers removes an adapter and adds it again: its device keeps its file and its name, and has another number.
func TestNumbers(t *testing.T) {
	r := newRig(t)
	before := r.front.Devices()[0]
	assert.Equal(t, before, r.front.Devices()[0])
	require.NoError(t, r.al.Deregister(before.GUID))
	_, ok := r.front.Number(before.GUID)
	assert.False(t, ok)
	require.NoError(t, r.al.Register(r.hca))
	after := r.front.Devices()[0]
	assert.Equal(t, []string{before.FileName(), before.Name}, []string{after.FileName(), after.Name})
	number, ok := r.front.Number(before.GUID)
	assert.True(t, ok)
	assert.Equal(t, []uint32{0, 1, 1}, []uint32{before.Number, after.Number, number})
}

// objects are one of each kind.
type objects struct{ pd, mr, cq, qp, srq, ah, mw, bell uint32 }

func (p *program) create(b []byte) (o objects) {
	var pd allocPDResp
	p.must(cmdAllocPD, allocPD{replyAddr}, &pd)
	o.pd = pd.PDHandle
	var mr regMRResp
	addr := ci.Bytes(b).Addr()
	p.must(cmdRegMR, regMR{Response: replyAddr, Start: addr, Length: uint64(len(b)), HCAVA: addr, PDHandle: o.pd,
		AccessFlags: accessLocalWrite | accessRemoteWrite | accessMWBind | 1<<20}, &mr)
	o.mr = mr.MRHandle
	require.NotZero(p.t, mr.RKey)
	var cq createCQResp
	p.must(cmdCreateCQ, createCQ{Response: replyAddr, UserHandle: 77, CQE: 10, CompChannel: noCompChannel}, &cq)
	o.cq = cq.CQHandle
	assert.EqualValues(p.t, 15, cq.CQE)
	var srq createSRQResp
	p.must(cmdCreateSRQ, createSRQ{Response: replyAddr, PDHandle: o.pd, MaxWR: 10, MaxSGE: 2}, &srq)
	o.srq = srq.SRQHandle
	var qp createQPResp
	out := p.must(cmdCreateQP, createQP{Response: replyAddr, Args: createQPArgs{PDHandle: o.pd, SendCQHandle: o.cq,
		RecvCQHandle: o.cq, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, QPType: createQPRC,
		SQSigAll: 1}}, &qp)
	o.qp = qp.QPHandle
	require.GreaterOrEqual(p.t, len(out), rings.VerbsQPSize)
	o.bell = ne.Uint32(out[rings.VerbsIndex:])
	assert.Nil(p.t, p.bell, "before the QP can send")
	var ah createAHResp
	out = p.must(cmdCreateAH, createAH{Response: replyAddr, PDHandle: o.pd,
		Attr: ahAttr{PortNum: 1, IsGlobal: 1, DGID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}}}, &ah)
	o.ah = ah.AHHandle
	assert.NotZero(p.t, ne.Uint32(out), "the user library then uses the number, and needs no route of its own")
	to := [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}
	for name, a := range map[string]ahAttr{"no GID": {PortNum: 1}, "no port": {IsGlobal: 1, DGID: to},
		"a port beyond the last": {PortNum: 2, IsGlobal: 1, DGID: to},
		"a GID beyond the table": {PortNum: 1, IsGlobal: 1, SGIDIndex: 255, DGID: to},
		"no destination":         {PortNum: 1, IsGlobal: 1}} {
		_, errno := p.do(cmdCreateAH, createAH{Response: replyAddr, PDHandle: o.pd, Attr: a}, &ah)
		assert.Equal(p.t, syscall.EINVAL, errno, name)
	}
	var mw allocMWResp
	p.must(cmdAllocMW, allocMW{Response: replyAddr, PDHandle: o.pd, MWType: 1}, &mw)
	o.mw = mw.MWHandle
	return o
}

// TestLifeOfObjects creates one object of each kind, queries and changes them, and destroys them.
func TestLifeOfObjects(t *testing.T) {
	r := newRig(t)
	p := r.context()
	o := p.create(make([]byte, 8192))

	var q queryQPResp
	init := modifyQP{QPHandle: o.qp, AttrMask: qpMaskState | qpMaskPKeyIndex | qpMaskPort | qpMaskAccess, QPState: 1,
		PortNum: 1, QPAccessFlags: accessRemoteWrite | accessRemoteRead}
	p.must(cmdModifyQP, init, nil)
	p.must(cmdQueryQP, queryQP{Response: replyAddr, QPHandle: o.qp}, &q)
	assert.EqualValues(t, 1, q.QPState)
	assert.EqualValues(t, accessRemoteWrite|accessRemoteRead, q.QPAccessFlags)
	assert.EqualValues(t, 1, q.SQSigAll)
	_, errno := p.do(cmdModifyQP, init, nil) // Init to Init is permitted
	assert.Zero(t, errno)

	var cq resizeCQResp
	out := p.must(cmdResizeCQ, resizeCQ{Response: replyAddr, CQHandle: o.cq, CQE: 100}, &cq)
	assert.EqualValues(t, 127, cq.CQE)
	assert.Zero(t, ne.Uint64(out)%4096, "the user library maps the new queue")
	const moved = 0x2000
	p.must(cmdModifySRQ, modifySRQ{SRQHandle: o.srq, AttrMask: srqMaxWR, MaxWR: 100}, nil,
		ne.AppendUint64(nil, moved)...)
	assert.Len(t, p.mem[moved], rings.VerbsQueueSize)
	p.must(cmdModifySRQ, modifySRQ{SRQHandle: o.srq, AttrMask: srqLimit, SRQLimit: 3}, nil, ne.AppendUint64(nil, 0)...)
	var srq querySRQResp
	p.must(cmdQuerySRQ, querySRQ{Response: replyAddr, SRQHandle: o.srq}, &srq)
	assert.Equal(t, querySRQResp{MaxWR: 127, MaxSGE: 2}, srq, "the queue is empty, so the limit is reached at once")
	p.must(cmdReqNotifyCQ, reqNotifyCQ{CQHandle: o.cq}, nil)

	_, errno = p.do(cmdDeallocPD, byHandle{o.pd}, nil)
	assert.Equal(t, syscall.EBUSY, errno)
	var cqEvents destroyCQResp
	_, errno = p.do(cmdDestroyCQ, destroyEvents{Response: replyAddr, Handle: o.cq}, &cqEvents)
	assert.Equal(t, syscall.EBUSY, errno)
	var events destroyEventsResp
	p.must(cmdDestroyQP, destroyEvents{Response: replyAddr, Handle: o.qp}, &events)
	assert.Equal(t, &devices.Bell{Handle: o.qp}, p.bell)
	p.must(cmdDestroySRQ, destroyEvents{Response: replyAddr, Handle: o.srq}, &events)
	p.must(cmdDestroyCQ, destroyEvents{Response: replyAddr, Handle: o.cq}, &cqEvents)
	assert.Zero(t, cqEvents)
	p.must(cmdDestroyAH, byHandle{o.ah}, nil)
	p.must(cmdDeallocMW, byHandle{o.mw}, nil)
	p.must(cmdDeregMR, byHandle{o.mr}, nil)
	p.must(cmdDeallocPD, byHandle{o.pd}, nil)
	for _, c := range []uint32{cmdDestroyAH, cmdDeallocMW, cmdDeregMR, cmdDeallocPD} {
		_, errno = p.do(c, byHandle{o.pd}, nil)
		assert.Equal(t, syscall.ENOENT, errno, "command %d", c)
	}
}

// newUD creates a UD QP in the state Init.
func (p *program) newUD(o *objects) uint32 {
	var qp createQPResp
	p.must(cmdCreateQP, createQP{Response: replyAddr, Args: createQPArgs{PDHandle: o.pd, SendCQHandle: o.cq,
		RecvCQHandle: o.cq, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1, QPType: createQPUD}}, &qp)
	p.must(cmdModifyQP, modifyQP{QPHandle: qp.QPHandle, PortNum: 1, QKey: 1, QPState: 1,
		AttrMask: qpMaskState | qpMaskPKeyIndex | qpMaskPort | qpMaskQKey}, nil)
	return qp.QPHandle
}

// TestBells moves a QP through its states. Carriers know its bell in those in which Linux accepts requests to send, and
// pass on the doorbell in the others, which is rejected.
func TestBells(t *testing.T) {
	r := newRig(t)
	p := r.context()
	o := p.create(make([]byte, 4096))
	qp := p.newUD(&o)
	for _, x := range []struct {
		name  string
		state uint8
		mask  uint32
		isSet bool
	}{{"RTR", 2, 0, false}, {"RTS", 3, qpMaskSQPSN, true}, {"error", 6, 0, true}, {"reset", 0, 0, false},
		{"error again", 6, 0, true}} {
		p.must(cmdModifyQP, modifyQP{QPHandle: qp, AttrMask: qpMaskState | x.mask, QPState: x.state}, nil)
		require.NotNil(t, p.bell, x.name)
		assert.Equal(t, x.isSet, p.bell.IsSet, x.name)
		assert.Equal(t, qp, p.bell.Handle)
		if x.isSet {
			assert.Equal(t, o.bell+1, p.bell.Index, "that of the second QP")
		}
	}
	_, errno := p.do(cmdModifyQP, modifyQP{QPHandle: qp, AttrMask: qpMaskState, QPState: 3}, nil)
	assert.Equal(t, syscall.EINVAL, errno)
	assert.Nil(t, p.bell)
	p.must(cmdModifyQP, modifyQP{QPHandle: o.qp, AttrMask: qpMaskState | qpMaskPKeyIndex | qpMaskPort | qpMaskAccess,
		QPState: 1, PortNum: 1}, nil)
	p.must(cmdModifyQP, modifyQP{QPHandle: o.qp, AttrMask: qpMaskAccess}, nil)
	assert.Nil(t, p.bell, "the state is the same")
}

// TestAttached destroys a QP that is attached to a group, which works after it is detached.
func TestAttached(t *testing.T) {
	r := newRig(t)
	p := r.ioctlContext()
	o := p.create(make([]byte, 4096))
	qp := p.newUD(&o)
	group := mcast{GID: [16]byte{10: 0xff, 11: 0xff, 12: 239, 15: 7}, QPHandle: qp}
	p.must(cmdAttachMcast, group, nil)
	p.must(cmdAttachMcast, group, nil)
	var events destroyEventsResp
	_, errno := p.do(cmdDestroyQP, destroyEvents{Response: replyAddr, Handle: qp}, &events)
	assert.Equal(t, syscall.EBUSY, errno)
	destroy := newIoctl(typeQP, 1).use(attrHandle, uint64(qp)).out(attrDestroyResp, 4)
	assert.Equal(t, syscall.EBUSY, p.ioctl(destroy).Errno)
	p.must(cmdDetachMcast, group, nil)
	_, errno = p.do(cmdDetachMcast, group, nil)
	assert.Equal(t, syscall.EINVAL, errno)
	p.must(cmdDestroyQP, destroyEvents{Response: replyAddr, Handle: qp}, &events)

	qp = p.newUD(&o)
	group.QPHandle = qp
	p.must(cmdAttachMcast, group, nil)
	p.f.Close() // with it
	assert.Empty(t, r.live())
}

// TestIgnoredRights registers memory with rights that are hints.
func TestIgnoredRights(t *testing.T) {
	r := newRig(t)
	p := r.context()
	b := make([]byte, 8192)
	o := p.create(b)
	addr := ci.Bytes(b).Addr()
	for flags, want := range map[uint32]syscall.Errno{accessZeroBased: 0, accessHugePages: 0,
		accessZeroBased | accessHugePages | accessLocalWrite: 0, 1 << 29: 0, accessOnDemand: syscall.EINVAL,
		accessFlushGlobal: 0, accessFlushPersistent: syscall.EOPNOTSUPP, accessFlushPersistent << 1: syscall.EINVAL} {
		var mr regMRResp
		_, errno := p.do(cmdRegMR, regMR{Response: replyAddr, Start: addr, Length: 100, HCAVA: addr, PDHandle: o.pd,
			AccessFlags: flags}, &mr)
		assert.Equal(t, want, errno, "%#x", flags)
	}
}

// TestEmptyRegions registers no bytes: Linux pins the page that they are in, if they are in one.
func TestEmptyRegions(t *testing.T) {
	r := newRig(t)
	p := r.context()
	b := make([]byte, 8192)
	o := p.create(b)
	page := (ci.Bytes(b).Addr() + pageMask) &^ pageMask
	for _, tt := range []struct {
		addr uint64
		want syscall.Errno
	}{{0, syscall.EINVAL}, {page, syscall.EINVAL}, {page + 1, 0}, {page + pageMask, 0}, {1<<64 - 1, syscall.EINVAL},
		{1<<64 - pageMask, syscall.EINVAL}, {firstKernel, syscall.EINVAL}, {firstKernel + 1, syscall.EFAULT},
		{64, syscall.EFAULT}} {
		var mr regMRResp
		_, errno := p.do(cmdRegMR, regMR{Response: replyAddr, Start: tt.addr, HCAVA: tt.addr, PDHandle: o.pd}, &mr)
		assert.Equal(t, tt.want, errno, "%#x", tt.addr)
	}
}

// TestSRQArguments creates and changes SRQs with arguments that Linux accepts: no segments, a limit that programs did
// not set, and attributes without a meaning.
func TestSRQArguments(t *testing.T) {
	r := newRig(t)
	p := r.context()
	o := p.create(make([]byte, 4096))
	for _, x := range []struct{ sge, limit, wantSGE, wantLimit uint32 }{
		{0, 0, 1, 0}, {2, 3, 2, 3}, {2, 5, 2, 0}, {1, 1<<32 - 1, 1, 0}} {
		var made createSRQResp
		p.must(cmdCreateSRQ, createSRQ{Response: replyAddr, PDHandle: o.pd, MaxWR: 4, MaxSGE: x.sge,
			SRQLimit: x.limit}, &made)
		for _, mask := range []uint32{0, 4, 1 << 31} {
			p.must(cmdModifySRQ, modifySRQ{SRQHandle: made.SRQHandle, AttrMask: mask, SRQLimit: 1}, nil)
		}
		var srq querySRQResp
		p.must(cmdQuerySRQ, querySRQ{Response: replyAddr, SRQHandle: made.SRQHandle}, &srq)
		assert.Equal(t, querySRQResp{MaxWR: 7, MaxSGE: x.wantSGE, SRQLimit: x.wantLimit}, srq)
	}
}

// TestClosed closes a file with objects. Nothing remains.
func TestClosed(t *testing.T) {
	r := newRig(t)
	p := r.context()
	p.create(make([]byte, 4096))
	require.NotEmpty(t, r.live())
	p.f.Close()
	assert.Empty(t, r.live())
	_, errno := p.do(cmdAllocPD, allocPD{replyAddr}, &allocPDResp{})
	assert.Equal(t, syscall.EIO, errno)
}

// TestErrnos sends commands that fail, with the errno of Linux.
func TestErrnos(t *testing.T) {
	r := newRig(t)
	p := r.context()
	o := p.create(make([]byte, 8192))
	addr := uint64(0x10000) // not mapped
	cut := func(b []byte, n int) []byte { return b[:len(b)-n] }
	ex := func(command uint32, in, out int, response uint64, n int) []byte {
		b := ne.AppendUint32(nil, command|flagExtended)
		b = ne.AppendUint16(ne.AppendUint16(b, uint16(in)), uint16(out))
		b = append(ne.AppendUint64(b, response), make([]byte, 8)...)
		return append(b, make([]byte, n)...)
	}
	short := encode(cmdQueryPort, queryPort{Response: replyAddr}, nil, 100)
	ne.PutUint16(short[4:], uint16(len(short)/4-2))
	for _, x := range []struct {
		name string
		b    []byte
		want syscall.Errno
	}{
		{"empty", nil, syscall.EINVAL},
		{"less than a header", make([]byte, 7), syscall.EINVAL},
		{"number beyond the last", encode(maxCmd+1, none{}, nil, 0), syscall.EINVAL},
		{"unknown flag", encode(1<<30, none{}, nil, 0), syscall.EINVAL},
		{"without an implementation", encode(cmdCreateXSRQ-2, none{}, nil, 0), syscall.EOPNOTSUPP},
		{"words do not match", short, syscall.EINVAL},
		{"request too short", encode(cmdRegMR, allocPD{replyAddr}, nil, 100), syscall.ENOSPC},
		{"no room for the reply", encode(cmdRegMR, regMR{}, nil, 8), syscall.ENOSPC},
		{"second context", encode(cmdGetContext, getContext{replyAddr}, nil, 8), syscall.EINVAL},
		{"port 0", encode(cmdQueryPort, queryPort{Response: replyAddr}, nil, 40), syscall.EINVAL},
		{"port 2", encode(cmdQueryPort, queryPort{Response: replyAddr, PortNum: 2}, nil, 40), syscall.EINVAL},
		{"rights", encode(cmdRegMR, regMR{PDHandle: o.pd, AccessFlags: accessRemoteWrite}, nil, 12), syscall.EINVAL},
		{"unknown rights", encode(cmdRegMR, regMR{PDHandle: o.pd, AccessFlags: 1 << 10}, nil, 12), syscall.EINVAL},
		{"offset in page", encode(cmdRegMR, regMR{Start: addr, HCAVA: addr + 1, PDHandle: o.pd}, nil, 12),
			syscall.EINVAL},
		{"not mapped", encode(cmdRegMR, regMR{Start: addr, Length: 10, HCAVA: addr, PDHandle: o.pd}, nil, 12),
			syscall.EFAULT},
		{"no bytes", encode(cmdRegMR, regMR{Start: addr, HCAVA: addr, PDHandle: o.pd}, nil, 12), syscall.EINVAL},
		{"range that wraps", encode(cmdRegMR, regMR{Start: addr, Length: 1<<64 - 1, HCAVA: addr, PDHandle: o.pd}, nil,
			12), syscall.EINVAL},
		{"range of more than 2^32 pages", encode(cmdRegMR, regMR{Start: addr, Length: 1 << 50, HCAVA: addr,
			PDHandle: o.pd}, nil, 12), syscall.EINVAL},
		{"range of the kernel", encode(cmdRegMR, regMR{Start: 1<<64 - 1<<40, Length: 10, HCAVA: 1<<64 - 1<<40,
			PDHandle: o.pd}, nil, 12), syscall.EFAULT},
		{"path by port 0", encode(cmdModifyQP, modifyQP{QPHandle: o.qp, AttrMask: qpMaskAV}, nil, 0), syscall.EINVAL},
		{"alternate path by two ports", encode(cmdModifyQP, modifyQP{QPHandle: o.qp, AttrMask: qpMaskAltPath,
			AltPortNum: 1}, nil, 0), syscall.EINVAL},
		{"window type", encode(cmdAllocMW, allocMW{PDHandle: o.pd, MWType: 3}, nil, 8), syscall.EINVAL},
		{"CQ of size 0", encode(cmdCreateCQ, createCQ{CompChannel: noCompChannel}, nil, 8), syscall.EINVAL},
		{"CQ too large", encode(cmdCreateCQ, createCQ{CQE: 1 << 31, CompChannel: noCompChannel}, nil, 8),
			syscall.EINVAL},
		{"CQ resized too large", encode(cmdResizeCQ, resizeCQ{CQHandle: o.cq, CQE: 1 << 31}, nil, 8), syscall.EINVAL},
		{"CQ resized to 0", encode(cmdResizeCQ, resizeCQ{CQHandle: o.cq}, nil, 8), syscall.EINVAL},
		{"SRQ too large", encode(cmdCreateSRQ, createSRQ{PDHandle: o.pd, MaxWR: 1 << 31, MaxSGE: 1}, nil, 16),
			syscall.EINVAL},
		{"SRQ resized too large", encode(cmdModifySRQ, modifySRQ{SRQHandle: o.srq, AttrMask: srqMaxWR,
			MaxWR: 1 << 31}, make([]byte, 8), 0), syscall.EINVAL},
		{"send queue too long", encode(cmdCreateQP, createQP{Args: createQPArgs{PDHandle: o.pd, SendCQHandle: o.cq,
			RecvCQHandle: o.cq, QPType: createQPRC, MaxSendWR: 1 << 31}}, nil, 32), syscall.EINVAL},
		{"receive queue too long", encode(cmdCreateQP, createQP{Args: createQPArgs{PDHandle: o.pd, SendCQHandle: o.cq,
			RecvCQHandle: o.cq, QPType: createQPRC, MaxRecvWR: 1 << 31}}, nil, 32), syscall.EINVAL},
		{"vector", encode(cmdCreateCQ, createCQ{CQE: 1, CompVector: 1 << 20, CompChannel: noCompChannel}, nil, 8),
			syscall.EINVAL},
		{"raw QP", encode(cmdCreateQP, createQP{Args: createQPArgs{PDHandle: o.pd, SendCQHandle: o.cq,
			RecvCQHandle: o.cq, QPType: createQPRaw}}, nil, 32), errnoOfRaw()},
		{"type of QP", encode(cmdCreateQP, createQP{Args: createQPArgs{QPType: 77}}, nil, 32), syscall.EINVAL},
		{"QP state", encode(cmdModifyQP, modifyQP{QPHandle: o.qp, AttrMask: qpMaskState, QPState: 9}, nil, 0),
			syscall.EINVAL},
		{"QP mask", encode(cmdModifyQP, modifyQP{QPHandle: o.qp, AttrMask: 1 << 30}, nil, 0), syscall.EOPNOTSUPP},
		{"transition", encode(cmdModifyQP, modifyQP{QPHandle: o.qp, AttrMask: qpMaskState, QPState: 3}, nil, 0),
			syscall.EINVAL},
		{"not attached", encode(cmdDetachMcast, mcast{QPHandle: o.qp}, nil, 0), syscall.EINVAL},
		{"post", encode(cmdPostSend, postSend{QPHandle: o.qp, WRCount: 1, WQESize: 128}, nil, 4), syscall.EINVAL},
		{"extended header", cut(ex(cmdQueryDevice, 1, 0, 0, 0), 4), syscall.EINVAL},
		{"extended words", ex(cmdQueryDevice, 2, 40, replyAddr, 8), syscall.EINVAL},
		{"extended request too short", ex(cmdCreateCQ, 1, 2, replyAddr, 8), syscall.ENOSPC},
		{"extended reply too short", ex(cmdQueryDevice, 1, 2, replyAddr, 8), syscall.ENOSPC},
		{"reply without address", ex(cmdQueryDevice, 1, 40, 0, 8), syscall.EINVAL},
		{"extended command not implemented", ex(52, 1, 0, 0, 8), syscall.EOPNOTSUPP},
		{"extended command beyond the last", ex(99, 1, 0, 0, 8), syscall.EOPNOTSUPP},
		{"later fields", append(cut(ex(cmdQueryDevice, 2, 40, replyAddr, 16), 1), 1), syscall.EOPNOTSUPP},
	} {
		assert.Equal(t, x.want, p.write(x.b).Errno, x.name)
	}
	assert.Equal(t, syscall.ENOTTY, p.f.Call(&devices.Request{IsIoctl: true}).Errno)
	before := r.open()
	_, errno := before.do(cmdAllocPD, allocPD{replyAddr}, &allocPDResp{})
	assert.Equal(t, syscall.EINVAL, errno, "before the context")
	for _, name := range []string{"/dev/infiniband/uverbs1", "/dev/infiniband/uverbs", "/dev/infiniband/rdma_cm", ""} {
		_, err := r.front.Open(name, kproxy.Peer{PID: os.Getpid(), UID: os.Getuid()})
		assert.Equal(t, syscall.ENOENT, err, name)
	}
}

// TestEvents reads completion events from a channel. The reply to the destroy of the CQ has the number of events that
// were read, also if channels were removed meanwhile.
func TestEvents(t *testing.T) {
	t.Run("read", func(t *testing.T) { testEvents(t, 0, 1) })
	t.Run("not read", func(t *testing.T) { testEvents(t, syscall.MSG_PEEK, 0) })
}

// testEvents receives an event with flags.
func testEvents(t *testing.T, flags int, want uint32) {
	r := newRig(t)
	p := r.context()
	var pd allocPDResp
	p.must(cmdAllocPD, allocPD{replyAddr}, &pd)
	p.must(cmdCreateChan, createCompChannel{replyAddr}, nil)
	events := p.files[replyAddr]
	require.NotNil(t, events)
	p.files[5] = events // its number in the program
	var cq createCQResp
	p.must(cmdCreateCQ, createCQ{Response: replyAddr, UserHandle: 0x1234, CQE: 10, CompChannel: 5}, &cq)
	_, errno := p.do(cmdCreateCQ, createCQ{Response: replyAddr, CQE: 10, CompChannel: 6}, &cq)
	assert.Equal(t, syscall.EBADF, errno)
	p.files[6] = os.Stderr
	_, errno = p.do(cmdCreateCQ, createCQ{Response: replyAddr, CQE: 10, CompChannel: 6}, &cq)
	assert.Equal(t, syscall.EBADF, errno)

	var qp createQPResp
	queues := p.must(cmdCreateQP, createQP{Response: replyAddr, Args: createQPArgs{PDHandle: pd.PDHandle,
		SendCQHandle: cq.CQHandle, RecvCQHandle: cq.CQHandle, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1,
		QPType: createQPUD}}, &qp)
	p.must(cmdModifyQP, modifyQP{QPHandle: qp.QPHandle, AttrMask: qpMaskState | qpMaskPKeyIndex |
		qpMaskPort | qpMaskQKey,
		QPState: 1, PortNum: 1}, nil)
	p.must(cmdReqNotifyCQ, reqNotifyCQ{CQHandle: cq.CQHandle}, nil)
	// A receive, as the user library posts it: an element without segments, and the producer's index.
	p.poke(ne.Uint64(queues)+producerIndex, 1)
	p.must(cmdModifyQP, modifyQP{QPHandle: qp.QPHandle, AttrMask: qpMaskState, QPState: 6}, nil)
	b := make([]byte, 100)
	raw, err := events.SyscallConn()
	require.NoError(t, err)
	n := 0
	require.NoError(t, raw.Control(func(fd uintptr) { n, _, err = syscall.Recvfrom(int(fd), b, flags) }))
	require.NoError(t, err)
	require.Equal(t, 8, n)
	p.f.(*File).reapChannels()
	assert.EqualValues(t, 0x1234, ne.Uint64(b))
	var last destroyEventsResp
	p.must(cmdDestroyQP, destroyEvents{Response: replyAddr, Handle: qp.QPHandle}, &last)
	var reported destroyCQResp
	p.must(cmdDestroyCQ, destroyEvents{Response: replyAddr, Handle: cq.CQHandle}, &reported)
	assert.Equal(t, destroyCQResp{CompEventsReported: want}, reported)
}

// TestChannels makes and closes many more channels than a client may have. Those that a CQ uses, or that the program
// has open, remain.
func TestChannels(t *testing.T) {
	r := newRig(t)
	p := r.context()
	channel := func(number uint64) *os.File {
		p.must(cmdCreateChan, createCompChannel{replyAddr}, nil)
		f := p.files[replyAddr]
		p.files[number] = f
		return f
	}
	used, unused := channel(5), channel(6)
	var cq createCQResp
	p.must(cmdCreateCQ, createCQ{Response: replyAddr, UserHandle: 1, CQE: 10, CompChannel: 5}, &cq)
	require.NoError(t, used.Close(), "the CQ keeps it")
	raw, err := unused.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), true) }))
	require.NoError(t, err)
	for range 3 * r.core.Sessions()[0].Quota().EventQueues {
		require.NoError(t, channel(7).Close())
	}
	f := p.f.(*File)
	assert.Len(t, f.channels, 3, "the two, and the last one")

	p.must(cmdCreateCQ, createCQ{Response: replyAddr, UserHandle: 2, CQE: 10, CompChannel: 6}, &cq)
	require.NoError(t, raw.Control(func(fd uintptr) { _, err = syscall.Read(int(fd), make([]byte, 8)) }))
	require.ErrorIs(t, err, syscall.EAGAIN, "the mode remains")
	channel(8)
	f.reapChannels()
	assert.Len(t, f.channels, 3, "the last one is gone, and there is a new one")

	p.must(cmdDestroyCQ, destroyEvents{Response: replyAddr, Handle: cq.CQHandle}, new(destroyCQResp))
	require.NoError(t, unused.Close())
	f.reapChannels()
	assert.Len(t, f.channels, 2)
}

// producerIndex is the offset of the producer's index in a queue of Linux Soft-RoCE.
const producerIndex = 128

// poke stores a number in the memory that the program shares with the adapter.
func (p *program) poke(off uint64, v uint32) { p.shared(off, func(b []byte) { ne.PutUint32(b, v) }) }

// peek returns a number in that memory.
func (p *program) peek(off uint64) (v uint32) {
	p.shared(off, func(b []byte) { v = ne.Uint32(b) })
	return v
}

func (p *program) shared(off uint64, access func(b []byte)) {
	raw, err := p.memory.SyscallConn()
	require.NoError(p.t, err)
	require.NoError(p.t, raw.Control(func(fd uintptr) {
		b, err := syscall.Mmap(int(fd), int64(off&^4095), 8192, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_SHARED)
		require.NoError(p.t, err)
		access(b[off&4095:])
		require.NoError(p.t, syscall.Munmap(b))
	}))
}

// TestDevice compares the attributes and the tree with the adapter's.
func TestDevice(t *testing.T) {
	r := newRig(t)
	p := r.context()
	var d queryDeviceResp
	p.must(cmdQueryDevice, queryDevice{replyAddr}, &d)
	attr := r.hca.Attr()
	assert.EqualValues(t, attr.MaxSGEs, d.MaxSGE)
	assert.EqualValues(t, 1, d.PhysPortCnt)
	var port queryPortResp
	p.must(cmdQueryPort, queryPort{Response: replyAddr, PortNum: 1}, &port)
	assert.EqualValues(t, 4, port.State)
	assert.EqualValues(t, 2, port.LinkLayer)
	assert.EqualValues(t, grhRequired, port.Flags)
	assert.EqualValues(t, ci.PortCapCM, port.PortCapFlags)
	assert.EqualValues(t, 1, port.GIDTblLen)
	tree := map[string]string{}
	for _, e := range r.front.Tree() {
		tree[e.Path] = strings.TrimSuffix(string(e.Data), "\n") + e.Link
		assert.NotContains(t, tree[e.Path], "%!", e.Path)
	}
	const function, classes = "/sys/devices/pciddd0:00/ddd0:00:00.0", "/sys/class/"
	for name, want := range map[string]string{
		classes + "infiniband_verbs/abi_version": "6",
		classes + "infiniband_verbs/uverbs0": "../.." + function[4:] +
			"/infiniband_verbs/uverbs0",
		classes + "infiniband/rxe_ddk0":     "../.." + function[4:] + "/infiniband/rxe_ddk0",
		"/sys/bus/pci/devices/ddd0:00:00.0": "../../.." + function[4:],
		classes + "pci_bus/ddd0:00":         "../../devices/pciddd0:00/pci_bus/ddd0:00",
		function + "/subsystem":             "../../../bus/pci",
		function + "/vendor":                "0xddd0",
		function + "/uevent": "DRIVER=ddkd\nPCI_CLASS=20700\nPCI_ID=DDD0:DD01\nPCI_SUBSYS_ID=DDD0:DD01\n" +
			"PCI_SLOT_NAME=ddd0:00:00.0\nMODALIAS=pci:v0000DDD0d0000DD01sv0000DDD0sd0000DD01bc02sc07i00",
		function + "/infiniband_verbs/uverbs0/ibdev":                "rxe_ddk0",
		function + "/infiniband_verbs/uverbs0/dev":                  "231:192",
		function + "/infiniband_verbs/uverbs0/uevent":               "MAJOR=231\nMINOR=192\nDEVNAME=infiniband/uverbs0",
		function + "/infiniband/rxe_ddk0/device":                    "../../../ddd0:00:00.0",
		function + "/infiniband/rxe_ddk0/subsystem":                 "../../../../../class/infiniband",
		function + "/infiniband/rxe_ddk0/ports/1/state":             "4: ACTIVE",
		function + "/infiniband/rxe_ddk0/ports/1/gids/0":            "0000:0000:0000:0000:0000:ffff:0a00:0001",
		function + "/infiniband/rxe_ddk0/ports/1/gid_attrs/types/0": "RoCE v2",
		function + "/infiniband/rxe_ddk0/ports/1/cap_mask":          "0x00010000",
	} {
		assert.Equal(t, want, tree[name], name)
	}
}

// errnoOfRaw returns the errno of a raw QP: root may create one, but the adapter has none.
func errnoOfRaw() syscall.Errno {
	if os.Getuid() == 0 {
		return syscall.EOPNOTSUPP
	}
	return syscall.EPERM
}
