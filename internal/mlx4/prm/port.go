package prm

// Mailbox of QUERY_PORT.
var (
	queryPort = newLayout("QUERY_PORT", 0x100, "linux fw.c, mlx4_QUERY_PORT; port.c, mlx4_get_port_ib_caps")

	PortLinkUp       = queryPort.byteBits(0x00, 7, 7, "link_up")
	PortDMFS         = queryPort.byteBits(0x00, 5, 5, "dmfs_optimized")
	PortDefaultSense = queryPort.byteBits(0x00, 4, 4, "default_sense")
	PortSuggested    = queryPort.byteBits(0x00, 3, 3, "suggested_type")
	PortTypes        = queryPort.byteBits(0x00, 1, 0, "supported_types")
	PortAutoneg      = queryPort.byteBits(0x01, 7, 7, "autoneg")
	PortIBMTU        = queryPort.byteBits(0x01, 3, 0, "ib_mtu")
	PortEthMTU       = queryPort.u16(0x02, "eth_mtu")
	PortSpeed        = queryPort.u8(0x05, "actual_speed")
	PortWidths       = queryPort.byteBits(0x06, 3, 0, "ib_port_width")
	PortLogGIDs      = queryPort.byteBits(0x07, 7, 4, "log_max_gids")
	PortLogPKeys     = queryPort.byteBits(0x07, 3, 0, "log_max_pkeys")
	PortLogVLANs     = queryPort.byteBits(0x0a, 7, 4, "log_max_vlans")
	PortLogMACs      = queryPort.byteBits(0x0a, 3, 0, "log_max_macs")
	PortMaxTC        = queryPort.byteBits(0x0b, 7, 4, "max_tc_eth")
	PortMaxVLs       = queryPort.byteBits(0x0b, 3, 0, "max_vl_ib")
	PortMAC          = queryPort.mac(0x10)
	PortTransceiver  = queryPort.bits(0x18, 31, 24, "trans_type")
	PortVendorOUI    = queryPort.bits(0x18, 23, 0, "vendor_oui")
	PortWavelength   = queryPort.u16(0x1c, "wavelength")
	PortTransCode    = queryPort.u64(0x20, "trans_code")
)

// Types of a port.
const (
	PortTypeNone = 0
	PortTypeIB   = 1
	PortTypeEth  = 2
)

// Values of PortSpeed.
const (
	Speed10G  = 0x01
	Speed1G   = 0x02
	Speed100M = 0x04
	Speed20G  = 0x08
	Speed56G  = 0x20
	Speed40G  = 0x40
)

// Mailbox of SET_PORT for an InfiniBand port.
var (
	setPortIB = newLayout("SET_PORT, InfiniBand", 0x100, "linux port.c, mlx4_SET_PORT, mlx4_common_set_port")

	SetPortChangeMTU    = setPortIB.bits(0x00, 22, 22, "change_mtu_cap")
	SetPortChangeVL     = setPortIB.bits(0x00, 21, 21, "change_vl_cap")
	SetPortChangePKeys  = setPortIB.bits(0x00, 20, 20, "change_pkey_tbl")
	SetPortReset        = setPortIB.bits(0x00, 19, 16, "reset_counters")
	SetPortMTU          = setPortIB.bits(0x00, 15, 12, "mtu_cap")
	SetPortVLs          = setPortIB.bits(0x00, 7, 4, "vl_cap")
	SetPortCapabilities = setPortIB.u32(0x04, "capability_mask")
	SetPortPKeys        = setPortIB.u16(0x28, "pkey_tbl_sz")
)

// Opcode modifiers of SET_PORT.
const (
	SetPortModeIB     = 0
	SetPortModeEth    = 1
	SetPortModeBeacon = 4
)

// What SET_PORT sets on an Ethernet port: bits 15:8 of its input modifier (linux include/linux/mlx4/cmd.h).
const (
	SetPortGeneral  = 0x0
	SetPortRQPCalc  = 0x1
	SetPortMACTable = 0x2
	SetPortVLANs    = 0x3
	SetPortPriority = 0x4
	SetPortGIDTable = 0x5
	SetPortPrio2TC  = 0x8
	SetPortSchedule = 0x9
	SetPortVXLAN    = 0xb
	SetPortRoCEAddr = 0xd
)

// Mailbox of SET_PORT, general parameters of an Ethernet port.
var (
	setPortGeneral = newLayout("SET_PORT, general", 0x20, "linux port.c, mlx4_set_port_gen_context")

	GeneralFlags   = setPortGeneral.u8(0x03, "flags")
	GeneralRoCE    = setPortGeneral.u8(0x04, "roce_mode")
	GeneralMTU     = setPortGeneral.u16(0x06, "mtu")
	GeneralPauseTX = setPortGeneral.byteBits(0x08, 7, 7, "pptx")
	GeneralPauseRX = setPortGeneral.byteBits(0x0c, 7, 7, "pprx")
)

// MACEntry is an element of the MAC table of SET_PORT.
var (
	macEntry = newLayout("MAC table entry", 8, "linux port.c, mlx4_set_port_mac_table")

	MACValid   = macEntry.field(0, 8, 63, 63, "valid")
	MACAddress = macEntry.mac(0)
)

// VLANEntry is an element of the VLAN table of SET_PORT.
var (
	vlanEntry = newLayout("VLAN table entry", 4, "linux port.c, mlx4_set_port_vlan_table")

	VLANValid = vlanEntry.bits(0, 31, 31, "valid")
	VLANID    = vlanEntry.bits(0, 11, 0, "vlan")
)

// RoCEAddress is an element of the table of SET_PORT with SetPortRoCEAddr.
var (
	roceAddress = newLayout("RoCE address", 32, "linux ib main.c, mlx4_ib_update_gids_v1_v2")

	RoCEGID     = roceAddress.u64(0x00, "gid")    // 16 bytes
	RoCEType    = roceAddress.u8(0x1a, "type")    // 1: not an IPv4 address
	RoCEVersion = roceAddress.u8(0x1b, "version") // 2: RoCEv2
)

// Sizes of the tables of SET_PORT.
const (
	MACTableSize  = 128
	VLANTableSize = 128
	GIDTableSize  = 128
	GIDSize       = 16
)

// VLANFilterEntries is the number of dwords in the mailbox of SET_VLAN_FLTR. The last one has the bits of VLANs 0 to 31
// (linux mlx4_en en_port.c, mlx4_SET_VLAN_FLTR).
const VLANFilterEntries = 128

// Input parameter of SET_MCAST_FLTR with McastFilterConfig.
var (
	mcastFilter = newLayout("SET_MCAST_FLTR input parameter", 8, "linux port.c, mlx4_SET_MCAST_FLTR")

	McastFilterClear = mcastFilter.field(0, 8, 63, 63, "clear")
	McastFilterMAC   = mcastFilter.mac(0)
)

// Opcode modifiers of SET_MCAST_FLTR (linux include/linux/mlx4/device.h).
const (
	McastFilterConfig  = 0 // add an address, to an empty filter with McastFilterClear
	McastFilterDisable = 1 // receive all groups
	McastFilterEnable  = 2
)
