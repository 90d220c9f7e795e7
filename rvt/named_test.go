package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

func TestNamedRegion(t *testing.T) {
	r := newMemRig(t, nil)
	const key ci.Key = 0xabcdef77
	mem := ci.Bytes(make([]byte, 4096))
	o, err := r.pd.RegisterNamed(key, ci.MRCreate{Memory: mem, Access: allRights})
	require.NoError(t, err)
	g := o.Region()
	require.Equal(t, key, g.LKey)
	require.Equal(t, key, g.RKey)
	require.True(t, r.remoteOK(r.q, key, g.Addr, 4096, ci.RemoteWrite))
	require.False(t, r.remoteOK(r.q, key+1, g.Addr, 4096, ci.RemoteWrite))
	require.False(t, r.localOK(r.pd2, key, g.Addr, 1, false))
	for _, taken := range []ci.Key{key, key ^ 1, 0, 0xff} {
		_, err = r.pd.RegisterNamed(taken, ci.MRCreate{Memory: mem})
		requireStatus(t, ci.InsufficientResources, err)
	}
	_, err = r.pd.RegisterNamed(key, ci.MRCreate{Memory: mem, Access: ci.RemoteWrite})
	requireStatus(t, ci.InvalidPermission, err)
	_, err = r.pd.RegisterNamed(key, ci.MRCreate{})
	requireStatus(t, ci.InvalidParameter, err)
	r.destroy(o)
	_, err = r.pd.AllocFastRegNamed(key, 0)
	requireStatus(t, ci.InvalidParameter, err)
	o, err = r.pd.AllocFastRegNamed(key, 4)
	require.NoError(t, err, "the key is free again")
	r.destroy(o)
	r.close()
}

// The reserved L_Key grants local access to the QPs of all PDs, and nothing to peers.
func TestReservedRegion(t *testing.T) {
	r := newMemRig(t, nil)
	o, err := r.pd.RegisterReserved(0x500, ci.Bytes(make([]byte, 4096)))
	require.NoError(t, err)
	g := o.Region()
	require.True(t, r.localOK(r.pd, 0x500, g.Addr, 4096, true))
	require.True(t, r.localOK(r.pd2, 0x500, g.Addr, 4096, true))
	require.False(t, r.remoteOK(r.q, 0x500, g.Addr, 1, 0))
	requireStatus(t, ci.InvalidParameter, o.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: allRights}))
	r.destroy(o)
	require.False(t, r.localOK(r.pd, 0x500, g.Addr, 1, false))
	r.close()
}

// A driver's ring names the region of a fast registration by its key, and passes the storage.
func TestFastRegByKey(t *testing.T) {
	r := newMemRig(t, nil)
	o, err := r.pd.AllocFastRegNamed(0x12300, 4)
	require.NoError(t, err)
	b := make([]byte, 8192)
	f := ci.FastReg{Key: 0x12345, IOVA: 0x7000, Length: 8192, Access: allRights}
	by := func(f ci.FastReg, s ci.Memory) ci.WCStatus {
		return r.h.fastReg(&r.q.endpoint, &WorkExt{ByKey: true, FastReg: f, Storage: s})
	}
	for name, bad := range map[string]struct {
		f ci.FastReg
		s ci.Memory
	}{
		"no storage":    {f, nil},
		"short storage": {f, ci.Bytes(b[:8191])},
		"no region":     {ci.FastReg{Key: 0x99945, IOVA: 0x7000, Length: 1}, ci.Bytes(b)},
		"empty":         {ci.FastReg{Key: 0x12345, IOVA: 0x7000}, ci.Bytes(b)},
	} {
		require.Equal(t, ci.WCBindErr, by(bad.f, bad.s), name)
	}
	require.Equal(t, ci.WCSuccess, by(f, ci.Bytes(b)))
	require.True(t, r.remoteOK(r.q, f.Key, 0x7000, 8192, ci.RemoteWrite))
	require.Equal(t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, f.Key))
	require.False(t, r.remoteOK(r.q, f.Key, 0x7000, 1, ci.RemoteRead))
	r.destroy(o)
	r.close()
}

func TestNamedWindow(t *testing.T) {
	r := newMemRig(t, nil)
	o, err := r.pd.CreateNamedMW(0x45600, ci.MWType2)
	require.NoError(t, err)
	require.EqualValues(t, 0x45600, o.Key())
	_, err = r.pd.CreateNamedMW(0x45601, ci.MWType2)
	requireStatus(t, ci.InsufficientResources, err)
	mr := r.register(make([]byte, 64), allRights|ci.BindWindow)
	bind := ci.MWBind{Key: 7, Addr: mr.Region().Addr, Length: 8, Access: ci.RemoteRead}
	require.Equal(t, ci.WCSuccess, r.h.bindMW(&r.q.endpoint,
		&WorkExt{ByKey: true, Bind: bind, MWKey: 0x45600, MRKey: mr.Region().LKey}))
	require.True(t, r.remoteOK(r.q, 0x45607, bind.Addr, 8, ci.RemoteRead))
	r.destroy(o, mr)
	r.close()
}

// TestNewKeyOnly binds a window of type 1 by requests that have only its new key.
func TestNewKeyOnly(t *testing.T) {
	r := newMemRig(t, nil)
	o, err := r.pd.CreateNamedMW(0x45600, ci.MWType1)
	require.NoError(t, err)
	mr := r.register(make([]byte, 64), allRights|ci.BindWindow)
	bind := func(key ci.Key, length uint64) ci.WCStatus {
		b := ci.MWBind{Key: key, Addr: mr.Region().Addr, Length: length, Access: ci.RemoteRead}
		return r.h.bindMW(&r.q.endpoint,
			&WorkExt{ByKey: true, NewKeyOnly: true, MWKey: 0x77777, Bind: b, MRKey: mr.Region().LKey})
	}
	old := ci.Key(0x45600)
	for _, key := range []ci.Key{0x45601, 0x456ff, 0x45600} {
		require.Equal(t, ci.WCSuccess, bind(key, 8))
		require.Equal(t, key, o.Key())
		require.True(t, r.remoteOK(r.q, key, mr.Region().Addr, 8, ci.RemoteRead))
		require.False(t, r.remoteOK(r.q, old, mr.Region().Addr, 8, ci.RemoteRead), "the previous key")
		require.Equal(t, ci.WCBindErr, bind(key, 8), "the key does not change")
		require.Equal(t, key, o.Key())
		old = key
	}
	require.Equal(t, ci.WCBindErr, bind(0x45700, 8), "the key of no window")
	require.Equal(t, ci.WCSuccess, bind(0x45601, 0), "unbind")
	require.False(t, r.remoteOK(r.q, 0x45601, mr.Region().Addr, 8, ci.RemoteRead))
	r.destroy(o, mr)
	r.close()
}
