package cmsuite

import "ciddk/validate/req"

// kitRules are rules of the kit's own code, which no driver can break. The tests of its packages check them; the table
// of moved cases (validate/suite/moved.txt) names these tests.
var kitRules = area()

var _ = []*req.Requirement{
	kitRules.Must("CM-Adapter-01", "IBTA 12.8", "cm, ConnectConfig.Alternate, Conn.LoadAlternate, Accept",
		"A manager of an adapter that does not migrate paths proposes no alternate path, and answers each alternate "+
			"path as not supported, whatever the consumer asks for."),
	kitRules.Must("CM-Adapter-02", "IBTA 12.7.28", "cm, Conn.QPAttr, ConnectConfig, AcceptConfig",
		"The depths of REQs, REPs and QPs are at most those of the adapter. A REQ of a transport service that the "+
			"adapter does not have is rejected. Paths and REPs have the acknowledgement delay of the adapter."),
	kitRules.Must("CM-Path-01", "IBTA 12.6.8", "cm, Request.Alternate, AcceptConfig.Failover",
		"The consumer receives the alternate path of a REQ, and the REP has its answer. If it accepts the path, the "+
			"attributes of the connection load the path."),
	kitRules.Must("CM-Path-02", "IBTA 12.6.5", "cm, ConnectConfig.Alternate",
		"A REQ carries the alternate path that the consumer set. If the peer accepts it, the attributes of the "+
			"connection load the path."),
	kitRules.Must("CM-Path-03", "IBTA 12.8.1", "cm, Conn.AnswerAlternate, Delay, Migrated",
		"A LAP that the consumer accepts is answered as loaded, and its path is loaded by the attributes of the "+
			"connection until the QP has migrated. Copies are not reported again. A path that the connection has, or "+
			"that leads elsewhere, is rejected without the consumer."),
	kitRules.Must("CM-Arg-01", "CI access layer", "cm, Connect, Lookup, Listen; mads, Register",
		"A call with a bad argument fails with the status of the argument and sends nothing. The largest values are "+
			"accepted and arrive."),
	kitRules.Must("CM-Attr-01", "IBTA 12.7", "cm, Conn.QPAttr",
		"The attributes of the passive end's QP are those of the REQ: path, MTU, QP number, PSN, timeout, retry "+
			"counts and depths. The starting PSN of its peer, and its own depth, are those of the REP."),
	kitRules.Must("CM-Attr-02", "IBTA 12.7", "cm, Conn.QPAttr, TimeWait",
		"The attributes of the active end's QP are those of the REP, within those of its REQ. The timeout is the "+
			"exponent nearest to two packet life times and the peer's delay, and time-wait lasts that long."),
	kitRules.Must("CM-Attr-03", "IBTA 12.7", "cm, Path",
		"The primary path of a REQ has the addresses and values of the consumer's path. A path that may leave the "+
			"subnet has permissive LIDs, and one without a GRH is local to the subnet."),
	kitRules.Must("CM-Call-01", "CI access layer", "cm, Service, Listener, Conn",
		"A call without a function for its result fails with InvalidParameter, and one whose context has ended fails "+
			"with the context's error. Neither sends a message or changes a state."),
	kitRules.Must("CM-Call-02", "CI access layer", "cm, Listener.StartAccept, StartAcceptLookup, Close",
		"Calls that wait for a request receive requests in the order of the calls. One whose context ends receives "+
			"the context's error and no request, and those that wait when the listener closes receive ErrClosed."),
	kitRules.Must("CM-Call-03", "CI access layer", "cm, Conn.Accept, Disconnect, LoadAlternate",
		"If the context of a call that waits for the peer ends, the call ends with its error. Accept rejects the "+
			"connection, Disconnect goes on, and LoadAlternate leaves the connection as it was."),
	kitRules.Must("CM-Close-01", "CI access layer", "cm, Conn.Close",
		"Close ends a connection as its state requires: it rejects, disconnects, or answers the peer's DREQ. No event "+
			"and no further call follows, and a second Close has no effect."),
	kitRules.Must("CM-Close-02", "IBTA 12.9.8.4", "cm, Conn.Close",
		"A connection in time-wait answers copies of the peer's messages, also after its consumer has closed it."),
	kitRules.Must("CM-Close-03", "CI access layer", "cm, Service.Close",
		"A manager that closes ends each of its connections as Close does, and each request that it has sent with a "+
			"REJ. Calls that wait end with ErrClosed."),
	kitRules.Must("CM-Delay-01", "IBTA 12.9.8.4", "cm, Listener.Accept",
		"If the consumer does not answer a REQ, the manager requests more time with an MRA. When that has passed, "+
			"too, the request ends with a REJ, timeout. The consumer is notified, and can no longer answer."),
	kitRules.Must("CM-Delay-02", "IBTA 12.9.8.4", "cm, Conn.Confirm",
		"If the consumer does not answer a REP, the manager requests more time with an MRA. When that has passed, "+
			"too, the connection ends with a REJ, timeout. The consumer is notified, and can no longer answer."),
	kitRules.Must("CM-Delay-03", "IBTA 12.9.7", "cm, Conn.AnswerDisconnect",
		"If the consumer does not answer a DREQ, the manager sends the DREP when the response time has passed."),
	kitRules.Must("CM-Call-04", "CI access layer",
		"cm, ConnectConfig.OnEvent, AcceptConfig.OnEvent, Notifier",
		"A function for events receives each event of its connection once and in order, one at a time, with the "+
			"results of calls between them. Next returns none of them."),
	kitRules.Must("MAD-Fault-01", "IBTA 10.3.1", "mads, Agent.Send, Recv",
		"When QP1 has left RTS, the services recover it. Datagrams that were flushed or queued meanwhile are sent "+
			"once and in order, and later ones are received."),
	kitRules.Must("MAD-Fault-02", "IBTA 10.3.1", "mads, Agent.StartDo",
		"A datagram that QP1 cannot send ends its request with the status of the send. The datagrams behind it, which "+
			"were flushed, are sent."),
	kitRules.Must("MAD-Fault-03", "IBTA 11.4.1.1", "mads, Agent.StartDo",
		"Datagrams that PostSend does not accept because of the state or the room of QP1 are sent later. One that it "+
			"rejects for another reason ends its request, and those behind it are sent."),
	kitRules.Must("MAD-Fault-04", "IBTA 11.4.1.2", "mads, Agent.Recv",
		"Receives that PostRecv does not accept are posted later, so that no datagram is lost, however often that "+
			"happens."),
	kitRules.Must("CM-Filter-01", "CI access layer", "cm, ListenConfig.Port, GID, LID, PKey, Compare",
		"A listener receives the requests that pass all its filters. A request that fails one of them is rejected as "+
			"one for a service without a listener."),
	kitRules.Must("CM-Handoff-01", "CI connection manager", "cm, Conn.Handoff",
		"A request that is handed off arrives unchanged at the other listener, which answers it. A request for a "+
			"service without a listener is kept."),
	kitRules.Must("CM-Limit-01", "CI access layer", "cm, Config.MaxPending, MaxPendingPeer",
		"A manager rejects requests beyond the limits of pending ones, of all sources and of one. A request that is "+
			"established or has ended makes room for one."),
	kitRules.Must("CM-Limit-02", "CI access layer", "cm, Config.MaxPending, LookupRequest",
		"The limit of pending requests applies to SIDR requests without an answer, and to the answers that are kept "+
			"for copies. The oldest answer gives way."),
	kitRules.Must("CM-Limit-03", "CI access layer", "cm, Config.MaxPending",
		"A request above the limit displaces the oldest one whose peer has not answered the REP for 200 ms. That one "+
			"ends with ErrTimeout, and its peer receives a REJ, timeout."),
	kitRules.Must("CM-Limit-04", "CI access layer", "cm, Config.MaxPending",
		"Above 1000 requests a second, those without a place are dropped, so that their peers send them again. "+
			"Before, and two seconds later, they are rejected."),
	kitRules.Must("CM-Limit-05", "CI access layer", "cm, Config.MaxReplies, MaxRepliesPeer",
		"A manager answers messages of unverified senders at a limited rate, with twice as many at once, and "+
			"withholds further answers. Messages of its own consumers are not limited."),
	kitRules.Must("CM-Limit-08", "CI access layer", "cm, Config.MaxReplies, MaxRepliesPeer",
		"The limited rate applies to the answers to copies of REQs, also in time-wait. It does not apply to an RTU."),
	kitRules.Must("CM-Limit-09", "CI access layer", "cm, Config.MaxPending, ListenConfig.Backlog",
		"A request above the limit displaces one of a source with more unfinished requests. The displaced one is no "+
			"longer offered, and a consumer that has it already is notified."),
	kitRules.Must("CM-Limit-06", "CI access layer", "cm, Config.MaxTimeWait",
		"Above the limit of connections in time-wait, the oldest leaves time-wait, whether its consumer has closed it "+
			"or not. Then a REQ with its IDs is a new request."),
	kitRules.Must("CM-Limit-07", "CI access layer", "cm, Config.TimeWaitLimit, MaxResponseTime",
		"The times that a peer requests are limited: those of its answers, of its MRAs, and of time-wait."),
	kitRules.Must("CM-Listen-01", "IBTA 12.7.3", "cm, Service.Listen",
		"A second listener that differs in its filters is accepted. One that would receive the same requests is "+
			"rejected with InvalidSetting, as long as the first one exists."),
	kitRules.Must("CM-Listen-02", "IBTA 12.7.3", "cm, ListenConfig",
		"A request goes to the matching listener with the longest comparison, of these to the one with the most bits "+
			"of the service ID, of these to the one with the most filters, and then to the oldest."),
	kitRules.Must("CM-Sidr-04", "IBTA 12.11.2", "cm, Listener.AcceptLookup, LookupRequest",
		"A SIDR_REQ reaches the consumer once. Copies have no answer until the consumer answers, and then the same "+
			"answer. It is answered once. Requests that cannot be served are answered with the status of the cause."),
	kitRules.Must("CM-Sidr-05", "IBTA 12.11.2", "cm, ListenConfig.Backlog, Listener.Close",
		"A listener has room for as many SIDR_REQs as its backlog, and further ones are answered with status no QP. "+
			"When it closes, those that wait are answered as unsupported, and those that were taken can still be "+
			"answered."),
	kitRules.Must("CM-Sidr-06", "IBTA 12.11.1", "cm, Service.Lookup, LookupConfig",
		"A lookup without an answer is repeated as often as Retries says, and then fails with ErrTimeout. It also "+
			"ends with its context. An answer that names another request, or comes later, has no effect."),
	kitRules.Must("MAD-GSI-09", "IBTA 13.4.7", "mads",
		"A Get or Set that no agent has registered for is answered with status 0x000c, or with 0x0004 if an agent has "+
			"its class in another version. The rest of the response repeats the request. Other methods are not "+
			"answered."),
	kitRules.Must("MAD-GSI-10", "IBTA 13.4.6.4", "mads, Agent.Do",
		"A response completes a request only if it has its class and comes from the port that the request was sent "+
			"to. Others have no effect, and neither have copies."),
	kitRules.Must("MAD-GSI-11", "IBTA 16.5.2", "mads, AgentConfig.OUI, Methods",
		"Requests of vendor range 2 reach the agent of their OUI. Eight OUIs of a class have agents, and a method has "+
			"one agent. What one agent had is free when it is closed, and the others keep theirs."),
	kitRules.Must("MAD-GSI-12", "CI access layer", "mads, AgentConfig.Queue, Agent.Recv, Close",
		"An agent keeps as many datagrams as its queue has room for. They are received in order, also after Close, "+
			"and then Recv returns ErrClosed."),
	kitRules.Must("MAD-GSI-13", "CI access layer", "mads, Agent.Do, StartDo",
		"A request whose context ends fails with the error of the context, and its late response has no effect on "+
			"others. A response cannot be sent as a request."),
	kitRules.Must("MAD-Cap-01", "IBTA 14.2.5.6", "mads, Service.Register, Agent.Close",
		"The capability mask of an InfiniBand port has the bit of a class while an agent answers requests of that "+
			"class, and no other bit changes. A bit that was set before the first agent stays set."),
	kitRules.Must("MAD-Config-01", "CI access layer", "mads, AgentConfig, Service.Register",
		"Register accepts each valid combination of class, version, OUI, methods and RMPP. It rejects others with "+
			"InvalidParameter, ports without services with InvalidPort, QP0 of an Ethernet port with Unsupported, and "+
			"methods that another agent has with ResourceBusy. A call that fails has no effect."),
	kitRules.Must("MAD-Config-02", "CI access layer", "mads, Agent.Send, Do, StartDo, Message.MAD",
		"A message with a length, version or class that the agent cannot send is rejected with InvalidParameter, and "+
			"nothing is sent. Messages of the smallest and the largest length are sent."),
	kitRules.Must("MAD-Limit-01", "CI access layer", "mads, Config.SendDepth, QueueLimit, Agent.Send",
		"No more datagrams than SendDepth are posted at once. Further ones wait, up to QueueLimit, then they are "+
			"rejected with InsufficientResources. The services' own replies take half of the queue at most. Nothing "+
			"is lost, and the order is that of the calls."),
	kitRules.Must("MAD-Limit-02", "CI access layer", "mads, Config.AVs",
		"Datagrams to the same address share an address vector. Unused vectors are kept up to the limit, those used "+
			"last, and none after a change of the port. A vector in use is destroyed after its use. What CreateAV "+
			"refuses ends the send with its status."),
	kitRules.Must("MAD-Watch-01", "CI access layer", "mads, New, Service.Watch, Ports, Manager.Close",
		"A watcher is told of each port when it begins, and when an HCA comes and goes, in order and until it stops. "+
			"The agents of a port that goes are closed before. An access layer has the services once."),
	kitRules.Must("MAD-Time-04", "CI access layer", "mads, Config.FirstAgent",
		"The requests of each agent have transaction IDs of its own, whose upper half counts up from FirstAgent and "+
			"is never 0. The requests of one agent have different ones."),
	kitRules.Must("MAD-Fault-05", "CI access layer", "mads",
		"While QP1 cannot be recovered, further attempts follow, the first after 10 ms, with twice the pause each "+
			"time, and 10 s at most."),
	kitRules.Must("MAD-Fault-06", "IBTA 10.3.1", "mads, Agent.StartDo",
		"An adapter that does not complete what QP1 has outstanding is reset after a second. What was outstanding is "+
			"sent again, in order, and completions from before the reset have no effect."),
	kitRules.Must("MAD-Fault-07", "IBTA 10.3.1", "mads",
		"Each event that reports a fault of QP1 or of its CQ begins the recovery, although no completion shows the "+
			"fault."),
	kitRules.Must("MAD-Fault-08", "CI access layer", "mads, Agent.StartDo",
		"A datagram that is flushed again and again ends with the status of the flush. Later ones are sent."),
	kitRules.Must("MAD-Addr-03", "IBTA 13.5.4", "mads, Received.From, SGID, DGID",
		"A datagram is received with the address to which a response goes, made of its LID, service level, path, "+
			"P_Key and GRH or IP header. One without a valid source is dropped."),
	kitRules.Must("MAD-Addr-04", "IBTA 13.5.4", "mads, Received.From",
		"A subnet management datagram from a port without a LID has the permissive LID as the address of its "+
			"response."),
	kitRules.Must("MAD-GSI-15", "IBTA 13.5.3", "mads",
		"A datagram with another length, base version or class than its QP has is dropped, without a response."),
	kitRules.Must("MAD-SMI-02", "IBTA 14.2.2", "mads, Agent.Do, AgentConfig.Manager",
		"A subnet management datagram along a directed route without hops is for the port itself: the agents of the "+
			"port receive it, or its adapter executes it. One whose route does not begin at the port is rejected."),
	kitRules.Must("MAD-SMI-03", "IBTA 14.4.1", "mads, AgentConfig.Manager",
		"A request of SMInfo reaches the manager of a port, and is answered with status 0x000c where there is none, "+
			"by LID and by directed route."),
	kitRules.Must("MAD-SMI-04", "IBTA 14.2.5.1", "mads",
		"Events of an adapter without an agent of its own are reported to the port's subnet manager by the traps that "+
			"IBTA has for them, with their details, from QP0, at the manager's service level."),
	kitRules.Must("MAD-Time-01", "IBTA 13.4.6.2", "mads, Message.Timeout, Retries",
		"A request is repeated when its timeout has passed since it was sent, and ends with Timeout after the last "+
			"one, neither sooner nor later. The timeout is one second if it is not given."),
	kitRules.Must("MAD-Time-02", "IBTA 13.5.4", "mads, Agent.Do",
		"A response is accepted from the address that the request was sent to: from its GID if it has one, else from "+
			"its LID without the bits of the LMC. A request to a group, or along a directed route, accepts any "+
			"source."),
	kitRules.Must("MAD-Time-03", "CI access layer", "mads, Config.MaxReplies, MaxRepliesPeer",
		"Replies that report an error are bounded for each peer and in total: after a pause two seconds' worth at "+
			"once, and then the number per second of the configuration."),
	kitRules.Must("MAD-Local-01", "CI access layer", "mads; CA.LocalMAD",
		"A Get or Set of performance management that no agent has registered for is executed by CA.LocalMAD with the "+
			"sender's address, and its result is the response. No result, and an error, are no response."),
	kitRules.Must("CM-Manager-01", "CI access layer", "cm, New, Manager.Conns",
		"A port has one manager: a second one fails with ResourceBusy and leaves the first as it is, and can start "+
			"when that is closed. A manager lists its connections."),
	kitRules.Must("CM-Manager-02", "CI access layer", "cm, Manager; accesslayer, AL.Register, Deregister",
		"A manager serves the ports of adapters that come later, and no more those of adapters that were removed."),
	kitRules.Must("CM-Adapter-03", "IBTA 10.9.1", "cm, Conn.QPAttr, AlternateAttr",
		"When a port has lost the partition of a connection, the attributes of the connection fail with InvalidPKey, "+
			"and a LAP is rejected. When it has the partition at another place, the attributes name that place."),
	kitRules.Must("CM-Addr-01", "IBTA 12.6.7.2", "cm, Listener.Accept",
		"A REQ whose primary or alternate path does not lead to the port, or not back, is rejected. The reason names "+
			"the address, and the additional information has one that the port has. Other paths are the consumer's."),
	kitRules.Must("CM-Addr-02", "IBTA 12.8.1", "cm, EventAlternate",
		"A LAP whose path does not lead to the port, or not back, is answered with the status for the address, and "+
			"with one that the port has. Other paths reach the consumer."),
	kitRules.Must("CM-React-01", "IBTA 12.9.7.2", "cm, Conn",
		"In each state, the passive end answers a message as the state diagram requires, and enters the state that "+
			"follows. A message that the state ignores is not answered and has no effect."),
	kitRules.Must("CM-React-02", "IBTA 12.9.7.1", "cm, Conn",
		"In each state, the active end answers a message as the state diagram requires, and enters the state that "+
			"follows. A message that the state ignores is not answered and has no effect."),
	kitRules.Must("CM-React-03", "IBTA 12.9.7.1", "cm, Service.Connect",
		"Before the REP, the active end ignores messages that do not answer its REQ. The REP that follows completes "+
			"the connection."),
	kitRules.Must("MAD-RMPP-01", "IBTA 13.6.6", "mads, Agent.Do, AgentConfig.RMPP",
		"The receiver of a long message acknowledges its segments, takes them in any order within the window, and "+
			"answers a packet that violates the protocol with an ABORT that has the status of the violation."),
	kitRules.Must("MAD-RMPP-02", "IBTA 13.6.6", "mads, Agent.Do, AgentConfig.RMPP",
		"The sender of a long message sends the segments that the window of the last ACK permits, sends them again "+
			"without an ACK, and answers an ACK that violates the protocol with an ABORT that has the status of the "+
			"violation."),
	kitRules.Must("MAD-RMPP-03", "IBTA 13.6.6", "mads, Message.MaxResponse",
		"A response of the length that the request admits is received. A longer one is stopped with a STOP of status "+
			"1, at its first segment if that announces the length, and the request fails with InsufficientResources."),
	kitRules.Must("MAD-RMPP-04", "IBTA 13.6.6", "mads, AgentConfig.RMPP, Agent.Recv",
		"A message that a peer sends in segments is received once and complete, is acknowledged, also again, for 10 "+
			"s, and is aborted with status 118 if its next segment does not come within 40 s."),
	kitRules.Must("MAD-RMPP-05", "CI access layer", "mads, Config.MaxTransfers, MaxReassembly",
		"Transfers that peers begin are bounded in number and bytes, and one peer may have a quarter of each. Beyond "+
			"that the reply is STOP, unless a transfer makes no progress and gives its place to the new one. A "+
			"transfer that ends frees its place."),
	kitRules.Must("MAD-RMPP-06", "CI access layer", "mads, Agent.Send, Do, Message.Timeout, Retries",
		"A long message is sent again without an ACK, by default after 2 s and three times, and then it is aborted "+
			"with status 126. Long messages that are being sent are bounded, those with the same transaction ID "+
			"rejected with ResourceBusy, and those of a closed agent aborted."),
	kitRules.Must("CM-Path-04", "IBTA 12.8.1", "cm, EventAlternate, Conn.AnswerAlternate, Delay",
		"A new LAP replaces one that the consumer has not answered, and the answer is for the new one. Each path that "+
			"differs in an address is another path. A rejected path leaves the one that was loaded before."),
	kitRules.Must("CM-Path-05", "IBTA 12.8", "cm, Conn.LoadAlternate",
		"A proposal ends with ErrClosed when the connection ends, at either end. A later proposal replaces the path "+
			"of an earlier one, and a rejected one does not."),
	kitRules.Must("CM-Attr-04", "IBTA 12.6.5", "cm, Path, ConnectConfig",
		"A REQ has the path MTU of the port if the consumer's is larger or not set, and the default times and retries "+
			"where the consumer sets none. It is sent to the LID of the peer's manager."),
	kitRules.Must("CM-Stale-01", "IBTA 12.9.8.3.1", "cm, Conn",
		"A REQ for a remote QP that belongs to a connection is rejected as stale, and the connection ends. After the "+
			"end of the connection, the QP can be connected again at once."),
	kitRules.Must("CM-Stale-02", "IBTA 12.9.8.3.1", "cm, Service.Connect",
		"A REP whose communication ID or QP belongs to another connection is rejected, and Connect fails. In the case "+
			"of the QP, the other connection ends."),
	kitRules.Must("CM-Stale-03", "IBTA 12.6.7.2", "cm, Conn",
		"A REJ, timeout, with the CA GUID of a peer that does not have our communication ID ends a connection that is "+
			"not established. Without the right GUID and ID, or from another port, it has no effect."),
	kitRules.Must("CM-Stale-04", "CI access layer", "cm, Conn",
		"A REQ from another port than the peer's, with the communication ID or the QP of the peer, ends no "+
			"connection."),
	kitRules.Must("CM-Stale-05", "IBTA 12.6.7.2", "cm",
		"A REQ or REP of another class version is rejected with reason invalid class version and the version of the "+
			"manager. Other messages of another version have no answer."),
	kitRules.Must("CM-State-01", "IBTA 12.9.7", "cm, Conn",
		"A call that the state of the passive end does not allow fails with InvalidState. It sends nothing and does "+
			"not change the state, and the connection continues."),
	kitRules.Must("CM-State-02", "IBTA 12.9.7", "cm, Conn",
		"A call that the state of the active end does not allow fails with InvalidState. It sends nothing and does "+
			"not change the state, and the connection continues."),
	kitRules.Must("CM-State-03", "IBTA 12.6.7", "cm, Conn.Reject",
		"The consumer rejects a request or a reply with a REJ. It carries both communication IDs, the reason, the "+
			"rejected message, and the consumer's information and private data."),
	kitRules.Must("CM-Timer-01", "IBTA 12.9.8.5",
		"cm, Service.Connect, Conn.Accept, Disconnect, LoadAlternate",
		"A message without an answer is repeated after the response time of the peer and twice the packet life time, "+
			"as often as Max CM Retries says. After an MRA the wait is the service timeout and twice the packet life "+
			"time, and at least the usual one. Then the call ends with ErrTimeout."),
	kitRules.Must("CM-Timer-02", "IBTA 12.9.8.4", "cm, Conn.Delay, Confirm, Listener.Accept",
		"A consumer that does not answer has an MRA sent in its name within the response time that the peer expects. "+
			"The manager then waits until the peer has given up. A copy of the peer's message has the MRA repeated, "+
			"and the wait starts again."),
	kitRules.Must("CM-Timer-03", "IBTA 12.9.8.4", "cm, Conn.TimeWait, EventTimeWaitExit",
		"Time-wait lasts twice the packet life time and the peer's acknowledgement delay, and after a REJ until the "+
			"peer has given up. Then EventTimeWaitExit is the last event, and the connection is closed."),
	kitRules.Must("CM-Timer-04", "IBTA 12.11", "cm, LookupConfig, LookupRequest",
		"A lookup without a Timeout is repeated after 1.1 s and twice the packet life time, and 8 times without "+
			"Retries. A lookup that was received can be answered for as long as the peer repeats it, and its answer "+
			"is kept for copies. Both are forgotten later."),
	kitRules.Must("CM-Peer-01", "IBTA 12.10.4", "cm, ConnectConfig.Peer",
		"Of two peer-to-peer requests that cross, the one with the larger CA GUID becomes the connection, and with "+
			"equal GUIDs the one with the larger QP number. The end of the other one becomes the passive end."),
	kitRules.Must("CM-Peer-02", "IBTA 12.10.4", "cm, ConnectConfig.Peer",
		"A peer-to-peer request that the peer rejects for its service ID waits for the peer's REQ. Then the manager "+
			"sends its own again, unless the peer's becomes the connection. Other reasons end the request."),
	kitRules.Must("CM-Peer-03", "IBTA 12.10.4", "cm, ConnectConfig.Peer, Offset, Compare",
		"A peer-to-peer request matches the REQ that has its service ID, its transport service, the address of its "+
			"path, and Compare in the private data. Others are rejected as those for a service without a listener."),
	kitRules.Must("CM-Peer-04", "IBTA 12.10.4", "cm, ConnectConfig.Peer, MaxRetries",
		"A peer-to-peer request that the peer always rejects for its service ID is repeated, as often as Max CM "+
			"Retries says, and then ends with the rejection."),
}
