package cm

import "ciddk/mad"

// message is a kind of message that a connection can receive. There are several kinds of REQ and MRA.
type message uint8

const (
	msgREQ      message = iota // a copy of the REQ that created this connection
	msgOtherREQ                // another REQ with the peer's communication ID or QP: one of the two is stale
	msgREP
	msgRTU
	msgREJ
	msgMRAofREQ
	msgMRAofREP
	msgMRAofLAP
	msgDREQ
	msgDREP
	msgLAP
	msgAPR
	messages
)

var messageNames = [messages]string{"REQ", "other REQ", "REP", "RTU", "REJ", "MRA of REQ", "MRA of REP", "MRA of LAP",
	"DREQ", "DREP", "LAP", "APR"}

func (m message) String() string { return messageNames[m] }

// action is the reaction of a connection to a message.
type action uint8

const (
	ignore       action = iota // count the message: it is a late copy, or the peer cannot have our last message yet
	repeat                     // send the last message again
	repeatREJ                  // send the last message again if it was a REJ
	rejectStale                // send the last message again if it was a REJ; otherwise a REJ, stale connection
	endStale                   // end this connection, and reject the REQ (stale connection)
	takeREP                    // enter REPRcvd, unless the REP is stale
	establish                  // enter Established
	noteRTU                    // emit EventEstablished for the first RTU
	waitLonger                 // set the timer to the time in the MRA
	rejected                   // enter Closed
	rejectedLate               // enter TimeWait, since packets of the QPs or copies of the REQ may be in the network
	disconnect                 // enter DREQRcvd, emit EventDisconnect
	answer                     // send a DREP, enter TimeWait
	answerAgain                // send a DREP
	disconnected               // enter TimeWait
	establishLAP               // enter Established, then takeLAP
	takeLAP                    // see lapReactions
	takeAPR
	actions
)

var actionNames = [actions]string{"-", "repeat", "repeat REJ", "REJ stale", "end, REJ stale", "REPRcvd", "Established",
	"note", "wait longer",
	"Closed", "TimeWait", "DREQRcvd", "DREP, TimeWait", "DREP", "TimeWait", "Established, see LAP",
	"see LAP", "see LAP"}

func (a action) String() string { return actionNames[a] }

// reactions is the part of the state machine of 12.9.7 that messages drive. calls is the part for the consumer's calls,
// and conn.expire the part for timers. docs/connections.md has the table, too.
//
// The standard leaves two choices. A DREQ or LAP before the RTU establishes the connection, because the active end has
// sent the RTU before it. A late or repeated message is answered only if its sender waits for an answer.
var reactions = [states][messages]action{
	StateREQSent:    {msgREP: takeREP, msgREJ: rejected, msgMRAofREQ: waitLonger},
	StateREPWait:    {msgREP: takeREP, msgREJ: rejected, msgMRAofREQ: waitLonger},
	StateREQRcvd:    {msgOtherREQ: endStale, msgREJ: rejectedLate},
	StateMRAREQSent: {msgREQ: repeat, msgOtherREQ: endStale, msgREJ: rejectedLate},
	StateREPSent: {msgREQ: repeat, msgOtherREQ: endStale, msgRTU: establish, msgREJ: rejectedLate,
		msgMRAofREP: waitLonger,
		msgDREQ:     disconnect, msgLAP: establishLAP},
	StateMRAREPRcvd: {msgOtherREQ: endStale, msgRTU: establish, msgREJ: rejectedLate, msgMRAofREP: waitLonger,
		msgDREQ: disconnect,
		msgLAP:  establishLAP},
	StateREPRcvd:    {msgOtherREQ: endStale, msgREJ: rejectedLate, msgDREQ: disconnect},
	StateMRAREPSent: {msgOtherREQ: endStale, msgREP: repeat, msgREJ: rejectedLate, msgDREQ: disconnect},
	StateEstablished: {msgOtherREQ: endStale, msgREP: repeat, msgRTU: noteRTU, msgREJ: rejectedLate,
		msgMRAofLAP: waitLonger,
		msgDREQ:     disconnect, msgLAP: takeLAP, msgAPR: takeAPR},
	StateDREQSent: {msgOtherREQ: rejectStale, msgREJ: rejectedLate, msgDREQ: answer, msgDREP: disconnected},
	StateDREQRcvd: {msgOtherREQ: rejectStale, msgDREQ: answer},
	StateTimeWait: {msgREQ: rejectStale, msgOtherREQ: rejectStale, msgREP: repeatREJ, msgRTU: repeatREJ,
		msgDREQ: answerAgain},
}

