package rchca_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/templates/rchca"
	"ciddk/templates/rchca/soft"
	"ciddk/validate"
	cisuite "ciddk/validate/suite/ci"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// driver says how to open the adapters under test: put your own here.
var driver = validate.Driver{
	Name:        "rchca",
	Description: "the template's driver, over devices in software",
	// A device that one process opens for itself. Two workers are quicker, where each gets adapters of its own (Options.Worker tells them apart).
	Exclusive: true,
	Open: func(context.Context, validate.Options) (*validate.Target, error) {
		fabric := new(soft.Fabric)
		var made []*rchca.HCA
		// The device in software carries messages in memory, where none is lost. A device at a cable says nothing, or has a Probe.
		t := &validate.Target{Version: "template", Lossless: true}
		t.Close = func(context.Context) error {
			var errs []error
			for _, h := range made {
				errs = append(errs, h.Close())
			}
			return errors.Join(errs...)
		}
		t.Live = func() map[string]int {
			sum := map[string]int{}
			for _, h := range made {
				for kind, n := range h.Live() {
					sum[kind] += n
				}
			}
			return sum
		}
		for _, guid := range []ci.GUID{0x02ddcd0000007001, 0x02ddcd0000007002} {
			h, err := rchca.New(fabric.New(guid))
			if err != nil {
				return nil, errors.Join(err, t.Close(context.Background()))
			}
			made = append(made, h)
			t.HCAs = append(t.HCAs, h)
		}
		return t, nil
	},
}

// TestDriver runs the certifier: a subtest for each case.
func TestDriver(t *testing.T) {
	b, err := os.ReadFile("testdata/expectations.json")
	require.NoError(t, err)
	known, err := validate.ParseWaivers(b)
	require.NoError(t, err)
	validate.TestDriver(t, driver, validate.TestOptions{Catalog: cisuite.Catalog(), Profile: "minimal", Waivers: known})
}
