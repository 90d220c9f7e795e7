// Package cm is the connection manager (IBTA volume 1, chapter 12). It finds the QP at the other end of a connection,
// negotiates the parameters of both QPs, and reports the end of the connection to both ends. Connection managers
// exchange datagrams between their QP1s, so this package uses MAD services (package mads). It works in the same way on
// InfiniBand and on RoCE.
//
//	m, err := cm.New(al, services, cm.Config{})      // al: the access layer; services: mads.New(al, …)
//
//	// A server                                      // A client
//	l, err := m.Listen(cm.ListenConfig{Service: s})  c, err := m.Connect(ctx, cm.ConnectConfig{Service: s,
//	c, err := l.Accept(ctx)                              QP: …, Primary: path})
//	cm.Modify(qp, c, ci.QPInit, access)              cm.Modify(qp, c, ci.QPInit, access)
//	qp.PostRecv(…)                                   qp.PostRecv(…)
//	cm.Modify(qp, c, ci.QPRTR, 0)                    cm.Modify(qp, c, ci.QPRTR, 0)
//	err = c.Accept(ctx, cm.AcceptConfig{QP: …})      cm.Modify(qp, c, ci.QPRTS, 0)
//	cm.Modify(qp, c, ci.QPRTS, 0)                    err = c.Confirm(nil)
//	…                                                …
//	e, err := c.Next(ctx)  // EventDisconnect        private, err := c.Disconnect(ctx, nil)
//	c.AnswerDisconnect(nil)
//	qp.TimeWait(c.TimeWait()); qp.Destroy()          qp.TimeWait(c.TimeWait()); qp.Destroy()
//
// A Service never accesses a QP. Conn.QPAttr returns the attributes for each state, and Modify applies them. The
// Service may therefore run in another process than the QP. Manager implements it; it may have another implementation,
// which passes the calls to another process.
//
// # Life of a connection
//
//	                active                                        passive
//	Connect          REQ → ─────────────────────────────────→      Listener.Accept
//	REQSent ─────────────────┐                                     REQRcvd ───────────────┐
//	   │ REP          MRA →  REPWait                                  │ Accept      Delay  MRAREQSent
//	REPRcvd ─────────────────┐                                     REPSent ───────────────┐
//	   │ Confirm      Delay  MRAREPSent                               │ RTU          MRA →  MRAREPRcvd
//	   │                                                              │ (or Established, DREQ, LAP)
//	Established ←───────────────────── data ────────────────────→  Established
//	   │ Disconnect                                                   │ DREQ
//	DREQSent                                                       DREQRcvd
//	   │ DREP                                                         │ AnswerDisconnect
//	TimeWait                                                       TimeWait
//	   │ time                                                         │ time
//	Closed                                                         Closed
//
// A message that requires an answer is repeated until the answer arrives, at most MaxRetries times. The interval is the
// peer's response time (ConnectConfig.RemoteResponseTime, ResponseTime) plus twice the packet life time of the path. An
// end that needs more time sends an MRA. An end that gives up sends a REJ with reason timeout. A copy of a message gets
// the same answer as the first one. docs/connections.md has the state tables that this package runs on: the reaction of
// each state to each message, and the calls that it allows.
//
// The manager acts by itself where a consumer may be too slow. While a REQ or REP waits for the consumer's answer, it
// sends an MRA before the peer gives up. It answers a DREQ that the consumer does not answer. It rejects requests that
// the consumer has not accepted by the time their senders give up. So each Conn ends, whatever the peer does.
//
// # Event-driven steps
//
// Each call that waits for the peer has an event-driven form. Its name begins with Start. It checks its arguments,
// sends the message and returns. If it returns an error, the step has not started and done is not called. Otherwise
// done is called exactly once, with the result of the blocking form: after the peer's answer, when the retries are used
// up, after Conn.Close, Listener.Close or Service.Close, or when ctx ends. A Service does not observe QPs: a program
// that destroys the QP of a pending step must close the Conn.
//
// A pending step has no goroutine, provided that ctx was created by package context. The manager calls done with no
// lock held, on a goroutine that exists only for the delivery. done may block and may call any method. For the steps of
// one Conn, including StartConnect, the manager calls done and OnEvent one at a time, in the order of the events. The
// blocking forms do not depend on this delivery, so OnEvent and done may call them.
//
// # Time-wait
//
// When a connection ends, its packets may still be in the network, and the QP's number must not be reused until they
// have left it. Conn.TimeWait returns that time, and QP.TimeWait of the access layer quarantines the number. For the
// same time the Conn stays in StateTimeWait and answers copies of the last messages. Config.MaxTimeWait limits the
// number of connections in that state.
//
// # Stale connections
//
// A peer that has restarted has lost its connections. When its QP requests a connection and still has one at this end,
// the request is rejected (stale connection) and the old connection is disconnected, so that the peer's next request
// succeeds (12.9.8.3.1). If the request comes from another port than the old connection's peer, it is rejected and the
// old connection is kept, because the sender may be forged.
//
// # Alternate paths
//
// A request may have an alternate path (ConnectConfig.Alternate), which the passive end accepts or rejects
// (AcceptConfig.Failover). The attributes that QPAttr returns for RTS load and arm it. Later the active end may propose
// another path (Conn.LoadAlternate, EventAlternate). Both consumers load it with the attributes from
// Conn.AlternateAttr. When a QP has migrated (ci.EventQPAPM), call Conn.Migrated so that the manager uses the new path
// as well.
//
// # Peer to peer
//
// With ConnectConfig.Peer, both ends send a REQ and neither listens. When the requests have crossed, the end with the
// smaller CA GUID becomes passive, or with equal GUIDs the one with the smaller QPN (12.10.4). Until the other end
// sends its REQ, its manager rejects ours (invalid service ID), and ours is repeated.
//
// # Protection against peers
//
// Datagrams of any content are parsed, counted (Manager.Counters), and answered or dropped. The number of requests is
// limited by the listener's backlog, for each source, and in all. Which requests are admitted depends on the number of
// requests that their source has left unfinished. Answers to unverified senders are limited, and so is the memory of
// time-wait; docs/limits.md has the figures. A peer cannot make an event queue grow. Times that peers request are
// limited (Config). Neither a request nor a connection has a goroutine, and all timers run on one clock.Wheel.
//
// Communication IDs are random, and the answer to a request is taken only from the port to which it was sent. A message
// that has only one of a connection's IDs, or only its peer's QP, ends the connection only if it comes from the peer's
// port. A port that has both IDs, or that forges its address, can end a connection; nothing prevents that.
//
// # Deviations from the standard
//
// A stale connection ends only through a request from its peer's port, see above. RD and XRC are rejected (invalid
// transport service). Redirection is reported (RejectError.Info has the ClassPortInfo) and not followed. The quarantine
// of a QP number covers only this end's part: two packet life times and the peer's acknowledgement delay. A rejected
// request is remembered until its sender has given up, not for the duration of time-wait only.
package cm
