package fw

import (
	"context"
	"fmt"
	"math/bits"

	"ciddk/internal/mlx4/prm"
)

// Firmware identifies the firmware and the board.
type Firmware struct {
	Major, Minor, SubMinor uint16
	BoardID                string
	MaxCommands            int // that can be outstanding
}

// Caps are the capabilities of an adapter, within the limits of the Profile.
type Caps struct {
	Flags     uint64 // bits prm.FlagRC and so on
	BMMEFlags uint64 // bits prm.BMMEWindow2B and so on
	NumPorts  uint8
	IsPro     bool // ConnectX-3 Pro

	// Sizes of tables, with what is reserved in them.
	NumQPs, NumSRQs, NumCQs uint32
	NumMPTs, NumMTTs        uint32
	NumPDs                  uint32
	NumMCGs                 uint32 // of which the first half is indexed by hash
	MaxMcastQPs             uint32 // of a group entry
	LogMCGEntry             uint8  // bytes
	SpecialQPs              uint32 // the number of QP0 of port 1; QP0 of port 2 and both QP1 follow

	MaxQPSize, MaxSRQSize, MaxCQSize uint32 // entries
	MaxSendSGE, MaxRecvSGE           uint32
	MaxSendDesc, MaxRecvDesc         uint32 // bytes
	MaxInitDepth, MaxRespDepth       uint32 // RDMA READs and atomics per QP
	MaxMessage                       uint64 // bytes
	MaxLSO                           uint64 // bytes of a large send; 0 if there are none
	MinPage                          uint32 // bytes
	AckDelay                         uint8
	ReservedLKey                     uint32
	CQESize                          int // 32 or 64 bytes
	NumUARs                          uint32
	HasBlueFlame                     bool
	BlueFlameSize                    uint32 // bytes of a register
	CanResizeSRQ                     bool
}

// Has reports whether a bit of Flags is set.
func (c *Caps) Has(flag uint) bool { return c.Flags>>flag&1 != 0 }

// HasBMME reports whether a bit of BMMEFlags is set.
func (c *Caps) HasBMME(flag uint) bool { return c.BMMEFlags>>flag&1 != 0 }

// HasSteering reports whether multicast group entries steer unicast and multicast frames of Ethernet ports.
func (c *Caps) HasSteering() bool { return c.Has(prm.FlagVEPUnicast) && c.Has(prm.FlagVEPMulticast) }

// reserved are the numbers that the firmware keeps.
type reserved struct{ qps, srqs, cqs, eqs, mtts, mpts, pds uint32 }

const (
	maxPorts       = 2
	specialQPAlign = 8
	numSpecialQPs  = 8
	logMCGEntry    = 10
	maxAuxPages    = 1 << 18
)

// orDefault returns the logarithm of a table's size.
func orDefault(v, def uint8, most uint64) uint8 {
	if v == 0 {
		v = def
	}
	return min(v, uint8(most))
}

