package ciwrap

import "ciddk/ci"

// Registrar returns a registrar that wraps every HCA before it registers it with r, so that a driver that registers
// itself is wrapped without a change. wrap is Layer.Wrap, or the Wrap of an injector.
func Registrar(r ci.Registrar, wrap func(ci.HCA) ci.HCA) ci.Registrar {
	return registrar{Registrar: r, wrap: wrap}
}

type registrar struct {
	ci.Registrar
	wrap func(ci.HCA) ci.HCA
}

// Register passes nil on, and the registrar rejects it.
func (r registrar) Register(hca ci.HCA) error {
	if hca != nil {
		hca = r.wrap(hca)
	}
	return r.Registrar.Register(hca)
}
