package fw

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"ciddk/bus"
	"ciddk/clock"
	"ciddk/internal/mlx4/prm"
)

// withDefaults checks a configuration and fills in what is 0.
func (c Config) withDefaults() (Config, error) {
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	for _, x := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"PollInterval", &c.PollInterval, time.Millisecond},
		{"CommandTimeout", &c.CommandTimeout, 10 * time.Second},
		{"ResetDelay", &c.ResetDelay, time.Second},
		{"WatchInterval", &c.WatchInterval, time.Second},
	} {
		if *x.v < 0 {
			return c, fmt.Errorf("%w: Config.%s is %v", ErrInvalid, x.name, *x.v)
		}
		if *x.v == 0 {
			*x.v = x.def
		}
	}
	if c.LogEQSize == 0 {
		c.LogEQSize = 12
	}
	if c.LogEQSize < minLogEQ || c.LogEQSize > maxLogEQ {
		return c, fmt.Errorf("%w: Config.LogEQSize is %d (%d to %d are possible)", ErrInvalid, c.LogEQSize, minLogEQ,
			maxLogEQ)
	}
	if c.CompletionEQs < 0 || c.CompletionEQs > maxCompletionEQs {
		return c, fmt.Errorf("%w: Config.CompletionEQs is %d (0 to %d are possible)", ErrInvalid, c.CompletionEQs,
			maxCompletionEQs)
	}
	if c.MaxMemory < 0 {
		return c, fmt.Errorf("%w: Config.MaxMemory is %d", ErrInvalid, c.MaxMemory)
	}
	if c.MaxMemory == 0 {
		c.MaxMemory = 4 << 30
	}
	return c, nil
}

const (
	maxCompletionEQs     = 64
	defaultCompletionEQs = 4
	maxEQN               = 255 // of a CQ context
)

// Open initializes the adapter of a function. The function remains the caller's: Close does not close it. No other user
// of the function may enable its interrupt vectors. Errors: ErrOwned, ErrInvalid, *CommandError, ErrFailed, those of
// the context and of the function.
func Open(ctx context.Context, f bus.Function, cfg Config) (*Device, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Device{f: f, cfg: cfg, mem: newMemory(f, cfg.MaxMemory), failed: make(chan struct{}),
		stop: make(chan struct{})}
	d.records.mem = d.mem
	d.icm.d = d
	d.events.wake = make(chan struct{}, 1)
	d.commands.stuck = -1
	d.commands.hcr = make(chan struct{}, 1)
	d.commands.hcr <- struct{}{}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("fw: %s: %w", f.Location(), err), d.Close())
	}
	return d, nil
}

// open executes the steps of Open. Close undoes those that were executed.
func (d *Device) open(ctx context.Context) error {
	if err := d.mapBARs(); err != nil {
		return err
	}
	d.running.Go(d.watchGone)
	for _, step := range []func(context.Context) error{d.enable, d.startFirmware, d.queryCaps, d.queryPorts, d.initHCA,
		d.startEvents, d.setSpecialQPs} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	d.running.Go(d.watch)
	return nil
}

// mapBARs gets the registers.
func (d *Device) mapBARs() (err error) {
	if d.regs, err = d.f.BAR(prm.BARControl); err != nil {
		return err
	}
	if d.uars, err = d.f.BAR(prm.BARDoorbells); err != nil {
		return err
	}
	if d.regs.Size() < prm.ControlSize {
		return fmt.Errorf("BAR %d has %d bytes, want %d or more", prm.BARControl, d.regs.Size(), prm.ControlSize)
	}
	return nil
}

// enable enables the function, takes the ownership and resets the adapter.
func (d *Device) enable(ctx context.Context) error {
	d.restoreConfig(d.saveConfig())
	if err := d.acquire(); err != nil {
		return err
	}
	return d.reset(ctx)
}

