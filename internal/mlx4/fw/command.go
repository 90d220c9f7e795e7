package fw

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// Args are the arguments of a command.
type Args struct {
	In         []byte // content of the input mailbox, at most prm.MailboxSize; the rest is zero
	Out        []byte // receives the begin of the output mailbox, at most prm.MailboxSize
	Imm        uint64 // input parameter of a command without an input mailbox
	Modifier   uint32 // input modifier
	OpModifier uint8
}

// commands executes commands. A slot has the mailboxes of one command.
type commands struct {
	slots   []slot
	logSize uint8
	free    chan int
	isEvent bool       // commands complete by events; changes only while all slots are held
	mode    sync.Mutex // held while all slots are taken

	// hcr is held by its receiver while it posts, and until completion if the command is polled.
	hcr    chan struct{}
	toggle uint32
	stuck  int // slot of a polled command that was given up and is still pending; -1: none

	executed, late atomic.Uint64
}

type slotState uint8

const (
	slotIdle slotState = iota
	slotWaiting
	slotAbandoned
)

// slot is a command that can be outstanding. Its index and a generation make the token.
type slot struct {
	in, out     []byte
	inAt, outAt uint64 // device addresses

	mu         sync.Mutex
	state      slotState
	generation uint16
	done       chan result // of one element
}

// result is a completion.
type result struct {
	status prm.Status
	out    uint64
}

const (
	polledToken    = 0xffff
	maxLogCommands = 8
)

// initCommands makes the slots.
func (d *Device) initCommands(logSize uint8) error {
	c := &d.commands
	n := 1 << logSize
	mem, err := d.mem.alloc(2 * n * prm.MailboxSize)
	if err != nil {
		return err
	}
	c.slots, c.logSize, c.free = make([]slot, n), logSize, make(chan int, n)
	for i := range c.slots {
		at := 2 * i * prm.MailboxSize
		c.slots[i] = slot{in: mem.Bytes[at:][:prm.MailboxSize], out: mem.Bytes[at+prm.MailboxSize:][:prm.MailboxSize],
			inAt: mem.IOVA + uint64(at), outAt: mem.IOVA + uint64(at) + prm.MailboxSize, done: make(chan result, 1)}
		c.free <- i
	}
	return nil
}

// Cmd executes a command. It ends at the latest when the context does, or after Config.CommandTimeout. A command that
// the context ended may still be executed by the adapter. Errors: *CommandError, ErrFailed, ErrClosed, ErrInvalid,
// those of the context.
func (d *Device) Cmd(ctx context.Context, op prm.Opcode, a Args) error {
	_, err := d.CmdImm(ctx, op, a)
	return err
}

// CmdImm executes a command and returns its output parameter, which is its result if it has no output mailbox.
func (d *Device) CmdImm(ctx context.Context, op prm.Opcode, a Args) (uint64, error) {
	if d.isClosed.Load() {
		return 0, ErrClosed
	}
	return d.exec(ctx, op, a)
}

// exec is CmdImm for a device that may be closing.
func (d *Device) exec(ctx context.Context, op prm.Opcode, a Args) (uint64, error) {
	const maxOpModifier = 15
	if len(a.In) > prm.MailboxSize || len(a.Out) > prm.MailboxSize || a.OpModifier > maxOpModifier {
		return 0, fmt.Errorf("%w: %v: mailboxes of %d and %d bytes, opcode modifier %d", ErrInvalid, op, len(a.In),
			len(a.Out), a.OpModifier)
	}
	if err := errors.Join(d.Err(), ctx.Err()); err != nil {
		return 0, fmt.Errorf("fw: %v: %w", op, err)
	}
	c := &d.commands
	var i int
	select {
	case <-d.failed:
		return 0, d.Err()
	case <-ctx.Done():
		return 0, fmt.Errorf("fw: %v: %w", op, ctx.Err())
	case i = <-c.free:
	}
	r, err := d.run(ctx, i, op, a)
	if err != nil {
		return 0, err
	}
	if r.status != prm.OK {
		err := &CommandError{op, r.status}
		if isClosing(op, r.status) {
			d.Fail(err)
		}
		return 0, err
	}
	return r.out, nil
}

