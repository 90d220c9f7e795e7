package model_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/link/frame"
)

// pastCommand is a command that a driver has executed.
type pastCommand struct {
	op      prm.Opcode
	in      uint64
	mod     uint32
	opMod   uint8
	mailbox []byte // nil: in is no mailbox
}

// remember stores a command, if it is one of the first two of its opcode.
func (d *driver) remember(op prm.Opcode, in uint64, mod uint32, opMod uint8) {
	const most = 2
	count := 0
	for _, c := range d.log {
		if c.op == op {
			count++
		}
	}
	if count >= most {
		return
	}
	c := pastCommand{op: op, in: in, mod: mod, opMod: opMod}
	if in == d.in.IOVA {
		c.mailbox = bytes.Clone(d.in.Bytes)
	}
	d.log = append(d.log, c)
}

// choices are the decisions of a hostile driver. After the last one all are 0.
type choices struct{ b []byte }

func (c *choices) byte() byte {
	if len(c.b) == 0 {
		return 0
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v
}

// below returns a number from 0 to n-1; n is at most 1<<16.
func (c *choices) below(n int) int { return (int(c.byte())<<8 | int(c.byte())) % n }

// number returns a number that is near a limit, or any.
func (c *choices) number() uint64 {
	limits := []uint64{0, 1, 0xff, 0x100, 0xfff, 0x1000, 0xffff, 0xffffff, 1 << 31, 0xffffffff, 1 << 32, 1 << 52,
		1 << 63, 1<<64 - 1}
	switch c.byte() % 4 {
	case 0:
		return limits[c.below(len(limits))]
	case 1:
		return limits[c.below(len(limits))] - uint64(c.byte())
	case 2:
		return uint64(c.byte())
	}
	var b [8]byte
	for i := range b {
		b[i] = c.byte()
	}
	return binary.BigEndian.Uint64(b[:])
}

// spoil changes up to four places of b.
func (c *choices) spoil(b []byte) {
	for range 1 + c.byte()%4 {
		if len(b) < 8 {
			return
		}
		at := c.below(len(b))
		switch c.byte() % 3 {
		case 0:
			b[at] = c.byte()
		case 1:
			b[at] ^= 1 << (c.byte() % 8)
		default:
			binary.BigEndian.PutUint64(b[min(at, len(b)-8)&^3:], c.number())
		}
	}
}

// A hostileDriver has brought an adapter up as it should, and then does what it wants.
type hostileDriver struct {
	*choices
	*driver
	mr   *memoryRegion
	cqs  []*completionQueue
	qps  []*queuePair
	srq  *sharedQueue
	wqes []func() (opcode uint64, segments [][]byte) // valid ones
}

// hostileFMR is the index of the FMR of a hostile driver.
const hostileFMR = 0x131

// newHostile returns a driver with QPs of all services, which talk to each other. address, if not nil, sets the address
// of the adapter in a context, which has lid otherwise.
func newHostile(d *driver, cq *completionQueue, mr *memoryRegion, lid uint16, c *choices,
	address func(*queuePair)) *hostileDriver {
	h := &hostileDriver{choices: c, driver: d, mr: mr, cqs: []*completionQueue{cq, d.newCQ(130, 4)}}
	h.srq = d.newSRQ(0x80)
	d.imm(prm.CmdConfSpecialQP, 0, 0x200, 0)
	for i, service := range []uint64{prm.ServiceRC, prm.ServiceRC, prm.ServiceUC, prm.ServiceUD} {
		q := d.newQP(0x250+uint32(i), service, h.cqs[i%2])
		if i == 1 {
			prm.QPCHasSRQ.Put(q.context, 1)
			prm.QPCSRQN.Put(q.context, uint64(h.srq.num))
		}
		if address != nil {
			address(q)
		}
		if service == prm.ServiceUD {
			q.start()
		} else {
			q.connect(lid, q.num^1)
		}
		h.qps = append(h.qps, q)
	}
	d.with(prm.CmdSW2HWMPT, hostileFMR, 0, func(x []byte) {
		prm.MPTOwner.Put(x, prm.MPTOwnerSW)
		prm.MPTRegion.Put(x, 1)
		prm.MPTLocalWrite.Put(x, 1)
		prm.MPTRemoteWrite.Put(x, 1)
		prm.MPTIndex.Put(x, hostileFMR)
		prm.MPTPD.Put(x, testPD)
		prm.MPTMTTLow.Put(x, d.mtts(mr.DMA))
		prm.MPTLogPage.Put(x, 12)
	})
	gsi := d.newQP(0x202, prm.ServiceMLX, h.cqs[0])
	gsi.start()
	h.qps = append(h.qps, gsi)
	data := func() []byte { return dataSegment(100, mr.key, mr.start) }
	fmr := func() []byte {
		entry := d.icmMem.Bytes[icmMPT+hostileFMR*prm.MPTStride:]
		prm.MPTLength.Put(entry, regionSize)
		return remoteSegment(uint64(prm.KeyOf(uint32(prm.MPTIndex.Get(entry)))), prm.MPTStart.Get(entry))
	}
	remote := func() []byte { return remoteSegment(mr.key, mr.start+4096) }
	fastReg := make([]byte, prm.FastRegSegment)
	prm.FastRegKey.Put(fastReg, mr.key)
	prm.FastRegList.Put(fastReg, mr.IOVA)
	prm.FastRegLength.Put(fastReg, 4096)
	prm.FastRegLogPage.Put(fastReg, 12)
	inv := make([]byte, prm.LocalInvSegment)
	prm.LocalInvKey.Put(inv, mr.key)
	for _, w := range []struct {
		opcode   uint64
		segments func() [][]byte
	}{
		{prm.WQESend, func() [][]byte { return [][]byte{inlineSegment("hello")} }},
		{prm.WQESendImm, func() [][]byte { return [][]byte{data(), data()} }},
		{prm.WQESend, func() [][]byte {
			return [][]byte{datagramSegment(lid, [16]byte{}, 0x253, 0x1234), data()}
		}},
		{prm.WQEWrite, func() [][]byte { return [][]byte{remote(), data()} }},
		{prm.WQEWriteImm, func() [][]byte { return [][]byte{remote(), inlineSegment("x")} }},
		{prm.WQEWrite, func() [][]byte { return [][]byte{fmr(), data()} }},
		{prm.WQERead, func() [][]byte { return [][]byte{remote(), data()} }},
		{prm.WQEFetchAdd, func() [][]byte { return [][]byte{remote(), atomicSegment(1, 2), data()} }},
		{prm.WQECompareSwap, func() [][]byte { return [][]byte{remote(), atomicSegment(1, 2), data()} }},
		{prm.WQEFastRegister, func() [][]byte { return [][]byte{fastReg} }},
		{prm.WQELocalInv, func() [][]byte { return [][]byte{inv} }},
		{prm.WQEBind, func() [][]byte { return [][]byte{bindSegment(mr.key+1, mr.key, mr.start, 64)} }},
		{prm.WQENop, func() [][]byte { return nil }},
		{prm.WQELSO, func() [][]byte { return [][]byte{inlineSegment("header of a large send"), data()} }},
	} {
		h.wqes = append(h.wqes, func() (uint64, [][]byte) { return w.opcode, w.segments() })
	}
	return h
}

// attack takes decisions until there are none left.
func (h *hostileDriver) attack() {
	actions := []func(){h.repeatCommand, h.repeatCommand, h.anyCommand, h.sendWQE, h.sendWQE, h.sendWQE, h.recvWQE,
		h.doorbellRecord, h.tables, h.doorbell, h.doorbell, h.blueFlame, h.recover}
	h.events = false
	for len(h.b) > 0 {
		actions[h.below(len(actions))]()
	}
}

// repeatCommand executes a command of the past with other parameters.
func (h *hostileDriver) repeatCommand() {
	c := h.log[h.below(len(h.log))]
	clear(h.in.Bytes)
	copy(h.in.Bytes, c.mailbox)
	used := len(bytes.TrimRight(c.mailbox, "\x00"))
	h.spoil(h.in.Bytes[:min(used+16, prm.MailboxSize)])
	if c.op == prm.CmdRST2INIT && h.byte()%2 == 0 {
		h.exec(prm.Cmd2RST, 0, c.mod, 2, 0)
	}
	switch h.byte() % 4 {
	case 0:
		c.mod = uint32(h.number())
	case 1:
		c.mod ^= 1 << (h.byte() % 32)
	case 2:
		c.opMod = h.byte() & 0xf
	}
	if h.byte()%8 == 0 {
		c.in = h.number()
	}
	h.command(c)
}

// anyCommand executes a command with any parameters.
func (h *hostileDriver) anyCommand() {
	c := pastCommand{op: prm.Opcode(h.below(0x80)), in: h.in.IOVA, mod: uint32(h.number()), opMod: h.byte() & 0xf}
	if h.byte()%8 == 0 {
		c.op = prm.Opcode(h.below(0x1000))
	}
	h.spoil(h.in.Bytes[:256])
	h.command(c)
}

// command executes a command, which completes with a status that drivers know.
func (h *hostileDriver) command(c pastCommand) {
	s, _ := h.exec(c.op, c.in, c.mod, c.opMod, h.out.IOVA)
	require.NotContains(h.t, s.String(), "status", "%v completes with a status that drivers do not know", c.op)
}

// sendWQE posts a WQE that has errors, or none.
func (h *hostileDriver) sendWQE() {
	q := h.qps[h.below(len(h.qps))]
	opcode, segments := h.wqes[h.below(len(h.wqes))]()
	size := prm.CtrlSegment
	for _, s := range segments {
		size += len(s)
	}
	n := q.sent & (1<<sendLog - 1)
	wqe := q.mem.Bytes[n<<sendStride : (n+1)<<sendStride]
	if size > len(wqe) {
		return
	}
	for i, s := range segments {
		segments[i] = bytes.Clone(s)
		if h.byte()%2 == 0 {
			h.spoil(segments[i])
		}
	}
	q.prepare(opcode, uint32(h.byte()), h.byte(), segments)
	if h.byte()%4 == 0 {
		prm.CtrlSize.Put(wqe, uint64(h.byte()))
	}
	if h.byte()%4 == 0 {
		h.spoil(wqe)
	}
	q.ring()
}

// recvWQE posts a receive WQE that has errors, or none.
func (h *hostileDriver) recvWQE() {
	s := dataSegment(1000, h.mr.key, h.mr.start+8192)
	if h.byte()%2 == 0 {
		h.spoil(s)
	}
	if i := h.below(len(h.qps) + 1); i < len(h.qps) {
		h.qps[i].postRecv(s)
	} else {
		h.srq.post(s)
		if h.byte()%4 == 0 {
			h.spoil(h.srq.mem.Bytes[:8<<srqStride])
		}
	}
}

// doorbellRecord writes any index to a doorbell record.
func (h *hostileDriver) doorbellRecord() {
	q := h.qps[h.below(len(h.qps))]
	record := [][]byte{q.rec.Bytes, q.cq.rec.Bytes, h.srq.rec.Bytes}[h.below(3)]
	store(record, uint32(h.number()))
}

// tables changes MTTs and MPTs in the ICM, and makes the adapter read them.
func (h *hostileDriver) tables() {
	if h.byte()%2 == 0 {
		h.spoil(h.icmMem.Bytes[icmMTT:][:h.nextMTT])
		return
	}
	if h.byte()%2 == 0 { // without a command; the adapter reads the entry again when it meets a new key
		h.spoil(h.icmMem.Bytes[icmMPT+hostileFMR*prm.MPTStride:][:64])
		return
	}
	entry := h.icmMem.Bytes[icmMPT+int(h.mr.index)*prm.MPTStride:]
	h.spoil(entry[:64])
	h.exec(prm.CmdSyncTPT, 0, 0, 0, 0)
}

// doorbell writes any value to a doorbell.
func (h *hostileDriver) doorbell() {
	page := uint64(h.below(1024)) * prm.UARPageSize
	switch h.byte() % 3 {
	case 0:
		h.uar.Write32(page+prm.UARSendDoorbell, uint32(h.number()))
	case 1:
		h.uar.Write64(page+prm.UARCQDoorbell, h.number())
	default:
		h.uar.Write32(page+prm.UAREQDoorbell+8*uint64(h.byte()%4), uint32(h.number()))
	}
}

// blueFlame writes a WQE of a queue to the BlueFlame registers, with errors.
func (h *hostileDriver) blueFlame() {
	q := h.qps[h.below(len(h.qps))]
	wqe := bytes.Clone(q.mem.Bytes[:64])
	h.spoil(wqe)
	for i, v := range flame(wqe, q.num) {
		h.uar.Write64(uint64(flameAt+8*i), v)
	}
}

// recover takes a QP through Reset, so that it can do more harm.
func (h *hostileDriver) recover() {
	q := h.qps[h.below(len(h.qps))]
	h.exec(prm.Cmd2RST, 0, q.num, 2, 0)
	q.sent, q.received = 0, 0
	clear(q.mem.Bytes)
	q.stamp()
	store(q.rec.Bytes, 0)
	for _, op := range []prm.Opcode{prm.CmdRST2INIT, prm.CmdINIT2RTR, prm.CmdRTR2RTS} {
		mask := map[prm.Opcode]uint64{prm.CmdINIT2RTR: 0x102ce, prm.CmdRTR2RTS: 0x7100}[op]
		h.fill(func(b []byte) {
			prm.QPOptionalMask.Put(b, mask)
			copy(b[prm.QPContext.Off:], q.context)
		})
		h.exec(op, h.in.IOVA, q.num, 0, 0)
	}
}

// A victim are two adapters with a connection, on the link of a hostile driver.
type victim struct{ a, b *peer }

// requireUnharmed requires that the connection moves data.
func (v victim) requireUnharmed(t testing.TB) {
	t.Helper()
	const n = 5000
	for i := range v.a.mr.Bytes[:n] {
		v.a.mr.Bytes[i] = byte(i * 13)
	}
	v.b.qp.postRecv(dataSegment(n, v.b.mr.key, v.b.mr.start))
	v.a.qp.post(prm.WQESend, 0, dataSegment(n, v.a.mr.key, v.a.mr.start))
	requireCQE(t, v.b.cq.wait(), v.b.qp.num, false, prm.CQERecvSend)
	requireCQE(t, v.a.cq.wait(), v.a.qp.num, true, prm.WQESend)
	require.Equal(t, v.a.mr.Bytes[:n], v.b.mr.Bytes[:n])
	require.EqualValues(t, prm.QPRTS, v.a.qpState(v.a.qp.num))
}

// FuzzHostileDriver lets a driver that has brought its adapter up change its commands, contexts, WQEs, tables and
// doorbells. The adapter does not end or hang the process, works after a reset, and does no harm to two others on the
// same link.
func FuzzHostileDriver(f *testing.F) {
	if hasRaceDetector {
		f.Skip("the driver changes memory while the adapter reads it, which the race detector reports")
	}
	const seeds, decisions = 40, 1500
	for seed := range uint64(seeds) {
		b := make([]byte, decisions)
		r := rand.New(rand.NewPCG(seed, 11))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const longest = 4000
		c := &choices{data[:min(len(data), longest)]}
		if c.byte()%2 == 0 {
			attackInfiniBand(t, c)
		} else {
			attackEthernet(t, c)
		}
	})
}

