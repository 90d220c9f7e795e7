package fw

import (
	"context"

	"ciddk/internal/mlx4/prm"
)

// AllocQPs allocates n consecutive QP numbers, of which the first is a multiple of align, a power of two. Their ICM is
// mapped. Errors: ErrExhausted, ErrInvalid.
func (d *Device) AllocQPs(ctx context.Context, n, align uint32) (uint32, error) {
	first, err := d.qps.alloc(n, align)
	if err != nil {
		return 0, err
	}
	if err := d.icm.ensureQPs(ctx, uint64(first), uint64(n)); err != nil {
		d.qps.release(first, n)
		return 0, err
	}
	return first, nil
}

// FreeQPs releases numbers of AllocQPs.
func (d *Device) FreeQPs(first, n uint32) { d.qps.release(first, n) }

// AllocCQ allocates a CQ number whose ICM is mapped. Errors: ErrExhausted.
func (d *Device) AllocCQ(ctx context.Context) (uint32, error) {
	n, err := d.cqs.alloc(1, 1)
	if err != nil {
		return 0, err
	}
	if err := d.icm.ensureCQs(ctx, uint64(n), 1); err != nil {
		d.cqs.release(n, 1)
		return 0, err
	}
	return n, nil
}

// FreeCQ releases a number of AllocCQ.
func (d *Device) FreeCQ(cqn uint32) { d.cqs.release(cqn, 1) }

// AllocSRQ allocates an SRQ number whose ICM is mapped. Errors: ErrExhausted.
func (d *Device) AllocSRQ(ctx context.Context) (uint32, error) {
	n, err := d.srqs.alloc(1, 1)
	if err != nil {
		return 0, err
	}
	if err := d.icm.ensureSRQs(ctx, uint64(n), 1); err != nil {
		d.srqs.release(n, 1)
		return 0, err
	}
	return n, nil
}

// FreeSRQ releases a number of AllocSRQ.
func (d *Device) FreeSRQ(srqn uint32) { d.srqs.release(srqn, 1) }

// AllocMPT allocates an index of the table of memory regions and windows, whose ICM is mapped. Errors: ErrExhausted.
func (d *Device) AllocMPT(ctx context.Context) (uint32, error) {
	n, err := d.mpts.alloc(1, 1)
	if err != nil {
		return 0, err
	}
	if err := d.icm.tables[tableDMPT].ensure(ctx, &d.icm, uint64(n), 1); err != nil {
		d.mpts.release(n, 1)
		return 0, err
	}
	return n, nil
}

// FreeMPT releases an index of AllocMPT.
func (d *Device) FreeMPT(index uint32) { d.mpts.release(index, 1) }

// WithMPT calls f with the entry in the ICM of an index of AllocMPT: prm.MPTStride bytes, which the adapter reads, too.
// The entry is valid during the call. Errors: ErrInvalid, ErrClosed.
func (d *Device) WithMPT(index uint32, f func(entry []byte)) error {
	d.icm.use.RLock()
	defer d.icm.use.RUnlock()
	if d.icm.end {
		return ErrClosed
	}
	t := &d.icm.tables[tableDMPT]
	b, err := t.bytes(uint64(index)*t.entry, prm.MPTStride)
	if err != nil {
		return err
	}
	f(b)
	return nil
}

// AllocPD allocates the number of a protection domain. Errors: ErrExhausted.
func (d *Device) AllocPD() (uint32, error) { return d.pds.alloc(1, 1) }

// FreePD releases a number of AllocPD.
func (d *Device) FreePD(pd uint32) { d.pds.release(pd, 1) }

// AllocMCG allocates an entry of the overflow chains of multicast groups. Errors: ErrExhausted.
func (d *Device) AllocMCG() (uint32, error) { return d.mcgs.alloc(1, 1) }

// FreeMCG releases an entry of AllocMCG.
func (d *Device) FreeMCG(index uint32) { d.mcgs.release(index, 1) }
