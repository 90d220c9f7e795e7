package wire

import (
	"fmt"
	"time"
)

// Syndrome is byte 0 of the AETH: a class in the bits 7-5 and a value in the bits 4-0 (IBTA vol 1, 9.3 and 9.7.5).
// Bit 7 is reserved.
type Syndrome uint8

// SyndromeClass is the bits 7-5 of a Syndrome.
type SyndromeClass uint8

// The classes. Others are reserved.
const (
	ClassACK    SyndromeClass = 0 // value: credit count code
	ClassRNRNAK SyndromeClass = 1 // value: RNR timer code
	ClassNAK    SyndromeClass = 3 // value: NAK code
)

// Whole syndromes of the NAK class. A receiver treats the ones above as reserved.
const (
	NAKPSNSequence      Syndrome = 0x60
	NAKInvalidRequest   Syndrome = 0x61
	NAKRemoteAccess     Syndrome = 0x62
	NAKRemoteOperation  Syndrome = 0x63
	NAKInvalidRDRequest Syndrome = 0x64
)

// CreditsInvalid is the credit code of an ACK that grants no credits: end-to-end flow control is off.
const CreditsInvalid = 31

// ACK makes the syndrome of an acknowledge with a credit code, 0-31 (CreditsInvalid without flow control).
func ACK(code uint8) Syndrome { return Syndrome(code & 31) }

// RNRNAK makes the syndrome of a receiver-not-ready NAK with a timer code, 0-31; see RNRTimer.
func RNRNAK(code uint8) Syndrome { return Syndrome(ClassRNRNAK)<<5 | Syndrome(code&31) }

// Class gives the bits 7-5.
func (s Syndrome) Class() SyndromeClass { return SyndromeClass(s >> 5) }

// Value gives the bits 4-0.
func (s Syndrome) Value() uint8 { return uint8(s & 31) }

// IsACK reports an acknowledge without error.
func (s Syndrome) IsACK() bool { return s.Class() == ClassACK }

// IsRNRNAK reports a receiver-not-ready NAK.
func (s Syndrome) IsRNRNAK() bool { return s.Class() == ClassRNRNAK }

// IsNAK reports a NAK other than RNR, its code known or not.
func (s Syndrome) IsNAK() bool { return s.Class() == ClassNAK }

// Reserved reports a syndrome that no sender may use: a reserved class or NAK code.
func (s Syndrome) Reserved() bool {
	return s >= 0x80 || s.Class() == 2 || s > NAKInvalidRDRequest
}

// Credits gives the number of receives that an ACK says are posted, and false if it says nothing about them or s is no ACK.
func (s Syndrome) Credits() (int, bool) {
	if !s.IsACK() || s.Value() == CreditsInvalid {
		return 0, false
	}
	return int(creditCounts[s.Value()]), true
}

// CreditCode gives the largest credit code (0-30) that promises no more than n receives.
func CreditCode(n int) uint8 {
	c := uint8(0)
	for c < CreditsInvalid-1 && int(creditCounts[c+1]) <= n {
		c++
	}
	return c
}

// creditCounts: IBTA vol 1, 9.7.7, end-to-end flow control.
var creditCounts = [31]uint16{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768}

// RNRTimer gives the wait that an RNR timer code, 0-31, stands for: 10 us to 655.36 ms. Higher bits are cut off.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTens[code&31]) * 10 * time.Microsecond
}

// RNRTimerCode gives the code of the shortest wait that is at least d, and that of the longest for a d beyond.
func RNRTimerCode(d time.Duration) uint8 {
	for c := uint8(1); c < 32; c++ {
		if RNRTimer(c) >= d {
			return c
		}
	}
	return 0 // code 0 is the longest wait
}

// rnrTens is in units of 10 us.
var rnrTens = [32]uint32{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
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
