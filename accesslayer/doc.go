// Package accesslayer stands between drivers and everybody else. Drivers register their HCAs with it; clients find HCAs here, share them,
// and make objects that are tracked: destroying one takes all that is below it, in the right order, from any context, and an HCA can
// be pulled at any time.
//
//	al := accesslayer.New(accesslayer.Config{})
//	al.Register(hca)                                  // what a driver does; al is a ci.Registrar
//	client, _ := al.Open(accesslayer.ClientConfig{})  // what a client does
//	ca, _ := client.OpenCA(guid, nil)
//	pd, _ := ca.NewPD(ci.PDNormal)
//	cq, _ := pd.NewCQ(ci.CQCreate{Size: 64}, accesslayer.CQHandler{})
//	qp, _ := pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq}, nil)
//	n, _ := cq.Wait(ctx, wc)
//	client.Close()                                    // destroys all of it
//
// # Objects
//
// The tree is AL → Client → {CA, PnP}, CA → {PD, UserCA → PD, DMA, EventHandler}, PD → {AV, CQ → Pump, SRQ, QP → Mcast, MR, MW, FMR,
// FMRPool, FastRegPool, RDD → EEC}. Sideways, a QP uses its CQs, SRQ and RDD, a shared region the one it was made from, a CA the Adapter.
//
// An object that argument structures of package ci take implements the interface of its kind: *CQ is a ci.CQ, *QP a ci.QP, *MR a ci.MR. The
// containers *CA, *UserCA, *PD and *RDD do not, so that each has one set of creators, those that begin with New and return the types of this
// package. Code that is written against ci gets a plain view of the same objects: Client.HCA returns a ci.HCA, and the method CI of a container
// returns the container as its ci interface. Objects that a view creates are objects of this package; ci.As recovers the typed object
// from an interface value. Queries return views, such as the PD of ci.QPAttr.
//
// Verbs of the data path (PostSend, PostRecv, BindMW, Poll, Notify, Peek, FMR.Map) go straight to the driver and cost nothing extra. The driver
// recovers its own objects from arguments with ci.As. Other verbs hold a reference, so that the object is not destroyed while they run.
//
// # Waiting for completions
//
// CQ.Wait is the one to begin with: it sleeps until there are completions and returns them, on the goroutine of the caller. CQ.Poll returns at once; it
// is for programs that have something else to do. Poller spins before it sleeps, which saves microseconds and costs a processor. Pump calls a function with
// the completions on a goroutine of its own, for programs that are built on callbacks. CQHandler.OnCompletion is the driver's callback itself: it
// must not block. One CQ is consumed in one of these ways at a time. Connections of package rdmacm need none of them.
//
// # Errors
//
// A GUID that no HCA has is NotFound, a port that an HCA does not have InvalidPort. An object that is destroyed, or belongs to another access layer or HCA, is
// the Invalid…Handle of its kind; creating below a destroyed object is InvalidState. Where destruction is the reason, the error is ErrClosed as well.
//
// # Regions for many transfers
//
// NewFastRegPool is for all transfers whose memory changes: registering is a work request, in order with those that use the memory. NewFMRPool is
// for consumers that were written for FMRs (SAS-2.3 names their verbs): it works on drivers that have FMRs, and its keys stay valid until
// a flush. New code uses FastRegPool. They share no code, because what they have in common is a free list: an FMR is mapped by a verb and
// unmapped in batches, a fast registration is mapped and unmapped by work requests of the consumer.
//
// # Destroying
//
// Destroy ends an object, and waits; it must not be called from a callback of the object or of one below it. A second Destroy also waits, and returns the
// object's Invalid…Handle with ErrClosed, so a deferred Destroy is harmless. DestroyAsync does not wait, and may be called
// anywhere, also in callbacks. AL and Client are not objects of an HCA: they end with Close, which is idempotent. Whatever began
// the destruction: verbs of the object return ErrClosed from then on; its children are destroyed, windows first, then newest
// first, DMA mappings last; when no verb and no callback of it is in progress, the driver's destroy runs, once, on a goroutine of the access layer; then
// the client's callback, the last of all. [SAS-2.1-28 … -31] A CQ takes the QPs that use it along; an SRQ, an RDD and a region that others
// use are refused. If the driver refuses, it is asked again a few times, then the object is given up: the error is logged, returned and
// handed to Config.OnDestroyError.
//
// # Callbacks
//
// Asynchronous events are queued, without bound, and delivered on goroutines of the access layer: one at a time and in order for each
// object, independently of others. Callbacks may block, and hold up only their own object. They get the object, which its create may
// not have returned yet. OnCompletion is the exception: it runs where the driver calls it, and may not block. Callbacks of PnP are described at
// PnPConfig.
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
//	ib_reg_mem … ib_destroy_mw                   PD.NewMR, NewPMR, NewSMR, NewFastRegMR, NewMW; MR, MW; QP.BindMW; NewFastRegPool
//	mlnx_*_fmr, mlnx_*_fmr_pool                  PD.NewFMR, NewFMRPool; FMR, FMRPool
//	ib_reg_pnp, ib_dereg_pnp                     Client.RegisterPnP (classes CA and port), PnP.Destroy
//	ib_local_mad                                 CA.LocalMAD
//	attach_mcast of ib_join_mcast                QP.AttachMcast
//	destroy callbacks, ib_sync_destroy           DestroyAsync, Destroy
//	ib_create_mad_pool, ib_reg_mad_pool, …       package mads: none; a message is a slice
//	ib_get_mad, ib_put_mad, …                    none, either
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
//	ib_query (paths, multicast members)          package sa: Client.Path, Do; package rdmacm resolves addresses with it
//	ib_join_mcast, ib_leave_mcast                sa.Client.Join, Leave, and QP.AttachMcast; rdmacm.ID.Join does both
//
// Not there: service records and subscriptions of the SA, and I/O controllers (ib_create_ioc …, PnP classes IOU and IOC). Regions shared by an id
// (ib_reg_shmid) were never finished in the original. Registration opens and queries the CA and announces client reregistration; it creates no PD and no
// special QPs of its own, as mads.Manager, a client like any other, does that.
//
// # Deviations
//
// Register does not wait for clients' callbacks, as the original did not. Nothing is ever forced: the original freed an object after a
// timeout with references left; here the wait ends with ci.Timeout and names what is waited for, and the object stays.
package accesslayer