// startFirmware executes QUERY_FW to MOD_STAT_CFG.
func (d *Device) startFirmware(ctx context.Context) error {
	if err := d.initCommands(0); err != nil {
		return err
	}
	b := make([]byte, prm.FWPages.Layout.Size)
	if _, err := d.exec(ctx, prm.CmdQueryFW, Args{Out: b}); err != nil {
		return err
	}
	d.firmware.Major, d.firmware.Minor = uint16(prm.FWMajor.Get(b)), uint16(prm.FWMinor.Get(b))
	d.firmware.SubMinor = uint16(prm.FWSubMinor.Get(b))
	revision := prm.FWCommandRevision.Get(b)
	if revision < prm.MinCommandInterface || revision > prm.CommandInterfacePort {
		return fmt.Errorf("the firmware has revision %d of the command interface, want %d to %d", revision,
			prm.MinCommandInterface, prm.CommandInterfacePort)
	}
	pages := prm.FWPages.Get(b)
	if pages == 0 {
		return errors.New("the firmware asks for no memory")
	}
	d.findErrorBuffer(b)
	logCommands := min(uint8(prm.FWLogCommands.Get(b)), maxLogCommands)
	d.firmware.MaxCommands = 1 << logCommands
	if logCommands > 0 {
		if err := d.initCommands(logCommands); err != nil {
			return err
		}
	}
	area, err := d.mem.alloc(int(pages) * prm.ICMPageSize)
	if err != nil {
		return err
	}
	d.hasArea = true
	if err := d.mapPages(ctx, prm.CmdMapFA, 0, area.IOVA, uint64(len(area.Bytes))); err != nil {
		return err
	}
	if _, err := d.exec(ctx, prm.CmdRunFW, Args{}); err != nil {
		return err
	}
	config := make([]byte, prm.StatCfgPageSizeMask.Layout.Size)
	prm.StatCfgPageSizeMask.Put(config, 1)
	prm.StatCfgLogPageSize.Put(config, 0) // pages of 4 KiB
	_, err = d.exec(ctx, prm.CmdModStatCfg, Args{In: config})
	return err
}

// findErrorBuffer reads where the buffer of catastrophic errors is. A buffer outside of the BAR is ignored.
func (d *Device) findErrorBuffer(b []byte) {
	off, size := prm.FWErrorBuffer.Get(b), prm.FWErrorSize.Get(b)
	if prm.FWErrorBAR.Get(b) == prm.BARControl && off%4 == 0 && size >= 4 && off < d.regs.Size() &&
		size <= d.regs.Size()-off {
		d.errors = errorBuffer{off, uint32(size)}
	}
}

// initHCA maps the ICM that is used from the start, and initializes the adapter.
func (d *Device) initHCA(ctx context.Context) error {
	aux, err := d.exec(ctx, prm.CmdSetICMSize, Args{Imm: d.icm.size})
	if err != nil {
		return err
	}
	if aux > maxAuxPages {
		return fmt.Errorf("the adapter asks for %d pages of auxiliary ICM", aux)
	}
	if aux > 0 {
		mem, err := d.mem.alloc(int(aux) * prm.ICMPageSize)
		if err != nil {
			return err
		}
		d.hasAux = true
		if err := d.mapPages(ctx, prm.CmdMapICMAux, 0, mem.IOVA, uint64(len(mem.Bytes))); err != nil {
			return err
		}
	}
	if err := d.mapReserved(ctx); err != nil {
		return err
	}
	if _, err := d.exec(ctx, prm.CmdInitHCA, Args{In: d.initMailbox()}); err != nil {
		return err
	}
	d.isInit = true
	d.makeAllocators()
	b := make([]byte, prm.AdapterINTA.Layout.Size)
	if _, err := d.exec(ctx, prm.CmdQueryAdapter, Args{Out: b}); err != nil {
		return err
	}
	id := make([]byte, 0, prm.AdapterBoardIDSize)
	for i := range prm.AdapterBoardIDSize {
		if c := b[prm.AdapterBoardID+i^3]; c >= ' ' && c <= '~' {
			id = append(id, c)
		}
	}
	d.firmware.BoardID = string(id)
	return nil
}

