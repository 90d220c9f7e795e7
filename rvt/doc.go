// Package rvt implements the verbs of package ci in software: queue pairs, completion queues, memory regions and the
// InfiniBand transport protocol. A driver supplies the rest: ports that move packets, rings that hold the queues, and a
// few operations that only hardware has. The role is that of rdmavt in Linux.
//
//	h, err := rvt.New(rvt.Config{
//		Info:  ci.HCAInfo{GUID: guid},
//		Attr:  ci.CAAttr{Caps: ci.CapUD | ci.CapAV},
//		Ports: []rvt.Port{port},
//		Rings: rings.New(),
//	})
//
// # Parts
//
// Calls inside the package point one way. tools/arrows/orders/rvt.txt lists the files bottom up, and a test fails
// when calls point up. Where a lower part must start something in a higher one, the lower part declares an interface of
// one or two methods: requesterHost, responderHost, turnTaker, ackHolder, keyOwner. From the bottom:
//
//   - Interfaces to drivers: Port moves a Packet, Receiver takes those that arrive, Rings makes queues, Config and Ops
//     describe the adapter.
//   - Memory: storage holds the bytes of a region, a keyTable finds what a key grants, a turn's holds keep regions from
//     being destroyed while it uses them. An address is a number in its region's own space. No integer becomes a
//     pointer.
//   - The device: what all objects of an adapter share, such as clock, randomness, attributes, counters and limits. A
//     port is the engine's state of a Port: cached attributes, the run queue, acknowledgements that wait.
//   - Objects without an engine: PD, AV, MR, MW, FMR, DMA, CQ, SRQ.
//   - The endpoint of a QP: identity, queues, state and path, which both halves of the QP use.
//   - A turn: the packets, completions and held regions of one run of a QP's engine.
//   - The requester, in the files send*.go, retry.go, pacing.go and completer.go: it sends requests, takes the
//     responses and retries.
//   - The responder, in the files recv*.go: it executes the requests of the peer and answers them.
//   - QP: the object of the verbs, the token, and the order in which the halves run.
//   - The receiver of each port, which finds the QP of a packet; CA and HCA.
//
// The requester and the responder know neither the QP nor each other. Their tests run each of them alone
// (half_test.go).
//
// # The life of a request
//
// PostSend checks the request and passes it to the SendRing, which keeps a private copy. It then kicks the QP: a turn
// runs on the poster's goroutine if the token is free.
//
// In the turn, the requester decodes the request into its window, gives it PSNs and makes packets whose payload refers
// to the registered memory itself. A train stands for several packets of one message; a Port cuts it if its wire needs
// that. When the batch is full, and at the end of the turn, the port sends it. A request of UC or UD is complete then.
// One of RC stays in the window.
//
// At the peer, the Port calls Receiver.Deliver. The receiver finds the QP by number and runs a turn with the packets.
// The responder compares PSNs, checks keys and rights, and copies the payload to its place. A message that ends takes a
// completion to the CQ. The acknowledgement leaves at the end of the turn, or, when a poll drives the turn, behind the
// consumer's next post (Receiver.FlushAcks).
//
// Back at the requester, the acknowledgement moves the oldest unacknowledged PSN. What it covers is complete: the slots
// of the ring are freed and the completions reach the CQ. A NAK, an implied NAK or the timer makes the requester go
// back to the PSN that is missing and send everything from there again, as often as the QP's counts of retries allow.
// Then an armed QP migrates to its alternate path, and any other QP goes to Error.
//
// # Turns, the token and quanta
//
// QP.mu is the token of a QP's engine. The goroutine that holds it runs the engine: one that posts, one that polls, one
// that delivers packets, or a timer's. A goroutine that finds the token taken sets the mark QP.pending and leaves, and
// the holder runs another turn after letting go. Packets that arrive meanwhile are copied to the QP's inbox. Only verbs
// that must see the result, such as Modify, Query and Destroy, wait for the token.
//
// A turn sends and executes at most one quantum. A QP with work left enters the run queue of its port, which gives each
// QP one quantum in turn. So no QP delays another for long, and a verb waits for one quantum at most. A verb of a
// client process runs more, for what the process has posted before: see UserCA.settle.
//
// One timer of the device's wheel serves all deadlines of a QP. What is due is done in the QP's turn of the run queue.
//
// # Locks
//
// The data path takes at most one uncontended lock per queue and batch. Where several are held, they are taken in this
// order:
//
//	QP.sqMu, QP.rqMu      posters; Modify to Reset and Destroy take both
//	QP.mu                 the token
//	MW.mu, MR.mu, FMR.mu  in this order, for binds, fast registration and invalidations
//	CQ.getMu, CQ.putMu    pollers; engines
//	SRQ.postMu, SRQ.mu    posters; engines
//	all others            inbox, run queue, ackQueue, notifier, slot, table, timer wheel: nothing is taken under them
//
// Callbacks of consumers and Ops.Suspect run with no lock held, each on a goroutine that exists only while there is
// something to report.
//
// The engine calls a driver with a lock held in these cases only:
//
//   - Port.Send, with the token. The packets of a QP must leave in the order of their PSNs. If the token were free
//     before Send returned, the next holder could make later packets and send them first, and the peer would take each
//     overtaking for a loss. For the same reason the regions that the packets refer to stay held. The token costs
//     nobody a wait on the data path, since it is only tried there. In return, Send may not wait for anything but a
//     system call, and may not call a verb. It may call Deliver with wait false, also for the same QP. Modify to Reset
//     and Destroy send a last acknowledgement, with the locks of the posters held, too.
//   - Port.Route, with the token, in QP.Modify.
//   - Ops.KeyMiss, with the token, when an access has an unknown key.
//   - Methods of rings: Post with the lock of the posters, Get and Put with the locks of the CQ, Next and Retire with
//     the token. A ring is data without locks of its own. Rings.SendRing, with the token, when a QP whose ring was not
//     made at its creation leaves RTR.
//   - Ops.QPState, with the token, so that a driver sees the states in their order. It may not block.
//   - Port.Attr, GroupPort.JoinGroup and GroupPort.LeaveGroup, with a lock that serves only to keep such calls in
//     order.
//
// Port.Drive, Port.CatchUp and all other methods are called with no lock held. TestLocksDuringSend checks the first
// case.
//
// # Sources
//
// The transport follows the InfiniBand Architecture Specification, volume 1, chapters 9 to 11 and 17.2.8, and annexes
// A16 and A17 for RoCE. Comments name the sections.
package rvt
