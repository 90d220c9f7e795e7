package model_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/link/frame"
	"ciddk/mad"
)

// requireAlive requires that the adapter still works after a reset.
func requireAlive(t testing.TB, d *driver) {
	d.write(prm.RegReset, prm.ResetValue)
	d.write(prm.RegOwnership, 0)
	d.write(prm.RegSemaphore, 0)
	d.nextKey, d.eqs = 64, map[uint32]*eventQueue{}
	d.start()
}

// FuzzRegisters accesses registers at random, on an adapter with queues. A record is 16 bytes: bar and size, offset,
// value.
func FuzzRegisters(f *testing.F) {
	record := func(bar, log byte, off uint32, v uint64) []byte {
		b := []byte{bar, log, 0, 0}
		b = binary.LittleEndian.AppendUint32(b, off)
		return binary.LittleEndian.AppendUint64(b, v)
	}
	f.Add(record(0, 2, prm.RegHCR+24, 0xff))
	f.Add(record(0, 2, prm.RegReset, 0x01000000))
	f.Add(record(2, 3, prm.UARCQDoorbell, 0x8000000200000000))
	f.Add(append(record(0, 3, prm.RegHCR, 1<<33), record(0, 2, prm.RegHCR+24, 0x04008000)...))
	f.Add(record(2, 3, 4<<20, 0x0240000a00000000))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := newPeer(t, newModel(t, direct.NewLink(), model.Config{}), prm.ServiceUD)
		a.qp.start()
		for len(data) >= 16 {
			space, size := a.regs, uint64(1)<<(data[1]&3)
			if data[0]&2 != 0 {
				space = a.uar
			}
			off := uint64(binary.LittleEndian.Uint32(data[4:])) % space.Size() &^ (size - 1)
			v := binary.LittleEndian.Uint64(data[8:])
			switch size {
			case 1:
				space.Write8(off, uint8(v))
			case 2:
				space.Write16(off, uint16(v))
			case 4:
				space.Write32(off, uint32(v))
			default:
				space.Write64(off, v)
			}
			space.Read32(off &^ 3)
			data = data[16:]
		}
		requireAlive(t, a.driver)
	})
}

// FuzzCommands executes random commands with a random mailbox.
func FuzzCommands(f *testing.F) {
	f.Add(uint16(prm.CmdSW2HWMPT), uint32(100), uint8(0), uint64(0), []byte{0xf0, 0x02, 0xff})
	f.Add(uint16(prm.CmdSW2HWCQ), uint32(200), uint8(0), uint64(0), make([]byte, 64))
	f.Add(uint16(prm.CmdSW2HWEQ), uint32(20), uint8(0), uint64(0), make([]byte, 64))
	f.Add(uint16(prm.CmdSW2HWSRQ), uint32(70), uint8(0), uint64(0), make([]byte, 64))
	f.Add(uint16(prm.CmdRST2INIT), uint32(0x250), uint8(0), uint64(0), make([]byte, 256))
	f.Add(uint16(prm.Cmd2RST), uint32(0x240), uint8(2), uint64(0), []byte{})
	f.Add(uint16(prm.CmdWriteMCG), uint32(3), uint8(0), uint64(0), []byte{0, 0, 0, 0, 0, 0, 0, 9})
	f.Add(uint16(prm.CmdMADIFC), uint32(1), uint8(1), uint64(0), []byte{1, 1, 1, 2})
	f.Add(uint16(prm.CmdUnmapICM), uint32(1<<31), uint8(0), uint64(1)<<63, []byte{})
	f.Add(uint16(prm.CmdInitHCA), uint32(0), uint8(0), uint64(0), []byte{2})
	f.Add(uint16(prm.CmdCloseHCA), uint32(0), uint8(0), uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, op uint16, mod uint32, opMod uint8, in uint64, mailbox []byte) {
		a := newPeer(t, newModel(t, direct.NewLink(), model.Config{}), prm.ServiceUD)
		a.qp.start()
		clear(a.in.Bytes)
		copy(a.in.Bytes, mailbox)
		if in == 0 {
			in = a.in.IOVA
		}
		a.events = false
		s, _ := a.exec(prm.Opcode(op&0xfff), in, mod, opMod&0xf, a.out.IOVA)
		require.NotContains(t, s.String(), "status", "a status that the driver does not know")
		a.exec(prm.Opcode(op&0xfff), in, mod, opMod&0xf, a.out.IOVA)
		requireAlive(t, a.driver)
	})
}

