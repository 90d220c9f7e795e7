package mads

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/mad"
)

// The subnet management interface of a channel adapter, for directed route SMPs that are sent and received (IBTA volume
// 1, 14.2.2). An adapter is always the first or the last node of the directed part of a route; only switches forward.

const (
	hopPointer, hopCount   = 6, 7
	drSLID, drDLID         = 32, 34
	initialPath            = 128
	returnPath             = 192
	permissiveLID          = 0xffff
	directionByte, dirMask = 4, 0x80
)

type where uint8

const (
	nowhere where = iota
	out           // to send through the port
	here          // for this port itself
)

// sendDirected prepares an SMP that an agent of the port sends, and returns where it goes.
func sendDirected(c *ci.MAD, port uint8) where {
	if c[directionByte]&dirMask != 0 {
		if returnDirected(c, port) {
			return out
		}
		return nowhere
	}
	count, pointer := c[hopCount], c[hopPointer]
	switch {
	case count >= mad.MaxHops || pointer != 0:
		return nowhere // not the beginning of a route
	case count == 0:
		if binary.BigEndian.Uint16(c[drDLID:]) != permissiveLID &&
			binary.BigEndian.Uint16(c[drSLID:]) == permissiveLID {
			return out // no directed part before the LID-routed one
		}
		c[hopPointer] = 1
		return here
	case c[initialPath+1] != port:
		return nowhere
	}
	c[hopPointer] = 1
	return out
}

// returnDirected prepares an SMP that returns from this port, the end of its route.
func returnDirected(c *ci.MAD, port uint8) bool {
	count, pointer := c[hopCount], c[hopPointer]
	switch {
	case count >= mad.MaxHops || pointer != count+1:
		return false
	case count == 0: // no directed part: it returns by LID
		c[hopPointer] = 0
		return true
	}
	c[hopPointer] = count
	return c[returnPath+count] == port
}

// receiveDirected handles a received SMP, and reports whether its route ends at this port.
func receiveDirected(c *ci.MAD, port uint8) bool {
	count, pointer := c[hopCount], c[hopPointer]
	if count >= mad.MaxHops {
		return false
	}
	if c[directionByte]&dirMask == 0 {
		switch {
		case count > 0 && pointer == count:
			c[returnPath+count] = port
			c[hopPointer] = count + 1
			return binary.BigEndian.Uint16(c[drDLID:]) == permissiveLID
		case pointer == count+1: // after the directed part, by LID
			return true
		case count == 0 && pointer == 0:
			c[hopPointer] = 1
			return binary.BigEndian.Uint16(c[drDLID:]) == permissiveLID
		}
		return false
	}
	switch {
	case pointer == 0:
		return true
	case pointer == 1:
		c[hopPointer] = 0
		return binary.BigEndian.Uint16(c[drSLID:]) == permissiveLID
	}
	return false
}
