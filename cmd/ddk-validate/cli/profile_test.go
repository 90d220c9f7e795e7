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
		attr     ci.CAAttr
		withheld ci.Caps
		want     string
	}{
		{ci.CAAttr{}, 0, "minimal"},
		{ci.CAAttr{Caps: ci.CapHardwareSMA}, 0, "minimal"},
		{ci.CAAttr{Atomicity: ci.AtomicLocal}, 0, "claimed"},
		{ci.CAAttr{Caps: ci.CapSRQ}, 0, "claimed"},
		{ci.CAAttr{Caps: ci.CapUD}, 0, "claimed"},
		{ci.CAAttr{Caps: ci.CapUD | ci.CapAV}, 0, "claimed"},
		{ci.CAAttr{Caps: ci.CapSpecialQP | ci.CapAV}, 0, "claimed"},
		{ci.CAAttr{Caps: full.Demands &^ ci.CapMW1}, 0, "claimed"},
		{ci.CAAttr{Caps: full.Demands, Atomicity: ci.AtomicLocal}, 0, "full"},
		{ci.CAAttr{Caps: full.Demands &^ ci.CapPhysicalMR, Atomicity: ci.AtomicLocal}, ci.CapPhysicalMR, "full"},
	} {
		assert.Equal(t, tt.want, profileFor(&tt.attr, tt.withheld), "%v", tt.attr.Caps)
	}
}
