package uverbs

import (
	"syscall"

	"ciddk/ci"
	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/schema"
)

// qpTypes are the types of QPs that can be created.
var qpTypes = map[uint8]ci.QPType{createQPRC: ci.RC, createQPUC: ci.UC, createQPUD: ci.UD}

func (f *File) createQP(c *call, q *createQP, r *createQPResp) error { return f.newQP(c, &q.Args, r) }

func (f *File) exCreateQP(c *call, q *exCreateQP, r *exCreateQPResp) error {
	r.ResponseLength = uint32(min(size[exCreateQPResp](), c.room))
	switch {
	case q.CompMask != 0 || q.Args.Reserved != 0 || q.CreateFlags&^createFlags != 0:
		return syscall.EINVAL
	case q.CreateFlags != 0:
		return syscall.EOPNOTSUPP
	}
	return f.newQP(c, &q.Args, &r.Base)
}

// createFlags are the flags of a new QP that Linux defines (IB_QP_CREATE_…). Soft-RoCE has none of them.
const createFlags = 0xf1e

// typeOf returns the type of a QP to create. Linux first checks that the program has CAP_NET_RAW for a raw QP, which
// stands for root here, and then asks the driver.
func (f *File) typeOf(n uint8) (ci.QPType, error) {
	t, ok := qpTypes[n]
	switch {
	case ok:
		return t, nil
	case n == createQPRaw && f.session.Peer().UID != 0:
		return 0, syscall.EPERM
	case n == createQPRaw, n == createQPXRCInit, n == createQPXRCTgt:
		return 0, syscall.EOPNOTSUPP
	}
	return 0, syscall.EINVAL
}

// sizeofSGE is the size of a segment of a work request. In Linux's Soft-RoCE, inline data has at least the room of the
// segments, and programs use it that did not request any (rdma_xclient).
const sizeofSGE = 16

func (f *File) newQP(c *call, q *createQPArgs, r *createQPResp) error {
	t, err := f.typeOf(q.QPType)
	if err != nil {
		return err
	}
	create := &schema.CreateQP{Token: q.UserHandle, Async: f.async, Type: t, User: f.private(c),
		Caps: schema.QPCaps{SendDepth: limit(q.MaxSendWR), RecvDepth: limit(q.MaxRecvWR), SendSGE: limit(q.MaxSendSGE),
			RecvSGE: limit(q.MaxRecvSGE), MaxInline: max(limit(q.MaxInlineData), limit(q.MaxSendSGE)*sizeofSGE)}}
	if q.SQSigAll != 0 {
		create.Flags |= ci.QPSignalAll
	}
	if q.IsSRQ != 0 {
		if create.SRQ, err = f.handleOf(kindSRQ, q.SRQHandle); err != nil {
			return err
		}
		create.Caps.RecvDepth, create.Caps.RecvSGE = 0, 0
	}
	if create.RecvCQ, err = f.handleOf(kindCQ, q.RecvCQHandle); err != nil {
		return err
	}
	if create.SendCQ, err = f.handleOf(kindCQ, q.SendCQHandle); err != nil {
		return err
	}
	if create.PD, err = f.handleOf(kindPD, q.PDHandle); err != nil {
		return err
	}
	if err := f.checkCaps(q); err != nil {
		return err
	}
	made, err := do[schema.CreateQPReply](f, schema.CmdCreateQP, create)
	if err != nil {
		return err
	}
	c.answer(&made.User)
	o := &object{kind: kindQP, handle: made.Handle, typ: t, sigAll: q.SQSigAll != 0,
		mcasts: map[mcast]schema.Handle{}}
	if at := f.dev.provider.BellOffset; at > 0 && len(c.out) >= at+4 {
		o.bellIndex, o.hasBell = ne.Uint32(c.out[at:]), true
	}
	*r = createQPResp{QPHandle: f.add(o), QPN: uint32(made.Num), MaxSendWR: number(made.Caps.SendDepth),
		MaxRecvWR: number(made.Caps.RecvDepth), MaxSendSGE: number(made.Caps.SendSGE),
		MaxRecvSGE: number(made.Caps.RecvSGE), MaxInlineData: number(made.Caps.MaxInline)}
	return nil
}

