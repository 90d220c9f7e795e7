package bench

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// results holds the results of the benchmarks so far, for the table at the end.
var results = map[string]Result{}

func TestMain(m *testing.M) {
	RunRole()
	code := m.Run()
	var l []Result
	for _, c := range Cases() {
		if r, ok := results[c.Name]; ok {
			l = append(l, r)
		}
	}
	if len(l) > 0 {
		fmt.Println()
		if err := WriteTables(os.Stdout, l); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
