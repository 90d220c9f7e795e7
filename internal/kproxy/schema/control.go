package schema

// Control is an operation of the daemon itself, which only privileged clients may execute. The operations and the
// layout of Request are those of the program that is the daemon.
type Control struct {
	Operation string `max:"1024"`
	Request   []byte `max:"49152"`
}

// ControlReply contains the reply of the operation.
type ControlReply struct {
	Text     []byte `max:"49152"`
	Reserved uint32
}
