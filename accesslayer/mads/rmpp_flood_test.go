package mads_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/rvt"
)

// TestRMPPFlood sends long requests to a node that is flooded with first segments of transfers from forged addresses.
// At least 95 % of the requests must be answered, and the state that the flood makes the node hold must stay within its
// bounds.
func TestRMPPFlood(t *testing.T) {
	const seconds, requests = 60, 120
	for _, tt := range []struct {
		name    string
		sources int // 0: each packet has another address
		rate    int // per second
		seconds int
	}{
		{"no flood", 4, 0, seconds},
		{"six a second from four addresses", 4, 6, seconds},
		{"100 a second from four addresses", 4, 100, seconds},
		{"10,000 a second from 200 addresses", 200, 10000, 3},
		{"10,000 a second, each from another address", 0, 10000, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := sim.NewNetwork(sim.NetworkConfig{})
				port := func(a string) rvt.Port {
					return testenv.Must(sim.New(net, sim.Config{Addr: netip.MustParseAddr(a)}))
				}
				a, b := newNode(t, nodeConfig{}, port("10.0.0.1")), newNode(t, nodeConfig{}, port("10.0.0.2"))
				longEcho(t, b, func(r *mads.Received) int { return 1000 })
				client := longAgent(a, "client", nil, nil)
				rng := rand.New(rand.NewPCG(1, 5))
				first := message(mad.Set, 0, perSegment)
				(&mad.RMPP{Version: 1, Type: mad.RMPPData, Flags: mad.RMPPActive | mad.RMPPFirst, Data1: 1,
					Data2: 1 << 20}).Put(first[mad.HeaderLen:])
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				sent := 0
				most := map[string]int{}
				if tt.rate > 0 {
					wg.Go(func() {
						for ctx.Err() == nil {
							n := rng.IntN(1 << 24)
							if tt.sources > 0 {
								n %= tt.sources
							}
							from := mads.Address{QPN: 1, QKey: ci.QKey(mad.QKeyGSI)}
							from.AV.Global = true
							from.AV.GRH = ci.GRH{DGID: netip.AddrFrom4([4]byte{11, byte(n >> 16), byte(n >> 8),
								byte(n)}).As16(), HopLimit: 64}
							sent++
							segment := append([]byte(nil), first...)
							h := mad.Header{BaseVersion: 1, Class: long, ClassVersion: 1, Method: mad.Set,
								TID: uint64(sent)}
							h.Put(segment)
							b.m.Inject(b.port(), segment, from)
							if sent%100 == 0 {
								for k, v := range b.m.Held(b.port()) {
									most[k] = max(most[k], v)
								}
							}
							time.Sleep(time.Second / time.Duration(tt.rate))
						}
					})
				}
				time.Sleep(time.Duration(tt.seconds) * time.Second / 2) // every place is in use
				answered := 0
				for i := range requests {
					reqCtx, cancel := context.WithTimeout(ctx, testenv.Patience)
					r, err := client.Do(reqCtx, &mads.Message{To: b.address(), MAD: message(mad.Get, uint64(i), 3000),
						Timeout: 10 * time.Second})
					cancel()
					if err == nil && len(r.MAD) == 1040 {
						answered++
					}
					time.Sleep(time.Duration(tt.seconds) * time.Second / 2 / requests)
				}
				stop()
				wg.Wait()
				t.Logf("%d forged packets; %d of %d requests answered; held at most %v", sent, answered, requests, most)
				assert.GreaterOrEqual(t, answered*100, requests*95)
				assert.LessOrEqual(t, most["transfers of peers"], 256)
				assert.LessOrEqual(t, most["bytes in"], 1<<20)
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				require.Empty(t, b.m.Held(b.port()))
			})
		})
	}
}
