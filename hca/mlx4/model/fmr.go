package model

import (
	"sync"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
)

// An entry of the protection table that passes to the hardware as a region of no bytes is that of an FMR. Software
// edits it, and its MTTs, in the ICM: it takes the entry back by the owner bits, and gives it to the hardware with a
// new key in the same way (linux mr.c before 5.8, mlx4_map_phys_fmr). As the card does, the model reads an entry when
// it meets a key that it does not know, and then forgets the entry's previous key. What it knows is valid until
// SYNC_TPT.
type fmr struct {
	pd    *rvt.PD
	pdn   uint32
	index uint32
	now   *rvt.MR   // what the model has read; nil: nothing
	old   []*rvt.MR // withdrawn
}

// fmrs are the FMRs. Accesses to memory look them up, while commands may wait for accesses to end; therefore mu is not
// held while MR.Destroy waits.
type fmrs struct {
	mu      sync.Mutex
	byIndex map[uint32]*fmr
	indices uint32 // of the protection table
	oldOnes int
}

// maxFMRs bounds the FMRs, and with them the memory: about 300 bytes each. Other entries of the protection table are
// objects of the transport, which has limits of its own.
const maxFMRs = 1 << 16

// isFull reports whether there can be no further FMR.
func (x *fmrs) isFull() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.byIndex) >= maxFMRs
}

// maxOldMappings bounds what FMRs have mapped since the last SYNC_TPT. Beyond it, new keys grant nothing.
const maxOldMappings = 1 << 16

// isFMR reports whether an entry is that of an FMR.
func isFMR(b []byte) bool {
	return prm.MPTRegion.Has(b) && !prm.MPTPhysical.Has(b) && prm.MPTOwner.Get(b) != prm.MPTOwnerFree &&
		prm.MPTLength.Get(b) == 0
}

// add makes an FMR.
func (x *fmrs) add(f *fmr, indices uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byIndex == nil {
		x.byIndex = map[uint32]*fmr{}
	}
	x.byIndex[f.index], x.indices = f, indices
}

// remove destroys an FMR and what it maps, and waits for accesses in progress.
func (x *fmrs) remove(index uint32) {
	x.mu.Lock()
	f := x.byIndex[index]
	delete(x.byIndex, index)
	list := x.forget(f)
	x.mu.Unlock()
	destroyRegions(list)
}

// flush forgets what all FMRs map, and waits for accesses in progress.
func (x *fmrs) flush() {
	x.mu.Lock()
	var list []*rvt.MR
	for _, f := range x.byIndex {
		list = append(list, x.forget(f)...)
	}
	x.mu.Unlock()
	destroyRegions(list)
}

// forget returns the regions of an FMR, which has none afterwards. mu is held.
func (x *fmrs) forget(f *fmr) []*rvt.MR {
	list := f.old
	x.oldOnes -= len(f.old)
	if f.now != nil {
		list = append(list, f.now)
	}
	f.now, f.old = nil, nil
	return list
}

func destroyRegions(list []*rvt.MR) {
	for _, r := range list {
		_ = r.Destroy() // it has no windows
	}
}

// keyMiss reads the entry of a key that the transport does not know. It reports whether the entry, of an FMR, has that
// key.
func (m *Model) keyMiss(key ci.Key) bool {
	x := &m.fmrs
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.indices == 0 {
		return false
	}
	f := x.byIndex[prm.IndexOf(uint32(key))&(x.indices-1)]
	if f == nil || x.oldOnes >= maxOldMappings {
		return false
	}
	r, access, ok := m.readFMR(f, key)
	if !ok {
		return false
	}
	if f.now != nil {
		f.now.Withdraw()
		f.old = append(f.old, f.now)
		x.oldOnes++
		f.now = nil
	}
	o, err := f.pd.RegisterNamed(key, ci.MRCreate{Memory: r, Access: access})
	if err != nil {
		return false
	}
	f.now, _ = ci.As[*rvt.MR](o)
	return true
}

// readFMR reads the entry and the MTTs of an FMR, as long as the hardware owns it and it has the key. Software may
// change them meanwhile; it takes the entry back before.
func (m *Model) readFMR(f *fmr, key ci.Key) (r *region, a ci.Access, ok bool) {
	var b, again [64]byte
	at := m.mptAddress(f.index)
	if !m.loadICM(at, b[:]) || !ownsEntry(b[:], key) || !prm.MPTRegion.Has(b[:]) || prm.MPTPhysical.Has(b[:]) ||
		uint32(prm.MPTPD.Get(b[:]))&pdMask != f.pdn {
		return nil, 0, false
	}
	length, start, log := prm.MPTLength.Get(b[:]), prm.MPTStart.Get(b[:]), prm.MPTLogPage.Get(b[:])
	if length == 0 || length > 1<<logMaxMRSize || log > 63 {
		return nil, 0, false
	}
	first := start & (1<<log - 1)
	buf, ok := m.newBuffer(prm.MPTMTTHigh.Get(b[:])<<32|prm.MPTMTTLow.Get(b[:]), uint8(log), first+length)
	count := (first + length + 1<<log - 1) >> log
	if !ok || count > maxFastRegPages { // all MTTs of an FMR are in one page
		return nil, 0, false
	}
	entries := make([]byte, count*mttEntry)
	if !m.loadICM(buf.table, entries) || !m.loadICM(at, again[:]) || again != b {
		return nil, 0, false
	}
	list := &pageList{log: uint8(log), pages: make([]uint64, count)}
	for i := range list.pages {
		e := bigEndian.Uint64(entries[i*mttEntry:])
		if e&1 == 0 {
			return nil, 0, false
		}
		list.pages[i] = e &^ 7
	}
	return &region{m: m, start: start, size: length, pages: list, first: first}, mptAccess(b[:]) &^ ci.BindWindow, true
}

// ownsEntry reports whether an entry is the hardware's and has a key.
func ownsEntry(b []byte, key ci.Key) bool {
	return prm.MPTOwner.Get(b) == prm.MPTOwnerHW && prm.KeyOf(uint32(prm.MPTIndex.Get(b))) == uint32(key)
}

// loadICM is readICM of what software writes at the same time, a dword after the other.
func (m *Model) loadICM(virtual uint64, b []byte) bool {
	for ; len(b) >= dwordSize; b, virtual = b[dwordSize:], virtual+dwordSize {
		physical, n, ok := m.icm.translate(virtual)
		if !ok || n < dwordSize {
			return false
		}
		v, ok := m.readDword(physical)
		if !ok {
			return false
		}
		copy(b, v[:])
	}
	return true
}
