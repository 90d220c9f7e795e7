package userlib

import (
	"fmt"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/hca/reference/arena"
	"ciddk/internal/mlx4/queue"
	"ciddk/internal/mlx4/userabi"
)

// New returns the library.
func New() *ci.UserLibrary {
	return &ci.UserLibrary{
		Name:       userabi.LibraryName,
		Version:    ci.InterfaceVersion,
		OpenCA:     ci.UserFallibleHook[ci.UserOpenCA]{Pre: preOpenCA, Post: postOpenCA},
		DestroyCA:  ci.UserFallibleHook[ci.UserDestroyCA]{Post: postDestroyCA},
		AllocatePD: ci.UserFallibleHook[ci.UserAllocatePD]{Post: postAllocatePD},
		CreateAV:   ci.UserFallibleHook[ci.UserCreateAV]{Pre: preCreateAV, Post: postCreateAV},
		ModifyAV:   ci.UserHook[ci.UserModifyAV]{Pre: preModifyAV, Post: postModifyAV},
		DestroyAV:  ci.UserHook[ci.UserDestroyAV]{Post: postDestroyAV},
		CreateCQ:   ci.UserFallibleHook[ci.UserCreateCQ]{Pre: preCreateCQ, Post: postCreateCQ},
		ResizeCQ:   ci.UserHook[ci.UserResizeCQ]{Pre: preResizeCQ, Post: postResizeCQ},
		DestroyCQ:  ci.UserHook[ci.UserDestroyCQ]{Pre: preDestroyCQ, Post: postDestroyCQ},
		CreateSRQ:  ci.UserFallibleHook[ci.UserCreateSRQ]{Pre: preCreateSRQ, Post: postCreateSRQ},
		DestroySRQ: ci.UserHook[ci.UserDestroySRQ]{Pre: preDestroySRQ, Post: postDestroySRQ},
		CreateQP:   ci.UserFallibleHook[ci.UserCreateQP]{Pre: preCreateQP, Post: postCreateQP},
		ModifyQP:   ci.UserHook[ci.UserModifyQP]{Pre: preModifyQP, Post: postModifyQP},
		DestroyQP:  ci.UserHook[ci.UserDestroyQP]{Pre: preDestroyQP, Post: postDestroyQP},
		CreateMW:   ci.UserFallibleHook[ci.UserCreateMW]{Post: postCreateMW},
		QueryMW:    ci.UserHook[ci.UserQueryMW]{Post: postQueryMW},
		DestroyMW:  ci.UserHook[ci.UserDestroyMW]{Post: postDestroyMW},
	}
}

// notInUserMode are the capabilities of the adapter that a process does not have.
const notInUserMode = ci.CapFastReg

// notAnswered is the status that a hook presets.
const notAnswered = -1

// ask fills in the private data of a verb whose answer has n bytes.
func ask(ub *ci.UserBuffer, n int) {
	ub.Command, ub.Status, ub.Out = userabi.Command, notAnswered, make([]byte, 0, n)
}

// badAnswer returns the error of a verb whose answer makes no sense.
func badAnswer(verb, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: ci.UnknownError, Detail: "answer of the driver: " +
		fmt.Sprintf(format, args...)}
}

// ca is an open CA.
type ca struct {
	rules    wrrules.Rules // of QPs, without what differs from QP to QP
	cqeShift uint8
	*arena.Client
	head *userabi.Header
}

// Counters are the system calls that the library has made on the data path of an open CA.
type Counters struct {
	Doorbells uint64 // posts and armings that had to wake the daemon
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
	ask(ub, userabi.OpenSize)
	return nil
}

func postOpenCA(a *ci.UserOpenCA, ub *ci.UserBuffer, err error) error {
	const verb = "HCA.OpenCA"
	if err != nil || ub.Status != 0 {
		return nil
	}
	var o userabi.Open
	if err := userabi.Decode(ub.Out, &o); err != nil {
		return badAnswer(verb, "%v", err)
	}
	switch {
	case o.CQEShift < 5 || o.CQEShift > 6:
		return badAnswer(verb, "completions of 1<<%d bytes", o.CQEShift)
	case o.Size < userabi.HeaderSize:
		return badAnswer(verb, "memory of %d bytes", o.Size)
	}
	m, err := arena.OpenClient(ub.OutFiles, o.Size)
	if err != nil {
		return &ci.Error{Verb: verb, Status: ci.InsufficientResources, Err: err}
	}
	a.CA = &ca{Client: m, head: userabi.OpenHeader(m.Bytes()), cqeShift: uint8(o.CQEShift),
		rules: wrrules.Rules{Caps: ci.Caps(o.Caps) &^ notInUserMode, Atomicity: ci.Atomicity(o.Atomicity),
			MaxReadSGEs: int(o.MaxReadSGEs)}}
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

// area returns the memory of queues of size bytes, and the control words behind it.
func (c *ca) area(verb string, off, size uint64) ([]byte, userabi.Control, error) {
	b := c.Bytes()
	whole := (size + userabi.PageSize - 1) &^ (userabi.PageSize - 1)
	end := uint64(len(b))
	if off < userabi.HeaderSize || off%userabi.PageSize != 0 || off > end || whole < size ||
		whole > end-off || userabi.ControlSize > end-off-whole {
		return nil, userabi.Control{}, badAnswer(verb, "a queue of %d bytes at %d, outside the shared memory", size,
			off)
	}
	return b[off : off+size : off+size], userabi.OpenControl(b[off+whole:]), nil
}

// ring rings a doorbell, and wakes the daemon if it sleeps.
func (c *ca) ring(doorbell uint32) {
	if c.head.Ring(doorbell) {
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
	now       atomic.Pointer[vector]
	destroyed atomic.Bool
}

// vector is an address vector in the adapter's form. Requests with one that is bad complete with an error.
type vector struct {
	address queue.Address
	port    uint8
	isBad   bool
}

// newVector returns the address vector of an answer.
func newVector(verb string, answer []byte) (*vector, error) {
	var r userabi.AV
	if err := userabi.Decode(answer, &r); err != nil {
		return nil, badAnswer(verb, "%v", err)
	}
	return &vector{queue.AddressOf(r.Address), r.Port, r.IsBad != 0}, nil
}

func preCreateAV(a *ci.UserCreateAV, ub *ci.UserBuffer) error {
	if _, ok := a.PD.(*pd); ok {
		ask(ub, userabi.AVSize)
	}
	return nil
}

func postCreateAV(a *ci.UserCreateAV, ub *ci.UserBuffer, err error) error {
	d, ok := a.PD.(*pd)
	if !ok || err != nil || ub.Status != 0 {
		return nil
	}
	v, err := newVector("PD.CreateAV", ub.Out)
	if err != nil {
		return err
	}
	x := &av{pd: d}
	x.now.Store(v)
	a.AV = x
	return nil
}

func preModifyAV(a *ci.UserModifyAV, ub *ci.UserBuffer) error {
	if _, ok := a.AV.(*av); ok {
		ask(ub, userabi.AVSize)
	}
	return nil
}

func postModifyAV(a *ci.UserModifyAV, ub *ci.UserBuffer, err error) {
	x, ok := a.AV.(*av)
	if !ok || err != nil {
		return
	}
	v, e := newVector("AV.Modify", ub.Out)
	if ub.Status != 0 || e != nil {
		v = &vector{isBad: true} // what the vector is now is not known
	}
	x.now.Store(v)
}

func postDestroyAV(a *ci.UserDestroyAV, _ *ci.UserBuffer, err error) {
	if v, ok := a.AV.(*av); ok && err == nil {
		v.destroyed.Store(true)
	}
}
