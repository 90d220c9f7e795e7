package rdmacm

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestCredits runs two ends that send and read in random order, over a transport that keeps the order. Every message
// and grant finds a receive, and no end waits for ever.
func TestCredits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type end struct {
			credits
			posted, unread int
			wire           []uint32 // sent to it and not arrived
		}
		start := rapid.Uint32Range(0, creditMask).Draw(t, "start") // so that numbers also wrap around
		depth := [2]int{rapid.IntRange(1, 9).Draw(t, "depth"), rapid.IntRange(1, 9).Draw(t, "other depth")}
		var ends [2]*end
		for i := range ends {
			own, peer := uint32(depth[i]), uint32(depth[1-i])
			e := &end{credits: newCredits(own, peer), posted: depth[i] + creditMessages}
			for _, n := range []*uint32{&e.sent, &e.limit, &e.freed, &e.granted} {
				*n = (*n + start) & creditMask
			}
			ends[i] = e
		}
		send := func(i int, imm uint32) { ends[1-i].wire = append(ends[1-i].wire, imm) }
		// arrive is the transport: it consumes a receive, whether or not the end polls its completions.
		var completions [2][]uint32
		arrive := func(i int) {
			e := ends[i]
			require.Positive(t, e.posted, "a message arrived at an end without a receive")
			e.posted--
			completions[i] = append(completions[i], e.wire[0])
			e.wire = e.wire[1:]
		}
		poll := func(i int) {
			e := ends[i]
			for _, imm := range completions[i] {
				if e.receive(imm) {
					e.unread++
				} else {
					e.posted++
				}
			}
			completions[i] = nil
		}
		read := func(i int) {
			e := ends[i]
			e.unread--
			e.posted++
			if e.free() {
				send(i, e.grant())
			}
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "end")
			e := ends[i]
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if e.canSend() {
					send(i, e.take())
				}
			case 1:
				if len(e.wire) > 0 {
					arrive(i)
				}
			case 2:
				poll(i)
			case 3:
				if e.unread > 0 {
					read(i)
				}
			}
		}
		// When both have read everything, both can send.
		for range 3 {
			for i, e := range ends {
				for len(e.wire) > 0 {
					arrive(i)
				}
				poll(i)
				for e.unread > 0 {
					read(i)
				}
			}
		}
		assert.True(t, ends[0].canSend() && ends[1].canSend(), "an end waits for ever")
	})
}

func TestHello(t *testing.T) {
	h := hello{depth: 7, size: 4096}
	got, rest, ok, err := parseHello(append(h.encode(), "data"...))
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, h, got)
	assert.Equal(t, "data", string(rest))
	_, rest, ok, err = parseHello([]byte("something of another program"))
	require.NoError(t, err)
	assert.False(t, ok)
	assert.Equal(t, "something of another program", string(rest))
	for _, bad := range []hello{{}, {depth: 1}, {size: 1}, {maxDepth + 1, 1}, {1, maxMessage + 1}} {
		_, _, _, err := parseHello(bad.encode())
		require.Error(t, err)
	}
}

// FuzzHello decodes private data as a peer could send it.
func FuzzHello(f *testing.F) {
	f.Add(hello{32, 4096}.encode())
	f.Add(binary.BigEndian.AppendUint32(nil, helloMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, rest, ok, err := parseHello(b)
		if err != nil || !ok {
			return
		}
		if h.depth == 0 || h.depth > maxDepth || h.size == 0 || h.size > maxMessage || len(rest) != len(b)-helloLen {
			t.Fatalf("%+v of %x", h, b)
		}
	})
}
