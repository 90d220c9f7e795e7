package verbs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/internal/testenv"
)

// TestTwoDaemons runs servers and clients on the adapters of two daemons, which send RoCEv2 over UDP.
func TestTwoDaemons(t *testing.T) {
	for _, x := range testenv.Sample(t, []string{
		"ibv_rc_pingpong -g 0 -n 100", "ib_send_bw -n 64 -F", "ib_atomic_lat -n 64 -F",
		"ibv_ud_pingpong -g 0 -n 20 -s 1024", "ib_write_bw -n 64 -F -q 4", "ib_read_lat -n 64 -F -e",
		"ibv_srq_pingpong -g 0 -n 100 -e", "ib_read_bw -n 64 -F", "ib_write_lat -n 64 -F",
	}, 3) {
		t.Run(x, func(t *testing.T) {
			r, _ := newPair(t)
			r.pair(strings.Fields(x)...)
		})
	}
	for _, x := range testenv.Sample(t, []struct{ server, client, want string }{
		{"rping -s -C 5 -a ", "rping -c -v -C 5 -a ", "rdma-ping-4: EFGH"},
		{"ucmatose -c 5 -b ", "ucmatose -c 5 -s ", "return status 0"},
		{"rstream -S 64 -I 10 -b ", "rstream -S 64 -I 10 -s ", "custom"},
	}, 3) {
		t.Run(x.client, func(t *testing.T) {
			r, address := newPair(t)
			assert.Contains(t, r.connect(x.server+address, x.client+address, false), x.want)
		})
	}
}

// TestImpaired runs programs over a link that drops, duplicates, reorders, delays and corrupts 1% each of the packets
// in both directions. The programs wait for each other at the end. One that does not may find that the peer is gone
// before it has acknowledged the last message.
func TestImpaired(t *testing.T) {
	for _, x := range testenv.Sample(t, []string{
		"ib_write_bw -n 64 -s 8192 -F", "ib_send_lat -n 100 -F", "ib_read_bw -n 64 -s 8192 -F", "ib_atomic_bw -n 64 -F",
	}, 4) {
		t.Run(x, func(t *testing.T) {
			r, _ := newPair(t, "impair=1%")
			assert.Contains(t, r.pair(strings.Fields(x)...), "#bytes")
		})
	}
}
