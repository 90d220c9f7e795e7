package model

import (
	"ciddk/internal/mlx4/prm"
)

// stage is how far the driver has brought the firmware. Later stages include earlier ones.
type stage uint8

const (
	stageReset   stage = iota
	stageArea          // MAP_FA
	stageRunning       // RUN_FW
	stageInit          // INIT_HCA
)

// A command in execution.
type command struct {
	*Model
	op     prm.Opcode
	mod    uint32 // input modifier
	opMod  uint8
	in     uint64
	out    uint64 // the mailbox, or the result
	result uint64
}

// A handler executes a command.
type handler struct {
	need stage
	do   func(c *command) prm.Status
}

// writeHCR writes a dword of the command register, and executes the command that this starts.
func (m *Model) writeHCR(i int, v uint32) {
	if !m.hcr.write(i, v) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.hcr.posted()
	regs := r[:]
	c := command{Model: m, op: prm.Opcode(prm.HCROpcode.Get(regs)), mod: uint32(prm.HCRInModifier.Get(regs)),
		opMod: uint8(prm.HCROpModifier.Get(regs)), in: prm.HCRInParam.Get(regs),
		out: prm.HCROutHigh.Get(regs)<<32 | prm.HCROutLow.Get(regs)}
	c.result = c.out
	status, fault := m.faults.command(c.op)
	if fault == hangs || m.hasFailed() {
		return // GO stays set until a reset
	}
	if fault == none {
		status = c.execute()
	}
	event := prm.HCREvent.Has(regs)
	if m.cfg.Trace != nil {
		m.cfg.Trace(Command{Op: c.op, Modifier: c.mod, OpMod: c.opMod, In: c.in, Out: c.result, Event: event,
			Status: status})
	}
	m.hcr.done(status, c.result)
	if event {
		m.commandDone(uint16(prm.HCRToken.Get(regs)), status, c.result)
	}
}

// execute runs the handler of the command.
func (c *command) execute() prm.Status {
	h, ok := handlers[c.op]
	switch {
	case !ok:
		return prm.BadOp
	case c.stage < h.need:
		return prm.BadSysState
	}
	return h.do(c)
}

// inbox reads n bytes of the input mailbox.
func (c *command) inbox(n int) ([]byte, bool) {
	b := make([]byte, n)
	return b, c.readHost(c.in, b)
}

// outbox writes the output mailbox.
func (c *command) outbox(b []byte) prm.Status {
	if !c.writeHost(c.out, b) {
		return prm.BadParam
	}
	return prm.OK
}
