package model

import (
	"encoding/binary"

	"ciddk/internal/mlx4/prm"
)

// buffer is memory of the host that MTTs describe: a queue, or a region. Offsets count from the first byte of the first
// page.
type buffer struct {
	m       *Model
	table   uint64 // ICM address of the first MTT
	logPage uint8
	size    uint64
}

// newBuffer returns a buffer of size bytes. mtt is the offset of its first entry in the MTT table. It reports false if
// the arguments are invalid.
func (m *Model) newBuffer(mtt uint64, logPage uint8, size uint64) (buffer, bool) {
	const minPage, maxPage = 12, 40
	pages := (size + 1<<logPage - 1) >> logPage
	table := m.layout.mtt + mtt
	if logPage < minPage || logPage > maxPage || mtt%mttEntry != 0 || table < m.layout.mtt ||
		table+pages*mttEntry < table {
		return buffer{}, false
	}
	return buffer{m, table, logPage, size}, true
}

// maxRun is the most entries that page reads at once.
const maxRun = 16

// page returns the host's address of a byte, and how many bytes follow it contiguously. It looks at up to maxRun pages,
// if the caller wants more bytes than the first has.
func (b *buffer) page(off, want uint64) (addr, n uint64, ok bool) {
	var list [maxRun * mttEntry]byte
	first := off >> b.logPage
	in := off & (1<<b.logPage - 1)
	n = 1<<b.logPage - in
	count := uint64(1)
	if want > n && off < b.size {
		last := (off + min(want, b.size-off) - 1) >> b.logPage
		count = min(last-first+1, maxRun)
	}
	e := list[:count*mttEntry]
	if !b.m.readICM(b.table+first*mttEntry, e) {
		if e = list[:mttEntry]; !b.m.readICM(b.table+first*mttEntry, e) {
			return 0, 0, false
		}
	}
	entry := binary.BigEndian.Uint64(e)
	if entry&1 == 0 { // not present
		return 0, 0, false
	}
	addr = entry&^7 + in
	for e = e[mttEntry:]; len(e) > 0; e = e[mttEntry:] {
		if next := binary.BigEndian.Uint64(e); next&1 == 0 || next&^7 != addr+n {
			break
		}
		n += 1 << b.logPage
	}
	return addr, n, true
}

// has reports whether n bytes at off are inside of the buffer.
func (b *buffer) has(off, n uint64) bool { return off <= b.size && n <= b.size-off }

// write copies to the buffer.
func (b *buffer) write(off uint64, p []byte) bool {
	return b.has(off, uint64(len(p))) && accessPages(b.m, b, off, p, true)
}

// fill sets the entries of a queue between two offsets to one value.
func (b *buffer) fill(from, to uint64, entry []byte) bool {
	page := make([]byte, 0, prm.ICMPageSize)
	for len(page) < cap(page) {
		page = append(page, entry...)
	}
	for off := from; off < to; off += uint64(len(page)) {
		if !b.write(off, page[:min(uint64(len(page)), to-off)]) {
			return false
		}
	}
	return true
}
