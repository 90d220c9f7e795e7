package uverbs

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/rings"
)

// step is a valid call of a program, by a write or an ioctl.
type step struct {
	write []byte
	ioctl *ioctl

	creates, destroys kind
	handle            uint32          // of the object that it destroys or changes
	state             int             // of the QP afterwards; -1: the same
	errnos            []syscall.Errno // that are right beside success
}

// source returns numbers below n.
type source func(n int) int

// of returns one of a list.
func of[T any](pick source, list ...T) T { return list[pick(len(list))] }

// actor is a program that keeps what it has.
type actor struct {
	*program
	live    map[kind][]uint32
	states  map[uint32]uint8 // of QPs
	types   map[uint32]uint8
	groups  map[mcast]bool
	numbers []int32 // of channels
	memory  []byte
}

func newActor(r *rig, useIoctl bool) *actor {
	p := r.open()
	if useIoctl {
		p.mustIoctl(newIoctl(typeDevice, 3).out(attrContextVectors, 4).out(attrContextSupport, 8))
	} else {
		p.must(cmdGetContext, getContext{replyAddr}, &getContextResp{})
		delete(p.files, replyAddr) // it is no channel
	}
	return &actor{program: p, live: map[kind][]uint32{}, states: map[uint32]uint8{}, types: map[uint32]uint8{},
		groups: map[mcast]bool{}, memory: make([]byte, 4*4096)}
}

// any returns an object, or false if there is none of its kind.
func (a *actor) any(pick source, k kind) (uint32, bool) {
	list := a.live[k]
	if len(list) == 0 {
		return 0, false
	}
	return list[pick(len(list))], true
}

// send returns a step with a command of the original form.
func send(command uint32, request any, data, room int) *step {
	return &step{write: encode(command, request, make([]byte, data), room), state: -1}
}

// extend returns a step with an extended command.
func extend(command uint32, request any, room, driver int) *step {
	b := ne.AppendUint32(nil, command|flagExtended)
	n := binary.Size(request)
	b = ne.AppendUint16(ne.AppendUint16(b, uint16(n/8)), uint16(room/8))
	response := uint64(replyAddr)
	if room == 0 {
		response = 0
	}
	b = ne.AppendUint64(b, response)
	b = ne.AppendUint32(ne.AppendUint16(ne.AppendUint16(b, 0), uint16(driver/8)), 0)
	b, err := binary.Append(b, ne, request)
	if err != nil {
		panic(err)
	}
	return &step{write: b, state: -1}
}

func control(c *ioctl) *step { return &step{ioctl: c, state: -1} }

func (s *step) making(k kind) *step {
	s.creates, s.errnos = k, []syscall.Errno{syscall.ENOMEM}
	return s
}

func (s *step) or(errnos ...syscall.Errno) *step {
	s.errnos = append(s.errnos, errnos...)
	return s
}

// The rights of regions with boundary combinations.
var someRights = []uint32{0, accessLocalWrite, accessKnown &^ accessFlushPersistent,
	accessKnown&^accessFlushPersistent | accessOptional, accessRemoteRead,
	accessZeroBased | accessLocalWrite, accessHugePages}

