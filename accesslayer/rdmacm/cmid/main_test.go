package cmid_test

import (
	"errors"
	"net/netip"
	"testing"

	"go.uber.org/goleak"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/internal/cmrig"
)

var ap = netip.MustParseAddrPort

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	lan  = cmrig.LAN[*cmid.Manager]
	host = cmrig.Host[*cmid.Manager]
)

func newLAN() *lan { return cmrig.NewLAN(open) }

func open(al *accesslayer.AL) (*cmid.Manager, error) { return openWith(al, cmid.Config{}) }

// openWith creates a Manager with services of its own, which it closes.
func openWith(al *accesslayer.AL, cfg cmid.Config) (*cmid.Manager, error) {
	client, err := al.Open(accesslayer.ClientConfig{})
	if err != nil {
		return nil, err
	}
	svc, err := mads.New(al, mads.Config{})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	c, err := cm.New(al, svc, cm.Config{})
	if err != nil {
		return nil, errors.Join(err, svc.Close(), client.Close())
	}
	cfg.CM, cfg.MAD = c, svc
	cfg.OnClose = func() error { return errors.Join(c.Close(), svc.Close(), client.Close()) }
	return cmid.New(client, cfg)
}
