package prm

// A multicast group entry. Its size is that of INIT_HCA; QPNs fill it from MCGQPs on.
var (
	mcg = newLayout("multicast group", 0x20, "linux mcg.c, mlx4_mgm")

	MCGNext     = mcg.bits(0x00, 31, 6, "next_gid_index")
	MCGProtocol = mcg.bits(0x04, 31, 30, "members_count.protocol")
	MCGMembers  = mcg.bits(0x04, 23, 0, "members_count")
	MCGGID      = mcg.u64(0x10, "gid") // 16 bytes
)

// Constants of the layout.
const (
	MCGQPs = 0x20
)

// A member of a multicast group.
var (
	mcgMember = newLayout("multicast group member", 4, "linux mcg.c, MGM_QPN_MASK, MGM_BLCK_LB_BIT")

	MemberQPN           = mcgMember.bits(0, 23, 0, "qpn")
	MemberBlockLoopback = mcgMember.bits(0, 30, 30, "block_lb")
)

// Values of MCGProtocol.
const (
	ProtocolIB   = 0
	ProtocolEth  = 1
	ProtocolIPv4 = 2
	ProtocolFCoE = 3
)
