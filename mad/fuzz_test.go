package mad_test

import (
	"bytes"
	"testing"

	"ciddk/mad"
)

// The corpora in testdata/fuzz were found by fuzzing. Further seeds are added here.

func FuzzParseCM(f *testing.F) {
	for _, b := range golden(f) {
		f.Add(b)
	}
	for _, attr := range cmAttributes {
		m := good(attr)
		h := mad.CMHeader(1, m)
		b, err := mad.AppendCM(nil, &h, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.Clone(b)
		h, m, err := mad.ParseCM(b)
		if !bytes.Equal(b, in) {
			t.Fatal("ParseCM changed its argument")
		}
		if (err == nil) != (m != nil) {
			t.Fatalf("message %v, error %v", m, err)
		}
		if err != nil {
			return
		}
		var out [mad.Size]byte
		h.Put(out[:])
		m.Put(out[mad.HeaderLen:])
		if !bytes.Equal(b, out[:]) {
			t.Fatalf("decoded and encoded:\n% x\n% x", b, out)
		}
		if i, ok := m.(informed); ok && len(i.AdditionalInfo()) > mad.CMInfoLen {
			t.Fatalf("%d bytes of information", len(i.AdditionalInfo()))
		}
		sent, err := mad.AppendCM(nil, &h, m)
		if checked := m.Check() == nil && h.Check() == nil; checked != (err == nil) {
			t.Fatalf("Check %v, %v; AppendCM %v", m.Check(), h.Check(), err)
		}
		if err == nil && !bytes.Equal(b, sent) {
			t.Fatalf("decoded and sent:\n% x\n% x", b, sent)
		}
		if a := m.Attribute(); a == mad.AttrREQ || a == mad.AttrSIDRREQ {
			_, _, _ = mad.ParseIPCM(m.Private()) // must not panic; FuzzParseIPCM checks the result
		}
	})
}

func FuzzParseSA(f *testing.F) {
	for _, attr := range []uint16{mad.AttrPathRecord, mad.AttrMCMemberRecord, mad.AttrServiceRecord} {
		s := mad.SA{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetAdmin, ClassVersion: 2,
			Method: mad.GetTableResp, Attribute: attr},
			RMPP: mad.RMPP{Version: 1, Type: mad.RMPPData, Flags: 7, Data1: 1, Data2: 220}, AttributeOffset: 8}
		var b [mad.Size]byte
		s.Put(b[:])
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s mad.SA
		if mad.ParseSA(b, &s) != nil {
			return
		}
		var out [mad.Size]byte
		if s.Put(out[:]); !bytes.Equal(b, out[:]) {
			t.Fatalf("decoded and encoded:\n% x\n% x", b, out)
		}
		if s.RMPP.Active() && s.RMPP.Fault() == mad.RMPPOK {
			checkLengths(t, s.Class, s.RMPP.Data2)
		}
	})
}

func FuzzParsePerf(f *testing.F) {
	var b [mad.Size]byte
	p := mad.Perf{Header: mad.Header{BaseVersion: 1, Class: mad.ClassPerformance, ClassVersion: 1, Method: mad.Get,
		Attribute: mad.AttrPortCounters}}
	p.Put(b[:])
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var p mad.Perf
		if mad.ParsePerf(b, &p) != nil {
			return
		}
		var out [mad.Size]byte
		if p.Put(out[:]); !bytes.Equal(b, out[:]) {
			t.Fatalf("decoded and encoded:\n% x\n% x", b, out)
		}
	})
}

func FuzzParseIPCM(f *testing.F) {
	for _, b := range golden(f) {
		f.Add(b[mad.Size-mad.REQPrivateLen:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, rest, err := mad.ParseIPCM(b)
		if err != nil {
			return
		}
		out := make([]byte, mad.IPCMLen)
		h.Put(out)
		if !bytes.Equal(b, append(out, rest...)) {
			t.Fatalf("decoded % x, encoded % x and % x", b, out, rest)
		}
		if !h.SourceAddr().IsValid() || !h.DestinationAddr().IsValid() {
			t.Fatalf("%+v has no addresses", h)
		}
		g, err := mad.NewIPCM(h.SourceAddr(), h.DestinationAddr())
		if err != nil || g.SourceAddr() != h.SourceAddr() || g.DestinationAddr() != h.DestinationAddr() {
			t.Fatalf("%+v made again is %+v, %v: other addresses", h, g, err)
		}
		if h.Check() == nil && (h.IPVersion == 4 || !h.SourceAddr().Addr().Is4()) && g != h {
			t.Fatalf("%+v made again is %+v, %v", h, g, err)
		}
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(make([]byte, 112), uint16(7), mad.MCMemberRecordLen)
	f.Add(make([]byte, 64), uint16(0), mad.PathRecordLen)
	f.Add(make([]byte, 200), uint16(0xffff), mad.NodeRecordLen)
	f.Fuzz(func(t *testing.T, data []byte, offset uint16, size int) {
		if size < 1 {
			return
		}
		records, err := mad.Records(data, offset, size)
		if err != nil {
			return
		}
		for i, r := range records {
			if at := 8 * int(offset) * i; !bytes.Equal(r, data[at:at+size]) {
				t.Fatalf("record %d is % x", i, r)
			}
		}
	})
}

func FuzzSegmentation(f *testing.F) {
	f.Add(uint8(3), uint32(220))
	f.Add(uint8(0x30), uint32(0xffffffff))
	f.Fuzz(func(t *testing.T, class uint8, length uint32) { checkLengths(t, mad.Class(class), length) })
}

// checkLengths checks that a payload length is either rejected or equal to the one that a sender of that much data
// writes.
func checkLengths(t *testing.T, c mad.Class, length uint32) {
	t.Helper()
	s, ok := mad.SegmentationOf(c)
	if !ok {
		return
	}
	if n, known, err := s.Total(length); err == nil && known && s.FirstPayloadLength(n) != length {
		t.Fatalf("%v: payload length %d is %d bytes of data, which is payload length %d", c, length, n,
			s.FirstPayloadLength(n))
	}
	if n, err := s.Last(length); err == nil && (n < 0 || n > s.DataLen) {
		t.Fatalf("%v: last payload length %d is %d bytes of data", c, length, n)
	}
}
