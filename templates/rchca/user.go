package rchca

import (
	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/templates/rchca/userabi"
)

// user is the context of a client process at the adapter. It implements ci.UserCA. The objects of the process are
// created below it.
//
// What hardware has for each process belongs here: a page of doorbells that the process maps, a protection domain of
// its own, or memory for queues. [SAS-2.4-01]
type user struct {
	ci.UnimplementedUserCA // VendorCall: see CapVendorCall
	refs                   driver.Refs
	ca                     *ca
	process                ci.Process
	shared                 *shared // memory for queues; nil without a user library
}

var _ ci.UserCA = (*user)(nil)

// DeviceUser is the part of Device for queues in memory that a process shares with the driver.
type DeviceUser interface {
	// Deliver calls add for each entry of a completion queue, in order, and before the peer's request completes, in
	// place of ReadCQ and ArmCQ. Like hardware that writes the entries to memory, add does not block. It returns false
	// if there is no room, which is an overflow. Deliver is called before a QP uses the queue.
	Deliver(n CQN, add func(e *CQE) bool)
}

// OpenUser opens the context of a process. p reaches the memory of the process. ub has the private data of the user
// library; it is empty if the process does not have the library, and then all its verbs are messages.
//
// A process with the library receives two descriptors in ub.OutFiles, which the library opens in the post hook of
// OpenCA: memory for queues, and the doorbell. [SAS-2.4-14]
//
// Status: InvalidParameter (nil process, private data), InvalidCAHandle, InsufficientResources.
func (c *ca) OpenUser(p ci.Process, ub *ci.UserBuffer) (ci.UserCA, error) {
	const verb = "CA.OpenUser"
	if ci.IsNil(p) || ub == nil {
		return nil, fail(verb, ci.InvalidParameter, "a process and a UserBuffer are needed")
	}
	data, err := openPrivate(verb, ub)
	if err != nil {
		return nil, err
	}
	if !c.refs.Get() {
		return nil, fail(verb, ci.InvalidCAHandle, "")
	}
	u := &user{ca: c, process: p}
	if data.library {
		if u.shared, err = newShared(); err != nil {
			c.refs.Put()
			return nil, &ci.Error{Verb: verb, Status: ci.InsufficientResources, Err: err}
		}
	}
	data.answer(userabi.Answer{})
	if u.shared != nil {
		ub.OutFiles = u.shared.files()
	}
	return u, nil
}

// AllocatePD is CA.AllocatePD for the process.
func (u *user) AllocatePD(typ ci.PDType, ub *ci.UserBuffer) (ci.PD, error) {
	const verb = "UserCA.AllocatePD"
	data, err := openPrivate(verb, ub)
	if err != nil {
		return nil, err
	}
	p, err := u.ca.newPD(verb, typ, &u.refs)
	if err != nil {
		return nil, err
	}
	p.user = u
	data.answer(userabi.Answer{Number: p.num})
	return p, nil
}

// Destroy closes the context. It may run after the process has exited, without the user library's hooks, so it must not
// need the memory of the process. Status: InvalidCAHandle (closed already), ResourceBusy (a PD of the process exists).
// [SAS-2.4-15]
func (u *user) Destroy() error {
	if err := u.refs.BeginDestroy("UserCA.Destroy", ci.InvalidCAHandle); err != nil {
		return err
	}
	if u.shared != nil {
		u.shared.close()
	}
	u.ca.refs.Put()
	return nil
}

// private is the private data of a verb, after they were checked. The zero value is that of a consumer in the driver's
// own process.
type private struct {
	ub      *ci.UserBuffer
	library bool // the process has the user library
}

// openPrivate checks the private data of a verb, before the verb changes anything. Status: InvalidParameter.
func openPrivate(verb string, ub *ci.UserBuffer) (private, error) {
	if ub == nil || ub.Command == 0 && len(ub.In) == 0 {
		return private{ub: ub}, nil
	}
	var r userabi.Request
	if ub.Command != userabi.Command {
		return private{}, fail(verb, ci.InvalidParameter, "private data of another user library")
	}
	if err := r.Decode(ub.In); err != nil {
		return private{}, fail(verb, ci.InvalidParameter, "private data: "+err.Error())
	}
	if cap(ub.Out) < userabi.AnswerSize {
		return private{}, fail(verb, ci.InvalidParameter, "private data: no room for the answer")
	}
	return private{ub: ub, library: true}, nil
}

// answer returns what describes a new object to the user library. The verb must succeed after it.
func (p private) answer(a userabi.Answer) {
	if p.ub == nil {
		return
	}
	p.ub.Status, p.ub.Out = 0, p.ub.Out[:0]
	if p.library {
		p.ub.Out = append(p.ub.Out, a.Encode()...)
	}
}
