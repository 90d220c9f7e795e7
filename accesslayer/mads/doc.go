// Package mads provides MAD services. Programs that send and receive management datagrams register an agent on a port,
// and share the port's QP1, or QP0, with other agents. The connection manager, clients of the subnet administrator and
// subnet managers are agents.
//
//	m, _ := mads.New(al, mads.Config{})                // once per access layer
//	a, _ := m.Register(mads.AgentConfig{Port: m.Ports()[0], Class: mad.ClassCM, Version: 2, Methods: methods})
//	a.Send(&mads.Message{To: peer, MAD: datagram})     // no response expected
//	r, _ := a.Do(ctx, &mads.Message{To: sa, MAD: get}) // repeated until the response arrives
//	a.StartDo(ctx, &mads.Message{To: sa, MAD: get}, f) // the same, and f is called with the response
//	r, _ = a.Recv(ctx)                                 // an unsolicited datagram; or AgentConfig.OnReceive
//
// # Routing
//
//	agents:  Send  Do ──────────── response ◄────┐      ┌──► OnReceive, Recv
//	           │    │ transaction ID              │      │
//	           ▼    ▼                             │      │
//	       queue ◄─ retries                responses by  requests by class,
//	           │    ▲                      transaction   version, OUI, method ──► no agent: the HCA's own
//	           │    └─ timers              ID, class,    ▲                        (CA.LocalMAD), or status 0x000c
//	           ▼       (one wheel)         peer          │
//	      128 posted                          ▲          │
//	           │        RMPP: messages in segments, both ways
//	           ▼                              └────┬─────┘
//	  QP1 (and QP0 on InfiniBand) ── one CQ ── pump: checks, addresses
//
// Send copies the datagram to registered memory, takes a cached address vector, and posts it on the caller's goroutine.
// If 128 datagrams are posted, further ones wait in a bounded queue. One goroutine for each QP handles everything
// received, and calls OnReceive; Recv returns datagrams to callers that wait.
//
// A datagram is valid with base version 1 and a class that belongs to its QP. A response (R bit, TrapRepress, or the
// bit of baseboard management) goes to the agent that the upper half of its transaction ID identifies. It must match a
// request of the same class to the peer that responds. A request goes to the agent that has registered its class,
// version, OUI and method; ClassSubnetDirected counts as ClassSubnetLID.
//
// Other requests of subnet management are executed by the agent of package sma. It calls CA.LocalMAD if the HCA has
// CapLocalMAD, answers what the driver leaves to it, protects the M_Key, and queries the HCA after a Set, so that
// clients of the access layer get port events whether the driver raises events or not. An HCA with CapHardwareSMA alone
// has answered the SMPs that it passes up; they go to agents that have registered for them, and are not answered again.
// Other requests of performance management go to CA.LocalMAD. Other Get and Set requests are answered with status
// 0x000c, or with 0x0004 if an agent has the class in another version. Everything else is dropped. Every drop is
// counted with its reason.
//
// On InfiniBand, the port's capability mask shows which classes its agents answer: communication management, SNMP,
// device and boot management, and those of vendors.
//
// # Guarantees
//
// A request ends once: with the first response, its last timeout, the end of its context, or Close of its agent. The
// timeout begins when the datagram was sent, however long it was queued. Queued datagrams are sent once and in order,
// even after an error of the QP: a QP whose send failed continues, and one in Error is moved through Reset, with its
// receives posted again. HCAs may be added and removed at any time; a port that is down keeps its agents.
//
// All times are those of the access layer's clock, so the services also run in virtual time.
//
// # RMPP
//
// An agent with RMPP sends and receives messages longer than a datagram, in the classes that have it (IBTA volume 1,
// 13.6). The times and windows are those of Linux:
//
//	first window                              one segment
//	later windows                             an eighth of the posted receives, 64
//	time for an ACK                           2 s
//	time for the next segment                 40 s, then the transfer is aborted
//	time that a finished transfer is kept     10 s
//
// Transfers that peers begin are bounded in number and in bytes, and one peer may have a quarter of each; beyond that,
// the reply is STOP. One peer may also have a quarter of the long responses that are being sent.
//
// A double-sided transfer (GetMulti of subnet administration) is two single-sided ones. The ACK of segment 0 between
// them reverses the direction. Windows are not carried over from one to the other.
//
// # From the access layer of 2003
//
//	ib_get_spl_qp with an alias QP, ib_reg_mad_svc   Manager.Register: an agent is both, and can be closed
//	ib_create_mad_pool … ib_put_mad                  none: Send copies the slice of a Message to registered memory
//	ib_send_mad                                      Agent.Send, Do, StartDo; one call per datagram
//	ib_cancel_mad                                    the context of Do and StartDo
//	QPs of type MAD                                  none: a UD QP serves
//	IB_SEND_OPT_LOCAL                                CA.LocalMAD, or a directed route without hops
//	pfn_mad_send_cb, pfn_mad_recv_cb                 results of Do and StartDo; OnReceive or Recv
package mads