func attackInfiniBand(t *testing.T, c *choices) {
	l := direct.NewLink()
	var v victim
	v.a = newPeer(t, newModel(t, l, model.Config{}), prm.ServiceRC)
	v.b = newPeer(t, newModel(t, l, model.Config{}), prm.ServiceRC)
	v.a.qp.connect(2, v.b.qp.num)
	v.b.qp.connect(1, v.a.qp.num)
	p := newPeer(t, newModel(t, l, model.Config{Windows2: true}), prm.ServiceUD)
	h := newHostile(p.driver, p.cq, p.mr, 3, c, nil)
	v.requireUnharmed(t)
	h.attack()
	v.requireUnharmed(t)
	requireAlive(t, h.driver)
	v.requireUnharmed(t)
}

func attackEthernet(t *testing.T, c *choices) {
	hub := frame.NewHub()
	var ends [2]*peer
	for i := range ends {
		p := newEthPeer(t, hub, byte(i+1), true)
		p.setGID(3, true)
		ends[i] = &peer{driver: p.driver, cq: p.cq, mr: p.mr, qp: p.newQP(0x240, prm.ServiceRC, p.cq)}
	}
	for i, e := range ends {
		e.qp.address(ethMAC(byte(2-i)), ethGID(byte(2-i)))
		e.qp.connect(0, 0x240)
	}
	v := victim{ends[0], ends[1]}
	p := newEthPeer(t, hub, 3, true)
	p.setGID(3, true)
	h := newHostile(p.driver, p.cq, p.mr, 0, c, func(q *queuePair) { q.address(p.mac, p.gid) })
	for i := range 2 {
		q := p.newFrameQP(0x300 + uint32(i))
		p.steer(uint32(7+i), [6]byte{2, 0, 0, 0, 0, byte(3 + i)}, q.num)
		h.qps = append(h.qps, q)
	}
	frameTo := slices.Concat(p.mac[:], p.mac[:], []byte{0x08, 0, 0x45}, make([]byte, 20))
	h.wqes = append(h.wqes, func() (uint64, [][]byte) {
		return prm.WQESend, [][]byte{inlineSegment(string(frameTo))}
	})
	v.requireUnharmed(t)
	h.attack()
	v.requireUnharmed(t)
	requireAlive(t, h.driver)
	v.requireUnharmed(t)
}

// address sets the address of the peer of a RoCE connection.
func (q *queuePair) address(mac [6]byte, gid [16]byte) {
	path := prm.QPCPrimary.Bytes(q.context, prm.PathSize)
	prm.PathLinkType.Put(path, prm.PathLinkEthernet)
	prm.PathGRH.Put(path, 1)
	prm.PathGIDIndex.Put(path, 3)
	prm.PathHopLimit.Put(path, 64)
	copy(prm.PathGID.Bytes(path, 16), gid[:])
	copy(path[prm.PathMAC.Off+2:], mac[:])
	prm.QPCMTU.Put(q.context, 3)
}
