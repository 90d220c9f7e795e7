package uverbs

import "math"

// methodID is the numbers of an object type and of a method of it.
type methodID struct{ object, method uint16 }

// The numbers of object types (enum uverbs_default_objects).
const (
	typeDevice     = 0
	typePD         = 1
	typeCQ         = 3
	typeQP         = 4
	typeSRQ        = 5
	typeAH         = 6
	typeMR         = 7
	typeMW         = 8
	typeAsyncEvent = 16
)

// Attributes of driver data.
const (
	attrDriverIn  = 0x1000
	attrDriverOut = 0x1001
)

// Attributes of methods (rdma/ib_user_ioctl_cmds.h).
const (
	attrHandle = 0 // of the methods that create, destroy or query an object

	attrDestroyResp = 1

	attrInfoType  = 0
	attrInfoTotal = 1
	attrInfoList  = 2

	attrPortNum  = 0
	attrPortResp = 1

	attrContextVectors = 0
	attrContextSupport = 1

	attrTableEntrySize = 0
	attrTableFlags     = 1
	attrTableEntries   = 2
	attrTableCount     = 3

	attrEntryPort  = 0
	attrEntryIndex = 1
	attrEntryFlags = 2
	attrEntryResp  = 3

	attrCQSize       = 1
	attrCQUserHandle = 2
	attrCQChannel    = 3
	attrCQVector     = 4
	attrCQFlags      = 5
	attrCQRespSize   = 6

	attrQPPD         = 2
	attrQPSRQ        = 3
	attrQPSendCQ     = 4
	attrQPRecvCQ     = 5
	attrQPUserHandle = 7
	attrQPCap        = 8
	attrQPType       = 9
	attrQPFlags      = 10
	attrQPSource     = 11
	attrQPRespCap    = 13
	attrQPRespNumber = 14

	attrSRQPD         = 1
	attrSRQUserHandle = 4
	attrSRQMaxWR      = 5
	attrSRQMaxSGE     = 6
	attrSRQLimit      = 7
	attrSRQType       = 9
	attrSRQRespMaxWR  = 11
	attrSRQRespMaxSGE = 12

	attrAdvicePD    = 0
	attrAdvice      = 1
	attrAdviceFlags = 2
	attrAdviceList  = 3

	attrQueryMRLKey   = 1
	attrQueryMRRKey   = 2
	attrQueryMRLength = 3
	attrQueryMRIOVA   = 4
)

// Sizes of structures and of elements of lists.
const (
	sizeGIDEntry  = 32
	sizeQPCap     = 20
	sizePortResp  = 48
	sizeAdviceSGE = 16
)

