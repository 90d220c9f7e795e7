package kproxy

import (
	"os"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// private is the private data of one verb: the copy that the driver gets.
type private struct{ ub *ci.UserBuffer }

// copyIn copies the private data of a request. A driver with CapUser always gets a UserBuffer, so that it distinguishes
// clients from consumers in the daemon; another driver never gets one. [SAS-2.4-06, -17]
func (o *object) copyIn(verb string, u *schema.UserBuffer, files []*os.File) (private, error) {
	if int(u.Files) > len(files) || !u.Present && u.Files > 0 {
		return private{}, failf(verb, ci.InvalidParameter, "private data with %d descriptors, %d received", u.Files,
			len(files))
	}
	if !o.ca.attr.Caps.Has(ci.CapUser) {
		return private{}, nil
	}
	files = files[len(files)-int(u.Files):]
	if err := checkFiles(files); err != nil {
		return private{}, &ci.Error{Verb: verb, Status: ci.InvalidPermission, Detail: "private data", Err: err}
	}
	ub := &ci.UserBuffer{Command: u.Command, Status: u.Status, In: u.In, Out: make([]byte, 0, u.OutCapacity),
		InFiles: files}
	return private{ub}, nil
}

// copyOut fills the result of a verb that succeeded. Nothing is copied if the driver did not set Status to 0.
func (p private) copyOut(to *schema.UserBufferReply, r *Result) *Result {
	if p.ub == nil {
		return r
	}
	to.Status = p.ub.Status
	if p.ub.Status != 0 || len(p.ub.Out) > schema.MaxPrivate || len(p.ub.OutFiles) > schema.MaxFiles {
		return r
	}
	to.Copied, to.Out, to.Files = true, p.ub.Out, uint8(len(p.ub.OutFiles))
	r.Files = p.ub.OutFiles // the driver keeps them; sending duplicates
	return r
}
