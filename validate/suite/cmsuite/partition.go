package cmsuite

import (
	"ciddk/ci"
)

// memberBit is the bit of a P_Key for full members (IBTA 10.9.1.1).
const memberBit ci.PKey = 1 << 15

// partition returns the first P_Key of a port that is valid.
func partition(p *ci.PortAttr) ci.PKey {
	for _, k := range p.PKeys {
		if k&^memberBit != 0 {
			return k
		}
	}
	return 0
}
