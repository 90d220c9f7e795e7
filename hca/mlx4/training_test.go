package mlx4_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/mad"
)

// TestTraining takes a port down by its agent, after which the link trains again, and later the cable out. The adapter
// reports neither that the link trains nor that the port is in Init.
func TestTraining(t *testing.T) {
	o := newTwoPorts(t)
	next := func(port uint8) ci.EventType {
		for e := range o.ports {
			if e.Port == port && (e.Type == ci.EventPortDown || e.Type == ci.EventPortInit) {
				return e.Type
			}
		}
		return 0
	}
	for range 2 {
		info := portInfo(t, o, 2, mad.Get, nil)
		info.State, info.PhysState = uint8(ci.PortDown), 0
		portInfo(t, o, 2, mad.Set, &info)
		require.Equal(t, ci.EventPortDown, next(2))
		require.Equal(t, ci.EventPortInit, next(2))
		for _, to := range []ci.PortState{ci.PortArmed, ci.PortActive} { // as a subnet manager does
			info.State = uint8(to)
			portInfo(t, o, 2, mad.Set, &info)
		}
	}
	require.NoError(t, o.m.SetLink(1, false))
	require.Equal(t, ci.EventPortDown, next(1))
	o.close(t) // while the driver looks at the port
}

// portInfo reads or writes the PortInfo of a port.
func portInfo(t *testing.T, o *single, port uint8, method mad.Method, set *mad.PortInfo) (info mad.PortInfo) {
	q := mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
		ClassVersion: mad.ClassVersionSubnet, Method: method, TID: 7, Attribute: mad.AttrPortInfo,
		Modifier: uint32(port)}}
	if set != nil {
		set.Put(q.Data[:])
	}
	var in, out ci.MAD
	q.Put(in[:])
	require.NoError(t, o.c.LocalMAD(port, nil, &in, &out))
	var r mad.SMP
	r.Parse(out[:])
	require.Zero(t, r.Status)
	info.Parse(r.Data[:])
	return info
}
