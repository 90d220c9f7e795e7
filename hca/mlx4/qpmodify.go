package mlx4

import (
	"math/bits"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
)

// A transition is a change of state.
type transition struct{ from, to ci.QPState }

// commands are those of the transitions but for those to Reset and Error, which every state has.
var commands = map[transition]prm.Opcode{
	{ci.QPReset, ci.QPInit}:  prm.CmdRST2INIT,
	{ci.QPInit, ci.QPInit}:   prm.CmdINIT2INIT,
	{ci.QPInit, ci.QPRTR}:    prm.CmdINIT2RTR,
	{ci.QPRTR, ci.QPRTS}:     prm.CmdRTR2RTS,
	{ci.QPRTS, ci.QPRTS}:     prm.CmdRTS2RTS,
	{ci.QPRTS, ci.QPSQD}:     prm.CmdRTS2SQD,
	{ci.QPSQD, ci.QPSQD}:     prm.CmdSQD2SQD,
	{ci.QPSQD, ci.QPRTS}:     prm.CmdSQD2RTS,
	{ci.QPSQError, ci.QPRTS}: prm.CmdSQERR2RTS,
}

// Modify changes state and attributes. After an error nothing has changed. Status: InvalidQPState, Unsupported,
// InvalidParameter, InvalidPort, InvalidPKey, InvalidQPHandle, InvalidState.
func (q *qp) Modify(set ci.QPField, a ci.QPAttr) error {
	const verb = "QP.Modify"
	if set&ci.QPFieldState != 0 && a.State == ci.QPReset {
		q.stopPosts()
		defer q.resumePosts()
	}
	q.modify.Lock()
	defer q.modify.Unlock()
	if !q.refs.Alive() {
		return fail(verb, ci.InvalidQPHandle, "")
	}
	from, err := q.current()
	if err != nil {
		return firmwareError(verb, err)
	}
	service := q.create.Type
	if q.num < 2 {
		service = ci.QP0
	}
	to, err := driver.CheckModify(service, q.hca.claims, from, set, &a)
	if err != nil {
		return err
	}
	base, given := from, set&^ci.QPFieldState
	if from == ci.QPSQDraining {
		base = ci.QPSQD
	}
	if err := q.checkRanges(verb, given, &a, base); err != nil {
		return err
	}
	if err := q.checkMigration(verb, given, &a); err != nil {
		return err
	}
	if err := q.change(verb, base, to, given, &a); err != nil {
		return err
	}
	nothing(a.User)
	return nil
}

// change executes a transition that has been checked.
func (q *qp) change(verb string, from, to ci.QPState, given ci.QPField, a *ci.QPAttr) error {
	if to == ci.QPReset {
		return q.reset(verb, from)
	}
	next := q.attr
	apply(&next, given, a)
	next.State = to
	if from == ci.QPReset && to == ci.QPError {
		return q.resetToError(verb, &next)
	}
	op, ok := commands[transition{from, to}]
	if !ok {
		op = prm.Cmd2ERR
	}
	q.expectEvents(to, given, a)
	if err := q.execute(op, given, &next, a.SQDEvent && given&ci.QPFieldSQDEvent != 0); err != nil {
		q.drained.forget()
		return firmwareError(verb, err)
	}
	if given&ci.QPFieldAPM != 0 && a.APM == ci.APMMigrated {
		migrate(&next)
	}
	q.enter(&next)
	return nil
}

// expectEvents records the events that follow a change, before the adapter can report them.
func (q *qp) expectEvents(to ci.QPState, given ci.QPField, a *ci.QPAttr) {
	switch to {
	case ci.QPInit:
		q.lastWQE.expect()
	case ci.QPSQD:
		if given&ci.QPFieldSQDEvent != 0 && a.SQDEvent {
			q.drained.expect()
		}
	default:
		q.drained.forget()
	}
	if given&ci.QPFieldAPM != 0 {
		q.migrated.expect()
	}
}

// enter stores what a command has set.
func (q *qp) enter(next *ci.QPAttr) {
	q.attr = *next
	p := q.port()
	q.onPort.Store(int32(p.num))
	q.onEthernet.Store(p.isEthernet())
	q.setState(next.State)
}