// queryCaps reads the capabilities, and arranges the ICM for them.
func (d *Device) queryCaps(ctx context.Context) error {
	b := make([]byte, prm.CapFlags.Layout.Size)
	if _, err := d.exec(ctx, prm.CmdQueryDevCap, Args{Out: b}); err != nil {
		return err
	}
	pow := func(f prm.Field) uint32 { return 1 << min(f.Get(b), 31) }
	get := func(f prm.Field) uint32 { return uint32(f.Get(b)) }
	p := &d.cfg.Profile
	p.LogQPs = orDefault(p.LogQPs, 16, prm.CapLogMaxQPs.Get(b))
	p.LogSRQs = orDefault(p.LogSRQs, 14, prm.CapLogMaxSRQs.Get(b))
	p.LogCQs = orDefault(p.LogCQs, 16, prm.CapLogMaxCQs.Get(b))
	p.LogMPTs = orDefault(p.LogMPTs, 17, prm.CapLogMaxMPTs.Get(b))
	p.LogMTTs = orDefault(p.LogMTTs, 22, 28)
	p.LogMCGs = orDefault(p.LogMCGs, 10, prm.CapLogMCGs.Get(b))
	p.LogReads = orDefault(p.LogReads, 4, prm.CapLogRespDepth.Get(b))
	d.reserved = reserved{qps: pow(prm.CapLogReservedQPs), srqs: pow(prm.CapLogReservedSRQs),
		cqs: pow(prm.CapLogReservedCQs), eqs: max(pow(prm.CapLogReservedEQs), eqsPerPage*get(prm.CapReservedUARs)),
		mtts: pow(prm.CapLogReservedMTTs), mpts: pow(prm.CapLogReservedMRWs), pds: get(prm.CapReservedPDs)}
	d.logEQs = uint8(prm.CapLogMaxEQs.Get(b))
	c := &d.caps
	*c = Caps{Flags: prm.CapFlags.Get(b), BMMEFlags: prm.CapBMMEFlags.Get(b), NumPorts: uint8(get(prm.CapNumPorts)),
		IsPro: d.f.ID().Device == prm.DeviceConnectX3Pro, NumQPs: 1 << p.LogQPs, NumSRQs: 1 << p.LogSRQs,
		NumCQs: 1 << p.LogCQs, NumMPTs: 1 << p.LogMPTs, NumMTTs: 1 << p.LogMTTs,
		NumPDs: 1 << min(prm.CapLogMaxPDs.Get(b), 17), NumMCGs: 1 << p.LogMCGs, LogMCGEntry: logMCGEntry,
		MaxMcastQPs: min((1<<logMCGEntry-prm.MCGQPs)/4, pow(prm.CapLogMcastQPs)), MaxQPSize: pow(prm.CapLogMaxQPSize),
		MaxSRQSize: pow(prm.CapLogMaxSRQSize), MaxCQSize: pow(prm.CapLogMaxCQSize), MaxSendSGE: get(prm.CapMaxSendSGE),
		MaxRecvSGE: get(prm.CapMaxRecvSGE), MaxSendDesc: get(prm.CapMaxSendDesc), MaxRecvDesc: get(prm.CapMaxRecvDesc),
		MaxInitDepth: pow(prm.CapLogInitDepth), MaxRespDepth: 1 << p.LogReads,
		MaxMessage: 1 << prm.CapLogMaxMessage.Get(b), MinPage: pow(prm.CapLogMinPage),
		AckDelay: uint8(get(prm.CapAckDelay)), ReservedLKey: get(prm.CapReservedLKey), CQESize: prm.CQESize,
		NumUARs:      uint32(min(uint64(1)<<min(prm.CapUARSize.Get(b)+20, 40)/prm.UARPageSize, 1<<24)),
		HasBlueFlame: prm.CapBlueFlame.Has(b), BlueFlameSize: pow(prm.CapLogBFSize),
		CanResizeSRQ: prm.CapResizeSRQ.Has(b)}
	if log := prm.CapLogMaxGSO.Get(b); log != 0 {
		c.MaxLSO = 1 << log
	}
	c.SpecialQPs = (d.reserved.qps + specialQPAlign - 1) &^ (specialQPAlign - 1)
	d.eqeStride = eqeSize
	if c.Has(prm.FlagEQE64) {
		d.eqeStride = 2 * eqeSize
	}
	if c.Has(prm.FlagCQE64) {
		c.CQESize = 2 * prm.CQESize
	}
	if err := d.checkCaps(); err != nil {
		return err
	}
	return d.arrangeICM(b)
}

// checkCaps compares the capabilities with what the driver needs.
func (d *Device) checkCaps() error {
	c, r := &d.caps, &d.reserved
	space := uint64(c.NumUARs) * prm.UARPageSize
	needed := space
	if c.HasBlueFlame {
		needed *= 2
	}
	for _, x := range []struct {
		ok   bool
		text string
	}{
		{c.NumPorts >= 1 && c.NumPorts <= maxPorts, fmt.Sprintf("%d ports", c.NumPorts)},
		{c.SpecialQPs+numSpecialQPs < c.NumQPs, fmt.Sprintf("%d QPs, with %d reserved", c.NumQPs, r.qps)},
		{r.srqs < c.NumSRQs, fmt.Sprintf("%d SRQs, with %d reserved", c.NumSRQs, r.srqs)},
		{r.cqs < c.NumCQs, fmt.Sprintf("%d CQs, with %d reserved", c.NumCQs, r.cqs)},
		{r.mpts < c.NumMPTs, fmt.Sprintf("%d MPTs, with %d reserved", c.NumMPTs, r.mpts)},
		{r.mtts < c.NumMTTs, fmt.Sprintf("%d MTTs, with %d reserved", c.NumMTTs, r.mtts)},
		{r.pds < c.NumPDs, fmt.Sprintf("%d PDs, with %d reserved", c.NumPDs, r.pds)},
		{c.NumMCGs >= 2, fmt.Sprintf("%d multicast groups", c.NumMCGs)},
		{r.eqs+minEQs <= 1<<d.logEQs, fmt.Sprintf("%d EQs, with %d reserved", 1<<d.logEQs, r.eqs)},
		{c.NumUARs > prm.ReservedUARs && needed <= d.uars.Size(), fmt.Sprintf("%d UAR pages in a BAR of %d bytes",
			c.NumUARs, d.uars.Size())},
		{!c.HasBlueFlame || c.BlueFlameSize >= 128 && c.BlueFlameSize <= prm.UARPageSize,
			fmt.Sprintf("BlueFlame registers of %d bytes", c.BlueFlameSize)},
		{c.MinPage <= prm.ICMPageSize, fmt.Sprintf("pages of %d bytes or more", c.MinPage)},
		{c.MaxSendDesc >= 64 && c.MaxRecvDesc >= 16 && c.MaxSendSGE > 0 && c.MaxRecvSGE > 0,
			fmt.Sprintf("work queue entries of %d and %d bytes", c.MaxSendDesc, c.MaxRecvDesc)},
	} {
		if !x.ok {
			return fmt.Errorf("fw: %s: the adapter reports %s", d.f.Location(), x.text)
		}
	}
	return nil
}

