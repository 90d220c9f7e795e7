// Package accesslayer connects drivers and consumers. Drivers register their HCAs with it. Clients find registered
// HCAs, share them, and create objects that are tracked: destroying an object destroys everything below it, in the
// right order, and an HCA can be removed at any time.
//
//	al := accesslayer.New(accesslayer.Config{})
//	al.Register(hca)                                  // by the driver; al is a ci.Registrar
//	client, _ := al.Open(accesslayer.ClientConfig{})  // by the client
//	ca, _ := client.OpenCA(guid, nil)
//	pd, _ := ca.NewPD(ci.PDNormal)
//	cq, _ := pd.NewCQ(ci.CQCreate{Size: 64}, accesslayer.CQHandler{})
//	qp, _ := pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq}, nil)
//	n, _ := cq.Wait(ctx, wc)
//	client.Close()                                    // destroys all objects
//
// # Objects
//
// The tree is AL → Client → {CA, PnP}, CA → {PD, UserCA → PD, DMA, EventHandler}, PD → {AV, CQ → Pump, SRQ, QP → Mcast,
// MR, MW, FMR, FMRPool, FastRegPool, RDD → EEC}. Objects also use objects elsewhere in the tree: a QP its CQs, SRQ and
// RDD, a shared region its source, a CA the Adapter.
//
// An object that argument structures of package ci take implements the interface of its kind: *CQ is a ci.CQ, *QP a
// ci.QP, *MR a ci.MR. The containers *CA, *UserCA, *PD and *RDD do not. So each container has one set of creators,
// whose names begin with New and which return the types of this package.
//
// Code that is written against package ci uses a plain view of the same objects. Client.HCA returns a ci.HCA, and the
// method CI of a container returns the container as its ci interface. Objects that a view creates are objects of this
// package; ci.As recovers the typed object from an interface value. Queries return views, such as the PD of ci.QPAttr.
// The views of a strict client pass the certifier: ddk-validate run --through accesslayer.
//
// Verbs of the data path (PostSend, PostRecv, BindMW, Poll, Notify, Peek, FMR.Map) go straight to the driver and cost
// nothing extra. The driver recovers its own objects from arguments with ci.As. Other verbs hold a reference, so that
// the object is not destroyed while they run.
//
// # Waiting for completions
//
// Begin with CQ.Wait. It sleeps until there are completions, and returns them on the goroutine of the caller. These are
// the alternatives:
//
//   - CQ.Poll returns at once. It is for programs that do other work meanwhile.
//   - Poller spins before it sleeps, which saves microseconds and uses a processor.
//   - Pump calls a function with the completions on a goroutine of its own. It is for programs built on callbacks.
//   - CQHandler.OnCompletion is the driver's callback. It must not block.
//
// A CQ is consumed in one of these ways at a time. Connections of package rdmacm need none of them.
//
// # Errors
//
// The same mistake has the same status in every verb:
//
//	no HCA has the GUID                                     NotFound
//	the HCA has no such port                                InvalidPort
//	an object is destroyed, or of another AL or HCA         its Invalid…Handle
//	a create below an object whose destruction has begun    InvalidState
//
// If destruction is the reason, errors.Is(err, ErrClosed) is true as well.
//
// # Regions for many transfers
//
// Use NewFastRegPool for transfers whose memory changes: a work request registers the memory, in order with the
// requests that use it. NewFMRPool is for consumers that were written for FMRs (SAS-2.3 names their verbs). It needs a
// driver with FMRs, and its keys stay valid until a flush. The pools share no code: a verb maps an FMR and unmaps a
// batch of them, while work requests of the consumer register and invalidate a region of the other pool.
//
// # Destroying
//
// Destroy ends an object and waits. It must not be called from a callback of the object or of one below it. A second
// Destroy also waits, and returns the object's Invalid…Handle with ErrClosed, so a deferred Destroy is harmless.
// DestroyAsync does not wait, and may be called from callbacks. AL and Client are not objects of an HCA: they end with
// Close, which is idempotent.
//
// A destruction has these steps. [SAS-2.1-28 … -31]
//
//  1. Verbs of the object return ErrClosed from now on.
//  2. The children are destroyed: windows first, then the others, newest first, and DMA mappings last.
//  3. When no verb and no callback of the object is in progress, the driver's destroy runs once, on a goroutine of the
//     access layer.
//  4. The callback of DestroyAsync runs, as the last callback of the object.
//
// Destroying a CQ destroys the QPs that use it. Destroying an SRQ, an RDD or a region that other objects use fails. If
// the driver refuses a destroy, it is repeated several times. Then the object is given up: the error is logged,
// returned and passed to Config.OnDestroyError.
//
// A client with ClientConfig.Strict has the rules of package ci instead: Destroy of an object with children or users
// fails with ResourceBusy, and nothing is destroyed with it.
//
// # Callbacks
//
// Asynchronous events are queued, without bound, and delivered on goroutines of the access layer: one at a time and in
// order for each object, independently of other objects. Callbacks may block, which delays only those of the same
// object. Callbacks get the object as an argument, since they may run before its create has returned. OnCompletion is
// the exception: it runs where the driver calls it, and must not block. PnPConfig describes the callbacks of PnP.
//
// # From the access layer of 2003
//
//	ib_open_al, ib_close_al                      AL.Open, Client.Close, CloseAsync
//	ib_register_ca, ib_deregister_ca             AL.Register, AL.Deregister
//	ib_open_ca, ib_close_ca                      Client.OpenCA, CA.Destroy
//	ib_query_ca, ib_modify_ca, ib_ci_call        CA.Query, Modify, VendorCall
//	ib_query_ca_by_guid, ib_get_ca_guids         AL.Adapter + Adapter.Attr, AL.Adapters
//	ib_get_ca_by_gid, ib_get_port_by_gid         AL.AdapterByGID; ib_get_guid: Adapters, Attr
//	ib_alloc_pd … ib_dealloc_pd                  CA.NewPD, PD.Destroy
//	ib_create_av … ib_destroy_av                 PD.NewAV, AV.Query, Modify, Destroy
//	ib_create_srq … ib_post_srq_recv             PD.NewSRQ, SRQ
//	ib_create_qp, ib_get_spl_qp, …               PD.NewQP, NewSpecialQP, QP
//	ib_init_dgrm_svc, ib_force_apm               QP.InitDatagram, ForceAPM
//	ib_create_cq … ib_rearm_n_cq                 PD.NewCQ, CQ; Wait, Poller, Pump
//	ib_reg_mem … ib_destroy_mw                   PD.NewMR, NewPMR, NewSMR, NewFastRegMR, NewMW; MR, MW; QP.BindMW;
//	                                             NewFastRegPool
//	mlnx_*_fmr, mlnx_*_fmr_pool                  PD.NewFMR, NewFMRPool; FMR, FMRPool
//	ib_reg_pnp, ib_dereg_pnp                     Client.RegisterPnP (classes CA and port), PnP.Destroy
//	ib_local_mad                                 CA.LocalMAD
//	attach_mcast of ib_join_mcast                QP.AttachMcast
//	destroy callbacks, ib_sync_destroy           DestroyAsync, Destroy
//	ib_create_mad_pool, ib_reg_mad_pool, …       package mads: none; a message is a slice
//	ib_get_mad, ib_put_mad, …                    none
//	alias QPs, QPs of type MAD, ib_reg_mad_svc   mads.Manager.Register: an agent
//	ib_send_mad, ib_cancel_mad                   mads.Agent: Send, Do; its context
//	ib_cm_listen, ib_cm_cancel                   package cm: Service.Listen, Listener.Close
//	ib_cm_req, ib_cm_rtu                         cm.Service.Connect (UD: Lookup), Conn.Confirm; Modify moves the QP
//	ib_cm_rep                                    cm.Conn.Accept (UD: LookupRequest.Accept); receives are posted before
//	ib_cm_rej, ib_cm_mra, ib_cm_handoff          cm.Conn.Reject, Delay, Handoff
//	ib_cm_lap, ib_cm_apr                         cm.Conn.LoadAlternate, AnswerAlternate, AlternateAttr
//	ib_cm_dreq, ib_cm_drep                       cm.Conn.Disconnect, AnswerDisconnect
//	CM callbacks                                 results of these; cm.Conn.Next, OnEvent
//
//	ib_query, ib_get_query_*                     package sa: Client.Path, Attribute.Get, Table; rdmacm uses it
//	ib_join_mcast, ib_leave_mcast                sa.Client.NewMembership, and QP.AttachMcast; cmid.ID.Join does both
//	ib_reg_svc, ib_subscribe                     sa.Client.NewService, NewSubscription
//
// docs/access-layer.md has all functions, and the reasons for those that do not exist: I/O controllers (ib_create_ioc
// …, PnP classes IOU and IOC), and regions shared by an id (ib_reg_shmid). Registration opens and queries the CA and
// announces client reregistration. It creates no PD and no special QPs: mads.Manager, which is a client, creates them.
//
// # Deviations
//
// Like the original, Register does not wait for clients' callbacks. The original freed an object after a timeout
// although references were left. Here the call returns ci.Timeout, names the objects that it waits for, and the object
// stays.
package accesslayer
