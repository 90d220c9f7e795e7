package mlx4

import (
	"ciddk/ci"
	"ciddk/ci/driver"
)

type pd struct {
	ci.UnimplementedPD
	refs   driver.Refs
	parent *driver.Refs // of the CA, or of the process
	hca    *HCA
	num    uint32
	user   *user // of a process, or nil
}

// Destroy destroys the PD, which is only a number to the adapter. Status: ResourceBusy, InvalidPDHandle.
func (p *pd) Destroy() error {
	if err := p.refs.BeginDestroy("PD.Destroy", ci.InvalidPDHandle); err != nil {
		return err
	}
	p.hca.dev.FreePD(p.num)
	p.hca.pds.Give()
	p.parent.Put()
	return nil
}