// mapReserved maps the ICM of what the firmware keeps, of all EQs and of all multicast groups.
func (d *Device) mapReserved(ctx context.Context) error {
	m, r := &d.icm, &d.reserved
	if err := m.ensureQPs(ctx, 0, uint64(d.caps.SpecialQPs+numSpecialQPs)); err != nil {
		return err
	}
	if err := m.ensureCQs(ctx, 0, uint64(r.cqs)); err != nil {
		return err
	}
	if err := m.ensureSRQs(ctx, 0, uint64(r.srqs)); err != nil {
		return err
	}
	all := uint64(1) << d.logEQs
	return m.ensureAll(ctx, icmRange{&m.cmpt[cmptEQ], 0, all}, icmRange{&m.tables[tableEQC], 0, all},
		icmRange{&m.tables[tableMTT], 0, uint64(r.mtts)}, icmRange{&m.tables[tableDMPT], 0, uint64(r.mpts)},
		icmRange{&m.tables[tableMCG], 0, uint64(d.caps.NumMCGs)})
}

// initMailbox returns the mailbox of INIT_HCA.
func (d *Device) initMailbox() []byte {
	b := make([]byte, prm.HCAVersion.Layout.Size)
	c, p := &d.caps, &d.cfg.Profile
	base := func(t int) uint64 { return d.icm.tables[t].base }
	in32 := func(t int) uint64 { return base(t) / 32 }
	log := func(n uint32) uint64 { return uint64(bits.Len32(n) - 1) }
	var flags uint64
	if c.Has(prm.FlagUDAVPort) {
		flags |= 1 << prm.InitCheckUDPort
	}
	if c.Has(prm.FlagIPoIBChecksum) {
		flags |= 1 << prm.InitChecksum
	}
	for _, x := range []struct {
		f prm.Field
		v uint64
	}{
		{prm.HCAVersion, prm.InitHCAVersion}, {prm.HCAFlags, flags},
		{prm.HCAQPCBase, in32(tableQPC)}, {prm.HCALogQPs, uint64(p.LogQPs)},
		{prm.HCASRQCBase, in32(tableSRQC)}, {prm.HCALogSRQs, uint64(p.LogSRQs)},
		{prm.HCACQCBase, in32(tableCQC)}, {prm.HCALogCQs, uint64(p.LogCQs)},
		{prm.HCAALTCBase, base(tableALTC)}, {prm.HCAAUXCBase, base(tableAUXC)},
		{prm.HCAEQCBase, in32(tableEQC)}, {prm.HCALogEQs, uint64(d.logEQs)},
		{prm.HCARDMARCBase, in32(tableRDMARC)}, {prm.HCALogRDMARC, uint64(p.LogReads)},
		{prm.HCAMCBase, base(tableMCG)}, {prm.HCALogMCEntry, uint64(c.LogMCGEntry)},
		{prm.HCALogMCHash, log(c.NumMCGs) - 1}, {prm.HCALogMCTable, log(c.NumMCGs)},
		{prm.HCADMPTBase, base(tableDMPT)}, {prm.HCALogMPTs, uint64(p.LogMPTs)},
		{prm.HCAMTTBase, base(tableMTT)}, {prm.HCACMPTBase, base(tableCMPT)},
		{prm.HCALogUARs, log(c.NumUARs)}, {prm.HCAUARPageSize, 0},
	} {
		x.f.Put(b, x.v)
	}
	if c.HasSteering() {
		prm.HCAUCSteering.Put(b, 1)
	}
	if c.Has(prm.FlagMemoryWindows) {
		prm.HCAWindows.Put(b, 1)
	}
	if d.eqeStride > eqeSize {
		prm.HCAEQE64.Put(b, 1)
	}
	if c.CQESize > prm.CQESize {
		prm.HCACQE64.Put(b, 1)
	}
	return b
}

// makeAllocators makes the allocators of numbers.
func (d *Device) makeAllocators() {
	c, r := &d.caps, &d.reserved
	d.qps = newIndexes("QPs", c.SpecialQPs+numSpecialQPs, c.NumQPs)
	d.cqs = newIndexes("CQs", r.cqs, c.NumCQs)
	d.srqs = newIndexes("SRQs", r.srqs, c.NumSRQs)
	d.mpts = newIndexes("memory regions and windows", r.mpts, c.NumMPTs)
	d.pds = newIndexes("PDs", max(r.pds, 1), c.NumPDs)
	d.pages = newIndexes("pages of doorbells", prm.ReservedUARs, c.NumUARs)
	d.mcgs = newIndexes("multicast group entries", c.NumMCGs/2, c.NumMCGs)
	d.mtts = newBuddy(bits.Len32(c.NumMTTs/mttUnit) - 1)
	d.mtts.alloc(bits.Len32((max(r.mtts, mttUnit)+mttUnit-1)/mttUnit - 1)) // the first block: the whole is free
}

