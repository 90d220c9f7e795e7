package prm

// The context of an SRQ.
var (
	srqc = newLayout("SRQ context", 0x30, "linux srq.c, mlx4_srq_context")

	SRQCState      = srqc.bits(0x00, 31, 28, "state")
	SRQCLogSize    = srqc.bits(0x00, 27, 24, "log_size")
	SRQCNumber     = srqc.bits(0x00, 23, 0, "srqn")
	SRQCLogStride  = srqc.byteBits(0x04, 2, 0, "log_stride") // less 4
	SRQCXRCD       = srqc.u16(0x06, "xrcd")
	SRQCPageOffset = srqc.bits(0x08, 31, 26, "page_offset")
	SRQCCQN        = srqc.bits(0x08, 23, 0, "cqn")
	SRQCLogPage    = srqc.byteBits(0x10, 5, 0, "log_page_size")
	SRQCMTTHigh    = srqc.u8(0x13, "mtt_base_addr.hi")
	SRQCMTTLow     = srqc.u32(0x14, "mtt_base_addr.lo")
	SRQCPD         = srqc.bits(0x18, 23, 0, "pd")
	SRQCLimit      = srqc.u16(0x1c, "limit_watermark")
	SRQCPosted     = srqc.u16(0x1e, "wqe_cnt")
	SRQCCounter    = srqc.u16(0x22, "wqe_counter")
	SRQCDoorbell   = srqc.u64(0x28, "db_rec_addr")
)

// The segment in front of each SRQ WQE.
var (
	nextSegment = newLayout("SRQ next segment", 16, "linux ib srq.c; include/linux/mlx4/srq.h")

	NextIndex = nextSegment.u16(0x02, "next_wqe_index")
)

// The doorbell record of a receive queue.
var (
	rqRecord = newLayout("RQ doorbell record", 4, "linux ib qp.c, srq.c")

	RQRecordCounter = rqRecord.field(0, 4, 15, 0, "producer")
)
