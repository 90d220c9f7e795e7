package rvt

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
)

// UserCA is an open CA as one client process uses it. It implements ci.UserCA.
type UserCA struct {
	ci.UnimplementedUserCA
	refs driver.Refs
	ca   *CA
	ctx  UserContext

	restMu  sync.Mutex
	resting map[settler]struct{} // QPs whose last turn left work
}

// OpenUser creates the context of a client process.
func (c *CA) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	const verb = "CA.OpenUser"
	switch {
	case !c.hca.attr.Caps.Has(ci.CapUser):
		return c.UnimplementedCA.OpenUser(p, ub)
	case ci.IsNil(p):
		return nil, failf(verb, ci.InvalidParameter, "the process is nil")
	case ub == nil:
		return nil, failf(verb, ci.InvalidParameter, "the UserBuffer is nil")
	case !c.refs.Get():
		return nil, fail(verb, ci.InvalidCAHandle)
	}
	ctx, err := c.hca.cfg.Ops.OpenUser(p, ub)
	if err != nil {
		c.refs.Put()
		if s := ci.StatusOf(err); s != ci.UnknownError {
			return nil, failErr(verb, s, err)
		}
		return nil, failErr(verb, ci.InsufficientMemory, err)
	}
	c.hca.limit[kindUser].Add(1)
	return &UserCA{ca: c, ctx: ctx}, nil
}

// Destroy closes the context. Status: InvalidCAHandle (closed already), ResourceBusy (a PD of the process exists).
// [SAS-2.4-15]
func (u *UserCA) Destroy() error {
	if err := u.refs.BeginDestroy("UserCA.Destroy", ci.InvalidCAHandle); err != nil {
		return err
	}
	u.ctx.Close()
	u.ca.hca.drop(kindUser)
	u.ca.refs.Put()
	return nil
}

// AllocatePD creates a protection domain of the process.
func (u *UserCA) AllocatePD(typ ci.PDType, ub *ci.UserBuffer) (ci.PD, error) {
	const verb = "UserCA.AllocatePD"
	p, err := u.ca.hca.newPD(verb, typ, &u.refs)
	if err != nil {
		return nil, err
	}
	p.process, p.user = u, u.ctx
	nothingForUser(ub)
	return p, nil
}

// VendorCall executes an operation that is private to the vendor.
func (u *UserCA) VendorCall(op *ci.VendorOp, ub *ci.UserBuffer, objects ...ci.Object) error {
	if !u.refs.Alive() {
		return fail("UserCA.VendorCall", ci.InvalidCAHandle)
	}
	if err := u.ca.VendorCall(op, objects...); err != nil {
		return err
	}
	nothingForUser(ub)
	return nil
}
