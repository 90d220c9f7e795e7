package prm

// Mailbox of the commands that change a QP: a mask of optional parameters, and the context.
var (
	qpMailbox = newLayout("QP mailbox", 0x100, "linux qp.c, __mlx4_qp_modify")

	QPOptionalMask = qpMailbox.u32(0x00, "opt_param_mask")
	QPContext      = qpMailbox.u32(0x08, "context") // QPContextSize bytes
)

// Constants of the layout.
const (
	QPContextSize = 0xf8
)

// The context of a QP.
var (
	qpc = newLayout("QP context", QPContextSize, "linux include/linux/mlx4/qp.h, mlx4_qp_context")

	QPCState         = qpc.bits(0x00, 31, 28, "state")
	QPCService       = qpc.bits(0x00, 23, 16, "st")
	QPCRSS           = qpc.bits(0x00, 13, 13, "rss")
	QPCMigration     = qpc.bits(0x00, 12, 11, "pm_state")
	QPCPD            = qpc.bits(0x04, 23, 0, "pd")
	QPCMTU           = qpc.byteBits(0x08, 7, 5, "mtu")
	QPCLogMessage    = qpc.byteBits(0x08, 4, 0, "msg_max")
	QPCLogRecvSize   = qpc.byteBits(0x09, 7, 3, "log_rq_size")   // QPNoRecv: none
	QPCLogRecvStride = qpc.byteBits(0x09, 2, 0, "log_rq_stride") // less 4
	QPCLogSendSize   = qpc.byteBits(0x0a, 6, 3, "log_sq_size")
	QPCLogSendStride = qpc.byteBits(0x0a, 2, 0, "log_sq_stride") // less 4
	QPCRoCEMode      = qpc.byteBits(0x0b, 7, 6, "roce_mode")
	QPCReservedLKey  = qpc.byteBits(0x0b, 4, 4, "rlkey")
	QPCUAR           = qpc.bits(0x0c, 23, 0, "usr_page")
	QPCNumber        = qpc.bits(0x10, 23, 0, "local_qpn")
	QPCRemote        = qpc.bits(0x14, 23, 0, "remote_qpn")
	QPCPrimary       = qpc.u32(0x18, "pri_path") // PathSize bytes
	QPCAlternate     = qpc.u32(0x44, "alt_path")
	QPCInitDepth     = qpc.bits(0x70, 23, 21, "log_sra_max")
	QPCRetryCount    = qpc.bits(0x70, 18, 16, "retry_count")
	QPCRNRRetry      = qpc.bits(0x70, 15, 13, "rnr_retry")
	QPCFastReg       = qpc.bits(0x70, 11, 11, "fast_reg")
	QPCSendPSN       = qpc.bits(0x78, 23, 0, "next_send_psn")
	QPCSendCQN       = qpc.bits(0x7c, 23, 0, "cqn_send")
	QPCEntropy       = qpc.u16(0x80, "roce_entropy")
	QPCAckedPSN      = qpc.bits(0x88, 23, 0, "last_acked_psn")
	QPCSSN           = qpc.bits(0x8c, 23, 0, "ssn")
	QPCRespDepth     = qpc.bits(0x90, 23, 21, "log_rra_max")
	QPCRemoteRead    = qpc.bits(0x90, 15, 15, "rre")
	QPCRemoteWrite   = qpc.bits(0x90, 14, 14, "rwe")
	QPCRemoteAtomic  = qpc.bits(0x90, 13, 13, "rae")
	QPCUsesSRQ       = qpc.bits(0x90, 4, 4, "ric")
	QPCMinRNR        = qpc.bits(0x94, 28, 24, "min_rnr_nak")
	QPCRecvPSN       = qpc.bits(0x94, 23, 0, "rnr_nextrecvpsn")
	QPCXRCD          = qpc.bits(0x98, 15, 0, "xrcd")
	QPCRecvCQN       = qpc.bits(0x9c, 23, 0, "cqn_recv")
	QPCDoorbell      = qpc.u64(0xa0, "db_rec_addr")
	QPCQKey          = qpc.u32(0xa8, "qkey")
	QPCHasSRQ        = qpc.bits(0xac, 24, 24, "srq")
	QPCSRQN          = qpc.bits(0xac, 23, 0, "srqn")
	QPCMSN           = qpc.bits(0xb0, 23, 0, "msn")
	QPCRecvCounter   = qpc.u16(0xb4, "rq_wqe_counter")
	QPCSendCounter   = qpc.u16(0xb6, "sq_wqe_counter")
	QPCRateLimit     = qpc.u16(0xbc, "rate_limit_params")
	QPCScatterInline = qpc.bits(0xc0, 25, 25, "inline_scatter")
	QPCScatterFCS    = qpc.bits(0xc0, 29, 29, "scatter_fcs")
	QPCKeepVLAN      = qpc.bits(0xc0, 30, 30, "vsd")             // VLAN tags remain in received frames
	QPCLogPage       = qpc.byteBits(0xc8, 5, 0, "log_page_size") // less 12
	QPCMTTHigh       = qpc.u8(0xcb, "mtt_base_addr.hi")
	QPCMTTLow        = qpc.u32(0xcc, "mtt_base_addr.lo")
)

