package alsuite

import (
	"fmt"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Pools of regions.
var pools = area().Needing(validate.Needs{Caps: ci.CapFMR, HCAs: 2})

var CIPool01 = pools.Must("CI-Pool-01", "CI access layer", "accesslayer, FastRegPool",
	"A mapping of a pool grants the peer access from its registration to its invalidation. Each mapping has another "+
		"key, and the pool has no more mappings than regions.")

var _ = pools.Needing(validate.Needs{Caps: ci.CapFastReg, HCAs: 2}).Add("al.pool.fast",
	"a pool of fast registration regions", fastPool, CIPool01)

func fastPool(t *validate.T) {
	s := registered(t)
	p := s.pair(kit.Size(64))
	pd := typed[*accesslayer.PD](t, p.B.PD, "PD")
	for name, cfg := range map[string]accesslayer.FastRegPoolConfig{
		"no regions":         {MaxPages: 1},
		"no pages":           {Size: 1},
		"pages of one byte":  {Size: 1, MaxPages: 1, PageShift: 63},
		"a negative size":    {Size: -1, MaxPages: 1},
		"a page shift of 64": {Size: 1, MaxPages: 1, PageShift: 64},
	} {
		_, err := pd.NewFastRegPool(cfg)
		kit.WantExactly(t, err, "PD.NewFastRegPool with "+name, ci.InvalidParameter)
	}
	const size = 2
	pool, err := pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: size, MaxPages: 2})
	kit.OK(t, err, "PD.NewFastRegPool")
	access := ci.LocalWrite | ci.RemoteWrite
	_, err = pool.Map(nil, access)
	kit.WantExactly(t, err, "FastRegPool.Map of nil", ci.InvalidParameter)
	_, err = pool.Map(ci.Bytes(make([]byte, 8)), ci.RemoteWrite)
	kit.WantExactly(t, err, "FastRegPool.Map with remote write alone", ci.InvalidPermission)
	_, err = pool.Map(ci.Bytes(make([]byte, 3<<12)), access)
	kit.WantExactly(t, err, "FastRegPool.Map of more than MaxPages", ci.InvalidParameter)

	keys := map[ci.Key]bool{}
	for round := range 3 * size { // each region is used again
		mem := make([]byte, 64)
		m, err := pool.Map(ci.Bytes(mem), access)
		kit.OK(t, err, "FastRegPool.Map")
		to := ci.Remote{Addr: m.Addr, RKey: m.RKey}
		kit.True(t, !keys[m.RKey], fmt.Sprintf("key of mapping %d", round), "a new one", "%#x, of an earlier mapping",
			m.RKey)
		keys[m.RKey] = true
		p.B.Send(signaled(m.Register()))
		p.B.CQ.WaitOK(1)
		p.WantWrite("memory of a mapping", to, mem)
		p.B.Send(signaled(m.Invalidate()))
		p.B.CQ.WaitOK(1)
		p.WantUntouched("memory of an invalidated mapping", to, mem)
		kit.OK(t, m.Unmap(), "FastRegMapping.Unmap")
		kit.WantExactly(t, m.Unmap(), "second FastRegMapping.Unmap", ci.InvalidHandle)
	}
	var held []*accesslayer.FastRegMapping
	for range size {
		m, err := pool.Map(ci.Bytes(make([]byte, 64)), access)
		kit.OK(t, err, "FastRegPool.Map")
		held = append(held, m)
	}
	_, err = pool.Map(ci.Bytes(make([]byte, 64)), access)
	kit.WantExactly(t, err, "FastRegPool.Map while all regions are in use", ci.InsufficientResources)
	kit.OK(t, held[0].Drop(), "FastRegMapping.Drop")
	m, err := pool.Map(ci.Bytes(make([]byte, 64)), access)
	kit.OK(t, err, "FastRegPool.Map after Drop")
	kit.OK(t, m.Unmap(), "FastRegMapping.Unmap")
	kit.OK(t, pool.Destroy(), "FastRegPool.Destroy with a mapping")
	_, err = pool.Map(ci.Bytes(make([]byte, 64)), access)
	kit.WantExactly(t, err, "FastRegPool.Map of a destroyed pool", ci.InvalidHandle)
	s.rec[1].clean(t)
}

// signaled returns a request with a completion.
func signaled(wr ci.SendWR) ci.SendWR {
	wr.ID, wr.Flags = 1, wr.Flags|ci.SendSignaled
	return wr
}
