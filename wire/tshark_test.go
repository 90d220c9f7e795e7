package wire_test

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/pcapfile"
	"ciddk/internal/tsharktest"
	"ciddk/wire"
)

// tsharkFields maps fields of tshark to functions that return the expected value for a packet, or nil if the packet
// lacks the header. tshark may print numbers in decimal or hexadecimal.
var tsharkFields = []struct {
	name string
	want func(p *wire.Packet) (v uint64, ok bool)
}{
	{"infiniband.bth.opcode", func(p *wire.Packet) (uint64, bool) { return uint64(p.BTH.Opcode), true }},
	{"infiniband.bth.destqp", func(p *wire.Packet) (uint64, bool) { return uint64(p.BTH.DestQP), true }},
	{"infiniband.bth.psn", func(p *wire.Packet) (uint64, bool) { return uint64(p.BTH.PSN), true }},
	{"infiniband.bth.padcnt", func(p *wire.Packet) (uint64, bool) { return uint64(p.BTH.Pad), true }},
	{"infiniband.bth.p_key", func(p *wire.Packet) (uint64, bool) { return uint64(p.BTH.PKey), true }},
	{"infiniband.bth.tver", func(p *wire.Packet) (uint64, bool) { return uint64(p.BTH.TVer), true }},
	{"infiniband.bth.se", func(p *wire.Packet) (uint64, bool) { return number(p.BTH.SE), true }},
	{"infiniband.bth.m", func(p *wire.Packet) (uint64, bool) { return number(p.BTH.MigReq), true }},
	{"infiniband.bth.a", func(p *wire.Packet) (uint64, bool) { return number(p.BTH.AckReq), true }},
	{"infiniband.deth.q_key", func(p *wire.Packet) (uint64, bool) {
		return uint64(p.DETH.QKey),
			p.BTH.Opcode.HasDETH()
	}},
	{"infiniband.deth.srcqp", func(p *wire.Packet) (uint64, bool) {
		return uint64(p.DETH.SrcQP),
			p.BTH.Opcode.HasDETH()
	}},
	{"infiniband.reth.dmalen", func(p *wire.Packet) (uint64, bool) {
		return uint64(p.RETH.DMALen),
			p.BTH.Opcode.HasRETH()
	}},
	{"infiniband.atomiceth.swapdt", func(p *wire.Packet) (uint64, bool) {
		return p.AtomicETH.SwapAdd,
			p.BTH.Opcode.HasAtomicETH()
	}},
	{"infiniband.atomiceth.cmpdt", func(p *wire.Packet) (uint64, bool) {
		return p.AtomicETH.Compare,
			p.BTH.Opcode.HasAtomicETH()
	}},
	{"infiniband.aeth.syndrome", func(p *wire.Packet) (uint64, bool) {
		return uint64(p.AETH.Syndrome),
			p.BTH.Opcode.HasAETH()
	}},
	{"infiniband.aeth.msn", func(p *wire.Packet) (uint64, bool) { return uint64(p.AETH.MSN), p.BTH.Opcode.HasAETH() }},
	{"infiniband.atomicacketh.origremdt", func(p *wire.Packet) (uint64, bool) {
		return p.AtomicAckETH.Orig, p.BTH.Opcode.HasAtomicAckETH()
	}},
	// tshark prints the bytes of the packet.
	{"infiniband.invariant.crc", func(p *wire.Packet) (uint64, bool) {
		return uint64(binary.BigEndian.Uint32(binary.LittleEndian.AppendUint32(nil, p.ICRC))), true
	}},
}

