package rvt

import "ciddk/ci"

// PieceMemory is an optional interface of a ci.Memory whose Slice returns nil because each copy is a system call or a
// message, such as memory of another process. The data of a packet, and of packets that arrive together, is in several
// pieces, which the engine then copies at once.
type PieceMemory interface {
	ci.Memory
	// WritePieces is WriteAt for pieces of n bytes in total, which are stored one behind the other from off. It does
	// not keep them. After an error, a part may have been written.
	WritePieces(pieces [][]byte, n int, off int64) error
}

// pieceMemoryOf returns the memory of segments that takes several pieces at once, or nil.
func pieceMemoryOf(segs []segment) PieceMemory {
	if len(segs) != 1 || segs[0].b != nil {
		return nil
	}
	m, _ := segs[0].m.(PieceMemory)
	return m
}

// pieceSource is data in pieces: those of a packet from a byte on.
type pieceSource struct {
	pieces [][]byte
	used   int // bytes of the first piece
}

// next takes at most n bytes, which exist: the rest of the first piece.
func (s *pieceSource) next(n uint32) []byte {
	b := s.pieces[0][s.used:]
	if uint32(len(b)) > n {
		b = b[:n]
	}
	if s.used += len(b); s.used == len(s.pieces[0]) {
		s.pieces, s.used = s.pieces[1:], 0
	}
	return b
}
