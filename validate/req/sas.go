package req

import (
	"slices"
	"strings"
)

// sas has the 92 requirements of the 2002 specification, each in a sentence of the project's own. The level is MUST if
// the text states a duty of the driver or the access layer, SHOULD if it recommends, MAY if it permits, and INFO if it
// explains or concerns documents. Section SAS 0 is the abstract. If text and headers contradict each other, the
// requirement follows package ci.
var sas []Requirement

// SAS returns the requirements of the 2002 specification.
func SAS() []Requirement { return slices.Clone(sas) }

// Reasons why no case checks a requirement.
const (
	byReview   = "settled by review of the documentation, not by execution"
	permission = "a permission: nothing to violate; sma.link.once passes with and without its use"
	rationale  = "explanatory: states a reason, nothing to violate"
)

// declare adds a requirement of the specification. Its section is taken from its id.
func declare(id string, level Level, scope Scope, source, text, uncovered string) *Requirement {
	section := strings.Replace(id[:strings.LastIndexByte(id, '-')], "-", " ", 1)
	r := Requirement{
		ID:        id,
		Text:      text,
		Level:     level,
		Section:   section,
		Source:    source,
		Scope:     scope,
		Uncovered: uncovered,
	}
	sas = append(sas, r)
	return &r
}

// Abstract. (SAS 0.)
var (
	SAS0_01 = declare("SAS-0-01", Must, Driver, "all verbs",
		"The operating system reaches the HCA through the Channel Interface of IBTA volume 1, chapters 10 "+
			"and 11; names may differ from those of the verbs, but meanings may not.", "")
	SAS0_02 = declare("SAS-0-02", Must, AccessLayer, "register, deregister",
		"The driver calls the access layer for registration, hot removal and callbacks, and the access "+
			"layer calls the driver's verbs.", "")
	SAS0_03 = declare("SAS-0-03", Must, UserMode, "OpenUser, UserBuffer",
		"A vendor can offer user processes direct access to the hardware that bypasses the kernel.", "")
	SAS0_04 = declare("SAS-0-04", Info, Document, "",
		"Common services are generic; the vendor's part is only what depends on the hardware.", byReview)
	SAS0_05 = declare("SAS-0-05", Must, Driver, "all verbs",
		"The design scales and is robust: as many objects as advertised can exist and be released.", "")
)

