package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"ciddk/wire"
)

func TestSyndrome(t *testing.T) {
	for _, c := range []struct {
		s        wire.Syndrome
		raw      uint8
		text     string
		class    wire.SyndromeClass
		reserved bool
	}{
		{wire.ACK(wire.CreditsInvalid), 0x1f, "ACK", wire.ClassACK, false},
		{wire.ACK(5), 0x05, "ACK(6 credits)", wire.ClassACK, false},
		{wire.RNRNAK(18), 0x32, "RNR NAK(5.12ms)", wire.ClassRNRNAK, false},
		{wire.NAKPSNSequence, 0x60, "NAK(PSN sequence error)", wire.ClassNAK, false},
		{wire.NAKInvalidRequest, 0x61, "NAK(invalid request)", wire.ClassNAK, false},
		{wire.NAKRemoteAccess, 0x62, "NAK(remote access error)", wire.ClassNAK, false},
		{wire.NAKRemoteOperation, 0x63, "NAK(remote operational error)", wire.ClassNAK, false},
		{wire.NAKInvalidRDRequest, 0x64, "NAK(invalid RD request)", wire.ClassNAK, false},
		{0x65, 0x65, "reserved syndrome 0x65", wire.ClassNAK, true},
		{0x40, 0x40, "reserved syndrome 0x40", 2, true},
		{0x9f, 0x9f, "reserved syndrome 0x9f", 4, true},
	} {
		assert.Equal(t, c.raw, uint8(c.s))
		assert.Equal(t, c.text, c.s.String())
		assert.Equal(t, c.class, c.s.Class())
		assert.Equal(t, c.raw&31, c.s.Value())
		assert.Equal(t, c.reserved, c.s.Reserved(), c.text)
		assert.Equal(t, c.class == wire.ClassACK, c.s.IsACK())
		assert.Equal(t, c.class == wire.ClassRNRNAK, c.s.IsRNRNAK())
		assert.Equal(t, c.class == wire.ClassNAK, c.s.IsNAK())
	}
}

func TestCredits(t *testing.T) {
	n, ok := wire.ACK(0).Credits()
	assert.True(t, ok)
	assert.Zero(t, n)
	n, ok = wire.ACK(30).Credits()
	assert.True(t, ok)
	assert.Equal(t, 32768, n)
	_, ok = wire.ACK(wire.CreditsInvalid).Credits()
	assert.False(t, ok)
	_, ok = wire.RNRNAK(3).Credits()
	assert.False(t, ok)

	for code := uint8(1); code < 31; code++ {
		less, _ := wire.ACK(code - 1).Credits()
		n, _ := wire.ACK(code).Credits()
		assert.Greater(t, n, less, "code %d", code)
	}
}

func TestRNRTimer(t *testing.T) {
	assert.Equal(t, 655360*time.Microsecond, wire.RNRTimer(0))
	assert.Equal(t, 10*time.Microsecond, wire.RNRTimer(1))
	assert.Equal(t, 491520*time.Microsecond, wire.RNRTimer(31))
	assert.Equal(t, wire.RNRTimer(31), wire.RNRTimer(0xff), "bits above the low five")
	// From the fifth on, each count is 4/3 or 3/2 of the previous one.
	for code := uint8(4); code < 31; code++ {
		r := float64(wire.RNRTimer(code+1)) / float64(wire.RNRTimer(code))
		assert.True(t, r > 1.33 && r < 1.51, "code %d: ratio %f", code, r)
	}
}
