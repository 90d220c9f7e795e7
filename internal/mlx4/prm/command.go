package prm

import "fmt"

// An Opcode is that of a command (linux include/linux/mlx4/cmd.h).
type Opcode uint16

// Commands.
const (
	CmdSysEn         Opcode = 0x001
	CmdSysDis        Opcode = 0x002
	CmdQueryDevCap   Opcode = 0x003
	CmdQueryFW       Opcode = 0x004
	CmdQueryAdapter  Opcode = 0x006
	CmdInitHCA       Opcode = 0x007
	CmdCloseHCA      Opcode = 0x008
	CmdInitPort      Opcode = 0x009
	CmdClosePort     Opcode = 0x00a
	CmdQueryHCA      Opcode = 0x00b
	CmdSetPort       Opcode = 0x00c
	CmdSW2HWMPT      Opcode = 0x00d
	CmdQueryMPT      Opcode = 0x00e
	CmdHW2SWMPT      Opcode = 0x00f
	CmdWriteMTT      Opcode = 0x011
	CmdMapEQ         Opcode = 0x012
	CmdSW2HWEQ       Opcode = 0x013
	CmdHW2SWEQ       Opcode = 0x014
	CmdQueryEQ       Opcode = 0x015
	CmdSW2HWCQ       Opcode = 0x016
	CmdHW2SWCQ       Opcode = 0x017
	CmdQueryCQ       Opcode = 0x018
	CmdRST2INIT      Opcode = 0x019
	CmdINIT2RTR      Opcode = 0x01a
	CmdRTR2RTS       Opcode = 0x01b
	CmdRTS2RTS       Opcode = 0x01c
	CmdSQERR2RTS     Opcode = 0x01d
	Cmd2ERR          Opcode = 0x01e
	CmdRTS2SQD       Opcode = 0x01f
	CmdSQD2RTS       Opcode = 0x020
	Cmd2RST          Opcode = 0x021
	CmdQueryQP       Opcode = 0x022
	CmdConfSpecialQP Opcode = 0x023
	CmdMADIFC        Opcode = 0x024
	CmdReadMCG       Opcode = 0x025
	CmdWriteMCG      Opcode = 0x026
	CmdMGIDHash      Opcode = 0x027
	CmdModifyCQ      Opcode = 0x02c
	CmdINIT2INIT     Opcode = 0x02d
	CmdSyncTPT       Opcode = 0x02f
	CmdDiagReport    Opcode = 0x030
	CmdNOP           Opcode = 0x031
	CmdModStatCfg    Opcode = 0x034
	CmdSW2HWSRQ      Opcode = 0x035
	CmdHW2SWSRQ      Opcode = 0x036
	CmdQuerySRQ      Opcode = 0x037
	CmdSQD2SQD       Opcode = 0x038
	CmdConfigDev     Opcode = 0x03a
	CmdAccessReg     Opcode = 0x03b
	CmdArmSRQ        Opcode = 0x040
	CmdQueryPort     Opcode = 0x043
	CmdSetVLANFilter Opcode = 0x047
	CmdSetMcastFlt   Opcode = 0x048
	CmdDumpEthStats  Opcode = 0x049
	CmdSensePort     Opcode = 0x04d
	CmdQueryIfStat   Opcode = 0x054
	CmdSetIfStat     Opcode = 0x055
	CmdQueryFunc     Opcode = 0x056
	CmdGetOpReq      Opcode = 0x059
	CmdSetNode       Opcode = 0x05a
	CmdUpdateQP      Opcode = 0x061
	CmdMADDemux      Opcode = 0x203
	CmdRunFW         Opcode = 0xff6
	CmdUnmapICM      Opcode = 0xff9
	CmdMapICM        Opcode = 0xffa
	CmdUnmapICMAux   Opcode = 0xffb
	CmdMapICMAux     Opcode = 0xffc
	CmdSetICMSize    Opcode = 0xffd
	CmdUnmapFA       Opcode = 0xffe
	CmdMapFA         Opcode = 0xfff
)

