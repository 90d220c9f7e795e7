package bench

import (
	"fmt"
	"io"
	"path"
)

// Match returns the cases whose names match a pattern (path.Match), such as direct/write*. Errors: a bad pattern, or
// one that no case matches.
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

// Report writes the tables of results, below a line that tells the machine and the rounds. Where above has a line of
// Markdown for a table, such as a picture of it, that stands above the table; nil is none.
func Report(out io.Writer, machine string, rounds int, results []Result, above map[Table]string) error {
	if _, err := fmt.Fprintf(out, "%s. %d rounds.\n\n", machine, rounds); err != nil {
		return err
	}
	return writeTables(out, results, above)
}
