package model

import (
	"encoding/binary"
	"sort"
	"sync"
	"sync/atomic"
)

// translation is the memory of a region by its MTTs. It remembers them as runs of contiguous pages, as the card caches
// MTTs: those of a region do not change while the hardware owns it, except by the commands that call
// translations.invalidate. What the host unmaps cannot be reached nevertheless: addresses are looked up in its map at
// each access.
type translation struct {
	buffer
	cached atomic.Pointer[addressRuns]

	mu     sync.Mutex // of changes of cached
	closed bool
}

// addressRuns are the pages of a region when the translations of the model had a version. The last run is the end of
// the region. Without runs, the region has pages that are not present, or too many pages.
type addressRuns struct {
	version uint64
	list    []addressRun
}

type addressRun struct{ off, addr uint64 }

// translations counts the versions of the MTTs, and bounds the memory for runs.
type translations struct {
	version atomic.Uint64
	runs    atomic.Int64 // remembered by all regions
}

// Bounds of what is remembered.
const (
	maxCachedPages = 1 << 15 // of a region: it takes 256 KiB to read them
	maxRegionRuns  = 1 << 12 // of a region
	maxCachedRuns  = 1 << 18 // of a model: 4 MiB
)

// invalidate makes all regions read their MTTs again.
func (t *translations) invalidate() { t.version.Add(1) }

// page implements translator.
func (t *translation) page(off, want uint64) (addr, n uint64, ok bool) {
	c := t.cached.Load()
	if c == nil || c.version != t.m.translations.version.Load() {
		c = t.load()
	}
	if len(c.list) == 0 || off >= c.list[len(c.list)-1].off {
		return t.buffer.page(off, want)
	}
	i := 0
	if len(c.list) > 2 {
		i = sort.Search(len(c.list), func(i int) bool { return c.list[i].off > off }) - 1
	}
	return c.list[i].addr + off - c.list[i].off, c.list[i+1].off - off, true
}

// load reads the MTTs.
func (t *translation) load() *addressRuns {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := &t.m.translations
	c := &addressRuns{version: now.version.Load()} // before the MTTs are read
	if old := t.cached.Load(); old != nil {
		if old.version == c.version {
			return old
		}
		now.runs.Add(-int64(len(old.list)))
	}
	if !t.closed {
		c.list = t.read()
	}
	if now.runs.Add(int64(len(c.list))) > maxCachedRuns {
		now.runs.Add(-int64(len(c.list)))
		c.list = nil
	}
	t.cached.Store(c)
	return c
}

// read returns the runs, or nil if they are not to be remembered.
func (t *translation) read() (list []addressRun) {
	pages := (t.size + 1<<t.logPage - 1) >> t.logPage
	if pages == 0 || pages > maxCachedPages {
		return nil
	}
	var some [512 * mttEntry]byte
	var end uint64 // of the last run
	for first := uint64(0); first < pages; {
		b := some[:min(pages-first, uint64(len(some))/mttEntry)*mttEntry]
		if !t.m.readICM(t.table+first*mttEntry, b) {
			return nil
		}
		for ; len(b) > 0; b = b[mttEntry:] {
			entry := binary.BigEndian.Uint64(b)
			if entry&1 == 0 {
				return nil
			}
			if addr := entry &^ 7; len(list) == 0 || addr != end {
				if len(list) == maxRegionRuns {
					return nil
				}
				list = append(list, addressRun{first << t.logPage, addr})
				end = addr
			}
			end += 1 << t.logPage
			first++
		}
	}
	return append(list, addressRun{off: pages << t.logPage})
}

// close forgets the runs for good.
func (t *translation) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if old := t.cached.Swap(nil); old != nil {
		t.m.translations.runs.Add(-int64(len(old.list)))
	}
}
