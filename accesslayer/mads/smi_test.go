package mads

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
)

// Directed routes of every length with every hop pointer, compared with the rules of IBTA volume 1, 14.2.2. An adapter
// is the first node of a route, or the last.
func TestDirectedRoutes(t *testing.T) {
	const port = 3
	for count := range 256 {
		for pointer := range 256 {
			for _, mine := range []bool{true, false} {
				make := func(back bool) (c ci.MAD) {
					c[hopCount], c[hopPointer] = byte(count), byte(pointer)
					c[drSLID], c[drSLID+1] = 0xff, 0xff
					c[drDLID], c[drDLID+1] = 0xff, 0xff
					if back {
						c[directionByte] = dirMask
					}
					for i := range 64 {
						c[initialPath+i], c[returnPath+i] = 9, 9
					}
					if mine && count < 64 {
						c[returnPath+count] = port
						c[initialPath+1] = port
					}
					return c
				}
				// Sent by an agent of this port: the route begins here.
				c := make(false)
				want := nowhere
				switch {
				case count == 0 && pointer == 0:
					want = here
				case count > 0 && count < 64 && pointer == 0 && mine:
					want = out
				}
				if got := sendDirected(&c, port); assert.Equal(t, want, got, "send %d of %d", pointer, count) &&
					got != nowhere {
					assert.Equal(t, byte(1), c[hopPointer])
				}
				// Received in the outward direction: the last hop.
				c = make(false)
				if got := receiveDirected(&c, port); assert.Equal(t, count < 64 &&
					(pointer == count || pointer == count+1), got, "receive %d of %d", pointer, count) && got {
					assert.Equal(t, byte(count+1), c[hopPointer])
					if count > 0 && pointer == count {
						assert.Equal(t, byte(port), c[returnPath+count])
					}
				}
				// Answered by this port: the return begins with the last hop.
				c = make(true)
				if got := returnDirected(&c, port); assert.Equal(t, count < 64 && pointer == count+1 &&
					(mine || count == 0), got, "return %d of %d", pointer, count) && got {
					assert.Equal(t, byte(count), c[hopPointer])
				}
				// Received on return: the end of the route.
				c = make(true)
				if got := receiveDirected(&c, port); assert.Equal(t, count < 64 && pointer <= 1, got, "back %d of %d",
					pointer, count) && got {
					assert.Zero(t, c[hopPointer])
				}
			}
		}
	}
}
