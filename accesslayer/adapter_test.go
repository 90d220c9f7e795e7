package accesslayer_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// Several entries of the tables may have the same GID: link-local addresses, and both types of RoCE.
func TestFindGID(t *testing.T) {
	both, one := ci.GID{0: 0xfe, 15: 1}, ci.GID{0: 0xfe, 15: 2}
	attr := &ci.CAAttr{Ports: []ci.PortAttr{
		{Num: 1, GIDs: []ci.GIDEntry{{GID: both, Type: ci.GIDRoCEv1}, {GID: both, Type: ci.GIDRoCEv2},
			{GID: one, Type: ci.GIDRoCEv1}}},
		{Num: 2, GIDs: []ci.GIDEntry{{}, {GID: both, Type: ci.GIDRoCEv2}, {GID: one, Type: ci.GIDRoCEv2}}},
	}}
	for _, tt := range []struct {
		asked uint8
		gid   ci.GID
		num   uint8
		index uint16
		ok    bool
	}{{1, both, 1, 1, true}, {2, both, 2, 1, true}, {1, one, 1, 2, true}, {2, one, 2, 2, true}, {3, one, 2, 2, true},
		{1, ci.GID{}, 0, 0, false}, {1, ci.GID{9}, 0, 0, false}} {
		num, index, ok := accesslayer.FindGID(attr, tt.asked, tt.gid)
		assert.Equal(t, []any{tt.num, tt.index, tt.ok}, []any{num, index, ok}, fmt.Sprint(tt))
	}
}
