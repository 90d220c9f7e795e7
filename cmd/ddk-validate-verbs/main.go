// Command ddk-validate-verbs certifies an RDMA device of this machine through the system's libibverbs. ddk-validate
// starts it for `ddk-validate run verbs`; it has the same commands and flags. It is a program of its own because it is
// linked with the C library, and ddk-validate is one static file.
package main

import (
	"os"

	"ciddk/cmd/ddk-validate/cli"
	"ciddk/validate"
	"ciddk/validate/suite"
)

func main() {
	os.Exit(cli.Main(cli.Config{
		Name:    "ddk-validate-verbs",
		Drivers: []validate.Driver{driver()},
		Suites:  suite.All(),
	}, os.Args[1:]))
}
