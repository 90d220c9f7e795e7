package ibv

// The structures of infiniband/verbs.h. Go lays them out as C does on the architectures of this package. TestLayout
// compares offsets and sizes with the header of the machine.

// GUIDs and immediate data are big-endian in memory, as the names of the types say.
type (
	be64 [8]byte
	be32 [4]byte
	be16 [2]byte
)

// DeviceAttr is ibv_device_attr.
type DeviceAttr struct {
	FwVer                                            [64]byte
	NodeGUID, SysImageGUID                           be64
	MaxMRSize, PageSizeCap                           uint64
	VendorID, VendorPartID, HwVer                    uint32
	MaxQP, MaxQPWR                                   int32
	CapFlags                                         uint32
	MaxSGE, MaxSGERd, MaxCQ, MaxCQE, MaxMR, MaxPD    int32
	MaxQPRdAtom, MaxEERdAtom, MaxResRdAtom           int32
	MaxQPInitRdAtom, MaxEEInitRdAtom                 int32
	AtomicCap                                        int32
	MaxEE, MaxRDD, MaxMW, MaxRawIPv6QP, MaxRawEthyQP int32
	MaxMcastGrp, MaxMcastQPAttach, MaxTotalMcastQPs  int32
	MaxAH, MaxFMR, MaxMapPerFMR                      int32
	MaxSRQ, MaxSRQWR, MaxSRQSGE                      int32
	MaxPKeys                                         uint16
	LocalCAAckDelay, PhysPortCnt                     uint8
}

// The bits of DeviceAttr.CapFlags that package verbs reads.
const (
	DeviceAutoPathMig      = 1 << 4
	DeviceCurrQPState      = 1 << 7
	DeviceSRQResize        = 1 << 13
	DeviceMemWindow        = 1 << 17
	DeviceMemMgtExtensions = 1 << 21
	DeviceMemWindowType2A  = 1 << 23
	DeviceMemWindowType2B  = 1 << 24
)

// PortAttr is ibv_port_attr as ibv_query_port@IBVERBS_1.1 fills it.
type PortAttr struct {
	State, MaxMTU, ActiveMTU                                       int32
	GIDTblLen                                                      int32
	CapFlags, MaxMsgSz, BadPKeyCntr, QKeyViolCntr                  uint32
	PKeyTblLen, LID, SMLID                                         uint16
	LMC, MaxVLNum, SMSL, SubnetTimeout, InitTypeReply, ActiveWidth uint8
	ActiveSpeed, PhysState, LinkLayer, Flags                       uint8
	_                                                              uint16   // port_cap_flags2
	_                                                              uint32   // active_speed_ex
	_                                                              [64]byte // room for what a newer library appends
}

// GIDEntry is ibv_gid_entry.
type GIDEntry struct {
	GID                          [16]byte
	Index, Port, Type, NdevIndex uint32
}

// The values of GIDEntry.Type.
const (
	GIDTypeIB = iota
	GIDTypeRoCEv1
	GIDTypeRoCEv2
)

// Access flags of regions, windows and QPs.
const (
	AccessLocalWrite = 1 << iota
	AccessRemoteWrite
	AccessRemoteRead
	AccessRemoteAtomic
	AccessMWBind
	AccessZeroBased
)

// The heads of the library's objects, as far as this package reads them.
type (
	mrHead struct {
		_, _, _       uintptr // context, pd, addr
		_             uint64  // length
		_, LKey, RKey uint32  // handle
	}
	mwHead struct {
		_, _    uintptr // context, pd
		rkey, _ uint32  // handle
		_       int32   // type
	}
	cqHead struct {
		_, _, _ uintptr // context, channel, cq_context
		_       uint32  // handle
		cqe     int32
	}
	qpHead struct {
		_, _, _, _, _, _ uintptr // context, qp_context, pd, send_cq, recv_cq, srq
		_, num           uint32  // handle
		_, typ           int32   // state
	}
	channelHead struct {
		_  uintptr // context
		fd int32
		_  int32 // refcnt
	}
)

// contextHead is the beginning of ibv_context, up to the descriptors.
type contextHead struct {
	_   uintptr // device
	ops struct {
		_         [7]uintptr
		allocMW   uintptr
		bindMW    uintptr
		deallocMW uintptr
		_         uintptr
		pollCQ    uintptr
		notifyCQ  uintptr
		_         [7]uintptr
		postSRQ   uintptr
		_         [4]uintptr
		postSend  uintptr
		postRecv  uintptr
		_         [5]uintptr
	}
	_, asyncFD, numCompVectors int32 // cmd_fd
	_                          [mutexSize]byte
	abiCompat                  uintptr
}

