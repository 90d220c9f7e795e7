package cmmutants

import (
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cmsuite"
)

var reactions = []mutant.Mutant{
	edit("cm.react-passive", cmsuite.CMReact01, "a REJ of a REQ as stale reports another reason", attrREJ,
		func(b []byte) {
			if b[bodyOffset+8]>>6 == 0 && b[bodyOffset+11] == 10 {
				b[bodyOffset+11] = 11
			}
		}),
	edit("cm.react-active", cmsuite.CMReact02, "each APR reports the path as loaded", attrAPR,
		func(b []byte) { b[bodyOffset+9] = 0 }),
	editIn("cm.react-before", cmsuite.CMReact03, "each received APR is a REJ", attrAPR,
		func(b []byte) { b[17] = attrREJ }),
}
