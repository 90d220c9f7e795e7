package prm

// The counters of DIAG_RPRT. Those of receive queues have the prefix RQ, those of send queues SQ. Errors are named
// after their syndromes.
var (
	diag = newLayout("DIAG_RPRT", 0x1a4, "linux ib main.c, diag_basic, diag_ext, diag_device_only")

	DiagRQLocalLength     = diag.u32(0x00, "rq_num_lle")
	DiagSQLocalLength     = diag.u32(0x04, "sq_num_lle")
	DiagRQLocalQPOp       = diag.u32(0x08, "rq_num_lqpoe")
	DiagSQLocalQPOp       = diag.u32(0x0c, "sq_num_lqpoe")
	DiagRQLocalProtection = diag.u32(0x18, "rq_num_lpe")
	DiagSQLocalProtection = diag.u32(0x1c, "sq_num_lpe")
	DiagRQFlushed         = diag.u32(0x20, "rq_num_wrfe")
	DiagSQFlushed         = diag.u32(0x24, "sq_num_wrfe")
	DiagSQWindowBind      = diag.u32(0x2c, "sq_num_mwbe")
	DiagSQBadResponse     = diag.u32(0x34, "sq_num_bre")
	DiagSQRemoteInvalid   = diag.u32(0x44, "sq_num_rire")
	DiagRQRemoteInvalid   = diag.u32(0x48, "rq_num_rire")
	DiagSQRemoteAccess    = diag.u32(0x4c, "sq_num_rae")
	DiagRQRemoteAccess    = diag.u32(0x50, "rq_num_rae")
	DiagSQRemoteOp        = diag.u32(0x54, "sq_num_roe")
	DiagSQRetryExceeded   = diag.u32(0x5c, "sq_num_tree")
	DiagSQRNRExceeded     = diag.u32(0x64, "sq_num_rree")
	DiagRQRNR             = diag.u32(0x68, "rq_num_rnr")
	DiagSQRNR             = diag.u32(0x6c, "sq_num_rnr")
	DiagRQOutOfSequence   = diag.u32(0x100, "rq_num_oos")
	DiagSQOutOfSequence   = diag.u32(0x104, "sq_num_oos")
	DiagRQDatagramDrops   = diag.u32(0x118, "rq_num_udsdprd")
	DiagRQDuplicates      = diag.u32(0x130, "rq_num_dup")
	DiagSQTimeouts        = diag.u32(0x134, "sq_num_to")
	DiagCQOverflows       = diag.u32(0x1a0, "num_cqovf")
)
