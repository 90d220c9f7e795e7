package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// needing adds needs to cases.
func needing(n validate.Needs, cases ...validate.Case) []validate.Case {
	for i := range cases {
		cases[i].Needs = n
	}
	return cases
}

// inline16 is a need of 16 bytes of inline data.
func inline16(a *ci.CAAttr) string {
	if a.MaxInline < 16 {
		return fmt.Sprintf("MaxInline is %d, 16 needed", a.MaxInline)
	}
	return ""
}

// ids are from, from+1 … to.
func ids(from, to uint64) []uint64 {
	var out []uint64
	for i := from; i <= to; i++ {
		out = append(out, i)
	}
	return out
}

// deaf is a pair of which A is ready to send and B drops what comes: it stays in Init. Nothing times out.
func deaf(t *validate.T, opts ...kit.Option) *kit.Pair {
	p := kit.NewPairInReset(t, append([]kit.Option{kit.Type(ci.RC), kit.AckTime(0)}, opts...)...)
	p.A.Init()
	p.B.Init()
	p.A.RTR(p.B.QP)
	p.A.RTS()
	return p
}
