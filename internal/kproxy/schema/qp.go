package schema

import "ciddk/ci"

// QP is a request that names a QP.
type QP struct {
	QP Handle `handle:"qp"`
}

// QPCaps is ci.QPCaps.
type QPCaps struct {
	SendDepth, RecvDepth, SendSGE, RecvSGE, MaxInline int32
}

// NewQPCaps returns the encoded form of sizes. A size beyond 32 bits becomes the largest one.
func NewQPCaps(c ci.QPCaps) QPCaps {
	return QPCaps{SendDepth: Int32(c.SendDepth), RecvDepth: Int32(c.RecvDepth), SendSGE: Int32(c.SendSGE),
		RecvSGE: Int32(c.RecvSGE), MaxInline: Int32(c.MaxInline)}
}

// CI returns the sizes.
func (c QPCaps) CI() ci.QPCaps {
	return ci.QPCaps{SendDepth: int(c.SendDepth), RecvDepth: int(c.RecvDepth), SendSGE: int(c.SendSGE),
		RecvSGE: int(c.RecvSGE), MaxInline: int(c.MaxInline)}
}

// CreateQP creates a QP of every type except the special ones, which exist only in the daemon.
type CreateQP struct {
	PD     Handle `handle:"pd"`
	Token  uint64 // of events, and of completions (ci.WC.Context)
	SendCQ Handle `handle:"cq,optional"`
	RecvCQ Handle `handle:"cq,optional"`
	SRQ    Handle `handle:"srq,optional"`
	Async  Handle `handle:"event queue,optional"`
	Caps   QPCaps
	Type   ci.QPType
	Flags  ci.QPFlags
	Pad    uint16
	User   UserBuffer
}

// CreateQPReply contains the new QP and the sizes granted.
type CreateQPReply struct {
	Handle Handle
	Num    ci.QPN
	Caps   QPCaps
	User   UserBufferReply
}

// QPAttr is ci.QPAttr without objects, which the client knows.
type QPAttr struct {
	Primary, Alternate   Path
	Caps                 QPCaps
	Num, DestNum         ci.QPN
	Access               ci.Access
	QKey                 ci.QKey
	SQPSN, RQPSN         ci.PSN
	Type                 ci.QPType
	Flags                ci.QPFlags
	State, CurrentState  ci.QPState
	Port                 uint8
	MTU                  ci.MTU
	InitDepth, RespRes   uint8
	RetryCount, RNRRetry uint8
	MinRNRTimer          uint8
	APM                  ci.APMState
	SQDEvent             bool
	Pad                  [3]uint8
}

// Path is ci.Path.
type Path struct {
	AV         AVAttr
	PKeyIndex  uint16
	AckTimeout ci.TimeExp
	Pad        uint8
}

// NewQPAttr returns the encoded form of attributes.
func NewQPAttr(a *ci.QPAttr) QPAttr {
	return QPAttr{Primary: newPath(&a.Primary), Alternate: newPath(&a.Alternate), Caps: NewQPCaps(a.QPCaps), Num: a.Num,
		DestNum: a.DestNum, Access: a.Access, QKey: a.QKey, SQPSN: a.SQPSN, RQPSN: a.RQPSN, Type: a.Type,
		Flags: a.Flags,
		State: a.State, CurrentState: a.CurrentState, Port: a.Port, MTU: a.MTU, InitDepth: a.InitDepth,
		RespRes:    a.RespRes,
		RetryCount: a.RetryCount, RNRRetry: a.RNRRetry, MinRNRTimer: a.MinRNRTimer, APM: a.APM, SQDEvent: a.SQDEvent}
}

// CI returns the attributes, without objects.
func (a *QPAttr) CI() ci.QPAttr {
	return ci.QPAttr{Primary: a.Primary.ci(), Alternate: a.Alternate.ci(), QPCaps: a.Caps.CI(), Num: a.Num,
		DestNum: a.DestNum,
		Access:  a.Access, QKey: a.QKey, SQPSN: a.SQPSN, RQPSN: a.RQPSN, Type: a.Type, Flags: a.Flags, State: a.State,
		CurrentState: a.CurrentState, Port: a.Port, MTU: a.MTU, InitDepth: a.InitDepth, RespRes: a.RespRes,
		RetryCount: a.RetryCount, RNRRetry: a.RNRRetry, MinRNRTimer: a.MinRNRTimer, APM: a.APM, SQDEvent: a.SQDEvent}
}

func newPath(p *ci.Path) Path {
	return Path{AV: NewAVAttr(&p.AV), PKeyIndex: p.PKeyIndex, AckTimeout: p.AckTimeout}
}

func (p *Path) ci() ci.Path {
	return ci.Path{AV: p.AV.CI(), PKeyIndex: p.PKeyIndex, AckTimeout: p.AckTimeout}
}

// ModifyQP sets attributes.
type ModifyQP struct {
	QP   Handle `handle:"qp"`
	Set  ci.QPField
	Pad  uint32
	Attr QPAttr
	Pad2 uint32
	User UserBuffer
}

// TimeWait quarantines the QP's number after its destruction.
type TimeWait struct {
	QP       Handle `handle:"qp"`
	Duration int64  // nanoseconds
}

// AttachMcast attaches a QP to a multicast group.
type AttachMcast struct {
	QP   Handle `handle:"qp"`
	GID  ci.GID
	LID  ci.LID
	Pad  uint16
	Pad2 uint32
	User UserBuffer
}

// Int32 returns n, or the nearest number of 32 bits.
func Int32(n int) int32 { return int32(min(max(n, -1<<31), 1<<31-1)) }

// SendHandles are the objects of a send work request as the client's handles. Zero is no object.
type SendHandles struct{ AV, MW, MR Handle }
