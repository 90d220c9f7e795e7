package usermutants

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/usersuite"
)

// library returns faults in the calls of a user library's hooks, or in the library.
func library() []mutant.Mutant {
	hooks := func(name, breaks, does string, change func(l *ci.UserLibrary)) mutant.Mutant {
		return fault(name, breaks, does, func() *usersuite.Fault {
			return &usersuite.Fault{Library: func(l *ci.UserLibrary) *ci.UserLibrary {
				x := *l
				change(&x)
				return &x
			}}
		})
	}
	own := hooks("user.library-refuses-qps", "SAS-2.4-01", "the driver's user library fails to prepare the second QP",
		func(l *ci.UserLibrary) {
			pre, n := l.CreateQP.Pre, 0
			l.CreateQP.Pre = func(a *ci.UserCreateQP, ub *ci.UserBuffer) error {
				if n++; n > 1 {
					return ci.InsufficientResources
				}
				if pre == nil {
					return nil
				}
				return pre(a, ub)
			}
		})
	own.Needs = ci.CapUser
	arms := hooks("user.arming-kept", "CI-User-02",
		"a CQ that was armed for solicited completions stays so when it is armed for the next one",
		func(l *ci.UserLibrary) {
			post := l.CreateCQ.Post
			l.CreateCQ.Post = func(a *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
				e := post(a, ub, err)
				if notify := a.CQ.Notify; notify != nil {
					var isSolicited atomic.Bool
					a.CQ.Notify = func(when ci.Notify) error {
						if isSolicited.Load() {
							when = ci.NotifySolicited
						}
						isSolicited.Store(when == ci.NotifySolicited)
						return notify(when)
					}
				}
				return e
			}
		}).Needing(ci.CapUser)
	return []mutant.Mutant{
		own, arms,
		hooks("user.pre-failure-ignored", "SAS-2.4-05", "a verb continues after its pre hook has failed",
			func(l *ci.UserLibrary) {
				pre := l.CreateCQ.Pre
				l.CreateCQ.Pre = func(a *ci.UserCreateCQ, ub *ci.UserBuffer) error {
					_ = pre(a, ub) // the fault
					return nil
				}
			}),
		hooks("user.pre-after-the-verb", "SAS-2.4-05", "the pre hook runs after the driver", func(l *ci.UserLibrary) {
			pre, post := l.CreateCQ.Pre, l.CreateCQ.Post
			l.CreateCQ.Pre = nil
			l.CreateCQ.Post = func(a *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
				if e := pre(a, ub); e != nil {
					return e
				}
				return post(a, ub, err)
			}
		}),
		hooks("user.no-post-after-failure", "SAS-2.4-12", "the post hook does not run if the verb has failed",
			func(l *ci.UserLibrary) {
				post := l.CreateCQ.Post
				l.CreateCQ.Post = func(a *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
					if err != nil {
						return nil
					}
					return post(a, ub, err)
				}
			}),
		hooks("user.post-without-status", "SAS-2.4-12", "the post hook of a failed resize receives success",
			func(l *ci.UserLibrary) {
				post := l.ResizeCQ.Post
				l.ResizeCQ.Post = func(a *ci.UserResizeCQ, ub *ci.UserBuffer, _ error) { post(a, ub, nil) }
			}),
		hooks("user.handle-lost", "SAS-2.4-13", "the library's handle of a CQ is lost", func(l *ci.UserLibrary) {
			post := l.CreateCQ.Post
			l.CreateCQ.Post = func(a *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
				e := post(a, ub, err)
				a.CQ.Handle = "another"
				return e
			}
		}),
		hooks("user.post-failure-ignored", "SAS-2.4-13", "a create succeeds although its post hook has failed",
			func(l *ci.UserLibrary) {
				post := l.CreateCQ.Post
				l.CreateCQ.Post = func(a *ci.UserCreateCQ, ub *ci.UserBuffer, err error) error {
					_ = post(a, ub, err) // the fault
					return nil
				}
			}),
		hooks("user.functions-ignored", "SAS-0-03", "the library's functions of a QP are not called",
			func(l *ci.UserLibrary) {
				post := l.CreateQP.Post
				l.CreateQP.Post = func(a *ci.UserCreateQP, ub *ci.UserBuffer, err error) error {
					e := post(a, ub, err)
					a.QP.PostSend, a.QP.PostRecv = nil, nil
					return e
				}
			}),
	}
}