// generators return valid steps for what the program has, or nil if it lacks an object.
var generators = []func(a *actor, pick source) *step{
	func(*actor, source) *step { return send(cmdAllocPD, allocPD{replyAddr}, 0, 8).making(kindPD) },
	onPD(func(a *actor, pick source, pd uint32) *step { // a region
		base := ci.Bytes(a.memory).Addr()
		offset, length := of(pick, 0, 1, 4095, 4096), of(pick, 1, 4095, 4096, 4097, 8192)
		start := base + uint64(offset)
		iova := of(pick, start, start&pageMask, 1<<40|start&pageMask)
		return send(cmdRegMR, regMR{Response: replyAddr, Start: start, Length: uint64(length), HCAVA: iova,
			PDHandle: pd, AccessFlags: of(pick, someRights...)}, 0, 12).making(kindMR)
	}),
	onPD(func(a *actor, pick source, pd uint32) *step { // another registration
		mr, ok := a.any(pick, kindMR)
		if !ok {
			return nil
		}
		addr := ci.Bytes(a.memory).Addr()
		return send(cmdReregMR, reregMR{Response: replyAddr, MRHandle: mr, Flags: uint32(1 + pick(7)), Start: addr,
			Length: of[uint64](pick, 1, 4096, 8192), HCAVA: addr, PDHandle: pd, AccessFlags: of(pick, someRights...)},
			0, 8).or(syscall.EBUSY, syscall.ENOMEM)
	}),
	onPD(func(_ *actor, pick source, pd uint32) *step {
		return send(cmdAllocMW, allocMW{Response: replyAddr, PDHandle: pd, MWType: uint8(1 + pick(2))}, 0, 8).
			making(kindMW)
	}),
	onPD(func(_ *actor, pick source, pd uint32) *step {
		return send(cmdCreateAH, createAH{Response: replyAddr, PDHandle: pd, Attr: ahAttr{PortNum: 1, IsGlobal: 1,
			SL: uint8(pick(16)), HopLimit: of[uint8](pick, 0, 1, 255), FlowLabel: of[uint32](pick, 0, flowBits),
			DGID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: byte(1 + pick(3))}}}, 0, 24).making(kindAH)
	}),
	func(a *actor, pick source) *step { // a CQ, in the four ways
		size, vector := of[uint32](pick, 1, 15, 16, 255, 4096), uint32(0)
		channel := int32(noCompChannel)
		if len(a.numbers) > 0 && pick(2) == 0 {
			channel = of(pick, a.numbers...)
		}
		switch pick(3) {
		case 0:
			return send(cmdCreateCQ, createCQ{Response: replyAddr, UserHandle: math.MaxUint64, CQE: size,
				CompVector: vector, CompChannel: channel}, 0, 72).making(kindCQ)
		case 1:
			return extend(cmdCreateCQ, exCreateCQ{CQE: size, CompVector: vector, CompChannel: channel}, 16, 16).
				making(kindCQ)
		}
		c := ioctlCQ(size)
		if channel >= 0 {
			c.use(attrCQChannel, uint64(channel))
		}
		return control(c).making(kindCQ)
	},
	func(a *actor, pick source) *step {
		if len(a.numbers) == 4 {
			return nil
		}
		return send(cmdCreateChan, createCompChannel{replyAddr}, 0, 4).or(syscall.ENOMEM)
	},
	func(a *actor, pick source) *step { // changes of a CQ
		cq, ok := a.any(pick, kindCQ)
		if !ok {
			return nil
		}
		if pick(2) == 0 {
			return send(cmdResizeCQ, resizeCQ{Response: replyAddr, CQHandle: cq, CQE: of[uint32](pick, 1, 16, 1023)}, 0,
				72).or(syscall.ENOMEM)
		}
		return send(cmdReqNotifyCQ, reqNotifyCQ{CQHandle: cq, SolicitedOnly: uint32(pick(2))}, 0, 0)
	},
	onPD(newQPStep), onPD(newQPStep),
	modifyQPStep, modifyQPStep, modifyQPStep,
	func(a *actor, pick source) *step {
		qp, ok := a.any(pick, kindQP)
		switch {
		case !ok:
			return nil
		case pick(2) == 0:
			return send(cmdQueryQP, queryQP{Response: replyAddr, QPHandle: qp}, 0, 128)
		}
		s := send(cmdPostSend, postSend{Response: replyAddr, QPHandle: qp, WQESize: 128}, 0, 4)
		if a.states[qp] < 3 {
			s.errnos = []syscall.Errno{syscall.EINVAL}
		}
		return s
	},
	func(a *actor, pick source) *step { // multicast
		qp, ok := a.any(pick, kindQP)
		if !ok || a.types[qp] != createQPUD {
			return nil
		}
		group := mcast{GID: [16]byte{0: 0xff, 1: 0x0e, 15: byte(1 + pick(3))}, QPHandle: qp}
		if a.groups[group] && pick(2) == 0 {
			return send(cmdDetachMcast, group, 0, 0)
		}
		return send(cmdAttachMcast, group, 0, 0).or(syscall.EINVAL, syscall.ENOMEM)
	},
	onPD(func(_ *actor, pick source, pd uint32) *step { // an SRQ, in the three ways
		size, sge := of[uint32](pick, 1, 10, 255), of[uint32](pick, 0, 1, 4)
		switch pick(3) {
		case 0:
			return send(cmdCreateSRQ, createSRQ{Response: replyAddr, PDHandle: pd, MaxWR: size, MaxSGE: sge,
				SRQLimit: uint32(pick(3))}, 0, 96).making(kindSRQ)
		case 1:
			return send(cmdCreateXSRQ, createXSRQ{Response: replyAddr, PDHandle: pd, MaxWR: size, MaxSGE: sge}, 0, 96).
				making(kindSRQ)
		}
		return control(newIoctl(typeSRQ, 0).use(attrHandle, 0).use(attrSRQPD, uint64(pd)).u64(attrSRQUserHandle, 99).
			u32(attrSRQMaxWR, size).u32(attrSRQMaxSGE, sge).u32(attrSRQLimit, 0).u64(attrSRQType, 0).
			out(attrSRQRespMaxWR, 4).out(attrSRQRespMaxSGE, 4).out(attrDriverOut, 64)).making(kindSRQ)
	}),
	func(a *actor, pick source) *step {
		srq, ok := a.any(pick, kindSRQ)
		switch {
		case !ok:
			return nil
		case pick(2) == 0:
			return send(cmdQuerySRQ, querySRQ{Response: replyAddr, SRQHandle: srq}, 0, 16)
		}
		return send(cmdModifySRQ, modifySRQ{SRQHandle: srq, AttrMask: uint32(pick(4)), MaxWR: of[uint32](pick, 1, 100),
			SRQLimit: uint32(pick(2))}, 8, 0).or(syscall.ENOMEM)
	},
	func(a *actor, pick source) *step { // queries
		switch pick(7) {
		case 0:
			return send(cmdQueryDevice, queryDevice{replyAddr}, 0, 176)
		case 1:
			return extend(cmdQueryDevice, exQueryDevice{}, 304, 0)
		case 2:
			return send(cmdQueryPort, queryPort{Response: replyAddr, PortNum: 1}, 0, 40)
		case 3:
			return control(newIoctl(typeDevice, 2).u64(attrPortNum, 1).out(attrPortResp, sizePortResp))
		case 4:
			return control(newIoctl(typeDevice, 5).u64(attrTableEntrySize, sizeGIDEntry).out(attrTableEntries, 1024).
				out(attrTableCount, 8))
		case 5:
			return control(newIoctl(typeDevice, 6).u64(attrEntryPort, 1).u64(attrEntryIndex, 0).
				out(attrEntryResp, sizeGIDEntry))
		}
		return control(newIoctl(typeDevice, 1).u64(attrInfoType, of[uint64](pick, typeCQ, typeQP, typeMR)).
			out(attrInfoTotal, 4).out(attrInfoList, 64))
	},
	func(a *actor, pick source) *step {
		mr, ok := a.any(pick, kindMR)
		if !ok {
			return nil
		}
		return control(newIoctl(typeMR, 3).use(attrHandle, uint64(mr)).out(attrQueryMRLKey, 4).out(attrQueryMRRKey, 4).
			out(attrQueryMRLength, 8).out(attrQueryMRIOVA, 8))
	},
	func(a *actor, pick source) *step { // it succeeds once
		return control(newIoctl(typeAsyncEvent, 0).use(attrHandle, 0)).or(syscall.EOPNOTSUPP)
	},
	destroyStep, destroyStep, destroyStep, destroyStep,
}

