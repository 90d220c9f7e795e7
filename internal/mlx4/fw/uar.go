package fw

import (
	"fmt"
	"math/bits"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// A UAR is a page of doorbells. Its methods take no lock, and may be called concurrently.
type UAR struct {
	d     *Device
	index uint32
	page  uint64 // offsets in the BAR
	flame uint64
}

// AllocUAR allocates a page of doorbells. Errors: ErrExhausted.
func (d *Device) AllocUAR() (*UAR, error) {
	n, err := d.pages.alloc(1, 1)
	if err != nil {
		return nil, err
	}
	page := uint64(n) * prm.UARPageSize
	return &UAR{d: d, index: n, page: page, flame: uint64(d.caps.NumUARs)*prm.UARPageSize + page}, nil
}

// Free releases the page. It is idempotent until the page is allocated again.
func (u *UAR) Free() { u.d.pages.release(u.index, 1) }

// Index returns the page's number for contexts.
func (u *UAR) Index() uint32 { return u.index }

// Send rings the doorbell of a send queue. The adapter sees the memory that was written before.
func (u *UAR) Send(qpn uint32) {
	u.d.uars.Write32(u.page+prm.UARSendDoorbell, bits.ReverseBytes32(qpn<<8))
}

// ArmCQ writes a CQ doorbell of two dwords, see prm.CQDoorbellCommand.
func (u *UAR) ArmCQ(hi, lo uint32) {
	u.d.uars.Write64(u.page+prm.UARCQDoorbell, bits.ReverseBytes64(uint64(hi)<<32|uint64(lo)))
}

// BlueFlame writes a work queue entry to the page's BlueFlame registers, at an offset. The entry is a multiple of 64
// bytes, and no longer than half a register: the driver alternates between the halves. Errors: ErrInvalid.
func (u *UAR) BlueFlame(off uint32, wqe []byte) error {
	c := &u.d.caps
	half := uint64(c.BlueFlameSize) / 2
	end := uint64(off) + uint64(len(wqe))
	if !c.HasBlueFlame || len(wqe) == 0 || len(wqe)%64 != 0 || off%64 != 0 || end > prm.UARPageSize ||
		uint64(off)%half+uint64(len(wqe)) > half {
		return fmt.Errorf("%w: BlueFlame of %d bytes at %d", ErrInvalid, len(wqe), off)
	}
	u.d.uars.Copy(u.flame+uint64(off), wqe)
	return nil
}

// Space returns the BAR of the doorbells, and the offsets in it of the page and of its BlueFlame page. Where the BAR is
// a bus.Mappable, another process can use the page without the driver.
func (u *UAR) Space() (s bus.Space, page, blueFlame uint64) { return u.d.uars, u.page, u.flame }
