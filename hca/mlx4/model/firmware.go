package model

import (
	"ciddk/internal/mlx4/prm"
)

// Version of the firmware.
const (
	firmwareMajor    = 2
	firmwareMinor    = 42
	firmwareSubMinor = 5000
)

const (
	firmwarePages  = 512 // pages of the host that the firmware asks for
	logCommands    = 4   // commands that may be outstanding
	maxPageEntries = prm.MailboxSize / 16
)

func (c *command) queryFW() prm.Status {
	b := make([]byte, prm.FWPages.Layout.Size)
	prm.FWPages.Put(b, firmwarePages)
	prm.FWMajor.Put(b, firmwareMajor)
	prm.FWMinor.Put(b, firmwareMinor)
	prm.FWSubMinor.Put(b, firmwareSubMinor)
	prm.FWCommandRevision.Put(b, prm.CommandInterfacePort)
	prm.FWLogCommands.Put(b, logCommands)
	prm.FWClearInterrupt.Put(b, prm.RegClearInterrupt)
	prm.FWErrorBuffer.Put(b, prm.RegCatastrophic)
	prm.FWErrorSize.Put(b, prm.CatastrophicSize)
	return c.outbox(b)
}

// A pageRun is a run of pages of the host.
type pageRun struct {
	virtual, physical uint64
	pages             uint64
}

// pageRuns reads the page list of a MAP command.
func (c *command) pageRuns() ([]pageRun, prm.Status) {
	if c.mod == 0 || c.mod > maxPageEntries {
		return nil, prm.BadParam
	}
	size := prm.PageVirtual.Layout.Size
	b, ok := c.inbox(int(c.mod) * size)
	if !ok {
		return nil, prm.BadParam
	}
	runs := make([]pageRun, c.mod)
	for i := range runs {
		e := b[i*size:]
		r := pageRun{virtual: prm.PageVirtual.Get(e), physical: prm.PagePhysical.Get(e) << 12,
			pages: 1 << prm.PageLogCount.Get(e)}
		if r.virtual%prm.ICMPageSize != 0 || r.virtual+r.pages*prm.ICMPageSize < r.virtual ||
			r.physical+r.pages*prm.ICMPageSize < r.physical {
			return nil, prm.BadParam
		}
		runs[i] = r
	}
	return runs, prm.OK
}

// countPages reads a page list of which only the number of pages matters: the model does not use the memory.
func (c *command) countPages() (uint64, prm.Status) {
	runs, status := c.pageRuns()
	var n uint64
	for _, r := range runs {
		n += r.pages
	}
	return n, status
}

func (c *command) mapFA() prm.Status {
	if c.stage > stageArea {
		return prm.BadSysState
	}
	n, status := c.countPages()
	if status != prm.OK {
		return status
	}
	c.areaPages += n
	if c.areaPages >= firmwarePages {
		c.stage = stageArea
	}
	return prm.OK
}

// unmapFA ends the use of the firmware area, and with it the firmware.
func (c *command) unmapFA() prm.Status {
	c.resetState()
	return prm.OK
}

func (c *command) runFW() prm.Status {
	if c.stage > stageArea {
		return prm.BadSysState
	}
	c.stage = stageRunning
	return prm.OK
}

// Opcode modifiers of MOD_STAT_CFG.
const (
	statCfgSet      = 0
	statCfgPortGUID = 2
)

func (c *command) modStatCfg() prm.Status {
	switch c.opMod {
	case statCfgSet:
		b, ok := c.inbox(prm.StatCfgLogPageSize.Layout.Size)
		if !ok || prm.StatCfgPageSizeMask.Has(b) && prm.StatCfgLogPageSize.Get(b) != 0 {
			return prm.BadParam // ICM pages are of 4 KiB
		}
		return prm.OK
	case statCfgPortGUID:
		p := c.port(uint8(c.mod >> 8))
		if p == nil {
			return prm.BadParam
		}
		b := make([]byte, prm.StatCfgGUIDLow.Layout.Size)
		g := uint64(p.guid())
		prm.StatCfgGUIDHigh.Put(b, g>>32)
		prm.StatCfgGUIDLow.Put(b, g)
		return c.outbox(b)
	}
	return prm.BadOp // wake on LAN
}

func (c *command) queryAdapter() prm.Status {
	b := make([]byte, prm.AdapterINTA.Layout.Size)
	id := b[prm.AdapterBoardID : prm.AdapterBoardID+prm.AdapterBoardIDSize]
	for i := range c.cfg.BoardID {
		id[i^3] = c.cfg.BoardID[i]
	}
	return c.outbox(b)
}

func (c *command) nop() prm.Status { return prm.OK }
