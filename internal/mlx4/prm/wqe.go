package prm

// The control segment of a send WQE.
var (
	ctrl = newUnion("control segment", 16, "linux mlx4/qp.h, mlx4_wqe_ctrl_seg, mlx4_wqe_mlx_seg")

	CtrlOwner       = ctrl.bits(0x00, 31, 31, "owner")
	CtrlBigLSO      = ctrl.bits(0x00, 6, 6, "rr")
	CtrlOpcode      = ctrl.bits(0x00, 4, 0, "opcode")
	CtrlBFIndex     = ctrl.bits(0x00, 23, 8, "wqe_index") // BlueFlame only
	CtrlBFQPN       = ctrl.bits(0x04, 31, 8, "qpn")       // BlueFlame only
	CtrlVLAN        = ctrl.u16(0x04, "vlan_tag")
	CtrlInsertCVLAN = ctrl.byteBits(0x06, 6, 6, "ins_cvlan")
	CtrlInsertSVLAN = ctrl.byteBits(0x06, 7, 7, "ins_svlan")
	CtrlFence       = ctrl.byteBits(0x07, 6, 6, "fence")
	CtrlSize        = ctrl.byteBits(0x07, 5, 0, "fence_size") // in units of 16 bytes
	CtrlXRCSRQN     = ctrl.bits(0x08, 31, 8, "xrcrb_flags")
	CtrlStrong      = ctrl.bits(0x08, 7, 7, "so")
	CtrlL4Checksum  = ctrl.bits(0x08, 5, 5, "tcp_udp_csum")
	CtrlIPChecksum  = ctrl.bits(0x08, 4, 4, "ip_csum")
	CtrlCompletion  = ctrl.bits(0x08, 3, 2, "cq_update")
	CtrlSolicited   = ctrl.bits(0x08, 1, 1, "solicited")
	CtrlLoopback    = ctrl.bits(0x08, 0, 0, "force_loopback")
	CtrlImmediate   = ctrl.u32(0x0c, "imm")
	MLXVL15         = ctrl.bits(0x08, 17, 17, "vl15") // in MLX QPs
	MLXSLR          = ctrl.bits(0x08, 16, 16, "slr")
	MLXRate         = ctrl.bits(0x08, 15, 12, "static_rate")
	MLXSL           = ctrl.bits(0x08, 11, 8, "sl")
	MLXICRC         = ctrl.bits(0x08, 4, 4, "icrc")
	MLXRemoteLID    = ctrl.u16(0x0c, "rlid")
)

// Constants of the layout.
const (
	CtrlSegment = 16 // bytes
)

// Opcodes of WQEs.
const (
	WQENop          = 0x00
	WQESendInv      = 0x01
	WQEWrite        = 0x08
	WQEWriteImm     = 0x09
	WQESend         = 0x0a
	WQESendImm      = 0x0b
	WQELSO          = 0x0e
	WQERead         = 0x10
	WQECompareSwap  = 0x11
	WQEFetchAdd     = 0x12
	WQEMaskedCS     = 0x14
	WQEMaskedFA     = 0x15
	WQEBind         = 0x18
	WQEFastRegister = 0x19
	WQELocalInv     = 0x1b
	WQEConfig       = 0x1f
)

// CompletionAlways is the value of CtrlCompletion that asks for a CQE.
const CompletionAlways = 3