// onPD returns a generator for steps that need a PD.
func onPD(f func(a *actor, pick source, pd uint32) *step) func(*actor, source) *step {
	return func(a *actor, pick source) *step {
		pd, ok := a.any(pick, kindPD)
		if !ok {
			return nil
		}
		return f(a, pick, pd)
	}
}

func newQPStep(a *actor, pick source, pd uint32) *step {
	send1, ok := a.any(pick, kindCQ)
	if !ok {
		return nil
	}
	recv, _ := a.any(pick, kindCQ)
	args := createQPArgs{UserHandle: 5, PDHandle: pd, SendCQHandle: send1, RecvCQHandle: recv,
		MaxSendWR: of[uint32](pick, 0, 1, 15, 16, 128), MaxRecvWR: of[uint32](pick, 0, 1, 15, 16, 128),
		MaxSendSGE: of[uint32](pick, 0, 1, 4), MaxRecvSGE: of[uint32](pick, 0, 1, 4),
		MaxInlineData: of[uint32](pick, 0, 1, 64, 256), SQSigAll: uint8(pick(2)),
		QPType: of[uint8](pick, createQPRC, createQPUC, createQPUD, createQPUD)}
	srq, hasSRQ := a.any(pick, kindSRQ)
	if hasSRQ = hasSRQ && pick(2) == 0; hasSRQ {
		args.IsSRQ, args.SRQHandle = 1, srq
	}
	switch pick(3) {
	case 0:
		return send(cmdCreateQP, createQP{replyAddr, args}, 0, 128).making(kindQP)
	case 1:
		return extend(cmdCreateQP, exCreateQP{Args: args}, 40, rings.VerbsQPSize).making(kindQP)
	}
	var limits []byte
	for _, n := range []uint32{args.MaxSendWR, args.MaxRecvWR, args.MaxSendSGE, args.MaxRecvSGE, args.MaxInlineData} {
		limits = ne.AppendUint32(limits, n)
	}
	c := newIoctl(typeQP, 0).use(attrHandle, 0).use(attrQPPD, uint64(pd)).use(attrQPSendCQ, uint64(send1)).
		use(attrQPRecvCQ, uint64(recv)).u64(attrQPUserHandle, 88).in(attrQPCap, limits).
		u64(attrQPType, uint64(args.QPType)).out(attrQPRespCap, 32).out(attrQPRespNumber, 4).
		out(attrDriverOut, rings.VerbsQPSize)
	if hasSRQ {
		c.use(attrQPSRQ, uint64(srq))
	}
	return control(c).making(kindQP)
}

