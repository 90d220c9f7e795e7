package mad_test

import (
	"bufio"
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/mad"
	"ciddk/wire"
)

// golden returns the management datagrams of packets that Linux sent, by name.
func golden(tb testing.TB) map[string][]byte {
	tb.Helper()
	f, err := os.Open("testdata/cm-packets.txt")
	require.NoError(tb, err)
	defer f.Close()
	m := map[string][]byte{}
	for s := bufio.NewScanner(f); s.Scan(); {
		name, packet, ok := strings.Cut(s.Text(), " | ")
		if strings.HasPrefix(name, "#") {
			continue
		}
		require.True(tb, ok, s.Text())
		b, err := hex.DecodeString(packet)
		require.NoError(tb, err)
		var fr wire.Frame
		require.NoError(tb, wire.ParseIP(b, &fr))
		require.NoError(tb, fr.CheckICRC())
		require.EqualValues(tb, 1, fr.Packet.BTH.DestQP)
		require.Equal(tb, mad.QKeyGSI, fr.Packet.DETH.QKey)
		m[name] = fr.Packet.Payload
	}
	require.Len(tb, m, 2)
	return m
}

// TestGoldenREQ checks every field of the REQs that rping on Linux sent, and that Put writes the same bytes.
func TestGoldenREQ(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		header   mad.Header
		local    uint32
		qpn, psn uint32
		flow     uint32
		src, dst netip.Addr
		port     uint16
	}{
		{"v4 REQ", mad.Header{BaseVersion: 1, Class: mad.ClassCM, ClassVersion: 2, Method: mad.Send, TID: 0x29c119dcf,
			Attribute: mad.AttrREQ},
			0xcf9d119c, 0x11, 0x419443, 0x5bc11, netip.MustParseAddr("10.77.0.3"),
			netip.MustParseAddr("10.77.0.2"), 0xb295},
		{"v6 REQ", mad.Header{BaseVersion: 1, Class: mad.ClassCM, ClassVersion: 2, Method: mad.Send, TID: 0x29c119dce,
			Attribute: mad.AttrREQ},
			0xce9d119c, 0x12, 0x4940a5, 0x47d97, netip.MustParseAddr("fd77::3"),
			netip.MustParseAddr("fd77::2"), 0xa84f},
	}
	all := golden(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := all[tt.name]
			require.Len(t, b, mad.Size)
			h, m, err := mad.ParseCM(b)
			require.NoError(t, err)
			assert.Equal(t, tt.header, h)
			assert.Equal(t, tt.header, mad.CMHeader(tt.header.TID, m))
			require.IsType(t, &mad.REQ{}, m)
			req := m.(*mad.REQ)
			gid := func(a netip.Addr) [16]byte {
				if a.Is4() {
					return wire.GIDFromIPv4(a.As4())
				}
				return a.As16()
			}
			want := mad.REQ{
				LocalCommID: tt.local, ServiceID: mad.PortSpaceTCP.ServiceID(7174), LocalCAGUID: 0x505400fffe770003,
				LocalQPN:     tt.qpn,
				ResponderRes: 1, InitiatorDepth: 1, RemoteTimeout: 20, Service: mad.ServiceRC,
				StartingPSN: tt.psn, LocalTimeout: 20, RetryCount: 7, PKey: 0xffff, PathMTU: mad.MTU1024,
				RNRRetryCount: 7,
				MaxCMRetries:  15, Primary: mad.CMPath{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: gid(tt.src),
					RemoteGID: gid(tt.dst),
					FlowLabel: tt.flow, HopLimit: 64, AckTimeout: 19},
				PrivateData: req.PrivateData,
			}
			assert.Equal(t, want, *req)
			assert.False(t, req.HasAlternate())

			ip, rest, err := mad.ParseIPCM(req.Private())
			require.NoError(t, err)
			assert.Equal(t, netip.AddrPortFrom(tt.src, tt.port), ip.SourceAddr())
			assert.Equal(t, tt.dst, ip.DestinationAddr())
			assert.Equal(t, make([]byte, mad.REQConsumerLen), rest)
			made, err := mad.NewIPCM(netip.AddrPortFrom(tt.src, tt.port), tt.dst)
			require.NoError(t, err)
			assert.Equal(t, ip, made)

			out, err := mad.AppendCM(nil, &h, m)
			require.NoError(t, err, "what Linux sends passes Check")
			assert.Equal(t, b, out)
		})
	}
}
