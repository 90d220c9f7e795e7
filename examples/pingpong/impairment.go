package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"ciddk/link/impair"
	"ciddk/rvt"
)

// A share is a probability on the command line, such as "2%" or "0.02".
type share float64

// maxShare is the largest share. There are five kinds of impairment with the same share, and half of the packets should
// pass.
const maxShare = 0.1

// UnmarshalText parses a share.
func (s *share) UnmarshalText(b []byte) error {
	text, percent := strings.CutSuffix(string(b), "%")
	f, err := strconv.ParseFloat(text, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= maxShare) { // also false for a NaN
		return fmt.Errorf("%q: want a share from 0 to %g%%, such as 2%%", b, 100*maxShare)
	}
	*s = share(f)
	return nil
}

// An impairment is the effect of --impair on the port.
type impairment struct {
	// off ends the impairment. Each program exits after its last message, as the originals do. If that message or its
	// acknowledgement were lost, nobody would answer the retransmissions of the peer.
	off atomic.Bool
}

// wrap returns a port that impairs p in both directions, as o requires. It closes p if it fails.
func (i *impairment) wrap(p rvt.Port, o options) (rvt.Port, error) {
	if o.Impair == 0 {
		return p, nil
	}
	f := float64(o.Impair)
	m := impair.Model{Drop: f, Duplicate: f, Reorder: f, Delay: f, Corrupt: f}
	bad, err := impair.New(p, impair.Config{Seed: o.Seed, Out: m, In: m,
		Filter: func(rvt.Direction, *rvt.Packet) impair.Verdict {
			if i.off.Load() {
				return impair.Pass
			}
			return impair.Chance
		}})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return bad, nil
}

// report prints the counters of the impairment, of dropped packets and of retries.
func (i *impairment) report(out io.Writer, counters map[string]uint64) {
	var l []string
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		n := counters[name]
		if n > 0 && (strings.HasPrefix(name, "impair_") || strings.HasPrefix(name, "drop_") ||
			strings.HasPrefix(name, "udp_ipv4_id_") || strings.HasSuffix(name, "retries")) {
			l = append(l, fmt.Sprintf("%s %d", name, n))
		}
	}
	fmt.Fprintf(out, "impaired: %s\n", strings.Join(l, ", "))
}
