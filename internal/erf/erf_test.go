package erf

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/tsharktest"
)

func TestInfiniBand(t *testing.T) {
	at := time.Unix(0x11223344, int64(time.Second/4))
	assert.Equal(t, "0000004044332211"+"1504"+"0013"+"0000"+"0003"+"010203", hex.EncodeToString(InfiniBand(at, []byte{1, 2, 3})))
}

// TestTshark: an RC SEND Only of no bytes from LID 1 to LID 2.
func TestTshark(t *testing.T) {
	p, err := hex.DecodeString("0002" + "0002" + "0006" + "0001" + "0400ffff0000002280002100" + "00000000" + "0000")
	require.NoError(t, err)
	at := time.Unix(1700000000, int64(time.Second/2))
	file := tsharktest.Write(t, tsharktest.ERF, [][]byte{InfiniBand(at, p)})
	assert.Equal(t, [][]string{{"0x6553f10080000000", "2", "1", "4", "26"}},
		tsharktest.Read(t, file, "erf.ts", "infiniband.lrh.dlid", "infiniband.lrh.slid", "infiniband.bth.opcode", "erf.wlen"))
}
