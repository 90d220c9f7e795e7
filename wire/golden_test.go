package wire_test

import (
	"bufio"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/wire"
)

// golden is an IP packet that Linux rxe sent.
type golden struct {
	name string
	ip   []byte // from the IP header to the ICRC
}

func (g golden) v4() bool { return g.ip[0]>>4 == 4 }

// ipLen returns the length of the IP header.
func (g golden) ipLen() int {
	if g.v4() {
		return wire.IPv4Len
	}
	return wire.IPv6Len
}

// transport returns the packet from the BTH to the ICRC.
func (g golden) transport() []byte { return g.ip[g.ipLen()+wire.UDPLen:] }

func loadGolden(tb testing.TB) []golden {
	tb.Helper()
	f, err := os.Open("testdata/rocev2-vectors.txt")
	require.NoError(tb, err)
	defer f.Close()
	var gs []golden
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		w := strings.Split(s.Text(), " | ")
		require.Len(tb, w, 3)
		b, err := hex.DecodeString(w[2])
		require.NoError(tb, err)
		gs = append(gs, golden{strings.ReplaceAll(w[0]+" "+w[1], " ", "_"), b})
	}
	require.Len(tb, gs, 58)
	return gs
}

func eachGolden(t *testing.T, f func(t *testing.T, g golden)) {
	for _, g := range loadGolden(t) {
		t.Run(g.name, func(t *testing.T) { f(t, g) })
	}
}

// eachGolden4 is like eachGolden without IPv6 packets, which have no identification.
func eachGolden4(t *testing.T, f func(t *testing.T, g golden)) {
	n := 0
	for _, g := range loadGolden(t) {
		if g.v4() {
			n++
			t.Run(g.name, func(t *testing.T) { f(t, g) })
		}
	}
	require.NotZero(t, n, "IPv4 packets")
}
