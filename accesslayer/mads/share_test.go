package mads_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// A peer that begins long messages and does not end them holds at most its share of the memory. Responses to our own
// requests have room.
func TestRMPPBytesOfAPeer(t *testing.T) {
	const most, all, segments = 40 * perSegment, 8 * 40 * perSegment, 30
	tapped(t, mads.Config{MaxMessage: most, MaxReassembly: all, MaxTransfers: 256}, mads.Config{},
		func(t *testing.T, a, b *node, x *tap) {
			longAgent(a, "receiver", []mad.Method{mad.Set}, func(*mads.Received) {})
			p := newRawPeer(t, b, a)
			for tid := range uint64(12) {
				for n := uint32(1); n < segments; n++ {
					p.data(tid, n, segments)
					if n == 1 { // the window is open
						synctest.Wait()
					}
				}
				synctest.Wait()
				assert.LessOrEqual(t, a.m.Held(a.port())["bytes in"], all/4+mad.Size, "%d transfers", tid+1)
			}
			assert.NotZero(t, x.count("> STOP 1"))
			assert.Greater(t, a.m.Held(a.port())["bytes in"], all/8, "it has its share")

			require.NoError(t, p.a.Close())
			longEcho(t, b, func(*mads.Received) int { return most - 40 })
			client := a.agent(mads.AgentConfig{Name: "client", Class: long, Version: 1, RMPP: true})
			r, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: message(mad.Get, 1, 216)})
			require.NoError(t, err)
			assert.Len(t, r.MAD, most)
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			assert.Empty(t, a.m.Held(a.port()))
		})
}

// A peer that sends requests and does not acknowledge the responses has at most its share of the responses being sent.
func TestRMPPAnswersToAPeer(t *testing.T) {
	tapped(t, mads.Config{MaxTransfers: 8}, mads.Config{}, func(t *testing.T, a, b *node, _ *tap) {
		newRawPeer(t, b, a)
		server := longAgent(a, "server", nil, nil)
		send := func(m mad.Method, tid uint64) error {
			return server.Send(&mads.Message{To: b.address(), MAD: message(m, tid, 1000)})
		}
		require.NoError(t, send(mad.GetResp, 1))
		require.NoError(t, send(mad.GetResp, 2))
		require.ErrorIs(t, send(mad.GetResp, 3), ci.InsufficientResources)
		elsewhere := b.address()
		elsewhere.AV.DLID++
		require.NoError(t, server.Send(&mads.Message{To: elsewhere, MAD: message(mad.GetResp, 3, 1000)}),
			"others have theirs")
		require.NoError(t, send(mad.Set, 4), "other messages are not limited")
		time.Sleep(3 * time.Minute) // they time out
		synctest.Wait()
		require.Empty(t, a.m.Held(a.port()))
		require.NoError(t, send(mad.GetResp, 5))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		require.Empty(t, a.m.Held(a.port()))
	})
}
