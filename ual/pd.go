package ual

import (
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// PD is a protection domain of the daemon.
type PD struct {
	ci.UnimplementedPD
	ca     *CA
	handle schema.Handle
	state  any // the library's
}

var _ ci.PD = (*PD)(nil)

// noHooks is the library of an adapter without one.
var noHooks ci.UserLibrary

// hooks returns the hooks of the library, if there is one, and else empty ones.
func (c *CA) hooks() *ci.UserLibrary {
	if c.lib == nil {
		return &noHooks
	}
	return c.lib
}

// Destroy deallocates the domain.
func (p *PD) Destroy() error {
	a := &ci.UserDestroyPD{PD: p.state}
	return around(p.ca, p.state, p.ca.hooks().DestroyPD, a, verbKind{verb: "PD.Destroy"}, func(private) error {
		return p.ca.c.destroy(p.handle)
	})
}