// reset takes the QP to Reset. Posts are stopped.
func (q *qp) reset(verb string, from ci.QPState) error {
	if from != ci.QPReset {
		if err := q.hca.release(prm.Cmd2RST, fw.Args{Modifier: q.hw, OpModifier: 2}); err != nil {
			return firmwareError(verb, err)
		}
	}
	q.settle()
	q.setState(ci.QPReset)
	q.attr = ci.QPAttr{Port: q.attr.Port, APM: ci.APMMigrated}
	if q.num >= 2 {
		q.attr.Port = 1
	}
	if q.user != nil {
		return nil // the library empties the queues
	}
	q.sq.Reset()
	if q.rq != nil {
		q.rq.Reset()
	}
	return nil
}

// resetToError takes a QP from Reset to Error. The adapter knows no QP in Reset, so that it enters Init first.
func (q *qp) resetToError(verb string, next *ci.QPAttr) error {
	init := *next
	init.State = ci.QPInit
	if err := q.execute(prm.CmdRST2INIT, 0, &init, false); err != nil {
		return firmwareError(verb, err)
	}
	if err := q.execute(prm.Cmd2ERR, 0, next, false); err != nil {
		// The first error is the one to return. If this fails, too, the adapter has failed.
		_ = q.hca.release(prm.Cmd2RST, fw.Args{Modifier: q.hw, OpModifier: 2})
		return firmwareError(verb, err)
	}
	q.enter(next)
	return nil
}

// execute executes a command with the context of the attributes.
func (q *qp) execute(op prm.Opcode, given ci.QPField, a *ci.QPAttr, sqdEvent bool) error {
	b := make([]byte, prm.QPContext.Layout.Size)
	prm.QPOptionalMask.Put(b, optionalMask(given))
	q.encode(b[prm.QPContext.Off:prm.QPContext.Off+prm.QPContextSize], a)
	if given&ci.QPFieldAPM != 0 {
		prm.QPCMigration.Put(b[prm.QPContext.Off:], hwMigrations[a.APM])
	}
	modifier := q.hw
	if sqdEvent {
		modifier |= prm.QPSQDEvent
	}
	return q.hca.cmd(op, fw.Args{In: b, Modifier: modifier})
}

// optionalMask returns the mask of attributes. Rights follow from RespRes, too.
func optionalMask(given ci.QPField) (mask uint64) {
	const rights = prm.OptRemoteRead | prm.OptRemoteWrite | prm.OptRemoteAtomic
	for _, e := range []struct {
		f    ci.QPField
		bits uint64
	}{{ci.QPFieldAccess, rights}, {ci.QPFieldRespRes, rights | prm.OptRespDepth},
		{ci.QPFieldPKeyIndex, prm.OptPKeyIndex}, {ci.QPFieldQKey, prm.OptQKey},
		{ci.QPFieldMinRNRTimer, prm.OptRNRTimeout}, {ci.QPFieldPrimary, prm.OptPrimary | prm.OptSchedule},
		{ci.QPFieldInitDepth, prm.OptInitDepth}, {ci.QPFieldRetryCount, prm.OptRetryCount},
		{ci.QPFieldRNRRetry, prm.OptRNRRetry}, {ci.QPFieldAckTimeout, prm.OptAckTimeout},
		{ci.QPFieldPort, prm.OptSchedule}, {ci.QPFieldAlternate, prm.OptAlternate},
		{ci.QPFieldAPM, prm.OptMigration}} {
		if given&e.f != 0 {
			mask |= e.bits
		}
	}
	return mask
}

// current returns the state in the adapter, which enters Error and SQError by itself, and follows a migration.
func (q *qp) current() (ci.QPState, error) {
	if q.attr.State == ci.QPReset {
		return ci.QPReset, nil
	}
	ctx, err := q.query()
	if err != nil {
		return 0, err
	}
	q.follow(ctx)
	return states[prm.QPCState.Get(ctx)&7], nil
}

// query returns the context in the adapter.
func (q *qp) query() ([]byte, error) {
	b := make([]byte, prm.QPContext.Layout.Size)
	if err := q.hca.cmd(prm.CmdQueryQP, fw.Args{Out: b, Modifier: q.hw}); err != nil {
		return nil, err
	}
	return b[prm.QPContext.Off:], nil
}

