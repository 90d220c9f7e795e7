package wire

import (
	"fmt"
	"time"
)

// Syndrome is byte 0 of the AETH (IBTA vol 1, 9.3 and 9.7.5). Bits 7-5 are the class, and bits 4-0 are the value. Bit 7
// is reserved.
type Syndrome uint8

// SyndromeClass is the class of a Syndrome: its bits 7-5.
type SyndromeClass uint8

// Classes. All others are reserved.
const (
	ClassACK    SyndromeClass = 0 // value: credit count code
	ClassRNRNAK SyndromeClass = 1 // value: RNR timer code
	ClassNAK    SyndromeClass = 3 // value: NAK code
)

// Syndromes of class NAK. Larger values of the class are reserved.
const (
	NAKPSNSequence      Syndrome = 0x60
	NAKInvalidRequest   Syndrome = 0x61
	NAKRemoteAccess     Syndrome = 0x62
	NAKRemoteOperation  Syndrome = 0x63
	NAKInvalidRDRequest Syndrome = 0x64
)

// CreditsInvalid is the credit code of an ACK without a credit count: end-to-end flow control is off.
const CreditsInvalid = 31

// ACK returns the syndrome of an ACK with a credit code from 0 to 31, where CreditsInvalid is no credit count.
func ACK(code uint8) Syndrome { return Syndrome(code & 31) }

// RNRNAK returns the syndrome of an RNR NAK with a timer code from 0 to 31; see RNRTimer.
func RNRNAK(code uint8) Syndrome { return Syndrome(ClassRNRNAK)<<5 | Syndrome(code&31) }

// Class returns the class.
func (s Syndrome) Class() SyndromeClass { return SyndromeClass(s >> 5) }

// Value returns the value: bits 4-0.
func (s Syndrome) Value() uint8 { return uint8(s & 31) }

// IsACK reports whether s is an ACK.
func (s Syndrome) IsACK() bool { return s.Class() == ClassACK }

// IsRNRNAK reports whether s is an RNR NAK.
func (s Syndrome) IsRNRNAK() bool { return s.Class() == ClassRNRNAK }

// IsNAK reports whether s is a NAK other than an RNR NAK, with a known or a reserved code.
func (s Syndrome) IsNAK() bool { return s.Class() == ClassNAK }

// Reserved reports whether s has a reserved class or a reserved NAK code.
func (s Syndrome) Reserved() bool {
	return s >= 0x80 || s.Class() == 2 || s > NAKInvalidRDRequest
}

// Credits returns the number of posted receives that an ACK reports. It returns false if s is not an ACK or has no
// credit count.
func (s Syndrome) Credits() (int, bool) {
	if !s.IsACK() || s.Value() == CreditsInvalid {
		return 0, false
	}
	return int(creditCounts[s.Value()]), true
}

// creditCounts is the number of receives for each credit code (IBTA vol 1, 9.7.7, end-to-end flow control).
var creditCounts = [31]uint16{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
	1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768}

// RNRTimer returns the time of an RNR timer code from 0 to 31: 10 us to 655.36 ms. It ignores higher bits.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTens[code&31]) * 10 * time.Microsecond
}

// rnrTens has the time of each RNR timer code in units of 10 us (IBTA vol 1, 9.7).
var rnrTens = [32]uint32{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
	2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}

func (s Syndrome) String() string {
	switch {
	case s.IsACK():
		if n, ok := s.Credits(); ok {
			return fmt.Sprintf("ACK(%d credits)", n)
		}
		return "ACK"
	case s.IsRNRNAK():
		return fmt.Sprintf("RNR NAK(%v)", RNRTimer(s.Value()))
	case s >= NAKPSNSequence && s <= NAKInvalidRDRequest:
		return [...]string{"NAK(PSN sequence error)", "NAK(invalid request)", "NAK(remote access error)",
			"NAK(remote operational error)", "NAK(invalid RD request)"}[s-NAKPSNSequence]
	}
	return fmt.Sprintf("reserved syndrome %#02x", uint8(s))
}
