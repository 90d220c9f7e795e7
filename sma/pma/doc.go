// Package pma is the performance management agent of a node (IBTA volume 1, 16.1): ClassPortInfo, PortCounters and
// PortCountersExtended, for adapters and switches.
//
// An [Agent] reads the counters of a port from a [Source]. A Set does not change the source: the agent keeps for each
// counter what it was when it was set. The two attributes have separate values, so a Set of one does not affect the
// other. A 64-bit counter wraps; a counter of PortCounters stops at its largest value.
//
// Methods may be called concurrently. An agent for which no counter was set keeps no memory.
package pma
