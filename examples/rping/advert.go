package main

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
)

// advert is what the peers send each other: where a buffer is. The server's own say nothing but that it is done.
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

func (a advert) put(b []byte) {
	_ = b[advertLen-1]
	binary.BigEndian.PutUint64(b, a.Addr)
	binary.BigEndian.PutUint32(b[8:], uint32(a.RKey))
	binary.BigEndian.PutUint32(b[12:], a.Len)
}

// parseAdvert takes what a stranger sent.
func parseAdvert(b []byte) (advert, error) {
	if len(b) != advertLen {
		return advert{}, fmt.Errorf("the peer sent %d bytes where %d were due; is it an rping?", len(b), advertLen)
	}
	a := advert{Addr: binary.BigEndian.Uint64(b), RKey: ci.Key(binary.BigEndian.Uint32(b[8:])), Len: binary.BigEndian.Uint32(b[12:])}
	if a.Len > bufferLen {
		return advert{}, fmt.Errorf("the peer wants to ping with %d bytes, at most %d are possible", a.Len, bufferLen)
	}
	return a, nil
}
