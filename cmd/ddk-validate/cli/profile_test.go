package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
	"ciddk/validate"
)

func TestProfileFor(t *testing.T) {
	full, _ := validate.FindProfile(fullProfile)
	for _, tt := range []struct {
		attr ci.CAAttr
		want string
	}{
		{ci.CAAttr{}, "minimal"},
		{ci.CAAttr{Caps: ci.CapHardwareSMA}, "minimal"},
		{ci.CAAttr{Atomicity: ci.AtomicLocal}, "rc"},
		{ci.CAAttr{Caps: ci.CapSRQ}, "rc"},
		{ci.CAAttr{Caps: ci.CapUD}, "minimal"},
		{ci.CAAttr{Caps: ci.CapUD | ci.CapAV}, "ud"},
		{ci.CAAttr{Caps: ci.CapSpecialQP | ci.CapAV}, "cm"},
		{ci.CAAttr{Caps: full.Demands &^ ci.CapMW1}, "cm"},
		{ci.CAAttr{Caps: full.Demands, Atomicity: ci.AtomicLocal}, "full"},
	} {
		assert.Equal(t, tt.want, profileFor(&tt.attr), "%v", tt.attr.Caps)
	}
}
