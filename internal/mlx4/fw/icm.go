package fw

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

const (
	icmChunk      = 256 << 10
	cmptPerType   = 1 << 24
	maxPageList   = prm.MailboxSize / 16
	maxTableBytes = 1 << 40
)

// Tables of the ICM.
const (
	tableCMPT = iota
	tableRDMARC
	tableQPC
	tableAUXC
	tableALTC
	tableSRQC
	tableCQC
	tableEQC
	tableDMPT
	tableMTT
	tableMCG
	numTables
)

// Types of the entries of the cMPT, each of which is a table of its own.
const (
	cmptQP = iota
	cmptSRQ
	cmptCQ
	cmptEQ
	numCMPT
)

// icmTable is a table in the ICM. Chunks of it are mapped when they are needed, and stay mapped.
type icmTable struct {
	name   string
	base   uint64
	entry  uint64 // bytes
	count  uint64 // entries
	chunks []atomic.Pointer[bus.DMA]
}

func (t *icmTable) setCount(n uint64) {
	t.count = n
	t.chunks = make([]atomic.Pointer[bus.DMA], (n*t.entry+icmChunk-1)/icmChunk)
}

// icm is the adapter's memory.
type icm struct {
	d      *Device
	tables [numTables]icmTable
	cmpt   [numCMPT]icmTable
	size   uint64

	mu  sync.Mutex // of mapping
	use sync.RWMutex
	end bool // closed: memory has been released
}

// arrange places the tables, the largest first, at multiples of their sizes.
func (m *icm) arrange(limit uint64) error {
	order := make([]*icmTable, 0, numTables)
	for i := range m.tables {
		order = append(order, &m.tables[i])
	}
	space := func(t *icmTable) uint64 {
		n := max(t.count*t.entry, prm.ICMPageSize)
		return 1 << bits.Len64(n-1)
	}
	slices.SortStableFunc(order, func(a, b *icmTable) int {
		return int(bits.Len64(space(b))) - int(bits.Len64(space(a)))
	})
	var at uint64
	for _, t := range order {
		if space(t) > maxTableBytes {
			return fmt.Errorf("fw: the table %s has %d entries of %d bytes", t.name, t.count, t.entry)
		}
		t.base = at
		at += space(t)
	}
	if m.size = at; at > limit {
		return fmt.Errorf("fw: the tables need %d bytes of ICM, and the adapter has %d (use a smaller Profile)", at,
			limit)
	}
	return nil
}

// ensure maps the chunks of n entries from first on.
func (t *icmTable) ensure(ctx context.Context, m *icm, first, n uint64) error {
	if n == 0 {
		return nil
	}
	if first >= t.count || n > t.count-first {
		return fmt.Errorf("%w: entries %d to %d of the table %s", ErrInvalid, first, first+n-1, t.name)
	}
	for c := first * t.entry / icmChunk; c <= ((first+n)*t.entry-1)/icmChunk; c++ {
		if t.chunks[c].Load() != nil {
			continue
		}
		if err := t.mapChunk(ctx, m, c); err != nil {
			return err
		}
	}
	return nil
}

// mapChunk maps a chunk unless it is mapped.
func (t *icmTable) mapChunk(ctx context.Context, m *icm, c uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.chunks[c].Load() != nil {
		return nil
	}
	size := min(icmChunk, (t.count*t.entry-c*icmChunk+prm.ICMPageSize-1)&^(prm.ICMPageSize-1))
	mem, err := m.d.mem.alloc(int(size))
	if err != nil {
		return err
	}
	if err := m.d.mapPages(ctx, prm.CmdMapICM, t.base+c*icmChunk, mem.IOVA, size); err != nil {
		if _, ok := errors.AsType[*CommandError](err); ok {
			err = errors.Join(err, m.d.mem.free(mem))
		} // else the adapter may have the memory, until it is reset
		return fmt.Errorf("table %s of the ICM: %w", t.name, err)
	}
	t.chunks[c].Store(mem)
	return nil
}

// bytes returns n bytes at an offset of a mapped table, within one chunk.
func (t *icmTable) bytes(off, n uint64) ([]byte, error) {
	if off >= t.count*t.entry || off%icmChunk+n > icmChunk {
		return nil, fmt.Errorf("%w: offset %d of the table %s", ErrInvalid, off, t.name)
	}
	mem := t.chunks[off/icmChunk].Load()
	if mem == nil || off%icmChunk+n > uint64(len(mem.Bytes)) {
		return nil, fmt.Errorf("%w: offset %d of the table %s is not mapped", ErrInvalid, off, t.name)
	}
	return mem.Bytes[off%icmChunk:][:n:n], nil
}

