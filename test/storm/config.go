package storm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/hca/reference"
)

// Config describes a storm.
type Config struct {
	Seed     uint64
	Messages int  // that must arrive; local operations and what dies are not counted
	IPv6     bool // else IPv4
	Pairs    int  // connections; 0 is 48
	Wrong    int  // one request in about so many is wrong on purpose; 0 is 1000
	// Impairment is each way's; the zero value is 10 % each.
	Impairment *reference.Impairment
	// Port, if not nil, stands in front of each HCA's port: for engines that are wrong on purpose.
	Port func(reference.PortConfig) reference.PortConfig
	// Connect, if not nil, changes what a queue pair is told behind the oracle's back: likewise.
	Connect func(*ci.QPAttr)
}

// latency is what every packet takes.
const latency = 5 * time.Microsecond

func (c *Config) impairment() reference.Impairment {
	if c.Impairment != nil {
		return *c.Impairment
	}
	return reference.Impairment{Drop: 0.1, Duplicate: 0.1, Reorder: 0.1, Delay: 0.1, Corrupt: 0.1}
}

// Report is what came of a storm.
type Report struct {
	Messages   int // arrived, contents and order right
	ByOp       map[string]int
	Local      int // binds, fast registrations, local invalidations
	Packets    uint64
	Bytes      uint64
	Faults     map[string]uint64 // packets by fate
	Harmless   uint64            // damaged where nobody looks: accepted
	Refused    uint64            // damaged: thrown away by the receivers
	Deaths     map[string]int    // queue pairs that died as the oracle said, by the status that told
	Unanswered int               // of those, the peers of queue pairs that had died before: nobody answered them any more
	ByRetry    [8]Retries        // by retry count
	Flushed    int               // requests behind those
	Lives      int               // connections made
	Virtual    time.Duration
	Hash       [32]byte // of all packets, their times and fates, and all completions
	RNR, NAKs  uint64   // not ready, sequence errors
	Timeouts   uint64
}

// Retries is how many messages connections of one retry count have carried, and how many of them died of it while their peer was alive.
type Retries struct{ Messages, Deaths int }

// String is the report in lines.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d messages and %d local operations in %d packets, %d MB, %v of virtual time\n", r.Messages, r.Local, r.Packets, r.Bytes>>20, r.Virtual)
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
	fmt.Fprintf(&b, "damaged packets: %d refused, %d accepted for their damage was where nobody looks\n", r.Refused, r.Harmless)
	fmt.Fprintf(&b, "retries: %d for sequence errors, %d for timeouts, %d for receivers not ready\n", r.NAKs, r.Timeouts, r.RNR)
	list("queue pairs that died as the oracle said", slices.Collect(maps.Keys(r.Deaths)), func(k string) any { return r.Deaths[k] })
	fmt.Fprintf(&b, "of those without retries left, %d had a dead peer; the others, by retry count:", r.Unanswered)
	for n, x := range r.ByRetry {
		fmt.Fprintf(&b, " %d: %d of %d messages;", n, x.Deaths, x.Messages)
	}
	fmt.Fprintf(&b, "\n%d requests flushed behind them; %d connections made\nhash %x\n", r.Flushed, r.Lives, r.Hash)
	return b.String()
}
