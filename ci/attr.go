package ci

// Caps is the set of capabilities that a driver claims. Each optional verb or behaviour has one bit, named at the verb.
// A verb whose bit is clear returns Unsupported; a verb whose bit is set never does. Wrappers must pass the bits on;
// nothing is inferred from Go types.
type Caps uint64

const (
	CapUC Caps = 1 << iota // RC needs no bit
	CapUD
	CapRD
	CapAV // CreateAV; required with CapUD, CapRD, CapSpecialQP
	CapSpecialQP
	CapRawIPv6
	CapRawEther
	CapMulticast
	CapRawMulticast
	CapSRQ
	CapMW1
	CapMW2 // with OpLocalInv of windows
	CapFMR
	CapFastReg // with OpLocalInv of regions
	CapPhysicalMR
	CapSharedMR
	CapModifyMR
	CapZeroBased
	CapSendInvalidate
	CapLSO
	CapIPChecksum
	CapResizeCQ
	CapModeration
	CapPeek
	CapNotifyAfter
	CapModifyWRDepth
	CapModifySRQDepth
	CapAPM
	CapChangePrimaryPort // SQD to RTS
	CapCurrentQPState
	CapAVPortCheck // CreateAV and AV.Modify return InvalidPort
	CapUser
	CapEventHandlers
	CapVendorCall
	CapLocalMAD
	CapHardwareSMA // PortAttr.HardwareAgents, for all ports
	CapSLForIP
	CapShutdownPort
	CapInitType
	CapPortActiveEvent
	CapSystemGUID
	CapPKeyCounter
	CapQKeyCounter
	CapAtomicWrite     // OpAtomicWrite
	CapFlush           // OpFlush, and FlushGlobal
	CapFlushPersistent // FlushPersistent, with CapFlush
)

// Has reports whether every bit of x is claimed.
func (c Caps) Has(x Caps) bool { return c&x == x }

// Atomicity is the scope in which remote atomics are atomic.
type Atomicity uint8

const (
	AtomicNone   Atomicity = iota
	AtomicLocal            // among QPs of this CA
	AtomicGlobal           // and with the host's processors
)

// CAAttr holds the attributes of a CA. Limits are numbers of objects unless a unit is named; 0 means none.
type CAAttr struct {
	GUID, SystemGUID GUID // the latter with CapSystemGUID
	VendorID         uint32
	DeviceID         uint16
	Revision         uint16
	Firmware         uint64
	Caps             Caps
	Atomicity        Atomicity

	MaxPDs, MaxAVs, MaxRDDs, MaxEECs                 int
	MaxQPs, MaxRawIPv6QPs, MaxRawEtherQPs            int
	MaxWRs, MaxSGEs, MaxReadSGEs                     int // per queue; per request; per RDMA read
	MaxInline                                        int // bytes
	MaxCQs, MaxCQEs                                  int // CQEs per CQ
	MaxSRQs, MaxSRQWRs, MaxSRQSGEs                   int
	MaxMRs, MaxMWs, MaxFMRs, MaxMapsPerFMR           int
	MaxFastRegPages                                  int
	MaxMRSize                                        uint64 // bytes
	MaxPartitions                                    int
	MaxMcastGroups, MaxMcastQPs, MaxQPsPerMcastGroup int        // MaxMcastQPs counts attachments
	MaxRespRes, MaxRespResPerQP, MaxInitDepthPerQP   int        // reads and atomics at once
	PageSizes                                        []uint64   // bytes, powers of two, ascending
	AckDelay                                         TimeExp    // 4.096 us * 2^n
	Vectors                                          int        // completion vectors
	Ports                                            []PortAttr // Ports[i] is port i+1
}

// HasHardwareAgents reports whether the adapter answers subnet management of a port, counted from 1, below the driver's
// interface: the port has HardwareAgents, or the adapter has CapHardwareSMA. CA.LocalMAD serves the other ports.
// [SAS-2.1-15, -16]
func (a *CAAttr) HasHardwareAgents(port uint8) bool {
	return a.Caps.Has(CapHardwareSMA) ||
		port > 0 && int(port) <= len(a.Ports) && a.Ports[port-1].HardwareAgents
}