// mapPages executes MAP_FA, MAP_ICM or MAP_ICM_AUX for contiguous memory, in aligned runs of pages.
func (d *Device) mapPages(ctx context.Context, op prm.Opcode, virtual, physical, size uint64) error {
	entry := prm.PageVirtual.Layout.Size
	list := make([]byte, 0, prm.MailboxSize)
	flush := func() error {
		_, err := d.exec(ctx, op, Args{In: list, Modifier: uint32(len(list) / entry)})
		list = list[:0]
		return err
	}
	for size > 0 {
		log := min(bits.TrailingZeros64(physical|1<<63), bits.Len64(size)-1)
		if op == prm.CmdMapICM {
			log = min(log, bits.TrailingZeros64(virtual|1<<63))
		}
		list = list[:len(list)+entry]
		e := list[len(list)-entry:]
		clear(e)
		if op == prm.CmdMapICM {
			prm.PageVirtual.Put(e, virtual)
		}
		prm.PagePhysical.Put(e, physical/prm.ICMPageSize)
		prm.PageLogCount.Put(e, uint64(log)-12)
		n := uint64(1) << log
		virtual, physical, size = virtual+n, physical+n, size-n
		if len(list) == maxPageList*entry || size == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// An icmRange is entries of a table.
type icmRange struct {
	t        *icmTable
	first, n uint64
}

// ensureAll maps ranges of tables.
func (m *icm) ensureAll(ctx context.Context, ranges ...icmRange) error {
	for _, r := range ranges {
		if err := r.t.ensure(ctx, m, r.first, r.n); err != nil {
			return err
		}
	}
	return nil
}

func (m *icm) ensureQPs(ctx context.Context, first, n uint64) error {
	perQP := m.tables[tableRDMARC].count / m.tables[tableQPC].count
	return m.ensureAll(ctx, icmRange{&m.cmpt[cmptQP], first, n}, icmRange{&m.tables[tableQPC], first, n},
		icmRange{&m.tables[tableAUXC], first, n}, icmRange{&m.tables[tableALTC], first, n},
		icmRange{&m.tables[tableRDMARC], first * perQP, n * perQP})
}

func (m *icm) ensureCQs(ctx context.Context, first, n uint64) error {
	return m.ensureAll(ctx, icmRange{&m.cmpt[cmptCQ], first, n}, icmRange{&m.tables[tableCQC], first, n})
}

func (m *icm) ensureSRQs(ctx context.Context, first, n uint64) error {
	return m.ensureAll(ctx, icmRange{&m.cmpt[cmptSRQ], first, n}, icmRange{&m.tables[tableSRQC], first, n})
}

func (m *icm) ensureEQ(ctx context.Context, num uint32) error {
	return m.ensureAll(ctx, icmRange{&m.cmpt[cmptEQ], uint64(num), 1}, icmRange{&m.tables[tableEQC], uint64(num), 1})
}

// each calls f for each mapped chunk.
func (m *icm) each(f func(t *icmTable, virtual uint64, mem *bus.DMA) error) error {
	tables := make([]*icmTable, 0, numTables+numCMPT)
	for i := range m.tables {
		tables = append(tables, &m.tables[i])
	}
	for i := range m.cmpt {
		tables = append(tables, &m.cmpt[i])
	}
	for _, t := range tables {
		for c := range t.chunks {
			mem := t.chunks[c].Load()
			if mem == nil {
				continue
			}
			if err := f(t, t.base+uint64(c)*icmChunk, mem); err != nil {
				return err
			}
		}
	}
	return nil
}

// unmap takes all pages back from the adapter.
func (m *icm) unmap(ctx context.Context) error {
	return m.each(func(_ *icmTable, virtual uint64, mem *bus.DMA) error {
		pages := uint32(len(mem.Bytes) / prm.ICMPageSize)
		_, err := m.d.exec(ctx, prm.CmdUnmapICM, Args{Imm: virtual, Modifier: pages})
		return err
	})
}

// close ends all access to the memory.
func (m *icm) close() {
	m.use.Lock()
	defer m.use.Unlock()
	m.end = true
}
