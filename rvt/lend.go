package rvt

import "ciddk/ci"

// A Lender is the owner of memory that it may take back at any time, such as the host of an adapter. Before it does so,
// it waits for the accesses that have begun.
type Lender interface {
	// Borrow begins an access, and does not block. The result is for Return.
	Borrow() (loan uint32)
	// Return ends an access.
	Return(loan uint32)
}

// LentMemory is an optional interface of a ci.Memory whose Slice returns nil because its owner may take it back. A turn
// of the engine borrows the memory, so that packets refer to it instead of a copy, and what arrives is written to it
// directly. The turn returns it when its packets have been sent.
type LentMemory interface {
	ci.Memory
	// Lender returns the present owner, or nil. Equal owners are one loan.
	Lender() Lender
	// Views appends views of the n bytes at off to dst, within the capacity of dst. The caller has borrowed from
	// Lender, and uses the views until it returns the loan. write reports whether it writes to them. Views reports
	// false if from is not the owner any more, or if not all bytes can be addressed, or if they are in more pieces
	// than there is room for.
	Views(from Lender, dst [][]byte, off, n uint64, write bool) ([][]byte, bool)
}

// lentOf returns the memory of segments that a turn can borrow, or nil.
func lentOf(segs []segment) LentMemory {
	if len(segs) != 1 || segs[0].b != nil {
		return nil
	}
	m, _ := segs[0].m.(LentMemory)
	return m
}