var states = [8]ci.QPState{prm.QPReset: ci.QPReset, prm.QPInit: ci.QPInit, prm.QPRTR: ci.QPRTR, prm.QPRTS: ci.QPRTS,
	prm.QPSQError: ci.QPSQError, prm.QPSQD: ci.QPSQD, prm.QPError: ci.QPError, prm.QPSQDraining: ci.QPSQDraining}

// Query returns the attributes. Status: InvalidQPHandle, InvalidState.
func (q *qp) Query() (ci.QPAttr, error) {
	const verb = "QP.Query"
	q.modify.Lock()
	defer q.modify.Unlock()
	if !q.refs.Alive() {
		return ci.QPAttr{}, fail(verb, ci.InvalidQPHandle, "")
	}
	a := q.attr
	if a.State != ci.QPReset {
		ctx, err := q.query()
		if err != nil {
			return ci.QPAttr{}, firmwareError(verb, err)
		}
		q.follow(ctx)
		a = q.attr
		a.State = states[prm.QPCState.Get(ctx)&7]
		if !q.isDatagram() {
			if a.State >= ci.QPRTS {
				a.SQPSN = ci.PSN(prm.QPCSendPSN.Get(ctx))
			}
			if a.State >= ci.QPRTR {
				a.RQPSN = ci.PSN(prm.QPCRecvPSN.Get(ctx))
			}
		}
	}
	a.CurrentState = a.State
	c := &q.create
	a.QPCaps, a.Type, a.Flags = c.QPCaps, c.Type, c.Flags
	a.Num, a.PD = q.num, q.pd
	a.SendCQ, a.RecvCQ, a.SRQ = c.SendCQ, c.RecvCQ, c.SRQ
	return a, nil
}

// encode writes a context with the attributes.
func (q *qp) encode(ctx []byte, a *ci.QPAttr) {
	h, l := q.hca, &q.layout
	p := h.port(max(a.Port, 1))
	put := func(f prm.Field, v uint64) { f.Put(ctx, v) }
	put(prm.QPCState, hwStates[a.State])
	put(prm.QPCService, uint64(q.service))
	put(prm.QPCMigration, prm.MigrationMigrated)
	put(prm.QPCPD, uint64(q.pd.num))
	mtu, message := a.MTU, uint64(bits.Len64(h.caps.MaxMessage)-1)
	if q.isDatagram() {
		mtu, message = ci.MTU4096, 12
	}
	if a := h.claims; q.create.Type == ci.UD && a.Has(ci.CapLSO) {
		message = uint64(bits.Len64(h.caps.MaxLSO) - 1)
	}
	put(prm.QPCMTU, uint64(mtu))
	put(prm.QPCLogMessage, message)
	put(prm.QPCLogSendSize, uint64(l.sendLog))
	put(prm.QPCLogSendStride, uint64(l.sendShift)-4)
	if l.hasRecv {
		put(prm.QPCLogRecvSize, uint64(l.recvLog))
		put(prm.QPCLogRecvStride, uint64(l.recvShift)-4)
		put(prm.QPCDoorbell, q.record.IOVA)
	} else {
		put(prm.QPCLogRecvSize, prm.QPNoRecv)
	}
	put(prm.QPCUAR, uint64(q.uar().Index()))
	put(prm.QPCNumber, uint64(q.hw))
	put(prm.QPCRemote, uint64(a.DestNum))
	put(prm.QPCSendCQN, uint64(q.send.num))
	put(prm.QPCRecvCQN, uint64(q.recv.num))
	put(prm.QPCMTTHigh, q.memory.MTT.Offset()>>32)
	put(prm.QPCMTTLow, q.memory.MTT.Offset()&0xffffffff)
	put(prm.QPCSendPSN, uint64(a.SQPSN))
	put(prm.QPCRecvPSN, uint64(a.RQPSN))
	put(prm.QPCQKey, uint64(a.QKey))
	put(prm.QPCRetryCount, uint64(a.RetryCount))
	put(prm.QPCRNRRetry, uint64(a.RNRRetry))
	put(prm.QPCMinRNR, uint64(a.MinRNRTimer))
	put(prm.QPCInitDepth, uint64(bits.Len8(max(a.InitDepth, 1))-1)) // rounded down: the peer has no more
	put(prm.QPCRespDepth, uint64(logOf(int(a.RespRes))))
	if q.user == nil { // a process must not name memory by addresses (linux ib qp.c, __mlx4_ib_modify_qp)
		put(prm.QPCFastReg, 1)
	}
	if q.srq != nil {
		put(prm.QPCHasSRQ, 1)
		put(prm.QPCUsesSRQ, 1)
		put(prm.QPCSRQN, uint64(q.srq.num))
	}
	// Without resources for them, reads and atomics are denied (linux ib qp.c, to_mlx4_access_flags).
	hasRes := a.RespRes > 0
	for _, e := range []struct {
		f  prm.Field
		on bool
	}{{prm.QPCRemoteWrite, a.Access&ci.RemoteWrite != 0}, {prm.QPCRemoteRead, hasRes && a.Access&ci.RemoteRead != 0},
		{prm.QPCRemoteAtomic, hasRes && a.Access&ci.RemoteAtomic != 0}} {
		if e.on {
			put(e.f, 1)
		}
	}
	path := prm.QPCPrimary.Bytes(ctx, prm.PathSize)
	p.encodePath(path, &a.Primary, q)
	if alternate := h.port(a.Alternate.AV.Port); alternate != nil {
		alternate.encodePath(prm.QPCAlternate.Bytes(ctx, prm.PathSize), &a.Alternate, q)
	}
	if p.isEthernet() {
		if e, ok := p.gid(a.Primary.AV.GRH.SGIDIndex); ok && e.Type == ci.GIDRoCEv2 {
			put(prm.QPCRoCEMode, roceModeV2)
			put(prm.QPCEntropy, uint64(0xc000|(uint32(a.DestNum)^q.hw)&0x3fff))
		}
	}
}

