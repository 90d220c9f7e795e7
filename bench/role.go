package bench

import (
	"fmt"
	"os"
)

// RunRole is called first by the main function of a program that runs comparisons, and by TestMain: a comparison starts
// the program again as its peer or as ddkrun. In such a process RunRole does that work and exits. Otherwise it returns.
func RunRole() {
	switch {
	case isPeer():
		if err := servePeer(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench: peer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	case isDDKRun():
		os.Exit(runDDKRun())
	}
}
