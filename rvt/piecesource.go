package rvt

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
