package bench

import (
	"fmt"
	"io"
	"path"
)

// Match returns the cases whose names match a pattern (path.Match), such as direct/write*. It fails if the pattern is
// malformed or matches no case.
func Match(cases []Case, glob string) ([]Case, error) {
	var list []Case
	for _, c := range cases {
		ok, err := path.Match(glob, c.Name)
		if err != nil {
			return nil, fmt.Errorf("-case: %w", err)
		}
		if ok {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no case matches %q", glob)
	}
	return list, nil
}

// RunMatching runs the cases that Match returns.
func RunMatching(cases []Case, glob string, rounds int) ([]Result, error) {
	list, err := Match(cases, glob)
	if err != nil {
		return nil, err
	}
	var results []Result
	for _, c := range list {
		r, err := c.Run(rounds)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// Report writes the tables of results below a line with the machine and the number of rounds. above has a line of
// Markdown per table, such as a picture, that is written above the table. It may be nil.
func Report(out io.Writer, machine string, rounds int, results []Result, above map[Table]string) error {
	if _, err := fmt.Fprintf(out, "%s. %d rounds.\n\n", machine, rounds); err != nil {
		return err
	}
	return writeTables(out, results, above)
}
