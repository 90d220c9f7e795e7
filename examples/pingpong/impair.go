package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"ciddk/hca/reference"
	"ciddk/rvt"
)

// share is a probability on the command line: "2%" or "0.02".
type share float64

// maxShare leaves most packets unharmed: each of five kinds of harm has this share.
const maxShare = 0.1

// UnmarshalText reads one.
func (s *share) UnmarshalText(b []byte) error {
	text, percent := strings.CutSuffix(string(b), "%")
	f, err := strconv.ParseFloat(text, 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= maxShare) { // in words that a NaN does not pass
		return fmt.Errorf("%q: a share from 0 to %g%%, such as 2%%", b, 100*maxShare)
	}
	*s = share(f)
	return nil
}

// weather is what --impair does to the port.
type weather struct {
	// calm ends it. Either program ends with its last message, as the originals do: were that or its acknowledgement lost, the peer's
	// retries would find nobody.
	calm atomic.Bool
}

// over makes a port as bad as o says, in both directions.
func (w *weather) over(p reference.PortConfig, o options) reference.PortConfig {
	if o.Impair == 0 {
		return p
	}
	f := float64(o.Impair)
	i := reference.Impairment{Drop: f, Duplicate: f, Reorder: f, Delay: f, Corrupt: f}
	return reference.Impair(p, reference.ImpairConfig{Seed: o.Seed, Out: i, In: i, Filter: func(reference.Dir, *rvt.Packet) reference.Verdict {
		if w.calm.Load() {
			return reference.Pass
		}
		return reference.Chance
	}})
}

// report says what the port and the transport had to deal with.
func (w *weather) report(out io.Writer, counters map[string]uint64) {
	var l []string
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		n := counters[name]
		if n > 0 && (strings.HasPrefix(name, "impair_") || strings.HasPrefix(name, "drop_") || strings.HasPrefix(name, "udp_ipv4_id_") || strings.HasSuffix(name, "retries")) {
			l = append(l, fmt.Sprintf("%s %d", name, n))
		}
	}
	fmt.Fprintf(out, "impaired: %s\n", strings.Join(l, ", "))
}
