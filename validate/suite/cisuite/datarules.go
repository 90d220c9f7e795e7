package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// inline16 returns why a CA cannot send 16 bytes of inline data, or "".
func inline16(a *ci.CAAttr) string {
	if a.MaxInline < 16 {
		return fmt.Sprintf("MaxInline is %d, but 16 is needed", a.MaxInline)
	}
	return ""
}

// ids returns from, from+1, … to.
func ids(from, to uint64) []uint64 {
	var out []uint64
	for i := from; i <= to; i++ {
		out = append(out, i)
	}
	return out
}

// unanswering returns a pair in which A can send, while B stays in Init and drops what arrives. A has no ACK timeout.
func unanswering(t *validate.T, opts ...kit.Option) *kit.Pair {
	p := kit.NewPairInReset(t, append([]kit.Option{kit.Type(ci.RC), kit.AckTime(0)}, opts...)...)
	p.A.Init()
	p.B.Init()
	p.A.RTR(p.B.QP)
	p.A.RTS()
	return p
}
