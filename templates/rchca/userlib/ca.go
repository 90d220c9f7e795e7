package userlib

import "ciddk/ci"

// ca is an open CA of this process. Keep in it what the process has once: the mapped page of doorbells, the memory that
// the driver shares with the process.
type ca struct{}

// preOpenCA runs before CA.OpenUser. A process opens a CA once, with its first OpenCA.
func preOpenCA(_ *ci.UserOpenCA, ub *ci.UserBuffer) error { return request(ub) }

// postOpenCA sets the handle of the CA. Without it, no hook runs for the objects below.
//
// To use memory that the driver has made, check the sizes in the answer, and map ub.OutFiles here. The files are closed
// after the hook; a mapping remains. [SAS-2.4-14]
func postOpenCA(a *ci.UserOpenCA, ub *ci.UserBuffer, err error) error {
	_, ok, err := answer("HCA.OpenCA", ub, err)
	if ok {
		a.CA = &ca{}
	}
	return err
}

// postDestroyCA runs after UserCA.Destroy. Unmap here what postOpenCA has mapped.
func postDestroyCA(*ci.UserDestroyCA, *ci.UserBuffer, error) error { return nil }

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
