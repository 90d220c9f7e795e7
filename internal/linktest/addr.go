package linktest

import (
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
)

var lastAddr atomic.Uint32

// Addr returns a loopback address that no other test and no other run uses.
func Addr() netip.Addr {
	n := uint32(os.Getpid())<<9 + lastAddr.Add(1)
	return netip.AddrFrom4([4]byte{127, byte(1 + n>>16%250), byte(n >> 8), byte(1 + n%250)})
}

// GoldenPackets returns IP packets that Linux Soft-RoCE has sent; see the testdata of package wire.
func GoldenPackets(t testing.TB) (out [][]byte) {
	root, err := modroot.Find()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "wire/testdata/rocev2-vectors.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), " | ")
		require.Len(t, f, 3)
		ip, err := hex.DecodeString(f[2])
		require.NoError(t, err)
		out = append(out, ip)
	}
	return out
}
