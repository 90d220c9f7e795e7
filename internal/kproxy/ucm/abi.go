package ucm

// The layouts of Linux's user ABI of the RDMA connection manager (rdma/rdma_user_cm.h, ABI version 4). Structures have
// the fields of the header file in its order. Integers are in the machine's byte order, except for those within
// addresses, GUIDs and path records.

// abiVersion is the version of the ABI.
const abiVersion = 4

// The numbers of commands.
const (
	cmdCreateID = iota
	cmdDestroyID
	cmdBindIP
	cmdResolveIP
	cmdResolveRoute
	cmdQueryRoute
	cmdConnect
	cmdListen
	cmdAccept
	cmdReject
	cmdDisconnect
	cmdInitQPAttr
	cmdGetEvent
	cmdGetOption
	cmdSetOption
	cmdNotify
	cmdJoinIPMcast
	cmdLeaveMcast
	cmdMigrateID
	cmdQuery
	cmdBind
	cmdResolveAddr
	cmdJoinMcast
	numCommands
)

// headerSize is the size of a command's header: u32 command, u16 bytes of the request, u16 bytes for the reply.
const headerSize = 8

// The port spaces.
const (
	spaceIPoIB = 0x0002
	spaceTCP   = 0x0106
	spaceUDP   = 0x0111
	spaceIB    = 0x013f
)

// The types of QPs (enum ib_qp_type).
const (
	typeRC = 2
	typeUC = 3
	typeUD = 4
)

// What cmdQuery returns.
const (
	queryAddr = iota
	queryPath
	queryGID
)

// The levels and names of options.
const (
	levelID          = 0
	optionTOS        = 0
	optionReuseAddr  = 1
	optionAFOnly     = 2
	optionAckTimeout = 3

	levelIB      = 1
	optionIBPath = 1
)

// The events (enum rdma_cm_event_type).
const (
	eventAddrResolved = iota
	eventAddrError
	eventRouteResolved
	eventRouteError
	eventConnectRequest
	eventConnectResponse
	eventConnectError
	eventUnreachable
	eventRejected
	eventEstablished
	eventDisconnected
	eventDeviceRemoval
	eventMulticastJoin
	eventMulticastError
	_ // address change
	eventTimewaitExit
)

// The events that cmdNotify reports (IB_EVENT_COMM_EST, IB_EVENT_PATH_MIG).
const (
	commEstablished = 4
	pathMigrated    = 6
)

// sendOnly is the flag of a join as sender.
const sendOnly = 1

// maxPrivate is the size of private data in structures.
const maxPrivate = 256

