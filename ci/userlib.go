package ci

// A UserLibrary is the part of a driver that runs in the processes of applications: its user library. The user
// access layer finds it by HCAInfo.Library. It then calls the library's hooks around the verbs that the process sends
// to the proxy, and the library's functions in place of the verbs of the data path. Every hook and function is
// optional. A driver whose library is absent, or has no hooks, is used by messages alone. SAS: uvp_interface_t.
// [SAS-0-03, SAS-2.4-04 … -17]
//
// # Order of a verb
//
//  1. Pre runs with the arguments and an empty UserBuffer. It may change the arguments, and fills in the buffer. If it
//     fails, the verb ends with its error: nothing is sent, and Post does not run.
//  2. The proxy calls the driver with a copy of the arguments and of the buffer.
//  3. Post runs whether the verb succeeded or failed, with the verb's error. A verb that could not be sent has failed,
//     too. The results of the arguments are valid if the error is nil. Those of the buffer are valid if, in addition,
//     its Status is 0. A driver's file in OutFiles is closed after Post, so a library that keeps one duplicates it.
//     [SAS-2.4-12]
//
// Pre sets UserBuffer.Status to a failure of its choice, because the proxy leaves Status alone if the verb fails. Files
// that Pre puts into InFiles remain the library's. Queries and destroys have no private data: ub is nil there.
//
// A Pre of CreateAV, QueryAV, ModifyAV, DestroyAV or QueryCQ that returns VerbsProcessingDone has done all the work.
// The verb then succeeds, and nothing is sent. Post runs in ModifyAV only. A VerbsProcessingDone of any other hook is a
// failure.
//
// # Handles
//
// A create hook stores the library's own state of the object in the field that is named for the object. Pre or Post
// may set it, and Post must not change what Pre has set. The other hooks receive that state. The objects in work
// requests and in attributes are those of the user access layer; UserHandle returns the library's state of one. Hooks
// of an object run only if the library has set a handle for its parent, so a library may accompany some objects and
// leave the others to the proxy.
//
// # Concurrency
//
// Hooks may run on several goroutines at once, though not for the same object. Pre and Post of one verb run on one
// goroutine, but for a Post of a destroy, which may run on another. The functions of the data path are subject to the
// rules of the verbs that they replace: they may run concurrently on one object, do not block and do not allocate. A
// library must not rely on its hooks at the end of a process: it may be killed at any moment, and the driver then
// destroys the objects on its own. [SAS-2.4-15]
type UserLibrary struct {
	Name    string // equal to HCAInfo.Library
	Version uint32 // the InterfaceVersion that the library was built with; another major version is not used

	OpenCA     UserFallibleHook[UserOpenCA]
	QueryCA    UserHook[UserQueryCA]
	ModifyCA   UserHook[UserModifyCA] // without private data
	DestroyCA  UserFallibleHook[UserDestroyCA]
	VendorCall UserHook[UserVendorCall]

	AllocatePD UserFallibleHook[UserAllocatePD]
	DestroyPD  UserHook[UserDestroyPD]

	CreateAV  UserFallibleHook[UserCreateAV]
	QueryAV   UserHook[UserQueryAV]
	ModifyAV  UserHook[UserModifyAV]
	DestroyAV UserHook[UserDestroyAV]

	CreateSRQ  UserFallibleHook[UserCreateSRQ]
	ModifySRQ  UserHook[UserModifySRQ]
	QuerySRQ   UserHook[UserQuerySRQ]
	DestroySRQ UserHook[UserDestroySRQ]

	CreateQP  UserFallibleHook[UserCreateQP]
	ModifyQP  UserHook[UserModifyQP]
	QueryQP   UserHook[UserQueryQP]
	DestroyQP UserHook[UserDestroyQP]

	CreateCQ  UserFallibleHook[UserCreateCQ]
	QueryCQ   UserHook[UserQueryCQ]
	ResizeCQ  UserHook[UserResizeCQ]
	DestroyCQ UserHook[UserDestroyCQ]

	CreateMW  UserFallibleHook[UserCreateMW]
	QueryMW   UserHook[UserQueryMW]
	DestroyMW UserHook[UserDestroyMW]

	AttachMcast  UserFallibleHook[UserAttachMcast]
	DestroyMcast UserHook[UserDestroyMcast]
}

