package userlib

import "ciddk/ci"

// These hooks send private data, and keep no state. If the driver does not claim the verb, it returns Unsupported, and
// Post receives this error. Set the handle of an object in Post if other hooks of the object are to run.

// preCreateAV may do all the work: if your hardware reads the path from the work request, keep a.Attr in the handle and
// return ci.VerbsProcessingDone. QueryAV, ModifyAV and DestroyAV need such a hook then, too.
func preCreateAV(_ *ci.UserCreateAV, ub *ci.UserBuffer) error { return request(ub) }

func postCreateAV(_ *ci.UserCreateAV, ub *ci.UserBuffer, err error) error {
	_, _, err = answer("PD.CreateAV", ub, err)
	return err
}

// preCreateSRQ runs before the SRQ is created. A Pre of CreateSRQ or CreateQP needs a Post.
func preCreateSRQ(_ *ci.UserCreateSRQ, ub *ci.UserBuffer) error { return request(ub) }

// postCreateSRQ is the place for ci.UserSRQ and its PostRecv.
func postCreateSRQ(_ *ci.UserCreateSRQ, ub *ci.UserBuffer, err error) error {
	_, _, err = answer("PD.CreateSRQ", ub, err)
	return err
}

func preAttachMcast(_ *ci.UserAttachMcast, ub *ci.UserBuffer) error { return request(ub) }

func postAttachMcast(_ *ci.UserAttachMcast, ub *ci.UserBuffer, err error) error {
	_, _, err = answer("QP.AttachMcast", ub, err)
	return err
}
