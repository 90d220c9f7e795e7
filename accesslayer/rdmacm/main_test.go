package rdmacm_test

import (
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/internal/cmrig"
)

var ap = netip.MustParseAddrPort

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	lan  = cmrig.LAN[*rdmacm.Manager]
	host = cmrig.Host[*rdmacm.Manager]
)

func newLAN() *lan { return cmrig.NewLAN(open) }

func open(al *accesslayer.AL) (*rdmacm.Manager, error) { return rdmacm.Open(al, rdmacm.OpenConfig{}) }
