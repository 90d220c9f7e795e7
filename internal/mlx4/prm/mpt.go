package prm

// A memory protection table entry. The ICM has room for MPTStride bytes each.
var (
	mpt = newLayout("MPT", 0x40, "linux mr.c, mlx4_mpt_entry")

	MPTOwner       = mpt.bits(0x00, 31, 28, "status")
	MPTMemory      = mpt.bits(0x00, 17, 17, "mio")
	MPTBind        = mpt.bits(0x00, 15, 15, "bind_enable")
	MPTAtomic      = mpt.bits(0x00, 14, 14, "atomic")
	MPTRemoteWrite = mpt.bits(0x00, 13, 13, "remote_write")
	MPTRemoteRead  = mpt.bits(0x00, 12, 12, "remote_read")
	MPTLocalWrite  = mpt.bits(0x00, 11, 11, "local_write")
	MPTLocalRead   = mpt.bits(0x00, 10, 10, "local_read")
	MPTPhysical    = mpt.bits(0x00, 9, 9, "physical")
	MPTRegion      = mpt.bits(0x00, 8, 8, "region")
	MPTBoundQPN    = mpt.bits(0x04, 31, 8, "qpn")
	MPTBoundToQP   = mpt.bits(0x04, 7, 7, "bound_to_qp")
	MPTIndex       = mpt.u32(0x08, "key")
	MPTFastReg     = mpt.bits(0x0c, 27, 27, "fast_reg")
	MPTRemoteOn    = mpt.bits(0x0c, 28, 28, "remote_access")
	MPTInvalidate  = mpt.bits(0x0c, 25, 24, "invalidate_enable")
	MPTPD          = mpt.bits(0x0c, 16, 0, "pd")
	MPTStart       = mpt.u64(0x10, "start")
	MPTLength      = mpt.u64(0x18, "length")
	MPTLKey        = mpt.u32(0x20, "lkey")
	MPTWindows     = mpt.u32(0x24, "win_cnt")
	MPTRepeat      = mpt.u8(0x2b, "mtt_rep")
	MPTMTTHigh     = mpt.u32(0x2c, "mtt_addr.hi")
	MPTMTTLow      = mpt.u32(0x30, "mtt_addr.lo")
	MPTMTTCount    = mpt.u32(0x34, "mtt_sz")
	MPTLogPage     = mpt.u32(0x38, "entity_size")
	MPTFirstByte   = mpt.u32(0x3c, "first_byte_offset")
)

// Constants of the layout.
const (
	MPTStride       = 128
	MPTOwnerSW      = uint64(0xf)
	MPTOwnerFree    = uint64(0x3)
	MPTOwnerHW      = uint64(0x0)
	MPTReservedLKey = uint32(0x500)
)

// A memory translation table entry.
var (
	mtt = newLayout("MTT", 8, "linux mr.c, MLX4_MTT_FLAG_PRESENT")

	MTTPage    = mtt.field(0, 8, 63, 3, "page") // in units of 8 bytes
	MTTPresent = mtt.field(0, 8, 0, 0, "present")
)

// Constants of the layout.
const (
	MTTSize = 8
)

// KeyOf returns the key of an MPT index.
func KeyOf(index uint32) uint32 { return index<<8 | index>>24 }

// IndexOf is the reverse of KeyOf.
func IndexOf(key uint32) uint32 { return key>>8 | key<<24 }
