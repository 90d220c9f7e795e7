package uverbs

// The layouts of Linux's user ABI for verbs (rdma/ib_user_verbs.h, ABI version 6). Requests follow the header of a
// command; replies are stored at the address Response. Structures have the fields of the header file in its order.
// Integers are in the machine's byte order, except for GUIDs.

// abiVersion is the version of the ABI.
const abiVersion = 6

// The numbers of commands. Extended commands have numbers of their own with the flag.
const (
	cmdGetContext   = 0
	cmdQueryDevice  = 1
	cmdQueryPort    = 2
	cmdAllocPD      = 3
	cmdDeallocPD    = 4
	cmdCreateAH     = 5
	cmdDestroyAH    = 8
	cmdRegMR        = 9
	cmdReregMR      = 11
	cmdDeregMR      = 13
	cmdAllocMW      = 14
	cmdDeallocMW    = 16
	cmdCreateChan   = 17
	cmdCreateCQ     = 18
	cmdResizeCQ     = 19
	cmdDestroyCQ    = 20
	cmdReqNotifyCQ  = 23
	cmdCreateQP     = 24
	cmdQueryQP      = 25
	cmdModifyQP     = 26
	cmdDestroyQP    = 27
	cmdPostSend     = 28
	cmdAttachMcast  = 30
	cmdDetachMcast  = 31
	cmdCreateSRQ    = 32
	cmdModifySRQ    = 33
	cmdQuerySRQ     = 34
	cmdDestroySRQ   = 35
	cmdCreateXSRQ   = 39
	maxCmd          = 40 // the last one, open QP
	maxExtended     = 57 // modify CQ
	flagExtended    = 1 << 31
	commandMask     = 0xff
	headerSize      = 8
	extendedSize    = 16 // bytes of the additional header of an extended command
	oldDestroyCQ    = 16 // bytes of the request of rdma-core 18 and 19, which is shorter than the structure
	goodDestroyCQ   = 24
	noCompChannel   = -1
	createSRQBasic  = 0
	createQPRC      = 2
	createQPUC      = 3
	createQPUD      = 4
	createQPRaw     = 8
	createQPXRCInit = 9
	createQPXRCTgt  = 10
)