// setSpecialQPs sets the numbers of QP0 and QP1 of the ports.
func (d *Device) setSpecialQPs(ctx context.Context) error {
	_, err := d.exec(ctx, prm.CmdConfSpecialQP, Args{Modifier: d.caps.SpecialQPs})
	d.hasSpecial = err == nil
	return err
}

// startEvents makes the event queues, and tests the interrupts.
func (d *Device) startEvents(ctx context.Context) error {
	d.running.Go(func() { d.events.run(d.stop) })
	d.isPolling.Store(d.cfg.Polling)
	d.arePolled.Store(d.cfg.PolledCommands)
	vectors := d.f.NumVectors()
	if vectors == 0 {
		d.isPolling.Store(true)
	}
	n := d.cfg.CompletionEQs
	if n == 0 {
		n = min(defaultCompletionEQs, max(vectors-1, 1))
	}
	first := d.reserved.eqs
	n = min(n, int(1<<d.logEQs-first)-firstCompletionEQ, maxEQN-int(first)-firstCompletionEQ)
	if n < 1 {
		return fmt.Errorf("no EQ is left for completions: %d are reserved", first)
	}
	for i := range firstCompletionEQ + n {
		vector := 0
		if i >= firstCompletionEQ && vectors > 1 {
			vector = 1 + (i-firstCompletionEQ)%(vectors-1)
		}
		log := d.cfg.LogEQSize
		if i == commandEQ { // it has room for all commands beside the entries that the adapter believes to be unread
			log = max(log, d.commands.logSize+1)
		}
		e, err := d.newEQ(ctx, first+uint32(i), vector, log)
		if err != nil {
			return err
		}
		d.eqs = append(d.eqs, e)
	}
	if !d.isPolling.Load() {
		used := min(vectors, 1+n)
		if err := d.f.EnableVectors(used, d.interrupt); err != nil {
			return err
		}
		d.hasVectors = true
	}
	if err := d.eqs[asyncEQ].mapEvents(ctx, asyncEvents); err != nil {
		return err
	}
	if err := d.commandEQ().mapEvents(ctx, commandEvents); err != nil {
		return err
	}
	if !d.isPolling.Load() {
		if err := d.testInterrupts(ctx); err != nil {
			return err
		}
	}
	if d.isPolling.Load() {
		d.running.Go(d.pollEvents)
	}
	d.interruptsTested.Store(true)
	return d.setEventMode(ctx, !d.arePolled.Load())
}

// interrupt serves the event queues of a vector.
func (d *Device) interrupt(vector int) {
	d.interrupts.Add(1)
	for _, e := range d.eqs {
		if e.vector == vector {
			e.service()
		}
	}
}

// interruptTime is how long the test of the interrupts waits at most.
const interruptTime = 2 * time.Second

// testInterrupts executes a NOP that completes by an event. Without its interrupt the device is polled.
func (d *Device) testInterrupts(ctx context.Context) error {
	for _, e := range d.eqs {
		e.ring(true)
	}
	if err := d.setEventMode(ctx, true); err != nil {
		return err
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := d.cfg.Clock.AfterFunc(min(interruptTime, d.cfg.CommandTimeout/2), cancel)
	defer timer.Stop()
	_, err := d.exec(limited, prm.CmdNOP, Args{Modifier: 0x1f})
	if err == nil || ctx.Err() != nil || d.Err() != nil || !errors.Is(err, context.Canceled) {
		return err
	}
	d.isPolling.Store(true)
	d.hasVectors = false
	if err := d.f.EnableVectors(0, nil); err != nil {
		return err
	}
	for _, e := range d.eqs {
		e.service()
	}
	return nil
}
