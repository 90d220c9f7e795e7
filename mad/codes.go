package mad

import (
	"fmt"
	"time"
)

// MTU is a code for the largest payload of a packet. Code 1 is 256 bytes, and each further code doubles the size (9.2,
// 14.2.5.6).
type MTU uint8

// Codes of MTU.
const (
	MTU256 MTU = 1 + iota
	MTU512
	MTU1024
	MTU2048
	MTU4096
)

// Bytes returns the size in bytes, or 0 for a reserved code.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

func (m MTU) String() string {
	if n := m.Bytes(); n != 0 {
		return fmt.Sprintf("MTU %d", n)
	}
	return fmt.Sprintf("MTU code %d (reserved)", uint8(m))
}

// Rate is a code for a static rate (9.11.1, PathRecord of 15.2.5.16). Code 0 is the rate of the port, and code 1 is
// reserved.
type Rate uint8

// rates has the nominal signalling rate of each code in Mb/s.
var rates = [...]uint32{2: 2500, 3: 10000, 4: 30000, 5: 5000, 6: 20000, 7: 40000, 8: 60000, 9: 80000, 10: 120000,
	11: 14000, 12: 56000,
	13: 112000, 14: 168000, 15: 25000, 16: 100000, 17: 200000, 18: 300000, 19: 28000, 20: 50000, 21: 400000, 22: 600000,
	23: 800000}

// Mbps returns the nominal signalling rate in Mb/s. It returns 0 for the rate of the port and for unknown codes.
func (r Rate) Mbps() int {
	if int(r) >= len(rates) {
		return 0
	}
	return int(rates[r])
}

func (r Rate) String() string {
	switch n := r.Mbps(); {
	case r == 0:
		return "port rate"
	case n == 0:
		return fmt.Sprintf("rate code %d", uint8(r))
	case n%1000 != 0:
		return fmt.Sprintf("%d.%d Gb/s", n/1000, n%1000/100)
	default:
		return fmt.Sprintf("%d Gb/s", n/1000)
	}
}

// TimeExp is the 5-bit exponent n of the time 4.096 us * 2^n. An ACK timeout of 0 never expires (9.7.6.1.3).
type TimeExp uint8

const timeUnit = 4096 * time.Nanosecond

// MaxTimeExp is the largest exponent. It stands for 2.4 hours.
const MaxTimeExp TimeExp = 31

// Duration returns the time. It ignores bits above the low five.
func (t TimeExp) Duration() time.Duration { return timeUnit << (t & MaxTimeExp) }

func (t TimeExp) String() string { return t.Duration().String() }

// TimeExpFor returns the smallest exponent whose time is at least d, or MaxTimeExp if there is none.
func TimeExpFor(d time.Duration) TimeExp {
	var t TimeExp
	for t < MaxTimeExp && t.Duration() < d {
		t++
	}
	return t
}
