package rdmatest_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/link/impair"
	"ciddk/rdmatest"
)

// TestTrace checks the packets of a connection: each one leaves and, if the network passes it, arrives after the
// latency.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rdmatest.New(t, rdmatest.Config{Latency: time.Millisecond}, "server", "client")
		empty := n.TraceHash()
		require.Empty(t, n.Trace())
		time.Sleep(time.Second)
		c, _ := connect(t, n.Host("client"), n.Host("server"))
		n.Partition("client", "server")
		require.NoError(t, c.Send(t.Context(), []byte("hello")))
		time.Sleep(10 * time.Millisecond)
		list := n.Trace()
		require.NotEqual(t, empty, n.TraceHash())
		require.Equal(t, list, n.Trace())
		first, second, last := list[0], list[1], list[len(list)-1]
		assert.Equal(t, [2]string{"client", "server"}, [2]string{first.From, first.To})
		assert.False(t, first.Arrived)
		const line = `^1\.000000\d+s client > server: UD_SEND_ONLY QP 0x1 PSN \d+, 308 bytes, passed$`
		assert.Regexp(t, line, first.String())
		assert.True(t, second.Arrived)
		assert.Equal(t, time.Millisecond, second.Time-first.Time)
		assert.Equal(t, first.Data, second.Data)
		assert.Regexp(t, `^1\.0[^ ]+ client => server: UD_SEND_ONLY `, second.String())
		assert.Regexp(t, `client > server: RC_SEND_ONLY_IMM QP 0x[0-9a-f]+ PSN \d+, 56 bytes, dropped$`, last.String())
		assert.Equal(t, impair.Drop, last.Verdict)

		// An address that no host has.
		_, err := n.Host("client").Dial(t.Context(), netip.MustParseAddrPort("10.0.0.3:7174"))
		require.Error(t, err)
		list = n.Trace()
		assert.Equal(t, "10.0.0.3", list[len(list)-1].To)
		assert.Equal(t, "5ns a > b: invalid packet, 0 bytes, passed",
			rdmatest.Packet{Time: 5, From: "a", To: "b", Verdict: impair.Pass}.String())
	})
}

// TestTraceMemory limits the trace: the newest packets stay, and the hash is that of all.
func TestTraceMemory(t *testing.T) {
	hashes := map[string]bool{}
	for memory, want := range map[int]int{0: 6, 2000: 3, 1: 0} {
		synctest.Test(t, func(t *testing.T) {
			n := rdmatest.New(t, rdmatest.Config{TraceMemory: memory}, "server", "client")
			connect(t, n.Host("client"), n.Host("server"))
			time.Sleep(time.Second)
			assert.Len(t, n.Trace(), want)
			hashes[n.TraceHash()] = true
		})
	}
	require.Len(t, hashes, 1)
}
