package rvt

import (
	"maps"
	"slices"

	"ciddk/ci"
	"ciddk/ci/driver"
)

// PD is a protection domain.
type PD struct {
	ci.UnimplementedPD
	refs    driver.Refs
	dev     *device
	parent  *driver.Refs // of the CA or UserCA
	process *UserCA      // or nil
	user    UserContext  // of process, or nil
}

// newPD creates and counts a domain of the CA.
func (c *CA) newPD(verb string, typ ci.PDType) (*PD, error) { return c.hca.newPD(verb, typ, &c.refs) }

// newPD creates and counts a domain below parent.
func (h *HCA) newPD(verb string, typ ci.PDType, parent *driver.Refs) (*PD, error) {
	if typ > ci.PDDatagram || typ == ci.PDAlias {
		return nil, failf(verb, ci.InvalidParameter, "PD type")
	}
	if !parent.Get() {
		return nil, fail(verb, ci.InvalidCAHandle)
	}
	if !h.take(kindPD, h.attr.MaxPDs) {
		parent.Put()
		return nil, fail(verb, ci.InsufficientResources)
	}
	return &PD{dev: &h.device, parent: parent}, nil
}

// settler is a QP as its process uses it.
type settler interface {
	// settle runs the engine until it leaves no work, or for settleTurns quanta.
	settle()
}

// settle makes the posts of a client process visible to a verb that follows them: posts to queues in shared memory are
// not calls, and the engine may not have seen them yet. Programs expect that a verb finds their effects, since a post
// to Linux's Soft-RoCE runs the requester (rxe_post_send); Linux before 6.3 executes all requests in it. The caller
// holds no lock.
func (u *UserCA) settle() {
	if u == nil {
		return
	}
	u.ctx.Settle()
	u.restMu.Lock()
	resting := slices.Collect(maps.Keys(u.resting))
	u.restMu.Unlock()
	for _, q := range resting {
		q.settle()
	}
}

// setResting adds a QP to those whose last turn left work, or removes it.
func (u *UserCA) setResting(q settler, rests bool) {
	u.restMu.Lock()
	defer u.restMu.Unlock()
	if !rests {
		delete(u.resting, q)
		return
	}
	if u.resting == nil {
		u.resting = map[settler]struct{}{}
	}
	u.resting[q] = struct{}{}
}

// Destroy frees the domain. It fails with ResourceBusy while an object of the domain exists.
func (d *PD) Destroy() error {
	if err := d.refs.BeginDestroy("PD.Destroy", ci.InvalidPDHandle); err != nil {
		return err
	}
	d.dev.drop(kindPD)
	d.parent.Put()
	return nil
}

// child takes a reference for a new object of kind k and counts it. A create that fails later and the object's Destroy
// end with unchild.
func (d *PD) child(verb string, k kind, most int) error {
	if !d.refs.Get() {
		return fail(verb, ci.InvalidPDHandle)
	}
	if !d.dev.take(k, most) {
		d.refs.Put()
		return failf(verb, ci.InsufficientResources, "the limit of CAAttr is reached")
	}
	return nil
}

func (d *PD) unchild(k kind) {
	d.dev.drop(k)
	d.refs.Put()
}

// rings returns the maker of the domain's queues.
func (d *PD) rings() Rings {
	if d.user != nil {
		return d.user
	}
	return d.dev.cfg.Rings
}
