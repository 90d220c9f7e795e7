package bench

import (
	"bytes"
	"fmt"
	"io"
	"path"
)

// Match gives the cases whose names match a pattern (path.Match), such as direct/write*. Errors: a bad pattern, or one that no case matches.
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

// Report writes the tables of results to out, below a line that tells the machine and the rounds; and into a page, unless that is "", in the place
// of command (ReplaceTable).
func Report(out io.Writer, page, command, machine string, rounds int, results []Result) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s. %d rounds.\n\n", machine, rounds)
	if err := WriteTables(&b, results); err != nil {
		return err
	}
	if _, err := out.Write(b.Bytes()); err != nil || page == "" {
		return err
	}
	return ReplaceTable(page, command, b.String())
}