// arrangeICM sets the sizes of the tables in the ICM. b is the mailbox of QUERY_DEV_CAP.
func (d *Device) arrangeICM(b []byte) error {
	c, m := &d.caps, &d.icm
	cmpt := prm.CapSizeCMPT.Get(b)
	reads := uint64(c.NumQPs) * uint64(c.MaxRespDepth)
	for i, t := range [numTables]icmTable{
		tableCMPT:   {name: "cMPT", entry: cmpt, count: numCMPT * cmptPerType},
		tableRDMARC: {name: "RDMARC", entry: prm.CapSizeRDMARC.Get(b), count: reads},
		tableQPC:    {name: "QPC", entry: prm.CapSizeQPC.Get(b), count: uint64(c.NumQPs)},
		tableAUXC:   {name: "AUXC", entry: prm.CapSizeAUXC.Get(b), count: uint64(c.NumQPs)},
		tableALTC:   {name: "ALTC", entry: prm.CapSizeALTC.Get(b), count: uint64(c.NumQPs)},
		tableSRQC:   {name: "SRQC", entry: prm.CapSizeSRQC.Get(b), count: uint64(c.NumSRQs)},
		tableCQC:    {name: "CQC", entry: prm.CapSizeCQC.Get(b), count: uint64(c.NumCQs)},
		tableEQC:    {name: "EQC", entry: prm.CapSizeEQC.Get(b), count: 1 << d.logEQs},
		tableDMPT:   {name: "dMPT", entry: prm.CapSizeDMPT.Get(b), count: uint64(c.NumMPTs)},
		tableMTT:    {name: "MTT", entry: prm.CapSizeMTT.Get(b), count: uint64(c.NumMTTs)},
		tableMCG:    {name: "MCG", entry: 1 << c.LogMCGEntry, count: uint64(c.NumMCGs)},
	} {
		if t.entry == 0 || t.entry > prm.ICMPageSize || bits.OnesCount64(t.entry) != 1 {
			return fmt.Errorf("fw: the adapter reports entries of %d bytes in the table %s", t.entry, t.name)
		}
		m.tables[i].name, m.tables[i].entry, m.tables[i].count = t.name, t.entry, t.count
	}
	if m.tables[tableMTT].entry != prm.MTTSize || m.tables[tableDMPT].entry != prm.MPTStride {
		return fmt.Errorf("fw: the adapter reports MTTs of %d and MPTs of %d bytes", m.tables[tableMTT].entry,
			m.tables[tableDMPT].entry)
	}
	if err := m.arrange(prm.CapMaxICM.Get(b)); err != nil {
		return err
	}
	for i := range m.tables {
		if t := &m.tables[i]; i != tableCMPT {
			t.setCount(t.count)
		}
	}
	for i, n := range [numCMPT]uint32{cmptQP: c.NumQPs, cmptSRQ: c.NumSRQs, cmptCQ: c.NumCQs, cmptEQ: 1 << d.logEQs} {
		t := &m.cmpt[i]
		t.name, t.entry = "cMPT", cmpt
		t.base = m.tables[tableCMPT].base + uint64(i)*cmptPerType*cmpt
		t.setCount(uint64(n))
	}
	return nil
}