// Deviations from IBTA. (SAS 2.1.)
var (
	SAS2_1_01 = declare("SAS-2.1-01", Must, Driver, "create verbs of a PD",
		"If IBTA passes several related handles, a verb takes only the innermost one, and the object belongs "+
			"to that handle's CA.", "")
	SAS2_1_02 = declare("SAS-2.1-02", Must, Driver, "query verbs",
		"The consumer can track which CA a PD belongs to; only queries of AV, QP, MR and MW return a PD.", "")
	SAS2_1_03 = declare("SAS-2.1-03", Info, Driver, "",
		"The provider need not check a CA handle against a PD handle again.", rationale)
	SAS2_1_04 = declare("SAS-2.1-04", Must, Driver, "CreateCQ",
		"A CQ is created from a PD; creation from a destroyed PD returns InvalidPDHandle.", "")
	SAS2_1_05 = declare("SAS-2.1-05", Must, Driver, "AllocRDD",
		"A reliable datagram domain is allocated from a PD; a driver that does not claim the capability "+
			"returns Unsupported.", "")
	SAS2_1_06 = declare("SAS-2.1-06", Must, Driver, "AllocatePD, CreateCQ",
		"A process has a valid PD before it creates a CQ.", "")
	SAS2_1_07 = declare("SAS-2.1-07", Must, Driver, "CreateQP, CreateCQ",
		"One CQ serves QPs of different PDs.", "")
	SAS2_1_08 = declare("SAS-2.1-08", Must, Driver, "CreateQP",
		"The PD of a CQ is its owner; it is not checked against the PD of a QP.", "")
	SAS2_1_09 = declare("SAS-2.1-09", Must, Driver, "CreateCQ",
		"A completion callback receives the context given at creation, not the handle.", "")
	SAS2_1_10 = declare("SAS-2.1-10", Must, Driver, "CreateQP, CreateCQ, CreateSRQ, OpenCA",
		"An asynchronous event carries the context given when its resource was created.", "")
	SAS2_1_11 = declare("SAS-2.1-11", Must, Driver, "all verbs",
		"Handles are opaque and private to the driver; several HCAs can be in use at the same time.", "")
	SAS2_1_12 = declare("SAS-2.1-12", Must, Driver, "CreateCQ, CreateQP",
		"A callback can be handled with its context alone, even if it comes before the create call has "+
			"returned.", "")
	SAS2_1_13 = declare("SAS-2.1-13", Must, Driver, "LocalMAD",
		"Subnet management is split: the access layer implements the protocol, and the driver acts on the "+
			"hardware through a generic local MAD verb.", "")
	SAS2_1_14 = declare("SAS-2.1-14", Must, Driver, "LocalMAD",
		"A Set of PortInfo.PortState through the local MAD verb changes the state that a query returns.", "")
	SAS2_1_15 = declare("SAS-2.1-15", Must, Driver, "Query",
		"The attributes report whether the HCA has its management agent in hardware, and agree with the local "+
			"MAD verb.", "")
	SAS2_1_16 = declare("SAS-2.1-16", May, Driver, "LocalMAD",
		"A driver whose hardware has the management agent need not implement the local MAD verb.", "")
	SAS2_1_17 = declare("SAS-2.1-17", Must, AccessLayer, "PnP",
		"If the agent is in the access layer, consumers are notified of a change of LID by an event.", "")
	SAS2_1_18 = declare("SAS-2.1-18", May, Driver, "events",
		"If the agent is in hardware, its packets may be passed up after they are processed, so that managers "+
			"see them.", permission)
	SAS2_1_19 = declare("SAS-2.1-19", Should, Driver, "EventLIDChange",
		"The HCA reports a change of LID by an event, so that consumers need not poll.", "")
	SAS2_1_20 = declare("SAS-2.1-20", Should, Driver, "port events",
		"The HCA reports that a port went from Down to Init, because a subnet manager needs this.", "")
	SAS2_1_21 = declare("SAS-2.1-21", Must, Driver, "PostSend, PostRecv, SRQ.PostRecv",
		"Post verbs take a list of requests and keep its order.", "")
	SAS2_1_22 = declare("SAS-2.1-22", Must, Driver, "Poll",
		"Poll returns several completions in one call.", "")
	SAS2_1_23 = declare("SAS-2.1-23", Must, Driver, "post verbs",
		"If posting a list fails part way, the caller learns which request failed first: those before it are "+
			"posted, it and those after it are not.", "")
	SAS2_1_24 = declare("SAS-2.1-24", Must, UserMode, "proxy",
		"Without bypass, a list of requests crosses the process boundary in one call.", "")
	SAS2_1_25 = declare("SAS-2.1-25", Info, UserMode, "proxy",
		"Grouping requests saves time even without bypass.", "")
	SAS2_1_26 = declare("SAS-2.1-26", Must, Driver, "OpenCA",
		"A device is identified by its GUID, not by a path.", "")
	SAS2_1_27 = declare("SAS-2.1-27", Must, Driver, "OpenCA",
		"OpenCA of an unknown GUID fails.", "")
	SAS2_1_28 = declare("SAS-2.1-28", Must, Driver, "destroy verbs",
		"Destroy verbs are not called from callbacks; a driver need not support that, but must not corrupt "+
			"other objects.", "")
	SAS2_1_29 = declare("SAS-2.1-29", Must, AccessLayer, "destroy",
		"The access layer cleans up on its own thread.", "")
	SAS2_1_30 = declare("SAS-2.1-30", Must, Driver, "destroy verbs",
		"Destroy returns only when no callback of the object is running or will run.", "")
	SAS2_1_31 = declare("SAS-2.1-31", Must, AccessLayer, "destroy",
		"The access layer offers its clients asynchronous destroy, whose callback is called once and last.", "")
)