// PortAttr holds the attributes of a port.
type PortAttr struct {
	Num                    uint8 // counted from 1
	GUID                   GUID
	Link                   Link
	State                  PortState
	PhysState              uint8 // IBTA: 2 polling, 3 disabled, 4 training, 5 up, 6 recovery
	MTU, MaxMTU            MTU
	MaxMsgSize             uint64 // bytes
	LID, SMLID             LID
	LMC, SMSL, MaxVLs      uint8
	WidthActive            uint8   // IBTA: 1 = 1X, 2 = 4X, 4 = 8X, 8 = 12X
	SpeedActive, SpeedExt  uint8   // IBTA: 1 = 2.5, 2 = 5, 4 = 10 Gb/s a lane; ext 1 = 14, 2 = 25
	SubnetTimeout          TimeExp // 4.096 us * 2^n
	InitTypeReply          InitType
	PKeyErrors, QKeyErrors uint16 // counters
	Capability             PortCap
	// HardwareAgents means that the adapter answers management datagrams of this port below the driver's interface. The
	// driver may pass them up afterwards, so that managers see them. Read it with CAAttr.HasHardwareAgents: an adapter
	// with CapHardwareSMA has such agents at all ports. [SAS-2.1-15, -18]
	HardwareAgents bool
	GIDs           []GIDEntry
	PKeys          []PKey
	// MTUs are the MTUs by service level, each at most MTU, on a port where they differ. It is empty on other ports.
	// Read them with MTUOf.
	MTUs []MTU
}

// MTUOf returns the MTU of packets with a service level.
func (a *PortAttr) MTUOf(sl SL) MTU {
	if int(sl) < len(a.MTUs) && a.MTUs[sl] < a.MTU {
		return a.MTUs[sl]
	}
	return a.MTU
}

// GIDEntry is an entry of a port's GID table. The index of an entry does not change while the entry is in use. An entry
// that is not used, or not any more, has a zero GID. A driver that uses such an entry for another GID raises
// EventGIDChange.
type GIDEntry struct {
	GID       GID
	Type      GIDType
	Interface string // name of the host's network interface that has the address; "" if there is none
}

// GIDType is the format of packets from a GID.
type GIDType uint8

const (
	GIDInfiniBand GIDType = iota
	GIDRoCEv1
	GIDRoCEv2
)

// Link is the transport of a port.
type Link uint8

const (
	LinkInfiniBand Link = iota
	LinkIWARP
	LinkEthernet
)

// PortState is the logical state of a port.
type PortState uint8

const (
	PortDown PortState = 1 + iota
	PortInit
	PortArmed
	PortActive
	PortActiveDefer
)

// InitType is a set of bits of PortInfo: 1 no load, 2 preserve content, 4 preserve presence, 8 do not resuscitate.
type InitType uint8

// PortCap is the CapabilityMask of PortInfo, in its IBTA bit positions (1<<1 IsSM … 1<<25
// IsClientReregistrationSupported).
type PortCap uint32

// PortField is a set of attributes that CA.Modify changes. Their meaning is that of the headers' modify mask.
type PortField uint32

const (
	PortFieldCapability PortField = 1 << iota // the bits named in PortModify.CapMask
	PortFieldPKeyErrors                       // set to the value in PortModify
	PortFieldQKeyErrors
	PortFieldInitType
	PortFieldSystemGUID
	// PortFieldShutdown takes the port down (CapShutdownPort). The next OpenCA brings it up if the driver can;
	// otherwise it stays down until its driver starts again or a subnet manager enables it.
	PortFieldShutdown
)

// PortModify holds the new values for CA.Modify.
type PortModify struct {
	CapMask, Capability    PortCap // the bits that change, and their new values
	PKeyErrors, QKeyErrors uint16
	InitType               InitType
	SystemGUID             GUID
}

// The bits of PortCap (IBTA volume 1, 14.2.5.6).
const (
	PortCapSM               PortCap = 1 << 1
	PortCapNotice           PortCap = 1 << 2
	PortCapTrap             PortCap = 1 << 3
	PortCapAutoMigration    PortCap = 1 << 5
	PortCapSLMapping        PortCap = 1 << 6
	PortCapMKeyNVRAM        PortCap = 1 << 7
	PortCapPKeyNVRAM        PortCap = 1 << 8
	PortCapLEDInfo          PortCap = 1 << 9
	PortCapSMDisabled       PortCap = 1 << 10
	PortCapSystemGUID       PortCap = 1 << 11
	PortCapCM               PortCap = 1 << 16
	PortCapSNMP             PortCap = 1 << 17
	PortCapReinit           PortCap = 1 << 18
	PortCapDeviceManagement PortCap = 1 << 19
	PortCapVendorClass      PortCap = 1 << 20
	PortCapDRNotice         PortCap = 1 << 21
	PortCapMaskNotice       PortCap = 1 << 22
	PortCapBootManagement   PortCap = 1 << 23
	PortCapLinkRoundTrip    PortCap = 1 << 24
	PortCapReregister       PortCap = 1 << 25
)

// String returns the name of the state in PortInfo.
func (s PortState) String() string { return name(portStateNames[:], int(s)) }

var portStateNames = [...]string{"no change", "Down", "Init", "Armed", "Active", "ActiveDefer"}
