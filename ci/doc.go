// Package ci is the Channel Interface: the interfaces that a driver of an InfiniBand or RoCE adapter implements, and
// that the layers above call. It has no behaviour of its own. Programs that connect and send data usually import
// accesslayer or accesslayer/rdmacm instead, which run on any driver; docs/api.md says which package serves which
// purpose.
//
// # For implementers
//
// Implement HCA, CA, PD, CQ, QP and MR, and embed the Unimplemented type of each; that is a complete RC driver. Add the
// optional objects (AV, SRQ, MW, FMR, RDD, …) that the hardware supports, and claim each of them in CAAttr.Caps. The
// certifier checks that claims and results agree. Recover your own objects from arguments with As, since they may be
// wrapped; return from Query the objects that were passed to you. A nil object, or a nil pointer in an interface
// (IsNil), is rejected in the same way as a destroyed one; As returns false for both.
//
// Every object comes from its innermost parent: HCA → CA → PD → {AV, CQ, SRQ, QP → Mcast, MR, FMR, MW, RDD → EEC}; the
// PD of a process comes from CA → UserCA. Objects are destroyed child before parent; in another order, Destroy returns
// ResourceBusy. A verb ci_verb_noun is called Noun.Verb here, and a create is Parent.CreateNoun. Every close, destroy,
// deregister, deallocate and detach is Destroy.
//
// A failed verb changes nothing, returns no object, and returns an *Error. In addition to the statuses listed at a
// verb, any verb may return the Invalid…Handle status of its receiver (destroyed) or of an argument, InvalidParameter
// for an argument out of range, Timeout (firmware), or InvalidState (HCA in reset or removed). Unsupported is returned
// only if the verb's capability bit is clear.
//
// # Context
//
// The word after "Context:" at a verb states where it may be called:
//
//	thread    may block; must not be called from a callback
//	callback  may be called anywhere, in callbacks too; does not block
//	data      as callback, and concurrently on one object; does not allocate
//	drain     as thread; returns when no callback of the object runs or will run; called from one, it waits for itself
//
// # Memory model
//
// A send transmits what the consumer wrote to the buffer before the post. The consumer may change the buffer again when
// it has polled the completion. What an HCA wrote happens before the Poll that returns the completion covering it: the
// receive for a SEND or for a write with immediate, or the completion of the read or atomic itself. A one-sided RDMA
// WRITE makes no completion at its target. A consumer that spins on such memory must load an aligned word with
// sync/atomic: a driver stores the last aligned 8 bytes of a WRITE's message after all the others, with a release
// store, so that a consumer that has loaded a new last word also sees the rest of that message. Anything else that is
// read meanwhile may be torn. Remote atomics are atomic with respect to each other and to sync/atomic on the same word
// if CAAttr.Atomicity is AtomicGlobal, else only among themselves.
//
// # Names of constants
//
// A constant begins with a prefix that names its object or type: Cap (Caps), Port and PortField and PortCap, GID, Link,
// Atomic, Event, MTU, PD, SRQField, MRField, MWType, QP (types, states, flags and QPField), APM, Op (SendOp), Send
// (SendFlags), WC (operations, statuses and flags), Notify. Three sets are the words of IBTA and have none: the values
// of Status (NotFound), the services RC, UC, RD, UD, RawIPv6 and RawEther, and the rights of Access (RemoteRead).
//
// # Sources
//
// SAS is the 2002 specification; its requirement ids are in brackets. Numbers in parentheses are rows of the table
// below. IBTA is the InfiniBand architecture specification, volume 1, chapters 10 and 11.
//
// # Mapping
//
//	row    ci verb                              Go
//	1      open_ca                              HCA.OpenCA
//	2, 3   register/unregister_event_handler    CA.OnEvent, Destroy of its result
//	4, 8   um_open_ca, um_close_ca              CA.OpenUser, UserCA.Destroy
//	5-7    query_ca, modify_ca, close_ca        CA.Query, CA.Modify, CA.Destroy
//	9      vendor_call                          CA.VendorCall, UserCA.VendorCall
//	10     allocate_pd                          CA.AllocatePD, UserCA.AllocatePD
//	11     deallocate_pd                        PD.Destroy
//	12     alloc_rdd, dealloc_rdd               PD.AllocRDD, RDD.Destroy
//	13     create/modify/query/destroy_eec      RDD.CreateEEC, EEC.Modify, Query, Destroy
//	14-17  create/query/modify/destroy_av       PD.CreateAV, AV.Query, Modify, Destroy
//	18-21  create/modify/query/destroy_srq      PD.CreateSRQ, SRQ.Modify, Query, Destroy
//	22, 23 create_qp, create_qp_ex              PD.CreateQP (QPCreate.Flags)
//	24     create_spl_qp                        PD.CreateSpecialQP
//	25, 26 modify_qp, ndi_modify_qp             QP.Modify (QPAttr.User: data of the user library)
//	27, 28 query_qp, destroy_qp                 QP.Query, QP.TimeWait + Destroy
//	29, 30 create_cq, create_cq_ex              PD.CreateCQ (CQCreate.Affinity)
//	31-34  resize/modify/query/destroy_cq       CQ.Resize, Modify, Query, Destroy
//	35-37  register_mr, _mr_remap, _mdl         PD.RegisterMR (MRCreate.IOVA, Memory.Pin)
//	38     register_pmr                         PD.RegisterPMR, addresses from CA.MapDMA
//	39-41  query_mr, modify_mr, modify_pmr      MR.Query, Modify, ModifyPMR
//	42, 43 register_smr, deregister_mr          PD.RegisterSMR, MR.Destroy
//	44, 45 alloc/map_phys_mlnx_fmr              PD.AllocFMR, FMR.Map
//	46, 47 unmap/dealloc_mlnx_fmr               PD.UnmapFMRs, FMR.Destroy
//	48     alloc_fast_reg_mr                    PD.AllocFastRegMR
//	49, 50 alloc/free_fast_reg_page_list        none: FastReg.Pages is a slice, copied at post
//	51, 52 create_mw, query_mw                  PD.CreateMW, MW.Query
//	53, 54 bind_mw, destroy_mw                  QP.BindMW (type 2: OpBindMW), MW.Destroy
//	55, 56 post_send, post_recv                 QP.PostSend, QP.PostRecv
//	57     post_srq_recv                        SRQ.PostRecv
//	58     peek_cq                              CQ.Peek
//	59, 60 poll_cq, poll_cq_array               CQ.Poll (WC.Context)
//	61, 62 enable_cq_notify, enable_ncomp_…     CQ.Notify, CQ.NotifyAfter
//	63, 64 attach_mcast, detach_mcast           QP.AttachMcast, Mcast.Destroy
//	65     local_mad                            CA.LocalMAD
//	66     rdma_port_get_transport              PortAttr.Link, no verb
//	67     get_sl_for_ip_port                   CA.SLForIP
//	-      ib_register_ca, ib_deregister_ca     Registrar.Register, Deregister
//	-      ci_interface, ci_umv_buf             HCA and HCAInfo, UserBuffer (field User)
//	-      uvp_interface_t (ib_uvp.h)           UserLibrary
//	-      (DMA mapping, left to the OS)        CA.MapDMA, DMA.Destroy
//
// # Deviations
//
// A CQ comes from a PD, as in the SAS, and not from the CA, as in the headers. For an empty CQ, Poll returns 0, not
// NOT_FOUND. Private data of a user library is a field of the create and modify arguments. Queries have none: a user
// library keeps what it received at create. There is no um_call: a Memory states whose it is. Inline data is a byte
// slice, not a list of addresses.
package ci
