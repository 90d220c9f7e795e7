// Command ddk-validate certifies a driver of an InfiniBand or RoCE adapter as a black box, through package ci.
//
//	ddk-validate run [DRIVER] [--profile P] [--case GLOB] [--seed N] [--json F] [--junit F] [--html F] [--pcap DIR]
//	ddk-validate wire --peer ADDR [--program P] [--local ADDR]
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
	"ciddk/validate/suite"
	"ciddk/validate/suite/suitemutants"
	"ciddk/validate/suite/wiresuite"
	"ciddk/validate/through"
)

func main() {
	through.Serve(drivers()...)
	os.Exit(cli.Main(cli.Config{
		Name:    "ddk-validate",
		Drivers: drivers(),
		Suites:  suite.All(),
		Mutants: suitemutants.All(),
		Layers:  layers(),
		Peer:    stockDriver(), PeerSuite: wiresuite.PeerSuite(),
		Init: func(s cli.Scaffold) (string, error) {
			return scaffold.Write(scaffold.Options{Dir: s.Dir, Module: s.Module, Name: s.Name, Kit: s.Kit,
				With: s.With})
		},
		Elsewhere: []cli.Elsewhere{{
			Driver: "verbs", Description: "RDMA devices of this machine, through libibverbs (--device NAME)",
			Program: "ddk-validate-verbs",
			Build:   "build both into one folder (go build -o DIR ./cmd/ddk-validate ./cmd/ddk-validate-verbs)",
		}},
	}, os.Args[1:]))
}
