package prm

// The counters of DUMP_ETH_STATS. Those of 64 bits are in arrays with one element for each priority, one for frames
// without a VLAN tag, and when sending one for loopback (linux mlx4_en en_port.h, mlx4_en_stat_out_mbox).
const (
	EthStatsSize     = 0xbac
	EthStatsLongSize = 0xb88 // the counters behind it have 32 bits
	EthUntagged      = 8     // index of the element for frames without a VLAN tag

	EthRecvArray = 9 * 8  // size of an array of received frames
	EthSendArray = 10 * 8 // size of an array of sent frames

	EthRecvSizes     = 0x000 // an array for each of EthSizeLimits, for longer frames, and for those over the MTU
	EthRecvBroadcast = 0x2d0
	EthRecvMulticast = 0x318
	EthRecvUnicast   = 0x360
	EthRecvOctets    = 0x3a8 // a triple for each element: with preamble and gap, without, of good frames
	EthRecvFrames    = 0x480 // a triple for each element: frames, those with a tag, reserved
	EthSendSizes     = 0x598
	EthSendBroadcast = 0x8b8
	EthSendMulticast = 0x908
	EthSendUnicast   = 0x958
	EthSendOctets    = 0x9a8
	EthSendFrames    = 0xa98
	EthTriple        = 3 * 8
)

// EthSizeLimits are the longest frames, in octets with the FCS, of the counters by size.
var EthSizeLimits = [...]int{64, 127, 255, 511, 1023, 1518, 1522, 1548}

// Counters of 32 bits of DUMP_ETH_STATS.
var (
	ethStats = newLayout("DUMP_ETH_STATS", EthStatsSize, "linux mlx4_en en_port.h, mlx4_en_stat_out_mbox")

	EthDropped      = ethStats.u32(0xb98, "RDROP")
	EthDropOverflow = ethStats.u32(0xb9c, "RdropOvflw")
	EthDropLength   = ethStats.u32(0xba0, "RdropLength")
	EthGoodFrames   = ethStats.u32(0xba4, "RTOTFRMS")
	EthSendDropped  = ethStats.u32(0xba8, "TDROP")
	EthStatsPort    = ethStatsMod.bits(0, 7, 0, "port")
	EthStatsReset   = ethStatsMod.bits(0, 8, 8, "reset")
	EthStatsFlow    = ethStatsMod.bits(0, 12, 12, "flow_control")
	ethStatsMod     = newLayout("DUMP_ETH_STATS input modifier", 4, "linux mlx4_en en_port.c; mlx4.h")
)
