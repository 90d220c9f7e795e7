package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"ciddk/wire"
)

func TestPSN(t *testing.T) {
	assert.EqualValues(t, 0, wire.PSNAdd(0xffffff, 1))
	assert.EqualValues(t, 0xffffff, wire.PSNAdd(0, -1))
	for _, c := range []struct {
		a, b uint32
		want int
	}{
		{5, 3, 2}, {3, 5, -2}, {0, 0xffffff, 1}, {0xffffff, 0, -1}, {0x7fffff, 0, 0x7fffff}, {0x800000, 0, -0x800000},
		{7, 7, 0},
	} {
		assert.Equal(t, c.want, wire.PSNDiff(c.a, c.b), "%#x - %#x", c.a, c.b)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Uint32Range(0, wire.Mask24).Draw(t, "psn")
		n := rapid.IntRange(-1<<23, 1<<23-1).Draw(t, "n")
		q := wire.PSNAdd(p, n)
		assert.LessOrEqual(t, q, uint32(wire.Mask24))
		assert.Equal(t, n, wire.PSNDiff(q, p))
	})
}
