package model

import (
	"maps"
	"sync"
	"sync/atomic"

	"ciddk/internal/mlx4/prm"
)

// ethFilters are the filters of the frames that an Ethernet port receives, besides the steering table. A filter that
// the driver has not set takes all frames.
type ethFilters struct {
	vlans  atomic.Pointer[vlanFilter]
	groups atomic.Pointer[groupFilter] // nil: off

	mu   sync.Mutex
	list groupFilter // of the addresses, also while the filter is off
}

// vlanFilter has a bit for each VLAN that is received.
type vlanFilter [prm.VLANFilterEntries * 32 / 64]uint64

// groupFilter are the groups that are received.
type groupFilter map[[6]byte]bool

// maxFilterGroups is the most addresses of a filter.
const maxFilterGroups = 1 << logMaxMCGs

// clear removes the filters.
func (f *ethFilters) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
	f.vlans.Store(nil)
	f.groups.Store(nil)
}

// takes reports whether the filters let a frame pass. Frames without a VLAN tag pass the filter of VLANs. It does not
// distinguish C-tags from S-tags: Linux's driver has one list for both (linux en_netdev.c, active_vlans).
func (f *ethFilters) takes(frame []byte) bool {
	if v := f.vlans.Load(); v != nil {
		_, tci, isTagged := outerTag(frame)
		if id := tci & maxVLANID; isTagged && v[id/64]>>(id%64)&1 == 0 {
			return false
		}
	}
	g := f.groups.Load()
	return g == nil || frame[0]&1 == 0 || (*g)[[6]byte(frame)]
}

const maxVLANID = 0xfff

// setVLANFilter replaces the filter of VLANs.
func (c *command) setVLANFilter() prm.Status {
	p := c.port(uint8(c.mod))
	if p == nil || !p.isEthernet() {
		return prm.BadParam
	}
	b, ok := c.inbox(prm.VLANFilterEntries * 4)
	if !ok {
		return prm.BadParam
	}
	v := new(vlanFilter)
	for i := range prm.VLANFilterEntries { // the last entry has the first VLANs
		v[i/2] |= uint64(bigEndian.Uint32(b[4*(prm.VLANFilterEntries-1-i):])) << (i % 2 * 32)
	}
	p.filter.vlans.Store(v)
	return prm.OK
}

// setGroupFilter adds an address to the filter of groups, empties it, or turns it on or off.
func (c *command) setGroupFilter() prm.Status {
	p := c.port(uint8(c.mod))
	if p == nil || !p.isEthernet() {
		return prm.BadParam
	}
	param := bigEndian.AppendUint64(nil, c.in)
	f := &p.filter
	f.mu.Lock()
	defer f.mu.Unlock()
	switch c.opMod {
	case prm.McastFilterConfig:
		if prm.McastFilterClear.Has(param) {
			f.list = nil
		}
		mac := [6]byte(param[2:])
		if len(f.list) >= maxFilterGroups && !f.list[mac] {
			return prm.ExceedLim
		}
		if f.list == nil {
			f.list = groupFilter{}
		}
		f.list[mac] = true
	case prm.McastFilterDisable:
		f.groups.Store(nil)
		return prm.OK
	case prm.McastFilterEnable:
	default:
		return prm.BadOp
	}
	if c.opMod == prm.McastFilterEnable || f.groups.Load() != nil {
		g := maps.Clone(f.list)
		f.groups.Store(&g)
	}
	return prm.OK
}