// bell returns the change of a QP's bell when it enters a state. A QP has one in the states in which Linux accepts
// requests to send. In the others, carriers pass the program's doorbell to postSend, which rejects it.
func (o *object) bell(handle uint32, s ci.QPState) *devices.Bell {
	if !o.hasBell {
		return nil
	}
	b := &devices.Bell{Handle: handle}
	switch s {
	case ci.QPReset, ci.QPInit, ci.QPRTR:
	default:
		b.Index, b.IsSet = o.bellIndex, true
	}
	return b
}

// checkCaps returns EINVAL for queues that are longer than those of any QP of the device, as the drivers of Linux do.
// ENOMEM, which the adapter would return, makes programs retry.
func (f *File) checkCaps(q *createQPArgs) error {
	if most := uint64(f.dev.attr.MaxWRs); uint64(q.MaxSendWR) > most || q.IsSRQ == 0 && uint64(q.MaxRecvWR) > most {
		return syscall.EINVAL
	}
	return nil
}

func (f *File) destroyQP(c *call, q *destroyEvents, r *destroyEventsResp) error {
	d, err := f.remove(kindQP, q.Handle)
	if err == nil {
		r.EventsReported = uint32(d.Async)
		c.reply.Bell = &devices.Bell{Handle: q.Handle}
	}
	return err
}

// sizeofSendWR is the size of a request to send in a command (ib_uverbs_send_wr).
const sizeofSendWR = 72

// postSend starts a send queue whose requests the program has put into memory that it shares with the adapter. Carriers
// call it for a QP without a bell. Requests that the state of the QP does not permit are removed from the queue: in
// Linux's Soft-RoCE they stay there, and are executed when the QP can send, although the post has failed.
func (f *File) postSend(_ *call, q *postSend, _ *postSendResp) error {
	if q.WQESize < sizeofSendWR || q.WRCount != 0 {
		return syscall.EINVAL
	}
	qp, err := f.handleOf(kindQP, q.QPHandle)
	if err != nil {
		return err
	}
	if err := f.session.StartSends(qp); ci.StatusOf(err) != ci.InvalidQPState {
		return err
	}
	return syscall.EINVAL
}

// The states of a QP.
var (
	qpStates    = []ci.QPState{ci.QPReset, ci.QPInit, ci.QPRTR, ci.QPRTS, ci.QPSQD, ci.QPSQError, ci.QPError}
	qpStateNums = map[ci.QPState]uint8{ci.QPReset: 0, ci.QPInit: 1, ci.QPRTR: 2, ci.QPRTS: 3, ci.QPSQD: 4,
		ci.QPSQDraining: 4, ci.QPSQError: 5, ci.QPError: 6}
)

// qpState returns a state by its number.
func qpState(n uint8) (ci.QPState, error) {
	if int(n) >= len(qpStates) {
		return 0, syscall.EINVAL
	}
	return qpStates[n], nil
}

// The path migration states.
var (
	apmStates    = []ci.APMState{ci.APMMigrated, ci.APMRearm, ci.APMArmed}
	apmStateNums = map[ci.APMState]uint8{ci.APMMigrated: 0, ci.APMRearm: 1, ci.APMArmed: 2}
)

// The attributes of a QP that can be changed (enum ib_qp_attr_mask).
const (
	qpMaskState = 1 << iota
	qpMaskCurState
	qpMaskSQDEvent
	qpMaskAccess
	qpMaskPKeyIndex
	qpMaskPort
	qpMaskQKey
	qpMaskAV
	qpMaskPathMTU
	qpMaskTimeout
	qpMaskRetryCnt
	qpMaskRNRRetry
	qpMaskRQPSN
	qpMaskMaxRdAtomic
	qpMaskAltPath
	qpMaskMinRNRTimer
	qpMaskSQPSN
	qpMaskMaxDestRdAtomic
	qpMaskPathMig
	qpMaskCap
	qpMaskDestQPN

	qpMaskAll = qpMaskDestQPN<<1 - 1
)

