package usersuite

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOverlaps(t *testing.T) {
	const maps = "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/x\n" +
		"7f0000000000-7f0000002000 rw-p 00000000 00:00 0\n"
	for _, x := range []struct {
		from, to uint64
		want     bool
	}{
		{0x3ff000, 0x400000, false}, {0x3ff000, 0x400001, true}, {0x452000, 0x454000, false},
		{0x451fff, 0x453fff, true}, {0x7f0000001000, 0x7f0000003000, true}, {0x7f0000002000, 0x7f0000004000, false},
		{^uint64(0) - 10, 8181, false}, {4096, 12288, false},
	} {
		assert.Equal(t, x.want, overlaps(maps, x.from, x.to), "%x", x.from)
	}
}