// roceModeV2 is the value of QPCRoCEMode for RoCE v2 (linux include/linux/mlx4/qp.h, MLX4_QPC_ROCE_MODE_2).
const roceModeV2 = 2

var hwStates = [...]uint64{ci.QPReset: prm.QPReset, ci.QPInit: prm.QPInit, ci.QPRTR: prm.QPRTR, ci.QPRTS: prm.QPRTS,
	ci.QPSQD: prm.QPSQD, ci.QPSQDraining: prm.QPSQDraining, ci.QPSQError: prm.QPSQError, ci.QPError: prm.QPError}

// Bits of PathSchedule (linux ib qp.c, MLX4_IB_DEFAULT_SCHED_QUEUE and MLX4_IB_DEFAULT_QP0_SCHED_QUEUE).
const (
	scheduleDefault = 0x83
	scheduleQP0     = 0x3f
)

// encodePath writes a path of a QP.
func (p *port) encodePath(b []byte, x *ci.Path, q *qp) {
	a := &x.AV
	prm.PathPKeyIndex.Put(b, uint64(x.PKeyIndex))
	prm.PathAckTimeout.Put(b, uint64(x.AckTimeout))
	prm.PathCounter.Put(b, 0xff)
	schedule := uint64(scheduleDefault)
	switch {
	case p.isEthernet():
		schedule |= uint64(a.SL&7) << 3
		prm.PathLinkType.Put(b, prm.PathLinkEthernet)
	case q.num == 0:
		schedule = scheduleQP0
	default:
		schedule |= uint64(a.SL&15) << 2
	}
	prm.PathSchedule.Put(b, schedule|uint64(p.num-1)<<6)
	if q.isDatagram() {
		return
	}
	prm.PathRemoteLID.Put(b, uint64(a.DLID))
	prm.PathBits.Put(b, uint64(a.PathBits))
	prm.PathRate.Put(b, queue.RateCode(a.StaticRate))
	if p.isEthernet() {
		prm.PathRemoteLID.Put(b, 0)
		prm.PathBits.Put(b, 0) // the index of the source MAC
		if mac, err := p.resolve(a); err == nil {
			copy(b[prm.PathMAC.Off+2:], mac[:])
		}
	}
	if a.Global || p.isEthernet() {
		prm.PathGRH.Put(b, 1)
		prm.PathGIDIndex.Put(b, uint64(a.GRH.SGIDIndex))
		prm.PathHopLimit.Put(b, uint64(a.GRH.HopLimit))
		prm.PathClass.Put(b, uint64(a.GRH.TrafficClass))
		prm.PathFlowLabel.Put(b, uint64(a.GRH.FlowLabel))
		copy(prm.PathGID.Bytes(b, prm.GIDSize), a.GRH.DGID[:])
	}
}
