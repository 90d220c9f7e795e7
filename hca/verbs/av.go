//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"errors"
	"sync"
	"syscall"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/hca/verbs/internal/ibv"
)

// av is an address handle. A bad address is reported by the send that uses it, so a vector without a handle of the
// library is possible: the library resolves the address when it creates one.
type av struct {
	ci.UnimplementedAV
	refs driver.Refs
	pd   *pd

	mu   sync.RWMutex // held for reading while a send that names the vector is posted
	attr ci.AVAttr
	ah   ibv.AH // zero: the address cannot be resolved
}

// CreateAV creates an address vector. Status: InvalidParameter (private data), InsufficientResources, InvalidPDHandle.
func (p *pd) CreateAV(a ci.AVAttr) (ci.AV, error) {
	const verb = "PD.CreateAV"
	if a.User != nil {
		return nil, fail(verb, ci.InvalidParameter, "private data, which this driver has no user library for")
	}
	if err := p.hold(verb, &p.hca.avs); err != nil {
		return nil, err
	}
	v := &av{pd: p, attr: a}
	var err error
	if v.ah, err = p.createAH(&a); err != nil {
		p.release(&p.hca.avs)
		return nil, reject(verb, err, ci.Success)
	}
	return v, nil
}

// createAH returns an address handle, and none if the address is bad, which the send reports.
func (p *pd) createAH(a *ci.AVAttr) (ibv.AH, error) {
	if a.Port < 1 || a.Port > p.hca.attr.PhysPortCnt || a.GRH.SGIDIndex > 0xff {
		return ibv.AH{}, nil
	}
	ah, err := p.hca.dev.CreateAH(p.pd, addressOf(a))
	if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN) {
		return ibv.AH{}, err
	}
	return ah, nil
}

// Query returns the attributes and the PD. Status: InvalidAVHandle.
func (v *av) Query() (ci.AVAttr, ci.PD, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if !v.refs.Alive() {
		return ci.AVAttr{}, nil, fail("AV.Query", ci.InvalidAVHandle, "")
	}
	return v.attr, v.pd, nil
}

// Modify replaces the vector. libibverbs has no such call, so the driver replaces the handle. Status: InvalidParameter,
// InsufficientResources, InvalidAVHandle.
func (v *av) Modify(a ci.AVAttr) error {
	const verb = "AV.Modify"
	if a.User != nil {
		return fail(verb, ci.InvalidParameter, "private data, which this driver has no user library for")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.refs.Alive() {
		return fail(verb, ci.InvalidAVHandle, "")
	}
	ah, err := v.pd.createAH(&a)
	if err != nil {
		return reject(verb, err, ci.Success)
	}
	old := v.ah
	v.attr, v.ah = a, ah
	if old != (ibv.AH{}) {
		if err := v.pd.hca.dev.DestroyAH(old); err != nil {
			return reject(verb, err, ci.Success)
		}
	}
	return nil
}

// Destroy destroys the vector. Status: InvalidAVHandle.
func (v *av) Destroy() error {
	const verb = "AV.Destroy"
	v.mu.Lock()
	defer v.mu.Unlock()
	err := v.refs.DestroyIf(verb, ci.InvalidAVHandle, func() error {
		if v.ah == (ibv.AH{}) {
			return nil
		}
		if err := v.pd.hca.dev.DestroyAH(v.ah); err != nil {
			return reject(verb, err, ci.Success)
		}
		return nil
	})
	if err == nil {
		v.pd.release(&v.pd.hca.avs)
	}
	return err
}

// addressOf returns an address as the library has it. It resolves the MAC address of the destination itself.
func addressOf(a *ci.AVAttr) ibv.AHAttr {
	out := ibv.AHAttr{DLID: uint16(a.DLID), SL: uint8(a.SL), SrcPathBits: a.PathBits, StaticRate: uint8(a.StaticRate),
		PortNum: a.Port}
	if a.Global {
		out.IsGlobal = 1
		g := &a.GRH
		out.GRH = ibv.GlobalRoute{FlowLabel: g.FlowLabel, SGIDIndex: uint8(g.SGIDIndex), HopLimit: g.HopLimit,
			TrafficClass: g.TrafficClass}
		for i := range out.GRH.DGID {
			out.GRH.DGID[i] = binary.NativeEndian.Uint64(g.DGID[8*i:])
		}
	}
	return out
}

// fromAddress is the reverse of addressOf.
func fromAddress(a *ibv.AHAttr) ci.AVAttr {
	out := ci.AVAttr{Port: a.PortNum, SL: ci.SL(a.SL), PathBits: a.SrcPathBits, StaticRate: ci.Rate(a.StaticRate),
		DLID: ci.LID(a.DLID)}
	if a.IsGlobal != 0 {
		g := &a.GRH
		out.Global = true
		out.GRH = ci.GRH{FlowLabel: g.FlowLabel, SGIDIndex: uint16(g.SGIDIndex), HopLimit: g.HopLimit,
			TrafficClass: g.TrafficClass}
		for i, v := range g.DGID {
			binary.NativeEndian.PutUint64(out.GRH.DGID[8*i:], v)
		}
	}
	return out
}
