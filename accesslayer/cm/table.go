package cm

import "ciddk/mad"

// message is what a connection can receive. REQ and MRA come in kinds, which have reactions of their own.
type message uint8

const (
	msgREQ      message = iota // the REQ that made this connection, again
	msgOtherREQ                // another REQ with the communication ID, or the QP, of this connection's peer: one of the two is stale
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

var messageNames = [messages]string{"REQ", "other REQ", "REP", "RTU", "REJ", "MRA of REQ", "MRA of REP", "MRA of LAP", "DREQ", "DREP", "LAP", "APR"}

func (m message) String() string { return messageNames[m] }

// action is what a connection does with a message in a state.
type action uint8

const (
	ignore       action = iota // the peer has not, or cannot have, seen where we are; or it is a late copy
	repeat                     // what was sent last goes out again
	repeatREJ                  // what was sent last, if it was a REJ
	rejectStale                // what was sent last, if it was a REJ; otherwise REJ, stale connection
	endStale                   // this connection ends; REJ, stale connection, for the request
	takeREP                    // REPRcvd, if the REP can be
	establish                  // Established
	noteRTU                    // EventEstablished, the first time
	waitLonger                 // the timer is set as the MRA says
	rejected                   // Closed
	rejectedLate               // TimeWait: the peer's QP, or ours, may have sent already, or copies of the REQ may be on their way
	disconnect                 // DREQRcvd, EventDisconnect
	answer                     // DREP, TimeWait
	answerAgain                // DREP
	disconnected               // TimeWait
	establishLAP               // Established, then takeLAP
	takeLAP                    // see lapReactions
	takeAPR
	actions
)

var actionNames = [actions]string{"-", "repeat", "repeat REJ", "REJ stale", "end, REJ stale", "REPRcvd", "Established", "note", "wait longer",
	"Closed", "TimeWait", "DREQRcvd", "DREP, TimeWait", "DREP", "TimeWait", "Established, see LAP", "see LAP", "see LAP"}

func (a action) String() string { return actionNames[a] }

// reactions is the state machine of 12.9.7, as far as messages drive it; what consumers may call is calls, and what time does is conn.expire.
// The table is in docs/connections.md, too. Of the choices that the standard leaves: a DREQ, or a LAP, before the RTU
// establishes, because the active end had sent the RTU before; a late or repeated message of a state that is over is not answered
// unless its sender waits for an answer.
var reactions = [states][messages]action{
	StateREQSent:    {msgREP: takeREP, msgREJ: rejected, msgMRAofREQ: waitLonger},
	StateREPWait:    {msgREP: takeREP, msgREJ: rejected, msgMRAofREQ: waitLonger},
	StateREQRcvd:    {msgOtherREQ: endStale, msgREJ: rejectedLate},
	StateMRAREQSent: {msgREQ: repeat, msgOtherREQ: endStale, msgREJ: rejectedLate},
	StateREPSent: {msgREQ: repeat, msgOtherREQ: endStale, msgRTU: establish, msgREJ: rejectedLate, msgMRAofREP: waitLonger,
		msgDREQ: disconnect, msgLAP: establishLAP},
	StateMRAREPRcvd: {msgOtherREQ: endStale, msgRTU: establish, msgREJ: rejectedLate, msgMRAofREP: waitLonger, msgDREQ: disconnect,
		msgLAP: establishLAP},
	StateREPRcvd:    {msgOtherREQ: endStale, msgREJ: rejectedLate, msgDREQ: disconnect},
	StateMRAREPSent: {msgOtherREQ: endStale, msgREP: repeat, msgREJ: rejectedLate, msgDREQ: disconnect},
	StateEstablished: {msgOtherREQ: endStale, msgREP: repeat, msgRTU: noteRTU, msgREJ: rejectedLate, msgMRAofLAP: waitLonger,
		msgDREQ: disconnect, msgLAP: takeLAP, msgAPR: takeAPR},
	StateDREQSent: {msgOtherREQ: rejectStale, msgREJ: rejectedLate, msgDREQ: answer, msgDREP: disconnected},
	StateDREQRcvd: {msgOtherREQ: rejectStale, msgDREQ: answer},
	StateTimeWait: {msgREQ: rejectStale, msgOtherREQ: rejectStale, msgREP: repeatREJ, msgRTU: repeatREJ, msgDREQ: answerAgain},
}

// lapState is the state of loading an alternate path, within StateEstablished (12.8).
type lapState uint8

const (
	lapIdle    lapState = iota
	lapSent             // active: APR is awaited
	lapMRARcvd          // active: with MRA
	lapRcvd             // passive: the consumer is asked
	lapMRASent          // passive: it needs longer
	lapStates
)

var lapStateNames = [lapStates]string{"idle", "LAPSent", "MRARcvd", "LAPRcvd", "MRASent"}

// lapReactions: what comes while an alternate path is loaded. LAP again is the one with the transaction ID of the last.
var lapReactions = [lapStates]struct{ lap, lapAgain, apr, mra lapAction }{
	lapIdle:    {lap: lapAsk, lapAgain: lapRepeat},
	lapSent:    {apr: lapDone, mra: lapLonger},
	lapMRARcvd: {apr: lapDone, mra: lapLonger},
	lapRcvd:    {lap: lapAsk},
	lapMRASent: {lap: lapAsk, lapAgain: lapRepeat},
}

type lapAction uint8

const (
	lapIgnore lapAction = iota
	lapAsk              // EventAlternate, LAPRcvd; or APR at once, where the manager knows the answer
	lapRepeat           // APR, or MRA, again
	lapDone             // idle
	lapLonger           // the timer is set as the MRA says, MRARcvd
	lapActions
)

var lapActionNames = [lapActions]string{"-", "LAPRcvd", "repeat", "idle", "MRARcvd"}

// call is what a consumer can ask of a Conn.
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

var callNames = [callsN]string{"Accept", "Confirm", "Established", "Delay", "Reject", "Handoff", "LoadAlternate", "AnswerAlternate", "Disconnect",
	"AnswerDisconnect", "Migrated"}

// calls lists the states that allow a call; the others answer InvalidState.
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

// kind tells which row of reactions a message belongs to, and which of our communication IDs and which of its sender's it names. REQ
// and the SIDR messages are for no connection.
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