// modifyQPStep takes a QP to the next state, to Reset or to Error.
func modifyQPStep(a *actor, pick source) *step {
	qp, ok := a.any(pick, kindQP)
	if !ok {
		return nil
	}
	state := of[uint8](pick, 1, 1, 1, 1, 1, 1, 0, 6)
	if state == 1 {
		if state = a.states[qp] + 1; state > 3 {
			state = 0
		}
	}
	q := modifyQP{QPHandle: qp, QPState: state, AttrMask: qpMaskState, PortNum: 1, QPAccessFlags: accessKnown,
		QKey: 7, PathMTU: 1, DestQPNum: uint32(pick(numberBits)), RQPSN: numberBits, SQPSN: numberBits,
		MaxDestRdAtomic: uint8(pick(3)), MaxRdAtomic: uint8(pick(3)), MinRNRTimer: 31, Timeout: 31, RetryCnt: 7,
		RNRRetry: 7, Dest: qpDest{DGID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 2}, IsGlobal: 1, PortNum: 1}}
	isRC, isUD := a.types[qp] == createQPRC, a.types[qp] == createQPUD
	add := func(is bool, mask uint32) {
		if is {
			q.AttrMask |= mask
		}
	}
	switch state {
	case 1:
		add(true, qpMaskPKeyIndex|qpMaskPort)
		add(isUD, qpMaskQKey)
		add(!isUD, qpMaskAccess)
	case 2:
		add(!isUD, qpMaskAV|qpMaskPathMTU|qpMaskDestQPN|qpMaskRQPSN)
		add(isRC, qpMaskMaxDestRdAtomic|qpMaskMinRNRTimer)
	case 3:
		add(true, qpMaskSQPSN)
		add(isRC, qpMaskTimeout|qpMaskRetryCnt|qpMaskRNRRetry|qpMaskMaxRdAtomic)
	}
	s := send(cmdModifyQP, q, 0, 0)
	if pick(2) == 0 {
		s = extend(cmdModifyQP, exModifyQP{Base: q}, 8, 0)
	}
	s.handle, s.state = qp, int(state)
	return s.or(syscall.ENOMEM)
}

