package fabric

import (
	"math/bits"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/internal/pcapfile"
	"ciddk/internal/tsharktest"
	"ciddk/link/capture"
	"ciddk/wire"
)

// tshark reads the packets of a run: RC with every operation, and UD with a GRH, over two switches.
func TestTshark(t *testing.T) {
	f := twoLevels(t)
	require.NoError(t, f.Configure())
	var mu sync.Mutex
	var frames [][]byte
	tap := new(capture.Tap)
	open := func(name string, typ ci.QPType) *linktest.Node {
		p, err := f.CAPort(name, 0)
		require.NoError(t, err)
		c, err := capture.New(p, tap)
		require.NoError(t, err)
		return linktest.Open(t, typ, 1<<19, c)
	}
	a, b := open("h1", ci.RC), adapter(t, f, "h8", ci.RC)
	x, y := open("h2", ci.UD), adapter(t, f, "h7", ci.UD)
	require.NoError(t, tap.Start(func(list []capture.Frame) {
		mu.Lock()
		defer mu.Unlock()
		for i := range list {
			frames = append(frames, list[i].Data)
		}
	}))
	linktest.ConnectBoth(a, b)
	linktest.Exercise(t, a, b)
	openUD(t, x)
	openUD(t, y)
	y.Recv(ci.RecvWR{SGL: y.SGE(0, 140)})
	av, err := x.PD.CreateAV(ci.AVAttr{Port: 1, DLID: y.Attr.LID, SL: 3, Global: true,
		GRH: ci.GRH{DGID: y.Attr.GIDs[0].GID, FlowLabel: 0xabcde, HopLimit: 7, TrafficClass: 9}})
	require.NoError(t, err)
	x.Send(ci.SendWR{Op: ci.OpSend, Flags: ci.SendSignaled, SGL: x.SGE(0, 99),
		To: ci.Dest{AV: av, QPN: y.QP.Num(), QKey: 7}})
	x.Poll(1)
	y.Poll(1)
	require.NoError(t, av.Destroy())
	tap.Stop()

	mu.Lock()
	defer mu.Unlock()
	fields := []string{"lrh.vl", "lrh.sl", "lrh.lnh", "lrh.dlid", "lrh.slid", "lrh.pktlen", "bth.opcode", "bth.destqp",
		"bth.psn", "invariant.crc", "variant.crc", "grh.flowlabel", "grh.hoplmt", "grh.tclass", "grh.paylen"}
	names := slices.Clone(fields)
	for i := range names {
		names[i] = "infiniband." + names[i]
	}
	numGlobal := 0
	for i, row := range tsharktest.Read(t, tsharktest.Write(t, pcapfile.InfiniBand, frames), names...) {
		var w wire.LinkPacket
		require.NoError(t, wire.ParseLinkPacket(frames[i], &w))
		require.NoError(t, wire.CheckLinkCRC(frames[i], &w))
		require.Equal(t, w.VCRC, wire.VCRC(0).Update(frames[i][:len(frames[i])-wire.VCRCLen]))
		l, h := &w.LRH, &w.Packet.BTH
		want := []uint64{uint64(l.VL), uint64(l.SL), uint64(l.LNH), uint64(l.DLID), uint64(l.SLID), uint64(l.PktLen),
			uint64(h.Opcode), uint64(h.DestQP), uint64(h.PSN), uint64(bits.ReverseBytes32(w.Packet.ICRC)),
			uint64(bits.ReverseBytes16(uint16(w.VCRC)))} // tshark reads CRCs with the most significant byte first
		if w.Global() {
			numGlobal++
			want = append(want, uint64(w.GRH.FlowLabel), uint64(w.GRH.HopLimit), uint64(w.GRH.TrafficClass),
				uint64(w.GRH.PayloadLen))
		}
		for k, v := range want {
			got, err := strconv.ParseUint(row[k], 0, 64)
			if assert.NoError(t, err, "packet %d: %s is %q", i, fields[k], row[k]) {
				require.Equal(t, v, got, "packet %d: %s", i, fields[k])
			}
		}
	}
	assert.Equal(t, 1, numGlobal, "datagrams with a GRH")
	assert.Greater(t, len(frames), 2*300_000/4096)
}