// qpFields are the fields of package ci for the attributes.
var qpFields = map[uint32]ci.QPField{qpMaskState: ci.QPFieldState, qpMaskCurState: ci.QPFieldCurrentState,
	qpMaskSQDEvent: ci.QPFieldSQDEvent, qpMaskAccess: ci.QPFieldAccess, qpMaskPKeyIndex: ci.QPFieldPKeyIndex,
	qpMaskPort: ci.QPFieldPort, qpMaskQKey: ci.QPFieldQKey, qpMaskAV: ci.QPFieldPrimary, qpMaskPathMTU: ci.QPFieldMTU,
	qpMaskTimeout: ci.QPFieldAckTimeout, qpMaskRetryCnt: ci.QPFieldRetryCount, qpMaskRNRRetry: ci.QPFieldRNRRetry,
	qpMaskRQPSN: ci.QPFieldRQPSN, qpMaskMaxRdAtomic: ci.QPFieldInitDepth, qpMaskAltPath: ci.QPFieldAlternate,
	qpMaskMinRNRTimer: ci.QPFieldMinRNRTimer, qpMaskSQPSN: ci.QPFieldSQPSN, qpMaskMaxDestRdAtomic: ci.QPFieldRespRes,
	qpMaskPathMig: ci.QPFieldAPM, qpMaskDestQPN: ci.QPFieldDestNum}

func (f *File) exModifyQP(c *call, q *exModifyQP, r *exModifyQPResp) error {
	if q.RateLimit != 0 || q.Reserved != 0 {
		return syscall.EOPNOTSUPP
	}
	r.ResponseLength = uint32(min(size[exModifyQPResp](), c.room))
	return f.modifyQP(c, &q.Base, &none{})
}

// The bits of numbers on the wire.
const (
	numberBits = 1<<24 - 1 // of QP numbers and PSNs
	flowBits   = 1<<20 - 1
)

func (f *File) modifyQP(c *call, q *modifyQP, _ *none) error {
	if q.AttrMask&^qpMaskAll != 0 {
		return syscall.EOPNOTSUPP
	}
	o, err := f.lookup(kindQP, q.QPHandle)
	if err != nil {
		return err
	}
	modify := &schema.ModifyQP{QP: o.handle, User: f.private(c)}
	if q.AttrMask&qpMaskCap != 0 { // the command has no fields for them
		return syscall.EINVAL
	}
	if err := f.checkPorts(q); err != nil {
		return err
	}
	for mask, field := range qpFields {
		if q.AttrMask&mask != 0 {
			modify.Set |= field
		}
	}
	if err := setQP(&modify.Attr, q); err != nil {
		return err
	}
	if q.AttrMask&qpMaskAccess != 0 {
		if modify.Attr.Access, err = f.qpRights(q.QPAccessFlags); err != nil {
			return err
		}
	}
	changed, err := do[schema.Changed](f, schema.CmdModifyQP, modify)
	if err != nil {
		return err
	}
	c.answer(&changed.User)
	if q.AttrMask&qpMaskState != 0 {
		c.reply.Bell = o.bell(q.QPHandle, modify.Attr.State)
	}
	return nil
}

// qpRights returns the rights of a QP. Linux takes every one; an adapter without FLUSH has none for it.
func (f *File) qpRights(flags uint32) (ci.Access, error) {
	if flags&accessFlush != 0 {
		a, err := f.attr()
		if err != nil {
			return 0, err
		}
		if !a.Caps.Has(ci.CapFlush) {
			flags &^= accessFlush
		}
	}
	return rights(flags &^ (accessMWBind | accessZeroBased)), nil
}

// checkPorts returns EINVAL for paths by ports that the device does not have, as Linux does for every driver
// (modify_qp of uverbs). The reference adapter has a port of its own for a QP, and ignores that of the path.
func (f *File) checkPorts(q *modifyQP) error {
	switch {
	case q.AttrMask&qpMaskAV != 0 && !f.hasPort(q.Dest.PortNum),
		q.AttrMask&qpMaskAltPath != 0 && (!f.hasPort(q.AltPortNum) || q.AltPortNum != q.AltDest.PortNum):
		return syscall.EINVAL
	}
	return nil
}

// hasPort reports whether the device has a port.
func (f *File) hasPort(number uint8) bool { return number != 0 && int(number) <= len(f.dev.attr.Ports) }

