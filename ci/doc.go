// Package ci is the Channel Interface: what a driver of an InfiniBand or RoCE adapter implements, and all that the layers above
// call. It holds no behaviour. Programs that want to send data should look at the access layer first.
//
// # For implementers
//
// Implement HCA, CA, PD, CQ, QP and MR, embedding Unimplemented… in each; that is a complete RC driver. Add the optional objects
// (AV, SRQ, MW, FMR, RDD, …) as the hardware has them, and claim each in CAAttr.Caps: claims and answers are held against each
// other. Recover your own objects from arguments with As, so that they may come wrapped; return from Query those you were given.
// An argument that is no object, nil or a nil pointer (IsNil), is refused like one that is gone: As gives false for it.
//
// Objects come from their innermost parent: HCA → CA → PD → {AV, CQ, SRQ, QP → Mcast, MR, FMR, MW, RDD → EEC}, and a process's PD
// from CA → UserCA. Objects are destroyed child before parent; ResourceBusy says that the order was wrong. ci_verb_noun is
// Noun.Verb here, a create is Parent.CreateNoun, and every destroy, deregister, deallocate and detach is Destroy.
//
// A failed verb leaves everything as it was, returns no object, and returns an *Error. Beside the statuses listed at a verb, any verb may
// answer with the Invalid…Handle of its receiver (destroyed) or of an argument, InvalidParameter for an argument out of range,
// Timeout (firmware) or InvalidState (HCA in reset or removed). Unsupported comes only with a clear capability bit.
//
// # Context
//
//	thread    may block; not from a callback
//	callback  anywhere, callbacks included; does not block
//	data      as callback, concurrently on one object, without allocation
//	drain     thread; returns only when no callback of the object runs or will run; from a callback it would wait for itself
//
// # Memory model
//
// What the consumer wrote to a buffer before a post is what is sent; it may change the buffer again when the completion has been polled.
// What an HCA wrote happens before the Poll that returns the completion covering it: the receive at a SEND or a write with immediate,
// the read's or atomic's own completion. A one-sided RDMA WRITE raises no completion at its target. A consumer that spins on such
// memory must load an aligned word with sync/atomic: a driver stores the last aligned 8 bytes of a WRITE's message after all the
// others, with a release store, so a consumer that has seen a new last word also sees the rest of that message. Anything else read
// meanwhile may be torn. Remote atomics are atomic with respect to each other and to sync/atomic on the same word when
// CAAttr.Atomicity is AtomicGlobal, else only among themselves.
//
// # Sources
//
// SAS is the 2002 specification (requirement ids in brackets); numbers in parentheses are rows of the table below; IBTA is the
// InfiniBand architecture specification, volume 1, chapters 10 and 11.
//
// # Mapping
//
//	row    ci verb                              Go
//	1      open_ca                              HCA.OpenCA
//	2, 3   register/unregister_event_handler    CA.OnEvent, Destroy of its result
//	4, 8   um_open_ca, um_close_ca              CA.OpenUser, UserCA.Close
//	5-7    query_ca, modify_ca, close_ca        CA.Query, CA.Modify, CA.Close
//	9      vendor_call                          CA.VendorCall, UserCA.VendorCall
//	10     allocate_pd                          CA.AllocatePD, UserCA.AllocatePD
//	11     deallocate_pd                        PD.Destroy
//	12     alloc_rdd, dealloc_rdd               PD.AllocRDD, RDD.Destroy
//	13     create/modify/query/destroy_eec      RDD.CreateEEC, EEC.Modify, Query, Destroy
//	14-17  create/query/modify/destroy_av       PD.CreateAV, AV.Query, Modify, Destroy
//	18-21  create/modify/query/destroy_srq      PD.CreateSRQ, SRQ.Modify, Query, Destroy
//	22, 23 create_qp, create_qp_ex              PD.CreateQP (QPCreate.Flags)
//	24     create_spl_qp                        PD.CreateSpecialQP
//	25, 26 modify_qp, ndi_modify_qp             QP.Modify (state page by QPAttr.User)
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
//	-      ci_interface, ci_umv_buf             HCA and HCAInfo, UserBuffer
//	-      (DMA mapping, left to the OS)        CA.MapDMA, DMA.Destroy
//
// # Deviations
//
// A CQ comes from a PD, as the SAS says and the headers do not. An empty CQ is n == 0, not NOT_FOUND. Queries take no UserBuffer: a user
// half keeps what it learnt at create. um_call is gone: Memory says whose it is. Inline data is a byte slice, not addresses.
package ci
