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

// TestFoldPolynomial checks that the polynomial of foldCRC is a multiple of that of CRC-32, and that no other multiple
// with four distances of at least 64 has all of them below 300.
func TestFoldPolynomial(t *testing.T) {
	t.Parallel()
	const one = uint32(1) << 31 // x^0
	back := [301]uint32{one}    // x^-n
	x := one >> 1
	inverse := mulMod(one, uint32(ieeePoly<<1&0xffffffff|1))
	require.Equal(t, one, mulMod(x, inverse))
	for n := 1; n < len(back); n++ {
		back[n] = mulMod(back[n-1], inverse)
	}
	require.Equal(t, one, back[145]^back[183]^back[211]^back[300], "a bit is the sum of those behind it")

	type pair struct{ a, b int }
	pairs := map[uint32][]pair{}
	for a := 64; a < 300; a++ {
		for b := a + 1; b < 300; b++ {
			v := back[a] ^ back[b]
			for _, p := range pairs[v^one] {
				require.Failf(t, "less reach", "%v and %v", p, pair{a, b})
			}
			pairs[v] = append(pairs[v], pair{a, b})
		}
	}
}

func TestUpdateCRC(t *testing.T) {
	t.Parallel()
	b := make([]byte, 300)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(b)
	for n := range b {
		require.Equal(t, crc32.ChecksumIEEE(b[:n]), ^updateCRC(^uint32(0), b[:n]), n)
	}
}

// BenchmarkCRC compares foldCRC with headerCRC and hash/crc32.
func BenchmarkCRC(b *testing.B) {
	for _, n := range []int{128, 1024, 4096} {
		buf := make([]byte, n)
		for _, f := range []struct {
			name string
			crc  func(uint32, []byte) uint32
		}{{"fold", foldCRC}, {"tables", headerCRC}, {"library", libraryCRC}} {
			b.Run(fmt.Sprintf("%s/%d", f.name, n), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(n))
				for b.Loop() {
					_ = f.crc(7, buf)
				}
			})
		}
	}
}
