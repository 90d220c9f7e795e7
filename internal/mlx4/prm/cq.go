package prm

// The context of a CQ.
var (
	cqc = newLayout("CQ context", 0x40, "linux cq.c, mlx4_cq_context")

	CQCStatus     = cqc.bits(0x00, 31, 28, "status")
	CQCTimestamp  = cqc.bits(0x00, 19, 19, "ts")
	CQCCollapsed  = cqc.bits(0x00, 18, 18, "cc")
	CQCIgnoreFull = cqc.bits(0x00, 17, 17, "oi")
	CQCState      = cqc.bits(0x00, 11, 8, "state")
	CQCPageOffset = cqc.u16(0x0a, "page_offset")
	CQCLogSize    = cqc.bits(0x0c, 28, 24, "log_cq_size")
	CQCUAR        = cqc.bits(0x0c, 23, 0, "usr_page")
	CQCPeriod     = cqc.u16(0x10, "cq_period")
	CQCMaxCount   = cqc.u16(0x12, "cq_max_count")
	CQCEQN        = cqc.u8(0x17, "comp_eqn")
	CQCLogPage    = cqc.byteBits(0x18, 5, 0, "log_page_size")
	CQCMTTHigh    = cqc.u8(0x1b, "mtt_base_addr.hi")
	CQCMTTLow     = cqc.u32(0x1c, "mtt_base_addr.lo")
	CQCNotified   = cqc.bits(0x20, 23, 0, "last_notified_index")
	CQCSolicited  = cqc.bits(0x24, 23, 0, "solicit_producer_index")
	CQCConsumer   = cqc.bits(0x28, 23, 0, "consumer_index")
	CQCProducer   = cqc.bits(0x2c, 23, 0, "producer_index")
	CQCDoorbell   = cqc.u64(0x38, "db_rec_addr")
)

// Constants of the layout.
const (
	CQCStatusFull  = uint64(9)
	CQCStatusError = uint64(10)
)

// Values of CQCState.
const (
	CQArmedSolicited = 6
	CQArmed          = 9
	CQFired          = 10
)

// Opcode modifiers of MODIFY_CQ and SW2HW_CQ.
const (
	ModifyCQResize     = 0
	ModifyCQModeration = 1
	SW2HWCQInitialized = 1 // software has filled the buffer
)

// The doorbell record of a CQ.
var (
	cqRecord = newLayout("CQ doorbell record", 8, "linux ib cq.c; libmlx4 cq.c")

	CQRecordConsumer = cqRecord.bits(0, 23, 0, "set_ci")
	CQRecordArm      = cqRecord.u32(4, "arm")
)

// A CQE. With entries of 64 bytes it is the second half.
var (
	cqe = newUnion("CQE", 32, "linux include/linux/mlx4/cq.h, mlx4_cqe, mlx4_err_cqe")

	CQEQPN         = cqe.bits(0x00, 23, 0, "my_qpn")
	CQESVLAN       = cqe.bits(0x00, 30, 30, "svlan_present")
	CQECVLAN       = cqe.bits(0x00, 29, 29, "cvlan_present")
	CQEImmediate   = cqe.u32(0x04, "immed_rss_invalid")
	CQEPKeyIndex   = cqe.bits(0x04, 6, 0, "pkey_index")
	CQEGRH         = cqe.bits(0x08, 31, 31, "g")
	CQEPathBits    = cqe.bits(0x08, 30, 24, "mlpath")
	CQERemoteQPN   = cqe.bits(0x08, 23, 0, "rqpn")
	CQESL          = cqe.field(0x0c, 2, 15, 12, "sl")
	CQEVLAN        = cqe.u16(0x0c, "sl_vid")
	CQERemoteLID   = cqe.u16(0x0e, "rlid")
	CQESourceMAC   = cqe.field(0x0c, 8, 47, 0, "smac")
	CQEFlags       = cqe.u16(0x10, "status")
	CQEIPv6Mask    = cqe.u8(0x12, "ipv6_ext_mask")
	CQEBadFCS      = cqe.u8(0x13, "badfcs_enc")
	CQEByteCount   = cqe.u32(0x14, "byte_cnt")
	CQEWQEIndex    = cqe.u16(0x18, "wqe_index")
	CQEChecksum    = cqe.u16(0x1a, "checksum")
	CQEVendorErr   = cqe.u8(0x1a, "vendor_err_syndrome")
	CQESyndrome    = cqe.u8(0x1b, "syndrome")
	CQEOwner       = cqe.byteBits(0x1f, 7, 7, "owner")
	CQESend        = cqe.byteBits(0x1f, 6, 6, "is_send")
	CQEOpcode      = cqe.byteBits(0x1f, 4, 0, "opcode")
	CQEOwnerOpcode = cqe.u8(0x1f, "owner_sr_opcode")
)

// Constants of the layout.
const (
	CQEFill         = byte(0xcc)     // what SW2HW_CQ fills the buffer with
	CQEIPv4         = uint64(1 << 6) // bits of CQEFlags
	CQEIPv4Fragment = uint64(1 << 7)
	CQEIPv6         = uint64(1 << 8)
	CQEIPv4Options  = uint64(1 << 9)
	CQETCP          = uint64(1 << 10)
	CQEUDP          = uint64(1 << 11)
	CQEIPChecksumOK = uint64(1 << 12)
	CQEL4ChecksumOK = uint64(0xffff) // of CQEChecksum, with CQETCP or CQEUDP and CQEIPChecksumOK
)

// Opcodes of receive completions, and those of both directions.
const (
	CQERecvWriteImm = 0x00
	CQERecvSend     = 0x01
	CQERecvSendImm  = 0x02
	CQERecvSendInv  = 0x03
	CQEOpcodeResize = 0x16
	CQEOpcodeError  = 0x1e
	CQESize         = 32
)

// A Syndrome is the reason of an error CQE.
type Syndrome uint8

// Syndromes.
const (
	SynLocalLength     Syndrome = 0x01
	SynLocalQPOp       Syndrome = 0x02
	SynLocalProtection Syndrome = 0x04
	SynFlushed         Syndrome = 0x05
	SynWindowBind      Syndrome = 0x06
	SynBadResponse     Syndrome = 0x10
	SynLocalAccess     Syndrome = 0x11
	SynRemoteInvalid   Syndrome = 0x12
	SynRemoteAccess    Syndrome = 0x13
	SynRemoteOp        Syndrome = 0x14
	SynRetryExceeded   Syndrome = 0x15
	SynRNRExceeded     Syndrome = 0x16
	SynRemoteAborted   Syndrome = 0x22
)
