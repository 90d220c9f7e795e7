package model

import "ciddk/internal/mlx4/prm"

// handlers are the commands that the model has. Others complete with BAD_OP.
var handlers map[prm.Opcode]handler

func init() {
	handlers = map[prm.Opcode]handler{
		prm.CmdQueryFW:       {stageReset, (*command).queryFW},
		prm.CmdMapFA:         {stageReset, (*command).mapFA},
		prm.CmdUnmapFA:       {stageReset, (*command).unmapFA},
		prm.CmdRunFW:         {stageArea, (*command).runFW},
		prm.CmdModStatCfg:    {stageArea, (*command).modStatCfg},
		prm.CmdQueryDevCap:   {stageRunning, (*command).queryDevCap},
		prm.CmdQueryAdapter:  {stageRunning, (*command).queryAdapter},
		prm.CmdNOP:           {stageRunning, (*command).nop},
		prm.CmdSetICMSize:    {stageRunning, (*command).setICMSize},
		prm.CmdMapICMAux:     {stageRunning, (*command).mapICMAux},
		prm.CmdUnmapICMAux:   {stageRunning, (*command).unmapICMAux},
		prm.CmdMapICM:        {stageRunning, (*command).mapICM},
		prm.CmdUnmapICM:      {stageRunning, (*command).unmapICM},
		prm.CmdQueryPort:     {stageRunning, (*command).queryPort},
		prm.CmdSensePort:     {stageRunning, (*command).sensePort},
		prm.CmdInitHCA:       {stageRunning, (*command).initHCA},
		prm.CmdQueryHCA:      {stageInit, (*command).queryHCA},
		prm.CmdCloseHCA:      {stageInit, (*command).closeHCA},
		prm.CmdSW2HWEQ:       {stageInit, (*command).sw2hwEQ},
		prm.CmdHW2SWEQ:       {stageInit, (*command).hw2swEQ},
		prm.CmdQueryEQ:       {stageInit, (*command).queryEQ},
		prm.CmdMapEQ:         {stageInit, (*command).mapEQ},
		prm.CmdSetPort:       {stageInit, (*command).setPort},
		prm.CmdInitPort:      {stageInit, (*command).initPort},
		prm.CmdClosePort:     {stageInit, (*command).closePort},
		prm.CmdSW2HWMPT:      {stageInit, (*command).sw2hwMPT},
		prm.CmdHW2SWMPT:      {stageInit, (*command).hw2swMPT},
		prm.CmdQueryMPT:      {stageInit, (*command).queryMPT},
		prm.CmdSyncTPT:       {stageInit, (*command).syncTPT},
		prm.CmdWriteMTT:      {stageInit, (*command).writeMTT},
		prm.CmdSW2HWCQ:       {stageInit, (*command).sw2hwCQ},
		prm.CmdHW2SWCQ:       {stageInit, (*command).hw2swCQ},
		prm.CmdQueryCQ:       {stageInit, (*command).queryCQ},
		prm.CmdModifyCQ:      {stageInit, (*command).modifyCQ},
		prm.CmdSW2HWSRQ:      {stageInit, (*command).sw2hwSRQ},
		prm.CmdHW2SWSRQ:      {stageInit, (*command).hw2swSRQ},
		prm.CmdQuerySRQ:      {stageInit, (*command).querySRQ},
		prm.CmdArmSRQ:        {stageInit, (*command).armSRQ},
		prm.CmdConfSpecialQP: {stageInit, (*command).confSpecialQP},
		prm.Cmd2RST:          {stageInit, (*command).resetQP},
		prm.CmdQueryQP:       {stageInit, (*command).queryQP},
		prm.CmdUpdateQP:      {stageInit, (*command).updateQP},
		prm.CmdReadMCG:       {stageInit, (*command).readMCG},
		prm.CmdWriteMCG:      {stageInit, (*command).writeMCG},
		prm.CmdMGIDHash:      {stageInit, (*command).mgidHash},
		prm.CmdDiagReport:    {stageInit, (*command).diagReport},
		prm.CmdSetNode:       {stageInit, (*command).setNode},
		prm.CmdConfigDev:     {stageInit, (*command).configDev},
		prm.CmdDumpEthStats:  {stageInit, (*command).ethernetStats},
		prm.CmdSetMcastFlt:   {stageInit, (*command).setGroupFilter},
		prm.CmdSetVLANFilter: {stageInit, (*command).setVLANFilter},
		prm.CmdMADIFC:        {stageInit, (*command).madIFC},
	}
	for op := range qpSteps {
		handlers[op] = handler{stageInit, (*command).modifyQP}
	}
}