// contextExt is the end of what verbs_context has in front of the context.
type contextExt struct {
	createCQEx uintptr
	_          [7]uintptr
	createQPEx uintptr
	_          [5]uintptr
	size       uintptr
}

// cqExHead is ibv_cq_ex, as far as this package uses it.
type cqExHead struct {
	cqHead
	_         [mutexSize]byte
	_         [48]byte  // pthread_cond_t
	_         [3]uint32 // events, comp_mask
	status    int32
	wrID      uint64
	startPoll uintptr
	nextPoll  uintptr
	endPoll   uintptr
	opcode    uintptr
	vendorErr uintptr
	byteLen   uintptr
	imm       uintptr
	qpNum     uintptr
	srcQP     uintptr
	flags     uintptr
	slid      uintptr
	sl        uintptr
	pathBits  uintptr
}

// qpExHead is ibv_qp_ex, as far as this package uses it.
type qpExHead struct {
	qpHead
	_             [mutexSize]byte
	_             [48]byte // pthread_cond_t
	_             uint32   // events_completed
	_             uint64   // comp_mask
	wrID          uint64
	wrFlags       uint32
	compareSwap   uintptr
	fetchAdd      uintptr
	bindMW        uintptr
	localInv      uintptr
	read          uintptr
	write         uintptr
	writeImm      uintptr
	send          uintptr
	sendImm       uintptr
	sendInv       uintptr
	_             uintptr // wr_send_tso
	setAddr       uintptr
	_, _          uintptr // wr_set_xrc_srqn, wr_set_inline_data
	setInlineList uintptr
	setSGE        uintptr
	setSGEList    uintptr
	start         uintptr
	complete      uintptr
}

// cqInitAttrEx is ibv_cq_init_attr_ex.
type cqInitAttrEx struct {
	entries uint32
	_       uintptr // cq_context
	channel uintptr
	vector  uint32
	wcFlags uint64
	_, _    uint32  // comp_mask, flags
	_       uintptr // parent_domain
}

// wcStandardFlags is IBV_WC_STANDARD_FLAGS: the fields of ibv_wc but for the P_Key index, which a CQ of this kind has
// not.
const wcStandardFlags = 1<<7 - 1

// pollCQAttr is ibv_poll_cq_attr.
type pollCQAttr struct{ _ uint32 }

// qpInitAttrEx is ibv_qp_init_attr_ex.
type qpInitAttrEx struct {
	_                   uintptr
	sendCQ, recvCQ, srq uintptr
	cap                 QPCap
	typ, signalAll      int32
	compMask            uint32
	pd                  uintptr
	_                   uintptr    // xrcd
	_                   [2]uint32  // create_flags, max_tso_header
	_                   [4]uintptr // rwq_ind_tbl, rx_hash_conf
	_                   uint32     // source_qpn
	sendOps             uint64
}

// The mask of ibv_qp_init_attr_ex.
const (
	qpInitPD      = 1 << 0
	qpInitSendOps = 1 << 6
)

// SGE is ibv_sge.
type SGE struct {
	Addr         uint64
	Length, LKey uint32
}

// RecvWR is ibv_recv_wr. Next and SGList are set by the methods that post.
type RecvWR struct {
	ID           uint64
	next, sgList uintptr
	numSGE       int32
	_            int32
}

// SendWR is ibv_send_wr. The union of its operations is Remote, Compare, Swap and Key, whose meaning Opcode decides.
type SendWR struct {
	ID           uint64
	next, sgList uintptr
	numSGE       int32
	Opcode       int32
	Flags        uint32
	Imm          be32 // or, in host order, the key to invalidate
	wr           [4]uint64
	_            uint32 // qp_type.xrc.remote_srqn
	_            uint32
	bind         bindInfo
}

// bindInfo is the arm of ibv_send_wr's second union for a bind: window, new key, and ibv_mw_bind_info.
type bindInfo struct {
	mw           uintptr
	rkey         uint32
	_            uint32
	mr           uintptr
	addr, length uint64
	access       uint32
	_            uint32
}

