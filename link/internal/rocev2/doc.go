// Package rocev2 holds what RoCEv2 ports have in common, however their IP packets travel (IBTA volume 1, annex A17):
// package udp sends them from sockets of the system, package sim through a network in memory.
//
// A Port has the attributes, routes and counters, and uses a Socket to move packets. A Cutter makes wire packets of the
// engine's trains, a Decoder makes trains of wire packets again. The ICRC covers the IPv4 identification, which a
// socket does not show: ipid.go has the rules by which a Decoder checks it all the same.
package rocev2
