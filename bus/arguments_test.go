package bus

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDMASize(t *testing.T) {
	page := os.Getpagesize()
	for size, want := range map[int]int{1: page, page: page, page + 1: 2 * page, maxDMA: maxDMA} {
		n, err := DMASize(size)
		require.NoError(t, err)
		assert.Equal(t, want, n)
	}
	for _, size := range []int{-1, 0, maxDMA + 1} {
		_, err := DMASize(size)
		assert.ErrorContains(t, err, "bytes of DMA memory")
	}
}

func TestCheckVectors(t *testing.T) {
	f := func(int) {}
	assert.NoError(t, CheckVectors(0, 3, nil))
	assert.NoError(t, CheckVectors(3, 3, f))
	assert.ErrorIs(t, CheckVectors(4, 3, f), ErrNoVectors)
	assert.ErrorIs(t, CheckVectors(-1, 3, f), ErrNoVectors)
	assert.ErrorContains(t, CheckVectors(1, 3, nil), "without a function")
}

func TestPages(t *testing.T) {
	page := uint64(os.Getpagesize())
	b := make([]byte, 3*page)
	start := page - address(b)%page
	for _, x := range []struct{ from, n, offset, size uint64 }{
		{0, page, 0, page}, {0, 1, 0, page}, {5, page - 5, 5, page}, {5, page - 4, 5, 2 * page},
		{0, 2 * page, 0, 2 * page},
	} {
		offset, size, err := Pages(b[start+x.from:][:x.n])
		require.NoError(t, err)
		assert.Equal(t, []uint64{x.offset, x.size}, []uint64{offset, size}, "%d bytes at %d", x.n, x.from)
	}
	_, _, err := Pages(nil)
	assert.ErrorIs(t, err, ErrNotMappable)
}
