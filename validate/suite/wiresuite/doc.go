// Package wiresuite holds the cases that test a driver at its wire: the packets that it sends, and its reaction to
// those that it receives. The certifier has an end of the link (validate.Wire). There it plays the peer of a QP packet
// by packet, or it relays the packets of two adapters. Each area is a function in a file of its own. Package validate
// describes the form of cases, under "For authors of cases".
//
// Most cases use a peer, which dial returns: a QP of the adapter under test in RTS, connected to the certifier. The
// case sends packets with request, message and answer, and checks received ones with expect. To check that no packet
// arrives, a case does not wait: it sends another request, whose answer must be the next packet (barrier).
//
// The suite computes the ICRC of all packets itself, from the specification, and does not use package wire for it,
// because the kit's software adapter does.
package wiresuite
