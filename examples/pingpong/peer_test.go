package main

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
)

func TestPeerText(t *testing.T) {
	// From ibv_rc_pingpong of rdma-core 44.
	const text = "0000:000011:a4c1f0:00000000000000000000ffff0a4d0002\x00"
	p := peer{QPN: 0x11, PSN: 0xa4c1f0, GID: gidOf(netip.MustParseAddr("10.77.0.2"))}
	require.Equal(t, text, string(p.encode()))
	require.Len(t, p.encode(), peerLen)
	got, err := decode([]byte(text))
	require.NoError(t, err)
	require.Equal(t, p, got)
	require.Equal(t, "LID 0x0000, QPN 0x000011, PSN 0xa4c1f0, GID ::ffff:10.77.0.2", got.String())
}

func TestPeerRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := peer{
			LID: ci.LID(rapid.Uint16().Draw(t, "lid")),
			QPN: ci.QPN(rapid.Uint32Max(0xffffff).Draw(t, "qpn")),
			PSN: ci.PSN(rapid.Uint32Max(0xffffff).Draw(t, "psn")),
		}
		copy(p.GID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "gid"))
		got, err := decode(p.encode())
		require.NoError(t, err)
		require.Equal(t, p, got)
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(peer{QPN: 1}.encode())
	f.Add([]byte("0000:000011:a4c1f0:zz"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decode(b)
		if err != nil {
			return
		}
		if !bytes.EqualFold(p.encode(), b) {
			t.Fatalf("%q was taken for %v", b, p)
		}
	})
}

// TestFillMessage checks that an original server accepts the data, and that all packets of all messages differ.
func TestFillMessage(t *testing.T) {
	a, b := make([]byte, 3*page), make([]byte, 3*page)
	fillMessage(a, 1)
	fillMessage(b, 2)
	for i := 0; i < len(a); i += page {
		require.Zero(t, a[i])
	}
	seen := map[string]bool{}
	for _, m := range [][]byte{a, b} {
		for i := 0; i < len(m); i += 256 {
			require.False(t, seen[string(m[i:i+256])], "bytes %d to %d", i, i+256)
			seen[string(m[i:i+256])] = true
		}
	}
}