// mwBind is ibv_mw_bind.
type mwBind struct {
	id           uint64
	flags        uint32
	_            uint32
	mr           uintptr
	addr, length uint64
	access       uint32
	_            uint32
}

// The opcodes of SendWR.
const (
	WRWrite = iota
	WRWriteImm
	WRSend
	WRSendImm
	WRRead
	WRCompareSwap
	WRFetchAdd
	WRLocalInv
	WRBindMW
	WRSendInv
)

// The flags of SendWR.
const (
	SendFence = 1 << iota
	SendSignaled
	SendSolicited
	SendInline
	SendIPChecksum
)

// WC is ibv_wc.
type WC struct {
	ID               uint64
	Status, Opcode   int32
	VendorErr        uint32
	ByteLen          uint32
	Imm              be32 // or, in host order, the key that was invalidated
	QPNum, SrcQP     uint32
	Flags            uint32
	PKeyIndex, SLID  uint16
	SL, DLIDPathBits uint8
	_                [2]byte
}

// The flags of WC.
const (
	WCGRH        = 1 << 0
	WCWithImm    = 1 << 1
	WCChecksumOK = 1 << 2
	WCWithInv    = 1 << 3
)

// GlobalRoute is ibv_global_route.
type GlobalRoute struct {
	DGID                              [2]uint64 // 16 bytes in wire order; the C union is aligned as uint64
	FlowLabel                         uint32
	SGIDIndex, HopLimit, TrafficClass uint8
	_                                 uint8
}

// AHAttr is ibv_ah_attr.
type AHAttr struct {
	GRH                                            GlobalRoute
	DLID                                           uint16
	SL, SrcPathBits, StaticRate, IsGlobal, PortNum uint8
	_                                              uint8
}

// QPCap is ibv_qp_cap.
type QPCap struct{ MaxSendWR, MaxRecvWR, MaxSendSGE, MaxRecvSGE, MaxInline uint32 }

// QPInitAttr is ibv_qp_init_attr.
type QPInitAttr struct {
	_                   uintptr
	sendCQ, recvCQ, srq uintptr
	Cap                 QPCap
	Type                int32
	SignalAll           int32
	_                   int32
}

// The services of QPs.
const (
	QPTypeRC = 2 + iota
	QPTypeUC
	QPTypeUD
)

// QPAttr is ibv_qp_attr.
type QPAttr struct {
	State, CurState, PathMTU, PathMigState                             int32
	QKey, RQPSN, SQPSN, DestQPNum, Access                              uint32
	Cap                                                                QPCap
	AH, AltAH                                                          AHAttr
	PKeyIndex, AltPKeyIndex                                            uint16
	EnSQDAsyncNotify, SQDraining, MaxRdAtomic, MaxDestRdAtomic, MinRNR uint8
	PortNum, Timeout, RetryCnt, RNRRetry, AltPortNum, AltTimeout       uint8
	_                                                                  uint8
	_                                                                  uint32
	_                                                                  uint32
}

// The mask of ibv_modify_qp.
const (
	QPState = 1 << iota
	QPCurState
	QPEnSQDAsyncNotify
	QPAccessFlags
	QPPKeyIndex
	QPPort
	QPQKey
	QPAV
	QPPathMTU
	QPTimeout
	QPRetryCnt
	QPRNRRetry
	QPRQPSN
	QPMaxQPRdAtomic
	QPAltPath
	QPMinRNRTimer
	QPSQPSN
	QPMaxDestRdAtomic
	QPPathMigState
	QPCapMask
	QPDestQPN
)

// SRQAttr is ibv_srq_attr.
type SRQAttr struct{ MaxWR, MaxSGE, Limit uint32 }

// The mask of ibv_modify_srq.
const (
	SRQMaxWR = 1 << iota
	SRQLimit
)

// srqInitAttr is ibv_srq_init_attr.
type srqInitAttr struct {
	_    uintptr
	attr SRQAttr
	_    uint32
}

// AsyncEvent is ibv_async_event. Element is the CQ, QP or SRQ, or the port in its low 32 bits.
type AsyncEvent struct {
	Element uintptr
	Type    int32
	_       int32
}

// The types of AsyncEvent.
const (
	EventCQErr = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst
	EventSQDrained
	EventPathMig
	EventPathMigErr
	EventDeviceFatal
	EventPortActive
	EventPortErr
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventSRQErr
	EventSRQLimit
	EventLastWQE
	EventReregister
	EventGIDChange
)
