package mads_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// A response that is longer than Message.MaxResponse ends the request at its first segment if the sender announces the
// length, and is refused with STOP. Nothing of it stays in memory.
func TestMaxResponse(t *testing.T) {
	for _, limit := range []int{40 + perSegment, 40 + 10*perSegment - 1, 40 + 10*perSegment, 1 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			tapped(t, mads.Config{}, mads.Config{}, func(t *testing.T, a, b *node, x *tap) {
				longEcho(t, b, func(*mads.Received) int { return 10 * perSegment })
				client := longAgent(a, "client", nil, nil)
				r, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: message(mad.Get, 1, 10),
					Timeout: 3 * time.Second, MaxResponse: limit})
				synctest.Wait()
				if limit >= 40+10*perSegment {
					require.NoError(t, err)
					assert.Len(t, r.MAD, 40+10*perSegment)
					return
				}
				require.ErrorIs(t, err, ci.InsufficientResources)
				assert.Equal(t, 1, x.count("< DATA"), "%v", x.lines())
				assert.Equal(t, 1, x.count("> STOP 1"))
				time.Sleep(time.Minute)
				assert.Empty(t, a.m.Held(a.port()))
				assert.Empty(t, b.m.Held(b.port()))
			})
		})
	}
}

// A sender that does not announce the length is stopped at the segment that exceeds the limit.
func TestMaxResponseUnannounced(t *testing.T) {
	tapped(t, mads.Config{}, mads.Config{}, func(t *testing.T, a, b *node, x *tap) {
		var server mads.Agent
		server = b.agent(mads.AgentConfig{Name: "raw", Class: long, Version: 1, OUI: oui,
			Methods: []mad.Method{mad.Get}, OnReceive: func(r *mads.Received) {
				for i := range uint32(3) {
					m := message(mad.GetResp, r.Header().TID, perSegment)
					p := mad.RMPP{Version: 1, Type: mad.RMPPData, Flags: mad.RMPPActive, Data1: i + 1}
					if i == 0 {
						p.Flags |= mad.RMPPFirst
					}
					p.Put(m[mad.HeaderLen:])
					assert.NoError(t, server.Send(&mads.Message{To: r.From, MAD: m}))
				}
			}})
		client := longAgent(a, "client", nil, nil)
		_, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: message(mad.Get, 1, 10),
			MaxResponse: 40 + 2*perSegment})
		require.ErrorIs(t, err, ci.InsufficientResources)
		synctest.Wait()
		assert.Equal(t, 1, x.count("> STOP 1"), "%v", x.lines())
		assert.Empty(t, a.m.Held(a.port()))
	})
}