// lapState is the state of a proposal for an alternate path, within StateEstablished (12.8).
type lapState uint8

const (
	lapIdle    lapState = iota
	lapSent             // active end: waits for the APR
	lapMRARcvd          // active end: has an MRA, waits for the APR
	lapRcvd             // passive end: waits for AnswerAlternate
	lapMRASent          // passive end: has sent an MRA, waits for AnswerAlternate
	lapStates
)

var lapStateNames = [lapStates]string{"idle", "LAPSent", "MRARcvd", "LAPRcvd", "MRASent"}

// lapReactions are the reactions to messages about alternate paths. lapAgain is for a LAP with the transaction ID of
// the last one, which is a copy.
var lapReactions = [lapStates]struct{ lap, lapAgain, apr, mra lapAction }{
	lapIdle:    {lap: lapTake, lapAgain: lapRepeat},
	lapSent:    {apr: lapDone, mra: lapLonger},
	lapMRARcvd: {apr: lapDone, mra: lapLonger},
	lapRcvd:    {lap: lapTake},
	lapMRASent: {lap: lapTake, lapAgain: lapRepeat},
}

type lapAction uint8

const (
	lapIgnore lapAction = iota
	lapTake             // emit EventAlternate, enter LAPRcvd; or send an APR that needs no consumer
	lapRepeat           // send the APR or MRA again
	lapDone             // enter idle
	lapLonger           // set the timer to the time in the MRA, enter MRARcvd
	lapActions
)

var lapActionNames = [lapActions]string{"-", "LAPRcvd", "repeat", "idle", "MRARcvd"}

// call is a method of Conn that only some states allow.
type call uint8

const (
	callAccept call = iota
	callConfirm
	callEstablished
	callDelay
	callReject
	callHandoff
	callLoadAlternate
	callAnswerAlternate
	callDisconnect
	callAnswerDisconnect
	callMigrated
	callsN
)

var callNames = [callsN]string{"Accept", "Confirm", "Established", "Delay", "Reject", "Handoff", "LoadAlternate",
	"AnswerAlternate", "Disconnect",
	"AnswerDisconnect", "Migrated"}

// calls lists the states that allow each call. In other states the call returns InvalidState.
var calls = [callsN][]State{
	callAccept:           {StateREQRcvd, StateMRAREQSent},
	callConfirm:          {StateREPRcvd, StateMRAREPSent},
	callEstablished:      {StateREPSent, StateMRAREPRcvd, StateEstablished},
	callDelay:            {StateREQRcvd, StateMRAREQSent, StateREPRcvd, StateMRAREPSent, StateEstablished},
	callReject:           {StateREQRcvd, StateMRAREQSent, StateREPRcvd, StateMRAREPSent},
	callHandoff:          {StateREQRcvd, StateMRAREQSent},
	callLoadAlternate:    {StateEstablished},
	callAnswerAlternate:  {StateEstablished},
	callDisconnect:       {StateEstablished, StateDREQRcvd},
	callAnswerDisconnect: {StateDREQRcvd},
	callMigrated:         {StateEstablished},
}

// kind returns the kind of a message, and the two communication IDs in it: ours and the sender's. It returns messages
// for REQ and the SIDR messages, which belong to no connection.
func kind(m mad.CMMessage) (k message, ours, theirs uint32) {
	switch m := m.(type) {
	case *mad.REP:
		return msgREP, m.RemoteCommID, m.LocalCommID
	case *mad.RTU:
		return msgRTU, m.RemoteCommID, m.LocalCommID
	case *mad.REJ:
		return msgREJ, m.RemoteCommID, m.LocalCommID
	case *mad.MRA:
		switch m.Message {
		case mad.WhichREQ:
			return msgMRAofREQ, m.RemoteCommID, m.LocalCommID
		case mad.WhichREP:
			return msgMRAofREP, m.RemoteCommID, m.LocalCommID
		case mad.WhichLAP:
			return msgMRAofLAP, m.RemoteCommID, m.LocalCommID
		}
	case *mad.DREQ:
		return msgDREQ, m.RemoteCommID, m.LocalCommID
	case *mad.DREP:
		return msgDREP, m.RemoteCommID, m.LocalCommID
	case *mad.LAP:
		return msgLAP, m.RemoteCommID, m.LocalCommID
	case *mad.APR:
		return msgAPR, m.RemoteCommID, m.LocalCommID
	}
	return messages, 0, 0
}
