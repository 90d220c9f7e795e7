package sma

import "sync/atomic"

// A Counter counts what an Agent did.
type Counter uint8

// Counters.
const (
	Received       Counter = iota // SMPs, from the wire and from managers of the node
	Forwarded                     // directed route SMPs that went on to another node
	Answered                      // requests with a response, whatever its status
	Delivered                     // to managers of the node
	BadHops                       // dropped: hop pointer, hop count or path are not valid
	BadVersion                    // answered: base version, class or class version
	BadMethod                     // answered: method
	BadAttribute                  // answered: attribute, or the method for it
	BadField                      // answered: modifier or attribute
	BadMKey                       // dropped: the M_Key check failed
	NoResponse                    // dropped: the node did not answer
	Unclaimed                     // dropped: a response or a trap without a manager
	Malformed                     // dropped: a method without a response
	TrapsSent                     // traps, without repetitions
	TrapsRepeated                 // repetitions
	TrapsRepressed                // traps that the subnet manager acknowledged
	TrapsLost                     // traps dropped: no manager, too many at once, or too many repetitions
	BadRepress                    // a TrapRepress for no outstanding trap, which no manager took
	LeasesExpired                 // M_Key leases
	numCounters
)

var counterNames = [numCounters]string{"received", "forwarded", "answered", "delivered", "bad_hops", "bad_version",
	"bad_method", "bad_attribute", "bad_field", "bad_mkey", "no_response", "unclaimed", "malformed", "traps_sent",
	"traps_repeated", "traps_repressed", "traps_lost", "bad_repress", "leases_expired"}

// String returns the counter's name in AddCounters.
func (c Counter) String() string {
	if int(c) < len(counterNames) {
		return counterNames[c]
	}
	return "unknown"
}

// counters are those of an agent.
type counters [numCounters]atomic.Uint64

func (c *counters) add(n Counter) { c[n].Add(1) }

// Count returns the value of a counter.
func (a *Agent) Count(c Counter) uint64 {
	if c >= numCounters {
		return 0
	}
	return a.counters[c].Load()
}

// AddCounters adds the counters to m, by name with the prefix "sma_".
func (a *Agent) AddCounters(m map[string]uint64) {
	for c := range numCounters {
		m["sma_"+c.String()] += a.counters[c].Load()
	}
}
