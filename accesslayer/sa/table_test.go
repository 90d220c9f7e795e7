package sa_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/sa"
	"ciddk/ci"
	"ciddk/mad"
)

// table returns the response to a GetTable as the MAD services reassemble it.
func table(q *mad.SA, offset uint16, data []byte) *mads.Received {
	q.Method, q.AttributeOffset = mad.GetTableResp, offset
	q.RMPP = mad.RMPP{Version: 1, Type: mad.RMPPData, Flags: 7, Data1: 1}
	b := make([]byte, mad.Size)
	q.Put(b)
	return &mads.Received{MAD: append(b[:mad.SAHeaderLen:mad.SAHeaderLen], data...)}
}

// links returns n records, each in 8 bytes.
func links(n int) (list []mad.LinkRecord, data []byte) {
	for i := range n {
		l := mad.LinkRecord{FromLID: uint16(i), FromPort: 1, ToPort: 2, ToLID: uint16(i + 1)}
		b := make([]byte, 8)
		l.Put(b)
		list, data = append(list, l), append(data, b...)
	}
	return list, data
}

// Tables of any length are decoded, and a request is repeated while its segments do not arrive.
func TestTable(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, _ *administrator, s *service) {
		for _, n := range []int{0, 1, 24, 25, 26, 10000} {
			want, data := links(n)
			s.long = func(q *mad.SA) (*mads.Received, error) {
				assert.Equal(t, mad.LinkFromLID, q.ComponentMask)
				return table(q, 1, data), nil
			}
			got, err := sa.LinkRecords.Table(t.Context(), c, port, mad.LinkRecord{FromLID: 1}, mad.LinkFromLID)
			require.NoError(t, err)
			assert.True(t, slices.Equal(want, got))
		}
		assert.Equal(t, mad.AttrLinkRecord, sa.LinkRecords.ID())

		lost := 0
		want, data := links(30)
		s.long = func(q *mad.SA) (*mads.Received, error) {
			if lost++; lost <= 3 {
				return nil, &ci.Error{Status: ci.Timeout, Err: &mads.RMPPError{Status: mad.RMPPTotalTimeout}}
			}
			return table(q, 1, data), nil
		}
		start := time.Now()
		got, err := sa.LinkRecords.Table(t.Context(), c, port, mad.LinkRecord{}, 0)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Equal(t, (250+500+1000)*time.Millisecond, time.Since(start))

		lost = -1 << 30
		s.long = func(*mad.SA) (*mads.Received, error) {
			lost++
			return nil, &ci.Error{Status: ci.ErrorStatus, Err: &mads.RMPPError{Status: mad.RMPPUnspecified}}
		}
		_, err = sa.LinkRecords.Table(t.Context(), c, port, mad.LinkRecord{}, 0)
		var cut *mads.RMPPError
		require.ErrorAs(t, err, &cut)
		assert.Equal(t, -1<<30+4, lost, "and 3 repetitions")
	})
}

