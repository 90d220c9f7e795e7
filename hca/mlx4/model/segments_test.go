package model

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// TestSegments compares what has constant offsets with the fields of package prm.
func TestSegments(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), prm.CtrlSegment, prm.CtrlSegment).Draw(t, "segment")
		require.EqualValues(t, prm.CtrlOwner.Get(b), ctrlOwner(b))
		require.EqualValues(t, prm.CtrlOpcode.Get(b), ctrlOpcode(b))
		require.Equal(t, prm.CtrlSize.Get(b)*prm.CtrlSegment, ctrlBytes(b))
		flags := ctrlFlags(b)
		require.Equal(t, prm.CtrlCompletion.Get(b) == prm.CompletionAlways, flags&ci.SendSignaled != 0)
		require.Equal(t, prm.CtrlFence.Has(b), flags&ci.SendFence != 0)
		require.Equal(t, prm.CtrlSolicited.Has(b), flags&ci.SendSolicited != 0)
		require.Zero(t, flags&^(ci.SendSignaled|ci.SendFence|ci.SendSolicited))

		prm.DataCount.Put(b, uint64(rapid.SampledFrom([]uint32{0, 1, prm.ZeroLengthCount, prm.ZeroLengthCount + 1,
			1<<32 - 1, uint32(prm.DataCount.Get(b))}).Draw(t, "count")))
		if rapid.Bool().Draw(t, "reserved") {
			prm.DataKey.Put(b, uint64(prm.MPTReservedLKey))
		}
		require.Equal(t, prm.InlineFlag.Has(b) && prm.InlineCount.Get(b) != 0, isInline(b))
		require.EqualValues(t, prm.DataKey.Get(b), dataKey(b))
		hasReserved := rapid.Bool().Draw(t, "permitted")
		s := dataSegment(b, hasReserved)
		key := ci.Key(prm.DataKey.Get(b))
		if uint32(key) == prm.MPTReservedLKey && !hasReserved {
			key = 0
		}
		n := uint32(prm.DataCount.Get(b))
		switch n {
		case 0:
			n = 1 << 31 // a count of 0 is 2 GiB
		case prm.ZeroLengthCount:
			n = 0
		}
		require.Equal(t, ci.SGE{Addr: prm.DataAddress.Get(b), LKey: key, Length: n}, s)
	})
}

// TestCompletionEntry compares an entry with one that fields of package prm have made.
func TestCompletionEntry(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var got, want [prm.CQESize]byte
		num := func(name string) uint64 { return rapid.Uint64().Draw(t, name) }
		qpn, index, opcode := num("QPN"), num("index"), num("opcode")
		pkey, bytes, round := num("P_Key"), num("bytes"), num("round")
		isSend := rapid.Bool().Draw(t, "send")
		putCompletion(got[:], uint32(qpn), uint16(index), uint8(opcode), isSend)
		putByteCount(got[:], uint32(bytes))
		putPKeyIndex(got[:], uint16(pkey))
		putOwner(got[:], uint32(round)&1)
		prm.CQEQPN.Put(want[:], qpn)
		prm.CQEWQEIndex.Put(want[:], index)
		prm.CQEOpcode.Put(want[:], opcode)
		prm.CQEByteCount.Put(want[:], bytes)
		prm.CQEPKeyIndex.Put(want[:], pkey)
		prm.CQEOwner.Put(want[:], round)
		if isSend {
			prm.CQESend.Put(want[:], 1)
		}
		require.Equal(t, want, got)
		require.EqualValues(t, prm.CQEOpcode.Get(got[:]), entryOpcode(got[:]))
		putOwner(got[:], uint32(round+1)&1)
		require.NotEqual(t, prm.CQEOwner.Get(want[:]), prm.CQEOwner.Get(got[:]), "the owner of the next round")
	})
}
