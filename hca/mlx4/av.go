package mlx4

import (
	"errors"
	"fmt"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/internal/mlx4/queue"
	"ciddk/internal/mlx4/userabi"
)

type av struct {
	ci.UnimplementedAV
	refs driver.Refs
	pd   *pd
	now  atomic.Pointer[vector]
}

// vector is an address vector: the attributes, and their form for the adapter. A vector that cannot be sent to has no
// address; requests with it complete with an error.
type vector struct {
	attr    ci.AVAttr
	address queue.Address
	isBad   bool
}

// CreateAV creates an address vector. Status: InvalidPort, InvalidPDHandle, InsufficientResources.
func (p *pd) CreateAV(attr ci.AVAttr) (_ ci.AV, err error) {
	const verb = "PD.CreateAV"
	shared, err := p.library(verb, attr.User, userabi.AVSize)
	if err != nil {
		return nil, err
	}
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	var u undo
	defer u.run(&err)
	u.add(p.refs.Put)
	v, err := p.newVector(verb, attr)
	if err != nil {
		return nil, err
	}
	if err := p.hca.avs.Take(verb); err != nil {
		return nil, err
	}
	a := &av{pd: p}
	a.now.Store(v)
	if shared != nil {
		answer(attr.User, v.describe())
	} else {
		nothing(attr.User)
	}
	return a, nil
}

func (p *pd) newVector(verb string, attr ci.AVAttr) (*vector, error) {
	port := p.hca.port(attr.Port)
	if port == nil {
		return nil, fail(verb, ci.InvalidPort, "the adapter has no such port")
	}
	attr.User = nil
	v := &vector{attr: attr}
	var mac [6]byte
	if port.isEthernet() { // an address there is a GID (annex A16)
		var err error
		if mac, err = port.resolve(&attr); err != nil || !attr.Global {
			v.isBad = true
		}
	}
	if attr.Global || port.isEthernet() {
		if _, ok := port.gid(attr.GRH.SGIDIndex); !ok || attr.GRH.DGID == (ci.GID{}) {
			v.isBad = true
		}
	}
	if attr.SL > 15 || attr.GRH.FlowLabel > 0xfffff || attr.PathBits > 0x7f {
		v.isBad = true
	}
	if !port.isEthernet() && attr.DLID == 0 {
		v.isBad = true
	}
	v.address = queue.NewAddress(&attr, p.num, port.isEthernet(), mac)
	return v, nil
}

// errNoMAC is the error of a GID whose MAC address is not known.
var errNoMAC = errors.New("mlx4: no MAC address")

// resolve returns the MAC address of a destination.
func (p *port) resolve(a *ci.AVAttr) (mac [6]byte, err error) {
	g := &a.GRH.DGID
	switch {
	case a.DMAC != mac:
		return a.DMAC, nil
	case g[0] == 0xff: // RFC 2464, section 7
		return [6]byte{0x33, 0x33, g[12], g[13], g[14], g[15]}, nil
	case isMapped(g) && g[12]>>4 == 0xe: // RFC 1112, section 6.4
		return [6]byte{0x01, 0x00, 0x5e, g[13] & 0x7f, g[14], g[15]}, nil
	case g[0] == 0xfe && g[1]&0xc0 == 0x80 && g[11] == 0xff && g[12] == 0xfe:
		return [6]byte{g[8] ^ 2, g[9], g[10], g[13], g[14], g[15]}, nil
	case p.hca.cfg.ResolveMAC == nil:
		return mac, fmt.Errorf("%w of GID %x is known, and Config.ResolveMAC is not set", errNoMAC, g[:])
	}
	return p.hca.cfg.ResolveMAC(p.num, *g)
}

// isMapped reports whether a GID is that of an IPv4 address.
func isMapped(g *ci.GID) bool { return isZero(g[:10]) && g[10] == 0xff && g[11] == 0xff }

// Query returns the attributes and the PD. Status: InvalidAVHandle.
func (a *av) Query() (ci.AVAttr, ci.PD, error) {
	if !a.refs.Alive() {
		return ci.AVAttr{}, nil, fail("AV.Query", ci.InvalidAVHandle, "")
	}
	return a.now.Load().attr, a.pd, nil
}

// Modify replaces the vector. Status: InvalidPort, InvalidAVHandle.
func (a *av) Modify(attr ci.AVAttr) error {
	const verb = "AV.Modify"
	if !a.refs.Alive() {
		return fail(verb, ci.InvalidAVHandle, "")
	}
	shared, err := a.pd.library(verb, attr.User, userabi.AVSize)
	if err != nil {
		return err
	}
	v, err := a.pd.newVector(verb, attr)
	if err != nil {
		return err
	}
	a.now.Store(v)
	if shared != nil {
		answer(attr.User, v.describe())
	} else {
		nothing(attr.User)
	}
	return nil
}

// Destroy destroys the vector. Status: InvalidAVHandle.
func (a *av) Destroy() error {
	if err := a.refs.BeginDestroy("AV.Destroy", ci.InvalidAVHandle); err != nil {
		return err
	}
	a.pd.hca.avs.Give()
	a.pd.refs.Put()
	return nil
}
