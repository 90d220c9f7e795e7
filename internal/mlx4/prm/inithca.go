package prm

// Mailbox of INIT_HCA. That of QUERY_HCA has the same layout.
var (
	initHCA = newLayout("INIT_HCA", 0x300, "linux fw.c, mlx4_INIT_HCA, mlx4_QUERY_HCA")

	HCAVersion       = initHCA.u8(0x000, "version")
	HCAGlobalCaps    = initHCA.u32(0x004, "global_caps") // QUERY_HCA only
	HCACoreClock     = initHCA.u32(0x00c, "core_clock")  // QUERY_HCA only; else see HCACacheLine
	HCAFlags         = initHCA.u32(0x014, "flags")
	HCARecoverable   = initHCA.bits(0x018, 31, 31, "recoverable_error")
	HCAQPCBase       = initHCA.field(0x030, 8, 63, 5, "qpc_base") // in units of 32 bytes, as all bases
	HCALogQPs        = initHCA.field(0x030, 8, 4, 0, "log_num_qps")
	HCASRQCBase      = initHCA.field(0x048, 8, 63, 5, "srqc_base")
	HCALogSRQs       = initHCA.field(0x048, 8, 4, 0, "log_num_srqs")
	HCACQCBase       = initHCA.field(0x050, 8, 63, 5, "cqc_base")
	HCALogCQs        = initHCA.field(0x050, 8, 4, 0, "log_num_cqs")
	HCAEQE64         = initHCA.bits(0x058, 29, 29, "eqe_64")
	HCACQE64         = initHCA.bits(0x058, 30, 30, "cqe_64")
	HCALogEQEStride  = initHCA.byteBits(0x05b, 7, 4, "log_eqe_stride")
	HCALogCQEStride  = initHCA.byteBits(0x05b, 3, 0, "log_cqe_stride")
	HCAALTCBase      = initHCA.u64(0x060, "altc_base")
	HCAAUXCBase      = initHCA.u64(0x070, "auxc_base")
	HCAEQCBase       = initHCA.field(0x080, 8, 63, 5, "eqc_base")
	HCALogEQs        = initHCA.field(0x080, 8, 4, 0, "log_num_eqs")
	HCASystemEQs     = initHCA.u16(0x08a, "num_sys_eqs")
	HCARDMARCBase    = initHCA.field(0x090, 8, 63, 5, "rdmarc_base")
	HCALogRDMARC     = initHCA.field(0x090, 8, 4, 0, "log_rd_per_qp")
	HCAMCBase        = initHCA.u64(0x0c0, "mc_base")
	HCALogMCEntry    = initHCA.u8(0x0d3, "log_mc_entry_sz")
	HCALogMCHash     = initHCA.u8(0x0d7, "log_mc_hash_sz")
	HCAUCSteering    = initHCA.byteBits(0x0d8, 3, 3, "uc_steering")
	HCALogMCTable    = initHCA.u8(0x0db, "log_mc_table_sz")
	HCADMPTBase      = initHCA.u64(0x0f0, "dmpt_base")
	HCAWindows       = initHCA.byteBits(0x0f8, 7, 7, "tpt_mw")
	HCALogMPTs       = initHCA.byteBits(0x0fb, 5, 0, "log_mpt_sz")
	HCAMTTBase       = initHCA.u64(0x100, "mtt_base")
	HCACMPTBase      = initHCA.u64(0x108, "cmpt_base")
	HCALogUARs       = initHCA.u8(0x12a, "log_uar_sz")
	HCAUARPageSize   = initHCA.u8(0x12b, "uar_page_sz")
	HCADriverVersion = initHCA.u8(0x140, "driver_version") // 64 bytes of text
)

// Bits of HCAFlags.
const (
	InitCheckUDPort = 0
	InitBigEndian   = 1
	InitQoS         = 2
	InitChecksum    = 3
	InitCounters    = 4
	InitSteering    = 6 // by the device
)

// InitHCAVersion is the version of the mailbox of INIT_HCA.
const InitHCAVersion = 2
