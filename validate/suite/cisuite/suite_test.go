package cisuite_test

import (
	"context"
	"os"
	"testing"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/fakehca"
	"ciddk/validate/suite/cisuite"
)

func fake(link ci.Link) validate.Driver {
	return validate.Driver{Name: "fake", Open: func(context.Context, validate.Options) (*validate.Target, error) {
		h := fakehca.New(0x77, link, fakehca.Faults{})
		return &validate.Target{HCAs: []ci.HCA{h}, Live: h.Live}, nil
	}}
}

// areas are the areas that the fake adapter supports.
var areas = validate.Selection{Cases: []string{"open.guid", "open.twice", "query.ports", "pd.busy", "cq.create.sizes",
	"qp.create.reset", "claims.*"}}

// TestInWorkers runs the suite as a vendor does, with this test binary as worker processes.
func TestInWorkers(t *testing.T) {
	validate.TestDriver(t, fake(ci.LinkEthernet), validate.TestOptions{Catalog: cisuite.Catalog(), Select: areas})
}

// TestInProcess runs it without worker processes and with the other link layer.
func TestInProcess(t *testing.T) {
	validate.TestDriver(t, fake(ci.LinkInfiniBand),
		validate.TestOptions{Catalog: cisuite.Catalog(), Select: areas, InProcess: true})
	if os.Getenv("DDK_VALIDATE_WORKER") != "" {
		t.Fatal("an in-process run has started a worker process")
	}
}
