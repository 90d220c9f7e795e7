package private

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestIsOwn(t *testing.T) {
	for _, c := range []struct {
		name     string
		uid, own int
		mapsAll  bool
		want     bool
	}{
		{"the own user", 1000, 1000, true, true},
		{"root", 0, 1000, true, true},
		{"another user", 1001, 1000, true, false},
		{"another user, for root", 1001, 0, true, false},
		{"nobody", 65534, 65534, true, true},
		{"a user without a number", 65534, 65534, false, false},
		{"the own user of a name space", 7, 7, false, true},
		{"an invalid user", -1, 1000, true, false},
	} {
		assert.Equal(t, c.want, isOwn(c.uid, c.own, 65534, c.mapsAll), c.name)
	}
	assert.True(t, IsOwn(0))
}
