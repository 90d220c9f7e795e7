package model_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/bus/local"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// A driver drives a model through its registers, as the Linux driver does.
type driver struct {
	t       testing.TB
	f       bus.Function
	regs    bus.Space
	uar     bus.Space
	in, out *bus.DMA // mailboxes
	toggle  uint64
	events  bool // commands complete by event
	token   uint64

	icmMem  *bus.DMA // contiguous: ICM address is the offset
	eqs     map[uint32]*eventQueue
	nextKey uint32
	nextMTT uint64
	log     []pastCommand // what a hostile driver makes its commands of

	interrupt chan struct{}
}

const waitTime = time.Minute

func newDriver(t testing.TB, m bus.Device) *driver {
	f := local.New(m, t.Name())
	d := &driver{t: t, f: f, eqs: map[uint32]*eventQueue{}, interrupt: make(chan struct{}, 1), nextKey: 64}
	var err error
	d.regs, err = f.BAR(prm.BARControl)
	require.NoError(t, err)
	d.uar, err = f.BAR(prm.BARDoorbells)
	require.NoError(t, err)
	d.in, d.out = d.alloc(prm.MailboxSize), d.alloc(prm.MailboxSize)
	require.NoError(t, f.EnableVectors(4, func(int) {
		select {
		case d.interrupt <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return d
}

func (d *driver) alloc(size int) *bus.DMA {
	m, err := d.f.AllocDMA(size)
	require.NoError(d.t, err)
	return m
}

// be32 reads a big-endian register.
func (d *driver) read(off uint64) uint32 {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], d.regs.Read32(off))
	return binary.BigEndian.Uint32(b[:])
}

func (d *driver) write(off uint64, v uint32) {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	d.regs.Write32(off, binary.LittleEndian.Uint32(b[:]))
}

// reset resets the adapter through its registers.
func (d *driver) reset() {
	require.Zero(d.t, d.read(prm.RegOwnership))
	require.NotZero(d.t, d.read(prm.RegOwnership), "the ownership is taken")
	require.Zero(d.t, d.read(prm.RegSemaphore))
	d.write(prm.RegReset, prm.ResetValue)
	require.Zero(d.t, d.read(prm.RegSemaphore), "a reset frees the semaphore")
	d.write(prm.RegSemaphore, prm.SemaphoreFree)
	require.EqualValues(d.t, prm.VendorID, d.f.Config().Read16(bus.ConfigVendorID))
	d.toggle, d.events = 1, false
}

// exec executes a command and returns its status and output parameter.
func (d *driver) exec(op prm.Opcode, in uint64, mod uint32, opMod uint8, out uint64) (prm.Status, uint64) {
	d.remember(op, in, mod, opMod)
	var r [4 * prm.HCRDwords]byte
	prm.HCRInParam.Put(r[:], in)
	prm.HCRInModifier.Put(r[:], uint64(mod))
	prm.HCROutHigh.Put(r[:], out>>32)
	prm.HCROutLow.Put(r[:], out)
	d.token++
	prm.HCRToken.Put(r[:], d.token)
	prm.HCRGo.Put(r[:], 1)
	prm.HCRToggle.Put(r[:], d.toggle)
	prm.HCROpModifier.Put(r[:], uint64(opMod))
	prm.HCROpcode.Put(r[:], uint64(op))
	if d.events {
		prm.HCREvent.Put(r[:], 1)
	}
	for i := range prm.HCRDwords {
		d.write(prm.RegHCR+4*uint64(i), binary.BigEndian.Uint32(r[4*i:]))
	}
	posted := d.toggle
	d.toggle ^= 1
	if d.events {
		e := d.waitEvent(asyncEQ, prm.EventCommand)
		require.Equal(d.t, d.token&0xffff, prm.EQEToken.Get(e))
		return prm.Status(prm.EQEStatus.Get(e)), prm.EQEOutHigh.Get(e)<<32 | prm.EQEOutLow.Get(e)
	}
	for i := range prm.HCRDwords {
		binary.BigEndian.PutUint32(r[4*i:], d.read(prm.RegHCR+4*uint64(i)))
	}
	require.Zero(d.t, prm.HCRGo.Get(r[:]))
	require.Equal(d.t, posted, prm.HCRToggle.Get(r[:]))
	return prm.Status(prm.HCRStatus.Get(r[:])), prm.HCROutHigh.Get(r[:])<<32 | prm.HCROutLow.Get(r[:])
}

// must executes a command that succeeds, with what is in the mailboxes, and returns the output parameter.
func (d *driver) must(op prm.Opcode, mod uint32, opMod uint8) uint64 {
	d.t.Helper()
	s, out := d.exec(op, d.in.IOVA, mod, opMod, d.out.IOVA)
	require.Equal(d.t, prm.OK, s, "%v", op)
	return out
}

// query executes a command and returns its mailbox.
func (d *driver) query(op prm.Opcode, mod uint32, opMod uint8) []byte {
	d.t.Helper()
	d.must(op, mod, opMod)
	return d.out.Bytes
}

// with executes a command whose input mailbox fill makes.
func (d *driver) with(op prm.Opcode, mod uint32, opMod uint8, fill func(b []byte)) {
	d.t.Helper()
	d.fill(fill)
	d.must(op, mod, opMod)
}

func (d *driver) fill(fill func(b []byte)) {
	clear(d.in.Bytes)
	fill(d.in.Bytes)
}

// imm executes a command with an immediate parameter.
func (d *driver) imm(op prm.Opcode, in uint64, mod uint32, opMod uint8) {
	d.t.Helper()
	s, _ := d.exec(op, in, mod, opMod, 0)
	require.Equal(d.t, prm.OK, s, "%v", op)
}

// The tables in the test driver's ICM.
const (
	icmMTT   = 0x000000
	icmMPT   = 0x100000
	icmMCG   = 0x200000
	icmSize  = 0x300000
	asyncEQ  = 8
	compEQ   = 9
	logEQLen = 8
)

// start brings the firmware up and initializes the adapter.
func (d *driver) start() {
	d.reset()
	fw := d.query(prm.CmdQueryFW, 0, 0)
	require.EqualValues(d.t, 3, prm.FWCommandRevision.Get(fw))
	pages := int(prm.FWPages.Get(fw))
	area := d.alloc(pages * prm.ICMPageSize)
	d.fill(func(b []byte) { d.pageList(b, 0, area.IOVA, pages) })
	d.must(prm.CmdMapFA, uint32(countBits(pages)), 0)
	d.imm(prm.CmdRunFW, 0, 0, 0)
	d.with(prm.CmdModStatCfg, 0, 0, func(b []byte) { prm.StatCfgPageSizeMask.Put(b, 1) })
	c := d.query(prm.CmdQueryDevCap, 0, 0)
	require.EqualValues(d.t, prm.MPTReservedLKey, prm.CapReservedLKey.Get(c))
	_, aux := d.exec(prm.CmdSetICMSize, icmSize, 0, 0, 0)
	require.NotZero(d.t, aux)
	d.icmMem = d.alloc(icmSize)
	d.fill(func(b []byte) { d.pageList(b, 0, d.icmMem.IOVA, icmSize/prm.ICMPageSize) })
	d.must(prm.CmdMapICM, uint32(countBits(icmSize/prm.ICMPageSize)), 0)
	d.with(prm.CmdInitHCA, 0, 0, func(b []byte) {
		prm.HCAVersion.Put(b, prm.InitHCAVersion)
		prm.HCAMTTBase.Put(b, icmMTT)
		prm.HCADMPTBase.Put(b, icmMPT)
		prm.HCALogMPTs.Put(b, 12)
		prm.HCAMCBase.Put(b, icmMCG)
		prm.HCALogMCEntry.Put(b, 10)
		prm.HCALogMCHash.Put(b, 8)
		prm.HCALogMCTable.Put(b, 9)
		prm.HCALogQPs.Put(b, 18)
		prm.HCALogSRQs.Put(b, 16)
		prm.HCALogCQs.Put(b, 16)
		prm.HCALogEQs.Put(b, 9)
		prm.HCALogUARs.Put(b, 10)
		prm.HCAEQE64.Put(b, 1)
		prm.HCACQE64.Put(b, 1)
	})
	d.nextMTT = 16 * 8
	d.newEQ(asyncEQ, 0)
	d.newEQ(compEQ, 1)
	d.imm(prm.CmdMapEQ, 0x3d1f46fe, asyncEQ, 0)
	d.events = true
	d.imm(prm.CmdNOP, 0, 0x1f, 0)
}

// pageList makes the list of a MAP command, in the fewest aligned entries.
func (d *driver) pageList(b []byte, virtual, physical uint64, pages int) {
	for i := 0; pages > 0; i++ {
		log := 0
		for 2<<log <= pages {
			log++
		}
		e := b[16*i:]
		prm.PageVirtual.Put(e, virtual)
		prm.PagePhysical.Put(e, physical>>12)
		prm.PageLogCount.Put(e, uint64(log))
		n := 1 << log
		virtual, physical, pages = virtual+uint64(n)<<12, physical+uint64(n)<<12, pages-n
	}
}

// countBits returns the number of entries of pageList.
func countBits(n int) int {
	c := 0
	for ; n > 0; n &= n - 1 {
		c++
	}
	return c
}

// mtts writes the MTTs of a buffer and returns their offset in the table.
func (d *driver) mtts(m *bus.DMA) uint64 {
	at := d.nextMTT
	for off := 0; off < len(m.Bytes); off += prm.ICMPageSize {
		binary.BigEndian.PutUint64(d.icmMem.Bytes[icmMTT+d.nextMTT:], (m.IOVA+uint64(off))|1)
		d.nextMTT += 8
	}
	return at
}

// An eventQueue is an EQ as its driver has it.
type eventQueue struct {
	num      uint32
	mem      *bus.DMA
	consumer uint32
	pending  [][]byte // taken from the queue, and not waited for yet
}

func (d *driver) newEQ(num uint32, vector int) {
	q := &eventQueue{num: num, mem: d.alloc(64 << logEQLen)}
	at := d.mtts(q.mem)
	d.with(prm.CmdSW2HWEQ, num, 0, func(b []byte) {
		prm.EQCLogSize.Put(b, logEQLen)
		prm.EQCVector.Put(b, uint64(vector))
		prm.EQCMTTLow.Put(b, at)
		prm.EQCState.Put(b, prm.EQArmed)
	})
	d.eqs[num] = q
	d.armEQ(q)
}

// armEQ sets the consumer index of a queue and arms it.
func (d *driver) armEQ(q *eventQueue) {
	var b [4]byte
	prm.EQDoorbellConsumer.Put(b[:], uint64(q.consumer))
	prm.EQDoorbellArm.Put(b[:], 1)
	off := uint64(q.num/4)*prm.UARPageSize + prm.UAREQDoorbell + 8*uint64(q.num%4)
	d.uar.Write32(off, binary.LittleEndian.Uint32(b[:]))
}

// nextEvent returns the next entry of an EQ, or nil.
func (d *driver) nextEvent(q *eventQueue) []byte {
	n := q.consumer & (1<<logEQLen - 1)
	e := q.mem.Bytes[64*n+32 : 64*n+64]
	if load(e[28:])>>7&1 != q.consumer>>logEQLen&1 {
		return nil
	}
	q.consumer++
	return e
}

// waitEvent returns the next event of a type; others before it are kept.
func (d *driver) waitEvent(num uint32, event uint64) []byte {
	d.t.Helper()
	q := d.eqs[num]
	deadline := time.After(waitTime)
	for {
		for e := d.nextEvent(q); e != nil; e = d.nextEvent(q) {
			q.pending = append(q.pending, append([]byte(nil), e...))
		}
		d.armEQ(q)
		for i, e := range q.pending {
			if prm.EQEType.Get(e) == event {
				q.pending = append(q.pending[:i:i], q.pending[i+1:]...)
				return e
			}
		}
		select {
		case <-d.interrupt:
		case <-deadline:
			require.Failf(d.t, "no event", "type %#x at EQ %d", event, num)
		}
	}
}

// newModel returns a model with one port on a link.
func newModel(t testing.TB, l *direct.Link, c model.Config) *model.Model {
	p, err := direct.New(l, direct.Config{})
	require.NoError(t, err)
	c.Ports = []model.PortConfig{{Link: p}}
	m, err := model.New(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}
