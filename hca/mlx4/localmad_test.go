package mlx4_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/mad"
)

// TestSetPKeys checks that CA.Query returns a table directly after it was set, whether the event of the change has come
// or not.
func TestSetPKeys(t *testing.T) {
	o := newSingle(t, true)
	for i := range uint16(200) {
		want := mad.PKeyBlock{0xffff, 0x8000 | i + 1}
		q := mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
			ClassVersion: mad.ClassVersionSubnet, Method: mad.Set, TID: uint64(i) + 1, Attribute: mad.AttrPKeyTable}}
		want.Put(q.Data[:])
		var in, out ci.MAD
		q.Put(in[:])
		require.NoError(t, o.c.LocalMAD(1, nil, &in, &out))
		a, err := o.c.Query()
		require.NoError(t, err)
		require.EqualValues(t, want[1], a.Ports[0].PKeys[1])
	}
	o.close(t)
}

// TestProtected checks that CA.Query needs no M_Key, and that requests of LocalMAD do.
func TestProtected(t *testing.T) {
	o := newSingle(t, true)
	const key = 0x0102030405060708
	smp := func(method mad.Method, key uint64, data []byte) (r mad.SMP) {
		q := mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
			ClassVersion: mad.ClassVersionSubnet, Method: method, TID: 7, Attribute: mad.AttrPortInfo, Modifier: 1},
			MKey: key}
		copy(q.Data[:], data)
		var in, out ci.MAD
		q.Put(in[:])
		require.NoError(t, o.c.LocalMAD(1, nil, &in, &out))
		r.Parse(out[:])
		return r
	}
	var info mad.PortInfo
	r := smp(mad.Get, 0, nil)
	info.Parse(r.Data[:])
	info.MKey, info.MKeyProtect = key, 2
	info.State, info.PhysState = 0, 0 // no change
	data := make([]byte, len(r.Data))
	info.Put(data)
	r = smp(mad.Set, 0, data)
	require.Equal(t, mad.GetResp, r.Method)
	require.Zero(t, r.Status)
	for range 3 {
		require.NoError(t, o.c.Modify(1, ci.PortFieldCapability, ci.PortModify{}))
		_, err := o.c.Query()
		require.NoError(t, err)
	}
	r = smp(mad.Get, key, nil)
	info.Parse(r.Data[:])
	assert.Zero(t, info.MKeyViolations, "the driver's own requests")
	r = smp(mad.Get, key+1, nil)
	assert.Zero(t, r.Method, "no response without the key")
	r = smp(mad.Get, key, nil)
	info.Parse(r.Data[:])
	assert.EqualValues(t, 1, info.MKeyViolations)
	o.close(t)
}
