package sma

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
					c[offCount], c[offPointer] = byte(count), byte(pointer)
					c[offDrSLID], c[offDrSLID+1] = 0xff, 0xff
					c[offDrDLID], c[offDrDLID+1] = 0xff, 0xff
					if back {
						c[offDirection] = direction
					}
					for i := range 64 {
						c[offInitial+i], c[offReturn+i] = 9, 9
					}
					if mine && count < 64 {
						c[offReturn+count] = port
						c[offInitial+1] = port
					}
					return c
				}
				// Sent by an agent of this port: the route begins here.
				c := make(false)
				want := stepNowhere
				switch {
				case count == 0 && pointer == 0:
					want = stepHere
				case count > 0 && count < 64 && pointer == 0 && mine:
					want = stepOut
				}
				if got, _ := directedOut(&c, port, port, false); assert.Equal(t, want, got, "send %d of %d",
					pointer, count) &&
					got != stepNowhere {
					assert.Equal(t, byte(1), c[offPointer])
				}
				// Received in the outward direction: the last hop.
				c = make(false)
				if got := isHere(directedIn(&c, port, port, false)); assert.Equal(t, count < 64 &&
					(pointer == count || pointer == count+1), got, "receive %d of %d", pointer, count) && got {
					assert.Equal(t, byte(count+1), c[offPointer])
					if count > 0 && pointer == count {
						assert.Equal(t, byte(port), c[offReturn+count])
					}
				}
				// Answered by this port: the return begins with the last hop.
				c = make(true)
				if got := isOnWay(directedReply(&c, port, port, false)); assert.Equal(t, count < 64 &&
					pointer == count+1 &&
					(mine || count == 0), got, "return %d of %d", pointer, count) && got {
					assert.Equal(t, byte(count), c[offPointer])
				}
				// Received on return: the end of the route.
				c = make(true)
				if got := isHere(directedIn(&c, port, port, false)); assert.Equal(t, count < 64 && pointer <= 1, got,
					"back %d of %d",
					pointer, count) && got {
					assert.Zero(t, c[offPointer])
				}
			}
		}
	}
}

func isHere(s step, _ uint8) bool  { return s == stepHere }
func isOnWay(s step, _ uint8) bool { return s != stepNowhere }

// A route of every length crosses switches to its end, and the response returns to the sender along the same ports.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	const numPorts = 36
	for count := 1; count < 64; count++ {
		var m ci.MAD
		m[1], m[offCount] = 0x81, byte(count)
		copy(m[offDrSLID:], "\xff\xff\xff\xff")
		for i := 1; i <= count; i++ {
			m[offInitial+i] = byte(i%numPorts + 1)
		}
		m[offInitial+1] = 1
		s, port := directedOut(&m, 1, 1, false)
		require.Equal(t, stepOut, s)
		require.EqualValues(t, 1, port)
		in := func(i int) uint8 { return uint8((7*i)%numPorts + 1) } // the port of node i on which it arrives
		for i := 1; i < count; i++ {
			s, port = directedIn(&m, in(i), numPorts, true)
			require.Equal(t, stepOut, s, "hop %d of %d", i, count)
			require.Equal(t, m[offInitial+i+1], port)
		}
		s, _ = directedIn(&m, in(count), numPorts, true)
		require.Equal(t, stepHere, s)
		m[offDirection] |= direction
		s, port = directedReply(&m, in(count), numPorts, true)
		require.Equal(t, stepOut, s)
		require.Equal(t, in(count), port)
		for i := count - 1; i >= 1; i-- {
			s, port = directedIn(&m, 9, numPorts, true)
			require.Equal(t, stepOut, s, "back at %d of %d", i, count)
			require.Equal(t, in(i), port)
		}
		s, _ = directedIn(&m, 1, 1, false)
		require.Equal(t, stepHere, s)
		require.Zero(t, m[offPointer])
	}
}

// Ports that a switch does not have, and hop pointers beyond the route, lead nowhere.
func TestInvalidRoutes(t *testing.T) {
	t.Parallel()
	for pointer := range 256 {
		for count := range 256 {
			for _, back := range []byte{0, direction} {
				for _, port := range []byte{0, 9, 0xff} {
					var m ci.MAD
					m[offPointer], m[offCount], m[offDirection] = byte(pointer), byte(count), back
					for i := range 64 {
						m[offInitial+i], m[offReturn+i] = port, port
					}
					s, _ := directedIn(&m, 1, 8, true)
					require.NotEqual(t, stepOut, s, "%d of %d, direction %#x", pointer, count, back)
				}
			}
		}
	}
}
