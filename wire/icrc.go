package wire

import "encoding/binary"

// ICRC is an invariant CRC under way (IBTA vol 1, 7.8.1; for RoCE annex A16, A17): the CRC-32 of Ethernet over every byte up to
// the ICRC field, with the fields that routers may change read as ones. Computing one goes
//
//	c := flow.Start(n, id)      // all in front of the BTH: Flow4, Flow6, StartGRH, StartLRH
//	c = c.Headers(hdr)          // BTH and extension headers
//	c = c.Update(seg)           // payload, in as many pieces as there are
//	c = c.Pad(pad)              // pad bytes, all zero
//	c.Put(b)                    // the four bytes on the wire
//
// without copying or changing a byte. A value is complete after each step, in the convention of hash/crc32.
type ICRC uint32

// icrcOnes is the ICRC of 8 bytes 0xff, the stand-in for the LRH that RoCE packets do not have (A16, A17).
const icrcOnes ICRC = 0x2144df1c

// Headers goes on over a BTH and what follows it, headers or more, reading byte 4 of the BTH (FECN, BECN, reserved) as ones. len(b) must be
// a multiple of 4 and at least BTHLen. b does not escape.
func (c ICRC) Headers(b []byte) ICRC {
	_ = b[BTHLen-1]
	r := crcWord(^uint32(c), binary.LittleEndian.Uint64(b)|0xff<<32)
	return ICRC(^headerCRC(r, b[8:]))
}

// Update goes on over a piece of the packet, a long one at the speed of hash/crc32 or better.
func (c ICRC) Update(seg []byte) ICRC { return ICRC(^updateCRC(^uint32(c), seg)) }

// Pad goes on over n zero bytes.
func (c ICRC) Pad(n uint8) ICRC {
	r := ^uint32(c)
	for ; n > 0; n-- {
		r = crcTab[0][byte(r)] ^ r>>8
	}
	return ICRC(^r)
}

// Put writes the CRC to b[:ICRCLen] as it is sent, least significant byte first.
func (c ICRC) Put(b []byte) { binary.LittleEndian.PutUint32(b, uint32(c)) }

// Transport goes on over a whole transport packet b, BTH to the end of the pad (no ICRC), of a multiple of 4 bytes and at least
// BTHLen.
func (c ICRC) Transport(b []byte) ICRC {
	// The headers' slower code only over the part that needs a mask.
	c = ICRC(^crcWord(^uint32(c), binary.LittleEndian.Uint64(b)|0xff<<32))
	return c.Update(b[8:])
}
