package mlx4

import "ciddk/ci"

type pd struct {
	ci.UnimplementedPD
	refs
	parent *refs // of the CA, or of the process
	hca    *HCA
	num    uint32
	user   *user // of a process, or nil
}

// Destroy destroys the PD, which is only a number to the adapter. Status: ResourceBusy, InvalidPDHandle.
func (p *pd) Destroy() error {
	if err := p.beginDestroy("PD.Destroy", ci.InvalidPDHandle); err != nil {
		return err
	}
	p.hca.dev.FreePD(p.num)
	p.hca.pds.give()
	p.parent.put()
	return nil
}
