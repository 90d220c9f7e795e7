package accesslayer

import "ciddk/ci"

// FMR is a region whose pages can be mapped again without a firmware command. It is a ci.FMR: Map goes straight to the
// driver. If the driver refuses Destroy because the FMR is mapped, the FMR stays usable. FMRPool is a pool of FMRs.
type FMR struct {
	object
	fmrVerbs
}

func (f *FMR) Unwrap() any { return f.fmrVerbs.FMR }

// NewFMR creates an FMR. Status: as ci.PD.AllocFMR; InvalidState with ErrClosed.
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

// UnmapFMRs unmaps a batch of FMRs. Status: as ci.PD.UnmapFMRs; InvalidPDHandle with ErrClosed.
func (p *PD) UnmapFMRs(fmrs []ci.FMR) error {
	return p.n.during("PD.UnmapFMRs", func() error { return p.verbs.UnmapFMRs(fmrs) })
}
