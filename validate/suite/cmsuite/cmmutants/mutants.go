package cmmutants

import (
	"encoding/binary"
	"slices"
	"sync"

	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// All returns the mutants of all areas.
func All() []mutant.Mutant {
	return slices.Concat(datagrams, connects, messages)
}

// Attributes of the connection manager (IBTA volume 1, 16.7.2).
const (
	attrREQ     = 0x10
	attrREJ     = 0x12
	attrREP     = 0x13
	attrRTU     = 0x14
	attrDREQ    = 0x15
	attrDREP    = 0x16
	attrSIDRREQ = 0x17
)

// Offsets in a datagram (IBTA volume 1, 13.4.3). The fields of a CM message begin at bodyOffset (12.6).
const (
	tidOffset  = 8
	bodyOffset = 24
)

// fault returns a mutant that breaks r.
func fault(name, breaks, does string, wrap func(ci.HCA) ci.HCA) mutant.Mutant {
	return mutant.Of(name, breaks, does, wrap).Needing(ci.CapSpecialQP)
}

// edit returns a mutant that changes sent CM messages with the attribute.
func edit(name, breaks, does string, attr uint16, f func(b []byte)) mutant.Mutant {
	return fault(name, breaks, does, tap.MAD(func(b []byte) bool {
		if isCM(b, attr) {
			f(b)
		}
		return true
	}))
}

// editIn returns a mutant that changes received CM messages with the attribute.
func editIn(name, breaks, does string, attr uint16, f func(b []byte)) mutant.Mutant {
	return fault(name, breaks, does, tap.MADIn(func(b []byte) {
		if isCM(b, attr) {
			f(b)
		}
	}))
}

// lose returns a mutant that drops sent datagrams. The second argument of isLost is the number of datagrams with the
// same attribute that were sent, including this one.
func lose(name, breaks, does string, isLost func(b []byte, nth int) bool) mutant.Mutant {
	return fault(name, breaks, does, func(h ci.HCA) ci.HCA {
		var mu sync.Mutex
		count := map[uint16]int{}
		return tap.MAD(func(b []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			attr := binary.BigEndian.Uint16(b[16:])
			count[attr]++
			return !isLost(b, count[attr])
		})(h)
	})
}

// after drops CM messages with the attribute after the first n.
func after(n int, attr uint16) func([]byte, int) bool {
	return func(b []byte, nth int) bool { return isCM(b, attr) && nth > n }
}

// isCM reports whether b is a CM message with the attribute.
func isCM(b []byte, attr uint16) bool { return b[1] == 0x07 && binary.BigEndian.Uint16(b[16:]) == attr }

// on sets the link on which the fault is visible.
func on(link string, m mutant.Mutant) mutant.Mutant { m.Link = link; return m }
