package udpend

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/internal/testenv"
	"ciddk/wire"
)

// shownTo sends three datagrams with certain fields of the IP header to an end, and returns their packets. With train
// set, it sends them by segmentation offload.
func shownTo(t *testing.T, at netip.Addr, headers, train bool) (list [][]byte) {
	t.Helper()
	e, err := Open(Config{Addr: at, Other: at, Port: 47910, Headers: headers})
	if err != nil && headers {
		t.Skip("no raw socket here: ", err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	c, err := listenEnd(netip.AddrPortFrom(at, 47911))
	require.NoError(t, err)
	defer c.Close()
	if at.Is4() {
		require.NoError(t, options(c, unix.IPPROTO_IP, [2]int{unix.IP_TOS, 0x68}, [2]int{unix.IP_TTL, 37}))
	} else {
		require.NoError(t, options(c, unix.IPPROTO_IPV6,
			[2]int{unix.IPV6_TCLASS, 0x68}, [2]int{unix.IPV6_UNICAST_HOPS, 37}))
	}
	if train {
		require.NoError(t, options(c, unix.IPPROTO_UDP, [2]int{unix.UDP_SEGMENT, 8}))
	}
	const all = "01234567abcdefgh...."
	parts := []string{all[:8], all[8:16], all[16:]}
	if train {
		parts = []string{all}
	}
	for _, p := range parts {
		_, err := c.WriteTo([]byte(p), &net.UDPAddr{IP: at.AsSlice(), Port: 47910})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	for got := ""; len(got) < len(all); {
		b, err := e.Recv(ctx)
		require.NoError(t, err)
		src, dst, payload, err := datagram(b)
		require.NoError(t, err)
		assert.Equal(t, netip.AddrPortFrom(at, 47911), src)
		assert.Equal(t, netip.AddrPortFrom(at, 47910), dst)
		assert.Equal(t, all[len(got):len(got)+len(payload)], string(payload))
		got += string(payload)
		list = append(list, b)
	}
	require.Len(t, list, 3)
	return list
}

// TestEndShowsFields checks that the packets of an end have the fields that the system reports.
func TestEndShowsFields(t *testing.T) {
	for _, b := range shownTo(t, netip.MustParseAddr("127.79.1.1"), false, false) {
		var ip wire.IPv4
		require.NoError(t, ip.Parse(b))
		assert.Equal(t, []uint8{0x68, 37}, []uint8{ip.TOS, ip.TTL})
	}
	if c, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback}); err != nil {
		t.Skip("no IPv6 here: ", err)
	} else {
		require.NoError(t, c.Close())
	}
	labels := map[uint32]bool{}
	for _, b := range shownTo(t, netip.IPv6Loopback(), false, false) {
		var ip wire.IPv6
		require.NoError(t, ip.Parse(b))
		assert.Equal(t, []uint8{0x68, 37}, []uint8{ip.TrafficClass, ip.HopLimit})
		labels[ip.FlowLabel] = true
	}
	assert.Len(t, labels, 1, "all packets of a flow have one label")
}

// TestEndShowsHeaders checks that an end with a raw socket returns the IP headers as they were received, one for each
// datagram of a train.
func TestEndShowsHeaders(t *testing.T) {
	for _, train := range []bool{false, true} {
		var first uint16
		for i, b := range shownTo(t, netip.MustParseAddr("127.79.1.2"), true, train) {
			var ip wire.IPv4
			require.NoError(t, ip.Parse(b), "the header's checksum and length hold")
			assert.Equal(t, []uint8{0x68, 37}, []uint8{ip.TOS, ip.TTL})
			assert.EqualValues(t, wire.IPv4DontFragment, ip.Frag)
			if i == 0 {
				first = ip.ID
			}
			if train {
				assert.Equal(t, first+uint16(i), ip.ID)
			}
		}
	}
}
