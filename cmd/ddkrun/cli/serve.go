package cli

import (
	daemoncli "ciddk/cmd/ddkd/cli"
	"ciddk/cmd/ddkd/software"
)

// serve runs the daemon with a command line of ddkd.
func serve(args []string) int {
	return daemoncli.Main(daemoncli.Config{
		Name:        "ddkrun " + daemonArg,
		Description: "The daemon of a user, as ddkd.",
		Drivers:     []daemoncli.Driver{software.Driver()},
	}, args)
}
