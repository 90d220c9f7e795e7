package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"ciddk/validate/mutant"
)

// A resultsFile has a line for each mutant that was measured, so that a self test of hours can go on where it ended.
type resultsFile struct {
	*os.File
	names map[string]bool // mutants that were measured before
}

// openResults opens the file, and creates it if necessary. A line that was not written completely is removed.
func openResults(name string) (*resultsFile, error) {
	f := &resultsFile{names: map[string]bool{}}
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	complete := old[:bytes.LastIndexByte(old, '\n')+1]
	for line := range strings.Lines(string(complete)) {
		if mutant, _, ok := strings.Cut(line, "\t"); ok {
			f.names[mutant] = true
		}
	}
	if f.File, err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666); err != nil {
		return nil, err
	}
	if len(complete) < len(old) {
		err = f.Truncate(int64(len(complete)))
	}
	return f, err
}

// rest returns the names of the mutants that the flags select and that were not measured.
func (f *resultsFile) rest(set *mutant.Set, chosen patterns) (names patterns) {
	for _, m := range set.All() {
		if !f.names[m.Name] && (len(chosen) == 0 || chosen.match(m.Name)) {
			names = append(names, m.Name)
		}
	}
	return names
}

// add writes the line of an outcome: the mutant, the requirement that it breaks, the cases that caught it, the number
// of cases that ran, how many failed in each area that has no case of the requirement, and what those found that failed
// for another reason.
func (f *resultsFile) add(o mutant.Outcome) error {
	by := strings.Join(o.Catchers, ",")
	switch {
	case o.Skipped:
		by = "not applicable"
	case !o.Caught:
		by = "ESCAPED"
	}
	var failed []string
	for _, area := range slices.Sorted(maps.Keys(o.Elsewhere)) {
		failed = append(failed, fmt.Sprint(area, ":", o.Elsewhere[area]))
	}
	if failed == nil {
		failed = []string{"-"}
	}
	_, err := fmt.Fprintf(f, "%s\t%s\t%s\t%d\t%s\t%s\n", o.Mutant.Name, o.Mutant.Breaks, by, o.Ran,
		strings.Join(failed, " "), oneLine(cmp.Or(o.Stray, "-")))
	return err
}
