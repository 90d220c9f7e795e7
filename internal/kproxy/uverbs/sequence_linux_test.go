package uverbs

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/internal/kproxy/devices"
)

// FuzzSequence executes sequences of calls of three programs that fit what the programs have, some of them changed. No
// sequence may stop the daemon, have a reply beyond its room, leave anything behind, or change what another program
// has; and a call that is not changed succeeds, or has the errno that it should.
func FuzzSequence(f *testing.F) {
	f.Add([]byte("a seed"), uint8(60))
	r := newRig(f)
	other := newBystander(r)
	f.Fuzz(func(t *testing.T, input []byte, steps uint8) {
		pick := func(n int) int { // the input, and then what follows from it
			if len(input) == 0 {
				return 0
			}
			k := int(input[0]) % n
			input = append(input[1:], input[0]*5+1)
			return k
		}
		play(t, r, other, pick, int(steps))
	})
}

// TestSequences executes random sequences. Most calls succeed, so that they get beyond the first checks.
func TestSequences(t *testing.T) {
	r := newRig(t)
	other := newBystander(r)
	calls, done := 0, 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		c, d := play(t, r, other, random.IntN, 300)
		calls, done = calls+c, done+d
	}
	t.Logf("%d of %d calls succeeded", done, calls)
	assert.Greater(t, 2*done, calls)
}

// The fields of an attribute that a step can replace, and the bits of a change of the whole.
var attrFields = []struct{ at, size int }{{offAttrData, 4}, {0, 2}, {2, 2}, {offAttrFlags, 2}, {6, 2},
	{offAttrData + 4, 4}, {offAttrData, 8}}

const (
	dropLast   = 1 << iota // the last attribute is missing
	repeatLast             // the last attribute is there twice
	noMemory               // the memory of the values cannot be read
)

// mutate replaces a field of an attribute, if the ioctl has the attribute, and its number of attributes.
func (c *ioctl) mutate(which byte, value uint32, change byte) {
	field := attrFields[int(which>>5)%len(attrFields)]
	if i := sizeIoctlAttr * int(which&31); i < len(c.attrs) {
		b := c.attrs[i+field.at:]
		switch field.size {
		case 2:
			ne.PutUint16(b, uint16(value))
		case 4:
			ne.PutUint32(b, value)
		default:
			ne.PutUint64(b, uint64(int64(int32(value))))
		}
	}
	last := max(0, len(c.attrs)-sizeIoctlAttr)
	if change&dropLast != 0 {
		c.attrs = c.attrs[:last]
	} else if change&repeatLast != 0 {
		c.attrs = append(c.attrs, slices.Clone(c.attrs[last:])...)
	}
	if change&noMemory != 0 {
		c.memory = nil
	}
}

// hasRoom reports whether a store is in an attribute, or in the room for its value.
func (c *ioctl) hasRoom(s devices.Store) bool {
	inside := func(addr, size uint64) bool {
		return s.Addr >= addr && s.Addr-addr <= size && uint64(len(s.Data)) <= size-(s.Addr-addr)
	}
	for i := 0; i < len(c.attrs); i += sizeIoctlAttr {
		room := uint64(ne.Uint16(c.attrs[i+2:]))
		itself := uint64(ioctlAddr + sizeIoctlHeader + i)
		if inside(itself, sizeIoctlAttr) || inside(ne.Uint64(c.attrs[i+offAttrData:]), room) {
			return true
		}
	}
	return false
}