// isClosing reports whether a command that returns objects or memory to the driver has failed: their memory must not be
// used again before a reset (Linux cmd.c, mlx4_closing_cmd_fatal_error).
func isClosing(op prm.Opcode, s prm.Status) bool {
	switch op {
	case prm.CmdHW2SWMPT:
		return s != prm.RegBound
	case prm.CmdCloseHCA, prm.CmdHW2SWEQ, prm.CmdHW2SWCQ, prm.CmdHW2SWSRQ, prm.Cmd2RST, prm.CmdSyncTPT,
		prm.CmdUnmapICM, prm.CmdUnmapICMAux, prm.CmdUnmapFA:
		return true
	}
	return false
}

// run executes a command in a slot, and releases the slot.
func (d *Device) run(ctx context.Context, i int, op prm.Opcode, a Args) (result, error) {
	c := &d.commands
	s := &c.slots[i]
	var regs [4 * prm.HCRDwords]byte
	prm.HCRInModifier.Put(regs[:], uint64(a.Modifier))
	prm.HCRInParam.Put(regs[:], a.Imm)
	if a.In != nil {
		clear(s.in[copy(s.in, a.In):])
		prm.HCRInParam.Put(regs[:], s.inAt)
	}
	if a.Out != nil {
		clear(s.out[:len(a.Out)])
		prm.HCROutHigh.Put(regs[:], s.outAt>>32)
		prm.HCROutLow.Put(regs[:], s.outAt)
	}
	prm.HCRGo.Put(regs[:], 1)
	prm.HCROpModifier.Put(regs[:], uint64(a.OpModifier))
	prm.HCROpcode.Put(regs[:], uint64(op))
	c.executed.Add(1)
	r, owned, err := d.execute(ctx, i, op, regs[:])
	if !owned {
		return r, err
	}
	if err == nil && r.status == prm.OK {
		copy(a.Out, s.out)
	}
	c.free <- i
	return r, err
}

// execute posts a command and waits. owned reports whether the slot is the caller's again.
func (d *Device) execute(ctx context.Context, i int, op prm.Opcode, regs []byte) (r result, owned bool, err error) {
	c := &d.commands
	select {
	case <-c.hcr:
	case <-d.failed:
		return r, true, d.Err()
	case <-ctx.Done():
		return r, true, fmt.Errorf("fw: %v: %w", op, ctx.Err())
	}
	if c.isEvent {
		s := &c.slots[i]
		s.mu.Lock()
		s.generation++
		token := s.generation<<c.logSize | uint16(i)
		s.state = slotWaiting
		s.mu.Unlock()
		prm.HCRToken.Put(regs, uint64(token))
		prm.HCREvent.Put(regs, 1)
		err = d.post(ctx, op, regs)
		c.hcr <- struct{}{}
		if err != nil {
			s.mu.Lock()
			s.state = slotIdle
			s.mu.Unlock()
			return r, true, err
		}
		return d.await(ctx, i, op)
	}
	defer func() { c.hcr <- struct{}{} }()
	prm.HCRToken.Put(regs, polledToken)
	if err := d.post(ctx, op, regs); err != nil {
		return r, true, err
	}
	ok, err := d.poll(ctx, d.cfg.CommandTimeout, func() bool { return !d.isPending() })
	switch {
	case err != nil:
		c.stuck = i // the mailboxes are the adapter's until it is done
		return r, false, fmt.Errorf("fw: %v: %w", op, err)
	case !ok:
		d.Fail(fmt.Errorf("%v: %w: %v", op, errStuck, d.cfg.CommandTimeout))
		return r, true, d.Err()
	}
	for k := range prm.HCRDwords {
		binary.BigEndian.PutUint32(regs[4*k:], d.read(prm.RegHCR+4*uint64(k)))
	}
	if d.isGoneValue(binary.BigEndian.Uint32(regs[4*prm.HCRStatusDword:])) {
		return r, true, d.Err()
	}
	r.status = prm.Status(prm.HCRStatus.Get(regs))
	r.out = prm.HCROutHigh.Get(regs)<<32 | prm.HCROutLow.Get(regs)
	return r, true, nil
}

// isGoneValue reports whether a register has the value of a function that has gone, and fails the device in that case.
func (d *Device) isGoneValue(v uint32) bool {
	if v != allOnes || !d.hasGone() {
		return false
	}
	d.Fail(bus.ErrGone)
	return true
}

// isPending reports whether the command register is busy. The holder of the register calls it.
func (d *Device) isPending() bool {
	v := d.read(prm.RegHCR + 4*prm.HCRStatusDword)
	if d.isGoneValue(v) {
		return true
	}
	var b [4 * prm.HCRDwords]byte
	binary.BigEndian.PutUint32(b[4*prm.HCRStatusDword:], v)
	return prm.HCRGo.Has(b[:]) || uint32(prm.HCRToggle.Get(b[:])) == d.commands.toggle
}

