package main

import (
	"fmt"
	"io"
	"strings"
)

// maxForeign is the number of goroutines outside the project's packages that printDump prints.
const maxForeign = 20

// A dump is the output of a test binary that ended with a panic, as it does at its time limit.
type dump struct {
	before  string   // output of the tests
	panic   []string // the message, with the names of running tests
	own     []string // goroutines with a call of the project, except those that only started one
	foreign []string // other goroutines
}

// parseDump splits output at its panic message and its goroutines. module is the module's path. It returns false if
// there is no panic.
func parseDump(output, module string) (dump, bool) {
	at := strings.Index("\n"+output, "\npanic: ")
	if fatal := strings.Index("\n"+output, "\nfatal error: "); at < 0 || fatal >= 0 && fatal < at {
		at = fatal
	}
	if at < 0 {
		return dump{}, false
	}
	d := dump{before: output[:at]}
	for block := range strings.SplitSeq(output[at:], "\n\n") {
		block = strings.Trim(block, "\n")
		switch {
		case block == "":
		case !strings.HasPrefix(block, "goroutine "):
			d.panic = append(d.panic, block)
		case callsModule(block, module):
			d.own = append(d.own, block)
		default:
			d.foreign = append(d.foreign, block)
		}
	}
	return d, true
}

// callsModule reports whether a function of the module is on the stack of a goroutine.
func callsModule(stack, module string) bool {
	for line := range strings.Lines(stack) {
		if strings.HasPrefix(line, module+"/") || strings.HasPrefix(line, module+".") {
			return true
		}
	}
	return false
}

// print writes the message and the goroutines, those of the project first.
func (d dump) print(w io.Writer) {
	fmt.Fprint(w, d.before)
	for _, p := range d.panic {
		fmt.Fprintf(w, "%s\n\n", p)
	}
	fmt.Fprintf(w, "%d goroutines in packages of the project:\n\n", len(d.own))
	for _, g := range d.own {
		fmt.Fprintf(w, "%s\n\n", g)
	}
	fmt.Fprintf(w, "%d other goroutines:\n\n", len(d.foreign))
	for i, g := range d.foreign {
		if i == maxForeign {
			fmt.Fprintf(w, "... and %d more\n\n", len(d.foreign)-i)
			break
		}
		fmt.Fprintf(w, "%s\n\n", g)
	}
}
