package userlib

import (
	"sync/atomic"

	"ciddk/ci"
)

// cq is a completion queue.
type cq struct {
	number    uint32 // in the hardware
	size      int
	destroyed atomic.Bool
}

// preCreateCQ runs before the CQ is created. a.Create has the arguments, which it may change, for example to round up
// the size.
//
// If the library allocates the entries itself, allocate them here and put address and length into the request; the
// driver reaches them with Process.Memory. The memory is then charged to the process, and must stay allocated until
// postDestroyCQ. [SAS-2.4-03, -05, -09]
func preCreateCQ(_ *ci.UserCreateCQ, ub *ci.UserBuffer) error { return request(ub) }

// postCreateCQ runs after the create, also after one that failed: release then what preCreateCQ has allocated.
//
// For a bypass, set the functions of a.CQ, too: Poll, Peek, Notify, NotifyAfter. Each replaces the verb of the same
// name, and a nil function leaves the verb to the proxy. Poll reads the entries in shared memory, without a system call
// and without an allocation. Callbacks of an armed CQ come through the proxy in any case: the driver calls the
// completion callback of its CQ. [SAS-2.4-12]
func postCreateCQ(a *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
	r, ok, err := answer("PD.CreateCQ", ub, err)
	if ok {
		a.CQ = ci.UserCQ{Handle: &cq{number: r.Number, size: a.Granted}}
	}
	return err
}

// preQueryCQ does all the work of CQ.Query, so that no message is sent. Only the hooks of AVs and CQ.Query may return
// VerbsProcessingDone. Remove this hook when the driver has verbs that change a CQ, such as Resize or Modify.
func preQueryCQ(a *ci.UserQueryCQ, _ *ci.UserBuffer) error {
	q, ok := a.CQ.(*cq)
	if !ok || q.destroyed.Load() { // the proxy then returns InvalidCQHandle
		return nil
	}
	a.Attr = ci.CQAttr{Size: q.size}
	return ci.VerbsProcessingDone
}

// postDestroyCQ runs after CQ.Destroy. If err is not nil, the CQ still exists. Release here the memory of the entries,
// if the library has allocated it.
func postDestroyCQ(a *ci.UserDestroyCQ, _ *ci.UserBuffer, err error) {
	if q, ok := a.CQ.(*cq); ok && err == nil {
		q.destroyed.Store(true)
	}
}
