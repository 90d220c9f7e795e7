// Command failing certifies an adapter with a fault, for the test of the line "again".
package main

import (
	"context"
	"os"

	"ciddk/ci"
	"ciddk/cmd/ddk-validate/cli"
	"ciddk/validate"
	"ciddk/validate/fakehca"
	"ciddk/validate/suite/cisuite"
)

func main() {
	d := validate.Driver{Name: "fake", Open: func(context.Context, validate.Options) (*validate.Target, error) {
		h := fakehca.New(1, ci.LinkEthernet, fakehca.Faults{AcceptZero: true})
		return &validate.Target{HCAs: []ci.HCA{h}, Live: h.Live}, nil
	}}
	os.Exit(cli.Main(cli.Config{Name: "failing", Drivers: []validate.Driver{d},
		Suites: []validate.Suite{cisuite.Suite()}}, os.Args[1:]))
}
