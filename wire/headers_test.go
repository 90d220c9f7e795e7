package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"ciddk/wire"
)

// TestHeaderLayouts checks the offsets of every header with known bytes.
func TestHeaderLayouts(t *testing.T) {
	var bth wire.BTH
	bth.Parse([]byte{0x64, 0x6a, 0x12, 0x34, 0x95, 1, 2, 3, 0xc3, 4, 5, 6})
	assert.Equal(t, wire.BTH{Opcode: wire.UDSendOnly, SE: false, MigReq: true, Pad: 2, TVer: 10,
		PKey: 0x1234, FECN: true,
		Resv6:  0x15,
		DestQP: 0x010203, AckReq: true, Resv7: 0x43, PSN: 0x040506}, bth)
	bth.Parse([]byte{0, 0x80, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0})
	assert.Equal(t, wire.BTH{SE: true, BECN: true}, bth)

	var deth wire.DETH
	deth.Parse([]byte{1, 2, 3, 4, 5, 6, 7, 8})
	assert.Equal(t, wire.DETH{QKey: 0x01020304, Resv8: 5, SrcQP: 0x060708}, deth)
	var reth wire.RETH
	reth.Parse([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	assert.Equal(t, wire.RETH{VA: 0x0102030405060708, RKey: 0x090a0b0c, DMALen: 0x0d0e0f10}, reth)
	var at wire.AtomicETH
	at.Parse([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
		0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28})
	assert.Equal(t, wire.AtomicETH{VA: 0x0102030405060708, RKey: 0x090a0b0c, SwapAdd: 0x1112131415161718,
		Compare: 0x2122232425262728}, at)
	var aeth wire.AETH
	aeth.Parse([]byte{0x62, 1, 2, 3})
	assert.Equal(t, wire.AETH{Syndrome: wire.NAKRemoteAccess, MSN: 0x010203}, aeth)
	var aa wire.AtomicAckETH
	aa.Parse([]byte{1, 2, 3, 4, 5, 6, 7, 8})
	assert.Equal(t, wire.AtomicAckETH{Orig: 0x0102030405060708}, aa)
	var imm wire.ImmDt
	imm.Parse([]byte{1, 2, 3, 4})
	assert.Equal(t, wire.ImmDt{Imm: 0x01020304}, imm)
	var ieth wire.IETH
	ieth.Parse([]byte{1, 2, 3, 4})
	assert.Equal(t, wire.IETH{RKey: 0x01020304}, ieth)
	var lrh wire.LRH
	lrh.Parse([]byte{0x73, 0x5b, 0x12, 0x34, 0xaa, 0xbc, 0x56, 0x78})
	assert.Equal(t, wire.LRH{VL: 7, LVer: 3, SL: 5, Resv2: 2, LNH: 3, DLID: 0x1234, Resv5: 0x15, PktLen: 0x2bc,
		SLID: 0x5678}, lrh)
}

func TestHeadersSurvive(t *testing.T) {
	type header interface {
		Put([]byte)
		Parse([]byte)
	}
	for _, c := range []struct {
		name string
		h    header
		n    int
	}{
		{"BTH", &wire.BTH{}, wire.BTHLen}, {"DETH", &wire.DETH{}, wire.DETHLen}, {"RETH", &wire.RETH{}, wire.RETHLen},
		{"AtomicETH", &wire.AtomicETH{}, wire.AtomicETHLen}, {"AETH", &wire.AETH{}, wire.AETHLen},
		{"AtomicAckETH", &wire.AtomicAckETH{}, wire.AtomicAckETHLen}, {"ImmDt", &wire.ImmDt{}, wire.ImmDtLen},
		{"IETH", &wire.IETH{}, wire.IETHLen}, {"LRH", &wire.LRH{}, wire.LRHLen},
	} {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				b := rapid.SliceOfN(rapid.Byte(), c.n, c.n).Draw(t, "bytes")
				c.h.Parse(b)
				out := make([]byte, c.n+1)
				out[c.n] = 0xa5
				c.h.Put(out)
				assert.Equal(t, b, out[:c.n])
				assert.EqualValues(t, 0xa5, out[c.n], "byte behind the header")
			})
		})
	}
}

// Values that are too large for their field must not change adjacent fields.
func TestPutCutsOff(t *testing.T) {
	b := make([]byte, wire.BTHLen)
	h := wire.BTH{Pad: 0xff, DestQP: 0xffffffff, PSN: 0xffffffff}
	h.Put(b)
	assert.Equal(t, []byte{0, 0x30, 0, 0, 0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff}, b)
	(&wire.BTH{TVer: 0xff, Resv6: 0xff, Resv7: 0xff}).Put(b)
	assert.Equal(t, []byte{0, 0x0f, 0, 0, 0x3f, 0, 0, 0, 0x7f, 0, 0, 0}, b)
	d := make([]byte, wire.DETHLen)
	(&wire.DETH{SrcQP: 0xffffffff}).Put(d)
	assert.Equal(t, []byte{0, 0, 0, 0, 0, 0xff, 0xff, 0xff}, d)
	l := make([]byte, wire.LRHLen)
	(&wire.LRH{LVer: 0xff, Resv2: 0xff, LNH: 0xff, PktLen: 0xffff}).Put(l)
	assert.Equal(t, []byte{0x0f, 0x0f, 0, 0, 0x07, 0xff, 0, 0}, l)
	v := make([]byte, wire.IPv6Len)
	(&wire.IPv6{FlowLabel: 0xffffffff}).Put(v)
	assert.Equal(t, []byte{0x60, 0x0f, 0xff, 0xff}, v[:4])
}
