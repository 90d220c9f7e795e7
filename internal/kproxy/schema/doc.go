// Package schema declares the requests that a client process may send to the daemon, and their replies. It is the one
// table that every encoding of the protocol and both of its ends are built from: Commands lists each command with the
// types of its request and reply, and the tags of their fields state the limits that a request is checked against
// before any code of the daemon uses it.
//
// # Tags
//
//	handle:"cq"           the field is a Handle of this kind
//	handle:"cq,optional"  zero is allowed, too
//	handle:"any"          any kind; zero is not allowed
//	max:"64"              upper bound of a number, or of the length of a slice or string; required for the latter
//	min:"1"               lower bound of a number
//
// A bool is 0 or 1 and nothing else. Fields named Reserved are zero.
//
// # Layout
//
// The types are written so that every encoding can use fixed offsets: fields are aligned to their size, and the size of
// a structure is a multiple of its alignment. A slice or string is a 32-bit count in the fixed part; package native
// documents where its elements are.
//
// # Handles
//
// A Handle names an object of one client, with its kind and a generation. It means nothing to another client. The
// daemon looks it up in the table of the client that sent it; a handle that is not in the table has the status that
// package ci defines for its kind, such as InvalidCQHandle.
//
// # Tokens
//
// A client chooses a 64-bit token for every object with events. The daemon returns it in each event and completion, and
// does not interpret it. An event may be delivered before the reply that contains the object's handle.
package schema
