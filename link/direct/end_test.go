package direct

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/rvt"
	"ciddk/wire"
)

// received waits for the next packet of an end.
func received(t *testing.T, e *End) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	b, err := e.Recv(ctx)
	require.NoError(t, err)
	return b
}

// directRig is an end of a link, and a port with a collector.
func directRig(t *testing.T) (*Port, *linktest.Collector, *End) {
	t.Helper()
	l := NewLink()
	p, err := New(l, Config{LID: 4, LMC: 2, GUID: 0x1122})
	require.NoError(t, err)
	got := linktest.NewCollector()
	require.NoError(t, linktest.Start(p, got))
	e, err := l.End(Config{LID: 0x30})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		require.NoError(t, e.Close())
		require.NoError(t, p.Close())
	})
	return p, got, e
}

// An end receives a train as packets with the right value in every field, with a GRH and without.
func TestLinkEndReceives(t *testing.T) {
	for name, global := range map[string]bool{"local": false, "global": true} {
		t.Run(name, func(t *testing.T) {
			p, _, e := directRig(t)
			grh := ci.GRH{DGID: e.GID(), TrafficClass: 0x5a, FlowLabel: 0x12345, HopLimit: 7}
			rt, err := p.Route(&ci.AVAttr{Port: 1, DLID: e.LID(), SL: 3, PathBits: 1, Global: global, GRH: grh},
				rvt.Flow{})
			require.NoError(t, err)
			local := ci.GID{}
			if global {
				local, _ = p.gid(0)
			}
			assert.Equal(t, local, rt.(rvt.LocalRoute).Local())
			body := make([]byte, 1024+1024+5)
			for i := range body {
				body[i] = byte(i * 7)
			}
			p.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpWrite, Start: true, End: true, Ack: true, PSN: 0xffffff,
				PKey: 0xffff, DestQP: 9, VA: 1, RKey: 2,
				DMALen: uint32(len(body)), N: 3, MTU: 1024, Len: uint32(len(body)), Payload: [][]byte{body[:1000],
					body[1000:]}, Route: rt}})
			for k, op := range []wire.Opcode{wire.RCWriteFirst, wire.RCWriteMiddle, wire.RCWriteLast} {
				b := received(t, e)
				n := min(1024, len(body)-1024*k)
				var w wire.LinkPacket
				require.NoError(t, wire.ParseLinkPacket(b, &w))
				require.NoError(t, wire.CheckLinkCRC(b, &w))
				assert.Equal(t, global, w.Global())
				assert.Equal(t, wire.LRH{SL: 3, LNH: w.LRH.LNH, SLID: 5, DLID: 0x30, PktLen: w.LRH.PktLen}, w.LRH)
				h := w.Packet.BTH
				assert.Equal(t, []any{op, uint32(0xffffff+k) & 0xffffff, uint32(9)}, []any{h.Opcode, h.PSN, h.DestQP})
				assert.Equal(t, body[1024*k:1024*k+n], w.Packet.Payload)
				if global {
					sgid, _ := p.gid(0)
					assert.Equal(t, wire.GRH{TrafficClass: 0x5a, FlowLabel: 0x12345, PayloadLen: w.GRH.PayloadLen,
						NextHeader: wire.NextHeaderIBA, HopLimit: 7, SGID: sgid,
						DGID: e.GID()}, w.GRH)
				}
			}
		})
	}
}

