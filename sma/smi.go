package sma

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/mad"
)

// Offsets in a directed route SMP.
const (
	offDirection = 4 // bit 7
	offPointer   = 6
	offCount     = 7
	offDrSLID    = 32
	offDrDLID    = 34
	offInitial   = 128
	offReturn    = 192
	direction    = 0x80
)

// A step is where a directed route leads from a node.
type step uint8

const (
	stepNowhere step = iota // the route is not valid here
	stepHere                // to the agent or the managers of this node
	stepOut                 // out of a port, with permissive LIDs
	stepByLID               // the LID-routed part follows
)

// isPermissive reports whether the LID at off is permissive.
func isPermissive(m *ci.MAD, off int) bool {
	return m[off] == 0xff && m[off+1] == 0xff
}

func lidAt(m *ci.MAD, off int) ci.LID { return ci.LID(binary.BigEndian.Uint16(m[off:])) }

// isReturning reports whether a directed route SMP is on its way back.
func isReturning(m *ci.MAD) bool { return m[offDirection]&direction != 0 }

// directedIn processes a directed route SMP that arrived at a port (IBTA volume 1, 14.2.2.2 and 14.2.2.4). It changes
// the hop pointer and the return path.
func directedIn(m *ci.MAD, in, numPorts uint8, isSwitch bool) (s step, port uint8) {
	if m[offCount] >= mad.MaxHops {
		return stepNowhere, 0
	}
	if isReturning(m) {
		return directedBack(m, numPorts, isSwitch)
	}
	count, pointer := m[offCount], m[offPointer]
	switch {
	case pointer == count: // the last node of the directed part
		if count > 0 {
			m[offReturn+int(count)] = in
		}
		m[offPointer] = count + 1
		switch {
		case isPermissive(m, offDrDLID):
			return stepHere, 0
		case isSwitch:
			return stepByLID, 0
		}
	case pointer == count+1: // after the LID-routed part
		return stepHere, 0
	case pointer < count && isSwitch:
		if pointer > 0 {
			m[offReturn+int(pointer)] = in
		} else if isPermissive(m, offDrSLID) { // the sender has not begun the route
			return stepNowhere, 0
		}
		m[offPointer] = pointer + 1
		return exit(m[offInitial+int(pointer)+1], numPorts)
	}
	return stepNowhere, 0
}

// directedBack is directedIn for an SMP on its way back.
func directedBack(m *ci.MAD, numPorts uint8, isSwitch bool) (s step, port uint8) {
	count, pointer := m[offCount], m[offPointer]
	switch {
	case pointer == 0:
		return stepHere, 0
	case pointer == 1:
		m[offPointer] = 0
		switch {
		case isPermissive(m, offDrSLID):
			return stepHere, 0
		case isSwitch:
			return stepByLID, 0
		}
	case pointer <= count+1 && isSwitch: // an intermediate node, or the first one after the LID-routed part
		m[offPointer] = pointer - 1
		return exit(m[offReturn+int(pointer)-1], numPorts)
	}
	return stepNowhere, 0
}

// exit returns a step out of a port, if the switch has it.
func exit(port, numPorts uint8) (s step, p uint8) {
	if port == 0 || port > numPorts {
		return stepNowhere, 0
	}
	return stepOut, port
}

// directedOut processes a directed route request that a manager of the node sends (14.2.2.1). The port is that of an
// adapter from which the manager sends, or 0 for a switch, which has all of them.
func directedOut(m *ci.MAD, from, numPorts uint8, isSwitch bool) (s step, port uint8) {
	count := m[offCount]
	switch {
	case count >= mad.MaxHops || m[offPointer] != 0:
		return stepNowhere, 0 // not the beginning of a route
	case count == 0:
		if !isPermissive(m, offDrDLID) && isPermissive(m, offDrSLID) {
			return stepByLID, 0 // no directed part before the LID-routed one
		}
		m[offPointer] = 1
		return stepHere, 0
	case !isSwitch && m[offInitial+1] != from:
		return stepNowhere, 0
	}
	m[offPointer] = 1
	return exit(m[offInitial+1], numPorts)
}

// directedReply prepares the response to a directed route SMP for its way back from this node, the last of the route
// (14.2.2.3). in is the port on which the request arrived.
func directedReply(m *ci.MAD, in, numPorts uint8, isSwitch bool) (s step, port uint8) {
	count, pointer := m[offCount], m[offPointer]
	switch {
	case count >= mad.MaxHops || pointer != count+1:
		return stepNowhere, 0
	case count == 0: // no directed part: it returns by LID
		m[offPointer] = 0
		return stepByLID, 0
	case !isPermissive(m, offDrDLID): // back through the LID-routed part first
		return stepByLID, 0
	}
	m[offPointer] = count
	port = m[offReturn+int(count)]
	if !isSwitch && port != in {
		return stepNowhere, 0
	}
	return exit(port, numPorts)
}
