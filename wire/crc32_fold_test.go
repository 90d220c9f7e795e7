package wire

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFoldCRC(t *testing.T) {
	t.Parallel()
	rnd := rand.NewChaCha8([32]byte{1})
	b := make([]byte, 5000)
	_, _ = rnd.Read(b)
	for n := foldMin; n <= len(b); n++ {
		if n > 600 && n%61 != 0 {
			continue
		}
		at := n % 7 // any alignment
		in, r := b[at:min(at+n, len(b))], uint32(rnd.Uint64())
		require.Equal(t, crc32.Update(r, crc32.IEEETable, in), ^foldCRC(^r, in), n)
	}
}
func BenchmarkCRC(b *testing.B) {
	for _, n := range []int{128, 1024, 4096} {
		buf := make([]byte, n)
		for name, f := range map[string]func(uint32, []byte) uint32{"fold": foldCRC, "slicing": headerCRC,
			"library": func(r uint32, b []byte) uint32 { return ^crc32.Update(^r, crc32.IEEETable, b) }} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					_ = f(7, buf)
				}
			})
		}
	}
}