// setQP sets the attributes of a change, which uses those that the mask names.
func setQP(a *schema.QPAttr, q *modifyQP) (err error) {
	if q.AttrMask&qpMaskState != 0 {
		if a.State, err = qpState(q.QPState); err != nil {
			return err
		}
	}
	if q.AttrMask&qpMaskCurState != 0 {
		if a.CurrentState, err = qpState(q.CurQPState); err != nil {
			return err
		}
	}
	if q.AttrMask&qpMaskPathMig != 0 {
		if int(q.PathMigState) >= len(apmStates) {
			return syscall.EINVAL
		}
		a.APM = apmStates[q.PathMigState]
	}
	a.SQDEvent = q.EnSQDAsyncNotify != 0
	a.QKey, a.RQPSN, a.SQPSN = ci.QKey(q.QKey), ci.PSN(q.RQPSN&numberBits), ci.PSN(q.SQPSN&numberBits)
	a.DestNum, a.Port, a.MTU = ci.QPN(q.DestQPNum&numberBits), q.PortNum, ci.MTU(q.PathMTU)
	a.InitDepth, a.RespRes = q.MaxRdAtomic, q.MaxDestRdAtomic
	a.RetryCount, a.RNRRetry, a.MinRNRTimer = q.RetryCnt, q.RNRRetry, q.MinRNRTimer
	a.Primary = schema.Path{AV: q.Dest.av(), PKeyIndex: q.PKeyIndex, AckTimeout: ci.TimeExp(q.Timeout)}
	a.Alternate = schema.Path{AV: q.AltDest.av(), PKeyIndex: q.AltPKeyIndex, AckTimeout: ci.TimeExp(q.AltTimeout)}
	if q.AttrMask&qpMaskAltPath != 0 {
		a.Alternate.AV.Port = q.AltPortNum
	}
	return nil
}

// av returns an address.
func (d *qpDest) av() schema.AVAttr {
	return schema.AVAttr{DGID: d.DGID, FlowLabel: d.FlowLabel & flowBits, DLID: ci.LID(d.DLID),
		SGIDIndex: uint16(d.SGIDIndex), Port: d.PortNum, SL: ci.SL(d.SL), PathBits: d.SrcPathBits,
		StaticRate: ci.Rate(d.StaticRate), HopLimit: d.HopLimit, TrafficClass: d.TrafficClass, Global: d.IsGlobal != 0}
}

// newDest is the inverse of av.
func newDest(a *schema.AVAttr) qpDest {
	d := qpDest{DGID: a.DGID, FlowLabel: a.FlowLabel, DLID: uint16(a.DLID), SGIDIndex: uint8(a.SGIDIndex),
		HopLimit: a.HopLimit, TrafficClass: a.TrafficClass, SL: uint8(a.SL), SrcPathBits: a.PathBits,
		StaticRate: uint8(a.StaticRate), PortNum: a.Port}
	if a.Global {
		d.IsGlobal = 1
	}
	return d
}

func (f *File) queryQP(_ *call, q *queryQP, r *queryQPResp) error {
	o, err := f.lookup(kindQP, q.QPHandle)
	if err != nil {
		return err
	}
	a, err := do[schema.QPAttr](f, schema.CmdQueryQP, &schema.QP{QP: o.handle})
	if err != nil {
		return err
	}
	*r = queryQPResp{Dest: newDest(&a.Primary.AV), AltDest: newDest(&a.Alternate.AV),
		MaxSendWR: number(a.Caps.SendDepth), MaxRecvWR: number(a.Caps.RecvDepth), MaxSendSGE: number(a.Caps.SendSGE),
		MaxRecvSGE: number(a.Caps.RecvSGE), MaxInlineData: number(a.Caps.MaxInline), QKey: uint32(a.QKey),
		RQPSN: uint32(a.RQPSN), SQPSN: uint32(a.SQPSN), DestQPNum: uint32(a.DestNum),
		QPAccessFlags: accessFlags(a.Access), PKeyIndex: a.Primary.PKeyIndex, AltPKeyIndex: a.Alternate.PKeyIndex,
		QPState: qpStateNums[a.State], CurQPState: qpStateNums[a.State], PathMTU: uint8(a.MTU),
		PathMigState: apmStateNums[a.APM], MaxRdAtomic: a.InitDepth, MaxDestRdAtomic: a.RespRes,
		MinRNRTimer: a.MinRNRTimer, PortNum: a.Port, Timeout: uint8(a.Primary.AckTimeout), RetryCnt: a.RetryCount,
		RNRRetry: a.RNRRetry, AltPortNum: a.Alternate.AV.Port, AltTimeout: uint8(a.Alternate.AckTimeout)}
	if a.State == ci.QPSQDraining {
		r.SQDraining = 1
	}
	if o.sigAll {
		r.SQSigAll = 1
	}
	return nil
}

