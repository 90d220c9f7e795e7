package model

import (
	"slices"
	"sort"
	"sync/atomic"

	"ciddk/internal/mlx4/prm"
)

// icm is the adapter's own address space, whose pages the driver lends it from the host. Readers take no lock.
type icm struct {
	runs atomic.Pointer[[]pageRun] // by virtual address; replaced, never changed
}

// maxICMRuns bounds the runs, and with them the memory: 24 bytes each.
const maxICMRuns = 1 << 16

func (i *icm) load() []pageRun {
	if r := i.runs.Load(); r != nil {
		return *r
	}
	return nil
}

// add maps runs. It reports a status and changes nothing if one of them overlaps another.
func (i *icm) add(runs []pageRun) prm.Status {
	old := i.load()
	if len(old)+len(runs) > maxICMRuns {
		return prm.ExceedLim
	}
	t := append(slices.Clone(old), runs...)
	slices.SortFunc(t, func(a, b pageRun) int {
		switch {
		case a.virtual < b.virtual:
			return -1
		case a.virtual > b.virtual:
			return 1
		}
		return 0
	})
	for k := 1; k < len(t); k++ {
		if t[k-1].end() > t[k].virtual {
			return prm.ICMError
		}
	}
	i.runs.Store(&t)
	return prm.OK
}

func (r *pageRun) end() uint64 { return r.virtual + r.pages*prm.ICMPageSize }

// remove unmaps pages. Some of them need not be mapped: the driver unmaps whole chunks of tables that are smaller.
func (i *icm) remove(virtual, pages uint64) prm.Status {
	end := virtual + pages*prm.ICMPageSize
	if virtual%prm.ICMPageSize != 0 || pages == 0 || pages > 1<<40 || end < virtual {
		return prm.BadParam
	}
	var t []pageRun
	for _, r := range i.load() {
		from, to := max(r.virtual, virtual), min(r.end(), end)
		if from >= to {
			t = append(t, r)
			continue
		}
		if r.virtual < from {
			t = append(t, pageRun{r.virtual, r.physical, (from - r.virtual) / prm.ICMPageSize})
		}
		if to < r.end() {
			t = append(t, pageRun{to, r.physical + (to - r.virtual), (r.end() - to) / prm.ICMPageSize})
		}
	}
	if len(t) > maxICMRuns {
		return prm.ExceedLim
	}
	i.runs.Store(&t)
	return prm.OK
}

func (i *icm) reset() { i.runs.Store(nil) }

// translate returns the host's address of an ICM address, and how many bytes follow it contiguously.
func (i *icm) translate(virtual uint64) (physical, n uint64, ok bool) {
	t := i.load()
	k := sort.Search(len(t), func(k int) bool { return t[k].virtual > virtual }) - 1
	if k < 0 || virtual >= t[k].end() {
		return 0, 0, false
	}
	return t[k].physical + (virtual - t[k].virtual), t[k].end() - virtual, true
}

// readICM copies from the ICM.
func (m *Model) readICM(virtual uint64, b []byte) bool {
	return m.accessICM(virtual, b, false)
}

// writeICM copies to the ICM.
func (m *Model) writeICM(virtual uint64, b []byte) bool {
	return m.accessICM(virtual, b, true)
}

func (m *Model) accessICM(virtual uint64, b []byte, write bool) bool {
	for len(b) > 0 {
		physical, n, ok := m.icm.translate(virtual)
		if !ok {
			return false
		}
		n = min(n, uint64(len(b)))
		if !m.accessHost(physical, b[:n], write) {
			return false
		}
		b, virtual = b[n:], virtual+n
	}
	return true
}

// The auxiliary ICM is memory for the firmware's own tables, which the model does not need.
const auxPages = 4

func (c *command) setICMSize() prm.Status {
	c.result = auxPages
	return prm.OK
}

func (c *command) mapICMAux() prm.Status {
	_, status := c.countPages()
	return status
}

func (c *command) unmapICMAux() prm.Status { return prm.OK }

func (c *command) mapICM() prm.Status {
	runs, status := c.pageRuns()
	if status != prm.OK {
		return status
	}
	return c.icm.add(runs)
}

func (c *command) unmapICM() prm.Status {
	status := c.icm.remove(c.in, uint64(c.mod))
	c.translations.invalidate()
	return status
}