type (
	none struct{}

	getContext struct {
		Response uint64
	}
	getContextResp struct {
		AsyncFD        uint32
		NumCompVectors uint32
	}

	queryDevice struct {
		Response uint64
	}
	queryDeviceResp struct {
		FwVer               uint64
		NodeGUID            [8]byte
		SysImageGUID        [8]byte
		MaxMRSize           uint64
		PageSizeCap         uint64
		VendorID            uint32
		VendorPartID        uint32
		HwVer               uint32
		MaxQP               uint32
		MaxQPWR             uint32
		DeviceCapFlags      uint32
		MaxSGE              uint32
		MaxSGERd            uint32
		MaxCQ               uint32
		MaxCQE              uint32
		MaxMR               uint32
		MaxPD               uint32
		MaxQPRdAtom         uint32
		MaxEERdAtom         uint32
		MaxResRdAtom        uint32
		MaxQPInitRdAtom     uint32
		MaxEEInitRdAtom     uint32
		AtomicCap           uint32
		MaxEE               uint32
		MaxRDD              uint32
		MaxMW               uint32
		MaxRawIPv6QP        uint32
		MaxRawEthyQP        uint32
		MaxMcastGrp         uint32
		MaxMcastQPAttach    uint32
		MaxTotalMcastAttach uint32
		MaxAH               uint32
		MaxFMR              uint32
		MaxMapPerFMR        uint32
		MaxSRQ              uint32
		MaxSRQWR            uint32
		MaxSRQSGE           uint32
		MaxPKeys            uint16
		LocalCAAckDelay     uint8
		PhysPortCnt         uint8
		Reserved            [4]uint8
	}

	exQueryDevice struct {
		CompMask uint32
		Reserved uint32
	}
	exQueryDeviceResp struct {
		Base             queryDeviceResp
		CompMask         uint32
		ResponseLength   uint32
		ODPGeneral       uint64
		ODP              [4]uint32
		TimestampMask    uint64
		HCACoreClock     uint64
		DeviceCapFlagsEx uint64
		RSS              [4]uint32
		MaxWQTypeRQ      uint32
		RawPacketCaps    uint32
		TM               [6]uint32
		ModerationCount  uint16
		ModerationPeriod uint16
		ModerationPad    uint32
		MaxDMSize        uint64
		XRCODPCaps       uint32
		Reserved         uint32
	}

	queryPort struct {
		Response uint64
		PortNum  uint8
		Reserved [7]uint8
	}
	queryPortResp struct {
		PortCapFlags  uint32
		MaxMsgSz      uint32
		BadPKeyCntr   uint32
		QKeyViolCntr  uint32
		GIDTblLen     uint32
		PKeyTblLen    uint16
		LID           uint16
		SMLID         uint16
		State         uint8
		MaxMTU        uint8
		ActiveMTU     uint8
		LMC           uint8
		MaxVLNum      uint8
		SMSL          uint8
		SubnetTimeout uint8
		InitTypeReply uint8
		ActiveWidth   uint8
		ActiveSpeed   uint8
		PhysState     uint8
		LinkLayer     uint8
		Flags         uint8
		Reserved      uint8
	}

	allocPD struct {
		Response uint64
	}
	allocPDResp struct {
		PDHandle uint32
	}

	// byHandle is the request of every command that only names an object and has no reply.
	byHandle struct {
		Handle uint32
	}

	regMR struct {
		Response    uint64
		Start       uint64
		Length      uint64
		HCAVA       uint64
		PDHandle    uint32
		AccessFlags uint32
	}
	regMRResp struct {
		MRHandle uint32
		LKey     uint32
		RKey     uint32
	}

	reregMR struct {
		Response    uint64
		MRHandle    uint32
		Flags       uint32
		Start       uint64
		Length      uint64
		HCAVA       uint64
		PDHandle    uint32
		AccessFlags uint32
	}
	reregMRResp struct {
		LKey uint32
		RKey uint32
	}

	allocMW struct {
		Response uint64
		PDHandle uint32
		MWType   uint8
		Reserved [3]uint8
	}
	allocMWResp struct {
		MWHandle uint32
		RKey     uint32
	}

	createCompChannel struct {
		Response uint64
	}
	createCompChannelResp struct {
		FD uint32
	}

	createCQ struct {
		Response    uint64
		UserHandle  uint64
		CQE         uint32
		CompVector  uint32
		CompChannel int32
		Reserved    uint32
	}
	createCQResp struct {
		CQHandle uint32
		CQE      uint32
	}
	exCreateCQ struct {
		UserHandle  uint64
		CQE         uint32
		CompVector  uint32
		CompChannel int32
		CompMask    uint32
		Flags       uint32
		Reserved    uint32
	}
	exCreateCQResp struct {
		Base           createCQResp
		CompMask       uint32
		ResponseLength uint32
	}

	resizeCQ struct {
		Response uint64
		CQHandle uint32
		CQE      uint32
	}
	resizeCQResp struct {
		CQE      uint32
		Reserved uint32
	}

	reqNotifyCQ struct {
		CQHandle      uint32
		SolicitedOnly uint32
	}

	// destroyEvents is the request to destroy an object with events.
	destroyEvents struct {
		Response uint64
		Handle   uint32
		Reserved uint32
	}
	destroyCQResp struct {
		CompEventsReported  uint32
		AsyncEventsReported uint32
	}
	destroyEventsResp struct {
		EventsReported uint32
	}

	ahAttr struct {
		DGID         [16]byte
		FlowLabel    uint32
		SGIDIndex    uint8
		HopLimit     uint8
		TrafficClass uint8
		GRHReserved  uint8
		DLID         uint16
		SL           uint8
		SrcPathBits  uint8
		StaticRate   uint8
		IsGlobal     uint8
		PortNum      uint8
		Reserved     uint8
	}
	createAH struct {
		Response   uint64
		UserHandle uint64
		PDHandle   uint32
		Reserved   uint32
		Attr       ahAttr
	}
	createAHResp struct {
		AHHandle uint32
	}

	createQPArgs struct {
		UserHandle    uint64
		PDHandle      uint32
		SendCQHandle  uint32
		RecvCQHandle  uint32
		SRQHandle     uint32
		MaxSendWR     uint32
		MaxRecvWR     uint32
		MaxSendSGE    uint32
		MaxRecvSGE    uint32
		MaxInlineData uint32
		SQSigAll      uint8
		QPType        uint8
		IsSRQ         uint8
		Reserved      uint8
	}
	createQP struct {
		Response uint64
		Args     createQPArgs
	}
	createQPResp struct {
		QPHandle      uint32
		QPN           uint32
		MaxSendWR     uint32
		MaxRecvWR     uint32
		MaxSendSGE    uint32
		MaxRecvSGE    uint32
		MaxInlineData uint32
		Reserved      uint32
	}
	exCreateQP struct {
		Args            createQPArgs
		CompMask        uint32
		CreateFlags     uint32
		RWQIndTblHandle uint32
		SourceQPN       uint32
	}
	exCreateQPResp struct {
		Base           createQPResp
		CompMask       uint32
		ResponseLength uint32
	}

	qpDest struct {
		DGID         [16]byte
		FlowLabel    uint32
		DLID         uint16
		Reserved     uint16
		SGIDIndex    uint8
		HopLimit     uint8
		TrafficClass uint8
		SL           uint8
		SrcPathBits  uint8
		StaticRate   uint8
		IsGlobal     uint8
		PortNum      uint8
	}
	queryQP struct {
		Response uint64
		QPHandle uint32
		AttrMask uint32
	}
	queryQPResp struct {
		Dest            qpDest
		AltDest         qpDest
		MaxSendWR       uint32
		MaxRecvWR       uint32
		MaxSendSGE      uint32
		MaxRecvSGE      uint32
		MaxInlineData   uint32
		QKey            uint32
		RQPSN           uint32
		SQPSN           uint32
		DestQPNum       uint32
		QPAccessFlags   uint32
		PKeyIndex       uint16
		AltPKeyIndex    uint16
		QPState         uint8
		CurQPState      uint8
		PathMTU         uint8
		PathMigState    uint8
		SQDraining      uint8
		MaxRdAtomic     uint8
		MaxDestRdAtomic uint8
		MinRNRTimer     uint8
		PortNum         uint8
		Timeout         uint8
		RetryCnt        uint8
		RNRRetry        uint8
		AltPortNum      uint8
		AltTimeout      uint8
		SQSigAll        uint8
		Reserved        [5]uint8
	}
	modifyQP struct {
		Dest             qpDest
		AltDest          qpDest
		QPHandle         uint32
		AttrMask         uint32
		QKey             uint32
		RQPSN            uint32
		SQPSN            uint32
		DestQPNum        uint32
		QPAccessFlags    uint32
		PKeyIndex        uint16
		AltPKeyIndex     uint16
		QPState          uint8
		CurQPState       uint8
		PathMTU          uint8
		PathMigState     uint8
		EnSQDAsyncNotify uint8
		MaxRdAtomic      uint8
		MaxDestRdAtomic  uint8
		MinRNRTimer      uint8
		PortNum          uint8
		Timeout          uint8
		RetryCnt         uint8
		RNRRetry         uint8
		AltPortNum       uint8
		AltTimeout       uint8
		Reserved         [2]uint8
	}
	exModifyQP struct {
		Base      modifyQP
		RateLimit uint32
		Reserved  uint32
	}
	exModifyQPResp struct {
		CompMask       uint32
		ResponseLength uint32
	}

	postSend struct {
		Response uint64
		QPHandle uint32
		WRCount  uint32
		SGECount uint32
		WQESize  uint32
	}
	postSendResp struct {
		BadWR uint32
	}

	mcast struct {
		GID      [16]byte
		QPHandle uint32
		MLID     uint16
		Reserved uint16
	}

	createSRQ struct {
		Response   uint64
		UserHandle uint64
		PDHandle   uint32
		MaxWR      uint32
		MaxSGE     uint32
		SRQLimit   uint32
	}
	createXSRQ struct {
		Response   uint64
		UserHandle uint64
		SRQType    uint32
		PDHandle   uint32
		MaxWR      uint32
		MaxSGE     uint32
		SRQLimit   uint32
		MaxNumTags uint32
		XRCDHandle uint32
		CQHandle   uint32
	}
	createSRQResp struct {
		SRQHandle uint32
		MaxWR     uint32
		MaxSGE    uint32
		SRQN      uint32
	}
	modifySRQ struct {
		SRQHandle uint32
		AttrMask  uint32
		MaxWR     uint32
		SRQLimit  uint32
	}
	querySRQ struct {
		Response  uint64
		SRQHandle uint32
		Reserved  uint32
	}
	querySRQResp struct {
		MaxWR    uint32
		MaxSGE   uint32
		SRQLimit uint32
		Reserved uint32
	}
)
