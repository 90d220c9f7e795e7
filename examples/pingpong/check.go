package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"ciddk/ci"
)

// The originals' data: every byte is fill, but the first of each page is 0 when the data are to be checked, and that is what an original
// server looks at when it has received its last message.
const (
	fill = 0x7b
	page = 4096
)

// paint makes the number-th message of a client that checks: one that an original server finds right, and that has other bytes at any
// other place and in each message, so that no packet can take the place of another.
func paint(b []byte, number int) {
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

// check looks at a received message: its length always, the data with -c. A client expects what it has sent. (With several QPs the
// messages have one buffer, as in the originals, so that only the length means anything.)
func (e *endpoint) check(wc ci.WC, number int) error {
	want := e.o.Size
	if e.o.Mode == "ud" {
		want += grhLen
	}
	if int(wc.Length) != want {
		return fmt.Errorf("message %d has %d bytes, not %d; was the peer given the same -s?", number, wc.Length, want)
	}
	if !e.o.Check {
		return nil
	}
	if !e.server() && len(e.qps) == 1 {
		if !bytes.Equal(e.recv, e.send) {
			return fmt.Errorf("invalid data in message %d: %s", number, difference(e.recv, e.send))
		}
		return nil
	}
	for i := 0; i < len(e.recv); i += page {
		if e.recv[i] != 0 {
			return fmt.Errorf("invalid data in message %d, page %d: %#02x, not 0; was the client given -c?", number, i/page, e.recv[i])
		}
	}
	return nil
}

func difference(got, want []byte) string {
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d is %#02x, not %#02x", i, got[i], want[i])
		}
	}
	return "none"
}
