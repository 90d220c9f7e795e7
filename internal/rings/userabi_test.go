package rings

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/rvt"
)

// TestUserRecords compares the records with golden bytes. A change of them needs another version, and another
// LibraryName.
func TestUserRecords(t *testing.T) {
	t.Parallel()
	queue := UserQueue{Offset: 0x1122334455667788, Size: 0x99aabbcc, Shape: Shape{16, 8, 2, 64}}
	const queueHex = "8877665544332211" + "ccbbaa9900000000" + "10000000080000000200000040000000"
	qp := UserQP{Send: queue, RecvOffset: 0x2000, Recv: Shape{32, 7, 1, 0}, Index: 9, Num: 0xabcdef}
	type record interface {
		Encode() []byte
		Decode([]byte) error
	}
	for name, c := range map[string]struct {
		r, empty record
		want     string
	}{
		"open": {&UserOpen{Size: 1 << 26, QPs: 16384, Caps: 0x1122334455667788, MaxReadSGEs: 30, Atomicity: 1},
			&UserOpen{}, "0200010000000000" + "0000000400000000" +
				"0040000000000000" + "8877665544332211" + "1e000000" + "01000000"},
		"CQ":  {cqRecord{&queue}, cqRecord{&UserQueue{}}, "0200020000000000" + queueHex},
		"SRQ": {srqRecord{&queue}, srqRecord{&UserQueue{}}, "0200040000000000" + queueHex},
		"QP": {&qp, &UserQP{}, "0200030000000000" + queueHex + "0020000000000000" + "20000000070000000100000000000000" +
			"09000000" + "efcdab00"},
		"AV": {&UserAV{Number: 0x01020304}, &UserAV{}, "0200050000000000" + "0403020100000000"},
	} {
		b := c.r.Encode()
		require.Equal(t, c.want, hex.EncodeToString(b), name)
		require.NoError(t, c.empty.Decode(b), name)
		require.Equal(t, c.r, c.empty, name)
		for _, bad := range [][]byte{nil, b[:len(b)-1], append(slices.Clip(b), 0), append([]byte{1}, b[1:]...),
			append([]byte{2, 0, 77}, b[3:]...)} {
			require.Error(t, c.empty.Decode(bad), name)
		}
	}
}

type (
	cqRecord  struct{ *UserQueue }
	srqRecord struct{ *UserQueue }
)

func (r cqRecord) Encode() []byte         { return r.EncodeCQ() }
func (r cqRecord) Decode(b []byte) error  { return r.DecodeCQ(b) }
func (r srqRecord) Encode() []byte        { return r.EncodeSRQ() }
func (r srqRecord) Decode(b []byte) error { return r.DecodeSRQ(b) }

// TestUnmarkedInline decodes inline data that librxe's ibv_wr_set_inline_data stores: no flag, and no entry.
func TestUnmarkedInline(t *testing.T) {
	t.Parallel()
	b := make([]byte, queueSize(sendGeometry(1, 1, 16)))
	r := newSendRing(b, 1, 1, 16)
	require.Equal(t, 1, r.Post([]ci.SendWR{{Op: ci.OpSend, Inline: []byte("12345678")}}, faces{}))
	slot := r.q.slot(0)
	ne.PutUint32(slot[sqFlags:], ne.Uint32(slot[sqFlags:])&^flagInline)
	ne.PutUint32(slot[sqDMA+dmaNumSGE:], 0)
	var w rvt.Work
	require.True(t, r.Next(&w))
	require.Equal(t, "12345678", string(w.Inline))
	require.Zero(t, w.Bad)
}