// A path of a QP.
var (
	path = newUnion("QP path", PathSize, "linux include/linux/mlx4/qp.h, mlx4_qp_path")

	PathNoPKeyCheck = path.byteBits(0x02, 6, 6, "disable_pkey_check")
	PathPKeyIndex   = path.byteBits(0x03, 6, 0, "pkey_index")
	PathCounter     = path.u8(0x04, "counter_index")
	PathGRH         = path.byteBits(0x05, 7, 7, "grh")
	PathBits        = path.byteBits(0x05, 6, 0, "mylmc")
	PathRemoteLID   = path.u16(0x06, "rlid")
	PathAckTimeout  = path.byteBits(0x08, 7, 3, "ackto")
	PathLinkType    = path.byteBits(0x08, 2, 0, "link_type")
	PathGIDIndex    = path.byteBits(0x09, 6, 0, "mgid_index")
	PathRate        = path.u8(0x0a, "static_rate")
	PathHopLimit    = path.u8(0x0b, "hop_limit")
	PathClass       = path.bits(0x0c, 27, 20, "tclass")
	PathFlowLabel   = path.bits(0x0c, 19, 0, "flowlabel")
	PathGID         = path.u64(0x10, "rgid") // 16 bytes
	PathSchedule    = path.u8(0x20, "sched_queue")
	PathPort        = path.byteBits(0x20, 6, 6, "port") // less 1
	PathSL          = path.byteBits(0x20, 5, 2, "sl")
	PathVLANIndex   = path.byteBits(0x21, 6, 0, "vlan_index")
	PathForceVLAN   = path.byteBits(0x22, 3, 3, "fvl")
	PathMAC         = path.field(0x24, 8, 47, 0, "dmac")
)

// The RSS context of a parent of receive queues, in its primary path.
var (
	rss = newLayout("RSS context", 0x38, "linux include/linux/mlx4/qp.h, mlx4_rss_context; mlx4_en en_rx.c")

	RSSLogSize    = rss.bits(0x00, 27, 24, "base_qpn.log_size")
	RSSBase       = rss.bits(0x00, 23, 0, "base_qpn")
	RSSDefault    = rss.bits(0x04, 23, 0, "default_qpn")
	RSSFunction   = rss.u8(0x0a, "hash_fn")
	RSSIPv4       = rss.byteBits(0x0b, 5, 5, "flags.ipv4")
	RSSTCPIPv4    = rss.byteBits(0x0b, 4, 4, "flags.tcp_ipv4")
	RSSIPv6       = rss.byteBits(0x0b, 3, 3, "flags.ipv6")
	RSSTCPIPv6    = rss.byteBits(0x0b, 2, 2, "flags.tcp_ipv6")
	RSSUDPIPv4    = rss.byteBits(0x0b, 1, 1, "flags.udp_ipv4")
	RSSUDPIPv6    = rss.byteBits(0x0b, 0, 0, "flags.udp_ipv6")
	RSSKey        = rss.u64(0x0c, "rss_key") // RSSKeySize bytes
	RSSBaseForUDP = rss.bits(0x34, 23, 0, "base_qpn_udp")
)

// Constants of the RSS context.
const (
	RSSOffset   = 0x24 // in the primary path
	RSSKeySize  = 40
	RSSXOR      = 0 // values of RSSFunction
	RSSToeplitz = 1
)

// PathSize is the size of a path.
const PathSize = 0x2c

// PathLinkEthernet is the value of PathLinkType for an Ethernet port.
const PathLinkEthernet = 1

// Values of QPCService.
const (
	ServiceRC  = 0
	ServiceUC  = 1
	ServiceRD  = 2
	ServiceUD  = 3
	ServiceXRC = 6
	ServiceMLX = 7
)

// Values of QPCState.
const (
	QPReset = iota
	QPInit
	QPRTR
	QPRTS
	QPSQError
	QPSQD
	QPError
	QPSQDraining
)

// Values of QPCMigration.
const (
	MigrationArmed    = 0
	MigrationRearm    = 1
	MigrationMigrated = 3
)

// Bits of the mask of optional parameters (linux include/linux/mlx4/qp.h, enum mlx4_qp_optpar).
const (
	OptAlternate = 1 << iota
	OptRemoteRead
	OptRemoteAtomic
	OptRemoteWrite
	OptPKeyIndex
	OptQKey
	OptRNRTimeout
	OptPrimary
	OptInitDepth
	OptRespDepth
	OptMigration
	_
	OptRetryCount
	OptRNRRetry
	OptAckTimeout
	_
	OptSchedule
)

// QPSQDEvent is the bit of the input modifier of RTS2SQD that requests EventSQDrained.
const QPSQDEvent = uint32(1 << 31)

// QPNoRecv is the value of QPCLogRecvSize of a QP without a receive queue.
const QPNoRecv = 31
