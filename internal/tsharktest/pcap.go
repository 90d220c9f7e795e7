package tsharktest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/internal/pcapfile"
)

// Write creates a capture file of the packets, all with time 0, in a temporary folder of the test. It returns the
// file's path.
func Write(t testing.TB, link pcapfile.LinkType, packets [][]byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "packets.pcapng")
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	w, err := pcapfile.NewWriter(f, pcapfile.Interface{Name: "test", Link: link})
	require.NoError(t, err)
	for _, p := range packets {
		require.NoError(t, w.Write(&pcapfile.Packet{Time: time.Unix(0, 0), Data: p}))
	}
	require.NoError(t, w.Flush())
	return file
}
