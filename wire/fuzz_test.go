package wire_test

import (
	"bytes"
	"testing"

	"ciddk/wire"
)

// The corpora in testdata/fuzz were found by fuzzing. The golden packets are added here.

func FuzzParsePacket(f *testing.F) {
	for _, g := range loadGolden(f) {
		f.Add(g.transport())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.Clone(b)
		var p wire.Packet
		err := wire.ParsePacket(b, &p)
		if !bytes.Equal(b, in) {
			t.Fatal("ParsePacket changed its argument")
		}
		if err != nil {
			return
		}
		checkReencodes(t, b, &p)
	})
}

// checkReencodes checks that a packet that was parsed is written with the same bytes, except for the pad.
func checkReencodes(t *testing.T, b []byte, p *wire.Packet) {
	t.Helper()
	want := bytes.Clone(b)
	pad := int(p.BTH.Pad)
	end := len(want) - wire.ICRCLen
	if pad != int(wire.PadLen(len(p.Payload))) {
		t.Fatalf("%d bytes of payload with %d of pad", len(p.Payload), pad)
	}
	clear(want[end-pad : end])
	if got := wire.AppendPacket(nil, p); !bytes.Equal(got, want) {
		t.Fatalf("decoded and encoded:\n% x\n% x", want, got)
	}
}

func FuzzParseIP(f *testing.F) {
	for _, g := range loadGolden(f) {
		f.Add(g.ip)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr wire.Frame
		if wire.ParseIP(b, &fr) != nil {
			return
		}
		checkFrame(t, &fr, wire.ParseIP, wire.AppendIP)
	})
}

func FuzzParseFrame(f *testing.F) {
	for i, g := range loadGolden(f) {
		var fr wire.Frame
		if err := wire.ParseIP(g.ip, &fr); err != nil {
			f.Fatal(err)
		}
		fr.Eth.Tagged = i%2 == 0
		f.Add(wire.AppendFrame(nil, &fr))
		fr.Eth.EtherType = wire.EtherTypeRoCEv1
		f.Add(wire.AppendFrame(nil, &fr))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr wire.Frame
		if wire.ParseFrame(b, &fr) != nil {
			return
		}
		checkFrame(t, &fr, wire.ParseFrame, wire.AppendFrame)
	})
}

// checkFrame checks that a frame that was parsed and written again has a correct ICRC and the same headers.
func checkFrame(t *testing.T, f *wire.Frame, parse func([]byte, *wire.Frame) error,
	put func([]byte, *wire.Frame) []byte) {
	t.Helper()
	_ = f.CheckICRC() // must not panic
	in := *f
	b := put(nil, f)
	var g wire.Frame
	if err := parse(b, &g); err != nil {
		t.Fatalf("% x: %v", b, err)
	}
	if err := g.CheckICRC(); err != nil {
		t.Fatalf("% x: %v", b, err)
	}
	if g.Packet.BTH != in.Packet.BTH || g.Eth != in.Eth || g.GRH != in.GRH || g.UDP != in.UDP || g.IP6 != in.IP6 {
		t.Fatalf("decoded and encoded:\n%+v\n%+v", in, g)
	}
	in.IP4.Checksum, g.IP4.Checksum = 0, 0 // 0 and 0xffff are equivalent
	if g.IP4 != in.IP4 {
		t.Fatalf("decoded and encoded:\n%+v\n%+v", in.IP4, g.IP4)
	}
}

func FuzzParseLinkPacket(f *testing.F) {
	for _, g := range loadGolden(f) {
		var p wire.LinkPacket
		if err := wire.ParsePacket(g.transport(), &p.Packet); err != nil {
			f.Fatal(err)
		}
		p.LRH = wire.LRH{LNH: wire.LNHLocal, DLID: 1, SLID: 2}
		f.Add(wire.AppendLinkPacket(nil, &p))
		p.LRH.LNH = wire.LNHGlobal
		f.Add(wire.AppendLinkPacket(nil, &p))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p wire.LinkPacket
		if wire.ParseLinkPacket(b, &p) != nil {
			return
		}
		_ = wire.CheckLinkCRC(b, &p) // must not panic
		lrh, grh, bth := p.LRH, p.GRH, p.Packet.BTH
		out := wire.AppendLinkPacket(nil, &p)
		var q wire.LinkPacket
		if err := wire.ParseLinkPacket(out, &q); err != nil {
			t.Fatalf("% x: %v", out, err)
		}
		if err := wire.CheckLinkCRC(out, &q); err != nil {
			t.Fatalf("% x: %v", out, err)
		}
		if q.LRH != lrh || q.GRH != grh || q.Packet.BTH != bth {
			t.Fatalf("decoded % x, encoded % x", b, out)
		}
	})
}

func FuzzGRH(f *testing.F) {
	for _, g := range loadGolden(f) {
		var fr wire.Frame
		if err := wire.ParseIP(g.ip, &fr); err != nil {
			f.Fatal(err)
		}
		var b [wire.GRHAreaLen]byte
		if g.v4() {
			wire.PutGRHArea4(b[:], &fr.IP4)
		} else {
			wire.PutGRHArea6(b[:], &fr.IP6)
		}
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := wire.ParseGRHArea(b)
		if err == nil && b[0]>>4 == 6 {
			var out [wire.GRHLen]byte
			if h.Put(out[:]); !bytes.Equal(out[:], b[:wire.GRHLen]) {
				t.Fatalf("decoded % x, encoded % x", b[:wire.GRHLen], out)
			}
		}
		var g wire.GRH
		if g.Parse(b) == nil && g != h {
			t.Fatalf("Parse %+v, ParseGRHArea %+v", g, h)
		}
	})
}

// FuzzFlowCheck fuzzes Flow4.Check, which receives untrusted bytes from the UDP port.
func FuzzFlowCheck(f *testing.F) {
	for _, g := range loadGolden(f) {
		f.Add(g.transport(), uint16(7))
	}
	flow := wire.NewFlow4([4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, 50000, wire.RoCEv2Port, wire.IPv4DontFragment)
	f.Fuzz(func(t *testing.T, b []byte, id uint16) {
		if len(b) > 65507 {
			t.Skip("longer than a UDP datagram")
		}
		if got, ok := flow.Check(b); ok {
			end := len(b) - wire.ICRCLen
			var want [wire.ICRCLen]byte
			flow.Start(len(b), got).Transport(b[:end]).Put(want[:])
			if !bytes.Equal(b[end:], want[:]) {
				t.Fatalf("ID %d does not give the ICRC of % x", got, b)
			}
		}
		if len(b) < wire.BTHLen+wire.ICRCLen || len(b)%4 != 0 {
			return
		}
		b = bytes.Clone(b)
		end := len(b) - wire.ICRCLen
		flow.Start(len(b), id).Transport(b[:end]).Put(b[end:])
		if got, ok := flow.Check(b); !ok || got != id {
			t.Fatalf("sealed with ID %d, found %d %v", id, got, ok)
		}
	})
}
