package ladder

import "time"

// Side is an end of the ladder.
type Side uint8

// Sides.
const (
	Left Side = iota
	Right
)

// Kind is what a Note tells, in the order in which notes of one time are shown.
type Kind uint8

// Kinds.
const (
	Event Kind = iota // the consumer learns something
	Call              // the consumer calls
	ConnState
	QPState
	kinds
)

// Note is what happens at one side.
type Note struct {
	At   time.Duration // since the first thing of the run
	Side Side
	Kind Kind
	Text string
}

// Text is what a packet says.
type Text struct {
	Name   string   // of the message
	Fields string   // the important ones
	More   []string // others
}

// Message is a packet.
type Message struct {
	From          Side
	Sent, Arrived time.Duration // since the first thing of the run; Arrived is 0 where Lost
	Lost          bool
	Again         bool // a copy of an earlier one
	Alternate     bool // not between the first ports of both ends
	Text
}

// Chart is one run. Messages are in order of Sent, Notes of At, Side, Kind.
type Chart struct {
	Title    string
	Ends     [2]string
	Messages []Message
	Notes    []Note
}
