package mads_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
)

// In each mode of waiting for completions, on both ports of an HCA, no datagram is lost or duplicated.
func TestModes(t *testing.T) {
	const each = 10000
	for name, mode := range map[string]accesslayer.PollMode{"event": accesslayer.PollEvent,
		"busy": accesslayer.PollBusy, "hybrid": accesslayer.PollHybrid} {
		t.Run(name, func(t *testing.T) {
			l := direct.NewLink()
			n := newNode(t, nodeConfig{mads: mads.Config{Poll: mode}}, testenv.Must(direct.New(l, direct.Config{})),
				testenv.Must(direct.New(l, direct.Config{})))
			ca := n.port().CA
			require.Equal(t, []mads.Port{{CA: ca, Num: 1}, {CA: ca, Num: 2}}, n.m.Ports())
			var wg sync.WaitGroup
			var answered atomic.Int64
			for num := uint8(1); num <= 2; num++ {
				var server mads.Agent
				server = n.agent(mads.AgentConfig{Port: mads.Port{CA: ca, Num: num}, Class: vendor, Version: 1,
					Methods: []mad.Method{mad.Get}, OnReceive: func(r *mads.Received) {
						r.MAD[3] = byte(mad.GetResp)
						assert.NoError(t, server.Send(&mads.Message{To: r.From, MAD: r.MAD}))
					}})
				client := n.agent(mads.AgentConfig{Port: mads.Port{CA: ca, Num: 3 - num}})
				to := mads.Address{QPN: 1, AV: ci.AVAttr{DLID: must(must(n.al.Adapter(ca)).Port(num)).LID}}
				for k := range 32 {
					wg.Go(func() {
						for i := range each / 32 {
							m := request(vendor, 1, mad.Get, uint64(i))
							m[100], m[101], m[102] = num, byte(k), byte(i)
							r, err := client.Do(t.Context(), &mads.Message{To: to, MAD: m, Timeout: 20 * time.Second})
							if !assert.NoError(t, err) {
								return
							}
							if assert.Equal(t, m[100:103], r.MAD[100:103]) {
								answered.Add(1)
							}
						}
					})
				}
			}
			wg.Wait()
			assert.Equal(t, int64(2*32*(each/32)), answered.Load())
			for _, p := range n.m.Ports() {
				c := n.m.Counters()[p]
				assert.Empty(t, c.Dropped)
				assert.Zero(t, c.Retried)
				assert.Equal(t, uint64(2*32*(each/32)), c.Received)
			}
		})
	}
}
