package userlib

import (
	"fmt"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/hca/reference/arena"
	"ciddk/internal/rings"
)

// New returns the library.
func New() *ci.UserLibrary {
	return &ci.UserLibrary{
		Name:       rings.LibraryName,
		Version:    ci.InterfaceVersion,
		OpenCA:     ci.UserFallibleHook[ci.UserOpenCA]{Pre: preOpenCA, Post: postOpenCA},
		QueryCA:    ci.UserHook[ci.UserQueryCA]{Post: postQueryCA},
		DestroyCA:  ci.UserFallibleHook[ci.UserDestroyCA]{Post: postDestroyCA},
		AllocatePD: ci.UserFallibleHook[ci.UserAllocatePD]{Post: postAllocatePD},
		CreateAV:   ci.UserFallibleHook[ci.UserCreateAV]{Pre: preCreateAV, Post: postCreateAV},
		DestroyAV:  ci.UserHook[ci.UserDestroyAV]{Post: postDestroyAV},
		CreateCQ:   ci.UserFallibleHook[ci.UserCreateCQ]{Pre: preCreateCQ, Post: postCreateCQ},
		ResizeCQ:   ci.UserHook[ci.UserResizeCQ]{Pre: preResizeCQ, Post: postResizeCQ},
		DestroyCQ:  ci.UserHook[ci.UserDestroyCQ]{Pre: preDestroyCQ, Post: postDestroyCQ},
		CreateSRQ:  ci.UserFallibleHook[ci.UserCreateSRQ]{Pre: preCreateSRQ, Post: postCreateSRQ},
		ModifySRQ:  ci.UserHook[ci.UserModifySRQ]{Pre: preModifySRQ, Post: postModifySRQ},
		DestroySRQ: ci.UserHook[ci.UserDestroySRQ]{Pre: preDestroySRQ, Post: postDestroySRQ},
		CreateQP:   ci.UserFallibleHook[ci.UserCreateQP]{Pre: preCreateQP, Post: postCreateQP},
		ModifyQP:   ci.UserHook[ci.UserModifyQP]{Pre: preModifyQP, Post: postModifyQP},
		DestroyQP:  ci.UserHook[ci.UserDestroyQP]{Pre: preDestroyQP, Post: postDestroyQP},
		CreateMW:   ci.UserFallibleHook[ci.UserCreateMW]{Post: postCreateMW},
		QueryMW:    ci.UserHook[ci.UserQueryMW]{Pre: preQueryMW, Post: postQueryMW},
		DestroyMW:  ci.UserHook[ci.UserDestroyMW]{Post: postDestroyMW},
	}
}

// notInUserMode are the capabilities of the HCA that queues in shared memory do not have. A fast registration names
// storage by DMA addresses, which only consumers in the daemon have.
const notInUserMode = ci.CapFastReg | ci.CapLSO | ci.CapIPChecksum | ci.CapFlushPersistent

// postQueryCA clears the capabilities that a process with this library does not have.
func postQueryCA(a *ci.UserQueryCA, _ *ci.UserBuffer, err error) {
	if _, ok := a.CA.(*ca); ok && err == nil && a.Attr != nil {
		a.Attr.Caps &^= notInUserMode
		a.Attr.MaxFastRegPages = 0
	}
}

// notAnswered is the status that a hook presets.
const notAnswered = -1

// ask fills in the private data of a verb whose answer has n bytes.
func ask(ub *ci.UserBuffer, n int) {
	ub.Command, ub.Status, ub.Out = rings.UserCommand, notAnswered, make([]byte, 0, n)
}

// badAnswer returns the error of a create whose answer makes no sense.
func badAnswer(verb, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: ci.UnknownError, Detail: "answer of the driver: " +
		fmt.Sprintf(format, args...)}
}

// ca is an open CA.
type ca struct {
	rules wrrules.Rules // of QPs, without what differs from QP to QP
	*arena.Client
	head *rings.Header
}

// Counters are the system calls that the library has made on the data path of an open CA.
type Counters struct {
	Doorbells uint64 // posts that had to wake the engine
	Yields    uint64 // polls that found nothing and yielded the processor
}

// CountersOf returns the counters of a CA of the user access layer. ok is false if this library does not accompany it.
func CountersOf(o ci.CA) (c Counters, ok bool) {
	x, ok := ci.UserHandle[*ca](o)
	if !ok {
		return c, false
	}
	c.Doorbells, c.Yields = x.Calls()
	return c, true
}

func preOpenCA(_ *ci.UserOpenCA, ub *ci.UserBuffer) error {
	ask(ub, rings.UserOpenSize)
	return nil
}

func postOpenCA(a *ci.UserOpenCA, ub *ci.UserBuffer, err error) error {
	const verb = "HCA.OpenCA"
	if err != nil || ub.Status != 0 {
		return nil
	}
	var o rings.UserOpen
	if err := o.Decode(ub.Out); err != nil {
		return badAnswer(verb, "%v", err)
	}
	if o.Size < rings.HeaderSize {
		return badAnswer(verb, "memory of %d bytes", o.Size)
	}
	m, err := arena.OpenClient(ub.OutFiles, o.Size)
	if err != nil {
		return &ci.Error{Verb: verb, Status: ci.InsufficientResources, Err: err}
	}
	rules := wrrules.Rules{Caps: ci.Caps(o.Caps) &^ notInUserMode, Atomicity: ci.Atomicity(o.Atomicity),
		MaxReadSGEs: int(o.MaxReadSGEs)}
	a.CA = &ca{rules: rules, Client: m, head: rings.OpenHeader(m.Bytes())}
	return nil
}

func postDestroyCA(a *ci.UserDestroyCA, _ *ci.UserBuffer, err error) error {
	c, ok := a.CA.(*ca)
	if !ok || err != nil {
		return nil
	}
	c.Drop()
	return nil
}

// at returns n bytes of the shared memory.
func (c *ca) at(off, n uint64) ([]byte, bool) {
	b := c.Bytes()
	if off < rings.HeaderSize || off%8 != 0 || off > uint64(len(b)) || n > uint64(len(b))-off {
		return nil, false
	}
	return b[off : off+n : off+n], true
}

// notify marks the QP with an index as having new work, and wakes the engine if it sleeps.
func (c *ca) notify(index uint32) {
	if c.head.Mark(index) {
		c.Ring()
	}
}

// pd is a protection domain.
type pd struct{ ca *ca }

func postAllocatePD(a *ci.UserAllocatePD, _ *ci.UserBuffer, err error) error {
	if c, ok := a.CA.(*ca); ok && err == nil {
		a.PD = &pd{ca: c}
	}
	return nil
}

// av is an address vector.
type av struct {
	pd        *pd
	number    uint32
	destroyed atomic.Bool
}

func preCreateAV(a *ci.UserCreateAV, ub *ci.UserBuffer) error {
	if _, ok := a.PD.(*pd); ok {
		ask(ub, rings.UserAVSize)
	}
	return nil
}

func postCreateAV(a *ci.UserCreateAV, ub *ci.UserBuffer, err error) error {
	d, ok := a.PD.(*pd)
	if !ok || err != nil || ub.Status != 0 {
		return nil
	}
	var r rings.UserAV
	if err := r.Decode(ub.Out); err != nil {
		return badAnswer("PD.CreateAV", "%v", err)
	}
	a.AV = &av{pd: d, number: r.Number}
	return nil
}

func postDestroyAV(a *ci.UserDestroyAV, _ *ci.UserBuffer, err error) {
	if v, ok := a.AV.(*av); ok && err == nil {
		v.destroyed.Store(true)
	}
}
