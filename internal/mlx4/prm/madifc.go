package prm

// The mailbox of MAD_IFC, behind the datagram of 256 bytes.
var (
	madInfo = newLayout("MAD_IFC", 0x200, "linux ib mad.c, mlx4_MAD_IFC")

	MADLocalQPN  = madInfo.u32(0x100, "my_qpn")
	MADRemoteQPN = madInfo.u32(0x108, "rqpn")
	MADSL        = madInfo.byteBits(0x10c, 7, 4, "sl")
	MADGRH       = madInfo.byteBits(0x10d, 7, 7, "g")
	MADPathBits  = madInfo.byteBits(0x10d, 6, 0, "path")
	MADPKeyIndex = madInfo.u16(0x112, "pkey")
	MADHeader    = madInfo.u64(0x140, "grh") // 40 bytes
)

// Bits of the opcode modifier of MAD_IFC.
const (
	MADIgnoreMKey = 1 << iota
	MADIgnoreBKey
	MADHasInfo
	MADNetworkView
)
