package model

import "ciddk/internal/mlx4/prm"

// Sizes of the adapter, as logarithms.
const (
	logMaxQPSize     = 14
	logMaxSRQSize    = 14
	logMaxCQSize     = 22
	logMaxQPs        = 24
	logMaxSRQs       = 24
	logMaxCQs        = 24
	logMaxMPTs       = 24
	logMaxEQs        = 9
	logReservedQPs   = 6
	logReservedSRQs  = 6
	logReservedCQs   = 7
	logReservedEQs   = 3
	logReservedMTTs  = 4
	logReservedMRWs  = 4
	logMaxMRSize     = 52
	logInitDepth     = 7
	logRespDepth     = 7
	logMaxMessage    = 31
	logUARs          = 10 // 4 MiB
	logBlueFlame     = 9
	logBFPerPage     = 3
	logMaxMCGs       = 13
	logMcastQPs      = 8
	reservedUARs     = 1
	maxSendSGE       = 62
	maxSendDesc      = 1008
	maxRecvSGE       = 32
	maxRecvDesc      = 512
	numVectors       = 64
	ackDelay         = 15
	logGIDs          = 7
	logPKeys         = 7
	mttEntry         = 8
	maxStride        = 6 // of a WQE: 1 KiB
	uarBytes         = prm.UARPageSize << logUARs
	doorbellBARBytes = 2 * uarBytes
)

// capFlags returns the capability flags.
func (m *Model) capFlags() uint64 {
	var v uint64
	for _, bit := range []uint{prm.FlagRC, prm.FlagUC, prm.FlagUD, prm.FlagSRQ, prm.FlagBadPKeyCount,
		prm.FlagBadQKeyCount, prm.FlagMemoryWindows, prm.FlagAPM, prm.FlagAtomic, prm.FlagUDAVPort, prm.FlagUDMulticast,
		prm.FlagVEPUnicast, prm.FlagVEPMulticast, prm.FlagSensePort, prm.FlagPortManagement, prm.FlagEQE64,
		prm.FlagCQE64, prm.FlagIPoIBChecksum, prm.FlagBigLSO} {
		v |= 1 << bit
	}
	for _, p := range m.ports {
		if p.isEthernet() {
			v |= 1<<prm.FlagIBoE | 1<<prm.FlagUDPRSS
		}
	}
	return v
}

// bmmeFlags returns the flags of extended memory management.
func (m *Model) bmmeFlags() uint64 {
	v := uint64(1<<prm.BMMELocalInvalidate | 1<<prm.BMMERemoteInvalidate | 1<<prm.BMMEReservedLKey |
		1<<prm.BMMEFastRegister)
	if m.cfg.Windows2 {
		v |= 1 << prm.BMMEWindow2
	}
	if m.cfg.Quirks.ClaimWindows2B {
		v |= 1 << prm.BMMEWindow2B
	}
	if m.cfg.Pro {
		v |= 1<<prm.BMMERoCE12 | 1<<prm.BMMEConfigDev
	}
	return v
}

// bit returns 1 for true.
func bit(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

func (c *command) queryDevCap() prm.Status {
	b := make([]byte, prm.CapFlags.Layout.Size)
	for _, e := range []struct {
		f prm.Field
		v uint64
	}{
		{prm.CapLogMaxSRQSize, logMaxSRQSize}, {prm.CapLogMaxQPSize, logMaxQPSize},
		{prm.CapLogReservedQPs, logReservedQPs}, {prm.CapLogMaxQPs, logMaxQPs},
		{prm.CapLogReservedSRQs, logReservedSRQs}, {prm.CapLogMaxSRQs, logMaxSRQs},
		{prm.CapLogMaxCQSize, logMaxCQSize}, {prm.CapLogReservedCQs, logReservedCQs},
		{prm.CapLogMaxCQs, logMaxCQs}, {prm.CapLogMaxMPTs, logMaxMPTs},
		{prm.CapLogReservedEQs, logReservedEQs}, {prm.CapLogMaxEQs, logMaxEQs},
		{prm.CapLogReservedMTTs, logReservedMTTs}, {prm.CapLogMaxMRSize, logMaxMRSize},
		{prm.CapLogReservedMRWs, logReservedMRWs}, {prm.CapLogInitDepth, logInitDepth},
		{prm.CapLogRespDepth, logRespDepth}, {prm.CapLogRDMAResources, 20}, {prm.CapAckDelay, ackDelay},
		{prm.CapOldMTUWidth, 0x53}, {prm.CapOldVLs, 8}, {prm.CapNumPorts, uint64(len(c.ports))},
		{prm.CapLogMaxMessage, logMaxMessage}, {prm.CapLogGIDs, logGIDs}, {prm.CapLogPKeys, logPKeys},
		{prm.CapFlags, c.capFlags()}, {prm.CapReservedUARs, reservedUARs},
		{prm.CapUARSize, logUARs + 12 - 20}, {prm.CapLogMinPage, 12},
		{prm.CapBlueFlame, bit(!c.cfg.NoBlueFlame)}, {prm.CapLogBFSize, logBlueFlame},
		{prm.CapLogBFPerPage, logBFPerPage}, {prm.CapMaxSendSGE, maxSendSGE}, {prm.CapMaxSendDesc, maxSendDesc},
		{prm.CapMaxRecvSGE, maxRecvSGE}, {prm.CapMaxRecvDesc, maxRecvDesc},
		{prm.CapLogMcastQPs, logMcastQPs}, {prm.CapLogMCGs, logMaxMCGs}, {prm.CapReservedPDs, 2},
		{prm.CapLogMaxPDs, 23}, {prm.CapLogMaxXRCDs, 16}, {prm.CapSizeRDMARC, 32}, {prm.CapSizeQPC, 256},
		{prm.CapSizeAUXC, 256}, {prm.CapSizeALTC, 64}, {prm.CapSizeEQC, 128}, {prm.CapSizeCQC, 128},
		{prm.CapSizeSRQC, 128}, {prm.CapSizeCMPT, 64}, {prm.CapSizeMTT, mttEntry},
		{prm.CapSizeDMPT, uint64(prm.MPTStride)}, {prm.CapBMMEFlags, c.bmmeFlags()},
		{prm.CapLogMaxGSO, logMaxLSO}, {prm.CapRSSXOR, 1}, {prm.CapRSSToeplitz, 1}, {prm.CapLogRSSTable, maxRSSLog},
		{prm.CapReservedLKey, uint64(prm.MPTReservedLKey)}, {prm.CapMaxICM, 1 << 52},
	} {
		e.f.Put(b, e.v)
	}
	return c.outbox(b)
}
