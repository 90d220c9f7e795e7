// Package sma is the vendor-neutral half of subnet management on a node (SAS-2.1-13): the subnet management interface
// (SMI), which takes directed route packets from port to port, and the subnet management agent (SMA), which answers the
// subnet manager (IBTA volume 1, 14.2 and 14.3).
//
// An [Agent] manages a [Node]. It checks class, version, method, attribute and M_Key, makes the responses, and sends
// and repeats traps. The node holds the attributes. There are two kinds of nodes:
//
//   - A [SoftNode] keeps the attributes of an adapter, of a port, or of a switch in memory. Its [Hardware] does what
//     follows from a change. Ports of package link/direct and switches of package fabric are such nodes.
//   - NewCANode returns a node over the ports of a driver: CA.LocalMAD does what its hardware does, and the
//     kit does the rest.
//
// The agent is driven by its callers. For each SMP that arrives they call Agent.Receive, and do what the [Verdict]
// says:
//
//	switch v := agent.Receive(port, slid, &m); v.Action {
//	case sma.Forward: // send m out of v.Port, or to v.LID
//	case sma.Reply: // m is the response: send it out of v.Port, or to slid
//	case sma.Deliver: // m is for a subnet manager here
//	}
//
// An idle node has no goroutine and no timer. Receive allocates nothing.
//
// Package sma/pma is the performance management agent.
package sma
