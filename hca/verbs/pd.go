//go:build linux && (amd64 || arm64)

package verbs

import (
	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/hca/verbs/internal/ibv"
)

type pd struct {
	ci.UnimplementedPD
	refs driver.Refs
	ca   *ca
	hca  *HCA
	pd   ibv.PD
}

// Destroy deallocates the PD. Status: ResourceBusy (it has children), InvalidPDHandle.
func (p *pd) Destroy() error {
	const verb = "PD.Destroy"
	err := p.refs.DestroyIf(verb, ci.InvalidPDHandle, func() error {
		if err := p.hca.dev.DeallocPD(p.pd); err != nil {
			return reject(verb, err, ci.Success)
		}
		return nil
	})
	if err == nil {
		p.hca.pds.Give()
		p.ca.refs.Put()
	}
	return err
}

// hold counts a new child of the PD, of the kind that pool counts.
func (p *pd) hold(verb string, of *driver.Pool) error {
	if !p.refs.Get() {
		return fail(verb, ci.InvalidPDHandle, "")
	}
	if err := of.Take(verb); err != nil {
		p.refs.Put()
		return err
	}
	return nil
}

// release ends a hold.
func (p *pd) release(of *driver.Pool) {
	of.Give()
	p.refs.Put()
}