func number(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// checkTshark compares the fields that tshark prints with those that were written.
func checkTshark(t *testing.T, file string, packets []wire.Packet, extra ...string) [][]string {
	t.Helper()
	var fields []string
	for _, f := range tsharkFields {
		fields = append(fields, f.name)
	}
	rows := tsharktest.Read(t, file, append(fields, extra...)...)
	require.Len(t, rows, len(packets))
	var rest [][]string
	for i, row := range rows {
		p := &packets[i]
		where := fmt.Sprintf("packet %d, %v", i, p.BTH.Opcode)
		for j, f := range tsharkFields {
			v, ok := f.want(p)
			if !ok {
				assert.Empty(t, row[j], "%s: %s", where, f.name)
				continue
			}
			got, err := strconv.ParseUint(row[j], 0, 64)
			if assert.NoError(t, err, "%s: %s is %q", where, f.name, row[j]) {
				assert.Equal(t, v, got, "%s: %s", where, f.name)
			}
		}
		rest = append(rest, row[len(fields):])
	}
	return rest
}

// withAllOpcodes returns the captured packets, and one of every opcode that the captures lack, except CNP, FLUSH and
// ATOMIC WRITE: tshark 4.0 does not dissect them beyond the BTH.
func withAllOpcodes(t *testing.T) []wire.Frame {
	t.Helper()
	var fs []wire.Frame
	seen := map[wire.Opcode]bool{wire.CNP: true, wire.RCFlush: true, wire.RCAtomicWrite: true}
	for _, g := range loadGolden(t) {
		var f wire.Frame
		require.NoError(t, wire.ParseIP(g.ip, &f))
		seen[f.Packet.BTH.Opcode] = true
		fs = append(fs, f)
	}
	for _, o := range validOpcodes() {
		if seen[o] {
			continue
		}
		f := fs[0]
		f.Packet = wire.Packet{BTH: wire.BTH{Opcode: o, SE: true, MigReq: true, PKey: 0x8765,
			DestQP: 0xfedcba, AckReq: true,
			PSN: 0x654321},
			RETH: wire.RETH{VA: 1 << 60, RKey: 5, DMALen: 7}, AETH: wire.AETH{Syndrome: wire.ACK(12), MSN: 0x123456}}
		if o.HasPayload() {
			f.Packet.Payload = []byte("\x00\x01\x02")
		}
		fs = append(fs, f)
	}
	return fs
}

func TestTsharkRoCE(t *testing.T) {
	var frames [][]byte
	var packets []wire.Packet
	add := func(f wire.Frame) {
		f.Eth.Dst, f.Eth.Src = [6]byte{2, 0, 0, 0, 0, 1}, [6]byte{2, 0, 0, 0, 0, 2}
		frames = append(frames, wire.AppendFrame(nil, &f))
		packets = append(packets, f.Packet)
	}
	for _, f := range withAllOpcodes(t) {
		add(f)
		f.Eth.Tagged, f.Eth.TCI = true, 5
		f.GRH = wire.GRH{SGID: f.IP6.Src, DGID: f.IP6.Dst, HopLimit: 1}
		f.Eth.EtherType = wire.EtherTypeRoCEv1
		add(f)
	}
	rows := checkTshark(t, tsharktest.Write(t, pcapfile.Ethernet, frames), packets, "vlan.id", "infiniband.grh.nxthdr",
		"ip.checksum.status", "udp.port")
	for i, row := range rows {
		if i%2 == 0 {
			assert.Equal(t, []string{"", ""}, row[:2])
			assert.NotEmpty(t, row[3])
			continue
		}
		assert.Equal(t, []string{"5", "27", "", ""}, row)
	}
}

func TestTsharkInfiniBand(t *testing.T) {
	var frames [][]byte
	var packets []wire.Packet
	var vcrcs []wire.VCRC
	for i, f := range withAllOpcodes(t) {
		p := wire.LinkPacket{LRH: wire.LRH{VL: 2, SL: 4, LNH: uint8(wire.LNHLocal + i%2), DLID: 77, SLID: 99},
			Packet: f.Packet}
		frames = append(frames, wire.AppendLinkPacket(nil, &p))
		packets, vcrcs = append(packets, p.Packet), append(vcrcs, p.VCRC)
	}
	rows := checkTshark(t, tsharktest.Write(t, pcapfile.InfiniBand, frames), packets, "infiniband.lrh.dlid",
		"infiniband.lrh.slid", "infiniband.lrh.vl",
		"infiniband.lrh.sl", "infiniband.grh.ipver", "infiniband.variant.crc")
	for i, row := range rows {
		var ipver string
		if i%2 == 1 {
			ipver = "6"
		}
		v := binary.LittleEndian.AppendUint16(nil, uint16(vcrcs[i]))
		assert.Equal(t, []string{"77", "99", "0x02", "4", ipver, fmt.Sprintf("0x%02x%02x", v[0], v[1])}, row)
	}
}
