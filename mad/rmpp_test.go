package mad_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/mad"
)

func TestRMPPFault(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		r    mad.RMPP
		want mad.RMPPStatus
	}{
		{"only segment", mad.RMPP{Version: 1, Type: mad.RMPPData, Flags: 7, Data1: 1, Data2: 220}, mad.RMPPOK},
		{"middle", mad.RMPP{Version: 1, Type: mad.RMPPData, Flags: mad.RMPPActive, Data1: 2}, mad.RMPPOK},
		{"ACK", mad.RMPP{Version: 1, Type: mad.RMPPAck, Flags: mad.RMPPActive, Data1: 1, Data2: 65}, mad.RMPPOK},
		{"ACK of nothing, the other direction may start", mad.RMPP{Version: 1, Type: mad.RMPPAck, Data1: 0, Data2: 1},
			mad.RMPPOK},
		{"STOP", mad.RMPP{Version: 1, Type: mad.RMPPStop, Status: mad.RMPPResourcesExhausted}, mad.RMPPOK},
		{"ABORT", mad.RMPP{Version: 1, Type: mad.RMPPAbort, Status: mad.RMPPTotalTimeout}, mad.RMPPOK},
		{"version", mad.RMPP{Version: 2, Type: mad.RMPPData, Data1: 2}, mad.RMPPBadVersion},
		{"type 0", mad.RMPP{Version: 1}, mad.RMPPBadType},
		{"type 5", mad.RMPP{Version: 1, Type: 5}, mad.RMPPBadType},
		{"segment 0", mad.RMPP{Version: 1, Type: mad.RMPPData}, mad.RMPPBadSegment},
		{"first is not 1", mad.RMPP{Version: 1, Type: mad.RMPPData, Flags: mad.RMPPFirst, Data1: 2},
			mad.RMPPBadSegment},
		{"1 is not first", mad.RMPP{Version: 1, Type: mad.RMPPData, Data1: 1}, mad.RMPPBadSegment},
		{"DATA with status", mad.RMPP{Version: 1, Type: mad.RMPPData, Data1: 2, Status: 1}, mad.RMPPIllegalStatus},
		{"ACK with status", mad.RMPP{Version: 1, Type: mad.RMPPAck, Status: 127}, mad.RMPPIllegalStatus},
		{"STOP without", mad.RMPP{Version: 1, Type: mad.RMPPStop}, mad.RMPPIllegalStatus},
		{"ABORT with STOP's", mad.RMPP{Version: 1, Type: mad.RMPPAbort, Status: mad.RMPPResourcesExhausted},
			mad.RMPPIllegalStatus},
		{"window behind", mad.RMPP{Version: 1, Type: mad.RMPPAck, Data1: 3, Data2: 2}, mad.RMPPWindowTooSmall},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, tt.r.Fault(), "%v", tt.r.Fault())
		})
	}
}

func TestRMPPActive(t *testing.T) {
	t.Parallel()
	assert.True(t, (&mad.RMPP{Flags: 5}).Active())
	assert.False(t, (&mad.RMPP{Flags: 6}).Active())
	r := mad.RMPP{Data1: 3, Data2: 9}
	assert.EqualValues(t, 3, r.Segment())
	assert.EqualValues(t, 9, r.PayloadLength())
	assert.EqualValues(t, 9, r.NewWindowLast())
}

// The lengths of headers and data of each class are those of Linux.
func TestSegmentationOf(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		class := mad.Class(c)
		s, ok := mad.SegmentationOf(class)
		want := 0
		switch {
		case c == 3:
			want = 200
		case c == 6 || c == 0x10 || c == 0x12:
			want = 192
		case c >= 0x30 && c <= 0x4f:
			want = 216
		}
		assert.Equal(t, want != 0, ok, "%v", class)
		assert.Equal(t, want, s.DataLen, "%v", class)
		if ok {
			assert.Equal(t, mad.Size, s.HeaderLen+s.DataLen)
		}
	}
}

func TestSegmentation(t *testing.T) {
	t.Parallel()
	s, ok := mad.SegmentationOf(mad.ClassSubnetAdmin)
	require.True(t, ok)
	// Payload lengths of subnet administration include 20 bytes of header in every segment.
	tests := []struct {
		data, segments int
		first, last    uint32
	}{
		{0, 1, 20, 20}, {1, 1, 21, 21}, {200, 1, 220, 220}, {201, 2, 241, 21}, {400, 2, 440, 220}, {12800, 64, 14080,
			220}, {12801, 65, 14101, 21},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.segments, s.Segments(tt.data), tt.data)
		assert.Equal(t, tt.first, s.FirstPayloadLength(tt.data), tt.data)
		assert.Equal(t, tt.last, s.LastPayloadLength(tt.data), tt.data)
	}
	for _, n := range []uint32{1, 19, 221, 240} {
		_, _, err := s.Total(n)
		assert.ErrorIs(t, err, mad.ErrRange, n)
	}
	_, known, err := s.Total(0)
	require.NoError(t, err)
	assert.False(t, known, "0 is unknown")
	for _, n := range []uint32{0, 19, 221, math.MaxUint32} {
		_, err := s.Last(n)
		assert.ErrorIs(t, err, mad.ErrRange, n)
	}
	if most := uint64(math.MaxUint32); most <= math.MaxInt {
		assert.Zero(t, s.FirstPayloadLength(int(most)), "more than the field can say")
	}
}

func TestSegmentationInverse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		class := rapid.SampledFrom([]mad.Class{mad.ClassSubnetAdmin, mad.ClassDevice, mad.ClassBIS,
			mad.ClassVendor2First}).Draw(rt, "class")
		s, _ := mad.SegmentationOf(class)
		n := rapid.IntRange(0, 1<<30).Draw(rt, "bytes")
		got, known, err := s.Total(s.FirstPayloadLength(n))
		require.NoError(rt, err)
		require.True(rt, known)
		require.Equal(rt, n, got)
		last, err := s.Last(s.LastPayloadLength(n))
		require.NoError(rt, err)
		require.Equal(rt, n, (s.Segments(n)-1)*s.DataLen+last)
	})
}
