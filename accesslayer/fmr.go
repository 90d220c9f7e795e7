package accesslayer

import "ciddk/ci"

// FMR is a region whose pages are remapped without a trip to the firmware. It is a ci.FMR, too: Map goes straight to the driver. A
// Destroy that the driver refuses, because it is mapped, leaves it usable. FMRPool keeps a stock of them.
type FMR struct {
	object
	fmrVerbs
}

func (f *FMR) Unwrap() any { return f.fmrVerbs.FMR }

// NewFMR makes an FMR. Status: as ci.PD.AllocFMR; InvalidState with ErrClosed.
func (p *PD) NewFMR(c ci.FMRCreate) (*FMR, error) {
	f := &FMR{}
	f.n = &node{kind: kindFMR, obj: f}
	err := f.n.make(p.n, "PD.AllocFMR", func() (func() error, error) {
		in, err := p.verbs.AllocFMR(c)
		f.fmrVerbs.FMR = in
		return destroyer(in), err
	})
	return made(f, err)
}

// UnmapFMRs invalidates a batch. Status: as ci.PD.UnmapFMRs; InvalidPDHandle with ErrClosed.
func (p *PD) UnmapFMRs(fmrs []ci.FMR) error {
	return p.n.during("PD.UnmapFMRs", func() error { return p.verbs.UnmapFMRs(fmrs) })
}
