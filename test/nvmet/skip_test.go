//go:build !linux

package nvmet

import (
	"testing"

	"ciddk/test/linux/guest"
)

func TestNeedsLinux(t *testing.T) { t.Skip(guest.Available()) }
