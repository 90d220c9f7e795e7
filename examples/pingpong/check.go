package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"ciddk/ci"
)

// The data of the originals: every byte is fill. With -c, the first byte of each page is 0, and an original server
// checks these bytes when it has received its last message.
const (
	fill = 0x7b
	page = 4096
)

// fillMessage makes message number of a client that checks the data. An original server accepts it. All 8-byte words of
// all messages differ, so the check finds packets in the wrong place.
func fillMessage(b []byte, number int) {
	r := rand.NewPCG(uint64(number), 0)
	for i := 0; i < len(b); i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], r.Uint64())
		copy(b[i:], word[:])
	}
	for i := 0; i < len(b); i += page {
		b[i] = 0
	}
}

// check checks the length of a received message and, with -c, its data. A client expects what it has sent. With several
// QPs, the messages share a buffer as in the originals, so a client checks only what a server checks.
func (e *endpoint) check(wc ci.WC, number int) error {
	want := e.o.Size
	if e.o.Mode == "ud" {
		want += grhLen
	}
	if int(wc.Length) != want {
		return fmt.Errorf("message %d has %d bytes, want %d: does the peer have the same -s?", number, wc.Length, want)
	}
	if !e.o.Check {
		return nil
	}
	if !e.isServer() && len(e.qps) == 1 {
		if !bytes.Equal(e.recv, e.send) {
			return fmt.Errorf("invalid data in message %d: %s", number, difference(e.recv, e.send))
		}
		return nil
	}
	for i := 0; i < len(e.recv); i += page {
		if e.recv[i] != 0 {
			return fmt.Errorf("invalid data in message %d, page %d: %#02x, want 0: does the client have -c?", number,
				i/page, e.recv[i])
		}
	}
	return nil
}

// difference describes the first byte in which two messages differ.
func difference(got, want []byte) string {
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d is %#02x, want %#02x", i, got[i], want[i])
		}
	}
	return "none"
}
