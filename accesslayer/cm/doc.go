// Package cm is the connection manager (IBTA volume 1, chapter 12): it finds the QP at the other end of a connection, agrees with its
// manager on all that both QPs must know, and sees to it that both ends know when the connection is over. Managers talk by datagrams between
// their QP1s, so this package stands on MAD services (package mads); it works alike on InfiniBand and on RoCE.
//
//	m, err := cm.New(al, services, cm.Config{})      // al: the access layer; services: mads.New(al, …)
//
//	// A server                                      // A client
//	l, err := m.Listen(cm.ListenConfig{Service: s})  c, err := m.Connect(ctx, cm.ConnectConfig{Service: s, QP: …, Primary: path})
//	c, err := l.Accept(ctx)
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
// A Service never touches a QP: it says how to move it (Conn.QPAttr), and Modify does so. That way it may be in another process than the QP.
// There are two implementations of Service: Manager, and a client process's, which asks the daemon.
//
// # The life of a connection
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
// Every message that wants an answer is sent again until one comes, at most MaxRetries times: the interval is the time that the peer said it
// takes (ConnectConfig.RemoteResponseTime, ResponseTime) and twice the packet life time of the path. Who needs longer says so: MRA. Who gives up says
// so, too: REJ, reason timeout. Copies of messages get the answer again that the first had. docs/connections.md has the tables: what
// each state does with each message, and which calls it allows; they are what this package runs on.
//
// A manager does by itself what cannot wait for a consumer: while a request, or a reply, waits for the consumer's answer it asks the peer for
// patience (MRA) before the peer has lost it; a DREQ that the consumer does not answer it answers; requests that nobody accepts it rejects
// when their senders have given up. So each Conn ends, whatever the peer does, and whatever it sends.
//
// # Steps without waiting
//
// Each call that waits for the peer has an event-driven form, whose name begins with Start. It checks its arguments, sends the message and returns. An
// error that it returns is one that the waiting form would return at once, and done is not called then. Otherwise done is called exactly once, with what
// the waiting form would return: after the peer's answer, or when the retries are used up, or after Conn.Close, Listener.Close or Service.Close. When ctx
// ends, the step ends as the waiting form does, and done gets the context's error. A Service does not see QPs: a program that destroys the QP of a
// pending step closes the Conn.
//
// A pending step holds no goroutine, provided that ctx was made by package context. The manager calls done on a goroutine that exists only for the
// delivery, with no lock held; done may block, and may call anything. For the steps of one Conn, StartConnect included, the manager calls done and OnEvent
// one at a time, in the order in which things happened. The waiting forms do not wait for that delivery, so OnEvent and done may call them.
//
// # Time-wait
//
// When a connection is over, packets of it may still be on the way. Until they are gone, the QP's number must not be used again: Conn.TimeWait says how
// long that is, QP.TimeWait of the access layer takes it, and the Conn stays for as long in StateTimeWait, to answer copies of the last
// messages. Config.MaxTimeWait bounds how many do.
//
// # Stale connections
//
// A peer that was restarted has forgotten its connections. When its QP asks for a connection, and has one already, as we see it, then the new
// request is rejected (stale connection), and the old connection is disconnected: the peer's next try finds the way free (12.9.8.3.1). Where
// the request comes from another port than that of the old connection, it is rejected, and the old one lives on: anybody could send it.
//
// # Alternate paths
//
// A request may have an alternate path (ConnectConfig.Alternate), which the passive end accepts or not (AcceptConfig.Failover). QPAttr loads
// and arms it on the way to RTS. Later the active end may propose others (Conn.LoadAlternate, EventAlternate), which both consumers load with
// Conn.AlternateAttr. When a QP has migrated (ci.EventQPAPM), Conn.Migrated tells the manager where its messages go from then on.
//
// # Peer to peer
//
// With ConnectConfig.Peer, both ends ask, and nobody listens. Which end becomes passive is decided when the requests have met: the one with the smaller CA
// GUID, then the smaller QPN (12.10.4). Until the other end asks, too, its manager rejects the request (no such service), and ours goes on
// asking.
//
// # What peers can do to us
//
// Datagrams of any content are parsed, counted (Manager.Counters) and answered or dropped. Requests are bounded by the listener's backlog,
// by source and in all, and admitted by what their sources have left unfinished. Answers to senders that are not verified are limited, as is
// what time-wait holds; docs/limits.md has the figures. No event queue grows because of what a peer sends. Times that peers ask for are cut
// (Config). Neither a request nor a connection has a goroutine; all timers are on one clock.Wheel. Communication IDs are random,
// so that the answer to a request is from who has read it. What names only one of a connection's IDs, or only its peer's QP, ends it only
// if it comes from the port where the peer is. What nobody can prevent: a port that knows both IDs, or sends in the name of another port, can end it.
//
// # Differences from the standard
//
// A stale connection ends only by a request from its peer's port, see above. RD and XRC are rejected as transports that are not served. Redirection is reported (RejectError.Info has the ClassPortInfo), and
// not followed. Of the time that the QP's number rests, only what this end has to wait for is counted: 2 packet life times and the peer's acknowledgement
// delay. A rejected request is remembered until its sender has stopped asking, not for time-wait only.
package cm
