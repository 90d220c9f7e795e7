package userlib

import (
	"ciddk/ci"
	"ciddk/hca/reference/arena"
	"ciddk/templates/rchca/userqueues"
)

// ca is an open CA of this process. It has what the process has once: the memory that the driver shares with it, and
// the doorbell.
type ca struct {
	mem  *arena.Memory // nil if the driver has none
	bell *arena.Ringer
	head userqueues.Header
}

// at returns the bytes from an offset of the shared memory on, or nil.
func (c *ca) at(off uint64) []byte {
	if c.mem == nil || off < userqueues.HeaderSize || off%8 != 0 || off > uint64(len(c.mem.Bytes())) {
		return nil
	}
	return c.mem.Bytes()[off:]
}

// posted wakes the driver if it sleeps. This is one system call then, and none while the driver reads the userqueues.
func (c *ca) posted() {
	if c.head.Awaken() {
		_ = c.bell.Ring() // an error means that the daemon has exited, which the proxy reports
	}
}

// preOpenCA runs before CA.OpenUser. A process opens a CA once, with its first OpenCA.
func preOpenCA(_ *ci.UserOpenCA, ub *ci.UserBuffer) error { return request(ub) }

// postOpenCA sets the handle of the CA. Without it, no hook runs for the objects below.
//
// It maps the memory that the driver has made. The files are closed after the hook; a mapping remains. [SAS-2.4-14]
func postOpenCA(a *ci.UserOpenCA, ub *ci.UserBuffer, err error) error {
	const verb = "HCA.OpenCA"
	_, ok, err := answer(verb, ub, err)
	if !ok {
		return err
	}
	c := &ca{}
	if len(ub.OutFiles) == 2 {
		if c.mem, err = arena.Open(ub.OutFiles[0]); err != nil {
			return &ci.Error{Verb: verb, Status: ci.InsufficientMemory, Err: err}
		}
		if c.bell, err = arena.OpenRinger(ub.OutFiles[1]); err != nil {
			_ = c.mem.Close() // the error to report is the first one
			return &ci.Error{Verb: verb, Status: ci.InsufficientResources, Err: err}
		}
		c.head = userqueues.OpenHeader(c.mem.Bytes())
	}
	a.CA = c
	return nil
}

// postDestroyCA runs after UserCA.Destroy. It unmaps what postOpenCA has mapped.
func postDestroyCA(a *ci.UserDestroyCA, _ *ci.UserBuffer, err error) error {
	if c, ok := a.CA.(*ca); ok && err == nil && c.mem != nil {
		_ = c.bell.Close() // nothing to do about an error
		_ = c.mem.Close()
	}
	return nil
}

// pd is a protection domain.
type pd struct {
	ca     *ca
	number uint32 // in the hardware
}

func preAllocatePD(_ *ci.UserAllocatePD, ub *ci.UserBuffer) error { return request(ub) }

// postAllocatePD sets the handle of the PD.
func postAllocatePD(a *ci.UserAllocatePD, ub *ci.UserBuffer, err error) error {
	r, ok, err := answer("CA.AllocatePD", ub, err)
	if c, is := a.CA.(*ca); is && ok {
		a.PD = &pd{ca: c, number: r.Number}
	}
	return err
}