// Interfaces, loading and unloading. (SAS 2.2.)
var (
	SAS2_2_01 = declare("SAS-2.2-01", Must, Driver, "all verbs",
		"The driver has a function for every verb derived from IBTA; a mandatory one never returns Unsupported.", "")
	SAS2_2_02 = declare("SAS-2.2-02", Must, Driver, "OpenCA, Query",
		"The driver can be opened and its capabilities queried.", "")
	SAS2_2_03 = declare("SAS-2.2-03", Info, Document, "load",
		"The driver is a loadable module that depends on the access layer.", byReview)
	SAS2_2_04 = declare("SAS-2.2-04", Info, Document, "probe",
		"A PCI HCA's driver registers with the PCI layer by vendor and device id.", byReview)
	SAS2_2_05 = declare("SAS-2.2-05", Must, AccessLayer, "Deregister",
		"The driver notifies the access layer when it goes away, by removal or by unloading.", "")
	SAS2_2_06 = declare("SAS-2.2-06", Must, AccessLayer, "Deregister",
		"The access layer has dropped every reference to the HCA when deregister returns.", "")
	SAS2_2_07 = declare("SAS-2.2-07", Must, AccessLayer, "OpenCA, Close",
		"Reference counts protect against unloading, and cleanup never fails.", "")
	SAS2_2_08 = declare("SAS-2.2-08", Must, Driver, "OpenCA, Close",
		"Each open takes a reference that its close releases; a second open at the same time is ResourceBusy.", "")
	SAS2_2_09 = declare("SAS-2.2-09", Must, AccessLayer, "Deregister",
		"Unloading has an order: deregister, close the CA, no references are left, stop the hardware.", "")
	SAS2_2_10 = declare("SAS-2.2-10", Must, AccessLayer, "Register",
		"The driver registers when its hardware works: verbs succeed when they are called from Register.", "")
)

// Theory of operation. (SAS 2.3.)
var (
	SAS2_3_01 = declare("SAS-2.3-01", Must, AccessLayer, "Register",
		"The HCA, its event queue and its translation tables are ready before the driver registers.", "")
	SAS2_3_02 = declare("SAS-2.3-02", Must, AccessLayer, "Register",
		"The driver registers once for each HCA GUID; a second registration is rejected.", "")
	SAS2_3_03 = declare("SAS-2.3-03", Must, Driver, "OpenCA, Query",
		"A query returns the resource counts, and they agree with one another.", "")
	SAS2_3_04 = declare("SAS-2.3-04", Must, Driver, "OpenCA",
		"Events that belong to no object, such as port events, reach the callback given to OpenCA.", "")
	SAS2_3_05 = declare("SAS-2.3-05", Info, Driver, "",
		"PD, QP, CQ and connection exist before data is transferred.", rationale)
	SAS2_3_06 = declare("SAS-2.3-06", Must, Driver, "AllocatePD, CreateQP",
		"A QP is created in a PD allocated before, and a query of the QP returns that PD.", "")
	SAS2_3_07 = declare("SAS-2.3-07", Must, Driver, "RegisterMR, CreateQP",
		"Different PDs protect clients from each other, at both ends.", "")
	SAS2_3_08 = declare("SAS-2.3-08", Must, Driver, "AllocRDD",
		"Reliable datagram needs a domain; a driver that does not claim the capability returns Unsupported.", "")
	SAS2_3_09 = declare("SAS-2.3-09", Must, Driver, "CreateCQ, CreateQP",
		"A CQ is associated with the work queues of a QP when the QP is created.", "")
	SAS2_3_10 = declare("SAS-2.3-10", Must, Driver, "CreateQP",
		"CreateQP takes CQs, PD and sizes, and provides at least the sizes requested.", "")
	SAS2_3_11 = declare("SAS-2.3-11", Must, Driver, "Modify",
		"Modify takes a QP through its states while a connection is established.", "")
	SAS2_3_12 = declare("SAS-2.3-12", Must, Driver, "register verbs",
		"Every buffer is registered before use; an unknown key is a local protection error.", "")
	SAS2_3_13 = declare("SAS-2.3-13", Must, Driver, "RegisterMR",
		"Memory is registered by virtual address.", "")
	SAS2_3_14 = declare("SAS-2.3-14", Must, Driver, "RegisterPMR",
		"Memory is registered by physical pages.", "")
	SAS2_3_15 = declare("SAS-2.3-15", Must, Driver, "RegisterSMR",
		"A registered region is shared with another PD, and both keys reach the same bytes.", "")
	SAS2_3_16 = declare("SAS-2.3-16", Must, Driver, "CreateMW, BindMW",
		"A window is allocated, and bound to a region later by a work request.", "")
	SAS2_3_17 = declare("SAS-2.3-17", Must, Driver, "post verbs",
		"With any mechanism of registration, each buffer in a work request is checked against one.", "")
	SAS2_3_18 = declare("SAS-2.3-18", Must, Driver, "PostSend, PostRecv",
		"There is one verb to post work to the send queue and one for the receive queue.", "")
	SAS2_3_19 = declare("SAS-2.3-19", Must, Driver, "PostSend",
		"A post verb queues the work, notifies the hardware and returns; it does not wait for the peer.", "")
	SAS2_3_20 = declare("SAS-2.3-20", Must, Driver, "Notify",
		"A completion on an armed CQ causes one callback; on a CQ that is not armed it causes none.", "")
	SAS2_3_21 = declare("SAS-2.3-21", Must, Driver, "events",
		"Events of one object arrive in the order in which the HCA generated them.", "")
	SAS2_3_22 = declare("SAS-2.3-22", Must, Driver, "Poll",
		"A completion callback may poll its CQ.", "")
	SAS2_3_23 = declare("SAS-2.3-23", Must, Driver, "Poll",
		"Poll translates a private completion into every field of the generic one.", "")
	SAS2_3_24 = declare("SAS-2.3-24", Must, Driver, "MR.Destroy",
		"After its completion, memory may be deregistered, and its table entries are reused.", "")
	SAS2_3_25 = declare("SAS-2.3-25", Must, Driver, "RegisterMR",
		"Memory that is registered once may be used any number of times.", "")
	SAS2_3_26 = declare("SAS-2.3-26", Must, Driver, "destroy verbs",
		"Resources are released child before parent; the wrong order returns ResourceBusy and changes "+
			"nothing.", "")
	SAS2_3_27 = declare("SAS-2.3-27", Must, Driver, "QP.Destroy, CreateQP",
		"The resources of a destroyed QP are available to later ones.", "")
	SAS2_3_28 = declare("SAS-2.3-28", Must, Driver, "RegisterMR",
		"Memory may be registered and deregistered for every transfer without losing resources.", "")
)

