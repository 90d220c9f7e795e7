package cmid

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/mad"
)

// TestAddrText checks that the text of an address, and its JSON, have everything that it has.
func TestAddrText(t *testing.T) {
	for text, a := range map[string]Addr{
		"rdma-tcp 10.0.0.1:7174":     {Space: TCP, AddrPort: netip.MustParseAddrPort("10.0.0.1:7174")},
		"rdma-udp [fe80::1%rail0]:7": {Space: UDP, AddrPort: netip.MustParseAddrPort("[fe80::1%rail0]:7")},
		"rdma-ib :9":                 {Space: IB, AddrPort: netip.AddrPortFrom(netip.Addr{}, 9)},
		"rdma-ib [fe80::2]#00000000000000ff": {Space: IB,
			AddrPort: netip.AddrPortFrom(netip.MustParseAddr("fe80::2"), 0), Service: 255},
	} {
		b, err := json.Marshal(a)
		require.NoError(t, err)
		assert.Equal(t, `"`+text+`"`, string(b))
	}
	ips := []netip.Addr{{}, netip.MustParseAddr("10.0.0.1"), netip.IPv6Unspecified(),
		netip.MustParseAddr("::ffff:1.2.3.4"), netip.MustParseAddr("fe80::1%7"), netip.MustParseAddr("fe80::1%a b")}
	rapid.Check(t, func(t *rapid.T) {
		a := Addr{Space: mad.PortSpace(rapid.OneOf(rapid.SampledFrom([]uint16{uint16(TCP), uint16(UDP), uint16(IB)}),
			rapid.Uint16()).Draw(t, "space"))}
		a.Service = mad.ServiceID(rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64()).Draw(t, "service"))
		var port uint16
		if a.Service == 0 {
			port = rapid.Uint16().Draw(t, "port")
		}
		a.AddrPort = netip.AddrPortFrom(rapid.SampledFrom(ips).Draw(t, "address"), port)
		b, err := json.Marshal(a)
		require.NoError(t, err)
		var back Addr
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, a, back)
	})
}

// FuzzAddrText parses texts: a valid one becomes an address with a text of its own.
func FuzzAddrText(f *testing.F) {
	for _, text := range []string{"rdma-tcp 10.0.0.1:7174", "rdma-0x7 :1", "rdma-ib [::1%x]#7", "rdma-udp [::]:2", "",
		" "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var a, back Addr
		if a.UnmarshalText([]byte(text)) != nil {
			return
		}
		b, err := a.MarshalText()
		require.NoError(t, err)
		require.NoError(t, back.UnmarshalText(b), "%q", b)
		require.Equal(t, a, back)
	})
}
