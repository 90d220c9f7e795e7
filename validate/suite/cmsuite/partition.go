package cmsuite

import (
	"slices"

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

// absentPKey returns a P_Key of a partition that the side's port does not have.
func (s *side) absentPKey() ci.PKey {
	key := ci.PKey(0x1234)
	for slices.ContainsFunc(s.ca.Port.PKeys, func(k ci.PKey) bool { return k&^memberBit == key }) {
		key++
	}
	return key
}
