package bench

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/rvt"
)

// needAddresses returns two loopback addresses, or skips the test where this machine does not have them.
func needAddresses(t testing.TB) (a, b netip.Addr) {
	t.Helper()
	a, b = addresses()
	testenv.Addresses(t, testenv.RoCEv2Port, a.String(), b.String())
	return a, b
}

// newUDPPair returns two connected HCAs of this process over UDP.
func newUDPPair(t testing.TB) *directPair {
	a, b := needAddresses(t)
	next := []openPort{udpPort(a), udpPort(b)}
	p, err := connectPair(deep, func() (rvt.Port, error) {
		open := next[0]
		next = next[1:]
		return open()
	})
	require.NoError(t, err)
	return p
}

// TestAllocs checks that no measured path allocates memory per work request and completion.
func TestAllocs(t *testing.T) {
	if testenv.Race {
		t.Skip("under the race detector, pools forget at random")
	}
	links := map[string]func(testing.TB) *directPair{
		"direct": func(t testing.TB) *directPair {
			p, err := newDirectPair()
			require.NoError(t, err)
			return p
		},
		"UDP": newUDPPair,
	}
	const ops = 16 * batch
	for link, open := range links {
		t.Run(link, func(t *testing.T) {
			p := open(t)
			defer func() { require.NoError(t, p.Close()) }()
			s := newStreamer(p.a, flow{op: ci.OpSend, size: small, per: batch, depth: batch})
			r, err := newReceiver(p.b, small, 3, nil)
			require.NoError(t, err)
			write := flow{op: ci.OpWrite, to: p.b.mem, size: small, per: 1, depth: 16}
			little := newStreamer(p.a, write)
			write.size = 64 << 10
			large := newStreamer(p.a, write)
			for _, p := range []*poller{&s.poller, &r.poller, &little.poller, &large.poller} {
				p.yield = true // AllocsPerRun sets GOMAXPROCS to 1
			}
			for name, work := range map[string]func() error{
				"SEND": func() error {
					for range ops / batch {
						if err := s.run(batch, nil); err != nil {
							return err
						}
						if err := r.run(batch); err != nil {
							return err
						}
					}
					return nil
				},
				"WRITE of 64 bytes": func() error { return little.run(ops, nil) },
				"WRITE of 64 KiB":   func() error { return large.run(ops/8, nil) },
			} {
				// The average of a few runs of at least 64 requests each. A garbage collection empties the pools.
				// Refilling them takes a few allocations, which one allocation in eight requests would exceed.
				require.NoError(t, work(), name)
				allocs := testing.AllocsPerRun(5, func() { err = work() })
				require.NoError(t, err, name)
				require.Less(t, allocs, float64(ops/8/8), "%s: allocations in a run", name)
			}
		})
	}
}