// FuzzWQE posts random bytes as a send WQE of each service.
func FuzzWQE(f *testing.F) {
	wqe := func(opcode byte, ds byte, rest ...byte) []byte {
		return append([]byte{0, 0, 0, opcode, 0, 0, 0, ds, 0, 0, 0, 12, 0, 0, 0, 0}, rest...)
	}
	f.Add(uint8(0), wqe(prm.WQESend, 2, 0, 0, 0, 8))
	f.Add(uint8(0), wqe(prm.WQESend, 63, 0x80, 0, 0, 8))
	f.Add(uint8(1), wqe(prm.WQEWrite, 3))
	f.Add(uint8(2), wqe(prm.WQESend, 5, 0x81))
	f.Add(uint8(0), wqe(prm.WQEFastRegister, 4))
	f.Add(uint8(0), wqe(prm.WQEBind, 3))
	f.Add(uint8(0), wqe(prm.WQELocalInv, 3))
	f.Add(uint8(0), wqe(prm.WQERead, 3))
	f.Add(uint8(0), wqe(prm.WQECompareSwap, 4))
	f.Add(uint8(3), wqe(prm.WQESend, 6, 0x80, 0, 0, 28, 0, 2))
	f.Add(uint8(0), wqe(prm.WQENop, 0))
	f.Fuzz(func(t *testing.T, kind uint8, wqe []byte) {
		services := []uint64{prm.ServiceRC, prm.ServiceUC, prm.ServiceUD, prm.ServiceMLX}
		service := services[int(kind)%len(services)]
		a := newPeer(t, newModel(t, direct.NewLink(), model.Config{}), service)
		q := a.qp
		if service == prm.ServiceMLX {
			a.imm(prm.CmdConfSpecialQP, 0, 0x200, 0)
			q = a.newQP(0x202, service, a.cq) // QP1 of port 1
		}
		if service <= prm.ServiceUC {
			q.connect(1, q.num)
		} else {
			q.start()
		}
		copy(q.mem.Bytes[:1<<(sendLog+sendStride)], wqe)
		q.mem.Bytes[0] &= 0x7f // the hardware's
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], q.num<<8)
		a.uar.Write32(128*prm.UARPageSize+prm.UARSendDoorbell, binary.LittleEndian.Uint32(b[:]))
		a.imm(prm.Cmd2RST, 0, q.num, 2)
		requireAlive(t, a.driver)
	})
}

// FuzzManagementEthernet sends datagrams with random headers by QP1 of an Ethernet port, and by the QP that sends for
// it.
func FuzzManagementEthernet(f *testing.F) {
	from, to := &ethPeer{gid: ethGID(1), mac: ethMAC(1)}, &ethPeer{gid: ethGID(2), mac: ethMAC(2)}
	for _, version2 := range []bool{false, true} {
		f.Add(version2, []byte(from.managementHeader(to, version2)))
	}
	f.Add(true, []byte(from.managementHeader(to, false)))
	f.Add(true, []byte(from.managementHeader(to, true)[:40]))
	f.Fuzz(func(t *testing.T, version2 bool, header []byte) {
		const longest = 100
		p := newEthPeer(t, frame.NewHub(), 1, true)
		p.setRoCEGID(3, version2)
		p.imm(prm.CmdConfSpecialQP, 0, 0x200, 0)
		num := uint32(0x202)
		if version2 {
			num = 0x300
		}
		q := p.newQP(num, prm.ServiceMLX, p.cq)
		q.start()
		q.postMLX(0, inlineSegments(string(header[:min(len(header), longest)]),
			dataSegment(mad.Size, p.mr.key, p.mr.start), inlineSegment("\x00\x00\x00\x00"))...)
		require.True(t, prm.CQESend.Has(p.cq.wait()), "the WQE completes, with or without an error")
		requireAlive(t, p.driver)
	})
}
