package schema

import "ciddk/ci"

// CA is a request that names a CA.
type CA struct {
	CA Handle `handle:"ca"`
}

// OpenCA opens an adapter for the process. Its events are delivered to the queue Async with the token.
type OpenCA struct {
	GUID  ci.GUID
	Token uint64
	Async Handle `handle:"event queue"`
	User  UserBuffer
}

// CAAttr is ci.CAAttr.
type CAAttr struct {
	GUID, SystemGUID                                      ci.GUID
	Firmware                                              uint64
	Caps                                                  ci.Caps
	MaxMRSize                                             uint64
	VendorID                                              uint32
	DeviceID                                              uint16
	Revision                                              uint16
	MaxPDs, MaxAVs, MaxRDDs, MaxEECs                      int32
	MaxQPs, MaxRawIPv6QPs, MaxRawEtherQPs                 int32
	MaxWRs, MaxSGEs, MaxReadSGEs, MaxInline               int32
	MaxCQs, MaxCQEs, MaxSRQs, MaxSRQWRs, MaxSRQSGEs       int32
	MaxMRs, MaxMWs, MaxFMRs, MaxMapsPerFMR                int32
	MaxFastRegPages, MaxPartitions                        int32
	MaxMcastGroups, MaxMcastQPs, MaxQPsPerMcastGroup      int32
	MaxRespRes, MaxRespResPerQP, MaxInitDepth, NumVectors int32
	AckDelay                                              ci.TimeExp
	Atomicity                                             ci.Atomicity
	Pad                                                   uint16
	PageSizes                                             []uint64   `max:"64"`
	Ports                                                 []PortAttr `max:"254"`
	Reserved                                              uint32
}

// PortAttr is ci.PortAttr.
type PortAttr struct {
	GUID                   ci.GUID
	MaxMsgSize             uint64
	Capability             ci.PortCap
	LID, SMLID             ci.LID
	PKeyErrors, QKeyErrors uint16
	Num                    uint8
	Link                   ci.Link
	State                  ci.PortState
	PhysState              uint8
	MTU, MaxMTU            ci.MTU
	LMC, SMSL              uint8
	MaxVLs, WidthActive    uint8
	SpeedActive, SpeedExt  uint8
	SubnetTimeout          ci.TimeExp
	InitTypeReply          ci.InitType
	HardwareAgents         uint8 // 1: true
	Pad                    uint8
	GIDs                   []GIDEntry `max:"4096"`
	PKeys                  []uint16   `max:"4096"`
	MTUs                   []byte     `max:"16"` // by service level
}

// GIDEntry is ci.GIDEntry.
type GIDEntry struct {
	GID       ci.GID
	Type      ci.GIDType
	Pad       [3]uint8
	Interface string `max:"255"`
}

// ModifyCA sets attributes of a port. Only privileged clients may send it.
type ModifyCA struct {
	CA                     Handle `handle:"ca"`
	SystemGUID             ci.GUID
	Set                    ci.PortField
	CapMask, Capability    ci.PortCap
	PKeyErrors, QKeyErrors uint16
	Port                   uint8
	InitType               ci.InitType
	Pad                    uint16
	Reserved               uint32
}

// LocalMAD executes a MAD on a port. A client that is not privileged may send Get and GetTable only.
type LocalMAD struct {
	CA     Handle `handle:"ca"`
	MAD    [256]uint8
	Source AVAttr // with HasSource
	Port   uint8
	HasSrc bool
	Pad    [6]uint8
}

// LocalMADReply contains the response.
type LocalMADReply struct {
	MAD [256]uint8
}

// SLForIP looks up a service level.
type SLForIP struct {
	CA       Handle `handle:"ca"`
	IPPort   uint16
	Port     uint8
	Pad      uint8
	Reserved uint32
}

// SLForIPReply contains the service level.
type SLForIPReply struct {
	SL ci.SL
}

// VendorCall executes a private command of the vendor.
type VendorCall struct {
	CA       Handle `handle:"ca"`
	Command  uint32
	Status   int32
	Objects  []Handle `max:"64" handle:"any"`
	Data     []byte   `max:"16384"`
	User     UserBuffer
	Reserved uint32
	Pad      uint32
}

// VendorCallReply contains the result.
type VendorCallReply struct {
	Status   int32
	N        uint32
	Data     []byte `max:"16384"`
	User     UserBufferReply
	Reserved uint32
}

// AllocatePD allocates a protection domain.
type AllocatePD struct {
	CA   Handle `handle:"ca"`
	Type uint32 `max:"255"`
	Pad  uint32 `max:"0"`
	User UserBuffer
}
