package model

import "ciddk/internal/mlx4/prm"

// layout is what INIT_HCA sets: the tables in the ICM, and sizes of entries.
type layout struct {
	mailbox                         []byte // as the driver passed it
	mtt, dmpt, mcg                  uint64
	logQPs, logSRQs, logCQs, logEQs uint8
	logMPTs                         uint8
	logMCEntry, logMCHash, logMCs   uint8
	eqeSize, cqeSize                uint32
}

func (c *command) initHCA() prm.Status {
	b, ok := c.inbox(prm.HCAVersion.Layout.Size)
	if !ok {
		return prm.BadParam
	}
	if c.stage == stageInit {
		return prm.BadSysState
	}
	l := layout{mailbox: b, mtt: prm.HCAMTTBase.Get(b), dmpt: prm.HCADMPTBase.Get(b), mcg: prm.HCAMCBase.Get(b),
		logQPs: uint8(prm.HCALogQPs.Get(b)), logSRQs: uint8(prm.HCALogSRQs.Get(b)),
		logCQs: uint8(prm.HCALogCQs.Get(b)), logEQs: uint8(prm.HCALogEQs.Get(b)),
		logMPTs: uint8(prm.HCALogMPTs.Get(b)), logMCEntry: uint8(prm.HCALogMCEntry.Get(b)),
		logMCHash: uint8(prm.HCALogMCHash.Get(b)), logMCs: uint8(prm.HCALogMCTable.Get(b)),
		eqeSize: eqeSize, cqeSize: prm.CQESize}
	if prm.HCAEQE64.Has(b) {
		l.eqeSize = 2 * eqeSize
	}
	if prm.HCACQE64.Has(b) {
		l.cqeSize = 2 * prm.CQESize
	}
	if status := l.check(b); status != prm.OK {
		return status
	}
	c.layout = l
	c.eqs.reset()
	if status := c.openObjects(); status != prm.OK {
		return status
	}
	c.stage = stageInit
	return prm.OK
}

// Sizes of an entry of the multicast table, as logarithms.
const (
	minMCEntry = 6
	maxMCEntry = 11
)

// check compares the sizes with those of QUERY_DEV_CAP.
func (l *layout) check(b []byte) prm.Status {
	switch {
	case prm.HCAVersion.Get(b) != prm.InitHCAVersion:
		return prm.BadParam
	case l.logQPs > logMaxQPs || l.logSRQs > logMaxSRQs || l.logCQs > logMaxCQs || l.logEQs > logMaxEQs ||
		l.logMPTs > logMaxMPTs:
		return prm.ExceedLim
	case l.logMCEntry < minMCEntry || l.logMCEntry > maxMCEntry || l.logMCs > logMaxMCGs+1 || l.logMCHash > l.logMCs:
		return prm.BadParam
	case prm.HCALogUARs.Get(b) > logUARs || prm.HCAUARPageSize.Get(b) != 0:
		return prm.BadParam
	}
	return prm.OK
}

func (c *command) queryHCA() prm.Status {
	b := append([]byte(nil), c.layout.mailbox...)
	prm.HCAGlobalCaps.Put(b, 0)
	prm.HCACoreClock.Put(b, coreClock)
	return c.outbox(b)
}

// coreClock is the frequency of the adapter's clock in MHz.
const coreClock = 427

// closeHCA ends the operation of the adapter. The ICM stays mapped.
func (c *command) closeHCA() prm.Status {
	c.closeObjects()
	c.stage = stageRunning
	return prm.OK
}
