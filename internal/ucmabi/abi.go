// Package ucmabi has the layouts of Linux's user ABI of the RDMA connection manager (rdma/rdma_user_cm.h, ABI version
// 4): the device file /dev/infiniband/rdma_cm. Structures have the fields of the header file in its order. Integers are
// in the machine's byte order, except for those within addresses, GUIDs and path records.
package ucmabi

import "encoding/binary"

var (
	ne = binary.NativeEndian
	be = binary.BigEndian
)

// AbiVersion is the version of the ABI.
const AbiVersion = 4

// The numbers of commands.
const (
	CmdCreateID = iota
	CmdDestroyID
	CmdBindIP
	CmdResolveIP
	CmdResolveRoute
	CmdQueryRoute
	CmdConnect
	CmdListen
	CmdAccept
	CmdReject
	CmdDisconnect
	CmdInitQPAttr
	CmdGetEvent
	CmdGetOption
	CmdSetOption
	CmdNotify
	CmdJoinIPMcast
	CmdLeaveMcast
	CmdMigrateID
	CmdQuery
	CmdBind
	CmdResolveAddr
	CmdJoinMcast
	_ // RESOLVE_IB_SERVICE, of InfiniBand ports with a service registry
	CmdWriteEvent
	NumCommands
)

// HeaderSize is the size of a command's header: u32 command, u16 bytes of the request, u16 bytes for the reply.
const HeaderSize = 8

// The port spaces.
const (
	SpaceIPoIB = 0x0002
	SpaceTCP   = 0x0106
	SpaceUDP   = 0x0111
	SpaceIB    = 0x013f
)

// The types of QPs (enum ib_qp_type).
const (
	TypeRC = 2
	TypeUC = 3
	TypeUD = 4
)

// What cmdQuery returns.
const (
	QueryAddr = iota
	QueryPath
	QueryGID
)

// The levels and names of options.
const (
	LevelID          = 0
	OptionTOS        = 0
	OptionReuseAddr  = 1
	OptionAFOnly     = 2
	OptionAckTimeout = 3

	LevelIB      = 1
	OptionIBPath = 1
)

// The events (enum rdma_cm_event_type).
const (
	EventAddrResolved = iota
	EventAddrError
	EventRouteResolved
	EventRouteError
	EventConnectRequest
	EventConnectResponse
	EventConnectError
	EventUnreachable
	EventRejected
	EventEstablished
	EventDisconnected
	EventDeviceRemoval
	EventMulticastJoin
	EventMulticastError
	_ // address change
	EventTimewaitExit
	_ // address information resolved, which the library makes of eventInternal
	_ // and its error
	EventUser
	EventInternal
)

// The events that cmdNotify reports (IB_EVENT_COMM_EST, IB_EVENT_PATH_MIG).
const (
	CommEstablished = 4
	PathMigrated    = 6
)

// SendOnly is the flag of a join as sender.
const SendOnly = 1

// MaxPrivate is the size of private data in structures.
const MaxPrivate = 256

