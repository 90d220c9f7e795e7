// Package mads gives MAD services: who wants to send and receive management datagrams registers an agent on a port, and shares the
// port's QP1, or QP0, with the others. The connection manager is such an agent, so are clients of the subnet administrator, and subnet
// managers.
//
//	m, _ := mads.New(al, mads.Config{})                // once per access layer
//	a, _ := m.Register(mads.AgentConfig{Port: m.Ports()[0], Class: mad.ClassCM, Version: 2, Methods: []mad.Method{mad.Send}})
//	a.Send(&mads.Message{To: peer, MAD: datagram})     // no answer expected
//	r, _ := a.Do(ctx, &mads.Message{To: sa, MAD: get}) // sent again until it is answered
//	r, _ = a.Recv(ctx)                                 // what came unasked; or AgentConfig.OnReceive
//
// # What goes where
//
//	agents:  Send  Do ──────────── the answer ◄──┐      ┌──► OnReceive, Recv
//	           │    │ transaction ID              │      │
//	           ▼    ▼                             │      │
//	       queue ◄─ retries                answers by    requests by class,
//	           │    ▲                      transaction   version, OUI, method ──► nobody's: the HCA's agent
//	           │    └─ timers              ID, class,    ▲                        (CA.LocalMAD), or status 0x000c
//	           ▼       (one wheel)         peer          │
//	      128 posted                          ▲          │
//	           │        RMPP: messages in segments, both ways
//	           ▼                              └────┬─────┘
//	  QP1 (and QP0 on InfiniBand) ── one CQ ── pump: checks, addresses
//
// Send puts the datagram in memory that is registered, with an address vector that is kept, and posts it on the caller's goroutine. If 128 are
// on their way, it waits in a queue, which is bounded. Everything received is handled on one goroutine for each QP, which calls OnReceive;
// Recv is for those who would rather wait.
//
// A datagram is valid with base version 1 and a class that belongs to its QP. Answers (R bit, TrapRepress, and baseboard management's bit)
// go to the agent that the upper half of the transaction ID names, and only to a request of the same class to the peer that answers.
// Requests go to the agent that has registered their class, version, OUI and method; ClassSubnetDirected counts as ClassSubnetLID. What
// no agent wants: subnet and performance management go to CA.LocalMAD, if the HCA has CapLocalMAD; other Get and Set are answered with
// status 0x000c, or 0x0004 if the class is known in another version; the rest is dropped. Every drop is counted with its reason.
// On InfiniBand the port's capability mask says which classes its agents answer: communication management, SNMP, device and boot management, vendors'.
//
// # Promises
//
// A Do ends once: with the first answer, or with its last timeout, or with its context, or with its agent. The answer is delivered, and
// then nothing else is said of the request. The timeout begins when the datagram has been sent, however long it was queued. What was queued is sent
// once, in order, also over an error of the QP: a QP whose send failed goes on where it was; one in Error goes through Reset, and its
// receives are posted again. HCAs come and go; a port that is down keeps its agents.
//
// Time is the access layer's clock, so all of it runs in virtual time.
//
// # RMPP
//
// An agent with RMPP sends and receives messages longer than a datagram, in the classes that have it (IBTA volume 1, 13.6). Both ends keep
// the times and windows of Linux: the first window is one segment, then an eighth of the receives posted, 64; an ACK is waited for 2 s; the
// next segment 40 s, then the transfer is aborted; a transfer that is over is remembered for 10 s. Transfers that peers begin are bounded in number,
// a quarter of it for each peer, and in bytes, likewise; who exceeds it hears STOP. Of long answers on their way, too, a peer has a quarter at most. Double-sided transfers (GetMulti of subnet administration)
// are two single-sided ones, with the ACK of segment 0 between them that turns the direction round; the windows that
// both sides could carry over are not.
//
// # From the access layer of 2003
//
//	ib_get_spl_qp with an alias QP, ib_reg_mad_svc   Manager.Register: an agent is alias QP and service in one, and can be closed
//	ib_create_mad_pool … ib_put_mad                  none: a Message has a slice, which Send copies to registered memory
//	ib_send_mad                                      Agent.Send, Do; a list is several calls
//	ib_cancel_mad                                    the context of Do
//	QPs of type MAD                                  none: a UD QP and this package's rules are not worth a type
//	IB_SEND_OPT_LOCAL                                CA.LocalMAD, or a directed route of no hops
//	pfn_mad_send_cb, pfn_mad_recv_cb                 what Do returns, OnReceive or Recv
package mads