var opcodeNames = map[Opcode]string{
	CmdSysEn: "SYS_EN", CmdSysDis: "SYS_DIS", CmdQueryDevCap: "QUERY_DEV_CAP", CmdQueryFW: "QUERY_FW",
	CmdQueryAdapter: "QUERY_ADAPTER", CmdInitHCA: "INIT_HCA", CmdCloseHCA: "CLOSE_HCA", CmdInitPort: "INIT_PORT",
	CmdClosePort: "CLOSE_PORT", CmdQueryHCA: "QUERY_HCA", CmdSetPort: "SET_PORT", CmdSW2HWMPT: "SW2HW_MPT",
	CmdQueryMPT: "QUERY_MPT", CmdHW2SWMPT: "HW2SW_MPT", CmdWriteMTT: "WRITE_MTT", CmdMapEQ: "MAP_EQ",
	CmdSW2HWEQ: "SW2HW_EQ", CmdHW2SWEQ: "HW2SW_EQ", CmdQueryEQ: "QUERY_EQ", CmdSW2HWCQ: "SW2HW_CQ",
	CmdHW2SWCQ: "HW2SW_CQ", CmdQueryCQ: "QUERY_CQ", CmdRST2INIT: "RST2INIT_QP", CmdINIT2RTR: "INIT2RTR_QP",
	CmdRTR2RTS: "RTR2RTS_QP", CmdRTS2RTS: "RTS2RTS_QP", CmdSQERR2RTS: "SQERR2RTS_QP", Cmd2ERR: "2ERR_QP",
	CmdRTS2SQD: "RTS2SQD_QP", CmdSQD2RTS: "SQD2RTS_QP", Cmd2RST: "2RST_QP", CmdQueryQP: "QUERY_QP",
	CmdConfSpecialQP: "CONF_SPECIAL_QP", CmdMADIFC: "MAD_IFC", CmdReadMCG: "READ_MCG", CmdWriteMCG: "WRITE_MCG",
	CmdMGIDHash: "MGID_HASH", CmdModifyCQ: "MODIFY_CQ", CmdINIT2INIT: "INIT2INIT_QP", CmdSyncTPT: "SYNC_TPT",
	CmdDiagReport: "DIAG_RPRT", CmdNOP: "NOP", CmdModStatCfg: "MOD_STAT_CFG", CmdSW2HWSRQ: "SW2HW_SRQ",
	CmdHW2SWSRQ: "HW2SW_SRQ", CmdQuerySRQ: "QUERY_SRQ", CmdSQD2SQD: "SQD2SQD_QP", CmdConfigDev: "CONFIG_DEV",
	CmdAccessReg: "ACCESS_REG", CmdArmSRQ: "ARM_SRQ", CmdQueryPort: "QUERY_PORT",
	CmdSetVLANFilter: "SET_VLAN_FLTR", CmdSetMcastFlt: "SET_MCAST_FLTR", CmdDumpEthStats: "DUMP_ETH_STATS",
	CmdSensePort: "SENSE_PORT", CmdQueryIfStat: "QUERY_IF_STAT", CmdSetIfStat: "SET_IF_STAT",
	CmdQueryFunc: "QUERY_FUNC", CmdGetOpReq: "GET_OP_REQ", CmdSetNode: "SET_NODE", CmdUpdateQP: "UPDATE_QP",
	CmdMADDemux: "MAD_DEMUX", CmdRunFW: "RUN_FW", CmdUnmapICM: "UNMAP_ICM", CmdMapICM: "MAP_ICM",
	CmdUnmapICMAux: "UNMAP_ICM_AUX", CmdMapICMAux: "MAP_ICM_AUX", CmdSetICMSize: "SET_ICM_SIZE",
	CmdUnmapFA: "UNMAP_FA", CmdMapFA: "MAP_FA",
}

// String returns the name of the command.
func (o Opcode) String() string {
	if s, ok := opcodeNames[o]; ok {
		return s
	}
	return fmt.Sprintf("command 0x%03x", uint16(o))
}

// ParseOpcode returns the command with a name, such as SW2HW_MPT.
func ParseOpcode(name string) (Opcode, error) {
	for o, s := range opcodeNames {
		if s == name {
			return o, nil
		}
	}
	return 0, fmt.Errorf("prm: no command has the name %q (they are like SW2HW_MPT)", name)
}

// A Status is the result of a command (linux cmd.c, mlx4_status_to_errno).
type Status uint8

// Results of commands.
const (
	OK            Status = 0x00
	InternalErr   Status = 0x01
	BadOp         Status = 0x02
	BadParam      Status = 0x03
	BadSysState   Status = 0x04
	BadResource   Status = 0x05
	ResourceBusy  Status = 0x06
	ExceedLim     Status = 0x08
	BadResState   Status = 0x09
	BadIndex      Status = 0x0a
	BadNVMem      Status = 0x0b
	ICMError      Status = 0x0c
	BadQPState    Status = 0x10
	BadSegParam   Status = 0x20
	RegBound      Status = 0x21
	LAMNotPre     Status = 0x22
	BadPkt        Status = 0x30
	BadSize       Status = 0x40
	MultiFuncReqd Status = 0x50
)

var statusNames = map[Status]string{
	OK: "OK", InternalErr: "INTERNAL_ERR", BadOp: "BAD_OP", BadParam: "BAD_PARAM", BadSysState: "BAD_SYS_STATE",
	BadResource: "BAD_RESOURCE", ResourceBusy: "RESOURCE_BUSY", ExceedLim: "EXCEED_LIM", BadResState: "BAD_RES_STATE",
	BadIndex: "BAD_INDEX", BadNVMem: "BAD_NVMEM", ICMError: "ICM_ERROR", BadQPState: "BAD_QP_STATE",
	BadSegParam: "BAD_SEG_PARAM", RegBound: "REG_BOUND", LAMNotPre: "LAM_NOT_PRE", BadPkt: "BAD_PKT",
	BadSize: "BAD_SIZE", MultiFuncReqd: "MULTI_FUNC_REQ",
}

// String returns the name of the status.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("status 0x%02x", uint8(s))
}

// ParseStatus returns the status with a name, such as BAD_PARAM.
func ParseStatus(name string) (Status, error) {
	for s, n := range statusNames {
		if n == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("prm: no status has the name %q (they are like BAD_PARAM)", name)
}
