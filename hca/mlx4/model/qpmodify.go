package model

import (
	"encoding/binary"
	"slices"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// A qpStep is a command that changes a QP.
type qpStep struct {
	to ci.QPState
	// need are the attributes that the command always sets, and may those that it sets if the mask of optional
	// parameters has them.
	need, may ci.QPField
}

const (
	qpLive    = ci.QPFieldAccess | ci.QPFieldMinRNRTimer | ci.QPFieldQKey | ci.QPFieldAlternate | ci.QPFieldAPM
	qpDrained = qpLive | ci.QPFieldPrimary | ci.QPFieldPort | ci.QPFieldPKeyIndex | ci.QPFieldAckTimeout |
		ci.QPFieldRetryCount | ci.QPFieldRNRRetry | ci.QPFieldInitDepth | ci.QPFieldRespRes
)

var qpSteps = map[prm.Opcode]qpStep{
	prm.CmdRST2INIT: {to: ci.QPInit,
		need: ci.QPFieldPort | ci.QPFieldPKeyIndex | ci.QPFieldAccess | ci.QPFieldQKey},
	prm.CmdINIT2INIT: {to: ci.QPInit,
		may: ci.QPFieldPort | ci.QPFieldPKeyIndex | ci.QPFieldAccess | ci.QPFieldQKey},
	prm.CmdINIT2RTR: {to: ci.QPRTR,
		need: ci.QPFieldPrimary | ci.QPFieldMTU | ci.QPFieldDestNum | ci.QPFieldRQPSN | ci.QPFieldRespRes |
			ci.QPFieldMinRNRTimer,
		may: ci.QPFieldAccess | ci.QPFieldPKeyIndex | ci.QPFieldQKey | ci.QPFieldAlternate},
	prm.CmdRTR2RTS: {to: ci.QPRTS,
		need: ci.QPFieldSQPSN | ci.QPFieldAckTimeout | ci.QPFieldRetryCount | ci.QPFieldRNRRetry | ci.QPFieldInitDepth,
		may:  qpLive},
	prm.CmdRTS2RTS:   {to: ci.QPRTS, may: qpLive},
	prm.CmdSQERR2RTS: {to: ci.QPRTS, may: ci.QPFieldAccess | ci.QPFieldQKey},
	prm.CmdRTS2SQD:   {to: ci.QPSQD, need: ci.QPFieldSQDEvent},
	prm.CmdSQD2SQD:   {to: ci.QPSQD, may: qpDrained},
	prm.CmdSQD2RTS:   {to: ci.QPRTS, may: qpDrained},
	prm.Cmd2ERR:      {to: ci.QPError},
}

// qpStart are the states in which the commands are valid; 2ERR is valid in all.
var qpStart = map[prm.Opcode]ci.QPState{
	prm.CmdINIT2INIT: ci.QPInit, prm.CmdINIT2RTR: ci.QPInit, prm.CmdRTR2RTS: ci.QPRTR, prm.CmdRTS2RTS: ci.QPRTS,
	prm.CmdSQERR2RTS: ci.QPSQError, prm.CmdRTS2SQD: ci.QPRTS, prm.CmdSQD2SQD: ci.QPSQD, prm.CmdSQD2RTS: ci.QPSQD,
}

// optional are the attributes of the bits of the mask.
var optional = []struct {
	bits  uint64
	field ci.QPField
}{
	{prm.OptRemoteRead | prm.OptRemoteWrite | prm.OptRemoteAtomic, ci.QPFieldAccess},
	{prm.OptPKeyIndex, ci.QPFieldPKeyIndex}, {prm.OptQKey, ci.QPFieldQKey},
	{prm.OptRNRTimeout, ci.QPFieldMinRNRTimer}, {prm.OptPrimary, ci.QPFieldPrimary},
	{prm.OptInitDepth, ci.QPFieldInitDepth}, {prm.OptRespDepth, ci.QPFieldRespRes},
	{prm.OptRetryCount, ci.QPFieldRetryCount}, {prm.OptRNRRetry, ci.QPFieldRNRRetry},
	{prm.OptAckTimeout, ci.QPFieldAckTimeout}, {prm.OptSchedule, ci.QPFieldPort},
	{prm.OptAlternate, ci.QPFieldAlternate}, {prm.OptMigration, ci.QPFieldAPM},
}

// serviceFields returns the attributes that a QP of the type has.
func (q *qp) serviceFields() ci.QPField {
	const all = ci.QPFieldPKeyIndex | ci.QPFieldSQPSN | ci.QPFieldSQDEvent
	const connected = all | ci.QPFieldPort | ci.QPFieldAccess | ci.QPFieldPrimary | ci.QPFieldMTU |
		ci.QPFieldDestNum | ci.QPFieldRQPSN | ci.QPFieldAlternate | ci.QPFieldAPM
	switch q.typ {
	case ci.RC:
		return connected | ci.QPFieldRespRes | ci.QPFieldMinRNRTimer | ci.QPFieldAckTimeout | ci.QPFieldRetryCount |
			ci.QPFieldRNRRetry | ci.QPFieldInitDepth
	case ci.UC:
		return connected
	case ci.UD:
		return all | ci.QPFieldPort | ci.QPFieldQKey
	}
	return all | ci.QPFieldQKey
}

// modifyQP executes the commands that change the state or attributes of a QP.
func (c *command) modifyQP() prm.Status {
	num := c.mod & indexMask
	b, ok := c.inbox(prm.QPContext.Layout.Size)
	if !ok {
		return prm.BadParam
	}
	ctx := b[prm.QPContext.Off : prm.QPContext.Off+prm.QPContextSize]
	q := c.qp(num)
	if f := c.frameQP(num); f != nil {
		if c.op == prm.CmdRST2INIT {
			return prm.BadQPState
		}
		return c.modifyFrameQP(f)
	}
	if c.op == prm.CmdRST2INIT {
		return c.startQP(num, q, ctx)
	}
	if q == nil {
		return prm.BadQPState // in Reset
	}
	now, err := q.face.Query()
	if err != nil {
		return statusOf(err)
	}
	q.follow(&now)
	if from, ok := qpStart[c.op]; ok && now.State != from && !(from == ci.QPSQD && now.State == ci.QPSQDraining) {
		return prm.BadQPState
	}
	if c.op == prm.CmdINIT2RTR {
		if status := c.movePort(q, now.Port, ctx); status != prm.OK {
			return status
		}
	}
	step := qpSteps[c.op]
	set := step.need
	mask := prm.QPOptionalMask.Get(b)
	for _, o := range optional {
		if mask&o.bits != 0 {
			set |= o.field & step.may
		}
	}
	set &= q.serviceFields()
	return c.setQP(q, step.to, set, ctx)
}

// movePort sets the port of a QP in Init. Linux has it in the context only from the step to RTR on.
func (c *command) movePort(q *qp, from uint8, ctx []byte) prm.Status {
	a, ok := c.attributes(ctx)
	if !ok {
		return prm.BadParam
	}
	if q.port != 0 || a.Port == from {
		return prm.OK
	}
	if q.gsiPort != 0 {
		if !c.port(a.Port).isEthernet() {
			return prm.BadParam
		}
		q.gsiPort = a.Port
	}
	if err := q.face.Modify(ci.QPFieldPort, ci.QPAttr{Port: a.Port}); err != nil {
		return statusOf(err)
	}
	return prm.OK
}

// startQP takes a QP from Reset to Init.
func (c *command) startQP(num uint32, q *qp, ctx []byte) prm.Status {
	switch {
	case q != nil:
		return prm.BadQPState
	case num < 1<<logReservedQPs || num >= 1<<c.layout.logQPs:
		return prm.BadIndex
	}
	if c.isFrameQP(num, ctx) {
		f, status := c.newFrameQP(num, ctx)
		if status != prm.OK {
			return status
		}
		c.objects.Lock()
		defer c.objects.Unlock()
		c.frameQPs[num] = f
		return prm.OK
	}
	q, status := c.newQP(num, ctx)
	if status != prm.OK {
		return status
	}
	c.objects.Lock()
	c.qps[num] = q
	c.objects.Unlock()
	status = c.setQP(q, ci.QPInit, qpSteps[prm.CmdRST2INIT].need&q.serviceFields(), ctx)
	if status != prm.OK {
		c.destroyQP(q)
		return status
	}
	c.joinGroups(q)
	return prm.OK
}

// setQP sets the attributes in set to those of the context.
func (c *command) setQP(q *qp, to ci.QPState, set ci.QPField, ctx []byte) prm.Status {
	a, ok := c.attributes(ctx)
	if !ok {
		return prm.BadParam
	}
	a.State = to
	a.SQDEvent = c.mod&prm.QPSQDEvent != 0
	if err := q.face.Modify(set|ci.QPFieldState, a); err != nil {
		return statusOf(err)
	}
	q.merge(set, ctx)
	return prm.OK
}

// attributes returns the attributes of a context.
func (c *command) attributes(ctx []byte) (a ci.QPAttr, ok bool) {
	path := prm.QPCPrimary.Bytes(ctx, prm.PathSize)
	a.Port = uint8(prm.PathPort.Get(path)) + 1
	if c.port(a.Port) == nil {
		return a, false
	}
	a.Primary = pathOf(path)
	a.Alternate = pathOf(prm.QPCAlternate.Bytes(ctx, prm.PathSize))
	a.APM = migrations[prm.QPCMigration.Get(ctx)]
	a.QKey = ci.QKey(prm.QPCQKey.Get(ctx))
	a.MTU = ci.MTU(prm.QPCMTU.Get(ctx))
	a.DestNum = ci.QPN(prm.QPCRemote.Get(ctx))
	a.RQPSN, a.SQPSN = ci.PSN(prm.QPCRecvPSN.Get(ctx)), ci.PSN(prm.QPCSendPSN.Get(ctx))
	a.RespRes, a.InitDepth = 1<<prm.QPCRespDepth.Get(ctx), 1<<prm.QPCInitDepth.Get(ctx)
	a.MinRNRTimer = uint8(prm.QPCMinRNR.Get(ctx))
	a.RetryCount, a.RNRRetry = uint8(prm.QPCRetryCount.Get(ctx)), uint8(prm.QPCRNRRetry.Get(ctx))
	if prm.QPCRemoteRead.Has(ctx) {
		a.Access |= ci.RemoteRead
	}
	if prm.QPCRemoteWrite.Has(ctx) {
		a.Access |= ci.RemoteWrite
	}
	if prm.QPCRemoteAtomic.Has(ctx) {
		a.Access |= ci.RemoteAtomic
	}
	return a, true
}

// pathOf returns a path.
func pathOf(b []byte) ci.Path {
	p := ci.Path{AV: pathAddress(b), PKeyIndex: uint16(prm.PathPKeyIndex.Get(b)),
		AckTimeout: ci.TimeExp(prm.PathAckTimeout.Get(b))}
	p.AV.Port = uint8(prm.PathPort.Get(b)) + 1
	return p
}

// migrations are the states of path migration, by the values of prm.QPCMigration. One of them has no meaning.
var migrations = [4]ci.APMState{prm.MigrationArmed: ci.APMArmed, prm.MigrationRearm: ci.APMRearm,
	prm.MigrationMigrated: ci.APMMigrated}

// follow makes the alternate path of the context the primary one, if the transport has migrated.
func (q *qp) follow(a *ci.QPAttr) {
	if q.hasAlternate && a.Alternate.AV.Port == 0 {
		q.hasAlternate = false
		alternate := prm.QPCAlternate.Bytes(q.context[:], prm.PathSize)
		copy(prm.QPCPrimary.Bytes(q.context[:], prm.PathSize), alternate)
		clear(alternate)
	}
}

// pathAddress returns the address of a path.
func pathAddress(path []byte) ci.AVAttr {
	av := ci.AVAttr{SL: ci.SL(prm.PathSL.Get(path)), PathBits: uint8(prm.PathBits.Get(path)),
		DLID: ci.LID(prm.PathRemoteLID.Get(path)), Global: prm.PathGRH.Has(path),
		DMAC: [6]byte(path[prm.PathMAC.Off+2:]),
		GRH: ci.GRH{DGID: ci.GID(prm.PathGID.Bytes(path, prm.GIDSize)),
			SGIDIndex: uint16(prm.PathGIDIndex.Get(path)), FlowLabel: uint32(prm.PathFlowLabel.Get(path)),
			HopLimit: uint8(prm.PathHopLimit.Get(path)), TrafficClass: uint8(prm.PathClass.Get(path))}}
	if prm.PathLinkType.Get(path) == prm.PathLinkEthernet {
		av.Global, av.PathBits = true, 0
		av.SL = ci.SL(prm.PathSL.Get(path) >> 1)
	}
	return av
}

// merge stores what a command has set, for QUERY_QP.
func (q *qp) merge(set ci.QPField, ctx []byte) {
	for _, e := range []struct {
		field ci.QPField
		f     *prm.Field
	}{
		{ci.QPFieldMTU, &prm.QPCMTU}, {ci.QPFieldDestNum, &prm.QPCRemote}, {ci.QPFieldInitDepth, &prm.QPCInitDepth},
		{ci.QPFieldRetryCount, &prm.QPCRetryCount}, {ci.QPFieldRNRRetry, &prm.QPCRNRRetry},
		{ci.QPFieldRespRes, &prm.QPCRespDepth}, {ci.QPFieldMinRNRTimer, &prm.QPCMinRNR},
		{ci.QPFieldAccess, &prm.QPCRemoteRead}, {ci.QPFieldAccess, &prm.QPCRemoteWrite},
		{ci.QPFieldAccess, &prm.QPCRemoteAtomic}, {ci.QPFieldQKey, &prm.QPCQKey},
	} {
		if set&e.field != 0 {
			e.f.Put(q.context[:], e.f.Get(ctx))
		}
	}
	path, from := prm.QPCPrimary.Bytes(q.context[:], prm.PathSize), prm.QPCPrimary.Bytes(ctx, prm.PathSize)
	timeout, pkey := prm.PathAckTimeout.Get(path), prm.PathPKeyIndex.Get(path)
	if set&ci.QPFieldPrimary != 0 {
		copy(path, from)
		prm.PathAckTimeout.Put(path, timeout)
		prm.PathPKeyIndex.Put(path, pkey)
	}
	if set&ci.QPFieldAckTimeout != 0 {
		prm.PathAckTimeout.Put(path, prm.PathAckTimeout.Get(from))
	}
	if set&ci.QPFieldPKeyIndex != 0 {
		prm.PathPKeyIndex.Put(path, prm.PathPKeyIndex.Get(from))
	}
	if set&ci.QPFieldPort != 0 {
		prm.PathSchedule.Put(path, prm.PathSchedule.Get(from))
	}
	if set&ci.QPFieldAlternate != 0 {
		q.hasAlternate = true
		copy(prm.QPCAlternate.Bytes(q.context[:], prm.PathSize), prm.QPCAlternate.Bytes(ctx, prm.PathSize))
	}
}

func (c *command) resetQP() prm.Status {
	if f := c.frameQP(c.mod); f != nil {
		c.objects.Lock()
		delete(c.frameQPs, f.num)
		c.objects.Unlock()
		f.close()
		return prm.OK
	}
	q := c.qp(c.mod)
	if q == nil {
		return prm.OK // in Reset already
	}
	return c.destroyQP(q)
}

var qpStates = map[ci.QPState]uint64{ci.QPReset: prm.QPReset, ci.QPInit: prm.QPInit, ci.QPRTR: prm.QPRTR,
	ci.QPRTS: prm.QPRTS, ci.QPSQError: prm.QPSQError, ci.QPSQD: prm.QPSQD, ci.QPError: prm.QPError,
	ci.QPSQDraining: prm.QPSQDraining}

func (c *command) queryQP() prm.Status {
	b := make([]byte, prm.QPContext.Layout.Size)
	ctx := b[prm.QPContext.Off:]
	if f := c.frameQP(c.mod); f != nil {
		copy(ctx, f.context[:])
		prm.QPCState.Put(ctx, f.present())
		return c.outbox(b)
	}
	if q := c.qp(c.mod); q != nil {
		a, err := q.face.Query()
		if err != nil {
			return statusOf(err)
		}
		q.follow(&a)
		copy(ctx, q.context[:])
		prm.QPCState.Put(ctx, qpStates[a.State])
		prm.QPCNumber.Put(ctx, uint64(q.num))
		prm.QPCSendPSN.Put(ctx, uint64(a.SQPSN))
		prm.QPCRecvPSN.Put(ctx, uint64(a.RQPSN))
		prm.QPCMigration.Put(ctx, uint64(slices.Index(migrations[:], a.APM)))
	} else if c.mod >= 1<<c.layout.logQPs {
		return prm.BadIndex
	}
	return c.outbox(b)
}

// updateQP changes parts of a context that the model does not use, such as loopback checks.
func (c *command) updateQP() prm.Status {
	if c.qp(c.mod) == nil && c.frameQP(c.mod) == nil {
		return prm.BadQPState
	}
	return prm.OK
}

// number returns the number of the QP that is being made, for rvt.Ops.
func (m *Model) number(c ci.QPCreate) (ci.QPN, error) {
	q, ok := c.Context.(*qp)
	if !ok {
		return 0, ci.InvalidParameter
	}
	return ci.QPN(q.num), nil
}

// bigEndian is the byte order of everything that the driver and the adapter share.
var bigEndian = binary.BigEndian
