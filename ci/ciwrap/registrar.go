package ciwrap

import "ciddk/ci"

// Registrar returns a registrar that hands every HCA through wrap before r gets it: a driver that registers itself is wrapped without
// its knowledge. wrap is Layer.Wrap, or an injector's.
func Registrar(r ci.Registrar, wrap func(ci.HCA) ci.HCA) ci.Registrar {
	return registrar{Registrar: r, wrap: wrap}
}

type registrar struct {
	ci.Registrar
	wrap func(ci.HCA) ci.HCA
}

// Register passes nil on, for the registrar to refuse.
func (r registrar) Register(hca ci.HCA) error {
	if hca != nil {
		hca = r.wrap(hca)
	}
	return r.Registrar.Register(hca)
}
