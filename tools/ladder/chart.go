package ladder

import "time"

// A Side is an end of the ladder.
type Side uint8

// Sides.
const (
	Left Side = iota
	Right
)

// A Kind is the kind of a Note. Notes of one time are shown in the order of their kinds.
type Kind uint8

// Kinds.
const (
	Event Kind = iota // an event is delivered to the consumer
	Call              // the consumer calls a function
	ConnState
	QPState
	kinds
)

// A Note is an event at one side.
type Note struct {
	At   time.Duration // time since the first entry of the run
	Side Side
	Kind Kind
	Text string
}

// Text is the description of a packet.
type Text struct {
	Name   string   // name of the message
	Fields string   // the important fields
	More   []string // other fields
}

// A Message is a packet.
type Message struct {
	From          Side
	Sent, Arrived time.Duration // times since the first entry of the run; Arrived is 0 if Lost
	Lost          bool
	Again         bool // a duplicate of an earlier message
	Alternate     bool // not between the first ports of both ends
	Text
}

// A Chart is one run. Messages are sorted by Sent; Notes by At, Side and Kind.
type Chart struct {
	Title    string
	Ends     [2]string
	Messages []Message
	Notes    []Note
}