// Responses that are no table, or one that is too long.
func TestTableErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, _ *administrator, s *service) {
		ask := func(answer func(q *mad.SA) *mads.Received) ([]mad.LinkRecord, error) {
			s.long = func(q *mad.SA) (*mads.Received, error) { return answer(q), nil }
			return sa.LinkRecords.Table(t.Context(), c, port, mad.LinkRecord{}, 0)
		}
		_, data := links(3)
		list, err := ask(func(q *mad.SA) *mads.Received { q.Status = mad.StatusSANoRecords; return table(q, 0, nil) })
		require.NoError(t, err)
		assert.Empty(t, list)
		_, err = ask(func(q *mad.SA) *mads.Received { q.Status = mad.StatusSADenied; return table(q, 0, nil) })
		var refused *sa.StatusError
		require.ErrorAs(t, err, &refused)
		_, err = ask(func(q *mad.SA) *mads.Received { return table(q, 0, data) })
		require.ErrorIs(t, err, mad.ErrLength)
		_, err = ask(func(q *mad.SA) *mads.Received { return &mads.Received{MAD: make([]byte, 30)} })
		require.ErrorIs(t, err, mad.ErrLength)
		_, err = ask(func(q *mad.SA) *mads.Received { q.Attribute = mad.AttrNodeRecord; return table(q, 1, data) })
		require.ErrorIs(t, err, ci.ErrorStatus)
		_, err = ask(func(q *mad.SA) *mads.Received { return table(q, 1, make([]byte, 5<<20)) })
		require.ErrorIs(t, err, ci.InsufficientResources)

		plain := func(offset uint16) func(q *mad.SA) *mads.Received { // without RMPP
			return func(q *mad.SA) *mads.Received {
				r := table(q, offset, data)
				r.MAD = append(r.MAD, make([]byte, mad.Size-len(r.MAD))...)
				r.MAD[mad.HeaderLen+2] = 0
				return r
			}
		}
		list, err = ask(plain(1))
		require.NoError(t, err)
		assert.Len(t, list, 1)
		list, err = ask(plain(0))
		require.NoError(t, err)
		assert.Empty(t, list)

		require.ErrorIs(t, sa.LinkRecords.StartTable(t.Context(), c, port, mad.LinkRecord{}, 0, nil),
			ci.InvalidParameter)
		require.ErrorIs(t, sa.LinkRecords.StartGet(t.Context(), c, port, mad.LinkRecord{}, 0, nil), ci.InvalidParameter)
		one, err := sa.LinkRecords.Get(t.Context(), c, port, mad.LinkRecord{}, 0)
		require.NoError(t, err)
		assert.Equal(t, mad.LinkRecord{FromLID: 0, FromPort: 1, ToPort: 2, ToLID: 1}, *one)
	})
}

// A table of records of any attribute is what was put into it.
func TestTableProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(rt, "records")
		extra := rapid.IntRange(0, 3).Draw(rt, "longer records, in 8 bytes")
		var data []byte
		var want []mad.PKeyTableRecord
		for i := range n {
			r := mad.PKeyTableRecord{LID: uint16(i + 1), Block: rapid.Uint16().Draw(rt, "block"), Port: uint8(i)}
			r.PKeys[31] = rapid.Uint16().Draw(rt, "key")
			b := make([]byte, mad.PKeyTableRecordLen+8*extra)
			r.Put(b)
			want, data = append(want, r), append(data, b...)
		}
		inBubble(t, func(t *testing.T, c *sa.Client, port mads.Port, _ *administrator, s *service) {
			s.long = func(q *mad.SA) (*mads.Received, error) {
				return table(q, mad.AttributeOffset(mad.PKeyTableRecordLen)+uint16(extra), data), nil
			}
			got, err := sa.PKeyTableRecords.Table(t.Context(), c, port, mad.PKeyTableRecord{}, 0)
			require.NoError(t, err)
			assert.True(t, slices.Equal(want, got))
		})
	})
}

// FuzzTable decodes tables of any bytes.
func FuzzTable(f *testing.F) {
	_, data := links(3)
	f.Add(data, uint16(1), uint8(1), uint16(0))
	f.Add(data[:7], uint16(1), uint8(7), uint16(0x0300))
	f.Add([]byte{}, uint16(1), uint8(0), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, offset uint16, flags uint8, status uint16) {
		al, ib, _ := world(t)
		s := &service{long: func(q *mad.SA) (*mads.Received, error) {
			q.Status = status &^ mad.StatusBusy
			r := table(q, offset, data)
			r.MAD[mad.HeaderLen+2] = flags
			return r, nil
		}}
		c := sa.New(al, s, sa.Config{})
		list, err := sa.LinkRecords.Table(t.Context(), c, ib, mad.LinkRecord{}, 0)
		if err == nil && status == 0 && flags&1 != 0 {
			assert.LessOrEqual(t, len(list)*mad.LinkRecordLen, len(data))
		}
		require.NoError(t, c.Close())
	})
}
