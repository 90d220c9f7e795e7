package prm

// PCI identity.
const (
	VendorID             = 0x15b3
	DeviceConnectX3      = 0x1003
	DeviceConnectX3VF    = 0x1004
	DeviceConnectX3Pro   = 0x1007
	DeviceClassNetwork   = 0x028000
	BARControl           = 0 // registers
	BARDoorbells         = 2 // UAR pages, and behind them BlueFlame
	ControlSize          = 1 << 20
	ConfigCapPower       = 0x40
	ConfigCapExpress     = 0x60
	ConfigCapMSIX        = 0x9c
	MSIXTable            = 0x7c000
	MSIXPending          = 0x7d000
	UARPageSize          = 1 << 12
	ReservedUARs         = 128 // pages with EQ doorbells (linux main.c, mlx4_init_uar_table)
	MailboxSize          = 1 << 12
	ICMPageSize          = 1 << 12
	OwnershipFree        = 0
	SemaphoreFree        = 0
	ResetValue           = 1
	EQDoorbellsPerUAR    = 4
	HCRDwords            = 7
	HCRStatusDword       = 6
	MinCommandInterface  = 2
	CommandInterfacePort = 3 // has commands for ports of both types
)

// Registers of BARControl. Those below ClearInterrupt are where the firmware has them; QUERY_FW returns the others.
const (
	RegHCR            = 0x80680 // linux fw.c
	RegOwnership      = 0x8069c // linux main.c, mlx4_get_ownership
	RegReset          = 0xf0010 // linux reset.c
	RegSemaphore      = 0xf03fc // linux reset.c
	RegDeviceID       = 0xf0014 // mstflint mtcr_ul, HW_ID_ADDR: device in bits 15:0, revision in bits 19:16
	RegClearInterrupt = 0xf0058
	RegCatastrophic   = 0x1f020
	CatastrophicSize  = 0x10
)

// Devices of RegDeviceID (mstflint include/dev_mgt, hw_dev_id). They are not those of the PCI configuration space.
const (
	HardwareConnectX3    = 0x1f5
	HardwareConnectX3Pro = 0x1f7
)

// Offsets in a UAR page.
const (
	UARSendDoorbell = 0x14  // QPN in bits 31:8 (linux ib qp.c)
	UARCQDoorbell   = 0x20  // 8 bytes (linux include/linux/mlx4/cq.h)
	UAREQDoorbell   = 0x800 // 8 bytes for each EQ (linux eq.c)
)

// HCR is the command register.
var (
	hcr = newLayout("HCR", 4*HCRDwords, "linux cmd.c, HCR_*")

	HCRInParam    = hcr.u64(0x00, "in_param")
	HCRInModifier = hcr.u32(0x08, "in_modifier")
	HCROutHigh    = hcr.u32(0x0c, "out_param.hi")
	HCROutLow     = hcr.u32(0x10, "out_param.lo")
	HCRToken      = hcr.bits(0x14, 31, 16, "token")
	HCRStatus     = hcr.bits(0x18, 31, 24, "status")
	HCRGo         = hcr.bits(0x18, 23, 23, "go")
	HCREvent      = hcr.bits(0x18, 22, 22, "event")
	HCRToggle     = hcr.bits(0x18, 21, 21, "toggle")
	HCROpModifier = hcr.bits(0x18, 15, 12, "opcode_modifier")
	HCROpcode     = hcr.bits(0x18, 11, 0, "opcode")
)

// CQDoorbell is the 8 bytes that arm a CQ.
var (
	cqDoorbell = newLayout("CQ doorbell", 8, "linux include/linux/mlx4/cq.h, mlx4_cq_arm")

	CQDoorbellSequence = cqDoorbell.bits(0, 29, 28, "sn")
	CQDoorbellCommand  = cqDoorbell.bits(0, 26, 24, "command")
	CQDoorbellCQN      = cqDoorbell.bits(0, 23, 0, "cqn")
	CQDoorbellConsumer = cqDoorbell.bits(4, 23, 0, "consumer_index")
)

// Commands of a CQ doorbell.
const (
	ArmSolicited = 1
	ArmAny       = 2
)

// EQDoorbell is the dword that moves the consumer index of an EQ.
var (
	eqDoorbell = newLayout("EQ doorbell", 4, "linux eq.c, eq_set_ci")

	EQDoorbellArm      = eqDoorbell.bits(0, 31, 31, "arm")
	EQDoorbellConsumer = eqDoorbell.bits(0, 23, 0, "consumer_index")
)