// User mode. (SAS 2.4.)
var (
	SAS2_4_01 = declare("SAS-2.4-01", Must, UserMode, "OpenUser",
		"Direct access from user mode is permitted and supported.", "")
	SAS2_4_02 = declare("SAS-2.4-02", Must, UserMode, "CreateCQ",
		"Queue memory may be the process's own or the driver's, mapped.", "")
	SAS2_4_03 = declare("SAS-2.4-03", Info, UserMode, "CreateCQ",
		"Memory of the process is preferred, because it is charged to the process.", "")
	SAS2_4_04 = declare("SAS-2.4-04", Must, UserMode, "create",
		"Step 1: the application calls the user access layer's create.", "")
	SAS2_4_05 = declare("SAS-2.4-05", Must, UserMode, "pre hook",
		"Step 2: the user library's pre-create hook, if there is a library, prepares bypass and a private "+
			"buffer.", "")
	SAS2_4_06 = declare("SAS-2.4-06", Must, UserMode, "proxy",
		"Step 3: the proxy copies the private buffer before it makes the call; a bad address is rejected.", "")
	SAS2_4_07 = declare("SAS-2.4-07", Must, UserMode, "proxy",
		"Step 4: the proxy calls the access layer's create.", "")
	SAS2_4_08 = declare("SAS-2.4-08", Must, UserMode, "UserBuffer",
		"Step 5: the driver is called with the copy of the buffer.", "")
	SAS2_4_09 = declare("SAS-2.4-09", Must, UserMode, "CreateCQ",
		"Step 6: the driver pins the user memory that the buffer names, and creates the object.", "")
	SAS2_4_10 = declare("SAS-2.4-10", Must, UserMode, "proxy",
		"Step 7: the access layer tracks the object; its handle is valid only in that process.", "")
	SAS2_4_11 = declare("SAS-2.4-11", Must, UserMode, "proxy",
		"Step 8: the proxy keeps state for asynchronous events, so that they reach the right process and context.", "")
	SAS2_4_12 = declare("SAS-2.4-12", Must, UserMode, "post hook",
		"Step 9: the post-create hook is always called; after a failure it receives the status.", "")
	SAS2_4_13 = declare("SAS-2.4-13", Must, UserMode, "create",
		"Step 10: the user access layer creates a handle and returns it.", "")
	SAS2_4_14 = declare("SAS-2.4-14", Must, UserMode, "post hook",
		"Buffers that the kernel allocated are mapped in the post-create hook.", "")
	SAS2_4_15 = declare("SAS-2.4-15", Must, UserMode, "proxy",
		"The end of a process, for whatever cause, is the only trigger of its cleanup, at every step.", "")
	SAS2_4_16 = declare("SAS-2.4-16", Must, UserMode, "proxy",
		"A vendor without bypass works: posts and polls cross the boundary.", "")
	SAS2_4_17 = declare("SAS-2.4-17", Must, UserMode, "UserBuffer",
		"The private buffer is opaque to every layer between the driver and its user library.", "")
	SAS2_4_18 = declare("SAS-2.4-18", Info, Document, "",
		"Further advantages of the dialogue; the text of the source ends here.", byReview)
)
