package evidence_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/pcapfile"
	"ciddk/validate"
	"ciddk/validate/evidence"
)

func TestWrite(t *testing.T) {
	for _, link := range []ci.Link{ci.LinkEthernet, ci.LinkInfiniBand} {
		at := time.Unix(1700000000, 123456789)
		packets := []validate.WirePacket{
			{
				Time: at, Link: link, FromHCA: true, Data: []byte{0x45, 1, 2, 3},
				Comments: []string{"WIRE-Form-01: wrong", "and more"},
			},
			{Time: at.Add(time.Second), Link: link, Data: []byte{0x45, 9}},
		}
		path := filepath.Join(t.TempDir(), "x.pcapng")
		require.NoError(t, evidence.Write(path, packets))
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
		require.NoError(t, err)
		for i, p := range packets {
			data, c, o, err := r.ReadPacketDataWithOptions()
			require.NoError(t, err)
			if link == ci.LinkInfiniBand {
				require.Greater(t, len(data), 16)
				assert.EqualValues(t, 21, data[8])
				data = data[pcapfile.ERFHeaderLen:]
			}
			assert.Equal(t, p.Data, data)
			assert.True(t, p.Time.Equal(c.Timestamp))
			assert.Equal(t, i, c.InterfaceIndex)
			assert.Equal(t, p.Comments, o.Comments)
		}
	}
}

func TestWriteFails(t *testing.T) {
	assert.Error(t, evidence.Write(filepath.Join(t.TempDir(), "no", "folder"), nil))
}
