package mad_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/mad"
)

// codec has the methods of all layouts.
type codec interface {
	Put([]byte)
	Parse([]byte)
}

// blocks lists the layouts that are arrays.
var blocks = []struct {
	name string
	len  int
	make func() codec
}{
	{"GUIDBlock", 64, func() codec { return new(mad.GUIDBlock) }},
	{"PKeyBlock", 64, func() codec { return new(mad.PKeyBlock) }},
	{"LinearBlock", 64, func() codec { return new(mad.LinearBlock) }},
	{"MulticastBlock", 64, func() codec { return new(mad.MulticastBlock) }},
	{"SLtoVL", mad.SLtoVLLen, func() codec { return new(mad.SLtoVL) }},
	{"VLArbBlock", 64, func() codec { return new(mad.VLArbBlock) }},
}

// FuzzLayouts checks that Parse and Put of every layout keep every bit, and that Put writes no byte beyond the length.
func FuzzLayouts(f *testing.F) {
	f.Add([]byte{1, 0x81, 1, 1, 0x80})
	f.Add(make([]byte, mad.Size))
	f.Fuzz(func(t *testing.T, in []byte) {
		b := make([]byte, mad.Size)
		copy(b, in)
		for _, l := range layouts {
			checkKeeps(t, l.name, l.len, l.make, b)
		}
		for _, l := range blocks {
			checkKeeps(t, l.name, l.len, l.make, b)
		}
	})
}

func checkKeeps(t *testing.T, name string, n int, mk func() codec, b []byte) {
	t.Helper()
	v := mk()
	v.Parse(b[:n])
	out := make([]byte, n+1)
	out[n] = 0xa5
	v.Put(out)
	require.Equal(t, b[:n], out[:n], name)
	require.EqualValues(t, 0xa5, out[n], name)
	w := mk()
	w.Parse(out)
	require.Equal(t, v, w, name)
}

// TestOffsets checks some offsets, taken by hand from the tables of IBTA volume 1.
func TestOffsets(t *testing.T) {
	t.Parallel()
	b := make([]byte, mad.Size)
	s := mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetDirected, ClassVersion: 1,
		Method: mad.GetResp,
		Status: mad.StatusDirection | mad.StatusBadField, TID: 0x1122334455667788,
		Attribute: mad.AttrPortInfo, Modifier: 2},
		MKey: 3, DrSLID: 0xffff}
	s.SetHops(1, 2)
	s.Data[0], s.InitialPath[1], s.ReturnPath[1] = 7, 8, 9
	s.Put(b)
	assert.Equal(t, []byte{1, 0x81, 1, 0x81, 0x80, 0x1c, 1, 2, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
		0x88, 0, 0x15, 0,
		0, 0, 0, 0, 2}, b[:24])
	assert.EqualValues(t, 3, b[31])
	assert.Equal(t, []byte{0xff, 0xff}, b[32:34])
	assert.EqualValues(t, 7, b[64])
	assert.EqualValues(t, 8, b[129])
	assert.EqualValues(t, 9, b[193])
	assert.EqualValues(t, 1, s.HopPointer())
	assert.EqualValues(t, 2, s.HopCount())

	n := mad.NodeInfo{Type: mad.NodeCA, NodeGUID: 5, PartitionCap: 16, LocalPort: 1, VendorID: 0x123456}
	n.Put(b)
	assert.EqualValues(t, 1, b[2])
	assert.EqualValues(t, 5, b[19])
	assert.EqualValues(t, 16, b[29])
	assert.Equal(t, []byte{1, 0x12, 0x34, 0x56}, b[36:40])

	p := mad.PortInfo{LID: 0x102, State: 4, PhysState: 5, LMC: 7, MTUCap: 5, GUIDCap: 8, ClientReregister: true,
		SubnetTimeout: 18}
	p.Put(b)
	assert.Equal(t, []byte{1, 2}, b[16:18])
	assert.EqualValues(t, 4, b[32])
	assert.EqualValues(t, 0x50, b[33])
	assert.EqualValues(t, 7, b[34])
	assert.EqualValues(t, 5, b[41])
	assert.EqualValues(t, 8, b[50])
	assert.EqualValues(t, 0x80|18, b[51])
	assert.Equal(t, [16]byte{0xfe, 0x80, 15: 9}, mad.GID(0xfe80<<48, 9))
}
