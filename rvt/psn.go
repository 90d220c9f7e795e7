package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// psnAdd and psnDiff are the 24-bit arithmetic of package wire (IBTA volume 1, 9.7.2) on the type of the verbs. A
// difference is signed, and valid within 2^23.
func psnAdd(p ci.PSN, n uint32) ci.PSN { return ci.PSN(wire.PSNAdd(uint32(p), int(n))) }

func psnDiff(a, b ci.PSN) int32 { return int32(wire.PSNDiff(uint32(a), uint32(b))) }

const psnMask = wire.Mask24
