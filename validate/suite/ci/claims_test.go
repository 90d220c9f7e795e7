package cisuite

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
	"ciddk/validate"
)

// otherwise are capability bits that no optional verb stands behind, with the area that judges what they promise.
var otherwise = map[ci.Caps]string{
	ci.CapRawMulticast: "rides on raw QPs: claims.raw-ipv6, claims.raw-ether", ci.CapLSO: "opcode", ci.CapModifySRQDepth: "srq", ci.CapChangePrimaryPort: "qp_state",
	ci.CapAVPortCheck: "ud", ci.CapHardwareSMA: "mad.agent", ci.CapShutdownPort: "ca.modify.claims", ci.CapInitType: "ca.modify.claims",
	ci.CapPortActiveEvent: "mad.set.state", ci.CapSystemGUID: "ca.modify.claims", ci.CapPKeyCounter: "ca.modify.claims", ci.CapQKeyCounter: "ca.modify.claims",
}

// Every capability bit has a claim held against an answer.
func TestEveryCapabilityIsHeldAgainstAnAnswer(t *testing.T) {
	var held ci.Caps
	for _, c := range claims {
		held |= c.bits
	}
	for bit, area := range otherwise {
		assert.Zero(t, held&bit, "%s is a claim, and said to be judged in %s", validate.CapNames(bit), area)
		held |= bit
	}
	all := ci.CapQKeyCounter<<1 - 1 // the last one
	assert.Empty(t, validate.CapNames(all&^held), "capabilities that nothing is held against")
}