// A UserHook is the pair of hooks around a verb. Either may be nil.
type UserHook[Args any] struct {
	// Pre runs before the verb is sent. Its error ends the verb.
	Pre func(a *Args, ub *UserBuffer) error

	// Post runs after the verb. err is the verb's error.
	Post func(a *Args, ub *UserBuffer, err error)
}

// A UserFallibleHook is the pair of hooks around a verb whose Post may fail: one that creates an object, or DestroyCA.
// Either may be nil, but CreateQP and CreateSRQ need a Post if they have a Pre.
type UserFallibleHook[Args any] struct {
	// Pre runs before the verb is sent. Its error ends the verb.
	Pre func(a *Args, ub *UserBuffer) error

	// Post runs after the verb. err is the verb's error. If err is nil and Post fails, for example since memory cannot
	// be mapped, the application receives the error of Post. The user access layer then destroys the new object with
	// no hooks. After DestroyCA, the CA remains closed.
	Post func(a *Args, ub *UserBuffer, err error) error
}

// Arguments of the hooks of a CA. The fields CA and the like hold the library's own state of an object.
type (
	// UserOpenCA holds the arguments of the hooks of CA.OpenUser. A process opens a CA once, with its first OpenCA.
	UserOpenCA struct {
		GUID GUID
		CA   any // set by Pre or Post
	}

	// UserQueryCA holds the arguments of the hooks of CA.Query.
	UserQueryCA struct {
		CA   any
		Attr *CAAttr // the result, which Post may change
	}

	// UserModifyCA holds the arguments of the hooks of CA.Modify.
	UserModifyCA struct {
		CA   any
		Port uint8
		Set  PortField
		Attr PortModify
	}

	// UserDestroyCA holds the arguments of the hooks of UserCA.Destroy.
	UserDestroyCA struct{ CA any }

	// UserVendorCall holds the arguments of the hooks of UserCA.VendorCall.
	UserVendorCall struct {
		CA      any
		Op      *VendorOp
		Objects []Object
	}
)

// Arguments of the hooks of a PD.
type (
	// UserAllocatePD holds the arguments of the hooks of UserCA.AllocatePD.
	UserAllocatePD struct {
		CA   any
		Type PDType
		PD   any // set by Pre or Post
	}

	// UserDestroyPD holds the arguments of the hooks of PD.Destroy.
	UserDestroyPD struct{ PD any }
)

// Arguments of the hooks of an AV.
type (
	// UserCreateAV holds the arguments of the hooks of PD.CreateAV.
	UserCreateAV struct {
		PD   any
		Attr AVAttr
		AV   any // set by Pre or Post
	}

	// UserQueryAV holds the arguments of the hooks of AV.Query.
	UserQueryAV struct {
		AV   any
		Attr AVAttr // the result; set by Pre if it returns VerbsProcessingDone
	}

	// UserModifyAV holds the arguments of the hooks of AV.Modify.
	UserModifyAV struct {
		AV   any
		Attr AVAttr
	}

	// UserDestroyAV holds the arguments of the hooks of AV.Destroy.
	UserDestroyAV struct{ AV any }
)

// Arguments of the hooks of an SRQ.
type (
	// UserCreateSRQ holds the arguments of the hooks of PD.CreateSRQ.
	UserCreateSRQ struct {
		PD     any
		Create SRQCreate
		SRQ    UserSRQ // set by Pre or Post
	}

	// UserModifySRQ holds the arguments of the hooks of SRQ.Modify.
	UserModifySRQ struct {
		SRQ  any
		Set  SRQField
		Attr SRQAttr
	}

	// UserQuerySRQ holds the arguments of the hooks of SRQ.Query.
	UserQuerySRQ struct {
		SRQ  any
		Attr SRQAttr // the result, which Post may change
	}

	// UserDestroySRQ holds the arguments of the hooks of SRQ.Destroy.
	UserDestroySRQ struct{ SRQ any }
)

// Arguments of the hooks of a QP.
type (
	// UserCreateQP holds the arguments of the hooks of PD.CreateQP.
	UserCreateQP struct {
		PD     any
		Create QPCreate
		Num    QPN    // the result
		Attr   QPAttr // what was granted, as QP.Query returns it
		QP     UserQP // set by Pre or Post
	}

	// UserModifyQP holds the arguments of the hooks of QP.Modify.
	UserModifyQP struct {
		QP   any
		Set  QPField
		Attr QPAttr
	}

	// UserQueryQP holds the arguments of the hooks of QP.Query.
	UserQueryQP struct {
		QP   any
		Attr QPAttr // the result, which Post may change
	}

	// UserDestroyQP holds the arguments of the hooks of QP.Destroy.
	UserDestroyQP struct{ QP any }
)