// ioctlMethods declares the methods. Those that are not in the table fail with EPROTONOSUPPORT, and libraries then use
// writes.
var ioctlMethods = map[methodID]*ioctlMethod{
	{typeDevice, 1}: {run: (*File).infoHandles, attrs: map[uint16]attrSpec{attrInfoType: constant(),
		attrInfoTotal: optional(out(4)), attrInfoList: optional(outList(4))}},
	{typeDevice, 2}: {run: (*File).ioctlQueryPort, hasContext: true, attrs: map[uint16]attrSpec{
		attrPortNum: constant(), attrPortResp: outStruct(sizePortResp)}},
	{typeDevice, 3}: {run: (*File).ioctlGetContext, attrs: withDriverData(map[uint16]attrSpec{
		attrContextVectors: optional(out(4)), attrContextSupport: optional(out(8))})},
	{typeDevice, 5}: {run: (*File).queryGIDTable, hasContext: true, attrs: map[uint16]attrSpec{
		attrTableEntrySize: constant(), attrTableFlags: optional(flags()), attrTableEntries: outList(0),
		attrTableCount: out(8)}},
	{typeDevice, 6}: {run: (*File).queryGIDEntry, hasContext: true, attrs: map[uint16]attrSpec{
		attrEntryPort: constant(), attrEntryIndex: constant(), attrEntryFlags: optional(flags()),
		attrEntryResp: outStruct(sizeGIDEntry)}},

	{typePD, 0}:  destroyMethod(kindPD, 0),
	{typeCQ, 1}:  destroyMethod(kindCQ, 8),
	{typeQP, 1}:  destroyMethod(kindQP, 4),
	{typeSRQ, 1}: destroyMethod(kindSRQ, 4),
	{typeAH, 0}:  destroyMethod(kindAH, 0),
	{typeMR, 1}:  destroyMethod(kindMR, 0),
	{typeMW, 0}:  destroyMethod(kindMW, 0),

	{typeCQ, 0}: {run: (*File).ioctlCreateCQ, attrs: withDriverData(map[uint16]attrSpec{attrHandle: {typ: attrNew},
		attrCQSize: in(4), attrCQUserHandle: in(8), attrCQChannel: optional(attrSpec{typ: attrChannel}),
		attrCQVector: in(4), attrCQFlags: optional(flags()), attrCQRespSize: out(4)})},
	{typeQP, 0}: {run: (*File).ioctlCreateQP, attrs: withDriverData(map[uint16]attrSpec{attrHandle: {typ: attrNew},
		attrQPPD: optional(use(kindPD)), attrQPSRQ: optional(use(kindSRQ)), attrQPSendCQ: optional(use(kindCQ)),
		attrQPRecvCQ: optional(use(kindCQ)), attrQPUserHandle: in(8), attrQPCap: inStruct(sizeQPCap),
		attrQPType: constant(), attrQPFlags: optional(flags()), attrQPSource: optional(in(4)),
		attrQPRespCap: outStruct(sizeQPCap), attrQPRespNumber: out(4)})},
	{typeSRQ, 0}: {run: (*File).ioctlCreateSRQ, attrs: withDriverData(map[uint16]attrSpec{attrHandle: {typ: attrNew},
		attrSRQPD: use(kindPD), attrSRQUserHandle: in(8), attrSRQMaxWR: in(4), attrSRQMaxSGE: in(4),
		attrSRQLimit: in(4), attrSRQType: constant(), attrSRQRespMaxWR: out(4), attrSRQRespMaxSGE: out(4)})},

	{typeMR, 2}: {run: (*File).adviseMR, attrs: map[uint16]attrSpec{attrAdvicePD: use(kindPD), attrAdvice: constant(),
		attrAdviceFlags: flags(), attrAdviceList: {typ: attrIn, least: sizeAdviceSGE, most: math.MaxUint16}}},
	{typeMR, 3}: {run: (*File).ioctlQueryMR, attrs: map[uint16]attrSpec{attrHandle: use(kindMR),
		attrQueryMRLKey: out(4), attrQueryMRRKey: out(4), attrQueryMRLength: out(8),
		attrQueryMRIOVA: optional(out(8))}},

	{typeAsyncEvent, 0}: {run: (*File).allocAsyncEvent, hasContext: true,
		attrs: map[uint16]attrSpec{attrHandle: {typ: attrNewFile}}},
}

// in declares a value of n bytes that the program writes.
func in(n int) attrSpec { return attrSpec{typ: attrIn, least: n, most: n} }

// inStruct declares a structure of n bytes, which may become longer.
func inStruct(n int) attrSpec { return attrSpec{typ: attrIn, least: n, most: n, isOpen: true} }

// constant declares a constant.
func constant() attrSpec { return in(8) }

// flags declares flags.
func flags() attrSpec { return attrSpec{typ: attrIn, least: 4, most: 8} }

// out declares a value of n bytes that the command writes.
func out(n int) attrSpec { return attrSpec{typ: attrOut, least: n, most: n} }

// outStruct is out for a structure, which may become longer.
func outStruct(n int) attrSpec { return attrSpec{typ: attrOut, least: n, most: n, isOpen: true} }

// outList declares a value of at least n bytes.
func outList(n int) attrSpec { return attrSpec{typ: attrOut, least: n, most: math.MaxUint16} }

// use declares an object.
func use(k kind) attrSpec { return attrSpec{typ: attrObject, kind: k} }

// optional declares that an attribute may be missing.
func optional(s attrSpec) attrSpec {
	s.isOptional = true
	return s
}

// withDriverData adds the attributes of driver data.
func withDriverData(attrs map[uint16]attrSpec) map[uint16]attrSpec {
	attrs[attrDriverIn] = optional(attrSpec{typ: attrIn, most: math.MaxUint16})
	attrs[attrDriverOut] = optional(outList(0))
	return attrs
}

// destroyMethod declares a method that destroys an object. Its reply has size bytes.
func destroyMethod(k kind, size int) *ioctlMethod {
	attrs := map[uint16]attrSpec{attrHandle: use(k)}
	if size > 0 {
		attrs[attrDestroyResp] = out(size)
	}
	return &ioctlMethod{attrs: attrs, run: func(f *File, c *ioctlCall) error { return f.ioctlDestroy(c, k) }}
}