// The methods that destroy objects, with the bytes of their replies, and the commands that do.
var destroys = map[kind]struct {
	typ, method uint16
	command     uint32
	room        int
}{kindPD: {typePD, 0, cmdDeallocPD, 0}, kindCQ: {typeCQ, 1, cmdDestroyCQ, 8}, kindQP: {typeQP, 1, cmdDestroyQP, 4},
	kindSRQ: {typeSRQ, 1, cmdDestroySRQ, 4}, kindAH: {typeAH, 0, cmdDestroyAH, 0}, kindMR: {typeMR, 1, cmdDeregMR, 0},
	kindMW: {typeMW, 0, cmdDeallocMW, 0}}

func destroyStep(a *actor, pick source) *step {
	k := kind(1 + pick(int(kindSRQ)))
	h, ok := a.any(pick, k)
	if !ok {
		return nil
	}
	d := destroys[k]
	var s *step
	switch {
	case pick(2) == 0:
		c := newIoctl(d.typ, d.method).use(attrHandle, uint64(h))
		if d.room > 0 {
			c.out(attrDestroyResp, d.room)
		}
		s = control(c)
	case d.room > 0:
		s = send(d.command, destroyEvents{Response: replyAddr, Handle: h}, 0, d.room)
	default:
		s = send(d.command, byHandle{h}, 0, 0)
	}
	s.destroys, s.handle = k, h
	return s.or(syscall.EBUSY)
}

// hasRoom reports whether a store is in the room that a write has for its reply, or where its driver data says.
func (s *step) hasRoom(x devices.Store) bool {
	b := s.write
	room := 4 * int(ne.Uint16(b[6:]))
	if ne.Uint32(b)&flagExtended != 0 {
		room = 8 * (int(ne.Uint16(b[6:])) + int(ne.Uint16(b[18:])))
	}
	if ne.Uint32(b) == cmdModifySRQ {
		return len(x.Data) == rings.VerbsQueueSize && x.Addr == ne.Uint64(b[headerSize+size[modifySRQ]():])
	}
	return x.Addr == ne.Uint64(b[headerSize:]) && len(x.Data) <= room
}

// run executes a step, of which isMutated reports that it may not be valid, and checks the reply.
func (a *actor) run(t *testing.T, s *step, isMutated bool) syscall.Errno {
	var reply *devices.Reply
	hasRoom := s.hasRoom
	if s.ioctl != nil {
		reply, hasRoom = a.program.ioctl(s.ioctl), s.ioctl.hasRoom
	} else {
		clear(a.mem)
		reply = a.program.write(s.write)
	}
	require.NotEqual(t, syscall.EIO, reply.Errno, "the session has ended")
	if reply.Errno != 0 {
		require.Empty(t, reply.Stores)
		require.Empty(t, reply.Files)
		if !isMutated {
			require.Contains(t, s.errnos, reply.Errno, "%+v", s)
		}
	}
	for _, x := range reply.Stores {
		require.True(t, hasRoom(x), "%#x: %d bytes", x.Addr, len(x.Data))
	}
	for at, f := range a.files { // a channel gets a number
		if n := int32(len(a.numbers) + 1); at == replyAddr {
			a.numbers, a.files[uint64(n)] = append(a.numbers, n), f
			delete(a.files, at)
		}
	}
	a.note()
	return syscall.Errno(reply.Errno)
}

