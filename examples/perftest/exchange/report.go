package exchange

import (
	"encoding/binary"
	"math"
)

// A Report is one side's result of a bandwidth test.
type Report struct {
	Size    uint64  // bytes of a message
	Iters   uint64  // messages
	Peak    float64 // MB/s of 2^20 bytes, or Gb/s with that option of the side
	Average float64
	Rate    float64 // messages per microsecond
}

const reportFields = 5

// encode returns the fields in the order in which they are exchanged.
func (r Report) encode() [reportFields][8]byte {
	var b [reportFields][8]byte
	for i, v := range [reportFields]uint64{r.Size, r.Iters, math.Float64bits(r.Peak), math.Float64bits(r.Average),
		math.Float64bits(r.Rate)} {
		binary.BigEndian.PutUint64(b[i][:], v)
	}
	return b
}

// parseReport parses the fields. A side that measured nothing sends arbitrary ones, so none is invalid; those that are
// not finite become 0.
func parseReport(b [reportFields][8]byte) Report {
	number := func(i int) float64 {
		f := math.Float64frombits(binary.BigEndian.Uint64(b[i][:]))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return 0
		}
		return f
	}
	return Report{Size: binary.BigEndian.Uint64(b[0][:]), Iters: binary.BigEndian.Uint64(b[1][:]), Peak: number(2),
		Average: number(3), Rate: number(4)}
}
