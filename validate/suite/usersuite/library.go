package usersuite

import (
	"sync"

	"ciddk/ci"
)

// libraryName is the name of the cases' user library.
const libraryName = "usersuite"

// library is the user library of a case. It accompanies every object that it can, records its hooks, and sends private
// data.
type library struct {
	trace *trace

	mu     sync.Mutex
	onPre  func(verb string, a any, ub *ci.UserBuffer) error            // after the library's own Pre
	onPost func(verb string, a any, ub *ci.UserBuffer, err error) error // after its own Post
}

// before sets the function that runs at the end of each Pre.
func (l *library) before(f func(verb string, a any, ub *ci.UserBuffer) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onPre = f
}

// after sets the function that runs at the end of each Post.
func (l *library) after(f func(verb string, a any, ub *ci.UserBuffer, err error) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onPost = f
}

// Private data that the library sends by default.
const (
	privateCommand = 7
	privateStatus  = -5
	privateRoom    = 64
)

// pre is the Pre of every hook. It sets the handle of the object that a verb creates: the verb's name.
func (l *library) pre(verb string, a any, ub *ci.UserBuffer) error {
	l.trace.add("pre %s", verb)
	setHandle(a, verb)
	if ub != nil {
		ub.Command, ub.Status = privateCommand, privateStatus
		ub.In, ub.Out = []byte(verb), make([]byte, 0, privateRoom)
	}
	l.mu.Lock()
	on := l.onPre
	l.mu.Unlock()
	defer l.trace.order()
	if on != nil {
		return on(verb, a, ub)
	}
	return nil
}

// setHandle sets the handle of the object that a verb creates.
func setHandle(a, handle any) {
	switch a := a.(type) {
	case *ci.UserOpenCA:
		a.CA = handle
	case *ci.UserAllocatePD:
		a.PD = handle
	case *ci.UserCreateCQ:
		a.CQ.Handle = handle
	case *ci.UserCreateQP:
		a.QP.Handle = handle
	case *ci.UserCreateSRQ:
		a.SRQ.Handle = handle
	case *ci.UserCreateAV:
		a.AV = handle
	case *ci.UserCreateMW:
		a.MW = handle
	case *ci.UserAttachMcast:
		a.Mcast = handle
	}
}

func (l *library) post(verb string, a any, ub *ci.UserBuffer, err error) error {
	if err != nil {
		l.trace.add("post %s: %s", verb, ci.StatusOf(err).String())
	} else {
		l.trace.add("post %s", verb)
	}
	l.mu.Lock()
	on := l.onPost
	l.mu.Unlock()
	if on != nil {
		return on(verb, a, ub, err)
	}
	return nil
}

// fallible returns the hooks of a verb whose Post may fail.
func fallible[A any](l *library, verb string) ci.UserFallibleHook[A] {
	return ci.UserFallibleHook[A]{
		Pre:  func(a *A, ub *ci.UserBuffer) error { return l.pre(verb, a, ub) },
		Post: func(a *A, ub *ci.UserBuffer, err error) error { return l.post(verb, a, ub, err) },
	}
}

// hook returns the hooks of a verb whose Post cannot fail.
func hook[A any](l *library, verb string) ci.UserHook[A] {
	return ci.UserHook[A]{
		Pre:  func(a *A, ub *ci.UserBuffer) error { return l.pre(verb, a, ub) },
		Post: func(a *A, ub *ci.UserBuffer, err error) { _ = l.post(verb, a, ub, err) }, // cannot fail
	}
}

// vendor returns the library for package ual, with hooks for every verb that has some.
func (l *library) vendor() *ci.UserLibrary {
	return &ci.UserLibrary{
		Name: libraryName, Version: ci.InterfaceVersion,
		OpenCA:       fallible[ci.UserOpenCA](l, "OpenCA"),
		QueryCA:      hook[ci.UserQueryCA](l, "QueryCA"),
		ModifyCA:     hook[ci.UserModifyCA](l, "ModifyCA"),
		DestroyCA:    fallible[ci.UserDestroyCA](l, "DestroyCA"),
		VendorCall:   hook[ci.UserVendorCall](l, "VendorCall"),
		AllocatePD:   fallible[ci.UserAllocatePD](l, "AllocatePD"),
		DestroyPD:    hook[ci.UserDestroyPD](l, "DestroyPD"),
		CreateAV:     fallible[ci.UserCreateAV](l, "CreateAV"),
		QueryAV:      hook[ci.UserQueryAV](l, "QueryAV"),
		ModifyAV:     hook[ci.UserModifyAV](l, "ModifyAV"),
		DestroyAV:    hook[ci.UserDestroyAV](l, "DestroyAV"),
		CreateSRQ:    fallible[ci.UserCreateSRQ](l, "CreateSRQ"),
		ModifySRQ:    hook[ci.UserModifySRQ](l, "ModifySRQ"),
		QuerySRQ:     hook[ci.UserQuerySRQ](l, "QuerySRQ"),
		DestroySRQ:   hook[ci.UserDestroySRQ](l, "DestroySRQ"),
		CreateQP:     fallible[ci.UserCreateQP](l, "CreateQP"),
		ModifyQP:     hook[ci.UserModifyQP](l, "ModifyQP"),
		QueryQP:      hook[ci.UserQueryQP](l, "QueryQP"),
		DestroyQP:    hook[ci.UserDestroyQP](l, "DestroyQP"),
		CreateCQ:     fallible[ci.UserCreateCQ](l, "CreateCQ"),
		QueryCQ:      hook[ci.UserQueryCQ](l, "QueryCQ"),
		ResizeCQ:     hook[ci.UserResizeCQ](l, "ResizeCQ"),
		DestroyCQ:    hook[ci.UserDestroyCQ](l, "DestroyCQ"),
		CreateMW:     fallible[ci.UserCreateMW](l, "CreateMW"),
		QueryMW:      hook[ci.UserQueryMW](l, "QueryMW"),
		DestroyMW:    hook[ci.UserDestroyMW](l, "DestroyMW"),
		AttachMcast:  fallible[ci.UserAttachMcast](l, "AttachMcast"),
		DestroyMcast: hook[ci.UserDestroyMcast](l, "DestroyMcast"),
	}
}
