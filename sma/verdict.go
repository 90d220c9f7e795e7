package sma

import "ciddk/ci"

// An Action is what the caller of an Agent does with a datagram.
type Action uint8

// Actions.
const (
	// Discard drops the datagram. The agent has counted it.
	Discard Action = iota
	// Forward sends the datagram out of Verdict.Port or, if ByLID is set, to Verdict.LID.
	Forward
	// Reply sends the datagram, which is now the response, out of Verdict.Port or, if ByLID is set, to the LID that the
	// request came from. After Agent.Send, Port is 0 and the response is for the sender itself.
	Reply
	// Deliver passes the datagram to the managers at this port: a response, a trap, a TrapRepress for none of the
	// agent's traps, or a request that agents do not
	// answer, such as Get(SMInfo). If none takes it, the caller calls Agent.Refuse.
	Deliver
)

// A Verdict is the result of an Agent for one datagram.
type Verdict struct {
	Action Action
	Port   uint8  // port to send from, if ByLID is not set. The packet has permissive LIDs.
	ByLID  bool   // the datagram leaves with LIDs, as any other packet
	LID    ci.LID // destination of a Forward by LID
}
