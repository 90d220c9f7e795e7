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

// over impairs a port as o requires, in both directions. It closes the port if it fails.
func (w *weather) over(p rvt.Port, o options) (rvt.Port, error) {
	if o.Impair == 0 {
		return p, nil
	}
	f := float64(o.Impair)
	i := impair.Model{Drop: f, Duplicate: f, Reorder: f, Delay: f, Corrupt: f}
	bad, err := impair.New(p, impair.Config{Seed: o.Seed, Out: i, In: i, Filter: func(rvt.Direction, *rvt.Packet) impair.Verdict {
		if w.calm.Load() {
			return impair.Pass
		}
		return impair.Chance
	}})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return bad, nil
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
