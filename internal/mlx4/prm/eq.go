package prm

// The context of an EQ.
var (
	eqc = newLayout("EQ context", 0x40, "linux eq.c, mlx4_eq_context")

	EQCStatus     = eqc.bits(0x00, 31, 28, "status")
	EQCCollapsed  = eqc.bits(0x00, 18, 18, "ec")
	EQCIgnoreFull = eqc.bits(0x00, 17, 17, "oi")
	EQCState      = eqc.bits(0x00, 11, 8, "state")
	EQCPageOffset = eqc.u16(0x0a, "page_offset")
	EQCLogSize    = eqc.byteBits(0x0c, 4, 0, "log_eq_size")
	EQCPeriod     = eqc.u8(0x11, "eq_period")
	EQCMaxCount   = eqc.u8(0x13, "eq_max_count")
	EQCVector     = eqc.u8(0x17, "intr")
	EQCLogPage    = eqc.byteBits(0x18, 5, 0, "log_page_size")
	EQCMTTHigh    = eqc.u8(0x1b, "mtt_base_addr.hi")
	EQCMTTLow     = eqc.u32(0x1c, "mtt_base_addr.lo")
	EQCConsumer   = eqc.bits(0x28, 23, 0, "consumer_index")
	EQCProducer   = eqc.bits(0x2c, 23, 0, "producer_index")
)

// Constants of the layout.
const (
	EQUnmap        = uint32(1 << 31) // in the input modifier of MAP_EQ
	EQStatusFailed = uint64(10)      // an entry could not be written
)

// Values of EQCState.
const (
	EQArmed       = 9
	EQFired       = 10
	EQAlwaysArmed = 11
)

// An EQE. With entries of 64 bytes it is the second half.
var (
	eqe = newUnion("EQE", 32, "linux include/linux/mlx4/device.h, mlx4_eqe")

	EQEType      = eqe.u8(0x01, "type")
	EQESubtype   = eqe.u8(0x03, "subtype")
	EQESlave     = eqe.u8(0x1c, "slave_id")
	EQEOwner     = eqe.byteBits(0x1f, 7, 7, "owner")
	EQECQN       = eqe.bits(0x04, 23, 0, "comp.cqn")
	EQEQPN       = eqe.bits(0x04, 23, 0, "qp.qpn")
	EQESRQN      = eqe.bits(0x04, 23, 0, "srq.srqn")
	EQECQErrCQN  = eqe.bits(0x04, 23, 0, "cq_err.cqn")
	EQECQErrSyn  = eqe.u8(0x0f, "cq_err.syndrome")
	EQEToken     = eqe.u16(0x06, "cmd.token")
	EQEStatus    = eqe.u8(0x0f, "cmd.status")
	EQEOutHigh   = eqe.u32(0x10, "cmd.out_param.hi")
	EQEOutLow    = eqe.u32(0x14, "cmd.out_param.lo")
	EQEPort      = eqe.bits(0x0c, 31, 28, "port_change.port")
	EQEMgmtPort  = eqe.u8(0x07, "port_mgmt_change.port")
	EQEMgmtSMLID = eqe.u16(0x08, "port_info.mstr_sm_lid")
	EQEMgmtLID   = eqe.u16(0x0a, "port_info.port_lid")
	EQEMgmtAttr  = eqe.u32(0x0c, "port_info.changed_attr")
	EQEMgmtSMSL  = eqe.byteBits(0x13, 3, 0, "port_info.mstr_sm_sl")
	EQEMgmtGID   = eqe.u64(0x14, "port_info.gid_prefix")
	EQEMgmtBlock = eqe.u32(0x08, "tbl_change_info.block_ptr")
	EQEMgmtMask  = eqe.u32(0x0c, "tbl_change_info.tbl_entries_mask")
)

// Types of events.
const (
	EventCompletion       = 0x00
	EventPathMigrated     = 0x01
	EventCommEstablished  = 0x02
	EventSQDrained        = 0x03
	EventCQError          = 0x04
	EventWQCatastrophic   = 0x05
	EventEECatastrophic   = 0x06
	EventPathMigFailed    = 0x07
	EventLocalCatas       = 0x08
	EventPortChange       = 0x09
	EventCommand          = 0x0a
	EventECC              = 0x0e
	EventEQOverflow       = 0x0f
	EventWQInvalidReq     = 0x10
	EventWQAccess         = 0x11
	EventSRQCatastrophic  = 0x12
	EventSRQLastWQE       = 0x13
	EventSRQLimit         = 0x14
	EventOpRequired       = 0x1a
	EventFatalWarning     = 0x1b
	EventPortMgmtChange   = 0x1d
	EventRecoverableError = 0x3e
)

// Subtypes of EventPortChange.
const (
	PortChangeDown   = 1
	PortChangeActive = 4
)

// Subtypes of EventPortMgmtChange.
const (
	MgmtGUIDInfo  = 0x14
	MgmtPortInfo  = 0x15
	MgmtPKeyTable = 0x16
	MgmtSL2VL     = 0x17
)

// Bits of EQEMgmtAttr.
const (
	MgmtSMLIDChanged = 1 << iota
	MgmtGIDPrefixChanged
	MgmtLIDChanged
	MgmtReregister
	MgmtSMSLChanged
)

// Values of EQECQErrSyn.
const (
	CQErrOverrun = 1
	CQErrAccess  = 2
)