// note takes over what the file has: calls that were changed may have effects of their own.
func (a *actor) note() {
	f := a.f.(*File)
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(a.live)
	clear(a.groups)
	for _, h := range slices.Sorted(maps.Keys(f.objects)) {
		o := f.objects[h]
		a.live[o.kind] = append(a.live[o.kind], h)
		if o.kind != kindQP {
			continue
		}
		a.types[h] = map[ci.QPType]uint8{ci.RC: createQPRC, ci.UC: createQPUC, ci.UD: createQPUD}[o.typ]
		for g := range o.mcasts {
			g.QPHandle = h
			a.groups[g] = true
		}
	}
}

// observe sets the states of the QPs to those that queries return.
func (a *actor) observe() {
	for _, h := range a.live[kindQP] {
		var q queryQPResp
		a.must(cmdQueryQP, queryQP{Response: replyAddr, QPHandle: h}, &q)
		a.states[h] = q.QPState
	}
}

// mutate changes a word of a call, or its length.
func (s *step) mutate(pick source) {
	words := []uint32{0, 1, 2, 3, 7, 15, 16, 255, 4096, 1<<20 - 1, 1 << 31, math.MaxUint32}
	if s.ioctl != nil {
		s.ioctl.mutate(byte(pick(256)), of(pick, words...), byte(pick(8)))
		return
	}
	b := s.write
	if at := headerSize + 4*pick(40); at+4 <= len(b) {
		ne.PutUint32(b[at:], of(pick, words...))
	}
	if n := 4 * pick(4); pick(4) == 0 {
		s.write = append(b, make([]byte, n)...)
		ne.PutUint16(s.write[4:], uint16(len(s.write)/4))
	}
}

// play executes steps of several programs, of which one in eight is changed, and destroys in random order what they
// have. It returns the numbers of calls, and of those that succeeded.
func play(t *testing.T, r *rig, other *bystander, pick source, steps int) (calls, done int) {
	r.t = t
	actors := []*actor{newActor(r, false), newActor(r, true), newActor(r, false)}
	for range steps {
		a := actors[pick(len(actors))]
		a.t = t
		s := generators[pick(len(generators))](a, pick)
		if s == nil {
			s = generators[0](a, pick)
		}
		isMutated := pick(8) == 0
		if isMutated {
			s.mutate(pick)
		}
		calls++
		if a.run(t, s, isMutated) == 0 {
			done++
		}
		if isMutated || s.state >= 0 || s.creates == kindQP {
			a.observe()
		}
	}
	for i, a := range actors {
		a.destroyAll(t, r, pick, 1+i)
	}
	for _, a := range actors {
		a.f.Close()
	}
	other.check(t)
	return calls, done
}

// destroyAll destroys all objects of the program. Then the session has no memory and no queues of it.
func (a *actor) destroyAll(t *testing.T, r *rig, pick source, client int) {
	for g := range a.groups {
		a.must(cmdDetachMcast, g, nil)
	}
	f := a.f.(*File)
	for rounds := 0; len(f.objects) > 0; rounds++ {
		require.Less(t, rounds, 1<<16)
		if s := destroyStep(a, pick); s != nil {
			_ = a.run(t, s, false)
			continue
		}
		for k := range a.live { // pick may return the same number for ever
			if s := destroyStep(a, func(n int) int { return (int(k) - 1 + rounds) % n }); s != nil {
				_ = a.run(t, s, false)
			}
		}
	}
	c := r.core.Status().Clients[client]
	assert.Zero(t, c.MemoryBytes)
	assert.Zero(t, c.QueueBytes)
	assert.Zero(t, c.ServiceBytes)
	assert.LessOrEqual(t, c.Objects["ca"], 1)
	assert.LessOrEqual(t, c.Objects["pd"], 1, "that of CQs")
	assert.LessOrEqual(t, c.Objects["event queue"], 1+len(f.channels))
	maps.DeleteFunc(c.Objects, func(kind string, _ int) bool {
		return kind == "ca" || kind == "pd" || kind == "event queue"
	})
	assert.Empty(t, c.Objects)
}
