package ual

import (
	"errors"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy/native"
)

// private is the private data of one verb. The zero value is a verb without.
type private struct{ ub *ci.UserBuffer }

// close closes the driver's descriptors after Post.
func (p private) close() {
	if p.ub == nil {
		return
	}
	native.CloseFiles(p.ub.OutFiles)
	p.ub.OutFiles = nil
}

// accompanied reports whether the library accompanies an object: it has set a handle.
func (c *CA) accompanied(state any) bool { return c.lib != nil && state != nil }

// around runs the hooks of a verb that creates nothing, if the library accompanies the object. v reports whether it has
// private data, and whether Pre may do all the work.
func around[A any](c *CA, state any, h ci.UserHook[A], a *A, v verbKind, call func(p private) error) error {
	if !c.accompanied(state) {
		return call(private{})
	}
	p := v.private()
	if h.Pre != nil {
		if err := h.Pre(a, p.ub); err != nil {
			if v.finish && errors.Is(err, ci.VerbsProcessingDone) {
				if v.postAfterFinish && h.Post != nil {
					h.Post(a, p.ub, nil)
				}
				return nil
			}
			return hookError(v.verb, err)
		}
	}
	err := call(p)
	if h.Post != nil {
		h.Post(a, p.ub, err)
	}
	p.close()
	return err
}

// aroundFallible runs the hooks of a verb whose Post may fail, if the library accompanies state: the parent of a new
// object, or the CA to destroy. If Post fails, undo destroys the new object. done reports that Pre did all the work.
func aroundFallible[A any](c *CA, state any, h ci.UserFallibleHook[A], a *A, v verbKind, call func(p private) error,
	undo func()) (done bool, _ error) {
	if !c.accompanied(state) {
		return false, call(private{})
	}
	p := v.private()
	if h.Pre != nil {
		if err := h.Pre(a, p.ub); err != nil {
			if v.finish && errors.Is(err, ci.VerbsProcessingDone) {
				return true, nil
			}
			return false, hookError(v.verb, err)
		}
	}
	err := call(p)
	if h.Post != nil {
		if e := h.Post(a, p.ub, err); e != nil && err == nil {
			undo()
			err = hookError(v.verb, e)
		}
	}
	p.close()
	return false, err
}

// verbKind describes a verb to around.
type verbKind struct {
	verb            string
	data            bool // it has private data
	finish          bool // Pre may do all the work, and return VerbsProcessingDone
	postAfterFinish bool // Post runs in that case, too
}

// private returns empty private data for a verb that has some.
func (v verbKind) private() private {
	if !v.data {
		return private{}
	}
	return private{new(ci.UserBuffer)}
}

// hookError returns the error of a hook as an error of the verb.
func hookError(verb string, err error) error {
	if _, ok := errors.AsType[*ci.Error](err); ok {
		return err
	}
	return &ci.Error{Verb: verb, Status: ci.StatusOf(err), Detail: "the vendor's user library", Err: err}
}

// doUser is do, with private data: u is its place in the request, and r that in the reply.
func (c *Client) doUser(cmd schema.Command, request, reply any, u *schema.UserBuffer, r *schema.UserBufferReply,
	p private) error {
	if p.ub == nil {
		return c.do(cmd, request, nil, reply)
	}
	ub := p.ub
	if len(ub.In) > schema.MaxPrivate || len(ub.InFiles) > schema.MaxFiles {
		return &ci.Error{Verb: cmd.Verb(), Status: ci.InvalidParameter, Detail: "more private data than a message " +
			"carries"}
	}
	*u = schema.UserBuffer{Present: true, Command: ub.Command, Status: ub.Status, In: ub.In,
		Files:       uint8(len(ub.InFiles)),
		OutCapacity: uint32(min(cap(ub.Out), schema.MaxPrivate))}
	serves := c.servesCopies()
	files, err := c.doFiles(cmd, request, ub.InFiles, reply)
	// The driver may not have reached a queue that the library has named.
	if !serves && ci.StatusOf(err) == ci.InvalidPermission && exposesMemory() && c.serveCopies() {
		files, err = c.doFiles(cmd, request, ub.InFiles, reply)
	}
	if err != nil || !r.Copied || len(r.Out) > cap(ub.Out) || int(r.Files) != len(files) {
		native.CloseFiles(files)
		return err
	}
	ub.Status, ub.Out, ub.OutFiles = r.Status, append(ub.Out[:0], r.Out...), files
	return nil
}

// findLibrary returns the library with a name, and nil if there is none of this version.
func findLibrary(list []*ci.UserLibrary, name string) *ci.UserLibrary {
	const major = 16
	for _, l := range list {
		if name != "" && l.Name == name && l.Version>>major == ci.InterfaceVersion>>major {
			return l
		}
	}
	return nil
}

// UserHandle returns the library's state of the CA. See ci.UserObject; the other objects have the same method.
func (c *CA) UserHandle() any { return c.state }

// UserHandle returns the library's state.
func (p *PD) UserHandle() any { return p.state }

// UserHandle returns the library's state.
func (a *AV) UserHandle() any { return a.state }

// UserHandle returns the library's state.
func (q *CQ) UserHandle() any { return q.user.Handle }

// UserHandle returns the library's state.
func (s *SRQ) UserHandle() any { return s.user.Handle }

// UserHandle returns the library's state.
func (q *QP) UserHandle() any { return q.user.Handle }

// UserHandle returns the library's state.
func (w *MW) UserHandle() any { return w.state }

// UserHandle returns the library's state.
func (m *Mcast) UserHandle() any { return m.state }