func (f *File) createAH(c *call, q *createAH, r *createAHResp) error {
	a := &q.Attr
	if !f.hasPort(a.PortNum) {
		return syscall.EINVAL
	}
	pd, err := f.handleOf(kindPD, q.PDHandle)
	if err != nil {
		return err
	}
	if err := f.checkAH(a); err != nil {
		return err
	}
	dest := qpDest{DGID: a.DGID, FlowLabel: a.FlowLabel, DLID: a.DLID, SGIDIndex: a.SGIDIndex, HopLimit: a.HopLimit,
		TrafficClass: a.TrafficClass, SL: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: a.StaticRate,
		IsGlobal: a.IsGlobal, PortNum: a.PortNum}
	made, err := do[schema.Created](f, schema.CmdCreateAV, &schema.CreateAV{PD: pd, Attr: dest.av(),
		User: f.private(c)})
	if err != nil {
		return err
	}
	c.answer(&made.User)
	r.AHHandle = f.add(&object{kind: kindAH, handle: made.Handle})
	return nil
}

// checkAH returns the error of Linux for an address that it rejects (rdma_check_ah_attr, rdma_get_gid_attr): EINVAL for
// one without a GID on an Ethernet port and for one with a missing entry of the GID table, ENODATA for an empty entry.
// Programs that expect InfiniBand, such as the datagrams of rsockets, would otherwise send messages that nobody
// receives.
func (f *File) checkAH(a *ahAttr) error {
	ports, err := f.ports()
	if err != nil {
		return err
	}
	if a.PortNum == 0 || int(a.PortNum) > len(ports) {
		return syscall.EINVAL
	}
	p := &ports[a.PortNum-1]
	if a.IsGlobal == 0 {
		if p.Link == ci.LinkEthernet {
			return syscall.EINVAL
		}
		return nil
	}
	switch {
	case int(a.SGIDIndex) >= len(p.GIDs), p.Link == ci.LinkEthernet && a.DGID == ci.GID{}:
		return syscall.EINVAL
	case p.GIDs[a.SGIDIndex].GID == (ci.GID{}):
		return noData
	}
	return nil
}

// attachMcast attaches a QP to a group. As in Linux, attaching it again has no effect.
func (f *File) attachMcast(_ *call, q *mcast, _ *none) error {
	o, err := f.lookup(kindQP, q.QPHandle)
	if err != nil {
		return err
	}
	q.Reserved = 0 // a program may leave it unset
	f.mcastMu.Lock()
	defer f.mcastMu.Unlock()
	if _, ok := o.mcasts[*q]; ok {
		return nil
	}
	made, err := do[schema.Created](f, schema.CmdAttachMcast, &schema.AttachMcast{QP: o.handle, GID: q.GID,
		LID: ci.LID(q.MLID)})
	if err == nil {
		o.mcasts[*q] = made.Handle
	}
	return err
}

func (f *File) detachMcast(_ *call, q *mcast, _ *none) error {
	o, err := f.lookup(kindQP, q.QPHandle)
	if err != nil {
		return err
	}
	q.Reserved = 0
	f.mcastMu.Lock()
	defer f.mcastMu.Unlock()
	h, ok := o.mcasts[*q]
	if !ok {
		return syscall.EINVAL
	}
	if _, err = do[schema.DestroyReply](f, schema.CmdDestroy, &schema.Object{Handle: h}); err == nil {
		delete(o.mcasts, *q)
	}
	return err
}
