package linux

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestImpaired runs ibv_rc_pingpong over a link that drops, duplicates, reorders, delays and damages 2% each of the
// packets in both directions.
func TestImpaired(t *testing.T) {
	bad := []string{"--impair", "2%", "--seed", "3"}
	play(t, []game{
		{mode: "rc", size: 4096, mtu: 1024, iters: 150, ours: bad},
		{mode: "rc", size: 4096, mtu: 1024, iters: 150, ours: bad, v6: true},
		{mode: "rc", size: 64, mtu: 1024, iters: 200, ours: append(slices.Clone(bad), "--privileged")},
		{mode: "rc", size: 20000, mtu: 4096, iters: 100, ours: bad, extra: []string{"-e"}},
	})
}

// TestIdentifications checks an assumption of link/udp about rxe: the distance between the identifications of
// consecutive IPv4 packets, also with several QPs and with retransmissions. A virtual processor that loses its real one
// between number and sending falls behind by any distance, which costs the receiver a packet. So few may be outside.
func TestIdentifications(t *testing.T) {
	const ahead, behind = 95, 64 // limits of link/internal/rocev2, plus one per millisecond
	l := useLab(t)
	for _, g := range []game{
		{mode: "rc", size: 4096, mtu: 1024, iters: 200},
		{mode: "rc", size: 65536, mtu: 1024, iters: 20, ours: []string{"--impair", "2%"}},
		{mode: "srq", size: 4096, mtu: 1024, iters: 1000},
		{mode: "ud", size: 512, iters: 200},
	} {
		t.Run(g.mode+","+g.String(), func(t *testing.T) {
			var rec recording
			l.play(t, &rec, g, false)
			rxe := l.net.Addr4(l.linux.Index())
			least, most := 0, 0
			packets, outside := 0, 0
			var last uint16
			var before time.Time
			for _, f := range rec.last {
				p, ok := parse(f.data)
				if a, _ := netip.AddrFromSlice(p.source); !ok || a != rxe {
					continue
				}
				if packets++; packets > 1 {
					d := int(int16(p.id - last))
					if d < -behind || d > ahead+int(f.at.Sub(before).Milliseconds())+1 {
						outside++
					}
					least, most = min(least, d), max(most, d)
				}
				last, before = p.id, f.at
			}
			require.Greater(t, packets, 100)
			t.Logf("%d packets, %d outside, distances %d to %d", packets, outside, least, most)
			assert.LessOrEqual(t, outside, 2+packets/500) // a packet that is late is outside twice: before and after it
		})
	}
}