type (
	None struct{}

	SockaddrIn6     [28]byte
	SockaddrStorage [128]byte

	CreateID struct {
		UID      uint64
		Response uint64
		PS       uint16
		QPType   uint8
		Reserved [5]uint8
	}
	IDResp struct {
		ID uint32
	}
	// ByID is the request to destroy an ID, and to leave a group.
	ByID struct {
		Response uint64
		ID       uint32
		Reserved uint32
	}
	EventsResp struct {
		EventsReported uint32
	}
	BindIP struct {
		Response uint64
		Addr     SockaddrIn6
		ID       uint32
	}
	BindAddr struct {
		ID       uint32
		AddrSize uint16
		Reserved uint16
		Addr     SockaddrStorage
	}
	ResolveIP struct {
		Src       SockaddrIn6
		Dst       SockaddrIn6
		ID        uint32
		TimeoutMS uint32
	}
	ResolveAddr struct {
		ID        uint32
		TimeoutMS uint32
		SrcSize   uint16
		DstSize   uint16
		Reserved  uint32
		Src       SockaddrStorage
		Dst       SockaddrStorage
	}
	ResolveRoute struct {
		ID        uint32
		TimeoutMS uint32
	}
	Query struct {
		Response uint64
		ID       uint32
		Option   uint32
	}
	PathRec struct {
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
	QueryRouteResp struct {
		NodeGUID   [8]byte
		Route      [2]PathRec
		Src        SockaddrIn6
		Dst        SockaddrIn6
		NumPaths   uint32
		PortNum    uint8
		Reserved   [3]uint8
		IBDevIndex uint32
		Reserved1  uint32
	}
	QueryAddrResp struct {
		NodeGUID   [8]byte
		PortNum    uint8
		Reserved   uint8
		PKey       uint16
		SrcSize    uint16
		DstSize    uint16
		Src        SockaddrStorage
		Dst        SockaddrStorage
		IBDevIndex uint32
		Reserved1  uint32
	}
	QueryPathResp struct {
		NumPaths uint32
		Reserved uint32
		Path     PathData
	}
	PathData struct {
		Flags    uint32
		Reserved uint32
		Record   [64]byte // PathRecord of the subnet administrator
	}
	ConnParam struct {
		QPNum              uint32
		QKey               uint32
		PrivateData        [MaxPrivate]byte
		PrivateDataLen     uint8
		SRQ                uint8
		ResponderResources uint8
		InitiatorDepth     uint8
		FlowControl        uint8
		RetryCount         uint8
		RNRRetryCount      uint8
		Valid              uint8
	}
	UDParam struct {
		QPNum          uint32
		QKey           uint32
		AH             AHAttr
		PrivateData    [MaxPrivate]byte
		PrivateDataLen uint8
		Reserved       [7]uint8
	}
	AHAttr struct {
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
	ECE struct {
		VendorID uint32
		AttrMod  uint32
	}
	Connect struct {
		Param    ConnParam
		ID       uint32
		Reserved uint32
		ECE      ECE
	}
	Listen struct {
		ID      uint32
		Backlog uint32
	}
	Accept struct {
		UID      uint64
		Param    ConnParam
		ID       uint32
		Reserved uint32
		ECE      ECE
	}
	Reject struct {
		ID             uint32
		PrivateDataLen uint8
		Reason         uint8
		Reserved       [2]uint8
		PrivateData    [MaxPrivate]byte
	}
	Disconnect struct {
		ID uint32
	}
	InitQPAttr struct {
		Response uint64
		ID       uint32
		QPState  uint32
	}
	QPAttr struct {
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
		AH               AHAttr
		AltAH            AHAttr
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
	Notify struct {
		ID    uint32
		Event uint32
	}
	JoinIPMcast struct {
		Response uint64
		UID      uint64
		Addr     SockaddrIn6
		ID       uint32
	}
	JoinMcast struct {
		Response uint64
		UID      uint64
		ID       uint32
		AddrSize uint16
		Flags    uint16
		Addr     SockaddrStorage
	}
	GetEvent struct {
		Response uint64
	}
	EventResp struct {
		UID      uint64
		ID       uint32
		Event    uint32
		Status   int32
		Param    [ParamSize]byte // connParam or udParam
		Reserved uint32
		ECE      ECE
	}
	WriteEvent struct {
		ID       uint32
		Reserved uint32
		Event    uint32
		Status   int32
		Arg      uint64
		Rest     [ParamSize - 8]byte // of the union with connParam and udParam
	}
	SetOption struct {
		Value uint64 // address
		ID    uint32
		Level uint32
		Name  uint32
		Len   uint32
	}
	MigrateID struct {
		Response uint64
		ID       uint32
		FD       int32
	}
)

// ParamSize is the size of udParam, the larger one.
const ParamSize = 304

// The parts of structures that programs of every version of the ABI have, in bytes.
const (
	LeastConnect   = 280
	LeastAccept    = 288
	RoomQueryRoute = 200
	RoomQueryAddr  = 272
	RoomQueryPath  = 8
	RoomEvent      = 324
)