// A valid packet from an end reaches the port that it is addressed to. An invalid one is counted once.
func TestLinkEndSends(t *testing.T) {
	right := func() wire.LinkPacket {
		w := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHLocal, SL: 2, SLID: 0x30, DLID: 6}}
		w.Packet.BTH = wire.BTH{Opcode: wire.RCSendOnly, PKey: 0xffff, DestQP: 9, PSN: 5}
		w.Packet.Payload = []byte("hello")
		return w
	}
	none := func([]byte) {}
	seal := func(f func([]byte)) func([]byte) { // the VCRC is that of the changed packet
		return func(b []byte) {
			f(b)
			end := len(b) - wire.VCRCLen
			wire.VCRC(0).Update(b[:end]).Put(b[end:])
		}
	}
	for _, tt := range []struct {
		name   string
		make   func(w *wire.LinkPacket, p *Port)
		change func([]byte)
		count  rvt.Counter // the counter of the packet; 0: it arrives
	}{
		{"right", func(*wire.LinkPacket, *Port) {}, none, 0},
		{"GRH", func(w *wire.LinkPacket, p *Port) { w.LRH.LNH = wire.LNHGlobal; w.GRH.DGID, _ = p.gid(0) }, none, 0},
		{"GRH of another port",
			func(w *wire.LinkPacket, _ *Port) { w.LRH.LNH = wire.LNHGlobal; w.GRH.DGID = [16]byte{1} }, none,
			rvt.DropNotForUs},
		{"reserved bits", func(w *wire.LinkPacket, _ *Port) { w.LRH.Resv2, w.LRH.Resv5 = 3, 31 }, none, 0},
		{"VCRC", func(*wire.LinkPacket, *Port) {}, func(b []byte) { b[len(b)-1] ^= 1 }, rvt.DropMalformed},
		{"ICRC", func(*wire.LinkPacket, *Port) {}, seal(func(b []byte) { b[len(b)-3] ^= 1 }), rvt.DropICRC},
		{"link version", func(*wire.LinkPacket, *Port) {}, seal(func(b []byte) { b[0] |= 1 }), rvt.DropMalformed},
		{"length", func(*wire.LinkPacket, *Port) {}, seal(func(b []byte) { b[5]-- }), rvt.DropMalformed},
		{"raw", func(*wire.LinkPacket, *Port) {}, seal(func(b []byte) { b[1] &^= 3 }), rvt.DropMalformed},
		{"another lane", func(w *wire.LinkPacket, _ *Port) { w.LRH.VL = 1 }, none, rvt.DropNotForUs},
		{"management lane", func(w *wire.LinkPacket, _ *Port) { w.LRH.VL = 15 }, none, rvt.DropNotForUs},
		{"congestion notification", func(w *wire.LinkPacket, _ *Port) {
			w.Packet.BTH.Opcode, w.Packet.Payload = wire.CNP, make([]byte, wire.CNPLen)
		}, none, rvt.DropService},
	} {
		p, got, e := directRig(t)
		w := right()
		tt.make(&w, p)
		b := wire.AppendLinkPacket(nil, &w)
		tt.change(b)
		require.NoError(t, e.Send(b), tt.name)
		list := got.Taken()
		if tt.count != 0 {
			assert.Empty(t, list, tt.name)
			assert.Equal(t, map[rvt.Counter]int{tt.count: 1}, got.Counts, tt.name)
			continue
		}
		assert.Empty(t, got.Counts, tt.name)
		require.Len(t, list, 1, tt.name)
		x := list[0]
		assert.Equal(t, rvt.Addr{LID: 0x30}, x.Src, tt.name)
		assert.Equal(t, rvt.Addr{LID: 6, GID: w.GRH.DGID}, x.Dst, tt.name)
		assert.EqualValues(t, 2, x.SL, tt.name)
		assert.EqualValues(t, 2, x.PathBits, tt.name)
		assert.Equal(t, "hello", string(x.Payload[0]), tt.name)
	}
	_, _, e := directRig(t)
	require.Error(t, e.Send([]byte{1, 2, 3}))
	require.NoError(t, e.Send(make([]byte, 40)), "to a LID that nobody has")
	require.NoError(t, e.Close())
	require.ErrorIs(t, e.Send(make([]byte, 40)), ErrClosed)
}

// FuzzLinkReceive checks that a port accepts or counts any bytes from the link.
func FuzzLinkReceive(f *testing.F) {
	w := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHLocal, SLID: 0x30, DLID: 4}}
	w.Packet.BTH = wire.BTH{Opcode: wire.RCSendOnly, PKey: 0xffff, DestQP: 9, PSN: 5}
	w.Packet.Payload = []byte("hello")
	f.Add(wire.AppendLinkPacket(nil, &w))
	w.LRH.LNH = wire.LNHGlobal
	f.Add(wire.AppendLinkPacket(nil, &w))
	f.Add([]byte{0, 2, 0, 4, 0, 1, 0, 1})
	l := NewLink()
	p, err := New(l, Config{LID: 4})
	require.NoError(f, err)
	got := linktest.NewCollector()
	require.NoError(f, linktest.Start(p, got))
	f.Fuzz(func(t *testing.T, b []byte) {
		clear(got.Counts)
		p.receive(b)
		n := len(got.Taken())
		for _, k := range got.Counts {
			n += k
		}
		if n != 1 {
			t.Fatalf("a packet of %d bytes is neither taken nor counted once", len(b))
		}
	})
}