type (
	none struct{}

	sockaddrIn6     [28]byte
	sockaddrStorage [128]byte

	createID struct {
		UID      uint64
		Response uint64
		PS       uint16
		QPType   uint8
		Reserved [5]uint8
	}
	idResp struct {
		ID uint32
	}
	// byID is the request to destroy an ID, and to leave a group.
	byID struct {
		Response uint64
		ID       uint32
		Reserved uint32
	}
	eventsResp struct {
		EventsReported uint32
	}
	bindIP struct {
		Response uint64
		Addr     sockaddrIn6
		ID       uint32
	}
	bindAddr struct {
		ID       uint32
		AddrSize uint16
		Reserved uint16
		Addr     sockaddrStorage
	}
	resolveIP struct {
		Src       sockaddrIn6
		Dst       sockaddrIn6
		ID        uint32
		TimeoutMS uint32
	}
	resolveAddr struct {
		ID        uint32
		TimeoutMS uint32
		SrcSize   uint16
		DstSize   uint16
		Reserved  uint32
		Src       sockaddrStorage
		Dst       sockaddrStorage
	}
	resolveRoute struct {
		ID        uint32
		TimeoutMS uint32
	}
	query struct {
		Response uint64
		ID       uint32
		Option   uint32
	}
	pathRec struct {
		DGID         [16]byte
		SGID         [16]byte
		DLID         [2]byte
		SLID         [2]byte
		RawTraffic   uint32
		FlowLabel    [4]byte
		Reversible   uint32
		MTU          uint32
		PKey         [2]byte
		HopLimit     uint8
		TrafficClass uint8
		NumPaths     uint8
		SL           uint8
		MTUSelector  uint8
		RateSelector uint8
		Rate         uint8
		LifeSelector uint8
		LifeTime     uint8
		Preference   uint8
	}
	queryRouteResp struct {
		NodeGUID   [8]byte
		Route      [2]pathRec
		Src        sockaddrIn6
		Dst        sockaddrIn6
		NumPaths   uint32
		PortNum    uint8
		Reserved   [3]uint8
		IBDevIndex uint32
		Reserved1  uint32
	}
	queryAddrResp struct {
		NodeGUID   [8]byte
		PortNum    uint8
		Reserved   uint8
		PKey       uint16
		SrcSize    uint16
		DstSize    uint16
		Src        sockaddrStorage
		Dst        sockaddrStorage
		IBDevIndex uint32
		Reserved1  uint32
	}
	queryPathResp struct {
		NumPaths uint32
		Reserved uint32
		Path     pathData
	}
	pathData struct {
		Flags    uint32
		Reserved uint32
		Record   [64]byte // PathRecord of the subnet administrator
	}
	connParam struct {
		QPNum              uint32
		QKey               uint32
		PrivateData        [maxPrivate]byte
		PrivateDataLen     uint8
		SRQ                uint8
		ResponderResources uint8
		InitiatorDepth     uint8
		FlowControl        uint8
		RetryCount         uint8
		RNRRetryCount      uint8
		Valid              uint8
	}
	udParam struct {
		QPNum          uint32
		QKey           uint32
		AH             ahAttr
		PrivateData    [maxPrivate]byte
		PrivateDataLen uint8
		Reserved       [7]uint8
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
	ece struct {
		VendorID uint32
		AttrMod  uint32
	}
	connect struct {
		Param    connParam
		ID       uint32
		Reserved uint32
		ECE      ece
	}
	listen struct {
		ID      uint32
		Backlog uint32
	}
	accept struct {
		UID      uint64
		Param    connParam
		ID       uint32
		Reserved uint32
		ECE      ece
	}
	reject struct {
		ID             uint32
		PrivateDataLen uint8
		Reason         uint8
		Reserved       [2]uint8
		PrivateData    [maxPrivate]byte
	}
	disconnect struct {
		ID uint32
	}
	initQPAttr struct {
		Response uint64
		ID       uint32
		QPState  uint32
	}
	qpAttr struct {
		Mask             uint32
		State            uint32
		CurState         uint32
		PathMTU          uint32
		PathMigState     uint32
		QKey             uint32
		RQPSN            uint32
		SQPSN            uint32
		DestQPNum        uint32
		AccessFlags      uint32
		AH               ahAttr
		AltAH            ahAttr
		Caps             [5]uint32
		PKeyIndex        uint16
		AltPKeyIndex     uint16
		EnSQDAsyncNotify uint8
		SQDraining       uint8
		MaxRdAtomic      uint8
		MaxDestRdAtomic  uint8
		MinRNRTimer      uint8
		PortNum          uint8
		Timeout          uint8
		RetryCnt         uint8
		RNRRetry         uint8
		AltPortNum       uint8
		AltTimeout       uint8
		Reserved         [5]uint8
	}
	notify struct {
		ID    uint32
		Event uint32
	}
	joinIPMcast struct {
		Response uint64
		UID      uint64
		Addr     sockaddrIn6
		ID       uint32
	}
	joinMcast struct {
		Response uint64
		UID      uint64
		ID       uint32
		AddrSize uint16
		Flags    uint16
		Addr     sockaddrStorage
	}
	getEvent struct {
		Response uint64
	}
	eventResp struct {
		UID      uint64
		ID       uint32
		Event    uint32
		Status   int32
		Param    [paramSize]byte // connParam or udParam
		Reserved uint32
		ECE      ece
	}
	setOption struct {
		Value uint64 // address
		ID    uint32
		Level uint32
		Name  uint32
		Len   uint32
	}
	migrateID struct {
		Response uint64
		ID       uint32
		FD       int32
	}
)

// paramSize is the size of udParam, the larger one.
const paramSize = 304

// The parts of structures that programs of every version of the ABI have, in bytes.
const (
	leastConnect   = 280
	leastAccept    = 288
	roomQueryRoute = 200
	roomQueryAddr  = 272
	roomQueryPath  = 8
	roomEvent      = 324
)
