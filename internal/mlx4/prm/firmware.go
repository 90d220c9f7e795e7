package prm

// Mailbox of QUERY_FW.
var (
	queryFW = newLayout("QUERY_FW", 0x100, "linux fw.c, mlx4_QUERY_FW")

	FWPages           = queryFW.u16(0x00, "fw_pages")
	FWMajor           = queryFW.u16(0x02, "fw_rev_major")
	FWSubMinor        = queryFW.u16(0x04, "fw_rev_subminor")
	FWMinor           = queryFW.u16(0x06, "fw_rev_minor")
	FWFunction        = queryFW.u8(0x09, "ppf_id")
	FWCommandRevision = queryFW.u16(0x0a, "cmd_interface_rev")
	FWLogCommands     = queryFW.u8(0x0f, "log_max_cmds")
	FWErrorBuffer     = queryFW.u64(0x30, "err_buf_offset")
	FWErrorSize       = queryFW.u32(0x38, "err_buf_size")
	FWErrorBAR        = queryFW.byteBits(0x3c, 7, 6, "err_buf_bar")
	FWClearInterrupt  = queryFW.u64(0x20, "clr_int_offset")
	FWClearBAR        = queryFW.byteBits(0x28, 7, 6, "clr_int_bar")
	FWCommOffset      = queryFW.u64(0x40, "comm_offset")
	FWCommBAR         = queryFW.byteBits(0x48, 7, 6, "comm_bar")
	FWClockOffset     = queryFW.u64(0x50, "clock_offset")
	FWClockBAR        = queryFW.byteBits(0x58, 7, 6, "clock_bar")
)

