package uverbs

// methods declares the commands of the original form.
var methods = [maxCmd + 1]method{
	cmdGetContext:  withoutContext(define("get context", (*File).getContext)),
	cmdQueryDevice: define("query device", (*File).queryDevice),
	cmdQueryPort:   define("query port", (*File).queryPort),
	cmdAllocPD:     define("alloc PD", (*File).allocPD),
	cmdDeallocPD:   define("dealloc PD", destroyer(kindPD)),
	cmdCreateAH:    define("create AH", (*File).createAH),
	cmdDestroyAH:   define("destroy AH", destroyer(kindAH)),
	cmdRegMR:       define("reg MR", (*File).regMR),
	cmdReregMR:     define("rereg MR", (*File).reregMR),
	cmdDeregMR:     define("dereg MR", destroyer(kindMR)),
	cmdAllocMW:     define("alloc MW", (*File).allocMW),
	cmdDeallocMW:   define("dealloc MW", destroyer(kindMW)),
	cmdCreateChan:  define("create comp channel", (*File).createCompChannel),
	cmdCreateCQ:    define("create CQ", (*File).createCQ),
	cmdResizeCQ:    define("resize CQ", (*File).resizeCQ),
	cmdDestroyCQ:   define("destroy CQ", (*File).destroyCQ),
	cmdReqNotifyCQ: define("request notification", (*File).reqNotifyCQ),
	cmdCreateQP:    define("create QP", (*File).createQP),
	cmdQueryQP:     define("query QP", (*File).queryQP),
	cmdModifyQP:    define("modify QP", (*File).modifyQP),
	cmdDestroyQP:   define("destroy QP", (*File).destroyQP),
	cmdPostSend:    define("post send", (*File).postSend),
	cmdAttachMcast: define("attach multicast", (*File).attachMcast),
	cmdDetachMcast: define("detach multicast", (*File).detachMcast),
	cmdCreateSRQ:   define("create SRQ", (*File).createSRQ),
	cmdModifySRQ:   define("modify SRQ", (*File).modifySRQ),
	cmdQuerySRQ:    define("query SRQ", (*File).querySRQ),
	cmdDestroySRQ:  define("destroy SRQ", (*File).destroySRQ),
	cmdCreateXSRQ:  define("create extended SRQ", (*File).createXSRQ),
}

// Sizes of the parts of structures up to the field that every version of the ABI has.
const (
	leastCreateQP     = 52
	leastModifyQP     = 112
	roomQueryDeviceEx = 184
)

// extendedMethods declares the extended commands.
var extendedMethods = [maxExtended + 1]method{
	cmdQueryDevice: extended(define("query device", (*File).exQueryDevice), size[exQueryDevice](), roomQueryDeviceEx),
	cmdCreateCQ:    extended(define("create CQ", (*File).exCreateCQ), size[exCreateCQ](), size[exCreateCQResp]()),
	cmdCreateQP:    extended(define("create QP", (*File).exCreateQP), leastCreateQP, size[exCreateQPResp]()),
	cmdModifyQP:    extended(define("modify QP", (*File).exModifyQP), leastModifyQP, size[exModifyQPResp]()),
}

// withoutContext declares that a command needs no context.
func withoutContext(m method) method {
	m.context = false
	return m
}
