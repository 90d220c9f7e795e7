package bus

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStore copies all short lengths to all alignments.
func TestStore(t *testing.T) {
	src := make([]byte, 40)
	for i := range src {
		src[i] = byte(i + 1)
	}
	for at := range 9 {
		for n := range len(src) + 1 {
			room := make([]byte, 64)
			store(room[at:at+n], src[:n])
			want := make([]byte, 64)
			copy(want[at:], src[:n])
			require.Equal(t, want, room, "%d bytes at %d", n, at)
		}
	}
}
