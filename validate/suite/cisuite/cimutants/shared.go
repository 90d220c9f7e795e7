package cimutants

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// shares are drivers with a fault in shared regions.
var shares = []mutant.Mutant{mutant.Of("mr.shared.follows", "CI-RegisterSMR-04",
	"a shared region gets other memory when its source does", func(h ci.HCA) ci.HCA {
		var followers sync.Map // the shared region of a source, by the source's L_Key
		return tap.Layer(ciwrap.Layer{
			PD: func(p ci.PD, _ ci.PDType) ci.PD { return followShare{ciwrap.PD{PD: p}, &followers} },
			MR: func(m ci.MR, _ ciwrap.MROrigin) ci.MR { return followModify{ciwrap.MR{MR: m}, &followers} }})(h)
	}).Needing(ci.CapSharedMR | ci.CapModifyMR)}

type followShare struct {
	ciwrap.PD
	followers *sync.Map
}

func (p followShare) RegisterSMR(src ci.MR, iova uint64, access ci.Access) (ci.MR, error) {
	mr, err := p.PD.RegisterSMR(src, iova, access)
	if err == nil {
		p.followers.Store(src.Region().LKey, mr)
	}
	return mr, err
}

type followModify struct {
	ciwrap.MR
	followers *sync.Map
}

func (m followModify) Modify(set ci.MRField, pd ci.PD, c ci.MRCreate) error {
	key := m.Region().LKey
	err := m.MR.Modify(set, pd, c)
	if err != nil || set&ci.MRFieldMemory == 0 {
		return err
	}
	if s, ok := m.followers.Load(key); ok {
		return s.(ci.MR).Modify(ci.MRFieldMemory, nil, c)
	}
	return nil
}
