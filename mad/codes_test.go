package mad_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/mad"
)

func TestMTU(t *testing.T) {
	t.Parallel()
	for m, n := range map[mad.MTU]int{0: 0, mad.MTU256: 256, mad.MTU512: 512, mad.MTU1024: 1024, mad.MTU2048: 2048,
		mad.MTU4096: 4096, 6: 0, 63: 0} {
		assert.Equal(t, n, m.Bytes())
	}
	assert.Equal(t, "MTU 1024", mad.MTU1024.String())
	assert.Equal(t, "MTU code 6 (reserved)", mad.MTU(6).String())
}

func TestRate(t *testing.T) {
	t.Parallel()
	for r, want := range map[mad.Rate]string{0: "port rate", 1: "rate code 1", 2: "2.5 Gb/s",
		3: "10 Gb/s", 7: "40 Gb/s",
		16: "100 Gb/s", 23: "800 Gb/s", 24: "rate code 24"} {
		assert.Equal(t, want, r.String())
	}
	assert.Equal(t, 56000, mad.Rate(12).Mbps())
	assert.Zero(t, mad.Rate(63).Mbps())
}

func TestTimeExp(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 4096*time.Nanosecond, mad.TimeExp(0).Duration())
	assert.Equal(t, "4.294967296s", mad.TimeExp(20).String())
	assert.Equal(t, mad.TimeExp(0), mad.TimeExpFor(-1))
	assert.Equal(t, mad.TimeExp(1), mad.TimeExpFor(4097*time.Nanosecond))
	assert.Equal(t, mad.MaxTimeExp, mad.TimeExpFor(1<<63-1))
	assert.Equal(t, mad.MaxTimeExp.Duration(), mad.TimeExp(255).Duration(), "five bits count")
	rapid.Check(t, func(rt *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, int64(mad.MaxTimeExp.Duration())).Draw(rt, "d"))
		e := mad.TimeExpFor(d)
		require.GreaterOrEqual(rt, e.Duration(), d)
		if e > 0 {
			require.Less(rt, (e - 1).Duration(), d)
		}
	})
}

func TestServiceID(t *testing.T) {
	t.Parallel()
	assert.EqualValues(t, 0x01061c06, mad.PortSpaceTCP.ServiceID(7174))
	assert.EqualValues(t, 0x01110001, mad.PortSpaceUDP.ServiceID(1))
	assert.EqualValues(t, 0x013fffff, mad.PortSpaceIB.ServiceID(65535))
	assert.Equal(t, "0x0000000001061c06 (TCP port 7174)", mad.ServiceID(0x1061c06).String())
	assert.Equal(t, "0x0000000001990000 (PortSpace(0x0199) port 0)", mad.ServiceID(0x1990000).String())
	assert.Equal(t, "0x0200000000000001", (mad.ServiceIDLocal | 1).String())
	for _, s := range []mad.ServiceID{0, 0x00061c06, 0x02061c06, 0x1_0106_1c06, mad.ServiceIDLocal} {
		_, _, ok := s.Port()
		assert.False(t, ok, s)
	}
	rapid.Check(t, func(rt *rapid.T) {
		space := rapid.SampledFrom([]mad.PortSpace{mad.PortSpaceTCP, mad.PortSpaceUDP, mad.PortSpaceIB}).Draw(rt,
			"space")
		port := rapid.Uint16().Draw(rt, "port")
		s := space.ServiceID(port)
		gotSpace, gotPort, ok := s.Port()
		require.True(rt, ok)
		require.Equal(rt, space, gotSpace)
		require.Equal(rt, port, gotPort)
		require.True(rt, s.Matches(space.ServiceID(0), mad.PortSpaceMask))
		require.True(rt, s.Matches(s, mad.ServiceIDExact))
		require.False(rt, s.Matches(s^1, mad.ServiceIDExact))
		require.False(rt, s.Matches(s^1<<16, mad.PortSpaceMask))
		require.True(rt, s.Matches(0x5555, 0))
		require.False(rt, s.Matches(mad.ServiceIDLocal, mad.ServiceIDLocalMask))
	})
}
