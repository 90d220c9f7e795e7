// Command ddk-validate certifies a driver of an InfiniBand or RoCE adapter as a black box, through package ci.
//
//	ddk-validate run [DRIVER] [--profile P] [--case GLOB] [--seed N] [--json F] [--junit F] [--html F] [--pcap DIR]
//	ddk-validate list [--json]
//	ddk-validate explain ID
//	ddk-validate drivers
//	ddk-validate self
//	ddk-validate init DIR --module PATH
//
// Exit status: 0 certified, 1 a requirement failed, 2 wrong usage, 3 driver or certifier error, 4 no case selected, 5
// inconclusive, 6 flaky, 7 a claim is not tested.
//
// The command line is package cli. This program links in the drivers of the kit.
package main

import (
	"os"

	"ciddk/cmd/ddk-validate/cli"
	"ciddk/cmd/ddk-validate/scaffold"
	"ciddk/cmd/ddk-validate/through"
	"ciddk/validate/suite"
	"ciddk/validate/suite/suitemutants"
)

func main() {
	through.Serve(drivers()...)
	os.Exit(cli.Main(cli.Config{
		Name:    "ddk-validate",
		Drivers: drivers(),
		Suites:  suite.All(),
		Mutants: suitemutants.All(),
		Layers:  layers(),
		Init: func(s cli.Scaffold) (string, error) {
			return scaffold.Write(scaffold.Options{Dir: s.Dir, Module: s.Module, Name: s.Name, Kit: s.Kit,
				With: s.With})
		},
	}, os.Args[1:]))
}
