package pcapfile

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestERFRecord(t *testing.T) {
	at := time.Unix(0x11223344, int64(time.Second/4))
	want := "0000004044332211" + "1504" + "0013" + "0000" + "0003" + "010203"
	assert.Equal(t, want, hex.EncodeToString(erfRecord(at, []byte{1, 2, 3})))
}
