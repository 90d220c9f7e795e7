package erf_test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/erf"
	"ciddk/internal/pcapfile"
	"ciddk/internal/tsharktest"
)

func TestInfiniBand(t *testing.T) {
	at := time.Unix(0x11223344, int64(time.Second/4))
	want := "0000004044332211" + "1504" + "0013" + "0000" + "0003" + "010203"
	assert.Equal(t, want, hex.EncodeToString(erf.InfiniBand(at, []byte{1, 2, 3})))
}

// TestTshark reads an RC SEND Only without payload from LID 1 to LID 2.
func TestTshark(t *testing.T) {
	p, err := hex.DecodeString("0002" + "0002" + "0006" + "0001" + "0400ffff0000002280002100" + "00000000" + "0000")
	require.NoError(t, err)
	file := tsharktest.Write(t, pcapfile.InfiniBand, [][]byte{p})
	assert.Equal(t, [][]string{{"2", "1", "4", "26"}},
		tsharktest.Read(t, file, "infiniband.lrh.dlid", "infiniband.lrh.slid", "infiniband.bth.opcode", "erf.wlen"))
}
