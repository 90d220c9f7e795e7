package explore

import (
	"fmt"
	"math/bits"

	"ciddk/ci"
	"ciddk/internal/model"
)

// pageAddresses returns the DMA addresses of pages of a side's memory, and their offsets. ok is false if the memory is
// not mapped in whole pages.
func (r *Run) pageAddresses(s *side, pages []int) (addrs, offs []uint64, v *model.Violation, ok bool) {
	if s.dma == nil {
		d, err := s.ca.MapDMA(ci.Bytes(s.bytes))
		if err != nil {
			return nil, nil, &model.Violation{Rule: "CI-MapDMA-01", Where: "CA.MapDMA", Expected: "success",
				Got: err.Error()}, false
		}
		s.dma = d
	}
	size := s.attr.PageSizes[0]
	var all []uint64
	for _, g := range s.dma.Ranges() {
		for off := uint64(0); off+size <= g.Size; off += size {
			all = append(all, g.Addr+off)
		}
	}
	if len(all) != int(arenaSize/size) {
		return nil, nil, nil, false
	}
	for _, n := range pages {
		addrs, offs = append(addrs, all[n%len(all)]), append(offs, uint64(n%len(all))*size)
	}
	return addrs, offs, nil, true
}

// highPage is the number of a page beyond 4 GiB.
const highPage = 5<<20 + 256

// NewPMR registers pages of an adapter's memory, in any order, without the first Off and the last bytes.
type NewPMR struct {
	As, PD   int
	Pages    []int
	Off, Len int
	Access   ci.Access
}

func (s NewPMR) String() string {
	return fmt.Sprintf("register %d bytes from %d of pages %d as MR %d in PD %d with %s", s.Len, s.Off, s.Pages, s.As,
		s.PD, accessNames(s.Access))
}

func (s NewPMR) run(r *Run) *model.Violation {
	pd, ok := get[*pdObj](r, s.PD)
	if !ok || !pd.s.attr.Caps.Has(ci.CapPhysicalMR) {
		return nil
	}
	addrs, offs, v, ok := r.pageAddresses(pd.s, s.Pages)
	if !ok {
		return v
	}
	size := pd.s.attr.PageSizes[0]
	c := ci.PMRCreate{PageSize: size, Offset: uint64(s.Off), Length: uint64(s.Len), Access: s.Access,
		IOVA: highPage*size + uint64(s.Off)}
	if s.Access&ci.ZeroBased != 0 {
		c.IOVA = 0
	}
	for _, a := range addrs {
		c.Ranges = append(c.Ranges, ci.DMARange{Addr: a, Size: size})
	}
	d, err := pd.d.RegisterPMR(c)
	return r.putMR(s.As, pd, d, err, func(got ci.Region) (*model.Region, *model.Violation) {
		return pd.m.RegisterPMR(pd.s.mem, offs, c, got, err)
	})
}

// putMR enters a new region.
func (r *Run) putMR(as int, pd *pdObj, d ci.MR, err error,
	register func(ci.Region) (*model.Region, *model.Violation)) *model.Violation {
	var got ci.Region
	if err == nil {
		got = d.Region()
	}
	m, v := register(got)
	if m != nil {
		r.put(as, &mrObj{d, m, pd.s, got, pd.d})
	}
	return v
}

// NewSMR registers the memory of a region a second time.
type NewSMR struct {
	As, PD, Source int
	Access         ci.Access
}

func (s NewSMR) String() string {
	return fmt.Sprintf("register the memory of MR %d as MR %d in PD %d with %s", s.Source, s.As, s.PD,
		accessNames(s.Access))
}

func (s NewSMR) run(r *Run) *model.Violation {
	pd, ok := get[*pdObj](r, s.PD)
	src, ok2 := get[*mrObj](r, s.Source)
	if !ok || !ok2 || src.d == nil || src.s != pd.s || !pd.s.attr.Caps.Has(ci.CapSharedMR) {
		return nil
	}
	d, err := pd.d.RegisterSMR(src.d, 0, s.Access)
	return r.putMR(s.As, pd, d, err, func(got ci.Region) (*model.Region, *model.Violation) {
		return pd.m.RegisterSMR(src.m, s.Access, got, err)
	})
}

// NewFastMR allocates a region for fast registration.
type NewFastMR struct{ As, PD, Pages int }

func (s NewFastMR) String() string {
	return fmt.Sprintf("allocate MR %d for fast registrations of %d pages in PD %d", s.As, s.Pages, s.PD)
}

func (s NewFastMR) run(r *Run) *model.Violation {
	pd, ok := get[*pdObj](r, s.PD)
	if !ok || !pd.s.attr.Caps.Has(ci.CapFastReg) || s.Pages > pd.s.attr.MaxFastRegPages {
		return nil
	}
	d, err := pd.d.AllocFastRegMR(s.Pages)
	return r.putMR(s.As, pd, d, err, func(got ci.Region) (*model.Region, *model.Violation) {
		return pd.m.AllocFastRegMR(s.Pages, got, err)
	})
}

// Fast is a fast registration of pages without the first Off bytes. Key is added to the key.
type Fast struct {
	MR       int
	Pages    []int
	Off, Len int
	Access   ci.Access
	Key      ci.Key
}

// fastReg returns the request.
func (r *Run) fastReg(o *qpObj, s *Fast) (*ci.SendExt, *model.FastReg, bool) {
	m, ok := get[*mrObj](r, s.MR)
	if !ok || m.s != o.s || m.d == nil || !o.s.attr.Caps.Has(ci.CapFastReg) {
		return nil, nil, false
	}
	addrs, offs, _, ok := r.pageAddresses(o.s, s.Pages)
	if !ok {
		return nil, nil, false
	}
	size := o.s.attr.PageSizes[0]
	f := ci.FastReg{MR: m.d, Pages: addrs, PageShift: uint8(bits.TrailingZeros64(size)), Offset: uint32(s.Off),
		Length: uint64(s.Len), IOVA: 2*highPage*size + uint64(s.Off), Access: s.Access,
		Key: m.m.LKey&^0xff | (m.m.LKey+s.Key)&0xff}
	return &ci.SendExt{FastReg: f}, &model.FastReg{Region: m.m, Memory: o.s.mem, Offsets: offs, FastReg: f}, true
}
