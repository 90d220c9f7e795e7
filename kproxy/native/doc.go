// Package native is the daemon's own protocol: the layout of messages, and connections that carry them. Package ual
// speaks it on behalf of Go programs; kproxy/native/server is the daemon's end. A client in another language needs
// nothing but this description and the types of package schema.
//
// # Connection
//
// A client connects to a Unix socket of type SOCK_SEQPACKET, so that each send is one message and descriptors arrive
// with the message that they were sent with. The first request is Hello. The daemon identifies the client by the
// credentials of the socket, and releases everything that the client had when the socket is closed.
//
// # Messages
//
// All numbers are little-endian. A message is a header and a body:
//
//	0  uint32  length of the message in bytes, header included; equal to the size of the packet
//	4  uint16  command; bit 15 is set in replies
//	6  uint16  requests: 0; replies: status (package ci), 0 = success
//	8  uint64  id, chosen by the client and repeated in the reply
//
// A client may send further requests before the reply of the first. Requests of the data path are executed in the order
// of arrival; all others may overtake each other, as verbs that are called at the same time do. The body of a reply
// with a status other than 0 is schema.ErrorReply.
//
// # Bodies
//
// A body is the type in schema.Commands, laid out by the rules of C: fields in order, each aligned to its size,
// structures padded to their alignment, padding zero. A slice or string occupies a uint32 there, its number of
// elements. The elements follow the fixed part of the body, each slice beginning at a multiple of 8 bytes from the
// start of the body, in the order of their counts; slices within elements follow the elements. A body ends with its
// last element, padded to 8 bytes.
//
// # The data path
//
// PostSend, PostRecv, PostSRQRecv and Poll carry a whole batch; their bodies are described at AppendPost, SendWR and
// CompletionSize.
//
// # Descriptors
//
// A reply may have descriptors. If the client does not receive them, further replies wait, and requests of its user
// that need descriptors fail with InsufficientResources at a limit. Descriptors count until they are received or the
// client closes its socket, also when the daemon has ended the session.
//
// # Events
//
// Events are read from the descriptor of an event queue, one schema.Event of 32 bytes in each read.
package native