// Arguments of the hooks of a CQ.
type (
	// UserCreateCQ holds the arguments of the hooks of PD.CreateCQ.
	UserCreateCQ struct {
		PD      any
		Create  CQCreate
		Granted int    // the size that was granted
		CQ      UserCQ // set by Pre or Post
	}

	// UserQueryCQ holds the arguments of the hooks of CQ.Query.
	UserQueryCQ struct {
		CQ   any
		Attr CQAttr // the result; set by Pre if it returns VerbsProcessingDone
	}

	// UserResizeCQ holds the arguments of the hooks of CQ.Resize.
	UserResizeCQ struct {
		CQ      any
		Size    int
		Granted int // the result
	}

	// UserDestroyCQ holds the arguments of the hooks of CQ.Destroy.
	UserDestroyCQ struct{ CQ any }
)

// Arguments of the hooks of an MW.
type (
	// UserCreateMW holds the arguments of the hooks of PD.CreateMW.
	UserCreateMW struct {
		PD     any
		Create MWCreate
		Key    Key // the result
		MW     any // set by Pre or Post
	}

	// UserQueryMW holds the arguments of the hooks of MW.Query.
	UserQueryMW struct {
		MW   any
		Attr MWAttr // the result, which Post may change
	}

	// UserDestroyMW holds the arguments of the hooks of MW.Destroy.
	UserDestroyMW struct{ MW any }
)

// Arguments of the hooks of a multicast membership.
type (
	// UserAttachMcast holds the arguments of the hooks of QP.AttachMcast.
	UserAttachMcast struct {
		QP     any
		Attach McastAttach
		Mcast  any // set by Pre or Post
	}

	// UserDestroyMcast holds the arguments of the hooks of Mcast.Destroy.
	UserDestroyMcast struct{ Mcast any }
)

// A UserCQ is a CQ as the library represents it. The user access layer reads it once, after Post of CreateCQ. A nil
// function leaves the verb to the proxy. Callbacks reach the application through the proxy in either case: the driver
// calls the completion callback of its CQ when the condition that Notify armed is met.
type UserCQ struct {
	Handle      any // the CQ of the other hooks
	Poll        func(wc []WC) (n int, err error)
	Peek        func() (int, error)
	Notify      func(when Notify) error
	NotifyAfter func(n int) error
}

// A UserQP is a QP as the library represents it. The user access layer reads it once, after Post of CreateQP. A nil
// function leaves the verb to the proxy.
type UserQP struct {
	Handle   any // the QP of the other hooks
	PostSend func(wrs []SendWR) (n int, err error)
	PostRecv func(wrs []RecvWR) (n int, err error)
	BindMW   func(id uint64, flags SendFlags, b MWBind) (Key, error)
}

// A UserSRQ is an SRQ as the library represents it. The user access layer reads it once, after Post of CreateSRQ. A nil
// function leaves the verb to the proxy.
type UserSRQ struct {
	Handle   any // the SRQ of the other hooks
	PostRecv func(wrs []RecvWR) (n int, err error)
}

// UserObject is implemented by the objects of the user access layer. It is optional: a consumer does not need it.
type UserObject interface {
	// UserHandle returns the library's own state of the object, nil if the library does not accompany the object.
	UserHandle() any
}

// UserRegion is implemented by the regions of the user access layer, which have no hooks.
type UserRegion interface {
	// UserRegion returns the library's own state of the region's PD, nil if the library does not accompany the PD, and
	// the region's rights. ok is false if the region was destroyed. UserRegion does not block and does not allocate.
	UserRegion() (pd any, access Access, ok bool)
}

// UserHandle returns the library's own state of an object of the user access layer, which may be wrapped. ok is false
// if o is no such object, or the state is no T. UserHandle does not allocate.
func UserHandle[T any](o any) (t T, ok bool) {
	u, ok := As[UserObject](o)
	if !ok {
		return t, false
	}
	t, ok = u.UserHandle().(T)
	return t, ok
}
