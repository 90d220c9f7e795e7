package main

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
)

// An advert is the message of the protocol. The client's describe a buffer. The server's are empty: they report that a
// transfer is complete.
//
//	byte 0:8   address
//	byte 8:4   R_Key
//	byte 12:4  length
type advert struct {
	Addr uint64
	RKey ci.Key
	Len  uint32
}

const advertLen = 16

// put encodes a into the first bytes of b.
func (a advert) put(b []byte) {
	_ = b[advertLen-1]
	binary.BigEndian.PutUint64(b, a.Addr)
	binary.BigEndian.PutUint32(b[8:], uint32(a.RKey))
	binary.BigEndian.PutUint32(b[12:], a.Len)
}

// parseAdvert parses a message from the network.
func parseAdvert(b []byte) (advert, error) {
	if len(b) != advertLen {
		return advert{}, fmt.Errorf("the peer sent %d bytes instead of %d: is it rping?", len(b), advertLen)
	}
	a := advert{Addr: binary.BigEndian.Uint64(b), RKey: ci.Key(binary.BigEndian.Uint32(b[8:])),
		Len: binary.BigEndian.Uint32(b[12:])}
	if a.Len > bufferLen {
		return advert{}, fmt.Errorf("the peer has a buffer of %d bytes, want at most %d", a.Len, bufferLen)
	}
	return a, nil
}