// post writes a command to its register when that is free. The holder of the register calls it.
func (d *Device) post(ctx context.Context, op prm.Opcode, regs []byte) error {
	c := &d.commands
	ok, err := d.poll(ctx, d.cfg.CommandTimeout, func() bool { return !d.isPending() })
	switch {
	case err != nil:
		return fmt.Errorf("fw: %v: %w", op, err)
	case !ok:
		d.Fail(fmt.Errorf("%v: %w: %v", op, errBusy, d.cfg.CommandTimeout))
		return d.Err()
	}
	if c.stuck >= 0 {
		c.late.Add(1)
		c.free <- c.stuck
		c.stuck = -1
	}
	prm.HCRToggle.Put(regs, uint64(c.toggle))
	for k := range prm.HCRDwords {
		d.write(prm.RegHCR+4*uint64(k), binary.BigEndian.Uint32(regs[4*k:]))
	}
	c.toggle ^= 1
	return nil
}

// commandTick is the interval in which a command that waits for its event looks for it, in case that the interrupt has
// been lost.
const commandTick = 50 * time.Millisecond

// await waits for the completion event of a command. owned reports whether the slot is the caller's again.
func (d *Device) await(ctx context.Context, i int, op prm.Opcode) (r result, owned bool, err error) {
	s := &d.commands.slots[i]
	interval := commandTick
	if d.isPolling.Load() {
		interval = d.cfg.PollInterval
	}
	tick := make(chan struct{}, 1)
	timer := d.cfg.Clock.AfterFunc(interval, func() { tick <- struct{}{} })
	defer timer.Stop()
	end := d.cfg.Clock.Elapsed() + d.cfg.CommandTimeout
	if d.isPolling.Load() {
		d.commandEQ().service()
	}
	for {
		select {
		case r = <-s.done:
			return r, true, nil
		case <-ctx.Done():
			return d.abandon(s, fmt.Errorf("fw: %v: %w", op, ctx.Err()))
		case <-d.failed:
			return d.abandon(s, d.Err())
		case <-tick:
		}
		d.checkHealth()
		if d.interruptsTested.Load() {
			d.commandEQ().recover()
		}
		if d.cfg.Clock.Elapsed() >= end && len(s.done) == 0 {
			d.Fail(fmt.Errorf("%v: %w: %v", op, errStuck, d.cfg.CommandTimeout))
		}
		timer.Reset(interval)
	}
}

// abandon marks a command that nobody waits for. Its slot is free again when its completion arrives.
func (d *Device) abandon(s *slot, err error) (r result, owned bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case r = <-s.done: // it was faster
		return r, true, nil
	default:
		s.state = slotAbandoned
		return r, false, err
	}
}

// complete takes the completion event of a command. It reports whether the event is valid.
func (c *commands) complete(token uint16, r result) bool {
	i := int(token) & (1<<c.logSize - 1)
	if i >= len(c.slots) {
		return false
	}
	s := &c.slots[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == slotIdle || s.generation<<c.logSize|uint16(i) != token {
		return false
	}
	was := s.state
	s.state = slotIdle
	if was == slotWaiting {
		s.done <- r
		return true
	}
	c.late.Add(1)
	c.free <- i
	return true
}

// setEventMode chooses how commands complete. It waits until none is outstanding. A device that does not complete them
// has failed.
func (d *Device) setEventMode(ctx context.Context, isEvent bool) error {
	c := &d.commands
	c.mode.Lock()
	defer c.mode.Unlock()
	var held []int
	defer func() {
		for _, i := range held {
			c.free <- i
		}
	}()
	timer := d.cfg.Clock.AfterFunc(d.cfg.CommandTimeout, func() {
		d.Fail(fmt.Errorf("%w: %v", errStuck, d.cfg.CommandTimeout))
	})
	defer timer.Stop()
	for range c.slots {
		select {
		case i := <-c.free:
			held = append(held, i)
		case <-d.failed:
			return d.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.isEvent = isEvent
	return nil
}

// SetPolledCommands makes commands complete at the command register, or by events. It waits for the commands that are
// outstanding. Errors: ErrFailed, ErrClosed, those of the context.
func (d *Device) SetPolledCommands(ctx context.Context, polled bool) error {
	if d.isClosed.Load() {
		return ErrClosed
	}
	d.arePolled.Store(polled)
	return d.setEventMode(ctx, !polled)
}