// Mailbox of QUERY_DEV_CAP.
var (
	devCap = newLayout("QUERY_DEV_CAP", 0x100, "linux fw.c, mlx4_QUERY_DEV_CAP")

	CapLogMaxSRQSize    = devCap.u8(0x10, "log_max_srq_sz")
	CapLogMaxQPSize     = devCap.u8(0x11, "log_max_qp_sz")
	CapLogReservedQPs   = devCap.byteBits(0x12, 3, 0, "log_rsvd_qps")
	CapLogMaxQPs        = devCap.byteBits(0x13, 4, 0, "log_max_qps")
	CapLogReservedSRQs  = devCap.byteBits(0x14, 7, 4, "log_rsvd_srqs")
	CapLogMaxSRQs       = devCap.byteBits(0x15, 4, 0, "log_max_srqs")
	CapLogMaxCQSize     = devCap.u8(0x19, "log_max_cq_sz")
	CapLogReservedCQs   = devCap.byteBits(0x1a, 3, 0, "log_rsvd_cqs")
	CapLogMaxCQs        = devCap.byteBits(0x1b, 4, 0, "log_max_cqs")
	CapLogMaxMPTs       = devCap.byteBits(0x1d, 5, 0, "log_max_mpts")
	CapLogReservedEQs   = devCap.byteBits(0x1e, 3, 0, "log_rsvd_eqs")
	CapLogMaxEQs        = devCap.byteBits(0x1f, 3, 0, "log_max_eqs")
	CapLogReservedMTTs  = devCap.byteBits(0x20, 7, 4, "log_rsvd_mtts")
	CapLogMaxMRSize     = devCap.u8(0x21, "log_max_mrw_sz")
	CapLogReservedMRWs  = devCap.byteBits(0x22, 3, 0, "log_rsvd_mrws")
	CapSystemEQs        = devCap.field(0x26, 2, 11, 0, "num_sys_eqs")
	CapLogInitDepth     = devCap.byteBits(0x29, 5, 0, "log_max_req_per_qp")
	CapLogRespDepth     = devCap.byteBits(0x2b, 5, 0, "log_max_res_per_qp")
	CapLogMaxGSO        = devCap.byteBits(0x2d, 4, 0, "log_max_gso_sz")
	CapRSSXOR           = devCap.byteBits(0x2e, 5, 5, "rss.xor")
	CapRSSToeplitz      = devCap.byteBits(0x2e, 4, 4, "rss.toeplitz")
	CapLogRSSTable      = devCap.byteBits(0x2e, 3, 0, "rss.log_max_tbl_sz")
	CapLogRDMAResources = devCap.byteBits(0x2f, 5, 0, "log_max_rdma_glbl_res")
	CapResizeSRQ        = devCap.byteBits(0x33, 0, 0, "resize_srq")
	CapAckDelay         = devCap.byteBits(0x35, 4, 0, "local_ca_ack_delay")
	CapOldMTUWidth      = devCap.u8(0x36, "old_mtu_width")
	CapOldVLs           = devCap.byteBits(0x37, 7, 4, "old_max_vl")
	CapNumPorts         = devCap.byteBits(0x37, 3, 0, "num_ports")
	CapLogMaxMessage    = devCap.byteBits(0x38, 4, 0, "log_max_msg_sz")
	CapLogGIDs          = devCap.byteBits(0x3b, 3, 0, "old_log_max_gids")
	CapRates            = devCap.u16(0x3c, "stat_rate_support")
	CapTimestamps       = devCap.byteBits(0x3e, 7, 7, "cqe_timestamp")
	CapLogPKeys         = devCap.byteBits(0x3f, 3, 0, "old_log_max_pkeys")
	CapFlags            = devCap.u64(0x40, "flags")
	CapReservedUARs     = devCap.byteBits(0x48, 7, 4, "rsvd_uars")
	CapUARSize          = devCap.byteBits(0x49, 5, 0, "log_uar_sz") // in units of 1 MiB
	CapLogMinPage       = devCap.u8(0x4b, "log_min_page_sz")
	CapBlueFlame        = devCap.byteBits(0x4c, 7, 7, "bf")
	CapLogBFSize        = devCap.byteBits(0x4d, 4, 0, "log_bf_reg_sz")
	CapLogBFPerPage     = devCap.byteBits(0x4e, 5, 0, "log_bf_regs_per_page")
	CapMaxSendSGE       = devCap.u8(0x51, "max_sg_sq")
	CapMaxSendDesc      = devCap.u16(0x52, "max_desc_sz_sq")
	CapMaxRecvSGE       = devCap.u8(0x55, "max_sg_rq")
	CapMaxRecvDesc      = devCap.u16(0x56, "max_desc_sz_rq")
	CapLogMcastQPs      = devCap.u8(0x61, "log_max_qp_mcg")
	CapReservedMGMs     = devCap.byteBits(0x62, 3, 0, "rsvd_mgms")
	CapLogMCGs          = devCap.u8(0x63, "log_max_mcg")
	CapReservedPDs      = devCap.byteBits(0x64, 7, 4, "rsvd_pds")
	CapLogMaxPDs        = devCap.byteBits(0x65, 5, 0, "log_max_pds")
	CapReservedXRCDs    = devCap.byteBits(0x66, 7, 4, "rsvd_xrcds")
	CapLogMaxXRCDs      = devCap.byteBits(0x67, 4, 0, "log_max_xrcds")
	CapMaxCounters      = devCap.u32(0x68, "max_counters")
	CapExtFlags2        = devCap.u32(0x70, "ext_2_flags")
	CapSteeringMode     = devCap.u8(0x76, "flow_steering")
	CapSizeRDMARC       = devCap.u16(0x80, "rdmarc_entry_sz")
	CapSizeQPC          = devCap.u16(0x82, "qpc_entry_sz")
	CapSizeAUXC         = devCap.u16(0x84, "auxc_entry_sz")
	CapSizeALTC         = devCap.u16(0x86, "altc_entry_sz")
	CapSizeEQC          = devCap.u16(0x88, "eqc_entry_sz")
	CapSizeCQC          = devCap.u16(0x8a, "cqc_entry_sz")
	CapSizeSRQC         = devCap.u16(0x8c, "srqc_entry_sz")
	CapSizeCMPT         = devCap.u16(0x8e, "c_mpt_entry_sz")
	CapSizeMTT          = devCap.u16(0x90, "mtt_entry_sz")
	CapSizeDMPT         = devCap.u16(0x92, "d_mpt_entry_sz")
	CapBMMEFlags        = devCap.u32(0x94, "bmme_flags")
	CapReservedLKey     = devCap.u32(0x98, "reserved_lkey")
	CapMaxICM           = devCap.u64(0xa0, "max_icm_sz")
	CapMADDemux         = devCap.bits(0xb0, 0, 0, "mad_demux")
)