// The datagram segment, of which the first 32 bytes are the address vector.
var (
	datagram = newLayout("datagram segment", 48, "linux mlx4/qp.h, mlx4_wqe_datagram_seg; linux ib mlx4_ib.h, mlx4_av")

	AVLoopback      = datagram.bits(0x00, 31, 31, "force_loopback")
	AVPort          = datagram.bits(0x00, 25, 24, "port")
	AVPD            = datagram.bits(0x00, 23, 0, "pd")
	AVGRH           = datagram.byteBits(0x05, 7, 7, "g")
	AVPathBits      = datagram.byteBits(0x05, 6, 0, "slid")
	AVRemoteLID     = datagram.u16(0x06, "dlid")
	AVGIDIndex      = datagram.byteBits(0x09, 6, 0, "gid_index")
	AVRate          = datagram.u8(0x0a, "stat_rate")
	AVHopLimit      = datagram.u8(0x0b, "hop_limit")
	AVSL            = datagram.bits(0x0c, 31, 28, "sl")
	AVClass         = datagram.bits(0x0c, 27, 20, "tclass")
	AVFlowLabel     = datagram.bits(0x0c, 19, 0, "flowlabel")
	AVGID           = datagram.u64(0x10, "dgid") // 16 bytes
	DatagramQPN     = datagram.bits(0x20, 23, 0, "dqpn")
	DatagramQKey    = datagram.u32(0x24, "qkey")
	DatagramVLAN    = datagram.u16(0x28, "vlan")
	DatagramMAC     = datagram.mac(0x28)
	RemoteAddress   = remoteSegment.u64(0x00, "raddr")
	RemoteKey       = remoteSegment.u32(0x08, "rkey")
	AtomicSwap      = atomicSegment.u64(0x00, "swap_add")
	AtomicCompare   = atomicSegment.u64(0x08, "compare")
	DataCount       = dataSegment.u32(0x00, "byte_count")
	DataKey         = dataSegment.u32(0x04, "lkey")
	DataAddress     = dataSegment.u64(0x08, "addr")
	InlineFlag      = dataSegment.bits(0x00, 31, 31, "inline")
	InlineCount     = dataSegment.bits(0x00, 30, 0, "inline_count")
	LSOSegmentSize  = lsoSegment.bits(0x00, 31, 16, "mss")
	LSOHeaderSize   = lsoSegment.bits(0x00, 15, 0, "hdr_size")
	LocalInvKey     = localInvSegment.u32(0x08, "mem_key")
	remoteSegment   = newLayout("remote address segment", 16, "linux mlx4/qp.h, mlx4_wqe_raddr_seg")
	atomicSegment   = newLayout("atomic segment", 16, "linux mlx4/qp.h, mlx4_wqe_atomic_seg")
	dataSegment     = newUnion("data segment", 16, "linux mlx4/qp.h, mlx4_wqe_data_seg, mlx4_wqe_inline_seg")
	lsoSegment      = newLayout("LSO segment", 4, "linux mlx4/qp.h, mlx4_wqe_lso_seg")
	localInvSegment = newLayout("local invalidate segment", 32, "linux mlx4/qp.h, mlx4_wqe_local_inval_seg")
)

// Constants of the layout.
const (
	DatagramSegment = 48 // bytes
	AddressVector   = 32 // bytes
	RemoteSegment   = 16 // bytes
	AtomicSegment   = 16 // bytes
	DataSegment     = 16 // bytes
	InlineHeader    = 4  // bytes
	InlineBoundary  = 64 // bytes: no inline segment crosses one
	InvalidKey      = uint32(0x100)
	ZeroLengthCount = uint32(0x80000000) // of a data segment of length 0
	LocalInvSegment = 32                 // bytes
)

// The segment of a fast registration.
var (
	fastReg = newLayout("fast register segment", 48, "linux mlx4/qp.h, mlx4_wqe_fmr_seg")

	FastRegAtomic      = fastReg.bits(0x00, 31, 31, "atomic")
	FastRegRemoteWrite = fastReg.bits(0x00, 30, 30, "remote_write")
	FastRegRemoteRead  = fastReg.bits(0x00, 29, 29, "remote_read")
	FastRegLocalWrite  = fastReg.bits(0x00, 28, 28, "local_write")
	FastRegLocalRead   = fastReg.bits(0x00, 27, 27, "local_read")
	FastRegKey         = fastReg.u32(0x04, "mem_key")
	FastRegList        = fastReg.u64(0x08, "buf_list")
	FastRegStart       = fastReg.u64(0x10, "start_addr")
	FastRegLength      = fastReg.u64(0x18, "reg_len")
	FastRegOffset      = fastReg.u32(0x20, "offset")
	FastRegLogPage     = fastReg.u32(0x24, "page_size")
)

// Constants of the layout.
const (
	FastRegSegment = 48 // bytes
)

// The segment of a window bind.
var (
	bind = newLayout("bind segment", 32, "linux mlx4/qp.h, mlx4_wqe_bind_seg")

	BindAtomic      = bind.bits(0x00, 31, 31, "atomic")
	BindRemoteWrite = bind.bits(0x00, 30, 30, "remote_write")
	BindRemoteRead  = bind.bits(0x00, 29, 29, "remote_read")
	BindType2       = bind.bits(0x04, 31, 31, "type_2")
	BindZeroBased   = bind.bits(0x04, 30, 30, "zero_based")
	BindNewKey      = bind.u32(0x08, "new_rkey")
	BindLKey        = bind.u32(0x0c, "lkey")
	BindAddress     = bind.u64(0x10, "addr")
	BindLength      = bind.u64(0x18, "length")
)

// Constants of the layout.
const (
	BindSegment = 32 // bytes
)
