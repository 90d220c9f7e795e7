package userlib

import (
	"ciddk/ci"
	"ciddk/templates/rchca/userabi"
)

// New returns the library. Every hook is optional: remove those that your hardware does not need. Queries, modifies and
// destroys have hooks as well; ci.UserLibrary lists all 28 pairs.
func New() *ci.UserLibrary {
	return &ci.UserLibrary{
		Name:    userabi.LibraryName,
		Version: ci.InterfaceVersion,

		OpenCA:      ci.UserFallibleHook[ci.UserOpenCA]{Pre: preOpenCA, Post: postOpenCA},
		DestroyCA:   ci.UserFallibleHook[ci.UserDestroyCA]{Post: postDestroyCA},
		AllocatePD:  ci.UserFallibleHook[ci.UserAllocatePD]{Pre: preAllocatePD, Post: postAllocatePD},
		CreateCQ:    ci.UserFallibleHook[ci.UserCreateCQ]{Pre: preCreateCQ, Post: postCreateCQ},
		QueryCQ:     ci.UserHook[ci.UserQueryCQ]{Pre: preQueryCQ},
		DestroyCQ:   ci.UserHook[ci.UserDestroyCQ]{Post: postDestroyCQ},
		CreateQP:    ci.UserFallibleHook[ci.UserCreateQP]{Pre: preCreateQP, Post: postCreateQP},
		ModifyQP:    ci.UserHook[ci.UserModifyQP]{Pre: preModifyQP, Post: postModifyQP},
		DestroyQP:   ci.UserHook[ci.UserDestroyQP]{Pre: preDestroyQP, Post: postDestroyQP},
		CreateAV:    ci.UserFallibleHook[ci.UserCreateAV]{Pre: preCreateAV, Post: postCreateAV},
		CreateSRQ:   ci.UserFallibleHook[ci.UserCreateSRQ]{Pre: preCreateSRQ, Post: postCreateSRQ},
		AttachMcast: ci.UserFallibleHook[ci.UserAttachMcast]{Pre: preAttachMcast, Post: postAttachMcast},

		QueryCA:  ci.UserHook[ci.UserQueryCA]{Post: postQueryCA},         // mw.go
		CreateMW: ci.UserFallibleHook[ci.UserCreateMW]{Pre: preCreateMW}, // mw.go
	}
}

// notAnswered is the status that a pre hook presets. The driver sets 0.
const notAnswered = -1

// request fills in the private data of a verb.
func request(ub *ci.UserBuffer) error {
	ub.Command, ub.Status = userabi.Command, notAnswered
	ub.In = userabi.Request{}.Encode()
	ub.Out = make([]byte, 0, userabi.AnswerSize) // the capacity is what the library accepts
	return nil
}

// badQueue returns the error of a create whose answer describes a queue outside the shared memory.
func badQueue(verb string) error {
	return &ci.Error{Verb: verb, Status: ci.UnknownError, Detail: "answer of the driver: a queue outside the memory"}
}

// answer returns what the driver returned for a verb. ok is false if the verb failed, or if the driver did not answer:
// the object is then left to the proxy, and the application receives the error of the verb, if there is one.
func answer(verb string, ub *ci.UserBuffer, err error) (a userabi.Answer, ok bool, _ error) {
	if err != nil || ub.Status != 0 {
		return a, false, nil
	}
	if err := a.Decode(ub.Out); err != nil {
		// The application receives this error, and the new object is destroyed.
		return a, false, &ci.Error{Verb: verb, Status: ci.UnknownError, Detail: "answer of the driver", Err: err}
	}
	return a, true, nil
}