// Bits of CapFlags (linux include/linux/mlx4/device.h, MLX4_DEV_CAP_FLAG_*).
const (
	FlagRC             = 0
	FlagUC             = 1
	FlagUD             = 2
	FlagXRC            = 3
	FlagSRQ            = 6
	FlagIPoIBChecksum  = 7
	FlagBadPKeyCount   = 8
	FlagBadQKeyCount   = 9
	FlagDualPort       = 12
	FlagBigLSO         = 15
	FlagMemoryWindows  = 16
	FlagAPM            = 17
	FlagAtomic         = 18
	FlagRawMulticast   = 19
	FlagUDAVPort       = 20
	FlagUDMulticast    = 21
	FlagIBoE           = 30
	FlagUCLoopback     = 32
	FlagUDPRSS         = 40
	FlagVEPUnicast     = 41
	FlagVEPMulticast   = 42
	FlagCounters       = 48
	FlagSensePort      = 55
	FlagPortManagement = 59
	FlagEQE64          = 61
	FlagCQE64          = 62
)

// Bits of CapBMMEFlags.
const (
	BMMEWindow2B         = 1
	BMMELocalInvalidate  = 6
	BMMERemoteInvalidate = 7
	BMMEWindow2          = 9
	BMMEReservedLKey     = 10
	BMMEFastRegister     = 11
	BMMERoCE12           = 19
	BMMEConfigDev        = 29
)

// Mailbox of QUERY_ADAPTER.
var (
	queryAdapter = newLayout("QUERY_ADAPTER", 0x100, "linux fw.c, mlx4_QUERY_ADAPTER")

	AdapterINTA = queryAdapter.u8(0x10, "inta_pin")
)

// The board ID in the mailbox of QUERY_ADAPTER: 16 characters, with the bytes of each dword reversed.
const (
	AdapterBoardID     = 0xf0 // vendor data at 0x20, and 0xd0 in it
	AdapterBoardIDSize = 16
)

// PageEntry is an element of the page lists of MAP_FA, MAP_ICM and MAP_ICM_AUX.
var (
	pageEntry = newLayout("page list entry", 16, "linux fw.c, mlx4_map_cmd")

	PageVirtual  = pageEntry.u64(0x00, "va")
	PagePhysical = pageEntry.field(0x08, 8, 63, 12, "pa") // in pages
	PageLogCount = pageEntry.field(0x08, 8, 4, 0, "log_npages")
)

// Mailbox of MOD_STAT_CFG.
var (
	modStatCfg = newUnion("MOD_STAT_CFG", 0x20, "linux fw.c, mlx4_MOD_STAT_CFG, mlx4_get_phys_port_id")

	StatCfgPageSizeMask = modStatCfg.u8(0x02, "log_pg_sz_m")
	StatCfgLogPageSize  = modStatCfg.u8(0x03, "log_pg_sz")
	StatCfgGUIDHigh     = modStatCfg.u32(0x14, "port_guid.hi")
	StatCfgGUIDLow      = modStatCfg.u32(0x1c, "port_guid.lo")
)

// Mailbox of CONFIG_DEV.
var (
	configDev = newLayout("CONFIG_DEV", 0x80, "linux fw.c, struct mlx4_config_dev")

	ConfigDevUpdate    = configDev.u32(0x00, "update_flags")
	ConfigDevVXLANPort = configDev.u16(0x10, "vxlan_udp_dport")
	ConfigDevEntropy   = configDev.u16(0x14, "roce_v2_entropy")
	ConfigDevRoCEPort  = configDev.u16(0x16, "roce_v2_udp_dport")
	ConfigDevRoCEFlags = configDev.u32(0x18, "roce_flags")
)
