package storm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/link/impair"
	"ciddk/rvt"
)

// Config describes a storm.
type Config struct {
	Seed     uint64
	Messages int  // number of messages that must succeed, without local operations
	IPv6     bool // use IPv6 instead of IPv4
	Pairs    int  // number of connections; 0 is 48
	Wrong    int  // about one request in Wrong is invalid on purpose; 0 is 1000
	// Impairment is that of each direction. Nil is 10 % of each kind.
	Impairment *impair.Model
	// Port, if not nil, wraps the port of each HCA. Tests use it to imitate engines with defects.
	Port func(rvt.Port) rvt.Port
	// Connect, if not nil, changes the attributes of a queue pair without the knowledge of the oracle, for the same
	// purpose.
	Connect func(*ci.QPAttr)
}

// latency is the time that every packet takes.
const latency = 5 * time.Microsecond

// impairment returns the impairment, or the default.
func (c *Config) impairment() impair.Model {
	if c.Impairment != nil {
		return *c.Impairment
	}
	return impair.Model{Drop: 0.1, Duplicate: 0.1, Reorder: 0.1, Delay: 0.1, Corrupt: 0.1}
}

// Report is the result of a storm.
type Report struct {
	Messages   int            // messages that succeeded, with correct contents and order
	ByOp       map[string]int // Messages by operation
	Local      int            // number of binds, fast registrations and local invalidations
	Packets    uint64
	Bytes      uint64
	Faults     map[string]uint64 // packets by verdict of the network
	Harmless   uint64            // damaged packets that receivers accepted: no check covers the damaged bit
	Refused    uint64            // damaged packets that receivers dropped
	Failures   map[string]int    // queue pairs that failed as the oracle predicted, by completion status
	Unanswered int               // of those, queue pairs whose retries ran out because their peer had failed before
	ByRetry    [8]Retries        // by retry count
	Flushed    int               // requests flushed by failures
	Connects   int               // connections established
	Virtual    time.Duration     // virtual time of the storm
	Hash       [32]byte          // of all packets with their times and verdicts, and of all completions
	RNR        uint64            // retries after RNR NAKs
	NAKs       uint64            // retries after sequence errors
	Timeouts   uint64            // retries after timeouts
}

// Retries counts the messages of connections with one retry count, and the failures of those connections because their
// retries ran out although their peer had not failed.
type Retries struct{ Messages, Failures int }

// String returns the report as lines of text.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d messages and %d local operations in %d packets, %d MB, %v of virtual time\n",
		r.Messages, r.Local,
		r.Packets, r.Bytes>>20, r.Virtual)
	list := func(title string, keys []string, count func(string) any) {
		fmt.Fprintf(&b, "%s:", title)
		slices.Sort(keys)
		for i, k := range keys {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, " %v %s", count(k), k)
		}
		b.WriteByte('\n')
	}
	list("messages", slices.Collect(maps.Keys(r.ByOp)), func(k string) any { return r.ByOp[k] })
	list("packets", slices.Collect(maps.Keys(r.Faults)), func(k string) any { return r.Faults[k] })
	fmt.Fprintf(&b, "damaged packets: %d dropped, %d accepted because no check covers the damaged bit\n", r.Refused,
		r.Harmless)
	fmt.Fprintf(&b, "retries: %d for sequence errors, %d for timeouts, %d for receivers not ready\n",
		r.NAKs, r.Timeouts,
		r.RNR)
	list("queue pairs that failed as the oracle predicted", slices.Collect(maps.Keys(r.Failures)),
		func(k string) any { return r.Failures[k] })
	fmt.Fprintf(&b, "of those without retries left, %d had a peer that had failed; the others, by retry count:",
		r.Unanswered)
	for n, x := range r.ByRetry {
		fmt.Fprintf(&b, " %d: %d of %d messages;", n, x.Failures, x.Messages)
	}
	fmt.Fprintf(&b, "\n%d requests flushed by failures; %d connections established\nhash %x\n", r.Flushed, r.Connects,
		r.Hash)
	return b.String()
}
