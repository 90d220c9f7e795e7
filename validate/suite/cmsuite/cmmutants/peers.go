package cmmutants

import (
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cmsuite"
)

var peerRequests = []mutant.Mutant{
	editIn("cm.peer-guid", cmsuite.CMPeer01, "each received REQ has the largest CA GUID", attrREQ, func(b []byte) {
		for i := range 8 {
			b[bodyOffset+16+i] = 0xff
		}
	}),
	editIn("cm.peer-early", cmsuite.CMPeer02, "a received REJ, invalid service ID, has the reason of a consumer",
		attrREJ, consumerReason),
	edit("cm.peer-reason", cmsuite.CMPeer03, "a REJ, invalid service ID, has the reason of a consumer",
		attrREJ, consumerReason),
	lose("cm.peer-once", cmsuite.CMPeer04, "a retransmitted REQ is lost", after(1, attrREQ)),
}

// consumerReason changes the reason of a REJ from invalid service ID to consumer reject (IBTA volume 1, 12.6.7.2).
func consumerReason(b []byte) {
	if b[bodyOffset+11] == 8 {
		b[bodyOffset+11] = 28
	}
}

var delays = []mutant.Mutant{
	lose("cm.delay-no-mra", cmsuite.CMDelay01, "each MRA is lost", every(attrMRA)),
	edit("cm.delay-which", cmsuite.CMDelay02, "each MRA answers a REQ", attrMRA,
		func(b []byte) { b[bodyOffset+8] &= 0x3f }),
	lose("cm.delay-no-drep", cmsuite.CMDelay03, "each DREP is lost", every(attrDREP)),
}

var alternates = []mutant.Mutant{
	editIn("cm.alternate-ignored", cmsuite.CMPath01, "each received REQ has no alternate path", attrREQ,
		func(b []byte) { clear(b[bodyOffset+96 : bodyOffset+140]) }),
	edit("cm.alternate-not-sent", cmsuite.CMPath02, "each REQ has no alternate path", attrREQ,
		func(b []byte) { clear(b[bodyOffset+96 : bodyOffset+140]) }),
	edit("cm.alternate-refused", cmsuite.CMPath03, "each APR reports the path as rejected", attrAPR,
		func(b []byte) { b[bodyOffset+9] = 3 }),
	edit("cm.alternate-answer", cmsuite.CMPath04, "each APR reports the path as loaded", attrAPR, loaded),
	editIn("cm.alternate-status", cmsuite.CMPath05, "each received APR reports the path as loaded", attrAPR, loaded),
	edit("cm.path-rej-info", cmsuite.CMAddr01, "each REJ has no additional information", attrREJ,
		func(b []byte) { b[bodyOffset+9] = 0 }),
	edit("cm.path-apr-info", cmsuite.CMAddr02, "each APR has no additional information", attrAPR,
		func(b []byte) { b[bodyOffset+8] = 0 }),
}

var listens = []mutant.Mutant{
	edit("cm.listen-reason", cmsuite.CMListen01, "every REJ has the reason of a consumer", attrREJ,
		func(b []byte) { b[bodyOffset+11] = 28 }),
	edit("cm.listen-no-reason", cmsuite.CMListen02, "every REJ has reason invalid service ID", attrREJ,
		func(b []byte) { b[bodyOffset+11] = 8 }),
}

var attributes = []mutant.Mutant{
	editIn("cm.attr-request", cmsuite.CMAttr01, "each received REQ has retry count 0", attrREQ,
		func(b []byte) { b[bodyOffset+47] &^= 7 }),
	editIn("cm.attr-reply", cmsuite.CMAttr02, "each received REP has starting PSN 0", attrREP,
		func(b []byte) { clear(b[bodyOffset+20 : bodyOffset+23]) }),
	edit("cm.attr-retries", cmsuite.CMAttr04, "each REQ has no retries", attrREQ,
		func(b []byte) { b[bodyOffset+51] &= 0x0f }),
	edit("cm.attr-path", cmsuite.CMAttr03, "each REQ has traffic class 0", attrREQ,
		func(b []byte) { b[bodyOffset+52+40] = 0 }),
}
