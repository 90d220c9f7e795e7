package userlib

import "ciddk/ci"

// qp is a queue pair.
type qp struct {
	number ci.QPN
}

// preCreateQP runs before the QP is created. Allocate the work queues here if they are in memory of the process. The
// CQs of a.Create are those of the user access layer; ci.UserHandle[*cq] returns the library's state of one.
func preCreateQP(_ *ci.UserCreateQP, ub *ci.UserBuffer) error { return request(ub) }

// postCreateQP runs after the create, also after one that failed.
//
// For a bypass, set the functions of a.QP, too: PostSend, PostRecv, BindMW. PostSend writes the requests to the work
// queue and rings the doorbell. It checks the state of the queue in memory of its own, copies what it needs of wrs, and
// does not allocate. The hardware, or the driver, must not trust what it reads from the queue: a request is checked in
// a private copy, since the process can overwrite the queue at any moment. A library that posts needs the CQs of the QP
// with a Poll of its own, too, if the driver has no other way to complete such requests. [SAS-2.4-12]
func postCreateQP(a *ci.UserCreateQP, ub *ci.UserBuffer, err error) error {
	r, ok, err := answer("PD.CreateQP", ub, err)
	if ok {
		a.QP = ci.UserQP{Handle: &qp{number: ci.QPN(r.Number)}}
	}
	return err
}

// postDestroyQP releases the memory of the queues, if the library has allocated it. If err is not nil, the QP still
// exists.
func postDestroyQP(*ci.UserDestroyQP, *ci.UserBuffer, error) {}
